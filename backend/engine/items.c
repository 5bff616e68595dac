#include "backend/engine/action.h"
#include "backend/engine/record.h"
#include "backend/expression/evaluate.h"
#include "backend/expression/projection.h"
#include "backend/expression/update.h"

#include "protocol/encoding/msgpack.h"
#include "protocol/ensure.h"
#include "protocol/hash.h"

/* Position of the records that a write depends on. */
enum { READ_ITEM, READ_DEFINITION };

static bool place_item(struct action *action)
{
    const struct request *request = &action->call->request;
    uint64_t hash = hash_partition(item_key_partition(request->item_key));
    action->reads[READ_ITEM].key =
        record_item_key(request->table->id, hash, request->item_key.bytes, action->call->arena);
    action->read.records = action->reads;
    action->read.count = 1;
    return bytes_given(action->reads[READ_ITEM].key);
}

/* ---- GetItem ---- */

static enum submit get_done(struct action *action)
{
    struct reply *reply = &action->call->reply;
    struct bytes item = action->reads[READ_ITEM].value;
    const struct path_node *projection = action->call->request.projection_tree;
    reply->body = bytes_given(item) ? item : body_nil;
    if (bytes_given(item) && projection != NULL && !action->call->wants_whole)
        reply->body = projection_apply(projection, item, action->call->arena);
    if (!bytes_given(reply->body))
        return action_fail(action, STATUS_NO_MEMORY);
    reply->count = bytes_given(item) ? 1 : 0;
    reply->read_bytes = bytes_given(item) ? item_size(item) : 0;
    reply->commit = action->read.commit;
    return SUBMIT_DONE;
}

enum submit get_begin(struct action *action)
{
    if (action_bind(action) == SUBMIT_DONE)
        return SUBMIT_DONE;
    if (!place_item(action))
        return action_fail(action, STATUS_NO_MEMORY);
    action->read_done = get_done;
    return action_read(action);
}

/* ---- PutItem, DeleteItem, UpdateItem ---- */

static const struct bytes no_attributes = BYTES_LITERAL("\x80");

/* What ReturnValues asks for; nothing where that is no attribute. The old item is a view that does
 * not last. */
static enum status keep_returned(struct action *action, struct bytes old, struct bytes new)
{
    const struct request *request = &action->call->request;
    enum return_values wanted = request->return_values;
    bool is_old = wanted == RETURN_ALL_OLD || wanted == RETURN_UPDATED_OLD;
    bool is_all = wanted == RETURN_ALL_OLD || wanted == RETURN_ALL_NEW;
    struct bytes whole = is_old ? old : new;
    action->returned = BYTES_NONE;
    if (wanted == RETURN_NONE || !bytes_given(whole) || (!is_all && request->update_tree == NULL))
        return STATUS_OK;
    struct arena *arena = action->call->arena;
    struct bytes returned =
        is_all ? arena_copy(arena, whole) : projection_apply(request->update_tree, whole, arena);
    if (!bytes_given(returned))
        return STATUS_NO_MEMORY;
    if (!bytes_equal(returned, no_attributes))
        action->returned = returned;
    return STATUS_OK;
}

/* UpdateItem: the new item follows from the old one. */
static enum status compute_item(struct action *action, struct bytes old)
{
    struct call *call = action->call;
    const struct request *request = &call->request;
    action->change.is_there = true;
    return update_apply(request->update_tree, old, request->item, call->arena,
                        &action->writes[0].value, &action->change.new_size, &call->reply.error);
}

/* Judges the condition by what the item was, and makes of it what it will be; counters follow from
 * both. The definition must be what the write was bound to. Pure, but for the reply's text. */
static enum status write_compute(struct action *action)
{
    const struct request *request = &action->call->request;
    const struct definition *definition = action->definition;
    if (!bytes_equal(action->reads[READ_DEFINITION].value, definition->record))
        return error_set(&action->call->reply.error, STATUS_RESOURCE_NOT_FOUND,
                         "Requested resource not found");
    struct bytes old = action->reads[READ_ITEM].value;
    if (!condition_holds(request->condition_tree, old))
        return STATUS_CONDITIONAL_CHECK_FAILED;
    enum status status = STATUS_OK;
    if (request->operation == OPERATION_UPDATE_ITEM)
        status = compute_item(action, old);
    if (status != STATUS_OK)
        return status;
    action->change.was_there = bytes_given(old);
    action->change.old_size = bytes_given(old) ? item_size(old) : 0;
    partition_count(&action->counter, &action->change);
    return keep_returned(action, old, action->writes[0].value);
}

static enum status write_recompute(struct kv_commit *commit)
{
    return write_compute(commit->owner);
}

static enum submit write_done(struct action *action)
{
    struct reply *reply = &action->call->reply;
    reply->commit = action->commit.number;
    reply->body = bytes_given(action->returned) ? action->returned : body_nil;
    reply->touched[0].is_image_known = true;
    reply->touched[0].image = action->writes[0].value;
    return SUBMIT_DONE;
}

static enum submit write_read_done(struct action *action)
{
    struct call *call = action->call;
    enum status status = write_compute(action);
    if (status != STATUS_OK)
        return action_fail(action, status);
    struct touched *touched = arena_alloc(call->arena, sizeof *touched);
    if (touched == NULL)
        return action_fail(action, STATUS_NO_MEMORY);
    *touched = (struct touched){.table_id = call->request.table->id, .key = call->request.item_key};
    call->reply.touched = touched;
    call->reply.touched_count = 1;

    action->commit.reads = action->reads;
    action->commit.read_count = 2;
    action->commit.writes = action->writes;
    action->commit.write_count = 1;
    action->commit.counters = &action->counter;
    action->commit.counter_count = 1;
    action->commit.recompute = write_recompute;
    action->commit_done = write_done;
    return action_commit(action);
}

/* The definition is known from the catalog at first; after a conflict it is read like the item. */
static enum submit write_begin(struct action *action, struct bytes item, size_t size)
{
    const struct definition *definition = action->definition;
    if (!place_item(action))
        return action_fail(action, STATUS_NO_MEMORY);
    action->reads[READ_DEFINITION] = (struct kv_record){
        .key = definition->record_key, .value = definition->record, .token = action->token};
    if (action->attempts != 0)
        action->read.count = 2;
    action->writes[0] = (struct kv_record){.key = action->reads[READ_ITEM].key, .value = item};
    action->change = (struct partition_change){.is_there = bytes_given(item), .new_size = size};
    uint64_t hash = hash_partition(item_key_partition(action->call->request.item_key));
    action->counter.key = record_counter_key(
        definition->table.id, partition_find(&definition->partitions, hash), action->call->arena);
    if (!bytes_given(action->counter.key))
        return action_fail(action, STATUS_NO_MEMORY);
    action->read_done = write_read_done;
    return action_read(action);
}

enum submit put_begin(struct action *action)
{
    if (action_bind(action) == SUBMIT_DONE)
        return SUBMIT_DONE;
    const struct request *request = &action->call->request;
    return write_begin(action, request->item, request->item_size);
}

enum submit delete_begin(struct action *action)
{
    if (action_bind(action) == SUBMIT_DONE)
        return SUBMIT_DONE;
    /* An absent item is deleted too: what is cached of it elsewhere must go. */
    return write_begin(action, BYTES_NONE, 0);
}

enum submit update_begin(struct action *action)
{
    if (action_bind(action) == SUBMIT_DONE)
        return SUBMIT_DONE;
    return write_begin(action, action->call->request.item, 0); /* what it will be is computed */
}
