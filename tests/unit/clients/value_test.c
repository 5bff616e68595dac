#include "clients/c/src/message.h"
#include "clients/c/src/value.h"
#include "protocol/encoding/msgpack.h"

#include <stdarg.h>

#include <setjmp.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

static struct mudax_value *parse(const char *json)
{
    struct mudax_error error;
    struct mudax_value *value = mudax_from_json(json, strlen(json), &error);
    assert_non_null(value);
    return value;
}

static void assert_json(const struct mudax_value *value, const char *expected)
{
    char *text = mudax_to_json(value, 0);
    assert_non_null(text);
    assert_string_equal(text, expected);
    free(text);
}

static void values_are_read_as_they_were_made(void **state)
{
    (void)state;
    struct mudax_value *map = mudax_map();
    struct mudax_value *list = mudax_list();
    size_t size;
    int64_t integer;
    char number[MUDAX_NUMBER_TEXT];
    assert_true(mudax_append(list, mudax_null()));
    assert_true(mudax_append(list, mudax_int(INT64_MIN)));
    assert_true(mudax_put(map, "text", mudax_string("Ada")));
    assert_true(mudax_put(map, "raw", mudax_binary("\0\xff", 2)));
    assert_true(mudax_put(map, "price", mudax_number("12.50")));
    assert_true(mudax_put(map, "is", mudax_bool(true)));
    assert_true(mudax_put(map, "list", list));
    assert_int_equal(mudax_count(map), 5);
    assert_memory_equal(mudax_text(mudax_get(map, "text"), &size), "Ada", 3);
    assert_int_equal(size, 3);
    assert_memory_equal(mudax_text(mudax_get(map, "raw"), &size), "\0\xff", 2);
    assert_int_equal(size, 2);
    assert_string_equal(mudax_number_text(mudax_get(map, "price"), number), "12.5");
    assert_false(mudax_as_int(mudax_get(map, "price"), &integer));
    assert_true(mudax_truth(mudax_get(map, "is")));
    assert_int_equal(mudax_type(mudax_at(mudax_get(map, "list"), 0)), MUDAX_NULL);
    assert_true(mudax_as_int(mudax_at(mudax_get(map, "list"), 1), &integer));
    assert_true(integer == INT64_MIN);
    assert_null(mudax_get(map, "absent"));
    assert_null(mudax_at(map, 5));
    mudax_free(map);
}

static void names_are_sorted_and_the_last_value_of_a_name_stays(void **state)
{
    (void)state;
    struct mudax_value *map = mudax_map();
    char name[8];
    for (int i = 0; i < 100; i++) {
        (void)snprintf(name, sizeof name, "n%02d", i * 37 % 100);
        assert_true(mudax_put(map, name, mudax_int(i)));
        assert_true(mudax_put(map, name, mudax_int(i * 37 % 100)));
    }
    assert_int_equal(mudax_count(map), 100);
    for (size_t i = 0; i < 100; i++) {
        size_t size;
        int64_t integer;
        (void)snprintf(name, sizeof name, "n%02zu", i);
        assert_memory_equal(mudax_name_at(map, i, &size), name, 3);
        assert_int_equal(size, 3);
        assert_true(mudax_as_int(mudax_at(map, i), &integer));
        assert_int_equal(integer, i);
    }
    mudax_free(map);
}

static void sets_are_sorted_and_hold_a_member_once(void **state)
{
    (void)state;
    struct mudax_value *map = mudax_map();
    struct mudax_value *numbers = mudax_number_set();
    struct mudax_value *texts = mudax_string_set();
    assert_true(mudax_append(numbers, mudax_int(10)));
    assert_true(mudax_append(numbers, mudax_int(9)));
    assert_true(mudax_append(numbers, mudax_number("-0.5")));
    assert_true(mudax_append(texts, mudax_string("b")));
    assert_true(mudax_append(texts, mudax_string("a")));
    assert_true(mudax_put(map, "n", numbers));
    assert_true(mudax_put(map, "s", texts));
    assert_json(map, "{\"n\":{\"NS\":[\"-0.5\",\"9\",\"10\"]},\"s\":{\"SS\":[\"a\",\"b\"]}}");
    mudax_free(map);

    texts = mudax_string_set();
    assert_true(mudax_append(texts, mudax_string("a")));
    assert_false(mudax_append(texts, mudax_string("a")));
    assert_int_equal(mudax_count(texts), 1);
    mudax_free(texts);
    texts = mudax_string_set();
    assert_false(mudax_append(texts, mudax_int(1)));
    mudax_free(texts);
}

static void what_cannot_be_built_spoils_what_it_belongs_to(void **state)
{
    (void)state;
    struct mudax_error error;
    struct buffer out = {0};
    struct mudax_value *map = mudax_map();
    struct mudax_value *list = mudax_list();
    assert_null(mudax_number("one"));
    assert_null(mudax_number(""));
    assert_null(mudax_string(NULL));
    assert_false(mudax_append(list, mudax_number("1e999")));
    assert_false(mudax_put(map, "list", list));
    assert_true(mudax_put(map, "id", mudax_int(1)));
    struct mudax_request request = {.operation = MUDAX_PUT_ITEM, .table = "t", .item = map};
    assert_int_equal(message_write(&request, 1, 1, &out, &error), MUDAX_INVALID_REQUEST);
    assert_non_null(strstr(error.text, "PutItem: item is no map, or a part of it"));
    assert_int_equal(out.size, 0);
    mudax_free(map);

    assert_false(mudax_put(NULL, "a", mudax_int(1)));
    assert_false(mudax_append(NULL, mudax_int(1)));
    list = mudax_list();
    assert_false(mudax_put(list, "a", mudax_int(1)));
    mudax_free(list);
    mudax_free(NULL);
}

static void readers_take_nothing_and_other_types(void **state)
{
    (void)state;
    struct mudax_value *text = mudax_string("x");
    char number[MUDAX_NUMBER_TEXT];
    int64_t integer;
    size_t size = 7;
    assert_int_equal(mudax_type(NULL), MUDAX_NONE);
    assert_int_equal(mudax_count(NULL), 0);
    assert_int_equal(mudax_count(text), 0);
    assert_null(mudax_get(NULL, "a"));
    assert_null(mudax_get(text, "a"));
    assert_null(mudax_at(text, 0));
    assert_null(mudax_name_at(text, 0, &size));
    assert_int_equal(size, 0);
    assert_null(mudax_text(NULL, &size));
    assert_string_equal(mudax_number_text(text, number), "");
    assert_false(mudax_as_int(text, &integer));
    assert_false(mudax_truth(text));
    assert_null(mudax_copy(NULL));
    assert_null(mudax_to_json(text, 0));
    assert_null(mudax_to_json(NULL, 0));
    mudax_free(text);
}

static void the_longest_number_has_room(void **state)
{
    (void)state;
    char number[MUDAX_NUMBER_TEXT];
    struct mudax_value *value = mudax_number("-1.2345678901234567890123456789012345678E-93");
    assert_non_null(value);
    assert_true(strlen(mudax_number_text(value, number)) < MUDAX_NUMBER_TEXT);
    assert_memory_equal(number, "-0.000", 6);
    mudax_free(value);
    value = mudax_number("9.9999999999999999999999999999999999999E+125");
    assert_int_equal(strlen(mudax_number_text(value, number)), 126);
    mudax_free(value);
}

static void json_goes_both_ways(void **state)
{
    (void)state;
    static const char json[] = "{\"b\":{\"B\":\"AP8=\"},\"bs\":{\"BS\":[\"AA==\"]},\"l\":{\"L\":[{"
                               "\"M\":{}},{\"NULL\":true}]},"
                               "\"n\":{\"N\":\"1\"},\"t\":{\"BOOL\":false}}";
    struct mudax_value *value = parse(json);
    struct mudax_value *copy = mudax_copy(value);
    mudax_free(value);
    assert_json(copy, json);
    mudax_free(copy);

    struct mudax_error error;
    static const char plain[] = "{\"a\":[1,true,null,\"x\"],\"m\":{}}";
    value = mudax_from_plain_json(plain, strlen(plain), &error);
    char *text = mudax_to_plain_json(value, 0);
    assert_string_equal(text, plain);
    free(text);
    mudax_free(value);

    assert_null(mudax_from_json("{\"a\":", 5, &error));
    assert_int_equal(error.code, MUDAX_INVALID_REQUEST);
    assert_non_null(strstr(error.text, "line 1"));
    assert_null(mudax_from_json("{\"a\":{\"N\":\"x\"}}", 15, NULL));
}

static void what_was_read_can_be_changed(void **state)
{
    (void)state;
    struct mudax_value *value = parse("{\"a\":{\"N\":\"1\"},\"c\":{\"L\":[{\"N\":\"1\"},"
                                      "{\"N\":\"2\"},{\"N\":\"3\"}]},\"d\":{\"N\":\"4\"}}");
    assert_true(mudax_put(value, "b", mudax_int(2)));
    assert_true(mudax_put(value, "c", mudax_null()));
    assert_true(mudax_put(value, "e", mudax_int(5)));
    assert_json(value, "{\"a\":{\"N\":\"1\"},\"b\":{\"N\":\"2\"},\"c\":{\"NULL\":true},"
                       "\"d\":{\"N\":\"4\"},\"e\":{\"N\":\"5\"}}");
    mudax_free(value);
}

static void built_items_are_canonical_bytes(void **state)
{
    (void)state;
    struct mudax_value *item = mudax_map();
    struct mudax_value *tags = mudax_string_set();
    struct buffer bytes = {0};
    struct item_facts facts;
    struct error error;
    (void)mudax_append(tags, mudax_string("z"));
    (void)mudax_append(tags, mudax_string("a"));
    (void)mudax_put(item, "z", tags);
    (void)mudax_put(item, "a", mudax_number("1e2"));
    assert_true(value_encode(value_tree(item), &bytes));
    assert_int_equal(item_check(buffer_bytes(&bytes), &facts, &error), STATUS_OK);
    assert_true(facts.is_canonical);
    buffer_deinit(&bytes);
    mudax_free(item);
}

static void items_have_dynamodbs_size(void **state)
{
    (void)state;
    struct mudax_value *item = mudax_map(), *list = mudax_list();
    (void)mudax_append(list, mudax_bool(true));
    (void)mudax_append(list, mudax_string("\xc3\xa9"));
    (void)mudax_put(item, "id", mudax_string("a"));    /* 2 + 1 */
    (void)mudax_put(item, "n", mudax_number("-12.5")); /* 1 + 2 + 1 and a sign */
    (void)mudax_put(item, "l", list);                  /* 1 + 3 + (1 + 1) + (1 + 2) */
    assert_int_equal(mudax_item_size(item), 3 + 5 + 9);
    assert_int_equal(mudax_item_size(mudax_get(item, "l")), 0);
    assert_int_equal(mudax_item_size(NULL), 0);
    mudax_free(item);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(items_have_dynamodbs_size),
        cmocka_unit_test(values_are_read_as_they_were_made),
        cmocka_unit_test(names_are_sorted_and_the_last_value_of_a_name_stays),
        cmocka_unit_test(sets_are_sorted_and_hold_a_member_once),
        cmocka_unit_test(what_cannot_be_built_spoils_what_it_belongs_to),
        cmocka_unit_test(readers_take_nothing_and_other_types),
        cmocka_unit_test(the_longest_number_has_room),
        cmocka_unit_test(json_goes_both_ways),
        cmocka_unit_test(what_was_read_can_be_changed),
        cmocka_unit_test(built_items_are_canonical_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
