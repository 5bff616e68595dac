#include "cache/shard.h"

#include "protocol/ensure.h"

enum {
    GONE_A_STRIPE = 4,
    HAND_STEPS_MAX = 64, /* entries passed in search for one; then the next goes, used or not */
};
_Static_assert(GONE_A_STRIPE *STRIPES_MIN >= GONE_SLOTS_MIN, "enough for the rest of a hash");

static const struct policy_ops *const policies[CACHE_EVICTIONS] = {
    [CACHE_EVICTION_CAS3] = &policy_cas3,
    [CACHE_EVICTION_S3FIFO] = &policy_s3fifo,
};

bool shard_open(struct shard *shard, const struct shard_options *options)
{
    mutex_init(&shard->lock);
    shard->memory = options->memory;
    shard->index = options->index;
    shard->totals = options->totals;
    shard->policy = policies[options->eviction]->open(options->memory, options->share_bytes);
    return shard->policy != NULL &&
           stripes_open(&shard->stripes, options->memory, options->stripe_count) &&
           flights_open(&shard->flights, options->memory) &&
           gone_open(&shard->gone, options->memory, GONE_A_STRIPE * options->stripe_count) &&
           nodes_open(&shard->nodes, options->memory);
}

void shard_close(struct shard *shard)
{
    if (shard->memory == NULL)
        return;
    nodes_close(&shard->nodes);
    if (shard->flights.buckets != NULL)
        flights_close(&shard->flights, shard->memory);
    gone_close(&shard->gone, shard->memory);
    stripes_close(&shard->stripes, shard->memory);
    if (shard->shares != NULL)
        memory_heap_free(shard->memory, shard->shares, shard->share_count * sizeof *shard->shares);
    if (shard->policy != NULL)
        shard->policy->ops->close(&shard->policy);
    mutex_deinit(&shard->lock);
    shard->memory = NULL;
}

bool shard_shares_grow(struct shard *shard, unsigned count)
{
    if (count <= shard->share_count) /* which only this changes, one thread at a time */
        return true;
    struct share *grown = memory_heap_alloc(shard->memory, count * sizeof *grown);
    if (grown == NULL)
        return false;
    memset(grown, 0, count * sizeof *grown);
    mutex_lock(&shard->lock);
    struct share *before = shard->shares;
    unsigned count_before = shard->share_count;
    if (before != NULL)
        memcpy(grown, before, count_before * sizeof *grown);
    shard->shares = grown;
    shard->share_count = count;
    mutex_unlock(&shard->lock);
    if (before != NULL)
        memory_heap_free(shard->memory, before, count_before * sizeof *before);
    return true;
}

static struct share *share_of(struct shard *shard, const struct entry *entry) REQUIRES(shard->lock)
{
    ensure(entry_policy(entry) < shard->share_count);
    return &shard->shares[entry_policy(entry)];
}

static struct expiry_list *list_of(struct shard *shard, const struct entry *entry)
    REQUIRES(shard->lock)
{
    return &share_of(shard, entry)->expiry[expiry_kind(entry)];
}

/* Into its policy's share, or out of it. */
static void share_count(struct shard *shard, const struct entry *entry, size_t size, bool is_added)
    REQUIRES(shard->lock)
{
    struct share *share = share_of(shard, entry);
    ensure(is_added || (share->entries > 0 && share->bytes >= size));
    share->entries += is_added ? 1 : UINT32_MAX;
    share->bytes += is_added ? size : -size;
    atomic_size_t *total = &shard->totals->policy_bytes[entry_policy(entry)];
    if (entry_policy(entry) != 0)
        (is_added ? memory_add : memory_sub)(total, size);
}

static enum share_reason share_reason(enum shard_reason reason)
{
    return (int)reason < SHARD_WRITTEN_REASONS ? SHARE_WRITTEN
           : reason == SHARD_EVICTED           ? SHARE_EVICTED
           : reason == SHARD_EXPIRED           ? SHARE_EXPIRED
                                               : SHARE_PURGED;
}

static void count_bytes(struct shard *shard, const struct entry *entry, size_t size, bool is_added)
    REQUIRES(shard->lock)
{
    share_count(shard, entry, size, is_added);
    size_t payload = entry->key_size - (size_t)ENTRY_KEY_PREFIX + entry_value_size(entry);
    shard->payload_bytes += is_added ? payload : -payload;
    void (*change)(atomic_size_t *, size_t) = is_added ? memory_add : memory_sub;
    change(&shard->bytes, size);
    change(&shard->totals->kind_bytes[entry_kind(entry) - 1], size);
    if (entry_flags(entry) & SLOT_NEGATIVE)
        change(&shard->totals->negative_bytes, size);
}

/* What follows once an entry has left index and queue. */
static void retire(struct shard *shard, struct reclaimer *reclaimer, struct entry *entry,
                   enum shard_reason reason) REQUIRES(shard->lock)
{
    expiry_unlink(list_of(shard, entry), shard->memory, entry);
    share_of(shard, entry)->removed[share_reason(reason)] += reason != SHARD_REPLACED;
    count_bytes(shard, entry, entry_size(shard->memory, entry), false);
    shard->removed[reason][entry_kind(entry) - 1]++;
    if (reason != SHARD_REPLACED)
        gone_note(&shard->gone, entry->hash, reason);
    if (entry_kind(entry) == ENTRY_PAGE)
        node_page_remove(&shard->nodes, entry);
    reclaim_entry(reclaimer, entry);
}

void shard_remove(struct shard *shard, struct reclaimer *reclaimer, struct entry *entry,
                  enum shard_reason reason)
{
    enum policy_reason policy_reason = (int)reason < SHARD_WRITTEN_REASONS ? POLICY_WRITTEN
                                       : reason == SHARD_EVICTED           ? POLICY_CROWDED
                                                                           : POLICY_GONE;
    index_remove(shard->index, entry);
    shard->policy->ops->remove(shard->policy, entry, policy_reason);
    retire(shard, reclaimer, entry, reason);
}

bool shard_publish(struct shard *shard, struct reclaimer *reclaimer, struct entry *entry,
                   struct node *node)
{
    if (node != NULL && !node_page_add(&shard->nodes, node, entry))
        return false;
    struct entry *previous = NULL;
    entry_mark_published(shard->memory, entry);
    while (UNLIKELY(!index_set(shard->index, reclaimer, entry, &previous))) {
        struct entry *near = index_near(shard->index, entry);
        if (near == NULL) {
            entry_flags_set(entry, 0, SLOT_LIVE);
            if (node != NULL)
                node_page_remove(&shard->nodes, entry);
            return false;
        }
        shard_remove(shard, reclaimer, near, SHARD_EVICTED);
    }
    if (previous != NULL) {
        shard->policy->ops->remove(shard->policy, previous, POLICY_WRITTEN);
        retire(shard, reclaimer, previous, SHARD_REPLACED);
    }
    shard->policy->ops->admit(shard->policy, entry);
    expiry_push(list_of(shard, entry), shard->memory, entry);
    count_bytes(shard, entry, entry_size(shard->memory, entry), true);
    return true;
}

bool shard_remove_key(struct shard *shard, struct reclaimer *reclaimer, const struct entry *probe,
                      enum shard_reason reason)
{
    struct entry *entry = index_get(shard->index, probe);
    if (entry != NULL)
        shard_remove(shard, reclaimer, entry, reason);
    return entry != NULL;
}

unsigned shard_why_missing(const struct shard *shard, enum entry_kind kind, uint32_t hash)
{
    unsigned reason = gone_why(&shard->gone, hash);
    return reason == MISS_COLD && shard->policy->ops->knows(shard->policy, kind, hash)
               ? (unsigned)SHARD_EVICTED
               : reason;
}

static void mark_dirty(struct shard *shard, struct loading *loading) REQUIRES(shard->lock)
{
    loading->is_dirty = true;
    if (loading->flight != NULL)
        flight_detach(&shard->flights, loading->flight);
}

uint32_t shard_touch_node(struct shard *shard, struct reclaimer *reclaimer, struct node *node,
                          struct bytes sort, enum shard_reason reason)
{
    uint32_t removed = 0;
    node->holds++;
    struct entry *page;
    while ((page = page_tree_find(&node->pages, shard->memory, sort)) != NULL) {
        shard_remove(shard, reclaimer, page, reason);
        removed++;
    }
    for (struct loading *loading = node->loadings; loading != NULL; loading = loading->next)
        if (!bytes_given(sort) || key_interval_holds(&loading->interval, sort))
            mark_dirty(shard, loading);
    node->holds--;
    node_drop_if_idle(&shard->nodes, node);
    return removed;
}

void shard_disown_fetches(struct shard *shard)
{
    stripes_bump_all(&shard->stripes);
    flight_detach_all(&shard->flights);
    for (uint32_t i = 0; i < shard->nodes.bucket_count; i++)
        for (struct node *node = nodes_bucket(&shard->nodes, i); node != NULL; node = node->next)
            for (struct loading *loading = node->loadings; loading != NULL; loading = loading->next)
                mark_dirty(shard, loading);
}

size_t shard_evict(struct shard *shard, struct reclaimer *reclaimer, unsigned kinds,
                   unsigned size_class, uint32_t *slot_size)
{
    struct entry *entry = shard->policy->ops->victim(shard->policy, kinds, size_class);
    if (entry == NULL)
        return 0;
    size_t size = entry_size(shard->memory, entry);
    *slot_size = entry_flags(entry) & SLOT_LARGE ? 0 : (uint32_t)size;
    index_remove(shard->index, entry);
    retire(shard, reclaimer, entry, SHARD_EVICTED);
    return size;
}

/* Where the hands of a policy's lists stand, the oldest. */
static struct entry *at_hands(struct shard *shard, unsigned policy) REQUIRES(shard->lock)
{
    struct entry *oldest = NULL;
    for (unsigned kind = 0; kind < EXPIRY_KINDS && policy < shard->share_count; kind++) {
        struct entry *entry = expiry_at_hand(&shard->shares[policy].expiry[kind], shard->memory);
        if (entry != NULL &&
            (oldest == NULL || (int32_t)(entry->stored_ms - oldest->stored_ms) < 0))
            oldest = entry;
    }
    return oldest;
}

size_t shard_evict_of(struct shard *shard, struct reclaimer *reclaimer, unsigned policy)
{
    struct entry *entry;
    for (int step = 0; (entry = at_hands(shard, policy)) != NULL; step++) {
        unsigned hits = entry_counter(entry);
        if (hits == 0 || step == HAND_STEPS_MAX)
            break;
        atomic_store_explicit(&entry->counter, (unsigned char)(hits / 2), memory_order_relaxed);
        expiry_pass(list_of(shard, entry), entry);
    }
    if (entry == NULL)
        return 0;
    size_t size = entry_size(shard->memory, entry);
    shard->policy->bytes.evicted[policy_class(size)]++;
    shard_remove(shard, reclaimer, entry, SHARD_EVICTED);
    return size;
}

uint32_t shard_expire(struct shard *shard, struct reclaimer *reclaimer, unsigned policy,
                      const uint32_t life_ms[EXPIRY_KINDS], uint32_t now_ms, uint32_t count_max)
{
    uint32_t count = 0;
    for (unsigned kind = 0; kind < EXPIRY_KINDS && policy < shard->share_count; kind++) {
        const struct expiry_list *list = &shard->shares[policy].expiry[kind];
        while (count < count_max && list->oldest != 0) {
            struct entry *oldest = memory_at(shard->memory, list->oldest);
            if (!expiry_is_due(oldest, life_ms[kind], now_ms))
                break;
            shard_remove(shard, reclaimer, oldest, SHARD_EXPIRED);
            count++;
        }
    }
    return count;
}

/* It comes to the end of the other list although it is older than what is there. So its memory
 * comes back a TTL late at most; to whom it may be shown, its age decides. */
void shard_retag(struct shard *shard, struct entry *entry, unsigned tag)
{
    size_t size = entry_size(shard->memory, entry);
    if (entry_policy(entry) == tag_policy(tag)) {
        entry_tag_set(entry, tag);
        return;
    }
    expiry_unlink(list_of(shard, entry), shard->memory, entry);
    share_count(shard, entry, size, false);
    entry_tag_set(entry, tag);
    expiry_push(list_of(shard, entry), shard->memory, entry);
    share_count(shard, entry, size, true);
}

void shard_relocate(struct shard *shard, struct reclaimer *reclaimer, struct entry *entry)
{
    struct entry *copy = entry_move(shard->memory, entry);
    if (copy == NULL) {
        shard_remove(shard, reclaimer, entry, SHARD_EVICTED);
        return;
    }
    struct entry *previous = NULL;
    entry_mark_published(shard->memory, copy);
    /* Takes the place of its original: the table need not grow. */
    ensure(index_set(shard->index, reclaimer, copy, &previous) && previous == entry);
    shard->policy->ops->moved(shard->policy, entry, copy);
    expiry_moved(list_of(shard, copy), shard->memory, entry, copy);
    if (entry_kind(copy) == ENTRY_PAGE)
        node_page_moved(&shard->nodes, entry, copy);
    entry_chunks_pass(shard->memory, entry, copy);
    reclaim_entry(reclaimer, entry);
}

void shard_relocate_chunk(struct shard *shard, struct reclaimer *reclaimer, struct entry *entry,
                          struct chunk *chunk)
{
    if (entry_chunk_move(shard->memory, entry, chunk) == NULL)
        shard_remove(shard, reclaimer, entry, SHARD_EVICTED);
    else
        reclaim_slot(reclaimer, chunk, memory_chunk_size(shard->memory));
}
