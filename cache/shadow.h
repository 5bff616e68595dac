/* shadow.h - a policy that is only tried: everything comes from the store, and what the cache would
 * have shown is compared with it.
 *
 * An entry is kept, expires and is invalidated as if it were shown, and is not refreshed by what is
 * fetched beside it. It is compared if the very same is there at the end: a write in between would
 * have taken it away, so what differs was written past this cache.
 * Threads: the lane's own. */
#pragma once

#include "cache/core.h"

/* An entry that was there when the fetch began. */
struct shadow {
    const struct entry *entry; /* an address, never followed; NULL: none */
    uint32_t stored_ms;
    unsigned policy;
};

/* Whether it would have been a hit of a policy that is only tried. In a section. */
bool shadow_is_due(const struct cache_lane *lane, const struct call *call,
                   const struct rules *rules, const struct entry *entry);
/* Compares with the call's reply, counts, and tells of what differs, once a second at most. */
void shadow_compare(struct cache_lane *lane, const struct call *call, const struct entry *probe,
                    const struct shadow *shadow);
