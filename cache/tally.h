/* tally.h - what each policy has come to, as a lane counts it.
 *
 * Of the default policy hits are not counted here: they are the lane's less those of the others, so
 * that a cache without policies pays nothing for them.
 * Threads: written by the lane, read by anybody. */
#pragma once

#include "cache/cache.h"
#include "cache/misses.h"

/* Atomic, relaxed. */
struct tally {
    atomic_uint_fast64_t hits[ENTRY_KINDS], half_units_saved;
    atomic_uint_fast64_t misses[ENTRY_KINDS][MISS_REASONS];
    atomic_uint_fast64_t stale_hits, stale_excuses, shadow_same, shadow_unlike;
};

struct tallies {
    _Atomic(struct tally *)
        rows[CACHE_POLICIES_MAX]; /* published with release, as they are needed */
};

/* half_units  that the hit spared the store */
void tally_hit(struct tallies *tallies, struct memory *memory, unsigned policy,
               enum entry_kind kind, uint64_t half_units);
void tally_miss(struct tallies *tallies, struct memory *memory, unsigned policy,
                enum entry_kind kind, unsigned reason);
/* Shown past its TTL, in place of an error or while it was fetched again. */
void tally_stale(struct tallies *tallies, struct memory *memory, unsigned policy, bool is_excuse);
/* What would have been shown, beside what the store said. */
void tally_shadow(struct tallies *tallies, struct memory *memory, unsigned policy, bool is_same);
void tallies_deinit(struct tallies *tallies, struct memory *memory);

/* Adds a policy's row to `sum`. */
void tallies_sum(const struct tallies *tallies, unsigned policy, struct tally *sum);
