/* JSON without a tree: what is JSON and what is not, what values become, and its limits. */
#include "protocol/encoding/json.h"
#include "protocol/encoding/json_reader.h"
#include "tests/unit/protocol/random_value.h"

#include <jansson.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { ROUNDS = 2000, ARENA_MAX = 64 << 20 };

struct reading {
    struct json_reader reader;
    struct arena arena;
    struct error error;
    uint8_t *text; /* with no byte behind it, so that a sanitizer sees a read beyond the end */
};

static struct json_reader *begin(struct reading *reading, struct bytes text)
{
    memset(reading, 0, sizeof *reading);
    reading->text = malloc(text.size + (text.size == 0));
    assert_non_null(reading->text);
    if (text.size != 0)
        memcpy(reading->text, text.data, text.size);
    arena_init(&reading->arena, NULL, 0, ARENA_MAX);
    json_reader_init(&reading->reader, bytes_of(reading->text, text.size), &reading->arena,
                     &reading->error);
    return &reading->reader;
}

static enum status end(struct reading *reading)
{
    enum status status = json_reader_end(&reading->reader);
    arena_deinit(&reading->arena);
    free(reading->text);
    return status;
}

static void assert_bytes(struct bytes actual, const char *expected, size_t size)
{
    if (!bytes_equal(actual, bytes_of(expected, size)))
        fail_msg("got %zu bytes: %.*s", actual.size, (int)actual.size, (const char *)actual.data);
}

#define ASSERT_BYTES(actual, literal) assert_bytes(actual, literal, sizeof(literal) - 1)

/* ---- what is JSON ---- */

static bool is_json(struct bytes text)
{
    struct reading reading;
    struct bytes all = BYTES_NONE;
    bool is_skipped = json_skip(begin(&reading, text), &all);
    enum status status = end(&reading);
    assert_true(status == STATUS_OK || status == STATUS_MALFORMED);
    assert_true(is_skipped || status != STATUS_OK);
    assert_true(status == STATUS_OK || strncmp(reading.error.text, "Not JSON at line ", 17) == 0);
    return status == STATUS_OK;
}

static void what_is_json_is_what_rfc_8259_says(void **state)
{
    (void)state;
    static const char *const right[] = {
        "0",
        "-0",
        "10",
        "1.5",
        "-1.50e+10",
        "1E5",
        "1e-5",
        "true",
        " false ",
        "\t\r\n null",
        "\"\"",
        "[]",
        "{}",
        " [ ] ",
        " { } ",
        "[1,[2,{\"a\":[]}]]",
        "{\"a\":{\"b\":1},\"c\":[{}]}",
        "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0000\\uD83D\\uDE00\\ud83d\\ude00\"",
        "\"\xc3\xa9\xe4\xb8\xad\xf0\x9f\x98\x80\x7f\"",
        "\"ab\xf4\x8f\xbf\xbf\"",
    };
    static const char *const wrong[] = {
        "",
        " ",
        "00",
        "01",
        "-",
        "+1",
        ".5",
        "1.",
        "1e",
        "1e+",
        "0x1",
        "1 2",
        "tru",
        "True",
        "nul",
        "NaN",
        "Infinity",
        "'a'",
        "\"",
        "\"a",
        "\"\\",
        "\"\\\"",
        "\"\\x\"",
        "\"\\u12\"",
        "\"\\u12G4\"",
        "\"\\u\"",
        "\"\\ud83d\"",
        "\"\\ud83dx\"",
        "\"\\ud83d\\n\"",
        "\"\\ud83d\\ud83d\"",
        "\"\\ude00\"",
        "\"\\ud83d\\u\"",
        "\"\\ud83d\\u00e9\"",
        "\"\x1f\"",
        "\"a\nb\"",
        "\"\xff\"",
        "\"\xc3\"",
        "\"\xc0\x80\"",
        "\"\xed\xa0\x80\"",
        "\"\xf4\x90\x80\x80\"",
        "\"\xe4\xb8\"",
        "\"abcdefg\xc3\"",
        "[",
        "]",
        "[1",
        "[1,",
        "[1,]",
        "[,1]",
        "[1 2]",
        "[1}",
        "{",
        "}",
        "{1:2}",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1",
        "{\"a\":1,",
        "{\"a\":1,}",
        "{\"a\" 1}",
        "{,}",
        "{\"a\":1]",
        "[]]",
        "{}{}",
        "\xef\xbb\xbf{}",
        "[1]\x01",
        "{\"a\":1 \"b\":2}",
        "// a\n1",
        "\v1",
    };
    for (size_t i = 0; i < sizeof right / sizeof right[0]; i++)
        if (!is_json(bytes_text(right[i])))
            fail_msg("refused: %s", right[i]);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        if (is_json(bytes_text(wrong[i])))
            fail_msg("taken: %s", wrong[i]);
    assert_false(is_json(BYTES_LITERAL("[1]\0")));
    assert_false(is_json(BYTES_LITERAL("\"\0\"")));
    assert_false(is_json(BYTES_LITERAL("\"\\\0\"")));
}

/* jansson's word. Negative: it has limits of its own. */
static int oracle(struct bytes text)
{
    json_error_t where;
    json_t *json =
        json_loadb((const char *)text.data, text.size, JSON_DECODE_ANY | JSON_ALLOW_NUL, &where);
    if (json != NULL) {
        json_decref(json);
        return 1;
    }
    enum json_error_code code = json_error_code(&where);
    bool is_limit = code == json_error_null_byte_in_key || code == json_error_numeric_overflow ||
                    code == json_error_null_character;
    return is_limit ? -1 : 0;
}

static void what_jansson_takes_is_taken_and_nothing_else(void **state)
{
    (void)state;
    static const char spoilers[] = "{}[]\":,\\0-1.eEu\x01 \xc3\xa9\xff\x80truefalsn\n\0ud83d";
    struct random random = {11};
    struct buffer text = {0};
    int taken = 0, refused = 0;
    struct arena arena;
    arena_init(&arena, NULL, 0, ARENA_MAX);
    for (int round = 0; round < 4 * ROUNDS; round++) {
        struct value item = random_item(&random, &arena);
        text.size = 0;
        assert_true(round % 2 == 0 ? json_from_item(&item, round % 3, &text)
                                   : json_from_plain(&item, round % 3, &text));
        for (uint64_t spoilt = random_below(&random, 3); spoilt != 0 && text.size != 0; spoilt--)
            text.data[random_below(&random, text.size)] =
                (uint8_t)spoilers[random_below(&random, sizeof spoilers - 1)];
        struct bytes bytes = bytes_of(text.data, text.size - random_below(&random, 8) / 7);
        int expected = oracle(bytes);
        if (expected >= 0 && is_json(bytes) != (expected == 1))
            fail_msg("%s: %.*s", expected == 1 ? "refused" : "taken", (int)bytes.size,
                     (const char *)bytes.data);
        taken += expected == 1;
        refused += expected == 0;
        arena_reset(&arena);
    }
    assert_true(taken > ROUNDS / 2 && refused > ROUNDS / 2);
    buffer_deinit(&text);
    arena_deinit(&arena);
}

static void whatever_is_skipped_may_nest_to_its_limit(void **state)
{
    (void)state;
    char text[2 * JSON_DEPTH_MAX + 2];
    for (size_t depth = JSON_DEPTH_MAX; depth <= JSON_DEPTH_MAX + 1; depth++) {
        struct reading reading;
        memset(text, '[', depth);
        memset(text + depth, ']', depth);
        bool is_skipped = json_skip(begin(&reading, bytes_of(text, 2 * depth)), NULL);
        assert_int_equal(is_skipped, depth == JSON_DEPTH_MAX);
        assert_int_equal(end(&reading), is_skipped ? STATUS_OK : STATUS_VALIDATION);
    }
}

/* ---- member by member ---- */

static void a_text_is_read_member_by_member_and_nulls_are_not_there(void **state)
{
    (void)state;
    struct reading reading;
    struct bytes name = BYTES_NONE, bytes = BYTES_NONE;
    int64_t integer = 0;
    bool truth = false;
    struct json_reader *reader = begin(
        &reading,
        BYTES_LITERAL(" {\"z\" : \"text\", \"none\":null,\"l\\u0069st\":[1,[true],{\"a\":7}], "
                      "\"n\":-7 ,\"raw\":{\"x\":[1, 2]},\"none\":null,\"t\":false} "));
    assert_true(json_enter_map(reader) && json_next_member(reader, &name));
    ASSERT_BYTES(name, "z");
    assert_true(json_read_text(reader, &bytes));
    ASSERT_BYTES(bytes, "text");
    assert_ptr_equal(bytes.data, reading.text + 9); /* no copy */
    assert_true(json_next_member(reader, &name));
    ASSERT_BYTES(name, "list");
    assert_true(json_enter_list(reader) && json_next_element(reader));
    assert_true(json_read_integer(reader, &integer) && integer == 1);
    assert_true(json_next_element(reader) && json_enter_list(reader) && json_next_element(reader));
    assert_true(json_read_truth(reader, &truth) && truth && !json_next_element(reader));
    assert_true(json_next_element(reader) && json_enter_map(reader));
    assert_true(json_next_member(reader, &bytes) && json_read_integer(reader, &integer));
    assert_true(!json_next_member(reader, &bytes) && !json_next_element(reader));
    ASSERT_BYTES(name, "list"); /* still */
    assert_true(json_next_member(reader, &name) && json_read_integer(reader, &integer));
    assert_int_equal(integer, -7);
    assert_true(json_next_member(reader, &name) && json_skip(reader, &bytes));
    ASSERT_BYTES(bytes, "{\"x\":[1, 2]}");
    assert_true(json_next_member(reader, &name) && json_read_truth(reader, &truth) && !truth);
    assert_false(json_next_member(reader, &name));
    assert_int_equal(end(&reading), STATUS_OK);
}

static void the_first_thing_that_is_wrong_ends_it(void **state)
{
    (void)state;
    struct reading reading;
    struct bytes bytes;
    struct json_reader *reader = begin(&reading, BYTES_LITERAL("{\"a\":[7],\"b\":\"x\"}"));
    assert_true(json_enter_map(reader) && json_next_member(reader, &bytes));
    assert_true(json_enter_list(reader) && json_next_element(reader));
    assert_false(json_reader_refuse(reader, STATUS_VALIDATION, "no %d", 7));
    assert_false(json_read_text(reader, &bytes));
    assert_false(json_enter_map(reader));
    assert_false(json_next_member(reader, &bytes));
    assert_false(json_next_element(reader));
    assert_false(json_skip(reader, &bytes));
    assert_false(json_read_item(reader, &bytes));
    assert_int_equal(end(&reading), STATUS_VALIDATION);
    assert_string_equal(reading.error.text, "no 7");
}

static void what_is_no_json_is_told_before_anything_else(void **state)
{
    (void)state;
    struct reading reading;
    struct bytes bytes;
    assert_false(json_read_text(begin(&reading, BYTES_LITERAL("7\n [")), &bytes));
    assert_int_equal(end(&reading), STATUS_MALFORMED);
    assert_string_equal(reading.error.text,
                        "Not JSON at line 2, column 2: something is behind the end");
    assert_false(json_read_text(begin(&reading, BYTES_LITERAL("7")), &bytes));
    assert_int_equal(end(&reading), STATUS_MALFORMED);
    assert_string_equal(reading.error.text, "NUMBER_VALUE cannot be converted to String");
}

static void integers_are_whole_and_fit(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool is_taken;
    } cases[] = {{"9223372036854775807", true},
                 {"-9223372036854775808", true},
                 {"9223372036854775808", false},
                 {"1.0", false},
                 {"1e3", false},
                 {"\"1\"", false},
                 {"1e999999999999999", false},
                 {"123456789012345678901234567890123456789012345", false},
                 {"-0", true}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct reading reading;
        int64_t integer;
        bool is_taken = json_read_integer(begin(&reading, bytes_text(cases[i].text)), &integer);
        assert_int_equal(is_taken, cases[i].is_taken);
        assert_int_equal(end(&reading), is_taken ? STATUS_OK : STATUS_MALFORMED);
    }
}

/* ---- values ---- */

static void items_become_the_messagepack_that_a_tree_gives(void **state)
{
    (void)state;
    struct random random = {5};
    struct buffer text = {0};
    struct buffer wanted = {0};
    struct arena arena;
    arena_init(&arena, NULL, 0, ARENA_MAX);
    for (int round = 0; round < ROUNDS; round++) {
        struct value item = random_item(&random, &arena); /* normalized: in canonical order */
        struct reading reading;
        struct bytes bytes;
        text.size = wanted.size = 0;
        assert_true(json_from_item(&item, round % 3, &text) && value_encode(&item, &wanted));
        struct json_reader *reader = begin(&reading, buffer_bytes(&text));
        if (!json_read_item(reader, &bytes))
            fail_msg("%.*s: %s", (int)text.size, (const char *)text.data, reading.error.text);
        assert_true(bytes_equal(bytes, buffer_bytes(&wanted)));
        assert_int_equal(end(&reading), STATUS_OK);
        arena_reset(&arena);
    }
    buffer_deinit(&text);
    buffer_deinit(&wanted);
    arena_deinit(&arena);
}

static void heads_are_the_shortest_whatever_the_count(void **state)
{
    (void)state;
    static const size_t counts[] = {0, 1, 15, 16, 17, 255, 256, 65535, 65536, 70000};
    struct buffer text = {0};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        struct reading reading;
        struct bytes bytes;
        struct item_facts facts;
        text.size = 0;
        assert_true(buffer_append(&text, BYTES_LITERAL("{\"l\":{\"L\":[")));
        for (size_t n = 0; n < counts[i]; n++)
            assert_true(buffer_append(&text, n == 0 ? BYTES_LITERAL("{\"NULL\":true}")
                                                    : BYTES_LITERAL(",{\"NULL\":true}")));
        assert_true(buffer_append(&text, BYTES_LITERAL("]}}")));
        assert_true(json_read_item(begin(&reading, buffer_bytes(&text)), &bytes));
        assert_int_equal(item_check(bytes, &facts, &reading.error), STATUS_OK);
        assert_true(facts.is_canonical);
        assert_int_equal(end(&reading), STATUS_OK);
    }
    buffer_deinit(&text);
}

static void texts_with_escapes_stand_for_themselves_everywhere(void **state)
{
    (void)state;
    struct reading reading;
    struct bytes bytes;
    assert_true(json_read_item(
        begin(&reading,
              BYTES_LITERAL("{\"\\u0000a\":{\"\\u0053\":\"\\ud83d\\ude00\\n\\u00e9\"},"
                            "\"b\":{\"N\":\"\\u0031\\u0030\"},"
                            "\"c\":{\"B\":\"AAEC\\/w==\"},\"d\":{\"BS\":[\"\\u0041A==\"]},"
                            "\"e\":{\"SS\":[\"\\\"\",\"\\\\\"]}}")),
        &bytes));
    ASSERT_BYTES(bytes, "\x85\xa2\0a\xa7\xf0\x9f\x98\x80\n\xc3\xa9\xa1"
                        "b\x0a\xa1"
                        "c\xc4\x04\x00\x01\x02\xff\xa1"
                        "d\xc7\x03\x04\xc4\x01\x00\xa1"
                        "e\xd6\x02\xa1\"\xa1\\");
    assert_int_equal(end(&reading), STATUS_OK);
    /* A long one, whose head is shorter than that of its text. */
    struct buffer text = {0};
    assert_true(buffer_append(&text, BYTES_LITERAL("{\"S\":\"")));
    for (int i = 0; i < 250; i++)
        assert_true(buffer_append(&text, BYTES_LITERAL("\\u0041")));
    assert_true(buffer_append(&text, BYTES_LITERAL("\"}")));
    assert_true(json_read_value(begin(&reading, buffer_bytes(&text)), &bytes));
    assert_int_equal(bytes.size, 252);
    assert_memory_equal(bytes.data,
                        "\xd9\xfa"
                        "AAAA",
                        6);
    assert_int_equal(end(&reading), STATUS_OK);
    buffer_deinit(&text);
}

static void names_are_texts_only(void **state)
{
    (void)state;
    struct reading reading;
    struct bytes bytes;
    assert_true(
        json_read_names(begin(&reading, BYTES_LITERAL("{\"#a\":\"x\",\"#b\":\"\"}")), &bytes));
    ASSERT_BYTES(bytes, "\x82\xa2#a\xa1x\xa2#b\xa0");
    assert_int_equal(end(&reading), STATUS_OK);
    assert_false(json_read_names(begin(&reading, BYTES_LITERAL("{\"#a\":{\"S\":\"x\"}}")), &bytes));
    assert_int_equal(end(&reading), STATUS_MALFORMED);
    assert_string_equal(reading.error.text, "Start of structure or map found where not expected");
}

/* ---- memory ---- */

static void what_grows_most_fits_the_memory_that_is_taken(void **state)
{
    (void)state;
    enum { COUNT = 70000 };
    static const struct {
        const char *open, *element, *close;
        bool is_plain;
    } cases[] = {
        {"[", "9e9", "]", true},
        {"{\"NS\":[", "\"9e9\"", "]}", false},
        {"{\"L\":[", "{\"N\":\"9e9\"}", "]}", false},
        {"[", "[9e9]", "]", true},
        {"[", "{\"\\n\":9e9}", "]", true},
        {"{\"SS\":[", "\"\\n\"", "]}", false},
    };
    struct buffer text = {0};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (size_t count = 1; count <= COUNT; count = count < 20 ? count + 1 : count * 58) {
            struct reading reading;
            struct bytes bytes;
            text.size = 0;
            assert_true(buffer_append(&text, bytes_text(cases[i].open)));
            for (size_t n = 0; n < count; n++)
                assert_true((n == 0 || buffer_append(&text, BYTES_LITERAL(","))) &&
                            buffer_append(&text, bytes_text(cases[i].element)));
            assert_true(buffer_append(&text, bytes_text(cases[i].close)));
            struct json_reader *reader = begin(&reading, buffer_bytes(&text));
            assert_true(cases[i].is_plain ? json_read_plain(reader, &bytes)
                                          : json_read_value(reader, &bytes));
            assert_int_equal(end(&reading), STATUS_OK);
        }
    }
    buffer_deinit(&text);
}

static void memory_is_taken_once_whatever_is_read(void **state)
{
    (void)state;
    struct bytes text = BYTES_LITERAL("{\"a\":{\"p\":{\"S\":\"x\"}},\"b\":{\"p\":{\"L\":[]}},"
                                      "\"c\":\"\\n\",\"d\":{\"p\":{\"S\":\"\\\\\"}}}");
    size_t taken = 0, refused = 0;
    for (size_t heap = 0; taken == 0; heap += 16) {
        struct arena arena;
        struct json_reader reader;
        struct error error;
        struct bytes name = BYTES_NONE, bytes;
        arena_init(&arena, NULL, 0, heap);
        json_reader_init(&reader, text, &arena, &error);
        assert_true(json_enter_map(&reader));
        while (json_next_member(&reader, &name))
            if (name.data[0] == 'c' ? !json_read_text(&reader, &bytes)
                                    : !json_read_item(&reader, &bytes))
                break;
        enum status status = json_reader_end(&reader);
        assert_true(status == STATUS_OK || status == STATUS_NO_MEMORY);
        taken += status == STATUS_OK;
        refused += status == STATUS_NO_MEMORY;
        assert_true(heap < 9 * (text.size / 4 + 1) + 128);
        arena_deinit(&arena);
    }
    assert_true(refused > 5);
}

static void an_item_of_200_000_tiny_values_is_read_in_memory_of_its_size(void **state)
{
    (void)state;
    struct buffer text = {0};
    struct arena arena;
    struct json_reader reader;
    struct error error;
    struct bytes bytes;
    assert_true(
        buffer_append(&text, BYTES_LITERAL("{\"p\":{\"S\":\"k\"},\"l\":{\"L\":[{\"NULL\":true}")));
    for (int i = 1; i < 204000; i++)
        assert_true(buffer_append(&text, BYTES_LITERAL(",{\"NULL\":true}")));
    assert_true(buffer_append(&text, BYTES_LITERAL("]}}")));
    arena_init(&arena, NULL, 0, text.size / 4 * 9 + 128);
    json_reader_init(&reader, buffer_bytes(&text), &arena, &error);
    assert_true(json_read_item(&reader, &bytes));
    assert_int_equal(json_reader_end(&reader), STATUS_OK);
    struct item_facts facts;
    assert_int_equal(item_check(bytes, &facts, &error), STATUS_OK);
    arena_deinit(&arena);
    buffer_deinit(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_json_is_what_rfc_8259_says),
        cmocka_unit_test(what_jansson_takes_is_taken_and_nothing_else),
        cmocka_unit_test(whatever_is_skipped_may_nest_to_its_limit),
        cmocka_unit_test(a_text_is_read_member_by_member_and_nulls_are_not_there),
        cmocka_unit_test(the_first_thing_that_is_wrong_ends_it),
        cmocka_unit_test(what_is_no_json_is_told_before_anything_else),
        cmocka_unit_test(integers_are_whole_and_fit),
        cmocka_unit_test(items_become_the_messagepack_that_a_tree_gives),
        cmocka_unit_test(heads_are_the_shortest_whatever_the_count),
        cmocka_unit_test(texts_with_escapes_stand_for_themselves_everywhere),
        cmocka_unit_test(names_are_texts_only),
        cmocka_unit_test(what_grows_most_fits_the_memory_that_is_taken),
        cmocka_unit_test(memory_is_taken_once_whatever_is_read),
        cmocka_unit_test(an_item_of_200_000_tiny_values_is_read_in_memory_of_its_size),
    };
    return cmocka_run_group_tests_name("json_reader", tests, NULL, NULL);
}
