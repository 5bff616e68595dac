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

#include "backend/engine/partition.h"

#include <stdatomic.h>

/* Of one table or index; 0: as much as is wanted. */
struct heat_rates {
    uint64_t read, write; /* units a second */
};

struct heat_partition {
    atomic_uint_fast64_t half_units[2]; /* read, written, since the daemon began */
    atomic_uint_fast64_t refused;
    atomic_uint_fast64_t paid_until_us[2];
};

struct heat {
    uint32_t id; /* the table's or index's */
    uint32_t count;
    atomic_uint references;
    atomic_uint_fast64_t paid_until_us[2]; /* of all partitions together */
    struct heat_partition partitions[];
};

/* One reference goes to the caller. NULL without memory. */
struct heat *heat_create(uint32_t id, uint32_t partitions);
struct heat *heat_ref(struct heat *heat);
void heat_unref(struct heat *heat);

/* False if the partition, or all together, have consumed what they may for now; counted then.
 * now_us  monotonic
 * whole   what was provisioned for all; part: the limit of one partition */
bool heat_admits(struct heat *heat, uint32_t partition, bool is_write, uint64_t now_us,
                 const struct heat_rates *whole, const struct heat_rates *part);
void heat_consume(struct heat *heat, uint32_t partition, bool is_write, uint64_t half_units,
                  uint64_t now_us, const struct heat_rates *whole, const struct heat_rates *part);
