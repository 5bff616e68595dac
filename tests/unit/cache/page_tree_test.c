#include "cache/page_tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { PAGES = 3000, KEYS = 1000 };

static struct memory memory;
static struct page_tree tree;
static uint64_t seed = 1;

static uint32_t random_below(uint32_t most)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (uint32_t)(seed >> 20) % most;
}

/* Four digits, so that bytes have the order of numbers. */
static struct bytes key_text(char out[8], uint32_t number)
{
    return bytes_of(out, (size_t)snprintf(out, 8, "%04u", number % 10000));
}

/* high 0: no end */
static struct entry *make_page(uint32_t id, uint32_t low, uint32_t high)
{
    static _Alignas(struct entry) uint8_t room[ENTRY_HEADER + 16];
    struct entry *probe = (struct entry *)room;
    char texts[2][8];
    probe->hash = id * 2654435761u;
    probe->key_size = ENTRY_KEY_PREFIX + sizeof id;
    memcpy(entry_key_begin(probe->key, ENTRY_PAGE, 3), &id, sizeof id);
    struct entry_source source = {
        .probe = probe,
        .body = BYTES_LITERAL("page"),
        .interval = {key_text(texts[0], low), high == 0 ? BYTES_NONE : key_text(texts[1], high)}};
    struct entry *page = entry_make(&memory, &source);
    assert_non_null(page);
    return page;
}

static int open_tree(void **state)
{
    (void)state;
    page_tree_init(&tree);
    return memory_open(&memory, 16 << 20, 0) ? 0 : -1;
}

static int close_tree(void **state)
{
    (void)state;
    page_tree_deinit(&tree, &memory);
    memory_close(&memory);
    return 0;
}

static struct {
    struct entry *page; /* NULL: not in the tree */
    uint32_t slot;
} pages[PAGES];

static size_t count_holding(struct bytes key)
{
    size_t count = 0;
    for (size_t i = 0; i < PAGES; i++) {
        if (pages[i].page == NULL)
            continue;
        struct key_interval interval = page_interval(pages[i].page);
        count += key_interval_holds(&interval, key);
    }
    return count;
}

static void take_out(size_t i)
{
    page_tree_remove(&tree, &memory, pages[i].page, pages[i].slot);
    entry_drop(&memory, pages[i].page);
    pages[i].page = NULL;
}

static size_t place_of(const struct entry *page)
{
    size_t i = 0;
    while (pages[i].page != page)
        i++;
    return i;
}

/* As a write does it: one after the other, until there is none. */
static size_t take_out_all_holding(struct bytes key)
{
    size_t count = 0;
    struct entry *page;
    assert_int_equal(page_tree_count(&tree, &memory, key, BYTES_NONE), count_holding(key));
    while ((page = page_tree_find(&tree, &memory, key)) != NULL) {
        struct key_interval interval = page_interval(page);
        assert_true(key_interval_holds(&interval, key));
        take_out(place_of(page));
        count++;
    }
    return count;
}

static void exactly_the_pages_whose_interval_holds_a_key_are_found(void **state)
{
    (void)state;
    char text[8];
    for (int round = 0; round < 40; round++) {
        for (uint32_t i = 0; i < PAGES; i++) {
            if (pages[i].page != NULL || random_below(3) == 0)
                continue;
            uint32_t low = random_below(KEYS), width = 1 + random_below(random_below(4) ? 5 : 400);
            uint32_t high = (low + width + 7) / 8 * 8; /* many end together */
            pages[i].page = make_page(i, low, random_below(50) == 0 ? 0 : high);
            assert_true(page_tree_add(&tree, &memory, pages[i].page, &pages[i].slot));
        }
        for (int key = 0; key < 5; key++) {
            struct bytes sort = key_text(text, random_below(KEYS + 50));
            size_t expected = count_holding(sort);
            assert_int_equal(take_out_all_holding(sort), expected);
        }
        for (size_t i = 0; i < PAGES; i++)
            if (pages[i].page != NULL && random_below(4) == 0)
                take_out(i);
    }
    size_t left = 0;
    for (size_t i = 0; i < PAGES; i++)
        left += pages[i].page != NULL;
    assert_int_equal(tree.count, left);
    for (size_t i = 0; i < PAGES; i++)
        if (pages[i].page != NULL)
            take_out(i);
    assert_null(page_tree_find(&tree, &memory, BYTES_LITERAL("0500")));
}

static void a_page_that_moves_stays_where_it_is_found(void **state)
{
    (void)state;
    uint32_t slots[2];
    struct entry *first = make_page(1, 10, 20), *second = make_page(2, 15, 0);
    assert_true(page_tree_add(&tree, &memory, first, &slots[0]));
    assert_true(page_tree_add(&tree, &memory, second, &slots[1]));
    struct entry *copy = entry_move(&memory, first);
    assert_non_null(copy);
    page_tree_moved(&tree, &memory, first, copy, slots[0]);
    entry_drop(&memory, first);
    assert_ptr_equal(page_tree_find(&tree, &memory, BYTES_LITERAL("0012")), copy);
    page_tree_remove(&tree, &memory, copy, slots[0]);
    assert_null(page_tree_find(&tree, &memory, BYTES_LITERAL("0012")));
    assert_ptr_equal(page_tree_find(&tree, &memory, BYTES_LITERAL("9999")), second);
    page_tree_remove(&tree, &memory, second, slots[1]);
    entry_drop(&memory, copy);
    entry_drop(&memory, second);
}

static void places_are_used_again_and_what_they_take_is_counted(void **state)
{
    (void)state;
    size_t used = memory_figure(&memory.used);
    for (int round = 0; round < 10; round++) {
        for (uint32_t i = 0; i < 100; i++) {
            pages[i].page = make_page(i, i, i + 1);
            assert_true(page_tree_add(&tree, &memory, pages[i].page, &pages[i].slot));
            assert_true(pages[i].slot < 100);
        }
        for (size_t i = 0; i < 100; i++)
            take_out(i);
    }
    assert_in_range(page_tree_bytes(&tree), 100 * 24, 128 * 24);
    page_tree_deinit(&tree, &memory);
    assert_int_equal(page_tree_bytes(&tree), 0);
    assert_true(memory_figure(&memory.used) >= used);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(exactly_the_pages_whose_interval_holds_a_key_are_found,
                                        open_tree, close_tree),
        cmocka_unit_test_setup_teardown(a_page_that_moves_stays_where_it_is_found, open_tree,
                                        close_tree),
        cmocka_unit_test_setup_teardown(places_are_used_again_and_what_they_take_is_counted,
                                        open_tree, close_tree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
