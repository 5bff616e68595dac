#include "backend/engine/definition_index.h"

#include "backend/engine/definition_throughput.h"
#include "protocol/ensure.h"
#include "protocol/index_key.h"

#include <stdio.h>

/* Locals first: the order of ids, of table.indexes, and of what is told. */
static const struct {
    const char *list;
    size_t most;
    bool is_local;
} kinds[] = {
    {"LocalSecondaryIndexes", LOCAL_INDEXES_MAX, true},
    {"GlobalSecondaryIndexes", GLOBAL_INDEXES_MAX, false},
};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

#define INVALID "One or more parameter values were invalid: "

/* ---- checking ---- */

/* What is looked at while the indexes of a request are checked. */
struct check {
    const struct value *request, *definitions, *keys;
    struct bytes seen[INDEXES_MAX];
    size_t seen_count, projected_count;
};

static enum status check_name(struct check *check, struct bytes name, struct error *error)
{
    enum status status = index_name_check(name, error);
    for (size_t i = 0; status == STATUS_OK && i < check->seen_count; i++)
        if (bytes_equal(check->seen[i], name))
            status = error_set(error, STATUS_VALIDATION, INVALID "Duplicate index name: %.*s",
                               (int)name.size, (const char *)name.data);
    if (status == STATUS_OK)
        check->seen[check->seen_count++] = name;
    return status;
}

static struct bytes key_name(const struct value *keys, size_t i)
{
    return i < tree_count(keys) ? tree_text(&keys->values[i], "AttributeName") : BYTES_NONE;
}

static enum status check_local_keys(const struct check *check, const struct value *keys,
                                    struct bytes name, struct error *error)
{
    struct bytes own = key_name(keys, 0), table = key_name(check->keys, 0);
    if (keys->count != 2)
        return error_set(error, STATUS_VALIDATION,
                         INVALID "Index KeySchema does not have a range key for index: %.*s",
                         (int)name.size, (const char *)name.data);
    if (!bytes_equal(own, table))
        return error_set(error, STATUS_VALIDATION,
                         INVALID "Index KeySchema does not have the same leading hash key as table "
                                 "KeySchema for index: %.*s. index hash key: %.*s, table hash key: "
                                 "%.*s",
                         (int)name.size, (const char *)name.data, (int)own.size,
                         (const char *)own.data, (int)table.size, (const char *)table.data);
    return STATUS_OK;
}

static enum status check_projected_names(struct check *check, const struct value *names,
                                         struct error *error)
{
    if (names->type != VALUE_L || names->count == 0 || names->count > PROJECTED_NAMES_OF_ONE_MAX)
        return error_set(error, STATUS_VALIDATION,
                         "1 validation error detected: Value at 'nonKeyAttributes' failed to "
                         "satisfy constraint: Member must have length between 1 and %d",
                         PROJECTED_NAMES_OF_ONE_MAX);
    for (size_t i = 0; i < names->count; i++)
        if (names->values[i].type != VALUE_S || names->values[i].bytes.size == 0 ||
            names->values[i].bytes.size > KEY_NAME_MAX)
            return error_set(error, STATUS_VALIDATION,
                             "1 validation error detected: Value at 'nonKeyAttributes.%zu.member' "
                             "failed to satisfy constraint: Member must have length between 1 and "
                             "%d",
                             i + 1, KEY_NAME_MAX);
    check->projected_count += names->count;
    if (check->projected_count > PROJECTED_NAMES_MAX)
        return error_set(error, STATUS_VALIDATION,
                         INVALID "Number of user specified NonKeyAttributes exceeds the limit of "
                                 "%d over all indexes of a table",
                         PROJECTED_NAMES_MAX);
    return STATUS_OK;
}

static enum status check_projection(struct check *check, const struct value *projection,
                                    struct error *error)
{
    struct bytes type = tree_text(projection, "ProjectionType");
    const struct value *names = tree_member(projection, "NonKeyAttributes");
    bool is_include = bytes_equal(type, BYTES_LITERAL("INCLUDE"));
    if (!is_include && !bytes_equal(type, BYTES_LITERAL("ALL")) &&
        !bytes_equal(type, BYTES_LITERAL("KEYS_ONLY")))
        return error_set(error, STATUS_VALIDATION, INVALID "Unknown ProjectionType: %.*s",
                         bytes_given(type) ? (int)(type.size < 32 ? type.size : 32) : 4,
                         bytes_given(type) ? (const char *)type.data : "null");
    if (is_include != (names != NULL))
        return error_set(error, STATUS_VALIDATION,
                         INVALID "ProjectionType is %.*s, but NonKeyAttributes is %sspecified",
                         (int)type.size, (const char *)type.data, is_include ? "not " : "");
    return names == NULL ? STATUS_OK : check_projected_names(check, names, error);
}

static enum status check_throughput(const struct check *check, const struct value *index,
                                    struct bytes name, struct error *error)
{
    const struct value *given = tree_member(index, "ProvisionedThroughput");
    bool is_provisioned = tree_member(check->request, "ProvisionedThroughput") != NULL;
    if (is_provisioned && given == NULL)
        return error_set(error, STATUS_VALIDATION,
                         INVALID "ProvisionedThroughput is not specified for index: %.*s",
                         (int)name.size, (const char *)name.data);
    if (!is_provisioned && given != NULL)
        return error_set(error, STATUS_VALIDATION,
                         INVALID "ProvisionedThroughput should not be specified for index: %.*s "
                                 "when BillingMode is PAY_PER_REQUEST",
                         (int)name.size, (const char *)name.data);
    if (given != NULL && (tree_number(given, "ReadCapacityUnits") == 0 ||
                          tree_number(given, "WriteCapacityUnits") == 0))
        return error_set(error, STATUS_VALIDATION,
                         "ProvisionedThroughput needs ReadCapacityUnits and WriteCapacityUnits of "
                         "at least 1");
    return STATUS_OK;
}

static enum status check_index(struct check *check, const struct value *index, bool is_local,
                               struct error *error)
{
    struct bytes name = tree_text(index, "IndexName");
    const struct value *keys = tree_member(index, "KeySchema");
    enum status status = check_name(check, name, error);
    if (status == STATUS_OK)
        status = definition_check_keys(check->definitions, keys, error);
    if (status == STATUS_OK && is_local)
        status = check_local_keys(check, keys, name, error);
    if (status == STATUS_OK)
        status = check_projection(check, tree_member(index, "Projection"), error);
    if (status == STATUS_OK && !is_local)
        status = check_throughput(check, index, name, error);
    return status;
}

static enum status check_list(struct check *check, size_t kind, struct error *error)
{
    const struct value *list = tree_member(check->request, kinds[kind].list);
    if (list == NULL)
        return STATUS_OK;
    if (tree_count(list) == 0)
        return error_set(error, STATUS_VALIDATION, INVALID "List of %s is empty", kinds[kind].list);
    if (list->count > kinds[kind].most)
        return error_set(error, STATUS_VALIDATION,
                         INVALID "%s count exceeds the per-table limit of %zu", kinds[kind].list,
                         kinds[kind].most);
    if (kinds[kind].is_local && tree_count(check->keys) != 2)
        return error_set(error, STATUS_VALIDATION,
                         INVALID "Table KeySchema does not have a range key, which is required "
                                 "when specifying a LocalSecondaryIndex");
    enum status status = STATUS_OK;
    for (size_t i = 0; i < list->count && status == STATUS_OK; i++)
        status = check_index(check, &list->values[i], kinds[kind].is_local, error);
    return status;
}

static bool keys_use(const struct value *keys, struct bytes name)
{
    return bytes_equal(key_name(keys, 0), name) || bytes_equal(key_name(keys, 1), name);
}

static bool is_used(const struct check *check, struct bytes name)
{
    if (keys_use(check->keys, name))
        return true;
    for (size_t kind = 0; kind < KINDS; kind++) {
        const struct value *list = tree_member(check->request, kinds[kind].list);
        for (size_t i = 0; i < tree_count(list); i++)
            if (keys_use(tree_member(&list->values[i], "KeySchema"), name))
                return true;
    }
    return false;
}

static enum status check_all_used(const struct check *check, struct error *error)
{
    for (size_t i = 0; i < check->definitions->count; i++) {
        struct bytes name = tree_text(&check->definitions->values[i], "AttributeName");
        if (is_used(check, name))
            continue;
        if (check->seen_count == 0)
            return error_set(error, STATUS_VALIDATION,
                             INVALID "Number of attributes in KeySchema does not exactly match "
                                     "number of attributes defined in AttributeDefinitions");
        return error_set(error, STATUS_VALIDATION,
                         INVALID "Some AttributeDefinitions are not used. AttributeDefinition: "
                                 "[%.*s]",
                         (int)name.size, (const char *)name.data);
    }
    return STATUS_OK;
}

enum status definition_indexes_check(const struct value *request, struct error *error)
{
    struct check check = {.request = request,
                          .definitions = tree_member(request, "AttributeDefinitions"),
                          .keys = tree_member(request, "KeySchema")};
    enum status status = STATUS_OK;
    for (size_t kind = 0; kind < KINDS && status == STATUS_OK; kind++)
        status = check_list(&check, kind, error);
    return status == STATUS_OK ? check_all_used(&check, error) : status;
}

/* ---- the record ---- */

size_t definition_index_count(const struct value *description)
{
    size_t count = 0;
    for (size_t kind = 0; kind < KINDS; kind++)
        count += tree_count(tree_member(description, kinds[kind].list));
    return count;
}

bool definition_indexes_make(const struct value *description, uint32_t first_id,
                             struct bytes points, struct arena *arena, struct value *out)
{
    size_t count = definition_index_count(description);
    struct attribute *attributes = arena_alloc(arena, (count + 1) * sizeof *attributes);
    if (attributes == NULL)
        return false;
    *out = (struct value){.type = VALUE_M, .attributes = attributes};
    for (size_t kind = 0; kind < KINDS; kind++) {
        const struct value *list = tree_member(description, kinds[kind].list);
        for (size_t i = 0; i < tree_count(list); i++) {
            struct tree_members members = {.count = 0};
            struct attribute *attribute = &attributes[out->count];
            tree_add(&members, "Id", tree_of_number(first_id + out->count));
            tree_add(&members, "Partitions", (struct value){.type = VALUE_B, .bytes = points});
            attribute->name = tree_text(&list->values[i], "IndexName");
            if (!tree_keep_members(&members, arena, &attribute->value))
                return false;
            out->count++;
        }
    }
    return true;
}

static bool read_key_attribute(const struct value *description, const struct value *key,
                               struct key_attribute *out)
{
    const struct value *definitions = tree_member(description, "AttributeDefinitions");
    out->name = tree_text(key, "AttributeName");
    if (tree_count(definitions) == 0 || !bytes_given(out->name))
        return false;
    struct bytes type = tree_text(definition_find(definitions, out->name), "AttributeType");
    for (enum value_type t = VALUE_S; t <= VALUE_B; t++)
        if (bytes_equal(type, bytes_text(value_type_name(t)))) {
            out->type = t;
            return true;
        }
    return false;
}

bool definition_key_schema(const struct value *description, const struct value *owner,
                           struct key_schema *out)
{
    const struct value *keys = tree_member(owner, "KeySchema");
    size_t count = tree_count(keys);
    return count >= 1 && count <= 2 &&
           read_key_attribute(description, &keys->values[0], &out->partition) &&
           (count == 1 || read_key_attribute(description, &keys->values[1], &out->sort));
}

/* The names of a key's attributes, behind the `count` that there are; the new count. */
static size_t add_key_names(const struct key_schema *key, struct bytes *names, size_t count)
{
    names[count++] = key->partition.name;
    if (key_schema_has_sort(key))
        names[count++] = key->sort.name;
    return count;
}

static bool read_trees(const struct table *table, const struct value *given, struct arena *arena,
                       struct secondary_index *index)
{
    struct bytes names[4 + PROJECTED_NAMES_OF_ONE_MAX];
    size_t count = add_key_names(&index->key, names, add_key_names(&table->key, names, 0));
    index->keys = names_tree(names, count, arena, &index->key_count);
    const struct value *projection = tree_member(given, "Projection");
    if (bytes_equal(tree_text(projection, "ProjectionType"), BYTES_LITERAL("ALL")))
        return index->keys != NULL;
    const struct value *more = tree_member(projection, "NonKeyAttributes");
    for (size_t i = 0; i < tree_count(more) && i < PROJECTED_NAMES_OF_ONE_MAX; i++)
        names[count++] = more->values[i].bytes;
    index->shown = names_tree(names, count, arena, NULL);
    return index->keys != NULL && index->shown != NULL;
}

/* given  as CreateTable had it; kept  what the record adds */
static bool read_index(const struct table *table, const struct value *description,
                       const struct value *given, const struct value *kept, struct arena *arena,
                       struct secondary_index *index, struct partition_map *partitions)
{
    const struct value *points = tree_member(kept, "Partitions");
    index->id = (uint32_t)tree_number(kept, "Id");
    index->is_ready = !tree_truth(kept, "IsFilling");
    index->key.is_followed = true;
    return index->id != 0 && points != NULL &&
           definition_key_schema(description, given, &index->key) &&
           partition_map_read(points->bytes, arena, partitions) &&
           read_trees(table, given, arena, index);
}

static const struct value *find_kept(const struct value *kept, struct bytes name)
{
    for (size_t i = 0; kept != NULL && kept->type == VALUE_M && i < kept->count; i++)
        if (bytes_equal(kept->attributes[i].name, name))
            return &kept->attributes[i].value;
    return NULL;
}

bool definition_indexes_read(struct definition *definition, const struct value *record)
{
    struct arena *arena = &definition->arena;
    struct table *table = &definition->table;
    const struct value *description = tree_member(record, "Description");
    size_t count = definition_index_count(description);
    struct secondary_index *indexes = arena_alloc(arena, (count + 1) * sizeof *indexes);
    definition->index_partitions =
        arena_alloc(arena, (count + 1) * sizeof *definition->index_partitions);
    if (count > INDEXES_MAX || indexes == NULL || definition->index_partitions == NULL)
        return false;
    table->indexes = indexes;
    for (size_t kind = 0; kind < KINDS; kind++) {
        const struct value *list = tree_member(description, kinds[kind].list);
        for (size_t i = 0; i < tree_count(list); i++) {
            const struct value *given = &list->values[i];
            size_t at = table->index_count++;
            struct secondary_index *index = &indexes[at];
            *index = (struct secondary_index){.name = tree_text(given, "IndexName"),
                                              .is_local = kinds[kind].is_local};
            if (!bytes_given(index->name) ||
                !read_index(table, description, given,
                            find_kept(tree_member(record, "Indexes"), index->name), arena, index,
                            &definition->index_partitions[at]))
                return false;
        }
    }
    return true;
}

/* ---- describing ---- */

static uint64_t at_least_zero(int64_t number)
{
    return number < 0 ? 0 : (uint64_t)number;
}

static bool describe_index(const struct definition *definition, size_t at,
                           const struct value *given, const struct partition_totals *totals,
                           struct arena *arena, struct value *out)
{
    const struct table *table = &definition->table;
    const struct secondary_index *index = &table->indexes[at];
    struct tree_members members = {.count = 0};
    char arn[80 + TABLE_NAME_MAX + KEY_NAME_MAX];
    int size =
        snprintf(arn, sizeof arn, "arn:aws:dynamodb:local:000000000000:table/%.*s/index/%.*s",
                 (int)table->name.size, (const char *)table->name.data, (int)index->name.size,
                 (const char *)index->name.data);
    struct bytes kept = arena_copy(arena, bytes_of(arn, (size_t)size));
    if (!bytes_given(kept))
        return false;
    tree_add(&members, "IndexArn", tree_of_text(kept));
    tree_add(&members, "IndexName", tree_of_text(index->name));
    tree_add(&members, "IndexSizeBytes",
             tree_of_number(at_least_zero(totals->counts[PARTITION_BYTES])));
    tree_add(&members, "ItemCount", tree_of_number(at_least_zero(totals->counts[PARTITION_ITEMS])));
    tree_add(&members, "KeySchema", *tree_member(given, "KeySchema"));
    tree_add(&members, "Projection", *tree_member(given, "Projection"));
    if (!index->is_local) {
        if (!index->is_ready)
            tree_add(&members, "Backfilling", (struct value){.type = VALUE_BOOL, .truth = true});
        tree_add(&members, "IndexStatus",
                 tree_of_text(bytes_text(index->is_ready ? "ACTIVE" : "CREATING")));
        if (!definition_describe_throughput(given, arena, &members))
            return false;
    }
    return tree_keep_members(&members, arena, out);
}

bool definition_indexes_describe(const struct definition *definition, const struct value *given,
                                 const struct partition_totals *totals, struct arena *arena,
                                 struct tree_members *description)
{
    size_t at = 0;
    for (size_t kind = 0; kind < KINDS; kind++) {
        const struct value *list = tree_member(given, kinds[kind].list);
        size_t count = tree_count(list);
        if (count == 0)
            continue;
        struct value *values = arena_alloc(arena, count * sizeof *values);
        if (values == NULL)
            return false;
        for (size_t i = 0; i < count; i++, at++)
            if (!describe_index(definition, at, &list->values[i], &totals[at], arena, &values[i]))
                return false;
        tree_add(description, kinds[kind].list,
                 (struct value){.type = VALUE_L, .values = values, .count = count});
    }
    ensure(at == definition->table.index_count);
    return true;
}
