#include "cache/refetch.h"

#include "backend/expression/projection.h"
#include "cache/fetch.h"
#include "cache/item_cache.h"
#include "cache/query_cache.h"
#include "protocol/ensure.h"

enum {
    REFETCHES_MAX = 64, /* of a lane, at once */
    REFETCH_DEADLINE_US = 10 * 1000 * 1000,
    REFETCH_PAUSE_US = 100 * 1000, /* of a lane, after one that failed */
    REFETCH_ROOM = 2048,           /* of its arena, before the heap */
    REFETCH_HEAP_MAX = 4 << 20,
};

struct refetch {
    struct task task;
    struct cache_lane *lane;
    struct call call;
    const struct entry *probe; /* once it is bound; in the arena */
    struct arena arena;
    _Alignas(16) uint8_t room[REFETCH_ROOM];
};

/* ---- a fetch that nobody waits for ---- */

static void hold(struct cache_lane *lane, bool is_begun)
{
    lane->refetches += is_begun ? 1 : UINT32_MAX;
    if (lane->env.hold != NULL)
        lane->env.hold(lane->env.worker, is_begun);
}

static void destroy(struct refetch *refetch)
{
    struct cache_lane *lane = refetch->lane;
    arena_deinit(&refetch->arena);
    memory_heap_free(&lane->cache->memory, refetch, sizeof *refetch);
}

static void end(struct refetch *refetch)
{
    struct cache_lane *lane = refetch->lane;
    if (refetch->call.reply.status != STATUS_OK) {
        count(&lane->counters.refetches_failed, 1);
        lane->refetch_after_us = refetch->call.now_us + REFETCH_PAUSE_US;
    }
    if (refetch->probe != NULL) { /* what was not replaced may be fetched anew */
        reclaim_begin(lane->reclaimer);
        struct entry *entry = index_get(&lane->cache->index, refetch->probe);
        if (entry != NULL && entry_is_refetched(entry))
            entry_refetched_set(entry, false);
        reclaim_end(lane->reclaimer);
    }
    destroy(refetch);
    hold(lane, false);
}

static void completed(struct call *call)
{
    end(call->owner);
}

static enum submit submit(struct refetch *refetch)
{
    struct cache_lane *lane = refetch->lane;
    struct call *call = &refetch->call;
    struct request *request = &call->request;
    struct partition_ref partition;
    const struct table *table = lane->below->ops->table(lane->below, request->table_name);
    if (table == NULL)
        return call_fail(call, STATUS_RESOURCE_NOT_FOUND);
    enum status status = request_bind(request, table, call->arena, &call->reply.error);
    if (status != STATUS_OK)
        return call_fail(call, status);
    bool is_item = request->operation == OPERATION_GET_ITEM;
    refetch->probe = is_item
                         ? item_probe(lane->cache, NULL, call->arena, table->id, request->item_key)
                         : page_probe_make(lane->cache, call->arena, request, &partition);
    if (refetch->probe == NULL)
        return call_fail(call, STATUS_NO_MEMORY);
    lane_section(lane);
    return fetch_shared(lane, call, refetch->probe, is_item ? NULL : &partition, FETCH_AGAIN);
}

static void run(struct task *task)
{
    struct refetch *refetch =
        (struct refetch *)(void *)((uint8_t *)task - offsetof(struct refetch, task));
    struct cache_lane *lane = refetch->lane;
    if (lane->now_us > refetch->call.now_us)
        refetch->call.now_us = lane->now_us;
    refetch->call.deadline_us = refetch->call.now_us + REFETCH_DEADLINE_US;
    lane_begin(lane);
    enum submit done = submit(refetch);
    ensure(done != SUBMIT_KEEP);
    if (done == SUBMIT_DONE)
        end(refetch);
    lane_end(lane);
}

static struct refetch *make(struct cache_lane *lane, const struct call *call)
{
    struct refetch *refetch = memory_heap_alloc(&lane->cache->memory, sizeof *refetch);
    if (refetch == NULL)
        return NULL;
    memset(refetch, 0, offsetof(struct refetch, room));
    refetch->lane = lane;
    refetch->task.run = run;
    arena_init(&refetch->arena, refetch->room, sizeof refetch->room, REFETCH_HEAP_MAX);
    refetch->call.arena = &refetch->arena;
    refetch->call.now_us = call->now_us;
    refetch->call.complete = completed;
    refetch->call.owner = refetch;
    reply_init(&refetch->call.reply);
    if (request_copy_read(&call->request, &refetch->arena, &refetch->call.request))
        return refetch;
    destroy(refetch);
    return NULL;
}

/* Not while another does, nor beyond the lane's bounds. */
static void start(struct cache_lane *lane, const struct call *call, struct entry *entry)
{
    if (entry_is_refetched(entry))
        return;
    struct refetch *refetch = NULL;
    if (lane->refetches < REFETCHES_MAX && call->now_us >= lane->refetch_after_us)
        refetch = make(lane, call);
    if (refetch == NULL) {
        count(&lane->counters.refetches_refused, 1);
        return;
    }
    count(&lane->counters.refetches, 1);
    entry_refetched_set(entry, true);
    hold(lane, true);
    lane->env.post(lane->env.worker, &refetch->task);
}

/* ---- what may be shown ---- */

bool refetch_look(struct cache_lane *lane, struct call *call, const struct rules *rules,
                  unsigned policy, struct entry *entry)
{
    const struct cache_policy *terms = &rules_terms(rules, policy)->policy;
    uint32_t age_ms = entry_age_ms(entry, cache_now_ms(lane->cache, call->now_us));
    uint32_t ttl_ms = policy_ttl_ms(terms, expiry_kind(entry));
    if (!policy_keeps(terms, entry_kind(entry)) || terms->is_shadow || ttl_ms == 0 ||
        age_ms >= AGE_MAX_MS ||
        (age_ms >= ttl_ms && age_ms - ttl_ms >= terms->stale_while_refetch_ms))
        return false;
    start(lane, call, entry);
    if (age_ms < ttl_ms)
        return true;
    call->reply.verdict = VERDICT_STALE;
    count(&lane->counters.stale_hits, 1);
    tally_stale(&lane->tallies, &lane->cache->memory, policy, false);
    return true;
}

bool refetch_may_excuse(enum status status)
{
    return status == STATUS_UNAVAILABLE || status == STATUS_TIMEOUT || status == STATUS_INTERNAL;
}

static void show(struct cache_lane *lane, const struct entry *entry, struct bytes body,
                 uint32_t age_ms, struct reply *reply)
{
    reply_init(reply);
    reply->verdict = VERDICT_STALE;
    reply->age_ms = age_ms;
    reply->body = body;
    reply->count = !(entry_flags(entry) & SLOT_NEGATIVE);
    if (entry_kind(entry) == ENTRY_PAGE)
        reply->count = page_head_of(entry).count;
    count(&lane->counters.stale_excuses, 1);
    tally_stale(&lane->tallies, &lane->cache->memory, entry_policy(entry), true);
}

/* In a section. */
static bool try_excuse(struct cache_lane *lane, const struct entry *entry, uint64_t now_us,
                       struct arena *arena, struct reply *reply)
{
    const struct rules *rules = cache_rules(lane->cache);
    unsigned policy = rules_number(rules, entry);
    if (policy >= CACHE_POLICIES_MAX)
        return false;
    const struct cache_policy *terms = &rules_terms(rules, policy)->policy;
    uint32_t age_ms = entry_age_ms(entry, cache_now_ms(lane->cache, now_us));
    uint32_t ttl_ms = policy_ttl_ms(terms, expiry_kind(entry));
    if (terms->stale_if_error_ms == 0 || terms->is_shadow ||
        !policy_keeps(terms, entry_kind(entry)) || age_ms >= AGE_MAX_MS ||
        (age_ms >= ttl_ms && age_ms - ttl_ms >= terms->stale_if_error_ms))
        return false;
    bool is_negative = entry_flags(entry) & SLOT_NEGATIVE;
    struct bytes body = is_negative ? BODY_NO_ITEM : entry_body(&lane->cache->memory, entry, arena);
    if (bytes_given(body))
        body = arena_copy(arena, body);
    if (bytes_given(body))
        show(lane, entry, body, age_ms, reply);
    return bytes_given(body);
}

bool refetch_excuse(struct cache_lane *lane, const struct entry *probe, uint64_t now_us,
                    struct arena *arena, struct reply *reply)
{
    reclaim_begin(lane->reclaimer);
    const struct entry *entry = index_get(&lane->cache->index, probe);
    bool is_excused = entry != NULL && try_excuse(lane, entry, now_us, arena, reply);
    reclaim_end(lane->reclaimer);
    return is_excused;
}

bool refetch_late(struct cache_lane *lane, const struct request *asked, uint64_t now_us,
                  struct arena *arena, struct reply *reply)
{
    enum operation operation = asked->operation;
    bool is_item = operation == OPERATION_GET_ITEM;
    struct request request = *asked;
    struct partition_ref partition;
    struct error error;
    if (asked->is_consistent ||
        !(is_item || operation == OPERATION_QUERY || operation == OPERATION_SCAN))
        return false;
    const struct table *table = lane->below->ops->table(lane->below, asked->table_name);
    request.table = NULL;
    if (table == NULL || request_bind(&request, table, arena, &error) != STATUS_OK)
        return false;
    const struct entry *probe =
        is_item ? item_probe(lane->cache, NULL, arena, table->id, request.item_key)
                : page_probe_make(lane->cache, arena, &request, &partition);
    if (probe == NULL || !refetch_excuse(lane, probe, now_us, arena, reply))
        return false;
    if (is_item && request.projection_tree != NULL && !reply_is_no_item(reply->body))
        reply->body = projection_apply(request.projection_tree, reply->body, arena);
    return bytes_given(reply->body);
}
