/* stripe.h - write versions: a fetch begun before a write is never kept after it.
 *
 * A stripe stands for all keys that hash to it; sharing one only drops fills that were fine. The
 * rules are those of tests/proof/item_rules.py (items) and page_rules.py (partitions): change the
 * models and this together.
 * Threads: under the shard's lock. */
#pragma once

#include "cache/memory.h"

struct stripe {
    uint32_t ver;     /* moved by every intent and every done */
    uint32_t pending; /* writes between the two */
};

struct stripes {
    struct stripe *items;
    uint32_t *partitions; /* pending writes only: pages have their own marks, see interval.h */
    uint32_t count;       /* a power of two */
    uint32_t pending_all; /* writes that may touch everything */
};

enum { STRIPES_MIN = 64, STRIPES_MAX = 1024 };

MUST_CHECK bool stripes_open(struct stripes *stripes, struct memory *memory, uint32_t count);
void stripes_close(struct stripes *stripes, struct memory *memory);

static inline struct stripe *stripe_of(struct stripes *stripes, uint32_t hash)
{
    return &stripes->items[hash & (stripes->count - 1)];
}

static inline uint32_t *stripe_of_partition(struct stripes *stripes, uint32_t hash)
{
    return &stripes->partitions[hash & (stripes->count - 1)];
}

/* Every stripe's version moves: no fetch begun before this is kept. */
void stripes_bump_all(struct stripes *stripes);
