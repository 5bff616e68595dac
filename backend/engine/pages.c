#include "backend/engine/action.h"
#include "backend/engine/record.h"
#include "backend/expression/evaluate.h"
#include "backend/expression/projection.h"

#include "protocol/encoding/msgpack.h"
#include "protocol/ensure.h"
#include "protocol/hash.h"
#include "protocol/index_key.h"

/* Items are collected behind room for the longest heads, so that a body of any count is one piece:
 * array of 3, array of n, items, ScannedCount, LastEvaluatedKey or nil; with Select COUNT a number
 * in place of the items. */
enum {
    HEADS_MAX = 1 + 5,
    HASH_BYTES = RECORD_ITEM_PREFIX - RECORD_ID_BYTES,
    MSGPACK_ARRAY_3 = 0x93,
    MSGPACK_ARRAY_SHORT = 0x90,
    MSGPACK_ARRAY_16 = 0xdc,
    MSGPACK_ARRAY_32 = 0xdd,
    MSGPACK_UINT_8 = 0xcc,
    MSGPACK_UINT_16 = 0xcd,
    MSGPACK_UINT_32 = 0xce,
    NODES_OF_A_RECORD = 10, /* of a filter: as much work as reading a record */
};

static struct action *action_of(const struct kv_read *read)
{
    return read->owner;
}

/* ---- collecting, on whatever thread reads ---- */

/* Takes into the page what the request wants to see of an item. */
static bool collect(struct action *action, struct bytes item)
{
    const struct request *request = &action->call->request;
    struct buffer *page = &action->page;
    if (!condition_holds(request->filter_tree, item))
        return true;
    action->count++;
    if (request->select == SELECT_COUNT)
        return true;
    if (request->projection_tree == NULL)
        return buffer_append(page, item);
    if (!buffer_reserve(page, item.size))
        return false;
    page->size += projection_write(request->projection_tree, item, page->data + page->size);
    return true;
}

/* What is examined of a local index is what is projected, though whole items lie there. */
size_t examined_size(struct action *action, struct bytes item)
{
    const struct secondary_index *index = action->call->request.index;
    struct buffer *page = &action->page;
    if (index == NULL || !index->is_local || index->shown == NULL)
        return item_size(item);
    if (!buffer_reserve(page, item.size)) {
        action->has_no_memory = true;
        return 0;
    }
    uint8_t *scratch = page->data + page->size; /* behind the page, which stays as it is */
    return item_size(bytes_of(scratch, projection_write(index->shown, item, scratch)));
}

/* What a local index does not project, DynamoDB fetches from the table; here it lies at hand, but
 * is charged the same. Source: developer guide, "Local secondary indexes", "Read capacity units".
 */
static bool needs_fetches(const struct request *request)
{
    const struct secondary_index *index = request->index;
    if (index == NULL || !index->is_local || index->shown == NULL)
        return false;
    if (request->projection_tree == NULL)
        return true;
    const struct path_node *node = request->projection_tree->first;
    while (node != NULL && index_shows(index, node->name))
        node = node->next;
    return node != NULL;
}

/* How large the page is, of DynamoDB's 1 MB: each fetch counts for itself. */
static uint64_t page_bytes(const struct action *action)
{
    if (!action->is_fetching)
        return action->examined_bytes;
    uint64_t units = capacity_of_read(action->examined_bytes, false) + action->fetched_units;
    return units * READ_UNIT_BYTES;
}

/* Remembers where the page ends. */
static bool cut(struct action *action, struct bytes key, struct bytes item)
{
    struct arena *arena = action->call->arena;
    const struct request *request = &action->call->request;
    action->is_cut = true;
    action->last_place =
        arena_copy(arena, bytes_of(key.data + RECORD_ID_BYTES, key.size - RECORD_ID_BYTES));
    if (!bytes_given(action->last_place))
        return false;
    if (request->index == NULL)
        return true;
    action->last_map = projection_apply(request->index->keys, item, arena);
    return bytes_given(action->last_map);
}

/* Ends the page with the item that reaches Limit or 1 MB, never by looking at the next one. Both
 * count what was examined: a filter leaves out of the page, not out of the reading. */
static bool page_visit(struct kv_read *read, struct bytes key, struct bytes item)
{
    struct action *action = action_of(read);
    if (!collect(action, item)) {
        action->has_no_memory = true;
        return false;
    }
    action->examined_count++;
    action->examined_bytes += examined_size(action, item);
    if (action->is_fetching)
        action->fetched_units += capacity_of_read(item_size(item), false);
    if (action->has_no_memory)
        return false;
    if (action->examined_count != action->call->request.limit &&
        page_bytes(action) < PAGE_BYTES_MAX)
        return true;
    action->has_no_memory = !cut(action, key, item);
    return false;
}

/* ---- the reply ---- */

static size_t array_head(uint8_t head[5], uint32_t count)
{
    if (count < 16) {
        head[0] = (uint8_t)(MSGPACK_ARRAY_SHORT | count);
        return 1;
    }
    bool is_short = count < 65536;
    head[0] = is_short ? MSGPACK_ARRAY_16 : MSGPACK_ARRAY_32;
    size_t bytes = is_short ? 2 : 4;
    for (size_t i = 0; i < bytes; i++)
        head[1 + i] = (uint8_t)(count >> 8 * (bytes - 1 - i));
    return 1 + bytes;
}

static size_t uint_head(uint8_t head[5], uint32_t number)
{
    if (number < 128) {
        head[0] = (uint8_t)number;
        return 1;
    }
    size_t bytes = number < 256 ? 1 : number < 65536 ? 2 : 4;
    head[0] = bytes == 1 ? MSGPACK_UINT_8 : bytes == 2 ? MSGPACK_UINT_16 : MSGPACK_UINT_32;
    for (size_t i = 0; i < bytes; i++)
        head[1 + i] = (uint8_t)(number >> 8 * (bytes - 1 - i));
    return 1 + bytes;
}

/* The last item's place behind the hash. */
static struct bytes last_key(const struct action *action)
{
    return bytes_of(action->last_place.data + HASH_BYTES, action->last_place.size - HASH_BYTES);
}

/* Of a table, the key says all; of an index, the item has said it. */
static bool append_last_key(struct action *action, struct buffer *page)
{
    const struct request *request = &action->call->request;
    const struct key_schema *schema = &request->table->key;
    struct item_key key;
    if (request->index != NULL)
        return buffer_append(page, action->last_map);
    ensure(item_key_split(last_key(action), schema, &key));
    return item_key_encode(key, schema, action->call->arena, page);
}

static bool finish_body(struct action *action, struct bytes *body)
{
    struct buffer *page = &action->page;
    uint8_t head[5];
    size_t size = uint_head(head, action->examined_count);
    if (!buffer_append(page, bytes_of(head, size)))
        return false;
    if (action->is_cut ? !append_last_key(action, page) : !buffer_append(page, body_nil))
        return false;
    bool is_count = action->call->request.select == SELECT_COUNT;
    size = is_count ? uint_head(head, action->count) : array_head(head, action->count);
    size_t begin = HEADS_MAX - 1 - size;
    page->data[begin] = MSGPACK_ARRAY_3;
    memcpy(page->data + begin + 1, head, size);
    *body = bytes_of(page->data + begin, page->size - begin);
    return true;
}

/* Where the last item stands in the interval: its sort key, or of a Scan its position. */
static struct bytes last_in_interval(const struct action *action)
{
    const struct request *request = &action->call->request;
    struct bytes key = last_key(action);
    size_t partition_size = request->range.partition.size;
    return request->operation == OPERATION_SCAN
               ? action->last_place
               : bytes_of(key.data + partition_size, key.size - partition_size);
}

/* What the page depends on: up to the last evaluated key, inclusive, when it was cut. */
static bool fill_examined(struct action *action)
{
    struct call *call = action->call;
    struct key_interval *examined = &call->reply.examined;
    *examined = call->request.range.interval;
    if (!action->is_cut)
        return true;
    struct bytes last = last_in_interval(action);
    if (!call->request.is_backward)
        return bytes_next(last, call->arena, &examined->high);
    examined->low = last;
    return true;
}

/* Where the reading begins: it may go on into other partitions, and is charged to the first. */
static struct position begin_of(const struct request *request)
{
    const struct key_interval *interval = &request->range.interval;
    struct bytes low = interval->low;
    struct position position = {.key = request->range.partition};
    if (request->operation != OPERATION_SCAN) {
        position.hash = hash_partition(request->range.partition);
        position.end = !request->is_backward         ? low
                       : bytes_given(interval->high) ? interval->high
                                                     : BYTES_LITERAL("\xff\xff\xff\xff");
        return position;
    }
    for (size_t i = 0; i < HASH_BYTES && low.size >= HASH_BYTES; i++)
        position.hash = position.hash << 8 | low.data[i];
    if (low.size > HASH_BYTES)
        position.end = bytes_of(low.data + HASH_BYTES, low.size - HASH_BYTES);
    return position;
}

static void charge(struct action *action)
{
    const struct request *request = &action->call->request;
    struct position begin = begin_of(request);
    action_charge(action, request->index, &begin,
                  capacity_of_read(action->examined_bytes, request->is_consistent));
    if (action->fetched_units == 0)
        return;
    begin.end = BYTES_NONE; /* a place in the index */
    action_charge(action, NULL, &begin, action->fetched_units * (request->is_consistent ? 2 : 1));
}

static enum submit page_done(struct action *action)
{
    struct call *call = action->call;
    struct reply *reply = &call->reply;
    if (action->has_no_memory || !finish_body(action, &reply->body) || !fill_examined(action))
        return action_fail(action, STATUS_NO_MEMORY);
    reply->count = action->count;
    reply->read_bytes = page_bytes(action);
    reply->commit = action->read.commit;
    charge(action);
    capacity_tell(&call->request, reply, call->arena);
    return SUBMIT_DONE;
}

/* ---- the range ---- */

static struct bytes concat(struct bytes a, struct bytes b, struct arena *arena)
{
    uint8_t *both = arena_alloc(arena, a.size + b.size);
    if (both == NULL)
        return BYTES_NONE;
    memcpy(both, a.data, a.size);
    if (b.size != 0)
        memcpy(both + a.size, b.data, b.size);
    return bytes_of(both, a.size + b.size);
}

/* Record keys from the partition and the interval of sort keys. */
static bool place_query(struct action *action)
{
    const struct request *request = &action->call->request;
    const struct key_condition *range = &request->range;
    struct arena *arena = action->call->arena;
    struct kv_read *read = &action->read;
    struct bytes prefix = record_item_key(
        request_range_id(request), hash_partition(range->partition), range->partition, arena);
    bool is_raw = request->index == NULL && !key_schema_has_sort(&request->table->key);
    if (!bytes_given(prefix))
        return false;
    read->low = concat(prefix, range->interval.low, arena);
    bool is_unbounded = false; /* never: a table id is not all ones */
    if (bytes_given(range->interval.high))
        read->high = concat(prefix, range->interval.high, arena);
    else if (is_raw)
        read->high = concat(prefix, bytes_of("", 1), arena); /* only this very key */
    else if (!bytes_prefix_end(prefix, arena, &read->high, &is_unbounded))
        return false;
    return bytes_given(read->low) && bytes_given(read->high);
}

/* Record keys from the interval of positions. */
static bool place_scan(struct action *action)
{
    const struct request *request = &action->call->request;
    const struct key_interval *interval = &request->range.interval;
    struct arena *arena = action->call->arena;
    struct kv_read *read = &action->read;
    struct bytes low, high;
    if (!record_items_range(request_range_id(request), arena, &low, &high))
        return false;
    read->low = concat(low, interval->low, arena);
    read->high = bytes_given(interval->high) ? concat(low, interval->high, arena) : high;
    return bytes_given(read->low) && bytes_given(read->high);
}

/* The lane lends its page's memory. */
static enum submit read_page(struct action *action, bool (*place)(struct action *action))
{
    if (action_bind(action) == SUBMIT_DONE)
        return SUBMIT_DONE;
    const struct request *request = &action->call->request;
    struct position begin = begin_of(request);
    action->is_fetching = needs_fetches(request); /* from the table, which pays in any case */
    if (!throughput_admits(action, action->definition, request->index, &begin, false))
        return throughput_refuse(action, action->definition, request->index);
    action->page = action->lane->page;
    action->lane->page = (struct buffer){0};
    action->page.size = 0;
    if (!place(action) || !buffer_reserve(&action->page, HEADS_MAX))
        return action_fail(action, STATUS_NO_MEMORY);
    action->page.size = HEADS_MAX;
    action->read.visit = page_visit;
    action->read.records_max = action->call->request.limit;
    action->read.weight = 1 + (uint32_t)expression_nodes(request->filter_tree) / NODES_OF_A_RECORD;
    action->read_done = page_done;
    return action_read(action);
}

enum submit query_begin(struct action *action)
{
    action->read.is_backward = action->call->request.is_backward;
    return read_page(action, place_query);
}

enum submit scan_begin(struct action *action)
{
    action->read.is_large = true;
    return read_page(action, place_scan);
}
