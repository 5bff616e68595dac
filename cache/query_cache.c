#include "cache/query_cache.h"

#include "cache/fetch.h"
#include "cache/refetch.h"
#include "cache/shadow.h"
#include "protocol/ensure.h"

enum {
    FORM_MAX = 4096, /* of a filter and a projection, in a key: larger ones are not cached */
};

static uint8_t *put(uint8_t *at, const void *data, size_t size)
{
    if (size != 0)
        memcpy(at, data, size);
    return at + size;
}

static uint8_t *put_bytes(uint8_t *at, struct bytes bytes)
{
    uint32_t size = bytes_given(bytes) ? (uint32_t)bytes.size : UINT32_MAX;
    at = put(at, &size, sizeof size);
    return put(at, bytes.data, bytes.size);
}

/* Everything that the page depends on, in one form: what names and placeholders stood for. */
static const struct entry *page_probe(const struct cache *cache, struct probe_room *room,
                                      struct arena *arena, const struct request *request,
                                      const struct partition_ref *partition)
{
    const struct key_interval *interval = &request->range.interval;
    struct bytes low = interval->low.size == 0 ? BYTES_LITERAL("") : interval->low;
    size_t key_size = ENTRY_KEY_PREFIX + 1 + 4 * sizeof(uint32_t) + partition->bytes.size +
                      low.size + interval->high.size + request->page_form.size;
    struct entry *probe = probe_begin(room, arena, key_size);
    if (probe == NULL)
        return NULL;
    uint8_t *at = entry_key_begin(probe->key, ENTRY_PAGE, request_range_id(request));
    *at++ = request->is_backward;
    at = put(at, &request->limit, sizeof request->limit);
    at = put_bytes(at, partition->bytes);
    at = put_bytes(at, low);
    at = put_bytes(at, interval->high);
    at = put(at, request->page_form.data, request->page_form.size);
    ensure(at == probe->key + key_size);
    /* The partition's top bits, so that the page lives in its node's shard. */
    uint32_t own = cache_hash(cache, bytes_of(probe->key, key_size));
    uint32_t shard_mask = ~(uint32_t)(UINT64_C(0xFFFFFFFF) >> cache->shard_bits);
    probe->hash = (partition->hash & shard_mask) | (own & ~shard_mask);
    return probe;
}

struct bytes page_partition(const struct entry *page)
{
    const uint8_t *at = page->key + ENTRY_KEY_PREFIX + 1 + sizeof(uint32_t);
    uint32_t size;
    memcpy(&size, at, sizeof size);
    return bytes_of(at + sizeof size, size);
}

static void count_hit(struct cache_lane *lane, unsigned policy, uint32_t read_bytes)
{
    uint64_t units = ((uint64_t)read_bytes + READ_UNIT_BYTES - 1) / READ_UNIT_BYTES;
    units = units > 0 ? units : 1;
    count(&lane->counters.page_hits, 1);
    count(&lane->counters.half_units_saved, units);
    if (UNLIKELY(policy != 0))
        tally_hit(&lane->tallies, &lane->cache->memory, policy, ENTRY_PAGE, units);
}

static bool hit(struct cache_lane *lane, struct call *call, const struct rules *rules,
                struct entry *page)
{
    uint32_t now_ms = cache_now_ms(lane->cache, call->now_us);
    unsigned policy = rules_number(rules, page);
    call->reply.verdict = VERDICT_HIT;
    if (UNLIKELY(policy >= CACHE_POLICIES_MAX) ||
        (UNLIKELY(expiry_is_due(page, rules->due_ms[policy][EXPIRY_PAGES], now_ms)) &&
         !refetch_look(lane, call, rules, policy, page)))
        return false;
    struct bytes body = entry_body(&lane->cache->memory, page, call->arena);
    if (!bytes_given(body))
        return false;
    policy_touch(page);
    struct page_head head = page_head_of(page);
    struct reply *reply = &call->reply;
    reply->status = STATUS_OK;
    reply->age_ms = entry_age_ms(page, now_ms);
    reply->count = head.count;
    reply->read_bytes = head.read_bytes;
    reply->body = body;
    count_hit(lane, policy, head.read_bytes);
    lane_note(lane, call, page->hash, true);
    return true;
}

bool page_is_cacheable(const struct request *request)
{
    return request->page_form.size <= FORM_MAX;
}

const struct entry *page_probe_make(const struct cache *cache, struct arena *arena,
                                    const struct request *request, struct partition_ref *partition)
{
    return partition_ref_make(cache, arena, request_range_id(request), request->range.partition,
                              partition)
               ? page_probe(cache, NULL, arena, request, partition)
               : NULL;
}

static enum miss_reason why_alone(const struct request *request, const struct rules *rules)
{
    if (request->is_consistent)
        return MISS_CONSISTENT;
    return rules->keeps_pages ? MISS_UNCACHEABLE : MISS_OFF;
}

enum submit query_get(struct cache_lane *lane, struct call *call)
{
    struct probe_room room;
    struct request *request = &call->request;
    lane_section(lane);
    const struct rules *rules = cache_rules(lane->cache);
    if (UNLIKELY(request->is_consistent || !rules->keeps_pages ||
                 request->page_form.size > FORM_MAX))
        return fetch_alone(lane, call, why_alone(request, rules));
    struct partition_ref partition;
    const struct entry *probe = NULL;
    if (partition_ref_make(lane->cache, call->arena, request_range_id(request),
                           request->range.partition, &partition))
        probe = page_probe(lane->cache, &room, call->arena, request, &partition);
    if (probe == NULL)
        return call_fail(call, STATUS_NO_MEMORY);
    struct entry *page;
    while (LIKELY((page = index_get(&lane->cache->index, probe)) != NULL)) {
        if (LIKELY(hit(lane, call, rules, page)))
            return SUBMIT_DONE;
        if (rules_number(rules, page) < CACHE_POLICIES_MAX)
            break;
        rules = fetch_rematch(lane, call, probe); /* once, unless they change again */
    }
    if (page != NULL && shadow_is_due(lane, call, rules, page))
        return fetch_beside(lane, call, probe, page);
    return fetch_shared(lane, call, probe, &partition,
                        page != NULL ? FETCH_EXPIRED : FETCH_MISSING);
}
