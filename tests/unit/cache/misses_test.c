#include "cache/ghost.h"
#include "cache/misses.h"
#include "tests/unit/cache/rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static void the_last_thing_that_happened_to_a_hash_is_told(void **state)
{
    (void)state;
    struct memory memory;
    struct gone gone = {0};
    assert_true(memory_open(&memory, 8 << 20, 0));
    assert_true(gone_open(&gone, &memory, 512));
    assert_int_equal(gone_why(&gone, 0), MISS_COLD);
    gone_note(&gone, 0, SHARD_PUT);
    gone_note(&gone, 0x12345678, SHARD_EVICTED);
    gone_note(&gone, 0x12345678, SHARD_PURGED);
    assert_int_equal(gone_why(&gone, 0), SHARD_PUT);
    assert_int_equal(gone_why(&gone, 0x12345678), SHARD_PURGED);
    assert_int_equal(gone_why(&gone, 0x22345678), MISS_COLD); /* the same place */
    assert_int_equal(gone_why(&gone, 0x12345778), MISS_COLD); /* another */
    gone_note(&gone, 0x22345678, SHARD_DELETED);
    assert_int_equal(gone_why(&gone, 0x12345678), MISS_COLD);
    assert_int_equal(gone_why(&gone, 0x22345678), SHARD_DELETED);
    gone_close(&gone, &memory);
    memory_close(&memory);
}

static void every_reason_has_a_name_of_its_own(void **state)
{
    (void)state;
    for (unsigned a = 0; a < MISS_REASONS; a++) {
        assert_non_null(miss_reason_name(a));
        for (unsigned b = 0; b < a; b++)
            assert_string_not_equal(miss_reason_name(a), miss_reason_name(b));
    }
}

static struct table table_named(uint32_t id, char name[16])
{
    (void)snprintf(name, 16, "table%u", (unsigned)id);
    return (struct table){.id = id, .name = bytes_text(name)};
}

static uint64_t count_of(const struct misses *misses, const char *name)
{
    static struct miss_row sums[MISS_TABLES + 1];
    memset(sums, 0, sizeof sums);
    misses_sum(misses, sums);
    for (int i = 0; i <= MISS_TABLES; i++)
        if (strcmp(sums[i].name, name) == 0 && (name[0] != '\0' || i == MISS_TABLES))
            return sums[i].counts[ENTRY_ITEM - 1][MISS_COLD];
    return 0;
}

static void tables_beyond_the_last_row_share_one(void **state)
{
    (void)state;
    struct memory memory;
    static struct misses misses;
    char name[16];
    assert_true(memory_open(&memory, 8 << 20, 0));
    for (int round = 0; round < 2; round++)
        for (uint32_t id = 1; id <= MISS_TABLES + 3; id++) {
            struct table table = table_named(id, name);
            misses_count(misses_row(&misses, &memory, &table), ENTRY_ITEM, MISS_COLD);
        }
    assert_int_equal(count_of(&misses, "table1"), 2);
    assert_int_equal(count_of(&misses, "table64"), 2);
    assert_int_equal(count_of(&misses, "table65"), 0);
    assert_int_equal(count_of(&misses, ""), 6);
    misses_deinit(&misses, &memory);
    memory_close(&memory);
}

static void a_table_created_again_goes_on_in_its_row(void **state)
{
    (void)state;
    struct memory memory;
    static struct misses misses;
    char name[16];
    assert_true(memory_open(&memory, 8 << 20, 0));
    struct table table = table_named(1, name);
    for (table.id = 1; table.id < 200; table.id++)
        misses_count(misses_row(&misses, &memory, &table), ENTRY_ITEM, MISS_COLD);
    assert_int_equal(count_of(&misses, "table1"), 199);
    assert_int_equal(count_of(&misses, ""), 0);
    misses_deinit(&misses, &memory);
    memory_close(&memory);
}

/* The ghosts reach further back than the list of what went last. */
static void an_evicted_item_is_missed_as_evicted(void **state)
{
    (void)state;
    static uint8_t body[200];
    struct rig rig;
    rig_open(&rig, CACHE_MEMORY_MIN);
    enum { ITEMS = 6000 };
    for (uint64_t i = 0; i < ITEMS; i++)
        (void)rig_get(&rig, i, bytes_of(body, sizeof body));
    double cold = rig_figure(&rig, "cache_miss_reasons_total",
                             "table=\"users\",kind=\"item\",reason=\"cold\"");
    assert_true(cold > ITEMS - 10); /* one in some 4,000 looks as if it had been there */
    uint64_t last = ITEMS;
    while (last > 0 && rig_entry(&rig, last - 1) != NULL)
        last--;
    enum { BACK = 1000 }; /* what went last is 256 */
    assert_true(last > BACK);
    for (uint64_t i = last - BACK; i < last; i++)
        if (rig_entry(&rig, i) == NULL)
            (void)rig_get(&rig, i, bytes_of(body, sizeof body));
    double evicted = rig_figure(&rig, "cache_miss_reasons_total",
                                "table=\"users\",kind=\"item\",reason=\"evicted\"");
    assert_true(evicted > BACK / 2);
    rig_close(&rig);
}

static double misses_of(struct rig *rig, const char *kind, const char *reason)
{
    char labels[100];
    (void)snprintf(labels, sizeof labels, "table=\"%s\",kind=\"%s\",reason=\"%s\"",
                   strcmp(kind, "item") == 0 ? "users" : "events", kind, reason);
    return rig_figure(rig, "cache_miss_reasons_total", labels);
}

static void what_was_not_kept_is_missed_as_that(void **state)
{
    (void)state;
    static uint8_t body[2 * CACHE_MEMORY_MIN];
    struct bytes large = bytes_of(body, 100000), larger = bytes_of(body, sizeof body);
    struct rig rig;
    rig_open(&rig, CACHE_MEMORY_MIN);
    (void)rig_query(&rig, 1, large); /* too large for a first time */
    (void)rig_query(&rig, 1, large);
    assert_int_equal(rig_query(&rig, 1, large), VERDICT_HIT);
    assert_int_equal(misses_of(&rig, "query", "cold"), 1);
    assert_int_equal(misses_of(&rig, "query", "not_kept"), 1);
    for (int i = 0; i < 3; i++) /* too large at any time */
        (void)rig_query(&rig, 2, larger);
    assert_int_equal(misses_of(&rig, "query", "cold"), 2);
    assert_int_equal(misses_of(&rig, "query", "not_kept"), 3);
    for (int i = 0; i < 3; i++)
        (void)rig_get(&rig, 1, larger);
    assert_int_equal(misses_of(&rig, "item", "cold"), 1);
    assert_int_equal(misses_of(&rig, "item", "not_kept"), 2);
    assert_int_equal(misses_of(&rig, "query", "evicted"), 0);
    rig_close(&rig);
}

static void what_cannot_be_a_key_is_missed_as_not_cacheable(void **state)
{
    (void)state;
    static char name[3000], filter[sizeof name + 20];
    struct rig rig;
    rig_open(&rig, CACHE_MEMORY_MIN);
    memset(name, 'n', sizeof name);
    int size = snprintf(filter, sizeof filter, "attribute_exists(%.*s)", (int)sizeof name, name);
    rig.projection = bytes_of(name, sizeof name);
    rig.filter = bytes_of(filter, (size_t)size);
    for (int i = 0; i < 2; i++)
        assert_int_equal(rig_query(&rig, 1, BYTES_NONE), VERDICT_BYPASS);
    assert_int_equal(misses_of(&rig, "query", "not_cacheable"), 2);
    rig.filter = BYTES_NONE; /* one of the two is short enough */
    (void)rig_query(&rig, 1, BYTES_NONE);
    assert_int_equal(rig_query(&rig, 1, BYTES_NONE), VERDICT_HIT);
    assert_int_equal(misses_of(&rig, "query", "not_cacheable"), 2);
    rig_close(&rig);
}

static void a_ghost_that_is_asked_for_stays(void **state)
{
    (void)state;
    struct memory memory;
    struct ghost ghost;
    assert_true(memory_open(&memory, 8 << 20, 0));
    assert_true(ghost_open(&ghost, &memory));
    ghost_resize(&ghost, 3, GHOST_SMALL, 100);
    ghost_add(&ghost, 3, GHOST_SMALL, 4711);
    ghost_add(&ghost, 4, GHOST_WRITTEN, 815);
    assert_true(ghost_knows(&ghost, 0, 28, 4711));
    assert_true(ghost_knows(&ghost, 3, 4, 4711));
    assert_false(ghost_knows(&ghost, 4, 28, 4711)); /* of another class */
    assert_false(ghost_knows(&ghost, 0, 28, 4712));
    assert_false(ghost_knows(&ghost, 0, 28, 815)); /* written, not evicted */
    assert_int_equal(ghost_take(&ghost, 3, 4711), GHOST_SMALL);
    assert_false(ghost_knows(&ghost, 0, 28, 4711));
    ghost_add(&ghost, 3, GHOST_LARGE, 4712);
    assert_false(ghost_knows(&ghost, 0, 28, 4712)); /* never came in */
    assert_int_equal(ghost_take(&ghost, 3, 4712), GHOST_LARGE);
    ghost_close(&ghost);
    memory_close(&memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_thing_that_happened_to_a_hash_is_told),
        cmocka_unit_test(every_reason_has_a_name_of_its_own),
        cmocka_unit_test(tables_beyond_the_last_row_share_one),
        cmocka_unit_test(a_table_created_again_goes_on_in_its_row),
        cmocka_unit_test(an_evicted_item_is_missed_as_evicted),
        cmocka_unit_test(what_was_not_kept_is_missed_as_that),
        cmocka_unit_test(what_cannot_be_a_key_is_missed_as_not_cacheable),
        cmocka_unit_test(a_ghost_that_is_asked_for_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
