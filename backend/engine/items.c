#include "backend/engine/action.h"
#include "backend/engine/record.h"
#include "backend/expression/projection.h"

#include "protocol/encoding/msgpack.h"
#include "protocol/hash.h"

static uint64_t hash_of(const struct request *request)
{
    return hash_partition(item_key_partition(request->item_key));
}

static bool place_item(struct action *action)
{
    const struct request *request = &action->call->request;
    uint64_t hash = hash_of(request);
    action->reads[0].key =
        record_item_key(request->table->id, hash, request->item_key.bytes, action->call->arena);
    action->read.records = action->reads;
    action->read.count = 1;
    return bytes_given(action->reads[0].key);
}

static struct position position_of(const struct request *request)
{
    return (struct position){.hash = hash_of(request), .key = request->item_key.bytes};
}

/* ---- GetItem ---- */

static enum submit get_done(struct action *action)
{
    struct reply *reply = &action->call->reply;
    const struct request *request = &action->call->request;
    struct position position = position_of(request);
    struct bytes item = action->reads[0].value;
    const struct path_node *projection = action->call->request.projection_tree;
    reply->body = bytes_given(item) ? item : body_nil;
    if (bytes_given(item) && projection != NULL && !action->call->wants_whole)
        reply->body = projection_apply(projection, item, action->call->arena);
    if (!bytes_given(reply->body))
        return action_fail(action, STATUS_NO_MEMORY);
    reply->count = bytes_given(item) ? 1 : 0;
    reply->read_bytes = bytes_given(item) ? item_size(item) : 0;
    reply->commit = action->read.commit;
    action_charge(action, NULL, &position,
                  capacity_of_read(reply->read_bytes, request->is_consistent));
    capacity_tell(request, reply, action->call->arena);
    return SUBMIT_DONE;
}

enum submit get_begin(struct action *action)
{
    if (action_bind(action) == SUBMIT_DONE)
        return SUBMIT_DONE;
    struct position position = position_of(&action->call->request);
    if (!throughput_admits(action, action->definition, NULL, &position, false))
        return throughput_refuse(action, action->definition, NULL);
    if (!place_item(action))
        return action_fail(action, STATUS_NO_MEMORY);
    action->read_done = get_done;
    return action_read(action);
}

/* ---- PutItem, DeleteItem, UpdateItem ---- */

static enum submit write_done(struct action *action)
{
    struct reply *reply = &action->call->reply;
    reply->commit = action->commit.number;
    reply->body = bytes_given(action->items[0].returned) ? action->items[0].returned : body_nil;
    return SUBMIT_DONE;
}

enum submit write_begin(struct action *action)
{
    if (action_bind(action) == SUBMIT_DONE)
        return SUBMIT_DONE;
    if (action->items == NULL)
        action->items = arena_alloc(action->call->arena, sizeof *action->items);
    if (action->items == NULL)
        return action_fail(action, STATUS_NO_MEMORY);
    action->items[0] = (struct item_write){.request = &action->call->request,
                                           .definition = action->definition,
                                           .token = action->token};
    action->item_count = 1;
    return write_items(action, write_done);
}
