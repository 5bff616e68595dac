/* Checks tests/vectors/values.json both ways. */
#include "protocol/encoding/json.h"
#include "protocol/encoding/msgpack.h"

#include <jansson.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

enum { ARENA_MAX = 1 << 20 };

static int load(void **state)
{
    json_error_t error;
    *state = json_load_file(MUDAX_SOURCE "/tests/vectors/values.json", JSON_ALLOW_NUL, &error);
    return *state == NULL ? -1 : 0;
}

static int unload(void **state)
{
    json_decref(*state);
    return 0;
}

static struct bytes hex_bytes(const json_t *row, struct arena *arena)
{
    const char *hex = json_string_value(json_object_get(row, "hex"));
    size_t size = strlen(hex) / 2;
    uint8_t *bytes = arena_alloc(arena, size);
    assert_non_null(bytes);
    for (size_t i = 0; i < size; i++) {
        char digits[3] = {hex[2 * i], hex[2 * i + 1], '\0'};
        bytes[i] = (uint8_t)strtoul(digits, NULL, 16);
    }
    return bytes_of(bytes, size);
}

static void read_item(const json_t *json, struct arena *arena, struct value *out)
{
    char *text = json_dumps(json, 0);
    struct error error;
    assert_non_null(text);
    if (json_to_item(bytes_text(text), arena, out, &error) != STATUS_OK)
        fail_msg("%s: %s", text, error_text(&error));
    free(text);
}

static const json_t *rows(void **state, const char *section)
{
    const json_t *array = json_object_get(*state, section);
    assert_true(json_array_size(array) > 0);
    return array;
}

static void items_have_the_bytes_of_the_vectors(void **state)
{
    size_t i = 0;
    json_t *row = NULL;
    json_array_foreach(rows(state, "items"), i, row)
    {
        struct arena arena;
        struct buffer buffer = {0};
        struct value item;
        struct value back;
        struct error error;
        struct item_facts facts;
        arena_init(&arena, NULL, 0, ARENA_MAX);
        struct bytes wanted = hex_bytes(row, &arena);
        read_item(json_object_get(row, "item"), &arena, &item);
        assert_true(value_encode(&item, &buffer));
        if (!bytes_equal(buffer_bytes(&buffer), wanted))
            fail_msg("%s", json_string_value(json_object_get(row, "about")));
        assert_int_equal(item_check(wanted, &facts, &error), STATUS_OK);
        assert_true(facts.is_canonical);

        struct msgpack_cursor cursor = msgpack_cursor_of(wanted);
        assert_int_equal(value_decode(&cursor, &arena, &back, &error), STATUS_OK);
        buffer.size = 0;
        assert_true(value_encode(&back, &buffer));
        assert_true(bytes_equal(buffer_bytes(&buffer), wanted));
        buffer_deinit(&buffer);
        arena_deinit(&arena);
    }
}

static void numbers_have_the_ordered_bytes_of_the_vectors(void **state)
{
    size_t i = 0;
    json_t *row = NULL;
    json_array_foreach(rows(state, "ordered_numbers"), i, row)
    {
        struct arena arena;
        struct number number;
        struct number back;
        struct error error;
        uint8_t ordered[NUMBER_ORDERED_MAX];
        size_t used = 0;
        arena_init(&arena, NULL, 0, ARENA_MAX);
        struct bytes text = bytes_text(json_string_value(json_object_get(row, "number")));
        struct bytes wanted = hex_bytes(row, &arena);
        assert_int_equal(number_parse(text, &number, &error), STATUS_OK);
        assert_true(bytes_equal(bytes_of(ordered, number_to_ordered(&number, ordered)), wanted));
        assert_true(number_from_ordered(wanted, &back, &used));
        assert_int_equal(number_compare(&number, &back), 0);
        arena_deinit(&arena);
    }
}

static struct key_attribute key_attribute(const struct value *map, const json_t *name)
{
    struct bytes wanted = bytes_text(json_string_value(name));
    for (size_t i = 0; i < map->count; i++)
        if (bytes_equal(map->attributes[i].name, wanted))
            return (struct key_attribute){wanted, map->attributes[i].value.type};
    fail();
    return (struct key_attribute){0};
}

static void keys_have_the_bytes_of_the_vectors(void **state)
{
    size_t i = 0;
    json_t *row = NULL;
    json_array_foreach(rows(state, "keys"), i, row)
    {
        struct arena arena;
        struct buffer map = {0};
        struct buffer back = {0};
        struct value value;
        struct key_schema schema = {0};
        struct item_key key;
        struct error error;
        arena_init(&arena, NULL, 0, ARENA_MAX);
        const json_t *order = json_object_get(row, "order");
        read_item(json_object_get(row, "key"), &arena, &value);
        schema.partition = key_attribute(&value, json_array_get(order, 0));
        if (json_array_size(order) == 2)
            schema.sort = key_attribute(&value, json_array_get(order, 1));
        assert_true(value_encode(&value, &map));
        assert_int_equal(item_key_build(buffer_bytes(&map), &schema, true, &arena, &key, &error),
                         STATUS_OK);
        assert_true(bytes_equal(key.bytes, hex_bytes(row, &arena)));
        assert_int_equal(key.partition_size,
                         json_integer_value(json_object_get(row, "partition_size")));
        assert_true(item_key_encode(key, &schema, &arena, &back));
        assert_true(bytes_equal(buffer_bytes(&back), buffer_bytes(&map)));
        buffer_deinit(&map);
        buffer_deinit(&back);
        arena_deinit(&arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(items_have_the_bytes_of_the_vectors),
        cmocka_unit_test(numbers_have_the_ordered_bytes_of_the_vectors),
        cmocka_unit_test(keys_have_the_bytes_of_the_vectors),
    };
    return cmocka_run_group_tests_name("vectors", tests, load, unload);
}
