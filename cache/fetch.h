/* fetch.h - read-through: what is not in the cache comes from below, once for all who ask.
 *
 * Rules: cache-side of tests/proof/item_rules.py (miss, filled) and page_rules.py. Change both
 * together.
 * Threads: the lane's own. */
#pragma once

#include "cache/core.h"

/* Why something is fetched: it is not there; it is, but its time is over; it is still shown. */
enum fetch_why { FETCH_MISSING, FETCH_EXPIRED, FETCH_AGAIN };

/* A miss: joins the fetch of the same key or starts one; keeps the reply if the rules allow and its
 * policy does. What no policy would keep goes past the cache.
 * probe      borrowed
 * partition  of a Query, else NULL
 * Returns as backend_ops.submit. */
enum submit fetch_shared(struct cache_lane *lane, struct call *call, const struct entry *probe,
                         const struct partition_ref *partition, enum fetch_why why);

/* Past the cache: nothing is joined or kept. What a consistent read shows is held against what is
 * cached.
 * reason  to be counted */
enum submit fetch_alone(struct cache_lane *lane, struct call *call, enum miss_reason reason);

/* The same, for the shadow of a policy: `entry`, of that probe, is compared with the answer. In a
 * section. */
enum submit fetch_beside(struct cache_lane *lane, struct call *call, const struct entry *probe,
                         const struct entry *entry);

/* Finds the policy of an entry again: the rules have changed since it got it. Leaves the section
 * and begins another. Returns the rules of now. */
const struct rules *fetch_rematch(struct cache_lane *lane, const struct call *call,
                                  const struct entry *probe);

/* The lane's timer ran: requests whose deadline passed get their error. Returns the next deadline
 * of those that wait, or an earlier time, 0 if there is none. */
uint64_t fetch_deadlines(struct cache_lane *lane, uint64_t now_us);
