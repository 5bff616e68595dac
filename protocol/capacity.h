/* capacity.h - what the store was charged for a request, in DynamoDB's units.
 *
 * A read takes half a unit for every 4 KB, twice that when it is consistent, four times in a
 * transaction; a write one unit for every 1 KB of the larger image, and each index that changes
 * the same by what it projects. A transaction prepares and commits, so that table and local indexes
 * take twice that; a global index is written behind it, once; a ConditionCheck is charged as a
 * write that changes nothing. What a page of a local index shows beyond
 * that is charged as a read of each item. A hit takes nothing.
 * Source: developer guide, "DynamoDB read and write operations". Threads: pure functions. */
#pragma once

#include "protocol/arena.h"

/* ReturnConsumedCapacity. Numbers are part of the native protocol. */
enum capacity_detail {
    CAPACITY_NONE = 0,
    CAPACITY_TOTAL = 1,
    CAPACITY_INDEXES = 2,
};
enum { CAPACITY_DETAILS = 3 };

enum { READ_UNIT_BYTES = 4096 };

struct consumed {
    struct bytes table;
    struct bytes index; /* not given: the table itself */
    bool is_local, is_write;
    uint64_t half_units;
};

/* Half units of reading so many bytes (DynamoDB's item sizes, together). */
uint64_t capacity_of_read(uint64_t bytes, bool is_consistent);

/* Encodes reply->consumed into reply->capacity as the request wants it: ConsumedCapacity of the one
 * table there is, of batches and transactions a list; several of one table and index are added up.
 * A transaction's, which is all read or all written, says which. Without memory it stays not given.
 * Source: API reference, ConsumedCapacity; AWS CLI, examples of transact-get-items and
 * transact-write-items: what was read or written is told apart of transactions alone. */
struct request;
struct reply;
void capacity_tell(const struct request *request, struct reply *reply, struct arena *arena);
