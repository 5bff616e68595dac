#include "cache/item_cache.h"

#include "backend/expression/projection.h"
#include "cache/fetch.h"

enum { READ_UNIT_BYTES = 4096 };

const struct entry *item_probe(const struct cache *cache, struct probe_room *room,
                               struct arena *arena, uint32_t table_id, struct item_key key)
{
    size_t key_size = ENTRY_KEY_PREFIX + key.bytes.size;
    struct entry *probe = probe_begin(room, arena, key_size);
    if (probe == NULL)
        return NULL;
    uint8_t *at = entry_key_begin(probe->key, ENTRY_ITEM, table_id);
    if (key.bytes.size != 0)
        memcpy(at, key.bytes.data, key.bytes.size);
    probe->hash = cache_hash(cache, bytes_of(probe->key, key_size));
    return probe;
}

static void count_hit(struct cache_lane *lane, bool is_negative, size_t size)
{
    count(&lane->counters.item_hits, 1);
    if (is_negative)
        count(&lane->counters.negative_hits, 1);
    /* Absent items cost a unit, too. */
    count(&lane->counters.half_units_saved,
          size <= READ_UNIT_BYTES ? 1 : (size + READ_UNIT_BYTES - 1) / READ_UNIT_BYTES);
}

/* True if the entry answers the call. */
static bool hit(struct cache_lane *lane, struct call *call, const struct cache_policy *policy,
                struct entry *entry)
{
    uint32_t now_ms = cache_now_ms(lane->cache, call->now_us);
    bool is_negative = entry_flags(entry) & SLOT_NEGATIVE;
    uint32_t ttl_ms = cache_ttl_ms(policy, is_negative ? EXPIRY_NEGATIVES : EXPIRY_ITEMS);
    if (expiry_is_due(entry, ttl_ms, now_ms))
        return false;
    struct bytes body =
        is_negative ? BODY_NO_ITEM : entry_body(&lane->cache->memory, entry, call->arena);
    const struct path_node *projection = call->request.projection_tree;
    size_t whole_size = body.size;
    if (bytes_given(body) && !is_negative && UNLIKELY(projection != NULL))
        body = projection_apply(projection, body, call->arena);
    if (!bytes_given(body))
        return false;
    policy_touch(entry);
    struct reply *reply = &call->reply;
    reply->status = STATUS_OK;
    reply->verdict = VERDICT_HIT;
    reply->age_ms = entry_age_ms(entry, now_ms);
    reply->count = !is_negative;
    reply->read_bytes = is_negative ? 0 : whole_size;
    reply->body = body;
    count_hit(lane, is_negative, whole_size);
    lane_note(lane, call, entry->hash, true);
    return true;
}

enum submit item_get(struct cache_lane *lane, struct call *call)
{
    struct probe_room room;
    struct request *request = &call->request;
    const struct entry *probe =
        item_probe(lane->cache, &room, call->arena, request->table->id, request->item_key);
    if (probe == NULL)
        return call_fail(call, STATUS_NO_MEMORY);
    lane_section(lane);
    const struct cache_policy *policy = cache_policy(lane->cache);
    if (UNLIKELY(request->is_consistent || !policy->is_enabled))
        return request->is_consistent ? fetch_alone(lane, call, probe, MISS_CONSISTENT)
                                      : fetch_alone(lane, call, NULL, MISS_OFF);
    struct entry *entry = index_get(&lane->cache->index, probe);
    if (LIKELY(entry != NULL) && LIKELY(hit(lane, call, policy, entry)))
        return SUBMIT_DONE;
    return fetch_shared(lane, call, probe, NULL, entry != NULL);
}
