#include "protocol/encoding/msgpack.h"
#include "tests/unit/protocol/random_value.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { ROUNDS = 3000, ARENA_MAX = 64 << 20 };

static void only_well_formed_utf8_is_valid(void **state)
{
    (void)state;
    static const struct {
        struct bytes text;
        bool is_valid;
    } cases[] = {
        {{(const uint8_t *)"", 0}, true},
        {{(const uint8_t *)"plain text longer than sixteen", 30}, true},
        {{(const uint8_t *)"\xc3\xa9", 2}, true},
        {{(const uint8_t *)"12345678\xc3\xa9", 10}, true},
        {{(const uint8_t *)"1234567\xc3\xa9", 9}, true},
        {{(const uint8_t *)"\xe2\x82\xac", 3}, true},
        {{(const uint8_t *)"\xf0\x9f\x98\x80", 4}, true},
        {{(const uint8_t *)"\xf4\x8f\xbf\xbf", 4}, true},
        {{(const uint8_t *)"\0", 1}, true},
        {{(const uint8_t *)"\x80", 1}, false},             /* a continuation alone */
        {{(const uint8_t *)"\xc3", 1}, false},             /* cut */
        {{(const uint8_t *)"\xc0\x80", 2}, false},         /* overlong */
        {{(const uint8_t *)"\xc1\xbf", 2}, false},         /* overlong */
        {{(const uint8_t *)"\xe0\x9f\xbf", 3}, false},     /* overlong */
        {{(const uint8_t *)"\xed\xa0\x80", 3}, false},     /* surrogate */
        {{(const uint8_t *)"\xf0\x8f\xbf\xbf", 4}, false}, /* overlong */
        {{(const uint8_t *)"\xf4\x90\x80\x80", 4}, false}, /* above U+10FFFF */
        {{(const uint8_t *)"\xf5\x80\x80\x80", 4}, false},
        {{(const uint8_t *)"\xe2\x82", 2}, false},
        {{(const uint8_t *)"\xe2\x28\xac", 3}, false},
        {{(const uint8_t *)"1234567890123456\xff", 17}, false},
        {{(const uint8_t *)"123456789012\xff", 13}, false},
        {{(const uint8_t *)"12345678901\xff"
                           "2",
          13},
         false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (utf8_is_valid(cases[i].text) != cases[i].is_valid)
            fail_msg("case %zu", i);
}

/* The oracle: decodes each character and looks at its code point. */
static bool slow_utf8(struct bytes text)
{
    for (size_t at = 0; at < text.size;) {
        uint8_t lead = text.data[at];
        size_t size = lead < 0x80       ? 1
                      : lead >> 5 == 6  ? 2
                      : lead >> 4 == 14 ? 3
                      : lead >> 3 == 30 ? 4
                                        : 0;
        if (size == 0 || at + size > text.size)
            return false;
        uint32_t code = size == 1 ? lead : lead & (0xffU >> (size + 1));
        for (size_t i = 1; i < size; i++) {
            if (text.data[at + i] >> 6 != 2)
                return false;
            code = code << 6 | (text.data[at + i] & 0x3f);
        }
        static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
        if (code < least[size] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
            return false;
        at += size;
    }
    return true;
}

static void utf8_agrees_with_a_slow_reader_on_damaged_texts(void **state)
{
    (void)state;
    struct random random = {1};
    struct arena arena;
    arena_init(&arena, NULL, 0, ARENA_MAX);
    for (int round = 0; round < 10 * ROUNDS; round++) {
        struct bytes text = random_text(&random, &arena, 12);
        if (text.size != 0 && random_below(&random, 4) != 0) {
            uint8_t *data = (uint8_t *)(uintptr_t)text.data;
            data[random_below(&random, text.size)] = (uint8_t)random_next(&random);
        }
        assert_int_equal(utf8_is_valid(text), slow_utf8(text));
        arena_reset(&arena);
    }
    arena_deinit(&arena);
}

static struct bytes encode(const struct value *value, struct buffer *buffer)
{
    buffer->size = 0;
    assert_true(value_encode(value, buffer));
    return buffer_bytes(buffer);
}

static void the_same_value_always_gives_the_same_bytes(void **state)
{
    (void)state;
    struct random random = {2};
    struct arena arena;
    struct buffer first = {0};
    struct buffer second = {0};
    struct error error;
    arena_init(&arena, NULL, 0, ARENA_MAX);
    for (int round = 0; round < ROUNDS; round++) {
        struct value value = random_value(&random, &arena, 4);
        (void)encode(&value, &first);
        shuffle_value(&random, &value);
        assert_int_equal(value_normalize(&value, &error), STATUS_OK);
        (void)encode(&value, &second);
        assert_int_equal(first.size, second.size);
        assert_memory_equal(first.data, second.data, first.size);
        arena_reset(&arena);
    }
    buffer_deinit(&first);
    buffer_deinit(&second);
    arena_deinit(&arena);
}

static void values_decode_to_what_was_encoded(void **state)
{
    (void)state;
    struct random random = {3};
    struct arena arena;
    struct buffer buffer = {0};
    struct error error;
    arena_init(&arena, NULL, 0, ARENA_MAX);
    for (int round = 0; round < ROUNDS; round++) {
        struct value value = random_value(&random, &arena, 4);
        struct msgpack_cursor cursor = msgpack_cursor_of(encode(&value, &buffer));
        struct value back;
        assert_int_equal(value_decode(&cursor, &arena, &back, &error), STATUS_OK);
        assert_ptr_equal(cursor.at, cursor.end);
        assert_true(values_are_equal(&value, &back));
        arena_reset(&arena);
    }
    buffer_deinit(&buffer);
    arena_deinit(&arena);
}

static struct value text_value(const char *text)
{
    return (struct value){.type = VALUE_S, .bytes = bytes_text(text)};
}

static struct value set_of(enum value_type type, struct value *members, size_t count)
{
    return (struct value){.type = type, .values = members, .count = count};
}

static void refuse(struct value value, const char *text)
{
    struct error error = {.text = ""};
    assert_int_equal(value_normalize(&value, &error), STATUS_VALIDATION);
    assert_string_equal(error.text, text);
}

static void broken_sets_are_refused_with_dynamodbs_texts(void **state)
{
    (void)state;
    struct value texts[] = {text_value("b"), text_value("a"), text_value("b")};
    struct value one = {.type = VALUE_N, .number = number_from_int(1)};
    struct value numbers[] = {one, one};
    struct value binary = {.type = VALUE_B, .bytes = BYTES_LITERAL("\xff")};
    struct value binaries[] = {binary, binary};
    struct value mixed[] = {text_value("a"), one};
    struct value broken[] = {text_value("\xff")};
    refuse(set_of(VALUE_SS, texts, 0),
           "One or more parameter values were invalid: An string set  may not be empty");
    refuse(set_of(VALUE_NS, texts, 0),
           "One or more parameter values were invalid: An number set  may not be empty");
    refuse(set_of(VALUE_BS, texts, 0),
           "One or more parameter values were invalid: Binary sets should not be empty");
    refuse(set_of(VALUE_SS, texts, 3), "One or more parameter values were invalid: Input "
                                       "collection [a, b, b] contains duplicates.");
    refuse(set_of(VALUE_NS, numbers, 2), "Input collection contains duplicates");
    refuse(set_of(VALUE_BS, binaries, 2), "One or more parameter values were invalid: Input "
                                          "collection of type BS contains duplicates.");
    refuse(set_of(VALUE_SS, mixed, 2),
           "One or more parameter values were invalid: A member of type N in a set of type SS");
    refuse(set_of(VALUE_SS, broken, 1),
           "One or more parameter values were invalid: A string is not valid UTF-8");
}

static void broken_names_are_refused(void **state)
{
    (void)state;
    static char long_name[ATTRIBUTE_NAME_MAX + 1];
    memset(long_name, 'n', sizeof long_name);
    struct attribute twice[] = {{BYTES_LITERAL("a"), text_value("1")},
                                {BYTES_LITERAL("b"), text_value("2")},
                                {BYTES_LITERAL("a"), text_value("3")}};
    struct attribute empty[] = {{BYTES_LITERAL(""), text_value("1")}};
    struct attribute longest[] = {{bytes_of(long_name, ATTRIBUTE_NAME_MAX), text_value("1")}};
    struct attribute too_long[] = {{bytes_of(long_name, sizeof long_name), text_value("1")}};
    refuse((struct value){.type = VALUE_M, .attributes = twice, .count = 3},
           "One or more parameter values were invalid: Duplicate attribute name: a");
    refuse((struct value){.type = VALUE_M, .attributes = empty, .count = 1},
           "One or more parameter values were invalid: Empty attribute name");
    refuse((struct value){.type = VALUE_M, .attributes = too_long, .count = 1},
           "1 validation error detected: Attribute name is too large, must be less "
           "than 65536 bytes");
    struct value value = {.type = VALUE_M, .attributes = longest, .count = 1};
    struct error error;
    assert_int_equal(value_normalize(&value, &error), STATUS_OK);
}

static void lists_nest_to_the_limit_and_no_deeper(void **state)
{
    (void)state;
    struct value nest[ITEM_DEPTH_MAX + 1];
    struct error error;
    for (int i = 0; i <= ITEM_DEPTH_MAX; i++)
        nest[i] = (struct value){.type = VALUE_L, .values = &nest[i + 1], .count = 1};
    nest[ITEM_DEPTH_MAX].count = 0;
    assert_int_equal(value_normalize(&nest[1], &error), STATUS_OK);
    refuse(nest[0], "Nesting Levels have exceeded supported limits: Attributes in the item have "
                    "nested levels beyond supported limit");
}

static void types_have_dynamodbs_names(void **state)
{
    (void)state;
    static const char *const names[] = {"S", "N", "B", "BOOL", "NULL", "L", "M", "SS", "NS", "BS"};
    for (int type = VALUE_S; type <= VALUE_BS; type++)
        assert_string_equal(value_type_name((enum value_type)type), names[type]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_well_formed_utf8_is_valid),
        cmocka_unit_test(utf8_agrees_with_a_slow_reader_on_damaged_texts),
        cmocka_unit_test(the_same_value_always_gives_the_same_bytes),
        cmocka_unit_test(values_decode_to_what_was_encoded),
        cmocka_unit_test(broken_sets_are_refused_with_dynamodbs_texts),
        cmocka_unit_test(broken_names_are_refused),
        cmocka_unit_test(lists_nest_to_the_limit_and_no_deeper),
        cmocka_unit_test(types_have_dynamodbs_names),
    };
    return cmocka_run_group_tests_name("value", tests, NULL, NULL);
}
