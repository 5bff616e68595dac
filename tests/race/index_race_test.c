/* Readers look up keys of one index while its writer takes others out, puts them in again, has
 * tables grow, shrink and move, and frees what it took out: who is there all the time is always
 * found, and nobody is ever found with another's key or body. */
#include "cache/index.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

enum { READERS = 2, STAYING = 300, COMING = 3000, ROUNDS = 40, BUDGET = 8 << 20 };

static struct memory memory;
static ck_epoch_t epoch;
static struct index table;
static _Alignas(64) struct reclaimer reclaimers[READERS + 1];
static atomic_bool is_over;

struct probe {
    _Alignas(struct entry) uint8_t room[ENTRY_HEADER + 16];
};

static const struct entry *probe_of(struct probe *probe, uint32_t id)
{
    struct entry *entry = (struct entry *)probe->room;
    entry->hash = id % 1000 * 2654435761u; /* some agree */
    entry->key_size = 9;
    memcpy(entry_key_begin(entry->key, ENTRY_ITEM, 1), &id, sizeof id);
    return entry;
}

static void put(struct reclaimer *reclaimer, uint32_t id)
{
    struct probe probe;
    struct entry *previous;
    struct entry_source source = {.probe = probe_of(&probe, id),
                                  .body = bytes_of((const uint8_t *)&id, sizeof id)};
    struct entry *entry = entry_make(&memory, &source);
    assert_non_null(entry);
    entry_mark_published(&memory, entry);
    reclaim_begin(reclaimer);
    assert_true(index_set(&table, reclaimer, entry, &previous));
    if (previous != NULL)
        reclaim_entry(reclaimer, previous);
    reclaim_end(reclaimer);
}

static void take(struct reclaimer *reclaimer, uint32_t id)
{
    struct probe probe;
    reclaim_begin(reclaimer);
    struct entry *entry = index_get(&table, probe_of(&probe, id));
    if (entry != NULL) {
        index_remove(&table, entry);
        reclaim_entry(reclaimer, entry);
    }
    reclaim_end(reclaimer);
}

static void change_tables(struct reclaimer *reclaimer)
{
    reclaim_begin(reclaimer);
    for (uint32_t at = 0; at < 64;)
        index_tidy(&table, reclaimer, 0, &at);
    for (uint32_t i = 0; i < UINT32_C(1) << table.table_bits; i++) {
        void *slot = memory_at(&memory, (uint32_t)atomic_load(&table.tables[i]));
        if (slot != NULL)
            index_move(&table, reclaimer, slot);
    }
    reclaim_end(reclaimer);
}

static void look_up(struct reclaimer *reclaimer, uint32_t id)
{
    struct probe probe;
    reclaim_begin(reclaimer);
    const struct entry *entry = index_get(&table, probe_of(&probe, id));
    if (entry == NULL)
        assert_true(id >= STAYING);
    else
        assert_memory_equal(entry->key + entry->key_size, &id, sizeof id);
    reclaim_end(reclaimer);
}

static void *read_all_the_time(void *arg)
{
    while (!atomic_load_explicit(&is_over, memory_order_relaxed))
        for (uint32_t id = 0; id < STAYING + COMING; id++)
            look_up(arg, id);
    return NULL;
}

static void who_stays_is_always_found(void **state)
{
    (void)state;
    pthread_t threads[READERS];
    struct reclaimer *own = &reclaimers[READERS];
    ck_epoch_init(&epoch);
    assert_true(memory_open(&memory, BUDGET, 0) && index_open(&table, &memory, 0));
    for (int i = 0; i <= READERS; i++)
        reclaim_open(&reclaimers[i], &epoch, &memory);
    for (uint32_t id = 0; id < STAYING; id++)
        put(own, id);
    for (int i = 0; i < READERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, read_all_the_time, &reclaimers[i]), 0);
    for (int round = 0; round < ROUNDS; round++) {
        for (uint32_t i = 0; i < COMING; i++)
            put(own, STAYING + i * 7 % COMING);
        for (uint32_t id = 0; id < STAYING; id += 3)
            put(own, id); /* another entry, the same key */
        change_tables(own);
        for (uint32_t i = 0; i < COMING; i++)
            take(own, STAYING + i);
        change_tables(own);
        while (reclaim_is_pending(own))
            reclaim_poll(own, UINT32_MAX);
    }
    atomic_store(&is_over, true);
    for (int i = 0; i < READERS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(index_count(&table, 0), STAYING);
    for (int i = 0; i <= READERS; i++)
        reclaim_close(&reclaimers[i]);
    index_close(&table);
    memory_close(&memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(who_stays_is_always_found)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
