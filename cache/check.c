#include "cache/check.h"

#include "cache/item_cache.h"
#include "cache/purge.h"
#include "cache/query_cache.h"
#include "cache/write.h"
#include "protocol/encoding/msgpack.h"

/* Forgets a key as if it were just written. */
static void forget(struct cache_lane *lane, struct arena *arena, uint32_t table_id,
                   struct item_key key)
{
    struct touched touched = {.table_id = table_id, .key = key};
    struct dropped dropped;
    if (!write_forget(lane, arena, &touched, SHARD_UNLIKE, &dropped)) {
        purge_table(lane->cache, lane->reclaimer, table_id, SHARD_UNLIKE);
        return;
    }
    count(&lane->counters.invalidated_items, dropped.items);
    count(&lane->counters.invalidated_pages, dropped.pages);
}

/* image  what the store has; not given: nothing */
static void check_image(struct cache_lane *lane, struct arena *arena, const struct entry *probe,
                        struct item_key key, struct bytes image)
{
    reclaim_begin(lane->reclaimer);
    const struct entry *entry = index_get(&lane->cache->index, probe);
    bool is_unlike = false;
    if (entry != NULL && entry_flags(entry) & SLOT_NEGATIVE)
        is_unlike = bytes_given(image);
    else if (entry != NULL)
        is_unlike = !bytes_given(image) || !entry_body_equals(&lane->cache->memory, entry, image);
    reclaim_end(lane->reclaimer);
    if (!is_unlike)
        return;
    count(&lane->counters.unlike_entries, 1);
    forget(lane, arena, entry_table_id(probe), key);
}

/* ---- pages ---- */

enum {
    ITEM_ROOM = 2048,
    ITEM_HEAP_MAX = 64 << 10, /* of one item: its key, and where pages may depend on it */
    PAGES_HEAP_MAX = 16 << 20,
};

/* A page being checked. Not in the request's arena: a page has many thousand small items. */
struct checking {
    struct cache_lane *lane;
    const struct check *check;
    struct arena item;  /* of one at a time */
    struct arena pages; /* of a page that differs, until it is forgotten */
};

struct items {
    struct bytes *items;
    uint32_t count;
};

/* A cached page that differs, in memory. */
struct unlike {
    struct bytes body; /* not given: there is none */
    struct bytes low;  /* where it begins */
};

/* False when it does not begin with items. */
static bool items_begin(struct bytes body, struct msgpack_cursor *cursor, uint32_t *item_count)
{
    uint32_t parts;
    *cursor = msgpack_cursor_of(body);
    return msgpack_read_array(cursor, &parts) && msgpack_read_array(cursor, item_count);
}

/* Valid until the next one. */
static bool key_of(struct checking *checking, struct bytes item, struct item_key *key)
{
    struct error error;
    arena_reset(&checking->item);
    return item_key_build(item, &checking->check->schema, false, &checking->item, key, &error) ==
           STATUS_OK;
}

/* Each item that the page shows against the entry of its key. */
static bool check_entries(struct checking *checking, struct bytes body)
{
    struct cache_lane *lane = checking->lane;
    struct msgpack_cursor cursor;
    uint32_t item_count;
    bool is_read = items_begin(body, &cursor, &item_count);
    for (uint32_t i = 0; is_read && i < item_count; i++) {
        struct probe_room room;
        struct bytes item;
        struct item_key key;
        const struct entry *probe = NULL;
        if (msgpack_skip(&cursor, &item) && key_of(checking, item, &key))
            probe = item_probe(lane->cache, &room, &checking->item, checking->check->table_id, key);
        is_read = probe != NULL;
        if (is_read)
            check_image(lane, &checking->item, probe, key, item);
    }
    return is_read;
}

/* What is cached as the answer to the same request and differs. False without memory. */
static bool find_unlike(struct checking *checking, struct bytes body, struct unlike *out)
{
    struct cache *cache = checking->lane->cache;
    struct arena *arena = &checking->pages;
    *out = (struct unlike){.body = BYTES_NONE};
    reclaim_begin(checking->lane->reclaimer);
    const struct entry *page = index_get(&cache->index, checking->check->probe);
    bool is_unlike = page != NULL && !entry_body_equals(&cache->memory, page, body);
    if (is_unlike) {
        struct bytes low = page_interval(page).low;
        struct bytes found = entry_body(&cache->memory, page, arena);
        out->body = bytes_given(found) ? arena_copy(arena, found) : BYTES_NONE;
        out->low = low.size == 0 ? BYTES_LITERAL("") : arena_copy(arena, low);
    }
    reclaim_end(checking->lane->reclaimer);
    return !is_unlike || (bytes_given(out->body) && bytes_given(out->low));
}

static bool items_read(struct bytes body, struct arena *arena, struct items *out)
{
    struct msgpack_cursor cursor;
    if (!items_begin(body, &cursor, &out->count))
        return false;
    out->items = arena_alloc(arena, ((size_t)out->count + 1) * sizeof out->items[0]);
    bool is_read = out->items != NULL;
    for (uint32_t i = 0; is_read && i < out->count; i++)
        is_read = msgpack_skip(&cursor, &out->items[i]);
    return is_read;
}

static bool forget_items(struct checking *checking, const struct items *items, uint32_t from,
                         uint32_t to)
{
    struct item_key key;
    for (uint32_t i = from; i < to; i++) {
        if (!key_of(checking, items->items[i], &key))
            return false;
        forget(checking->lane, &checking->item, checking->check->table_id, key);
    }
    return true;
}

/* Forgets the keys of what lies between the items at both ends that the pages have in common. */
static bool forget_differences(struct checking *checking, struct bytes body, struct bytes unlike)
{
    struct items now, then;
    if (!items_read(body, &checking->pages, &now) || !items_read(unlike, &checking->pages, &then))
        return false;
    uint32_t shorter = now.count < then.count ? now.count : then.count;
    uint32_t front = 0, back = 0;
    while (front < shorter && bytes_equal(now.items[front], then.items[front]))
        front++;
    while (back < shorter - front &&
           bytes_equal(now.items[now.count - 1 - back], then.items[then.count - 1 - back]))
        back++;
    return forget_items(checking, &now, front, now.count - back) &&
           forget_items(checking, &then, front, then.count - back);
}

/* As if a key there had been written: its pages go, and what is being fetched is not kept.
 * sort  not given: the whole partition */
static void forget_place(struct checking *checking, struct bytes sort)
{
    struct cache_lane *lane = checking->lane;
    const struct partition_ref *partition = &checking->check->partition;
    struct shard *shard = cache_shard(lane->cache, partition->hash);
    uint32_t dropped = 0;
    shard_enter(shard, lane->reclaimer);
    struct node *node = node_find(&shard->nodes, partition);
    if (node != NULL)
        dropped = shard_touch_node(shard, lane->reclaimer, node, sort, SHARD_UNLIKE);
    shard_leave(shard, lane->reclaimer);
    count(&lane->counters.invalidated_pages, dropped);
}

static bool check_page(struct checking *checking, struct bytes body)
{
    const struct check *check = checking->check;
    struct unlike unlike;
    if (check->is_whole && !check_entries(checking, body))
        return false;
    if (check->probe == NULL)
        return true;
    if (!find_unlike(checking, body, &unlike))
        return false;
    if (!bytes_given(unlike.body))
        return true;
    count(&checking->lane->counters.unlike_entries, 1);
    /* Where the keys are not shown, or are those of an index, any page may be as old. */
    bool is_exact = check->is_whole && entry_table_id(check->probe) == check->table_id;
    forget_place(checking, is_exact ? unlike.low : BYTES_NONE);
    return !check->is_whole || forget_differences(checking, body, unlike.body);
}

static void run_page_check(struct cache_lane *lane, const struct check *check, struct bytes body)
{
    _Alignas(16) uint8_t room[ITEM_ROOM];
    struct checking checking = {.lane = lane, .check = check};
    arena_init(&checking.item, room, sizeof room, ITEM_HEAP_MAX);
    arena_init(&checking.pages, NULL, 0, PAGES_HEAP_MAX);
    if (!check_page(&checking, body))
        purge_table(lane->cache, lane->reclaimer, check->table_id, SHARD_UNLIKE);
    arena_deinit(&checking.item);
    arena_deinit(&checking.pages);
}

/* ---- one read ---- */

static bool copy_name(struct bytes *name, struct arena *arena)
{
    if (name->size != 0)
        *name = arena_copy(arena, *name);
    return bytes_given(*name) || name->size == 0;
}

static bool prepare_page(struct check *check, const struct cache *cache, struct arena *arena,
                         const struct request *request)
{
    check->is_whole = request->projection_tree == NULL && request->select != SELECT_COUNT;
    check->schema = request->table->key;
    if (!copy_name(&check->schema.partition.name, arena) ||
        !copy_name(&check->schema.sort.name, arena))
        return false;
    if (!page_is_cacheable(request))
        return true;
    check->probe = page_probe_make(cache, arena, request, &check->partition);
    return check->probe != NULL;
}

struct check *check_make(const struct cache *cache, struct arena *arena,
                         const struct request *request)
{
    struct check *check = arena_alloc(arena, sizeof *check);
    if (check == NULL)
        return NULL;
    *check = (struct check){.table_id = request->table->id,
                            .is_page = request->operation != OPERATION_GET_ITEM};
    if (check->is_page)
        return prepare_page(check, cache, arena, request) ? check : NULL;
    check->probe = item_probe(cache, NULL, arena, check->table_id, request->item_key);
    return check->probe == NULL ? NULL : check;
}

void check_reply(struct cache_lane *lane, const struct call *call, const struct check *check)
{
    const struct reply *reply = &call->reply;
    if (reply->status != STATUS_OK)
        return;
    if (!check->is_page)
        check_image(lane, call->arena, check->probe, call->request.item_key,
                    reply_is_no_item(reply->body) ? BYTES_NONE : reply->body);
    else
        run_page_check(lane, check, reply->body);
}

/* ---- TransactGetItems ---- */

/* On its way to the store. In the call's arena. */
struct seeing {
    struct cache_lane *lane;
    void (*complete)(struct call *call);
    void *owner;
};

static void check_seen(struct seeing *seeing, struct call *call)
{
    struct cache_lane *lane = seeing->lane;
    call->complete = seeing->complete;
    call->owner = seeing->owner;
    for (size_t i = 0; call->reply.status == STATUS_OK && i < call->reply.touched_count; i++) {
        const struct touched *seen = &call->reply.touched[i];
        const struct entry *probe =
            item_probe(lane->cache, NULL, call->arena, seen->table_id, seen->key);
        if (probe != NULL)
            check_image(lane, call->arena, probe, seen->key, seen->image);
        else
            purge_table(lane->cache, lane->reclaimer, seen->table_id, SHARD_UNLIKE);
    }
}

static void seen(struct call *call)
{
    check_seen(call->owner, call);
    call->complete(call);
}

enum submit check_transaction(struct cache_lane *lane, struct call *call)
{
    lane_section_end(lane);
    if (call->is_passing)
        return SUBMIT_KEEP;
    struct seeing *seeing = arena_alloc(call->arena, sizeof *seeing);
    if (seeing == NULL)
        return call_fail(call, STATUS_NO_MEMORY);
    *seeing = (struct seeing){.lane = lane, .complete = call->complete, .owner = call->owner};
    call->complete = seen;
    call->owner = seeing;
    enum submit submit = lane->below->ops->submit(lane->below, call);
    if (submit == SUBMIT_DONE)
        check_seen(seeing, call);
    return submit;
}
