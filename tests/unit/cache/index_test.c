#include "cache/index.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

enum { ENTRIES = 4000, BUDGET = 1 << 20 };

static struct memory memory;
static ck_epoch_t epoch;
static struct index table;
static _Alignas(64) struct reclaimer reclaimer;

static int set_up(void **state)
{
    (void)state;
    memset(&reclaimer, 0, sizeof reclaimer);
    ck_epoch_init(&epoch);
    bool is_open = memory_open(&memory, BUDGET, 0) && index_open(&table, &memory, 0);
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

static void tidy_all(void)
{
    reclaim_begin(&reclaimer);
    for (uint32_t at = 0; at < 64;)
        index_tidy(&table, &reclaimer, 0, &at);
    reclaim_end(&reclaimer);
}

static void entries_are_found_while_tables_grow_and_shrink(void **state)
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
        tidy_all();
        for (uint32_t id = (uint32_t)round; id < ENTRIES; id += 3) {
            assert_null(index_get(&table, probe_of(id)));
            entries[id] = put(id, &previous);
            assert_null(previous);
        }
        reclaim_poll(&reclaimer, UINT32_MAX);
    }
    assert_int_equal(index_count(&table, 0), ENTRIES);
    /* About seven bytes an entry, rounding and room to grow included. */
    assert_true(index_bytes(&table, 0) < ENTRIES * 9);
    for (uint32_t id = 0; id < ENTRIES; id++)
        take(entries[id]);
    tidy_all();
    assert_true(index_bytes(&table, 0) < ENTRIES * 2);
    while (reclaim_is_pending(&reclaimer))
        reclaim_poll(&reclaimer, UINT32_MAX);
    assert_int_equal(memory_figure(&memory.live), index_bytes(&table, 0));
    assert_int_equal(memory_figure(&memory.deferred), 0);
    index_close(&table);
    assert_int_equal(memory_figure(&memory.live), 0);
}

/* What put() does, for a table that may refuse. */
static bool try_put(struct entry *entry)
{
    struct entry *previous;
    reclaim_begin(&reclaimer);
    bool is_set = index_set(&table, &reclaimer, entry, &previous);
    reclaim_end(&reclaimer);
    assert_true(!is_set || previous == NULL);
    return is_set;
}

static struct entry *make(uint32_t hash, uint32_t id)
{
    struct entry *probe = probe_of(id);
    probe->hash = hash;
    struct entry_source source = {.probe = probe};
    struct entry *entry = entry_make(&memory, &source);
    assert_non_null(entry);
    entry_mark_published(&memory, entry);
    return entry;
}

static void keys_of_one_hash_are_told_apart_until_no_slot_is_near(void **state)
{
    (void)state;
    static struct entry *entries[ENTRIES];
    uint32_t count = 0;
    do {
        assert_true(count < ENTRIES);
        entries[count] = make(7, count);
    } while (try_put(entries[count]) && ++count);
    assert_true(count >= 100);
    assert_int_equal(index_count(&table, 0), count);
    assert_null(index_get(&table, entries[count]));
    for (uint32_t i = 0; i < count; i++)
        assert_ptr_equal(index_get(&table, entries[i]), entries[i]);
    for (uint32_t i = 0; i < count; i++)
        atomic_store(&entries[i]->counter, i < 7 ? 0 : 2);
    struct entry *near = index_near(&table, entries[count]);
    assert_int_equal(entry_counter(near), 0);
    take(near);
    assert_true(try_put(entries[count]));
    assert_ptr_equal(index_get(&table, entries[count]), entries[count]);
    assert_null(index_get(&table, near));
}

static void without_memory_tables_are_filled_to_their_last_slots(void **state)
{
    (void)state;
    static struct entry *entries[2 * ENTRIES];
    for (uint32_t i = 0; i < 2 * ENTRIES; i++)
        entries[i] = make(i * 2654435761u, i);
    uint32_t count = 0;
    for (uint32_t i = 0; i < ENTRIES; i++)
        count += try_put(entries[i]);
    assert_int_equal(count, ENTRIES);
    for (size_t size = memory_slot_max(&memory); size >= SLOT_MIN; size -= SLOT_UNIT)
        while (memory_alloc_kept(&memory, size) != NULL)
            continue;
    size_t bytes = index_bytes(&table, 0);
    for (uint32_t i = ENTRIES; i < 2 * ENTRIES; i++)
        count += try_put(entries[i]);
    assert_int_equal(index_bytes(&table, 0), bytes);
    assert_true(count > bytes / 7 && count < 2 * ENTRIES);
    uint32_t found = 0;
    for (uint32_t i = 0; i < 2 * ENTRIES; i++)
        found += index_get(&table, entries[i]) == entries[i];
    assert_int_equal(found, count);
    assert_int_equal(index_count(&table, 0), count);
}

static void table_leaves_its_slot_with_all_its_entries(void **state)
{
    (void)state;
    static struct entry *entries[ENTRIES];
    struct entry *previous;
    for (uint32_t id = 0; id < ENTRIES; id++)
        entries[id] = put(id, &previous);
    uint8_t *slot = memory_at(&memory, (uint32_t)atomic_load(&table.tables[1]));
    assert_int_equal(*slot_flags(slot), SLOT_TABLE);
    reclaim_begin(&reclaimer);
    index_move(&table, &reclaimer, slot);
    reclaim_end(&reclaimer);
    assert_int_equal(*slot_flags(slot), SLOT_DEAD);
    assert_ptr_not_equal(memory_at(&memory, (uint32_t)atomic_load(&table.tables[1])), slot);
    for (uint32_t id = 0; id < ENTRIES; id++)
        assert_ptr_equal(index_get(&table, probe_of(id)), entries[id]);
}

static void setting_a_key_again_gives_the_old_entry(void **state)
{
    (void)state;
    struct entry *previous, *first = put(7, &previous), *second = put(7, &previous);
    assert_ptr_equal(previous, first);
    assert_ptr_equal(index_get(&table, probe_of(7)), second);
    assert_int_equal(index_count(&table, 0), 1);
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
    uint32_t walk = 0;
    for (uint32_t id = 0; id < ENTRIES; id++)
        (void)put(id, &previous);
    for (bool is_more = true; is_more; steps++) {
        unsigned before = met;
        reclaim_begin(&reclaimer);
        is_more = index_iterate(&table, 0, &walk, 64, remove_it, &met);
        reclaim_end(&reclaimer);
        assert_true(met - before <= 64 + ENTRIES / 2); /* a table at least */
        tidy_all();
    }
    assert_int_equal(met, ENTRIES);
    assert_true(steps > 1);
    assert_int_equal(index_count(&table, 0), 0);
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
        cmocka_unit_test_setup_teardown(entries_are_found_while_tables_grow_and_shrink, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(keys_of_one_hash_are_told_apart_until_no_slot_is_near,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(without_memory_tables_are_filled_to_their_last_slots,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(table_leaves_its_slot_with_all_its_entries, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(setting_a_key_again_gives_the_old_entry, set_up, tear_down),
        cmocka_unit_test_setup_teardown(walk_meets_every_entry_in_bounded_steps, set_up, tear_down),
        cmocka_unit_test_setup_teardown(reader_keeps_what_it_found_until_its_section_ends, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
