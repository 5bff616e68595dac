/* upkeep.h - what the daemon does of itself: splits partitions, fills new indexes, deletes items
 * that have expired.
 *
 * Ordinary calls through the worker's lane, one at a time and with pauses, so that it is never more
 * than one client among others; deletions go through the cache like anybody's. An item has expired
 * when its time-to-live attribute is a number of Unix seconds that has passed, by less than five
 * years; it is deleted only while it still has that very value.
 * Source: developer guide, "Using time to live (TTL) in DynamoDB".
 * Threads: one worker's own, from its loop. */
#pragma once

#include "daemon/worker.h"

struct upkeep; /* upkeep.c */

/* worker  whose loop and lane are used; interval_ms: between two looks at a table's items
 * NULL without memory. */
struct upkeep *upkeep_create(struct worker *worker, uint64_t interval_ms);
/* Begins nothing more. */
void upkeep_stop(struct upkeep *upkeep);
void upkeep_destroy(struct upkeep **upkeep);
