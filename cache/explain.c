#include "cache/explain.h"

#include "cache/item_cache.h"
#include "cache/query_cache.h"
#include "cache/write.h"
#include "protocol/encoding/msgpack.h"
#include "protocol/ensure.h"

#include <string.h>

enum { MEMBERS_MAX = 20 };

/* A map that is being written. */
struct told {
    struct attribute members[MEMBERS_MAX];
    size_t count;
};

static struct value *add(struct told *told, const char *name, enum value_type type)
{
    ensure(told->count < MEMBERS_MAX);
    struct attribute *member = &told->members[told->count++];
    *member = (struct attribute){.name = bytes_text(name), .value.type = type};
    return &member->value;
}

static void add_text(struct told *told, const char *name, struct bytes text)
{
    add(told, name, VALUE_S)->bytes = text;
}

static void add_bytes(struct told *told, const char *name, struct bytes bytes)
{
    add(told, name, VALUE_B)->bytes = bytes_given(bytes) ? bytes : BYTES_LITERAL("");
}

static void add_number(struct told *told, const char *name, uint64_t number)
{
    add(told, name, VALUE_N)->number = number_from_uint(number);
}

static void add_truth(struct told *told, const char *name, bool truth)
{
    add(told, name, VALUE_BOOL)->truth = truth;
}

/* The partition key itself, as the client wrote it, beside its ordered bytes. False: no memory. */
static bool add_partition_key(struct told *told, const struct request *part, struct arena *arena)
{
    const struct key_schema *key = part->index != NULL ? &part->index->key : &part->table->key;
    struct bytes contents;
    struct number number;
    size_t used;
    if (!key_part_read(part->range.partition, key->partition.type, key_schema_is_last(key, false),
                       arena, &contents, &used))
        return false;
    if (key->partition.type != VALUE_N)
        add(told, "PartitionKey", key->partition.type)->bytes = contents;
    else if (number_from_ordered(contents, &number, &used))
        add(told, "PartitionKey", VALUE_N)->number = number;
    return true;
}

/* ">= 5" of a bound that is the number, "> 5" of the next one behind it. 0: it is neither. */
static size_t bound_print(struct bytes bound, const char *exact, const char *behind, char *out)
{
    struct number number;
    size_t used;
    if (!number_from_ordered(bound, &number, &used))
        return 0;
    bool is_behind = used < bound.size;
    if (is_behind && (bound.size != used + 1 || bound.data[used] != 0))
        return 0;
    const char *sign = is_behind ? behind : exact;
    memcpy(out, sign, strlen(sign));
    return strlen(sign) + number_print(&number, out + strlen(sign));
}

/* Numbers between Low and High, which nobody can read in their ordered form. False: no memory. */
static bool add_numbers(struct told *told, const struct request *part, struct arena *arena)
{
    enum { SIGN_MAX = 8 };
    const struct key_schema *key = part->index != NULL ? &part->index->key : &part->table->key;
    struct bytes low = part->range.interval.low, high = part->range.interval.high;
    bool has_low = bytes_given(low) && low.size != 0, has_high = bytes_given(high);
    if (key->sort.type != VALUE_N || !(has_low || has_high))
        return true;
    char *text = arena_alloc(arena, 2 * (NUMBER_TEXT_MAX + SIGN_MAX));
    if (text == NULL)
        return false;
    size_t low_size = has_low ? bound_print(low, ">= ", "> ", text) : 0;
    size_t size = low_size;
    if (has_high)
        size += bound_print(high, low_size != 0 ? ", < " : "< ",
                            low_size != 0 ? ", <= " : "<= ", text + low_size);
    if ((!has_low || low_size != 0) && (!has_high || size != low_size))
        add_text(told, "SortKeys", bytes_of(text, size));
    return true;
}

/* ---- reads ---- */

static void tell_entry(struct told *told, const struct cache *cache, const struct entry *entry,
                       uint32_t ttl_ms, uint32_t now_ms)
{
    uint32_t age_ms = entry_age_ms(entry, now_ms);
    add_number(told, "AgeMs", age_ms);
    add_number(told, "Bytes", entry_size(&cache->memory, entry));
    if (ttl_ms != 0 && age_ms < ttl_ms)
        add_number(told, "ExpiresInMs", ttl_ms - age_ms);
    else if (ttl_ms != 0)
        add_truth(told, "Stale", true);
}

static void tell_missing(struct told *told, struct cache *cache, const struct entry *probe,
                         bool is_expired)
{
    struct shard *shard = cache_shard(cache, probe->hash);
    mutex_lock(&shard->lock);
    unsigned reason =
        is_expired ? SHARD_EXPIRED : shard_why_missing(shard, entry_kind(probe), probe->hash);
    mutex_unlock(&shard->lock);
    add_text(told, "Because", bytes_text(miss_reason_name(reason)));
}

/* By the entry if it is there, else as far as the key tells. In a section. */
static unsigned policy_of(const struct rules *rules, const struct memory *memory,
                          const struct request *part, const struct entry *entry,
                          struct arena *arena)
{
    struct rule_subject subject = rule_subject_of(part);
    struct rule_fit fit = rules_fit(rules, &subject);
    if (entry != NULL && rules_number(rules, entry) < CACHE_POLICIES_MAX)
        return rules_number(rules, entry);
    return tag_policy(entry != NULL ? rules_tag_entry(rules, &fit, memory, entry, arena)
                                    : rules_tag(rules, &fit, BYTES_NONE));
}

/* Whether it is there now, and why not. */
static void tell_cached(struct told *told, struct cache_lane *lane, const struct call *call,
                        const struct request *part, const struct entry *probe)
{
    struct cache *cache = lane->cache;
    uint32_t now_ms = cache_now_ms(cache, call->now_us);
    reclaim_begin(lane->reclaimer);
    const struct rules *rules = cache_rules(cache);
    const struct entry *entry = index_get(&cache->index, probe);
    unsigned policy = policy_of(rules, &cache->memory, part, entry, call->arena);
    enum expiry_kind kind = entry == NULL ? EXPIRY_ITEMS : expiry_kind(entry);
    bool is_there = entry != NULL;
    const struct policy_terms *terms = rules_terms(rules, policy);
    bool is_due = is_there && expiry_is_due(entry, terms->life_ms[kind], now_ms);
    if (is_there && !is_due)
        tell_entry(told, cache, entry, policy_ttl_ms(&terms->policy, kind), now_ms);
    if (terms->policy.is_shadow)
        add_truth(told, "Shadow", true);
    reclaim_end(lane->reclaimer);
    add_text(told, "Policy", bytes_text(cache->policy_names[policy]));
    add_truth(told, "Cached", is_there && !is_due);
    if (!is_there || is_due)
        tell_missing(told, cache, probe, is_due);
}

static bool tell_item(struct told *told, struct cache_lane *lane, const struct call *call,
                      const struct request *part)
{
    add_text(told, "Kind", BYTES_LITERAL("item"));
    add_text(told, "DroppedBy", BYTES_LITERAL("a write of this key"));
    const struct entry *probe =
        item_probe(lane->cache, NULL, call->arena, part->table->id, part->item_key);
    if (probe == NULL)
        return false;
    tell_cached(told, lane, call, part, probe);
    return true;
}

static bool tell_page(struct told *told, struct cache_lane *lane, const struct call *call,
                      const struct request *part)
{
    bool is_scan = part->operation == OPERATION_SCAN;
    add_text(told, "Kind", BYTES_LITERAL("page"));
    add_text(told, "DroppedBy",
             is_scan ? BYTES_LITERAL("a write of any key whose position lies from Low to High")
                     : BYTES_LITERAL("a write in this partition of a sort key from Low to High"));
    if (!is_scan) {
        add_bytes(told, "Partition", part->range.partition);
        if (!add_partition_key(told, part, call->arena) || !add_numbers(told, part, call->arena))
            return false;
    }
    add_bytes(told, "Low", part->range.interval.low);
    if (bytes_given(part->range.interval.high))
        add_bytes(told, "High", part->range.interval.high);
    struct partition_ref partition;
    const struct entry *probe = page_probe_make(lane->cache, call->arena, part, &partition);
    if (probe == NULL)
        return false;
    tell_cached(told, lane, call, part, probe);
    return true;
}

/* Why the cache would not be asked; MISS_COLD if it would. */
static enum miss_reason why_bypassed(const struct rules *rules, const struct request *part)
{
    struct rule_subject subject = rule_subject_of(part);
    struct rule_fit fit = rules_fit(rules, &subject);
    bool is_item = part->operation == OPERATION_GET_ITEM;
    if (part->is_consistent)
        return MISS_CONSISTENT;
    if (!rules_may_keep(rules, &fit, is_item ? ENTRY_ITEM : ENTRY_PAGE))
        return MISS_OFF;
    return is_item || page_is_cacheable(part) ? MISS_COLD : MISS_UNCACHEABLE;
}

static bool tell_read(struct told *told, struct cache_lane *lane, const struct call *call,
                      const struct request *part)
{
    reclaim_begin(lane->reclaimer);
    const struct rules *rules = cache_rules(lane->cache);
    enum miss_reason why = why_bypassed(rules, part);
    unsigned policy = policy_of(rules, &lane->cache->memory, part, NULL, call->arena);
    reclaim_end(lane->reclaimer);
    add_truth(told, "Cacheable", why == MISS_COLD);
    if (why != MISS_COLD) {
        add_text(told, "Policy", bytes_text(lane->cache->policy_names[policy]));
        add_text(told, "Because", bytes_text(miss_reason_name(why)));
        return true;
    }
    return part->operation == OPERATION_GET_ITEM ? tell_item(told, lane, call, part)
                                                 : tell_page(told, lane, call, part);
}

/* ---- writes ---- */

static bool tell_write(struct told *told, struct cache_lane *lane, const struct call *call,
                       const struct request *part)
{
    struct touched touched = {.table_id = part->table->id, .key = part->item_key};
    struct dropped dropped;
    if (!write_would_drop(lane, call->arena, &touched, &dropped))
        return false;
    add_text(told, "Kind", BYTES_LITERAL("write"));
    add_number(told, "Items", dropped.items);
    add_number(told, "Pages", dropped.pages);
    return true;
}

/* ---- the operation ---- */

static enum status bind(struct cache_lane *lane, struct call *call, struct request *part)
{
    struct error *error = &call->reply.error;
    const struct table *table = lane->below->ops->table(lane->below, part->table_name);
    if (table == NULL)
        return error_set(error, STATUS_RESOURCE_NOT_FOUND, "Requested resource not found");
    part->table = NULL;
    return request_bind(part, table, call->arena, error);
}

enum submit explain_submit(struct cache_lane *lane, struct call *call)
{
    lane_section_end(lane);
    if (call->request.part_count != 1)
        return call_fail(
            call, error_set(&call->reply.error, STATUS_VALIDATION, "Explain has exactly one part"));
    struct request *part = &call->request.parts[0];
    struct told told = {.count = 0};
    struct error error;
    enum status status = bind(lane, call, part);
    if (status != STATUS_OK)
        return call_fail(call, status);
    add_text(&told, "Table", part->table->name);
    if (part->index != NULL)
        add_text(&told, "Index", part->index->name);
    bool is_told = part->operation == OPERATION_DELETE_ITEM ? tell_write(&told, lane, call, part)
                                                            : tell_read(&told, lane, call, part);
    struct value map = {.type = VALUE_M, .attributes = told.members, .count = told.count};
    if (is_told && value_normalize(&map, &error) == STATUS_OK)
        call->reply.body = value_encode_arena(&map, call->arena);
    return bytes_given(call->reply.body) ? SUBMIT_DONE : call_fail(call, STATUS_NO_MEMORY);
}
