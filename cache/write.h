/* write.h - write-through: what a write touches is forgotten before it and after it.
 *
 * Rules: tests/proof/item_rules.py (intent, done) and page_rules.py. Change both together.
 * Threads: the lane's own. */
#pragma once

#include "cache/core.h"

/* Passes a write down. Returns as backend_ops.submit. */
enum submit write_submit(struct cache_lane *lane, struct call *call);

/* lane_env.intent of the lane below. arg: the lane */
void write_intent(void *arg, struct call *call);

/* As if the key were written, and done at once: nothing older than this moment is shown or kept.
 * touched  one key of a table. False without memory, and then nothing has happened. */
MUST_CHECK bool write_forget(struct cache_lane *lane, struct arena *arena,
                             const struct touched *touched, enum shard_reason reason,
                             struct dropped *out);

/* What that would drop now; nothing goes. False without memory.
 * except  another key of the same table or index: pages that hold it, too, do not count; or NULL */
MUST_CHECK bool write_would_drop(struct cache_lane *lane, struct arena *arena,
                                 const struct touched *touched, const struct touched *except,
                                 struct dropped *out);

/* Lowers what unknown writes kept raised for long enough. */
void write_expire_unknown(struct cache *cache, struct reclaimer *reclaimer, uint64_t now_us);
