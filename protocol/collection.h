/* collection.h - how large item collections are: ReturnItemCollectionMetrics.
 *
 * An item collection is the items of one partition key of a table with local secondary indexes,
 * together with what these hold of them.
 * Source: API reference, ItemCollectionMetrics. Threads: pure functions. */
#pragma once

#include "protocol/arena.h"

struct collection_size {
    struct bytes table;
    struct bytes key; /* MessagePack map of the partition key alone */
    uint64_t bytes;
};

/* Encodes reply->collections into reply->metrics where the request wants it, with DynamoDB's member
 * names: one collection's, or of batches and transactions a map from table to a list of them. Not
 * given: there is none, or no memory. */
struct request;
struct reply;
void collections_tell(const struct request *request, struct reply *reply, struct arena *arena);
