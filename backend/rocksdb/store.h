/* store.h - private to backend/rocksdb: what its four files share.
 *
 * database.c opens, closes and reopens RocksDB; reader.c reads; writer.c is the one thread that
 * commits; kv_rocksdb.c puts them behind kv.h.
 * Numbers: commits are numbered from RocksDB's sequence number at opening, so they ascend over
 * restarts too. A token is the number of the last commit already readable, loaded before the read.
 * Reopening: whoever uses `database` holds a pin; the writer changes `database` while there is
 * none.
 */
#pragma once

#include "backend/engine/kv.h"
#include "protocol/mutex.h"

#include <rocksdb/c.h>

#include <pthread.h>
#include <stdatomic.h>

enum {
    STORE_READERS = 2,
    READS_PENDING_MAX = 16384,  /* a lane; beyond: STATUS_THROTTLED */
    COMMITS_QUEUED_MAX = 16384, /* all lanes; beyond: STATUS_THROTTLED */
};

/* Waits of the store's own threads, copied when a store is opened. Variables for tests alone. */
extern uint32_t store_reopen_ms; /* after a write error, between attempts */
extern uint32_t store_sync_ms;   /* SYNC_INTERVAL */

/* Uses of the database by one lane or thread. On a cache line of its own: only reopening looks at
 * those of others. */
struct pin {
    /* Atomic, sequentially consistent against store.is_reopening. */
    _Alignas(64) atomic_uint count;
    /* Guarded by store.gate. */
    struct pin *next;
};

struct read_counters {
    atomic_uint_fast64_t cached;     /* answered without I/O */
    atomic_uint_fast64_t incomplete; /* had to go to a reader thread */
    atomic_uint_fast64_t large;      /* went there because of their size */
    atomic_uint_fast64_t records;
    atomic_uint_fast64_t bytes;
    atomic_uint_fast64_t errors;
};

struct read_queue {
    /* Guarded by lock. */
    struct mutex lock;
    struct kv_read *first, *last; /* linked by read_next() */
    bool is_stopping;
    pthread_cond_t is_filled;
};

struct reader {
    struct store *store;
    struct pin pin;
    pthread_t thread;
    bool is_started;
};

struct writer; /* writer.c */

struct store {
    struct kv kv;
    /* Constant after open. */
    char *path;
    uint64_t delay_us; /* memory:?delay= */
    enum sync_mode sync;
    uint32_t reopen_ms, sync_ms;
    event_fn on_event;
    void *on_event_arg;
    rocksdb_env_t *env; /* memory: only */
    rocksdb_options_t *options;
    rocksdb_block_based_table_options_t *table_options;
    rocksdb_cache_t *block_cache;
    rocksdb_readoptions_t *read_cached, *read_full;
    struct reader readers[STORE_READERS];
    struct writer *writer;

    /* The writer's own. */
    bool is_read_only;
    /* Published: changed by the writer while no pin is held. NULL: could not be reopened at all. */
    rocksdb_t *database;
    /* Atomic, sequentially consistent against pin.count. */
    atomic_bool is_reopening;
    /* Atomic: written with release after a group is readable, loaded with acquire before reads. */
    atomic_uint_fast64_t readable;
    /* Atomic: why writes are not taken, a constant text; NULL while they are. */
    _Atomic(const char *) trouble;

    /* Guarded by gate. */
    struct mutex gate;
    struct pin *pins;
    pthread_cond_t gate_moved; /* a pin let go while reopening, or reopening ended */

    struct read_queue read_queue;
    struct pin report_pin; /* report() and load() */
    struct read_counters reads;
};

struct store_lane {
    struct kv_lane lane;
    struct store *store;
    struct lane_env env;
    /* The lane's thread's own. */
    uint32_t reads_pending, commits_pending;
    struct kv_read *parted_first, *parted_last; /* for the reader threads, of this loop turn */
    bool is_parting;
    struct task part;
    /* Shared with reader threads that finish a range for this lane. */
    struct pin pin;
    atomic_uint walks; /* relaxed: ranges begun by the lane and not over */
};

/* Starts a thread that takes no signals. */
MUST_CHECK bool store_thread_start(pthread_t *thread, void *(*run)(void *), void *arg,
                                   const char *name);

/* ---- database.c ---- */

/* Checks the directory, makes it if need be, and opens the database. Errors: text says what to do.
 */
MUST_CHECK enum status database_open(struct store *store, size_t memory_bytes, struct error *error);
void database_close(struct store *store);

/* Writer only: closes the database once no pin is held and opens it again; if that fails,
 * read-only, so that reads go on. Tells on_event before the first read of what was opened. number
 * of the last commit tried; what is opened holds whatever will ever be of it True if writes can be
 * taken again. */
bool database_reopen(struct store *store, uint64_t number);

void pin_register(struct store *store, struct pin *pin);
void pin_unregister(struct store *store, struct pin *pin);

/* Keeps the database as it is until unpin. False while it is being reopened. */
MUST_CHECK bool pin_try(struct store *store, struct pin *pin);
/* The same, waiting; not for reader threads, for the reopening may wait for what they have to read.
 */
void pin_wait(struct store *store, struct pin *pin);
void unpin(struct store *store, struct pin *pin);

/* ---- reader.c ---- */

MUST_CHECK bool readers_start(struct store *store);
void readers_stop(struct store *store);
/* What waits for the database to be reopened can be read. */
void readers_wake(struct store *store);
enum submit store_read(struct kv_lane *lane, struct kv_read *read);
void store_load(struct kv *kv, struct kv_read *read);
void lane_part_init(struct store_lane *lane);

/* ---- writer.c ---- */

MUST_CHECK enum status writer_start(struct store *store);
void writer_stop(struct store *store); /* drains */
void store_commit(struct kv_lane *lane, struct kv_commit *commit);
void writer_report(struct store *store, report_fn report, void *arg);
