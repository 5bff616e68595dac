/* engine.h - DynamoDB's operations over any ordered key-value store.
 *
 * Keeps the catalog (table definitions), the layout of records, and partitions' counts. Every
 * operation is read, compute, commit; see kv.h.
 * Threads: lanes as in backend.h; the catalog is published by pointer. */
#pragma once

#include "backend/backend.h"
#include "backend/engine/kv.h"

struct engine_options {
    struct store_options store;
    uint32_t partitions;           /* ranges a new table starts with; 1..4096 */
    uint64_t collection_bytes_max; /* DynamoDB's 10 GB: items of one partition key of a table with
                                      local indexes, and what these hold of them; 0: no limit */
    uint32_t tables_max;           /* DynamoDB's default quota is 2,500 */
    bool emulates_throughput;      /* what is provisioned, and these limits of a partition: */
    uint64_t partition_read_units, partition_write_units; /* a second; DynamoDB's 3,000 and 1,000 */
    uint64_t partition_bytes_max; /* a larger partition is split; DynamoDB's 10 GB; 0: none is */
    uint64_t partition_hot_ms;    /* with emulates_throughput: one that was at its limits so long */
    uint64_t (*wall_ms)(void);    /* Unix time for CreationDateTime */
};

/* Opens the store that the URL names and reads its catalog.
 * Errors: the store's, or STATUS_VALIDATION for an unknown scheme; text says what to do. */
MUST_CHECK enum status engine_open(const struct engine_options *options, struct backend **out,
                                   struct error *error);
