/* hot.h - the keys that are asked for most, by table.
 *
 * Space-Saving (Metwally, Agrawal and El Abbadi, "Efficient Computation of Frequent and Top-k
 * Elements in Data Streams", ICDT 2005) over one request in HOT_INTERVAL or more, at random
 * distances: a counter a key, the least gives way to a key that has none, and its count is the
 * error of the new one. Counts are halved every HOT_WINDOW_US, so that what was hot yesterday is
 * forgotten. Shown is what a key was asked for at least. A lane leaves its samples in a ring,
 * without a lock and without the heap, for it does so on hits; housekeeping counts them. A sample
 * that finds no room is carried by the next one that does, and the lane samples half as often,
 * until it finds the ring empty again. Threads: hot_sample is the lane's own; hot_count and
 * hot_merge may be called by anybody. */
#pragma once

#include "cache/entry.h"
#include "protocol/mutex.h"
#include "protocol/schema.h"

enum {
    HOT_INTERVAL = 64, /* requests, on average */
    HOT_INTERVAL_MAX = 64 << 10,
    HOT_KEYS = 32,   /* of a table and lane */
    HOT_TABLES = 16, /* of a lane; the longest idle gives way */
    HOT_KEY_BYTES = 92,
    HOT_SHOWN = 10, /* of a table */
    HOT_WINDOW_US = 10 * 1000 * 1000,
    HOT_RING = 32, /* samples; a power of two */
};

struct hot_sample {
    uint64_t now_us;
    uint32_t table_id, hash;
    uint32_t weight; /* what it stands for, in HOT_INTERVAL requests */
    uint8_t kind, is_hit, name_size;
    uint8_t size; /* of `bytes`; 0: longer than they */
    uint8_t bytes[HOT_KEY_BYTES];
    char name[TABLE_NAME_MAX];
};

struct hot_key {
    uint32_t count, error, hits;  /* samples */
    uint8_t kind;                 /* enum entry_kind */
    uint8_t size;                 /* of `bytes`; 0: longer than they */
    uint8_t bytes[HOT_KEY_BYTES]; /* MessagePack: the key of an item, the values of a Query */
};

struct hot_table {
    uint32_t table_id, used;
    char name[TABLE_NAME_MAX + 1];
    uint64_t sampled_us, window_us; /* the last sample; when the present window began */
    uint64_t weight_us;             /* time that the counts stand for, without this window */
    uint32_t hashes[HOT_KEYS];
    struct hot_key keys[HOT_KEYS];
};

struct hot {
    /* Owner's own. */
    uint32_t left; /* requests until the next sample */
    uint32_t random;
    uint32_t interval;
    uint32_t carried; /* weight of samples that found no room */
    /* Filled by the owner up to `head`, counted up to `tail`: each published with release. */
    struct hot_sample ring[HOT_RING];
    atomic_uint head, tail;
    /* Guarded by lock, which the owner never takes. */
    struct mutex lock;
    struct hot_table *tables[HOT_TABLES];
};

/* What was asked for, and how it was answered; borrowed. */
struct hot_request {
    const struct table *table;
    enum entry_kind kind;
    bool is_hit;
    uint32_t hash;
    struct bytes bytes;
};

/* hot  zeroed */
void hot_init(struct hot *hot);
void hot_deinit(struct hot *hot, struct memory *memory);

/* True for the request that is to be sampled: all that others pay. */
static inline bool hot_is_due(struct hot *hot)
{
    return UNLIKELY(--hot->left == 0);
}
void hot_sample(struct hot *hot, const struct hot_request *request, uint64_t now_us);
/* Counts what has been sampled. */
void hot_count(struct hot *hot, struct memory *memory);

/* One line of what is shown. */
struct hot_line {
    char name[TABLE_NAME_MAX + 1];
    uint32_t hash;
    struct hot_key key;
    double requests, hits; /* a second */
};

/* Adds what a lane has counted to `lines`, up to `room` of them; the same key of a table is one
 * line. Returns how many lines there are then. */
size_t hot_merge(struct hot *hot, uint64_t now_us, struct hot_line *lines, size_t count,
                 size_t room);
