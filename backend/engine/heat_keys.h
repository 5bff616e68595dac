/* heat_keys.h - the partition keys of a table or index that cost the store most, read and written.
 *
 * Space-Saving (Metwally, Agrawal and El Abbadi, "Efficient Computation of Frequent and Top-k
 * Elements in Data Streams", ICDT 2005), each request as many times as it has half units: the key
 * that has cost least gives way to one that is not known, and what it has cost is the error of the
 * new one. Counts are halved every HEAT_KEYS_WINDOW_US, so that what was hot yesterday is
 * forgotten. Threads: any; none waits to count, so that one request in many may not be counted. */
#pragma once

#include "backend/engine/partition.h"
#include "protocol/mutex.h"

enum {
    HEAT_KEYS = 32,
    HEAT_KEYS_SHOWN = 10,
    HEAT_KEY_ROOM = 256,
    HEAT_KEYS_WINDOW_US = 10 * 1000 * 1000,
};

struct heat_key {
    uint64_t hash;
    uint64_t half_units[2], error; /* read, written; of both, what may be another's */
    uint16_t size;
    bool is_cut; /* the key goes on */
    uint8_t
        key[HEAT_KEY_ROOM]; /* primary key bytes, of which the partition key is the first part */
};

struct heat_keys {
    struct mutex lock;
    /* Guarded by lock. */
    uint64_t window_us; /* when the present window began */
    uint64_t weight_us; /* time that the counts stand for, without this window */
    uint32_t used;
    struct heat_key keys[HEAT_KEYS];
};

/* NULL without memory. */
struct heat_keys *heat_keys_create(uint64_t now_us);
void heat_keys_destroy(struct heat_keys *keys);

void heat_keys_count(struct heat_keys *keys, const struct position *position, bool is_write,
                     uint64_t half_units, uint64_t now_us);

/* One that is shown: what it costs a second at least, in tenths of a unit. */
struct heat_keys_line {
    struct heat_key key;
    uint64_t tenths[2];
};
/* The hottest first. Returns how many. */
size_t heat_keys_list(struct heat_keys *keys, uint64_t now_us,
                      struct heat_keys_line out[HEAT_KEYS_SHOWN]);
