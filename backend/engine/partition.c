#include "backend/engine/partition.h"

#include "backend/engine/record.h"
#include "protocol/ensure.h"

bool partition_map_even(uint32_t count, struct arena *arena, struct partition_map *out)
{
    ensure(count >= 1 && count <= PARTITIONS_MAX);
    uint64_t *firsts = arena_alloc(arena, count * sizeof *firsts);
    if (firsts == NULL)
        return false;
    for (uint32_t i = 0; i < count; i++)
        firsts[i] = (uint64_t)(((unsigned __int128)i << 64) / count);
    *out = (struct partition_map){count, firsts};
    return true;
}

struct bytes partition_map_write(const struct partition_map *map, struct arena *arena)
{
    size_t size = map->count * (size_t)PARTITION_POINT_BYTES;
    uint8_t *bytes = arena_alloc(arena, size);
    if (bytes == NULL)
        return BYTES_NONE;
    for (size_t i = 0; i < size; i++)
        bytes[i] = (uint8_t)(map->firsts[i / 8] >> 8 * (7 - i % 8));
    return bytes_of(bytes, size);
}

bool partition_map_read(struct bytes bytes, struct arena *arena, struct partition_map *out)
{
    size_t count = bytes.size / PARTITION_POINT_BYTES;
    if (bytes.size % PARTITION_POINT_BYTES != 0 || count == 0 || count > PARTITIONS_MAX)
        return false;
    uint64_t *firsts = arena_alloc(arena, count * sizeof *firsts);
    if (firsts == NULL)
        return false;
    for (size_t i = 0; i < count; i++) {
        firsts[i] = 0;
        for (size_t k = 0; k < 8; k++)
            firsts[i] = firsts[i] << 8 | bytes.data[8 * i + k];
        if (i == 0 ? firsts[i] != 0 : firsts[i] <= firsts[i - 1])
            return false;
    }
    *out = (struct partition_map){(uint32_t)count, firsts};
    return true;
}

uint32_t partition_find(const struct partition_map *map, uint64_t hash)
{
    uint32_t low = 0, high = map->count; /* firsts[low] <= hash, and hash < firsts[high] */
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (map->firsts[middle] <= hash)
            low = middle;
        else
            high = middle;
    }
    return low;
}

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
