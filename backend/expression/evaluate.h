/* evaluate.h - is a condition true of an item?
 *
 * Conditions look at canonical item bytes in place: no tree of the item is made, nothing is
 * allocated, and no data can make them fail. Equal canonical bytes are equal values, whatever the
 * type; order exists among S, N and B of one type. A missing attribute makes every comparison but
 * <> false, as types that do not fit do. Source: DynamoDB developer guide, "Condition and filter
 * expressions, operators, and functions".
 * Threads: pure functions, but that a tree with many paths has room of its own for what they lead
 * to: one at a time with it. */
#pragma once

#include "protocol/encoding/msgpack.h"
#include "protocol/expression_tree.h"

/* True if the condition holds.
 * tree  bound, its values encoded (binding_encode); NULL is true
 * item  canonical; not given: there is no item, and so no attribute */
bool condition_holds(const struct expression *tree, struct bytes item);

/* DynamoDB's size() of a value: bytes of S (UTF-8) and B, members of sets, lists and maps. False
 * for other types. */
bool value_size(struct bytes value, uint64_t *out);

/* Negative, 0 or positive, among S, N and B of one type; false when there is no order between
 * them. */
bool value_compare(struct bytes a, struct bytes b, int *order);

/* The type of a canonical value; its head goes to `head`. False on bytes that are none. */
bool value_open(struct bytes value, struct msgpack_head *head, enum value_type *type);
