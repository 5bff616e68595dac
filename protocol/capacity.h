/* capacity.h - what the store was charged for a request, in DynamoDB's units.
 *
 * A read takes half a unit for every 4 KB, twice that when it is consistent, four times in a
 * transaction; a write one unit for every 1 KB of the larger image, twice that in a transaction;
 * each index that changes the same by what it projects. What a page of a local index shows beyond
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

/* Encodes reply->consumed into reply->capacity as the request wants it. Without memory it stays not
 * given. */
struct request;
struct reply;
void capacity_tell(const struct request *request, struct reply *reply, struct arena *arena);

/* ConsumedCapacity with DynamoDB's member names, MessagePack in arena memory: what was consumed by
 * the one table there is, or a list of what was consumed by each. BYTES_NONE without memory.
 * consumed  several of one table and index are added up */
struct bytes capacity_encode(const struct consumed *consumed, size_t count,
                             enum capacity_detail detail, bool is_list, struct arena *arena);
