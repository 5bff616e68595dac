#include "protocol/dynamodb/parts.h"

#include "protocol/encoding/json.h"

enum {
    PARTS_FIRST = 8,
    PARTS_MAX = 128, /* more than any operation takes, so that it can say so */
    NAME_SHOWN_MAX = 64,
};

#define PUT(out, text) buffer_append(out, BYTES_LITERAL(text))

struct bytes parts_member(enum operation operation)
{
    switch (operation) {
    case OPERATION_BATCH_GET_ITEM:
    case OPERATION_BATCH_WRITE_ITEM:
        return BYTES_LITERAL("RequestItems");
    case OPERATION_TRANSACT_GET_ITEMS:
    case OPERATION_TRANSACT_WRITE_ITEMS:
        return BYTES_LITERAL("TransactItems");
    default:
        return BYTES_NONE;
    }
}

/* ---- reading ---- */

static bool refuse_many(struct json_reader *reader, const struct request *request)
{
    bool is_batch = request->operation == OPERATION_BATCH_GET_ITEM ||
                    request->operation == OPERATION_BATCH_WRITE_ITEM;
    if (is_batch)
        return json_reader_refuse(reader, STATUS_VALIDATION,
                                  "Too many items requested for the %s call",
                                  operation_name(request->operation));
    return json_reader_refuse(reader, STATUS_VALIDATION,
                              "1 validation error detected: Value at 'transactItems' failed to "
                              "satisfy constraint: Member must have length less than or equal to "
                              "%d",
                              TRANSACT_MAX);
}

/* One more part, of zeros but for its operation. NULL: refused. */
static struct request *add_part(struct json_reader *reader, struct request *request,
                                enum operation operation)
{
    size_t count = request->part_count;
    bool is_full = count == 0 || (count >= PARTS_FIRST && (count & (count - 1)) == 0);
    if (count == PARTS_MAX) {
        (void)refuse_many(reader, request);
        return NULL;
    }
    if (is_full) {
        size_t room = count == 0 ? PARTS_FIRST : 2 * count;
        struct request *parts = arena_alloc(reader->arena, room * sizeof *parts);
        if (parts == NULL) {
            (void)json_reader_refuse(reader, STATUS_NO_MEMORY, "%s", "");
            return NULL;
        }
        if (count != 0)
            memcpy(parts, request->parts, count * sizeof *parts);
        request->parts = parts;
    }
    struct request *part = &request->parts[request->part_count++];
    *part = (struct request){.operation = operation};
    return part;
}

static int shown(struct bytes text)
{
    return (int)(text.size < NAME_SHOWN_MAX ? text.size : NAME_SHOWN_MAX);
}

static bool read_keys(struct json_reader *reader, struct request *request, struct bytes table)
{
    size_t before = request->part_count;
    if (!json_enter_list(reader))
        return false;
    while (json_next_element(reader)) {
        struct request *part = add_part(reader, request, OPERATION_GET_ITEM);
        if (part == NULL || !json_read_item(reader, &part->key))
            return false;
        part->table_name = table;
    }
    return request->part_count != before ||
           json_reader_refuse(
               reader, STATUS_VALIDATION,
               "1 validation error detected: Value '[]' at "
               "'requestItems.%.*s.member.keys' failed to satisfy constraint: Member "
               "must have length greater than or equal to 1",
               shown(table), (const char *)table.data);
}

/* Keys may come before what is said of all of them. */
static bool read_get_table(struct json_reader *reader, struct request *request, struct bytes table)
{
    struct request common = {.operation = OPERATION_GET_ITEM};
    struct members members = {.seen = 0};
    size_t first = request->part_count;
    struct bytes name;
    if (!json_enter_map(reader))
        return false;
    while (json_next_member(reader, &name)) {
        bool is_read = bytes_equal(name, BYTES_LITERAL("Keys"))
                           ? read_keys(reader, request, table)
                           : members_read_one(reader, name, &common, &members);
        if (!is_read)
            return false;
    }
    if (request->part_count == first)
        return json_reader_refuse(reader, STATUS_VALIDATION,
                                  "1 validation error detected: Value null at "
                                  "'requestItems.%.*s.member.keys' failed to satisfy constraint: "
                                  "Member must not be null",
                                  shown(table), (const char *)table.data);
    if (!members_end(reader, &common, &members))
        return false;
    for (size_t i = first; i < request->part_count; i++) {
        request->parts[i].is_consistent = common.is_consistent;
        request->parts[i].projection = common.projection;
        request->parts[i].key_condition.names = common.key_condition.names;
    }
    return true;
}

/* {"Item": {..}} or {"Key": {..}} */
static bool read_only(struct json_reader *reader, struct bytes wanted, struct bytes *out)
{
    struct bytes name;
    if (!json_enter_map(reader))
        return false;
    while (json_next_member(reader, &name)) {
        if (!bytes_equal(name, wanted))
            return json_reader_refuse(reader, STATUS_UNSUPPORTED,
                                      "The member %.*s is not supported here", shown(name),
                                      (const char *)name.data);
        if (!json_read_item(reader, out))
            return false;
    }
    return true;
}

static bool refuse_write(struct json_reader *reader)
{
    return json_reader_refuse(reader, STATUS_VALIDATION,
                              "Supplied WriteRequest must have exactly one of PutRequest and "
                              "DeleteRequest");
}

static bool read_write(struct json_reader *reader, struct request *request, struct bytes table)
{
    struct bytes name;
    size_t before = request->part_count;
    if (!json_enter_map(reader))
        return false;
    while (json_next_member(reader, &name)) {
        bool is_put = bytes_equal(name, BYTES_LITERAL("PutRequest"));
        if ((!is_put && !bytes_equal(name, BYTES_LITERAL("DeleteRequest"))) ||
            request->part_count != before)
            return refuse_write(reader);
        struct request *part =
            add_part(reader, request, is_put ? OPERATION_PUT_ITEM : OPERATION_DELETE_ITEM);
        if (part == NULL)
            return false;
        part->table_name = table;
        if (!read_only(reader, is_put ? BYTES_LITERAL("Item") : BYTES_LITERAL("Key"),
                       is_put ? &part->item : &part->key))
            return false;
    }
    return request->part_count == before + 1 || refuse_write(reader);
}

static bool read_write_table(struct json_reader *reader, struct request *request,
                             struct bytes table)
{
    size_t before = request->part_count;
    if (!json_enter_list(reader))
        return false;
    while (json_next_element(reader))
        if (!read_write(reader, request, table))
            return false;
    return request->part_count != before ||
           json_reader_refuse(reader, STATUS_VALIDATION,
                              "1 validation error detected: Value '{%.*s=[]}' at 'requestItems' "
                              "failed to satisfy constraint: Map value must satisfy constraint: "
                              "[Member must have length less than or equal to %d, Member must have "
                              "length greater than or equal to 1]",
                              shown(table), (const char *)table.data, BATCH_WRITE_MAX);
}

static bool read_by_table(struct json_reader *reader, struct request *request)
{
    bool is_get = request->operation == OPERATION_BATCH_GET_ITEM;
    struct bytes table;
    if (!json_enter_map(reader))
        return false;
    while (json_next_member(reader, &table))
        if (!(is_get ? read_get_table : read_write_table)(reader, request, table))
            return false;
    return true;
}

static bool find_action(struct bytes name, bool is_get, enum operation *out)
{
    static const struct {
        struct bytes name;
        bool is_get;
        enum operation operation;
    } actions[] = {
        {BYTES_LITERAL("Get"), true, OPERATION_GET_ITEM},
        {BYTES_LITERAL("Put"), false, OPERATION_PUT_ITEM},
        {BYTES_LITERAL("Update"), false, OPERATION_UPDATE_ITEM},
        {BYTES_LITERAL("Delete"), false, OPERATION_DELETE_ITEM},
        {BYTES_LITERAL("ConditionCheck"), false, OPERATION_CONDITION_CHECK},
    };
    for (size_t i = 0; i < sizeof actions / sizeof actions[0]; i++)
        if (actions[i].is_get == is_get && bytes_equal(name, actions[i].name)) {
            *out = actions[i].operation;
            return true;
        }
    return false;
}

static bool refuse_action(struct json_reader *reader, const struct request *request)
{
    return json_reader_refuse(reader, STATUS_VALIDATION, "TransactItems can only contain one of %s",
                              request->operation == OPERATION_TRANSACT_GET_ITEMS
                                  ? "Get"
                                  : "Check, Put, Update or Delete");
}

static bool read_action(struct json_reader *reader, struct request *request)
{
    struct bytes name;
    size_t before = request->part_count;
    enum operation operation;
    if (!json_enter_map(reader))
        return false;
    while (json_next_member(reader, &name)) {
        if (!find_action(name, request->operation == OPERATION_TRANSACT_GET_ITEMS, &operation) ||
            request->part_count != before)
            return refuse_action(reader, request);
        struct request *part = add_part(reader, request, operation);
        if (part == NULL || !members_read(reader, part))
            return false;
    }
    return request->part_count == before + 1 || refuse_action(reader, request);
}

bool parts_read(struct json_reader *reader, struct request *request)
{
    bool is_by_table = bytes_equal(parts_member(request->operation), BYTES_LITERAL("RequestItems"));
    if (is_by_table)
        return read_by_table(reader, request);
    if (!json_enter_list(reader))
        return false;
    while (json_next_element(reader))
        if (!read_action(reader, request))
            return false;
    return true;
}

/* ---- writing ---- */

static bool is_nil(struct bytes body)
{
    return body.size == 0 || body.data[0] == 0xc0;
}

static bool put_item(struct buffer *out, struct bytes item)
{
    struct msgpack_cursor cursor = msgpack_cursor_of(item);
    return json_from_item_bytes(&cursor, out);
}

static bool same_table(const struct request *request, size_t a, size_t b)
{
    return bytes_equal(request->parts[a].table_name, request->parts[b].table_name);
}

static bool is_first_of_table(const struct request *request, size_t at)
{
    size_t i = 0;
    while (i < at && !same_table(request, i, at))
        i++;
    return i == at;
}

/* Calls `put` for each table once, behind its name. */
static bool put_tables(const struct request *request, const bool *is_wanted, struct buffer *out,
                       bool (*put)(const struct request *request, size_t first, const void *arg,
                                   struct buffer *out),
                       const void *arg)
{
    bool has_any = false;
    if (!PUT(out, "{"))
        return false;
    for (size_t i = 0; i < request->part_count; i++) {
        bool is_there = is_wanted == NULL;
        for (size_t k = i; !is_there && k < request->part_count; k++)
            is_there = is_wanted[k] && same_table(request, i, k);
        if (!is_first_of_table(request, i) || !is_there)
            continue;
        if ((has_any && !PUT(out, ",")) || !json_from_text(request->parts[i].table_name, out) ||
            !PUT(out, ":") || !put(request, i, arg, out))
            return false;
        has_any = true;
    }
    return PUT(out, "}");
}

/* The items that were found of one table. arg: an item or nil of each part */
static bool put_found(const struct request *request, size_t first, const void *arg,
                      struct buffer *out)
{
    const struct bytes *items = arg;
    bool has_any = false;
    if (!PUT(out, "["))
        return false;
    for (size_t i = first; i < request->part_count; i++) {
        if (!same_table(request, first, i) || is_nil(items[i]))
            continue;
        if ((has_any && !PUT(out, ",")) || !put_item(out, items[i]))
            return false;
        has_any = true;
    }
    return PUT(out, "]");
}

static bool put_common(const struct request *part, struct buffer *out)
{
    struct msgpack_cursor names = msgpack_cursor_of(part->key_condition.names);
    return (!part->is_consistent || PUT(out, ",\"ConsistentRead\":true")) &&
           (!bytes_given(part->projection) ||
            (PUT(out, ",\"ProjectionExpression\":") && json_from_text(part->projection, out))) &&
           (!bytes_given(part->key_condition.names) ||
            (PUT(out, ",\"ExpressionAttributeNames\":") && json_from_plain_bytes(&names, out)));
}

/* arg: whether each part is left */
static bool put_left_keys(const struct request *request, size_t first, const void *arg,
                          struct buffer *out)
{
    const bool *is_left = arg;
    bool has_any = false;
    if (!PUT(out, "{\"Keys\":["))
        return false;
    for (size_t i = first; i < request->part_count; i++) {
        if (!is_left[i] || !same_table(request, first, i))
            continue;
        if ((has_any && !PUT(out, ",")) || !put_item(out, request->parts[i].key))
            return false;
        has_any = true;
    }
    return PUT(out, "]") && put_common(&request->parts[first], out) && PUT(out, "}");
}

static bool put_left_writes(const struct request *request, size_t first, const void *arg,
                            struct buffer *out)
{
    const bool *is_left = arg;
    bool has_any = false;
    if (!PUT(out, "["))
        return false;
    for (size_t i = first; i < request->part_count; i++) {
        const struct request *part = &request->parts[i];
        bool is_put = part->operation == OPERATION_PUT_ITEM;
        if (!is_left[i] || !same_table(request, first, i))
            continue;
        if ((has_any && !PUT(out, ",")) ||
            !buffer_append(out, is_put ? BYTES_LITERAL("{\"PutRequest\":{\"Item\":")
                                       : BYTES_LITERAL("{\"DeleteRequest\":{\"Key\":")) ||
            !put_item(out, is_put ? part->item : part->key) || !PUT(out, "}}"))
            return false;
        has_any = true;
    }
    return PUT(out, "]");
}

static bool read_left(struct msgpack_cursor *cursor, const struct request *request,
                      bool is_left[PARTS_MAX])
{
    uint32_t count;
    uint64_t place;
    memset(is_left, 0, PARTS_MAX * sizeof *is_left);
    if (!msgpack_read_array(cursor, &count))
        return false;
    for (; count != 0; count--) {
        if (!msgpack_read_uint(cursor, &place) || place >= request->part_count)
            return false;
        is_left[place] = true;
    }
    return true;
}

static bool read_items(struct msgpack_cursor *cursor, const struct request *request,
                       struct bytes items[PARTS_MAX])
{
    uint32_t count;
    if (!msgpack_read_array(cursor, &count) || count != request->part_count || count > PARTS_MAX)
        return false;
    for (uint32_t i = 0; i < count; i++)
        if (!msgpack_skip(cursor, &items[i]))
            return false;
    return true;
}

static bool write_batch_get(const struct request *request, struct bytes body, struct buffer *out)
{
    struct msgpack_cursor cursor = msgpack_cursor_of(body);
    struct bytes items[PARTS_MAX];
    bool is_left[PARTS_MAX];
    uint32_t two;
    return msgpack_read_array(&cursor, &two) && two == 2 && read_items(&cursor, request, items) &&
           read_left(&cursor, request, is_left) && PUT(out, "{\"Responses\":") &&
           put_tables(request, NULL, out, put_found, items) && PUT(out, ",\"UnprocessedKeys\":") &&
           put_tables(request, is_left, out, put_left_keys, is_left) && PUT(out, "}");
}

static bool write_batch_write(const struct request *request, struct bytes body, struct buffer *out)
{
    struct msgpack_cursor cursor = msgpack_cursor_of(body);
    bool is_left[PARTS_MAX];
    return read_left(&cursor, request, is_left) && PUT(out, "{\"UnprocessedItems\":") &&
           put_tables(request, is_left, out, put_left_writes, is_left) && PUT(out, "}");
}

static bool write_transact_get(const struct request *request, struct bytes body, struct buffer *out)
{
    struct msgpack_cursor cursor = msgpack_cursor_of(body);
    struct bytes items[PARTS_MAX];
    if (!read_items(&cursor, request, items) || !PUT(out, "{\"Responses\":["))
        return false;
    for (size_t i = 0; i < request->part_count; i++) {
        if (i != 0 && !PUT(out, ","))
            return false;
        bool is_put = is_nil(items[i])
                          ? PUT(out, "{}")
                          : PUT(out, "{\"Item\":") && put_item(out, items[i]) && PUT(out, "}");
        if (!is_put)
            return false;
    }
    return PUT(out, "]}");
}

bool parts_write(const struct request *request, struct bytes body, struct buffer *out)
{
    switch (request->operation) {
    case OPERATION_BATCH_GET_ITEM:
        return write_batch_get(request, body, out);
    case OPERATION_BATCH_WRITE_ITEM:
        return write_batch_write(request, body, out);
    case OPERATION_TRANSACT_GET_ITEMS:
        return write_transact_get(request, body, out);
    default: /* TransactWriteItems */
        return PUT(out, "{}");
    }
}

static bool put_reason(struct msgpack_cursor *cursor, struct buffer *out)
{
    struct msgpack_head head;
    struct bytes code, text, item;
    if (!msgpack_read(cursor, &head))
        return false;
    if (head.kind == MSGPACK_NIL)
        return PUT(out, "{\"Code\":\"None\"}");
    return head.kind == MSGPACK_ARRAY && head.count == 3 && msgpack_read_str(cursor, &code) &&
           msgpack_read_str(cursor, &text) && msgpack_skip(cursor, &item) &&
           PUT(out, "{\"Code\":") && json_from_text(code, out) && PUT(out, ",\"Message\":") &&
           json_from_text(text, out) &&
           (is_nil(item) || (PUT(out, ",\"Item\":") && put_item(out, item))) && PUT(out, "}");
}

bool parts_write_reasons(struct bytes details, struct buffer *out)
{
    struct msgpack_cursor cursor = msgpack_cursor_of(details);
    uint32_t count;
    if (!msgpack_read_array(&cursor, &count) || !PUT(out, "["))
        return false;
    for (uint32_t i = 0; i < count; i++)
        if ((i != 0 && !PUT(out, ",")) || !put_reason(&cursor, out))
            return false;
    return PUT(out, "]");
}
