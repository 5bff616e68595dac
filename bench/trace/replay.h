/* replay.h - a trace through the real cache: every request a GetItem, below the cache a backend
 * that answers at once with a value of the wanted size.
 *
 * Threads: one replay at a time. */
#pragma once

#include "bench/trace/trace.h"
#include "cache/cache.h"

struct replay_options {
    const struct trace *trace;
    const uint32_t *sizes; /* of key and value, by id; NULL: `scale` bytes each */
    uint32_t scale;        /* sizes are multiplied by it */
    size_t budget;
    enum cache_eviction eviction;
};

struct replay_result {
    uint64_t misses;
    /* The most at any moment that was looked at, after a request was done. */
    uint64_t entries_max, payload_max;
    /* The mean of those moments since something was evicted for the first time. */
    double entries_mean, payload_mean;
    /* At the end. */
    double entries, payload, entry_bytes, used, overhead, index;
    double evictions, evacuations, not_kept;
};

/* False, with a message on stderr, if the cache cannot be opened. */
bool replay_run(const struct replay_options *options, struct replay_result *result);
