#include "cache/cache.h"

#include "backend/batch.h"
#include "cache/check.h"
#include "cache/explain.h"
#include "cache/fetch.h"
#include "cache/item_cache.h"
#include "cache/purge.h"
#include "cache/query_cache.h"
#include "cache/refetch.h"
#include "cache/report.h"
#include "cache/room.h"
#include "cache/write.h"
#include "protocol/ensure.h"

#include <stdlib.h>

enum {
    SHARD_BYTES_MIN = 16 << 20, /* so that a shard is many times the largest item */
    SHARDS_MIN = 64,            /* if there is memory for them */
    SHARDS_PER_THREAD = 4,
    SHARD_BITS_MAX = 10,
    PARTITION_KEY_ROOM = 512,
    LANE_FREE_MAX = 256,   /* retired things freed a batch */
    TIMER_FREE_MAX = 1024, /* a timer */
    HOUSE_FREE_MAX = 8192, /* a call of housekeeping */
    FREE_DELAY_US = 1000,  /* until an idle lane looks again for what waits to be freed */
    TIMER_STEP_US = 10 * 1000,
    LANES_KEPT = 4, /* lanes, beyond one a thread, for which memory is kept back */
    POLICIES_KEPT_BYTES = 8 * 1024,
    FLOOR_PERCENT = 10,
    NEGATIVE_PERCENT = 10,
    DEFERRED_PERCENT = 4,
    ENTRY_KIND_PARTITION = 3, /* of hashes only */
};

static struct cache *of(struct backend *backend)
{
    return (struct cache *)backend;
}

static struct cache_lane *lane_of(struct lane *lane)
{
    return (struct cache_lane *)lane;
}

void shard_enter(struct shard *shard, struct reclaimer *reclaimer)
{
    mutex_lock(&shard->lock);
    reclaim_begin(reclaimer);
}

void shard_leave(struct shard *shard, struct reclaimer *reclaimer)
{
    reclaim_end(reclaimer);
    mutex_unlock(&shard->lock);
}

struct entry *probe_begin(struct probe_room *room, struct arena *arena, size_t key_size)
{
    if (key_size > ENTRY_KEY_MAX)
        return NULL;
    struct entry *probe = room != NULL && key_size <= PROBE_KEY_ROOM
                              ? (struct entry *)room->bytes
                              : arena_alloc(arena, ENTRY_HEADER + key_size);
    if (probe != NULL)
        probe->key_size = (uint16_t)key_size;
    return probe;
}

uint32_t cache_hash(const struct cache *cache, struct bytes key)
{
    return (uint32_t)(hash_secret_apply(&cache->secret, key) >> 32);
}

bool partition_ref_make(const struct cache *cache, struct arena *arena, uint32_t table_id,
                        struct bytes partition, struct partition_ref *out)
{
    uint8_t room[PARTITION_KEY_ROOM];
    size_t size = ENTRY_KEY_PREFIX + partition.size;
    uint8_t *key = size <= sizeof room ? room : arena_alloc(arena, size);
    if (key == NULL)
        return false;
    uint8_t *at = entry_key_begin(key, (enum entry_kind)ENTRY_KIND_PARTITION, table_id);
    if (partition.size != 0)
        memcpy(at, partition.data, partition.size);
    *out = (struct partition_ref){
        .hash = cache_hash(cache, bytes_of(key, size)), .table_id = table_id, .bytes = partition};
    return true;
}

/* --- Lanes --- */

static struct reclaimer *reclaimer_get(struct cache *cache)
{
    mutex_lock(&cache->lanes_lock);
    struct reclaimer *reclaimer = cache->spare;
    if (reclaimer != NULL)
        cache->spare = reclaimer->next;
    mutex_unlock(&cache->lanes_lock);
    if (reclaimer != NULL)
        return reclaimer;
    /* In front of it room to align it. */
    uint8_t *block =
        memory_heap_alloc_kept(&cache->memory, sizeof *reclaimer + _Alignof(struct reclaimer));
    if (block == NULL)
        return NULL;
    size_t skip = (size_t)(-(uintptr_t)block & (_Alignof(struct reclaimer) - 1));
    reclaimer = (struct reclaimer *)(void *)(block + skip);
    memset(reclaimer, 0, sizeof *reclaimer);
    reclaimer->block = block;
    reclaim_open(reclaimer, &cache->epoch, &cache->memory);
    return reclaimer;
}

static void timer_run(struct task *task)
{
    struct cache_lane *lane =
        (struct cache_lane *)(void *)((uint8_t *)task - offsetof(struct cache_lane, timer));
    if (lane->is_closed)
        return;
    uint64_t now_us = lane->timer_at_us;
    lane->timer_at_us = 0;
    lane->now_us = now_us > lane->now_us ? now_us : lane->now_us;
    reclaim_poll(lane->reclaimer, TIMER_FREE_MAX);
    uint64_t next_us = fetch_deadlines(lane, now_us);
    if (next_us != 0)
        lane_timer_at(lane, next_us);
    else if (reclaim_is_pending(lane->reclaimer))
        lane_timer_at(lane, lane->now_us + FREE_DELAY_US);
}

void lane_timer_at(struct cache_lane *lane, uint64_t at_us)
{
    if (lane->timer_at_us != 0)
        return; /* runs within TIMER_STEP_US anyway */
    uint64_t delay_us = at_us > lane->now_us ? at_us - lane->now_us : 0;
    if (delay_us > TIMER_STEP_US)
        delay_us = TIMER_STEP_US;
    lane->timer_at_us = lane->now_us + delay_us;
    lane->env.after(lane->env.worker, delay_us, &lane->timer);
}

static enum status cache_lane_open(struct backend *backend, const struct lane_env *env,
                                   struct lane **out)
{
    struct cache *cache = of(backend);
    ensure(env->post != NULL && env->after != NULL);
    struct cache_lane *lane = memory_heap_alloc_kept(&cache->memory, sizeof *lane);
    if (lane == NULL)
        return STATUS_NO_MEMORY;
    memset(lane, 0, sizeof *lane);
    lane->lane.ops = backend->ops;
    lane->cache = cache;
    lane->env = *env;
    lane->timer.run = timer_run;
    hot_init(&lane->hot);
    lane->now_us = cache->opened_us;
    struct lane_env below_env = *env;
    below_env.intent = write_intent;
    below_env.intent_arg = lane;
    enum status status = STATUS_NO_MEMORY;
    lane->reclaimer = reclaimer_get(cache);
    if (lane->reclaimer != NULL)
        status = cache->below->ops->lane_open(cache->below, &below_env, &lane->below);
    mutex_lock(&cache->lanes_lock);
    if (status == STATUS_OK) {
        lane->next = cache->lanes;
        cache->lanes = lane;
    } else if (lane->reclaimer != NULL) {
        lane->reclaimer->next = cache->spare;
        cache->spare = lane->reclaimer;
    }
    mutex_unlock(&cache->lanes_lock);
    if (status != STATUS_OK) {
        hot_deinit(&lane->hot, &cache->memory);
        memory_heap_free(&cache->memory, lane, sizeof *lane);
        return status;
    }
    *out = &lane->lane;
    return STATUS_OK;
}

/* What waits to be freed goes on in housekeeping's hands; the shell stays, for the timer may run.
 */
static void cache_lane_close(struct lane **closing)
{
    struct cache_lane *lane = lane_of(*closing);
    struct cache *cache = lane->cache;
    ensure(lane->waiting == NULL && lane->refetches == 0);
    lane_section_end(lane);
    lane->below->ops->lane_close(&lane->below);
    lane->is_closed = true;
    mutex_lock(&cache->lanes_lock);
    struct cache_lane **at = &cache->lanes;
    while (*at != lane)
        at = &(*at)->next;
    *at = lane->next;
    lane->next = cache->closed;
    cache->closed = lane;
    counters_add(&cache->past, &lane->counters);
    lane->reclaimer->next = cache->orphans;
    cache->orphans = lane->reclaimer;
    lane->reclaimer = NULL;
    mutex_unlock(&cache->lanes_lock);
    *closing = NULL;
}

void lane_begin(struct cache_lane *lane)
{
    lane->below->ops->lane_begin(lane->below);
    lane_section(lane);
}

void lane_end(struct cache_lane *lane)
{
    lane_section_end(lane);
    lane->below->ops->lane_end(lane->below);
    reclaim_poll(lane->reclaimer, LANE_FREE_MAX);
    if (UNLIKELY(reclaim_is_pending(lane->reclaimer)))
        lane_timer_at(lane, lane->now_us + FREE_DELAY_US);
}

static void cache_lane_begin(struct lane *lane)
{
    lane_begin(lane_of(lane));
}

static void cache_lane_end(struct lane *lane)
{
    lane_end(lane_of(lane));
}

static const struct table *cache_table(struct lane *lane, struct bytes name)
{
    struct cache_lane *cache_lane = lane_of(lane);
    return cache_lane->below->ops->table(cache_lane->below, name);
}

void lane_sample(struct cache_lane *lane, const struct call *call, uint32_t hash, bool is_hit)
{
    const struct request *request = &call->request;
    bool is_item = request->operation == OPERATION_GET_ITEM;
    struct hot_request hot = {
        .table = request->table,
        .kind = is_item ? ENTRY_ITEM : ENTRY_PAGE,
        .is_hit = is_hit,
        .hash = hash,
        .bytes = is_item ? request->key : request->key_condition.values,
    };
    hot_sample(&lane->hot, &hot, call->now_us);
}

/* --- Requests --- */

static enum submit pass(struct cache_lane *lane, struct call *call)
{
    lane_section_end(lane);
    return lane->below->ops->submit(lane->below, call);
}

static enum submit read_submit(struct cache_lane *lane, struct call *call)
{
    struct request *request = &call->request;
    const struct table *table = lane->below->ops->table(lane->below, request->table_name);
    if (UNLIKELY(table == NULL))
        return pass(lane, call); /* knows what to say */
    if (request->table != table)
        request->table = NULL; /* bound before, to a definition of then */
    enum status status = request_bind(request, table, call->arena, &call->reply.error);
    if (UNLIKELY(status != STATUS_OK)) {
        call->reply.status = status;
        return SUBMIT_DONE;
    }
    return request->operation == OPERATION_GET_ITEM ? item_get(lane, call) : query_get(lane, call);
}

enum submit lane_submit(struct cache_lane *lane, struct call *call)
{
    if (call->now_us > lane->now_us)
        lane->now_us = call->now_us;
    enum operation operation = call->request.operation;
    if (LIKELY(operation == OPERATION_GET_ITEM || operation == OPERATION_QUERY ||
               operation == OPERATION_SCAN))
        return read_submit(lane, call);
    if (operation == OPERATION_BATCH_GET_ITEM || operation == OPERATION_BATCH_WRITE_ITEM) {
        lane_section_end(lane);
        return batch_submit(&lane->lane, call);
    }
    if (operation == OPERATION_TRANSACT_GET_ITEMS)
        return check_transaction(lane, call);
    if (operation == OPERATION_PURGE)
        return purge_submit(lane, call);
    if (operation == OPERATION_EXPLAIN)
        return explain_submit(lane, call);
    return operation_may_change(operation) ? write_submit(lane, call) : pass(lane, call);
}

static enum submit cache_submit(struct lane *lane, struct call *call)
{
    return lane_submit(lane_of(lane), call);
}

static bool cache_late(struct lane *lane, const struct request *request, uint64_t now_us,
                       struct arena *arena, struct reply *reply)
{
    return refetch_late(lane_of(lane), request, now_us, arena, reply);
}

/* --- The whole --- */

void cache_purge(struct backend *backend)
{
    struct cache *cache = of(backend);
    mutex_lock(&cache->house_lock);
    purge_table(cache, cache->house, 0, SHARD_PURGED);
    mutex_unlock(&cache->house_lock);
}

/* The number of a policy's name, which is given one if need be; CACHE_POLICIES_MAX: there are none
 * left. Under house_lock. */
static unsigned policy_number(struct cache *cache, struct bytes name)
{
    unsigned used = cache_policy_count(cache);
    for (unsigned i = 0; i < used; i++)
        if (bytes_equal(bytes_text(cache->policy_names[i]), name))
            return i;
    if (used == CACHE_POLICIES_MAX)
        return used;
    memcpy(cache->policy_names[used], name.data, name.size);
    atomic_store_explicit(&cache->policy_count, used + 1, memory_order_release);
    return used;
}

static enum status number_policies(struct cache *cache, const struct cache_policies *policies,
                                   unsigned numbers[CACHE_POLICIES_MAX], struct error *error)
{
    if (cache_policy_count(cache) == 0)
        (void)policy_number(cache, BYTES_LITERAL("default"));
    for (size_t i = 0; i < policies->rule_count; i++) {
        struct bytes name = policies->rules[i].name;
        ensure(name.size > 0 && name.size <= CACHE_POLICY_NAME_MAX);
        if (i < CACHE_POLICIES_MAX)
            numbers[i] = policy_number(cache, name);
        if (i == CACHE_POLICIES_MAX || numbers[i] == CACHE_POLICIES_MAX)
            return error_set(error, STATUS_VALIDATION,
                             "policies can have %d names until a restart, \"default\" included",
                             (int)CACHE_POLICIES_MAX);
    }
    return STATUS_OK;
}

/* What a generation that comes round again has left must not be taken for its new one's. */
static void forget_generation(struct cache *cache, const struct rules *rules,
                              const struct rules *before)
{
    if (rules->generation != before->generation && ++cache->rule_changes >= RULE_GENERATIONS)
        purge_generation(cache, cache->house, rules->generation);
}

static bool keeps_nothing(const struct rules *rules)
{
    bool is_kept = rules->keeps_pages;
    for (size_t i = 0; i <= rules->rule_count; i++)
        is_kept = is_kept || policy_keeps(&rules->terms[i].policy, ENTRY_ITEM);
    return !is_kept;
}

/* NULL without memory. */
static struct rules *rules_make(struct cache *cache, const struct cache_policies *policies,
                                const unsigned *numbers)
{
    for (uint32_t i = 0; i < cache->shard_count; i++)
        if (!shard_shares_grow(&cache->shards[i], cache_policy_count(cache)))
            return NULL;
    void *block = reclaim_heap_alloc(&cache->memory, rules_size(policies));
    return block == NULL ? NULL
                         : rules_build(block, cache->memory.budget, policies, numbers,
                                       atomic_load(&cache->rules));
}

enum status cache_policies_set(struct backend *backend, const struct cache_policies *policies,
                               struct error *error)
{
    struct cache *cache = of(backend);
    unsigned numbers[CACHE_POLICIES_MAX];
    mutex_lock(&cache->house_lock);
    reclaim_poll(cache->house, HOUSE_FREE_MAX); /* those before */
    enum status status = number_policies(cache, policies, numbers, error);
    struct rules *next = status == STATUS_OK ? rules_make(cache, policies, numbers) : NULL;
    if (status == STATUS_OK && next == NULL)
        status = error_set(error, STATUS_NO_MEMORY, "no memory in the cache for its policies");
    if (status == STATUS_OK) {
        struct rules *old = atomic_load(&cache->rules);
        forget_generation(cache, next, old);
        bool is_off = keeps_nothing(next);
        reclaim_begin(cache->house);
        atomic_store_explicit(&cache->rules, next, memory_order_release);
        reclaim_heap(cache->house, old);
        reclaim_end(cache->house);
        if (is_off)
            purge_table(cache, cache->house, 0, SHARD_PURGED);
    }
    mutex_unlock(&cache->house_lock);
    return status;
}

/* Frees for closed lanes what they left. */
static bool poll_orphans(struct cache *cache)
{
    mutex_lock(&cache->lanes_lock);
    struct reclaimer **at = &cache->orphans;
    while (*at != NULL) {
        struct reclaimer *orphan = *at;
        reclaim_poll(orphan, TIMER_FREE_MAX);
        if (reclaim_is_pending(orphan)) {
            at = &orphan->next;
            continue;
        }
        *at = orphan->next;
        orphan->next = cache->spare;
        cache->spare = orphan;
    }
    bool is_more = cache->orphans != NULL;
    mutex_unlock(&cache->lanes_lock);
    return is_more;
}

static void count_hot(struct cache *cache)
{
    mutex_lock(&cache->lanes_lock);
    for (struct cache_lane *lane = cache->lanes; lane != NULL; lane = lane->next)
        hot_count(&lane->hot, &cache->memory);
    mutex_unlock(&cache->lanes_lock);
}

/* How long retired memory has waited without a grace period ending. */
static void note_lag(struct cache *cache, size_t deferred_before, uint64_t now_us)
{
    size_t deferred = memory_figure(&cache->memory.deferred);
    if (deferred == 0 || deferred < deferred_before || cache->lag_since_us == 0)
        cache->lag_since_us = now_us;
    atomic_store_explicit(&cache->epoch_lag_us, now_us - cache->lag_since_us, memory_order_relaxed);
}

bool cache_housekeep(struct backend *backend, uint64_t now_us)
{
    struct cache *cache = of(backend);
    mutex_lock(&cache->house_lock);
    size_t deferred = memory_figure(&cache->memory.deferred);
    write_expire_unknown(cache, cache->house, now_us);
    bool is_more = room_expire(cache, cache->house, now_us);
    is_more = room_keep_free(cache, cache->house) || is_more;
    reclaim_poll(cache->house, HOUSE_FREE_MAX);
    is_more = poll_orphans(cache) || is_more;
    count_hot(cache);
    note_lag(cache, deferred, now_us);
    atomic_store_explicit(&cache->house_now_us, now_us, memory_order_relaxed);
    mutex_unlock(&cache->house_lock);
    return is_more;
}

static bool cache_is_ready(struct backend *backend, const char **why)
{
    return of(backend)->below->ops->is_ready(of(backend)->below, why);
}

static void reclaimer_free(struct cache *cache, struct reclaimer *reclaimer)
{
    memory_heap_free(&cache->memory, reclaimer->block,
                     sizeof *reclaimer + _Alignof(struct reclaimer));
}

static void free_list(struct cache *cache, struct reclaimer *reclaimer)
{
    while (reclaimer != NULL) {
        struct reclaimer *next = reclaimer->next;
        reclaimer_free(cache, reclaimer);
        reclaimer = next;
    }
}

static void free_lanes(struct cache *cache)
{
    ensure(cache->lanes == NULL);
    while (cache->closed != NULL) {
        struct cache_lane *lane = cache->closed;
        cache->closed = lane->next;
        misses_deinit(&lane->misses, &cache->memory);
        tallies_deinit(&lane->tallies, &cache->memory);
        hot_deinit(&lane->hot, &cache->memory);
        memory_heap_free(&cache->memory, lane, sizeof *lane);
    }
    /* First everything is freed, then the records, for each scan of the epoch looks at all. */
    for (struct reclaimer *orphan = cache->orphans; orphan != NULL; orphan = orphan->next)
        reclaim_close(orphan);
    reclaim_close(cache->house);
    free_list(cache, cache->orphans);
    free_list(cache, cache->spare);
    reclaimer_free(cache, cache->house);
}

static void cache_close(struct backend **closing)
{
    struct cache *cache = of(*closing);
    if (cache->house != NULL)
        free_lanes(cache);
    for (uint32_t i = 0; cache->shards != NULL && i < cache->shard_count; i++)
        shard_close(&cache->shards[i]);
    free(cache->shards);
    index_close(&cache->index);
    struct rules *rules = atomic_load(&cache->rules);
    if (rules != NULL)
        reclaim_heap_free(&cache->memory, rules);
    memory_close(&cache->memory);
    if (cache->below != NULL)
        cache->below->ops->close(&cache->below);
    mutex_deinit(&cache->lanes_lock);
    mutex_deinit(&cache->house_lock);
    mutex_deinit(&cache->unknown_lock);
    free(cache);
    *closing = NULL;
}

static const struct backend_ops cache_ops = {
    .name = "cache",
    .lane_open = cache_lane_open,
    .lane_close = cache_lane_close,
    .lane_begin = cache_lane_begin,
    .lane_end = cache_lane_end,
    .table = cache_table,
    .submit = cache_submit,
    .late = cache_late,
    .report = cache_report,
    .is_ready = cache_is_ready,
    .close = cache_close,
};

static uint32_t shard_bits_for(const struct cache_options *options)
{
    uint32_t bits = 0, wanted = SHARDS_PER_THREAD * options->threads;
    wanted = wanted < SHARDS_MIN ? SHARDS_MIN : wanted;
    while (bits < SHARD_BITS_MAX && (1u << bits) < wanted &&
           options->memory_bytes >> (bits + 1) >= SHARD_BYTES_MIN)
        bits++;
    return bits;
}

static enum status open_parts(struct cache *cache, const struct cache_options *options)
{
    size_t kept_back =
        POLICIES_KEPT_BYTES + (options->threads + LANES_KEPT) *
                                  (sizeof(struct cache_lane) + 2 * sizeof(struct reclaimer));
    if (!memory_open(&cache->memory, options->memory_bytes, kept_back) ||
        !memory_charge(&cache->memory, sizeof *cache))
        return STATUS_NO_MEMORY;
    cache->shard_bits = shard_bits_for(options);
    cache->shard_count = 1u << cache->shard_bits;
    size_t shards_bytes = cache->shard_count * sizeof *cache->shards;
    if (!memory_charge(&cache->memory, shards_bytes))
        return STATUS_NO_MEMORY;
    cache->shards = aligned_alloc(_Alignof(struct shard), shards_bytes);
    if (cache->shards == NULL)
        return STATUS_NO_MEMORY;
    memset(cache->shards, 0, shards_bytes);
    if (!index_open(&cache->index, &cache->memory, cache->shard_bits))
        return STATUS_NO_MEMORY;
    struct shard_options shard_options = {.index = &cache->index,
                                          .share_bytes = options->memory_bytes >> cache->shard_bits,
                                          .eviction = options->eviction,
                                          .memory = &cache->memory,
                                          .totals = &cache->totals};
    shard_options.stripe_count = STRIPES_MIN;
    while (shard_options.stripe_count < STRIPES_MAX &&
           shard_options.stripe_count * 4096u < shard_options.share_bytes)
        shard_options.stripe_count *= 2;
    for (uint32_t i = 0; i < cache->shard_count; i++)
        if (!shard_open(&cache->shards[i], &shard_options))
            return STATUS_NO_MEMORY;
    cache->house = reclaimer_get(cache);
    return cache->house == NULL ? STATUS_NO_MEMORY : STATUS_OK;
}

static enum status open_policies(struct cache *cache, const struct cache_policies *policies,
                                 struct error *error)
{
    unsigned numbers[CACHE_POLICIES_MAX];
    enum status status = number_policies(cache, policies, numbers, error);
    if (status != STATUS_OK)
        return status;
    struct rules *rules = rules_make(cache, policies, numbers);
    if (rules == NULL)
        return error_set(error, STATUS_NO_MEMORY, "no memory in the cache for its policies");
    atomic_init(&cache->rules, rules);
    return STATUS_OK;
}

enum status cache_open(const struct cache_options *options, struct backend **below,
                       struct backend **out, struct error *error)
{
    if (options->memory_bytes < CACHE_MEMORY_MIN || options->memory_bytes > MEMORY_MAPPING_MAX)
        return error_set(error, STATUS_VALIDATION, "the cache's memory must be 1 MiB to 64 GiB");
    struct cache *cache = aligned_alloc(_Alignof(struct cache), sizeof *cache);
    if (cache == NULL)
        return error_set(error, STATUS_NO_MEMORY, "no memory for the cache");
    memset(cache, 0, sizeof *cache);
    cache->backend.ops = &cache_ops;
    cache->opened_us = options->now_us;
    cache->waiters_max = options->waiters_max;
    cache->on_event = options->on_event;
    cache->on_event_arg = options->on_event_arg;
    cache->floor_bytes = options->memory_bytes * FLOOR_PERCENT / 100;
    cache->negative_max = options->memory_bytes * NEGATIVE_PERCENT / 100;
    cache->deferred_max = options->memory_bytes * DEFERRED_PERCENT / 100;
    mutex_init(&cache->lanes_lock);
    mutex_init(&cache->house_lock);
    mutex_init(&cache->unknown_lock);
    hash_secret_init(&cache->secret, options->seed);
    ck_epoch_init(&cache->epoch);
    enum status status = open_parts(cache, options);
    if (status != STATUS_OK)
        (void)error_set(error, status, "no memory for a cache of %zu bytes", options->memory_bytes);
    else
        status = open_policies(cache, &options->policies, error);
    if (status != STATUS_OK) {
        struct backend *half = &cache->backend;
        cache_close(&half);
        return status;
    }
    cache->reserve_bytes = options->memory_bytes / 100;
    if (cache->reserve_bytes < 2 * cache->memory.run_size)
        cache->reserve_bytes = 2 * cache->memory.run_size;
    cache->below = *below;
    *below = NULL;
    *out = &cache->backend;
    return STATUS_OK;
}
