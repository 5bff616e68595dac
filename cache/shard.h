/* shard.h - one shard: its part of the index, its queues, lists, stripes, flights and nodes, under
 * one lock.
 *
 * A hash's top bits choose the shard: an item's its key's hash, a page's its partition's, so that a
 * page and its node share a lock.
 * Threads: one writer at a time, under `lock`; readers use the index alone, inside an epoch
 * section. What removes or publishes is called inside the lock and a section. */
#pragma once

#include "cache/cache.h"
#include "cache/expiry.h"
#include "cache/flight.h"
#include "cache/index.h"
#include "cache/interval.h"
#include "cache/misses.h"
#include "cache/policy.h"
#include "cache/rules.h"
#include "cache/stripe.h"

/* What all shards add up to. */
struct shard_totals {
    atomic_size_t kind_bytes[ENTRY_KINDS], negative_bytes;
    atomic_size_t policy_bytes[CACHE_POLICIES_MAX]; /* not the default's, which has no cap */
};

/* How a policy's entries went. */
enum share_reason { SHARE_EVICTED, SHARE_EXPIRED, SHARE_WRITTEN, SHARE_PURGED };
enum { SHARE_REASONS = 4 };

/* What a policy has of a shard. */
struct share {
    struct expiry_list expiry[EXPIRY_KINDS];
    uint32_t entries;
    size_t bytes;
    uint64_t removed[SHARE_REASONS];
};

struct shard {
    /* Constant after shard_open. */
    _Alignas(64) struct memory *memory;
    struct index *index; /* the cache's; of its tables this shard's are guarded by lock */
    struct shard_totals *totals;

    /* Guarded by lock. */
    struct mutex lock;
    struct policy *policy;
    struct stripes stripes;
    struct flights flights;
    struct nodes nodes;
    struct gone gone;
    struct share *shares; /* by number, `share_count` of them */
    unsigned share_count;
    size_t payload_bytes; /* keys and values, nothing else */
    uint64_t removed[SHARD_REASONS][ENTRY_KINDS];
    uint32_t tidy_at;

    /* Atomic, relaxed. */
    atomic_size_t bytes; /* slots of its entries */
};

struct shard_options {
    size_t share_bytes;
    uint32_t stripe_count;
    enum cache_eviction eviction;
    struct memory *memory;
    struct index *index;
    struct shard_totals *totals;
};

/* shard  zeroed. False without memory; shard_close() then undoes what there is. */
MUST_CHECK bool shard_open(struct shard *shard, const struct shard_options *options);
/* No entry is freed one by one: the memory goes with the cache. */
void shard_close(struct shard *shard);

/* Has room for so many policies. False without memory. */
MUST_CHECK bool shard_shares_grow(struct shard *shard, unsigned count);

/* Publishes an entry in place of what has its key. `node`: a page's. False without memory; the
 * entry is then still the caller's. */
MUST_CHECK bool shard_publish(struct shard *shard, struct reclaimer *reclaimer, struct entry *entry,
                              struct node *node) REQUIRES(shard->lock);
void shard_remove(struct shard *shard, struct reclaimer *reclaimer, struct entry *entry,
                  enum shard_reason reason) REQUIRES(shard->lock);
/* True if there was one. */
bool shard_remove_key(struct shard *shard, struct reclaimer *reclaimer, const struct entry *probe,
                      enum shard_reason reason) REQUIRES(shard->lock);

/* Why there is no entry of this hash, as far as is known. */
unsigned shard_why_missing(const struct shard *shard, enum entry_kind kind, uint32_t hash)
    REQUIRES(shard->lock);

/* A written key: removes the pages of the node whose interval holds it, marks those being loaded.
 * sort  not given: all of them */
uint32_t shard_touch_node(struct shard *shard, struct reclaimer *reclaimer, struct node *node,
                          struct bytes sort, enum shard_reason reason) REQUIRES(shard->lock);
/* Everything may be written: nothing being fetched is kept or joined. */
void shard_disown_fetches(struct shard *shard) REQUIRES(shard->lock);

/* Evicts one entry. Returns its bytes, 0 when nothing qualifies; arguments as policy->victim.
 * slot_size  what became free: the entry's, 0 for a large one */
size_t shard_evict(struct shard *shard, struct reclaimer *reclaimer, unsigned kinds,
                   unsigned size_class, uint32_t *slot_size) REQUIRES(shard->lock);
/* Evicts one entry of a policy: the first one not used since the hand came by; a bounded number of
 * steps. Returns its bytes, 0 if there is none.
 * Source: SIEVE, NSDI'24, whose queue is in the order of arrival as lists of expiry are. */
size_t shard_evict_of(struct shard *shard, struct reclaimer *reclaimer, unsigned policy)
    REQUIRES(shard->lock);
/* Removes at most `count_max` entries of a policy whose life is over. Returns how many. */
uint32_t shard_expire(struct shard *shard, struct reclaimer *reclaimer, unsigned policy,
                      const uint32_t life_ms[EXPIRY_KINDS], uint32_t now_ms, uint32_t count_max)
    REQUIRES(shard->lock);
/* Makes it an entry of another policy or generation. */
void shard_retag(struct shard *shard, struct entry *entry, unsigned tag) REQUIRES(shard->lock);
/* For a run that is given up: moves the entry elsewhere; evicts it if that cannot be done. */
void shard_relocate(struct shard *shard, struct reclaimer *reclaimer, struct entry *entry)
    REQUIRES(shard->lock);
/* The same for one chunk of it. */
void shard_relocate_chunk(struct shard *shard, struct reclaimer *reclaimer, struct entry *entry,
                          struct chunk *chunk) REQUIRES(shard->lock);
