/* The largest of many groups, against a count of all of them. */
#include "clients/cli/groups.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { NAMES = 3000, ADDS = 60000 };

struct oracle {
    uint64_t items[NAMES], bytes[NAMES], total;
};

/* Few names often, many seldom; the same numbers at each run. */
static unsigned draw(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    unsigned high = (unsigned)(*state >> 40);
    return high % 4 == 0 ? high / 4 % NAMES : high / 4 % 5;
}

static void add_many(struct groups *groups, struct oracle *oracle)
{
    uint64_t state = 1;
    memset(oracle, 0, sizeof *oracle);
    for (int i = 0; i < ADDS; i++) {
        unsigned number = draw(&state);
        uint64_t bytes = 1 + state % 100;
        char name[16];
        (void)snprintf(name, sizeof name, "g%u", number);
        assert_true(groups_add(groups, name, 1, bytes));
        oracle->items[number]++;
        oracle->bytes[number] += bytes;
        oracle->total += bytes;
    }
}

static void assert_sorted(const struct group *const *groups, size_t count)
{
    for (size_t i = 1; i < count; i++)
        assert_true(groups[i - 1]->bytes >= groups[i]->bytes);
}

static void groups_are_counted_as_they_are_while_there_is_room(void **state)
{
    (void)state;
    struct groups *groups = groups_new(NAMES);
    static struct oracle oracle;
    size_t count;
    bool left_out;
    add_many(groups, &oracle);
    const struct group *const *sorted = groups_sorted(groups, &count, &left_out);
    assert_false(left_out);
    assert_sorted(sorted, count);
    size_t there = 0;
    for (size_t i = 0; i < NAMES; i++)
        there += oracle.items[i] != 0;
    assert_int_equal(count, there);
    for (size_t i = 0; i < count; i++) {
        unsigned number = (unsigned)strtoul(sorted[i]->name + 1, NULL, 10);
        assert_int_equal(sorted[i]->items, oracle.items[number]);
        assert_int_equal(sorted[i]->bytes, oracle.bytes[number]);
        assert_int_equal(sorted[i]->too_many, 0);
    }
    groups_free(groups);
}

static void the_largest_are_kept_in_little_room_and_no_bound_is_broken(void **state)
{
    (void)state;
    enum { ROOM = 50 };
    struct groups *groups = groups_new(ROOM);
    static struct oracle oracle;
    size_t count;
    bool left_out;
    add_many(groups, &oracle);
    const struct group *const *sorted = groups_sorted(groups, &count, &left_out);
    assert_true(left_out);
    assert_int_equal(count, ROOM);
    assert_sorted(sorted, count);
    bool is_kept[NAMES] = {false};
    for (size_t i = 0; i < count; i++) {
        unsigned number = (unsigned)strtoul(sorted[i]->name + 1, NULL, 10);
        is_kept[number] = true;
        assert_true(sorted[i]->bytes >= oracle.bytes[number]);
        assert_true(sorted[i]->bytes - sorted[i]->too_many <= oracle.bytes[number]);
    }
    for (size_t i = 0; i < NAMES; i++) {
        if (oracle.bytes[i] > oracle.total / ROOM)
            assert_true(is_kept[i]);
        if (!is_kept[i])
            assert_true(oracle.bytes[i] <= sorted[count - 1]->bytes);
    }
    for (unsigned i = 0; i < 5; i++) /* the heavy ones lead */
        assert_true(strtoul(sorted[i]->name + 1, NULL, 10) < 5);
    groups_free(groups);
}

static void whole_groups_are_exact_whatever_the_room(void **state)
{
    (void)state;
    enum { ROOM = 10 };
    struct groups *groups = groups_new(ROOM);
    size_t count;
    bool left_out;
    for (unsigned i = 0; i < NAMES; i++) {
        char name[16];
        unsigned place = i * 7 % NAMES; /* each once, in no order */
        (void)snprintf(name, sizeof name, "g%u", place);
        assert_true(groups_add_whole(groups, name, place, 1000 + place));
    }
    const struct group *const *sorted = groups_sorted(groups, &count, &left_out);
    assert_true(left_out);
    assert_int_equal(count, ROOM);
    for (unsigned i = 0; i < ROOM; i++) {
        assert_int_equal(sorted[i]->bytes, 1000 + NAMES - 1 - i);
        assert_int_equal(sorted[i]->items, NAMES - 1 - i);
        assert_int_equal(sorted[i]->too_many, 0);
    }
    groups_free(groups);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_are_counted_as_they_are_while_there_is_room),
        cmocka_unit_test(the_largest_are_kept_in_little_room_and_no_bound_is_broken),
        cmocka_unit_test(whole_groups_are_exact_whatever_the_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
