/* expression_update.h - an UpdateExpression: SET, REMOVE, ADD and DELETE, as one tree of paths.
 *
 * What is done at the end of a path stands in its node; everything on the right sees the item as it
 * was before. Source: DynamoDB developer guide, "Using update expressions". */
#pragma once

#include "protocol/expression_path.h"

enum update_verb { UPDATE_SET, UPDATE_REMOVE, UPDATE_ADD, UPDATE_DELETE };
enum { UPDATE_VERBS = 4 };

struct update_action {
    enum update_verb verb;
    const struct expression *value; /* SET: paths, values, +, -, if_not_exists, list_append; ADD,
                                       DELETE: a value; REMOVE: NULL */
};

/* Parses an UpdateExpression.
 * out    root; arena memory, views of `text` and of the binding
 * Errors: STATUS_VALIDATION with DynamoDB's texts, STATUS_NO_MEMORY. */
MUST_CHECK enum status update_parse(struct bytes text, struct expression_binding *binding,
                                    struct arena *arena, struct path_node **out,
                                    struct error *error);
