/* alter.c - tables that change while they are in use: UpdateTable, UpdateTimeToLive, their tags,
 * and the slices in which a new index is filled. */
#include "backend/engine/action.h"
#include "backend/engine/arn.h"
#include "backend/engine/record.h"

#include "protocol/encoding/msgpack.h"
#include "protocol/ensure.h"
#include "protocol/hash.h"

enum { READ_NAME, READ_NEXT_ID, ALTER_READS };
enum {
    SLICE_ITEMS_MAX = 64,
    SLICE_BYTES_MAX = 256 << 10,
    FIRST_INDEX_ID = 1,
};

/* ---- one change of a definition ---- */

static enum submit alter_read_done(struct action *action);

static enum submit read_definition(struct action *action)
{
    struct arena *arena = action->call->arena;
    memset(&action->read, 0, sizeof action->read);
    memset(action->reads, 0, sizeof action->reads);
    action->reads[READ_NAME].key = action->definition->record_key;
    action->reads[READ_NEXT_ID].key = record_next_id_key(arena);
    if (!bytes_given(action->reads[READ_NEXT_ID].key))
        return action_fail(action, STATUS_NO_MEMORY);
    action->read.records = action->reads;
    action->read.count = ALTER_READS;
    action->read_done = alter_read_done;
    return action_read(action);
}

/* Finds the table in a state in which it can be changed. SUBMIT_PENDING: go on. */
static enum submit find_table(struct action *action)
{
    struct call *call = action->call;
    struct error *error = &call->reply.error;
    struct bytes name = call->request.table_name;
    action->definition = catalog_find(action->lane->catalog, name);
    if (action->definition == NULL)
        return tables_no_such(action);
    if (atomic_load(&action->definition->state) == DEFINITION_ACTIVE)
        return SUBMIT_PENDING;
    return action_fail(action, error_set(error, STATUS_RESOURCE_IN_USE,
                                         "Attempt to change a resource which is still in use: "
                                         "Table is being deleted: %.*s",
                                         (int)name.size, (const char *)name.data));
}

static void alter_failed(struct action *action)
{
    definition_unref(action->created);
    action->created = NULL;
}

/* Of each index its counts as they were; a new one has none. */
static bool carry_totals(struct action *action)
{
    const struct table *before = &action->definition->table, *after = &action->created->table;
    struct partition_totals *totals = totals_new(1 + after->index_count, action->call->arena);
    if (totals == NULL)
        return false;
    totals[0] = action->totals[0];
    for (size_t i = 0; i < after->index_count; i++)
        for (size_t k = 0; k < before->index_count; k++)
            if (after->indexes[i].id == before->indexes[k].id)
                totals[1 + i] = action->totals[1 + k];
    action->totals = totals;
    return true;
}

static struct bytes alter_body(struct action *action)
{
    struct call *call = action->call;
    const struct definition *created = action->created;
    struct bytes given;
    switch (call->request.operation) {
    case OPERATION_UPDATE_TABLE:
        return carry_totals(action) ? definition_describe(created, "TableDescription", "UPDATING",
                                                          action->totals, call->arena)
                                    : BYTES_NONE;
    case OPERATION_UPDATE_TIME_TO_LIVE:
        ensure(
            item_find(call->request.definition, BYTES_LITERAL("TimeToLiveSpecification"), &given));
        return definition_wrap("TimeToLiveSpecification", given, call->arena);
    default:
        return body_nil;
    }
}

static enum submit alter_done(struct action *action)
{
    struct reply *reply = &action->call->reply;
    reply->commit = action->commit.number;
    reply->body = alter_body(action);
    bool is_published = engine_publish(action->lane->engine, action->created, NULL);
    alter_failed(action);
    if (!is_published || !bytes_given(reply->body))
        return action_fail(action, STATUS_OUTCOME_UNKNOWN);
    return SUBMIT_DONE;
}

/* What an index held goes with it. */
static bool fill_drop(struct action *action, uint32_t id)
{
    struct arena *arena = action->call->arena;
    struct touched *touched = arena_alloc(arena, sizeof *touched);
    struct kv_range *drops = arena_alloc(arena, 2 * sizeof *drops);
    if (touched == NULL || drops == NULL ||
        !record_items_range(id, arena, &drops[0].low, &drops[0].high) ||
        !record_counters_range(id, arena, &drops[1].low, &drops[1].high))
        return false;
    *touched = (struct touched){.table_id = id, .is_all = true, .is_index = true};
    action->call->reply.touched = touched;
    action->call->reply.touched_count = 1;
    action->commit.drops = drops;
    action->commit.drop_count = 2;
    return true;
}

static bool fill_drops(struct action *action)
{
    const struct table *before = &action->definition->table, *after = &action->created->table;
    for (size_t i = 0; i < before->index_count; i++)
        if (table_index(after, before->indexes[i].name) == NULL)
            return fill_drop(action, before->indexes[i].id); /* one at a time */
    return true;
}

static struct definition_change change_of(const struct request *request)
{
    struct definition_change change = {.request = request->definition};
    switch (request->operation) {
    case OPERATION_UPDATE_TABLE:
        change.kind = CHANGE_TABLE;
        break;
    case OPERATION_UPDATE_TIME_TO_LIVE:
        change.kind = CHANGE_TIME_TO_LIVE;
        break;
    case OPERATION_TAG_RESOURCE:
        change.kind = CHANGE_TAG;
        break;
    case OPERATION_UNTAG_RESOURCE:
        change.kind = CHANGE_UNTAG;
        break;
    default:
        change.kind = CHANGE_FILLED;
        change.request = BYTES_NONE;
        change.index = request->index_name;
    }
    return change;
}

static enum submit alter_commit(struct action *action, struct bytes record, uint32_t next_id)
{
    action->writes[0] = (struct kv_record){.key = action->definition->record_key, .value = record};
    action->writes[1] =
        (struct kv_record){.key = action->reads[READ_NEXT_ID].key,
                           .value = record_number_write(next_id, action->call->arena)};
    if (!bytes_given(action->writes[1].value) || !fill_drops(action)) {
        alter_failed(action);
        return action_fail(action, STATUS_NO_MEMORY);
    }
    action->commit.reads = action->reads;
    action->commit.read_count = ALTER_READS;
    action->commit.writes = action->writes;
    action->commit.write_count = 2;
    return action_change(action, alter_done);
}

static enum submit alter_read_done(struct action *action)
{
    struct call *call = action->call;
    struct bytes found = action->reads[READ_NAME].value, record;
    if (!definition_is_of(action->definition, found))
        return tables_no_such(action);
    if (!bytes_equal(found, action->definition->record))
        return action_outdated(action, found);
    uint64_t wide = record_number_read(action->reads[READ_NEXT_ID].value);
    if (wide < FIRST_INDEX_ID || wide >= UINT32_MAX)
        return action_fail(action, STATUS_LIMIT_EXCEEDED);
    uint32_t next_id = (uint32_t)wide;
    struct definition_change change = change_of(&call->request);
    enum status status = definition_update(action->definition, &change, &next_id, call->arena,
                                           &record, &call->reply.error);
    if (status == STATUS_OK)
        status = definition_decode(record, &action->created);
    return status == STATUS_OK ? alter_commit(action, record, next_id)
                               : action_fail(action, status);
}

/* Not given: the request's map has no such text. */
static struct bytes text_of(const struct request *request, const char *member)
{
    struct bytes value, text;
    if (!item_find(request->definition, bytes_text(member), &value))
        return BYTES_NONE;
    struct msgpack_cursor cursor = msgpack_cursor_of(value);
    return msgpack_read_str(&cursor, &text) ? text : BYTES_NONE;
}

/* The request's map names the table. */
static enum submit name_table(struct action *action)
{
    struct request *request = &action->call->request;
    request->table_name = text_of(request, "TableName");
    enum status status = table_name_check(request->table_name, &action->call->reply.error);
    return status == STATUS_OK ? find_table(action) : action_fail(action, status);
}

enum submit update_table_begin(struct action *action)
{
    enum submit submit = name_table(action);
    return submit == SUBMIT_PENDING ? totals_read(action, read_definition) : submit;
}

enum submit update_time_to_live_begin(struct action *action)
{
    enum submit submit = name_table(action);
    return submit == SUBMIT_PENDING ? read_definition(action) : submit;
}

enum submit describe_time_to_live_begin(struct action *action)
{
    struct reply *reply = &action->call->reply;
    if (find_table(action) == SUBMIT_DONE)
        return SUBMIT_DONE;
    reply->body = definition_describe_time_to_live(action->definition, action->call->arena);
    return bytes_given(reply->body) ? SUBMIT_DONE : action_fail(action, STATUS_NO_MEMORY);
}

/* ---- tags ---- */

/* The request's map names the table by its ARN. */
static enum submit name_resource(struct action *action)
{
    struct request *request = &action->call->request;
    struct error *error = &action->call->reply.error;
    struct bytes arn = text_of(request, "ResourceArn");
    enum status status = arn_table(arn, &request->table_name, error);
    if (status != STATUS_OK)
        return action_fail(action, status);
    if (catalog_find(action->lane->catalog, request->table_name) != NULL)
        return find_table(action);
    if (request->operation == OPERATION_UNTAG_RESOURCE)
        return action_fail(
            action, error_set(error, STATUS_RESOURCE_NOT_FOUND, "Requested resource not found"));
    return action_fail(action, error_set(error, STATUS_RESOURCE_NOT_FOUND,
                                         "Requested resource not found: ResourcArn: %.*s not found",
                                         (int)arn.size, (const char *)arn.data));
}

enum submit tag_resource_begin(struct action *action)
{
    enum submit submit = name_resource(action);
    return submit == SUBMIT_PENDING ? read_definition(action) : submit;
}

/* All on one page, as DynamoDB tells them: there are no more than 50. */
enum submit list_tags_begin(struct action *action)
{
    struct call *call = action->call;
    struct bytes token;
    enum submit submit = name_resource(action);
    if (submit != SUBMIT_PENDING)
        return submit;
    if (item_find(call->request.definition, BYTES_LITERAL("NextToken"), &token))
        return action_fail(action, error_set(&call->reply.error, STATUS_VALIDATION,
                                             "Invalid NextToken: there was no page before"));
    call->reply.body = definition_describe_tags(action->definition, call->arena);
    return bytes_given(call->reply.body) ? SUBMIT_DONE : action_fail(action, STATUS_NO_MEMORY);
}

/* ---- filling an index ---- */

/* Records of one slice: an item, and its place in the index if it has one. */
struct slice {
    struct kv_record items[SLICE_ITEMS_MAX]; /* as the range showed them */
    struct item_key places[SLICE_ITEMS_MAX]; /* bytes not given: not in the index */
    struct bytes values[SLICE_ITEMS_MAX];    /* what the index holds of them */
    size_t sizes[SLICE_ITEMS_MAX];           /* DynamoDB's, of those */
    size_t count, bytes;
    bool has_no_memory;
};

static bool slice_visit(struct kv_read *read, struct bytes key, struct bytes item)
{
    struct action *action = read->owner;
    struct slice *slice = action->slice;
    struct kv_record *record = &slice->items[slice->count];
    *record = (struct kv_record){.key = arena_copy(action->call->arena, key),
                                 .value = arena_copy(action->call->arena, item)};
    slice->has_no_memory = !bytes_given(record->key) || !bytes_given(record->value);
    if (slice->has_no_memory)
        return false;
    slice->bytes += item.size;
    return ++slice->count < SLICE_ITEMS_MAX && slice->bytes < SLICE_BYTES_MAX;
}

static enum submit slice_done(struct action *action)
{
    struct slice *slice = action->slice;
    const struct kv_record *last = &slice->items[slice->count - 1];
    struct reply *reply = &action->call->reply;
    struct bytes next;
    reply->commit = action->commit.number;
    reply->count = (uint32_t)slice->count;
    if (!bytes_next(bytes_of(last->key.data + RECORD_ID_BYTES, last->key.size - RECORD_ID_BYTES),
                    action->call->arena, &next))
        return action_fail(action, STATUS_NO_MEMORY);
    reply->body = next;
    return SUBMIT_DONE;
}

/* An item that was written since the index is there has its place already, and so has one that an
 * earlier attempt has brought in. */
static enum submit slice_commit(struct action *action)
{
    struct arena *arena = action->call->arena;
    struct slice *slice = action->slice;
    const struct secondary_index *index = action->call->request.index;
    size_t at = (size_t)(index - action->definition->table.indexes);
    struct kv_record *writes = arena_alloc(arena, slice->count * sizeof *writes);
    struct kv_counter *counters = arena_alloc(arena, slice->count * sizeof *counters);
    size_t count = 0;
    struct bytes record = action->item_reads[2 * slice->count].value;
    if (writes == NULL || counters == NULL)
        return action_fail(action, STATUS_NO_MEMORY);
    if (!definition_is_of(action->definition, record))
        return tables_no_such(action);
    if (!bytes_equal(record, action->definition->record))
        return action_outdated(action, record);
    for (size_t i = 0; i < slice->count; i++) {
        const struct kv_record *item = &action->item_reads[2 * i], *place = item + 1;
        if (!bytes_given(slice->places[i].bytes) || bytes_given(place->value) ||
            !bytes_equal(item->value, slice->items[i].value))
            continue;
        struct partition_change change = {.is_there = true, .new_size = slice->sizes[i]};
        writes[count] = (struct kv_record){.key = place->key, .value = slice->values[i]};
        partition_count(&counters[count], &change);
        struct position position = {.hash = hash_partition(item_key_partition(slice->places[i])),
                                    .key = slice->places[i].bytes};
        const struct partition_map *map = &action->definition->index_partitions[at];
        counters[count].key = record_counter_key(
            index->id, map->partitions[partition_find(map, &position)].id, arena);
        if (!bytes_given(counters[count++].key))
            return action_fail(action, STATUS_NO_MEMORY);
    }
    action->commit.reads = action->item_reads;
    action->commit.read_count = 2 * slice->count + 1;
    action->commit.writes = writes;
    action->commit.write_count = count;
    action->commit.counters = counters;
    action->commit.counter_count = count;
    action->commit_done = slice_done;
    return action_commit(action);
}

/* The items again, with tokens, and their places. One without a place stands in for it. */
static enum submit slice_read(struct action *action)
{
    struct call *call = action->call;
    struct slice *slice = action->slice;
    const struct secondary_index *index = call->request.index;
    const struct key_schema *schema = &action->definition->table.key;
    if (slice->has_no_memory)
        return action_fail(action, STATUS_NO_MEMORY);
    if (slice->count == 0)
        return read_definition(action); /* all are in */
    action->item_reads =
        arena_alloc(call->arena, (2 * slice->count + 1) * sizeof *action->item_reads);
    if (action->item_reads == NULL)
        return action_fail(action, STATUS_NO_MEMORY);
    for (size_t i = 0; i < slice->count; i++) {
        struct bytes key = slice->items[i].key;
        struct item_key primary;
        ensure(
            item_key_split(bytes_of(key.data + RECORD_ITEM_PREFIX, key.size - RECORD_ITEM_PREFIX),
                           schema, &primary));
        enum status status = index_entry_of(index, slice->items[i].value, primary, call->arena,
                                            &slice->places[i], &slice->values[i], &slice->sizes[i]);
        if (status != STATUS_OK)
            return action_fail(action, status);
        struct item_key place = slice->places[i];
        action->item_reads[2 * i] = (struct kv_record){.key = key};
        action->item_reads[2 * i + 1] = (struct kv_record){
            .key = bytes_given(place.bytes)
                       ? record_item_key(index->id, hash_partition(item_key_partition(place)),
                                         place.bytes, call->arena)
                       : key};
        if (!bytes_given(action->item_reads[2 * i + 1].key))
            return action_fail(action, STATUS_NO_MEMORY);
    }
    memset(&action->read, 0, sizeof action->read);
    action->read.records = action->item_reads;
    action->item_reads[2 * slice->count] =
        (struct kv_record){.key = action->definition->record_key};
    action->read.count = 2 * slice->count + 1;
    action->read_done = slice_commit;
    return action_read(action);
}

enum submit fill_index_begin(struct action *action)
{
    struct call *call = action->call;
    struct request *request = &call->request;
    struct bytes low, high;
    enum submit submit = find_table(action);
    if (submit != SUBMIT_PENDING)
        return submit;
    action->token = action->lane->token;
    request->table = &action->definition->table;
    request->index = table_index(request->table, request->index_name);
    if (request->index == NULL || request->index->is_ready) {
        call->reply.body = body_nil; /* nothing is left to do */
        return SUBMIT_DONE;
    }
    action->slice = arena_alloc(call->arena, sizeof *action->slice);
    if (action->slice == NULL || !record_items_range(request->table->id, call->arena, &low, &high))
        return action_fail(action, STATUS_NO_MEMORY);
    action->slice->count = 0;
    action->slice->bytes = 0;
    action->slice->has_no_memory = false;
    action->read.low = low;
    if (bytes_given(request->start_key)) {
        uint8_t *from = arena_alloc(call->arena, low.size + request->start_key.size);
        if (from == NULL)
            return action_fail(action, STATUS_NO_MEMORY);
        memcpy(from, low.data, low.size);
        memcpy(from + low.size, request->start_key.data, request->start_key.size);
        action->read.low = bytes_of(from, low.size + request->start_key.size);
    }
    action->read.high = high;
    action->read.visit = slice_visit;
    action->read.records_max = SLICE_ITEMS_MAX;
    action->read.is_large = true;
    action->read_done = slice_read;
    return action_read(action);
}
