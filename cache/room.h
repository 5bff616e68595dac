/* room.h - memory for what is to be cached, and whose place it takes.
 *
 * Threads: a lane's own, outside of sections and without a lock. */
#pragma once

#include "cache/core.h"

/* Makes an entry, evicting what has to go for it; a bounded amount of work, and never above the
 * budget. NULL: serve without keeping; counted in the lane's counters. */
MUST_CHECK struct entry *room_make_entry(struct cache_lane *lane, struct shard *shard,
                                         const struct entry_source *source);
/* After a fill: evicts about what it took when free memory runs low. */
void room_refill(struct cache_lane *lane, struct shard *shard, size_t size);

/* Housekeeping, under house_lock; each returns true if there is more to do at once. */
bool room_keep_free(struct cache *cache, struct reclaimer *reclaimer);
bool room_expire(struct cache *cache, struct reclaimer *reclaimer, uint64_t now_us);
