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

/* What is told, and how. */
struct telling {
    const struct consumed *consumed;
    size_t count;
    enum capacity_detail detail;
    struct bytes side; /* the member that tells what was read, or written; not given: none */
    struct arena *arena;
};

static size_t add_units(const struct telling *telling, uint64_t halves, struct attribute *members)
{
    members[0] = (struct attribute){BYTES_LITERAL("CapacityUnits"), number_of_halves(halves)};
    members[1] = (struct attribute){telling->side, number_of_halves(halves)};
    return bytes_given(telling->side) ? 2 : 1;
}

/* What a table or index was charged, in the arena. */
static bool units_map(const struct telling *telling, struct bytes table, struct bytes index,
                      struct value *out)
{
    struct attribute *units = arena_alloc(telling->arena, 2 * sizeof *units);
    if (units == NULL)
        return false;
    *out = (struct value){.type = VALUE_M, .attributes = units};
    out->count =
        add_units(telling, sum(telling->consumed, telling->count, table, true, index), units);
    return true;
}

/* Map of the table's local or global indexes; empty when none was charged. */
static bool indexes_map(const struct telling *telling, struct bytes table, bool is_local,
                        struct value *out)
{
    const struct consumed *consumed = telling->consumed;
    struct attribute *indexes = arena_alloc(telling->arena, telling->count * sizeof *indexes);
    if (indexes == NULL)
        return false;
    *out = (struct value){.type = VALUE_M, .attributes = indexes};
    for (size_t i = 0; i < telling->count; i++) {
        struct bytes index = consumed[i].index;
        if (!bytes_given(index) || consumed[i].is_local != is_local ||
            !bytes_equal(consumed[i].table, table) || !is_first(consumed, i, true))
            continue;
        struct attribute *attribute = &indexes[out->count++];
        attribute->name = index;
        if (!units_map(telling, table, index, &attribute->value))
            return false;
    }
    return true;
}

static bool table_map(const struct telling *telling, struct bytes table, struct value *out)
{
    struct attribute *members = arena_alloc(telling->arena, MEMBERS_MAX * sizeof *members);
    struct value locals, globals;
    if (members == NULL)
        return false;
    *out = (struct value){.type = VALUE_M, .attributes = members};
    out->count = add_units(
        telling, sum(telling->consumed, telling->count, table, false, BYTES_NONE), members);
    members[out->count++] =
        (struct attribute){BYTES_LITERAL("TableName"), {.type = VALUE_S, .bytes = table}};
    if (telling->detail != CAPACITY_INDEXES)
        return true;
    struct attribute *own = &members[out->count++];
    own->name = BYTES_LITERAL("Table");
    if (!units_map(telling, table, BYTES_NONE, &own->value) ||
        !indexes_map(telling, table, true, &locals) ||
        !indexes_map(telling, table, false, &globals))
        return false;
    if (locals.count != 0)
        members[out->count++] = (struct attribute){BYTES_LITERAL("LocalSecondaryIndexes"), locals};
    if (globals.count != 0)
        members[out->count++] =
            (struct attribute){BYTES_LITERAL("GlobalSecondaryIndexes"), globals};
    return true;
}

static struct bytes encode(const struct telling *telling, bool is_list)
{
    struct error error;
    const struct consumed *consumed = telling->consumed;
    struct value *tables = arena_alloc(telling->arena, (telling->count + 1) * sizeof *tables);
    if (tables == NULL)
        return BYTES_NONE;
    struct value list = {.type = VALUE_L, .values = tables};
    for (size_t i = 0; i < telling->count; i++)
        if (is_first(consumed, i, false) &&
            !table_map(telling, consumed[i].table, &tables[list.count++]))
            return BYTES_NONE;
    struct value *whole = is_list || list.count == 0 ? &list : &tables[0];
    return value_normalize(whole, &error) == STATUS_OK ? value_encode_arena(whole, telling->arena)
                                                       : BYTES_NONE;
}

void capacity_tell(const struct request *request, struct reply *reply, struct arena *arena)
{
    bool is_list = request->part_count != 0;
    bool is_transaction = request->operation == OPERATION_TRANSACT_GET_ITEMS ||
                          request->operation == OPERATION_TRANSACT_WRITE_ITEMS;
    struct telling telling = {.consumed = reply->consumed,
                              .count = reply->consumed_count,
                              .detail = request->capacity,
                              .arena = arena};
    if (request->capacity == CAPACITY_NONE || (telling.count == 0 && !is_list))
        return;
    if (is_transaction && telling.count != 0)
        telling.side = telling.consumed[0].is_write ? BYTES_LITERAL("WriteCapacityUnits")
                                                    : BYTES_LITERAL("ReadCapacityUnits");
    reply->capacity = encode(&telling, is_list);
}
