/* reply.h - one reply, the same for all protocols. */
#pragma once

#include "protocol/collection.h"
#include "protocol/request.h"

/* How the cache answered. Numbers are part of the native protocol. */
enum verdict {
    VERDICT_NONE = 0,   /* nothing that could be cached, or no cache */
    VERDICT_HIT = 1,    /* from the cache; age_ms says how old */
    VERDICT_MISS = 2,   /* from the store, or from another request's fetch */
    VERDICT_BYPASS = 3, /* from the store, as it was asked (ConsistentRead) or as configured */
    VERDICT_STALE = 4,  /* older than its TTL, as configured */
};

/* One key that a write may change, in its table or in an index. */
struct touched {
    uint32_t table_id; /* or the index's */
    struct item_key key;
    bool is_index;       /* a place in an index: pages may depend on it, no item lies there */
    bool is_all;         /* everything of this table; `key` is then empty */
    bool is_image_known; /* of a write that succeeded: what is there now, see `image` */
    struct bytes image;  /* canonical item; not given: no such item */
};

/* Body, MessagePack as in protocol/native/SPEC.md:
 *   GetItem        the item, or nil
 *   Query          array of 3: items (array; with Select COUNT their number), ScannedCount,
 *                  LastEvaluatedKey (map or nil)
 *   PutItem, DeleteItem, UpdateItem   the attributes that ReturnValues asks for, or nil
 *   BatchGetItem   array of 2: the requests' items (or nil) in their order, and the places (array
 *                  of numbers from 0) of those that were not processed
 *   BatchWriteItem array: the places of those that were not processed
 *   TransactGetItems   array: the requests' items (or nil) in their order
 *   TransactWriteItems nil
 *   Ping           nil
 *   Purge          map: Items and Pages, how many entries were dropped
 *   Explain        map, see the native protocol
 *   SplitPartition nil; `count` says what has been done, see enum split_step
 *   LookAtShared   nil; `count` says what has been found, see enum shared_state
 *   FillIndex      where the next slice begins, no MessagePack; nil when the index is ready
 *   table operations, Stats     map with DynamoDB's member names
 * Not used when status is not OK; `details` may then say more:
 *   CONDITIONAL_CHECK_FAILED   the item as it was, where the request wants it
 *   TRANSACTION_CANCELED       array, a reason an action in their order: nil where the action was
 *                              fine, else array of 3: code, text (or nil), item (or nil) */
/* What a LookAtShared has found. */
enum shared_state {
    SHARED_NOT, /* the store is this daemon's alone */
    SHARED_SAME,
    SHARED_CHANGED, /* others have made, changed or deleted tables, which is now known here */
};

/* What a SplitPartition has done; after all but the first there may be more to do. */
enum split_step {
    SPLIT_NOTHING,
    SPLIT_PARTED,  /* a partition, in two */
    SPLIT_COUNTED, /* the newer of two, which completes the split */
    SPLIT_REFUSED, /* a partition that cannot be split */
};

struct reply {
    enum status status;
    enum verdict verdict;
    uint32_t age_ms;
    uint32_t count;          /* items in the body, or their number told by it */
    uint64_t commit;         /* commit number written, or that the read saw; 0: unknown */
    const uint64_t *commits; /* BatchWriteItem: of each part, in their order; NULL: not told */
    uint64_t read_bytes;     /* DynamoDB size of what the store examined; what a hit would cost */
    struct bytes body;
    struct bytes details; /* of an error; arena memory */
    /* What the store was charged, where the request wants it, arena memory; of a hit nothing. */
    struct consumed *consumed;
    size_t consumed_count;
    struct bytes capacity; /* the same, encoded: ConsumedCapacity, of batches and transactions a
                              list; not given: nothing was charged, or nobody asked */
    /* Of writes, where the request wants it, arena memory: the item collections written to. */
    struct collection_size *collections;
    size_t collection_count;
    struct bytes metrics;    /* the same, encoded: ItemCollectionMetrics; not given: none */
    struct touched *touched; /* writes: `touched_count` of them, arena memory. TransactGetItems:
                                what was seen */
    size_t touched_count;
    struct key_interval examined; /* Query: what the page depends on, arena memory */
    struct error error;           /* text when status is not OK */
};

/* Makes an empty reply; leaves error.text alone but for its first byte. */
static inline void reply_init(struct reply *reply)
{
    memset(reply, 0, offsetof(struct reply, error));
    reply->error.status = STATUS_OK;
    reply->error.is_misfit = false;
    reply->error.text[0] = '\0';
}
