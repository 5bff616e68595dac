#include "cache/check.h"

#include "cache/item_cache.h"
#include "cache/purge.h"
#include "cache/write.h"

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
    struct touched touched = {.table_id = entry_table_id(probe), .key = key};
    struct dropped dropped;
    if (!write_forget(lane, arena, &touched, SHARD_UNLIKE, &dropped)) {
        purge_table(lane->cache, lane->reclaimer, touched.table_id, SHARD_UNLIKE);
        return;
    }
    count(&lane->counters.invalidated_items, dropped.items);
    count(&lane->counters.invalidated_pages, dropped.pages);
}

void check_item(struct cache_lane *lane, const struct call *call, const struct entry *probe)
{
    const struct reply *reply = &call->reply;
    if (reply->status == STATUS_OK)
        check_image(lane, call->arena, probe, call->request.item_key,
                    reply_is_no_item(reply->body) ? BYTES_NONE : reply->body);
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
