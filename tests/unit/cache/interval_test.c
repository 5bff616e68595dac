#include "cache/interval.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

static struct partition_ref partition(char *text, unsigned number)
{
    int size = snprintf(text, 16, "p%u", number);
    return (struct partition_ref){.hash = number * 2654435761u / 7, /* some agree in low bits */
                                  .table_id = number % 3,
                                  .bytes = bytes_of(text, (size_t)size)};
}

static struct loading loading_of(const char *low, const char *high)
{
    return (struct loading){
        .interval = {bytes_text(low), high == NULL ? BYTES_NONE : bytes_text(high)}};
}

static void nodes_are_found_while_the_table_grows(void **state)
{
    (void)state;
    enum { NODES = 5000 };
    static struct loading loadings[NODES];
    struct memory memory;
    struct nodes nodes;
    char text[16];
    assert_true(memory_open(&memory, 8 << 20, 0));
    size_t used = memory_figure(&memory.used);
    assert_true(nodes_open(&nodes, &memory));
    for (unsigned i = 0; i < NODES; i++) {
        struct partition_ref ref = partition(text, i);
        assert_null(node_find(&nodes, &ref));
        struct node *node = node_make(&nodes, &ref, false);
        assert_non_null(node);
        loadings[i] = loading_of("", NULL);
        node_load_begin(node, &loadings[i], false);
        if (i % 97 == 0)
            for (unsigned j = 0; j <= i; j++) {
                struct partition_ref other = partition(text, j);
                assert_ptr_equal(node_find(&nodes, &other), loadings[j].node);
            }
    }
    assert_int_equal(nodes.count, NODES);
    for (unsigned i = 0; i < NODES; i++)
        node_load_end(&nodes, &loadings[i]);
    assert_int_equal(nodes.count, 0);
    assert_int_equal(nodes.bytes, 0);
    nodes_close(&nodes);
    assert_int_equal(memory_figure(&memory.used), used);
    memory_close(&memory);
}

static void pending_keys_make_what_holds_them_dirty(void **state)
{
    (void)state;
    struct memory memory;
    struct nodes nodes;
    char text[16];
    assert_true(memory_open(&memory, 1 << 20, 0));
    assert_true(nodes_open(&nodes, &memory));
    struct partition_ref ref = partition(text, 1);
    struct node *node = node_make(&nodes, &ref, false);
    struct pending_key key = {.sort = BYTES_LITERAL("m")};
    struct loading all = loading_of("", NULL), below = loading_of("a", "m"),
                   from = loading_of("m", "n"), above = loading_of("ma", NULL);
    node_pending_add(node, &key);
    node_load_begin(node, &all, true);
    node_load_begin(node, &below, true);
    node_load_begin(node, &from, true);
    node_load_begin(node, &above, true);
    assert_true(all.is_dirty);
    assert_false(below.is_dirty);
    assert_true(from.is_dirty);
    assert_false(above.is_dirty);
    node_load_end(&nodes, &from);
    node_pending_remove(&key);
    node_pending_remove(&key); /* harmless */
    node_load_begin(node, &from, false);
    assert_false(from.is_dirty);
    node_load_end(&nodes, &all);
    node_load_end(&nodes, &below);
    node_load_end(&nodes, &above);
    node_pending_add(node, &key);
    node_load_end(&nodes, &from); /* the last: the node goes, and lets the key go */
    assert_null(key.node);
    assert_int_equal(nodes.count, 0);
    nodes_close(&nodes);
    memory_close(&memory);
}

static void blind_node_sees_again_when_nothing_is_pending(void **state)
{
    (void)state;
    struct memory memory;
    struct nodes nodes;
    char text[16];
    assert_true(memory_open(&memory, 1 << 20, 0));
    assert_true(nodes_open(&nodes, &memory));
    struct partition_ref ref = partition(text, 1);
    struct node *node = node_make(&nodes, &ref, true);
    struct loading first = loading_of("", NULL), second = loading_of("", NULL),
                   third = loading_of("", NULL), fourth = loading_of("", NULL);
    node_load_begin(node, &first, true);
    node_load_begin(node, &second, true);
    node_load_begin(node, &third, false);
    node_load_begin(node, &fourth, true); /* what is pending now, the node knows */
    assert_true(first.is_dirty);
    assert_true(second.is_dirty);
    assert_false(third.is_dirty);
    assert_false(fourth.is_dirty);
    node_load_end(&nodes, &first);
    node_load_end(&nodes, &second);
    node_load_end(&nodes, &third);
    node_load_end(&nodes, &fourth);
    nodes_close(&nodes);
    memory_close(&memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_are_found_while_the_table_grows),
        cmocka_unit_test(pending_keys_make_what_holds_them_dirty),
        cmocka_unit_test(blind_node_sees_again_when_nothing_is_pending),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
