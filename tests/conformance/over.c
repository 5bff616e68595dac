#include "tests/conformance/over.h"

#include "protocol/encoding/json.h"
#include "protocol/encoding/json_reader.h"
#include "protocol/ensure.h"
#include "protocol/native/frame.h"
#include "protocol/wire.h"

#include <stdio.h>
#include <stdlib.h>

enum { FRAME_MAX = 64 << 20, STATUSES = 64 };

static struct wire_session session_of(enum over over)
{
    return (struct wire_session){.frame_max = FRAME_MAX,
                                 .version = over == OVER_NATIVE ? NATIVE_VERSION : 0};
}

/* ---- JSON of a request ---- */

static void put(struct buffer *out, struct bytes bytes)
{
    ensure(buffer_append(out, bytes));
}

#define PUT(out, text) put((out), BYTES_LITERAL(text))

static void put_name(struct buffer *out, const char *name)
{
    if (out->data[out->size - 1] != '{')
        PUT(out, ",");
    ensure(json_from_text(bytes_text(name), out));
    PUT(out, ":");
}

static void put_text(struct buffer *out, const char *name, struct bytes text)
{
    if (!bytes_given(text))
        return;
    put_name(out, name);
    ensure(json_from_text(text, out));
}

static void put_item(struct buffer *out, const char *name, struct bytes item)
{
    struct msgpack_cursor cursor = msgpack_cursor_of(item);
    if (!bytes_given(item))
        return;
    put_name(out, name);
    ensure(json_from_item_bytes(&cursor, out));
}

static void put_plain(struct buffer *out, const char *name, struct bytes map)
{
    struct msgpack_cursor cursor = msgpack_cursor_of(map);
    if (!bytes_given(map))
        return;
    put_name(out, name);
    ensure(json_from_plain_bytes(&cursor, out));
}

static void put_number(struct buffer *out, const char *name, uint32_t number, bool is_given)
{
    char text[16];
    if (!is_given)
        return;
    put_name(out, name);
    put(out, bytes_of(text, (size_t)snprintf(text, sizeof text, "%u", number)));
}

static void put_word(struct buffer *out, const char *name, const char *const *words, int number)
{
    if (number != 0)
        put_text(out, name, bytes_text(words[number]));
}

static void put_members(struct buffer *out, const struct request *request)
{
    static const char *const selects[] = {"", "ALL_ATTRIBUTES", "ALL_PROJECTED_ATTRIBUTES",
                                          "SPECIFIC_ATTRIBUTES", "COUNT"};
    static const char *const returns[] = {"NONE", "ALL_OLD", "UPDATED_OLD", "ALL_NEW",
                                          "UPDATED_NEW"};
    static const char *const capacities[] = {"NONE", "TOTAL", "INDEXES"};
    bool lists = request->operation == OPERATION_LIST_TABLES;
    PUT(out, "{");
    put_text(out, lists ? "ExclusiveStartTableName" : "TableName", request->table_name);
    put_text(out, "IndexName", request->index_name);
    put_item(out, "Key", request->key);
    put_item(out, "Item", request->item);
    put_text(out, "KeyConditionExpression", request->key_condition.text);
    put_plain(out, "ExpressionAttributeNames", request->key_condition.names);
    put_item(out, "ExpressionAttributeValues", request->key_condition.values);
    put_text(out, "ConditionExpression", request->condition);
    put_text(out, "UpdateExpression", request->update);
    put_text(out, "FilterExpression", request->filter);
    put_text(out, "ProjectionExpression", request->projection);
    put_item(out, "ExclusiveStartKey", request->start_key);
    put_number(out, "Limit", request->limit, request->limit != 0);
    put_number(out, "Segment", request->segment, request->has_segment);
    put_number(out, "TotalSegments", request->segments, request->segments != 0);
    put_text(out, "ClientRequestToken", request->token);
    put_word(out, "Select", selects, (int)request->select);
    put_word(out, "ReturnValues", returns, (int)request->return_values);
    put_word(out, "ReturnConsumedCapacity", capacities, (int)request->capacity);
    if (request->wants_metrics)
        put_text(out, "ReturnItemCollectionMetrics", BYTES_LITERAL("SIZE"));
    if (request->wants_failed)
        put_text(out, "ReturnValuesOnConditionCheckFailure", BYTES_LITERAL("ALL_OLD"));
    if (request->is_consistent) {
        put_name(out, "ConsistentRead");
        PUT(out, "true");
    }
    if (request->is_backward) {
        put_name(out, "ScanIndexForward");
        PUT(out, "false");
    }
}

static void put_actions(struct buffer *out, const struct request *request)
{
    put_members(out, request);
    put_name(out, "TransactItems");
    PUT(out, "[");
    for (size_t i = 0; i < request->part_count; i++) {
        const struct request *part = &request->parts[i];
        static const char *const verbs[OPERATIONS] = {
            [OPERATION_GET_ITEM] = "Get",
            [OPERATION_PUT_ITEM] = "Put",
            [OPERATION_DELETE_ITEM] = "Delete",
            [OPERATION_UPDATE_ITEM] = "Update",
            [OPERATION_CONDITION_CHECK] = "ConditionCheck",
        };
        if (i != 0)
            PUT(out, ",");
        PUT(out, "{");
        put_name(out, verbs[part->operation]);
        put_members(out, part);
        PUT(out, "}}");
    }
    PUT(out, "]}");
}

/* Each part as a table of its own would name tables twice: only what has one part a table. */
static bool has_table_twice(const struct request *request)
{
    for (size_t i = 1; i < request->part_count; i++)
        for (size_t k = 0; k < i; k++)
            if (bytes_equal(request->parts[i].table_name, request->parts[k].table_name))
                return true;
    return false;
}

static void put_gets(struct buffer *out, const struct request *request)
{
    put_members(out, request);
    put_name(out, "RequestItems");
    PUT(out, "{");
    for (size_t i = 0; i < request->part_count; i++) {
        struct request common = request->parts[i];
        struct msgpack_cursor key = msgpack_cursor_of(common.key);
        if (i != 0)
            PUT(out, ",");
        ensure(json_from_text(common.table_name, out));
        PUT(out, ":");
        common.table_name = BYTES_NONE;
        common.key = BYTES_NONE;
        put_members(out, &common);
        put_name(out, "Keys");
        PUT(out, "[");
        ensure(json_from_item_bytes(&key, out));
        PUT(out, "]}");
    }
    PUT(out, "}}");
}

static void put_writes(struct buffer *out, const struct request *request)
{
    put_members(out, request);
    put_name(out, "RequestItems");
    PUT(out, "{");
    for (size_t i = 0; i < request->part_count; i++) {
        struct bytes table = request->parts[i].table_name;
        bool is_first = true;
        for (size_t k = 0; k < i; k++)
            is_first &= !bytes_equal(request->parts[k].table_name, table);
        if (!is_first)
            continue;
        if (i != 0)
            PUT(out, ",");
        ensure(json_from_text(table, out));
        PUT(out, ":[");
        for (size_t k = i; k < request->part_count; k++) {
            const struct request *part = &request->parts[k];
            if (!bytes_equal(part->table_name, table))
                continue;
            if (k != i)
                PUT(out, ",");
            PUT(out, "{");
            put_name(out, bytes_given(part->item) ? "PutRequest" : "DeleteRequest");
            PUT(out, "{");
            put_item(out, "Item", part->item);
            put_item(out, "Key", part->key);
            PUT(out, "}}");
        }
        PUT(out, "]");
    }
    PUT(out, "}}");
}

static bool put_http(const struct request *request, struct buffer *out)
{
    struct buffer body = {0};
    struct msgpack_cursor definition = msgpack_cursor_of(request->definition);
    char head[256];
    switch (request->operation) {
    case OPERATION_BATCH_GET_ITEM:
        if (has_table_twice(request))
            return false;
        put_gets(&body, request);
        break;
    case OPERATION_BATCH_WRITE_ITEM:
        put_writes(&body, request);
        break;
    case OPERATION_TRANSACT_GET_ITEMS:
    case OPERATION_TRANSACT_WRITE_ITEMS:
        put_actions(&body, request);
        break;
    case OPERATION_CREATE_TABLE:
    case OPERATION_UPDATE_TABLE:
    case OPERATION_UPDATE_TIME_TO_LIVE:
    case OPERATION_TAG_RESOURCE:
    case OPERATION_UNTAG_RESOURCE:
    case OPERATION_LIST_TAGS_OF_RESOURCE:
        ensure(json_from_plain_bytes(&definition, &body));
        break;
    default:
        put_members(&body, request);
        PUT(&body, "}");
    }
    int size = snprintf(head, sizeof head,
                        "POST / HTTP/1.1\r\nX-Amz-Target: DynamoDB_20120810.%s\r\n"
                        "Content-Length: %zu\r\n\r\n",
                        operation_name(request->operation), body.size);
    put(out, bytes_of(head, (size_t)size));
    put(out, buffer_bytes(&body));
    buffer_deinit(&body);
    return true;
}

/* ---- JSON of a reply ---- */

struct parsed {
    struct bytes item, attributes, last, capacity, metrics, name, text;
    struct buffer items; /* one after the other */
    uint32_t item_count;
    int64_t count, scanned;
    bool has_items;
    struct buffer reasons;
    uint32_t reason_count;
};

static struct bytes canonical(struct bytes item, struct arena *arena)
{
    struct bytes out;
    struct error error;
    ensure(item_canonical(item, arena, &out, NULL, &error) == STATUS_OK);
    return out;
}

static void read_items(struct json_reader *reader, struct arena *arena, struct parsed *out)
{
    struct bytes item;
    ensure(json_enter_list(reader));
    out->has_items = true;
    while (json_next_element(reader)) {
        ensure(json_read_item(reader, &item));
        put(&out->items, canonical(item, arena));
        out->item_count++;
    }
}

/* TransactGetItems: {"Item": ..} or {}. */
static void read_responses(struct json_reader *reader, struct arena *arena, struct parsed *out)
{
    struct bytes name, item;
    ensure(json_enter_list(reader));
    while (json_next_element(reader)) {
        struct bytes found = BYTES_LITERAL("\xc0");
        ensure(json_enter_map(reader));
        while (json_next_member(reader, &name)) {
            ensure(json_read_item(reader, &item));
            found = canonical(item, arena);
        }
        put(&out->items, found);
        out->item_count++;
    }
}

static void read_reasons(struct json_reader *reader, struct arena *arena, struct parsed *out)
{
    struct bytes name;
    ensure(json_enter_list(reader));
    while (json_next_element(reader)) {
        struct bytes code = BYTES_NONE, text = BYTES_LITERAL(""), item = BYTES_NONE;
        ensure(json_enter_map(reader));
        while (json_next_member(reader, &name)) {
            if (bytes_equal(name, BYTES_LITERAL("Code")))
                ensure(json_read_text(reader, &code));
            else if (bytes_equal(name, BYTES_LITERAL("Message")))
                ensure(json_read_text(reader, &text));
            else
                ensure(json_read_item(reader, &item));
        }
        out->reason_count++;
        if (bytes_equal(code, BYTES_LITERAL("None"))) {
            PUT(&out->reasons, "\xc0");
            continue;
        }
        struct value texts[2] = {{.type = VALUE_S, .bytes = code},
                                 {.type = VALUE_S, .bytes = text}};
        PUT(&out->reasons, "\x93");
        ensure(value_encode(&texts[0], &out->reasons) && value_encode(&texts[1], &out->reasons));
        put(&out->reasons, bytes_given(item) ? canonical(item, arena) : BYTES_LITERAL("\xc0"));
    }
}

static void read_collection(struct json_reader *reader, struct arena *arena, struct buffer *out)
{
    static const struct bytes names[2] = {BYTES_LITERAL("ItemCollectionKey"),
                                          BYTES_LITERAL("SizeEstimateRangeGB")};
    struct bytes name, value;
    ensure(json_enter_map(reader));
    PUT(out, "\x82");
    for (int i = 0; json_next_member(reader, &name); i++) {
        struct value text = {.type = VALUE_S, .bytes = name};
        ensure(i < 2 && bytes_equal(name, names[i]) && value_encode(&text, out));
        ensure(i == 0 ? json_read_item(reader, &value) : json_read_plain(reader, &value));
        put(out, i == 0 ? canonical(value, arena) : value);
    }
}

/* Of one collection, or a map from tables to lists of them. */
static void read_metrics(struct json_reader *reader, bool is_of_parts, struct arena *arena,
                         struct parsed *out)
{
    struct buffer metrics = {0}, collections = {0};
    struct bytes name;
    uint8_t tables = 0;
    if (!is_of_parts)
        read_collection(reader, arena, &metrics);
    else
        ensure(json_enter_map(reader));
    while (is_of_parts && json_next_member(reader, &name)) {
        struct value text = {.type = VALUE_S, .bytes = name};
        uint8_t count = 0;
        collections.size = 0;
        ensure(json_enter_list(reader));
        for (; json_next_element(reader); count++)
            read_collection(reader, arena, &collections);
        uint8_t map = (uint8_t)(0x80 | ++tables), array = (uint8_t)(0x90 | count);
        ensure(tables < 16 && count < 16);
        if (tables == 1)
            put(&metrics, bytes_of(&map, 1));
        metrics.data[0] = map;
        ensure(value_encode(&text, &metrics));
        put(&metrics, bytes_of(&array, 1));
        put(&metrics, buffer_bytes(&collections));
    }
    out->metrics = arena_copy(arena, buffer_bytes(&metrics));
    buffer_deinit(&metrics);
    buffer_deinit(&collections);
}

static void read_member(struct json_reader *reader, struct bytes name,
                        const struct request *request, struct arena *arena, struct parsed *out)
{
    bool is_transaction = request->operation == OPERATION_TRANSACT_GET_ITEMS;
    if (bytes_equal(name, BYTES_LITERAL("Item")))
        ensure(json_read_item(reader, &out->item));
    else if (bytes_equal(name, BYTES_LITERAL("Attributes")))
        ensure(json_read_item(reader, &out->attributes));
    else if (bytes_equal(name, BYTES_LITERAL("LastEvaluatedKey")))
        ensure(json_read_item(reader, &out->last));
    else if (bytes_equal(name, BYTES_LITERAL("Items")))
        read_items(reader, arena, out);
    else if (bytes_equal(name, BYTES_LITERAL("Responses")) && is_transaction)
        read_responses(reader, arena, out);
    else if (bytes_equal(name, BYTES_LITERAL("CancellationReasons")))
        read_reasons(reader, arena, out);
    else if (bytes_equal(name, BYTES_LITERAL("Count")))
        ensure(json_read_integer(reader, &out->count));
    else if (bytes_equal(name, BYTES_LITERAL("ScannedCount")))
        ensure(json_read_integer(reader, &out->scanned));
    else if (bytes_equal(name, BYTES_LITERAL("__type")))
        ensure(json_read_text(reader, &out->name));
    else if (bytes_equal(name, BYTES_LITERAL("message")) ||
             bytes_equal(name, BYTES_LITERAL("Message")))
        ensure(json_read_text(reader, &out->text));
    else if (bytes_equal(name, BYTES_LITERAL("ConsumedCapacity")))
        ensure(json_read_plain(reader, &out->capacity));
    else if (bytes_equal(name, BYTES_LITERAL("ItemCollectionMetrics")))
        read_metrics(reader, request->part_count != 0, arena, out);
    else
        ensure(json_skip(reader, NULL));
}

static void put_array(struct buffer *out, uint32_t count)
{
    uint8_t head[3] = {0xdc, (uint8_t)(count >> 8), (uint8_t)count};
    put(out, bytes_of(head, sizeof head));
}

static void put_natural(struct buffer *out, int64_t number)
{
    uint8_t bytes[5] = {0xce, (uint8_t)(number >> 24), (uint8_t)(number >> 16),
                        (uint8_t)(number >> 8), (uint8_t)number};
    put(out, bytes_of(bytes, sizeof bytes));
}

/* The body as the native protocol has it. */
static struct bytes body_of(const struct request *request, struct parsed *parsed, struct bytes json,
                            struct bytes direct, struct arena *arena)
{
    struct buffer out = {0};
    struct json_reader reader;
    struct error error;
    struct bytes plain, nil = BYTES_LITERAL("\xc0");
    switch (request->operation) {
    case OPERATION_GET_ITEM:
        return bytes_given(parsed->item) ? canonical(parsed->item, arena) : nil;
    case OPERATION_PUT_ITEM:
    case OPERATION_DELETE_ITEM:
    case OPERATION_UPDATE_ITEM:
        return bytes_given(parsed->attributes) ? canonical(parsed->attributes, arena) : nil;
    case OPERATION_QUERY:
    case OPERATION_SCAN:
        PUT(&out, "\x93");
        if (parsed->has_items) {
            put_array(&out, parsed->item_count);
            ensure(parsed->count == parsed->item_count);
            if (parsed->items.size != 0)
                put(&out, buffer_bytes(&parsed->items));
        } else {
            put_natural(&out, parsed->count);
        }
        put_natural(&out, parsed->scanned);
        put(&out, bytes_given(parsed->last) ? canonical(parsed->last, arena) : nil);
        break;
    case OPERATION_TRANSACT_GET_ITEMS:
        put_array(&out, parsed->item_count);
        put(&out, buffer_bytes(&parsed->items));
        break;
    case OPERATION_BATCH_GET_ITEM: /* grouped by table: told in another order */
    case OPERATION_BATCH_WRITE_ITEM:
    case OPERATION_TRANSACT_WRITE_ITEMS:
        return direct;
    default:
        json_reader_init(&reader, json, arena, &error);
        ensure(json_read_plain(&reader, &plain) && json_reader_end(&reader) == STATUS_OK);
        return plain;
    }
    struct bytes copy = arena_copy(arena, buffer_bytes(&out));
    buffer_deinit(&out);
    return copy;
}

static enum status status_named(struct bytes name)
{
    for (int status = 1; status < STATUSES; status++)
        if (bytes_equal(name, bytes_text(status_name((enum status)status))))
            return (enum status)status;
    return STATUS_INTERNAL;
}

static void parse_http(struct bytes text, const struct request *request, struct reply *reply,
                       struct arena *arena)
{
    struct parsed parsed = {.count = 0};
    struct json_reader reader;
    struct error error;
    struct bytes name;
    const uint8_t *end = memmem(text.data, text.size, "\r\n\r\n", 4);
    ensure(end != NULL);
    struct bytes json = bytes_of(end + 4, (size_t)(text.data + text.size - end) - 4);
    if (json.size == 0) /* TagResource, UntagResource */
        return;
    bool is_fine = memcmp(text.data, "HTTP/1.1 200", 12) == 0;
    json_reader_init(&reader, json, arena, &error);
    ensure(json_enter_map(&reader));
    while (json_next_member(&reader, &name))
        read_member(&reader, name, request, arena, &parsed);
    ensure(json_reader_end(&reader) == STATUS_OK);
    struct reply before = *reply;
    reply->capacity = parsed.capacity;
    reply->metrics = parsed.metrics;
    reply->details = BYTES_NONE;
    if (is_fine) {
        reply->body = body_of(request, &parsed, json, before.body, arena);
    } else {
        const uint8_t *hash = memchr(parsed.name.data, '#', parsed.name.size);
        ensure(hash != NULL);
        name = bytes_of(hash + 1, (size_t)(parsed.name.data + parsed.name.size - hash) - 1);
        /* Several errors may have one name. */
        if (!bytes_equal(name, bytes_text(status_name(before.status))))
            reply->status = status_named(name);
        (void)error_set(&reply->error, reply->status, "%.*s", (int)parsed.text.size,
                        (const char *)parsed.text.data);
        if (bytes_given(parsed.item))
            reply->details = canonical(parsed.item, arena);
        if (parsed.reason_count != 0) {
            struct buffer reasons = {0};
            put_array(&reasons, parsed.reason_count);
            put(&reasons, buffer_bytes(&parsed.reasons));
            reply->details = arena_copy(arena, buffer_bytes(&reasons));
            buffer_deinit(&reasons);
        }
    }
    buffer_deinit(&parsed.items);
    buffer_deinit(&parsed.reasons);
}

/* ---- the wires ---- */

static void parse_native(struct bytes text, struct reply *reply, struct arena *arena)
{
    struct frame_reply taken;
    ensure(frame_size(text.data) == text.size);
    ensure(frame_read_reply(bytes_of(text.data + FRAME_HEADER, text.size - FRAME_HEADER), &taken) ==
           STATUS_OK);
    reply->status = taken.status;
    reply->details = bytes_given(taken.details) ? arena_copy(arena, taken.details) : BYTES_NONE;
    reply->metrics = bytes_given(taken.metrics) ? arena_copy(arena, taken.metrics) : BYTES_NONE;
    reply->capacity = bytes_given(taken.capacity) ? arena_copy(arena, taken.capacity) : BYTES_NONE;
    if (taken.status != STATUS_OK)
        (void)error_set(&reply->error, taken.status, "%.*s", (int)taken.body.size,
                        (const char *)taken.body.data);
    else
        reply->body = arena_copy(arena, taken.body);
    /* A verdict goes with what could have been cached only. */
    ensure(taken.verdict == reply->verdict);
}

static const struct wire_ops *wire_of(enum over over)
{
    return over == OVER_NATIVE ? &wire_native : &wire_dynamodb;
}

bool over_request(enum over over, struct request *request, struct arena *arena,
                  struct reply *answer)
{
    struct buffer text = {0}, out = {0};
    struct wire_session session = session_of(over);
    size_t used = 0, needed = 0;
    if (over == OVER_NATIVE) {
        request->wants_verdict = true;
        ensure(frame_write_request(request, NULL, &text));
    } else if (!put_http(request, &text)) {
        buffer_deinit(&text);
        return true;
    }
    struct bytes copy = arena_copy(arena, buffer_bytes(&text));
    struct request asked = *request;
    ensure(bytes_given(copy));
    enum wire_result result =
        wire_of(over)->decode(&session, copy, arena, request, &used, &needed, &out);
    ensure(result != WIRE_MORE);
    if (result != WIRE_REQUEST) {
        struct bytes told = arena_copy(arena, buffer_bytes(&out));
        reply_init(answer);
        if (over == OVER_NATIVE)
            parse_native(told, answer, arena);
        else
            parse_http(told, &asked, answer, arena);
        ensure(answer->status != STATUS_OK);
    } else {
        ensure(used == copy.size);
    }
    buffer_deinit(&text);
    buffer_deinit(&out);
    return result == WIRE_REQUEST;
}

void over_reply(enum over over, const struct request *request, struct reply *reply,
                struct arena *arena)
{
    struct buffer out = {0};
    struct wire_session session = session_of(over);
    ensure(wire_of(over)->encode(&session, request, reply, &out));
    struct bytes told = arena_copy(arena, buffer_bytes(&out));
    ensure(bytes_given(told));
    if (over == OVER_NATIVE)
        parse_native(told, reply, arena);
    else
        parse_http(told, request, reply, arena);
    buffer_deinit(&out);
}
