/* index_key.h - where an item stands in a secondary index.
 *
 * A place in an index is the index's partition key and sort key, then the table's primary key; all
 * parts but the last are terminated, so that equal index keys stand in the order of primary keys.
 * Source: developer guide, "Using Global Secondary Indexes": an item that lacks a key attribute of
 * the index is not in it.
 * Threads: pure functions. */
#pragma once

#include "protocol/key_order.h"

/* Builds an item's place.
 * item     canonical, or a map of key attributes
 * primary  the item's primary key
 * out      arena memory; bytes not given: the item is not in this index
 * Errors: STATUS_VALIDATION with DynamoDB's texts (wrong type, empty, too long), STATUS_NO_MEMORY.
 */
MUST_CHECK enum status index_key_build(struct bytes item, const struct secondary_index *index,
                                       struct item_key primary, struct arena *arena,
                                       struct item_key *out, struct error *error);

/* Checks an item about to be written against all indexes of its table: key attributes that are
 * there must fit. Errors as above. */
MUST_CHECK enum status index_keys_check(struct bytes item, const struct table *table,
                                        struct error *error);

/* The same of an update, as far as it says of what type it leaves a key attribute, whatever the
 * item is. Errors: STATUS_VALIDATION. */
MUST_CHECK enum status index_keys_check_update(const struct path_node *update,
                                               const struct table *table, struct error *error);

/* And that it sets none to an empty value, as far as it gives that itself. Errors: likewise. */
MUST_CHECK enum status index_keys_check_empty(const struct path_node *update,
                                              const struct table *table, struct error *error);

/* What an UpdateItem is told when what it makes of the item has no place in the index. Returns
 * STATUS_VALIDATION. */
enum status index_key_refuse_update(struct bytes item, const struct secondary_index *index,
                                    struct error *error);

/* Builds the place that an ExclusiveStartKey names: a map of exactly the key attributes of index
 * and table. Errors: STATUS_VALIDATION, STATUS_NO_MEMORY. */
MUST_CHECK enum status index_start_key_build(struct bytes map, const struct table *table,
                                             const struct secondary_index *index,
                                             struct arena *arena, struct item_key *out,
                                             struct error *error);

/* True if an attribute of that name is projected into the index. */
bool index_shows(const struct secondary_index *index, struct bytes name);

/* The tree of top-level attribute names, as projection_apply() wants it.
 * names  `count` of them, views that outlive the tree; may repeat
 * Returns the root in arena memory, NULL without; `distinct` (may be NULL) is how many differ. */
MUST_CHECK const struct path_node *names_tree(const struct bytes *names, size_t count,
                                              struct arena *arena, size_t *distinct);
