/* action.h - private to backend/engine: one call on its way through read, compute, commit.
 *
 * items.c, write.c, transact.c, pages.c, tables.c and alter.c hold what operations do; engine.c
 * moves them along, on the lane's thread. A step returns SUBMIT_DONE when the reply is filled, also
 * where that happens in a completion. */
#pragma once

#include "backend/engine/engine.h"
#include "backend/engine/table.h"
#include "protocol/buffer.h"
#include "protocol/mutex.h"

enum {
    PAGE_BYTES_MAX = 1048576,     /* of DynamoDB's item sizes; developer guide, "Query" */
    ATTEMPTS_MAX = 64,            /* of one commit that conflicts */
    TABLES_LISTED_MAX = 100,      /* API reference, ListTables */
    TRANSACT_BYTES_MAX = 4 << 20, /* of all items; developer guide, quotas */
};

struct engine {
    struct backend backend;
    /* Constant after open. */
    struct kv *kv;
    uint32_t partitions, tables_max;
    int64_t collection_bytes_max;
    bool emulates_throughput;
    struct heat_rates partition_rates;
    uint64_t partition_bytes_max, partition_hot_us; /* more is split; 0: nothing is */
    uint64_t (*wall_ms)(void);
    /* Guarded by lock. */
    struct mutex lock;
    struct catalog *catalog;
    /* Atomic: catalog_version(catalog), written with release after it. */
    atomic_uint_fast64_t version;
    /* Atomic, relaxed. */
    atomic_uint_fast64_t calls[OPERATIONS], retries;
    atomic_uint_fast64_t token_span; /* whose predecessors have been dropped */
};

struct engine_lane {
    struct lane lane;
    struct engine *engine;
    struct lane_env env;
    struct kv_lane *kv;
    /* `token` was loaded before `catalog`: a commit relying on the catalog hands it in. */
    uint64_t token;
    struct catalog *catalog;
    struct definition *last_found; /* in it, by engine_table() */
    bool is_in_batch;
    uint32_t pending;
    uint64_t random;
    struct buffer page; /* lent to one Query at a time; holds the last reply's body */
};

/* One partition that a write is charged to. */
struct charged {
    const struct definition *definition;
    const struct secondary_index *index; /* NULL: the table itself */
    struct position position;
};

/* What a write hands to the store, and what of the cache it touches: one place in each list for
 * every record. */
struct write_plan {
    struct kv_record *writes;
    struct kv_counter *counters; /* of partitions, then of item collections */
    struct consumed *consumed;   /* what each partition's counter is charged */
    struct charged *charged;     /* and whom */
    struct touched *touched;
    struct kv_counter *sizes; /* of item collections, while items are computed */
    size_t write_count, charged_count, counter_count, size_count;
    size_t touched_count; /* the first of the writes */
    size_t capacity;      /* of each list */
};

/* One item's way through a write: a request's own, or one action's of a transaction. */
struct item_write {
    struct request *request;                    /* bound */
    const struct definition *definition;        /* that it is bound to */
    uint64_t token;                             /* of the moment when that was looked up */
    uint64_t hash;                              /* of the item's partition key */
    struct kv_record *item, *definition_record; /* of commit.reads */
    struct bytes new_item;                      /* computed; not given: there will be none */
    struct error error;                         /* why it cannot be written; status OK: it can */
    size_t charged_at, charged_end;             /* its own of the plan's charged */
    uint64_t half_units;      /* that one write takes of its table; 0: it was not judged so far */
    int64_t collection_bytes; /* what its item collection grows by */
    struct bytes collection;  /* the key of its item collection's counter; not given: none */
    struct bytes failed;      /* what failed its condition, where the request wants to know */
    /* While an index is being filled, the item's place in it may not be there yet. */
    struct kv_record *place; /* of commit.reads; NULL: not read */
    struct bytes lacks;      /* the key of a place that has to be read first; not given: none */
    struct touched *touched; /* its own, in the plan; NULL: nothing is written */
    struct bytes returned;   /* attributes that the reply shows, arena memory; not given: none */
};

/* What keeps a transaction with a ClientRequestToken from happening twice. */
struct once {
    uint64_t span; /* of ten minutes, since 1970; 0: there is no token */
    uint64_t now_ms, digest;
    struct kv_record
        *reads;         /* of this span and of the one before; once read, those of the action */
    struct bytes value; /* what is written for it */
};
enum { TOKEN_RECORDS = 2 };

struct action;
typedef enum submit (*step_fn)(struct action *action);

/* Arena memory. */
struct action {
    struct call *call;
    struct engine_lane *lane;
    struct definition
        *definition; /* borrowed from the lane's catalog, which is held while pending */
    uint64_t token;  /* the lane's, of the moment `definition` was looked up */

    step_fn begin;     /* again at each attempt */
    step_fn read_done; /* read.status is OK */
    step_fn commit_done;
    void (*commit_failed)(struct action *action); /* may be NULL */
    step_fn commit_refused;                       /* NULL: action_refuse */
    uint32_t attempts;
    uint64_t waited_us;
    struct task retry;

    struct kv_read read;
    struct kv_commit commit;
    struct kv_record reads[3], writes[3];
    struct consumed consumed[2]; /* by a read */

    /* PutItem, DeleteItem, UpdateItem */
    struct item_write *items;
    size_t item_count;
    struct kv_record *item_reads; /* of the items, of a token, then of the items' definitions */
    size_t item_read_count, definitions_at;
    size_t new_bytes; /* of all items as they will be */
    struct once once;
    struct write_plan plan;
    step_fn items_done;

    /* Query, Scan */
    struct buffer page; /* room for heads, then items */
    uint64_t examined_bytes;
    uint32_t examined_count;
    uint32_t count;         /* of them, those that the filter lets through */
    bool is_fetching;       /* what a local index does not project, from its table */
    uint64_t fetched_units; /* of READ_UNIT_BYTES, item by item */
    bool is_cut, has_no_memory;
    struct bytes last_place; /* of the item that ended the page: its record's key behind the id,
                                arena memory */
    struct bytes last_map;   /* its key attributes, arena memory */
    /* DescribeTable: of the table, then of its indexes, one range of counters after the other */
    struct partition_totals *totals;
    size_t totals_at;
    step_fn totals_done;
    /* DeleteTable */
    struct kv_range *drops; /* two of the table and of each index, arena memory */
    int state_before;       /* enum definition_state */
    /* DescribeHeat */
    struct heat_report *heat_report;
    /* SplitPartition */
    struct split *split;
    /* FillIndex */
    struct slice *slice;
    /* LookAtShared */
    struct shared *shared;
    /* CreateTable; `created` also UpdateTable and its like */
    struct definition_input input;
    struct definition *created; /* owned */
};

/* ---- engine.c ---- */

/* Hands action->read to the store, and what it finds to read_done. */
enum submit action_read(struct action *action);
/* Begins again after a while, within the deadline. */
enum submit action_retry(struct action *action);
/* The same, when the record of the definition has been found to be another than the catalog's. */
enum submit action_outdated(struct action *action, struct bytes record);
uint64_t lane_random(struct engine_lane *lane);
/* Announces reply.touched, hands action->commit to the store, the outcome to commit_done. */
enum submit action_commit(struct action *action);

/* The reply of a commit that the store or its computation has refused. */
enum submit action_refuse(struct action *action);
/* Charges a read of the action's table or of an index (may be NULL), and keeps it for the reply's
 * capacity_tell() where the request wants it. */
void action_charge(struct action *action, const struct secondary_index *index,
                   const struct position *position, uint64_t half_units);
/* Error replies, in any step. */
enum submit action_fail(struct action *action, enum status status);
enum submit action_no_table(struct action *action);

/* Commits a change of action->definition's record; action->created is the next one, which is let go
 * of if that fails. */
enum submit action_change(struct action *action, step_fn done);

/* Finds the call's table, in a state that data operations work on, and binds the request to it.
 * SUBMIT_PENDING: go on; SUBMIT_DONE: the reply says why not. */
enum submit action_bind(struct action *action);

/* Publishes a catalog with `added` (unless that table or a later one of its name is there already)
 * and without `removed`; either may be NULL. False without memory. */
MUST_CHECK bool engine_publish(struct engine *engine, struct definition *added,
                               const struct definition *removed);
/* Publishes tables that were found in the store and not in `seen`, or not so, and takes away those
 * that were not found; only while `seen` is the latest catalog, for else they may have been deleted
 * or made since. Either list may be NULL. False without memory. */
struct listed_definition {
    struct definition *definition;
    struct listed_definition *next;
};
MUST_CHECK bool engine_adopt(struct engine *engine, const struct catalog *seen,
                             const struct listed_definition *found,
                             const struct listed_definition *gone);

extern const struct bytes body_nil; /* MessagePack nil */

/* ---- write.c ---- */

/* Reads what the items depend on, computes what to write, and commits it; then `done`. The items'
 * `request`, `definition` and `token` are set; the requests bound. */
enum submit write_items(struct action *action, step_fn done);

/* What an index holds of an item that is there already; `place` not given: nothing. `value` is
 * arena memory or the item, `size` DynamoDB's of what is projected. Errors: STATUS_NO_MEMORY. */
MUST_CHECK enum status index_entry_of(const struct secondary_index *index, struct bytes item,
                                      struct item_key primary, struct arena *arena,
                                      struct item_key *place, struct bytes *value, size_t *size);

/* ---- collection.c ---- */

/* Adds the write's collection_bytes to its collection's counter in the plan. False without memory.
 */
MUST_CHECK bool collection_plan(struct item_write *write, struct write_plan *plan, int64_t limit,
                                struct arena *arena);
/* Tells the sizes after the commit where the request wants them. False without memory. */
MUST_CHECK bool collections_told(struct action *action);
/* Sets the error of the items whose collection is too large: action->commit.exceeded. */
void collection_refuse(struct action *action);

/* ---- throughput.c ---- */

/* index  NULL: the table itself. False: refuse it. */
bool throughput_admits(struct action *action, const struct definition *definition,
                       const struct secondary_index *index, const struct position *position,
                       bool is_write);
void throughput_consume(struct action *action, const struct definition *definition,
                        const struct secondary_index *index, const struct position *position,
                        bool is_write, uint64_t half_units);
enum submit throughput_refuse(struct action *action, const struct definition *definition,
                              const struct secondary_index *index);
/* What it says: STATUS_PROVISIONED or STATUS_THROTTLED. */
enum status throughput_error(const struct definition *definition,
                             const struct secondary_index *index, struct error *error);

/* ---- heat_report.c ---- */

/* Reads the counters of all partitions into action->heat_report, then goes on with `done`. */
enum submit partitions_read(struct action *action, step_fn done);
/* Of one of them, once read. */
const struct partition_totals *partitions_totals(const struct action *action, size_t place,
                                                 uint32_t partition);

/* ---- pages.c ---- */

/* DynamoDB's size of what the request's table or index shows of a record. Without memory
 * action->has_no_memory. */
size_t examined_size(struct action *action, struct bytes item);

/* ---- tables.c ---- */

enum submit tables_no_such(struct action *action);
/* All zero; NULL without memory. */
struct partition_totals *totals_new(size_t count, struct arena *arena);
/* Reads action->totals of action->definition, then goes on with `done`. */
enum submit totals_read(struct action *action, step_fn done);

/* ---- transact.c ---- */

/* True when an earlier request with the token has an answer for this one: OK, or a mismatch. */
bool once_was_done(const struct action *action, enum status *status);
/* The reply of a transaction that has been already: it reads its items. */
enum submit transact_repeated(struct action *action);
/* The reply of a transaction that cannot be: of what its items say, or of their size (OK). */
enum submit transact_refused(struct action *action, enum status status);

/* ---- all of them: first steps ---- */

enum submit get_begin(struct action *action);
enum submit write_begin(struct action *action);
enum submit query_begin(struct action *action);
enum submit scan_begin(struct action *action);
enum submit transact_get_begin(struct action *action);
enum submit transact_write_begin(struct action *action);
enum submit create_table_begin(struct action *action);
enum submit describe_table_begin(struct action *action);
enum submit list_tables_begin(struct action *action);
enum submit update_table_begin(struct action *action);
enum submit update_time_to_live_begin(struct action *action);
enum submit describe_time_to_live_begin(struct action *action);
enum submit tag_resource_begin(struct action *action); /* and UntagResource */
enum submit list_tags_begin(struct action *action);
enum submit fill_index_begin(struct action *action);
enum submit describe_heat_begin(struct action *action);
enum submit split_begin(struct action *action);
enum submit look_at_shared_begin(struct action *action);
enum submit delete_table_begin(struct action *action);
