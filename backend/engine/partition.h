/* partition.h - a table or an index, cut into ranges that are counted apart.
 *
 * A partition key is hashed to a point of a 64-bit space; behind the hash, items lie in the order
 * of their keys. A partition is a range of such positions, from its first to the next one's. The
 * first positions are data, not arithmetic, so that a range is split without moving a record. Each
 * has a counter, whose number stays what it is when others are split. Threads: pure functions; a
 * map is immutable. */
#pragma once

#include "backend/engine/kv.h"

enum {
    PARTITIONS_MAX = 4096,
    POSITION_KEY_MAX = 65535,
    PARTITION_MAP_BYTES_MAX = 256 << 10, /* stored; no split makes it larger */
    WRITE_UNIT_BYTES = 1024,             /* developer guide, "Read/write capacity mode" */
};

struct position {
    uint64_t hash;    /* of the partition key */
    struct bytes key; /* primary key, or how it begins; empty: before all keys of the hash */
    struct bytes end; /* goes on where `key` ends */
};

struct partition {
    uint64_t hash;     /* where it begins: a position */
    struct bytes key;  /* as above */
    uint32_t id;       /* of its counter */
    bool is_uncounted; /* split off the one before it, which still counts what was there then */
};

struct partition_map {
    uint32_t count;                     /* 1..PARTITIONS_MAX */
    const struct partition *partitions; /* ascending; the first begins at 0 */
};

/* `count` ranges of equal size. False without memory. */
MUST_CHECK bool partition_map_even(uint32_t count, struct arena *arena, struct partition_map *out);

/* The stored form and back; false on bytes that it never writes, or without memory. Views into the
 * bytes. */
struct bytes partition_map_write(const struct partition_map *map, struct arena *arena);
MUST_CHECK bool partition_map_read(struct bytes bytes, struct arena *arena,
                                   struct partition_map *out);

/* The range that holds a position: 0..count - 1. */
uint32_t partition_find(const struct partition_map *map, const struct position *position);

/* The map with one more range, which begins at `position` (without an `end`) and is not counted
 * yet. False: it lies at the begin of a range, there are too many, or no memory. */
MUST_CHECK bool partition_map_split(const struct partition_map *map,
                                    const struct position *position, struct arena *arena,
                                    struct partition_map *out);
/* The map when range `at` has been counted. False without memory. */
MUST_CHECK bool partition_map_counted(const struct partition_map *map, uint32_t at,
                                      struct arena *arena, struct partition_map *out);

/* How much of `high` is needed to part it from the lower `low`: a key that is above `low`. */
struct bytes partition_separator(struct bytes low, struct bytes high);

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
