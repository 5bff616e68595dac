/* hash.h - XXH3, seeded and not. */
#pragma once

#include "protocol/bytes.h"

/* The point of a partition key in the 64-bit hash space: XXH3-64 without a seed, the same for ever
 * and on every machine, for stored records depend on it. */
uint64_t hash_partition(struct bytes partition);

/* A process's secret for hashes of cache keys, which come from outside. 192 bytes as XXH3 wants. */
struct hash_secret {
    uint8_t bytes[192];
};

/* Fills the secret from `seed` (any 64 random bits). */
void hash_secret_init(struct hash_secret *secret, uint64_t seed);
uint64_t hash_secret_apply(const struct hash_secret *secret, struct bytes bytes);
