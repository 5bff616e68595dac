#include "clients/c/src/retry.h"

enum { RETRY_PRICE = 10 };

bool operation_is_write(enum mudax_operation operation)
{
    return operation == MUDAX_PUT_ITEM || operation == MUDAX_DELETE_ITEM ||
           operation == MUDAX_UPDATE_ITEM || operation == MUDAX_CREATE_TABLE ||
           operation == MUDAX_DELETE_TABLE;
}

/* The daemon says these before anything is committed. Its other retryable answers leave open
 * whether the write happened. */
static bool is_untouched(enum status status)
{
    return status == STATUS_THROTTLED || status == STATUS_UNAVAILABLE ||
           status == STATUS_SHUTTING_DOWN;
}

bool retry_is_safe(enum mudax_operation operation, enum attempt attempt, enum status status)
{
    switch (attempt) {
    case ATTEMPT_NOT_CONNECTED:
    case ATTEMPT_NOT_SENT:
        return true;
    case ATTEMPT_LOST:
    case ATTEMPT_TIMED_OUT:
        return !operation_is_write(operation);
    case ATTEMPT_ANSWERED:
        return operation_is_write(operation) ? is_untouched(status) : status_is_retryable(status);
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
