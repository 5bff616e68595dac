#include "backend/batch.h"

#include "protocol/encoding/msgpack.h"
#include "protocol/ensure.h"

enum {
    PART_ARENA = 1024,
    BATCH_READ_BYTES_MAX = 16 << 20, /* of DynamoDB's item sizes; API reference, BatchGetItem */
    ENCODING_MIN = 4, /* an item has no more bytes for DynamoDB than so many times its encoding: an
                         empty list in a list has 4, and is one byte */
    HEADS_MAX = 5 + 5 + 5 + BATCH_GET_MAX * 2,
};

struct batch;

/* One request of the batch. In the batch's arena. */
struct part {
    struct call call;
    struct batch *batch;
    struct arena arena;
    struct bytes body; /* kept from a reply, in `arena` */
};

struct batch {
    struct call *call;
    struct part *parts;
    size_t pending;
    bool is_submitting; /* so that a completion cannot be the last one yet */
};

/* ---- checking ---- */

enum status part_bind(struct lane *lane, struct call *call, struct request *part)
{
    struct error *error = &call->reply.error;
    const struct table *table = lane->ops->table(lane, part->table_name);
    if (table == NULL) {
        enum status status = table_name_check(part->table_name, error);
        return status != STATUS_OK
                   ? status
                   : error_set(error, STATUS_RESOURCE_NOT_FOUND, "Requested resource not found");
    }
    if (part->table != table)
        part->table = NULL;
    return request_bind(part, table, call->arena, error);
}

enum status parts_refuse(struct call *call, enum status status)
{
    struct request *request = &call->request;
    struct error error;
    for (size_t i = 0; i < request->part_count; i++) {
        enum status first = request_check(&request->parts[i], call->arena, &error);
        if (first == STATUS_OK)
            continue;
        call->reply.error = error;
        return first;
    }
    return status;
}

static enum status bind_parts(struct lane *lane, struct call *call)
{
    struct request *request = &call->request;
    for (size_t i = 0; i < request->part_count; i++) {
        enum status status = part_bind(lane, call, &request->parts[i]);
        if (status != STATUS_OK)
            return parts_refuse(call, status);
    }
    return STATUS_OK;
}

enum status parts_check_distinct(const struct request *request, const char *text,
                                 struct error *error)
{
    for (size_t i = 1; i < request->part_count; i++)
        for (size_t k = 0; k < i; k++)
            if (request->parts[i].table == request->parts[k].table &&
                bytes_equal(request->parts[i].item_key.bytes, request->parts[k].item_key.bytes))
                return error_set(error, STATUS_VALIDATION, "%s", text);
    return STATUS_OK;
}

static enum status check_count(const struct request *request, struct error *error)
{
    size_t most = request->operation == OPERATION_BATCH_GET_ITEM ? BATCH_GET_MAX : BATCH_WRITE_MAX;
    if (request->part_count == 0)
        return error_set(error, STATUS_VALIDATION,
                         "1 validation error detected: Value '{}' at 'requestItems' failed to "
                         "satisfy constraint: Member must have length greater than or equal to 1");
    if (request->part_count > most)
        return error_set(error, STATUS_VALIDATION, "Too many items requested for the %s call",
                         operation_name(request->operation));
    return STATUS_OK;
}

static enum status check(struct lane *lane, struct call *call)
{
    struct error *error = &call->reply.error;
    enum status status = check_count(&call->request, error);
    if (status == STATUS_OK)
        status = bind_parts(lane, call);
    return status == STATUS_OK
               ? parts_check_distinct(&call->request,
                                      "Provided list of item keys contains duplicates", error)
               : status;
}

/* ---- the reply ---- */

/* What the same request may not meet again. The writes of a batch can be repeated, so that an
 * unknown outcome is one of them. */
static bool may_pass(enum status status)
{
    return status_is_retryable(status) || status == STATUS_OUTCOME_UNKNOWN;
}

static uint8_t *put_array(uint8_t *at, size_t count)
{
    if (count < 16) {
        *at++ = (uint8_t)(0x90 | count);
        return at;
    }
    *at++ = 0xdc;
    *at++ = (uint8_t)(count >> 8);
    *at++ = (uint8_t)count;
    return at;
}

/* True if the part is to be repeated by the client: it failed, or did not fit into the reply.
 * is_large  the items may be too many */
static bool is_left(const struct part *part, bool is_large, size_t *read_bytes)
{
    if (part->call.reply.status != STATUS_OK)
        return true;
    size_t size = is_large && part->call.reply.count != 0 ? item_size(part->body) : 0;
    bool is_over = *read_bytes != 0 && *read_bytes + size > BATCH_READ_BYTES_MAX;
    if (!is_over)
        *read_bytes += size;
    return is_over;
}

static enum submit encode(struct batch *batch, bool is_get)
{
    struct call *call = batch->call;
    size_t count = call->request.part_count, size = HEADS_MAX, read_bytes = 0, left = 0;
    uint8_t places[BATCH_GET_MAX];
    for (size_t i = 0; i < count; i++)
        size += batch->parts[i].body.size + 1;
    uint8_t *begin = arena_alloc(call->arena, size);
    if (begin == NULL)
        return call_fail(call, STATUS_NO_MEMORY);
    uint8_t *at = begin;
    bool is_large = is_get && size > BATCH_READ_BYTES_MAX / ENCODING_MIN;
    if (is_get)
        at = put_array(put_array(at, 2), count);
    for (size_t i = 0; i < count; i++) {
        const struct part *part = &batch->parts[i];
        bool is_unprocessed = is_left(part, is_large, &read_bytes);
        if (is_unprocessed)
            places[left++] = (uint8_t)i;
        if (!is_get)
            continue;
        struct bytes body = is_unprocessed ? BYTES_LITERAL("\xc0") : part->body;
        memcpy(at, body.data, body.size);
        at += body.size;
        call->reply.count += is_unprocessed ? 0 : part->call.reply.count;
    }
    at = put_array(at, left);
    memcpy(at, places, left); /* all below 128 */
    call->reply.body = bytes_of(begin, (size_t)(at - begin) + left);
    return SUBMIT_DONE;
}

/* A hit is one that all parts were, as old as the oldest of them. */
static void merge(struct reply *reply, const struct reply *part, bool is_first)
{
    if (is_first)
        reply->verdict = part->verdict;
    else if (reply->verdict == VERDICT_STALE || part->verdict == VERDICT_STALE)
        reply->verdict = VERDICT_STALE;
    else if (reply->verdict != part->verdict)
        reply->verdict = VERDICT_MISS;
    if (part->age_ms > reply->age_ms)
        reply->age_ms = part->age_ms;
    if (part->commit > reply->commit)
        reply->commit = part->commit;
    reply->read_bytes += part->read_bytes;
}

/* Of all parts that were not hits. */
static bool tell_capacity(struct batch *batch)
{
    struct call *call = batch->call;
    size_t parts = call->request.part_count, count = 0;
    for (size_t i = 0; i < parts; i++)
        count += batch->parts[i].call.reply.consumed_count;
    struct consumed *all = arena_alloc(call->arena, (count + 1) * sizeof *all);
    if (all == NULL)
        return false;
    call->reply.consumed = all;
    for (size_t i = 0; i < parts; i++) {
        const struct reply *part = &batch->parts[i].call.reply;
        if (part->consumed_count != 0)
            memcpy(all + call->reply.consumed_count, part->consumed,
                   part->consumed_count * sizeof *all);
        call->reply.consumed_count += part->consumed_count;
    }
    capacity_tell(&call->request, &call->reply, call->arena);
    call->reply.consumed_count = 0; /* they lie in the parts */
    return true;
}

/* Of all parts that were written. */
static void tell_collections(struct batch *batch)
{
    struct call *call = batch->call;
    size_t parts = call->request.part_count;
    struct collection_size *all = arena_alloc(call->arena, parts * sizeof *all);
    if (all == NULL)
        return;
    call->reply.collections = all;
    for (size_t i = 0; i < parts; i++)
        if (batch->parts[i].call.reply.collection_count != 0)
            all[call->reply.collection_count++] = batch->parts[i].call.reply.collections[0];
    collections_tell(&call->request, &call->reply, call->arena);
    call->reply.collection_count = 0; /* they lie in the parts */
}

/* NULL without memory: who asks for them can do without. */
static const uint64_t *commits_of(const struct batch *batch)
{
    size_t count = batch->call->request.part_count;
    uint64_t *commits = arena_alloc(batch->call->arena, count * sizeof *commits);
    for (size_t i = 0; commits != NULL && i < count; i++)
        commits[i] = batch->parts[i].call.reply.commit;
    return commits;
}

/* The error that the whole batch gives, or NULL. An error that would come again is one, unless a
 * part has been written already (its table changed between the two): "failed" must not be said of a
 * batch of which something is there. Then the part is left to be repeated, and tells by itself. */
static const struct reply *final_of(const struct batch *batch)
{
    size_t count = batch->call->request.part_count, failed = 0;
    bool is_write = batch->call->request.operation == OPERATION_BATCH_WRITE_ITEM;
    bool is_written = false;
    const struct reply *final = NULL;
    for (size_t i = 0; i < count; i++) {
        const struct reply *part = &batch->parts[i].call.reply;
        bool is_ok = part->status == STATUS_OK;
        failed += !is_ok;
        is_written |= is_write && (is_ok || part->status == STATUS_OUTCOME_UNKNOWN);
        if (!is_ok && (final == NULL || (may_pass(final->status) && !may_pass(part->status))))
            final = part;
    }
    if (final == NULL || may_pass(final->status))
        return failed == count ? final : NULL;
    return is_written ? NULL : final;
}

static enum submit finish(struct batch *batch)
{
    struct call *call = batch->call;
    struct reply *reply = &call->reply;
    reply_init(reply);
    for (size_t i = 0; i < call->request.part_count; i++)
        merge(reply, &batch->parts[i].call.reply, i == 0);
    const struct reply *final = final_of(batch);
    if (final != NULL) {
        reply->error = final->error;
        return call_fail(call, final->status);
    }
    if (reply->verdict != VERDICT_HIT && reply->verdict != VERDICT_STALE)
        reply->age_ms = 0;
    if (call->request.operation == OPERATION_BATCH_WRITE_ITEM && call->request.wants_commit)
        reply->commits = commits_of(batch);
    if (call->request.capacity != CAPACITY_NONE && !tell_capacity(batch))
        return call_fail(call, STATUS_NO_MEMORY);
    if (call->request.wants_metrics)
        tell_collections(batch);
    return encode(batch, call->request.operation == OPERATION_BATCH_GET_ITEM);
}

/* The batch lies in its call's arena; what its parts took from the heap goes here. */
static void free_parts(struct batch *batch)
{
    for (size_t i = 0; i < batch->call->request.part_count; i++)
        arena_deinit(&batch->parts[i].arena);
}

/* ---- the parts ---- */

/* Its names are those of a definition that goes with the part's call. */
static bool keep_consumed(struct part *part)
{
    struct reply *reply = &part->call.reply;
    if (reply->consumed_count == 0)
        return true;
    struct consumed *kept = arena_alloc(&part->arena, reply->consumed_count * sizeof *kept);
    for (size_t i = 0; kept != NULL && i < reply->consumed_count; i++) {
        kept[i] = reply->consumed[i];
        kept[i].table = arena_copy(&part->arena, kept[i].table);
        if (bytes_given(kept[i].index))
            kept[i].index = arena_copy(&part->arena, kept[i].index);
        if (!bytes_given(kept[i].table))
            return false;
    }
    reply->consumed = kept;
    return kept != NULL;
}

/* The same of its item collection; its key is the part's own memory. */
static void keep_collection(struct part *part)
{
    struct reply *reply = &part->call.reply;
    if (reply->collection_count == 0)
        return;
    reply->collections[0].table = arena_copy(&part->arena, reply->collections[0].table);
    if (!bytes_given(reply->collections[0].table))
        reply->collection_count = 0;
}

static void keep_body(struct part *part)
{
    struct reply *reply = &part->call.reply;
    if (reply->status != STATUS_OK)
        return;
    part->body = arena_copy(&part->arena, reply->body);
    keep_collection(part);
    if (!bytes_given(part->body) || !keep_consumed(part))
        (void)call_fail(&part->call, STATUS_NO_MEMORY);
}

static void part_complete(struct call *part_call)
{
    struct part *part = part_call->owner;
    struct batch *batch = part->batch;
    struct call *call = batch->call;
    keep_body(part);
    if (part_call->now_us > call->now_us)
        call->now_us = part_call->now_us;
    if (--batch->pending != 0 || batch->is_submitting)
        return;
    (void)finish(batch);
    free_parts(batch);
    call->complete(call);
}

/* Parts may wait at the same time, on several threads, so that each has an arena of its own. */
static bool part_init(struct batch *batch, size_t i)
{
    struct part *part = &batch->parts[i];
    struct call *call = batch->call;
    memset(part, 0, offsetof(struct part, arena));
    part->body = BYTES_NONE;
    part->batch = batch;
    part->call.request = call->request.parts[i];
    part->call.request.timeout_ms = call->request.timeout_ms;
    part->call.request.capacity = call->request.capacity;
    part->call.request.wants_metrics = call->request.wants_metrics;
    part->call.arena = &part->arena;
    part->call.origin = CALL_OF_BATCH;
    part->call.now_us = call->now_us;
    part->call.deadline_us = call->deadline_us;
    part->call.complete = part_complete;
    part->call.owner = part;
    void *first = arena_alloc(call->arena, PART_ARENA);
    arena_init(&part->arena, first, first == NULL ? 0 : PART_ARENA, call->arena->heap_bytes_max);
    return first != NULL;
}

static struct batch *batch_make(struct call *call)
{
    size_t count = call->request.part_count;
    struct batch *batch = arena_alloc(call->arena, sizeof *batch);
    struct part *parts = arena_alloc(call->arena, count * sizeof *parts);
    if (batch == NULL || parts == NULL)
        return NULL;
    *batch = (struct batch){.call = call, .parts = parts, .is_submitting = true};
    for (size_t i = 0; i < count; i++)
        if (!part_init(batch, i))
            return NULL; /* nothing is of the heap yet */
    return batch;
}

enum submit batch_submit(struct lane *lane, struct call *call)
{
    if (call->is_passing)
        return SUBMIT_KEEP;
    reply_init(&call->reply);
    enum status status = check(lane, call);
    if (status != STATUS_OK)
        return call_fail(call, status);
    struct batch *batch = batch_make(call);
    if (batch == NULL)
        return call_fail(call, STATUS_NO_MEMORY);
    for (size_t i = 0; i < call->request.part_count; i++) {
        struct part *part = &batch->parts[i];
        enum submit submit = lane->ops->submit(lane, &part->call);
        ensure(submit != SUBMIT_KEEP);
        if (submit == SUBMIT_DONE)
            keep_body(part);
        else
            batch->pending++;
    }
    batch->is_submitting = false;
    if (batch->pending != 0)
        return SUBMIT_PENDING;
    enum submit submit = finish(batch);
    free_parts(batch);
    return submit;
}
