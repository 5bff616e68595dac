/* cache.h - a backend that remembers.
 *
 * Read-through for GetItem and Query, write-through for writes; everything else passes through. A
 * read never shows anything older than the last write acknowledged through this cache, nor older
 * than what another read has already shown. How: README.md.
 * Threads: lanes as in backend.h. */
#pragma once

#include "backend/backend.h"

/* Lives as long as the process sees fit; published whole by cache_policy_set(). */
struct cache_policy {
    bool is_enabled;       /* false: look-ups and fills are bypassed, writes still invalidate */
    uint32_t item_ttl_ms;  /* 0: until written or evicted */
    uint32_t query_ttl_ms; /* 0: queries are not cached */
    uint32_t negative_ttl_max_ms; /* absent items: the item TTL, at most this */
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
    struct cache_policy policy;
};

enum { CACHE_MEMORY_MIN = 1 << 20 };

/* below  passes: closed with the cache
 * Errors: STATUS_VALIDATION (memory_bytes too small), STATUS_NO_MEMORY. */
MUST_CHECK enum status cache_open(const struct cache_options *options, struct backend **below,
                                  struct backend **out, struct error *error);

/* Publishes another policy; takes effect for requests that begin afterwards. Turning the cache off
 * purges it. Any thread with a lane closed or outside of a batch. */
void cache_policy_set(struct backend *cache, const struct cache_policy *policy);

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
