#include "backend/engine/action.h"
#include "backend/engine/record.h"
#include "backend/expression/evaluate.h"
#include "backend/expression/projection.h"

#include "protocol/encoding/msgpack.h"
#include "protocol/ensure.h"
#include "protocol/hash.h"

/* Items are collected behind room for the longest heads, so that a body of any count is one piece:
 * array of 3, array of n, items, ScannedCount, LastEvaluatedKey or nil; with Select COUNT a number
 * in place of the items. */
enum {
    HEADS_MAX = 1 + 5,
    MSGPACK_ARRAY_3 = 0x93,
    MSGPACK_ARRAY_SHORT = 0x90,
    MSGPACK_ARRAY_16 = 0xdc,
    MSGPACK_ARRAY_32 = 0xdd,
    MSGPACK_UINT_8 = 0xcc,
    MSGPACK_UINT_16 = 0xcd,
    MSGPACK_UINT_32 = 0xce,
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

/* Ends the page with the item that reaches Limit or 1 MB, never by looking at the next one. Both
 * count what was examined: a filter leaves out of the page, not out of the reading. */
static bool query_visit(struct kv_read *read, struct bytes key, struct bytes item)
{
    struct action *action = action_of(read);
    struct arena *arena = action->call->arena;
    if (!collect(action, item)) {
        action->has_no_memory = true;
        return false;
    }
    action->examined_count++;
    action->examined_bytes += item_size(item);
    if (action->examined_count != action->call->request.limit &&
        action->examined_bytes < PAGE_BYTES_MAX)
        return true;
    action->is_cut = true;
    action->last_key =
        arena_copy(arena, bytes_of(key.data + RECORD_ITEM_PREFIX, key.size - RECORD_ITEM_PREFIX));
    action->has_no_memory = !bytes_given(action->last_key);
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

static struct item_key last_item_key(const struct action *action)
{
    return (struct item_key){action->last_key, action->call->request.range.partition.size};
}

static bool finish_body(struct action *action, struct bytes *body)
{
    struct buffer *page = &action->page;
    const struct key_schema *schema = &action->call->request.table->key;
    uint8_t head[5];
    size_t size = uint_head(head, action->examined_count);
    if (!buffer_append(page, bytes_of(head, size)))
        return false;
    bool is_whole = action->is_cut
                        ? item_key_encode(last_item_key(action), schema, action->call->arena, page)
                        : buffer_append(page, body_nil);
    if (!is_whole)
        return false;
    bool is_count = action->call->request.select == SELECT_COUNT;
    size = is_count ? uint_head(head, action->count) : array_head(head, action->count);
    size_t begin = HEADS_MAX - 1 - size;
    page->data[begin] = MSGPACK_ARRAY_3;
    memcpy(page->data + begin + 1, head, size);
    *body = bytes_of(page->data + begin, page->size - begin);
    return true;
}

/* What the page depends on: up to the last evaluated key, inclusive, when it was cut. */
static bool fill_examined(struct action *action)
{
    struct call *call = action->call;
    const struct key_interval *asked = &call->request.range.interval;
    struct key_interval *examined = &call->reply.examined;
    *examined = *asked;
    if (action->is_cut) {
        struct bytes sort = item_key_sort(last_item_key(action));
        if (call->request.is_backward) {
            examined->low = sort;
            return true;
        }
        uint8_t *after = arena_alloc(call->arena, sort.size + 1);
        if (after == NULL)
            return false;
        memcpy(after, sort.data, sort.size);
        after[sort.size] = 0;
        examined->high = bytes_of(after, sort.size + 1);
    }
    return true;
}

static enum submit query_done(struct action *action)
{
    struct reply *reply = &action->call->reply;
    if (action->has_no_memory || !finish_body(action, &reply->body) || !fill_examined(action))
        return action_fail(action, STATUS_NO_MEMORY);
    reply->count = action->count;
    reply->read_bytes = action->examined_bytes;
    reply->commit = action->read.commit;
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
static bool place_range(struct action *action)
{
    const struct request *request = &action->call->request;
    const struct key_condition *range = &request->range;
    struct arena *arena = action->call->arena;
    struct kv_read *read = &action->read;
    struct bytes prefix = record_item_key(request->table->id, hash_partition(range->partition),
                                          range->partition, arena);
    if (!bytes_given(prefix))
        return false;
    read->low = concat(prefix, range->interval.low, arena);
    bool is_unbounded = false; /* never: a table id is not all ones */
    if (bytes_given(range->interval.high))
        read->high = concat(prefix, range->interval.high, arena);
    else if (!key_schema_has_sort(&request->table->key))
        read->high = concat(prefix, bytes_of("", 1), arena); /* raw: only this very key */
    else if (!bytes_prefix_end(prefix, arena, &read->high, &is_unbounded))
        return false;
    return bytes_given(read->low) && bytes_given(read->high);
}

enum submit query_begin(struct action *action)
{
    if (action_bind(action) == SUBMIT_DONE)
        return SUBMIT_DONE;
    action->page = action->lane->page;
    action->lane->page = (struct buffer){0};
    action->page.size = 0;
    if (!place_range(action) || !buffer_reserve(&action->page, HEADS_MAX))
        return action_fail(action, STATUS_NO_MEMORY);
    action->page.size = HEADS_MAX;
    action->read.is_backward = action->call->request.is_backward;
    action->read.visit = query_visit;
    action->read.records_max = action->call->request.limit;
    action->read_done = query_done;
    return action_read(action);
}
