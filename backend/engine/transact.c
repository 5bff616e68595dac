/* transact.c - TransactGetItems and TransactWriteItems: many items, one instant. */
#include "backend/batch.h"
#include "backend/engine/action.h"
#include "backend/engine/record.h"
#include "backend/expression/projection.h"

#include "protocol/encoding/msgpack.h"
#include "protocol/ensure.h"
#include "protocol/hash.h"

#include <stdio.h>

enum {
    TOKEN_LIFE_MS = 10 * 60 * 1000, /* API reference, TransactWriteItems, ClientRequestToken */
    CODE_ROOM = 40,                 /* of the longest code and its separator */
    TOKEN_VALUE = 16,               /* when, and what was asked for: 8 bytes each, little endian */
};

static const char one_item_text[] =
    "Transaction request cannot include multiple operations on one item";

/* ---- both ---- */

static enum status refuse_size(struct error *error)
{
    return error_set(error, STATUS_VALIDATION,
                     "Transaction request cannot include items of more than %d MB together",
                     TRANSACT_BYTES_MAX >> 20);
}

static bool append_array_head(struct buffer *out, size_t count)
{
    ensure(count <= TRANSACT_MAX);
    uint8_t head[3] = {0xdc, 0, (uint8_t)count};
    if (count >= 16)
        return buffer_append(out, bytes_of(head, sizeof head));
    head[0] = (uint8_t)(0x90 | count);
    return buffer_append(out, bytes_of(head, 1));
}

/* Into the arena; the buffer is gone. */
static struct bytes take_buffer(struct buffer *buffer, bool is_whole, struct arena *arena)
{
    struct bytes taken = is_whole ? arena_copy(arena, buffer_bytes(buffer)) : BYTES_NONE;
    buffer_deinit(buffer);
    return taken;
}

/* What each part is, once all are bound. */
static void place_parts(struct action *action)
{
    struct request *request = &action->call->request;
    for (size_t i = 0; i < request->part_count; i++) {
        struct request *part = &request->parts[i];
        action->items[i] =
            (struct item_write){.request = part,
                                .definition = catalog_find(action->lane->catalog, part->table_name),
                                .token = action->token,
                                .hash = hash_partition(item_key_partition(part->item_key))};
    }
}

/* Charges a consistent read of each item, twice. False without memory. */
static bool charge_reads(struct action *action)
{
    struct call *call = action->call;
    struct consumed *consumed = arena_alloc(call->arena, action->item_count * sizeof *consumed);
    for (size_t i = 0; consumed != NULL && i < action->item_count; i++) {
        const struct item_write *one = &action->items[i];
        struct position position = {.hash = one->hash, .key = one->request->item_key.bytes};
        struct bytes item = action->item_reads[i].value;
        consumed[i] = (struct consumed){
            .table = one->request->table->name,
            .half_units = 2 * capacity_of_read(bytes_given(item) ? item_size(item) : 0, true)};
        throughput_consume(action, one->definition, NULL, &position, false, consumed[i].half_units);
    }
    call->reply.consumed = consumed;
    call->reply.consumed_count = consumed == NULL ? 0 : action->item_count;
    capacity_tell(&call->request, &call->reply, call->arena);
    return consumed != NULL;
}

/* ---- why a transaction did not happen ---- */

/* DynamoDB's codes: API reference, TransactWriteItems, "Errors". */
static const char *reason_code(enum status status)
{
    switch (status) {
    case STATUS_OK:
        return "None";
    case STATUS_CONDITIONAL_CHECK_FAILED:
        return "ConditionalCheckFailed";
    case STATUS_COLLECTION_SIZE:
        return "ItemCollectionSizeLimitExceeded";
    case STATUS_PROVISIONED:
        return "ProvisionedThroughputExceeded";
    case STATUS_THROTTLED:
        return "ThrottlingError";
    default:
        return "ValidationError";
    }
}

static bool append_reason(const struct item_write *write, struct buffer *out)
{
    if (write->error.status == STATUS_OK)
        return buffer_append(out, body_nil);
    struct bytes code = bytes_text(reason_code(write->error.status));
    struct value texts[2] = {{.type = VALUE_S, .bytes = code},
                             {.type = VALUE_S, .bytes = bytes_text(error_text(&write->error))}};
    return append_array_head(out, 3) && value_encode(&texts[0], out) &&
           value_encode(&texts[1], out) &&
           buffer_append(out, bytes_given(write->failed) ? write->failed : body_nil);
}

static bool append_reasons(const struct action *action, struct buffer *out)
{
    if (!append_array_head(out, action->item_count))
        return false;
    for (size_t i = 0; i < action->item_count; i++)
        if (!append_reason(&action->items[i], out))
            return false;
    return true;
}

/* DynamoDB's text: the codes in the order of the actions. */
static void set_text(const struct action *action, struct error *error)
{
    size_t at = 0, room = sizeof error->text;
    char text[sizeof error->text];
    const char *separator = "[";
    for (size_t i = 0; i < action->item_count && at < room - CODE_ROOM; i++) {
        at += (size_t)snprintf(text + at, room - at, "%s%s", separator,
                               reason_code(action->items[i].error.status));
        separator = ", ";
    }
    (void)error_set(error, STATUS_TRANSACTION_CANCELED,
                    "Transaction cancelled, please refer cancellation reasons for specific reasons "
                    "%s%s",
                    text, at < room - CODE_ROOM ? "]" : ", ...]");
}

static enum submit cancel(struct action *action)
{
    struct reply *reply = &action->call->reply;
    struct buffer reasons = {0};
    reply->details = take_buffer(&reasons, append_reasons(action, &reasons), action->call->arena);
    if (!bytes_given(reply->details))
        return action_fail(action, STATUS_NO_MEMORY);
    set_text(action, &reply->error);
    return action_fail(action, STATUS_TRANSACTION_CANCELED);
}

/* ---- what is checked before anything is read ---- */

static enum status check_count(const struct request *request, struct error *error)
{
    if (request->part_count == 0)
        return error_set(error, STATUS_VALIDATION,
                         "1 validation error detected: Value '[]' at 'transactItems' failed to "
                         "satisfy constraint: Member must have length greater than or equal to 1");
    if (request->part_count > TRANSACT_MAX)
        return error_set(error, STATUS_VALIDATION,
                         "1 validation error detected: Value at 'transactItems' failed to satisfy "
                         "constraint: Member must have length less than or equal to %d",
                         TRANSACT_MAX);
    return STATUS_OK;
}

/* Binds all parts. One whose key is none of its table's is a reason to cancel, the first one alone,
 * unless another cannot be understood at all.
 * misfit  it; NULL: there is none */
static enum status bind_parts(struct action *action, struct item_write **misfit)
{
    struct call *call = action->call;
    struct request *request = &call->request;
    struct error *error = &call->reply.error;
    *misfit = NULL;
    for (size_t i = 0; i < request->part_count; i++) {
        enum status status = part_bind(&action->lane->lane, call, &request->parts[i]);
        if (status == STATUS_OK)
            continue;
        if (status != STATUS_VALIDATION || !error->is_misfit)
            return parts_refuse(call, status);
        if (*misfit == NULL) {
            *misfit = &action->items[i];
            (*misfit)->error = *error;
        }
    }
    return STATUS_OK;
}

/* DONE: it is answered; PENDING: go on. */
static enum submit check_parts(struct action *action)
{
    struct call *call = action->call;
    const struct request *request = &call->request;
    enum status status = check_count(request, &call->reply.error);
    if (status != STATUS_OK)
        return action_fail(action, status);
    if (action->items == NULL)
        action->items = arena_alloc(call->arena, request->part_count * sizeof *action->items);
    if (action->items == NULL)
        return action_fail(action, STATUS_NO_MEMORY);
    action->item_count = request->part_count;
    memset(action->items, 0, request->part_count * sizeof *action->items);
    action->token = action->lane->token;
    struct item_write *misfit;
    status = bind_parts(action, &misfit);
    if (status == STATUS_OK && misfit != NULL)
        return cancel(action);
    if (status == STATUS_OK)
        status = parts_check_distinct(request, one_item_text, &call->reply.error);
    return status == STATUS_OK ? SUBMIT_PENDING : action_fail(action, status);
}

/* ---- TransactGetItems ---- */

static bool append_items(const struct action *action, struct buffer *out)
{
    const struct request *request = &action->call->request;
    struct arena *arena = action->call->arena;
    if (!append_array_head(out, request->part_count))
        return false;
    for (size_t i = 0; i < request->part_count; i++) {
        const struct path_node *projection = request->parts[i].projection_tree;
        struct bytes item = action->item_reads[i].value;
        if (!bytes_given(item))
            item = body_nil;
        else if (projection != NULL)
            item = projection_apply(projection, item, arena);
        if (!bytes_given(item) || !buffer_append(out, item))
            return false;
    }
    return true;
}

/* What was seen, for who remembers something older. */
static bool tell_seen(struct action *action)
{
    struct call *call = action->call;
    size_t count = call->request.part_count;
    struct touched *seen = arena_alloc(call->arena, count * sizeof *seen);
    if (seen == NULL)
        return false;
    for (size_t i = 0; i < count; i++)
        seen[i] = (struct touched){.table_id = call->request.parts[i].table->id,
                                   .key = call->request.parts[i].item_key,
                                   .is_image_known = true,
                                   .image = action->item_reads[i].value};
    call->reply.touched = seen;
    call->reply.touched_count = count;
    return true;
}

static enum submit transact_get_done(struct action *action)
{
    struct call *call = action->call;
    struct reply *reply = &call->reply;
    struct buffer body = {0};
    for (size_t i = 0; i < call->request.part_count; i++) {
        struct bytes item = action->item_reads[i].value;
        reply->count += bytes_given(item);
        reply->read_bytes += bytes_given(item) ? item_size(item) : 0;
    }
    if (reply->read_bytes > TRANSACT_BYTES_MAX)
        return action_fail(action, refuse_size(&reply->error));
    reply->commit = action->read.commit;
    reply->body = take_buffer(&body, append_items(action, &body), call->arena);
    if (!charge_reads(action) || !bytes_given(reply->body) || !tell_seen(action))
        return action_fail(action, STATUS_NO_MEMORY);
    return SUBMIT_DONE;
}

/* False: it is refused for what its items' partitions have had. */
static bool admit_reads(struct action *action)
{
    bool is_admitted = true;
    for (size_t i = 0; i < action->item_count; i++) {
        struct item_write *one = &action->items[i];
        struct position position = {.hash = one->hash, .key = one->request->item_key.bytes};
        if (throughput_admits(action, one->definition, NULL, &position, false))
            continue;
        one->error.status = throughput_error(one->definition, NULL, &one->error);
        is_admitted = false;
    }
    return is_admitted;
}

static bool place_reads(struct action *action)
{
    const struct request *request = &action->call->request;
    struct arena *arena = action->call->arena;
    action->item_reads = arena_alloc(arena, request->part_count * sizeof *action->item_reads);
    if (action->item_reads == NULL)
        return false;
    for (size_t i = 0; i < request->part_count; i++) {
        const struct request *part = &request->parts[i];
        action->item_reads[i] =
            (struct kv_record){.key = record_item_key(part->table->id, action->items[i].hash,
                                                      part->item_key.bytes, arena)};
        if (!bytes_given(action->item_reads[i].key))
            return false;
    }
    action->read.records = action->item_reads;
    action->read.count = request->part_count;
    return true;
}

enum submit transact_get_begin(struct action *action)
{
    if (check_parts(action) == SUBMIT_DONE)
        return SUBMIT_DONE;
    place_parts(action);
    if (!admit_reads(action))
        return cancel(action);
    if (!place_reads(action))
        return action_fail(action, STATUS_NO_MEMORY);
    action->read_done = transact_get_done;
    return action_read(action);
}

/* ---- TransactWriteItems: once for each token ---- */

/* Changes with whatever the request asks for; aliases and all. */
static bool digest(const struct request *request, uint64_t *out)
{
    struct buffer buffer = {0};
    bool is_whole = true;
    for (size_t i = 0; i < request->part_count && is_whole; i++) {
        const struct request *part = &request->parts[i];
        const struct bytes fields[] = {part->table_name,
                                       part->item_key.bytes,
                                       part->operation == OPERATION_PUT_ITEM ? part->item
                                                                             : BYTES_NONE,
                                       part->condition,
                                       part->update,
                                       part->key_condition.names,
                                       part->key_condition.values};
        uint8_t operation = (uint8_t)part->operation;
        is_whole = buffer_append(&buffer, bytes_of(&operation, 1));
        for (size_t k = 0; k < sizeof fields / sizeof fields[0] && is_whole; k++)
            is_whole = buffer_append(&buffer, bytes_of(&fields[k].size, sizeof fields[k].size)) &&
                       (fields[k].size == 0 || buffer_append(&buffer, fields[k]));
    }
    *out = hash_partition(buffer_bytes(&buffer));
    buffer_deinit(&buffer);
    return is_whole;
}

/* Records of the token among what is read: of this span of time, and of the one before. */
static enum status place_token(struct action *action)
{
    struct call *call = action->call;
    const struct request *request = &call->request;
    struct once *once = &action->once;
    *once = (struct once){.span = 0};
    if (!bytes_given(request->token))
        return STATUS_OK;
    if (request->token.size == 0 || request->token.size > CLIENT_TOKEN_MAX)
        return error_set(&call->reply.error, STATUS_VALIDATION,
                         "1 validation error detected: Value at 'clientRequestToken' failed to "
                         "satisfy constraint: Member must have length between 1 and %d",
                         CLIENT_TOKEN_MAX);
    once->now_ms = action->lane->engine->wall_ms();
    once->span = once->now_ms / TOKEN_LIFE_MS;
    if (!digest(request, &once->digest))
        return STATUS_NO_MEMORY;
    once->reads = arena_alloc(call->arena, TOKEN_RECORDS * sizeof *once->reads);
    for (size_t i = 0; once->reads != NULL && i < TOKEN_RECORDS; i++) {
        once->reads[i] = (struct kv_record){
            .key = record_token_key(once->span - i, request->token, call->arena)};
        if (!bytes_given(once->reads[i].key))
            return STATUS_NO_MEMORY;
    }
    if (once->reads == NULL)
        return STATUS_NO_MEMORY;
    uint8_t value[TOKEN_VALUE];
    memcpy(value, &once->now_ms, 8);
    memcpy(value + 8, &once->digest, 8);
    once->value = arena_copy(call->arena, bytes_of(value, sizeof value));
    return bytes_given(once->value) ? STATUS_OK : STATUS_NO_MEMORY;
}

bool once_was_done(const struct action *action, enum status *status)
{
    const struct once *once = &action->once;
    for (size_t i = 0; once->span != 0 && i < TOKEN_RECORDS; i++) {
        struct bytes value = once->reads[i].value;
        uint64_t then_ms, digest;
        if (value.size != TOKEN_VALUE)
            continue;
        memcpy(&then_ms, value.data, 8);
        memcpy(&digest, value.data + 8, 8);
        if (once->now_ms >= then_ms && once->now_ms - then_ms >= TOKEN_LIFE_MS)
            continue;
        *status = digest == once->digest ? STATUS_OK : STATUS_IDEMPOTENT_MISMATCH;
        return true;
    }
    return false;
}

/* The first token of a span makes room of those that are too old for anybody. */
static bool place_drop(struct action *action)
{
    struct engine *engine = action->lane->engine;
    uint_fast64_t seen = atomic_load_explicit(&engine->token_span, memory_order_relaxed);
    uint64_t span = action->once.span;
    if (seen >= span || !atomic_compare_exchange_strong(&engine->token_span, &seen, span))
        return true;
    action->drops = arena_alloc(action->call->arena, sizeof *action->drops);
    if (action->drops == NULL || !record_tokens_range(span - 1, action->call->arena,
                                                      &action->drops->low, &action->drops->high))
        return false;
    action->commit.drops = action->drops;
    action->commit.drop_count = 1;
    return true;
}

/* ---- TransactWriteItems ---- */

static enum submit transact_write_done(struct action *action)
{
    struct reply *reply = &action->call->reply;
    reply->commit = action->commit.number;
    reply->body = body_nil;
    return SUBMIT_DONE;
}

/* Charged by the items as they are now, for nobody remembers what the first call has seen. Source:
 * API reference, TransactWriteItems, ClientRequestToken: "read capacity units consumed in reading
 * the item". */
enum submit transact_repeated(struct action *action)
{
    action->call->reply.body = body_nil;
    return charge_reads(action) ? SUBMIT_DONE : action_fail(action, STATUS_NO_MEMORY);
}

enum submit transact_refused(struct action *action, enum status status)
{
    if (status == STATUS_OK && action->new_bytes > TRANSACT_BYTES_MAX)
        return action_fail(action, refuse_size(&action->call->reply.error));
    return cancel(action);
}

enum submit transact_write_begin(struct action *action)
{
    if (check_parts(action) == SUBMIT_DONE)
        return SUBMIT_DONE;
    enum status status = place_token(action);
    if (status == STATUS_OK && action->once.span != 0 && !place_drop(action))
        status = STATUS_NO_MEMORY;
    if (status != STATUS_OK)
        return action_fail(action, status);
    place_parts(action);
    return write_items(action, transact_write_done);
}
