#include "daemon/stats.h"

#include "protocol/ensure.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    TABLE_ROWS = 256, /* tables told apart; the rest shares the last row */
    BUCKETS_AN_OCTAVE = 4,
    OCTAVES = 27, /* to 134 s */
    BUCKETS = OCTAVES * BUCKETS_AN_OCTAVE,
    REQUESTS_TOLD = OPERATIONS * VERDICTS,
};

typedef atomic_uint_fast64_t count_t;

/* Of a name, so that a table created again goes on in the row of the one before. */
struct table_row {
    /* Constant once published. */
    char name[TABLE_NAME_MAX + 1];
    /* Owner's own. */
    uint32_t table_id; /* that had the name last */
    /* Atomic, relaxed: written by the owner only. */
    count_t requests[OPERATIONS][VERDICTS];
    count_t errors[OPERATIONS];
};

struct histogram {
    count_t buckets[BUCKETS];
    count_t sum_us;
};

struct stats {
    /* Atomic, relaxed: written by the owner only. */
    count_t counters[COUNTERS];
    struct histogram latency[OPERATIONS][VERDICTS];
    struct histogram store[OPERATIONS];
    /* Published with release by the owner; row 0 is for no table, the last for all others. */
    _Atomic(struct table_row *) rows[TABLE_ROWS];
    /* Owner's own. */
    uint32_t row_count;
    struct table_row *last;
};

/* One writer: no read-modify-write needed. */
static void add(count_t *count, uint64_t amount)
{
    atomic_store_explicit(count, atomic_load_explicit(count, memory_order_relaxed) + amount,
                          memory_order_relaxed);
}

static uint64_t get(const count_t *count)
{
    return atomic_load_explicit(count, memory_order_relaxed);
}

static struct table_row *row_create(struct stats *stats, uint32_t table_id, struct bytes name)
{
    struct table_row *row = calloc(1, sizeof *row);
    if (row == NULL)
        return NULL;
    row->table_id = table_id;
    memcpy(row->name, name.data, name.size < TABLE_NAME_MAX ? name.size : TABLE_NAME_MAX);
    atomic_store_explicit(&stats->rows[stats->row_count++], row, memory_order_release);
    return row;
}

struct stats *stats_create(void)
{
    struct stats *stats = calloc(1, sizeof *stats);
    if (stats != NULL && (stats->last = row_create(stats, 0, BYTES_LITERAL(""))) == NULL)
        stats_destroy(&stats);
    return stats;
}

void stats_destroy(struct stats **stats)
{
    if (*stats == NULL)
        return;
    for (size_t i = 0; i < TABLE_ROWS; i++)
        free(atomic_load(&(*stats)->rows[i]));
    free(*stats);
    *stats = NULL;
}

void stats_add(struct stats *stats, enum counter counter, uint64_t amount)
{
    add(&stats->counters[counter], amount);
}

static struct table_row *row_find(const struct stats *stats, struct bytes name)
{
    for (uint32_t i = 0; i < stats->row_count; i++) {
        struct table_row *row = atomic_load_explicit(&stats->rows[i], memory_order_relaxed);
        if (bytes_equal(bytes_text(row->name), name))
            return row;
    }
    return NULL;
}

static struct table_row *row_of(struct stats *stats, const struct table *table)
{
    uint32_t id = table == NULL ? 0 : table->id;
    if (LIKELY(stats->last->table_id == id))
        return stats->last;
    for (uint32_t i = 0; i < stats->row_count; i++) {
        struct table_row *row = atomic_load_explicit(&stats->rows[i], memory_order_relaxed);
        if (row->table_id == id)
            return stats->last = row;
    }
    ensure(table != NULL); /* the row of no table was there from the start */
    /* Once the rows are used up it would be sought anew for each request. */
    struct table_row *row = stats->row_count < TABLE_ROWS ? row_find(stats, table->name) : NULL;
    if (row != NULL) {
        row->table_id = id;
        return stats->last = row;
    }
    if (stats->row_count < TABLE_ROWS - 1)
        row = row_create(stats, id, table->name);
    else if (stats->row_count == TABLE_ROWS - 1)
        row = row_create(stats, UINT32_MAX, BYTES_LITERAL("(other tables)"));
    if (row == NULL)
        row = atomic_load_explicit(&stats->rows[stats->row_count - 1], memory_order_relaxed);
    return row;
}

void stats_request(struct stats *stats, const struct table *table, enum operation operation,
                   enum verdict verdict, enum status status)
{
    struct table_row *row = row_of(stats, table);
    add(&row->requests[operation][verdict], 1);
    if (UNLIKELY(status != STATUS_OK))
        add(&row->errors[operation], 1);
}

static unsigned bucket_of(uint64_t us)
{
    if (us < BUCKETS_AN_OCTAVE)
        return (unsigned)us;
    unsigned octave = 63 - (unsigned)__builtin_clzll(us);
    unsigned bucket = (octave - 1) * BUCKETS_AN_OCTAVE + (unsigned)((us >> (octave - 2)) & 3);
    return bucket < BUCKETS ? bucket : BUCKETS - 1;
}

/* Least value above a bucket. */
static uint64_t bucket_end(unsigned bucket)
{
    if (bucket < BUCKETS_AN_OCTAVE)
        return bucket + 1;
    unsigned octave = bucket / BUCKETS_AN_OCTAVE + 1;
    return (uint64_t)(BUCKETS_AN_OCTAVE + bucket % BUCKETS_AN_OCTAVE + 1) << (octave - 2);
}

static void histogram_add(struct histogram *histogram, uint64_t us, uint32_t count)
{
    add(&histogram->buckets[bucket_of(us)], count);
    add(&histogram->sum_us, us * count);
}

void stats_latency(struct stats *stats, enum operation operation, enum verdict verdict, uint64_t us,
                   uint32_t count)
{
    histogram_add(&stats->latency[operation][verdict], us, count);
}

void stats_store_latency(struct stats *stats, enum operation operation, uint64_t us)
{
    histogram_add(&stats->store[operation], us, 1);
}

const char *verdict_name(enum verdict verdict)
{
    static const char *const names[VERDICTS] = {"none", "hit", "miss", "bypass", "stale"};
    return (size_t)verdict < VERDICTS ? names[verdict] : "unknown";
}

/* ---- showing ---- */

static const struct metric counter_metrics[COUNTERS] = {
#define COUNTER(name, help) {#name "_total", "counter", help},
#include "daemon/counters.def"
#undef COUNTER
};

static void report_counters(struct stats *const *stats, size_t count, report_fn report, void *arg)
{
    for (int counter = 0; counter < COUNTERS; counter++) {
        uint64_t sum = 0;
        for (size_t i = 0; i < count; i++)
            sum += get(&stats[i]->counters[counter]);
        report(arg, &counter_metrics[counter], "", (double)sum);
    }
}

/* The sum of a table's rows over all workers, into the first row that has it. */
struct row_sum {
    const char *name;
    uint64_t requests[OPERATIONS][VERDICTS];
    uint64_t errors[OPERATIONS];
};

static void sum_row(struct row_sum *sum, const struct table_row *row)
{
    sum->name = row->name;
    for (int operation = 0; operation < OPERATIONS; operation++) {
        for (int verdict = 0; verdict < VERDICTS; verdict++)
            sum->requests[operation][verdict] += get(&row->requests[operation][verdict]);
        sum->errors[operation] += get(&row->errors[operation]);
    }
}

static size_t sum_rows(struct stats *const *stats, size_t count, struct row_sum *sums, size_t most)
{
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        for (size_t at = 0; at < TABLE_ROWS; at++) {
            const struct table_row *row =
                atomic_load_explicit(&stats[i]->rows[at], memory_order_acquire);
            if (row == NULL)
                break;
            size_t found = 0;
            while (found < used && strcmp(sums[found].name, row->name) != 0)
                found++;
            if (found == most)
                continue;
            used += found == used;
            sum_row(&sums[found], row);
        }
    }
    return used;
}

static void report_row(const struct row_sum *sum, report_fn report, void *arg)
{
    static const struct metric requests = {
        "requests_total", "counter",
        "requests answered, by table, operation and the cache's verdict"};
    char labels[TABLE_NAME_MAX + 100];
    for (int operation = 0; operation < OPERATIONS; operation++) {
        for (int verdict = 0; verdict < VERDICTS; verdict++) {
            if (sum->requests[operation][verdict] == 0)
                continue;
            (void)snprintf(labels, sizeof labels, "table=\"%s\",operation=\"%s\",verdict=\"%s\"",
                           sum->name, operation_name((enum operation)operation),
                           verdict_name((enum verdict)verdict));
            report(arg, &requests, labels, (double)sum->requests[operation][verdict]);
        }
    }
}

static void report_errors(const struct row_sum *sum, report_fn report, void *arg)
{
    static const struct metric errors = {"request_errors_total", "counter",
                                         "requests answered with an error"};
    char labels[TABLE_NAME_MAX + 100];
    for (int operation = 0; operation < OPERATIONS; operation++) {
        if (sum->errors[operation] == 0)
            continue;
        (void)snprintf(labels, sizeof labels, "table=\"%s\",operation=\"%s\"", sum->name,
                       operation_name((enum operation)operation));
        report(arg, &errors, labels, (double)sum->errors[operation]);
    }
}

/* One histogram, summed over all workers. */
struct histogram_sum {
    uint64_t buckets[BUCKETS], count, sum_us;
};

static void sum_add(struct histogram_sum *sum, const struct histogram *histogram)
{
    sum->sum_us += get(&histogram->sum_us);
    for (unsigned bucket = 0; bucket < BUCKETS; bucket++) {
        uint64_t here = get(&histogram->buckets[bucket]);
        sum->buckets[bucket] += here;
        sum->count += here;
    }
}

static struct histogram_sum sum_latency(struct stats *const *stats, size_t count, int operation,
                                        int verdict)
{
    struct histogram_sum sum = {0};
    for (size_t i = 0; i < count; i++)
        sum_add(&sum, &stats[i]->latency[operation][verdict]);
    return sum;
}

static struct histogram_sum sum_store(struct stats *const *stats, size_t count, int operation)
{
    struct histogram_sum sum = {0};
    for (size_t i = 0; i < count; i++)
        sum_add(&sum, &stats[i]->store[operation]);
    return sum;
}

/* _bucket, _sum and _count of one Prometheus histogram. */
static const struct metric request_metrics[] = {
    {"request_duration_seconds_bucket", "histogram", "from the read to the write of a request"},
    {"request_duration_seconds_sum", "", ""},
    {"request_duration_seconds_count", "", ""}};
static const struct metric store_metrics[] = {
    {"store_duration_seconds_bucket", "histogram", "what the store took for a request"},
    {"store_duration_seconds_sum", "", ""},
    {"store_duration_seconds_count", "", ""}};

/* Prometheus' cumulative form, one bucket an octave. */
static void report_histogram(const struct histogram_sum *sum, const struct metric metrics[3],
                             const char *kind, report_fn report, void *arg)
{
    char labels[160];
    uint64_t below = 0;
    if (sum->count == 0)
        return;
    for (unsigned bucket = 0; bucket < BUCKETS; bucket++) {
        below += sum->buckets[bucket];
        if (bucket % BUCKETS_AN_OCTAVE != BUCKETS_AN_OCTAVE - 1)
            continue;
        (void)snprintf(labels, sizeof labels, "%s,le=\"%g\"", kind,
                       (double)bucket_end(bucket) / 1e6);
        report(arg, &metrics[0], labels, (double)below);
    }
    (void)snprintf(labels, sizeof labels, "%s,le=\"+Inf\"", kind);
    report(arg, &metrics[0], labels, (double)sum->count);
    report(arg, &metrics[1], kind, (double)sum->sum_us / 1e6);
    report(arg, &metrics[2], kind, (double)sum->count);
}

static void report_latencies(struct stats *const *stats, size_t count, report_fn report, void *arg)
{
    char kind[100];
    for (int i = 0; i < REQUESTS_TOLD; i++) {
        struct histogram_sum sum = sum_latency(stats, count, i / VERDICTS, i % VERDICTS);
        (void)snprintf(kind, sizeof kind, "operation=\"%s\",verdict=\"%s\"",
                       operation_name((enum operation)(i / VERDICTS)),
                       verdict_name((enum verdict)(i % VERDICTS)));
        report_histogram(&sum, request_metrics, kind, report, arg);
    }
    for (int operation = 0; operation < OPERATIONS; operation++) {
        struct histogram_sum sum = sum_store(stats, count, operation);
        (void)snprintf(kind, sizeof kind, "operation=\"%s\"",
                       operation_name((enum operation)operation));
        report_histogram(&sum, store_metrics, kind, report, arg);
    }
}

void stats_report(struct stats *const *stats, size_t count, report_fn report, void *arg)
{
    report_counters(stats, count, report, arg);
    struct row_sum *sums = calloc(TABLE_ROWS, sizeof *sums);
    if (sums != NULL) {
        size_t used = sum_rows(stats, count, sums, TABLE_ROWS);
        for (size_t i = 0; i < used; i++)
            report_row(&sums[i], report, arg);
        for (size_t i = 0; i < used; i++)
            report_errors(&sums[i], report, arg);
        free(sums);
    }
    report_latencies(stats, count, report, arg);
}

double stats_quantile(struct stats *const *stats, size_t count, enum operation operation,
                      enum verdict verdict, double q)
{
    struct histogram_sum sum = sum_latency(stats, count, (int)operation, (int)verdict);
    uint64_t below = 0;
    for (unsigned bucket = 0; bucket < BUCKETS && sum.count != 0; bucket++) {
        below += sum.buckets[bucket];
        if ((double)below >= q * (double)sum.count)
            return (double)bucket_end(bucket);
    }
    return 0;
}
