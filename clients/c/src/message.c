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
SAME(MUDAX_RETURN_ALL_OLD, RETURN_ALL_OLD);
SAME(MUDAX_RETURN_UPDATED_OLD, RETURN_UPDATED_OLD);
SAME(MUDAX_RETURN_ALL_NEW, RETURN_ALL_NEW);
SAME(MUDAX_RETURN_UPDATED_NEW, RETURN_UPDATED_NEW);
SAME(MUDAX_SELECT_ALL_ATTRIBUTES, SELECT_ALL_ATTRIBUTES);
SAME(MUDAX_SELECT_ALL_PROJECTED_ATTRIBUTES, SELECT_ALL_PROJECTED_ATTRIBUTES);
SAME(MUDAX_SELECT_SPECIFIC_ATTRIBUTES, SELECT_SPECIFIC_ATTRIBUTES);
SAME(MUDAX_SELECT_COUNT, SELECT_COUNT);
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

/* The maps of a request, encoded one behind the other. */
struct maps {
    struct buffer bytes;
    const char *name; /* of the one that is wrong */
    int code;
};

/* Where the map lies in maps->bytes; size 0: not given. */
struct span {
    size_t at, size;
};

static struct span encode_map(struct maps *maps, const struct mudax_value *value, const char *name)
{
    struct span span = {.at = maps->bytes.size};
    if (value == NULL || maps->code != MUDAX_OK)
        return span;
    if (mudax_type(value) != MUDAX_M || value_is_spoilt(value_tree(value))) {
        maps->name = name;
        maps->code = MUDAX_INVALID_REQUEST;
    } else if (!value_encode(value_tree(value), &maps->bytes)) {
        maps->code = MUDAX_NO_MEMORY;
    }
    span.size = maps->bytes.size - span.at;
    return span;
}

static struct bytes bytes_at(const struct maps *maps, struct span span)
{
    return span.size == 0 ? BYTES_NONE : bytes_of(maps->bytes.data + span.at, span.size);
}

static struct bytes optional_text(const char *text)
{
    return text == NULL ? BYTES_NONE : bytes_text(text);
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

int message_write(const struct mudax_request *request, uint64_t id, uint32_t timeout_ms,
                  struct buffer *out, struct mudax_error *error)
{
    if (request->operation < MUDAX_PING || request->operation > MUDAX_UPDATE_ITEM)
        return failure_set(error, MUDAX_INVALID_REQUEST, "There is no operation %d",
                           (int)request->operation);
    if (request->limit > INT32_MAX)
        return failure_set(error, MUDAX_INVALID_REQUEST, "A limit is at most 2147483647");
    struct maps maps = {0};
    struct span key = encode_map(&maps, request->key, "key");
    struct span item = encode_map(&maps, request->item, "item");
    struct span names = encode_map(&maps, request->names, "names");
    struct span values = encode_map(&maps, request->values, "values");
    struct span start_key = encode_map(&maps, request->start_key, "start_key");
    struct span definition = encode_map(&maps, request->definition, "definition");
    int code = MUDAX_OK;
    if (maps.code != MUDAX_OK) {
        code = refuse_maps(&maps, request, error);
    } else {
        bool lists = request->operation == MUDAX_LIST_TABLES;
        struct request native = {
            .operation = (enum operation)request->operation,
            .limit = request->limit,
            .id = id,
            .is_consistent = request->consistent_read,
            .is_backward = request->scan_backward,
            .wants_verdict = request->wants_verdict,
            .wants_commit = request->wants_commit,
            .timeout_ms = timeout_ms,
            .table_name = optional_text(lists ? request->start_table : request->table),
            .key = bytes_at(&maps, key),
            .item = bytes_at(&maps, item),
            .key_condition = {optional_text(request->key_condition), bytes_at(&maps, names),
                              bytes_at(&maps, values)},
            .condition = optional_text(request->condition),
            .update = optional_text(request->update),
            .projection = optional_text(request->projection),
            .filter = optional_text(request->filter),
            .return_values = (enum return_values)request->return_values,
            .select = (enum select)request->select,
            .start_key = bytes_at(&maps, start_key),
            .definition = bytes_at(&maps, definition),
        };
        if (!frame_write_request(&native, NULL, out))
            code = failure_no_memory(error);
    }
    buffer_deinit(&maps.bytes);
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

/* ---- replies ---- */

enum { REPLY_ARENA_MAX = 1 << 30 };

struct mudax_reply {
    struct arena arena;
    enum mudax_operation operation;
    enum mudax_verdict verdict;
    uint32_t age_ms;
    uint64_t commit;
    uint64_t scanned_count;
    struct value *value;    /* item or description */
    struct value *last_key; /* Query */
    struct value *items;    /* NULL: only their number was asked for */
    size_t count;
    uint8_t body[]; /* strings of values lie here */
};

static bool is_nil(const struct msgpack_cursor *cursor)
{
    return cursor->at < cursor->end && *cursor->at == 0xc0;
}

/* A map in the arena, or NULL for nil. */
static enum status read_map(struct mudax_reply *reply, struct msgpack_cursor *cursor,
                            struct value **out)
{
    struct error error;
    if (is_nil(cursor)) {
        cursor->at++;
        return STATUS_OK;
    }
    struct value *value = arena_alloc(&reply->arena, sizeof *value);
    if (value == NULL)
        return STATUS_NO_MEMORY;
    *value = (struct value){0};
    enum status status = value_decode(cursor, &reply->arena, value, &error);
    if (status == STATUS_OK && value->type != VALUE_M)
        status = STATUS_MALFORMED;
    if (status == STATUS_OK)
        *out = value;
    return status;
}

static enum status read_items(struct mudax_reply *reply, struct msgpack_cursor *cursor,
                              uint32_t count)
{
    struct error error;
    reply->items = arena_alloc(&reply->arena, (count + 1) * sizeof reply->items[0]);
    if (reply->items == NULL)
        return STATUS_NO_MEMORY;
    for (; reply->count < count; reply->count++) {
        struct value *item = &reply->items[reply->count];
        *item = (struct value){0};
        enum status status = value_decode(cursor, &reply->arena, item, &error);
        if (status != STATUS_OK)
            return status;
        if (item->type != VALUE_M)
            return STATUS_MALFORMED;
    }
    return STATUS_OK;
}

static enum status read_page(struct mudax_reply *reply, struct msgpack_cursor *cursor)
{
    uint32_t parts;
    struct msgpack_head head;
    if (!msgpack_read_array(cursor, &parts) || parts != 3 || !msgpack_read(cursor, &head) ||
        (head.kind != MSGPACK_ARRAY && head.kind != MSGPACK_UINT))
        return STATUS_MALFORMED;
    enum status status = STATUS_OK;
    if (head.kind == MSGPACK_ARRAY)
        status = read_items(reply, cursor, head.count);
    else
        reply->count = (size_t)head.integer;
    if (status != STATUS_OK)
        return status;
    if (!msgpack_read_uint(cursor, &reply->scanned_count))
        return STATUS_MALFORMED;
    return read_map(reply, cursor, &reply->last_key);
}

int message_read(const struct frame_reply *frame, enum mudax_operation operation,
                 struct mudax_reply **out, struct mudax_error *error)
{
    struct mudax_reply *reply = malloc(sizeof *reply + frame->body.size);
    if (reply == NULL)
        return failure_no_memory(error);
    *reply = (struct mudax_reply){.operation = operation,
                                  .verdict = (enum mudax_verdict)frame->verdict,
                                  .age_ms = frame->age_ms,
                                  .commit = frame->commit};
    arena_init(&reply->arena, NULL, 0, REPLY_ARENA_MAX);
    memcpy(reply->body, frame->body.data, frame->body.size);
    struct msgpack_cursor cursor = msgpack_cursor_of(bytes_of(reply->body, frame->body.size));
    enum status status = operation == MUDAX_QUERY ? read_page(reply, &cursor)
                                                  : read_map(reply, &cursor, &reply->value);
    if (status == STATUS_OK && cursor.at == cursor.end) {
        *out = reply;
        return MUDAX_OK;
    }
    mudax_reply_free(reply);
    if (status == STATUS_NO_MEMORY)
        return failure_no_memory(error);
    return failure_set(error, MUDAX_PROTOCOL_ERROR, "The reply to %s has not the shape of one",
                       message_operation_name(operation));
}

/* Operations whose reply is an item, or attributes of one. */
static bool is_of_item(enum mudax_operation operation)
{
    return operation == MUDAX_GET_ITEM || operation == MUDAX_PUT_ITEM ||
           operation == MUDAX_DELETE_ITEM || operation == MUDAX_UPDATE_ITEM;
}

const struct mudax_value *mudax_reply_item(const struct mudax_reply *reply)
{
    return reply != NULL && is_of_item(reply->operation) ? value_handle(reply->value) : NULL;
}

size_t mudax_reply_count(const struct mudax_reply *reply)
{
    return reply == NULL ? 0 : reply->count;
}

const struct mudax_value *mudax_reply_item_at(const struct mudax_reply *reply, size_t index)
{
    bool is_there = index < mudax_reply_count(reply) && reply->items != NULL;
    return is_there ? value_handle(&reply->items[index]) : NULL;
}

uint64_t mudax_reply_scanned_count(const struct mudax_reply *reply)
{
    return reply == NULL ? 0 : reply->scanned_count;
}

const struct mudax_value *mudax_reply_last_key(const struct mudax_reply *reply)
{
    return reply == NULL ? NULL : value_handle(reply->last_key);
}

const struct mudax_value *mudax_reply_description(const struct mudax_reply *reply)
{
    return reply != NULL && !is_of_item(reply->operation) ? value_handle(reply->value) : NULL;
}

enum mudax_verdict mudax_reply_verdict(const struct mudax_reply *reply)
{
    return reply == NULL ? MUDAX_VERDICT_NONE : reply->verdict;
}

uint32_t mudax_reply_age_ms(const struct mudax_reply *reply)
{
    return reply == NULL ? 0 : reply->age_ms;
}

uint64_t mudax_reply_commit(const struct mudax_reply *reply)
{
    return reply == NULL ? 0 : reply->commit;
}

void mudax_reply_free(struct mudax_reply *reply)
{
    if (reply == NULL)
        return;
    arena_deinit(&reply->arena);
    free(reply);
}
