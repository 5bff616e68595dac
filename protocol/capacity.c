#include "protocol/capacity.h"

#include "protocol/encoding/msgpack.h"
#include "protocol/reply.h"

enum { MEMBERS_MAX = 8 };

uint64_t capacity_of_read(uint64_t bytes, bool is_consistent)
{
    uint64_t units = (bytes + READ_UNIT_BYTES - 1) / READ_UNIT_BYTES;
    return (units == 0 ? 1 : units) * (is_consistent ? 2 : 1);
}

static struct value number_of_halves(uint64_t halves)
{
    struct value value = {.type = VALUE_N, .number = number_from_uint(halves * 5)};
    if (halves != 0)
        value.number.exponent = (int16_t)(value.number.exponent - 1);
    return value;
}

static bool same(struct bytes a, struct bytes b)
{
    return bytes_given(a) == bytes_given(b) && bytes_equal(a, b);
}

/* What one table was charged. `table` not given: all; `index` is looked at if `is_one` says so. */
static uint64_t sum(const struct consumed *consumed, size_t count, struct bytes table, bool is_one,
                    struct bytes index)
{
    uint64_t halves = 0;
    for (size_t i = 0; i < count; i++)
        if (bytes_equal(consumed[i].table, table) && (!is_one || same(consumed[i].index, index)))
            halves += consumed[i].half_units;
    return halves;
}

/* True if none before it is of the same table (and index). */
static bool is_first(const struct consumed *consumed, size_t at, bool of_index)
{
    for (size_t i = 0; i < at; i++)
        if (bytes_equal(consumed[i].table, consumed[at].table) &&
            (!of_index || same(consumed[i].index, consumed[at].index)))
            return false;
    return true;
}

/* { CapacityUnits } in the arena. */
static bool units_map(uint64_t halves, struct arena *arena, struct value *out)
{
    struct attribute *units = arena_alloc(arena, sizeof *units);
    if (units == NULL)
        return false;
    *units = (struct attribute){BYTES_LITERAL("CapacityUnits"), number_of_halves(halves)};
    *out = (struct value){.type = VALUE_M, .attributes = units, .count = 1};
    return true;
}

/* Map of the table's local or global indexes; empty when none was charged. */
static bool indexes_map(const struct consumed *consumed, size_t count, struct bytes table,
                        bool is_local, struct arena *arena, struct value *out)
{
    struct attribute *indexes = arena_alloc(arena, count * sizeof *indexes);
    if (indexes == NULL)
        return false;
    *out = (struct value){.type = VALUE_M, .attributes = indexes};
    for (size_t i = 0; i < count; i++) {
        struct bytes index = consumed[i].index;
        if (!bytes_given(index) || consumed[i].is_local != is_local ||
            !bytes_equal(consumed[i].table, table) || !is_first(consumed, i, true))
            continue;
        struct attribute *attribute = &indexes[out->count++];
        attribute->name = index;
        if (!units_map(sum(consumed, count, table, true, index), arena, &attribute->value))
            return false;
    }
    return true;
}

static bool table_map(const struct consumed *consumed, size_t count, struct bytes table,
                      enum capacity_detail detail, struct arena *arena, struct value *out)
{
    struct attribute *members = arena_alloc(arena, MEMBERS_MAX * sizeof *members);
    struct value locals, globals;
    if (members == NULL)
        return false;
    *out = (struct value){.type = VALUE_M, .attributes = members};
    members[out->count++] =
        (struct attribute){BYTES_LITERAL("CapacityUnits"),
                           number_of_halves(sum(consumed, count, table, false, BYTES_NONE))};
    members[out->count++] =
        (struct attribute){BYTES_LITERAL("TableName"), {.type = VALUE_S, .bytes = table}};
    if (detail != CAPACITY_INDEXES)
        return true;
    struct attribute *own = &members[out->count++];
    own->name = BYTES_LITERAL("Table");
    if (!units_map(sum(consumed, count, table, true, BYTES_NONE), arena, &own->value) ||
        !indexes_map(consumed, count, table, true, arena, &locals) ||
        !indexes_map(consumed, count, table, false, arena, &globals))
        return false;
    if (locals.count != 0)
        members[out->count++] = (struct attribute){BYTES_LITERAL("LocalSecondaryIndexes"), locals};
    if (globals.count != 0)
        members[out->count++] =
            (struct attribute){BYTES_LITERAL("GlobalSecondaryIndexes"), globals};
    return true;
}

struct bytes capacity_encode(const struct consumed *consumed, size_t count,
                             enum capacity_detail detail, bool is_list, struct arena *arena)
{
    struct error error;
    struct value *tables = arena_alloc(arena, (count + 1) * sizeof *tables);
    if (tables == NULL)
        return BYTES_NONE;
    struct value list = {.type = VALUE_L, .values = tables};
    for (size_t i = 0; i < count; i++)
        if (is_first(consumed, i, false) &&
            !table_map(consumed, count, consumed[i].table, detail, arena, &tables[list.count++]))
            return BYTES_NONE;
    struct value *whole = is_list || list.count == 0 ? &list : &tables[0];
    return value_normalize(whole, &error) == STATUS_OK ? value_encode_arena(whole, arena)
                                                       : BYTES_NONE;
}

void capacity_tell(const struct request *request, struct reply *reply, struct arena *arena)
{
    bool is_list = request->part_count != 0;
    if (request->capacity != CAPACITY_NONE && (reply->consumed_count != 0 || is_list))
        reply->capacity = capacity_encode(reply->consumed, reply->consumed_count, request->capacity,
                                          is_list, arena);
}
