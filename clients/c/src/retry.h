/* retry.h - when to try again, and how long to wait before.
 *
 * Pure but for the state that is handed in; the clock and random bits are arguments.
 * Source: M. Brooker, "Exponential Backoff And Jitter" (full jitter), and the retry quota of the
 * AWS SDKs' standard mode, for the budget. */
#pragma once

#include "clients/c/include/mudax.h"
#include "protocol/status.h"

/* How an attempt ended. */
enum attempt {
    ATTEMPT_DONE,          /* a reply with STATUS_OK */
    ATTEMPT_ANSWERED,      /* the daemon answered with an error */
    ATTEMPT_NOT_CONNECTED, /* no connection: the daemon knows nothing of it */
    ATTEMPT_NOT_SENT,      /* the last byte did not leave: the daemon cannot have read it all */
    ATTEMPT_LOST,          /* sent, then the connection ended */
    ATTEMPT_TIMED_OUT,     /* sent, and the deadline passed */
    ATTEMPT_FAILED,        /* our own trouble: no memory, not a reply */
};

/* What it means to make the same call twice. */
enum effect {
    EFFECT_NONE,   /* it changes nothing */
    EFFECT_SAME,   /* twice is as once */
    EFFECT_WRITES, /* something may happen twice */
};

/* has_token  TransactWriteItems: it will have the same one again */
enum effect effect_of(enum mudax_operation operation, bool has_token);

/* True when the same call can be made again without doing anything twice.
 * status  what the daemon said, with ATTEMPT_ANSWERED */
bool retry_is_safe(enum effect effect, enum attempt attempt, enum status status);

enum {
    BACKOFF_BASE_US = 5000,
    BACKOFF_MAX_US = 500000,
};

/* How long to wait before retry number `retry` (from 0): anything from 0 up to
 * min(BACKOFF_MAX_US, BACKOFF_BASE_US x 2^retry), as `random` says. Microseconds. */
uint64_t backoff_us(unsigned retry, uint64_t random);

/* Retries are paid from a bucket that calls fill, a tenth of a retry each: when everything fails,
 * retries add a tenth to the load and no more. */
struct retry_budget {
    uint32_t tenths;
};
enum { RETRY_BUDGET_MAX = 100 }; /* tenths of a retry; what a new budget holds */

void retry_budget_init(struct retry_budget *budget);
void retry_budget_earn(struct retry_budget *budget); /* a call was made */
MUST_CHECK bool retry_budget_spend(struct retry_budget *budget);
