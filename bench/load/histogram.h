/* histogram.h - latencies in logarithmic buckets, 32 an octave: error at most 3 %. */
#pragma once

#include <stdint.h>

enum { HISTOGRAM_SUB = 32, HISTOGRAM_BUCKETS = 40 * HISTOGRAM_SUB };

struct histogram {
    uint64_t buckets[HISTOGRAM_BUCKETS];
    uint64_t count, max, sum;
};

void histogram_clear(struct histogram *histogram);
void histogram_add(struct histogram *histogram, uint64_t ns);
/* The value below which a share `q` (0..1) lies; 0 when empty. */
uint64_t histogram_quantile(const struct histogram *histogram, double q);
