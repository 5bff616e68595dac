#include "backend/engine/definition.h"

#include "backend/engine/definition_encryption.h"
#include "backend/engine/definition_index.h"
#include "backend/engine/definition_throughput.h"
#include "backend/engine/definition_tree.h"
#include "backend/engine/record.h"
#include "protocol/encoding/msgpack.h"
#include "protocol/ensure.h"

#include <stdio.h>
#include <stdlib.h>

enum { DEFINITION_BYTES_MAX = 8 << 20 };

/* ---- the record ---- */

static bool has_collections(const struct definition_input *input)
{
    return tree_count(tree_member(&input->description, "LocalSecondaryIndexes")) != 0;
}

uint32_t definition_ids(const struct definition_input *input)
{
    return (uint32_t)(1 + definition_index_count(&input->description) + has_collections(input));
}

struct bytes definition_encode(const struct definition_input *input, uint32_t id,
                               uint64_t created_at_ms, uint32_t partitions, struct arena *arena)
{
    struct partition_map map;
    if (!partition_map_even(partitions, arena, &map))
        return BYTES_NONE;
    struct bytes points = partition_map_write(&map, arena);
    struct value indexes;
    if (!bytes_given(points) ||
        !definition_indexes_make(&input->description, id + 1, points, arena, &indexes))
        return BYTES_NONE;
    struct tree_members members = {.count = 0};
    if (has_collections(input))
        tree_add(&members, "Collections", tree_of_number(id + definition_ids(input) - 1));
    tree_add(&members, "Created", tree_of_number(created_at_ms));
    tree_add(&members, "Description", input->description);
    tree_add(&members, "Id", tree_of_number(id));
    if (indexes.count != 0)
        tree_add(&members, "Indexes", indexes);
    tree_add(&members, "Name", tree_of_text(input->name));
    tree_add(&members, "Partitions", (struct value){.type = VALUE_B, .bytes = points});
    struct value record = tree_of_members(&members);
    return tree_encode(&record, arena);
}

/* A local index takes from its table's throughput. */
static enum status fill_heat(struct definition *definition, const struct value *description)
{
    const struct table *table = &definition->table;
    const struct value *globals = tree_member(description, "GlobalSecondaryIndexes");
    size_t count = 1 + table->index_count;
    definition->rates = arena_alloc(&definition->arena, count * sizeof *definition->rates);
    if (definition->rates == NULL)
        return STATUS_NO_MEMORY;
    for (size_t i = 0; i < count; i++) {
        const struct secondary_index *index = i == 0 ? NULL : &table->indexes[i - 1];
        const struct partition_map *map = definition_map(definition, i);
        definition->heats[i] = heat_create(index == NULL ? table->id : index->id, map->count);
        if (definition->heats[i] == NULL)
            return STATUS_NO_MEMORY;
        definition->rates[i] = definition_rates(description);
        for (size_t k = 0; index != NULL && !index->is_local && k < tree_count(globals); k++)
            if (bytes_equal(tree_text(&globals->values[k], "IndexName"), index->name))
                definition->rates[i] = definition_rates(&globals->values[k]);
    }
    return STATUS_OK;
}

bool definition_may_change(const struct definition *definition)
{
    return atomic_load_explicit((atomic_uint *)(uintptr_t)&definition->changes,
                                memory_order_relaxed) != 0;
}

const struct partition_map *definition_map(const struct definition *definition, size_t place)
{
    return place == 0 ? &definition->partitions : &definition->index_partitions[place - 1];
}

void definition_take_heat(struct definition *definition, const struct definition *before)
{
    for (size_t i = 0; i <= definition->table.index_count; i++)
        for (size_t k = 0; k <= before->table.index_count; k++) {
            struct heat *old = before->heats[k];
            if (old->id != definition->heats[i]->id)
                continue;
            if (old->count != definition->heats[i]->count) {
                heat_inherit(definition->heats[i], definition_map(definition, i), old,
                             definition_map(before, k));
                break;
            }
            heat_unref(definition->heats[i]);
            definition->heats[i] = heat_ref(old);
            break;
        }
}

static enum status fill(struct definition *definition, struct bytes record)
{
    struct arena *arena = &definition->arena;
    definition->record = arena_copy(arena, record);
    if (!bytes_given(definition->record))
        return STATUS_NO_MEMORY;
    struct value tree;
    struct error error;
    struct msgpack_cursor cursor = msgpack_cursor_of(definition->record);
    if (value_decode(&cursor, arena, &tree, &error) != STATUS_OK)
        return STATUS_INTERNAL;
    const struct value *description = tree_member(&tree, "Description");
    const struct value *points = tree_member(&tree, "Partitions");
    struct table *table = &definition->table;
    table->id = (uint32_t)tree_number(&tree, "Id");
    table->name = tree_text(&tree, "Name");
    table->created_at_ms = tree_number(&tree, "Created");
    definition->collections_id = (uint32_t)tree_number(&tree, "Collections");
    if (table->id == 0 || !bytes_given(table->name) || description == NULL || points == NULL ||
        !definition_key_schema(description, description, &table->key) ||
        !partition_map_read(points->bytes, arena, &definition->partitions) ||
        !item_find(definition->record, BYTES_LITERAL("Description"), &table->description))
        return STATUS_INTERNAL;
    table->partitions = definition->partitions.count;
    if (!definition_indexes_read(definition, &tree))
        return STATUS_INTERNAL;
    definition->version = tree_number(&tree, "Version");
    table->time_to_live =
        tree_text(tree_member(description, "TimeToLiveSpecification"), "AttributeName");
    definition->is_provisioned = tree_member(description, "ProvisionedThroughput") != NULL;
    definition->is_protected = tree_truth(description, "DeletionProtectionEnabled");
    definition->record_key = record_definition_key(table->name, arena);
    return bytes_given(definition->record_key) ? fill_heat(definition, description)
                                               : STATUS_NO_MEMORY;
}

enum status definition_decode(struct bytes record, struct definition **out)
{
    struct definition *definition = calloc(1, sizeof *definition);
    if (definition == NULL)
        return STATUS_NO_MEMORY;
    arena_init(&definition->arena, NULL, 0, DEFINITION_BYTES_MAX);
    atomic_init(&definition->references, 1);
    atomic_init(&definition->state, DEFINITION_ACTIVE);
    atomic_init(&definition->looked_half_units, UINT64_MAX);
    enum status status = fill(definition, record);
    if (status != STATUS_OK) {
        definition_unref(definition);
        return status;
    }
    *out = definition;
    return STATUS_OK;
}

bool definition_is_of(const struct definition *definition, struct bytes record)
{
    struct bytes one, other;
    return bytes_equal(record, definition->record) ||
           (bytes_given(record) && item_find(record, BYTES_LITERAL("Id"), &one) &&
            item_find(definition->record, BYTES_LITERAL("Id"), &other) && bytes_equal(one, other));
}

struct definition *definition_ref(struct definition *definition)
{
    atomic_fetch_add_explicit(&definition->references, 1, memory_order_relaxed);
    return definition;
}

/* Release and acquire: whoever frees has seen everybody else's last use. */
void definition_unref(struct definition *definition)
{
    if (definition == NULL ||
        atomic_fetch_sub_explicit(&definition->references, 1, memory_order_acq_rel) != 1)
        return;
    for (size_t i = 0; i <= INDEXES_MAX; i++)
        heat_unref(definition->heats[i]);
    arena_deinit(&definition->arena);
    free(definition);
}

/* ---- describing ---- */

/* Seconds with milliseconds. */
static struct value time_value(uint64_t ms)
{
    struct value value = tree_of_number(ms);
    if (ms != 0)
        value.number.exponent = (int16_t)(value.number.exponent - 3);
    return value;
}

static uint64_t at_least_zero(int64_t number)
{
    return number < 0 ? 0 : (uint64_t)number;
}

static void add_billing(struct tree_members *description, const struct value *given,
                        struct tree_members *billing)
{
    if (tree_member(given, "ProvisionedThroughput") != NULL)
        return;
    tree_add(billing, "BillingMode", tree_of_text(BYTES_LITERAL("PAY_PER_REQUEST")));
    tree_add(description, "BillingModeSummary", tree_of_members(billing));
}

static void add_class(struct tree_members *description, const struct value *given,
                      struct tree_members *class)
{
    const struct value *name = tree_member(given, "TableClass");
    if (name == NULL)
        return;
    tree_add(class, "TableClass", *name);
    tree_add(description, "TableClassSummary", tree_of_members(class));
}

struct bytes definition_describe(const struct definition *definition, const char *member,
                                 const char *table_status, const struct partition_totals *totals,
                                 struct arena *arena)
{
    const struct table *table = &definition->table;
    struct value given;
    struct error error;
    struct msgpack_cursor cursor = msgpack_cursor_of(table->description);
    if (value_decode(&cursor, arena, &given, &error) != STATUS_OK)
        return BYTES_NONE;
    char arn[64 + TABLE_NAME_MAX], id[40];
    int arn_size = snprintf(arn, sizeof arn, "arn:aws:dynamodb:local:000000000000:table/%.*s",
                            (int)table->name.size, (const char *)table->name.data);
    int id_size = snprintf(id, sizeof id, "00000000-0000-0000-0000-%012x", table->id);
    struct tree_members description = {.count = 0}, billing = {.count = 0}, class = {.count = 0};
    tree_add(&description, "TableName", tree_of_text(table->name));
    tree_add(&description, "TableId", tree_of_text(bytes_of(id, (size_t)id_size)));
    tree_add(&description, "TableArn", tree_of_text(bytes_of(arn, (size_t)arn_size)));
    tree_add(&description, "TableStatus", tree_of_text(bytes_text(table_status)));
    tree_add(&description, "CreationDateTime", time_value(table->created_at_ms));
    tree_add(&description, "ItemCount",
             tree_of_number(at_least_zero(totals->counts[PARTITION_ITEMS])));
    tree_add(&description, "TableSizeBytes",
             tree_of_number(at_least_zero(totals->counts[PARTITION_BYTES])));
    tree_add(&description, "KeySchema", *tree_member(&given, "KeySchema"));
    tree_add(&description, "AttributeDefinitions", *tree_member(&given, "AttributeDefinitions"));
    if (!definition_indexes_describe(definition, &given, totals + 1, arena, &description) ||
        !definition_describe_throughput(&given, arena, &description) ||
        !encryption_describe(tree_member(&given, "SSESpecification"), arena, &description))
        return BYTES_NONE;
    add_billing(&description, &given, &billing);
    add_class(&description, &given, &class);
    const struct value *stream = tree_member(&given, "StreamSpecification");
    if (tree_truth(stream, "StreamEnabled"))
        tree_add(&description, "StreamSpecification", *stream);
    tree_add(&description, "DeletionProtectionEnabled",
             (struct value){.type = VALUE_BOOL, .truth = definition->is_protected});
    struct tree_members body = {.count = 0};
    tree_add(&body, member, tree_of_members(&description));
    struct value tree = tree_of_members(&body);
    return tree_encode(&tree, arena);
}
