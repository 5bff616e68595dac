/* The native protocol's frames: vectors, what is refused, and what a refusal does to a connection.
 */
#include "protocol/encoding/json.h"
#include "protocol/encoding/msgpack.h"
#include "protocol/native/frame.h"
#include "protocol/wire.h"

#include <jansson.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static struct bytes from_hex(const char *hex, uint8_t *out)
{
    size_t size = strlen(hex) / 2;
    for (size_t i = 0; i < size; i++)
        (void)sscanf(hex + 2 * i, "%2hhx", &out[i]);
    return bytes_of(out, size);
}

static void assert_bytes(struct bytes actual, struct bytes expected)
{
    assert_int_equal(actual.size, expected.size);
    if (expected.size != 0)
        assert_memory_equal(actual.data, expected.data, expected.size);
}

static struct bytes body_of(struct bytes frame)
{
    assert_int_equal(frame_size(frame.data), frame.size);
    return bytes_of(frame.data + FRAME_HEADER, frame.size - FRAME_HEADER);
}

/* Item JSON of a vector, canonically encoded. */
static struct bytes encode_json(json_t *json, struct arena *arena, struct buffer *out)
{
    struct value value;
    struct error error;
    char *text = json_dumps(json, JSON_COMPACT);
    assert_int_equal(json_to_item(bytes_text(text), arena, &value, &error), STATUS_OK);
    assert_true(value_encode(&value, out));
    free(text);
    return buffer_bytes(out);
}

static void check_map(json_t *vector, const char *member, struct bytes actual)
{
    json_t *expected = json_object_get(vector, member);
    if (expected == NULL) {
        assert_false(bytes_given(actual));
        return;
    }
    struct arena arena;
    struct buffer buffer = {0};
    arena_init(&arena, NULL, 0, 1 << 20);
    assert_bytes(actual, encode_json(expected, &arena, &buffer));
    buffer_deinit(&buffer);
    arena_deinit(&arena);
}

static void check_request(json_t *vector, struct bytes frame)
{
    struct request request;
    struct frame_greeting greeting = {0};
    struct error error;
    struct arena arena;
    arena_init(&arena, NULL, 0, 1 << 20);
    assert_int_equal(frame_read_request(body_of(frame), &arena, &request, &greeting, &error),
                     STATUS_OK);
    assert_int_equal(request.operation, json_integer_value(json_object_get(vector, "operation")));
    assert_int_equal(request.id, json_integer_value(json_object_get(vector, "id")));
    assert_int_equal(request.limit, json_integer_value(json_object_get(vector, "limit")));
    const char *table = json_string_value(json_object_get(vector, "table"));
    assert_bytes(request.table_name, bytes_text(table != NULL ? table : ""));
    check_map(vector, "key", request.key);
    check_map(vector, "item", request.item);
    check_map(vector, "definition", request.definition);
    struct buffer again = {0};
    assert_true(frame_write_request(&request, &greeting, &again));
    assert_bytes(buffer_bytes(&again), frame);
    arena_deinit(&arena);
    buffer_deinit(&again);
}

static void check_reply(json_t *vector, struct bytes frame)
{
    struct frame_reply reply;
    uint8_t body[256];
    assert_int_equal(frame_read_reply(body_of(frame), &reply), STATUS_OK);
    assert_int_equal(reply.id, json_integer_value(json_object_get(vector, "id")));
    assert_int_equal(reply.status, json_integer_value(json_object_get(vector, "status")));
    assert_int_equal(reply.verdict, json_integer_value(json_object_get(vector, "verdict")));
    assert_int_equal(reply.age_ms, json_integer_value(json_object_get(vector, "age")));
    assert_bytes(reply.body, from_hex(json_string_value(json_object_get(vector, "body")), body));
    struct request request = {.id = reply.id, .wants_verdict = true};
    struct reply source;
    reply_init(&source);
    source.status = source.error.status = reply.status;
    source.verdict = reply.verdict;
    source.age_ms = reply.age_ms;
    source.body = reply.body;
    struct buffer again = {0};
    assert_true(frame_write_reply(&request, &source, &again));
    assert_bytes(buffer_bytes(&again), frame);
    buffer_deinit(&again);
}

static void check_greeting(struct bytes frame)
{
    struct frame_reply reply;
    struct frame_greeting greeting;
    assert_int_equal(frame_read_reply(body_of(frame), &reply), STATUS_OK);
    assert_int_equal(frame_read_greeting(reply.body, &greeting), STATUS_OK);
    assert_int_equal(greeting.version, NATIVE_VERSION);
    assert_int_equal(greeting.frame_max, 1048576);
    struct buffer again = {0};
    assert_true(frame_write_greeting(reply.id, &greeting, &again));
    assert_bytes(buffer_bytes(&again), frame);
    buffer_deinit(&again);
}

static char *read_file(const char *path)
{
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    char *text = calloc(1, 1 << 20);
    assert_non_null(text);
    assert_true(fread(text, 1, (1 << 20) - 1, file) > 0);
    (void)fclose(file);
    return text;
}

static void every_vector_reads_as_said_and_writes_to_the_same_bytes(void **state)
{
    (void)state;
    json_t *vectors = json_load_file(MUDAX_SOURCE "/tests/vectors/native.json", 0, NULL);
    char *spec = read_file(MUDAX_SOURCE "/protocol/native/SPEC.md");
    assert_true(json_array_size(vectors) > 10);
    size_t index;
    json_t *vector;
    json_array_foreach(vectors, index, vector)
    {
        uint8_t bytes[256];
        const char *hex = json_string_value(json_object_get(vector, "hex"));
        const char *kind = json_string_value(json_object_get(vector, "kind"));
        struct bytes frame = from_hex(hex, bytes);
        if (strcmp(kind, "request") == 0)
            check_request(vector, frame);
        else if (strcmp(kind, "reply") == 0)
            check_reply(vector, frame);
        else
            check_greeting(frame);
        if (strstr(spec, hex) == NULL)
            fail_msg("SPEC.md does not show %s",
                     json_string_value(json_object_get(vector, "name")));
    }
    free(spec);
    json_decref(vectors);
}

/* ---- what is refused ---- */

struct refusal {
    const char *name, *hex; /* of the frame's body */
    enum status status;
    enum wire_result result;
};

static const struct refusal refusals[] = {
    {"an empty frame", "", STATUS_MALFORMED, WIRE_BROKEN},
    {"not an array", "c0", STATUS_MALFORMED, WIRE_BROKEN},
    {"two elements", "920101", STATUS_MALFORMED, WIRE_BROKEN},
    {"four elements", "9401018080", STATUS_MALFORMED, WIRE_BROKEN},
    {"a negative operation", "93ff0180", STATUS_MALFORMED, WIRE_BROKEN},
    {"a float as id", "9301ca0000000080", STATUS_MALFORMED, WIRE_BROKEN},
    {"parameters that are an array", "93010190", STATUS_MALFORMED, WIRE_BROKEN},
    {"a parameter's key that is a text", "93010181a161c3", STATUS_MALFORMED, WIRE_BROKEN},
    {"truncated in the parameters", "930201820081", STATUS_MALFORMED, WIRE_BROKEN},
    {"a map that claims 2^32 - 1 pairs", "930101dfffffffff", STATUS_MALFORMED, WIRE_BROKEN},
    {"a text that claims 4 GiB", "93020181 00dbffffffff61", STATUS_MALFORMED, WIRE_BROKEN},
    {"a parameter twice", "93010182 0ac3 0ac3", STATUS_MALFORMED, WIRE_BROKEN},
    {"a flag that is a number", "930101810a01", STATUS_MALFORMED, WIRE_BROKEN},
    {"a limit of 0", "930801810800", STATUS_MALFORMED, WIRE_BROKEN},
    {"a key that is a text", "9302018200a161 01a162", STATUS_MALFORMED, WIRE_BROKEN},
    {"bytes behind the end", "93010180c0", STATUS_MALFORMED, WIRE_BROKEN},
    {"an operation of the daemon's own", "93157b80", STATUS_UNKNOWN_OPERATION, WIRE_ANSWERED},
    {"an unknown operation", "93637b80", STATUS_UNKNOWN_OPERATION, WIRE_ANSWERED},
    {"a parameter of another operation", "930101810800", STATUS_VALIDATION, WIRE_ANSWERED},
    {"a parameter that does not exist", "9301018118c3", STATUS_VALIDATION, WIRE_ANSWERED},
    {"a missing parameter", "93020180", STATUS_VALIDATION, WIRE_ANSWERED},
    {"a batch that says nothing of its parts", "930d0180", STATUS_VALIDATION, WIRE_ANSWERED},
};

static void pack(const char *spaced_hex, struct buffer *out)
{
    uint8_t body[256];
    char hex[512];
    size_t used = 0;
    for (; *spaced_hex != '\0'; spaced_hex++)
        if (*spaced_hex != ' ')
            hex[used++] = *spaced_hex;
    hex[used] = '\0';
    struct bytes bytes = from_hex(hex, body);
    uint8_t header[FRAME_HEADER] = {0, 0, 0, (uint8_t)bytes.size};
    assert_true(buffer_append(out, bytes_of(header, FRAME_HEADER)));
    assert_true(buffer_append(out, bytes));
}

static enum wire_result decode(struct wire_session *session, struct bytes input, size_t *used,
                               size_t *needed, struct buffer *out)
{
    static uint8_t memory[4096];
    struct arena arena;
    struct request request;
    arena_init(&arena, memory, sizeof memory, 0);
    enum wire_result result =
        wire_native.decode(session, input, &arena, &request, used, needed, out);
    arena_deinit(&arena);
    return result;
}

static void greet(struct wire_session *session)
{
    uint8_t bytes[64];
    size_t used, needed;
    struct buffer out = {0};
    struct bytes hello = from_hex("0000000c930000820f0111a464656d6f", bytes);
    assert_int_equal(decode(session, hello, &used, &needed, &out), WIRE_ANSWERED);
    assert_int_equal(used, hello.size);
    assert_int_equal(session->version, NATIVE_VERSION);
    buffer_deinit(&out);
}

static void every_bad_frame_gets_one_clear_error(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        struct wire_session session = {.frame_max = FRAME_SIZE_DEFAULT};
        greet(&session);
        struct buffer in = {0}, out = {0};
        size_t used, needed;
        pack(refusals[i].hex, &in);
        enum wire_result result = decode(&session, buffer_bytes(&in), &used, &needed, &out);
        struct frame_reply reply = {0};
        if (result == WIRE_BROKEN || result == WIRE_ANSWERED)
            assert_int_equal(frame_read_reply(body_of(buffer_bytes(&out)), &reply), STATUS_OK);
        if (result != refusals[i].result || reply.status != refusals[i].status ||
            reply.body.size == 0)
            fail_msg("%s: result %d, status %d", refusals[i].name, result, reply.status);
        buffer_deinit(&in);
        buffer_deinit(&out);
    }
}

static void a_frame_over_the_limit_is_refused_by_its_header_alone(void **state)
{
    (void)state;
    struct wire_session session = {.frame_max = FRAME_SIZE_MIN};
    greet(&session);
    struct buffer out = {0};
    size_t used, needed;
    uint8_t header[] = {0xff, 0xff, 0xff, 0xff};
    assert_int_equal(decode(&session, bytes_of(header, 4), &used, &needed, &out), WIRE_BROKEN);
    struct frame_reply reply;
    assert_int_equal(frame_read_reply(body_of(buffer_bytes(&out)), &reply), STATUS_OK);
    assert_int_equal(reply.status, STATUS_TOO_LARGE);
    buffer_deinit(&out);
}

static void an_incomplete_frame_says_how_much_is_needed(void **state)
{
    (void)state;
    struct wire_session session = {.frame_max = FRAME_SIZE_DEFAULT};
    greet(&session);
    struct buffer out = {0};
    uint8_t bytes[64];
    struct bytes get =
        from_hex("0000001c9302038300a453686f700182a2504ba3632331a2534ba36f23370ac3", bytes);
    for (size_t size = 0; size < get.size; size++) {
        size_t used, needed = 0;
        assert_int_equal(decode(&session, bytes_of(get.data, size), &used, &needed, &out),
                         WIRE_MORE);
        assert_int_equal(needed, size < FRAME_HEADER ? FRAME_HEADER : get.size);
    }
    assert_int_equal(out.size, 0);
    size_t used, needed;
    assert_int_equal(decode(&session, get, &used, &needed, &out), WIRE_REQUEST);
    buffer_deinit(&out);
}

static void a_request_before_hello_ends_the_connection(void **state)
{
    (void)state;
    struct wire_session session = {.frame_max = FRAME_SIZE_DEFAULT};
    struct buffer out = {0};
    uint8_t bytes[64];
    size_t used, needed;
    struct bytes ping = from_hex("0000000493010180", bytes);
    assert_int_equal(decode(&session, ping, &used, &needed, &out), WIRE_BROKEN);
    struct frame_reply reply;
    assert_int_equal(frame_read_reply(body_of(buffer_bytes(&out)), &reply), STATUS_OK);
    assert_int_equal(reply.id, 1);
    buffer_deinit(&out);
}

static void a_long_error_text_is_carried_whole(void **state)
{
    (void)state;
    struct reply reply;
    reply_init(&reply);
    char text[300];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    reply.status = error_set(&reply.error, STATUS_VALIDATION, "%s", text);
    struct buffer out = {0};
    struct request request = {.id = UINT64_MAX, .wants_verdict = true, .wants_commit = true};
    assert_true(frame_write_reply(&request, &reply, &out));
    struct frame_reply taken;
    assert_int_equal(frame_read_reply(body_of(buffer_bytes(&out)), &taken), STATUS_OK);
    assert_true(taken.id == UINT64_MAX);
    assert_int_equal(taken.body.size, sizeof reply.error.text - 1);
    buffer_deinit(&out);
}

static void every_operation_on_items_takes_ReturnConsumedCapacity(void **state)
{
    (void)state;
    static const enum operation single[] = {OPERATION_GET_ITEM,    OPERATION_PUT_ITEM,
                                            OPERATION_DELETE_ITEM, OPERATION_UPDATE_ITEM,
                                            OPERATION_QUERY,       OPERATION_SCAN};
    static const struct bytes empty_map = {(const uint8_t *)"\x80", 1};
    for (size_t i = 0; i < sizeof single / sizeof single[0]; i++) {
        struct request request = {.operation = single[i],
                                  .table_name = BYTES_LITERAL("Shop"),
                                  .capacity = CAPACITY_INDEXES};
        if (single[i] == OPERATION_PUT_ITEM)
            request.item = empty_map;
        else if (single[i] == OPERATION_QUERY)
            request.key_condition.text = BYTES_LITERAL("p = :p");
        else if (single[i] != OPERATION_SCAN)
            request.key = empty_map;
        struct buffer out = {0};
        struct request taken;
        struct error error;
        assert_true(frame_write_request(&request, NULL, &out));
        assert_int_equal(
            frame_read_request(body_of(buffer_bytes(&out)), NULL, &taken, NULL, &error), STATUS_OK);
        assert_int_equal(taken.capacity, CAPACITY_INDEXES);
        buffer_deinit(&out);
    }
}

static void every_write_takes_ReturnItemCollectionMetrics_and_no_read_does(void **state)
{
    (void)state;
    static const struct bytes empty_map = {(const uint8_t *)"\x80", 1};
    static const enum operation single[] = {OPERATION_PUT_ITEM, OPERATION_DELETE_ITEM,
                                            OPERATION_UPDATE_ITEM, OPERATION_GET_ITEM};
    for (size_t i = 0; i < sizeof single / sizeof single[0]; i++) {
        struct request request = {
            .operation = single[i], .table_name = BYTES_LITERAL("Shop"), .wants_metrics = true};
        *(single[i] == OPERATION_PUT_ITEM ? &request.item : &request.key) = empty_map;
        struct buffer out = {0};
        struct request taken;
        struct error error;
        assert_true(frame_write_request(&request, NULL, &out));
        bool is_write = single[i] != OPERATION_GET_ITEM;
        assert_int_equal(
            frame_read_request(body_of(buffer_bytes(&out)), NULL, &taken, NULL, &error),
            is_write ? STATUS_OK : STATUS_VALIDATION);
        assert_true(taken.wants_metrics == is_write);
        buffer_deinit(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_vector_reads_as_said_and_writes_to_the_same_bytes),
        cmocka_unit_test(every_bad_frame_gets_one_clear_error),
        cmocka_unit_test(a_frame_over_the_limit_is_refused_by_its_header_alone),
        cmocka_unit_test(an_incomplete_frame_says_how_much_is_needed),
        cmocka_unit_test(a_request_before_hello_ends_the_connection),
        cmocka_unit_test(a_long_error_text_is_carried_whole),
        cmocka_unit_test(every_operation_on_items_takes_ReturnConsumedCapacity),
        cmocka_unit_test(every_write_takes_ReturnItemCollectionMetrics_and_no_read_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
