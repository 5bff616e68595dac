/* ghost.h - fingerprints of what left the cache lately, by class and by why it left.
 *
 * Buckets of eight 4-byte slots, each a fingerprint, a group (class and why) and a time. Each group
 * has a clock of its own, counted in what it has remembered, and a window: how many of them count,
 * whatever other groups do. Of two buckets the one with fewer that count takes the next, so that
 * something younger than its window hardly ever has to give way.
 * Growing forgets everything: it happens while a shard fills.
 * Threads: under the shard's lock. */
#pragma once

#include "cache/memory.h"

/* Why it left: evicted from the small queue, from the main one; or written, having proved its use.
 * Or it was too large to come in at first sight. */
enum ghost_kind { GHOST_SMALL, GHOST_MAIN, GHOST_WRITTEN, GHOST_LARGE, GHOST_NONE };
enum { GHOST_KINDS = GHOST_NONE, GHOST_CLASSES = 56 };

struct ghost_group {
    uint32_t window; /* of what it has remembered, so many count */
    uint32_t held;   /* about how many are there */
    uint32_t tick, tick_at;
};

struct ghost {
    struct memory *memory;
    uint32_t *slots;
    uint32_t buckets;
    size_t wanted; /* slots of all windows */
    struct ghost_group groups[GHOST_CLASSES * GHOST_KINDS];
};

MUST_CHECK bool ghost_open(struct ghost *ghost, struct memory *memory);
void ghost_close(struct ghost *ghost);
/* From now on about `window` of these are remembered, and a few in any case; fewer if there is no
 * memory. `GHOST_WRITTEN` and `GHOST_LARGE` are so few that they count for no memory of their own.
 */
void ghost_resize(struct ghost *ghost, unsigned class, enum ghost_kind kind, size_t window);
void ghost_add(struct ghost *ghost, unsigned class, enum ghost_kind kind, uint32_t hash);
/* What is remembered of it, and GHOST_NONE if nothing; it is then forgotten. */
enum ghost_kind ghost_take(struct ghost *ghost, unsigned class, uint32_t hash);

/* Whether it is remembered as evicted, in any of the classes from `class` up to `end`, which is the
 * first beyond; it stays remembered. */
bool ghost_knows(const struct ghost *ghost, unsigned class, unsigned end, uint32_t hash);

static inline uint32_t ghost_held(const struct ghost *ghost, unsigned class, enum ghost_kind kind)
{
    return ghost->groups[class * GHOST_KINDS + kind].held;
}
