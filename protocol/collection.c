#include "protocol/collection.h"

#include "protocol/encoding/msgpack.h"
#include "protocol/reply.h"

enum { GIGABYTE_BITS = 30 };

/* { ItemCollectionKey, SizeEstimateRangeGB } in the arena. */
static bool collection_map(const struct collection_size *collection, struct arena *arena,
                           struct value *out)
{
    struct attribute *members = arena_alloc(arena, 2 * sizeof *members);
    struct value *range = arena_alloc(arena, 2 * sizeof *range);
    struct msgpack_cursor cursor = msgpack_cursor_of(collection->key);
    struct error error;
    if (members == NULL || range == NULL)
        return false;
    uint64_t gigabytes = collection->bytes >> GIGABYTE_BITS;
    for (uint64_t i = 0; i < 2; i++)
        range[i] = (struct value){.type = VALUE_N, .number = number_from_uint(gigabytes + i)};
    members[0].name = BYTES_LITERAL("ItemCollectionKey");
    members[1] = (struct attribute){BYTES_LITERAL("SizeEstimateRangeGB"),
                                    {.type = VALUE_L, .values = range, .count = 2}};
    *out = (struct value){.type = VALUE_M, .attributes = members, .count = 2};
    return value_decode(&cursor, arena, &members[0].value, &error) == STATUS_OK;
}

static bool is_same(const struct collection_size *a, const struct collection_size *b)
{
    return bytes_equal(a->table, b->table) && bytes_equal(a->key, b->key);
}

/* Parts of one collection are told once, by the last of them. */
static bool is_told_later(const struct collection_size *collections, size_t count, size_t at)
{
    for (size_t i = at + 1; i < count; i++)
        if (is_same(&collections[i], &collections[at]))
            return true;
    return false;
}

static bool table_list(const struct collection_size *collections, size_t count, struct bytes table,
                       struct arena *arena, struct value *out)
{
    struct value *values = arena_alloc(arena, count * sizeof *values);
    if (values == NULL)
        return false;
    *out = (struct value){.type = VALUE_L, .values = values};
    for (size_t i = 0; i < count; i++)
        if (bytes_equal(collections[i].table, table) && !is_told_later(collections, count, i) &&
            !collection_map(&collections[i], arena, &values[out->count++]))
            return false;
    return true;
}

static bool tables_map(const struct collection_size *collections, size_t count, struct arena *arena,
                       struct value *out)
{
    struct attribute *tables = arena_alloc(arena, count * sizeof *tables);
    if (tables == NULL)
        return false;
    *out = (struct value){.type = VALUE_M, .attributes = tables};
    for (size_t i = 0; i < count; i++) {
        size_t k = 0;
        while (!bytes_equal(collections[k].table, collections[i].table))
            k++;
        if (k != i)
            continue; /* has its list */
        struct attribute *table = &tables[out->count++];
        table->name = collections[i].table;
        if (!table_list(collections, count, table->name, arena, &table->value))
            return false;
    }
    return true;
}

void collections_tell(const struct request *request, struct reply *reply, struct arena *arena)
{
    struct value value;
    struct error error;
    size_t count = reply->collection_count;
    if (!request->wants_metrics || count == 0)
        return;
    bool is_made = request->part_count != 0 ? tables_map(reply->collections, count, arena, &value)
                                            : collection_map(&reply->collections[0], arena, &value);
    if (is_made && value_normalize(&value, &error) == STATUS_OK)
        reply->metrics = value_encode_arena(&value, arena);
}
