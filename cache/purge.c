#include "cache/purge.h"

#include "cache/query_cache.h"
#include "cache/write.h"
#include "protocol/encoding/msgpack.h"

enum {
    PURGE_ENTRIES = 256,   /* under one lock, about */
    PURGE_FREE_MAX = 8192, /* retired things, a slice */
    PURGE_STEPS = 16,      /* slices a turn of a lane's loop */
};

/* ---- what goes ---- */

static bool is_of_table(const struct purge *purge, uint32_t id)
{
    for (uint32_t i = 0; i < purge->id_count; i++)
        if (purge->ids[i] == id)
            return true;
    return purge->id_count == 0;
}

static bool begins_with(struct bytes bytes, struct bytes prefix)
{
    return bytes.size >= prefix.size && bytes_equal(bytes_of(bytes.data, prefix.size), prefix);
}

/* Whether the interval of a Scan's page holds anything of the partition. */
static bool is_over_partition(const struct purge *purge, const struct entry *page)
{
    struct key_interval interval = page_interval(page);
    return (!bytes_given(interval.high) || bytes_compare(interval.high, purge->position) > 0) &&
           (bytes_compare(interval.low, purge->position) <= 0 ||
            begins_with(interval.low, purge->position));
}

static bool is_of_partition(const struct purge *purge, const struct entry *entry)
{
    if (entry_kind(entry) == ENTRY_ITEM) {
        struct bytes key =
            bytes_of(entry->key + ENTRY_KEY_PREFIX, entry->key_size - (size_t)ENTRY_KEY_PREFIX);
        return begins_with(key, purge->partition);
    }
    struct bytes partition = page_partition(entry);
    return partition.size == 0 ? is_over_partition(purge, entry)
                               : bytes_equal(partition, purge->partition);
}

static void visit(void *arg, struct entry *entry) NO_THREAD_ANALYSIS
{
    struct purge *purge = arg;
    if (purge->is_of_generation && entry_tag(entry) - entry_policy(entry) != purge->generation)
        return;
    if (!is_of_table(purge, entry_table_id(entry)) ||
        (bytes_given(purge->partition) && !is_of_partition(purge, entry)))
        return;
    *(entry_kind(entry) == ENTRY_ITEM ? &purge->dropped.items : &purge->dropped.pages) += 1;
    shard_remove(&purge->cache->shards[purge->shard], purge->reclaimer, entry, purge->reason);
}

/* ---- the walk ---- */

bool purge_step(struct purge *purge)
{
    struct cache *cache = purge->cache;
    struct shard *shard = &cache->shards[purge->shard];
    shard_enter(shard, purge->reclaimer);
    if (purge->walk == 0)
        shard_disown_fetches(shard);
    bool is_more =
        index_iterate(&cache->index, purge->shard, &purge->walk, PURGE_ENTRIES, visit, purge);
    shard_leave(shard, purge->reclaimer);
    reclaim_poll(purge->reclaimer, PURGE_FREE_MAX);
    if (is_more)
        return true;
    purge->walk = 0;
    return ++purge->shard < cache->shard_count;
}

void purge_table(struct cache *cache, struct reclaimer *reclaimer, uint32_t table_id,
                 enum shard_reason reason)
{
    struct purge purge = {.cache = cache,
                          .reclaimer = reclaimer,
                          .reason = reason,
                          .ids = {table_id},
                          .id_count = table_id != 0};
    while (purge_step(&purge))
        continue;
}

void purge_generation(struct cache *cache, struct reclaimer *reclaimer, unsigned generation)
{
    struct purge purge = {.cache = cache,
                          .reclaimer = reclaimer,
                          .reason = SHARD_PURGED,
                          .is_of_generation = true,
                          .generation = generation};
    while (purge_step(&purge))
        continue;
}

/* ---- the operation ---- */

/* A walk from turn to turn. In the call's arena. */
struct purging {
    struct task task;
    struct cache_lane *lane;
    struct call *call;
    struct purge purge;
};

static enum submit answer(struct call *call, const struct dropped *dropped)
{
    struct attribute attributes[] = {
        {BYTES_LITERAL("Items"), {.type = VALUE_N, .number = number_from_uint(dropped->items)}},
        {BYTES_LITERAL("Pages"), {.type = VALUE_N, .number = number_from_uint(dropped->pages)}},
    };
    struct value map = {.type = VALUE_M, .attributes = attributes, .count = 2};
    call->reply.body = value_encode_arena(&map, call->arena);
    return bytes_given(call->reply.body) ? SUBMIT_DONE : call_fail(call, STATUS_NO_MEMORY);
}

static void run(struct task *task)
{
    struct purging *purging =
        (struct purging *)(void *)((uint8_t *)task - offsetof(struct purging, task));
    struct cache_lane *lane = purging->lane;
    bool is_more = true;
    for (int step = 0; step < PURGE_STEPS && is_more; step++)
        is_more = purge_step(&purging->purge);
    if (is_more) {
        lane->env.post(lane->env.worker, task);
        return;
    }
    struct call *call = purging->call;
    call->now_us = lane->now_us > call->now_us ? lane->now_us : call->now_us;
    (void)answer(call, &purging->purge.dropped);
    call->complete(call);
}

/* Fills in what the request names. False without memory. */
static bool name_target(struct purge *purge, const struct request *request, struct arena *arena)
{
    const struct table *table = request->table;
    if (table == NULL)
        return true;
    purge->ids[purge->id_count++] = request_range_id(request);
    purge->partition = request->range.partition;
    if (!bytes_given(purge->partition)) {
        for (size_t i = 0; request->index == NULL && i < table->index_count; i++)
            purge->ids[purge->id_count++] = table->indexes[i].id;
        return true;
    }
    size_t size = POSITION_HASH_BYTES + purge->partition.size;
    uint8_t *position = arena_alloc(arena, size);
    if (position == NULL)
        return false;
    position_write_hash(position, hash_partition(purge->partition));
    memcpy(position + POSITION_HASH_BYTES, purge->partition.data, purge->partition.size);
    purge->position = bytes_of(position, size);
    return true;
}

static enum submit walk(struct cache_lane *lane, struct call *call)
{
    struct purging *purging = arena_alloc(call->arena, sizeof *purging);
    if (purging == NULL)
        return call_fail(call, STATUS_NO_MEMORY);
    *purging = (struct purging){
        .task = {.run = run},
        .lane = lane,
        .call = call,
        .purge = {.cache = lane->cache, .reclaimer = lane->reclaimer, .reason = SHARD_PURGED}};
    if (!name_target(&purging->purge, &call->request, call->arena))
        return call_fail(call, STATUS_NO_MEMORY);
    lane->env.post(lane->env.worker, &purging->task);
    return SUBMIT_PENDING;
}

static enum submit forget_item(struct cache_lane *lane, struct call *call)
{
    struct touched touched = {.table_id = call->request.table->id, .key = call->request.item_key};
    struct dropped dropped;
    return write_forget(lane, call->arena, &touched, SHARD_PURGED, &dropped)
               ? answer(call, &dropped)
               : call_fail(call, STATUS_NO_MEMORY);
}

static enum status bind(struct cache_lane *lane, struct call *call)
{
    struct request *request = &call->request;
    struct error *error = &call->reply.error;
    if (!bytes_given(request->table_name))
        return bytes_given(request->key) || bytes_given(request->index_name)
                   ? error_set(error, STATUS_VALIDATION, "A key or an index needs its table")
                   : STATUS_OK;
    const struct table *table = lane->below->ops->table(lane->below, request->table_name);
    if (table == NULL)
        return error_set(error, STATUS_RESOURCE_NOT_FOUND, "Requested resource not found");
    return request_bind(request, table, call->arena, error);
}

enum submit purge_submit(struct cache_lane *lane, struct call *call)
{
    lane_section_end(lane);
    if (call->is_passing)
        return SUBMIT_KEEP;
    enum status status = bind(lane, call);
    if (status != STATUS_OK)
        return call_fail(call, status);
    return bytes_given(call->request.item_key.bytes) ? forget_item(lane, call) : walk(lane, call);
}
