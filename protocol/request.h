/* request.h - one decoded request, the same for all protocols.
 *
 * Decoding fills the first part without copying: every view points into the frame. request_bind()
 * fills the second part from the first and the table's definition. */
#pragma once

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
};
enum { OPERATIONS = 12 };

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

/* "GetItem", ...; "Unknown" for others. */
const char *operation_name(enum operation operation);

struct request {
    enum operation operation;
    uint32_t limit;          /* Query, ListTables: 1 or more; 0 means none given */
    uint64_t id;             /* the client's, given back in the reply */
    bool is_consistent;      /* ConsistentRead */
    bool is_backward;        /* ScanIndexForward = false */
    bool wants_verdict;      /* say how the cache answered */
    bool wants_commit;       /* say the commit number written or seen */
    uint32_t timeout_ms;     /* the client's own deadline; 0: the daemon's */
    struct bytes table_name; /* also ListTables' ExclusiveStartTableName */
    struct bytes key;        /* GetItem, DeleteItem, UpdateItem: MessagePack map */
    struct bytes item;       /* PutItem: MessagePack map; canonical after request_bind, which for
                           UpdateItem       puts here what a new item begins with: the key */
    /* Its names and values are those of the other expressions too. */
    struct expression_input key_condition;
    struct bytes condition;  /* PutItem, DeleteItem, UpdateItem: ConditionExpression */
    struct bytes filter;     /* Query: FilterExpression */
    struct bytes projection; /* GetItem, Query: ProjectionExpression */
    enum select select;      /* Query */
    struct bytes update;     /* UpdateItem: UpdateExpression */
    enum return_values return_values;
    struct bytes start_key;  /* Query: ExclusiveStartKey, MessagePack map */
    struct bytes definition; /* CreateTable: MessagePack map with DynamoDB's member names */

    /* Filled by request_bind(). */
    const struct table *table;
    struct item_key item_key;   /* all that name one item */
    struct key_condition range; /* Query: start key applied, so exactly what is to be read */
    size_t item_size;           /* PutItem: DynamoDB's size */
    /* What the expressions say; NULL: not given. */
    const struct expression *condition_tree, *filter_tree;
    const struct path_node *projection_tree, *update_tree;
    struct bytes page_form; /* Query: filter, projection and Select in one form that does not depend
                               on aliases (expression_form.h); empty: whole items, all of them */
};

/* Binds a GetItem, PutItem, DeleteItem or Query to its table: key attributes become key bytes, the
 * item canonical, the key condition an interval. Purely syntax and schema: what it refuses does not
 * depend on stored data. Does nothing when already bound.
 * table  stays valid as long as the request
 * Errors: STATUS_VALIDATION with DynamoDB's texts, STATUS_MALFORMED, STATUS_NO_MEMORY. */
MUST_CHECK enum status request_bind(struct request *request, const struct table *table,
                                    struct arena *arena, struct error *error);
