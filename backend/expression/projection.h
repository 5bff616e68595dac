/* projection.h - the parts of an item that a ProjectionExpression names.
 *
 * The one header of this folder that cache/ includes: it keeps whole items and projects at the hit.
 * What is not there is left out; of a list the chosen elements move together, in their order.
 * Threads: pure functions. */
#pragma once

#include "protocol/expression_path.h"

/* Writes the parts of a canonical item, canonical too; at least an empty map.
 * projection  root
 * out         room for item.size bytes
 * Returns how many were written. */
size_t projection_write(const struct path_node *projection, struct bytes item, uint8_t *out);

/* The same in arena memory. BYTES_NONE without. */
MUST_CHECK struct bytes projection_apply(const struct path_node *projection, struct bytes item,
                                         struct arena *arena);
