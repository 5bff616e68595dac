/* definition_throughput.h - private to the definition files: what a table or an index may be asked,
 * provisioned (ProvisionedThroughput), at most (OnDemandThroughput) and at once (WarmThroughput).
 *
 * An owner is a table's description or one of its global indexes, as CreateTable gives them.
 * Source: API reference, OnDemandThroughput, WarmThroughput; developer guide, "Warm throughput". */
#pragma once

#include "backend/engine/definition_tree.h"
#include "backend/engine/heat.h"
#include "protocol/arena.h"

/* What may be consumed in a second; 0 where there is no limit. */
struct heat_rates definition_rates(const struct value *owner);

/* OnDemandThroughput of a description and its indexes, and of a new one WarmThroughput, which may
 * not be below what is warm anyway. Errors: STATUS_VALIDATION with DynamoDB's texts, likewise
 * below. */
MUST_CHECK enum status definition_check_throughput(const struct value *description, bool is_new,
                                                   struct error *error);

/* The same of one index that comes later. */
MUST_CHECK enum status definition_check_new_index(const struct value *index, struct error *error);

/* That the ProvisionedThroughput which is given, if any, is another than the owner's.
 * index  its name; not given for the table */
MUST_CHECK enum status definition_check_change(const struct value *owner, const struct value *given,
                                               struct bytes index, struct error *error);

/* WarmThroughput of an owner that has one already: `given` with the member that it lacks.
 * index  its name; not given for the table
 * out    arena memory */
MUST_CHECK enum status definition_raise_warm(const struct value *owner, const struct value *given,
                                             struct bytes index, struct arena *arena,
                                             struct value *out, struct error *error);

/* All three as DescribeTable tells them. False without memory. */
MUST_CHECK bool definition_describe_throughput(const struct value *owner, struct arena *arena,
                                               struct tree_members *description);
