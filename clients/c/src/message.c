#include "clients/c/src/message.h"

#include "clients/c/src/failure.h"
#include "clients/c/src/value.h"
#include "protocol/encoding/msgpack.h"

#include <stdlib.h>

#define SAME(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), "same number")
SAME(MUDAX_PING, OPERATION_PING);
SAME(MUDAX_GET_ITEM, OPERATION_GET_ITEM);
SAME(MUDAX_PUT_ITEM, OPERATION_PUT_ITEM);
SAME(MUDAX_DELETE_ITEM, OPERATION_DELETE_ITEM);
SAME(MUDAX_QUERY, OPERATION_QUERY);
SAME(MUDAX_CREATE_TABLE, OPERATION_CREATE_TABLE);
SAME(MUDAX_DESCRIBE_TABLE, OPERATION_DESCRIBE_TABLE);
SAME(MUDAX_LIST_TABLES, OPERATION_LIST_TABLES);
SAME(MUDAX_DELETE_TABLE, OPERATION_DELETE_TABLE);
SAME(MUDAX_STATS, OPERATION_STATS);
SAME(MUDAX_UPDATE_ITEM, OPERATION_UPDATE_ITEM);
SAME(MUDAX_SCAN, OPERATION_SCAN);
SAME(MUDAX_BATCH_GET_ITEM, OPERATION_BATCH_GET_ITEM);
SAME(MUDAX_BATCH_WRITE_ITEM, OPERATION_BATCH_WRITE_ITEM);
SAME(MUDAX_TRANSACT_GET_ITEMS, OPERATION_TRANSACT_GET_ITEMS);
SAME(MUDAX_TRANSACT_WRITE_ITEMS, OPERATION_TRANSACT_WRITE_ITEMS);
SAME(MUDAX_CONDITION_CHECK, OPERATION_CONDITION_CHECK);
SAME(MUDAX_UPDATE_TABLE, OPERATION_UPDATE_TABLE);
SAME(MUDAX_UPDATE_TIME_TO_LIVE, OPERATION_UPDATE_TIME_TO_LIVE);
SAME(MUDAX_DESCRIBE_TIME_TO_LIVE, OPERATION_DESCRIBE_TIME_TO_LIVE);
SAME(MUDAX_PURGE, OPERATION_PURGE);
SAME(MUDAX_EXPLAIN, OPERATION_EXPLAIN);
SAME(MUDAX_DESCRIBE_HEAT, OPERATION_DESCRIBE_HEAT);
SAME(MUDAX_TAG_RESOURCE, OPERATION_TAG_RESOURCE);
SAME(MUDAX_UNTAG_RESOURCE, OPERATION_UNTAG_RESOURCE);
SAME(MUDAX_LIST_TAGS_OF_RESOURCE, OPERATION_LIST_TAGS_OF_RESOURCE);
SAME(MUDAX_RETURN_ALL_OLD, RETURN_ALL_OLD);
SAME(MUDAX_RETURN_UPDATED_OLD, RETURN_UPDATED_OLD);
SAME(MUDAX_RETURN_ALL_NEW, RETURN_ALL_NEW);
SAME(MUDAX_RETURN_UPDATED_NEW, RETURN_UPDATED_NEW);
SAME(MUDAX_SELECT_ALL_ATTRIBUTES, SELECT_ALL_ATTRIBUTES);
SAME(MUDAX_SELECT_ALL_PROJECTED_ATTRIBUTES, SELECT_ALL_PROJECTED_ATTRIBUTES);
SAME(MUDAX_SELECT_SPECIFIC_ATTRIBUTES, SELECT_SPECIFIC_ATTRIBUTES);
SAME(MUDAX_SELECT_COUNT, SELECT_COUNT);
SAME(MUDAX_CAPACITY_TOTAL, CAPACITY_TOTAL);
SAME(MUDAX_CAPACITY_INDEXES, CAPACITY_INDEXES);
SAME(MUDAX_VERDICT_NONE, VERDICT_NONE);
SAME(MUDAX_HIT, VERDICT_HIT);
SAME(MUDAX_MISS, VERDICT_MISS);
SAME(MUDAX_BYPASS, VERDICT_BYPASS);
SAME(MUDAX_STALE, VERDICT_STALE);
SAME(MUDAX_S, VALUE_S);
SAME(MUDAX_M, VALUE_M);
SAME(MUDAX_BS, VALUE_BS);

const char *message_operation_name(enum mudax_operation operation)
{
    return operation_name((enum operation)operation);
}

uint32_t message_daemon_timeout_ms(int left_ms)
{
    int told = left_ms - left_ms / 16;
    return told < 1 ? 1 : (uint32_t)told;
}

/* ---- requests ---- */

enum { PARTS_MAX = 1000 }; /* what a frame may have; how many an operation takes, the daemon says */

/* The maps of a request and of its parts, encoded one behind the other. */
struct maps {
    struct buffer bytes;
    const char *name; /* of the one that is wrong */
    int code;
};

/* Where a map ends in maps->bytes; it begins where the one before ends. */
struct ends {
    size_t key, item, names, values, start_key, definition;
};

/* Appends a map, if there is one. Returns the new end. */
static size_t encode_map(struct maps *maps, const struct mudax_value *value, const char *name)
{
    if (value == NULL || maps->code != MUDAX_OK)
        return maps->bytes.size;
    if (mudax_type(value) != MUDAX_M || value_is_spoilt(value_tree(value))) {
        maps->name = name;
        maps->code = MUDAX_INVALID_REQUEST;
    } else if (!value_encode(value_tree(value), &maps->bytes)) {
        maps->code = MUDAX_NO_MEMORY;
    }
    return maps->bytes.size;
}

static void encode_maps(struct maps *maps, const struct mudax_request *request, struct ends *out)
{
    out->key = encode_map(maps, request->key, "key");
    out->item = encode_map(maps, request->item, "item");
    out->names = encode_map(maps, request->names, "names");
    out->values = encode_map(maps, request->values, "values");
    out->start_key = encode_map(maps, request->start_key, "start_key");
    out->definition = encode_map(maps, request->definition, "definition");
}

/* The map that lies between, which moves *at to its end. */
static struct bytes take_map(const struct maps *maps, size_t *at, size_t end)
{
    size_t begin = *at;
    *at = end;
    return end == begin ? BYTES_NONE : bytes_of(maps->bytes.data + begin, end - begin);
}

static struct bytes optional_text(const char *text)
{
    return text == NULL ? BYTES_NONE : bytes_text(text);
}

/* at  where the request's maps begin; then, where they end */
static struct request to_native(const struct mudax_request *request, const struct maps *maps,
                                const struct ends *ends, size_t *at)
{
    bool lists = request->operation == MUDAX_LIST_TABLES;
    struct request native = {
        .operation = (enum operation)request->operation,
        .limit = request->limit,
        .is_consistent = request->consistent_read,
        .is_backward = request->scan_backward,
        .wants_verdict = request->wants_verdict,
        .wants_commit = request->wants_commit,
        .table_name = optional_text(lists ? request->start_table : request->table),
        .index_name = optional_text(request->index),
        .condition = optional_text(request->condition),
        .update = optional_text(request->update),
        .projection = optional_text(request->projection),
        .filter = optional_text(request->filter),
        .return_values = (enum return_values)request->return_values,
        .wants_failed = request->wants_failed_item,
        .select = (enum select)request->select,
        .has_segment = request->segments != 0,
        .segment = request->segment,
        .segments = request->segments,
        .token = optional_text(request->token),
        .capacity = (enum capacity_detail)request->wants_capacity,
        .wants_metrics = request->wants_metrics,
    };
    native.key = take_map(maps, at, ends->key);
    native.item = take_map(maps, at, ends->item);
    native.key_condition.text = optional_text(request->key_condition);
    native.key_condition.names = take_map(maps, at, ends->names);
    native.key_condition.values = take_map(maps, at, ends->values);
    native.start_key = take_map(maps, at, ends->start_key);
    native.definition = take_map(maps, at, ends->definition);
    return native;
}

static int refuse_maps(const struct maps *maps, const struct mudax_request *request,
                       struct mudax_error *error)
{
    if (maps->code == MUDAX_NO_MEMORY)
        return failure_no_memory(error);
    return failure_set(error, MUDAX_INVALID_REQUEST,
                       "%s: %s is no map, or a part of it could not be built: a number's text is "
                       "wrong, a set holds a member twice, or memory is missing",
                       message_operation_name(request->operation), maps->name);
}

/* What could not be said in a frame, or would break the connection. */
static int check(const struct mudax_request *request, struct mudax_error *error)
{
    if (request->operation < MUDAX_PING || !operation_is_spoken((enum operation)request->operation))
        return failure_set(error, MUDAX_INVALID_REQUEST, "There is no operation %d",
                           (int)request->operation);
    if (request->limit > INT32_MAX || request->segment > INT32_MAX || request->segments > INT32_MAX)
        return failure_set(error, MUDAX_INVALID_REQUEST,
                           "A limit and numbers of segments are at most 2147483647");
    if (request->segment != 0 && request->segments == 0)
        return failure_set(error, MUDAX_INVALID_REQUEST,
                           "A segment needs to know of how many (segments)");
    if (request->part_count > PARTS_MAX)
        return failure_set(error, MUDAX_INVALID_REQUEST, "A request has at most %d parts",
                           PARTS_MAX);
    for (size_t i = 0; i < request->part_count; i++)
        if (request->parts[i].part_count != 0)
            return failure_set(error, MUDAX_INVALID_REQUEST, "A part of a request has no parts");
    return MUDAX_OK;
}

/* ends, parts  room for one more than, and for as many as there are parts */
static int write_whole(const struct mudax_request *request, uint64_t id, uint32_t timeout_ms,
                       struct ends *ends, struct request *parts, struct buffer *out,
                       struct mudax_error *error)
{
    struct maps maps = {0};
    encode_maps(&maps, request, &ends[0]);
    for (size_t i = 0; i < request->part_count; i++)
        encode_maps(&maps, &request->parts[i], &ends[i + 1]);
    int code = maps.code == MUDAX_OK ? (int)MUDAX_OK : refuse_maps(&maps, request, error);
    if (code == MUDAX_OK) {
        size_t at = 0;
        struct request native = to_native(request, &maps, &ends[0], &at);
        for (size_t i = 0; i < request->part_count; i++)
            parts[i] = to_native(&request->parts[i], &maps, &ends[i + 1], &at);
        native.id = id;
        native.timeout_ms = timeout_ms;
        native.parts = parts;
        native.part_count = request->part_count;
        if (!frame_write_request(&native, NULL, out))
            code = failure_no_memory(error);
    }
    buffer_deinit(&maps.bytes);
    return code;
}

int message_write(const struct mudax_request *request, uint64_t id, uint32_t timeout_ms,
                  struct buffer *out, struct mudax_error *error)
{
    int code = check(request, error);
    if (code != MUDAX_OK)
        return code;
    struct ends own_ends;
    if (request->part_count == 0)
        return write_whole(request, id, timeout_ms, &own_ends, NULL, out, error);
    struct ends *ends = malloc((request->part_count + 1) * sizeof *ends);
    struct request *parts = malloc(request->part_count * sizeof *parts);
    code = ends != NULL && parts != NULL
               ? write_whole(request, id, timeout_ms, ends, parts, out, error)
               : failure_no_memory(error);
    free(ends);
    free(parts);
    return code;
}

int message_check_size(size_t size, uint64_t frame_max, struct mudax_error *error)
{
    if (frame_max == 0 || size <= frame_max)
        return MUDAX_OK;
    return failure_set(error, MUDAX_TOO_LARGE,
                       "The request has %zu bytes, the daemon takes %llu (its setting max-frame)",
                       size, (unsigned long long)frame_max);
}
