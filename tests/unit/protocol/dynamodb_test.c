/* DynamoDB's API over HTTP/1.1: vectors, streams cut anywhere, limits, and what is refused. */
#include "protocol/dynamodb/http1.h"
#include "protocol/dynamodb/operations.h"
#include "protocol/encoding/json.h"
#include "protocol/wire.h"

#include <jansson.h>
#include <libdeflate.h>

#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { BODY_MAX = 16 << 20, HEAP_MAX = 64 << 20 };

#define LIST_TABLES                                                                                \
    "POST / HTTP/1.1\r\nX-Amz-Target: DynamoDB_20120810.ListTables\r\nContent-Length: 2\r\n\r\n{}"

/* One connection, as decode() sees it. */
struct stream {
    uint8_t *input; /* what the request is a view of */
    struct wire_session session;
    struct arena arena;
    struct buffer out;
    struct request request;
    size_t used, needed;
};

static void stream_init(struct stream *stream)
{
    memset(stream, 0, sizeof *stream);
    stream->session.frame_max = BODY_MAX;
    arena_init(&stream->arena, NULL, 0, HEAP_MAX);
}

static void stream_deinit(struct stream *stream)
{
    arena_deinit(&stream->arena);
    buffer_deinit(&stream->out);
    free(stream->input);
}

/* The copy has no byte behind it, so that a sanitizer sees a read beyond the end. It stays until
 * the next call. */
static enum wire_result decode(struct stream *stream, struct bytes input)
{
    uint8_t *copy = malloc(input.size + (input.size == 0));
    free(stream->input);
    stream->input = copy;
    assert_non_null(copy);
    if (input.size != 0)
        memcpy(copy, input.data, input.size);
    stream->used = stream->needed = SIZE_MAX;
    enum wire_result result =
        wire_dynamodb.decode(&stream->session, bytes_of(copy, input.size), &stream->arena,
                             &stream->request, &stream->used, &stream->needed, &stream->out);
    return result;
}

static enum wire_result decode_text(struct stream *stream, const char *text)
{
    return decode(stream, bytes_text(text));
}

static void assert_bytes(struct bytes actual, struct bytes expected)
{
    if (!bytes_equal(actual, expected))
        fail_msg("got:\n%.*s\nwanted:\n%.*s", (int)actual.size, (const char *)actual.data,
                 (int)expected.size, (const char *)expected.data);
}

static void assert_contains(const struct buffer *out, const char *text)
{
    if (out->size == 0 || memmem(out->data, out->size, text, strlen(text)) == NULL)
        fail_msg("no %s in\n%.*s", text, (int)out->size, (const char *)out->data);
}

/* ---- vectors ---- */

/* Item JSON of a vector, canonically encoded; not given when there is none. */
static struct bytes encoded(json_t *json, struct arena *arena)
{
    struct value value;
    struct error error;
    if (json == NULL)
        return BYTES_NONE;
    char *text = json_dumps(json, JSON_COMPACT);
    assert_int_equal(json_to_item(bytes_text(text), arena, &value, &error), STATUS_OK);
    free(text);
    return value_encode_arena(&value, arena);
}

static struct bytes text_member(json_t *vector, const char *name)
{
    json_t *member = json_object_get(vector, name);
    return member == NULL ? BYTES_NONE : bytes_text(json_string_value(member));
}

static void check_map(struct stream *stream, json_t *vector, const char *name, struct bytes actual)
{
    struct bytes expected = encoded(json_object_get(vector, name), &stream->arena);
    assert_int_equal(bytes_given(actual), bytes_given(expected));
    struct value value;
    struct error error;
    struct msgpack_cursor cursor = msgpack_cursor_of(actual);
    if (!bytes_given(actual))
        return;
    assert_int_equal(value_decode(&cursor, &stream->arena, &value, &error), STATUS_OK);
    assert_true(cursor.at == cursor.end);
    assert_bytes(value_encode_arena(&value, &stream->arena), expected);
}

static void check_request(json_t *vector)
{
    struct stream stream;
    stream_init(&stream);
    struct bytes http = text_member(vector, "http");
    enum wire_result result = decode(&stream, http);
    if (result != WIRE_REQUEST)
        fail_msg("%.*s\n%.*s", (int)http.size, (const char *)http.data, (int)stream.out.size,
                 (const char *)stream.out.data);
    const struct request *request = &stream.request;
    assert_int_equal(stream.used, http.size);
    assert_int_equal(stream.out.size, 0);
    assert_bytes(bytes_text(operation_name(request->operation)), text_member(vector, "operation"));
    assert_bytes(request->table_name, text_member(vector, "table"));
    assert_bytes(request->key_condition.text, text_member(vector, "condition"));
    check_map(&stream, vector, "key", request->key);
    check_map(&stream, vector, "item", request->item);
    check_map(&stream, vector, "start", request->start_key);
    check_map(&stream, vector, "names", request->key_condition.names);
    check_map(&stream, vector, "values", request->key_condition.values);
    check_map(&stream, vector, "definition", request->definition);
    assert_int_equal(request->limit, json_integer_value(json_object_get(vector, "limit")));
    assert_int_equal(request->is_consistent, json_is_true(json_object_get(vector, "consistent")));
    assert_int_equal(request->is_backward, json_is_true(json_object_get(vector, "backward")));
    assert_true(request->wants_verdict);
    assert_false(stream.session.is_last);
    stream_deinit(&stream);
}

/* A page as a store gives it: items, ScannedCount, LastEvaluatedKey. */
static struct bytes encoded_page(json_t *vector, struct arena *arena, struct buffer *out)
{
    json_t *items = json_object_get(vector, "items");
    json_t *key = json_object_get(vector, "key");
    uint8_t head[] = {0x93, (uint8_t)(0x90 | json_array_size(items))};
    uint8_t scanned = (uint8_t)json_integer_value(json_object_get(vector, "scanned"));
    uint8_t nil = 0xc0;
    assert_true(buffer_append(out, bytes_of(head, 2)));
    for (size_t i = 0; i < json_array_size(items); i++)
        assert_true(buffer_append(out, encoded(json_array_get(items, i), arena)));
    assert_true(buffer_append(out, bytes_of(&scanned, 1)));
    assert_true(buffer_append(out, key == NULL ? bytes_of(&nil, 1) : encoded(key, arena)));
    return buffer_bytes(out);
}

static enum operation operation_by_name(struct bytes name)
{
    for (int i = 0; i < OPERATIONS; i++)
        if (bytes_equal(name, bytes_text(operation_name((enum operation)i))))
            return (enum operation)i;
    fail();
    return OPERATION_PING;
}

static void check_reply(json_t *vector)
{
    struct stream stream;
    struct buffer page = {0};
    struct reply reply;
    stream_init(&stream);
    reply_init(&reply);
    struct request request = {.operation = operation_by_name(text_member(vector, "operation")),
                              .id = (uint64_t)json_integer_value(json_object_get(vector, "id")),
                              .wants_verdict = true};
    reply.verdict = (enum verdict)json_integer_value(json_object_get(vector, "verdict"));
    reply.age_ms = (uint32_t)json_integer_value(json_object_get(vector, "age"));
    stream.session.is_last = json_is_true(json_object_get(vector, "last"));
    if (json_object_get(vector, "items") != NULL)
        reply.body = encoded_page(vector, &stream.arena, &page);
    else if (json_object_get(vector, "plain") != NULL)
        reply.body = encoded(json_object_get(vector, "plain"), &stream.arena);
    else if (json_object_get(vector, "item") != NULL)
        reply.body = encoded(json_object_get(vector, "item"), &stream.arena);
    else
        reply.body = BYTES_LITERAL("\xc0");
    assert_true(wire_dynamodb.encode(&stream.session, &request, &reply, &stream.out));
    assert_bytes(buffer_bytes(&stream.out), text_member(vector, "http"));
    buffer_deinit(&page);
    stream_deinit(&stream);
}

static void check_error(json_t *vector)
{
    struct stream stream;
    struct reply reply;
    stream_init(&stream);
    reply_init(&reply);
    reply.status = (enum status)json_integer_value(json_object_get(vector, "status"));
    (void)error_set(&reply.error, reply.status, "%s",
                    json_string_value(json_object_get(vector, "text")));
    struct request request = {.operation = OPERATION_GET_ITEM,
                              .id = (uint64_t)json_integer_value(json_object_get(vector, "id"))};
    assert_true(wire_dynamodb.encode(&stream.session, &request, &reply, &stream.out));
    assert_bytes(buffer_bytes(&stream.out), text_member(vector, "http"));
    stream_deinit(&stream);
}

static void every_vector_is_read_and_written_as_it_says(void **state)
{
    (void)state;
    json_t *vectors = json_load_file(MUDAX_SOURCE "/tests/vectors/dynamodb.json", 0, NULL);
    assert_true(json_array_size(vectors) > 20);
    size_t index;
    json_t *vector;
    json_array_foreach(vectors, index, vector)
    {
        const char *kind = json_string_value(json_object_get(vector, "kind"));
        if (strcmp(kind, "request") == 0)
            check_request(vector);
        else if (strcmp(kind, "reply") == 0)
            check_reply(vector);
        else
            check_error(vector);
    }
    json_decref(vectors);
}

/* ---- streams ---- */

/* Gives a stream `step` bytes more at a time, as a daemon does, and returns how many requests came.
 * What a request says is checked by `check`. */
static size_t feed(struct stream *stream, struct bytes input, size_t step,
                   void (*check)(const struct request *request, size_t number))
{
    size_t requests = 0, from = 0, to = 0;
    while (to < input.size) {
        to = to + step < input.size ? to + step : input.size;
        for (;;) {
            enum wire_result result = decode(stream, bytes_of(input.data + from, to - from));
            if (result == WIRE_MORE) {
                assert_true(stream->needed > to - from);
                break;
            }
            assert_int_equal(result, WIRE_REQUEST);
            assert_true(stream->used > 0 && stream->used <= to - from);
            check(&stream->request, requests++);
            arena_reset(&stream->arena);
            from += stream->used;
        }
    }
    assert_int_equal(from, input.size);
    return requests;
}

static const char three_requests[] =
    "POST / HTTP/1.1\r\nHost: x\r\nX-Amz-Target: DynamoDB_20120810.DescribeTable\r\n"
    "Content-Length: 22\r\n\r\n{\"TableName\": \"Shop0\"}"
    "\r\nPOST /?q HTTP/1.1\r\nx-amz-target:DynamoDB_20120810.DescribeTable \t\r\n"
    "Transfer-Encoding: chunked\r\n\r\n5\r\n{\"Tab\r\n1;name=value\r\nl\r\n10\r\neName\": "
    "\"Shop1\"}"
    "\r\n0\r\nX-Amz-Target: DynamoDB_20120810.ListTables\r\n\r\n"
    "POST http://localhost:8000 HTTP/1.1\r\nX-AMZ-TARGET: DynamoDB_20120810.DescribeTable\r\n"
    "Content-Length: 22\r\nExpect: nothing\r\n\r\n{\"TableName\": \"Shop2\"}";

static void check_numbered(const struct request *request, size_t number)
{
    char name[] = "Shop?";
    name[4] = (char)('0' + number);
    assert_int_equal(request->operation, OPERATION_DESCRIBE_TABLE);
    assert_bytes(request->table_name, bytes_text(name));
}

static void a_stream_cut_anywhere_holds_the_same_requests(void **state)
{
    (void)state;
    struct bytes input = bytes_of(three_requests, sizeof three_requests - 1);
    for (size_t step = 1; step <= input.size; step++) {
        struct stream stream;
        stream_init(&stream);
        assert_int_equal(feed(&stream, input, step, check_numbered), 3);
        assert_int_equal(stream.out.size, 0);
        stream_deinit(&stream);
    }
}

static void the_size_of_a_request_is_known_with_its_head(void **state)
{
    (void)state;
    struct stream stream;
    stream_init(&stream);
    size_t size = sizeof LIST_TABLES - 1;
    assert_int_equal(decode(&stream, bytes_of(LIST_TABLES, 0)), WIRE_MORE);
    assert_int_equal(stream.needed, 1);
    assert_int_equal(decode(&stream, bytes_of(LIST_TABLES, size - 2)), WIRE_MORE);
    assert_int_equal(stream.needed, size);
    assert_int_equal(decode(&stream, bytes_of(LIST_TABLES, size - 1)), WIRE_MORE);
    assert_int_equal(stream.needed, size);
    assert_int_equal(decode(&stream, bytes_of(LIST_TABLES, size - 1)), WIRE_MORE); /* nothing new */
    assert_int_equal(decode(&stream, bytes_of(LIST_TABLES, size)), WIRE_REQUEST);
    stream_deinit(&stream);
}

static void the_same_bytes_decode_to_the_same_request_again(void **state)
{
    (void)state;
    struct stream stream;
    stream_init(&stream);
    struct bytes input = bytes_of(three_requests, sizeof three_requests - 1);
    assert_int_equal(decode(&stream, bytes_of(input.data, 40)), WIRE_MORE);
    assert_int_equal(decode(&stream, input), WIRE_REQUEST);
    size_t used = stream.used;
    uint64_t id = stream.request.id;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(decode(&stream, bytes_of(input.data, used)), WIRE_REQUEST);
        check_numbered(&stream.request, 0);
        assert_int_equal(stream.used, used);
        assert_true(stream.request.id != id); /* told to the client, and differs every time */
        id = stream.request.id;
    }
    stream_deinit(&stream);
}

static void a_client_that_expects_it_is_told_to_go_on_once(void **state)
{
    (void)state;
    static const char head[] = "POST / HTTP/1.1\r\nX-Amz-Target: DynamoDB_20120810.ListTables\r\n"
                               "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n";
    char whole[sizeof head + 2];
    (void)snprintf(whole, sizeof whole, "%s{}", head);
    size_t size = sizeof head - 1;
    for (size_t cut = 1; cut <= size; cut++) {
        struct stream stream;
        stream_init(&stream);
        if (cut < size)
            assert_int_equal(decode(&stream, bytes_of(whole, cut)), WIRE_MORE);
        assert_int_equal(stream.out.size, 0);
        assert_int_equal(decode(&stream, bytes_of(whole, size)), WIRE_ANSWERED);
        assert_int_equal(stream.used, 0);
        assert_bytes(buffer_bytes(&stream.out), BYTES_LITERAL("HTTP/1.1 100 Continue\r\n\r\n"));
        assert_int_equal(decode(&stream, bytes_of(whole, size)), WIRE_MORE);
        assert_int_equal(stream.needed, size + 2);
        assert_int_equal(decode(&stream, bytes_of(whole, size + 1)), WIRE_MORE);
        assert_int_equal(decode(&stream, bytes_of(whole, size + 2)), WIRE_REQUEST);
        /* The next one of the connection is told again. */
        assert_int_equal(decode(&stream, bytes_of(whole, size)), WIRE_ANSWERED);
        stream_deinit(&stream);
    }
    struct stream stream;
    stream_init(&stream);
    assert_int_equal(decode(&stream, bytes_of(whole, size + 2)), WIRE_REQUEST);
    assert_int_equal(stream.out.size, 0); /* its body came unasked */
    stream_deinit(&stream);
}

/* ---- the end of a connection ---- */

static void a_connection_ends_when_http_says_so(void **state)
{
    (void)state;
    static const struct {
        const char *version, *field;
        bool is_last;
    } cases[] = {
        {"1.1", "", false},
        {"1.1", "Connection: keep-alive\r\n", false},
        {"1.1", "Connection: close\r\n", true},
        {"1.1", "connection: TE, Close\r\n", true},
        {"1.0", "", true},
        {"1.0", "Connection: keep-alive\r\n", false},
        {"1.0", "Connection: close\r\n", true},
        {"1.0", "Expect: 100-continue\r\n", true},
        {"1.1", "Connection: Upgrade\r\nUpgrade: h2c\r\n", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct stream stream;
        struct reply reply;
        char text[512];
        stream_init(&stream);
        (void)snprintf(text, sizeof text,
                       "POST / HTTP/%s\r\nX-Amz-Target: DynamoDB_20120810.ListTables\r\n"
                       "%sContent-Length: 2\r\n\r\n{}",
                       cases[i].version, cases[i].field);
        assert_int_equal(decode(&stream, bytes_of(text, strlen(text) - 1)), WIRE_MORE);
        assert_int_equal(decode_text(&stream, text), WIRE_REQUEST);
        assert_int_equal(stream.session.is_last, cases[i].is_last);
        reply_init(&reply);
        reply.body = BYTES_LITERAL("\x80");
        assert_true(wire_dynamodb.encode(&stream.session, &stream.request, &reply, &stream.out));
        bool is_told = memmem(stream.out.data, stream.out.size, "Connection: close", 17) != NULL;
        assert_int_equal(is_told, cases[i].is_last);
        is_told = memmem(stream.out.data, stream.out.size, "Connection: keep-alive", 22) != NULL;
        assert_int_equal(is_told, !cases[i].is_last && cases[i].version[2] == '0');
        stream_deinit(&stream);
    }
}

static void probes_are_answered(void **state)
{
    (void)state;
    static const char *const probes[] = {"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
                                         "GET /healthz HTTP/1.1\r\n\r\n",
                                         "GET /ping?x=y HTTP/1.1\r\n\r\n"};
    for (size_t i = 0; i < 3; i++) {
        struct stream stream;
        stream_init(&stream);
        assert_int_equal(decode_text(&stream, probes[i]), WIRE_ANSWERED);
        assert_int_equal(stream.used, strlen(probes[i]));
        assert_false(stream.session.is_last);
        assert_contains(&stream.out, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n");
        assert_contains(&stream.out, "\r\n\r\nhealthy: dynamodb\n");
        stream.out.size = 0;
        assert_int_equal(decode_text(&stream, "HEAD / HTTP/1.0\r\n\r\n"), WIRE_ANSWERED);
        assert_true(stream.session.is_last);
        assert_contains(&stream.out, "Content-Length: 18\r\n");
        assert_bytes(bytes_of(stream.out.data + stream.out.size - 4, 4), BYTES_LITERAL("\r\n\r\n"));
        stream_deinit(&stream);
    }
}

/* ---- refusals ---- */

#define POST(operation, body)                                                                      \
    "POST / HTTP/1.1\r\nX-Amz-Target: DynamoDB_20120810." operation                                \
    "\r\nContent-Length: @\r\n\r\n" body

struct refused {
    const char *request, *head, *type, *text;
};

/* Puts the length of the body in the place of the @ in POST(). */
static void fill_length(const char *text, char *out, size_t size)
{
    const char *at = strchr(text, '@');
    const char *body = at == NULL ? NULL : strstr(at, "\r\n\r\n");
    if (body == NULL)
        (void)snprintf(out, size, "%s", text);
    else
        (void)snprintf(out, size, "%.*s%zu%s", (int)(at - text), text, strlen(body + 4), at + 1);
}

static void check_refused(const struct refused *refused, enum wire_result expected)
{
    struct stream stream;
    char request[512];
    stream_init(&stream);
    fill_length(refused->request, request, sizeof request);
    enum wire_result result = decode_text(&stream, request);
    if (result != expected)
        fail_msg("%d instead of %d for\n%s", result, expected, request);
    char first_line[64], type[128];
    (void)snprintf(first_line, sizeof first_line, "HTTP/1.1 %s\r\n", refused->head);
    bool is_form = strstr(refused->type, "SerializationException") != NULL;
    (void)snprintf(type, sizeof type, "{\"__type\":\"%s\",\"%s\":\"", refused->type,
                   is_form ? "Message" : "message");
    assert_contains(&stream.out, first_line);
    assert_contains(&stream.out, type);
    assert_contains(&stream.out, refused->text);
    assert_int_equal(stream.session.is_last, expected == WIRE_BROKEN);
    if (expected == WIRE_BROKEN) {
        assert_contains(&stream.out, "\r\nConnection: close\r\n");
    } else {
        /* The next request is none the worse for it. */
        assert_int_equal(stream.used, strlen(request));
        assert_int_equal(decode_text(&stream, LIST_TABLES), WIRE_REQUEST);
    }
    stream_deinit(&stream);
}

#define SERIALIZATION "com.amazon.coral.service#SerializationException"
#define VALIDATION    "com.amazon.coral.validate#ValidationException"
#define UNKNOWN       "com.amazon.coral.service#UnknownOperationException"
#define BAD           "400 Bad Request"

static void what_cannot_be_served_is_refused_by_name(void **state)
{
    (void)state;
    static const struct refused cases[] = {
        {"POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}", BAD, UNKNOWN, "X-Amz-Target is missing"},
        {POST("ListBackups", "{}"), BAD, UNKNOWN, "DynamoDB_20120810.ListBackups is not supp"},
        {POST("ConditionCheck", "{}"), BAD, UNKNOWN,
         "DynamoDB_20120810.ConditionCheck is not supp"},
        {POST("FillIndex", "{}"), BAD, UNKNOWN, "DynamoDB_20120810.FillIndex is not supp"},
        {POST("BatchGetItem", "{}"), BAD, VALIDATION, "Value null at 'requestItems'"},
        {POST("TransactWriteItems", "{}"), BAD, VALIDATION, "Value null at 'transactItems'"},
        {POST("BatchGetItem", "{\"RequestItems\":[]}"), BAD, SERIALIZATION, "Start of list"},
        {POST("BatchGetItem", "{\"RequestItems\":{\"T\":{}}}"), BAD, VALIDATION,
         "Value null at 'requestItems.T.member.keys'"},
        {POST("BatchGetItem", "{\"RequestItems\":{\"T\":{\"Keys\":[]}}}"), BAD, VALIDATION,
         "Value '[]' at 'requestItems.T.member.keys'"},
        {POST("BatchGetItem", "{\"RequestItems\":{\"T\":{\"Keys\":[}}}"), BAD, SERIALIZATION, ""},
        {POST("BatchWriteItem", "{\"RequestItems\":{\"T\":[]}}"), BAD, VALIDATION,
         "Value '{T=[]}' at 'requestItems' failed to satisfy constraint: Map value must"},
        {POST("BatchGetItem", "{\"RequestItems\":{\"T\":{\"Keys\":[{\"p\":1}]}}}"), BAD,
         SERIALIZATION, ""},
        {POST("BatchGetItem", "{\"RequestItems\":{\"T\":{\"Item\":{}}}}"), BAD, VALIDATION,
         "GetItem: the member Item is not supported"},
        {POST("BatchWriteItem", "{\"RequestItems\":{\"T\":[{}]}}"), BAD, VALIDATION,
         "exactly one of PutRequest and DeleteRequest"},
        {POST("BatchWriteItem", "{\"RequestItems\":{\"T\":[{\"PutRequest\":{\"Item\":{}},"
                                "\"DeleteRequest\":{\"Key\":{}}}]}}"),
         BAD, VALIDATION, "exactly one of PutRequest and DeleteRequest"},
        {POST("BatchWriteItem", "{\"RequestItems\":{\"T\":[{\"PutRequest\":{\"Key\":{}}}]}}"), BAD,
         VALIDATION, "The member Key is not supported here"},
        {POST("TransactWriteItems", "{\"TransactItems\":[{\"Get\":{}}]}"), BAD, VALIDATION,
         "TransactItems can only contain one of Check, Put, Update or Delete"},
        {POST("TransactGetItems", "{\"TransactItems\":[{\"Put\":{}}]}"), BAD, VALIDATION,
         "TransactItems can only contain one of Get"},
        {POST("TransactWriteItems", "{\"TransactItems\":[{\"ConditionCheck\":{\"TableName\":\"T\","
                                    "\"Key\":{\"p\":{\"S\":\"k\"}}}}]}"),
         BAD, VALIDATION, "Value null at 'conditionExpression'"},
        {POST("TransactWriteItems", "{\"TransactItems\":[],\"TransactItems\":[]}"), BAD,
         SERIALIZATION, "The member TransactItems is given twice"},
        {POST("UpdateTable", "{\"KeySchema\":[]}"), BAD, VALIDATION,
         "UpdateTable: the member KeySchema is not supported"},
        {POST("Ping", "{}"), BAD, UNKNOWN, "DynamoDB_20120810.Ping"},
        {"POST / HTTP/1.1\r\nX-Amz-Target: Dynamo.GetItem\r\n\r\n", BAD, UNKNOWN, "Dynamo.GetItem"},
        {"GET /metrics HTTP/1.1\r\n\r\n", "404 Not Found", UNKNOWN, "under this path"},
        {"POST /x HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}", "404 Not Found", UNKNOWN, "sent to /"},
        {"DELETE / HTTP/1.1\r\n\r\n", "405 Method Not Allowed", UNKNOWN, "by POST"},
        {"HELLO / HTTP/1.1\r\n\r\n", "405 Method Not Allowed", UNKNOWN, "by POST"},
        {"OPTIONS * HTTP/1.1\r\n\r\n", "405 Method Not Allowed", UNKNOWN, "by POST"},
        {POST("GetItem", ""), BAD, SERIALIZATION, "Not JSON"},
        {POST("GetItem", "[]"), BAD, SERIALIZATION, "Start of list found where not expected"},
        {POST("GetItem", "{\"TableName\":\"a\",\"TableName\":\"b\"}"), BAD, SERIALIZATION,
         "The member TableName is given twice"},
        {POST("CreateTable", "{\"TableName\":\"a\",\"TableName\":\"b\"}"), BAD, VALIDATION,
         "Duplicate attribute name: TableName"},
        /* What is no JSON is told before anything else. */
        {POST("GetItem", "{\"TableName\":7,"), BAD, SERIALIZATION, "Not JSON"},
        {POST("GetItem", "{}"), BAD, VALIDATION, "Value null at 'tableName'"},
        {POST("GetItem", "{\"TableName\":\"T\"}"), BAD, VALIDATION, "Value null at 'key'"},
        {POST("PutItem", "{\"TableName\":\"T\"}"), BAD, VALIDATION, "Value null at 'item'"},
        {POST("GetItem", "{\"TableName\":1}"), BAD, SERIALIZATION,
         "NUMBER_VALUE cannot be converted to String"},
        {POST("GetItem", "{\"TableName\":true}"), BAD, SERIALIZATION,
         "TRUE_VALUE cannot be converted to String"},
        {POST("GetItem", "{\"Key\":\"k\"}"), BAD, SERIALIZATION, "Unexpected field type"},
        {POST("GetItem", "{\"Key\":{\"p\":{\"S\":1}}}"), BAD, SERIALIZATION,
         "NUMBER_VALUE cannot be converted to String"},
        {POST("GetItem", "{\"Key\":{\"p\":{\"X\":1}}}"), BAD, VALIDATION,
         "Supplied AttributeValue is empty"},
        {POST("GetItem", "{\"Key\":{\"p\":{\"N\":\"1e999\"}}}"), BAD, VALIDATION,
         "Number overflow"},
        {POST("GetItem", "{\"ConsistentRead\":\"no\"}"), BAD, SERIALIZATION,
         "STRING_VALUE cannot be converted to Boolean"},
        {POST("GetItem", "{\"FilterExpression\":\"a = b\"}"), BAD, VALIDATION,
         "GetItem: the member FilterExpression is not supported"},
        {POST("GetItem", "{\"ExpressionAttributeValues\":{}}"), BAD, VALIDATION,
         "GetItem: the member ExpressionAttributeValues is not supported"},
        {POST("GetItem", "{\"AttributeUpdates\":{}}"), BAD, VALIDATION,
         "GetItem: the member AttributeUpdates is not supported"},
        {POST("UpdateItem", "{\"TableName\":\"T\"}"), BAD, VALIDATION, "Value null at 'key'"},
        {POST("Query", "{\"Limit\":0}"), BAD, VALIDATION, "greater than or equal to 1"},
        {POST("Scan", "{\"Segment\":-1}"), BAD, VALIDATION, "greater than or equal to 0"},
        {POST("Scan", "{\"TotalSegments\":0}"), BAD, VALIDATION, "greater than or equal to 1"},
        {POST("Query", "{\"Limit\":.5}"), BAD, SERIALIZATION, "Not JSON"},
        {POST("Query", "{\"Limit\":0.5}"), BAD, SERIALIZATION,
         "DECIMAL_VALUE cannot be converted to Integer"},
        {POST("Query", "{\"Select\":\"ALL\"}"), BAD, VALIDATION,
         "Member must satisfy enum value set: [SPECIFIC_ATTRIBUTES, COUNT, ALL_ATTRIBUTES"},
        {POST("Query", "{\"ExpressionAttributeNames\":{\"#a\":[]}}"), BAD, SERIALIZATION,
         "Unrecognized collection type class java.lang.String"},
        {POST("PutItem", "{\"ReturnValues\":\"OLD\"}"), BAD, VALIDATION,
         "Member must satisfy enum value set: [ALL_NEW, UPDATED_OLD, ALL_OLD, NONE, UPDATED_NEW]"},
        {POST("PutItem", "{\"ReturnValuesOnConditionCheckFailure\":\"NEW\"}"), BAD, VALIDATION,
         "Member must satisfy enum value set: [ALL_OLD, NONE]"},
        {POST("GetItem", "{\"ReturnConsumedCapacity\":\"ALL\"}"), BAD, VALIDATION,
         "Member must satisfy enum value set: [INDEXES, TOTAL, NONE]"},
        {POST("CreateTable", "{\"ResourcePolicy\":\"\"}"), BAD, VALIDATION,
         "CreateTable: the member ResourcePolicy is not supported"},
        {"POST / HTTP/1.1\r\nX-Amz-Target: DynamoDB_20120810.ListTables\r\n"
         "Content-Encoding: br\r\nContent-Length: 2\r\n\r\n{}",
         BAD, SERIALIZATION, "Content-Encoding must be gzip"},
        {"POST / HTTP/1.1\r\nX-Amz-Target: DynamoDB_20120810.ListTables\r\n"
         "Content-Encoding: gzip\r\n\r\n",
         BAD, SERIALIZATION, "The body is not what Content-Encoding: gzip says"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        check_refused(&cases[i], WIRE_ANSWERED);
}

static void what_says_nothing_of_data_is_answered_by_the_wire(void **state)
{
    (void)state;
    static const struct {
        const char *request, *text;
    } cases[] = {
        {POST("DescribeLimits", "{}"),
         "\r\n\r\n{\"AccountMaxReadCapacityUnits\":80000,\"AccountMaxWriteCapacityUnits\":80000,"},
        {POST("DescribeEndpoints", "{ }"),
         "{\"Endpoints\":[{\"Address\":\"localhost\",\"CachePeriodInMinutes\":1440}]}"},
        {"POST / HTTP/1.1\r\nhost: a\"b:8000 \r\nX-Amz-Target: DynamoDB_20120810.DescribeEndpoints"
         "\r\nContent-Length: 2\r\n\r\n{}",
         "{\"Endpoints\":[{\"Address\":\"a\\\"b:8000\",\"CachePeriodInMinutes\":1440}]}"},
        {POST("DescribeLimits", "{\"X\":1}"), "DescribeLimits: the member X is not supported"},
        {POST("DescribeEndpoints", "[]"), "Start of list found where not expected"},
        {POST("DescribeEndpoints", ""), "Not JSON"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct stream stream;
        char request[512];
        stream_init(&stream);
        fill_length(cases[i].request, request, sizeof request);
        assert_int_equal(decode_text(&stream, request), WIRE_ANSWERED);
        assert_int_equal(stream.used, strlen(request));
        assert_contains(&stream.out, cases[i].text);
        stream_deinit(&stream);
    }
}

/* A request whose length is filled in. */
static enum wire_result decode_post(struct stream *stream, const char *text)
{
    char request[512];
    fill_length(text, request, sizeof request);
    return decode_text(stream, request);
}

static void expressions_and_choices_are_read(void **state)
{
    (void)state;
    struct stream stream;
    const struct request *request = &stream.request;
    stream_init(&stream);
    assert_int_equal(
        decode_post(&stream,
                    POST("UpdateItem", "{\"TableName\":\"T\",\"Key\":{\"p\":{\"S\":\"k\"}},"
                                       "\"UpdateExpression\":\"SET #a = :v\","
                                       "\"ConditionExpression\":\"#a < :v\","
                                       "\"ExpressionAttributeNames\":{\"#a\":\"a\"},"
                                       "\"ExpressionAttributeValues\":{\":v\":{\"N\":\"1\"}},"
                                       "\"ReturnValues\":\"UPDATED_NEW\"}")),
        WIRE_REQUEST);
    assert_int_equal(request->operation, OPERATION_UPDATE_ITEM);
    assert_bytes(request->update, BYTES_LITERAL("SET #a = :v"));
    assert_bytes(request->condition, BYTES_LITERAL("#a < :v"));
    assert_true(bytes_given(request->key) && bytes_given(request->key_condition.names) &&
                bytes_given(request->key_condition.values));
    assert_int_equal(request->return_values, RETURN_UPDATED_NEW);
    stream_deinit(&stream);

    stream_init(&stream);
    assert_int_equal(decode_post(&stream, POST("Query", "{\"TableName\":\"T\","
                                                        "\"FilterExpression\":\"a = b\","
                                                        "\"ProjectionExpression\":\"a, b\","
                                                        "\"Select\":\"COUNT\"}")),
                     WIRE_REQUEST);
    assert_bytes(request->filter, BYTES_LITERAL("a = b"));
    assert_bytes(request->projection, BYTES_LITERAL("a, b"));
    assert_int_equal(request->select, SELECT_COUNT);
    stream_deinit(&stream);

    stream_init(&stream);
    assert_int_equal(decode_post(&stream, POST("Scan", "{\"TotalSegments\":4,\"Segment\":0,"
                                                       "\"TableName\":\"T\",\"IndexName\":\"I\"}")),
                     WIRE_REQUEST);
    assert_int_equal(request->operation, OPERATION_SCAN);
    assert_true(request->has_segment && request->segment == 0 && request->segments == 4);
    assert_bytes(request->index_name, BYTES_LITERAL("I"));
    stream_deinit(&stream);
}

static void what_writes_and_counts_answer(void **state)
{
    (void)state;
    static const struct {
        enum operation operation;
        struct bytes body;
        const char *text;
    } cases[] = {
        {OPERATION_UPDATE_ITEM,
         {(const uint8_t *)"\x81\xa1n\x07", 4},
         "\r\n\r\n{\"Attributes\":{\"n\":{\"N\":\"7\"}}}"},
        {OPERATION_PUT_ITEM, {(const uint8_t *)"\x81\xa1n\x07", 4}, "{\"Attributes\":{\"n\":"},
        {OPERATION_DELETE_ITEM, {(const uint8_t *)"\xc0", 1}, "\r\n\r\n{}"},
        {OPERATION_QUERY,
         {(const uint8_t *)"\x93\x02\x05\xc0", 4},
         "\r\n\r\n{\"Count\":2,\"ScannedCount\":5}"},
        {OPERATION_SCAN,
         {(const uint8_t *)"\x93\x90\x05\xc0", 4},
         "\r\n\r\n{\"Items\":[],\"Count\":0,\"ScannedCount\":5}"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct buffer out = {0};
        struct request request = {.operation = cases[i].operation};
        struct reply reply;
        reply_init(&reply);
        reply.body = cases[i].body;
        assert_true(operations_write_reply(&request, &reply, false, &out));
        assert_contains(&out, cases[i].text);
        buffer_deinit(&out);
    }
}

#define CHUNKED "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
#define CHUNKED_LIST                                                                               \
    "POST / HTTP/1.1\r\nX-Amz-Target: DynamoDB_20120810.ListTables\r\n"                            \
    "Transfer-Encoding: chunked\r\n\r\n"
#define TOO_LARGE "413 Payload Too Large", "com.amazonaws.dynamodb.v20120810#RequestEntityTooLarge"

static void what_is_not_http_ends_the_connection(void **state)
{
    (void)state;
    static const struct refused cases[] = {
        {"\x0c\x93\x01", BAD, SERIALIZATION, "Malformed HTTP request: invalid HTTP method"},
        {"HEL(O / HTTP/1.1\r\n\r\n", BAD, SERIALIZATION, "invalid HTTP method"},
        {" / HTTP/1.1\r\n\r\n", BAD, SERIALIZATION, "invalid HTTP method"},
        {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", BAD, SERIALIZATION, "neither HTTP/1.1 nor HTTP/1.0"},
        {"POST / HTTP/1.1 \r\n\r\n", BAD, SERIALIZATION, "neither HTTP/1.1 nor HTTP/1.0"},
        {"POST  / HTTP/1.1\r\n\r\n", BAD, SERIALIZATION, "neither HTTP/1.1 nor HTTP/1.0"},
        {"GET /\r\n\r\n", BAD, SERIALIZATION, "neither HTTP/1.1 nor HTTP/1.0"},
        {"POST  HTTP/1.1\r\n\r\n", BAD, SERIALIZATION, "invalid target"},
        {"POST /\x01 HTTP/1.1\r\n\r\n", BAD, SERIALIZATION, "invalid target"},
        {"POST / HTTP/1.1\r\nX-Amz-Target: a\r\n b\r\n\r\n", BAD, SERIALIZATION, "second line"},
        {"POST / HTTP/1.1\r\nHost : x\r\n\r\n", BAD, SERIALIZATION, "invalid name of a header"},
        {"POST / HTTP/1.1\r\nHost\r\n\r\n", BAD, SERIALIZATION, "invalid name of a header"},
        {"POST / HTTP/1.1\r\n: x\r\n\r\n", BAD, SERIALIZATION, "invalid name of a header"},
        {"POST / HTTP/1.1\r\nX: a\x01\r\n\r\n", BAD, SERIALIZATION, "a control character"},
        {"POST / HTTP/1.1\r\nX: a\rY: b\r\n\r\n", BAD, SERIALIZATION, "a control character"},
        {"POST / HTTP/1.1\r\nX: a\x7f\r\n\r\n", BAD, SERIALIZATION, "a control character"},
        {"POST /?a\tb HTTP/1.1\r\n\r\n", BAD, SERIALIZATION, "invalid target"},
        {"POST /?\xc3\xa9 HTTP/1.1\r\n\r\n", BAD, SERIALIZATION, "invalid target"},
        {"\nPOST / HTTP/1.1\r\n\r\n", BAD, SERIALIZATION, "invalid HTTP method"},
        {"POST / HTTP/1.1\n\r\n", BAD, SERIALIZATION, "neither HTTP/1.1 nor HTTP/1.0"},
        {"POST / HTTP/1.1\r\nX: a\nY: b\r\n\r\n", BAD, SERIALIZATION, "a control character"},
        {"POST / HTTP/1.1\r\nX: a\r\n\n\r\n", BAD, SERIALIZATION, "invalid name of a header"},
        {"POST / HTTP/1.1\r\nX-Amz-Target: a\r\nx-amz-target: a\r\n\r\n", BAD, SERIALIZATION,
         "given twice"},
        {"POST / HTTP/1.1\r\nContent-Encoding: gzip\r\nContent-Encoding:\r\n\r\n", BAD,
         SERIALIZATION, "given twice"},
        {"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", BAD, SERIALIZATION, "content-length"},
        {"POST / HTTP/1.1\r\nContent-Length: \r\n\r\n", BAD, SERIALIZATION, "content-length"},
        {"POST / HTTP/1.1\r\nContent-Length: 2, 2\r\n\r\n{}", BAD, SERIALIZATION, "content-length"},
        {"POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n{}", BAD, SERIALIZATION,
         "content-length"},
        {"POST / HTTP/1.1\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}", BAD,
         SERIALIZATION, "content-length"},
        {"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n{}", BAD,
         SERIALIZATION, "content-length"},
        {"POST / HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n{}", BAD, SERIALIZATION,
         "transfer-encoding"},
        {"POST / HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n{}", BAD, SERIALIZATION,
         "transfer-encoding"},
        {"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", BAD, SERIALIZATION,
         "transfer-encoding"},
        {CHUNKED "x\r\n", BAD, SERIALIZATION, "chunk size"},
        {CHUNKED "2x\r\n{}\r\n", BAD, SERIALIZATION, "chunk size"},
        {CHUNKED "2\n{}\r\n", BAD, SERIALIZATION, "chunk size"},
        {CHUNKED "2;a\x01\r\n{}\r\n", BAD, SERIALIZATION, "chunk size"},
        {CHUNKED ";a\r\n{}\r\n", BAD, SERIALIZATION, "chunk size"},
        {CHUNKED "2 2\r\n{}\r\n", BAD, SERIALIZATION, "chunk size"},
        {CHUNKED "2 \r\n{}\r\n", BAD, SERIALIZATION, "chunk size"},
        {CHUNKED "2;a\n\r\n{}\r\n", BAD, SERIALIZATION, "chunk size"},
        {CHUNKED "0\r\nX\r\n\r\n", BAD, SERIALIZATION, "invalid name of a header"},
        {CHUNKED "0\r\nX: a\r\n b\r\n\r\n", BAD, SERIALIZATION, "second line"},
        {CHUNKED "0\r\nX: a\rb\r\n\r\n", BAD, SERIALIZATION, "a control character"},
        {CHUNKED "0\r\n\nPOST / HTTP/1.1\r\n\r\n", BAD, SERIALIZATION, "invalid name of a header"},
        {CHUNKED "0000000000000002\r\n{}\r\n", BAD, SERIALIZATION, "chunk size"},
        {CHUNKED "1\r\n{}\r\n0\r\n\r\n", BAD, SERIALIZATION, "longer than its chunk size"},
        {CHUNKED "fffffffff\r\n{", TOO_LARGE, "may have 16777216 bytes"},
        {CHUNKED "fffffffffffffff\r\n{", TOO_LARGE, "may have 16777216 bytes"},
        {"POST / HTTP/1.1\r\nContent-Length: 16777217\r\n\r\n", TOO_LARGE,
         "may have 16777216 bytes"},
        {"POST / HTTP/1.1\r\nContent-Length: 36893488147419103233\r\n\r\n", TOO_LARGE,
         "may have 16777216 bytes"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        check_refused(&cases[i], WIRE_BROKEN);
}

static void paths_are_read_in_either_form(void **state)
{
    (void)state;
    static const struct {
        const char *url, *path;
    } cases[] = {
        {"/", "/"},
        {"/?a=b", "/"},
        {"/healthz", "/healthz"},
        {"/a/b?c/d", "/a/b"},
        {"http://localhost:8000", "/"},
        {"HTTPS://localhost/?x", "/"},
        {"http://localhost?x=/y", "/"},
        {"http://localhost/ping", "/ping"},
        {"*", NULL},
        {"ftp://localhost/", NULL},
        {"localhost:8000", NULL},
        {"http:/x", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct bytes path = http1_path(bytes_text(cases[i].url));
        assert_int_equal(bytes_given(path), cases[i].path != NULL);
        if (cases[i].path != NULL)
            assert_bytes(path, bytes_text(cases[i].path));
    }
}

static void names_of_fields_are_tokens(void **state)
{
    (void)state;
    for (int c = 1; c < 256; c++) {
        char text[] = "POST / HTTP/1.1\r\nX?: y\r\nX-Amz-Target: DynamoDB_20120810.ListTables"
                      "\r\nContent-Length: 2\r\n\r\n{}";
        *strchr(text, '?') = (char)c;
        bool is_token = c < 128 && (isalnum(c) || strchr("!#$%&'*+-.^_`|~", c) != NULL);
        struct stream stream;
        stream_init(&stream);
        enum wire_result result = decode_text(&stream, text);
        if (result != (is_token || c == ':' ? WIRE_REQUEST : WIRE_BROKEN))
            fail_msg("%d for a field with character %d in its name", result, c);
        stream_deinit(&stream);
    }
}

/* A header field of each kind that matters, in any case, with and without blanks. */
static void fields_are_found_by_name_whatever_their_case(void **state)
{
    (void)state;
    struct wire_session session = {0};
    struct http1_message message;
    struct error error;
    struct arena arena;
    size_t used, needed;
    arena_init(&arena, NULL, 0, 0);
    struct bytes text = BYTES_LITERAL("\r\n\r\nPUT http://h/p?q HTTP/1.1\r\n"
                                      "X-AMZ-tArGeT:\t a b \t\r\nCONTENT-ENCODING:gzip\r\n"
                                      "expect: 100-Continue\r\nContent-length:0003\r\n"
                                      "X-Amz-Targets: no\r\nX:\r\n\r\nabcd");
    assert_int_equal(http1_read(&session, text, 10, &arena, &message, &used, &needed, &error),
                     HTTP1_WHOLE);
    assert_int_equal(used, text.size - 1);
    assert_int_equal(message.method, HTTP1_OTHER);
    assert_bytes(message.url, BYTES_LITERAL("http://h/p?q"));
    assert_bytes(message.target, BYTES_LITERAL("a b"));
    assert_bytes(message.content_encoding, BYTES_LITERAL("gzip"));
    assert_bytes(message.body, BYTES_LITERAL("abc"));
    assert_true(message.expects_continue && !message.is_last);
    static const char *const fields[][2] = {
        {"X-AMZ-tArGeT", "a b"},    {"CONTENT-ENCODING", "gzip"}, {"expect", "100-Continue"},
        {"Content-length", "0003"}, {"X-Amz-Targets", "no"},      {"X", ""},
    };
    struct bytes rest = BYTES_NONE, name, value;
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        assert_true(http1_next_field(message.head, &rest, &name, &value));
        assert_bytes(name, bytes_text(fields[i][0]));
        assert_bytes(value, bytes_text(fields[i][1]));
    }
    assert_false(http1_next_field(message.head, &rest, &name, &value));
    arena_deinit(&arena);
}

/* ---- limits ---- */

static struct bytes long_head(size_t size, char *text)
{
    int start = snprintf(text, size + 1, "GET / HTTP/1.1\r\nX: ");
    memset(text + start, 'x', size - (size_t)start);
    memcpy(text + size - 4, "\r\n\r\n", 4);
    return bytes_of(text, size);
}

static void heads_are_limited(void **state)
{
    (void)state;
    enum { MOST = 16 * 1024 };
    char *text = malloc(MOST + 2);
    assert_non_null(text);
    for (size_t step = 0; step < 2; step++) { /* at once, and in pieces */
        struct stream stream;
        stream_init(&stream);
        struct bytes fits = long_head(MOST, text);
        if (step == 1)
            assert_int_equal(decode(&stream, bytes_of(fits.data, 9000)), WIRE_MORE);
        assert_int_equal(decode(&stream, fits), WIRE_ANSWERED);
        stream.out.size = 0;
        struct bytes longer = long_head(MOST + 1, text);
        if (step == 1)
            assert_int_equal(decode(&stream, bytes_of(longer.data, 9000)), WIRE_MORE);
        assert_int_equal(decode(&stream, longer), WIRE_BROKEN);
        assert_contains(&stream.out, "HTTP/1.1 431 Request Header Fields Too Large\r\n");
        stream_deinit(&stream);
    }
    /* One that never ends is not waited for. */
    struct stream stream;
    stream_init(&stream);
    for (size_t i = 0; i <= MOST; i++)
        text[i] = i % 2 == 0 ? '\r' : '\n';
    assert_int_equal(decode(&stream, bytes_of(text, 16 * 1024)), WIRE_MORE);
    assert_int_equal(decode(&stream, bytes_of(text, 16 * 1024 + 1)), WIRE_BROKEN);
    stream_deinit(&stream);
    free(text);
}

/* What stands round chunks may be as long as it says, at once and in pieces, and no longer. */
static void check_framing(const char *before, size_t size, const char *after, const char *refusal)
{
    struct buffer text = {0};
    assert_true(buffer_append(&text, bytes_text(before)) && buffer_reserve(&text, size));
    memset(text.data + text.size, 'x', size);
    text.size += size;
    assert_true(buffer_append(&text, bytes_text(after)));
    for (size_t step = 1000; step < 1000000; step *= 100) {
        struct stream stream;
        stream_init(&stream);
        enum wire_result result = WIRE_MORE;
        for (size_t to = step; result == WIRE_MORE; to += step) {
            assert_true(to < text.size + step);
            result = decode(&stream, bytes_of(text.data, to < text.size ? to : text.size));
        }
        assert_int_equal(result, refusal == NULL ? WIRE_REQUEST : WIRE_BROKEN);
        if (refusal != NULL)
            assert_contains(&stream.out, refusal);
        stream_deinit(&stream);
    }
    buffer_deinit(&text);
}

static void extensions_and_trailers_are_limited(void **state)
{
    (void)state;
    enum { LINE_MAX = 4096, TRAILERS_MAX = 16 * 1024 };
    static const char *const extension = CHUNKED_LIST "2 ;", *const body = "\r\n{}\r\n0\r\n\r\n";
    check_framing(extension, LINE_MAX - 5, body, NULL);
    check_framing(extension, LINE_MAX - 4, body, "invalid chunk size");
    check_framing(extension, LINE_MAX, "", "invalid chunk size");
    static const char *const trailer = CHUNKED_LIST "2\r\n{}\r\n0\r\nX:";
    check_framing(trailer, TRAILERS_MAX - 6, "\r\n\r\n", NULL);
    check_framing(trailer, TRAILERS_MAX - 5, "\r\n\r\n", "HTTP/1.1 431 ");
    check_framing(trailer, TRAILERS_MAX, "", "HTTP/1.1 431 ");
}

/* A ListTables whose body is `size` blanks and then {}, in chunks of `chunk`; 0: not chunked. */
static struct buffer long_request(size_t size, size_t chunk)
{
    struct buffer out = {0};
    char head[128];
    assert_true(buffer_append(&out, BYTES_LITERAL("POST / HTTP/1.1\r\nX-Amz-Target: "
                                                  "DynamoDB_20120810.ListTables\r\n")));
    (void)snprintf(head, sizeof head, "Content-Length: %zu\r\n\r\n", size + 2);
    assert_true(buffer_append(
        &out, chunk == 0 ? bytes_text(head) : BYTES_LITERAL("Transfer-Encoding: chunked\r\n\r\n")));
    for (size_t at = 0; at < size;) {
        size_t piece = chunk == 0 || chunk > size - at ? size - at : chunk;
        (void)snprintf(head, sizeof head, "%zx\r\n", piece);
        assert_true(chunk == 0 || buffer_append(&out, bytes_text(head)));
        assert_true(buffer_reserve(&out, piece));
        memset(out.data + out.size, ' ', piece);
        out.size += piece;
        at += piece;
        assert_true(chunk == 0 || buffer_append(&out, BYTES_LITERAL("\r\n")));
    }
    assert_true(buffer_append(&out, chunk == 0 ? BYTES_LITERAL("{}")
                                               : BYTES_LITERAL("2\r\n{}\r\n0\r\n\r\n")));
    return out;
}

static void bodies_are_limited(void **state)
{
    (void)state;
    static const struct {
        size_t size, chunk;
        enum wire_result result;
    } cases[] = {
        {BODY_MAX - 2, 0, WIRE_REQUEST},       {BODY_MAX - 1, 0, WIRE_BROKEN},
        {BODY_MAX - 2, 1 << 16, WIRE_REQUEST}, {BODY_MAX - 1, 1 << 16, WIRE_BROKEN},
        {BODY_MAX - 2, 3, WIRE_BROKEN}, /* more framing than anybody needs */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct stream stream;
        stream_init(&stream);
        struct buffer text = long_request(cases[i].size, cases[i].chunk);
        enum wire_result result = WIRE_MORE;
        for (size_t to = 1; result == WIRE_MORE; to += 300000) {
            assert_true(to < text.size + 300000);
            result = decode(&stream, bytes_of(text.data, to < text.size ? to : text.size));
        }
        assert_int_equal(result, cases[i].result);
        if (result == WIRE_BROKEN)
            assert_contains(&stream.out, "HTTP/1.1 413 Payload Too Large\r\n");
        buffer_deinit(&text);
        stream_deinit(&stream);
    }
}

static void an_item_of_400_kb_fits_however_it_is_spelled(void **state)
{
    (void)state;
    struct stream stream;
    struct buffer text = {0};
    stream_init(&stream);
    enum { CHARACTERS = 204000 };
    char head[160];
    size_t body = 42 + 6 * CHARACTERS;
    (void)snprintf(head, sizeof head,
                   "POST / HTTP/1.1\r\nX-Amz-Target: DynamoDB_20120810.PutItem\r\n"
                   "Content-Length: %zu\r\n\r\n{\"TableName\":\"Shop\",\"Item\":{\"p\":{\"S\":\"",
                   body);
    assert_true(buffer_append(&text, bytes_text(head)));
    for (size_t i = 0; i < CHARACTERS; i++) /* two bytes each, as Python writes them */
        assert_true(buffer_append(&text, BYTES_LITERAL("\\u00e9")));
    assert_true(buffer_append(&text, BYTES_LITERAL("\"}}}")));
    assert_int_equal(decode(&stream, buffer_bytes(&text)), WIRE_REQUEST);
    assert_int_equal(stream.used, text.size);
    assert_true(stream.request.item.size > 2 * CHARACTERS);
    buffer_deinit(&text);
    stream_deinit(&stream);
}

/* ---- gzip ---- */

static struct buffer packed_request(struct bytes body, size_t cut, const char *extra)
{
    struct buffer out = {0};
    char head[200];
    struct libdeflate_compressor *compressor = libdeflate_alloc_compressor(9);
    size_t most = libdeflate_gzip_compress_bound(compressor, body.size);
    uint8_t *packed = malloc(most);
    size_t size = libdeflate_gzip_compress(compressor, body.data, body.size, packed, most);
    assert_true(size > cut);
    size -= cut;
    libdeflate_free_compressor(compressor);
    (void)snprintf(head, sizeof head,
                   "POST / HTTP/1.1\r\nX-Amz-Target: DynamoDB_20120810.DescribeTable\r\n"
                   "content-encoding: GZIP\r\nContent-Length: %zu\r\n\r\n",
                   size + strlen(extra));
    assert_true(buffer_append(&out, bytes_text(head)));
    assert_true(buffer_append(&out, bytes_of(packed, size)));
    assert_true(buffer_append(&out, bytes_text(extra)));
    free(packed);
    return out;
}

static void check_packed(struct buffer text, enum wire_result expected, const char *answer)
{
    struct stream stream;
    stream_init(&stream);
    assert_int_equal(decode(&stream, buffer_bytes(&text)), expected);
    if (expected == WIRE_REQUEST)
        assert_bytes(stream.request.table_name, BYTES_LITERAL("Shop"));
    else
        assert_contains(&stream.out, answer);
    assert_int_equal(stream.used, text.size);
    buffer_deinit(&text);
    stream_deinit(&stream);
}

static void bodies_may_be_packed(void **state)
{
    (void)state;
    struct bytes body = BYTES_LITERAL("{\"TableName\":\"Shop\"}");
    check_packed(packed_request(body, 0, ""), WIRE_REQUEST, "");
    for (size_t cut = 1; cut < 30; cut++)
        check_packed(packed_request(body, cut, ""), WIRE_ANSWERED, "Content-Encoding: gzip says");
    check_packed(packed_request(body, 0, "more"), WIRE_ANSWERED, "Content-Encoding: gzip says");
    /* A few kilobytes that would be many megabytes. */
    struct buffer blanks = {0};
    assert_true(buffer_reserve(&blanks, BODY_MAX + 1));
    memset(blanks.data, ' ', BODY_MAX + 1);
    memcpy(blanks.data, body.data, body.size);
    blanks.size = BODY_MAX;
    check_packed(packed_request(buffer_bytes(&blanks), 0, ""), WIRE_REQUEST, "");
    blanks.size = BODY_MAX + 1;
    check_packed(packed_request(buffer_bytes(&blanks), 0, ""), WIRE_ANSWERED,
                 "HTTP/1.1 413 Payload Too Large");
    buffer_deinit(&blanks);
}

/* ---- memory and broken stores ---- */

static void memory_that_runs_out_anywhere_is_told(void **state)
{
    (void)state;
    struct bytes input = BYTES_LITERAL(
        "POST / HTTP/1.1\r\nX-Amz-Target: DynamoDB_20120810.Query\r\n"
        "Transfer-Encoding: chunked\r\n\r\n4\r\n{\"Ta\r\nb6\r\n"
        "bleName\":\"T\",\"KeyConditionExpression\":\"#p = :p\","
        "\"ExpressionAttributeNames\":{\"#p\":\"p\"},\"ExpressionAttributeValues\":{\":p\":{\"L\":"
        "[{\"NS\":[\"1\",\"2\"]},{\"B\":\"AAAA\"}]}}"
        ",\"ExclusiveStartKey\":{}}\r\n0\r\n\r\n");
    bool has_failed = false, has_worked = false;
    for (size_t heap = 0; heap < 32768 && !has_worked; heap += 16) {
        struct stream stream;
        stream_init(&stream);
        stream.arena.heap_bytes_max = heap;
        enum wire_result result = decode(&stream, input);
        has_worked = result == WIRE_REQUEST;
        has_failed |= !has_worked;
        if (!has_worked)
            assert_contains(&stream.out, "#InternalServerError\",\"message\":\"Out of memory");
        stream_deinit(&stream);
    }
    assert_true(has_worked && has_failed);
}

static void a_store_that_gives_back_nonsense_is_an_error_of_ours(void **state)
{
    (void)state;
    static const struct {
        enum operation operation;
        struct bytes body;
    } cases[] = {
        {OPERATION_GET_ITEM, {(const uint8_t *)"\xa1x", 2}},
        {OPERATION_GET_ITEM, {(const uint8_t *)"\x81\xa1x", 3}},
        {OPERATION_GET_ITEM, {(const uint8_t *)"\x81\xa1x\xd4\x07\x00", 6}},
        {OPERATION_GET_ITEM, {(const uint8_t *)"\x81\xa1x\xd4\x01\x09", 6}},
        {OPERATION_GET_ITEM, {(const uint8_t *)"\x81\xa1x\xd4\x02\x01", 6}},
        {OPERATION_QUERY, {(const uint8_t *)"\x80", 1}},
        {OPERATION_QUERY, {(const uint8_t *)"\x93\x91\x80", 3}},
        {OPERATION_LIST_TABLES, {(const uint8_t *)"\x81\xa1x\xc1", 4}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct stream stream;
        struct reply reply;
        stream_init(&stream);
        reply_init(&reply);
        reply.body = cases[i].body;
        struct request request = {.operation = cases[i].operation};
        assert_true(buffer_append(&stream.out, BYTES_LITERAL("before")));
        assert_true(wire_dynamodb.encode(&stream.session, &request, &reply, &stream.out));
        assert_memory_equal(stream.out.data, "beforeHTTP/1.1 500 Internal Server Error\r\n", 42);
        stream_deinit(&stream);
    }
}

static void the_wire_is_found_by_its_scheme(void **state)
{
    (void)state;
    assert_ptr_equal(wire_by_scheme("http"), &wire_dynamodb);
    assert_true(wire_dynamodb.in_order);
    assert_false(wire_native.in_order);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_vector_is_read_and_written_as_it_says),
        cmocka_unit_test(a_stream_cut_anywhere_holds_the_same_requests),
        cmocka_unit_test(the_size_of_a_request_is_known_with_its_head),
        cmocka_unit_test(the_same_bytes_decode_to_the_same_request_again),
        cmocka_unit_test(a_client_that_expects_it_is_told_to_go_on_once),
        cmocka_unit_test(a_connection_ends_when_http_says_so),
        cmocka_unit_test(probes_are_answered),
        cmocka_unit_test(what_cannot_be_served_is_refused_by_name),
        cmocka_unit_test(what_says_nothing_of_data_is_answered_by_the_wire),
        cmocka_unit_test(expressions_and_choices_are_read),
        cmocka_unit_test(what_writes_and_counts_answer),
        cmocka_unit_test(what_is_not_http_ends_the_connection),
        cmocka_unit_test(paths_are_read_in_either_form),
        cmocka_unit_test(fields_are_found_by_name_whatever_their_case),
        cmocka_unit_test(names_of_fields_are_tokens),
        cmocka_unit_test(heads_are_limited),
        cmocka_unit_test(extensions_and_trailers_are_limited),
        cmocka_unit_test(bodies_are_limited),
        cmocka_unit_test(an_item_of_400_kb_fits_however_it_is_spelled),
        cmocka_unit_test(bodies_may_be_packed),
        cmocka_unit_test(memory_that_runs_out_anywhere_is_told),
        cmocka_unit_test(a_store_that_gives_back_nonsense_is_an_error_of_ours),
        cmocka_unit_test(the_wire_is_found_by_its_scheme),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
