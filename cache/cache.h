/* cache.h - a backend that remembers.
 *
 * Read-through for GetItem and Query, write-through for writes; everything else passes through. A
 * read never shows anything older than the last write acknowledged through this cache, nor older
 * than what another read has already shown. How: README.md.
 * Threads: lanes as in backend.h. */
#pragma once

#include "backend/backend.h"

/* What is kept, and for how long. */
struct cache_policy {
    bool is_enabled;       /* false: look-ups and fills are bypassed, writes still invalidate */
    uint32_t item_ttl_ms;  /* 0: until written or evicted */
    uint32_t query_ttl_ms; /* 0: queries are not cached */
    uint32_t negative_ttl_max_ms; /* absent items: the item TTL, at most this */
    bool is_without_items;        /* queries only */
    /* Its entries take at most so much, and what comes takes the place of its own. 0: no such cap
     */
    uint64_t bytes_max;
    uint32_t percent_max; /* the same, of all memory of the cache */
    /* Past its TTL, but never older than a write through this cache: shown while one fetch is under
     * way, for so long; and in place of a store's error. */
    uint32_t stale_while_refetch_ms, stale_if_error_ms;
    bool is_shadow;           /* all comes from the store; what would have been shown is compared */
    uint32_t refresh_percent; /* of its TTL, after which a hit has it fetched again; 0: never */
};

enum {
    CACHE_POLICIES_MAX = 64, /* names that a cache has ever been given, "default" included */
    CACHE_POLICY_NAME_MAX = 32,
};

/* A policy of its own for what fits all that is given. Texts with a * at their end stand for
 * everything that begins so; others are meant exactly. Keys: of type S as they are, N as a number,
 * B in base64; only those of type S can begin with something. */
struct cache_rule {
    struct bytes name;  /* shown with its figures; 1..CACHE_POLICY_NAME_MAX */
    struct bytes table; /* each text: not given: any */
    struct bytes index; /* only pages of this index; not given: the table, and, without keys, all
                           its indexes */
    struct bytes partition_key, sort_key; /* the index's, where there is one. A page fits when all
                                             that it may show does */
    struct bytes attribute, value;        /* items only: this attribute is the string `value` */
    struct cache_policy policy;
};

/* The first rule that fits counts, else the default. */
struct cache_policies {
    struct cache_policy fallback; /* "default" */
    const struct cache_rule *rules;
    size_t rule_count;
};

/* Whose place is taken: policy_NAME.c. */
enum cache_eviction { CACHE_EVICTION_CAS3, CACHE_EVICTION_S3FIFO };
enum { CACHE_EVICTIONS = 2 };

struct cache_options {
    size_t memory_bytes;  /* all of it: entries, index, ghosts, flights, what waits to be freed */
    uint32_t threads;     /* lanes expected; sizes the shards */
    uint64_t seed;        /* random bits for the hash secret */
    uint64_t now_us;      /* monotonic; ages count from here */
    uint32_t waiters_max; /* joined to one flight; beyond it: pass through */
    enum cache_eviction eviction;
    struct cache_policies policies;
    event_fn on_event; /* may be NULL */
    void *on_event_arg;
};

enum { CACHE_MEMORY_MIN = 1 << 20 };

/* below  passes: closed with the cache
 * Errors: STATUS_VALIDATION (memory_bytes too small; as cache_policies_set), STATUS_NO_MEMORY. */
MUST_CHECK enum status cache_open(const struct cache_options *options, struct backend **below,
                                  struct backend **out, struct error *error);

/* Publishes other policies; they count for requests that begin afterwards, and for what is cached
 * already when it is asked for. Names keep their figures. Turning the cache off purges it. Any
 * thread with a lane closed or outside of a batch.
 * Errors: STATUS_VALIDATION (more names than CACHE_POLICIES_MAX), STATUS_NO_MEMORY; the policies
 * before then stay. */
MUST_CHECK enum status cache_policies_set(struct backend *cache,
                                          const struct cache_policies *policies,
                                          struct error *error);

/* Forgets everything; when it returns no later read shows what was cached before. Any thread. */
void cache_purge(struct backend *cache);

/* Bounded housekeeping: expired entries, free memory, retired memory. One thread, a few times a
 * second. Returns true when there is more to do at once. */
bool cache_housekeep(struct backend *cache, uint64_t now_us);

/* One key of an item: its table's id, and its bytes as in struct item_key, borrowed. False: enough.
 */
typedef bool (*cache_key_fn)(void *arg, uint32_t table_id, struct bytes key);

/* Calls `key`, under a lock of the cache's, for each item or absent item that has proved its use:
 * that was hit since the policy looked at it last, or has lasted. Those hit most come first. Any
 * thread, outside of a batch. */
void cache_hot_keys(struct backend *cache, cache_key_fn key, void *arg);
