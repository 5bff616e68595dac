/* stats.h - what the workers count, and how it is shown.
 *
 * Each worker writes its own; anybody reads. Rows of tables appear as requests name them.
 * Threads: functions with `stats` belong to the worker that owns it, but for stats_report. */
#pragma once

#include "backend/lane.h"
#include "protocol/reply.h"

#include <stdatomic.h>

struct stats;

enum counter {
#define COUNTER(name, help) COUNTER_##name,
#include "daemon/counters.def"
#undef COUNTER
    COUNTERS
};

enum { VERDICTS = VERDICT_STALE + 1 };

MUST_CHECK struct stats *stats_create(void);
void stats_destroy(struct stats **stats);

void stats_add(struct stats *stats, enum counter counter, uint64_t amount);

/* Counts an answered request by table, operation and verdict. The latency is counted apart.
 * table  may be NULL: none, or none that exists */
void stats_request(struct stats *stats, const struct table *table, enum operation operation,
                   enum verdict verdict, enum status status);

/* `count` requests of one kind took `us` microseconds each, from read to write. */
void stats_latency(struct stats *stats, enum operation operation, enum verdict verdict, uint64_t us,
                   uint32_t count);

/* The store took `us` microseconds for one request, waiting for others in its queues included. */
void stats_store_latency(struct stats *stats, enum operation operation, uint64_t us);

/* Reports the sum over `count` workers. */
void stats_report(struct stats *const *stats, size_t count, report_fn report, void *arg);

/* Quantile `q` (0..1) of the latencies of an operation and verdict over all workers, microseconds;
 * 0 when there were none. Error at most an eighth of the value. */
double stats_quantile(struct stats *const *stats, size_t count, enum operation operation,
                      enum verdict verdict, double q);

const char *verdict_name(enum verdict verdict);
