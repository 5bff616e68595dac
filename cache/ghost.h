/* ghost.h - fingerprints of what was evicted lately: as many evictions back as are wanted.
 *
 * Buckets of eight 4-byte slots, each a fingerprint and the time of its eviction, counted in
 * evictions; the oldest of a full bucket gives way. There are some more slots than are wanted, so
 * that this is rare and time decides. Growing forgets everything: it happens while a shard fills.
 * Threads: under the shard's lock. */
#pragma once

#include "cache/memory.h"

struct ghost {
    struct memory *memory;
    uint32_t *slots;
    uint32_t buckets;
    uint32_t tick, tick_length, tick_at; /* a tick is tick_length evictions; tick_at of them over */
    uint32_t window;                     /* ticks back that count */
};

MUST_CHECK bool ghost_open(struct ghost *ghost, struct memory *memory);
void ghost_close(struct ghost *ghost);
/* From now on about `wanted` evictions are remembered; fewer if there is no memory. */
void ghost_resize(struct ghost *ghost, size_t wanted);
void ghost_add(struct ghost *ghost, uint32_t hash);
/* True if it was there; it is then forgotten. */
bool ghost_take(struct ghost *ghost, uint32_t hash);
