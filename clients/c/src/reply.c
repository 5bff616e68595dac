/* reply.c - replies: decoded whole before anybody sees them. */
#include "clients/c/src/failure.h"
#include "clients/c/src/message.h"
#include "clients/c/src/value.h"
#include "protocol/encoding/msgpack.h"

#include <stdlib.h>

enum { REPLY_ARENA_MAX = 1 << 30 };

struct reason {
    const char *code, *text; /* NUL-terminated */
};

struct mudax_reply {
    struct arena arena;
    enum mudax_operation operation;
    size_t part_count; /* of the request */
    enum mudax_verdict verdict;
    uint32_t age_ms;
    uint64_t commit;
    uint64_t scanned_count;
    struct value *value;    /* item or description */
    struct value *last_key; /* Query, Scan */
    struct value *items;    /* NULL value: none there; NULL: only their number was asked for */
    size_t count;
    size_t *unprocessed;
    size_t unprocessed_count;
    struct reason *reasons; /* `count` of them */
    struct value *capacity, *metrics;
    uint8_t bytes[]; /* strings of values lie here */
};

/* ---- decoding ---- */

static bool is_nil(const struct msgpack_cursor *cursor)
{
    return cursor->at < cursor->end && *cursor->at == 0xc0;
}

/* Room for `count` of them, also if that is 0. */
static void *alloc_array(struct mudax_reply *reply, size_t count, size_t size)
{
    return arena_alloc(&reply->arena, (count + 1) * size);
}

static enum status read_value(struct mudax_reply *reply, struct msgpack_cursor *cursor,
                              struct value *out)
{
    struct error error;
    *out = (struct value){0};
    return value_decode(cursor, &reply->arena, out, &error);
}

/* A map in the arena, or NULL for nil. */
static enum status read_map(struct mudax_reply *reply, struct msgpack_cursor *cursor,
                            struct value **out)
{
    if (is_nil(cursor)) {
        cursor->at++;
        return STATUS_OK;
    }
    struct value *value = arena_alloc(&reply->arena, sizeof *value);
    if (value == NULL)
        return STATUS_NO_MEMORY;
    enum status status = read_value(reply, cursor, value);
    if (status == STATUS_OK && value->type != VALUE_M)
        status = STATUS_MALFORMED;
    if (status == STATUS_OK)
        *out = value;
    return status;
}

/* may_miss  nil stands for an item that is not there */
static enum status read_items(struct mudax_reply *reply, struct msgpack_cursor *cursor,
                              uint32_t count, bool may_miss)
{
    reply->items = alloc_array(reply, count, sizeof reply->items[0]);
    if (reply->items == NULL)
        return STATUS_NO_MEMORY;
    for (; reply->count < count; reply->count++) {
        struct value *item = &reply->items[reply->count];
        enum status status = read_value(reply, cursor, item);
        if (status != STATUS_OK)
            return status;
        if (item->type != VALUE_M && !(may_miss && item->type == VALUE_NULL))
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
        status = read_items(reply, cursor, head.count, false);
    else
        reply->count = (size_t)head.integer;
    if (status != STATUS_OK)
        return status;
    if (!msgpack_read_uint(cursor, &reply->scanned_count))
        return STATUS_MALFORMED;
    return read_map(reply, cursor, &reply->last_key);
}

static enum status read_found(struct mudax_reply *reply, struct msgpack_cursor *cursor)
{
    uint32_t count;
    if (!msgpack_read_array(cursor, &count) || count != reply->part_count)
        return STATUS_MALFORMED;
    return read_items(reply, cursor, count, true);
}

static enum status read_unprocessed(struct mudax_reply *reply, struct msgpack_cursor *cursor)
{
    uint32_t count;
    if (!msgpack_read_array(cursor, &count))
        return STATUS_MALFORMED;
    reply->unprocessed = alloc_array(reply, count, sizeof reply->unprocessed[0]);
    if (reply->unprocessed == NULL)
        return STATUS_NO_MEMORY;
    for (; reply->unprocessed_count < count; reply->unprocessed_count++) {
        uint64_t place;
        if (!msgpack_read_uint(cursor, &place) || place >= reply->part_count)
            return STATUS_MALFORMED;
        reply->unprocessed[reply->unprocessed_count] = (size_t)place;
    }
    return STATUS_OK;
}

static enum status read_batch_get(struct mudax_reply *reply, struct msgpack_cursor *cursor)
{
    uint32_t two;
    if (!msgpack_read_array(cursor, &two) || two != 2)
        return STATUS_MALFORMED;
    enum status status = read_found(reply, cursor);
    return status == STATUS_OK ? read_unprocessed(reply, cursor) : status;
}

static enum status read_body(struct mudax_reply *reply, struct msgpack_cursor *cursor)
{
    switch (reply->operation) {
    case MUDAX_QUERY:
    case MUDAX_SCAN:
        return read_page(reply, cursor);
    case MUDAX_BATCH_GET_ITEM:
        return read_batch_get(reply, cursor);
    case MUDAX_BATCH_WRITE_ITEM:
        return read_unprocessed(reply, cursor);
    case MUDAX_TRANSACT_GET_ITEMS:
        return read_found(reply, cursor);
    default:
        return read_map(reply, cursor, &reply->value);
    }
}

/* A text, or "" for nil, NUL-terminated in the arena. */
static enum status read_text(struct mudax_reply *reply, struct msgpack_cursor *cursor,
                             const char **out)
{
    struct bytes text = BYTES_NONE;
    if (is_nil(cursor))
        cursor->at++;
    else if (!msgpack_read_str(cursor, &text))
        return STATUS_MALFORMED;
    char *copy = arena_alloc(&reply->arena, text.size + 1);
    if (copy == NULL)
        return STATUS_NO_MEMORY;
    if (text.size != 0)
        memcpy(copy, text.data, text.size);
    copy[text.size] = '\0';
    *out = copy;
    return STATUS_OK;
}

static enum status read_reason(struct mudax_reply *reply, struct msgpack_cursor *cursor,
                               struct reason *reason, struct value *item)
{
    uint32_t three;
    *reason = (struct reason){"None", ""};
    *item = (struct value){.type = VALUE_NULL};
    if (is_nil(cursor)) {
        cursor->at++;
        return STATUS_OK;
    }
    if (!msgpack_read_array(cursor, &three) || three != 3)
        return STATUS_MALFORMED;
    enum status status = read_text(reply, cursor, &reason->code);
    if (status == STATUS_OK)
        status = read_text(reply, cursor, &reason->text);
    if (status == STATUS_OK)
        status = read_value(reply, cursor, item);
    if (status == STATUS_OK && item->type != VALUE_M && item->type != VALUE_NULL)
        status = STATUS_MALFORMED;
    return status;
}

static enum status read_reasons(struct mudax_reply *reply, struct msgpack_cursor *cursor)
{
    uint32_t count;
    if (!msgpack_read_array(cursor, &count) || count != reply->part_count)
        return STATUS_MALFORMED;
    reply->reasons = alloc_array(reply, count, sizeof reply->reasons[0]);
    reply->items = alloc_array(reply, count, sizeof reply->items[0]);
    if (reply->reasons == NULL || reply->items == NULL)
        return STATUS_NO_MEMORY;
    enum status status = STATUS_OK;
    for (; reply->count < count && status == STATUS_OK; reply->count++)
        status =
            read_reason(reply, cursor, &reply->reasons[reply->count], &reply->items[reply->count]);
    return status;
}

/* What stands beside the body, if it is there: a map, or of capacity perhaps a list. */
static enum status read_beside(struct mudax_reply *reply, struct bytes bytes, bool may_be_list,
                               struct value **out)
{
    struct msgpack_cursor cursor = msgpack_cursor_of(bytes);
    if (!bytes_given(bytes))
        return STATUS_OK;
    *out = arena_alloc(&reply->arena, sizeof **out);
    if (*out == NULL)
        return STATUS_NO_MEMORY;
    enum status status = read_value(reply, &cursor, *out);
    if (status == STATUS_OK && (*out)->type != VALUE_M && !(may_be_list && (*out)->type == VALUE_L))
        status = STATUS_MALFORMED;
    return status;
}

bool message_has_reply(const struct frame_reply *frame)
{
    return frame->status == STATUS_OK ||
           (bytes_given(frame->details) && (frame->status == STATUS_TRANSACTION_CANCELED ||
                                            frame->status == STATUS_CONDITIONAL_CHECK_FAILED));
}

/* A copy behind the struct, at *at, which moves on. */
static struct bytes keep(struct bytes bytes, uint8_t **at)
{
    if (!bytes_given(bytes))
        return BYTES_NONE;
    uint8_t *copy = *at;
    memcpy(copy, bytes.data, bytes.size);
    *at += bytes.size;
    return bytes_of(copy, bytes.size);
}

int message_read(const struct frame_reply *frame, enum mudax_operation operation, size_t part_count,
                 struct mudax_reply **out, struct mudax_error *error)
{
    bool is_error = frame->status != STATUS_OK;
    struct bytes body = is_error ? frame->details : frame->body;
    struct mudax_reply *reply =
        malloc(sizeof *reply + body.size + frame->capacity.size + frame->metrics.size);
    if (reply == NULL)
        return failure_no_memory(error);
    *reply = (struct mudax_reply){.operation = operation,
                                  .part_count = part_count,
                                  .verdict = (enum mudax_verdict)frame->verdict,
                                  .age_ms = frame->age_ms,
                                  .commit = frame->commit};
    arena_init(&reply->arena, NULL, 0, REPLY_ARENA_MAX);
    uint8_t *at = reply->bytes;
    struct msgpack_cursor cursor = msgpack_cursor_of(keep(body, &at));
    struct bytes capacity = keep(frame->capacity, &at), metrics = keep(frame->metrics, &at);
    enum status status = !is_error ? read_body(reply, &cursor)
                         : frame->status == STATUS_TRANSACTION_CANCELED
                             ? read_reasons(reply, &cursor)
                             : read_map(reply, &cursor, &reply->value);
    if (status == STATUS_OK)
        status = read_beside(reply, capacity, true, &reply->capacity);
    if (status == STATUS_OK)
        status = read_beside(reply, metrics, false, &reply->metrics);
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

/* ---- reading ---- */

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
    bool is_there = index < mudax_reply_count(reply) && reply->items != NULL &&
                    reply->items[index].type == VALUE_M;
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

size_t mudax_reply_unprocessed_count(const struct mudax_reply *reply)
{
    return reply == NULL ? 0 : reply->unprocessed_count;
}

size_t mudax_reply_unprocessed_at(const struct mudax_reply *reply, size_t index)
{
    return index < mudax_reply_unprocessed_count(reply) ? reply->unprocessed[index] : 0;
}

const char *mudax_reply_reason(const struct mudax_reply *reply, size_t index, const char **text)
{
    bool is_there = index < mudax_reply_count(reply) && reply->reasons != NULL;
    if (text != NULL)
        *text = is_there ? reply->reasons[index].text : "";
    return is_there ? reply->reasons[index].code : NULL;
}

const struct mudax_value *mudax_reply_description(const struct mudax_reply *reply)
{
    return reply != NULL && !is_of_item(reply->operation) ? value_handle(reply->value) : NULL;
}

const struct mudax_value *mudax_reply_capacity(const struct mudax_reply *reply)
{
    return reply == NULL ? NULL : value_handle(reply->capacity);
}

const struct mudax_value *mudax_reply_metrics(const struct mudax_reply *reply)
{
    return reply == NULL ? NULL : value_handle(reply->metrics);
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
