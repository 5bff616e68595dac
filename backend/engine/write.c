/* write.c - items to be written: what they depend on, what follows for table, indexes, counters. */
#include "backend/engine/action.h"
#include "backend/engine/record.h"
#include "backend/expression/evaluate.h"
#include "backend/expression/projection.h"
#include "backend/expression/update.h"

#include "protocol/encoding/msgpack.h"
#include "protocol/ensure.h"
#include "protocol/hash.h"
#include "protocol/index_key.h"

enum { SHORT_ITEM = 512 }; /* bytes; what is shown of it is not copied to save memory */

static const struct bytes no_attributes = BYTES_LITERAL("\x80");

/* What of an item lies in an index. */
struct index_entry {
    struct item_key key; /* bytes not given: nothing */
    struct bytes value;  /* what is stored: of a local index the whole item, so that a page that
                            shows more than is projected is of one instant, too */
    struct bytes shown;  /* what is projected, and charged */
    size_t size;         /* DynamoDB's, of that */
};

/* ---- plans ---- */

static bool plan_init(struct write_plan *plan, size_t capacity, struct arena *arena)
{
    if (capacity > plan->capacity) {
        plan->writes = arena_alloc(arena, capacity * sizeof *plan->writes);
        plan->counters = arena_alloc(arena, capacity * sizeof *plan->counters);
        plan->consumed = arena_alloc(arena, capacity * sizeof *plan->consumed);
        plan->charged = arena_alloc(arena, capacity * sizeof *plan->charged);
        plan->touched = arena_alloc(arena, capacity * sizeof *plan->touched);
        plan->sizes = arena_alloc(arena, capacity * sizeof *plan->sizes);
        if (plan->sizes == NULL || plan->writes == NULL || plan->counters == NULL ||
            plan->consumed == NULL || plan->charged == NULL || plan->touched == NULL)
            return false;
        plan->capacity = capacity;
    }
    plan->write_count = 0;
    plan->touched_count = 0;
    plan->charged_count = 0;
    plan->counter_count = 0;
    plan->size_count = 0;
    return true;
}

/* An item's own record, of each index what is left and what is entered, the collection's size. */
static size_t plan_capacity(const struct action *action)
{
    size_t capacity = 1; /* a token */
    for (size_t i = 0; i < action->item_count; i++)
        capacity += 2 + 2 * action->items[i].definition->table.index_count;
    return capacity;
}

static struct touched *plan_write(struct write_plan *plan, struct bytes key, struct bytes value,
                                  const struct touched *touched)
{
    ensure(plan->write_count < plan->capacity);
    plan->writes[plan->write_count] = (struct kv_record){.key = key, .value = value};
    plan->touched[plan->write_count] = *touched;
    plan->touched_count++;
    return &plan->touched[plan->write_count++];
}

/* index  NULL: the table itself */
static bool plan_count(struct write_plan *plan, const struct definition *definition,
                       const struct secondary_index *index, const struct position *position,
                       const struct partition_change *change, struct arena *arena)
{
    ensure(plan->charged_count < plan->capacity);
    const struct table *table = &definition->table;
    const struct partition_map *partitions =
        index == NULL ? &definition->partitions
                      : &definition->index_partitions[index - table->indexes];
    struct consumed *consumed = &plan->consumed[plan->charged_count];
    plan->charged[plan->charged_count] = (struct charged){definition, index, *position};
    struct kv_counter *counter = &plan->counters[plan->charged_count++];
    partition_count(counter, change);
    counter->key =
        record_counter_key(index == NULL ? table->id : index->id,
                           partitions->partitions[partition_find(partitions, position)].id, arena);
    *consumed = (struct consumed){.table = table->name,
                                  .index = index == NULL ? BYTES_NONE : index->name,
                                  .is_local = index != NULL && index->is_local,
                                  .is_write = true,
                                  .half_units = 2 * (uint64_t)counter->add[PARTITION_WRITE_UNITS]};
    return bytes_given(counter->key);
}

/* ---- indexes ---- */

/* What an index shows of an item, in the arena, and its size; not given: there is no memory. Only
 * what is shown is kept: one transaction may make thousands of such parts of long items. */
static struct bytes show(const struct secondary_index *index, struct bytes item,
                         struct arena *arena, size_t *size)
{
    struct buffer scratch = {0};
    struct bytes shown = BYTES_NONE;
    if (item.size <= SHORT_ITEM) {
        shown = projection_apply(index->shown, item, arena);
    } else if (buffer_reserve(&scratch, item.size)) {
        scratch.size = projection_write(index->shown, item, scratch.data);
        shown = arena_copy(arena, buffer_bytes(&scratch));
    }
    buffer_deinit(&scratch);
    *size = bytes_given(shown) ? item_size(shown) : 0;
    return shown;
}

/* is_old  an item that is there already is in no index that its attributes do not fit */
static enum status make_entry(const struct secondary_index *index, struct bytes item, bool is_old,
                              struct item_key primary, struct arena *arena, struct index_entry *out,
                              struct error *error)
{
    *out = (struct index_entry){.value = BYTES_NONE, .shown = BYTES_NONE};
    if (!bytes_given(item))
        return STATUS_OK;
    struct error ignored;
    enum status status =
        index_key_build(item, index, primary, arena, &out->key, is_old ? &ignored : error);
    if (status == STATUS_VALIDATION && is_old) {
        out->key.bytes = BYTES_NONE;
        return STATUS_OK;
    }
    if (status != STATUS_OK || !bytes_given(out->key.bytes))
        return status;
    if (index->shown == NULL) {
        out->value = out->shown = item;
        out->size = item_size(item);
        return STATUS_OK;
    }
    out->shown = show(index, item, arena, &out->size);
    out->value = index->is_local && bytes_given(out->shown) ? item : out->shown;
    return bytes_given(out->shown) ? STATUS_OK : STATUS_NO_MEMORY;
}

enum status index_entry_of(const struct secondary_index *index, struct bytes item,
                           struct item_key primary, struct arena *arena, struct item_key *place,
                           struct bytes *value, size_t *size)
{
    struct index_entry entry;
    struct error error;
    enum status status = make_entry(index, item, true, primary, arena, &entry, &error);
    *place = entry.key;
    *value = entry.value;
    *size = entry.size;
    return status;
}

static bool write_entry(struct write_plan *plan, const struct secondary_index *index,
                        struct item_key key, struct bytes value, struct arena *arena)
{
    uint64_t hash = hash_partition(item_key_partition(key));
    struct bytes record = record_item_key(index->id, hash, key.bytes, arena);
    if (!bytes_given(record))
        return false;
    struct touched touched = {.table_id = index->id, .key = key, .is_index = true};
    (void)plan_write(plan, record, value, &touched);
    return true;
}

/* The item's own partition. */
static bool count_item(struct write_plan *plan, struct item_write *write,
                       const struct partition_change *change, struct arena *arena)
{
    struct position position = {.hash = write->hash, .key = write->request->item_key.bytes};
    if (!plan_count(plan, write->definition, NULL, &position, change, arena))
        return false;
    write->half_units = plan->consumed[plan->charged_count - 1].half_units;
    return true;
}

static bool count_entry(struct write_plan *plan, const struct definition *definition,
                        const struct secondary_index *index, struct item_key key,
                        const struct partition_change *change, struct arena *arena)
{
    struct position position = {.hash = hash_partition(item_key_partition(key)), .key = key.bytes};
    return plan_count(plan, definition, index, &position, change, arena);
}

/* Leaves the old place and enters the new one; one write where they are the same, none where
 * nothing that the index holds has changed. What a local index holds beyond what it projects is
 * written, but not charged. */
static bool move_entry(struct write_plan *plan, const struct definition *definition,
                       const struct secondary_index *index, const struct index_entry *old,
                       const struct index_entry *new, struct arena *arena)
{
    bool was_there = bytes_given(old->key.bytes), is_there = bytes_given(new->key.bytes);
    bool stays = was_there && is_there && bytes_equal(old->key.bytes, new->key.bytes);
    if (stays && bytes_equal(old->value, new->value))
        return true;
    if (stays && bytes_equal(old->shown, new->shown))
        return write_entry(plan, index, new->key, new->value, arena);
    struct partition_change leave = {.was_there = was_there, .old_size = old->size};
    struct partition_change enter = {
        .was_there = stays, .is_there = true, .old_size = old->size, .new_size = new->size};
    if (!stays)
        enter.old_size = 0;
    if (was_there && !stays &&
        (!write_entry(plan, index, old->key, BYTES_NONE, arena) ||
         !count_entry(plan, definition, index, old->key, &leave, arena)))
        return false;
    return !is_there || (write_entry(plan, index, new->key, new->value, arena) &&
                         count_entry(plan, definition, index, new->key, &enter, arena));
}

/* Of an index that is being filled, an item that has not been brought in yet has left no place. */
static bool find_place(struct item_write *write, const struct secondary_index *index,
                       struct index_entry *before, struct arena *arena)
{
    if (index->is_ready || !bytes_given(before->key.bytes))
        return true;
    struct bytes key = record_item_key(index->id, hash_partition(item_key_partition(before->key)),
                                       before->key.bytes, arena);
    bool is_read = write->place != NULL && bytes_equal(write->place->key, key);
    if (!is_read)
        write->lacks = key;
    else if (!bytes_given(write->place->value))
        before->key.bytes = BYTES_NONE;
    return bytes_given(key);
}

static enum status plan_indexes(struct item_write *write, struct bytes old, struct write_plan *plan,
                                struct arena *arena, struct error *error)
{
    const struct table *table = &write->definition->table;
    struct item_key primary = write->request->item_key;
    for (size_t i = 0; i < table->index_count; i++) {
        const struct secondary_index *index = &table->indexes[i];
        struct index_entry before = {.size = 0}, after = {.size = 0};
        enum status status = make_entry(index, old, true, primary, arena, &before, error);
        if (status == STATUS_OK)
            status = make_entry(index, write->new_item, false, primary, arena, &after, error);
        if (status == STATUS_VALIDATION && write->request->operation == OPERATION_UPDATE_ITEM)
            status = index_key_refuse_update(write->new_item, index, error);
        if (index->is_local)
            write->collection_bytes += (int64_t)after.size - (int64_t)before.size;
        if (status == STATUS_OK && !find_place(write, index, &before, arena))
            status = STATUS_NO_MEMORY;
        if (status == STATUS_OK &&
            !move_entry(plan, write->definition, index, &before, &after, arena))
            status = STATUS_NO_MEMORY;
        if (status != STATUS_OK)
            return status;
    }
    return STATUS_OK;
}

/* ---- one item ---- */

/* What ReturnValues asks for; nothing where that is no attribute. The old item is a view that does
 * not last. */
static enum status keep_returned(struct item_write *write, struct bytes old, struct arena *arena)
{
    const struct request *request = write->request;
    enum return_values wanted = request->return_values;
    bool is_old = wanted == RETURN_ALL_OLD || wanted == RETURN_UPDATED_OLD;
    bool is_all = wanted == RETURN_ALL_OLD || wanted == RETURN_ALL_NEW;
    struct bytes whole = is_old ? old : write->new_item;
    write->returned = BYTES_NONE;
    if (wanted == RETURN_NONE || !bytes_given(whole) || (!is_all && request->update_tree == NULL))
        return STATUS_OK;
    struct bytes returned =
        is_all ? arena_copy(arena, whole) : projection_apply(request->update_tree, whole, arena);
    if (!bytes_given(returned))
        return STATUS_NO_MEMORY;
    if (!bytes_equal(returned, no_attributes))
        write->returned = returned;
    return STATUS_OK;
}

/* What the item will be. */
static enum status compute_item(struct item_write *write, struct bytes old, size_t *size,
                                struct arena *arena, struct error *error)
{
    const struct request *request = write->request;
    switch (request->operation) {
    case OPERATION_UPDATE_ITEM:
        return update_apply(request->update_tree, request->is_legacy, old, request->item, arena,
                            &write->new_item, size, error);
    case OPERATION_PUT_ITEM:
        write->new_item = request->item;
        *size = request->item_size;
        return STATUS_OK;
    default:
        write->new_item = BYTES_NONE;
        *size = 0;
        return STATUS_OK;
    }
}

/* An absent item is deleted, too: what is cached of it elsewhere must go. */
static enum status plan_item(struct item_write *write, struct bytes old, size_t size,
                             struct write_plan *plan, struct arena *arena)
{
    const struct definition *definition = write->definition;
    struct touched touched = {.table_id = definition->table.id, .key = write->request->item_key};
    struct partition_change change = {.was_there = bytes_given(old),
                                      .old_size = bytes_given(old) ? item_size(old) : 0,
                                      .is_there = bytes_given(write->new_item),
                                      .new_size = size};
    write->touched = plan_write(plan, write->item->key, write->new_item, &touched);
    write->collection_bytes = (int64_t)(change.is_there ? size : 0) - (int64_t)change.old_size;
    return count_item(plan, write, &change, arena) ? STATUS_OK : STATUS_NO_MEMORY;
}

/* A write that changes nothing. */
static enum status plan_check(struct item_write *write, struct bytes old, struct write_plan *plan,
                              struct arena *arena)
{
    size_t size = bytes_given(old) ? item_size(old) : 0;
    struct partition_change change = {.was_there = bytes_given(old),
                                      .is_there = bytes_given(old),
                                      .old_size = size,
                                      .new_size = size};
    return count_item(plan, write, &change, arena) ? STATUS_OK : STATUS_NO_MEMORY;
}

/* It is charged as if it had written what is there. Source: developer guide, "Working with items",
 * "Capacity units consumed by conditional writes". */
static enum status fail_condition(struct item_write *write, struct bytes old,
                                  struct write_plan *plan, struct arena *arena)
{
    if (plan_check(write, old, plan, arena) != STATUS_OK)
        return STATUS_NO_MEMORY;
    if (write->request->wants_failed && bytes_given(old)) {
        write->failed = arena_copy(arena, old);
        if (!bytes_given(write->failed))
            return STATUS_NO_MEMORY;
    }
    return STATUS_CONDITIONAL_CHECK_FAILED;
}

/* Judges the condition by what the item was, and makes of it what it will be; indexes and counters
 * follow from both. The definition must be what the write was bound to. Pure, but for the text. */
static enum status compute(struct item_write *write, struct write_plan *plan, int64_t limit,
                           struct arena *arena)
{
    struct error *error = &write->error;
    if (!definition_is_of(write->definition, write->definition_record->value))
        return error_set(error, STATUS_RESOURCE_NOT_FOUND, "Requested resource not found");
    struct bytes old = write->item->value;
    size_t size = 0;
    const struct path_node *update = write->request->update_tree;
    if (update != NULL &&
        index_keys_check_update(update, &write->definition->table, error) != STATUS_OK)
        return STATUS_VALIDATION;
    if (!condition_holds(write->request->condition_tree, old))
        return fail_condition(write, old, plan, arena);
    if (write->request->operation == OPERATION_CONDITION_CHECK)
        return plan_check(write, old, plan, arena);
    enum status status = compute_item(write, old, &size, arena, error);
    if (status == STATUS_OK)
        status = plan_item(write, old, size, plan, arena);
    if (status == STATUS_OK && write->definition->table.index_count != 0)
        status = plan_indexes(write, old, plan, arena, error);
    if (status == STATUS_OK && write->definition->collections_id != 0 &&
        !collection_plan(write, plan, limit, arena))
        status = STATUS_NO_MEMORY;
    return status == STATUS_OK ? keep_returned(write, old, arena) : status;
}

/* ---- all items ---- */

/* What an item is refused for, while others of a transaction are still to be judged. */
static bool is_reason(enum status status)
{
    return status == STATUS_VALIDATION || status == STATUS_CONDITIONAL_CHECK_FAILED ||
           status == STATUS_COLLECTION_SIZE || status == STATUS_PROVISIONED ||
           status == STATUS_THROTTLED;
}

/* OK, or what the first item that cannot be written says; `is_reason` of it: all have been judged.
 */
static enum status compute_all(struct action *action, struct write_plan *plan)
{
    struct arena *arena = action->call->arena;
    enum status first = STATUS_OK;
    if (!plan_init(plan, plan_capacity(action), arena))
        return STATUS_NO_MEMORY;
    action->new_bytes = 0;
    for (size_t i = 0; i < action->item_count; i++) {
        struct item_write *write = &action->items[i];
        write->error.text[0] = '\0';
        write->failed = BYTES_NONE;
        write->lacks = BYTES_NONE;
        write->collection = BYTES_NONE;
        write->half_units = 0;
        write->charged_at = plan->charged_count;
        write->error.status =
            compute(write, plan, action->lane->engine->collection_bytes_max, arena);
        write->charged_end = plan->charged_count;
        if (first == STATUS_OK)
            first = write->error.status;
        if (write->error.status != STATUS_OK && !is_reason(write->error.status))
            return write->error.status;
        action->new_bytes += write->new_item.size;
    }
    ensure(plan->charged_count + plan->size_count <= plan->capacity);
    if (plan->size_count != 0)
        memcpy(plan->counters + plan->charged_count, plan->sizes,
               plan->size_count * sizeof *plan->sizes);
    plan->counter_count = plan->charged_count + plan->size_count;
    if (action->once.span != 0)
        plan->writes[plan->write_count++] =
            (struct kv_record){.key = action->once.reads[0].key, .value = action->once.value};
    return first;
}

/* What was judged is charged, though it is not written: a condition that fails takes its table's
 * units. So, once, do the others of a transaction, which has been prepared but not committed; of
 * that the documentation says nothing. */
static void charge_judged(struct action *action)
{
    for (size_t i = 0; i < action->item_count; i++) {
        const struct item_write *write = &action->items[i];
        struct position position = {.hash = write->hash, .key = write->request->item_key.bytes};
        enum status status = write->error.status;
        if (write->half_units != 0 &&
            (status == STATUS_OK || status == STATUS_CONDITIONAL_CHECK_FAILED))
            throughput_consume(action, write->definition, NULL, &position, true, write->half_units);
    }
}

/* The reply of items that cannot be written. */
static enum submit refuse_items(struct action *action, enum status status)
{
    struct reply *reply = &action->call->reply;
    bool is_transaction = action->call->request.operation == OPERATION_TRANSACT_WRITE_ITEMS;
    if (is_transaction && is_reason(status))
        return transact_refused(action, status);
    for (size_t i = 0; i < action->item_count; i++)
        if (action->items[i].error.status == status) {
            reply->error = action->items[i].error;
            reply->details = action->items[i].failed;
            break;
        }
    return action_fail(action, status);
}

/* The same keys written, and counters of the same keys: an index that is written may be charged or
 * not. */
static bool plans_are_alike(const struct write_plan *a, const struct write_plan *b)
{
    if (a->write_count != b->write_count || a->charged_count != b->charged_count ||
        a->counter_count != b->counter_count)
        return false;
    for (size_t i = 0; i < a->write_count; i++)
        if (!bytes_equal(a->writes[i].key, b->writes[i].key))
            return false;
    for (size_t i = 0; i < a->counter_count; i++)
        if (!bytes_equal(a->counters[i].key, b->counters[i].key))
            return false;
    return true;
}

/* The record of a definition that has changed since its item was bound to it; NULL: of none. */
static const struct kv_record *find_outdated(const struct action *action)
{
    for (size_t i = 0; i < action->item_count; i++) {
        const struct item_write *write = &action->items[i];
        const struct kv_record *record = write->definition_record;
        if (definition_is_of(write->definition, record->value) &&
            !bytes_equal(record->value, write->definition->record))
            return record;
    }
    return NULL;
}

static bool lacks_places(const struct action *action)
{
    for (size_t i = 0; i < action->item_count; i++)
        if (bytes_given(action->items[i].lacks))
            return true;
    return false;
}

/* Only without indexes is it sure from the beginning that the same keys will be written. */
static bool keys_may_change(const struct action *action)
{
    for (size_t i = 0; i < action->item_count; i++)
        if (action->items[i].definition->table.index_count != 0)
            return true;
    return false;
}

/* What was computed again takes the place of what the commit has, which is of the same shape. */
static void take_plan(struct action *action, const struct write_plan *fresh)
{
    struct write_plan *plan = &action->plan;
    ensure(fresh->writes != NULL && fresh->counters != NULL && fresh->charged != NULL &&
           fresh->consumed != NULL);
    memcpy(plan->writes, fresh->writes, fresh->write_count * sizeof *fresh->writes);
    memcpy(plan->counters, fresh->counters, fresh->counter_count * sizeof *fresh->counters);
    memcpy(plan->charged, fresh->charged, fresh->charged_count * sizeof *fresh->charged);
    memcpy(plan->consumed, fresh->consumed, fresh->charged_count * sizeof *fresh->consumed);
    for (size_t i = 0; i < action->item_count; i++)
        if (action->items[i].touched != NULL)
            action->items[i].touched = plan->touched + (action->items[i].touched - fresh->touched);
}

static enum kv_outcome recompute(struct kv_commit *commit)
{
    struct action *action = commit->owner;
    struct write_plan fresh = {.capacity = 0};
    struct write_plan *plan = keys_may_change(action) ? &fresh : &action->plan;
    enum status status;
    if (find_outdated(action) != NULL || once_was_done(action, &status))
        return KV_CONFLICT; /* its lane knows more, or has the answer */
    commit->status = compute_all(action, plan);
    if (commit->status != STATUS_OK)
        return KV_REFUSED;
    if (plan != &fresh)
        return KV_DONE;
    if (lacks_places(action) || !plans_are_alike(&action->plan, &fresh))
        return KV_CONFLICT;
    take_plan(action, &fresh);
    return KV_DONE;
}

/* Computed again, the items may have been found to be such that they cannot be written. */
static enum submit items_refused(struct action *action)
{
    if (action->commit.exceeded != NULL) {
        collection_refuse(action);
        return refuse_items(action, STATUS_COLLECTION_SIZE);
    }
    enum status status = action->commit.status;
    for (size_t i = 0; i < action->item_count; i++)
        if (action->items[i].error.status == status) {
            charge_judged(action);
            return refuse_items(action, status);
        }
    return action_refuse(action);
}

/* The first of an item's partitions that have had enough for now; NULL: none. */
static const struct charged *find_exhausted(struct action *action, const struct item_write *write)
{
    for (size_t i = write->charged_at; i < write->charged_end; i++) {
        const struct charged *charged = &action->plan.charged[i];
        if (!throughput_admits(action, charged->definition, charged->index, &charged->position,
                               true))
            return charged;
    }
    return NULL;
}

/* OK, or the error of the first item whose partitions have had enough; each has its own. */
static enum status check_throughput(struct action *action)
{
    enum status first = STATUS_OK;
    for (size_t i = 0; i < action->item_count; i++) {
        struct item_write *write = &action->items[i];
        const struct charged *exhausted = find_exhausted(action, write);
        if (exhausted == NULL)
            continue;
        write->failed = BYTES_NONE;
        write->error.status =
            throughput_error(exhausted->definition, exhausted->index, &write->error);
        if (first == STATUS_OK)
            first = write->error.status;
    }
    return first;
}

/* A transaction writes everything twice, but what follows later: its changes come to global indexes
 * when it is complete. Source: developer guide, "DynamoDB transactions: How it works". */
static uint64_t times_written(const struct action *action, const struct charged *charged)
{
    bool is_transaction = action->call->request.operation == OPERATION_TRANSACT_WRITE_ITEMS;
    return is_transaction && (charged->index == NULL || charged->index->is_local) ? 2 : 1;
}

static void tell_capacity(struct action *action)
{
    struct call *call = action->call;
    struct write_plan *plan = &action->plan;
    for (size_t i = 0; i < plan->charged_count; i++) {
        const struct charged *charged = &plan->charged[i];
        plan->consumed[i].half_units *= times_written(action, charged);
        throughput_consume(action, charged->definition, charged->index, &charged->position, true,
                           plan->consumed[i].half_units);
    }
    if (call->request.capacity == CAPACITY_NONE)
        return;
    call->reply.consumed = plan->consumed;
    call->reply.consumed_count = plan->charged_count;
    capacity_tell(&call->request, &call->reply, call->arena);
}

static enum submit items_done(struct action *action)
{
    for (size_t i = 0; i < action->item_count; i++) {
        struct touched *touched = action->items[i].touched;
        if (touched == NULL)
            continue;
        touched->is_image_known = true;
        touched->image = action->items[i].new_item;
    }
    tell_capacity(action);
    if (!collections_told(action))
        action->call->reply.collection_count = 0; /* it is written, whatever can be told */
    return action->items_done(action);
}

static enum submit items_read(struct action *action);

/* The places that have to be read before it is known what is left in an index being filled. */
static enum submit read_places(struct action *action)
{
    struct kv_record *first = action->item_reads + action->item_read_count;
    for (size_t i = 0; i < action->item_count; i++) {
        struct item_write *write = &action->items[i];
        if (!bytes_given(write->lacks))
            continue;
        write->place = action->item_reads + action->item_read_count++;
        *write->place = (struct kv_record){.key = write->lacks};
    }
    memset(&action->read, 0, sizeof action->read);
    action->read.records = first;
    action->read.count = (size_t)(action->item_reads + action->item_read_count - first);
    action->read_done = items_read;
    return action_read(action);
}

static struct definition *find_definition(const struct action *action,
                                          const struct kv_record *record)
{
    size_t i = 0;
    while (action->items[i].definition_record != record)
        i++;
    return (struct definition *)(uintptr_t)action->items[i].definition;
}

static enum submit items_read(struct action *action)
{
    struct reply *reply = &action->call->reply;
    enum status status;
    if (once_was_done(action, &status))
        return status == STATUS_OK ? transact_repeated(action) : action_fail(action, status);
    const struct kv_record *outdated = find_outdated(action);
    if (outdated != NULL) {
        action->definition = find_definition(action, outdated);
        return action_outdated(action, outdated->value);
    }
    status = compute_all(action, &action->plan);
    if (status != STATUS_OK && status != STATUS_CONDITIONAL_CHECK_FAILED)
        return refuse_items(action, status);
    if (status == STATUS_OK && lacks_places(action))
        return read_places(action);
    if (status == STATUS_OK && action->item_count > 1 && action->new_bytes > TRANSACT_BYTES_MAX)
        return transact_refused(action, STATUS_OK);
    enum status throttled = check_throughput(action);
    if (throttled != STATUS_OK)
        return refuse_items(action, throttled);
    if (status != STATUS_OK) {
        charge_judged(action);
        return refuse_items(action, status);
    }
    struct kv_commit *commit = &action->commit;
    commit->reads = action->item_reads;
    commit->read_count = action->item_read_count;
    commit->writes = action->plan.writes;
    commit->write_count = action->plan.write_count;
    commit->counters = action->plan.counters;
    commit->counter_count = action->plan.counter_count;
    commit->recompute = recompute;
    reply->touched = action->plan.touched;
    reply->touched_count = action->plan.touched_count;
    action->commit_done = items_done;
    action->commit_refused = items_refused;
    return action_commit(action);
}

/* The definition's record among those that are read; each once. */
static struct kv_record *place_definition(struct action *action, const struct item_write *write)
{
    struct kv_record *end = action->item_reads + action->item_read_count;
    for (struct kv_record *record = action->item_reads + action->definitions_at; record != end;
         record++)
        if (record->key.data == write->definition->record_key.data)
            return record;
    *end = (struct kv_record){.key = write->definition->record_key,
                              .value = write->definition->record,
                              .token = write->token};
    action->item_read_count++;
    return end;
}

static bool place_item(struct action *action, size_t i)
{
    struct item_write *write = &action->items[i];
    struct item_key key = write->request->item_key;
    write->hash = hash_partition(item_key_partition(key));
    write->item = &action->item_reads[i];
    *write->item =
        (struct kv_record){.key = record_item_key(write->definition->table.id, write->hash,
                                                  key.bytes, action->call->arena)};
    write->definition_record = place_definition(action, write);
    return bytes_given(write->item->key);
}

static bool place_items(struct action *action)
{
    size_t count = action->item_count;
    if (action->item_reads == NULL)
        action->item_reads = arena_alloc(action->call->arena,
                                         (3 * count + TOKEN_RECORDS) * sizeof *action->item_reads);
    if (action->item_reads == NULL)
        return false;
    action->definitions_at = count;
    if (action->once.span != 0) {
        memcpy(action->item_reads + count, action->once.reads,
               TOKEN_RECORDS * sizeof *action->once.reads);
        action->once.reads = action->item_reads + count;
        action->definitions_at += TOKEN_RECORDS;
    }
    action->item_read_count = action->definitions_at;
    for (size_t i = 0; i < count; i++)
        if (!place_item(action, i))
            return false;
    return true;
}

static bool definitions_may_change(const struct action *action)
{
    for (size_t i = 0; i < action->item_count; i++)
        if (definition_may_change(action->items[i].definition))
            return true;
    return false;
}

/* Definitions are known from the catalog at first; after a conflict, and while one of them may
 * change, they are read like items. */
enum submit write_items(struct action *action, step_fn done)
{
    action->items_done = done;
    if (!place_items(action))
        return action_fail(action, STATUS_NO_MEMORY);
    action->read.records = action->item_reads;
    bool is_known = action->attempts == 0 && !definitions_may_change(action);
    action->read.count = is_known ? action->definitions_at : action->item_read_count;
    action->read_done = items_read;
    return action_read(action);
}
