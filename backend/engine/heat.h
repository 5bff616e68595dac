/* heat.h - how hard each partition is used, and DynamoDB's limits on it.
 *
 * Units are counted where the store is asked; a hit costs none. Each limit is a point in time up to
 * which what was consumed has been paid for (the generic cell rate algorithm, ITU-T I.371): a
 * request is admitted while that lies within the burst from now, and what it consumed is added
 * afterwards, so that one large request is let through and those behind it wait.
 * Source: developer guide, "Burst and adaptive capacity", "Partitions and data distribution",
 * quotas: 3,000 read and 1,000 write units a second and partition, 300 seconds of burst.
 * Threads: any; all is atomic, relaxed. */
#pragma once

#include "backend/engine/heat_keys.h"
#include <stdatomic.h>

/* Of one table or index; 0: as much as is wanted. */
struct heat_rates {
    uint64_t read, write; /* units a second */
};

/* Positions that are asked for, while somebody wants to know: a sample of all, by their units. */
enum { HEAT_SAMPLES = 128, HEAT_SAMPLE_KEY = 118 };
struct heat_sample {
    uint64_t hash;
    uint8_t key_size;
    uint8_t key[HEAT_SAMPLE_KEY]; /* or how it begins */
};
struct heat_samples {
    struct mutex lock;
    /* Guarded by lock. */
    uint64_t seen; /* half units */
    struct heat_sample of[HEAT_SAMPLES];
};

/* One partition, or all of a table or index together. Shared by the heats that hold it. */
struct heat_partition {
    atomic_uint references;
    atomic_uint_fast64_t half_units[2]; /* read, written, since the daemon began */
    atomic_uint_fast64_t refused;
    atomic_uint_fast64_t paid_until_us[2];
    /* Set once, when it has become hot; stays until the end. */
    _Atomic(struct heat_samples *) samples;
    /* Of all together: set once, when something is counted; stays until the end. */
    _Atomic(struct heat_keys *) keys;
    /* Who looks for hot partitions, one at a time. */
    atomic_uint_fast64_t seen_half_units[2], looked_at_us, hot_since_us;
    atomic_uint_fast64_t unsplit_bytes; /* so large, it could not be split; 0: never tried */
};

struct heat {
    uint32_t id; /* the table's or index's */
    uint32_t count;
    atomic_uint references;
    struct heat_partition *whole; /* its limits alone */
    struct heat_partition *partitions[];
};

/* Of each partition of the map, cold. One reference goes to the caller. NULL without memory. */
struct heat *heat_create(uint32_t id, uint32_t partitions);
struct heat *heat_ref(struct heat *heat);
void heat_unref(struct heat *heat);
/* Goes on with the partitions of another map that have the same ids. Before it is shared. */
void heat_inherit(struct heat *heat, const struct partition_map *map, const struct heat *before,
                  const struct partition_map *map_before);

/* False if the partition, or all together, have consumed what they may for now; counted then.
 * now_us  monotonic
 * whole   what was provisioned for all; part: the limit of one partition */
bool heat_admits(struct heat *heat, uint32_t partition, bool is_write, uint64_t now_us,
                 const struct heat_rates *whole, const struct heat_rates *part);
void heat_pay(struct heat *heat, uint32_t partition, bool is_write, uint64_t half_units,
              uint64_t now_us, const struct heat_rates *whole, const struct heat_rates *part);
/* Of what is consumed, whoever pays for it. */
void heat_count(struct heat *heat, uint32_t partition, bool is_write, uint64_t half_units);

/* Counts what was consumed at a position, which may be of no one key, for the hottest keys. */
void heat_count_key(struct heat *heat, const struct position *position, bool is_write,
                    uint64_t half_units, uint64_t now_us);

/* Takes what was consumed at a position into the samples, if the partition has any.
 * random  anything that is not foreseen */
void heat_sample(struct heat *heat, uint32_t partition, const struct position *position,
                 uint64_t half_units, uint64_t random);

/* Whether a partition has been near its limits, or refused, for `long_us`. Asked every now and
 * then; as soon as it is hot, samples are taken, and anew after heat_cool(). */
bool heat_is_hot(struct heat *heat, uint32_t partition, uint64_t now_us, uint64_t long_us,
                 const struct heat_rates *part);
void heat_cool(struct heat *heat, uint32_t partition);

/* Where to split a hot partition, so that each side has its share of what is asked for.
 * may_be_inside  of what has one hash
 * position       arena memory
 * False: one side would have next to nothing, too little has been seen, or no memory. */
MUST_CHECK bool heat_middle(struct heat *heat, uint32_t partition, bool may_be_inside,
                            struct arena *arena, struct position *position);
