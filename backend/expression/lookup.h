/* lookup.h - what paths lead to in an item.
 *
 * An item knows nothing of where its elements are: each path is a walk over all that stands before
 * its end. In a long item the many paths of one expression are therefore found together, in one
 * walk. Threads: one at a time with a list of paths. */
#pragma once

#include "protocol/bytes.h"
#include "protocol/expression_tree.h"

/* An item that the paths of an expression are looked up in. */
struct subject {
    struct bytes item;         /* canonical; not given: there is none */
    struct marks *marks;       /* of its long sets, where conditions ask about them; else NULL */
    const struct bytes *found; /* by the places of the list; NULL: paths are looked up one by one */
};

/* paths  of the expression; NULL: they are few
 * Valid until the next subject of the same paths. */
struct subject subject_of(struct bytes item, const struct path_list *paths);

/* The bytes of what a path of the expression leads to. False when there is nothing. */
bool subject_find(const struct subject *subject, const struct expression *path, struct bytes *out);
