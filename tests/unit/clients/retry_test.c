#include "clients/c/src/retry.h"

#include <stdarg.h>

#include <setjmp.h>

#include <cmocka.h>

static void reads_are_repeated_whenever_that_may_help(void **state)
{
    (void)state;
    static const enum mudax_operation reads[] = {MUDAX_PING,
                                                 MUDAX_GET_ITEM,
                                                 MUDAX_QUERY,
                                                 MUDAX_SCAN,
                                                 MUDAX_STATS,
                                                 MUDAX_PURGE,
                                                 MUDAX_EXPLAIN,
                                                 MUDAX_DESCRIBE_HEAT,
                                                 MUDAX_LIST_TAGS_OF_RESOURCE,
                                                 MUDAX_DESCRIBE_TABLE,
                                                 MUDAX_LIST_TABLES,
                                                 MUDAX_BATCH_GET_ITEM,
                                                 MUDAX_TRANSACT_GET_ITEMS,
                                                 MUDAX_DESCRIBE_TIME_TO_LIVE};
    for (size_t i = 0; i < sizeof reads / sizeof reads[0]; i++)
        assert_int_equal(effect_of(reads[i], false), EFFECT_NONE);
    assert_true(retry_is_safe(EFFECT_NONE, ATTEMPT_NOT_CONNECTED, STATUS_OK));
    assert_true(retry_is_safe(EFFECT_NONE, ATTEMPT_NOT_SENT, STATUS_OK));
    assert_true(retry_is_safe(EFFECT_NONE, ATTEMPT_LOST, STATUS_OK));
    assert_true(retry_is_safe(EFFECT_NONE, ATTEMPT_TIMED_OUT, STATUS_OK));
    assert_true(retry_is_safe(EFFECT_NONE, ATTEMPT_ANSWERED, STATUS_INTERNAL));
    assert_true(retry_is_safe(EFFECT_NONE, ATTEMPT_ANSWERED, STATUS_TIMEOUT));
    assert_false(retry_is_safe(EFFECT_NONE, ATTEMPT_ANSWERED, STATUS_VALIDATION));
    assert_false(retry_is_safe(EFFECT_NONE, ATTEMPT_FAILED, STATUS_OK));
}

static void writes_are_repeated_only_if_nothing_can_have_happened(void **state)
{
    (void)state;
    static const enum mudax_operation writes[] = {MUDAX_PUT_ITEM,
                                                  MUDAX_DELETE_ITEM,
                                                  MUDAX_UPDATE_ITEM,
                                                  MUDAX_CREATE_TABLE,
                                                  MUDAX_DELETE_TABLE,
                                                  MUDAX_UPDATE_TABLE,
                                                  MUDAX_UPDATE_TIME_TO_LIVE,
                                                  MUDAX_TAG_RESOURCE,
                                                  MUDAX_UNTAG_RESOURCE,
                                                  MUDAX_TRANSACT_WRITE_ITEMS};
    for (size_t i = 0; i < sizeof writes / sizeof writes[0]; i++)
        assert_int_equal(effect_of(writes[i], false), EFFECT_WRITES);
    assert_true(retry_is_safe(EFFECT_WRITES, ATTEMPT_NOT_CONNECTED, STATUS_OK));
    assert_true(retry_is_safe(EFFECT_WRITES, ATTEMPT_NOT_SENT, STATUS_OK));
    assert_true(retry_is_safe(EFFECT_WRITES, ATTEMPT_ANSWERED, STATUS_THROTTLED));
    assert_true(retry_is_safe(EFFECT_WRITES, ATTEMPT_ANSWERED, STATUS_UNAVAILABLE));
    assert_true(retry_is_safe(EFFECT_WRITES, ATTEMPT_ANSWERED, STATUS_SHUTTING_DOWN));
    assert_false(retry_is_safe(EFFECT_WRITES, ATTEMPT_LOST, STATUS_OK));
    assert_false(retry_is_safe(EFFECT_WRITES, ATTEMPT_TIMED_OUT, STATUS_OK));
    assert_false(retry_is_safe(EFFECT_WRITES, ATTEMPT_ANSWERED, STATUS_INTERNAL));
    assert_false(retry_is_safe(EFFECT_WRITES, ATTEMPT_ANSWERED, STATUS_TIMEOUT));
    assert_false(retry_is_safe(EFFECT_WRITES, ATTEMPT_ANSWERED, STATUS_OUTCOME_UNKNOWN));
    assert_false(retry_is_safe(EFFECT_WRITES, ATTEMPT_ANSWERED, STATUS_NO_MEMORY));
}

static void what_can_be_done_twice_is_repeated_even_if_it_may_have_happened(void **state)
{
    (void)state;
    assert_int_equal(effect_of(MUDAX_BATCH_WRITE_ITEM, false), EFFECT_SAME);
    assert_int_equal(effect_of(MUDAX_TRANSACT_WRITE_ITEMS, true), EFFECT_SAME);
    assert_int_equal(effect_of(MUDAX_PUT_ITEM, true), EFFECT_WRITES);
    assert_true(retry_is_safe(EFFECT_SAME, ATTEMPT_LOST, STATUS_OK));
    assert_true(retry_is_safe(EFFECT_SAME, ATTEMPT_TIMED_OUT, STATUS_OK));
    assert_true(retry_is_safe(EFFECT_SAME, ATTEMPT_ANSWERED, STATUS_OUTCOME_UNKNOWN));
    assert_true(retry_is_safe(EFFECT_SAME, ATTEMPT_ANSWERED, STATUS_INTERNAL));
    assert_false(retry_is_safe(EFFECT_SAME, ATTEMPT_ANSWERED, STATUS_TRANSACTION_CANCELED));
    assert_false(retry_is_safe(EFFECT_SAME, ATTEMPT_ANSWERED, STATUS_IDEMPOTENT_MISMATCH));
    assert_false(retry_is_safe(EFFECT_SAME, ATTEMPT_FAILED, STATUS_OK));
}

static void waits_double_up_to_a_limit_and_jitter_over_all_of_it(void **state)
{
    (void)state;
    static const uint64_t most[] = {5000,   10000,  20000,  40000, 80000,
                                    160000, 320000, 500000, 500000};
    for (unsigned retry = 0; retry < sizeof most / sizeof most[0]; retry++) {
        assert_int_equal(backoff_us(retry, 0), 0);
        assert_int_equal(backoff_us(retry, most[retry]), most[retry]);
        assert_int_equal(backoff_us(retry, most[retry] + 1), 0);
    }
    assert_true(backoff_us(4000000000u, UINT64_MAX) <= BACKOFF_MAX_US);
}

static void retries_are_a_tenth_of_the_calls_when_everything_fails(void **state)
{
    (void)state;
    struct retry_budget budget;
    retry_budget_init(&budget);
    int first = 0, later = 0;
    while (retry_budget_spend(&budget))
        first++;
    assert_int_equal(first, 10);
    for (int call = 0; call < 1000; call++) {
        retry_budget_earn(&budget);
        later += retry_budget_spend(&budget);
    }
    assert_int_equal(later, 100);
}

static void a_quiet_time_saves_no_more_than_the_budget_holds(void **state)
{
    (void)state;
    struct retry_budget budget;
    retry_budget_init(&budget);
    for (int call = 0; call < 100000; call++)
        retry_budget_earn(&budget);
    int spent = 0;
    while (retry_budget_spend(&budget))
        spent++;
    assert_int_equal(spent, 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_are_repeated_whenever_that_may_help),
        cmocka_unit_test(writes_are_repeated_only_if_nothing_can_have_happened),
        cmocka_unit_test(what_can_be_done_twice_is_repeated_even_if_it_may_have_happened),
        cmocka_unit_test(waits_double_up_to_a_limit_and_jitter_over_all_of_it),
        cmocka_unit_test(retries_are_a_tenth_of_the_calls_when_everything_fails),
        cmocka_unit_test(a_quiet_time_saves_no_more_than_the_budget_holds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
