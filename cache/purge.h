/* purge.h - forgetting on purpose: an item, a partition, an index, a table, everything.
 *
 * Of each shard first all fetches are disowned, so that nothing they bring is kept, then its
 * entries are walked; what is fetched after that was not there to be forgotten.
 * Threads: as the functions say. */
#pragma once

#include "cache/core.h"
#include "protocol/schema.h"

enum { PURGE_IDS_MAX = 1 + INDEXES_MAX };

struct purge {
    struct cache *cache;
    struct reclaimer *reclaimer;
    enum shard_reason reason;
    uint32_t ids[PURGE_IDS_MAX]; /* of tables and indexes; */
    uint32_t id_count;           /* 0: everything */
    struct bytes partition;      /* not given: all partitions */
    struct bytes position;       /* where the partition lies in the whole: what begins with this */
    bool is_of_generation;       /* only what rules of this one have tagged, see rules.h */
    unsigned generation;
    struct dropped dropped;
    uint32_t shard, walk; /* where it is */
};

/* One slice: some hundred entries under one lock. False once all shards are done. */
bool purge_step(struct purge *purge);

/* Removes every entry of the table (0: all) at once. Any thread, with a reclaimer of its own. */
void purge_table(struct cache *cache, struct reclaimer *reclaimer, uint32_t table_id,
                 enum shard_reason reason);

/* Removes what rules of a generation have tagged. The same. */
void purge_generation(struct cache *cache, struct reclaimer *reclaimer, unsigned generation);

/* Answers a Purge. Returns as backend_ops.submit; a walk goes on from turn to turn of the lane's
 * loop. */
enum submit purge_submit(struct cache_lane *lane, struct call *call);
