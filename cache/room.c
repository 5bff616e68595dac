#include "cache/room.h"

#include "protocol/ensure.h"

enum {
    EVICT_MAX = 8,              /* entries under one lock */
    EVACUATE_LIVE_MAX = 64,     /* slots in use of a run that a fill empties itself */
    FREE_COUNT_MAX = 64,        /* retired things freed between two tries */
    HOUSE_EVICT_MAX = 256,      /* entries a call */
    HOUSE_EXPIRE_MAX = 512,     /* entries a shard and call */
    HOUSE_FREE_MAX = 2048,      /* retired things, a run given up */
    HOUSE_SHARE_MAX = 64 << 10, /* bytes a policy above its cap, a call */
    HOUSE_EVACUATE_MAX = 4,     /* runs a call */
    ROUNDS_MAX = 8,             /* tries of a fill */
    TIDY_TABLES = 16,           /* of an index, a call */
    POPULATE_FRACTION = 8,      /* of the budget: pages asked for ahead of use, at most */
    POPULATE_MAX = 32 << 20,
    SHARE_SHARDS_MAX = 64, /* looked at for entries of a policy that is at its cap */
    HOUSE_RESERVES = 2,    /* housekeeping keeps this many times what fills keep free */
};

/* Kinds that may be evicted for an entry of `kind` (0: housekeeping): its own, and the others while
 * they are above their floor. */
static unsigned evictable(const struct cache *cache, unsigned kind)
{
    unsigned kinds = 0;
    for (unsigned i = 0; i < ENTRY_KINDS; i++)
        if (i + 1 == kind || memory_figure(&cache->totals.kind_bytes[i]) > cache->floor_bytes)
            kinds |= 1u << i;
    return kinds;
}

/* Bytes that are missing to have `reserve` bytes free. */
static size_t missing(const struct cache *cache, size_t reserve)
{
    size_t taken = memory_figure(&cache->memory.live) + memory_figure(&cache->memory.heap) +
                   memory_figure(&cache->memory.tails) + cache->memory.kept_back;
    size_t allowed = cache->memory.budget - reserve;
    return taken > allowed ? taken - allowed : 0;
}

/* The shard to evict from: the one that is filled if it holds about its share, else the fullest. */
static struct shard *shard_to_evict(const struct cache *cache, struct shard *filled)
{
    ensure(cache->shard_count > 0);
    size_t all = 0, most = 0;
    struct shard *fullest = &cache->shards[0];
    for (uint32_t i = 0; i < cache->shard_count; i++) {
        size_t bytes = memory_figure(&cache->shards[i].bytes);
        all += bytes;
        if (bytes >= most) {
            most = bytes;
            fullest = &cache->shards[i];
        }
    }
    size_t share = all / cache->shard_count;
    return filled != NULL && memory_figure(&filled->bytes) >= share - share / 8 ? filled : fullest;
}

/* Evicts at most `count_max` entries until `bytes_wanted` are there. Returns the bytes. */
static size_t evict_some(struct cache *cache, struct reclaimer *reclaimer, struct shard *filled,
                         unsigned kinds, uint32_t count_max, size_t bytes_wanted)
{
    struct shard *shard = shard_to_evict(cache, filled);
    size_t bytes = 0;
    shard_enter(shard, reclaimer);
    for (uint32_t i = 0; bytes < bytes_wanted && i < count_max; i++) {
        uint32_t slot_size;
        size_t freed = shard_evict(shard, reclaimer, kinds, POLICY_CLASS_ANY, &slot_size);
        if (freed == 0)
            break;
        bytes += freed;
    }
    shard_leave(shard, reclaimer);
    return bytes;
}

/* Evicts until `bytes_wanted` are there, within the bound of a fill of `size` bytes: twice what it
 * takes, a few entries under one lock. Returns the bytes. */
static size_t evict_for(struct cache_lane *lane, struct shard *shard, size_t size, unsigned kind,
                        size_t bytes_wanted)
{
    size_t wanted = bytes_wanted < 2 * size ? bytes_wanted : 2 * size, evicted = 0;
    while (evicted < wanted) {
        size_t more = evict_some(lane->cache, lane->reclaimer, shard, evictable(lane->cache, kind),
                                 EVICT_MAX, wanted - evicted);
        if (more == 0)
            break;
        evicted += more;
    }
    return evicted;
}

/* Evicts in the classes of sizes where a slot for `size` may become free. */
static void evict_in_class(struct cache_lane *lane, struct shard *shard, size_t size, unsigned kind)
{
    struct cache *cache = lane->cache;
    uint32_t wanted = memory_slot_size(&cache->memory, size);
    unsigned kinds = evictable(cache, kind);
    shard_enter(shard, lane->reclaimer);
    for (int i = 0; i < EVICT_MAX; i++) {
        uint32_t slot_size = 0;
        if (shard_evict(shard, lane->reclaimer, kinds, policy_class(wanted), &slot_size) == 0 ||
            slot_size == wanted)
            break;
    }
    shard_leave(shard, lane->reclaimer);
}

/* Reads a slot of a run that is given up: the entry to move or evict for it, or NULL. In a section,
 * so that what is live cannot be used for something else meanwhile. */
static struct entry *slot_entry(struct cache *cache, void *slot)
{
    unsigned flags = atomic_load_explicit(slot_flags(slot), memory_order_acquire);
    if (flags & SLOT_LIVE)
        return slot;
    if (!(flags & SLOT_CHUNK))
        return NULL;
    struct entry *head = entry_of_chunk(&cache->memory, slot);
    flags = atomic_load_explicit(&head->flags, memory_order_acquire);
    return flags & SLOT_LIVE ? head : NULL;
}

static bool slot_is_table(void *slot)
{
    return atomic_load_explicit(slot_flags(slot), memory_order_acquire) & SLOT_TABLE;
}

/* The shard of what is in a slot, NULL: nothing that can be moved or evicted. In a section. */
static struct shard *slot_shard(struct cache *cache, void *slot)
{
    if (slot_is_table(slot))
        return cache_shard(cache, index_table_hash(slot));
    const struct entry *entry = slot_entry(cache, slot);
    return entry == NULL ? NULL : cache_shard(cache, entry->hash);
}

static void empty_slot(struct cache *cache, struct reclaimer *reclaimer, void *slot)
{
    reclaim_begin(reclaimer);
    struct shard *shard = slot_shard(cache, slot);
    reclaim_end(reclaimer);
    if (shard == NULL)
        return;
    shard_enter(shard, reclaimer);
    /* It may be something else by now, perhaps of another shard. */
    if (slot_shard(cache, slot) == shard) {
        struct entry *entry = slot_entry(cache, slot);
        if (slot_is_table(slot))
            index_move(&cache->index, reclaimer, slot);
        else if (entry == slot)
            shard_relocate(shard, reclaimer, entry);
        else
            shard_relocate_chunk(shard, reclaimer, entry, slot);
    }
    shard_leave(shard, reclaimer);
}

/* Empties one run, so that another class can have it once the grace period is over. */
static bool evacuate(struct cache *cache, struct reclaimer *reclaimer, uint32_t live_max)
{
    uint32_t slots;
    uint32_t run = memory_evacuation_begin(&cache->memory, live_max, &slots);
    if (run == RUN_NONE)
        return false;
    for (uint32_t i = 0; i < slots; i++)
        empty_slot(cache, reclaimer, memory_run_slot(&cache->memory, run, i));
    memory_evacuation_end(&cache->memory, run);
    atomic_fetch_add_explicit(&cache->evacuations, 1, memory_order_relaxed);
    return true;
}

static bool is_allowed(struct cache_lane *lane, struct shard *shard,
                       const struct entry_source *source, size_t size)
{
    struct cache *cache = lane->cache;
    if (memory_figure(&cache->memory.deferred) > cache->deferred_max) {
        count(&lane->counters.dropped_deferred, 1);
        return false;
    }
    bool is_ok = size != 0;
    if (is_ok && source->is_negative)
        is_ok = memory_figure(&cache->totals.negative_bytes) + size <= cache->negative_max;
    if (is_ok && entry_kind(source->probe) == ENTRY_PAGE) {
        mutex_lock(&shard->lock);
        is_ok = shard->policy->ops->admits(shard->policy, ENTRY_PAGE, source->probe->hash, size);
        mutex_unlock(&shard->lock);
    }
    if (!is_ok)
        count(&lane->counters.dropped_size, 1);
    return is_ok;
}

/* Evicts entries of a policy until `wanted` bytes are gone, from `number`'s shard on; a few under
 * one lock, a bounded number of shards. Returns the bytes. */
static size_t evict_of(struct cache *cache, struct reclaimer *reclaimer, unsigned policy,
                       uint32_t number, size_t wanted)
{
    size_t evicted = 0;
    int looked = 0;
    while (evicted < wanted && looked < SHARE_SHARDS_MAX) {
        struct shard *shard = &cache->shards[number % cache->shard_count];
        size_t bytes = 1;
        shard_enter(shard, reclaimer);
        for (int i = 0; i < EVICT_MAX && evicted < wanted && bytes != 0; i++)
            evicted += bytes = shard_evict_of(shard, reclaimer, policy);
        shard_leave(shard, reclaimer);
        if (bytes != 0)
            continue;
        number++;
        looked++;
    }
    return evicted;
}

/* Bytes by which a policy would be above its cap with `size` more. */
static size_t above_cap(struct cache *cache, struct reclaimer *reclaimer, unsigned policy,
                        size_t size)
{
    if (policy == 0)
        return 0;
    reclaim_begin(reclaimer);
    size_t most = rules_terms(cache_rules(cache), policy)->bytes_max;
    reclaim_end(reclaimer);
    if (LIKELY(most == SIZE_MAX))
        return 0;
    size_t used = memory_figure(&cache->totals.policy_bytes[policy]) + size;
    return size > most ? SIZE_MAX : used > most ? used - most : 0;
}

/* Makes place in a policy's share, at the cost of its own entries: twice what comes, at most. What
 * was above it before, since the cap is new, is housekeeping's. */
static bool has_share(struct cache_lane *lane, struct shard *shard, unsigned policy, size_t size)
{
    struct cache *cache = lane->cache;
    size_t above = above_cap(cache, lane->reclaimer, policy, size);
    if (LIKELY(above == 0))
        return true;
    bool is_room = above <= 2 * size && evict_of(cache, lane->reclaimer, policy,
                                                 (uint32_t)(shard - cache->shards), above) >= above;
    if (!is_room)
        count(&lane->counters.dropped_share, 1);
    return is_room;
}

/* Gathers free slots of other classes in as many runs as `size` bytes take. */
static bool gather_runs(struct cache_lane *lane, size_t size)
{
    size_t runs = size / lane->cache->memory.run_size + 1, done = 0;
    while (done < runs && evacuate(lane->cache, lane->reclaimer, EVACUATE_LIVE_MAX)) {
        reclaim_poll(lane->reclaimer, FREE_COUNT_MAX);
        done++;
    }
    return done != 0;
}

/* What goes first need not leave its place to what is to come: it may be of another class of slots.
 * So free slots are gathered to free runs, and if there are too few for that, more has to go. */
static struct entry *make_with_room(struct cache_lane *lane, struct shard *shard,
                                    const struct entry_source *source, size_t size)
{
    struct cache *cache = lane->cache;
    unsigned kind = entry_kind(source->probe);
    size_t free_wanted = size > cache->reserve_bytes ? size : cache->reserve_bytes;
    size_t wanted = missing(cache, free_wanted), evicted = 0;
    size_t run_size = cache->memory.run_size;
    size_t enough = 2 * size > run_size ? 2 * size : run_size;
    size_t step = size < run_size                ? size
                  : size / ROUNDS_MAX > run_size ? size / ROUNDS_MAX
                                                 : run_size;
    for (int round = 0; round < ROUNDS_MAX && evicted < enough; round++) {
        evicted += evict_for(lane, shard, size, kind, wanted);
        reclaim_poll(lane->reclaimer, FREE_COUNT_MAX + (uint32_t)(wanted / SLOT_MIN));
        struct entry *entry = entry_make(&cache->memory, source);
        if (entry == NULL && gather_runs(lane, size))
            entry = entry_make(&cache->memory, source);
        if (entry != NULL)
            return entry;
        wanted = step;
    }
    size_t slot = size < memory_slot_max(&cache->memory) ? size : memory_slot_max(&cache->memory);
    evict_in_class(lane, shard, slot, kind);
    reclaim_poll(lane->reclaimer, FREE_COUNT_MAX);
    return entry_make(&cache->memory, source);
}

struct entry *room_make_entry(struct cache_lane *lane, struct shard *shard,
                              const struct entry_source *source)
{
    struct cache *cache = lane->cache;
    ensure(!lane->is_in_section);
    size_t size = entry_size_needed(&cache->memory, source);
    if (!is_allowed(lane, shard, source, size) ||
        !has_share(lane, shard, tag_policy(source->tag), size))
        return NULL;
    struct entry *entry = entry_make(&cache->memory, source);
    if (entry == NULL)
        entry = make_with_room(lane, shard, source, size);
    if (entry == NULL)
        count(&lane->counters.dropped_memory, 1);
    return entry;
}

void room_refill(struct cache_lane *lane, struct shard *shard, size_t size)
{
    size_t wanted = missing(lane->cache, lane->cache->reserve_bytes);
    if (wanted != 0)
        (void)evict_for(lane, shard, size, 0, wanted);
}

static void tidy_one(struct cache *cache, struct reclaimer *reclaimer)
{
    uint32_t number = cache->house_shard++ % cache->shard_count;
    struct shard *shard = &cache->shards[number];
    shard_enter(shard, reclaimer);
    for (int i = 0; i < TIDY_TABLES; i++)
        index_tidy(&cache->index, reclaimer, number, &shard->tidy_at);
    shard_leave(shard, reclaimer);
}

/* Gathers free slots in free runs. Returns true if there is more to do. */
static bool free_runs(struct cache *cache, struct reclaimer *reclaimer, size_t wanted)
{
    const struct memory *memory = &cache->memory;
    bool is_lacking = memory->budget - memory_figure(&memory->used) < wanted;
    for (int i = 0; i < HOUSE_EVACUATE_MAX && is_lacking; i++) {
        if (missing(cache, cache->reserve_bytes) != 0 || !evacuate(cache, reclaimer, UINT32_MAX))
            return false;
        reclaim_poll(reclaimer, HOUSE_FREE_MAX);
        is_lacking = memory->budget - memory_figure(&memory->used) < wanted;
    }
    return is_lacking;
}

/* Where a cap is new, or entries were found to be another policy's. */
static bool keep_shares(struct cache *cache, struct reclaimer *reclaimer)
{
    bool is_more = false;
    for (unsigned policy = 1; policy < cache_policy_count(cache); policy++) {
        size_t above = above_cap(cache, reclaimer, policy, 0);
        if (above == 0)
            continue;
        size_t wanted = above < HOUSE_SHARE_MAX ? above : HOUSE_SHARE_MAX;
        (void)evict_of(cache, reclaimer, policy, cache->house_shard, wanted);
        is_more = is_more || above > wanted;
    }
    return is_more;
}

bool room_keep_free(struct cache *cache, struct reclaimer *reclaimer)
{
    size_t ahead = cache->memory.budget / POPULATE_FRACTION;
    bool is_populating =
        memory_populate(&cache->memory, ahead < POPULATE_MAX ? ahead : POPULATE_MAX);
    if (memory_figure(&cache->memory.deferred) > cache->deferred_max)
        return is_populating; /* readers first */
    size_t wanted = missing(cache, HOUSE_RESERVES * cache->reserve_bytes);
    if (wanted != 0)
        (void)evict_some(cache, reclaimer, NULL, evictable(cache, 0), HOUSE_EVICT_MAX, wanted);
    is_populating = keep_shares(cache, reclaimer) || is_populating;
    bool is_more = free_runs(cache, reclaimer, cache->reserve_bytes);
    tidy_one(cache, reclaimer);
    is_more = memory_trim(&cache->memory, HOUSE_RESERVES * cache->reserve_bytes) || is_more;
    return is_more || is_populating || missing(cache, cache->reserve_bytes) != 0;
}

bool room_expire(struct cache *cache, struct reclaimer *reclaimer, uint64_t now_us)
{
    uint32_t now_ms = cache_now_ms(cache, now_us);
    unsigned policies = cache_policy_count(cache);
    bool is_more = false;
    for (uint32_t i = 0; i < cache->shard_count; i++) {
        struct shard *shard = &cache->shards[i];
        uint32_t left = HOUSE_EXPIRE_MAX;
        shard_enter(shard, reclaimer);
        const struct rules *rules = cache_rules(cache);
        for (unsigned policy = 0; policy < policies && left != 0; policy++)
            left -= shard_expire(shard, reclaimer, policy, rules_terms(rules, policy)->life_ms,
                                 now_ms, left);
        shard_leave(shard, reclaimer);
        is_more = is_more || left == 0;
    }
    return is_more;
}
