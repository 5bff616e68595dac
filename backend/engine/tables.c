#include "backend/engine/action.h"
#include "backend/engine/record.h"

#include "protocol/encoding/msgpack.h"
#include "protocol/ensure.h"

static struct bytes table_name_of(const struct action *action)
{
    return action->call->request.table_name;
}

enum submit tables_no_such(struct action *action)
{
    struct bytes name = table_name_of(action);
    struct error *error = &action->call->reply.error;
    enum status status = table_name_check(name, error);
    if (status == STATUS_OK)
        status = error_set(error, STATUS_RESOURCE_NOT_FOUND,
                           "Requested resource not found: Table: %.*s not found", (int)name.size,
                           (const char *)name.data);
    return action_fail(action, status);
}

struct partition_totals *totals_new(size_t count, struct arena *arena)
{
    struct partition_totals *totals = arena_alloc(arena, count * sizeof *totals);
    if (totals != NULL)
        memset(totals, 0, count * sizeof *totals);
    return totals;
}

static enum submit describe(struct action *action, const struct definition *definition,
                            const char *member, const char *table_status)
{
    struct reply *reply = &action->call->reply;
    size_t count = 1 + definition->table.index_count;
    if (action->totals == NULL)
        action->totals = totals_new(count, action->call->arena);
    if (action->totals == NULL)
        return action_fail(action, STATUS_NO_MEMORY);
    reply->body =
        definition_describe(definition, member, table_status, action->totals, action->call->arena);
    return bytes_given(reply->body) ? SUBMIT_DONE : action_fail(action, STATUS_NO_MEMORY);
}

/* ---- CreateTable ---- */

enum { READ_NAME, READ_NEXT_ID, READ_FORMAT, CREATE_READS };

/* If the catalog does not know the table, its creation had an unknown outcome. */
static enum submit table_exists(struct action *action)
{
    struct engine_lane *lane = action->lane;
    struct bytes name = action->input.name;
    struct definition *found;
    if (catalog_find(lane->catalog, name) == NULL &&
        definition_decode(action->reads[READ_NAME].value, &found) == STATUS_OK) {
        struct listed_definition listed = {.definition = found};
        bool is_published = engine_adopt(lane->engine, lane->catalog, &listed, NULL);
        definition_unref(found);
        if (!is_published)
            return action_fail(action, STATUS_NO_MEMORY);
    }
    return action_fail(action, error_set(&action->call->reply.error, STATUS_RESOURCE_IN_USE,
                                         "Table already exists: %.*s", (int)name.size,
                                         (const char *)name.data));
}

static void create_table_failed(struct action *action)
{
    definition_unref(action->created);
    action->created = NULL;
}

static enum submit create_table_done(struct action *action)
{
    struct definition *created = action->created;
    action->created = NULL;
    action->call->reply.commit = action->commit.number;
    enum submit submit = engine_publish(action->lane->engine, created, NULL)
                             ? describe(action, created, "TableDescription", "ACTIVE")
                             : action_fail(action, STATUS_OUTCOME_UNKNOWN);
    definition_unref(created);
    return submit;
}

static bool fill_create_writes(struct action *action, uint32_t id)
{
    struct arena *arena = action->call->arena;
    struct kv_record *writes = action->writes;
    for (int i = 0; i < CREATE_READS; i++)
        writes[i].key = action->reads[i].key;
    writes[READ_NAME].value = action->created->record;
    writes[READ_NEXT_ID].value =
        record_number_write((uint64_t)id + definition_ids(&action->input), arena);
    writes[READ_FORMAT].value = record_number_write(RECORD_FORMAT, arena);
    return bytes_given(writes[READ_NEXT_ID].value) && bytes_given(writes[READ_FORMAT].value);
}

static enum submit create_table_read_done(struct action *action)
{
    struct engine *engine = action->lane->engine;
    if (bytes_given(action->reads[READ_NAME].value))
        return table_exists(action);
    uint64_t id = record_number_read(action->reads[READ_NEXT_ID].value);
    if (id == 0)
        id = 1;
    if (id >= UINT32_MAX - definition_ids(&action->input))
        return action_fail(action, STATUS_LIMIT_EXCEEDED);
    struct bytes record = definition_encode(&action->input, (uint32_t)id, engine->wall_ms(),
                                            engine->partitions, action->call->arena);
    if (!bytes_given(record))
        return action_fail(action, STATUS_NO_MEMORY);
    enum status status = definition_decode(record, &action->created);
    if (status == STATUS_OK && !fill_create_writes(action, (uint32_t)id))
        status = STATUS_NO_MEMORY;
    if (status != STATUS_OK) {
        create_table_failed(action);
        return action_fail(action, status);
    }
    action->commit.reads = action->reads;
    action->commit.read_count = CREATE_READS;
    action->commit.writes = action->writes;
    action->commit.write_count = CREATE_READS;
    action->commit_done = create_table_done;
    action->commit_failed = create_table_failed;
    return action_commit(action);
}

enum submit create_table_begin(struct action *action)
{
    struct call *call = action->call;
    struct engine_lane *lane = action->lane;
    enum status status =
        definition_check(call->request.definition, call->arena, &action->input, &call->reply.error);
    if (status != STATUS_OK)
        return action_fail(action, status);
    struct bytes name = action->input.name;
    if (catalog_find(lane->catalog, name) == NULL &&
        catalog_count(lane->catalog) >= lane->engine->tables_max)
        return action_fail(action,
                           error_set(&call->reply.error, STATUS_LIMIT_EXCEEDED,
                                     "Subscriber limit exceeded: There is a limit of %u tables",
                                     lane->engine->tables_max));
    action->reads[READ_NAME].key = record_definition_key(name, call->arena);
    action->reads[READ_NEXT_ID].key = record_next_id_key(call->arena);
    action->reads[READ_FORMAT].key = record_format_key(call->arena);
    for (int i = 0; i < CREATE_READS; i++)
        if (!bytes_given(action->reads[i].key))
            return action_fail(action, STATUS_NO_MEMORY);
    action->read.records = action->reads;
    action->read.count = CREATE_READS;
    action->read_done = create_table_read_done;
    return action_read(action);
}

/* ---- DescribeTable ---- */

static bool total_visit(struct kv_read *read, struct bytes key, struct bytes value)
{
    (void)key;
    struct action *action = read->owner;
    partition_total(&action->totals[action->totals_at], value);
    return true;
}

static enum submit totals_next(struct action *action);

/* Counters of the table, then of one index after the other: each is a range of its own. */
static enum submit read_totals(struct action *action)
{
    const struct table *table = &action->definition->table;
    size_t at = action->totals_at;
    uint32_t id = at == 0 ? table->id : table->indexes[at - 1].id;
    if (!record_counters_range(id, action->call->arena, &action->read.low, &action->read.high))
        return action_fail(action, STATUS_NO_MEMORY);
    action->read.visit = total_visit;
    action->read_done = totals_next;
    return action_read(action);
}

static enum submit totals_next(struct action *action)
{
    if (++action->totals_at <= action->definition->table.index_count)
        return read_totals(action);
    return action->totals_done(action);
}

enum submit totals_read(struct action *action, step_fn done)
{
    action->totals = totals_new(1 + action->definition->table.index_count, action->call->arena);
    if (action->totals == NULL)
        return action_fail(action, STATUS_NO_MEMORY);
    action->totals_at = 0;
    action->totals_done = done;
    return read_totals(action);
}

static enum submit describe_table_done(struct action *action)
{
    bool is_active = atomic_load(&action->definition->state) == DEFINITION_ACTIVE;
    action->call->reply.commit = action->read.commit;
    return describe(action, action->definition, "Table", is_active ? "ACTIVE" : "DELETING");
}

enum submit describe_table_begin(struct action *action)
{
    action->definition = catalog_find(action->lane->catalog, table_name_of(action));
    if (action->definition == NULL)
        return tables_no_such(action);
    return totals_read(action, describe_table_done);
}

/* ---- ListTables ---- */

static struct bytes encode_list(struct value *names, size_t count, bool is_cut, struct arena *arena)
{
    struct attribute members[2] = {
        {BYTES_LITERAL("TableNames"), {.type = VALUE_L, .values = names, .count = count}}};
    struct value body = {.type = VALUE_M, .attributes = members, .count = 1};
    if (is_cut)
        members[body.count++] =
            (struct attribute){BYTES_LITERAL("LastEvaluatedTableName"), names[count - 1]};
    struct error error;
    struct buffer buffer = {0};
    struct bytes bytes = BYTES_NONE;
    if (value_normalize(&body, &error) == STATUS_OK && value_encode(&body, &buffer))
        bytes = arena_copy(arena, buffer_bytes(&buffer));
    buffer_deinit(&buffer);
    return bytes;
}

enum submit list_tables_begin(struct action *action)
{
    struct call *call = action->call;
    const struct catalog *catalog = action->lane->catalog;
    uint32_t limit = call->request.limit == 0 ? TABLES_LISTED_MAX : call->request.limit;
    if (limit > TABLES_LISTED_MAX)
        return action_fail(
            action, error_set(&call->reply.error, STATUS_VALIDATION,
                              "1 validation error detected: Value '%u' at 'limit' failed to "
                              "satisfy constraint: Member must have value less than or equal to "
                              "%d",
                              limit, TABLES_LISTED_MAX));
    size_t first = catalog_after(catalog, table_name_of(action));
    size_t left = catalog_count(catalog) - first;
    size_t count = left < limit ? left : limit;
    struct value *names = arena_alloc(call->arena, count * sizeof *names);
    if (names == NULL)
        return action_fail(action, STATUS_NO_MEMORY);
    for (size_t i = 0; i < count; i++)
        names[i] =
            (struct value){.type = VALUE_S, .bytes = catalog_at(catalog, first + i)->table.name};
    call->reply.count = (uint32_t)count;
    call->reply.body = encode_list(names, count, count < left, call->arena);
    return bytes_given(call->reply.body) ? SUBMIT_DONE : action_fail(action, STATUS_NO_MEMORY);
}

/* ---- DeleteTable ---- */

static enum kv_outcome delete_table_recompute(struct kv_commit *commit)
{
    struct action *action = commit->owner;
    struct bytes found = action->reads[READ_NAME].value;
    if (definition_is_of(action->definition, found))
        return bytes_equal(found, action->definition->record) ? KV_DONE : KV_CONFLICT;
    commit->status = error_set(&action->call->reply.error, STATUS_RESOURCE_NOT_FOUND,
                               "Requested resource not found");
    return KV_REFUSED;
}

/* A deletion whose outcome is unknown has to be repeated; one that was refused never was. */
static void delete_table_failed(struct action *action)
{
    struct definition *definition = action->definition;
    const struct kv_commit *commit = &action->commit;
    bool is_gone = commit->outcome == KV_REFUSED && commit->status == STATUS_RESOURCE_NOT_FOUND;
    int state = action->state_before;
    if (commit->outcome == KV_UNKNOWN ||
        (is_gone && !engine_publish(action->lane->engine, NULL, definition)))
        state = DEFINITION_DOUBTFUL;
    else if (is_gone)
        state = DEFINITION_DELETING;
    atomic_store(&definition->state, state);
}

static enum submit delete_table_done(struct action *action)
{
    action->call->reply.commit = action->commit.number;
    if (engine_publish(action->lane->engine, NULL, action->definition))
        return describe(action, action->definition, "TableDescription", "DELETING");
    atomic_store(&action->definition->state, DEFINITION_DOUBTFUL);
    return action_fail(action, STATUS_NO_MEMORY);
}

/* Takes the state from ACTIVE or DOUBTFUL to DELETING; one deletion at a time. */
static bool claim(struct action *action)
{
    atomic_int *state = &action->definition->state;
    action->state_before = DEFINITION_ACTIVE;
    if (atomic_compare_exchange_strong(state, &action->state_before, DEFINITION_DELETING))
        return true;
    return action->state_before == DEFINITION_DOUBTFUL &&
           atomic_compare_exchange_strong(state, &action->state_before, DEFINITION_DELETING);
}

/* Items and counters of the table (0) or of one of its indexes. */
static bool fill_drop(struct action *action, size_t at, struct touched *touched)
{
    struct arena *arena = action->call->arena;
    const struct table *table = &action->definition->table;
    uint32_t id = at == 0 ? table->id : table->indexes[at - 1].id;
    struct kv_range *drops = action->drops + 2 * at;
    *touched = (struct touched){.table_id = id, .is_all = true, .is_index = at != 0};
    return record_items_range(id, arena, &drops[0].low, &drops[0].high) &&
           record_counters_range(id, arena, &drops[1].low, &drops[1].high);
}

/* All go with the definition; ids are never used again, so that no record of theirs could show in
 * another table even if it stayed. */
static bool fill_deletion(struct action *action, struct touched **touched)
{
    struct arena *arena = action->call->arena;
    const struct definition *definition = action->definition;
    size_t count = 1 + definition->table.index_count;
    size_t drop_count = 2 * count + (definition->collections_id != 0);
    *touched = arena_alloc(arena, count * sizeof **touched);
    action->drops = arena_alloc(arena, drop_count * sizeof *action->drops);
    if (*touched == NULL || action->drops == NULL)
        return false;
    if (definition->collections_id != 0 &&
        !record_items_range(definition->collections_id, arena, &action->drops[2 * count].low,
                            &action->drops[2 * count].high))
        return false;
    for (size_t i = 0; i < count; i++)
        if (!fill_drop(action, i, &(*touched)[i]))
            return false;
    action->writes[0] = (struct kv_record){.key = definition->record_key};
    action->commit.reads = action->reads;
    action->commit.read_count = 1;
    action->commit.writes = action->writes;
    action->commit.write_count = 1;
    action->commit.drops = action->drops;
    action->commit.drop_count = drop_count;
    action->commit.recompute = delete_table_recompute;
    action->commit_done = delete_table_done;
    action->commit_failed = delete_table_failed;
    return true;
}

static enum submit delete_table_read_done(struct action *action)
{
    struct definition *definition = action->definition;
    struct reply *reply = &action->call->reply;
    struct bytes found = action->reads[READ_NAME].value;
    struct touched *touched;
    bool is_there = definition_is_of(definition, found);
    if (is_there && !bytes_equal(found, definition->record))
        return action_outdated(action, found);
    if (!fill_deletion(action, &touched))
        return action_fail(action, STATUS_NO_MEMORY);
    if (!claim(action))
        return action_fail(action,
                           error_set(&reply->error, STATUS_RESOURCE_IN_USE,
                                     "Attempt to change a resource which is still in use: Table "
                                     "is being deleted: %.*s",
                                     (int)definition->table.name.size,
                                     (const char *)definition->table.name.data));
    if (!is_there) {
        /* An earlier deletion had an unknown outcome, and did happen. */
        if (!engine_publish(action->lane->engine, NULL, definition))
            atomic_store(&definition->state, DEFINITION_DOUBTFUL);
        return tables_no_such(action);
    }
    reply->touched = touched;
    reply->touched_count = 1 + definition->table.index_count;
    return action_commit(action);
}

enum submit delete_table_begin(struct action *action)
{
    action->definition = catalog_find(action->lane->catalog, table_name_of(action));
    if (action->definition == NULL)
        return tables_no_such(action);
    if (action->definition->is_protected)
        return action_fail(action,
                           error_set(&action->call->reply.error, STATUS_VALIDATION,
                                     "Resource cannot be deleted as it is currently protected "
                                     "against deletion. Disable deletion protection first."));
    action->reads[READ_NAME].key = action->definition->record_key;
    action->read.records = action->reads;
    action->read.count = 1;
    action->read_done = delete_table_read_done;
    return action_read(action);
}
