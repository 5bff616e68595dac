#include "cache/index.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

enum { ENTRIES = 4000 };

static struct memory memory;
static ck_epoch_t epoch;
static struct index table;
static _Alignas(64) struct reclaimer reclaimer;

static int set_up(void **state)
{
    (void)state;
    memset(&reclaimer, 0, sizeof reclaimer);
    ck_epoch_init(&epoch);
    bool is_open = memory_open(&memory, 8 << 20, 0) && index_open(&table, &memory, 16);
    reclaim_open(&reclaimer, &epoch, &memory);
    return is_open ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    reclaim_close(&reclaimer);
    index_close(&table);
    memory_close(&memory);
    return 0;
}

/* Hashes of ids agree now and then, so that keys have to tell. */
static struct entry *probe_of(uint32_t id)
{
    static _Alignas(struct entry) uint8_t room[ENTRY_HEADER + 16];
    struct entry *probe = (struct entry *)room;
    probe->hash = id % 500 * 2654435761u;
    probe->key_size = 9;
    memcpy(entry_key_begin(probe->key, ENTRY_ITEM, 1), &id, sizeof id);
    return probe;
}

static struct entry *put(uint32_t id, struct entry **previous)
{
    struct entry_source source = {.probe = probe_of(id), .body = BYTES_LITERAL("body")};
    struct entry *entry = entry_make(&memory, &source);
    assert_non_null(entry);
    reclaim_begin(&reclaimer);
    entry_mark_published(&memory, entry);
    assert_true(index_set(&table, &reclaimer, entry, previous));
    reclaim_end(&reclaimer);
    return entry;
}

static void take(struct entry *entry)
{
    reclaim_begin(&reclaimer);
    index_remove(&table, entry);
    reclaim_entry(&reclaimer, entry);
    reclaim_end(&reclaimer);
}

static void entries_are_found_while_the_table_grows_and_shrinks(void **state)
{
    (void)state;
    static struct entry *entries[ENTRIES];
    struct entry *previous;
    for (uint32_t id = 0; id < ENTRIES; id++) {
        assert_null(index_get(&table, probe_of(id)));
        entries[id] = put(id, &previous);
        assert_null(previous);
    }
    for (int round = 0; round < 5; round++) {
        for (uint32_t id = 0; id < ENTRIES; id++)
            assert_ptr_equal(index_get(&table, probe_of(id)), entries[id]);
        for (uint32_t id = (uint32_t)round; id < ENTRIES; id += 3)
            take(entries[id]);
        index_tidy(&table, 100, (unsigned long)round * 77);
        for (uint32_t id = (uint32_t)round; id < ENTRIES; id += 3) {
            assert_null(index_get(&table, probe_of(id)));
            entries[id] = put(id, &previous);
            assert_null(previous);
        }
        reclaim_poll(&reclaimer, UINT32_MAX);
    }
    assert_int_equal(index_count(&table), ENTRIES);
    for (uint32_t id = 0; id < ENTRIES; id++)
        take(entries[id]);
    reclaim_poll(&reclaimer, UINT32_MAX);
    assert_int_equal(memory_figure(&memory.live), 0);
    assert_int_equal(memory_figure(&memory.deferred), 0);
}

static void setting_a_key_again_gives_the_old_entry(void **state)
{
    (void)state;
    struct entry *previous, *first = put(7, &previous), *second = put(7, &previous);
    assert_ptr_equal(previous, first);
    assert_ptr_equal(index_get(&table, probe_of(7)), second);
    assert_int_equal(index_count(&table), 1);
    reclaim_begin(&reclaimer);
    reclaim_entry(&reclaimer, first);
    reclaim_end(&reclaimer);
    take(second);
}

static void remove_it(void *arg, struct entry *entry)
{
    (*(unsigned *)arg)++;
    index_remove(&table, entry);
    reclaim_entry(&reclaimer, entry);
}

static void walk_meets_every_entry_in_bounded_steps(void **state)
{
    (void)state;
    struct entry *previous;
    unsigned met = 0, steps = 0;
    struct index_walk walk = {0};
    for (uint32_t id = 0; id < ENTRIES; id++)
        (void)put(id, &previous);
    for (bool is_more = true; is_more; steps++) {
        unsigned before = met;
        reclaim_begin(&reclaimer);
        is_more = index_iterate(&table, &walk, 64, remove_it, &met);
        reclaim_end(&reclaimer);
        assert_true(met - before <= 64);
    }
    assert_int_equal(met, ENTRIES);
    assert_true(steps >= ENTRIES / 64);
    assert_int_equal(index_count(&table), 0);
}

static void reader_keeps_what_it_found_until_its_section_ends(void **state)
{
    (void)state;
    static _Alignas(64) struct reclaimer reader;
    struct entry *previous, *entry = put(7, &previous);
    memset(&reader, 0, sizeof reader);
    reclaim_open(&reader, &epoch, &memory);
    reclaim_begin(&reader);
    assert_ptr_equal(index_get(&table, probe_of(7)), entry);
    take(entry);
    for (int i = 0; i < 10; i++)
        reclaim_poll(&reclaimer, UINT32_MAX);
    assert_true(reclaim_is_pending(&reclaimer));
    assert_int_equal(entry_flags(entry), SLOT_DEAD);
    assert_memory_equal(entry->key, probe_of(7)->key, 9);
    reclaim_end(&reader);
    for (int i = 0; i < 4; i++)
        reclaim_poll(&reclaimer, UINT32_MAX);
    assert_false(reclaim_is_pending(&reclaimer));
    assert_int_equal(memory_figure(&memory.deferred), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(entries_are_found_while_the_table_grows_and_shrinks, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(setting_a_key_again_gives_the_old_entry, set_up, tear_down),
        cmocka_unit_test_setup_teardown(walk_meets_every_entry_in_bounded_steps, set_up, tear_down),
        cmocka_unit_test_setup_teardown(reader_keeps_what_it_found_until_its_section_ends, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
