/* definition_update.c - what UpdateTable, UpdateTimeToLive and tagging make of a definition. */
#include "backend/engine/definition_encryption.h"
#include "backend/engine/definition_index.h"
#include "backend/engine/definition_tags.h"
#include "backend/engine/definition_throughput.h"

#include "protocol/encoding/msgpack.h"
#include "protocol/ensure.h"

#define INVALID "One or more parameter values were invalid: "

enum { DEFINITIONS_MAX = 2 + 2 * INDEXES_MAX };

/* A record taken apart, to be changed member by member. */
struct draft {
    struct tree_members record, description;
    struct arena *arena;
    const struct definition *definition;
    uint32_t next_id;
    bool is_changed;
    struct error *error;
};

/* ---- members ---- */

static bool open_members(const struct value *map, struct tree_members *out)
{
    if (map == NULL || map->type != VALUE_M || map->count > TREE_MEMBERS_MAX)
        return false;
    out->count = map->count;
    memcpy(out->attributes, map->attributes, map->count * sizeof *map->attributes);
    return true;
}

static struct value *find(struct tree_members *members, const char *name)
{
    for (size_t i = 0; i < members->count; i++)
        if (bytes_equal(members->attributes[i].name, bytes_text(name)))
            return &members->attributes[i].value;
    return NULL;
}

static void set(struct tree_members *members, const char *name, struct value value)
{
    struct value *there = find(members, name);
    if (there != NULL)
        *there = value;
    else
        tree_add(members, name, value);
}

static void unset(struct tree_members *members, const char *name)
{
    for (size_t i = 0; i < members->count; i++)
        if (bytes_equal(members->attributes[i].name, bytes_text(name)))
            members->attributes[i] = members->attributes[--members->count];
}

/* ---- lists and maps that grow and shrink ---- */

static enum status no_memory(struct draft *draft)
{
    return error_set(draft->error, STATUS_NO_MEMORY, "%s", "");
}

/* A list with one more at its end. */
static enum status append(struct draft *draft, struct tree_members *members, const char *name,
                          const struct value *more)
{
    const struct value *before = find(members, name);
    size_t count = tree_count(before);
    struct value *values = arena_alloc(draft->arena, (count + 1) * sizeof *values);
    if (values == NULL)
        return no_memory(draft);
    if (count != 0)
        memcpy(values, before->values, count * sizeof *values);
    values[count] = *more;
    set(members, name, (struct value){.type = VALUE_L, .values = values, .count = count + 1});
    return STATUS_OK;
}

static struct value index_named(struct draft *draft, struct bytes name, size_t *at)
{
    const struct value *list = find(&draft->description, "GlobalSecondaryIndexes");
    for (*at = 0; *at < tree_count(list); ++*at)
        if (bytes_equal(tree_text(&list->values[*at], "IndexName"), name))
            return list->values[*at];
    return (struct value){.type = VALUE_NULL};
}

static enum status refuse_unknown_index(struct draft *draft, struct bytes name)
{
    return error_set(draft->error, STATUS_RESOURCE_NOT_FOUND,
                     "Requested resource not found: Index: %.*s not found", (int)name.size,
                     bytes_given(name) ? (const char *)name.data : "");
}

/* ---- indexes ---- */

/* AttributeDefinitions as they are and as they come, each once. */
static enum status merge_definitions(struct draft *draft, const struct value *more)
{
    const struct value *there = find(&draft->description, "AttributeDefinitions");
    enum status status = STATUS_OK;
    for (size_t i = 0; i < tree_count(more) && status == STATUS_OK; i++) {
        struct bytes name = tree_text(&more->values[i], "AttributeName");
        const struct value *same = bytes_given(name) ? definition_find(there, name) : NULL;
        if (same == NULL) {
            status = append(draft, &draft->description, "AttributeDefinitions", &more->values[i]);
            there = find(&draft->description, "AttributeDefinitions");
        } else if (!bytes_equal(tree_text(same, "AttributeType"),
                                tree_text(&more->values[i], "AttributeType"))) {
            status = error_set(draft->error, STATUS_VALIDATION,
                               INVALID "AttributeDefinition of %.*s differs from the table's",
                               (int)name.size, (const char *)name.data);
        }
    }
    if (status == STATUS_OK && tree_count(there) > DEFINITIONS_MAX)
        status =
            error_set(draft->error, STATUS_VALIDATION, INVALID "Too many AttributeDefinitions");
    return status;
}

static bool key_uses(const struct value *owner, struct bytes name)
{
    const struct value *keys = tree_member(owner, "KeySchema");
    for (size_t i = 0; i < tree_count(keys); i++)
        if (bytes_equal(tree_text(&keys->values[i], "AttributeName"), name))
            return true;
    return false;
}

static bool is_used(struct draft *draft, struct bytes name)
{
    struct value table = tree_of_members(&draft->description);
    if (key_uses(&table, name))
        return true;
    static const char *const lists[] = {"GlobalSecondaryIndexes", "LocalSecondaryIndexes"};
    for (size_t k = 0; k < 2; k++) {
        const struct value *list = find(&draft->description, lists[k]);
        for (size_t i = 0; i < tree_count(list); i++)
            if (key_uses(&list->values[i], name))
                return true;
    }
    return false;
}

/* What no key uses any longer is forgotten, as DynamoDB forgets it. */
static enum status drop_unused_definitions(struct draft *draft)
{
    const struct value *there = find(&draft->description, "AttributeDefinitions");
    struct value *values = arena_alloc(draft->arena, there->count * sizeof *values);
    size_t count = 0;
    if (values == NULL)
        return no_memory(draft);
    for (size_t i = 0; i < there->count; i++)
        if (is_used(draft, tree_text(&there->values[i], "AttributeName")))
            values[count++] = there->values[i];
    set(&draft->description, "AttributeDefinitions",
        (struct value){.type = VALUE_L, .values = values, .count = count});
    return STATUS_OK;
}

static bool is_any_filling(const struct definition *definition)
{
    for (size_t i = 0; i < definition->table.index_count; i++)
        if (!definition->table.indexes[i].is_ready)
            return true;
    return false;
}

/* The map of indexes, without `left` (may be not given) and with room for one more. */
static struct attribute *copy_indexes(struct draft *draft, struct bytes left, size_t *count)
{
    const struct value *map = find(&draft->record, "Indexes");
    size_t there = map == NULL ? 0 : map->count;
    struct attribute *attributes = arena_alloc(draft->arena, (there + 1) * sizeof *attributes);
    *count = 0;
    for (size_t i = 0; attributes != NULL && i < there; i++)
        if (!bytes_equal(map->attributes[i].name, left))
            attributes[(*count)++] = map->attributes[i];
    return attributes;
}

static enum status keep_index(struct draft *draft, struct bytes name, struct value kept)
{
    size_t count;
    struct attribute *attributes = copy_indexes(draft, name, &count);
    if (attributes == NULL)
        return no_memory(draft);
    attributes[count++] = (struct attribute){name, kept};
    set(&draft->record, "Indexes",
        (struct value){.type = VALUE_M, .attributes = attributes, .count = count});
    return STATUS_OK;
}

static enum status create_index(struct draft *draft, const struct value *given)
{
    struct bytes name = tree_text(given, "IndexName");
    struct partition_map map;
    struct tree_members kept = {.count = 0};
    struct value value, description;
    if (is_any_filling(draft->definition))
        return error_set(draft->error, STATUS_LIMIT_EXCEEDED,
                         "Subscriber limit exceeded: Only 1 online index can be created or deleted "
                         "simultaneously per table");
    enum status status = append(draft, &draft->description, "GlobalSecondaryIndexes", given);
    description = tree_of_members(&draft->description);
    if (status == STATUS_OK)
        status = definition_indexes_check(&description, draft->error);
    if (status == STATUS_OK)
        status = definition_check_new_index(given, draft->error);
    if (status != STATUS_OK)
        return status;
    if (!partition_map_even(draft->definition->partitions.count, draft->arena, &map))
        return no_memory(draft);
    struct bytes points = partition_map_write(&map, draft->arena);
    if (!bytes_given(points))
        return no_memory(draft);
    tree_add(&kept, "Id", tree_of_number(draft->next_id));
    tree_add(&kept, "IsFilling", (struct value){.type = VALUE_BOOL, .truth = true});
    tree_add(&kept, "Partitions", (struct value){.type = VALUE_B, .bytes = points});
    if (!tree_keep_members(&kept, draft->arena, &value))
        return no_memory(draft);
    draft->next_id++;
    return keep_index(draft, name, value);
}

static enum status delete_index(struct draft *draft, const struct value *given)
{
    struct bytes name = tree_text(given, "IndexName");
    size_t at, count;
    if (index_named(draft, name, &at).type != VALUE_M)
        return refuse_unknown_index(draft, name);
    const struct value *list = find(&draft->description, "GlobalSecondaryIndexes");
    struct value *values = arena_alloc(draft->arena, list->count * sizeof *values);
    struct attribute *attributes = copy_indexes(draft, name, &count);
    if (values == NULL || attributes == NULL)
        return no_memory(draft);
    memcpy(values, list->values, at * sizeof *values);
    memcpy(values + at, list->values + at + 1, (list->count - at - 1) * sizeof *values);
    if (list->count == 1)
        unset(&draft->description, "GlobalSecondaryIndexes");
    else
        set(&draft->description, "GlobalSecondaryIndexes",
            (struct value){.type = VALUE_L, .values = values, .count = list->count - 1});
    if (count == 0)
        unset(&draft->record, "Indexes");
    else
        set(&draft->record, "Indexes",
            (struct value){.type = VALUE_M, .attributes = attributes, .count = count});
    return drop_unused_definitions(draft);
}

/* What of a table's or an index's throughput is given; whether it fits is checked in the end.
 * index  its name; not given for the table */
static enum status update_throughput(struct draft *draft, struct tree_members *owner,
                                     struct bytes index, const struct value *given, bool *is_any)
{
    static const char *const plain[] = {"OnDemandThroughput", "ProvisionedThroughput"};
    const struct value *warm = tree_member(given, "WarmThroughput");
    struct value raised, before = tree_of_members(owner);
    *is_any = warm != NULL;
    enum status status = definition_check_change(&before, given, index, draft->error);
    if (status != STATUS_OK)
        return status;
    if (warm != NULL) {
        status = definition_raise_warm(&before, warm, index, draft->arena, &raised, draft->error);
        if (status != STATUS_OK)
            return status;
        set(owner, "WarmThroughput", raised);
    }
    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++) {
        const struct value *value = tree_member(given, plain[i]);
        if (value == NULL)
            continue;
        set(owner, plain[i], *value);
        *is_any = true;
    }
    return STATUS_OK;
}

/* Only an index's throughput can be changed. */
static enum status update_index(struct draft *draft, const struct value *given)
{
    struct bytes name = tree_text(given, "IndexName");
    size_t at;
    struct value index = index_named(draft, name, &at);
    struct tree_members members;
    bool is_any = false;
    if (index.type != VALUE_M || !open_members(&index, &members))
        return refuse_unknown_index(draft, name);
    enum status status = update_throughput(draft, &members, name, given, &is_any);
    if (status != STATUS_OK)
        return status;
    if (!is_any)
        return error_set(draft->error, STATUS_VALIDATION,
                         INVALID "ProvisionedThroughput is not specified for index: %.*s",
                         (int)name.size, (const char *)name.data);
    struct value *list = find(&draft->description, "GlobalSecondaryIndexes");
    struct value *values = arena_alloc(draft->arena, list->count * sizeof *values);
    if (values == NULL)
        return no_memory(draft);
    memcpy(values, list->values, list->count * sizeof *values);
    if (!tree_keep_members(&members, draft->arena, &values[at]))
        return no_memory(draft);
    list->values = values;
    return STATUS_OK;
}

static enum status update_indexes(struct draft *draft, const struct value *updates)
{
    size_t changes = 0;
    enum status status = STATUS_OK;
    for (size_t i = 0; i < tree_count(updates) && status == STATUS_OK; i++) {
        const struct value *update = &updates->values[i];
        const struct value *create = tree_member(update, "Create");
        const struct value *remove = tree_member(update, "Delete");
        const struct value *change = tree_member(update, "Update");
        if ((create != NULL) + (remove != NULL) + (change != NULL) != 1)
            return error_set(draft->error, STATUS_VALIDATION,
                             INVALID "Exactly one of GlobalSecondaryIndexUpdates' Create, Update "
                                     "and Delete must be specified");
        changes += change == NULL;
        if (changes > 1)
            return error_set(draft->error, STATUS_LIMIT_EXCEEDED,
                             "Subscriber limit exceeded: Only 1 online index can be created or "
                             "deleted simultaneously per table");
        status = create != NULL   ? create_index(draft, create)
                 : remove != NULL ? delete_index(draft, remove)
                                  : update_index(draft, change);
        draft->is_changed = true;
    }
    return status;
}

/* ---- the rest of UpdateTable ---- */

/* Takes a member from the table and its indexes. */
static enum status drop_everywhere(struct draft *draft, const char *name)
{
    unset(&draft->description, name);
    struct value *list = find(&draft->description, "GlobalSecondaryIndexes");
    if (list == NULL)
        return STATUS_OK;
    struct value *values = arena_alloc(draft->arena, list->count * sizeof *values);
    for (size_t i = 0; values != NULL && i < list->count; i++) {
        struct tree_members members;
        ensure(open_members(&list->values[i], &members));
        unset(&members, name);
        if (!tree_keep_members(&members, draft->arena, &values[i]))
            return no_memory(draft);
    }
    if (values == NULL)
        return no_memory(draft);
    list->values = values;
    return STATUS_OK;
}

/* What belongs to the other billing mode goes, in the indexes too. */
static enum status update_billing(struct draft *draft, const struct value *request)
{
    struct bytes mode = tree_text(request, "BillingMode");
    bool is_any = false;
    enum status status = STATUS_OK;
    if (bytes_equal(mode, BYTES_LITERAL("PAY_PER_REQUEST")))
        status = drop_everywhere(draft, "ProvisionedThroughput");
    if (bytes_equal(mode, BYTES_LITERAL("PROVISIONED")))
        status = drop_everywhere(draft, "OnDemandThroughput");
    if (status == STATUS_OK)
        status = update_throughput(draft, &draft->description, BYTES_NONE, request, &is_any);
    draft->is_changed |= is_any;
    return status;
}

static enum status update_encryption(struct draft *draft, const struct value *given)
{
    if (given == NULL)
        return STATUS_OK;
    enum status status = encryption_check(given, draft->error);
    if (status == STATUS_OK)
        status = encryption_check_change(find(&draft->description, "SSESpecification"), given,
                                         draft->arena, draft->error);
    if (status == STATUS_OK)
        set(&draft->description, "SSESpecification", *given);
    draft->is_changed = true;
    return status;
}

static void update_plain(struct draft *draft, const struct value *request)
{
    static const char *const plain[] = {"BillingMode", "DeletionProtectionEnabled", "TableClass"};
    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++) {
        const struct value *value = tree_member(request, plain[i]);
        if (value == NULL)
            continue;
        set(&draft->description, plain[i], *value);
        draft->is_changed = true;
    }
}

static enum status update_stream(struct draft *draft, const struct value *stream)
{
    if (stream == NULL)
        return STATUS_OK;
    bool was_enabled =
        tree_truth(find(&draft->description, "StreamSpecification"), "StreamEnabled");
    if (was_enabled == tree_truth(stream, "StreamEnabled"))
        return error_set(draft->error, STATUS_VALIDATION,
                         was_enabled ? "Table already has an enabled stream"
                                     : "Table has no stream to disable");
    set(&draft->description, "StreamSpecification", *stream);
    draft->is_changed = true;
    return STATUS_OK;
}

static enum status update_table(struct draft *draft, const struct value *request)
{
    if (tree_member(request, "ReplicaUpdates") != NULL)
        return error_set(draft->error, STATUS_UNSUPPORTED,
                         "ReplicaUpdates: global tables are not supported");
    update_plain(draft, request);
    enum status status = update_billing(draft, request);
    if (status == STATUS_OK)
        status = update_encryption(draft, tree_member(request, "SSESpecification"));
    if (status == STATUS_OK)
        status = definition_check_stream(request, draft->error);
    if (status == STATUS_OK)
        status = update_stream(draft, tree_member(request, "StreamSpecification"));
    if (status == STATUS_OK)
        status = merge_definitions(draft, tree_member(request, "AttributeDefinitions"));
    if (status == STATUS_OK)
        status = update_indexes(draft, tree_member(request, "GlobalSecondaryIndexUpdates"));
    struct value description = tree_of_members(&draft->description);
    if (status == STATUS_OK && !draft->is_changed)
        status = error_set(draft->error, STATUS_VALIDATION,
                           "At least one of ProvisionedThroughput, BillingMode, "
                           "UpdateStreamEnabled, GlobalSecondaryIndexUpdates or SSESpecification "
                           "or ReplicaUpdates is required");
    if (status == STATUS_OK)
        status = definition_check_billing(&description, draft->error);
    if (status == STATUS_OK)
        status = definition_check_class(&description, draft->error);
    if (status == STATUS_OK)
        status = definition_check_throughput(&description, false, draft->error);
    return status == STATUS_OK ? definition_indexes_check(&description, draft->error) : status;
}

/* ---- UpdateTimeToLive ---- */

static enum status update_time_to_live(struct draft *draft, const struct value *request)
{
    const struct value *given = tree_member(request, "TimeToLiveSpecification");
    const struct value *there = find(&draft->description, "TimeToLiveSpecification");
    struct bytes name = tree_text(given, "AttributeName");
    const struct value *enabled = tree_member(given, "Enabled");
    if (!bytes_given(name) || name.size == 0 || name.size > KEY_NAME_MAX || enabled == NULL ||
        enabled->type != VALUE_BOOL)
        return error_set(draft->error, STATUS_VALIDATION,
                         "1 validation error detected: Value at 'timeToLiveSpecification' failed "
                         "to satisfy constraint: AttributeName of 1 to %d characters and Enabled "
                         "are required",
                         KEY_NAME_MAX);
    bool was_enabled = there != NULL;
    if (was_enabled == enabled->truth)
        return error_set(draft->error, STATUS_VALIDATION, "TimeToLive is already %s",
                         was_enabled ? "enabled" : "disabled");
    if (was_enabled && !bytes_equal(tree_text(there, "AttributeName"), name))
        return error_set(draft->error, STATUS_VALIDATION,
                         "TimeToLive is active on a different AttributeName: current AttributeName "
                         "is %.*s",
                         (int)tree_text(there, "AttributeName").size,
                         (const char *)tree_text(there, "AttributeName").data);
    if (enabled->truth)
        set(&draft->description, "TimeToLiveSpecification", *given);
    else
        unset(&draft->description, "TimeToLiveSpecification");
    return STATUS_OK;
}

/* ---- TagResource, UntagResource ---- */

static enum status update_tags(struct draft *draft, const struct value *request, bool is_more)
{
    const struct value *there = find(&draft->description, "Tags");
    struct value tags;
    enum status status =
        is_more ? tags_add(there, tree_member(request, "Tags"), draft->arena, &tags, draft->error)
                : tags_remove(there, tree_member(request, "TagKeys"), draft->arena, &tags,
                              draft->error);
    if (status == STATUS_OK)
        set(&draft->description, "Tags", tags);
    return status;
}

/* ---- a filled index, partitions ---- */

/* What the record remembers of an index, to be changed. */
static enum status open_index(struct draft *draft, struct bytes name, struct tree_members *members)
{
    const struct value *map = find(&draft->record, "Indexes");
    for (size_t i = 0; map != NULL && i < map->count; i++)
        if (bytes_equal(map->attributes[i].name, name) &&
            open_members(&map->attributes[i].value, members))
            return STATUS_OK;
    return refuse_unknown_index(draft, name);
}

static enum status index_is_filled(struct draft *draft, struct bytes name)
{
    struct tree_members members;
    struct value kept;
    enum status status = open_index(draft, name, &members);
    if (status != STATUS_OK)
        return status;
    unset(&members, "IsFilling");
    return tree_keep_members(&members, draft->arena, &kept) ? keep_index(draft, name, kept)
                                                            : no_memory(draft);
}

static enum status update_partitions(struct draft *draft, const struct definition_change *change)
{
    struct tree_members members;
    struct value kept,
        points = {.type = VALUE_B, .bytes = partition_map_write(change->partitions, draft->arena)};
    if (!bytes_given(points.bytes))
        return no_memory(draft);
    if (!bytes_given(change->index)) {
        set(&draft->record, "Partitions", points);
        return STATUS_OK;
    }
    enum status status = open_index(draft, change->index, &members);
    if (status != STATUS_OK)
        return status;
    set(&members, "Partitions", points);
    return tree_keep_members(&members, draft->arena, &kept) ? keep_index(draft, change->index, kept)
                                                            : no_memory(draft);
}

/* ---- all of them ---- */

enum status definition_update(const struct definition *definition,
                              const struct definition_change *change, uint32_t *next_id,
                              struct arena *arena, struct bytes *record, struct error *error)
{
    struct draft draft = {
        .arena = arena, .definition = definition, .next_id = *next_id, .error = error};
    struct value tree, request = {.type = VALUE_NULL};
    struct msgpack_cursor cursor = msgpack_cursor_of(definition->record);
    enum status status = value_decode(&cursor, arena, &tree, error);
    if (status == STATUS_OK && bytes_given(change->request)) {
        cursor = msgpack_cursor_of(change->request);
        status = value_decode(&cursor, arena, &request, error);
    }
    if (status != STATUS_OK)
        return status;
    if (!open_members(&tree, &draft.record) ||
        !open_members(find(&draft.record, "Description"), &draft.description))
        return STATUS_INTERNAL;
    status = change->kind == CHANGE_TABLE          ? update_table(&draft, &request)
             : change->kind == CHANGE_TIME_TO_LIVE ? update_time_to_live(&draft, &request)
             : change->kind == CHANGE_PARTITIONS   ? update_partitions(&draft, change)
             : change->kind == CHANGE_FILLED
                 ? index_is_filled(&draft, change->index)
                 : update_tags(&draft, &request, change->kind == CHANGE_TAG);
    if (status != STATUS_OK)
        return status;
    set(&draft.record, "Description", tree_of_members(&draft.description));
    set(&draft.record, "Version", tree_of_number(definition->version + 1));
    struct value changed = tree_of_members(&draft.record);
    *record = tree_encode(&changed, arena);
    *next_id = draft.next_id;
    return bytes_given(*record) ? STATUS_OK : no_memory(&draft);
}

struct bytes definition_describe_time_to_live(const struct definition *definition,
                                              struct arena *arena)
{
    struct bytes name = definition->table.time_to_live;
    struct tree_members inner = {.count = 0}, body = {.count = 0};
    if (bytes_given(name))
        tree_add(&inner, "AttributeName", tree_of_text(name));
    tree_add(&inner, "TimeToLiveStatus",
             tree_of_text(bytes_text(bytes_given(name) ? "ENABLED" : "DISABLED")));
    tree_add(&body, "TimeToLiveDescription", tree_of_members(&inner));
    struct value tree = tree_of_members(&body);
    return tree_encode(&tree, arena);
}

struct bytes definition_describe_tags(const struct definition *definition, struct arena *arena)
{
    struct bytes tags;
    if (!item_find(definition->table.description, BYTES_LITERAL("Tags"), &tags))
        tags = BYTES_LITERAL("\x90");
    return definition_wrap("Tags", tags, arena);
}

struct bytes definition_wrap(const char *member, struct bytes value, struct arena *arena)
{
    struct value tree;
    struct error error;
    struct tree_members body = {.count = 0};
    struct msgpack_cursor cursor = msgpack_cursor_of(value);
    if (value_decode(&cursor, arena, &tree, &error) != STATUS_OK)
        return BYTES_NONE;
    tree_add(&body, member, tree);
    tree = tree_of_members(&body);
    return tree_encode(&tree, arena);
}
