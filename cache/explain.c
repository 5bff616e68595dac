#include "cache/explain.h"

#include "backend/expression/projection.h"
#include "cache/item_cache.h"
#include "cache/query_cache.h"
#include "cache/write.h"
#include "protocol/encoding/msgpack.h"
#include "protocol/ensure.h"
#include "protocol/index_key.h"

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

static struct rule_fit fit_of(const struct rules *rules, const struct request *part)
{
    struct rule_subject subject = rule_subject_of(part);
    return rules_fit(rules, &subject);
}

/* By the entry if it is there, else by what is stored. In a section. */
static unsigned policy_of(const struct rules *rules, const struct memory *memory,
                          const struct request *part, const struct entry *entry,
                          struct bytes stored, struct arena *arena)
{
    struct rule_fit fit = fit_of(rules, part);
    /* Read once: another thread may match the entry by later rules meanwhile. */
    unsigned policy = entry == NULL ? CACHE_POLICIES_MAX : rules_number(rules, entry);
    if (policy < CACHE_POLICIES_MAX)
        return policy;
    return tag_policy(entry != NULL ? rules_tag_entry(rules, &fit, memory, entry, arena)
                                    : rules_tag(rules, &fit, stored));
}

/* Whether it is there now, and why not. */
static void tell_cached(struct told *told, struct cache_lane *lane, const struct call *call,
                        const struct request *part, struct bytes stored, const struct entry *probe)
{
    struct cache *cache = lane->cache;
    uint32_t now_ms = cache_now_ms(cache, call->now_us);
    reclaim_begin(lane->reclaimer);
    const struct rules *rules = cache_rules(cache);
    const struct entry *entry = index_get(&cache->index, probe);
    unsigned policy = policy_of(rules, &cache->memory, part, entry, stored, call->arena);
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
                      const struct request *part, struct bytes stored)
{
    add_text(told, "Kind", BYTES_LITERAL("item"));
    add_text(told, "DroppedBy", BYTES_LITERAL("a write of this key"));
    const struct entry *probe =
        item_probe(lane->cache, NULL, call->arena, part->table->id, part->item_key);
    if (probe == NULL)
        return false;
    tell_cached(told, lane, call, part, stored, probe);
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
    tell_cached(told, lane, call, part, BYTES_NONE, probe);
    return true;
}

/* Why nothing would be kept of it; MISS_COLD if it would. */
static enum miss_reason why_bypassed(const struct rules *rules, unsigned policy,
                                     const struct request *part)
{
    bool is_item = part->operation == OPERATION_GET_ITEM;
    if (part->is_consistent)
        return MISS_CONSISTENT;
    if (!policy_keeps(&rules_terms(rules, policy)->policy, is_item ? ENTRY_ITEM : ENTRY_PAGE))
        return MISS_OFF;
    return is_item || page_is_cacheable(part) ? MISS_COLD : MISS_UNCACHEABLE;
}

static bool tell_read(struct told *told, struct cache_lane *lane, const struct call *call,
                      const struct request *part, struct bytes stored)
{
    reclaim_begin(lane->reclaimer);
    const struct rules *rules = cache_rules(lane->cache);
    unsigned policy = policy_of(rules, &lane->cache->memory, part, NULL, stored, call->arena);
    enum miss_reason why = why_bypassed(rules, policy, part);
    reclaim_end(lane->reclaimer);
    add_truth(told, "Cacheable", why == MISS_COLD);
    if (why != MISS_COLD) {
        add_text(told, "Policy", bytes_text(lane->cache->policy_names[policy]));
        add_text(told, "Because", bytes_text(miss_reason_name(why)));
        return true;
    }
    return part->operation == OPERATION_GET_ITEM ? tell_item(told, lane, call, part, stored)
                                                 : tell_page(told, lane, call, part);
}

/* ---- writes ---- */

/* What an index holds of an item, see backend/engine/write.c; a place not given: nothing. */
struct held {
    struct item_key place;
    struct bytes value;
};

/* item  not given: there is none. False without memory. */
static bool hold(const struct secondary_index *index, struct bytes item, struct item_key primary,
                 struct arena *arena, struct held *out)
{
    struct error ignored;
    *out = (struct held){.value = BYTES_NONE};
    if (!bytes_given(item))
        return true;
    enum status status = index_key_build(item, index, primary, arena, &out->place, &ignored);
    if (status != STATUS_OK) /* older than the index, it may not fit */
        out->place.bytes = BYTES_NONE;
    if (!bytes_given(out->place.bytes))
        return status != STATUS_NO_MEMORY;
    bool is_whole = index->is_local || index->shown == NULL;
    out->value = is_whole ? item : projection_apply(index->shown, item, arena);
    return bytes_given(out->value);
}

/* Pages of an index that go when `before` becomes `after`. False without memory. */
static bool count_index(struct cache_lane *lane, struct arena *arena,
                        const struct secondary_index *index, const struct held *before,
                        const struct held *after, uint64_t *pages)
{
    bool was_there = bytes_given(before->place.bytes), is_there = bytes_given(after->place.bytes);
    bool stays = was_there && is_there && bytes_equal(before->place.bytes, after->place.bytes);
    struct touched left = {.table_id = index->id, .key = before->place, .is_index = true};
    struct touched entered = {.table_id = index->id, .key = after->place, .is_index = true};
    struct dropped dropped;
    *pages = 0;
    if (stays && bytes_equal(before->value, after->value))
        return true;
    if (was_there) {
        if (!write_would_drop(lane, arena, &left, NULL, &dropped))
            return false;
        *pages += dropped.pages;
    }
    if (is_there && !stays) {
        if (!write_would_drop(lane, arena, &entered, was_there ? &left : NULL, &dropped))
            return false;
        *pages += dropped.pages;
    }
    return true;
}

/* stored  the item as it is; not given: there is none. False without memory. */
static bool tell_indexes(struct told *told, struct cache_lane *lane, struct arena *arena,
                         const struct request *part, struct bytes stored)
{
    const struct table *table = part->table;
    struct bytes image = part->operation == OPERATION_PUT_ITEM ? part->item : BYTES_NONE;
    struct attribute *members = arena_alloc(arena, table->index_count * sizeof *members);
    if (members == NULL)
        return false;
    for (size_t i = 0; i < table->index_count; i++) {
        const struct secondary_index *index = &table->indexes[i];
        struct held before, after;
        uint64_t pages;
        if (!hold(index, stored, part->item_key, arena, &before) ||
            !hold(index, image, part->item_key, arena, &after) ||
            !count_index(lane, arena, index, &before, &after, &pages))
            return false;
        members[i] = (struct attribute){
            .name = index->name, .value = {.type = VALUE_N, .number = number_from_uint(pages)}};
    }
    struct value *indexes = add(told, "Indexes", VALUE_M);
    indexes->attributes = members;
    indexes->count = table->index_count;
    return true;
}

static bool tell_write(struct told *told, struct cache_lane *lane, const struct call *call,
                       const struct request *part, struct bytes stored)
{
    struct touched touched = {.table_id = part->table->id, .key = part->item_key};
    struct dropped dropped;
    if (!write_would_drop(lane, call->arena, &touched, NULL, &dropped))
        return false;
    add_text(told, "Kind", BYTES_LITERAL("write"));
    add_number(told, "Items", dropped.items);
    add_number(told, "Pages", dropped.pages);
    return part->table->index_count == 0 || tell_indexes(told, lane, call->arena, part, stored);
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

static bool is_write(const struct request *part)
{
    return part->operation == OPERATION_PUT_ITEM || part->operation == OPERATION_DELETE_ITEM;
}

/* stored  the item, if wants_item(); not given: there is none */
static enum submit tell(struct cache_lane *lane, struct call *call, const struct request *part,
                        struct bytes stored)
{
    struct told told = {.count = 0};
    struct error error;
    add_text(&told, "Table", part->table->name);
    if (part->index != NULL)
        add_text(&told, "Index", part->index->name);
    bool is_told = is_write(part) ? tell_write(&told, lane, call, part, stored)
                                  : tell_read(&told, lane, call, part, stored);
    struct value map = {.type = VALUE_M, .attributes = told.members, .count = told.count};
    if (is_told && value_normalize(&map, &error) == STATUS_OK)
        call->reply.body = value_encode_arena(&map, call->arena);
    return bytes_given(call->reply.body) ? SUBMIT_DONE : call_fail(call, STATUS_NO_MEMORY);
}

/* ---- the stored item ---- */

/* An Explain and its read. In the call's arena. */
struct explained {
    struct cache_lane *lane;
    struct call *call;
    struct call read;
};

static enum submit item_read(struct explained *explained)
{
    struct call *call = explained->call;
    const struct reply *reply = &explained->read.reply;
    if (reply->status != STATUS_OK) {
        call->reply.error = reply->error;
        return call_fail(call, reply->status);
    }
    return tell(explained->lane, call, &call->request.parts[0],
                reply_is_no_item(reply->body) ? BYTES_NONE : reply->body);
}

static void completed(struct call *read)
{
    struct explained *explained = read->owner;
    struct call *call = explained->call;
    call->now_us = read->now_us;
    /* Its definition may have gone meanwhile. */
    enum status status = bind(explained->lane, call, &call->request.parts[0]);
    (void)(status == STATUS_OK ? item_read(explained) : call_fail(call, status));
    call->complete(call);
}

/* True if the answer depends on what is stored. */
static bool wants_item(struct cache_lane *lane, const struct request *part)
{
    if (part->operation != OPERATION_GET_ITEM)
        return is_write(part) && part->table->index_count != 0;
    reclaim_begin(lane->reclaimer);
    const struct rules *rules = cache_rules(lane->cache);
    struct rule_fit fit = fit_of(rules, part);
    bool is_by_attribute = rules_want_body(rules, &fit);
    reclaim_end(lane->reclaimer);
    return is_by_attribute;
}

/* The key attributes, in the arena; not given: no memory. */
static struct bytes key_of(const struct request *part, struct arena *arena)
{
    const struct key_schema *schema = &part->table->key;
    const struct bytes names[] = {schema->partition.name, schema->sort.name};
    if (part->operation != OPERATION_PUT_ITEM)
        return part->key;
    const struct path_node *tree =
        names_tree(names, key_schema_has_sort(schema) ? 2 : 1, arena, NULL);
    return tree == NULL ? BYTES_NONE : projection_apply(tree, part->item, arena);
}

/* Past the cache, of which nothing is changed. */
static enum submit read_item(struct cache_lane *lane, struct call *call, const struct request *part)
{
    struct explained *explained = arena_alloc(call->arena, sizeof *explained);
    struct bytes key = key_of(part, call->arena);
    if (explained == NULL || !bytes_given(key))
        return call_fail(call, STATUS_NO_MEMORY);
    *explained = (struct explained){
        .lane = lane,
        .call = call,
        .read = {.request = {.operation = OPERATION_GET_ITEM,
                             .table_name = part->table_name,
                             .key = key,
                             .is_consistent = true},
                 .arena = call->arena,
                 .now_us = call->now_us,
                 .deadline_us = call->deadline_us,
                 .is_cancelled = call->is_cancelled,
                 .is_passing = call->is_passing,
                 .complete = completed,
                 .owner = explained},
    };
    enum submit submit = lane->below->ops->submit(lane->below, &explained->read);
    return submit == SUBMIT_DONE ? item_read(explained) : submit;
}

enum submit explain_submit(struct cache_lane *lane, struct call *call)
{
    lane_section_end(lane);
    if (call->request.part_count != 1)
        return call_fail(
            call, error_set(&call->reply.error, STATUS_VALIDATION, "Explain has exactly one part"));
    struct request *part = &call->request.parts[0];
    enum status status = bind(lane, call, part);
    if (status != STATUS_OK)
        return call_fail(call, status);
    return wants_item(lane, part) ? read_item(lane, call, part)
                                  : tell(lane, call, part, BYTES_NONE);
}
