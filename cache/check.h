/* check.h - what a consistent read has shown, held against what is cached.
 *
 * A store may have other writers. What is cached and differs from what the store says goes, as if
 * it had just been written.
 * Threads: the lane's own. */
#pragma once

#include "cache/core.h"

/* After a consistent read of an item: if the cached entry shows another, it goes. */
void check_item(struct cache_lane *lane, const struct call *call, const struct entry *probe);
/* TransactGetItems: to the store, and the same for each item that it showed. */
enum submit check_transaction(struct cache_lane *lane, struct call *call);
