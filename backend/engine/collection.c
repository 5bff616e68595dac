/* collection.c - item collections: the items of one partition key of a table with local indexes,
 * and what these hold of them. Each has a counter, which its writes add to in the same commit; the
 * store refuses a commit that would make one too large. */
#include "backend/engine/action.h"
#include "backend/engine/record.h"

#include "protocol/encoding/msgpack.h"
#include "protocol/ensure.h"

/* One counter a collection, however many of its items are written together. */
bool collection_plan(struct item_write *write, struct write_plan *plan, int64_t limit,
                     struct arena *arena)
{
    struct bytes partition = item_key_partition(write->request->item_key);
    write->collection =
        record_item_key(write->definition->collections_id, write->hash, partition, arena);
    if (!bytes_given(write->collection))
        return false;
    size_t i = 0;
    while (i < plan->size_count && !bytes_equal(plan->sizes[i].key, write->collection))
        i++;
    if (i == plan->size_count) {
        ensure(plan->size_count < plan->capacity);
        plan->sizes[plan->size_count++] =
            (struct kv_counter){.key = write->collection, .limit = limit};
    }
    plan->sizes[i].add[0] += write->collection_bytes;
    return true;
}

/* MessagePack map of the item's partition key. BYTES_NONE without memory. */
static struct bytes key_map(const struct item_write *write, struct arena *arena)
{
    const struct key_schema *schema = &write->definition->table.key;
    struct buffer whole = {0};
    struct bytes value, map = BYTES_NONE;
    if (item_key_encode(write->request->item_key, schema, arena, &whole) &&
        item_find(buffer_bytes(&whole), schema->partition.name, &value)) {
        char name[KEY_NAME_MAX + 1];
        memcpy(name, schema->partition.name.data, schema->partition.name.size);
        name[schema->partition.name.size] = '\0';
        map = definition_wrap(name, value, arena);
    }
    buffer_deinit(&whole);
    return map;
}

static const struct item_write *find_write(const struct action *action, struct bytes collection)
{
    size_t i = 0;
    while (!bytes_equal(action->items[i].collection, collection))
        i++;
    return &action->items[i];
}

bool collections_told(struct action *action)
{
    struct call *call = action->call;
    const struct write_plan *plan = &action->plan;
    size_t count = plan->counter_count - plan->charged_count;
    if (!call->request.wants_metrics || count == 0)
        return true;
    struct collection_size *sizes = arena_alloc(call->arena, count * sizeof *sizes);
    if (sizes == NULL)
        return false;
    for (size_t i = 0; i < count; i++) {
        const struct kv_counter *counter = &plan->counters[plan->charged_count + i];
        const struct item_write *write = find_write(action, counter->key);
        sizes[i] = (struct collection_size){.table = write->definition->table.name,
                                            .key = key_map(write, call->arena),
                                            .bytes = (uint64_t)counter->after};
        if (!bytes_given(sizes[i].key))
            return false;
    }
    call->reply.collections = sizes;
    call->reply.collection_count = count;
    collections_tell(&call->request, &call->reply, call->arena);
    return true;
}

void collection_refuse(struct action *action)
{
    struct bytes exceeded = action->commit.exceeded->key;
    for (size_t i = 0; i < action->item_count; i++) {
        struct error *error = &action->items[i].error;
        if (bytes_equal(action->items[i].collection, exceeded))
            error->status =
                error_set(error, STATUS_COLLECTION_SIZE, "%s", status_text(STATUS_COLLECTION_SIZE));
    }
}
