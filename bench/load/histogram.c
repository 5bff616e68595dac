#include "bench/load/histogram.h"

#include <string.h>

void histogram_clear(struct histogram *histogram)
{
    memset(histogram, 0, sizeof *histogram);
}

static unsigned bucket_of(uint64_t ns)
{
    if (ns < HISTOGRAM_SUB)
        return (unsigned)ns;
    unsigned octave = 63 - (unsigned)__builtin_clzll(ns);
    unsigned bucket = (octave - 4) * HISTOGRAM_SUB + (unsigned)((ns >> (octave - 5)) & 31);
    return bucket < HISTOGRAM_BUCKETS ? bucket : HISTOGRAM_BUCKETS - 1;
}

static uint64_t bucket_middle(unsigned bucket)
{
    if (bucket < HISTOGRAM_SUB)
        return bucket;
    unsigned octave = bucket / HISTOGRAM_SUB + 4;
    uint64_t width = 1ull << (octave - 5);
    return (HISTOGRAM_SUB + bucket % HISTOGRAM_SUB) * width + width / 2;
}

void histogram_add(struct histogram *histogram, uint64_t ns)
{
    histogram->buckets[bucket_of(ns)]++;
    histogram->count++;
    histogram->sum += ns;
    if (ns > histogram->max)
        histogram->max = ns;
}

uint64_t histogram_quantile(const struct histogram *histogram, double q)
{
    uint64_t wanted = (uint64_t)(q * (double)histogram->count), below = 0;
    for (unsigned bucket = 0; bucket < HISTOGRAM_BUCKETS && histogram->count != 0; bucket++) {
        below += histogram->buckets[bucket];
        if (below > wanted)
            return bucket_middle(bucket);
    }
    return histogram->max;
}
