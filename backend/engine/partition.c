#include "backend/engine/partition.h"

#include "backend/engine/record.h"
#include "protocol/ensure.h"

enum {
    POINT_BYTES = 8,       /* first form: first points of partitions that count as they lie */
    ROW_BYTES = 8 + 4 + 2, /* second form, of each: hash, id and flag, size of the key; the key */
    SECOND_FORM = 1,       /* its first byte; of the first form it is 0 */
};
static const uint32_t uncounted_bit = UINT32_C(1) << 31;

static struct partition *map_alloc(uint32_t count, struct arena *arena, struct partition_map *out)
{
    struct partition *partitions = arena_alloc(arena, count * sizeof *partitions);
    if (partitions != NULL)
        *out = (struct partition_map){count, partitions};
    return partitions;
}

bool partition_map_even(uint32_t count, struct arena *arena, struct partition_map *out)
{
    ensure(count >= 1 && count <= PARTITIONS_MAX);
    struct partition *partitions = map_alloc(count, arena, out);
    if (partitions == NULL)
        return false;
    for (uint32_t i = 0; i < count; i++)
        partitions[i] = (struct partition){.hash = (uint64_t)(((unsigned __int128)i << 64) / count),
                                           .key = BYTES_LITERAL(""),
                                           .id = i};
    return true;
}

/* ---- the stored form ---- */

static uint8_t *put_big(uint8_t *at, uint64_t number, int size)
{
    for (int i = size - 1; i >= 0; i--)
        *at++ = (uint8_t)(number >> 8 * i);
    return at;
}

static uint64_t take_big(const uint8_t **at, int size)
{
    uint64_t number = 0;
    for (int i = 0; i < size; i++)
        number = number << 8 | *(*at)++;
    return number;
}

static bool is_first_form(const struct partition_map *map)
{
    for (uint32_t i = 0; i < map->count; i++)
        if (map->partitions[i].id != i || map->partitions[i].key.size != 0 ||
            map->partitions[i].is_uncounted)
            return false;
    return true;
}

struct bytes partition_map_write(const struct partition_map *map, struct arena *arena)
{
    bool is_first = is_first_form(map);
    size_t size = is_first ? map->count * (size_t)POINT_BYTES : 1 + map->count * (size_t)ROW_BYTES;
    for (uint32_t i = 0; i < map->count; i++)
        size += map->partitions[i].key.size;
    uint8_t *bytes = arena_alloc(arena, size), *at = bytes;
    if (bytes == NULL)
        return BYTES_NONE;
    if (!is_first)
        *at++ = SECOND_FORM;
    for (uint32_t i = 0; i < map->count; i++) {
        const struct partition *partition = &map->partitions[i];
        at = put_big(at, partition->hash, 8);
        if (is_first)
            continue;
        at = put_big(at, partition->id | (partition->is_uncounted ? uncounted_bit : 0), 4);
        at = put_big(at, partition->key.size, 2);
        if (partition->key.size != 0)
            memcpy(at, partition->key.data, partition->key.size);
        at += partition->key.size;
    }
    return bytes_of(bytes, size);
}

/* How many rows the second form has; 0: it is not that. */
static uint32_t count_rows(struct bytes bytes)
{
    uint32_t count = 0;
    size_t at = 1;
    while (at + ROW_BYTES <= bytes.size) {
        at += ROW_BYTES + ((size_t)bytes.data[at + 12] << 8 | bytes.data[at + 13]);
        count++;
    }
    return at == bytes.size && count <= PARTITIONS_MAX ? count : 0;
}

static const uint8_t *take_row(const uint8_t *at, struct partition *out)
{
    out->hash = take_big(&at, 8);
    uint32_t id = (uint32_t)take_big(&at, 4);
    size_t key_size = take_big(&at, 2);
    out->id = id & ~uncounted_bit;
    out->is_uncounted = (id & uncounted_bit) != 0;
    out->key = bytes_of(at, key_size);
    return at + key_size;
}

static int compare_begins(const struct partition *a, const struct partition *b)
{
    if (a->hash != b->hash)
        return a->hash < b->hash ? -1 : 1;
    return bytes_compare(a->key, b->key);
}

static bool is_map(const struct partition_map *map)
{
    if (map->partitions[0].hash != 0 || map->partitions[0].key.size != 0 ||
        map->partitions[0].is_uncounted)
        return false;
    for (uint32_t i = 0; i < map->count; i++)
        if (map->partitions[i].id >= map->count ||
            (i != 0 && compare_begins(&map->partitions[i - 1], &map->partitions[i]) >= 0))
            return false;
    return true;
}

bool partition_map_read(struct bytes bytes, struct arena *arena, struct partition_map *out)
{
    bool is_first = bytes.size != 0 && bytes.data[0] != SECOND_FORM;
    size_t count = is_first ? bytes.size / POINT_BYTES : count_rows(bytes);
    if (count == 0 || count > PARTITIONS_MAX || (is_first && bytes.size % POINT_BYTES != 0))
        return false;
    struct partition *partitions = map_alloc((uint32_t)count, arena, out);
    if (partitions == NULL)
        return false;
    const uint8_t *at = bytes.data + !is_first;
    for (uint32_t i = 0; i < count; i++) {
        if (!is_first) {
            at = take_row(at, &partitions[i]);
            continue;
        }
        uint64_t hash = take_big(&at, POINT_BYTES);
        partitions[i] = (struct partition){.hash = hash, .key = BYTES_LITERAL(""), .id = i};
    }
    return is_map(out);
}

/* ---- positions ---- */

/* Whether a partition begins behind the position. */
static bool is_behind(const struct partition *partition, const struct position *position)
{
    struct bytes begin = partition->key, key = position->key;
    if (LIKELY(partition->hash != position->hash || begin.size == 0))
        return partition->hash > position->hash;
    if (begin.size <= key.size)
        return bytes_compare(begin, key) > 0;
    int order = bytes_compare(bytes_of(begin.data, key.size), key);
    struct bytes rest = bytes_of(begin.data + key.size, begin.size - key.size);
    return order != 0 ? order > 0 : bytes_compare(rest, position->end) > 0;
}

uint32_t partition_find(const struct partition_map *map, const struct position *position)
{
    uint32_t low = 0, high = map->count; /* `low` begins at it or before, `high` behind it */
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (is_behind(&map->partitions[middle], position))
            high = middle;
        else
            low = middle;
    }
    return low;
}

bool partition_map_split(const struct partition_map *map, const struct position *position,
                         struct arena *arena, struct partition_map *out)
{
    uint32_t at = partition_find(map, position) + 1;
    struct partition added = {
        .hash = position->hash, .key = position->key, .id = map->count, .is_uncounted = true};
    if (map->count == PARTITIONS_MAX || position->key.size > POSITION_KEY_MAX ||
        compare_begins(&map->partitions[at - 1], &added) == 0)
        return false;
    struct partition_map made;
    struct partition *partitions = map_alloc(map->count + 1, arena, &made);
    if (partitions == NULL)
        return false;
    memcpy(partitions, map->partitions, at * sizeof *partitions);
    partitions[at] = added;
    memcpy(partitions + at + 1, map->partitions + at, (map->count - at) * sizeof *partitions);
    *out = made;
    return true;
}

bool partition_map_counted(const struct partition_map *map, uint32_t at, struct arena *arena,
                           struct partition_map *out)
{
    ensure(at < map->count);
    struct partition_map made;
    struct partition *partitions = map_alloc(map->count, arena, &made);
    if (partitions == NULL)
        return false;
    memcpy(partitions, map->partitions, map->count * sizeof *partitions);
    partitions[at].is_uncounted = false;
    *out = made;
    return true;
}

struct bytes partition_separator(struct bytes low, struct bytes high)
{
    size_t size = 0;
    ensure(bytes_compare(low, high) < 0);
    while (size < low.size && low.data[size] == high.data[size])
        size++;
    return bytes_of(high.data, size + 1);
}

/* ---- counters ---- */

void partition_count(struct kv_counter *counter, const struct partition_change *change)
{
    size_t old_size = change->was_there ? change->old_size : 0;
    size_t new_size = change->is_there ? change->new_size : 0;
    size_t charged = old_size > new_size ? old_size : new_size;
    size_t units = charged == 0 ? 1 : (charged + WRITE_UNIT_BYTES - 1) / WRITE_UNIT_BYTES;
    counter->add[PARTITION_ITEMS] = (int64_t)change->is_there - (int64_t)change->was_there;
    counter->add[PARTITION_BYTES] = (int64_t)new_size - (int64_t)old_size;
    counter->add[PARTITION_WRITE_UNITS] = (int64_t)units;
    counter->add[PARTITION_UNUSED] = 0;
    counter->limit = 0;
}

void partition_total(struct partition_totals *totals, struct bytes value)
{
    for (size_t i = 0; i < KV_COUNTERS && 8 * (i + 1) <= value.size; i++)
        totals->counts[i] += (int64_t)record_number_read(bytes_of(value.data + 8 * i, 8));
}
