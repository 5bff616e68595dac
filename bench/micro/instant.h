/* instant.h - a backend that answers at once and keeps nothing, to measure the cache over it.
 *
 * Writes succeed, with the item as the new image. A GetItem that may wait gives the body that the
 * bench says; one in passing memory is sent back (SUBMIT_KEEP), so that a miss costs nothing.
 * Threads: any number of lanes. */
#pragma once

#include "backend/backend.h"

/* "bench", with partition key "p" of type S. */
extern const struct table instant_table;
/* For lanes that never wait: what is posted is forgotten. */
extern const struct lane_env instant_env;

/* body  of what is read, asked for once a read; NULL: nothing is read */
struct backend *instant_backend(struct bytes (*body)(void));
