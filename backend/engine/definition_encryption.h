/* definition_encryption.h - private to the definition files: SSESpecification.
 *
 * It is kept and told, so that what is deployed with it finds it; files are encrypted by whoever
 * keeps them. Source: API reference, SSESpecification, SSEDescription. */
#pragma once

#include "backend/engine/definition_tree.h"
#include "protocol/arena.h"

/* Of a request; NULL is fine. Errors: STATUS_VALIDATION with DynamoDB's texts, likewise below. */
MUST_CHECK enum status encryption_check(const struct value *given, struct error *error);

/* That `given`, which is checked, changes what is `there` (NULL: nothing). */
MUST_CHECK enum status encryption_check_change(const struct value *there, const struct value *given,
                                               struct arena *arena, struct error *error);

/* As DescribeTable tells it, unless it is off. False without memory. */
MUST_CHECK bool encryption_describe(const struct value *given, struct arena *arena,
                                    struct tree_members *description);
