#include "cache/write.h"

#include "cache/item_cache.h"
#include "cache/purge.h"
#include "cache/room.h"
#include "protocol/ensure.h"

/* Where pages may depend on a key: in its partition, and in the whole that a Scan goes over. */
enum { PLACE_PARTITION, PLACE_WHOLE, PLACES };
struct place {
    struct partition_ref partition;
    struct pending_key pending;
};

/* One key between intent and done. In the call's arena. */
struct raised {
    struct raised *next;           /* of all */
    struct raised *chain;          /* of those in the same bucket */
    const struct touched *touched; /* at the end: what is told of it; NULL: nothing */
    uint32_t table_id;
    bool is_all, is_index;
    struct item_key key;
    const struct entry *probe;
    struct place places[PLACES];
    uint32_t ver; /* of the item's stripe after the latest intent */
    enum shard_reason reason;
    struct dropped dropped;
    /* Announced, and its definition was there: `fit` says whose it is. An image that was not may be
     * older than another write's, and is not kept. */
    bool is_fitted;
    struct rule_fit fit;
};

enum { LIST_MAX = 8 }; /* above it, keys are found by buckets: transactions have thousands */

/* A write on its way. In the call's arena. */
struct write {
    struct cache_lane *lane;
    struct call *call;
    void (*complete)(struct call *call);
    void *owner;
    struct raised *raised;
    size_t raised_count;
    struct raised **buckets;  /* NULL: few, or no memory */
    size_t bucket_count;      /* a power of two */
    struct raised first, all; /* most writes need one; `all` when there is no memory for more */
    bool is_first_used;
};

static enum shard_reason reason_of(const struct call *call)
{
    if (call->origin == CALL_OF_TIME_TO_LIVE)
        return SHARD_TIME_TO_LIVE;
    if (call->origin == CALL_OF_BATCH)
        return SHARD_BATCH;
    switch (call->request.operation) {
    case OPERATION_PUT_ITEM:
        return SHARD_PUT;
    case OPERATION_UPDATE_ITEM:
        return SHARD_UPDATED;
    case OPERATION_DELETE_ITEM:
        return SHARD_DELETED;
    case OPERATION_TRANSACT_WRITE_ITEMS:
        return SHARD_TRANSACTION;
    default:
        return SHARD_TABLE;
    }
}

static void intent_all(struct cache *cache, struct reclaimer *reclaimer, uint32_t table_id,
                       int raise)
{
    for (uint32_t i = 0; i < cache->shard_count; i++) {
        struct shard *shard = &cache->shards[i];
        mutex_lock(&shard->lock);
        ensure(raise >= 0 || shard->stripes.pending_all > 0);
        shard->stripes.pending_all += (uint32_t)raise;
        mutex_unlock(&shard->lock);
    }
    purge_table(cache, reclaimer, table_id, SHARD_TABLE);
}

static void intent_item(struct cache_lane *lane, struct raised *raised, bool is_first)
{
    struct shard *shard = cache_shard(lane->cache, raised->probe->hash);
    shard_enter(shard, lane->reclaimer);
    struct stripe *stripe = stripe_of(&shard->stripes, raised->probe->hash);
    raised->ver = ++stripe->ver;
    stripe->pending += is_first;
    struct flight *flight = flight_find(&shard->flights, raised->probe);
    if (flight != NULL)
        flight_detach(&shard->flights, flight);
    raised->dropped.items +=
        shard_remove_key(shard, lane->reclaimer, raised->probe, raised->reason);
    shard_leave(shard, lane->reclaimer);
}

static void intent_place(struct cache_lane *lane, struct raised *raised, struct place *place,
                         bool is_first)
{
    struct shard *shard = cache_shard(lane->cache, place->partition.hash);
    shard_enter(shard, lane->reclaimer);
    *stripe_of_partition(&shard->stripes, place->partition.hash) += is_first;
    struct node *node = node_find(&shard->nodes, &place->partition);
    if (node != NULL) {
        if (place->pending.node == NULL)
            node_pending_add(node, &place->pending);
        raised->dropped.pages +=
            shard_touch_node(shard, lane->reclaimer, node, place->pending.sort, raised->reason);
    }
    shard_leave(shard, lane->reclaimer);
}

static void intent(struct cache_lane *lane, struct raised *raised, bool is_first)
{
    if (raised->is_all) {
        intent_all(lane->cache, lane->reclaimer, raised->table_id, is_first);
        return;
    }
    if (!raised->is_index)
        intent_item(lane, raised, is_first);
    for (int i = 0; i < PLACES; i++)
        intent_place(lane, raised, &raised->places[i], is_first);
}

/* entry  the new image, not yet published, or NULL; passes */
static void done_item(struct cache_lane *lane, struct raised *raised, struct entry *entry,
                      bool is_known)
{
    struct shard *shard = cache_shard(lane->cache, raised->probe->hash);
    bool is_kept = false;
    size_t size = entry == NULL ? 0 : entry_size(shard->memory, entry);
    shard_enter(shard, lane->reclaimer);
    struct stripe *stripe = stripe_of(&shard->stripes, raised->probe->hash);
    bool is_alone = stripe->ver == raised->ver;
    stripe->ver++;
    if (is_known) {
        ensure(stripe->pending > 0);
        stripe->pending--;
    }
    if (entry != NULL && is_alone && stripe->pending == 0 && shard->stripes.pending_all == 0)
        is_kept = shard_publish(shard, lane->reclaimer, entry, NULL);
    /* Another write may have installed its own meanwhile. */
    if (!is_kept)
        raised->dropped.items +=
            shard_remove_key(shard, lane->reclaimer, raised->probe, raised->reason);
    shard_leave(shard, lane->reclaimer);
    if (is_kept) {
        count(&lane->counters.write_fills, 1);
        room_refill(lane, shard, size);
    } else if (entry != NULL) {
        count(&lane->counters.dropped_image, 1);
        entry_drop(shard->memory, entry);
    }
}

static void done_place(struct cache_lane *lane, struct raised *raised, struct place *place,
                       bool is_known)
{
    struct shard *shard = cache_shard(lane->cache, place->partition.hash);
    shard_enter(shard, lane->reclaimer);
    if (is_known) {
        uint32_t *pending = stripe_of_partition(&shard->stripes, place->partition.hash);
        ensure(*pending > 0);
        --*pending;
    }
    node_pending_remove(&place->pending);
    struct node *node = node_find(&shard->nodes, &place->partition);
    if (node != NULL) {
        /* Its key is not known to the node any longer: blind while the stripe stays raised. */
        node->is_blind = node->is_blind || !is_known;
        raised->dropped.pages +=
            shard_touch_node(shard, lane->reclaimer, node, place->pending.sort, raised->reason);
    }
    shard_leave(shard, lane->reclaimer);
}

/* Remembers to lower later what stays raised. False when the ring is full: then nothing is kept or
 * joined anywhere for as long, and it may be lowered now. */
static bool keep_raised(struct cache *cache, const struct raised *raised, uint64_t now_us)
{
    uint64_t until_us = now_us + UNKNOWN_WRITE_LIFE_US;
    mutex_lock(&cache->unknown_lock);
    bool is_room = cache->unknown_count < UNKNOWN_WRITES_MAX;
    if (is_room) {
        uint32_t at = (cache->unknown_first + cache->unknown_count++) % UNKNOWN_WRITES_MAX;
        cache->unknown[at] = (struct unknown_write){
            .until_us = until_us,
            .is_all = raised->is_all,
            .is_index = raised->is_index,
            .item_hash = raised->probe == NULL ? 0 : raised->probe->hash,
            .place_hashes = {raised->places[0].partition.hash, raised->places[1].partition.hash},
        };
    } else if (!cache_is_quiet(cache, until_us)) {
        atomic_store_explicit(&cache->quiet_until_us, until_us, memory_order_relaxed);
    }
    mutex_unlock(&cache->unknown_lock);
    return is_room;
}

static void done(struct cache_lane *lane, struct raised *raised, struct entry *entry, bool is_known,
                 uint64_t now_us)
{
    is_known = is_known || !keep_raised(lane->cache, raised, now_us);
    if (raised->is_all) {
        intent_all(lane->cache, lane->reclaimer, raised->table_id, is_known ? -1 : 0);
        return;
    }
    if (!raised->is_index)
        done_item(lane, raised, entry, is_known);
    for (int i = 0; i < PLACES; i++)
        done_place(lane, raised, &raised->places[i], is_known);
    count(&lane->counters.invalidated_items, raised->dropped.items);
    count(&lane->counters.invalidated_pages, raised->dropped.pages);
}

/* A key's position among all: the hash of its partition key, and itself. */
static struct bytes position_of(struct item_key key, struct arena *arena)
{
    uint8_t *position = arena_alloc(arena, POSITION_HASH_BYTES + key.bytes.size);
    if (position == NULL)
        return BYTES_NONE;
    position_write_hash(position, hash_partition(item_key_partition(key)));
    if (key.bytes.size != 0)
        memcpy(position + POSITION_HASH_BYTES, key.bytes.data, key.bytes.size);
    return bytes_of(position, POSITION_HASH_BYTES + key.bytes.size);
}

static bool places_init(const struct cache *cache, struct arena *arena, struct raised *raised)
{
    struct place *places = raised->places;
    places[PLACE_PARTITION].pending.sort = item_key_sort(raised->key);
    places[PLACE_WHOLE].pending.sort = position_of(raised->key, arena);
    return bytes_given(places[PLACE_WHOLE].pending.sort) &&
           partition_ref_make(cache, arena, raised->table_id, item_key_partition(raised->key),
                              &places[PLACE_PARTITION].partition) &&
           partition_ref_make(cache, arena, raised->table_id, BYTES_LITERAL(""),
                              &places[PLACE_WHOLE].partition);
}

/* Fills in what a touched key needs. False without memory. */
static bool raised_init(struct cache_lane *lane, struct arena *arena, struct raised *raised,
                        const struct touched *touched, enum shard_reason reason)
{
    *raised = (struct raised){
        .reason = reason,
        .table_id = touched->table_id,
        .is_all = touched->is_all,
        .is_index = touched->is_index,
        .key = touched->key,
    };
    if (touched->is_all)
        return true;
    if (!touched->is_index)
        raised->probe = item_probe(lane->cache, NULL, arena, touched->table_id, touched->key);
    return (touched->is_index || raised->probe != NULL) && places_init(lane->cache, arena, raised);
}

static bool is_of(const struct raised *raised, const struct touched *touched)
{
    return raised->table_id == touched->table_id && raised->is_all == touched->is_all &&
           bytes_equal(raised->key.bytes, touched->key.bytes);
}

static struct raised **bucket_of(const struct write *write, uint32_t table_id, struct item_key key)
{
    uint64_t hash = hash_partition(key.bytes) + table_id;
    return &write->buckets[hash & (write->bucket_count - 1)];
}

static struct raised *raised_find(const struct write *write, const struct touched *touched)
{
    if (write->buckets == NULL) {
        struct raised *raised = write->raised;
        while (raised != NULL && !is_of(raised, touched))
            raised = raised->next;
        return raised;
    }
    struct raised *raised = *bucket_of(write, touched->table_id, touched->key);
    while (raised != NULL && !is_of(raised, touched))
        raised = raised->chain;
    return raised;
}

static void put_into_bucket(struct write *write, struct raised *raised)
{
    struct raised **bucket = bucket_of(write, raised->table_id, raised->key);
    raised->chain = *bucket;
    *bucket = raised;
}

/* Twice as many buckets as keys, at least; without memory the chains get longer. */
static void make_buckets(struct write *write)
{
    size_t count = 4 * write->raised_count;
    count = (size_t)1 << (64 - __builtin_clzll(count));
    struct raised **buckets = arena_alloc(write->call->arena, count * sizeof *buckets);
    if (buckets == NULL)
        return;
    memset(buckets, 0, count * sizeof *buckets);
    write->buckets = buckets;
    write->bucket_count = count;
    for (struct raised *raised = write->raised; raised != NULL; raised = raised->next)
        put_into_bucket(write, raised);
}

static void raised_add(struct write *write, struct raised *raised)
{
    raised->next = write->raised;
    write->raised = raised;
    write->raised_count++;
    if (write->raised_count > LIST_MAX && 2 * write->raised_count > write->bucket_count)
        make_buckets(write);
    else if (write->buckets != NULL)
        put_into_bucket(write, raised);
}

static struct raised *raised_make(struct write *write, const struct touched *touched)
{
    struct arena *arena = write->call->arena;
    struct raised *raised =
        write->is_first_used ? arena_alloc(arena, sizeof *raised) : &write->first;
    write->is_first_used = true;
    if (raised == NULL ||
        !raised_init(write->lane, arena, raised, touched, reason_of(write->call))) {
        /* Without memory to remember the key: as if everything were touched. */
        if (raised_find(write, &(struct touched){.is_all = true}) != NULL)
            return NULL;
        raised = &write->all;
        *raised = (struct raised){.is_all = true};
    }
    raised_add(write, raised);
    return raised;
}

/* While the call's definitions are there. */
static void raised_fit(struct raised *raised, struct cache *cache, struct reclaimer *reclaimer,
                       const struct request *request)
{
    const struct table *table = request->table;
    for (size_t i = 0; table == NULL && i < request->part_count; i++)
        if (request->parts[i].table != NULL && request->parts[i].table->id == raised->table_id)
            table = request->parts[i].table;
    if (raised->is_all || raised->is_index || table == NULL || table->id != raised->table_id)
        return;
    struct rule_subject subject = {.table = table,
                                   .partition = item_key_partition(raised->key),
                                   .sort = item_key_sort(raised->key)};
    reclaim_begin(reclaimer);
    raised->fit = rules_fit(cache_rules(cache), &subject);
    reclaim_end(reclaimer);
    raised->is_fitted = true;
}

void write_intent(void *arg, struct call *call)
{
    struct cache_lane *lane = arg;
    struct write *write = call->owner;
    ensure(write->lane == lane && !lane->is_in_section);
    for (size_t i = 0; i < call->reply.touched_count; i++) {
        struct raised *raised = raised_find(write, &call->reply.touched[i]);
        bool is_first = raised == NULL;
        if (is_first)
            raised = raised_make(write, &call->reply.touched[i]);
        if (is_first && raised != NULL)
            raised_fit(raised, lane->cache, lane->reclaimer, &call->request);
        if (raised != NULL)
            intent(lane, raised, is_first);
    }
}

/* The new image as an entry, where it may be of use. */
static struct entry *image_entry(struct write *write, const struct raised *raised)
{
    const struct call *call = write->call;
    struct cache *cache = write->lane->cache;
    const struct touched *touched = raised->touched;
    if (call->reply.status != STATUS_OK || !raised->is_fitted || touched == NULL ||
        !touched->is_image_known || cache_is_quiet(cache, call->now_us))
        return NULL;
    reclaim_begin(write->lane->reclaimer);
    const struct rules *rules = cache_rules(cache);
    unsigned tag = rules_tag(rules, &raised->fit, touched->image);
    bool is_kept = policy_keeps(&rules_terms(rules, tag_policy(tag))->policy, ENTRY_ITEM);
    reclaim_end(write->lane->reclaimer);
    if (!is_kept)
        return NULL;
    struct entry_source source = {
        .probe = raised->probe,
        .body = touched->image,
        .is_negative = !bytes_given(touched->image),
        .stored_ms = cache_now_ms(cache, call->now_us),
        .tag = tag,
    };
    return room_make_entry(write->lane, cache_shard(cache, raised->probe->hash), &source);
}

/* Has each key know what is told of it: of the latest attempt, the first if there are several. */
static void find_touched(struct write *write)
{
    const struct reply *reply = &write->call->reply;
    for (size_t i = 0; i < reply->touched_count; i++) {
        struct raised *raised = raised_find(write, &reply->touched[i]);
        if (raised != NULL && raised->touched == NULL)
            raised->touched = &reply->touched[i];
    }
}

/* What a write that happened touched without having announced it: better late than never. */
static void intent_late(struct write *write)
{
    struct call *call = write->call;
    for (size_t i = 0; i < call->reply.touched_count; i++) {
        if (raised_find(write, &call->reply.touched[i]) != NULL)
            continue;
        struct raised *raised = raised_make(write, &call->reply.touched[i]);
        if (raised != NULL)
            intent(write->lane, raised, true);
    }
}

static void end(struct write *write)
{
    struct call *call = write->call;
    call->complete = write->complete;
    call->owner = write->owner;
    if (call->now_us > write->lane->now_us)
        write->lane->now_us = call->now_us;
    bool is_known = call->reply.status != STATUS_OUTCOME_UNKNOWN;
    count(&write->lane->counters.writes, 1);
    if (call->reply.status == STATUS_OK || !is_known)
        intent_late(write);
    if (!is_known)
        count(&write->lane->counters.writes_unknown, 1);
    find_touched(write);
    for (struct raised *raised = write->raised; raised != NULL; raised = raised->next)
        done(write->lane, raised, image_entry(write, raised), is_known, call->now_us);
}

static void completed(struct call *call)
{
    struct write *write = call->owner;
    end(write);
    call->complete(call);
}

enum submit write_submit(struct cache_lane *lane, struct call *call)
{
    lane_section_end(lane);
    struct write *write = arena_alloc(call->arena, sizeof *write);
    if (write == NULL)
        return call_fail(call, STATUS_NO_MEMORY);
    *write = (struct write){
        .lane = lane, .call = call, .complete = call->complete, .owner = call->owner};
    call->complete = completed;
    call->owner = write;
    enum submit submit = lane->below->ops->submit(lane->below, call);
    if (submit == SUBMIT_PENDING)
        return SUBMIT_PENDING;
    if (submit == SUBMIT_KEEP) {
        ensure(call->is_passing && write->raised == NULL);
        call->complete = write->complete;
        call->owner = write->owner;
        return SUBMIT_KEEP;
    }
    end(write);
    return SUBMIT_DONE;
}

bool write_forget(struct cache_lane *lane, struct arena *arena, const struct touched *touched,
                  enum shard_reason reason, struct dropped *out)
{
    struct raised raised;
    if (!raised_init(lane, arena, &raised, touched, reason))
        return false;
    intent(lane, &raised, true);
    done_item(lane, &raised, NULL, true);
    for (int i = 0; i < PLACES; i++)
        done_place(lane, &raised, &raised.places[i], true);
    *out = raised.dropped;
    return true;
}

static uint32_t count_pages(struct cache *cache, const struct place *place,
                            const struct place *except)
{
    struct shard *shard = cache_shard(cache, place->partition.hash);
    bool is_near = except != NULL && except->partition.hash == place->partition.hash &&
                   bytes_equal(except->partition.bytes, place->partition.bytes);
    mutex_lock(&shard->lock);
    const struct node *node = node_find(&shard->nodes, &place->partition);
    uint32_t count = node == NULL
                         ? 0
                         : page_tree_count(&node->pages, shard->memory, place->pending.sort,
                                           is_near ? except->pending.sort : BYTES_NONE);
    mutex_unlock(&shard->lock);
    return count;
}

bool write_would_drop(struct cache_lane *lane, struct arena *arena, const struct touched *touched,
                      const struct touched *except, struct dropped *out)
{
    struct raised raised, left_out;
    if (!raised_init(lane, arena, &raised, touched, SHARD_PUT) ||
        (except != NULL && !raised_init(lane, arena, &left_out, except, SHARD_PUT)))
        return false;
    *out = (struct dropped){.items = 0};
    if (raised.probe != NULL) {
        reclaim_begin(lane->reclaimer);
        out->items = index_get(&lane->cache->index, raised.probe) != NULL;
        reclaim_end(lane->reclaimer);
    }
    for (int i = 0; i < PLACES; i++)
        out->pages += count_pages(lane->cache, &raised.places[i],
                                  except == NULL ? NULL : &left_out.places[i]);
    return true;
}

static void lower_item(struct cache *cache, uint32_t hash)
{
    struct shard *shard = cache_shard(cache, hash);
    mutex_lock(&shard->lock);
    struct stripe *stripe = stripe_of(&shard->stripes, hash);
    stripe->ver++;
    stripe->pending--;
    mutex_unlock(&shard->lock);
}

static void lower_place(struct cache *cache, uint32_t hash)
{
    struct shard *shard = cache_shard(cache, hash);
    mutex_lock(&shard->lock);
    --*stripe_of_partition(&shard->stripes, hash);
    mutex_unlock(&shard->lock);
}

void write_expire_unknown(struct cache *cache, struct reclaimer *reclaimer, uint64_t now_us)
{
    for (;;) {
        struct unknown_write oldest = {0};
        mutex_lock(&cache->unknown_lock);
        bool is_due =
            cache->unknown_count > 0 && cache->unknown[cache->unknown_first].until_us <= now_us;
        if (is_due) {
            oldest = cache->unknown[cache->unknown_first];
            cache->unknown_first = (cache->unknown_first + 1) % UNKNOWN_WRITES_MAX;
            cache->unknown_count--;
        }
        mutex_unlock(&cache->unknown_lock);
        if (!is_due)
            return;
        if (oldest.is_all) {
            intent_all(cache, reclaimer, 0, -1);
            continue;
        }
        if (!oldest.is_index)
            lower_item(cache, oldest.item_hash);
        for (int i = 0; i < PLACES; i++)
            lower_place(cache, oldest.place_hashes[i]);
    }
}
