#include "tests/unit/cache/rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum {
    MEMORY = 16 << 20,
    BODY = 400,
    WORKING_SET = 16000, /* fits, with little to spare */
    ROUNDS = 6,
    FLOOD_A_READ = 4,
    CAP = MEMORY / 10,
};

/* Items of "users" whose number begins with a 9 are a policy's, "flood". */
static const uint64_t flood_begin = 900000000000;

static struct cache_rule flood_rule(uint64_t bytes_max)
{
    return (struct cache_rule){
        .name = BYTES_LITERAL("flood"),
        .table = BYTES_LITERAL("users"),
        .partition_key = BYTES_LITERAL("9*"),
        .policy = {.is_enabled = true, .query_ttl_ms = 300000, .bytes_max = bytes_max}};
}

static void set_rules(struct rig *rig, const struct cache_rule *rules, size_t count)
{
    struct cache_policies policies = {.fallback = {.is_enabled = true, .query_ttl_ms = 300000},
                                      .rules = rules,
                                      .rule_count = count};
    struct error error;
    assert_int_equal(cache_policies_set(rig->backend, &policies, &error), STATUS_OK);
}

static void set_rule(struct rig *rig, const struct cache_rule *rule)
{
    set_rules(rig, rule, 1);
}

static struct bytes body_of(size_t size)
{
    static uint8_t body[300000];
    size_t head = 5;
    body[0] = 0x81, body[1] = 0xa1, body[2] = 'v';
    body[3] = 0xc5;
    body[4] = (uint8_t)((size - head - 1) >> 8);
    body[5] = (uint8_t)(size - head - 1);
    return bytes_of(body, size);
}

static double flood_bytes(struct rig *rig)
{
    return rig_figure(rig, "cache_policy_entry_bytes", "policy=\"flood\"");
}

static uint64_t next_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + 1442695040888963407;
    return *state >> 33;
}

/* The hit rate, percent, of reads at random of a working set, between which a flood of keys that
 * never come again may run. */
static double hit_rate(uint64_t bytes_max, int flood)
{
    struct rig rig;
    uint64_t state = 1, key = flood_begin, hits = 0, reads = 0;
    rig_open(&rig, MEMORY);
    struct cache_rule rule = flood_rule(bytes_max);
    set_rule(&rig, &rule);
    for (int i = 0; i < ROUNDS * WORKING_SET; i++) {
        bool is_hit =
            rig_get(&rig, next_random(&state) % WORKING_SET, body_of(BODY)) == VERDICT_HIT;
        hits += i >= WORKING_SET * ROUNDS / 2 && is_hit;
        reads += i >= WORKING_SET * ROUNDS / 2;
        for (int more = 0; more < flood; more++)
            (void)rig_get(&rig, key++, body_of(BODY));
        if (i % 1000 == 0)
            rig_keep_house(&rig);
        if (bytes_max != 0 && i % 1000 == 0)
            assert_true(flood_bytes(&rig) <= (double)bytes_max);
    }
    if (bytes_max != 0 && flood != 0)
        assert_true(flood_bytes(&rig) > (double)bytes_max * 0.9);
    rig_close(&rig);
    return 100.0 * (double)hits / (double)reads;
}

static void a_flood_under_a_cap_leaves_the_others_hit_rate(void **state)
{
    (void)state;
    double alone = hit_rate(CAP, 0), capped = hit_rate(CAP, FLOOD_A_READ);
    double open = hit_rate(0, FLOOD_A_READ);
    print_message("alone %.2f %%, beside a flood with a cap %.2f %%, without %.2f %%\n", alone,
                  capped, open);
    assert_true(capped >= alone - 1);
    assert_true(open < alone - 1); /* or the cap was not what helped */
}

static void what_is_used_stays_within_a_cap(void **state)
{
    (void)state;
    struct rig rig;
    enum { HOT = 500 };
    uint64_t key = flood_begin + HOT, hits = 0;
    rig_open(&rig, MEMORY);
    struct cache_rule rule = flood_rule(CAP);
    set_rule(&rig, &rule);
    for (int round = 0; round < 40; round++) {
        for (uint64_t hot = 0; hot < HOT; hot++)
            hits += rig_get(&rig, flood_begin + hot, body_of(BODY)) == VERDICT_HIT;
        for (int i = 0; i < 1000; i++)
            (void)rig_get(&rig, key++, body_of(BODY));
    }
    assert_true(hits > HOT * 39 * 95 / 100);
    assert_true(rig_figure(&rig, "cache_policy_removed_total", "policy=\"flood\",why=\"evicted\"") >
                10000);
    rig_close(&rig);
}

static void a_lower_cap_counts_for_what_is_there(void **state)
{
    (void)state;
    struct rig rig;
    rig_open(&rig, MEMORY);
    struct cache_rule rule = flood_rule(4 << 20);
    set_rule(&rig, &rule);
    for (uint64_t i = 0; i < 20000; i++)
        (void)rig_get(&rig, flood_begin + i, body_of(BODY));
    assert_true(flood_bytes(&rig) > 3.9 * (1 << 20));
    rule = flood_rule(1 << 20);
    set_rule(&rig, &rule);
    rig_keep_house(&rig);
    assert_true(flood_bytes(&rig) <= 1 << 20);
    assert_true(flood_bytes(&rig) > 0.8 * (1 << 20));
    rig_close(&rig);
}

static void what_is_larger_than_its_cap_is_served_and_takes_nobodys_place(void **state)
{
    (void)state;
    struct rig rig;
    rig_open(&rig, MEMORY);
    struct cache_rule rule = flood_rule(64 << 10);
    set_rule(&rig, &rule);
    for (uint64_t i = 0; i < 50; i++)
        (void)rig_get(&rig, flood_begin + i, body_of(BODY));
    double before = flood_bytes(&rig);
    (void)rig_get(&rig, flood_begin + 100, body_of(65000));
    assert_int_equal(rig_get(&rig, flood_begin + 100, body_of(65000)), VERDICT_MISS);
    assert_true(flood_bytes(&rig) == before);
    assert_true(rig_figure(&rig, "cache_fills_dropped_total", "why=\"share\"") == 2);
    (void)rig_get(&rig, flood_begin + 101, body_of(60000)); /* nearly all of it */
    assert_int_equal(rig_get(&rig, flood_begin + 101, BYTES_NONE), VERDICT_HIT);
    assert_true(flood_bytes(&rig) <= 64 << 10);
    (void)rig_get(&rig, 1, body_of(65000));
    assert_int_equal(rig_get(&rig, 1, body_of(65000)), VERDICT_HIT);
    rig_close(&rig);
}

static void pages_and_items_share_a_cap(void **state)
{
    (void)state;
    struct rig rig;
    rig_open(&rig, MEMORY);
    struct cache_rule rule = {
        .name = BYTES_LITERAL("all"),
        .policy = {.is_enabled = true, .query_ttl_ms = 1, .bytes_max = 1 << 20}};
    rule.policy.query_ttl_ms = 300000;
    set_rule(&rig, &rule);
    for (uint64_t i = 0; i < 20000; i++) {
        rig.now_us += 1000;
        (void)rig_get(&rig, i, body_of(BODY));
        (void)rig_query(&rig, i, body_of(BODY));
        if (i % 50 == 0)
            (void)rig_get(&rig, i, BYTES_NONE);
    }
    assert_true(rig_figure(&rig, "cache_policy_entry_bytes", "policy=\"all\"") <= 1 << 20);
    assert_int_equal(rig_get(&rig, 19999, BYTES_NONE), VERDICT_HIT);
    assert_int_equal(rig_query(&rig, 19999, body_of(BODY)), VERDICT_HIT);
    assert_true(rig_figure(&rig, "cache_entry_bytes", "kind=\"item\"") > 300 << 10);
    assert_true(rig_figure(&rig, "cache_entry_bytes", "kind=\"query\"") > 300 << 10);
    rig_close(&rig);
}

static void what_fits_no_other_policy_can_have_a_cap(void **state)
{
    (void)state;
    struct rig rig;
    rig_open(&rig, MEMORY);
    const struct cache_rule rules[] = {
        flood_rule(0),
        {.name = BYTES_LITERAL("rest"),
         .policy = {.is_enabled = true, .query_ttl_ms = 300000, .bytes_max = CAP}},
    };
    set_rules(&rig, rules, 2);
    for (uint64_t i = 0; i < 6000; i++) {
        (void)rig_get(&rig, i, body_of(BODY));
        (void)rig_query(&rig, i, body_of(BODY));
        (void)rig_get(&rig, flood_begin + i, body_of(BODY));
    }
    double rest = rig_figure(&rig, "cache_policy_entry_bytes", "policy=\"rest\"");
    assert_true(rest <= CAP && rest > CAP * 0.9);
    assert_true(flood_bytes(&rig) > 6000 * BODY);
    assert_true(rig_figure(&rig, "cache_policy_entry_bytes", "policy=\"default\"") == 0);
    rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_flood_under_a_cap_leaves_the_others_hit_rate),
        cmocka_unit_test(what_is_used_stays_within_a_cap),
        cmocka_unit_test(a_lower_cap_counts_for_what_is_there),
        cmocka_unit_test(what_is_larger_than_its_cap_is_served_and_takes_nobodys_place),
        cmocka_unit_test(pages_and_items_share_a_cap),
        cmocka_unit_test(what_fits_no_other_policy_can_have_a_cap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
