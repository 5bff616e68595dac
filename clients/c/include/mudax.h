/* mudax.h - the C client of mudax.
 *
 * Open a URL, build an item, call, read the reply, free it:
 *
 *     struct mudax_error error;
 *     struct mudax *db = mudax_open("mudax://127.0.0.1:8110", NULL, &error);
 *     struct mudax_value *item = mudax_map();
 *     mudax_put(item, "id", mudax_int(7));
 *     mudax_put(item, "name", mudax_string("Ada"));
 *     if (mudax_put_item(db, "users", item, &error) != MUDAX_OK)
 *         fprintf(stderr, "%s: %s\n", error.name, error.text);
 *     mudax_free(item);
 *     mudax_close(&db);
 *
 * Ownership: an argument is borrowed for the call unless it says *passes*. What comes back as a
 * `const` pointer belongs to what it was read from.
 * Threads: a `struct mudax` may be used by any number of threads at once; values, replies and pipes
 * by one at a time. After fork() only the parent may go on using what it opened.
 * Signals: none are raised or changed. */
#ifndef MUDAX_H
#define MUDAX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* "0.1.0" */
const char *mudax_version(void);

/* ---- errors ---- */

/* 1 to 99 are the daemon's answers, the numbers of the native protocol; from 100 on it is the
 * client that gave up. */
enum mudax_code {
    MUDAX_OK = 0,
    MUDAX_VALIDATION = 1,
    MUDAX_RESOURCE_NOT_FOUND = 2,
    MUDAX_RESOURCE_IN_USE = 3,
    MUDAX_CONDITIONAL_CHECK_FAILED = 4,
    MUDAX_THROTTLED = 5,
    MUDAX_INTERNAL = 6,
    MUDAX_UNAVAILABLE = 7,
    MUDAX_STORE_TIMEOUT = 8,
    MUDAX_OUTCOME_UNKNOWN = 9,
    MUDAX_MALFORMED = 10,
    MUDAX_TOO_LARGE = 11,
    MUDAX_UNKNOWN_OPERATION = 12,
    MUDAX_UNSUPPORTED = 13,
    MUDAX_DAEMON_NO_MEMORY = 14,
    MUDAX_SHUTTING_DOWN = 15,
    MUDAX_LIMIT_EXCEEDED = 16,
    MUDAX_TRANSACTION_CANCELED = 17, /* mudax_reply_reason() says why */
    MUDAX_IDEMPOTENT_MISMATCH = 18,  /* another transaction had this token */

    MUDAX_CONNECT_ERROR = 100,   /* no connection could be made */
    MUDAX_TIMEOUT = 101,         /* the deadline of the call passed */
    MUDAX_CONNECTION_LOST = 102, /* closed or reset before the reply was there */
    MUDAX_PROTOCOL_ERROR = 103,  /* what came back is no reply of the native protocol */
    MUDAX_NO_MEMORY = 104,
    MUDAX_INVALID_REQUEST = 105, /* a wrong URL or option, a value that could not be built */
    MUDAX_PIPE_FULL = 106,       /* in_flight_max calls are pending */
    MUDAX_CLOSED = 107,          /* the pipe was closed before the reply was there */
};

struct mudax_error {
    int code;          /* enum mudax_code */
    const char *name;  /* DynamoDB's ("ValidationException"), or "MudaxTimeout", ...; constant */
    char text[256];    /* what happened, whose limit it was, what to do */
    bool is_retryable; /* nothing happened, or the same call can safely be made again */
};

/* ---- values: attribute values, items, keys, expression values, definitions ---- */

struct mudax_value;

enum mudax_type {
    MUDAX_S,
    MUDAX_N,
    MUDAX_B,
    MUDAX_BOOL,
    MUDAX_NULL,
    MUDAX_L,
    MUDAX_M,
    MUDAX_SS,
    MUDAX_NS,
    MUDAX_BS,
    MUDAX_NONE, /* no value: a NULL pointer */
};

/* Make a value; contents are copied. NULL without memory, or if a number's text is no number of at
 * most 38 digits. NULL may be given to mudax_put() and mudax_append(): they then fail, and so does
 * the call that is made with the map, so that building needs no check at every step. */
struct mudax_value *mudax_string(const char *text);
struct mudax_value *mudax_string_of(const void *data, size_t size);
struct mudax_value *mudax_number(const char *text); /* "12.50", "-1e-130" */
struct mudax_value *mudax_int(int64_t integer);
struct mudax_value *mudax_binary(const void *data, size_t size);
struct mudax_value *mudax_bool(bool truth);
struct mudax_value *mudax_null(void);
struct mudax_value *mudax_list(void);
struct mudax_value *mudax_map(void);
struct mudax_value *mudax_string_set(void);
struct mudax_value *mudax_number_set(void);
struct mudax_value *mudax_binary_set(void);

/* Sets an attribute of a map; an older value of that name is freed.
 * value  passes, also on failure
 * False if `map` or `value` is NULL, `map` is no map, or memory is missing; `map` is then spoilt:
 * calls refuse it with MUDAX_INVALID_REQUEST. */
bool mudax_put(struct mudax_value *map, const char *name, struct mudax_value *value);

/* Appends to a list, or adds to a set (which holds every member once, sorted).
 * value  passes, also on failure
 * False as mudax_put(), and if a member is not of the set's type or is in the set already. */
bool mudax_append(struct mudax_value *list_or_set, struct mudax_value *value);

/* A copy of its own, of a value in a reply for example. NULL without memory or for NULL. */
struct mudax_value *mudax_copy(const struct mudax_value *value);
void mudax_free(struct mudax_value *value); /* NULL is fine */

/* All take NULL, and values of another type than they read, and then give what stands in brackets.
 * What they point to goes with the value, or when the value is changed. */
enum mudax_type mudax_type(const struct mudax_value *value); /* [MUDAX_NONE] */
size_t mudax_count(const struct mudax_value *value);         /* of a map, list or set [0] */
const struct mudax_value *mudax_get(const struct mudax_value *map, const char *name); /* [NULL] */
const struct mudax_value *mudax_at(const struct mudax_value *value, size_t index);    /* [NULL] */
/* The name of a map's attribute; maps are sorted by the bytes of names. Not NUL-terminated. */
const char *mudax_name_at(const struct mudax_value *map, size_t index, size_t *size); /* [NULL] */
/* Contents of S or B; not NUL-terminated, may hold NULs. */
const char *mudax_text(const struct mudax_value *value, size_t *size); /* [NULL, size 0] */
enum { MUDAX_NUMBER_TEXT = 177 };
/* Decimal digits of N, NUL-terminated, never with an exponent. Returns `out`. [""] */
const char *mudax_number_text(const struct mudax_value *value, char out[MUDAX_NUMBER_TEXT]);
bool mudax_as_int(const struct mudax_value *value, int64_t *out); /* an integer that fits [false] */
bool mudax_truth(const struct mudax_value *value);                /* of BOOL [false] */

/* What a map counts for as an item: names and values, by DynamoDB's rules, in bytes. 0: it is no
 * map, or no memory. Source: developer guide, "DynamoDB item sizes and formats". */
size_t mudax_item_size(const struct mudax_value *map);

/* DynamoDB JSON of a map, {"id": {"N": "7"}}, both ways; and ordinary JSON, {"id": 7}, for
 * definitions and figures.
 * text    one object
 * indent  spaces a level, 0 to 31; 0: one line
 * The text that comes back is NUL-terminated and passes to the caller: free(). NULL: no memory, or
 * a value that is no map; of the readers: `error` says why. */
struct mudax_value *mudax_from_json(const char *text, size_t size, struct mudax_error *error);
char *mudax_to_json(const struct mudax_value *map, int indent);
struct mudax_value *mudax_from_plain_json(const char *text, size_t size, struct mudax_error *error);
char *mudax_to_plain_json(const struct mudax_value *map, int indent);

/* ---- requests and replies ---- */

/* Numbers of the native protocol. */
enum mudax_operation {
    MUDAX_PING = 1,
    MUDAX_GET_ITEM = 2,
    MUDAX_PUT_ITEM = 3,
    MUDAX_DELETE_ITEM = 4,
    MUDAX_QUERY = 5,
    MUDAX_CREATE_TABLE = 6,
    MUDAX_DESCRIBE_TABLE = 7,
    MUDAX_LIST_TABLES = 8,
    MUDAX_DELETE_TABLE = 9,
    MUDAX_STATS = 10,
    MUDAX_UPDATE_ITEM = 11,
    MUDAX_SCAN = 12,
    MUDAX_BATCH_GET_ITEM = 13,
    MUDAX_BATCH_WRITE_ITEM = 14,
    MUDAX_TRANSACT_GET_ITEMS = 15,
    MUDAX_TRANSACT_WRITE_ITEMS = 16,
    MUDAX_CONDITION_CHECK = 17, /* only as a part of TransactWriteItems */
    MUDAX_UPDATE_TABLE = 18,
    MUDAX_UPDATE_TIME_TO_LIVE = 19,
    MUDAX_DESCRIBE_TIME_TO_LIVE = 20,
    MUDAX_PURGE = 22,
    MUDAX_EXPLAIN = 23,
    MUDAX_DESCRIBE_HEAT = 24,
    MUDAX_TAG_RESOURCE = 25,
    MUDAX_UNTAG_RESOURCE = 26,
    MUDAX_LIST_TAGS_OF_RESOURCE = 27,
};

/* Which attributes a write answers with. */
enum mudax_return_values {
    MUDAX_RETURN_NONE = 0,
    MUDAX_RETURN_ALL_OLD = 1,
    MUDAX_RETURN_UPDATED_OLD = 2, /* UpdateItem only, as those that follow */
    MUDAX_RETURN_ALL_NEW = 3,
    MUDAX_RETURN_UPDATED_NEW = 4,
};

/* What a page shows. */
enum mudax_select {
    MUDAX_SELECT_DEFAULT = 0, /* whole items, or what a projection says */
    MUDAX_SELECT_ALL_ATTRIBUTES = 1,
    MUDAX_SELECT_ALL_PROJECTED_ATTRIBUTES = 2,
    MUDAX_SELECT_SPECIFIC_ATTRIBUTES = 3,
    MUDAX_SELECT_COUNT = 4, /* only how many items there are */
};

/* Whether to say what the store was charged. */
enum mudax_capacity {
    MUDAX_CAPACITY_NONE = 0,
    MUDAX_CAPACITY_TOTAL = 1,
    MUDAX_CAPACITY_INDEXES = 2, /* and of that, each index */
};

/* Everything is borrowed; members that an operation has no use for stay zero. */
struct mudax_request {
    enum mudax_operation operation;
    const char *table;
    const char *index; /* Query, Scan, Purge: an index of the table; NULL: the table itself */
    /* GetItem, DeleteItem, UpdateItem, ConditionCheck: the key attributes. Purge: the item whose
     * key this is, or the partition whose partition key alone it is; NULL: the whole table or
     * index, and without a table everything. */
    const struct mudax_value *key;
    const struct mudax_value *item; /* PutItem */
    /* What stands in expressions for names and values: {"#n": "name"}; {":p": value}. */
    const struct mudax_value *names;
    const struct mudax_value *values;
    const char *condition;  /* writes and ConditionCheck: ConditionExpression */
    const char *update;     /* UpdateItem: UpdateExpression, "SET a = :v REMOVE b ADD n :one" */
    const char *projection; /* GetItem, Query, Scan: ProjectionExpression, "a, b.c, d[0]" */
    const char *filter;     /* Query, Scan: FilterExpression */
    enum mudax_return_values return_values; /* PutItem, DeleteItem, UpdateItem */
    /* Writes and ConditionCheck: an error MUDAX_CONDITIONAL_CHECK_FAILED, or the reason of a
     * transaction, comes with the item as it is. */
    bool wants_failed_item;
    enum mudax_select select; /* Query, Scan */
    /* Query: KeyConditionExpression, "pk = :p AND begins_with(sk, :s)"; reading order. */
    const char *key_condition;
    bool scan_backward;
    /* Query, Scan: most items examined for a page; LastEvaluatedKey of the page before. */
    uint32_t limit; /* ListTables too; 0: none */
    const struct mudax_value *start_key;
    /* Scan: segment number `segment`, from 0, of `segments`, which may be read side by side; 0
     * segments: all of the table. */
    uint32_t segment, segments;
    bool consistent_read; /* GetItem, Query, Scan: ask the store, not the cache */
    /* Batches and transactions: what they are made of, each part a request of its own with
     * operation and table. BatchGetItem, TransactGetItems: at most 100 GetItem; BatchWriteItem: at
     * most 25 PutItem and DeleteItem; TransactWriteItems: at most 100 of these, UpdateItem and
     * ConditionCheck. No part has parts, and what is asked of the call as a whole stands in the
     * whole: timeout, verdict, commit, capacity, metrics. */
    const struct mudax_request *parts;
    size_t part_count;
    /* TransactWriteItems: 1 to 36 characters. For ten minutes the same transaction with the same
     * token is done once, however often it comes. NULL: mudax_call() makes a random one, so that
     * it may try again; a pipe sends none. */
    const char *token;
    /* CreateTable, UpdateTable, UpdateTimeToLive: map with DynamoDB's member names, TableName among
     * them; TagResource, UntagResource, ListTagsOfResource: likewise, with ResourceArn. */
    const struct mudax_value *definition;
    const char *start_table;            /* ListTables: LastEvaluatedTableName of the page before */
    uint32_t timeout_ms;                /* of this call; 0: as in mudax_open() */
    bool wants_verdict;                 /* mudax_reply_verdict() and _age_ms() are wanted */
    bool wants_commit;                  /* mudax_reply_commit() is wanted */
    enum mudax_capacity wants_capacity; /* all on items: mudax_reply_capacity() is wanted */
    bool wants_metrics;                 /* all that write: mudax_reply_metrics() is wanted */
};

enum mudax_verdict {
    MUDAX_VERDICT_NONE = 0, /* not asked for, nothing that could be cached, or no cache */
    MUDAX_HIT = 1,
    MUDAX_MISS = 2,
    MUDAX_BYPASS = 3, /* ConsistentRead, or the cache is switched off */
    MUDAX_STALE = 4,  /* older than its time to live, as configured */
};

struct mudax_reply;

/* GetItem: the item, NULL if there is none. PutItem, DeleteItem, UpdateItem: the attributes that
 * return_values asks for, NULL if there are none; if the condition failed, the item as it is. */
const struct mudax_value *mudax_reply_item(const struct mudax_reply *reply);
/* Query, Scan: items of this page (of MUDAX_SELECT_COUNT only how many); what was examined; where
 * the next page starts, NULL on the last. */
size_t mudax_reply_count(const struct mudax_reply *reply);
const struct mudax_value *mudax_reply_item_at(const struct mudax_reply *reply, size_t index);
uint64_t mudax_reply_scanned_count(const struct mudax_reply *reply);
const struct mudax_value *mudax_reply_last_key(const struct mudax_reply *reply);
/* BatchGetItem, TransactGetItems: mudax_reply_count() is that of the parts, mudax_reply_item_at()
 * the item of that part, NULL if there is none.
 * Batches: how many parts were not processed and can be sent again, after a while; and the place of
 * each in `parts`, ascending. 0 for others, and for an index beyond. */
size_t mudax_reply_unprocessed_count(const struct mudax_reply *reply);
size_t mudax_reply_unprocessed_at(const struct mudax_reply *reply, size_t index);
/* MUDAX_TRANSACTION_CANCELED: what was wrong with a part, "ConditionalCheckFailed" for example;
 * "None" if nothing, NULL beyond mudax_reply_count(). mudax_reply_item_at() is the item that failed
 * the part's condition.
 * text  more words, "" if there are none; NULL: not wanted */
const char *mudax_reply_reason(const struct mudax_reply *reply, size_t index, const char **text);
/* Table operations, DescribeHeat and Stats: a map with DynamoDB's member names; Purge: a map of how
 * many Items and Pages were dropped from the cache; NULL for others. */
const struct mudax_value *mudax_reply_description(const struct mudax_reply *reply);
/* ConsumedCapacity with DynamoDB's member names: a map, of batches and transactions a list of them.
 * NULL: not asked for, or the store was not asked. */
const struct mudax_value *mudax_reply_capacity(const struct mudax_reply *reply);
/* ItemCollectionMetrics with DynamoDB's member names: a map, of batches and transactions a map from
 * tables to lists of them. NULL: not asked for, or no table that was written to has a local
 * secondary index. */
const struct mudax_value *mudax_reply_metrics(const struct mudax_reply *reply);
enum mudax_verdict mudax_reply_verdict(const struct mudax_reply *reply);
uint32_t mudax_reply_age_ms(const struct mudax_reply *reply); /* of a hit */
uint64_t mudax_reply_commit(const struct mudax_reply *reply); /* 0: not known */
void mudax_reply_free(struct mudax_reply *reply);             /* NULL is fine */

/* ---- the pool: blocking calls ---- */

struct mudax;

/* Zero means the default, so that `{0}` is a fine value. */
struct mudax_options {
    uint32_t connections_max; /* calls under way at once; 16. Others wait for their turn */
    uint32_t timeout_ms;      /* deadline of a call; 1000. It counts everything: waiting for a
                                 connection, connecting, the reply, and all retries */
    int32_t retries_max;      /* after the first attempt; 3. Negative: never retry */
};

/* Opens a pool; connections are made when they are needed.
 * url      mudax://HOST:PORT or mudax+unix:PATH. A host name is looked up here, once, and that may
 *          block as long as the resolver does; give an address to avoid it
 * options  NULL: all defaults
 * error    may be NULL
 * NULL on error: MUDAX_INVALID_REQUEST, MUDAX_CONNECT_ERROR (no such host), MUDAX_NO_MEMORY. */
struct mudax *mudax_open(const char *url, const struct mudax_options *options,
                         struct mudax_error *error);

/* Closes all connections. No call may be under way. Leaves NULL. */
void mudax_close(struct mudax **db);

/* One request, one reply.
 * reply  passes to the caller, who frees it; NULL on error, but for two that have more to say:
 *        MUDAX_TRANSACTION_CANCELED, and MUDAX_CONDITIONAL_CHECK_FAILED with wants_failed_item. May
 *        be NULL if it is not wanted
 * error  filled on failure only; may be NULL
 * Returns MUDAX_OK or the code of the error.
 * Retries (exponential back-off with full jitter, at most about a tenth of all calls, never beyond
 * the deadline): a read after a lost connection or an answer that is retryable, and likewise what
 * can be done twice: BatchWriteItem, and TransactWriteItems with its token. Another write only if
 * nothing can have happened: no connection, not sent completely, or the daemon says so.
 * is_retryable speaks of the caller's own repetition, which would have another random token. */
int mudax_call(struct mudax *db, const struct mudax_request *request, struct mudax_reply **reply,
               struct mudax_error *error);

/* Shorthands of mudax_call(). */
int mudax_get_item(struct mudax *db, const char *table, const struct mudax_value *key,
                   struct mudax_reply **reply, struct mudax_error *error);
int mudax_put_item(struct mudax *db, const char *table, const struct mudax_value *item,
                   struct mudax_error *error);
int mudax_delete_item(struct mudax *db, const char *table, const struct mudax_value *key,
                      struct mudax_error *error);
int mudax_query(struct mudax *db, const char *table, const char *key_condition,
                const struct mudax_value *values, struct mudax_reply **reply,
                struct mudax_error *error);

/* ---- the pipe: many calls in flight on one connection, on your event loop ----
 *
 * Nothing blocks but mudax_pipe_wait(). Calls in flight are concurrent: none is promised to happen
 * before another. There are no retries: a callback may submit again if its error is_retryable. A
 * pipe whose connection is lost fails all its calls and stays lost; open another one. */

struct mudax_pipe;

struct mudax_pipe_options {
    uint32_t in_flight_max; /* calls pending at once; 256, at most 65536 */
    uint32_t timeout_ms;    /* deadline of a call, from its submission; 1000 */
};

/* Runs exactly once for every submitted call, inside mudax_pipe_process(), _wait() or _close(). It
 * may submit, but not process, wait or close.
 * reply  borrowed; NULL on error, but as mudax_call() says
 * error  borrowed; NULL on success */
typedef void mudax_reply_fn(void *arg, const struct mudax_reply *reply,
                            const struct mudax_error *error);

/* Opens a pipe and begins to connect. url, error: as mudax_open(). */
struct mudax_pipe *mudax_pipe_open(const char *url, const struct mudax_pipe_options *options,
                                   struct mudax_error *error);

/* Calls still pending end with MUDAX_CLOSED. Leaves NULL. */
void mudax_pipe_close(struct mudax_pipe **pipe);

/* Queues a request; it is sent by the next mudax_pipe_process().
 * Returns MUDAX_OK, or a code, and the callback will not run: MUDAX_PIPE_FULL,
 * MUDAX_CONNECTION_LOST, MUDAX_INVALID_REQUEST, MUDAX_NO_MEMORY. */
int mudax_pipe_submit(struct mudax_pipe *pipe, const struct mudax_request *request,
                      mudax_reply_fn *callback, void *arg, struct mudax_error *error);

/* For the owner's loop: call mudax_pipe_process() when the descriptor is readable, when it is
 * writable and wants_write, and after timeout_ms (-1: no need). The descriptor can change while the
 * pipe connects, and is -1 when the connection is lost. */
int mudax_pipe_fd(const struct mudax_pipe *pipe);
bool mudax_pipe_wants_write(const struct mudax_pipe *pipe);
int mudax_pipe_timeout_ms(const struct mudax_pipe *pipe);

/* Sends and receives what is possible at once, runs callbacks. Returns how many ran. */
size_t mudax_pipe_process(struct mudax_pipe *pipe);

/* Processes until a callback has run, nothing is pending, or timeout_ms (-1: none) are over.
 * Returns how many callbacks ran. */
size_t mudax_pipe_wait(struct mudax_pipe *pipe, int timeout_ms);

size_t mudax_pipe_pending(const struct mudax_pipe *pipe);

#ifdef __cplusplus
}
#endif

#endif
