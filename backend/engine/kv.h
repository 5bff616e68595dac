/* kv.h - SEAM: an ordered store of keys and bytes, no items.
 *
 * An engine operation is read, compute, commit. What was read carries tokens; the commit is
 * computed again on newer records, or refused, if one of them has changed since. Threads: a lane is
 * one thread's. A read is DONE or PENDING, a commit always PENDING; completions run on the lane's
 * own thread, from its loop, never inside the call. */
#pragma once

#include "backend/lane.h"
#include "protocol/arena.h"
#include "protocol/status.h"

struct kv_record {
    struct bytes key;
    struct bytes value; /* not given: no such record */
    uint64_t token;     /* what a commit must find unchanged */
};

struct kv_read;

/* Gets the records of a range in order, on whatever thread reads. Views are valid during the call.
 * False ends the read. */
typedef bool (*kv_visit_fn)(struct kv_read *read, struct bytes key, struct bytes value);

/* Point reads, or one range, of one instant; a store that is asked over a network may part a range
 * of more than 1 MiB into several instants. Caller's until complete.
 * A range lies within what begins with the same table id and hash (engine/record.h), or with table
 * id 0: a store may keep such records together. Or it goes forward over a whole table, or over
 * hashes of it from `low` to a `high` that ends with the hash. But load() is also asked for
 * everything, low "" and high not given: is there anything that is not the engine's? */
struct kv_read {
    struct kv_record *records; /* keys in; values (arena memory) and tokens out */
    size_t count;

    /* If visit, `records` are read as well, of the same instant, before the range; that takes a
     * store of instants and a read that is_patient. */
    struct bytes low, high; /* if visit: from low (inclusive) to high (exclusive); the store may
                               narrow them as it goes */
    bool is_backward;
    bool is_large;   /* may examine more than 256 KiB: straight to a reader thread */
    bool is_patient; /* and that lets others go first, again and again */
    kv_visit_fn visit;
    uint32_t records_max; /* a hint: visit ends the read after at most so many; 0: unknown */
    uint32_t weight; /* a hint: so many plain records are as much work to visit as one; 0: one */

    struct arena *arena;
    uint64_t deadline_us;
    enum status status; /* OK, or why nothing can be said about the records */
    uint64_t commit;    /* the read saw at least everything up to this commit; 0: unknown */
    void (*complete)(struct kv_read *read);
    void *owner;
    struct task task; /* the store's */
    void *store[4];   /* the store's */
};

/* Numbers that are only added to, kept exact by the store in the same commit. Read back as records
 * of 8-byte little-endian integers; where all are zero there is no record. A commit has one counter
 * with a limit at most of each key. */
enum { KV_COUNTERS = 4 };
struct kv_counter {
    struct bytes key;
    int64_t add[KV_COUNTERS];
    int64_t limit; /* a commit that would raise the first number above it is refused; 0: none */
    int64_t after; /* of a commit that is done: the first number then, if there is a limit */
};

struct kv_commit;

/* Records that nobody reads or writes any more once the commit has happened: within a range as
 * reads have it, or a whole table's, which begin with the 4 bytes of `low`. */
struct kv_range {
    struct bytes low, high; /* low inclusive, high exclusive */
};

enum kv_outcome {
    KV_DONE,     /* durable and visible */
    KV_CONFLICT, /* nothing happened: something read has changed, and could not be recomputed */
    KV_REFUSED,  /* nothing happened: `status` says why */
    KV_UNKNOWN,  /* perhaps it happened */
};

/* Recomputes writes and counters from the reads' new values: a pure function, run on the store's
 * own thread with the commit's arena. The new values are views, valid during the call only.
 * KV_DONE: go on, with the same keys written; KV_CONFLICT: other keys would be, so its owner has to
 * begin again; KV_REFUSED: commit->status says why (and the text is where its owner wants it). */
typedef enum kv_outcome (*kv_recompute_fn)(struct kv_commit *commit);

/* All or nothing. Caller's until complete. */
struct kv_commit {
    struct kv_record *reads;
    size_t read_count;
    struct kv_record *writes; /* value not given: delete; tokens unused */
    size_t write_count;
    struct kv_counter *counters;
    size_t counter_count;
    const struct kv_counter *exceeded; /* KV_REFUSED: whose limit was; NULL: none */
    /* Gone with the commit, or after it at the store's leisure: nobody reads ranges in them again.
     */
    struct kv_range *drops;
    size_t drop_count;
    kv_recompute_fn recompute; /* NULL: a change is a conflict */

    struct arena *arena;
    uint64_t deadline_us;
    enum kv_outcome outcome;
    enum status status;
    const char *why; /* of a refusal: a constant text, or NULL */
    uint64_t number; /* of this commit, ascending; 0 where the store has none */
    void (*complete)(struct kv_commit *commit);
    void *owner;
    struct task task; /* the store's */
    void *store[4];   /* the store's */
};

struct kv {
    const struct kv_ops *ops;
};
struct kv_lane {
    const struct kv_ops *ops;
};

enum sync_mode {
    SYNC_ALWAYS,   /* fdatasync before a group is acknowledged */
    SYNC_INTERVAL, /* about every second: a power loss takes back up to that */
    SYNC_NONE,     /* when the system likes */
};

struct store_options {
    struct bytes url;    /* borrowed during open */
    size_t memory_bytes; /* block cache and write buffers together */
    enum sync_mode sync;
    event_fn on_event; /* may be NULL */
    void *on_event_arg;
};

struct kv_ops {
    const char *const *schemes; /* NULL-terminated: "rocksdb", "memory" */
    bool has_instants;          /* any range is read of one instant, however large */
    bool is_shared;             /* other daemons may write to it */

    /* Errors: text says what is wrong with which path or address, and what to do. */
    MUST_CHECK enum status (*open)(const struct store_options *options, struct kv **out,
                                   struct error *error);
    MUST_CHECK enum status (*lane_open)(struct kv *kv, const struct lane_env *env,
                                        struct kv_lane **out);
    void (*lane_close)(struct kv_lane **lane);

    /* Reads and waits for it, without a lane: for opening, before the first lane. `complete` is not
     * called. Result: read->status. */
    void (*load)(struct kv *kv, struct kv_read *read);

    /* A token for something about to be learned otherwise than by read (the catalog): load it
     * before looking. */
    uint64_t (*token)(struct kv *kv);

    enum submit (*read)(struct kv_lane *lane, struct kv_read *read);
    void (*commit)(struct kv_lane *lane, struct kv_commit *commit);

    void (*report)(struct kv *kv, report_fn report, void *arg);
    bool (*is_ready)(struct kv *kv, const char **why);
    void (*close)(struct kv **kv);
};

extern const struct kv_ops kv_rocksdb;
extern const struct kv_ops kv_redis;

/* All of them, NULL-terminated; which are built depends on MUDAX_BACKEND_*. */
extern const struct kv_ops *const kv_stores[];
