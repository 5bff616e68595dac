/* partition.h - a table's hash space, cut into ranges that are counted apart.
 *
 * A partition key is hashed to a point of a 64-bit space; a partition is a range of it, from its
 * first point to the next one's. The first points are data, not arithmetic, so that a range can be
 * split later without moving a record.
 * Threads: pure functions; a map is immutable. */
#pragma once

#include "backend/engine/kv.h"

enum {
    PARTITIONS_MAX = 4096,
    PARTITION_POINT_BYTES = 8, /* stored form of one first point, big endian */
    WRITE_UNIT_BYTES = 1024,   /* developer guide, "Read/write capacity mode" */
};

struct partition_map {
    uint32_t count;         /* 1..PARTITIONS_MAX */
    const uint64_t *firsts; /* ascending; the first is 0 */
};

/* `count` ranges of equal size. False without memory. */
MUST_CHECK bool partition_map_even(uint32_t count, struct arena *arena, struct partition_map *out);

/* The stored form and back; false on bytes that it never writes, or without memory. */
struct bytes partition_map_write(const struct partition_map *map, struct arena *arena);
MUST_CHECK bool partition_map_read(struct bytes bytes, struct arena *arena,
                                   struct partition_map *out);

/* The range that holds a point: 0..count - 1. */
uint32_t partition_find(const struct partition_map *map, uint64_t hash);

/* What is counted, as kv_counter.add[]; kept exact with every commit. */
enum partition_count {
    PARTITION_ITEMS,
    PARTITION_BYTES,       /* DynamoDB's item sizes */
    PARTITION_WRITE_UNITS, /* since the table was created */
    PARTITION_UNUSED,
};

struct partition_change {
    bool was_there, is_there;
    size_t old_size, new_size; /* DynamoDB's item sizes */
};

/* Fills counter->add; no limit. */
void partition_count(struct kv_counter *counter, const struct partition_change *change);

struct partition_totals {
    int64_t counts[KV_COUNTERS];
};

/* Adds a stored counter record. */
void partition_total(struct partition_totals *totals, struct bytes value);
