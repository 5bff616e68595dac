/* Conditions over canonical bytes: a table of what is true, and anything for data. */
#include "backend/expression/evaluate.h"
#include "protocol/encoding/json.h"
#include "protocol/encoding/msgpack.h"
#include "tests/unit/backend/items.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct expression *parse(const char *text, const char *values)
{
    struct expression_binding binding;
    struct expression *tree = NULL;
    struct error error = {.text = ""};
    struct bytes map = values == NULL ? BYTES_NONE : item_of(values);
    assert_int_equal(binding_init(BYTES_NONE, map, &arena, &binding, &error), STATUS_OK);
    assert_int_equal(binding_encode(&binding, &arena, &error), STATUS_OK);
    if (condition_parse(bytes_text(text), "ConditionExpression", &binding, &arena, &tree, &error) !=
            STATUS_OK ||
        binding_check_all_used(&binding, &error) != STATUS_OK)
        fail_msg("%s: %s", text, error.text);
    return tree;
}

/* One attribute of each type, and some in each other. */
#define ITEM                                                                                       \
    "{'s': {'S': 'abc'}, 'e': {'S': ''}, 'u': {'S': 'h\xc3\xa9'}, 'n': {'N': '5'}, 'd': {'N': "    \
    "'-0.50'}, 'g': {'N': '123456789012345678901234567890'}, 'b': {'B': 'AAEC'}, 't': {'BOOL': "   \
    "true}, 'f': {'BOOL': false}, 'z': {'NULL': true}, 'l': {'L': [{'N': '1'}, {'S': 'x'}, "       \
    "{'L': [{'N': '2'}]}]}, 'm': {'M': {'a': {'N': '7'}, 'q': {'M': {'r': {'L': [{'M': {'w': "     \
    "{'S': 'deep'}}}]}}}}}, 'ss': {'SS': ['p', 'q']}, 'ns': {'NS': ['1', '2.5']}, 'bs': {'BS': "   \
    "['AA==']}}"

static const struct row {
    const char *condition, *values;
    bool holds;
} rows[] = {
    /* = and <>: by value, whatever the type */
    {"s = :v", "{':v': {'S': 'abc'}}", true},
    {"s = :v", "{':v': {'S': 'abd'}}", false},
    {"s = :v", "{':v': {'B': 'YWJj'}}", false},
    {"s <> :v", "{':v': {'S': 'abc'}}", false},
    {"s <> :v", "{':v': {'N': '1'}}", true},
    {"n = :v", "{':v': {'N': '5.00'}}", true},
    {"n = :v", "{':v': {'N': '0.5e1'}}", true},
    {"d = :v", "{':v': {'N': '-5e-1'}}", true},
    {"g = :v", "{':v': {'N': '1.2345678901234567890123456789e29'}}", true},
    {"t = :v", "{':v': {'BOOL': true}}", true},
    {"t = :v", "{':v': {'BOOL': false}}", false},
    {"z = :v", "{':v': {'NULL': true}}", true},
    {"l = :v", "{':v': {'L': [{'N': '1.0'}, {'S': 'x'}, {'L': [{'N': '2'}]}]}}", true},
    {"l = :v", "{':v': {'L': [{'S': 'x'}, {'N': '1'}, {'L': [{'N': '2'}]}]}}", false},
    {"ss = :v", "{':v': {'SS': ['q', 'p']}}", true},
    {"ns = :v", "{':v': {'NS': ['2.50', '1']}}", true},
    {"ss = :v", "{':v': {'SS': ['q']}}", false},
    {"m.q = :v", "{':v': {'M': {'r': {'L': [{'M': {'w': {'S': 'deep'}}}]}}}}", true},
    {":v = s", "{':v': {'S': 'abc'}}", true},
    {"n = l[0]", NULL, false},
    {"absent = :v", "{':v': {'S': 'abc'}}", false},
    {"absent <> :v", "{':v': {'S': 'abc'}}", true},
    {"absent = gone", NULL, false},
    /* order: S, N and B of one type */
    {"s < :v", "{':v': {'S': 'abd'}}", true},
    {"s < :v", "{':v': {'S': 'abc'}}", false},
    {"s <= :v", "{':v': {'S': 'abc'}}", true},
    {"s > :v", "{':v': {'S': 'ab'}}", true},
    {"s >= :v", "{':v': {'S': 'abcd'}}", false},
    {"u > :v", "{':v': {'S': 'hz'}}", true},
    {"n < :v", "{':v': {'N': '10'}}", true},
    {"n > :v", "{':v': {'N': '10'}}", false},
    {"n > :v", "{':v': {'N': '-10'}}", true},
    {"d < :v", "{':v': {'N': '-0.49'}}", true},
    {"d >= :v", "{':v': {'N': '-0.5'}}", true},
    {"g > :v", "{':v': {'N': '18446744073709551615'}}", true},
    {"b < :v", "{':v': {'B': 'AP8='}}", true},
    {"b > :v", "{':v': {'B': 'AP8='}}", false},
    {"n < :v", "{':v': {'S': '6'}}", false},
    {"n >= :v", "{':v': {'S': '6'}}", false},
    {"t < f", NULL, false},
    {"t >= f", NULL, false},
    {"ss < l", NULL, false},
    {"absent < :v", "{':v': {'N': '1'}}", false},
    {"absent >= :v", "{':v': {'N': '1'}}", false},
    {"n < m.a", NULL, true},
    /* BETWEEN, IN */
    {"n BETWEEN :a AND :b", "{':a': {'N': '5'}, ':b': {'N': '5'}}", true},
    {"n BETWEEN :a AND :b", "{':a': {'N': '1'}, ':b': {'N': '4.99'}}", false},
    {"s BETWEEN :a AND :b", "{':a': {'S': 'a'}, ':b': {'S': 'b'}}", true},
    {"n BETWEEN :a AND :b", "{':a': {'S': '1'}, ':b': {'S': '9'}}", false},
    {"n BETWEEN l[0] AND m.a", NULL, true},
    {"n BETWEEN absent AND m.a", NULL, false},
    {"absent BETWEEN :a AND :b", "{':a': {'N': '1'}, ':b': {'N': '9'}}", false},
    {"n IN (:a, :b)", "{':a': {'S': '5'}, ':b': {'N': '5'}}", true},
    {"n IN (:a, :b)", "{':a': {'S': '5'}, ':b': {'N': '6'}}", false},
    {"ss IN (:a)", "{':a': {'SS': ['p', 'q']}}", true},
    {"absent IN (:a)", "{':a': {'N': '1'}}", false},
    {"n IN (s, absent, n2, :a)", "{':a': {'N': '5'}}", true},
    /* attribute_exists, attribute_not_exists, attribute_type */
    {"attribute_exists(z)", NULL, true},
    {"attribute_exists(absent)", NULL, false},
    {"attribute_exists(m.q.r[0].w)", NULL, true},
    {"attribute_exists(m.q.r[1].w)", NULL, false},
    {"attribute_exists(s.a)", NULL, false},
    {"attribute_exists(m[0])", NULL, false},
    {"attribute_exists(l.a)", NULL, false},
    {"attribute_exists(l[2][0])", NULL, true},
    {"attribute_exists(l[2147483647])", NULL, false},
    {"attribute_exists(ss[0])", NULL, false},
    {"attribute_not_exists(absent)", NULL, true},
    {"attribute_not_exists(e)", NULL, false},
    {"attribute_type(s, :t)", "{':t': {'S': 'S'}}", true},
    {"attribute_type(n, :t)", "{':t': {'S': 'N'}}", true},
    {"attribute_type(d, :t)", "{':t': {'S': 'N'}}", true},
    {"attribute_type(b, :t)", "{':t': {'S': 'B'}}", true},
    {"attribute_type(t, :t)", "{':t': {'S': 'BOOL'}}", true},
    {"attribute_type(z, :t)", "{':t': {'S': 'NULL'}}", true},
    {"attribute_type(l, :t)", "{':t': {'S': 'L'}}", true},
    {"attribute_type(m, :t)", "{':t': {'S': 'M'}}", true},
    {"attribute_type(ss, :t)", "{':t': {'S': 'SS'}}", true},
    {"attribute_type(ns, :t)", "{':t': {'S': 'NS'}}", true},
    {"attribute_type(bs, :t)", "{':t': {'S': 'BS'}}", true},
    {"attribute_type(bs, :t)", "{':t': {'S': 'SS'}}", false},
    {"attribute_type(absent, :t)", "{':t': {'S': 'S'}}", false},
    /* begins_with, contains */
    {"begins_with(s, :v)", "{':v': {'S': 'ab'}}", true},
    {"begins_with(s, :v)", "{':v': {'S': ''}}", true},
    {"begins_with(s, :v)", "{':v': {'S': 'abcd'}}", false},
    {"begins_with(n, :v)", "{':v': {'S': '5'}}", false},
    {"begins_with(b, :v)", "{':v': {'B': 'AAE='}}", true},
    {"begins_with(b, :v)", "{':v': {'S': ''}}", false},
    {"begins_with(absent, :v)", "{':v': {'S': 'a'}}", false},
    {"contains(s, :v)", "{':v': {'S': 'bc'}}", true},
    {"contains(s, :v)", "{':v': {'S': 'ac'}}", false},
    {"contains(s, :v)", "{':v': {'S': ''}}", true},
    {"contains(e, :v)", "{':v': {'S': 'a'}}", false},
    {"contains(b, :v)", "{':v': {'B': 'AQI='}}", true},
    {"contains(ss, :v)", "{':v': {'S': 'q'}}", true},
    {"contains(ss, :v)", "{':v': {'S': 'r'}}", false},
    {"contains(ss, :v)", "{':v': {'B': 'cQ=='}}", false},
    {"contains(ns, :v)", "{':v': {'N': '2.50'}}", true},
    {"contains(bs, :v)", "{':v': {'B': 'AA=='}}", true},
    {"contains(l, :v)", "{':v': {'S': 'x'}}", true},
    {"contains(l, :v)", "{':v': {'L': [{'N': '2'}]}}", true},
    {"contains(l, :v)", "{':v': {'N': '2'}}", false},
    {"contains(m, :v)", "{':v': {'S': 'a'}}", false},
    {"contains(n, :v)", "{':v': {'N': '5'}}", false},
    {"contains(absent, :v)", "{':v': {'S': 'a'}}", false},
    {"contains(l[2], l[0])", NULL, false},
    /* size() */
    {"size(s) = :v", "{':v': {'N': '3'}}", true},
    {"size(e) = :v", "{':v': {'N': '0'}}", true},
    {"size(u) = :v", "{':v': {'N': '3'}}", true},
    {"size(b) = :v", "{':v': {'N': '3.0'}}", true},
    {"size(l) = :v", "{':v': {'N': '3'}}", true},
    {"size(m) = :v", "{':v': {'N': '2'}}", true},
    {"size(ss) = :v", "{':v': {'N': '2'}}", true},
    {"size(ns) > size(bs)", NULL, true},
    {"size(s) BETWEEN :a AND :b", "{':a': {'N': '2.5'}, ':b': {'N': '3.5'}}", true},
    {"size(s) IN (:a)", "{':a': {'N': '3'}}", true},
    {"size(n) = :v", "{':v': {'N': '1'}}", false},
    {"size(t) >= :v", "{':v': {'N': '0'}}", false},
    {"size(absent) >= :v", "{':v': {'N': '0'}}", false},
    {"size(:s) = size(s)", "{':s': {'S': 'xyz'}}", true},
    {"size(:s) = :n",
     "{':s': {'S': '"
     "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890"
     "0123456789012345678901234567890123456789'}, ':n': {'N': '131'}}",
     true},
    /* AND, OR, NOT */
    {"attribute_exists(s) AND attribute_exists(absent)", NULL, false},
    {"attribute_exists(absent) OR attribute_exists(s)", NULL, true},
    {"NOT attribute_exists(absent)", NULL, true},
    {"NOT NOT attribute_exists(absent)", NULL, false},
    {"NOT n < :v", "{':v': {'S': '6'}}", true},
    {"attribute_exists(s) OR attribute_exists(n) AND attribute_exists(absent)", NULL, true},
    {"(attribute_exists(s) OR attribute_exists(n)) AND attribute_exists(absent)", NULL, false},
    {"NOT attribute_exists(s) OR attribute_exists(n)", NULL, true},
    {"NOT (attribute_exists(s) OR attribute_exists(n))", NULL, false},
};

static void every_row_of_the_table_is_right(void **state)
{
    (void)state;
    struct bytes item = item_of(ITEM);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct expression *tree = parse(rows[i].condition, rows[i].values);
        if (condition_holds(tree, item) != rows[i].holds)
            fail_msg("%s with %s must be %s", rows[i].condition,
                     rows[i].values == NULL ? "nothing" : rows[i].values,
                     rows[i].holds ? "true" : "false");
    }
}

static void without_an_item_there_are_no_attributes(void **state)
{
    (void)state;
    assert_true(condition_holds(NULL, BYTES_NONE));
    assert_true(condition_holds(parse("attribute_not_exists(s)", NULL), BYTES_NONE));
    assert_false(condition_holds(parse("attribute_exists(s)", NULL), BYTES_NONE));
    assert_false(condition_holds(parse("s = :v", "{':v': {'S': ''}}"), BYTES_NONE));
    assert_true(condition_holds(parse("s <> :v", "{':v': {'S': ''}}"), BYTES_NONE));
    assert_false(condition_holds(parse("l[0] = s", NULL), BYTES_NONE));
}

/* Cut and changed items are no items, but nothing may be read beyond them. */
static void no_bytes_can_make_it_fail(void **state)
{
    (void)state;
    struct bytes item = item_of(ITEM);
    const struct expression *trees[sizeof rows / sizeof rows[0]];
    size_t count = sizeof rows / sizeof rows[0], held = 0;
    for (size_t i = 0; i < count; i++)
        trees[i] = parse(rows[i].condition, rows[i].values);
    for (size_t size = 0; size < item.size; size++) {
        struct arena exact; /* of its own, so that a sanitizer sees its end */
        arena_init(&exact, NULL, 0, ARENA_BYTES_MAX);
        struct bytes cut = arena_copy(&exact, bytes_of(item.data, size));
        for (size_t i = 0; i < count; i++)
            held += condition_holds(trees[i], cut);
        uint8_t *changed = arena_alloc(&arena, item.size);
        memcpy(changed, item.data, item.size);
        changed[size] = (uint8_t)(changed[size] * 167 + 13);
        for (size_t i = 0; i < count; i++)
            held += condition_holds(trees[i], bytes_of(changed, item.size));
        arena_deinit(&exact);
    }
    assert_true(held > 0);
}

static void the_longest_chain_is_walked(void **state)
{
    (void)state;
    char text[EXPRESSION_SIZE_MAX + 1] = "a=s";
    size_t size = 3;
    for (unsigned operators = 1; operators + 2 <= EXPRESSION_OPERATORS_MAX;
         operators += 2, size += 7)
        memcpy(text + size, " OR a=s", 8);
    const struct expression *tree = parse(text, NULL);
    assert_false(condition_holds(tree, item_of(ITEM)));
    assert_true(condition_holds(tree, item_of("{'a': {'S': 'x'}, 's': {'S': 'x'}}")));
}

/* A set of every other number of 0, 2, 4, ..., as JSON: of numbers, texts or bytes. */
static struct bytes long_set(const char *type, int first, int count)
{
    static char json[1 << 20];
    size_t size = (size_t)snprintf(json, sizeof json, "{'s': {'%s': [", type);
    for (int i = 0; i < count; i++)
        size += (size_t)snprintf(json + size, sizeof json - size, "%s'%04d'", i == 0 ? "" : ",",
                                 first + 2 * i);
    (void)snprintf(json + size, sizeof json - size, "]}}");
    return item_of(json);
}

/* Four digits are base64, too. */
static void long_sets_have_what_they_have(void **state)
{
    (void)state;
    static const char *const types[] = {"NS", "SS", "BS"};
    static const int counts[] = {1, 100, 170, 171, 205, 342, 343, 1000, 4000};
    for (size_t type = 0; type < 3; type++)
        for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
            struct bytes item = long_set(types[type], 1000, counts[i]);
            int last = 1000 + 2 * (counts[i] - 1), step = counts[i] > 400 ? 37 : 1;
            char values[64];
            for (int wanted = 998; wanted <= last + 2; wanted += step) {
                (void)snprintf(values, sizeof values, "{':v': {'%c': '%04d'}}", types[type][0],
                               wanted);
                bool is_in = wanted % 2 == 0 && wanted >= 1000 && wanted <= last;
                if (condition_holds(parse("contains(s, :v)", values), item) != is_in)
                    fail_msg("%s %d of %d", types[type], wanted, counts[i]);
            }
            (void)snprintf(values, sizeof values, "{':v': {'N': '%d'}}", counts[i]);
            assert_true(condition_holds(parse("size(s) = :v", values), item));
            assert_false(condition_holds(parse("contains(s, :v)", "{':v': {'BOOL': true}}"), item));
        }
}

/* More sets than are marked, and each asked twice. */
static void many_long_sets_are_told_apart(void **state)
{
    (void)state;
    enum { SETS = 150, MEMBERS = 300 };
    static char json[1 << 20], text[EXPRESSION_SIZE_MAX + 1];
    size_t size = 0, text_size = 0;
    for (int set = 0; set < SETS; set++) {
        size += (size_t)snprintf(json + size, sizeof json - size, "%s's%d': {'NS': ['%d'",
                                 set == 0 ? "{" : ", ", set, 100000 + set);
        for (int i = 0; i < MEMBERS; i++)
            size += (size_t)snprintf(json + size, sizeof json - size, ",'%d'", 200000 + i);
        size += (size_t)snprintf(json + size, sizeof json - size, "]}");
    }
    (void)snprintf(json + size, sizeof json - size, "}");
    struct bytes item = item_of(json);
    for (int set = 0; set < SETS; set += 1)
        text_size += (size_t)snprintf(text + text_size, sizeof text - text_size,
                                      "%scontains(s%d,:v)", set == 0 ? "" : " OR ", set);
    const struct expression *first = parse(text, "{':v': {'N': '100149'}}");
    assert_true(condition_holds(first, item)); /* of the last set alone */
    assert_false(condition_holds(parse(text, "{':v': {'N': '100150'}}"), item));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_row_of_the_table_is_right, set_up, tear_down),
        cmocka_unit_test_setup_teardown(without_an_item_there_are_no_attributes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(no_bytes_can_make_it_fail, set_up, tear_down),
        cmocka_unit_test_setup_teardown(long_sets_have_what_they_have, set_up, tear_down),
        cmocka_unit_test_setup_teardown(many_long_sets_are_told_apart, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_longest_chain_is_walked, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
