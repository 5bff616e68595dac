/* definition_tags.h - private to the definition files: the tags of a table.
 *
 * Texts as DynamoDB has them. Source: developer guide, "Tagging restrictions in DynamoDB". */
#pragma once

#include "backend/engine/definition_tree.h"
#include "protocol/arena.h"

enum {
    TAGS_MAX = 50,
    /* In characters. */
    TAG_KEY_MAX = 128,
    TAG_VALUE_MAX = 256,
};

/* What CreateTable gives; NULL and an empty list are fine. Errors: STATUS_VALIDATION. */
MUST_CHECK enum status tags_check(const struct value *tags, struct error *error);

/* TagResource: `there` (NULL: none) with `more`, of which each replaces the one of its key.
 * out  arena memory; members borrowed
 * Errors: STATUS_VALIDATION, STATUS_NO_MEMORY. */
MUST_CHECK enum status tags_add(const struct value *there, const struct value *more,
                                struct arena *arena, struct value *out, struct error *error);

/* UntagResource: `there` without those of `keys`; a key that is not there is fine. Likewise. */
MUST_CHECK enum status tags_remove(const struct value *there, const struct value *keys,
                                   struct arena *arena, struct value *out, struct error *error);
