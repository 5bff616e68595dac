#include "backend/engine/heat.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { SECOND = 1000000 };

static const struct heat_rates none = {0, 0};

static void consume(struct heat *heat, uint32_t partition, bool is_write, uint64_t half_units,
                    uint64_t now_us, const struct heat_rates *whole, const struct heat_rates *part)
{
    heat_count(heat, partition, is_write, half_units);
    heat_pay(heat, partition, is_write, half_units, now_us, whole, part);
}

/* How many requests of one unit are let through at once. */
static unsigned admitted(struct heat *heat, uint32_t partition, bool is_write, uint64_t now_us,
                         const struct heat_rates *whole, const struct heat_rates *part)
{
    unsigned count = 0;
    while (count < 10000 && heat_admits(heat, partition, is_write, now_us, whole, part)) {
        consume(heat, partition, is_write, 2, now_us, whole, part);
        count++;
    }
    return count;
}

static void a_partition_lets_through_its_rate(void **state)
{
    (void)state;
    const struct heat_rates part = {.read = 20, .write = 10};
    struct heat *heat = heat_create(1, 4);
    uint64_t now = 100 * (uint64_t)SECOND;
    assert_int_equal(admitted(heat, 0, true, now, &none, &part), 10);
    assert_int_equal(admitted(heat, 0, false, now, &none, &part), 20);
    assert_int_equal(admitted(heat, 1, true, now, &none, &part), 10); /* another partition */
    assert_int_equal(admitted(heat, 0, true, now + SECOND / 2, &none, &part), 5);
    assert_int_equal(admitted(heat, 0, true, now + 60 * (uint64_t)SECOND, &none, &part), 10);
    assert_true(atomic_load(&heat->partitions[0]->refused) >= 3);
    assert_int_equal(atomic_load(&heat->partitions[0]->half_units[1]), 2 * 25);
    heat_unref(heat);
}

static void what_is_provisioned_has_five_minutes_of_burst(void **state)
{
    (void)state;
    const struct heat_rates whole = {.read = 0, .write = 2};
    struct heat *heat = heat_create(1, 2);
    uint64_t now = 1000 * (uint64_t)SECOND;
    assert_int_equal(admitted(heat, 0, true, now, &whole, &none), 600);
    assert_int_equal(admitted(heat, 1, true, now, &whole, &none), 0); /* of all together */
    assert_int_equal(admitted(heat, 1, true, now + 10 * (uint64_t)SECOND, &whole, &none), 20);
    assert_int_equal(admitted(heat, 0, false, now, &whole, &none), 10000); /* reads: no limit */
    heat_unref(heat);
}

static void a_large_request_is_let_through_and_those_behind_it_wait(void **state)
{
    (void)state;
    const struct heat_rates part = {.read = 10, .write = 10};
    struct heat *heat = heat_create(1, 1);
    uint64_t now = 100 * (uint64_t)SECOND;
    assert_true(heat_admits(heat, 0, true, now, &none, &part));
    consume(heat, 0, true, 2 * 400, now, &none, &part);
    assert_false(heat_admits(heat, 0, true, now + 38 * (uint64_t)SECOND, &none, &part));
    assert_true(heat_admits(heat, 0, true, now + 40 * (uint64_t)SECOND, &none, &part));
    heat_unref(heat);
}

/* ---- hot partitions ---- */

static const struct heat_rates limits = {.read = 100, .write = 10};

/* A second in which a partition is used to its limit; of `keys` keys, or if that is 0 of as many
 * hashes. */
static bool use(struct heat *heat, uint64_t *now_us, int keys)
{
    for (int i = 0; i < 10; i++) {
        char text[8];
        struct position position = {.hash = keys == 0 ? 100 + (uint64_t)i : 100,
                                    .key = bytes_text(text)};
        (void)snprintf(text, sizeof text, "key %d", keys == 0 ? 0 : i % keys);
        heat_sample(heat, 0, &position, 2, *now_us + (uint64_t)i);
        consume(heat, 0, true, 2, *now_us, &none, &none);
    }
    *now_us += SECOND;
    return heat_is_hot(heat, 0, *now_us, 3 * SECOND, &limits);
}

static void a_partition_is_hot_when_it_stays_at_its_limits(void **state)
{
    (void)state;
    struct heat *heat = heat_create(1, 2);
    uint64_t now = 100 * (uint64_t)SECOND;
    assert_false(heat_is_hot(heat, 0, now, 3 * SECOND, &limits));
    for (int i = 0; i < 3; i++)
        assert_false(use(heat, &now, 2));
    now += SECOND;
    assert_false(heat_is_hot(heat, 0, now, 3 * SECOND, &limits)); /* a second of rest */
    for (int i = 0; i < 3; i++)
        assert_false(use(heat, &now, 2));
    assert_true(use(heat, &now, 2));
    assert_true(use(heat, &now, 2));
    heat_cool(heat, 0);
    assert_false(use(heat, &now, 2));
    assert_false(heat_is_hot(heat, 1, now, 3 * SECOND, &limits));
    heat_unref(heat);
}

static bool middle_of(int keys, bool may_be_inside, struct arena *arena, struct position *middle)
{
    struct heat *heat = heat_create(1, 1);
    uint64_t now = 100 * (uint64_t)SECOND;
    (void)heat_is_hot(heat, 0, now, 3 * SECOND, &limits);
    for (int i = 0; i < 8; i++)
        (void)use(heat, &now, keys);
    bool is_found = heat_middle(heat, 0, may_be_inside, arena, middle);
    heat_unref(heat);
    return is_found;
}

static void what_is_hot_is_parted_in_its_middle(void **state)
{
    (void)state;
    struct arena arena;
    struct position middle;
    arena_init(&arena, NULL, 0, 1 << 20);
    assert_true(middle_of(0, false, &arena, &middle));
    assert_in_range(middle.hash, 104, 106);
    assert_int_equal(middle.key.size, 0);
    assert_true(middle_of(10, true, &arena, &middle));
    assert_int_equal(middle.hash, 100);
    assert_true(bytes_compare(middle.key, bytes_text("key 3")) > 0);
    assert_true(bytes_compare(middle.key, bytes_text("key 7")) < 0);
    assert_false(middle_of(10, false, &arena, &middle)); /* all of one hash */
    assert_false(middle_of(1, true, &arena, &middle));   /* all of one key */
    arena_deinit(&arena);
}

static void a_partition_keeps_its_heat_when_another_is_split(void **state)
{
    (void)state;
    struct arena arena;
    struct partition_map before, after;
    struct position at = {.hash = 5, .key = BYTES_LITERAL("")};
    arena_init(&arena, NULL, 0, 1 << 20);
    assert_true(partition_map_even(2, &arena, &before));
    assert_true(partition_map_split(&before, &at, &arena, &after));
    struct heat *old = heat_create(1, 2), *new = heat_create(1, 3);
    consume(old, 1, false, 7, 0, &none, &none);
    heat_inherit(new, &after, old, &before);
    consume(old, 1, false, 1, 0, &none, &none); /* by who still has the old one */
    heat_unref(old);
    assert_int_equal(atomic_load(&new->partitions[2]->half_units[0]), 8);
    assert_int_equal(atomic_load(&new->partitions[1]->half_units[0]), 0);
    heat_unref(new);
    arena_deinit(&arena);
}

/* ---- the hottest keys ---- */

static void spend(struct heat *heat, const char *key, bool is_write, uint64_t half_units,
                  uint64_t now_us)
{
    struct position position = {.hash = (uint64_t)strtoul(key + 1, NULL, 10) * 2654435761u,
                                .key = bytes_text(key)};
    heat_count_key(heat, &position, is_write, half_units, now_us);
}

static bool is_key(const struct heat_keys_line *line, const char *key)
{
    return bytes_equal(bytes_of(line->key.key, line->key.size), bytes_text(key));
}

/* 100 units of k1 read and 50 of k2 written a second, among 200 of keys that come once. */
static uint64_t spend_seconds(struct heat *heat, int seconds, uint64_t now_us)
{
    static unsigned once = 1000;
    for (int i = 0; i < 100 * seconds; i++, now_us += SECOND / 100) {
        char key[16];
        spend(heat, "k1", false, 2, now_us);
        if (i % 2 == 0)
            spend(heat, "k2", true, 2, now_us);
        for (int more = 0; more < 2; more++) {
            (void)snprintf(key, sizeof key, "k%u", once++);
            spend(heat, key, more == 0, 2, now_us);
        }
    }
    return now_us;
}

static void the_keys_that_cost_most_are_named_with_their_rates(void **state)
{
    (void)state;
    struct heat *heat = heat_create(1, 1);
    struct heat_keys_line lines[HEAT_KEYS_SHOWN];
    uint64_t now = spend_seconds(heat, 60, 100 * (uint64_t)SECOND);
    struct heat_keys *keys = atomic_load(&heat->whole->keys);
    assert_true(heat_keys_list(keys, now, lines) >= 2);
    assert_true(is_key(&lines[0], "k1"));
    assert_in_range(lines[0].tenths[0], 900, 1100);
    assert_int_equal(lines[0].tenths[1], 0);
    assert_true(is_key(&lines[1], "k2"));
    assert_int_equal(lines[1].tenths[0], 0);
    assert_in_range(lines[1].tenths[1], 400, 550);
    assert_int_equal(heat_keys_list(keys, now + 1000 * (uint64_t)SECOND, lines), 0);
    heat_unref(heat);
}

static void a_key_is_remembered_as_far_as_there_is_room(void **state)
{
    (void)state;
    static const uint8_t bytes[HEAT_KEY_ROOM + 1];
    struct heat *heat = heat_create(1, 1);
    struct heat_keys_line lines[HEAT_KEYS_SHOWN];
    uint64_t now = 100 * (uint64_t)SECOND;
    for (size_t size = HEAT_KEY_ROOM - 1; size <= HEAT_KEY_ROOM + 1; size++) {
        struct position position = {.hash = size, .key = bytes_of(bytes, size)};
        heat_count_key(heat, &position, true, 2000 - size, now);
    }
    heat_count_key(heat, &(struct position){.hash = 5}, false, 1000, now); /* of a Scan */
    struct heat_keys *keys = atomic_load(&heat->whole->keys);
    assert_int_equal(heat_keys_list(keys, now, lines), 0); /* too early for a rate */
    assert_int_equal(heat_keys_list(keys, now + SECOND, lines), 3);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(lines[i].key.hash, HEAT_KEY_ROOM - 1 + i);
        assert_int_equal(lines[i].key.size, i == 0 ? HEAT_KEY_ROOM - 1 : HEAT_KEY_ROOM);
        assert_int_equal(lines[i].key.is_cut, i == 2);
    }
    heat_unref(heat);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_partition_lets_through_its_rate),
        cmocka_unit_test(what_is_provisioned_has_five_minutes_of_burst),
        cmocka_unit_test(a_large_request_is_let_through_and_those_behind_it_wait),
        cmocka_unit_test(a_partition_is_hot_when_it_stays_at_its_limits),
        cmocka_unit_test(what_is_hot_is_parted_in_its_middle),
        cmocka_unit_test(a_partition_keeps_its_heat_when_another_is_split),
        cmocka_unit_test(the_keys_that_cost_most_are_named_with_their_rates),
        cmocka_unit_test(a_key_is_remembered_as_far_as_there_is_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
