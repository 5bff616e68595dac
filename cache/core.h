/* core.h - what the files of the cache share: the cache, and a lane's part of it.
 *
 * Threads: struct cache is shared, see the headings; struct cache_lane is one thread's. */
#pragma once

#include "cache/cache.h"
#include "cache/hot.h"
#include "cache/rules.h"
#include "cache/shard.h"
#include "cache/tally.h"
#include "protocol/hash.h"

struct counters {
#define COUNTER(field, name, labels, help) atomic_uint_fast64_t field;
#include "cache/counters.def"
#undef COUNTER
};

/* One write that nobody will ever report the end of: how long its stripes stay pending. */
struct unknown_write {
    uint64_t until_us;
    uint32_t item_hash, place_hashes[2];
    bool is_all, is_index;
};

enum {
    UNKNOWN_WRITES_MAX = 1024,
    UNKNOWN_WRITE_LIFE_US = 10 * 1000 * 1000, /* the longest life of a backend request */
};

struct cache {
    struct backend backend;

    /* Constant after cache_open. */
    struct backend *below;
    struct hash_secret secret;
    struct index index; /* its tables change */
    struct shard *shards;
    uint32_t shard_count, shard_bits;
    uint64_t opened_us;
    size_t floor_bytes;   /* of each kind: what the other cannot push it below */
    size_t reserve_bytes; /* fills keep this free */
    size_t deferred_max;  /* above it fills pass through */
    size_t negative_max;
    uint32_t waiters_max;
    event_fn on_event;
    void *on_event_arg;

    /* Published: replaced under house_lock, read inside an epoch section. */
    _Atomic(struct rules *) rules;
    /* Published with release: names are only added, under house_lock. */
    char policy_names[CACHE_POLICIES_MAX][CACHE_POLICY_NAME_MAX + 1];
    atomic_uint policy_count;

    struct memory memory; /* its own locks and atomics */
    ck_epoch_t epoch;
    /* Away from what every hit reads: each write changes it. */
    _Alignas(64) struct shard_totals totals;

    /* Guarded by lanes_lock. */
    _Alignas(64) struct mutex lanes_lock;
    struct cache_lane *lanes, *closed; /* closed: shells whose timer may still run */
    struct reclaimer *orphans, *spare; /* left by closed lanes: with something pending, without */
    struct counters past;              /* of closed lanes */

    /* Guarded by house_lock. */
    struct mutex house_lock;
    struct reclaimer *house; /* of whoever has no lane: housekeeping, purge, policy */
    uint32_t house_shard, rule_changes;
    uint64_t lag_since_us;

    /* Guarded by unknown_lock. */
    struct mutex unknown_lock;
    struct unknown_write unknown[UNKNOWN_WRITES_MAX]; /* a ring, oldest first */
    uint32_t unknown_first, unknown_count;

    /* Atomic, relaxed. */
    atomic_uint_fast64_t quiet_until_us; /* no fill and no joining before: the ring was full */
    atomic_uint_fast64_t epoch_lag_us, evacuations;
    atomic_uint_fast64_t house_now_us;  /* of the latest housekeeping */
    atomic_uint_fast64_t tell_after_us; /* of what differs nothing is told before */
};

/* How many entries went. */
struct dropped {
    uint64_t items, pages;
};

struct waiting;

struct cache_lane {
    struct lane lane;
    struct cache *cache;
    struct lane *below;
    struct lane_env env;
    struct reclaimer *reclaimer;
    bool is_in_section;
    uint64_t now_us;         /* the latest time it was told */
    struct cache_lane *next; /* guarded by lanes_lock */

    /* Parked requests with a deadline, and the one timer for them and for what waits to be freed.
     */
    struct waiting *waiting;
    uint64_t waiting_due_us; /* the first deadline of those, or earlier; 0: none has one */
    struct task timer;
    uint64_t timer_at_us; /* 0: not armed */
    bool is_closed;

    uint32_t refetches;        /* under way */
    uint64_t refetch_after_us; /* none is begun before */

    struct counters counters; /* written by this thread only */
    struct misses misses;     /* likewise */
    struct tallies tallies;   /* likewise */
    struct hot hot;
};

/* A probe's place on the stack; longer keys go to the request's arena. */
enum { PROBE_KEY_ROOM = 472 };
struct probe_room {
    _Alignas(struct entry) uint8_t bytes[ENTRY_HEADER + PROBE_KEY_ROOM];
};

static inline void count(atomic_uint_fast64_t *counter, uint64_t more)
{
    uint64_t value = atomic_load_explicit(counter, memory_order_relaxed);
    atomic_store_explicit(counter, value + more, memory_order_relaxed);
}

static inline uint32_t cache_now_ms(const struct cache *cache, uint64_t now_us)
{
    return now_us < cache->opened_us ? 0 : (uint32_t)((now_us - cache->opened_us) / 1000);
}

static inline struct shard *cache_shard(const struct cache *cache, uint32_t hash)
{
    return &cache->shards[(uint64_t)hash << cache->shard_bits >> 32];
}

/* Inside a section; valid until it ends. */
static inline const struct rules *cache_rules(const struct cache *cache)
{
    return atomic_load_explicit((_Atomic(struct rules *) *)&cache->rules, memory_order_acquire);
}

/* How many policies have names. */
static inline unsigned cache_policy_count(const struct cache *cache)
{
    return atomic_load_explicit((atomic_uint *)&cache->policy_count, memory_order_acquire);
}

static inline bool cache_is_quiet(const struct cache *cache, uint64_t now_us)
{
    return now_us < atomic_load_explicit((atomic_uint_fast64_t *)&cache->quiet_until_us,
                                         memory_order_relaxed);
}

/* A GetItem's body that says that there is none: MessagePack's nil. */
#define BODY_NO_ITEM BYTES_LITERAL("\xc0")
static inline bool reply_is_no_item(struct bytes body)
{
    return bytes_equal(body, BODY_NO_ITEM);
}

static inline void lane_section(struct cache_lane *lane)
{
    if (!lane->is_in_section) {
        reclaim_begin(lane->reclaimer);
        lane->is_in_section = true;
    }
}

static inline void lane_section_end(struct cache_lane *lane)
{
    if (lane->is_in_section) {
        lane->is_in_section = false;
        reclaim_end(lane->reclaimer);
    }
}

/* Lock and section, in this order; and back. */
void shard_enter(struct shard *shard, struct reclaimer *reclaimer) ACQUIRES(shard->lock);
void shard_leave(struct shard *shard, struct reclaimer *reclaimer) RELEASES(shard->lock);

/* Room for a probe whose key has `key_size` bytes: `room`, or the arena. NULL without memory. */
struct entry *probe_begin(struct probe_room *room, struct arena *arena, size_t key_size);
/* Hashes a finished key; 32 bits, of which the top ones choose the shard. */
uint32_t cache_hash(const struct cache *cache, struct bytes key);
/* A partition's reference and hash. False without memory. */
MUST_CHECK bool partition_ref_make(const struct cache *cache, struct arena *arena,
                                   uint32_t table_id, struct bytes partition,
                                   struct partition_ref *out);

/* Counts one read in about HOT_INTERVAL for the list of hot keys. */
void lane_sample(struct cache_lane *lane, const struct call *call, uint32_t hash, bool is_hit);
static inline void lane_note(struct cache_lane *lane, const struct call *call, uint32_t hash,
                             bool is_hit)
{
    if (hot_is_due(&lane->hot))
        lane_sample(lane, call, hash, is_hit);
}

/* The one timer of a lane, for requests that wait and for memory that waits: due at `at_us` or up
 * to 10 ms later. */
void lane_timer_at(struct cache_lane *lane, uint64_t at_us);

/* The operations of the backend; for what asks again. */
void lane_begin(struct cache_lane *lane);
void lane_end(struct cache_lane *lane);
enum submit lane_submit(struct cache_lane *lane, struct call *call);
