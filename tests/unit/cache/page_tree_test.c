#include "cache/page_tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { PAGES = 3000, KEYS = 1000, MANY = 10000, WIDE = 20 };

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

/* Of no pattern, as hashes are: the tree's shape hangs on it. */
static uint32_t hash_of(uint32_t id)
{
    uint32_t hash = (id + 1) * 2654435761u;
    hash = (hash ^ hash >> 15) * 2246822519u;
    return hash ^ hash >> 13;
}

/* high 0: no end */
static struct entry *make_page(uint32_t id, uint32_t low, uint32_t high)
{
    static _Alignas(struct entry) uint8_t room[ENTRY_HEADER + 16];
    struct entry *probe = (struct entry *)room;
    char texts[2][8];
    probe->hash = hash_of(id);
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
} pages[MANY + WIDE];

/* Whoever looks at a place of the tree asks for its page's interval; the linker leads it here. */
static uint64_t looks;
struct key_interval __real_page_interval(const struct entry *page);
struct key_interval __wrap_page_interval(const struct entry *page);
struct key_interval __wrap_page_interval(const struct entry *page)
{
    looks++;
    return __real_page_interval(page);
}

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

/* Pages of one key each, and in their midst some that hold many. */
static void add_many(void)
{
    for (uint32_t i = 0; i < MANY; i++)
        pages[i].page = make_page(i, i, (i + 1) % MANY);
    for (uint32_t i = 0; i < WIDE; i++)
        pages[MANY + i].page = make_page(MANY + i, MANY / 2 - 10 * i, MANY / 2 + 10 * i + 1);
    for (size_t i = 0; i < MANY + WIDE; i++)
        assert_true(page_tree_add(&tree, &memory, pages[i].page, &pages[i].slot));
}

/* The depth is about 2 ln 10,000 = 18 on average; what is taken out is also turned down, and who
 * ends last found anew above. */
static void a_write_beside_ten_thousand_pages_looks_at_few(void **state)
{
    (void)state;
    enum { FIND_MAX = 100, TAKE_OUT_MAX = 300 };
    char text[8];
    add_many();
    for (uint32_t key = MANY / 2 - 1; key < MANY; key += 97) {
        struct bytes sort = key_text(text, key);
        uint32_t victims = 0;
        struct entry *page;
        looks = 0;
        uint32_t expected = page_tree_count(&tree, &memory, sort, BYTES_NONE);
        assert_in_range(expected, 1, WIDE);
        assert_in_range(looks, 1, FIND_MAX * (1 + expected));
        looks = 0;
        while ((page = page_tree_find(&tree, &memory, sort)) != NULL) {
            assert_in_range(looks, 1, FIND_MAX);
            take_out(place_of(page));
            assert_in_range(looks, 1, TAKE_OUT_MAX);
            looks = 0;
            victims++;
        }
        assert_in_range(looks, 1, FIND_MAX);
        assert_int_equal(victims, expected);
    }
    for (size_t i = 0; i < MANY + WIDE; i++)
        if (pages[i].page != NULL)
            take_out(i);
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
        cmocka_unit_test_setup_teardown(a_write_beside_ten_thousand_pages_looks_at_few, open_tree,
                                        close_tree),
        cmocka_unit_test_setup_teardown(a_page_that_moves_stays_where_it_is_found, open_tree,
                                        close_tree),
        cmocka_unit_test_setup_teardown(places_are_used_again_and_what_they_take_is_counted,
                                        open_tree, close_tree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
