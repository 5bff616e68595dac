/* ghost.h - fingerprints of what was evicted, a bounded number of them.
 *
 * Buckets of eight 4-byte fingerprints, each a small FIFO; how many of the eight count follows from
 * how many are wanted. A bucket is one or two cache lines, an id costs 4 to 8 bytes.
 * Threads: under the shard's lock. */
#pragma once

#include "cache/memory.h"

struct ghost {
    struct memory *memory;
    uint32_t *prints; /* bucket by bucket, newest first */
    uint32_t buckets, ways;
};

MUST_CHECK bool ghost_open(struct ghost *ghost, struct memory *memory);
void ghost_close(struct ghost *ghost);
/* Sizes it for about `wanted` fingerprints; stays smaller if there is no memory. */
void ghost_resize(struct ghost *ghost, size_t wanted);
void ghost_add(struct ghost *ghost, uint32_t hash);
/* True if it was there; it is then forgotten. */
bool ghost_take(struct ghost *ghost, uint32_t hash);
