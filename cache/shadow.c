#include "cache/shadow.h"

#include "protocol/encoding/json.h"
#include "protocol/encoding/msgpack.h"

#include <stdio.h>

enum { TELL_EVERY_US = 1000 * 1000, KEY_SHOWN = 200 };

bool shadow_is_due(const struct cache_lane *lane, const struct call *call,
                   const struct rules *rules, const struct entry *entry)
{
    unsigned policy = rules_number(rules, entry);
    if (policy >= CACHE_POLICIES_MAX)
        return false;
    const struct cache_policy *terms = &rules_terms(rules, policy)->policy;
    uint32_t age_ms = entry_age_ms(entry, cache_now_ms(lane->cache, call->now_us));
    uint32_t ttl_ms = policy_ttl_ms(terms, expiry_kind(entry));
    return terms->is_shadow && policy_keeps(terms, entry_kind(entry)) && age_ms < AGE_MAX_MS &&
           (ttl_ms == 0 || age_ms < ttl_ms);
}

static bool is_same(const struct memory *memory, const struct entry *entry, struct bytes body)
{
    return entry_flags(entry) & SLOT_NEGATIVE ? reply_is_no_item(body)
                                              : entry_body_equals(memory, entry, body);
}

/* Whose turn it is to tell. */
static bool may_tell(struct cache *cache, uint64_t now_us)
{
    uint64_t after_us = atomic_load_explicit(&cache->tell_after_us, memory_order_relaxed);
    return cache->on_event != NULL && now_us >= after_us &&
           atomic_compare_exchange_strong(&cache->tell_after_us, &after_us, now_us + TELL_EVERY_US);
}

static void tell(const struct cache *cache, const struct call *call, const struct shadow *shadow)
{
    char detail[TABLE_NAME_MAX + KEY_SHOWN + 200];
    const struct request *request = &call->request;
    bool is_item = request->operation == OPERATION_GET_ITEM;
    struct buffer json = {0};
    struct msgpack_cursor cursor =
        msgpack_cursor_of(is_item ? request->key : request->key_condition.values);
    bool has_key = cursor.at != NULL && json_from_plain_bytes(&cursor, &json);
    struct bytes key = has_key ? buffer_bytes(&json) : BYTES_LITERAL("-");
    (void)snprintf(detail, sizeof detail, "policy=%s table=%.*s kind=%s age_ms=%u key=%.*s",
                   cache->policy_names[shadow->policy], (int)request->table_name.size,
                   (const char *)request->table_name.data, is_item ? "item" : "query",
                   cache_now_ms(cache, call->now_us) - shadow->stored_ms,
                   (int)(key.size < KEY_SHOWN ? key.size : KEY_SHOWN), (const char *)key.data);
    buffer_deinit(&json);
    cache->on_event(cache->on_event_arg, "cache_differs", detail);
}

void shadow_compare(struct cache_lane *lane, const struct call *call, const struct entry *probe,
                    const struct shadow *shadow)
{
    struct cache *cache = lane->cache;
    if (call->reply.status != STATUS_OK)
        return;
    reclaim_begin(lane->reclaimer);
    const struct entry *entry = index_get(&cache->index, probe);
    bool is_there =
        entry != NULL && entry == shadow->entry && entry->stored_ms == shadow->stored_ms;
    bool is_alike = is_there && is_same(&cache->memory, entry, call->reply.body);
    reclaim_end(lane->reclaimer);
    if (!is_there)
        return;
    tally_shadow(&lane->tallies, &cache->memory, shadow->policy, is_alike);
    if (!is_alike && may_tell(cache, call->now_us))
        tell(cache, call, shadow);
}
