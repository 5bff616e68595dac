#include "cache/fetch.h"

#include "backend/expression/projection.h"
#include "cache/check.h"
#include "cache/refetch.h"
#include "cache/room.h"
#include "cache/shadow.h"
#include "protocol/ensure.h"

/* A read that goes to the store, as it is counted once it has been answered. */
struct miss {
    struct miss_row *row; /* its table's; NULL: not counted */
    enum entry_kind kind;
    unsigned policy, reason; /* the policy, until the body is known, by the key */
    bool is_bypass;
};

/* A request parked until another's fetch lands. In the call's arena. */
struct waiting {
    struct waiter waiter; /* guarded by the shard's lock */
    struct task task;
    struct cache_lane *lane;
    struct call *call;
    struct shard *shard;
    struct flight *flight;       /* one reference is ours */
    struct waiting *next, *prev; /* of the lane */
    struct miss miss;
};

/* A request that goes below. In the call's arena. */
struct fetch {
    struct cache_lane *lane;
    struct call *call;
    void (*complete)(struct call *call);
    void *owner;
    enum verdict verdict;
    struct shard *shard;
    const struct entry *probe; /* NULL: not wanted */
    const struct check *check; /* compare only; NULL: nothing to compare */
    struct shadow shadow;      /* of what is there, or empty */
    bool may_keep;
    bool lacks_room;        /* it would have been kept */
    uint32_t token;         /* of an item: its stripe's version at the start */
    struct flight *flight;  /* led, or NULL */
    struct loading loading; /* of a page */
    struct rule_fit fit;
    struct miss miss;
    enum fetch_why why;
    struct waiting waiting; /* in case it joins instead */
};

static bool is_page(const struct fetch *fetch)
{
    return entry_kind(fetch->probe) == ENTRY_PAGE;
}

static void waiting_unlink(struct waiting *waiting)
{
    if (waiting->prev != NULL)
        waiting->prev->next = waiting->next;
    else
        waiting->lane->waiting = waiting->next;
    if (waiting->next != NULL)
        waiting->next->prev = waiting->prev;
}

static void miss_count(struct cache_lane *lane, const struct miss *miss)
{
    struct counters *counters = &lane->counters;
    bool is_item = miss->kind == ENTRY_ITEM;
    if (miss->row == NULL)
        return;
    if (miss->is_bypass)
        count(is_item ? &counters->item_bypasses : &counters->page_bypasses, 1);
    else
        count(is_item ? &counters->item_misses : &counters->page_misses, 1);
    misses_count(miss->row, miss->kind, miss->reason);
    tally_miss(&lane->tallies, &lane->cache->memory, miss->policy, miss->kind, miss->reason);
}

/* Its policy, which the body has told, keeps none such. */
static void miss_is_off(struct miss *miss)
{
    miss->reason = MISS_OFF;
    miss->is_bypass = true;
}

/* What the caller asked for of an item that came whole, so that it could be kept. */
static void project(struct call *call)
{
    const struct path_node *projection = call->request.projection_tree;
    struct reply *reply = &call->reply;
    if (LIKELY(projection == NULL) || call->request.operation != OPERATION_GET_ITEM ||
        reply->status != STATUS_OK || reply_is_no_item(reply->body))
        return;
    struct bytes body = projection_apply(projection, reply->body, call->arena);
    if (bytes_given(body))
        reply->body = body;
    else
        (void)call_fail(call, STATUS_NO_MEMORY);
}

static void waiting_end(struct waiting *waiting, enum status status)
{
    struct call *call = waiting->call;
    miss_count(waiting->lane, &waiting->miss);
    if (refetch_excuse(waiting->lane, &waiting->flight->probe, call->now_us, call->arena,
                       &call->reply))
        project(call);
    else
        (void)call_fail(call, status);
    flight_unref(waiting->flight);
    call->complete(call);
}

/* The fetch gave nothing to share: ask for oneself. */
static void waiting_again(struct waiting *waiting)
{
    struct cache_lane *lane = waiting->lane;
    struct call *call = waiting->call;
    if (call->deadline_us != 0 && call->now_us >= call->deadline_us) {
        count(&lane->counters.waiters_timed_out, 1);
        waiting_end(waiting, STATUS_TIMEOUT);
        return;
    }
    flight_unref(waiting->flight);
    count(&lane->counters.waiters_again, 1);
    call->request.table = NULL; /* a definition is kept for calls that the store knows of only */
    lane_begin(lane);
    enum submit submit = lane_submit(lane, call);
    ensure(submit != SUBMIT_KEEP);
    if (submit == SUBMIT_DONE)
        call->complete(call);
    lane_end(lane);
}

static void reply_share(struct reply *reply, const struct reply *shared)
{
    reply->status = shared->status;
    reply->verdict = shared->verdict;
    reply->age_ms = shared->age_ms;
    reply->count = shared->count;
    reply->commit = shared->commit;
    reply->read_bytes = shared->read_bytes;
    reply->body = shared->body;
    if (shared->status != STATUS_OK)
        reply->error = shared->error;
}

/* On the waiter's own thread. */
static void waiting_woken(struct task *task)
{
    struct waiting *waiting =
        (struct waiting *)(void *)((uint8_t *)task - offsetof(struct waiting, task));
    struct call *call = waiting->call;
    struct flight *flight = waiting->flight;
    waiting_unlink(waiting);
    if (flight->landed_us > call->now_us)
        call->now_us = flight->landed_us;
    if (!flight->is_shared || flight->reply.status == STATUS_TIMEOUT) {
        waiting_again(waiting);
        return;
    }
    reply_share(&call->reply, &flight->reply);
    waiting->miss.policy = flight->policy;
    if (flight->reply.verdict == VERDICT_BYPASS)
        miss_is_off(&waiting->miss);
    miss_count(waiting->lane, &waiting->miss);
    if (UNLIKELY(refetch_may_excuse(call->reply.status)))
        (void)!refetch_excuse(waiting->lane, &flight->probe, call->now_us, call->arena,
                              &call->reply);
    project(call);
    call->complete(call);
    flight_unref(flight);
}

/* A deadline is among those that wait. */
static void note_deadline(struct cache_lane *lane, uint64_t deadline_us)
{
    if (deadline_us != 0 && (lane->waiting_due_us == 0 || deadline_us < lane->waiting_due_us))
        lane->waiting_due_us = deadline_us;
}

uint64_t fetch_deadlines(struct cache_lane *lane, uint64_t now_us)
{
    if (lane->waiting != NULL && now_us < lane->waiting_due_us)
        return lane->waiting_due_us;
    lane->waiting_due_us = 0;
    struct waiting *due = NULL; /* apart: completing may change the lane's list */
    for (struct waiting *waiting = lane->waiting, *next; waiting != NULL; waiting = next) {
        next = waiting->next;
        uint64_t deadline_us = waiting->call->deadline_us;
        if (deadline_us == 0 || deadline_us > now_us) {
            note_deadline(lane, deadline_us);
            continue;
        }
        mutex_lock(&waiting->shard->lock);
        bool has_left = flight_leave(&waiting->waiter);
        mutex_unlock(&waiting->shard->lock);
        if (!has_left) /* landed: it is being woken */
            continue;
        waiting_unlink(waiting);
        waiting->next = due;
        due = waiting;
    }
    while (due != NULL) {
        struct waiting *waiting = due;
        due = waiting->next;
        count(&lane->counters.waiters_timed_out, 1);
        waiting->call->now_us = now_us;
        waiting_end(waiting, STATUS_TIMEOUT);
    }
    return lane->waiting_due_us;
}

static enum submit join(struct fetch *fetch, struct flight *flight) REQUIRES(fetch->shard->lock)
{
    struct waiting *waiting = &fetch->waiting;
    *waiting = (struct waiting){.lane = fetch->lane,
                                .call = fetch->call,
                                .shard = fetch->shard,
                                .flight = flight,
                                .task = {.run = waiting_woken},
                                .miss = fetch->miss,
                                .waiter = {.owner = waiting},
                                .next = fetch->lane->waiting};
    flight_join(flight, &waiting->waiter);
    if (waiting->next != NULL)
        waiting->next->prev = waiting;
    fetch->lane->waiting = waiting;
    note_deadline(fetch->lane, fetch->call->deadline_us);
    count(&fetch->lane->counters.flights_joined, 1);
    return SUBMIT_PENDING;
}

/* What the rules make of a miss, under the lock: SUBMIT_PENDING: joined; SUBMIT_KEEP: would join,
 * but may not wait; SUBMIT_DONE: go and fetch. */
static enum submit join_or_lead(struct fetch *fetch, bool may_keep) REQUIRES(fetch->shard->lock)
{
    struct cache_lane *lane = fetch->lane;
    struct shard *shard = fetch->shard;
    struct flight *flight = flight_find(&shard->flights, fetch->probe);
    if (flight != NULL && flight->waiter_count < lane->cache->waiters_max)
        return fetch->call->is_passing ? SUBMIT_KEEP : join(fetch, flight);
    if (flight != NULL) {
        count(&lane->counters.waiters_capped, 1);
        return SUBMIT_DONE; /* alone */
    }
    fetch->may_keep = may_keep;
    /* What passes by is answered before anybody could join, or submitted again. */
    if (may_keep && !fetch->call->is_passing) {
        fetch->flight = flight_start(&shard->flights, shard->memory, fetch->probe);
        if (fetch->flight != NULL)
            count(&lane->counters.flights_led, 1);
    }
    return SUBMIT_DONE;
}

static enum submit item_miss(struct fetch *fetch) REQUIRES(fetch->shard->lock)
{
    struct shard *shard = fetch->shard;
    const struct stripe *stripe = stripe_of(&shard->stripes, fetch->probe->hash);
    if (stripe->pending != 0 || shard->stripes.pending_all != 0 ||
        cache_is_quiet(fetch->lane->cache, fetch->call->now_us)) {
        count(&fetch->lane->counters.dropped_pending, 1);
        return SUBMIT_DONE; /* alone: join, lead and keep nothing */
    }
    fetch->token = stripe->ver;
    return join_or_lead(fetch, true);
}

static enum submit page_miss(struct fetch *fetch, const struct partition_ref *partition)
    REQUIRES(fetch->shard->lock)
{
    struct shard *shard = fetch->shard;
    bool has_pending = *stripe_of_partition(&shard->stripes, partition->hash) != 0;
    bool is_shut =
        shard->stripes.pending_all != 0 || cache_is_quiet(fetch->lane->cache, fetch->call->now_us);
    struct node *node = node_find(&shard->nodes, partition);
    if (node == NULL)
        node = node_make(&shard->nodes, partition, has_pending);
    if (node == NULL) {
        count(&fetch->lane->counters.dropped_memory, 1);
        return SUBMIT_DONE;
    }
    fetch->loading.interval = fetch->call->request.range.interval;
    node_load_begin(node, &fetch->loading, has_pending);
    fetch->loading.is_dirty = fetch->loading.is_dirty || is_shut;
    enum submit submit = join_or_lead(fetch, !fetch->loading.is_dirty);
    fetch->loading.flight = fetch->flight;
    if (submit != SUBMIT_DONE)
        node_load_end(&shard->nodes, &fetch->loading);
    return submit;
}

static struct key_interval examined(const struct fetch *fetch)
{
    struct key_interval held = fetch->loading.interval;
    const struct key_interval *seen = &fetch->call->reply.examined;
    if (seen->low.size != 0 && bytes_compare(seen->low, held.low) > 0)
        held.low = seen->low;
    if (bytes_given(seen->high) &&
        (!bytes_given(held.high) || bytes_compare(seen->high, held.high) < 0))
        held.high = seen->high;
    return held;
}

/* The tag of what was fetched, now that the body is known; and its policy, and what that says. */
static unsigned find_tag(struct fetch *fetch, bool *is_kept)
{
    struct cache_lane *lane = fetch->lane;
    const struct reply *reply = &fetch->call->reply;
    bool has_item = reply->status == STATUS_OK && !is_page(fetch) && !reply_is_no_item(reply->body);
    reclaim_begin(lane->reclaimer);
    const struct rules *rules = cache_rules(lane->cache);
    unsigned tag = rules_tag(rules, &fetch->fit, has_item ? reply->body : BYTES_NONE);
    fetch->miss.policy = tag_policy(tag);
    *is_kept = policy_keeps(&rules_terms(rules, fetch->miss.policy)->policy, fetch->miss.kind);
    reclaim_end(lane->reclaimer);
    if (!*is_kept && reply->status == STATUS_OK) {
        fetch->verdict = VERDICT_BYPASS;
        miss_is_off(&fetch->miss);
    }
    return tag;
}

/* NULL if it is not kept. */
static struct entry *make_entry(struct fetch *fetch)
{
    bool is_kept = false;
    unsigned tag = find_tag(fetch, &is_kept);
    if (!is_kept || !fetch->may_keep || fetch->call->reply.status != STATUS_OK)
        return NULL;
    const struct call *call = fetch->call;
    const struct reply *reply = &call->reply;
    struct entry_source source = {
        .probe = fetch->probe,
        .body = reply->body,
        .stored_ms = cache_now_ms(fetch->lane->cache, call->now_us),
        .tag = tag,
    };
    if (is_page(fetch)) {
        source.count = reply->count;
        source.read_bytes =
            reply->read_bytes > UINT32_MAX ? UINT32_MAX : (uint32_t)reply->read_bytes;
        source.interval = examined(fetch);
    } else if (reply_is_no_item(reply->body)) {
        source.is_negative = true;
        source.body = BYTES_NONE;
    }
    struct entry *entry = room_make_entry(fetch->lane, fetch->shard, &source);
    /* What does not exist is guessed too often to be worth a note. */
    fetch->lacks_room = entry == NULL && !source.is_negative;
    return entry;
}

/* True if what was fetched is still what the store holds, as far as this cache can tell. */
static bool is_current(struct fetch *fetch, struct shard *shard) REQUIRES(shard->lock)
{
    struct counters *counters = &fetch->lane->counters;
    if (is_page(fetch)) {
        if (fetch->loading.is_dirty)
            count(&counters->dropped_dirty, 1);
        return !fetch->loading.is_dirty;
    }
    const struct stripe *stripe = stripe_of(&shard->stripes, fetch->probe->hash);
    if (stripe->ver != fetch->token)
        count(&counters->dropped_ver, 1);
    return stripe->ver == fetch->token;
}

static void wake(struct fetch *fetch, struct waiter *waiters)
{
    struct flight *flight = fetch->flight;
    if (waiters != NULL) {
        flight->landed_us = fetch->call->now_us;
        flight->is_shared = flight_reply_set(flight, &fetch->call->reply);
        flight->reply.verdict = fetch->verdict;
        flight->policy = fetch->miss.policy;
    }
    while (waiters != NULL) {
        struct waiting *waiting = waiters->owner;
        waiters = waiters->next;
        waiting->lane->env.post(waiting->lane->env.worker, &waiting->task);
    }
    flight_unref(flight);
}

/* What is stale takes the place of an error, if there is any. */
static void excuse(struct fetch *fetch)
{
    struct call *call = fetch->call;
    if (LIKELY(!refetch_may_excuse(call->reply.status)) || fetch->why == FETCH_AGAIN)
        return;
    if (refetch_excuse(fetch->lane, fetch->probe, call->now_us, call->arena, &call->reply))
        fetch->verdict = VERDICT_STALE;
}

/* The reply is there: keeps it if it may be kept, wakes who waits for it. */
static void land(struct fetch *fetch)
{
    struct cache_lane *lane = fetch->lane;
    struct shard *shard = fetch->shard;
    struct waiter *waiters = NULL;
    bool is_kept = false;
    struct entry *entry = make_entry(fetch);
    excuse(fetch);
    size_t size = entry == NULL ? 0 : entry_size(shard->memory, entry);
    shard_enter(shard, lane->reclaimer);
    if (entry != NULL && is_current(fetch, shard)) {
        is_kept = shard_publish(shard, lane->reclaimer, entry, fetch->loading.node);
        fetch->lacks_room = !is_kept;
        if (!is_kept)
            count(&lane->counters.dropped_memory, 1);
    }
    if (fetch->lacks_room)
        gone_note(&shard->gone, fetch->probe->hash, MISS_NOT_KEPT);
    node_load_end(&shard->nodes, &fetch->loading);
    if (fetch->flight != NULL) {
        flight_detach(&shard->flights, fetch->flight);
        waiters = flight_take_waiters(fetch->flight);
    }
    shard_leave(shard, lane->reclaimer);
    if (fetch->flight != NULL)
        wake(fetch, waiters);
    if (is_kept) {
        count(is_page(fetch) ? &lane->counters.page_fills : &lane->counters.item_fills, 1);
        room_refill(lane, shard, size);
    } else if (entry != NULL) {
        entry_drop(shard->memory, entry);
    }
}

static void end(struct fetch *fetch)
{
    struct call *call = fetch->call;
    call->complete = fetch->complete;
    call->owner = fetch->owner;
    if (fetch->call->now_us > fetch->lane->now_us)
        fetch->lane->now_us = fetch->call->now_us;
    if (fetch->shadow.entry != NULL)
        shadow_compare(fetch->lane, call, fetch->probe, &fetch->shadow);
    else if (fetch->check != NULL)
        check_reply(fetch->lane, call, fetch->check);
    else if (fetch->probe != NULL)
        land(fetch);
    miss_count(fetch->lane, &fetch->miss);
    project(call);
    call->reply.verdict = fetch->verdict;
}

static void completed(struct call *call)
{
    struct fetch *fetch = call->owner;
    end(fetch);
    call->complete(call);
}

static enum submit send(struct fetch *fetch)
{
    struct cache_lane *lane = fetch->lane;
    struct call *call = fetch->call;
    fetch->complete = call->complete;
    fetch->owner = call->owner;
    call->wants_whole = true;
    call->complete = completed;
    call->owner = fetch;
    enum submit submit = lane->below->ops->submit(lane->below, call);
    if (submit == SUBMIT_PENDING)
        return SUBMIT_PENDING;
    if (submit == SUBMIT_DONE) {
        end(fetch);
        return SUBMIT_DONE;
    }
    ensure(call->is_passing && fetch->flight == NULL);
    call->complete = fetch->complete;
    call->owner = fetch->owner;
    if (fetch->loading.node != NULL) {
        mutex_lock(&fetch->shard->lock);
        node_load_end(&fetch->shard->nodes, &fetch->loading);
        mutex_unlock(&fetch->shard->lock);
    }
    return SUBMIT_KEEP;
}

static struct fetch *fetch_make(struct cache_lane *lane, struct call *call, enum verdict verdict,
                                const struct entry *probe)
{
    struct fetch *fetch = arena_alloc(call->arena, sizeof *fetch);
    if (fetch == NULL)
        return NULL;
    *fetch = (struct fetch){.lane = lane, .call = call, .verdict = verdict};
    fetch->miss = (struct miss){
        .row = misses_row(&lane->misses, &lane->cache->memory, call->request.table),
        .kind = call->request.operation == OPERATION_GET_ITEM ? ENTRY_ITEM : ENTRY_PAGE,
        .is_bypass = verdict == VERDICT_BYPASS,
    };
    if (probe == NULL)
        return fetch;
    struct entry *copy = arena_alloc(call->arena, ENTRY_HEADER + (size_t)probe->key_size);
    if (copy == NULL)
        return NULL;
    memcpy(copy, probe, ENTRY_HEADER + (size_t)probe->key_size);
    fetch->probe = copy;
    fetch->shard = cache_shard(lane->cache, probe->hash);
    return fetch;
}

/* Whose it is as far as its key tells. In a section. */
static struct rule_fit fit_of(const struct rules *rules, const struct call *call)
{
    struct rule_subject subject = rule_subject_of(&call->request);
    return rules_fit(rules, &subject);
}

/* The same. */
static void set_fit(struct fetch *fetch, const struct rules *rules, const struct rule_fit *fit)
{
    fetch->fit = *fit;
    fetch->miss.policy = tag_policy(rules_tag(rules, fit, BYTES_NONE));
}

enum submit fetch_shared(struct cache_lane *lane, struct call *call, const struct entry *probe,
                         const struct partition_ref *partition, enum fetch_why why)
{
    enum entry_kind kind = entry_kind(probe);
    const struct rules *rules = cache_rules(lane->cache); /* once: the next have other rules */
    struct rule_fit fit = fit_of(rules, call);
    if (!rules_may_keep(rules, &fit, kind))
        return why == FETCH_AGAIN ? SUBMIT_DONE : fetch_alone(lane, call, MISS_OFF);
    struct fetch *fetch = fetch_make(lane, call, VERDICT_MISS, probe);
    if (fetch != NULL)
        set_fit(fetch, rules, &fit);
    lane_section_end(lane);
    if (fetch == NULL)
        return call_fail(call, STATUS_NO_MEMORY);
    ensure(fetch->probe != NULL && fetch->shard != NULL);
    fetch->why = why;
    if (why == FETCH_AGAIN)
        fetch->miss.row = NULL;
    mutex_lock(&fetch->shard->lock);
    fetch->miss.reason =
        why != FETCH_MISSING ? SHARD_EXPIRED : shard_why_missing(fetch->shard, kind, probe->hash);
    enum submit submit = partition == NULL ? item_miss(fetch) : page_miss(fetch, partition);
    mutex_unlock(&fetch->shard->lock);
    if (submit == SUBMIT_DONE)
        submit = send(fetch);
    else if (submit == SUBMIT_PENDING && call->deadline_us != 0)
        lane_timer_at(lane, call->deadline_us);
    if (submit != SUBMIT_KEEP && why != FETCH_AGAIN) /* what is kept comes again */
        lane_note(lane, call, probe->hash, false);
    return submit;
}

/* In a section, which it ends. */
static enum submit pass_by(struct cache_lane *lane, struct call *call, const struct entry *probe,
                           const struct shadow *shadow, enum miss_reason reason)
{
    const struct rules *rules = cache_rules(lane->cache);
    struct rule_fit fit = fit_of(rules, call);
    struct fetch *fetch = fetch_make(lane, call, VERDICT_BYPASS, probe);
    if (fetch != NULL)
        set_fit(fetch, rules, &fit);
    lane_section_end(lane);
    bool is_checked = fetch != NULL && call->request.is_consistent;
    if (is_checked)
        fetch->check = check_make(lane->cache, call->arena, &call->request);
    if (fetch == NULL || (is_checked && fetch->check == NULL))
        return call_fail(call, STATUS_NO_MEMORY);
    fetch->shadow = *shadow;
    fetch->miss.reason = reason;
    if (shadow->entry != NULL)
        fetch->miss.policy = shadow->policy;
    return send(fetch);
}

enum submit fetch_alone(struct cache_lane *lane, struct call *call, enum miss_reason reason)
{
    static const struct shadow none = {.entry = NULL};
    return pass_by(lane, call, NULL, &none, reason);
}

enum submit fetch_beside(struct cache_lane *lane, struct call *call, const struct entry *probe,
                         const struct entry *entry)
{
    struct shadow shadow = {
        .entry = entry, .stored_ms = entry->stored_ms, .policy = entry_policy(entry)};
    return pass_by(lane, call, probe, &shadow, MISS_SHADOW);
}

const struct rules *fetch_rematch(struct cache_lane *lane, const struct call *call,
                                  const struct entry *probe)
{
    struct cache *cache = lane->cache;
    struct shard *shard = cache_shard(cache, probe->hash);
    struct rule_subject subject = rule_subject_of(&call->request);
    lane_section_end(lane);
    shard_enter(shard, lane->reclaimer);
    const struct rules *rules = cache_rules(cache);
    struct entry *entry = index_get(&cache->index, probe);
    if (entry != NULL) {
        struct rule_fit fit = rules_fit(rules, &subject);
        unsigned tag = rules_tag_entry(rules, &fit, &cache->memory, entry, call->arena);
        shard_retag(shard, entry, tag);
    }
    shard_leave(shard, lane->reclaimer);
    lane_section(lane);
    return cache_rules(cache);
}
