/* update.h - what an UpdateExpression makes of an item.
 *
 * One walk over the old item's canonical bytes and the tree of paths, both sorted, writes the new
 * item's. Everything on the right of an action sees the item as it was before; indexes of lists are
 * those of before, too. Source: DynamoDB developer guide, "Using update expressions".
 * Threads: pure functions. */
#pragma once

#include "protocol/expression_update.h"

/* Computes the new item.
 * update  root; NULL: nothing changes
 * is_legacy  it was made of AttributeUpdates, whose texts it has
 * old     canonical; not given: there is no item
 * fresh   what an item that is not there yet begins with: its key attributes, canonical
 * out     canonical, arena memory
 * size    DynamoDB's size of it
 * Errors: STATUS_VALIDATION with DynamoDB's texts (an attribute that is not there, a type that does
 * not fit, a path that leads nowhere, an item or a number that gets too large), STATUS_NO_MEMORY.
 */
MUST_CHECK enum status update_apply(const struct path_node *update, bool is_legacy,
                                    struct bytes old, struct bytes fresh, struct arena *arena,
                                    struct bytes *out, size_t *size, struct error *error);
