/* Paths found all in one walk: what each finds alone, and in the time of one. */
#include "backend/expression/evaluate.h"
#include "backend/expression/lookup.h"
#include "backend/expression/update.h"
#include "tests/unit/backend/items.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

enum { ELEMENTS = 120000, TEXT_MAX = 8192 };

static struct bytes encode(const struct value *value)
{
    struct bytes bytes = value_encode_arena(value, &arena);
    assert_true(bytes_given(bytes));
    return bytes;
}

static struct value number(uint64_t integer)
{
    return (struct value){.type = VALUE_N, .number = number_from_uint(integer)};
}

static struct value *numbers(size_t count)
{
    struct value *values = arena_alloc(&arena, count * sizeof *values);
    assert_non_null(values);
    for (size_t i = 0; i < count; i++)
        values[i] = number(i % 100);
    return values;
}

/* { "l": [0, 1, ..., 99, 0, 1, ...] } */
static struct bytes long_item(void)
{
    struct attribute list = {BYTES_LITERAL("l"),
                             {.type = VALUE_L, .values = numbers(ELEMENTS), .count = ELEMENTS}};
    return encode(&(struct value){.type = VALUE_M, .attributes = &list, .count = 1});
}

/* { "a": 5, "l": [0, ..., [0, ..., 9], {"k": 7, "l": [...]}], "m": {"k": 7, "l": [...]},
 *   "s": "xxx..." } */
static struct bytes varied_item(void)
{
    static char filler[8192];
    memset(filler, 'x', sizeof filler);
    struct attribute inner[2] = {
        {BYTES_LITERAL("k"), number(7)},
        {BYTES_LITERAL("l"), {.type = VALUE_L, .values = numbers(10), .count = 10}},
    };
    struct value *elements = numbers(12);
    elements[10] = inner[1].value;
    elements[11] = (struct value){.type = VALUE_M, .attributes = inner, .count = 2};
    struct attribute outer[4] = {
        {BYTES_LITERAL("a"), number(5)},
        {BYTES_LITERAL("l"), {.type = VALUE_L, .values = elements, .count = 12}},
        {BYTES_LITERAL("m"), elements[11]},
        {BYTES_LITERAL("s"), {.type = VALUE_S, .bytes = bytes_of(filler, sizeof filler)}},
    };
    return encode(&(struct value){.type = VALUE_M, .attributes = outer, .count = 4});
}

static void no_binding(struct expression_binding *out)
{
    struct error error;
    assert_int_equal(binding_init(BYTES_NONE, BYTES_NONE, &arena, out, &error), STATUS_OK);
}

static const struct expression *parse(const char *text)
{
    struct expression_binding binding;
    struct expression *tree = NULL;
    struct error error = {.text = ""};
    no_binding(&binding);
    if (condition_parse(bytes_text(text), "FilterExpression", &binding, &arena, &tree, &error) !=
        STATUS_OK)
        fail_msg("%s: %s", text, error.text);
    return tree;
}

/* ---- the same ---- */

static void check_same(const struct expression *tree, struct bytes item)
{
    struct subject together = subject_of(item, tree->paths), alone = subject_of(item, NULL);
    assert_non_null(together.found);
    assert_null(alone.found);
    for (size_t i = 0; i < tree->paths->count; i++) {
        const struct expression *path = tree->paths->paths[i];
        struct bytes one = BYTES_NONE, other = BYTES_NONE;
        assert_int_equal(path->place, i);
        bool is_there = subject_find(&alone, path, &one);
        assert_int_equal(subject_find(&together, path, &other), is_there);
        assert_true(!is_there || (one.data == other.data && one.size == other.size));
    }
}

static const char varied_paths[] =
    "l[11].l[9] IN (l, l[0], l[10], l[10][0], l[10][9], l[10][10], l[11], l[11].k, l[11].l, "
    "l[11].l[0], l[11].l.k, l[12], l[9], l[9], l[9][0], l.k, l[11][0], a, a, a[0], a.k, b, b.k, "
    "b[3], m, m.k, m.j, m.l, m.l[4], m.l[4][4], m[0], s, s[0], s.k, zz, l[2147483647])";

static void each_path_leads_where_it_leads_alone(void **state)
{
    (void)state;
    const struct expression *tree = parse(varied_paths);
    check_same(tree, varied_item());
    check_same(tree, long_item());
    check_same(tree, varied_item()); /* nothing is left of the one before */
}

static void few_paths_and_short_items_are_looked_up_one_by_one(void **state)
{
    (void)state;
    const struct expression *few = parse("l[1] IN (l[2], l[3])");
    assert_null(few->paths);
    const struct expression *many = parse(varied_paths);
    struct attribute a = {BYTES_LITERAL("a"), number(5)};
    struct bytes item = encode(&(struct value){.type = VALUE_M, .attributes = &a, .count = 1});
    assert_null(subject_of(item, many->paths).found);
    assert_null(subject_of(BYTES_NONE, many->paths).found);
}

static void bytes_that_are_cut_anywhere_are_harmless(void **state)
{
    (void)state;
    const struct expression *tree = parse(varied_paths);
    struct bytes item = varied_item();
    for (size_t size = 4096; size < item.size; size += 7) {
        struct arena exact; /* of its own, so that a sanitizer sees its end */
        arena_init(&exact, NULL, 0, ARENA_BYTES_MAX);
        struct bytes cut = arena_copy(&exact, bytes_of(item.data, size));
        (void)condition_holds(tree, cut);
        arena_deinit(&exact);
    }
}

static void an_update_sees_the_item_before_it(void **state)
{
    (void)state;
    struct expression_binding binding;
    struct path_node *update;
    struct error error = {.text = ""};
    struct bytes new, old = long_item();
    size_t size = 0;
    no_binding(&binding);
    assert_int_equal(update_parse(bytes_text("SET l[1] = l[99], l[99] = l[1], x = l[7] + l[98], "
                                             "y = if_not_exists(l[99].k, l[42])"),
                                  &binding, &arena, &update, &error),
                     STATUS_OK);
    assert_non_null(update->paths);
    assert_int_equal(update_apply(update, false, old, old, &arena, &new, &size, &error), STATUS_OK);
    const struct expression *is_so =
        parse("l[1] = l[199] AND l[99] = l[101] AND x = l[5] AND y = l[42] AND l[0] = l[100]");
    assert_false(condition_holds(is_so, new)); /* 7 + 98 is 105, which no element is */
    is_so = parse("l[1] = l[199] AND l[99] = l[101] AND x > l[98] AND y = l[42] AND l[0] = l[100]");
    assert_true(condition_holds(is_so, new));
    assert_false(condition_holds(is_so, old));
}

/* ---- in the time of one ---- */

static double seconds(const struct expression *tree, struct bytes item)
{
    double least = 1e9;
    for (int i = 0; i < 5; i++) {
        struct timespec begin, end;
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begin);
        assert_false(condition_holds(tree, item));
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
        double took =
            (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) / 1e9;
        least = took < least ? took : least;
    }
    return least;
}

static void many_paths_take_about_the_time_of_one(void **state)
{
    (void)state;
    struct bytes item = long_item();
    char text[TEXT_MAX] = "";
    size_t size = 0;
    for (int k = 0; k < 3; k++) {
        size += (size_t)snprintf(text + size, sizeof text - size, "%sa IN (", k == 0 ? "" : " OR ");
        for (int i = 0; i < 95; i++)
            size += (size_t)snprintf(text + size, sizeof text - size, "%sl[%d]", i == 0 ? "" : ",",
                                     ELEMENTS - 1 - 95 * k - i);
        size += (size_t)snprintf(text + size, sizeof text - size, ")");
    }
    double one = seconds(parse("a = l[119999]"), item);
    double many = seconds(parse(text), item);
    if (many > 20 * one)
        fail_msg("one path %.6f s, 285 paths %.6f s", one, many);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(each_path_leads_where_it_leads_alone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(few_paths_and_short_items_are_looked_up_one_by_one, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(bytes_that_are_cut_anywhere_are_harmless, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(an_update_sees_the_item_before_it, set_up, tear_down),
        cmocka_unit_test_setup_teardown(many_paths_take_about_the_time_of_one, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
