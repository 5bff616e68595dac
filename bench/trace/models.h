/* models.h - published policies as plain models, to check that a replay means the same as the
 * reference figures: nothing of the cache is in them.
 *
 * Sources: LRU; ARC, Megiddo and Modha, FAST'03; GDSF, Cherkasova, HPL-98-69R1; S3-FIFO, Yang et
 * al., SOSP'23. */
#pragma once

#include "bench/trace/trace.h"

struct model {
    const char *name;
    bool is_for_bytes_only; /* with equal sizes what it does depends on how ties are broken */
    /* Misses of the whole trace from an empty cache. capacity  in bytes, or in objects (sizes
     * NULL) */
    uint64_t (*misses)(const struct trace *trace, const uint32_t *sizes, uint64_t capacity);
};

extern const struct model models[];
extern const size_t model_count;
