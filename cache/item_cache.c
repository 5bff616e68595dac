#include "cache/item_cache.h"

#include "backend/expression/projection.h"
#include "cache/fetch.h"
#include "cache/refetch.h"
#include "cache/shadow.h"

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

static void count_hit(struct cache_lane *lane, unsigned policy, bool is_negative, size_t size)
{
    /* Absent items cost a unit, too. */
    uint64_t units = size <= READ_UNIT_BYTES ? 1 : (size + READ_UNIT_BYTES - 1) / READ_UNIT_BYTES;
    count(&lane->counters.item_hits, 1);
    if (is_negative)
        count(&lane->counters.negative_hits, 1);
    count(&lane->counters.half_units_saved, units);
    if (UNLIKELY(policy != 0))
        tally_hit(&lane->tallies, &lane->cache->memory, policy, ENTRY_ITEM, units);
}

/* True if the entry answers the call. */
static bool hit(struct cache_lane *lane, struct call *call, const struct rules *rules,
                struct entry *entry)
{
    uint32_t now_ms = cache_now_ms(lane->cache, call->now_us);
    bool is_negative = entry_flags(entry) & SLOT_NEGATIVE;
    unsigned policy = rules_number(rules, entry);
    call->reply.verdict = VERDICT_HIT;
    if (UNLIKELY(policy >= CACHE_POLICIES_MAX) ||
        (UNLIKELY(expiry_is_due(
             entry, rules->due_ms[policy][is_negative ? EXPIRY_NEGATIVES : EXPIRY_ITEMS],
             now_ms)) &&
         !refetch_look(lane, call, rules, policy, entry)))
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
    reply->age_ms = entry_age_ms(entry, now_ms);
    reply->count = !is_negative;
    reply->read_bytes = is_negative ? 0 : whole_size;
    reply->body = body;
    count_hit(lane, policy, is_negative, whole_size);
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
    const struct rules *rules = cache_rules(lane->cache);
    if (UNLIKELY(request->is_consistent))
        return fetch_alone(lane, call, MISS_CONSISTENT);
    struct entry *entry;
    while (LIKELY((entry = index_get(&lane->cache->index, probe)) != NULL)) {
        if (LIKELY(hit(lane, call, rules, entry)))
            return SUBMIT_DONE;
        if (rules_number(rules, entry) < CACHE_POLICIES_MAX)
            break;
        rules = fetch_rematch(lane, call, probe); /* once, unless they change again */
    }
    if (entry != NULL && shadow_is_due(lane, call, rules, entry))
        return fetch_beside(lane, call, probe, entry);
    return fetch_shared(lane, call, probe, NULL, entry != NULL ? FETCH_EXPIRED : FETCH_MISSING);
}
