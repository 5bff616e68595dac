/* definition_index.h - private to the definition files: the secondary indexes of a table. */
#pragma once

#include "backend/engine/definition.h"
#include "backend/engine/definition_tree.h"

enum {
    PROJECTED_NAMES_MAX = 100, /* over all indexes of a table; developer guide, quotas */
    PROJECTED_NAMES_OF_ONE_MAX = 20,
};

/* ---- definition_check.c ---- */

/* The AttributeDefinition of a name, or NULL. */
const struct value *definition_find(const struct value *definitions, struct bytes name);
/* A KeySchema of table or index. Errors: STATUS_VALIDATION with DynamoDB's texts. */
MUST_CHECK enum status definition_check_keys(const struct value *definitions,
                                             const struct value *keys, struct error *error);

/* BillingMode and ProvisionedThroughput, of a request or a description. */
MUST_CHECK enum status definition_check_billing(const struct value *request, struct error *error);
/* TableClass, likewise. */
MUST_CHECK enum status definition_check_class(const struct value *request, struct error *error);
/* StreamSpecification, of a request. Nothing is streamed yet; it is only kept. */
MUST_CHECK enum status definition_check_stream(const struct value *request, struct error *error);

/* ---- definition_index.c ---- */

/* The indexes of a CreateTable request, whose own keys are known to be right.
 * Errors: STATUS_VALIDATION with DynamoDB's texts. */
MUST_CHECK enum status definition_indexes_check(const struct value *request, struct error *error);

/* How many ids the description needs beside the table's. */
size_t definition_index_count(const struct value *description);

/* What the record remembers of each index beside what the client gave: map of its name to its id
 * (counted from `first_id`) and its partitions. Empty without indexes. False without memory. */
MUST_CHECK bool definition_indexes_make(const struct value *description, uint32_t first_id,
                                        struct bytes points, struct arena *arena,
                                        struct value *out);

/* Fills table.indexes and index_partitions from a decoded record. False on what no record holds, or
 * without memory. */
MUST_CHECK bool definition_indexes_read(struct definition *definition, const struct value *record);

/* Reads a key schema. `description` has the AttributeDefinitions, `owner` the KeySchema. */
MUST_CHECK bool definition_key_schema(const struct value *description, const struct value *owner,
                                      struct key_schema *out);

/* The indexes as DescribeTable tells them. False without memory.
 * totals  of each index, in the order of table.indexes */
MUST_CHECK bool definition_indexes_describe(const struct definition *definition,
                                            const struct value *given,
                                            const struct partition_totals *totals,
                                            struct arena *arena, struct tree_members *description);
