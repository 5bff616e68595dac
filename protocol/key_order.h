/* key_order.h - typed keys as bytes that sort like the keys.
 *
 * A key of several parts is prefix-free: every part but the last is terminated (S, B: 00 becomes
 * 00 FF and the end is 00 01; N ends by itself); the last S or B part is raw. So the bytes of a
 * partition key followed by those of a sort key sort by partition key, then by sort key, and a
 * bound on one part covers everything that may follow it. Strings sort by UTF-8 bytes, binaries by
 * unsigned bytes, numbers by value, as in DynamoDB. */
#pragma once

#include "protocol/schema.h"

enum {
    /* A partition key of only zeros doubles; both terminators; */
    KEY_BYTES_MAX = 2 * PARTITION_KEY_MAX + 2 + SORT_KEY_MAX,
    KEY_TERMINATOR = 2, /* bytes behind an S or B part that is not the last */
};

/* The primary key of an item: partition part, then sort part, in one piece. */
struct item_key {
    struct bytes bytes;
    size_t partition_size; /* how many of them are the partition part, its terminator included */
};

static inline struct bytes item_key_partition(struct item_key key)
{
    return bytes_of(key.bytes.data, key.partition_size);
}

static inline struct bytes item_key_sort(struct item_key key)
{
    return bytes_of(key.bytes.data + key.partition_size, key.bytes.size - key.partition_size);
}

/* Writes one part and returns the end. At most 2 * size + 2 bytes for S and B, NUMBER_ORDERED_MAX
 * for N. `bytes`: raw contents of S or B, the ordered form of N (number_to_ordered). */
uint8_t *key_part_write(uint8_t *out, enum value_type type, struct bytes bytes, bool is_last);

/* The way back: reads one part from the front of `in` into `out` (contents of S or B without
 * escapes, the ordered form of N; arena memory where escapes were undone). False on bytes that
 * key_part_write() never makes, or without memory. */
MUST_CHECK bool key_part_read(struct bytes in, enum value_type type, bool is_last,
                              struct arena *arena, struct bytes *out, size_t *used);

/* Finds where the partition part of a primary key ends. False on bytes that are none. */
MUST_CHECK bool item_key_split(struct bytes key, const struct key_schema *schema,
                               struct item_key *out);

/* The smallest byte string above everything that begins with `prefix`, in arena memory;
 * `is_unbounded` when there is none (all FF). False without memory. */
MUST_CHECK bool bytes_prefix_end(struct bytes prefix, struct arena *arena, struct bytes *out,
                                 bool *is_unbounded);

/* The smallest byte string above `bytes`: a 00 behind it; in arena memory. False without memory. */
MUST_CHECK bool bytes_next(struct bytes bytes, struct arena *arena, struct bytes *out);

/* A key's position in a whole table or index, over which a Scan goes: the hash of its partition
 * part, then the key. */
enum { POSITION_HASH_BYTES = 8 };
static inline void position_write_hash(uint8_t out[POSITION_HASH_BYTES], uint64_t hash)
{
    for (int i = 0; i < POSITION_HASH_BYTES; i++)
        out[i] = (uint8_t)(hash >> 8 * (POSITION_HASH_BYTES - 1 - i));
}

/* An interval of sort-key bytes inside one partition: from `low` (inclusive) to `high` (exclusive).
 */
struct key_interval {
    struct bytes low;  /* empty: from the first */
    struct bytes high; /* not given: to the last */
};

static inline bool key_interval_holds(const struct key_interval *interval, struct bytes sort)
{
    return bytes_compare(sort, interval->low) >= 0 &&
           (!bytes_given(interval->high) || bytes_compare(sort, interval->high) < 0);
}
