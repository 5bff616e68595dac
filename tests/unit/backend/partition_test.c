#include "backend/engine/partition.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static struct arena arena;

static int set_up(void **state)
{
    (void)state;
    arena_init(&arena, NULL, 0, 1 << 20);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    arena_deinit(&arena);
    return 0;
}

static uint32_t find(const struct partition_map *map, uint64_t hash, const char *key,
                     const char *end)
{
    struct position position = {.hash = hash, .key = bytes_text(key), .end = bytes_text(end)};
    return partition_find(map, &position);
}

static void ranges_are_equal_and_cover_the_whole_space(void **state)
{
    (void)state;
    struct partition_map map;
    assert_true(partition_map_even(16, &arena, &map));
    assert_int_equal(map.count, 16);
    for (uint64_t i = 0; i < 16; i++) {
        assert_int_equal(map.partitions[i].hash, i << 60);
        assert_int_equal(map.partitions[i].id, i);
        assert_int_equal(find(&map, i << 60, "", ""), i);
        assert_int_equal(find(&map, i << 60, "key", ""), i);
        assert_int_equal(find(&map, (i << 60) + 0xfffffffffffffff, "key", ""), i);
    }
    assert_true(partition_map_even(3, &arena, &map));
    assert_int_equal(find(&map, 0, "", ""), 0);
    assert_int_equal(find(&map, UINT64_MAX, "", ""), 2);
    assert_int_equal(find(&map, map.partitions[1].hash - 1, "", ""), 0);
    assert_int_equal(find(&map, map.partitions[1].hash, "", ""), 1);
    assert_true(partition_map_even(1, &arena, &map));
    assert_int_equal(find(&map, UINT64_MAX, "", ""), 0);
}

static struct partition_map split(const struct partition_map *map, uint64_t hash, const char *key)
{
    struct position position = {.hash = hash, .key = bytes_text(key)};
    struct partition_map out;
    assert_true(partition_map_split(map, &position, &arena, &out));
    return out;
}

static void a_range_is_split_at_any_position(void **state)
{
    (void)state;
    struct partition_map map;
    assert_true(partition_map_even(2, &arena, &map));
    map = split(&map, 100, "");
    assert_int_equal(map.count, 3);
    assert_int_equal(find(&map, 99, "zzz", ""), 0);
    assert_int_equal(find(&map, 100, "", ""), 1);
    assert_int_equal(map.partitions[1].id, 2);
    assert_int_equal(map.partitions[2].id, 1);
    assert_true(map.partitions[1].is_uncounted);
    /* Inside what has one hash. */
    map = split(&map, 100, "key/m");
    assert_int_equal(find(&map, 100, "key/a", ""), 1);
    assert_int_equal(find(&map, 100, "key/", ""), 1);
    assert_int_equal(find(&map, 100, "key/m", ""), 2);
    assert_int_equal(find(&map, 100, "key/", "l~"), 1); /* a key in two pieces */
    assert_int_equal(find(&map, 100, "key/", "m"), 2);
    assert_int_equal(find(&map, 100, "key/", "n"), 2);
    assert_int_equal(find(&map, 100, "key", "/"), 1);
    assert_int_equal(find(&map, 100, "a", ""), 1);
    assert_int_equal(find(&map, 100, "z", ""), 2);
    assert_int_equal(find(&map, 101, "", ""), 2);
    assert_int_equal(map.partitions[2].id, 3);
    struct partition_map counted;
    assert_true(partition_map_counted(&map, 2, &arena, &counted));
    assert_false(counted.partitions[2].is_uncounted);
    assert_true(counted.partitions[1].is_uncounted);
    assert_true(map.partitions[2].is_uncounted);
}

static void where_a_range_begins_it_is_not_split(void **state)
{
    (void)state;
    struct partition_map map, out;
    assert_true(partition_map_even(2, &arena, &map));
    struct position begin = {.hash = UINT64_C(1) << 63, .key = BYTES_LITERAL("")};
    assert_false(partition_map_split(&map, &begin, &arena, &out));
    begin.hash = 0;
    assert_false(partition_map_split(&map, &begin, &arena, &out));
    map = split(&map, 7, "k");
    begin = (struct position){.hash = 7, .key = BYTES_LITERAL("k")};
    assert_false(partition_map_split(&map, &begin, &arena, &out));
    assert_true(partition_map_even(PARTITIONS_MAX, &arena, &map));
    begin = (struct position){.hash = 7, .key = BYTES_LITERAL("k")};
    assert_false(partition_map_split(&map, &begin, &arena, &out));
}

static void keys_are_parted_by_as_little_as_possible(void **state)
{
    (void)state;
    static const struct {
        const char *low, *high, *separator;
    } cases[] = {{"", "abc", "a"},
                 {"abc", "abd", "abd"},
                 {"ab", "abc", "abc"},
                 {"abx", "b", "b"},
                 {"a1", "a2345", "a2"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_true(
            bytes_equal(partition_separator(bytes_text(cases[i].low), bytes_text(cases[i].high)),
                        bytes_text(cases[i].separator)));
}

static void assert_same_maps(const struct partition_map *a, const struct partition_map *b)
{
    assert_int_equal(a->count, b->count);
    for (uint32_t i = 0; i < a->count; i++) {
        assert_int_equal(a->partitions[i].hash, b->partitions[i].hash);
        assert_int_equal(a->partitions[i].id, b->partitions[i].id);
        assert_int_equal(a->partitions[i].is_uncounted, b->partitions[i].is_uncounted);
        assert_true(bytes_equal(a->partitions[i].key, b->partitions[i].key));
    }
}

static void a_map_comes_back_from_its_stored_form(void **state)
{
    (void)state;
    struct partition_map map, again;
    assert_true(partition_map_even(PARTITIONS_MAX, &arena, &map));
    struct bytes stored = partition_map_write(&map, &arena);
    assert_int_equal(stored.size, 8 * PARTITIONS_MAX); /* as always, as long as nothing is split */
    assert_true(partition_map_read(stored, &arena, &again));
    assert_same_maps(&map, &again);
    assert_true(partition_map_even(4, &arena, &map));
    map = split(&map, 5, "");
    map = split(&map, 5, "abc");
    assert_true(partition_map_counted(&map, 1, &arena, &map));
    stored = partition_map_write(&map, &arena);
    assert_true(partition_map_read(stored, &arena, &again));
    assert_same_maps(&map, &again);
    for (size_t size = 0; size < stored.size; size++)
        assert_false(partition_map_read(bytes_of(stored.data, size), &arena, &again) &&
                     again.count == map.count);
}

static void what_is_no_map_is_refused(void **state)
{
    (void)state;
    static const uint8_t late[8] = {1}, double_first[16] = {0}, falling[24] = {[8] = 2, [16] = 1};
    struct partition_map map;
    assert_false(partition_map_read(BYTES_NONE, &arena, &map));
    assert_false(partition_map_read(bytes_of(late, 7), &arena, &map));
    assert_false(partition_map_read(bytes_of(late, 8), &arena, &map));
    assert_false(partition_map_read(bytes_of(double_first, 16), &arena, &map));
    assert_false(partition_map_read(bytes_of(falling, 24), &arena, &map));
    assert_true(partition_map_read(bytes_of(falling, 16), &arena, &map));
}

static void assert_counts(struct partition_change change, int64_t items, int64_t bytes,
                          int64_t units)
{
    struct kv_counter counter;
    partition_count(&counter, &change);
    assert_int_equal(counter.add[PARTITION_ITEMS], items);
    assert_int_equal(counter.add[PARTITION_BYTES], bytes);
    assert_int_equal(counter.add[PARTITION_WRITE_UNITS], units);
}

static void writes_are_counted_by_what_they_change(void **state)
{
    (void)state;
    struct partition_change created = {.is_there = true, .new_size = 1024};
    assert_counts(created, 1, 1024, 1);
    created.new_size = 1025;
    assert_counts(created, 1, 1025, 2);
    struct partition_change shrunk = {
        .was_there = true, .old_size = 5000, .is_there = true, .new_size = 10};
    assert_counts(shrunk, 0, -4990, 5);
    struct partition_change deleted = {.was_there = true, .old_size = 100};
    assert_counts(deleted, -1, -100, 1);
    struct partition_change nothing = {.old_size = 7}; /* a size of what was not there */
    assert_counts(nothing, 0, 0, 1);
}

static void totals_add_up_stored_counters(void **state)
{
    (void)state;
    static const uint8_t record[32] = {2, [8] = 0x10, [16] = 0xff, [17] = 1};
    struct partition_totals totals = {{0}};
    partition_total(&totals, bytes_of(record, sizeof record));
    partition_total(&totals, bytes_of(record, sizeof record));
    partition_total(&totals, bytes_of(record, 8)); /* an older, shorter record */
    assert_int_equal(totals.counts[PARTITION_ITEMS], 6);
    assert_int_equal(totals.counts[PARTITION_BYTES], 32);
    assert_int_equal(totals.counts[PARTITION_WRITE_UNITS], 2 * 511);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(ranges_are_equal_and_cover_the_whole_space, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_range_is_split_at_any_position, set_up, tear_down),
        cmocka_unit_test_setup_teardown(where_a_range_begins_it_is_not_split, set_up, tear_down),
        cmocka_unit_test_setup_teardown(keys_are_parted_by_as_little_as_possible, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_map_comes_back_from_its_stored_form, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_no_map_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(writes_are_counted_by_what_they_change, set_up, tear_down),
        cmocka_unit_test_setup_teardown(totals_add_up_stored_counters, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
