#include "clients/c/src/retry.h"

enum { RETRY_PRICE = 10 };

enum effect effect_of(enum mudax_operation operation, bool has_token)
{
    switch (operation) {
    case MUDAX_PING:
    case MUDAX_GET_ITEM:
    case MUDAX_QUERY:
    case MUDAX_DESCRIBE_TABLE:
    case MUDAX_LIST_TABLES:
    case MUDAX_STATS:
    case MUDAX_SCAN:
    case MUDAX_BATCH_GET_ITEM:
    case MUDAX_TRANSACT_GET_ITEMS:
    case MUDAX_DESCRIBE_TIME_TO_LIVE:
    case MUDAX_PURGE:
    case MUDAX_EXPLAIN:
    case MUDAX_DESCRIBE_HEAT:
    case MUDAX_LIST_TAGS_OF_RESOURCE:
        return EFFECT_NONE;
    case MUDAX_BATCH_WRITE_ITEM: /* no conditions, and nothing that counts */
        return EFFECT_SAME;
    case MUDAX_TRANSACT_WRITE_ITEMS:
        return has_token ? EFFECT_SAME : EFFECT_WRITES;
    case MUDAX_PUT_ITEM:
    case MUDAX_DELETE_ITEM:
    case MUDAX_UPDATE_ITEM:
    case MUDAX_CONDITION_CHECK:
    case MUDAX_CREATE_TABLE:
    case MUDAX_UPDATE_TABLE:
    case MUDAX_DELETE_TABLE:
    case MUDAX_UPDATE_TIME_TO_LIVE:
    case MUDAX_TAG_RESOURCE:
    case MUDAX_UNTAG_RESOURCE:
        break;
    }
    return EFFECT_WRITES;
}

/* The daemon says these before anything is committed. Its other retryable answers leave open
 * whether the write happened. */
static bool is_untouched(enum status status)
{
    return status == STATUS_THROTTLED || status == STATUS_UNAVAILABLE ||
           status == STATUS_SHUTTING_DOWN;
}

/* An answer behind which the call may be made again. A read's outcome is never unknown. */
static bool may_pass(enum effect effect, enum status status)
{
    if (effect == EFFECT_WRITES)
        return is_untouched(status);
    return status_is_retryable(status) || status == STATUS_OUTCOME_UNKNOWN;
}

bool retry_is_safe(enum effect effect, enum attempt attempt, enum status status)
{
    switch (attempt) {
    case ATTEMPT_NOT_CONNECTED:
    case ATTEMPT_NOT_SENT:
        return true;
    case ATTEMPT_LOST:
    case ATTEMPT_TIMED_OUT:
        return effect != EFFECT_WRITES;
    case ATTEMPT_ANSWERED:
        return may_pass(effect, status);
    case ATTEMPT_DONE:
    case ATTEMPT_FAILED:
        break;
    }
    return false;
}

uint64_t backoff_us(unsigned retry, uint64_t random)
{
    uint64_t most = BACKOFF_MAX_US;
    if (retry < 16 && ((uint64_t)BACKOFF_BASE_US << retry) < most)
        most = (uint64_t)BACKOFF_BASE_US << retry;
    return random % (most + 1);
}

void retry_budget_init(struct retry_budget *budget)
{
    budget->tenths = RETRY_BUDGET_MAX;
}

void retry_budget_earn(struct retry_budget *budget)
{
    if (budget->tenths < RETRY_BUDGET_MAX)
        budget->tenths++;
}

bool retry_budget_spend(struct retry_budget *budget)
{
    if (budget->tenths < RETRY_PRICE)
        return false;
    budget->tenths -= RETRY_PRICE;
    return true;
}
