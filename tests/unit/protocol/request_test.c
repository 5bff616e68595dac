#include "protocol/request.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { ARENA_MAX = 1 << 20 };

static const struct table table_ss = {
    .id = 1,
    .name = BYTES_LITERAL("orders"),
    .key = {{BYTES_LITERAL("p"), VALUE_S}, {BYTES_LITERAL("s"), VALUE_S}, false}};
static const struct table table_s = {
    .id = 2,
    .name = BYTES_LITERAL("users"),
    .key = {{BYTES_LITERAL("p"), VALUE_S}, {BYTES_NONE, VALUE_S}, false}};

struct fixture {
    struct arena arena;
    struct request request;
    struct error error;
};

static void start(struct fixture *fixture, enum operation operation)
{
    *fixture = (struct fixture){.request = {.operation = operation}};
    arena_init(&fixture->arena, NULL, 0, ARENA_MAX);
}

static enum status bind(struct fixture *fixture, const struct table *table)
{
    return request_bind(&fixture->request, table, &fixture->arena, &fixture->error);
}

static void stop(struct fixture *fixture)
{
    arena_deinit(&fixture->arena);
}

static void operations_have_dynamodbs_names(void **state)
{
    (void)state;
    assert_string_equal(operation_name(OPERATION_GET_ITEM), "GetItem");
    assert_string_equal(operation_name(OPERATION_STATS), "Stats");
    assert_string_equal(operation_name((enum operation)OPERATIONS), "Unknown");
    for (int i = 0; i < OPERATIONS; i++)
        assert_string_not_equal(operation_name((enum operation)i), "Unknown");
}

static void gets_and_deletes_take_exactly_the_key(void **state)
{
    (void)state;
    static const enum operation operations[] = {OPERATION_GET_ITEM, OPERATION_DELETE_ITEM};
    for (size_t i = 0; i < 2; i++) {
        struct fixture fixture;
        start(&fixture, operations[i]);
        fixture.request.key = BYTES_LITERAL("\x82\xa1p\xa1k\xa1s\xa1x");
        assert_int_equal(bind(&fixture, &table_ss), STATUS_OK);
        assert_ptr_equal(fixture.request.table, &table_ss);
        assert_true(bytes_equal(fixture.request.item_key.bytes, BYTES_LITERAL("k\x00\x01x")));
        stop(&fixture);

        start(&fixture, operations[i]);
        fixture.request.key = BYTES_LITERAL("\x83\xa1p\xa1k\xa1s\xa1x\xa1t\xa1x");
        assert_int_equal(bind(&fixture, &table_ss), STATUS_VALIDATION);
        assert_null(fixture.request.table);
        fixture.request.key = BYTES_NONE;
        assert_int_equal(bind(&fixture, &table_ss), STATUS_VALIDATION);
        assert_string_equal(fixture.error.text,
                            "The parameter 'Key' is required but was not present in the request");
        stop(&fixture);
    }
}

static void puts_bind_to_a_canonical_item_with_key_and_size(void **state)
{
    (void)state;
    struct fixture fixture;
    start(&fixture, OPERATION_PUT_ITEM);
    fixture.request.item = BYTES_LITERAL("\x83\xa1s\xa1x\xa1p\xa1k\xa1n\xcc\x05");
    assert_int_equal(bind(&fixture, &table_ss), STATUS_OK);
    assert_true(
        bytes_equal(fixture.request.item, BYTES_LITERAL("\x83\xa1n\x05\xa1p\xa1k\xa1s\xa1x")));
    assert_true(bytes_equal(fixture.request.item_key.bytes, BYTES_LITERAL("k\x00\x01x")));
    assert_int_equal(fixture.request.item_size, 2 + 2 + 1 + 2);
    /* Once bound it stays as it is. */
    struct bytes item = fixture.request.item;
    assert_int_equal(bind(&fixture, &table_s), STATUS_OK);
    assert_ptr_equal(fixture.request.table, &table_ss);
    assert_ptr_equal(fixture.request.item.data, item.data);
    stop(&fixture);
}

static void puts_without_a_good_key_are_refused_and_left_as_they_were(void **state)
{
    (void)state;
    static const struct {
        struct bytes item;
        const char *text;
    } cases[] = {
        {{(const uint8_t *)"\x82\xa1p\xa1k\xa1n\xcc\x05", 9},
         "One or more parameter values were invalid: Missing the key s in the item"},
        {{(const uint8_t *)"\x82\xa1p\xa1k\xa1s\x05", 8},
         "One or more parameter values were invalid: Type mismatch for key s expected: S actual: "
         "N"},
        {{(const uint8_t *)"\x82\xa1p\xa0\xa1s\xa1x", 8},
         "One or more parameter values are not valid. The AttributeValue for a key attribute "
         "cannot contain an empty string value. Key: p"},
        {{NULL, 0}, "The parameter 'Item' is required but was not present in the request"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct fixture fixture;
        start(&fixture, OPERATION_PUT_ITEM);
        fixture.request.item = cases[i].item;
        assert_int_equal(bind(&fixture, &table_ss), STATUS_VALIDATION);
        assert_string_equal(fixture.error.text, cases[i].text);
        assert_ptr_equal(fixture.request.item.data, cases[i].item.data);
        assert_null(fixture.request.table);
        stop(&fixture);
    }
}

static void start_query(struct fixture *fixture, const char *text, struct bytes values,
                        struct bytes start_key, bool is_backward)
{
    start(fixture, OPERATION_QUERY);
    fixture->request.key_condition =
        (struct expression_input){bytes_text(text), BYTES_NONE, values};
    fixture->request.start_key = start_key;
    fixture->request.is_backward = is_backward;
}

#define VALUES_P  BYTES_LITERAL("\x81\xa2:p\xa1k")
#define VALUES_PS BYTES_LITERAL("\x82\xa2:p\xa1k\xa2:s\xa1m")
#define KEY(sort) BYTES_LITERAL("\x82\xa1p\xa1k\xa1s\xa1" sort)

static void queries_bind_to_a_partition_and_an_interval(void **state)
{
    (void)state;
    struct fixture fixture;
    start_query(&fixture, "p = :p AND s > :s", VALUES_PS, BYTES_NONE, false);
    assert_int_equal(bind(&fixture, &table_ss), STATUS_OK);
    assert_true(bytes_equal(fixture.request.range.partition, BYTES_LITERAL("k\x00\x01")));
    assert_true(bytes_equal(fixture.request.range.interval.low, BYTES_LITERAL("m\x00")));
    assert_false(bytes_given(fixture.request.range.interval.high));
    stop(&fixture);

    start(&fixture, OPERATION_QUERY);
    assert_int_equal(bind(&fixture, &table_ss), STATUS_VALIDATION);
    assert_string_equal(fixture.error.text,
                        "Either the KeyConditions or KeyConditionExpression parameter must be "
                        "specified in the request.");
    stop(&fixture);
}

static void a_start_key_leaves_what_lies_behind_it(void **state)
{
    (void)state;
    struct fixture fixture;
    start_query(&fixture, "p = :p AND s > :s", VALUES_PS, KEY("q"), false);
    assert_int_equal(bind(&fixture, &table_ss), STATUS_OK);
    struct key_interval *interval = &fixture.request.range.interval;
    assert_false(key_interval_holds(interval, BYTES_LITERAL("q")));
    assert_true(key_interval_holds(interval, BYTES_LITERAL("q\x00")));
    assert_true(key_interval_holds(interval, BYTES_LITERAL("z")));
    assert_false(key_interval_holds(interval, BYTES_LITERAL("n")));
    stop(&fixture);

    start_query(&fixture, "p = :p AND s > :s", VALUES_PS, KEY("q"), true);
    assert_int_equal(bind(&fixture, &table_ss), STATUS_OK);
    interval = &fixture.request.range.interval;
    assert_false(key_interval_holds(interval, BYTES_LITERAL("q")));
    assert_false(key_interval_holds(interval, BYTES_LITERAL("r")));
    assert_true(key_interval_holds(interval, BYTES_LITERAL("n")));
    assert_false(key_interval_holds(interval, BYTES_LITERAL("m")));
    stop(&fixture);
}

static void a_start_key_outside_the_query_is_refused(void **state)
{
    (void)state;
    static const char invalid[] = "The provided starting key is invalid";
    static const char outside[] =
        "The provided starting key is outside query boundaries based on provided conditions";
    static const struct {
        struct bytes key;
        const char *text;
    } cases[] = {
        {{(const uint8_t *)"\x81\xa1p\xa1k", 5}, invalid},
        {{(const uint8_t *)"\x82\xa1p\xa1k\xa1t\xa1q", 9}, invalid},
        {{(const uint8_t *)"\x82\xa1p\xa1k\xa1s\x05", 8}, invalid},
        {{(const uint8_t *)"\x82\xa1p\xa1j\xa1s\xa1q", 9}, outside},
        {{(const uint8_t *)"\x82\xa1p\xa1k\xa1s\xa1m", 9}, outside},
        {{(const uint8_t *)"\x82\xa1p\xa1k\xa1s\xa1"
                           "a",
          9},
         outside},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (int is_backward = 0; is_backward < 2; is_backward++) {
            struct fixture fixture;
            start_query(&fixture, "p = :p AND s > :s", VALUES_PS, cases[i].key, is_backward);
            assert_int_equal(bind(&fixture, &table_ss), STATUS_VALIDATION);
            assert_string_equal(fixture.error.text, cases[i].text);
            stop(&fixture);
        }
    }
}

static void a_partition_of_one_item_ends_behind_its_start_key(void **state)
{
    (void)state;
    struct fixture fixture;
    start_query(&fixture, "p = :p", VALUES_P, BYTES_NONE, false);
    assert_int_equal(bind(&fixture, &table_s), STATUS_OK);
    assert_true(bytes_equal(fixture.request.range.partition, BYTES_LITERAL("k")));
    assert_true(key_interval_holds(&fixture.request.range.interval, BYTES_LITERAL("")));
    stop(&fixture);
    for (int is_backward = 0; is_backward < 2; is_backward++) {
        start_query(&fixture, "p = :p", VALUES_P, BYTES_LITERAL("\x81\xa1p\xa1k"), is_backward);
        assert_int_equal(bind(&fixture, &table_s), STATUS_OK);
        assert_false(key_interval_holds(&fixture.request.range.interval, BYTES_LITERAL("")));
        stop(&fixture);
    }
}

static void intervals_hold_what_the_condition_says(void **state)
{
    (void)state;
    static const char *const operators[] = {"=", "<", "<=", ">", ">="};
    static const struct bytes sorts[] = {
        {(const uint8_t *)"", 0},  {(const uint8_t *)"l", 1},     {(const uint8_t *)"l\xff", 2},
        {(const uint8_t *)"m", 1}, {(const uint8_t *)"m\x00", 2}, {(const uint8_t *)"m\x01", 2},
        {(const uint8_t *)"n", 1}, {(const uint8_t *)"mm", 2},    {(const uint8_t *)"\xff", 1},
    };
    for (size_t i = 0; i < 5; i++) {
        struct fixture fixture;
        char text[32];
        (void)snprintf(text, sizeof text, "p = :p AND s %s :s", operators[i]);
        start_query(&fixture, text, VALUES_PS, BYTES_NONE, false);
        assert_int_equal(bind(&fixture, &table_ss), STATUS_OK);
        for (size_t k = 0; k < sizeof sorts / sizeof sorts[0]; k++) {
            int order = bytes_compare(sorts[k], BYTES_LITERAL("m"));
            bool wanted[] = {order == 0, order<0, order <= 0, order> 0, order >= 0};
            assert_int_equal(key_interval_holds(&fixture.request.range.interval, sorts[k]),
                             wanted[i]);
        }
        stop(&fixture);
    }
}

static void operations_without_a_key_only_get_their_table(void **state)
{
    (void)state;
    struct fixture fixture;
    start(&fixture, OPERATION_DESCRIBE_TABLE);
    assert_int_equal(bind(&fixture, &table_ss), STATUS_OK);
    assert_ptr_equal(fixture.request.table, &table_ss);
    stop(&fixture);
}

static void memory_that_runs_out_anywhere_is_told(void **state)
{
    (void)state;
    enum status status = STATUS_NO_MEMORY;
    int refused = 0;
    for (size_t limit = 0; status == STATUS_NO_MEMORY; limit += 16) {
        struct fixture fixture;
        start_query(&fixture, "p = :p AND s > :s", VALUES_PS, KEY("q"), false);
        fixture.arena.heap_bytes_max = limit;
        status = bind(&fixture, &table_ss);
        refused += status == STATUS_NO_MEMORY;
        stop(&fixture);
    }
    assert_int_equal(status, STATUS_OK);
    assert_true(refused > 10);
}

static void start_all(struct fixture *fixture, enum operation operation)
{
    start(fixture, operation);
    struct request *request = &fixture->request;
    bool is_query = operation == OPERATION_QUERY;
    request->key = KEY("x");
    request->key_condition.names = BYTES_LITERAL("\x81\xa2#n\xa1n");
    request->key_condition.values =
        is_query ? VALUES_PS : BYTES_LITERAL("\x81\xa2:s\xd6\x02\xa1y\xa1x");
    if (is_query) {
        request->key_condition.text = BYTES_LITERAL("p = :p");
        request->filter = BYTES_LITERAL("a.b[1] < :s OR NOT contains(#n, :s)");
        request->projection = BYTES_LITERAL("a.b[1], #n, a.c");
    } else {
        request->update = BYTES_LITERAL("SET a = list_append(#n, #n) ADD b.c :s REMOVE d[1]");
        request->condition = BYTES_LITERAL("attribute_not_exists(a) OR #n = :s");
    }
}

static void expressions_of_a_request_are_bound_together(void **state)
{
    (void)state;
    struct fixture fixture;
    start_all(&fixture, OPERATION_UPDATE_ITEM);
    assert_int_equal(bind(&fixture, &table_ss), STATUS_OK);
    assert_non_null(fixture.request.update_tree);
    assert_non_null(fixture.request.condition_tree);
    assert_true(bytes_equal(fixture.request.item, KEY("x"))); /* what a new item begins with */
    stop(&fixture);
    start_all(&fixture, OPERATION_UPDATE_ITEM);
    fixture.request.update = BYTES_LITERAL("SET p = #n ADD b :s");
    assert_int_equal(bind(&fixture, &table_ss), STATUS_VALIDATION);
    assert_null(fixture.request.table);
    stop(&fixture);
}

/* Names and values stand in the form for their aliases. */
static void pages_that_show_the_same_have_the_same_form(void **state)
{
    (void)state;
    struct fixture first, same, other;
    start_all(&first, OPERATION_QUERY);
    assert_int_equal(bind(&first, &table_ss), STATUS_OK);
    start_all(&same, OPERATION_QUERY);
    same.request.key_condition.names = BYTES_LITERAL("\x81\xa2#x\xa1n");
    same.request.key_condition.values = BYTES_LITERAL("\x82\xa2:v\xd9\x01m\xa2:p\xa1k");
    same.request.filter = BYTES_LITERAL("( a . b[01] < :v ) or not contains(#x, :v)");
    same.request.projection = BYTES_LITERAL("a.c, a.b[1], n");
    assert_int_equal(bind(&same, &table_ss), STATUS_OK);
    assert_true(first.request.page_form.size > 20);
    assert_true(bytes_equal(first.request.page_form, same.request.page_form));
    start_all(&other, OPERATION_QUERY);
    other.request.projection = BYTES_LITERAL("a.b[2], #n, a.c");
    assert_int_equal(bind(&other, &table_ss), STATUS_OK);
    assert_false(bytes_equal(first.request.page_form, other.request.page_form));
    stop(&first);
    stop(&same);
    stop(&other);
}

static void memory_that_runs_out_in_any_expression_is_told(void **state)
{
    (void)state;
    static const enum operation operations[] = {OPERATION_QUERY, OPERATION_UPDATE_ITEM};
    for (size_t i = 0; i < 2; i++) {
        enum status status = STATUS_NO_MEMORY;
        int refused = 0;
        for (size_t limit = 0; status == STATUS_NO_MEMORY; limit += 16) {
            struct fixture fixture;
            start_all(&fixture, operations[i]);
            fixture.arena.heap_bytes_max = limit;
            status = bind(&fixture, &table_ss);
            refused += status == STATUS_NO_MEMORY;
            stop(&fixture);
        }
        assert_int_equal(status, STATUS_OK);
        assert_true(refused > 10);
    }
}

static void a_read_is_copied_with_all_that_it_says(void **state)
{
    (void)state;
    struct fixture fixture, copied;
    start(&fixture, OPERATION_QUERY);
    start(&copied, OPERATION_QUERY);
    char name[] = "orders", text[] = "p = :p AND s < :s";
    struct request *request = &fixture.request;
    request->table_name = bytes_text(name);
    request->key_condition.text = bytes_text(text);
    request->key_condition.values = BYTES_LITERAL("\x82\xa2:p\xa1k\xa2:s\xa1x");
    request->filter = BYTES_LITERAL("v < :s");
    request->limit = 7;
    request->is_backward = true;
    request->select = SELECT_COUNT;
    assert_int_equal(bind(&fixture, &table_ss), STATUS_OK);
    assert_true(request_copy_read(request, &copied.arena, &copied.request));
    assert_null(copied.request.table);
    memset(name, 'x', sizeof name - 1);
    memset(text, 'x', sizeof text - 1); /* as a frame that is used again */
    assert_true(bytes_equal(copied.request.table_name, BYTES_LITERAL("orders")));
    assert_int_equal(bind(&copied, &table_ss), STATUS_OK);
    assert_true(bytes_equal(copied.request.range.partition, request->range.partition));
    assert_true(bytes_equal(copied.request.range.interval.high, request->range.interval.high));
    assert_true(bytes_equal(copied.request.page_form, request->page_form));
    assert_int_equal(copied.request.limit, 7);
    assert_true(copied.request.is_backward);
    assert_false(bytes_given(copied.request.index_name));
    stop(&copied);
    arena_init(&copied.arena, NULL, 0, 16); /* no memory */
    assert_false(request_copy_read(request, &copied.arena, &copied.request));
    stop(&copied);
    stop(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_read_is_copied_with_all_that_it_says),
        cmocka_unit_test(operations_have_dynamodbs_names),
        cmocka_unit_test(gets_and_deletes_take_exactly_the_key),
        cmocka_unit_test(puts_bind_to_a_canonical_item_with_key_and_size),
        cmocka_unit_test(puts_without_a_good_key_are_refused_and_left_as_they_were),
        cmocka_unit_test(queries_bind_to_a_partition_and_an_interval),
        cmocka_unit_test(a_start_key_leaves_what_lies_behind_it),
        cmocka_unit_test(a_start_key_outside_the_query_is_refused),
        cmocka_unit_test(a_partition_of_one_item_ends_behind_its_start_key),
        cmocka_unit_test(intervals_hold_what_the_condition_says),
        cmocka_unit_test(operations_without_a_key_only_get_their_table),
        cmocka_unit_test(memory_that_runs_out_anywhere_is_told),
        cmocka_unit_test(expressions_of_a_request_are_bound_together),
        cmocka_unit_test(pages_that_show_the_same_have_the_same_form),
        cmocka_unit_test(memory_that_runs_out_in_any_expression_is_told),
    };
    return cmocka_run_group_tests_name("request", tests, NULL, NULL);
}
