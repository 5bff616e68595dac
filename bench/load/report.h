/* report.h - what was measured: a table for people, JSON for programs, ratios of the same run. */
#pragma once

#include "bench/load/driver.h"

#include <stdio.h>

enum { ROUNDS_MAX = 64, TARGETS_MAX = 4 };

/* One target at one point, over all rounds. */
struct series {
    const char *target;
    unsigned rounds;
    double p50_us[ROUNDS_MAX], p99_us[ROUNDS_MAX], max_us[ROUNDS_MAX];
    double rate[ROUNDS_MAX], cpu_us[ROUNDS_MAX];
    double hit_share; /* of replies that say so; -1 without */
};

void series_add(struct series *series, const struct result *result);
double median(const double *values, unsigned count);
/* Median of a[i] / b[i]. */
double median_ratio(const double *a, const double *b, unsigned count);

/* All targets at one point; the first one is held against the others. */
void report_table(const char *title, const struct series *series, size_t count);
void report_json(FILE *out, const struct point *point, const char *transport,
                 const struct series *series, size_t count, bool is_first);
const char *work_name(enum work work);
