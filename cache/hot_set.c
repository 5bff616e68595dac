/* hot_set.c - which items have proved their use, for who wants to have them back after a restart.
 */
#include "cache/core.h"

enum {
    SLICE_ENTRIES = 1024, /* under one lock, about */
    RANKS = 2,            /* used often; used at all */
};

struct hot_walk {
    cache_key_fn visit;
    void *arg;
    unsigned rank;
    bool is_over; /* `visit` has had enough */
};

static unsigned rank_of(const struct entry *entry)
{
    unsigned hits = entry_counter(entry);
    return hits > 1 ? 0 : hits == 1 || entry_flags(entry) & SLOT_MAIN ? 1 : RANKS;
}

static void visit(void *arg, struct entry *entry)
{
    struct hot_walk *walk = arg;
    if (walk->is_over || entry_kind(entry) != ENTRY_ITEM || rank_of(entry) != walk->rank)
        return;
    struct bytes key =
        bytes_of(entry->key + ENTRY_KEY_PREFIX, entry->key_size - (size_t)ENTRY_KEY_PREFIX);
    walk->is_over = !walk->visit(walk->arg, entry_table_id(entry), key);
}

void cache_hot_keys(struct backend *backend, cache_key_fn key, void *arg)
{
    struct cache *cache = (struct cache *)backend;
    struct hot_walk walk = {.visit = key, .arg = arg};
    for (; walk.rank < RANKS; walk.rank++)
        for (uint32_t i = 0; i < cache->shard_count; i++) {
            struct shard *shard = &cache->shards[i];
            uint32_t at = 0;
            bool is_more = true;
            while (is_more && !walk.is_over) {
                mutex_lock(&shard->lock);
                is_more = index_iterate(&cache->index, i, &at, SLICE_ENTRIES, visit, &walk);
                mutex_unlock(&shard->lock);
            }
        }
}
