#include "tests/unit/cache/rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { AT_ONCE = 64, ITEMS = 100, TTL_MS = 1000 };

static const struct bytes ada = BYTES_LITERAL("\x81\xa1v\xa3"
                                              "Ada");
static const struct bytes bob = BYTES_LITERAL("\x81\xa1v\xa3"
                                              "Bob");

/* Items 0..ITEMS - 1 are there and past their TTL; the backend answers no more. */
static void begin(struct rig *rig, struct cache_policy policy)
{
    struct error error;
    rig_open(rig, 4 << 20);
    policy.is_enabled = true;
    policy.item_ttl_ms = TTL_MS;
    struct cache_policies policies = {.fallback = policy};
    assert_int_equal(cache_policies_set(rig->backend, &policies, &error), STATUS_OK);
    for (uint64_t i = 0; i < ITEMS; i++)
        assert_int_equal(rig_get(rig, i, ada), VERDICT_MISS);
    rig->now_us += (TTL_MS + 1) * 1000;
    rig->fake->is_prompt = false;
}

static size_t held(const struct rig *rig)
{
    size_t count = 0;
    for (const struct fake_call *call = rig->fake->calls; call != NULL; call = call->next)
        count++;
    return count;
}

static void answer_all(struct rig *rig, enum status status, struct bytes body)
{
    while (rig->fake->calls != NULL) {
        struct fake_call *call = rig->fake->calls;
        fake_call_answer(&call, status, body, false, rig->now_us);
    }
}

static void refetches_are_bounded_and_give_their_memory_back(void **state)
{
    (void)state;
    struct rig rig;
    begin(&rig, (struct cache_policy){.stale_while_refetch_ms = TTL_MS});
    double before = rig_figure(&rig, "cache_overhead_bytes", NULL);
    for (int round = 0; round < 3; round++)
        for (uint64_t i = 0; i < ITEMS; i++)
            assert_int_equal(rig_get(&rig, i, BYTES_NONE), VERDICT_STALE);
    lane_loop_settle(&rig.loop);
    assert_int_equal(held(&rig), AT_ONCE);
    assert_int_equal(rig.loop.held, AT_ONCE);
    assert_true(rig_figure(&rig, "cache_refetches_total", NULL) == AT_ONCE);
    assert_true(rig_figure(&rig, "cache_refetches_refused_total", NULL) == 3 * (ITEMS - AT_ONCE));
    assert_true(rig_figure(&rig, "cache_overhead_bytes", NULL) > before);
    answer_all(&rig, STATUS_OK, bob);
    assert_int_equal(rig.loop.held, 0);
    for (uint64_t i = 0; i < AT_ONCE; i++)
        assert_int_equal(rig_get(&rig, i, BYTES_NONE), VERDICT_HIT);
    assert_true(bytes_equal(rig.call.reply.body, bob));
    assert_int_equal(rig_get(&rig, AT_ONCE, BYTES_NONE), VERDICT_STALE);
    lane_loop_settle(&rig.loop);
    assert_int_equal(held(&rig), 1);
    answer_all(&rig, STATUS_OK, bob);
    rig_keep_house(&rig);
    assert_true(rig_figure(&rig, "cache_overhead_bytes", NULL) <= before);
    rig_close(&rig);
}

static void after_one_that_failed_a_lane_pauses(void **state)
{
    (void)state;
    struct rig rig;
    begin(&rig, (struct cache_policy){.stale_while_refetch_ms = TTL_MS});
    assert_int_equal(rig_get(&rig, 1, BYTES_NONE), VERDICT_STALE);
    lane_loop_settle(&rig.loop);
    answer_all(&rig, STATUS_UNAVAILABLE, BYTES_NONE);
    assert_int_equal(rig_get(&rig, 2, BYTES_NONE), VERDICT_STALE);
    lane_loop_settle(&rig.loop);
    assert_int_equal(held(&rig), 0);
    rig.now_us += 100 * 1000;
    assert_int_equal(rig_get(&rig, 1, BYTES_NONE), VERDICT_STALE); /* its mark is gone */
    assert_int_equal(rig_get(&rig, 2, BYTES_NONE), VERDICT_STALE);
    lane_loop_settle(&rig.loop);
    assert_int_equal(held(&rig), 2);
    answer_all(&rig, STATUS_OK, bob);
    rig_close(&rig);
}

static void a_table_that_is_gone_is_no_trouble(void **state)
{
    (void)state;
    struct rig rig;
    begin(&rig, (struct cache_policy){.refresh_percent = 50, .stale_while_refetch_ms = 1000});
    assert_int_equal(rig_get(&rig, 1, BYTES_NONE), VERDICT_STALE);
    struct bytes name = rig.fake->tables[0].name;
    rig.fake->tables[0].name = BYTES_LITERAL("another");
    lane_loop_settle(&rig.loop);
    assert_int_equal(rig.loop.held, 0);
    rig.fake->tables[0].name = name;
    assert_true(rig_figure(&rig, "cache_refetches_failed_total", NULL) == 1);
    rig_close(&rig);
}

static void late_is_answered_with_what_there_is(void **state)
{
    (void)state;
    struct rig rig;
    struct reply reply;
    begin(&rig, (struct cache_policy){.stale_if_error_ms = TTL_MS});
    const struct backend_ops *ops = rig.backend->ops;
    rig.fake->is_prompt = true;
    rig.fake->prompt.status = STATUS_UNAVAILABLE;
    struct request request = {.operation = OPERATION_GET_ITEM,
                              .table_name = BYTES_LITERAL("users"),
                              .key = BYTES_LITERAL("\x81\xa2id\xac"
                                                   "000000000001")};
    assert_true(ops->late(rig.lane, &request, rig.now_us, &rig.arena, &reply));
    assert_int_equal(reply.verdict, VERDICT_STALE);
    assert_int_equal(reply.age_ms, TTL_MS + 1);
    assert_true(bytes_equal(reply.body, ada));
    request.is_consistent = true;
    assert_false(ops->late(rig.lane, &request, rig.now_us, &rig.arena, &reply));
    request.is_consistent = false;
    assert_false(ops->late(rig.lane, &request, rig.now_us + TTL_MS * 1000, &rig.arena, &reply));
    request.key = BYTES_LITERAL("\x81\xa2id\xac"
                                "000000000999");
    assert_false(ops->late(rig.lane, &request, rig.now_us, &rig.arena, &reply));
    request.table_name = BYTES_LITERAL("none");
    assert_false(ops->late(rig.lane, &request, rig.now_us, &rig.arena, &reply));
    request.operation = OPERATION_PUT_ITEM;
    assert_false(ops->late(rig.lane, &request, rig.now_us, &rig.arena, &reply));
    rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refetches_are_bounded_and_give_their_memory_back),
        cmocka_unit_test(after_one_that_failed_a_lane_pauses),
        cmocka_unit_test(a_table_that_is_gone_is_no_trouble),
        cmocka_unit_test(late_is_answered_with_what_there_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
