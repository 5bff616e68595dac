/* driver.h - one closed-loop measurement: so many connections, so many requests in flight on each.
 */
#pragma once

#include "bench/load/histogram.h"
#include "bench/load/keys.h"
#include "bench/load/target.h"

struct point {
    enum work work;
    unsigned connections, depth;
    double theta;   /* 0: uniform */
    double seconds; /* 0: until `operations` */
    uint64_t operations;
    bool is_sequential; /* every key once, in order: loading */
    bool shows_progress;
};

struct result {
    uint64_t operations;
    double seconds;
    double server_cpu_ns; /* an operation; 0 when not known */
    uint64_t hits, misses;
    struct histogram latency;
};

/* Runs one point; the result is caller's memory, cleared here. */
void drive(struct target *target, const struct point *point, uint64_t seed, struct result *result);

/* Sizes of one request and its reply, measured. */
void measure_sizes(struct target *target, enum work work, size_t *request, size_t *reply);
