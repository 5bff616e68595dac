/* Updates and projections over canonical bytes: what they make of random items is canonical, and
 * what they cannot read they refuse. */
#include "backend/expression/evaluate.h"
#include "backend/expression/projection.h"
#include "backend/expression/update.h"
#include "protocol/encoding/json.h"
#include "protocol/encoding/msgpack.h"
#include "tests/unit/backend/items.h"
#include "tests/unit/protocol/random_value.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct path_node *parse_update(const char *text, const char *values)
{
    struct expression_binding binding;
    struct path_node *tree = NULL;
    struct error error = {.text = ""};
    struct bytes map = values == NULL ? BYTES_NONE : item_of(values);
    assert_int_equal(binding_init(BYTES_NONE, map, &arena, &binding, &error), STATUS_OK);
    assert_int_equal(binding_encode(&binding, &arena, &error), STATUS_OK);
    if (update_parse(bytes_text(text), &binding, &arena, &tree, &error) != STATUS_OK)
        fail_msg("%s: %s", text, error.text);
    return tree;
}

static struct path_node *parse_projection(const char *text)
{
    struct expression_binding binding;
    struct path_node *tree = NULL;
    struct error error = {.text = ""};
    assert_int_equal(binding_init(BYTES_NONE, BYTES_NONE, &arena, &binding, &error), STATUS_OK);
    if (projection_parse(bytes_text(text), &binding, &arena, &tree, &error) != STATUS_OK)
        fail_msg("%s: %s", text, error.text);
    return tree;
}

static const struct {
    const char *update, *values;
} updates[] = {
    {"SET a = :v", "{':v': {'S': 'x'}}"},
    {"SET zz = :v, m0 = a REMOVE b", "{':v': {'L': []}}"},
    {"SET a = if_not_exists(b, :v), c = :v", "{':v': {'N': '0.5'}}"},
    {"ADD a :v", "{':v': {'N': '-1'}}"},
    {"ADD a :v DELETE b :v, c :v", "{':v': {'SS': ['a', 'b']}}"},
    {"ADD a :v DELETE b :v, c :v", "{':v': {'NS': ['1', '-2.5', '3']}}"},
    {"SET a.b = :v, b[1] = :v REMOVE c.x", "{':v': {'NULL': true}}"},
    {"SET b[0] = :v, b[3] = :v, b[70000] = b REMOVE b[1]", "{':v': {'BOOL': true}}"},
    {"SET a = list_append(b, :v), c = list_append(list_append(:v, :v), :v)",
     "{':v': {'L': [{'N': '1'}, {'S': ''}]}}"},
    {"SET a = b, b = c, c = a", NULL},
    {"SET a = a + :v, b = :v - c, c = (b - :v) + (c - b)", "{':v': {'N': '1e-3'}}"},
};
enum { UPDATES = sizeof updates / sizeof updates[0] };

/* Random values under the few names that the updates use. */
static struct bytes random_map(struct random *random)
{
    static const char *const names[] = {"a", "b", "c", "d", "p"};
    struct attribute attributes[5];
    struct value map = {.type = VALUE_M, .attributes = attributes};
    for (size_t i = 0; i < 5; i++)
        if (random_below(random, 4) != 0)
            attributes[map.count++] =
                (struct attribute){bytes_text(names[i]), random_value(random, &arena, 3)};
    return value_encode_arena(&map, &arena);
}

static void what_an_update_makes_is_canonical(void **state)
{
    (void)state;
    struct random random = {5};
    const struct path_node *trees[UPDATES];
    size_t made = 0, refused = 0;
    for (size_t i = 0; i < UPDATES; i++)
        trees[i] = parse_update(updates[i].update, updates[i].values);
    for (int round = 0; round < 4000; round++) {
        struct bytes old = random_map(&random), new;
        struct error error = {.text = ""};
        struct item_facts facts;
        size_t size = 0;
        enum status status = update_apply(trees[random_below(&random, UPDATES)], false, old, old,
                                          &arena, &new, &size, &error);
        refused += status == STATUS_VALIDATION;
        made += status == STATUS_OK;
        if (status == STATUS_VALIDATION)
            continue;
        assert_int_equal(status, STATUS_OK);
        assert_int_equal(item_check(new, &facts, &error), STATUS_OK);
        assert_true(facts.is_canonical && facts.item_size == size);
    }
    assert_true(made > 500 && refused > 500);
}

/* Everything that is named is removed, all else is kept: projection and removal share an item. */
static void a_projection_shows_what_a_removal_takes(void **state)
{
    (void)state;
    struct random random = {6};
    const struct path_node *shown = parse_projection("a, c, nothing");
    const struct path_node *rest = parse_projection("b, d, p");
    const struct path_node *removal = parse_update("REMOVE a, c, nothing", NULL);
    for (int round = 0; round < 1000; round++) {
        struct bytes old = random_map(&random), kept, part, found[2];
        struct error error;
        size_t size = 0;
        assert_int_equal(update_apply(removal, false, old, old, &arena, &kept, &size, &error),
                         STATUS_OK);
        part = projection_apply(rest, old, &arena);
        assert_true(bytes_equal(kept, part));
        part = projection_apply(shown, old, &arena);
        bool is_there = item_find(old, BYTES_LITERAL("c"), &found[0]);
        assert_int_equal(item_find(part, BYTES_LITERAL("c"), &found[1]), is_there);
        assert_true(!is_there || bytes_equal(found[0], found[1]));
        assert_false(item_find(part, BYTES_LITERAL("b"), &found[1]));
    }
}

static void bytes_that_are_no_item_are_refused(void **state)
{
    (void)state;
    struct random random = {7};
    const struct path_node *projection = parse_projection("a.b, b[1], c[0].x, d, a.c");
    for (int round = 0; round < 3000; round++) {
        struct arena exact; /* of its own, so that a sanitizer sees its end */
        arena_init(&exact, NULL, 0, ARENA_BYTES_MAX);
        struct bytes old = random_map(&random);
        size_t size = random_below(&random, old.size) + 1;
        uint8_t *changed = arena_alloc(&exact, size);
        memcpy(changed, old.data, size);
        for (size_t i = random_below(&random, 4); i > 0; i--)
            changed[random_below(&random, size)] = (uint8_t)random_next(&random);
        size_t u = random_below(&random, UPDATES), item_bytes = 0;
        struct bytes new, parts, wrong = bytes_of(changed, size);
        struct error error;
        const struct path_node *tree = parse_update(updates[u].update, updates[u].values);
        enum status status =
            update_apply(tree, false, wrong, wrong, &exact, &new, &item_bytes, &error);
        struct item_facts facts;
        if (status == STATUS_OK)
            assert_int_equal(item_check(new, &facts, &error), STATUS_OK);
        parts = projection_apply(projection, wrong, &exact);
        assert_true(bytes_given(parts) && parts.size >= 1 && parts.size <= size);
        arena_deinit(&exact);
    }
}

static void memory_that_runs_out_anywhere_is_told(void **state)
{
    (void)state;
    struct bytes old = item_of("{'a': {'NS': ['1', '2']}, 'b': {'L': [{'S': 'x'}]}, 'n': {'N': "
                               "'1'}}");
    const struct path_node *tree = parse_update("ADD a :s SET b = list_append(b, b), n = n + :n",
                                                "{':s': {'NS': ['3']}, ':n': {'N': '2'}}");
    enum status status = STATUS_NO_MEMORY;
    int refused = 0;
    for (size_t limit = 0; status == STATUS_NO_MEMORY; limit += 16) {
        struct arena small;
        struct bytes new;
        size_t size = 0;
        struct error error;
        arena_init(&small, NULL, 0, limit);
        status = update_apply(tree, false, old, old, &small, &new, &size, &error);
        refused += status == STATUS_NO_MEMORY;
        if (status == STATUS_OK)
            assert_true(bytes_equal(
                new, item_of("{'a': {'NS': ['1', '2', '3']}, 'b': {'L': [{'S': 'x'}, {'S': 'x'}]}, "
                             "'n': {'N': '3'}}")));
        arena_deinit(&small);
    }
    assert_int_equal(status, STATUS_OK);
    assert_true(refused > 0);
}

static void an_update_may_not_nest_too_deep(void **state)
{
    (void)state;
    char values[4096] = "{':v': ";
    for (int i = 0; i < 30; i++)
        strcat(values, "{'L': [");
    strcat(values, "{'N': '1'}");
    for (int i = 0; i < 30; i++)
        strcat(values, "]}");
    strcat(values, "}");
    struct bytes old = item_of("{'a': {'M': {'b': {'M': {}}}}}"), new;
    struct error error;
    size_t size = 0;
    assert_int_equal(update_apply(parse_update("SET a.c = :v", values), false, old, old, &arena,
                                  &new, &size, &error),
                     STATUS_OK);
    assert_int_equal(update_apply(parse_update("SET a.b.c = :v", values), false, old, old, &arena,
                                  &new, &size, &error),
                     STATUS_VALIDATION);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_an_update_makes_is_canonical, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_projection_shows_what_a_removal_takes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(bytes_that_are_no_item_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(memory_that_runs_out_anywhere_is_told, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_update_may_not_nest_too_deep, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
