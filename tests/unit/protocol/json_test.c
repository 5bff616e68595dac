#include "protocol/encoding/json.h"
#include "protocol/encoding/msgpack.h"
#include "tests/unit/protocol/random_value.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { ROUNDS = 2000, ARENA_MAX = 64 << 20 };

static void items_survive_the_way_through_json(void **state)
{
    (void)state;
    struct random random = {1};
    struct arena arena;
    struct buffer text = {0};
    struct error error;
    arena_init(&arena, NULL, 0, ARENA_MAX);
    for (int round = 0; round < ROUNDS; round++) {
        struct value item = random_item(&random, &arena);
        struct value back;
        text.size = 0;
        assert_true(json_from_item(&item, round % 3, &text));
        enum status status = json_to_item(buffer_bytes(&text), &arena, &back, &error);
        if (status != STATUS_OK)
            fail_msg("%.*s: %s", (int)text.size, (const char *)text.data, error.text);
        assert_true(values_are_equal(&item, &back));
        arena_reset(&arena);
    }
    buffer_deinit(&text);
    arena_deinit(&arena);
}

static void the_text_is_dynamodbs(void **state)
{
    (void)state;
    static const char text[] =
        "{\"B\":{\"B\":\"AAEC/"
        "w==\"},\"a\":{\"N\":\"1000\"},\"b\":{\"S\":\"x\\u0000y\\\"\xc3\xa9\"},"
        "\"d\":{\"L\":[{\"NULL\":true},{\"BOOL\":false},{\"L\":[]},{\"M\":{}}]},"
        "\"e\":{\"M\":{\"z\":{\"SS\":[\"a\",\"b\"]}}},\"f\":{\"NS\":[\"-1.5\",\"2\"]},"
        "\"g\":{\"BS\":[\"\",\"AA==\",\"AAA=\",\"AAAA\"]}}";
    struct arena arena;
    struct value item;
    struct error error;
    struct buffer out = {0};
    arena_init(&arena, NULL, 0, ARENA_MAX);
    assert_int_equal(json_to_item(bytes_text(text), &arena, &item, &error), STATUS_OK);
    assert_true(buffer_append(&out, BYTES_LITERAL("> ")));
    assert_true(json_from_item(&item, 0, &out));
    assert_int_equal(out.size, 2 + strlen(text));
    assert_memory_equal(out.data + 2, text, strlen(text));
    buffer_deinit(&out);
    arena_deinit(&arena);
}

static void what_is_not_dynamodb_json_is_refused(void **state)
{
    (void)state;
#define INVALID "One or more parameter values were invalid: "
    static const struct {
        const char *text;
        enum status status;
        const char *refusal; /* how it begins */
    } cases[] = {
        {"", STATUS_MALFORMED, "Not JSON at line 1"},
        {"{", STATUS_MALFORMED, "Not JSON at line 1"},
        {"{}{}", STATUS_MALFORMED, "Not JSON at line 1"},
        {"{\n\"a\" 1}", STATUS_MALFORMED, "Not JSON at line 2"},
        {"[]", STATUS_MALFORMED,
         "Unrecognized collection type java.util.Map<java.lang.String, com."},
        {"{\"a\":1}", STATUS_MALFORMED, "Unexpected value type in payload"},
        {"{\"a\":[]}", STATUS_MALFORMED, "Unrecognized collection type class com.amazonaws.dyn"},
        {"{\"a\":{\"S\":[]}}", STATUS_MALFORMED, "Unrecognized collection type class java.lang.S"},
        {"{\"a\":{\"S\":{}}}", STATUS_MALFORMED, "Start of structure or map found where not e"},
        {"{\"a\":{\"B\":1}}", STATUS_MALFORMED, "only base-64-encoded strings are convertible"},
        {"{\"a\":{\"S\":-1.5}}", STATUS_MALFORMED, "DECIMAL_VALUE cannot be converted to String"},
        {"{\"a\":{\"S\":\"x\"},\"a\":{\"S\":\"y\"}}", STATUS_VALIDATION,
         INVALID "Duplicate attribute name: a"},
        {"{\"a\":{\"S\":\"\xff\"}}", STATUS_MALFORMED, "Not JSON"},
        {"{\"a\":{\"S\":1}}", STATUS_MALFORMED, "NUMBER_VALUE cannot be converted to String"},
        {"{\"a\":{\"N\":1}}", STATUS_MALFORMED, "NUMBER_VALUE cannot be converted to String"},
        {"{\"a\":{\"N\":\"1x\"}}", STATUS_VALIDATION,
         "The parameter cannot be converted to a numeric value: 1x"},
        {"{\"a\":{\"B\":\"AA=\"}}", STATUS_MALFORMED,
         "Base64 encoded length is expected a multiple of 4 bytes but found: 3"},
        {"{\"a\":{\"B\":\"AB==\"}}", STATUS_MALFORMED, "Invalid Base64"}, /* unused bits */
        {"{\"a\":{\"B\":\"AAB=\"}}", STATUS_MALFORMED, "Invalid Base64"},
        {"{\"a\":{\"B\":\"A===\"}}", STATUS_MALFORMED, "Invalid Base64"},
        {"{\"a\":{\"B\":\"AA==AAAA\"}}", STATUS_MALFORMED, "Invalid Base64"},
        {"{\"a\":{\"B\":\"AA-_\"}}", STATUS_MALFORMED, "Invalid Base64"},
        {"{\"a\":{\"B\":\"AA A\"}}", STATUS_MALFORMED, "Invalid Base64"},
        {"{\"a\":{\"BOOL\":\"true\"}}", STATUS_MALFORMED, "STRING_VALUE cannot be converted"},
        {"{\"a\":{\"NULL\":false}}", STATUS_VALIDATION,
         INVALID "Null attribute value types must have the value of true"},
        {"{\"a\":{\"NULL\":null}}", STATUS_MALFORMED, "NULL_VALUE cannot be converted"},
        {"{\"a\":{\"L\":{}}}", STATUS_MALFORMED, "Start of structure or map found"},
        {"{\"a\":{\"M\":[]}}", STATUS_MALFORMED, "Unrecognized collection type java.util.Map"},
        {"{\"a\":{\"SS\":\"x\"}}", STATUS_MALFORMED, "Unexpected field type"},
        {"{\"a\":{\"SS\":[1]}}", STATUS_MALFORMED, "NUMBER_VALUE cannot be converted"},
        {"{\"a\":{\"SS\":[]}}", STATUS_VALIDATION, INVALID "An string set  may not be empty"},
        {"{\"a\":{\"SS\":[\"a\",\"a\"]}}", STATUS_VALIDATION,
         INVALID "Input collection [a, a] contains duplicates."},
        {"{\"a\":{\"NS\":[\"1\",\"1.0\"]}}", STATUS_VALIDATION,
         "Input collection contains duplicates"},
        {"{\"a\":{}}", STATUS_VALIDATION, "Supplied AttributeValue is empty"},
        {"{\"a\":{\"X\":\"x\"}}", STATUS_VALIDATION, "Supplied AttributeValue is empty"},
        {"{\"a\":{\"S\":\"x\",\"N\":\"1\"}}", STATUS_VALIDATION,
         "Supplied AttributeValue has more than one datatypes set"},
        {"{\"\":{\"S\":\"x\"}}", STATUS_VALIDATION, INVALID "Empty attribute name"},
    };
    struct arena arena;
    arena_init(&arena, NULL, 0, ARENA_MAX);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct value item;
        struct error error = {.text = ""};
        enum status status = json_to_item(bytes_text(cases[i].text), &arena, &item, &error);
        if (status != cases[i].status ||
            strncmp(error.text, cases[i].refusal, strlen(cases[i].refusal)) != 0)
            fail_msg("%s gave %d %s", cases[i].text, status, error.text);
    }
    arena_deinit(&arena);
}

static void json_nests_to_the_limit_and_no_deeper(void **state)
{
    (void)state;
    struct arena arena;
    arena_init(&arena, NULL, 0, ARENA_MAX);
    for (int lists = ITEM_DEPTH_MAX - 1; lists <= ITEM_DEPTH_MAX + 900; lists += 1 + lists / 33) {
        char text[16384];
        struct value item;
        struct error error;
        size_t size = (size_t)sprintf(text, "{\"a\":");
        for (int i = 0; i < lists; i++)
            size += (size_t)sprintf(text + size, "{\"L\":[");
        size += (size_t)sprintf(text + size, "{\"NULL\":true}");
        for (int i = 0; i < lists; i++)
            size += (size_t)sprintf(text + size, "]}");
        text[size++] = '}';
        enum status status = json_to_item(bytes_of(text, size), &arena, &item, &error);
        assert_int_equal(status, lists < ITEM_DEPTH_MAX ? STATUS_OK : STATUS_VALIDATION);
        arena_reset(&arena);
    }
    arena_deinit(&arena);
}

static void ordinary_json_survives_too(void **state)
{
    (void)state;
    static const char text[] = "{\"a\":{\"b\":0.1,\"c\":-7},\"z\":[1,2.5,true,false,null,\"x\"]}";
    struct arena arena;
    struct value value;
    struct error error;
    struct buffer out = {0};
    arena_init(&arena, NULL, 0, ARENA_MAX);
    assert_int_equal(json_to_plain(bytes_text(text), &arena, &value, &error), STATUS_OK);
    assert_true(json_from_plain(&value, 0, &out));
    assert_int_equal(out.size, strlen(text));
    assert_memory_equal(out.data, text, out.size);

    out.size = 0;
    assert_true(json_from_plain(&value.attributes[0].value, 2, &out));
    static const char indented[] = "{\n  \"b\": 0.1,\n  \"c\": -7\n}";
    assert_int_equal(out.size, strlen(indented));
    assert_memory_equal(out.data, indented, out.size);

    /* Through MessagePack and back, as a table definition goes. */
    struct buffer packed = {0};
    struct value back;
    assert_true(value_encode(&value, &packed));
    struct msgpack_cursor cursor = msgpack_cursor_of(buffer_bytes(&packed));
    assert_int_equal(value_decode(&cursor, &arena, &back, &error), STATUS_OK);
    assert_true(values_are_equal(&value, &back));
    buffer_deinit(&packed);

    assert_int_equal(json_to_plain(bytes_text("[1]"), &arena, &value, &error), STATUS_MALFORMED);
    assert_int_equal(json_to_plain(bytes_text("{\"a\":1,}"), &arena, &value, &error),
                     STATUS_MALFORMED);
    assert_int_equal(json_to_plain(bytes_text("{\"a\":1e300}"), &arena, &value, &error),
                     STATUS_VALIDATION);
    buffer_deinit(&out);
    arena_deinit(&arena);
}

static void memory_that_runs_out_anywhere_is_told(void **state)
{
    (void)state;
    static const char text[] = "{\"a\":{\"S\":\"x\"},\"b\":{\"L\":[{\"B\":\"AAAA\"},{\"M\":{\"c\":"
                               "{\"SS\":[\"d\"]}}}]}}";
    enum status status = STATUS_NO_MEMORY;
    int refused = 0;
    for (size_t limit = 0; status == STATUS_NO_MEMORY; limit += 16) {
        struct arena arena;
        struct value item;
        struct error error;
        arena_init(&arena, NULL, 0, limit);
        status = json_to_item(bytes_text(text), &arena, &item, &error);
        refused += status == STATUS_NO_MEMORY;
        arena_deinit(&arena);
    }
    assert_int_equal(status, STATUS_OK);
    assert_true(refused > 10);
}

static void bytes_become_the_same_text_without_a_tree(void **state)
{
    (void)state;
    struct random random = {3};
    struct arena arena;
    struct buffer wanted = {0};
    struct buffer text = {0};
    arena_init(&arena, NULL, 0, ARENA_MAX);
    for (int round = 0; round < ROUNDS; round++) {
        struct value item = random_item(&random, &arena);
        struct bytes bytes = value_encode_arena(&item, &arena);
        struct msgpack_cursor cursor = msgpack_cursor_of(bytes);
        assert_true(bytes_given(bytes));
        wanted.size = text.size = 0;
        assert_true(json_from_item(&item, 0, &wanted));
        assert_true(json_from_item_bytes(&cursor, &text));
        assert_true(cursor.at == cursor.end);
        if (!bytes_equal(buffer_bytes(&text), buffer_bytes(&wanted)))
            fail_msg("%.*s\n%.*s", (int)text.size, (const char *)text.data, (int)wanted.size,
                     (const char *)wanted.data);
        /* Cut short, nothing is left behind. */
        size_t before = text.size;
        cursor = msgpack_cursor_of(bytes_of(bytes.data, bytes.size - 1));
        assert_false(json_from_item_bytes(&cursor, &text));
        assert_int_equal(text.size, before);
        arena_reset(&arena);
    }
    buffer_deinit(&text);
    buffer_deinit(&wanted);
    arena_deinit(&arena);
}

static void ordinary_text_has_every_digit(void **state)
{
    (void)state;
    static const char item[] =
        "{\"b\":{\"B\":\"AA==\"},\"n\":{\"N\":\"0.1\"},\"o\":{\"NULL\":true},"
        "\"s\":{\"NS\":[\"-12345678901234567890123456789012345678\",\"1\"]}}";
    struct arena arena;
    struct value value;
    struct error error;
    struct buffer text = {0};
    arena_init(&arena, NULL, 0, ARENA_MAX);
    assert_int_equal(json_to_item(bytes_text(item), &arena, &value, &error), STATUS_OK);
    struct msgpack_cursor cursor = msgpack_cursor_of(value_encode_arena(&value, &arena));
    assert_true(json_from_plain_bytes(&cursor, &text));
    static const char wanted[] = "{\"b\":\"AA==\",\"n\":0.1,\"o\":null,"
                                 "\"s\":[-12345678901234567890123456789012345678,1]}";
    assert_int_equal(text.size, sizeof wanted - 1);
    assert_memory_equal(text.data, wanted, sizeof wanted - 1);
    buffer_deinit(&text);
    arena_deinit(&arena);
}

static void ordinary_json_nests_as_deep_as_an_item_told_by_it(void **state)
{
    (void)state;
    for (int depth = PLAIN_DEPTH_MAX; depth <= PLAIN_DEPTH_MAX + 1; depth++) {
        char text[8 + 2 * (PLAIN_DEPTH_MAX + 1)] = "{\"a\":";
        struct arena arena;
        struct buffer out = {0};
        struct value value;
        struct error error;
        size_t lists = (size_t)depth - 1, head = strlen(text);
        memset(text + head, '[', lists);
        memset(text + head + lists, ']', lists);
        memcpy(text + head + 2 * lists, "}", 2);
        arena_init(&arena, NULL, 0, 1 << 20);
        enum status status = json_to_plain(bytes_text(text), &arena, &value, &error);
        assert_int_equal(status, depth == PLAIN_DEPTH_MAX ? STATUS_OK : STATUS_VALIDATION);
        if (status == STATUS_OK) {
            assert_true(json_from_plain(&value, 0, &out));
            assert_int_equal(out.size, strlen(text));
            assert_memory_equal(out.data, text, out.size);
        }
        buffer_deinit(&out);
        arena_deinit(&arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ordinary_json_nests_as_deep_as_an_item_told_by_it),
        cmocka_unit_test(items_survive_the_way_through_json),
        cmocka_unit_test(the_text_is_dynamodbs),
        cmocka_unit_test(what_is_not_dynamodb_json_is_refused),
        cmocka_unit_test(json_nests_to_the_limit_and_no_deeper),
        cmocka_unit_test(ordinary_json_survives_too),
        cmocka_unit_test(memory_that_runs_out_anywhere_is_told),
        cmocka_unit_test(bytes_become_the_same_text_without_a_tree),
        cmocka_unit_test(ordinary_text_has_every_digit),
    };
    return cmocka_run_group_tests_name("json", tests, NULL, NULL);
}
