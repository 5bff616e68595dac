#include "backend/engine/heat.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { SECOND = 1000000 };

static const struct heat_rates none = {0, 0};

/* How many requests of one unit are let through at once. */
static unsigned admitted(struct heat *heat, uint32_t partition, bool is_write, uint64_t now_us,
                         const struct heat_rates *whole, const struct heat_rates *part)
{
    unsigned count = 0;
    while (count < 10000 && heat_admits(heat, partition, is_write, now_us, whole, part)) {
        heat_consume(heat, partition, is_write, 2, now_us, whole, part);
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
    assert_true(atomic_load(&heat->partitions[0].refused) >= 3);
    assert_int_equal(atomic_load(&heat->partitions[0].half_units[1]), 2 * 25);
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
    heat_consume(heat, 0, true, 2 * 400, now, &none, &part);
    assert_false(heat_admits(heat, 0, true, now + 38 * (uint64_t)SECOND, &none, &part));
    assert_true(heat_admits(heat, 0, true, now + 40 * (uint64_t)SECOND, &none, &part));
    heat_unref(heat);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_partition_lets_through_its_rate),
        cmocka_unit_test(what_is_provisioned_has_five_minutes_of_burst),
        cmocka_unit_test(a_large_request_is_let_through_and_those_behind_it_wait),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
