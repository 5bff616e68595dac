/* expression_path.h - document paths of a projection or an update, as one tree.
 *
 * Paths that begin alike share nodes, so that one walk over an item serves them all. No path ends
 * inside another, and below one node there are either names or indexes, as DynamoDB demands. */
#pragma once

#include "protocol/expression_tree.h"

struct update_action; /* expression_update.h */

struct path_node {
    struct path_node *next;  /* sibling; ascending by bytes of names, or by indexes */
    struct path_node *first; /* child; NULL: a path ends here */
    struct bytes name;       /* not given: an index */
    uint32_t index;
    const struct path_step *path;       /* the first that leads through here, whole */
    const struct update_action *action; /* of a path that ends here, in an update */
    const struct path_list *paths;      /* at the root of an update: all in it, if they are many */
};

/* Parses a ProjectionExpression.
 * out    root, whose name means nothing; arena memory, views of `text` and of the binding
 * Errors: STATUS_VALIDATION with DynamoDB's texts, STATUS_NO_MEMORY. */
MUST_CHECK enum status projection_parse(struct bytes text, struct expression_binding *binding,
                                        struct arena *arena, struct path_node **out,
                                        struct error *error);
