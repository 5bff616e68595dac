/* value.h - the values of mudax.h are trees of protocol/value.h, in normal form at all times.
 *
 * `struct mudax_value` is never defined: a pointer to one is a pointer to a struct value. Those
 * that the caller builds own all they point to, piece by piece, on the heap; those in replies lie
 * in the reply's arena. Because maps and sets are kept sorted, a tree can be encoded as it stands.
 * Threads: one at a time. */
#pragma once

#include "clients/c/include/mudax.h"
#include "protocol/value.h"

static inline const struct value *value_tree(const struct mudax_value *value)
{
    return (const struct value *)value;
}

static inline const struct mudax_value *value_handle(const struct value *value)
{
    return (const struct mudax_value *)value;
}

/* True when something in it could not be built (mudax_put() or mudax_append() failed). */
bool value_is_spoilt(const struct value *value);
