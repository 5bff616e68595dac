/* heat_report.c - DescribeHeat: what each partition of a table and of its indexes holds, and how
 * hard it is used. */
#include "backend/engine/action.h"
#include "backend/engine/definition_tree.h"
#include "backend/engine/record.h"

#include <stdio.h>

/* One table or index while its counters are read. */
struct heat_report {
    size_t place;                                     /* 0: the table */
    struct partition_totals *totals[1 + INDEXES_MAX]; /* by the counters' numbers */
    step_fn done;
};

/* A counter's key ends with its number. */
static bool counter_visit(struct kv_read *read, struct bytes key, struct bytes value)
{
    struct action *action = read->owner;
    struct heat_report *report = action->heat_report;
    uint32_t id = 0;
    for (size_t i = key.size - 4; i < key.size; i++)
        id = id << 8 | key.data[i];
    if (id < definition_map(action->definition, report->place)->count)
        partition_total(&report->totals[report->place][id], value);
    return true;
}

const struct partition_totals *partitions_totals(const struct action *action, size_t place,
                                                 uint32_t partition)
{
    uint32_t id = definition_map(action->definition, place)->partitions[partition].id;
    return &action->heat_report->totals[place][id];
}

/* While a partition is being split, what it counts may be less than nothing. */
static struct value natural(int64_t number)
{
    return tree_of_number(number < 0 ? 0 : (uint64_t)number);
}

static struct value halves(uint64_t half_units)
{
    struct value value = {.type = VALUE_N, .number = number_from_uint(half_units * 5)};
    if (half_units != 0)
        value.number.exponent = (int16_t)(value.number.exponent - 1);
    return value;
}

static bool describe_partition(const struct action *action, size_t place, uint32_t partition,
                               struct arena *arena, struct value *out)
{
    const struct definition *definition = action->definition;
    const struct partition *row = &definition_map(definition, place)->partitions[partition];
    const int64_t *counts = partitions_totals(action, place, partition)->counts;
    const struct heat_partition *heat = definition->heats[place]->partitions[partition];
    struct tree_members members = {.count = 0};
    char first[20];
    int size = snprintf(first, sizeof first, "%016llx", (unsigned long long)row->hash);
    struct bytes kept = arena_copy(arena, bytes_of(first, (size_t)size));
    tree_add(&members, "First", tree_of_text(kept));
    if (row->key.size != 0)
        tree_add(&members, "FirstKey", (struct value){.type = VALUE_B, .bytes = row->key});
    if (row->is_uncounted)
        tree_add(&members, "IsCounting", (struct value){.type = VALUE_BOOL, .truth = true});
    tree_add(&members, "Items", natural(counts[PARTITION_ITEMS]));
    tree_add(&members, "Bytes", natural(counts[PARTITION_BYTES]));
    tree_add(&members, "WriteUnitsEver", natural(counts[PARTITION_WRITE_UNITS]));
    tree_add(&members, "ReadUnits", halves(atomic_load(&heat->half_units[0])));
    tree_add(&members, "WriteUnits", halves(atomic_load(&heat->half_units[1])));
    tree_add(&members, "Refused", tree_of_number(atomic_load(&heat->refused)));
    return bytes_given(kept) && tree_keep_members(&members, arena, out);
}

static struct value tenths(uint64_t number)
{
    struct value value = {.type = VALUE_N, .number = number_from_uint(number)};
    if (number != 0)
        value.number.exponent = (int16_t)(value.number.exponent - 1);
    return value;
}

/* Of one that is too long to be remembered, its hash. False without memory. */
static bool describe_key(const struct heat_key *key, const struct key_schema *schema,
                         struct arena *arena, struct tree_members *members)
{
    struct bytes contents, own = arena_copy(arena, bytes_of(key->key, key->size));
    struct value value = {.type = schema->partition.type};
    size_t used;
    bool is_read =
        !key->is_cut && bytes_given(own) &&
        key_part_read(own, value.type, key_schema_is_last(schema, false), arena, &contents, &used);
    if (is_read && value.type == VALUE_N)
        is_read = number_from_ordered(contents, &value.number, &used);
    else if (is_read)
        value.bytes = contents;
    if (is_read) {
        tree_add(members, "PartitionKey", value);
        return true;
    }
    char hash[20];
    int size = snprintf(hash, sizeof hash, "%016llx", (unsigned long long)key->hash);
    struct bytes kept = arena_copy(arena, bytes_of(hash, (size_t)size));
    tree_add(members, "Hash", tree_of_text(kept));
    return bytes_given(kept);
}

/* False without memory. */
static bool describe_keys(const struct action *action, size_t place, struct arena *arena,
                          struct value *out)
{
    const struct definition *definition = action->definition;
    const struct table *table = &definition->table;
    const struct key_schema *schema = place == 0 ? &table->key : &table->indexes[place - 1].key;
    struct heat_keys *keys = atomic_load(&definition->heats[place]->whole->keys);
    struct heat_keys_line lines[HEAT_KEYS_SHOWN];
    *out = (struct value){.type = VALUE_L,
                          .count =
                              keys == NULL ? 0 : heat_keys_list(keys, action->call->now_us, lines)};
    struct value *values = arena_alloc(arena, out->count * sizeof *values);
    out->values = values;
    if (values == NULL)
        return false;
    for (size_t i = 0; i < out->count; i++) {
        struct tree_members members = {.count = 0};
        if (!describe_key(&lines[i].key, schema, arena, &members))
            return false;
        tree_add(&members, "ReadUnitsPerSecond", tenths(lines[i].tenths[0]));
        tree_add(&members, "WriteUnitsPerSecond", tenths(lines[i].tenths[1]));
        if (!tree_keep_members(&members, arena, &values[i]))
            return false;
    }
    return true;
}

static bool describe_place(const struct action *action, size_t place, struct arena *arena,
                           struct value *out)
{
    const struct table *table = &action->definition->table;
    const struct secondary_index *index = place == 0 ? NULL : &table->indexes[place - 1];
    uint32_t count = definition_map(action->definition, place)->count;
    struct value *partitions = arena_alloc(arena, count * sizeof *partitions);
    struct tree_members members = {.count = 0};
    if (partitions == NULL)
        return false;
    for (uint32_t i = 0; i < count; i++)
        if (!describe_partition(action, place, i, arena, &partitions[i]))
            return false;
    const char *kind = index == NULL ? "table" : index->is_local ? "local index" : "global index";
    tree_add(&members, "Kind", tree_of_text(bytes_text(kind)));
    tree_add(&members, "Name", tree_of_text(index == NULL ? table->name : index->name));
    tree_add(&members, "Partitions",
             (struct value){.type = VALUE_L, .values = partitions, .count = count});
    struct value keys;
    if (!describe_keys(action, place, arena, &keys))
        return false;
    tree_add(&members, "HotKeys", keys);
    return tree_keep_members(&members, arena, out);
}

static enum submit tell(struct action *action)
{
    struct call *call = action->call;
    size_t count = 1 + action->definition->table.index_count;
    struct value *places = arena_alloc(call->arena, count * sizeof *places);
    struct tree_members members = {.count = 0};
    for (size_t i = 0; places != NULL && i < count; i++)
        if (!describe_place(action, i, call->arena, &places[i]))
            return action_fail(action, STATUS_NO_MEMORY);
    if (places == NULL)
        return action_fail(action, STATUS_NO_MEMORY);
    tree_add(&members, "Heat", (struct value){.type = VALUE_L, .values = places, .count = count});
    struct value body = tree_of_members(&members);
    call->reply.body = tree_encode(&body, call->arena);
    call->reply.commit = action->read.commit;
    return bytes_given(call->reply.body) ? SUBMIT_DONE : action_fail(action, STATUS_NO_MEMORY);
}

static enum submit read_place(struct action *action);

static enum submit place_read(struct action *action)
{
    return ++action->heat_report->place > action->definition->table.index_count
               ? action->heat_report->done(action)
               : read_place(action);
}

static enum submit read_place(struct action *action)
{
    const struct table *table = &action->definition->table;
    struct heat_report *report = action->heat_report;
    uint32_t id = report->place == 0 ? table->id : table->indexes[report->place - 1].id;
    report->totals[report->place] =
        totals_new(definition_map(action->definition, report->place)->count, action->call->arena);
    if (report->totals[report->place] == NULL ||
        !record_counters_range(id, action->call->arena, &action->read.low, &action->read.high))
        return action_fail(action, STATUS_NO_MEMORY);
    action->read.visit = counter_visit;
    action->read_done = place_read;
    return action_read(action);
}

enum submit partitions_read(struct action *action, step_fn done)
{
    action->heat_report = arena_alloc(action->call->arena, sizeof *action->heat_report);
    if (action->heat_report == NULL)
        return action_fail(action, STATUS_NO_MEMORY);
    action->heat_report->place = 0;
    action->heat_report->done = done;
    return read_place(action);
}

enum submit describe_heat_begin(struct action *action)
{
    action->definition = catalog_find(action->lane->catalog, action->call->request.table_name);
    if (action->definition == NULL)
        return tables_no_such(action);
    return partitions_read(action, tell);
}
