/* request.h - one decoded request, the same for all protocols.
 *
 * Decoding fills the first part without copying: every view points into the frame. request_bind()
 * fills the second part from the first and the table's definition. */
#pragma once

#include "protocol/capacity.h"
#include "protocol/expression.h"

/* Numbers are part of the native protocol and never change. */
enum operation {
    OPERATION_HELLO = 0,
    OPERATION_PING = 1,
    OPERATION_GET_ITEM = 2,
    OPERATION_PUT_ITEM = 3,
    OPERATION_DELETE_ITEM = 4,
    OPERATION_QUERY = 5,
    OPERATION_CREATE_TABLE = 6,
    OPERATION_DESCRIBE_TABLE = 7,
    OPERATION_LIST_TABLES = 8,
    OPERATION_DELETE_TABLE = 9,
    OPERATION_STATS = 10,
    OPERATION_UPDATE_ITEM = 11,
    OPERATION_SCAN = 12,
    OPERATION_BATCH_GET_ITEM = 13,
    OPERATION_BATCH_WRITE_ITEM = 14,
    OPERATION_TRANSACT_GET_ITEMS = 15,
    OPERATION_TRANSACT_WRITE_ITEMS = 16,
    OPERATION_CONDITION_CHECK = 17, /* only as a part of TransactWriteItems */
    OPERATION_UPDATE_TABLE = 18,
    OPERATION_UPDATE_TIME_TO_LIVE = 19,
    OPERATION_DESCRIBE_TIME_TO_LIVE = 20,
    OPERATION_FILL_INDEX = 21, /* the daemon's own: one slice of a new index */
    OPERATION_PURGE = 22,
    OPERATION_EXPLAIN = 23, /* of one part */
    OPERATION_DESCRIBE_HEAT = 24,
    OPERATION_TAG_RESOURCE = 25,
    OPERATION_UNTAG_RESOURCE = 26,
    OPERATION_LIST_TAGS_OF_RESOURCE = 27,
    OPERATION_SPLIT_PARTITION = 28, /* the daemon's own: a step of what a table's partitions need */
    OPERATION_LOOK_AT_SHARED = 29, /* the daemon's own: what others have done to a store's tables */
};
enum { OPERATIONS = 30 };

/* Which attributes of an item a write answers with. Numbers as above. */
enum return_values {
    RETURN_NONE = 0,
    RETURN_ALL_OLD = 1,
    RETURN_UPDATED_OLD = 2,
    RETURN_ALL_NEW = 3,
    RETURN_UPDATED_NEW = 4,
};
enum { RETURN_VALUES = 5 };

/* What a page shows. Numbers as above. */
enum select {
    SELECT_NOT_GIVEN = 0, /* whole items, or what a projection says */
    SELECT_ALL_ATTRIBUTES = 1,
    SELECT_ALL_PROJECTED_ATTRIBUTES = 2,
    SELECT_SPECIFIC_ATTRIBUTES = 3,
    SELECT_COUNT = 4,
};
enum { SELECTS = 5 };

enum {
    BATCH_GET_MAX = 100, /* developer guide, quotas, as the next */
    BATCH_WRITE_MAX = 25,
    TRANSACT_MAX = 100,
    CLIENT_TOKEN_MAX = 36,
    /* Encoded: twice what 20 indexes, 100 projected names and 50 tags can have. As a tree it takes
     * some fifty times as much. */
    DEFINITION_BYTES_MAX = 256 << 10,
};

/* "GetItem", ...; "Unknown" for others. */
const char *operation_name(enum operation operation);
/* Whether clients may ask for it; false for what only the daemon asks itself. */
bool operation_is_spoken(enum operation operation);
/* That a definition is no larger than it may be. Errors: STATUS_VALIDATION. */
MUST_CHECK enum status definition_check_size(enum operation operation, size_t size,
                                             struct error *error);
/* Whether it may change what is stored: then its outcome can be unknown. */
bool operation_may_change(enum operation operation);

struct request {
    enum operation operation;
    uint32_t limit;          /* Query, Scan, ListTables: 1 or more; 0 means none given */
    uint64_t id;             /* the client's, given back in the reply */
    bool is_consistent;      /* ConsistentRead */
    bool is_backward;        /* ScanIndexForward = false */
    bool wants_verdict;      /* say how the cache answered */
    bool wants_commit;       /* say the commit number written or seen */
    uint32_t timeout_ms;     /* the client's own deadline; 0: the daemon's */
    struct bytes table_name; /* also ListTables' ExclusiveStartTableName */
    struct bytes key;        /* GetItem, DeleteItem, UpdateItem: MessagePack map. Purge: of an item,
                                or of a partition: its partition key alone */
    struct bytes item;       /* PutItem: MessagePack map, canonical after request_bind. UpdateItem:
                                what a new item begins with, its key; made by request_bind */
    /* Its names and values are those of the other expressions too. */
    struct expression_input key_condition;
    struct bytes condition;  /* PutItem, DeleteItem, UpdateItem: ConditionExpression */
    struct bytes filter;     /* Query, Scan: FilterExpression */
    struct bytes projection; /* GetItem, Query, Scan: ProjectionExpression */
    enum select select;      /* Query, Scan */
    struct bytes update;     /* UpdateItem: UpdateExpression */
    bool is_legacy;          /* expressions were made of parameters that are older than they */
    enum return_values return_values;
    struct bytes start_key;     /* Query, Scan: ExclusiveStartKey, MessagePack map. FillIndex: the
                                   reply's body of the slice before */
    struct bytes definition;    /* CreateTable, UpdateTable, UpdateTimeToLive, TagResource,
                                   UntagResource, ListTagsOfResource: MessagePack map with
                                   DynamoDB's member names */
    struct bytes index_name;    /* Query, Scan, Purge; not given: the table itself */
    uint32_t segment, segments; /* Scan: Segment of TotalSegments; 0 segments: not given */
    bool has_segment;
    enum capacity_detail capacity; /* ReturnConsumedCapacity */
    bool wants_metrics;            /* ReturnItemCollectionMetrics = SIZE */
    bool wants_failed;             /* ReturnValuesOnConditionCheckFailure = ALL_OLD */
    struct bytes token;            /* TransactWriteItems: ClientRequestToken */
    /* Batches and transactions: `part_count` requests, each bound by itself; arena memory. */
    struct request *parts;
    size_t part_count;

    /* Filled by request_bind(). */
    const struct table *table;
    const struct secondary_index *index; /* Query, Scan, Purge; NULL: the table itself */
    struct item_key item_key;            /* all that name one item; of Purge perhaps empty */
    struct key_condition range; /* Query: start key applied, so exactly what is to be read. Scan:
                                   partition empty, the interval one of positions, which are
                                   8 bytes of the partition key's hash, big endian, and the key.
                                   Purge: a partition, or not given */
    size_t item_size;           /* PutItem: DynamoDB's size */
    /* What the expressions say; NULL: not given. */
    const struct expression *condition_tree, *filter_tree;
    const struct path_node *projection_tree, *update_tree;
    struct bytes
        page_form; /* Query, Scan: filter, projection and Select in one form that does not depend
                      on aliases (expression_form.h); empty: whole items, all of them */
};

/* What a Query or Scan reads has the id of its index or of its table. */
static inline uint32_t request_range_id(const struct request *request)
{
    return request->index != NULL ? request->index->id : request->table->id;
}

/* Copies a read (GetItem, Query, Scan) as it was decoded, not bound, with all that it points to.
 * False without memory. */
MUST_CHECK bool request_copy_read(const struct request *request, struct arena *arena,
                                  struct request *out);

/* What can be said of a request on one table without the table: DynamoDB says it first, also of a
 * table that is missing. Errors as request_bind(). */
MUST_CHECK enum status request_check(struct request *request, struct arena *arena,
                                     struct error *error);

/* Binds a request that names one table to it: key attributes become key bytes, the
 * item canonical, the key condition an interval. Purely syntax and schema: what it refuses does not
 * depend on stored data. Does nothing when already bound.
 * table  stays valid as long as the request
 * Errors: STATUS_VALIDATION with DynamoDB's texts, STATUS_MALFORMED, STATUS_NO_MEMORY. */
MUST_CHECK enum status request_bind(struct request *request, const struct table *table,
                                    struct arena *arena, struct error *error);
