#include "cache/hot.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { SECOND_US = 1000 * 1000, LINES = 2 * HOT_TABLES * HOT_KEYS };

struct rig {
    struct memory memory;
    struct hot hot;
    uint64_t now_us;
    struct hot_line lines[LINES];
    size_t count;
};

static void rig_open(struct rig *rig)
{
    memset(rig, 0, sizeof *rig);
    assert_true(memory_open(&rig->memory, 8 << 20, 0));
    hot_init(&rig->hot);
    rig->now_us = SECOND_US;
}

static void rig_close(struct rig *rig)
{
    hot_deinit(&rig->hot, &rig->memory);
    memory_close(&rig->memory);
}

static struct table table_of(uint32_t id)
{
    static char name[16];
    (void)snprintf(name, sizeof name, "table%u", (unsigned)id);
    return (struct table){.id = id, .name = bytes_text(name)};
}

/* A request as a lane sees it: most are not sampled. */
static void ask_only(struct rig *rig, uint32_t table_id, uint32_t key, bool is_hit)
{
    if (!hot_is_due(&rig->hot))
        return;
    struct table table = table_of(table_id);
    struct hot_request request = {.table = &table,
                                  .kind = ENTRY_ITEM,
                                  .is_hit = is_hit,
                                  .hash = key * 2654435761u,
                                  .bytes = bytes_of((const uint8_t *)&key, sizeof key)};
    hot_sample(&rig->hot, &request, rig->now_us);
}

/* The same, with housekeeping close behind. */
static void ask(struct rig *rig, uint32_t table_id, uint32_t key, bool is_hit)
{
    ask_only(rig, table_id, key, is_hit);
    hot_count(&rig->hot, &rig->memory);
}

static const struct hot_line *line_of(struct rig *rig, uint32_t key)
{
    hot_count(&rig->hot, &rig->memory);
    rig->count = hot_merge(&rig->hot, rig->now_us, rig->lines, 0, LINES);
    for (size_t i = 0; i < rig->count; i++)
        if (rig->lines[i].hash == key * 2654435761u)
            return &rig->lines[i];
    return NULL;
}

static void assert_about(double value, double wanted)
{
    if (value < 0.8 * wanted || value > 1.25 * wanted)
        fail_msg("%g, not about %g", value, wanted);
}

/* 1000 requests of key 1 and 500 of key 2 a second, three in four of them hits, among as many of
 * keys that come once. */
static void run(struct rig *rig, int seconds)
{
    static uint32_t once = 1000;
    for (int second = 0; second < seconds; second++)
        for (int i = 0; i < 1000; i++) {
            ask(rig, 1, 1, i % 4 != 0);
            ask(rig, 1, once++, false);
            if (i % 2 == 0)
                ask(rig, 1, 2, i % 8 != 0);
            else
                ask(rig, 1, once++, false);
            rig->now_us += SECOND_US / 1000;
        }
}

static void hot_keys_stand_out_among_many_cold_ones_with_their_rates(void **state)
{
    (void)state;
    static struct rig rig;
    rig_open(&rig);
    run(&rig, 60);
    const struct hot_line *one = line_of(&rig, 1), *two = line_of(&rig, 2);
    assert_non_null(one);
    assert_non_null(two);
    assert_string_equal(one->name, "table1");
    assert_about(one->requests, 1000);
    assert_about(one->hits, 750);
    assert_about(two->requests, 500);
    for (size_t i = 0; i < rig.count; i++)
        if (&rig.lines[i] != one && &rig.lines[i] != two)
            assert_true(rig.lines[i].requests < 100);
    assert_int_equal(one->key.size, 4);
    rig_close(&rig);
}

static void what_was_hot_is_forgotten(void **state)
{
    (void)state;
    static struct rig rig;
    rig_open(&rig);
    run(&rig, 20);
    const struct hot_line *one = line_of(&rig, 1);
    assert_non_null(one);
    double before = one->requests;
    rig.now_us += 20 * SECOND_US;
    one = line_of(&rig, 1);
    assert_non_null(one);
    assert_true(one->requests < before / 2);
    rig.now_us += 1000ull * SECOND_US;
    assert_null(line_of(&rig, 1));
    run(&rig, 60);
    one = line_of(&rig, 1);
    assert_non_null(one);
    assert_about(one->requests, 1000);
    rig_close(&rig);
}

static void memory_is_bounded_and_an_idle_table_gives_way(void **state)
{
    (void)state;
    static struct rig rig;
    rig_open(&rig);
    size_t before = memory_figure(&rig.memory.heap);
    for (uint32_t i = 0; i < 100000; i++)
        ask(&rig, 1 + i % (2 * HOT_TABLES), i, false);
    size_t after = memory_figure(&rig.memory.heap);
    assert_true(after - before <= HOT_TABLES * (sizeof(struct hot_table) + 64));
    for (uint32_t i = 0; i < 1000; i++)
        ask(&rig, 99, 5, true);
    rig.now_us += 5 * SECOND_US;
    assert_null(line_of(&rig, 5)); /* all others were in use just now */
    rig.now_us += HOT_WINDOW_US;
    for (uint32_t i = 0; i < 1000; i++)
        ask(&rig, 99, 5, true);
    rig.now_us += 5 * SECOND_US;
    assert_non_null(line_of(&rig, 5));
    assert_int_equal(memory_figure(&rig.memory.heap), after);
    rig_close(&rig);
}

/* More comes between two looks of housekeeping than the ring has room for. */
static void a_sample_waits_for_nobody_and_counts_for_what_found_no_room(void **state)
{
    (void)state;
    enum { TURNS = 50, REQUESTS = 20 * HOT_RING * HOT_INTERVAL };
    static struct rig rig;
    rig_open(&rig);
    for (int turn = 0; turn < TURNS; turn++) {
        mutex_lock(&rig.hot.lock);
        for (int i = 0; i < REQUESTS; i++)
            ask_only(&rig, 1, i % 4 == 0 ? 2 : 1, i % 2 != 0);
        mutex_unlock(&rig.hot.lock);
        hot_count(&rig.hot, &rig.memory);
        rig.now_us += SECOND_US / 10;
    }
    const struct hot_line *one = line_of(&rig, 1), *two = line_of(&rig, 2);
    assert_non_null(one);
    assert_non_null(two);
    assert_about(one->requests, 7.5 * REQUESTS);
    assert_about(one->hits, 5.0 * REQUESTS);
    assert_about(two->requests, 2.5 * REQUESTS);
    rig_close(&rig);
}

static void a_key_that_is_too_long_is_known_by_its_hash(void **state)
{
    (void)state;
    static const uint8_t bytes[HOT_KEY_BYTES + 1] = {1};
    static struct rig rig;
    rig_open(&rig);
    struct table table = table_of(1);
    struct hot_request request = {.table = &table,
                                  .kind = ENTRY_PAGE,
                                  .hash = 2654435761u,
                                  .bytes = bytes_of(bytes, sizeof bytes)};
    for (int i = 0; i < 10; i++)
        hot_sample(&rig.hot, &request, rig.now_us);
    rig.now_us += 2 * SECOND_US;
    const struct hot_line *line = line_of(&rig, 1);
    assert_non_null(line);
    assert_int_equal(line->key.size, 0);
    assert_about(line->requests, 10 * HOT_INTERVAL / 2.0);
    rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hot_keys_stand_out_among_many_cold_ones_with_their_rates),
        cmocka_unit_test(what_was_hot_is_forgotten),
        cmocka_unit_test(memory_is_bounded_and_an_idle_table_gives_way),
        cmocka_unit_test(a_sample_waits_for_nobody_and_counts_for_what_found_no_room),
        cmocka_unit_test(a_key_that_is_too_long_is_known_by_its_hash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
