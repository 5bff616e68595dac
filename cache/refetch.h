/* refetch.h - what is past its time: shown while it is fetched again, or in place of an error.
 *
 * A refetch is a fetch that nobody waits for, with memory of its own, begun from the lane's event
 * loop; by the rules of every fetch (fetch.c), so a write meanwhile keeps it out. What is shown is
 * an entry: a write takes that away, so nothing shown is older than a write through this cache.
 * Threads: the lane's own. */
#pragma once

#include "cache/core.h"

/* Whether an entry that is past its due age may be shown all the same, in a section. May have it
 * fetched again. Sets the call's verdict, if that is stale. */
MUST_CHECK bool refetch_look(struct cache_lane *lane, struct call *call, const struct rules *rules,
                             unsigned policy, struct entry *entry);

/* Whether this error is the store's, so that what is stale may take its place. */
bool refetch_may_excuse(enum status status);
/* Fills the reply with the entry of `probe`, whole and copied into the arena, if it may be shown in
 * place of an error. */
MUST_CHECK bool refetch_excuse(struct cache_lane *lane, const struct entry *probe, uint64_t now_us,
                               struct arena *arena, struct reply *reply);
/* backend_ops.late */
MUST_CHECK bool refetch_late(struct cache_lane *lane, const struct request *request,
                             uint64_t now_us, struct arena *arena, struct reply *reply);
