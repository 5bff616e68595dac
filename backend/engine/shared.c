/* shared.c - tables that other daemons make, change and delete in a store that they share.
 *
 * All definitions are read and held against the catalog, both in the order of names. What follows
 * happens only if the catalog is still the one that was looked at: else a table that this daemon
 * has just made would be taken for one that others have deleted. What was cached of a table that is
 * gone goes too: in a store that was emptied its id is given again. */
#include "backend/engine/action.h"
#include "backend/engine/record.h"

/* Arena memory. */
struct shared {
    size_t at; /* in the lane's catalog: the first table whose name has not been passed */
    struct listed_definition *met, *gone;
    enum status status;
};

static struct bytes next_name(const struct action *action)
{
    const struct catalog *catalog = action->lane->catalog;
    size_t at = action->shared->at;
    return at < catalog_count(catalog) ? catalog_at(catalog, at)->table.name : BYTES_NONE;
}

static bool list(struct action *action, struct listed_definition **list,
                 struct definition *definition)
{
    struct listed_definition *listed = arena_alloc(action->call->arena, sizeof *listed);
    if (listed == NULL)
        return false;
    *listed = (struct listed_definition){.definition = definition, .next = *list};
    *list = listed;
    return true;
}

/* Tables of the catalog whose names come before `name` (not given: all that are left) are not in
 * the store. One that is being deleted here is left to that. */
static bool pass(struct action *action, struct bytes name)
{
    struct shared *shared = action->shared;
    for (struct bytes own; own = next_name(action), bytes_given(own); shared->at++) {
        if (bytes_given(name) && bytes_compare(own, name) >= 0)
            return true;
        struct definition *definition = catalog_at(action->lane->catalog, shared->at);
        if (atomic_load(&definition->state) == DEFINITION_ACTIVE &&
            !list(action, &shared->gone, definition))
            return false;
    }
    return true;
}

static enum status meet(struct action *action, struct bytes name, struct bytes record)
{
    struct shared *shared = action->shared;
    struct definition *definition;
    if (!pass(action, name))
        return STATUS_NO_MEMORY;
    if (bytes_equal(next_name(action), name)) {
        definition = catalog_at(action->lane->catalog, shared->at++);
        if (bytes_equal(definition->record, record))
            return STATUS_OK;
    }
    enum status status = definition_decode(record, &definition);
    if (status == STATUS_OK && !list(action, &shared->met, definition)) {
        definition_unref(definition);
        status = STATUS_NO_MEMORY;
    }
    return status;
}

static bool visit(struct kv_read *read, struct bytes key, struct bytes record)
{
    struct action *action = read->owner;
    action->shared->status = meet(action, record_definition_name(key), record);
    return action->shared->status == STATUS_OK;
}

static bool touch_gone(struct action *action)
{
    const struct listed_definition *gone = action->shared->gone;
    struct reply *reply = &action->call->reply;
    size_t count = 0;
    for (const struct listed_definition *at = gone; at != NULL; at = at->next)
        count += 1 + at->definition->table.index_count;
    struct touched *touched = arena_alloc(action->call->arena, count * sizeof *touched);
    if (touched == NULL)
        return false;
    reply->touched = touched;
    reply->touched_count = count;
    for (; gone != NULL; gone = gone->next) {
        const struct table *table = &gone->definition->table;
        *touched++ = (struct touched){.table_id = table->id, .is_all = true};
        for (size_t i = 0; i < table->index_count; i++)
            *touched++ = (struct touched){
                .table_id = table->indexes[i].id, .is_all = true, .is_index = true};
    }
    return true;
}

static enum submit definitions_read(struct action *action)
{
    struct shared *shared = action->shared;
    struct engine_lane *lane = action->lane;
    enum status status = shared->status;
    if (status == STATUS_OK && !pass(action, BYTES_NONE))
        status = STATUS_NO_MEMORY;
    bool is_changed = shared->met != NULL || shared->gone != NULL;
    if (status == STATUS_OK && is_changed &&
        (!touch_gone(action) ||
         !engine_adopt(lane->engine, lane->catalog, shared->met, shared->gone)))
        status = STATUS_NO_MEMORY;
    for (const struct listed_definition *met = shared->met; met != NULL; met = met->next)
        definition_unref(met->definition);
    if (status != STATUS_OK)
        return action_fail(action, status);
    action->call->reply.count = is_changed ? SHARED_CHANGED : SHARED_SAME;
    action->call->reply.body = body_nil;
    return SUBMIT_DONE;
}

enum submit look_at_shared_begin(struct action *action)
{
    struct arena *arena = action->call->arena;
    if (!action->lane->engine->kv->ops->is_shared) {
        action->call->reply.count = SHARED_NOT;
        action->call->reply.body = body_nil;
        return SUBMIT_DONE;
    }
    action->shared = arena_alloc(arena, sizeof *action->shared);
    if (action->shared == NULL ||
        !record_definitions_range(arena, &action->read.low, &action->read.high))
        return action_fail(action, STATUS_NO_MEMORY);
    memset(action->shared, 0, sizeof *action->shared);
    action->read.visit = visit;
    action->read_done = definitions_read;
    return action_read(action);
}
