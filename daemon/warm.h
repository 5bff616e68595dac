/* warm.h - a warm start: the keys of what was hot are kept over a clean stop, and fetched again.
 *
 * Only keys are kept, never an entry: what the cache then has was read from the store after the
 * start, like anything else. The keys are asked for in batches, one at a time and within a rate,
 * the hottest first, so that the store sees one modest client. File: the text WARM_MAGIC and the
 * number of keys (32 bits, big endian); for each a MessagePack array of the table's name and the
 * key, a map. Threads: one worker's own. */
#pragma once

#include "daemon/worker.h"

struct warm; /* warm.c */

/* Begins to fetch the keys of the file, if there is one. Reads and writes nothing else later.
 * path  longer-lived; rate: keys a second, 1 or more
 * NULL without memory. */
struct warm *warm_create(struct worker *worker, const char *path, uint64_t rate);
/* Begins nothing more. */
void warm_stop(struct warm *warm);
/* Replaces the file by the keys of what is hot now, and behind them those that were not fetched
 * yet. When the worker's loop has ended. */
void warm_save(struct warm *warm);
void warm_destroy(struct warm **warm);
