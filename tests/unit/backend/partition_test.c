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

static void ranges_are_equal_and_cover_the_whole_space(void **state)
{
    (void)state;
    struct partition_map map;
    assert_true(partition_map_even(16, &arena, &map));
    assert_int_equal(map.count, 16);
    for (uint64_t i = 0; i < 16; i++) {
        assert_int_equal(map.firsts[i], i << 60);
        assert_int_equal(partition_find(&map, i << 60), i);
        assert_int_equal(partition_find(&map, (i << 60) + 0xfffffffffffffff), i);
    }
    assert_true(partition_map_even(3, &arena, &map));
    assert_int_equal(partition_find(&map, 0), 0);
    assert_int_equal(partition_find(&map, UINT64_MAX), 2);
    assert_int_equal(partition_find(&map, map.firsts[1] - 1), 0);
    assert_int_equal(partition_find(&map, map.firsts[1]), 1);
    assert_true(partition_map_even(1, &arena, &map));
    assert_int_equal(partition_find(&map, UINT64_MAX), 0);
}

static void a_map_comes_back_from_its_stored_form(void **state)
{
    (void)state;
    struct partition_map map, again;
    assert_true(partition_map_even(PARTITIONS_MAX, &arena, &map));
    struct bytes stored = partition_map_write(&map, &arena);
    assert_true(partition_map_read(stored, &arena, &again));
    assert_int_equal(again.count, map.count);
    assert_memory_equal(again.firsts, map.firsts, map.count * sizeof map.firsts[0]);
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
        cmocka_unit_test_setup_teardown(a_map_comes_back_from_its_stored_form, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_no_map_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(writes_are_counted_by_what_they_change, set_up, tear_down),
        cmocka_unit_test_setup_teardown(totals_add_up_stored_counters, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
