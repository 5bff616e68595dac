/* worker.h - one thread: an event loop, its connections, its lane, its counters.
 *
 * Threads: worker_adopt, worker_drain and worker_stats from any; the rest from whoever created it.
 * The struct is open for connection.c only. */
#pragma once

#include "backend/backend.h"
#include "daemon/stats.h"
#include "protocol/wire.h"

#include <pthread.h>
#include <stdatomic.h>

struct connection;
struct worker;

/* What SIGHUP can change, and what is counted against it. Atomic, relaxed: a limit may be passed by
 * as many as arrive at once. */
struct limits {
    atomic_uint_fast64_t frame_max, connections_max, requests_max, connection_requests_max;
    atomic_uint_fast64_t request_timeout_us, idle_timeout_us, write_timeout_us;
    atomic_uint_fast64_t memory_max;            /* bytes of `memory`, and as many of `frames` */
    atomic_uint_fast64_t connections, requests; /* there are now */
    atomic_uint_fast64_t memory; /* of requests that wait, and of replies that were not taken */
    /* Published: whose requests over HTTP are taken; NULL: everybody's. Stays until all workers are
     * gone. */
    _Atomic(const struct access_keys *) keys;
    atomic_uint_fast64_t frames; /* bytes kept for frames that have not come whole */
};

struct worker_options {
    unsigned number;         /* from 0, names the thread */
    struct backend *backend; /* caller's, outlives the worker */
    struct limits *limits;   /* caller's */
    uint64_t upkeep_ms;      /* it does the upkeep, with looks at items that far apart; 0: no */
    const char *warm_file;   /* it does the warm start; NULL: no */
    uint64_t warm_rate;      /* keys a second */
    /* Appends the body of a reply to Stats. Worker's thread. False without memory. */
    bool (*describe)(void *arg, struct buffer *body);
    void *arg;
};

/* Starts the thread. Errors: what lane_open says, STATUS_NO_MEMORY. */
MUST_CHECK enum status worker_create(const struct worker_options *options, struct worker **out);

/* Hands a connected socket over; the worker closes it. */
void worker_adopt(struct worker *worker, int fd, const struct wire_ops *wire);

/* Reads no more, finishes what is in flight, closes connections as they fall idle, all of them at
 * the deadline, and ends the thread once the store has answered everything. */
void worker_drain(struct worker *worker, uint64_t deadline_us);

/* Waits for the thread to end, until `until_us` (monotonic); false when it has not, and the worker
 * is then left alone. */
bool worker_join(struct worker **worker, uint64_t until_us);

struct stats *worker_stats(struct worker *worker);

/* ---- for connection.c ---- */

enum {
    WORKER_READ_SIZE = 64 * 1024,  /* most that one read takes */
    WORKER_ARENA_SIZE = 32 * 1024, /* of a request that is answered at once, before the heap */
    WORKER_KINDS = 16,
};

/* Requests of one operation and verdict that were answered in this batch. */
struct batch_kind {
    enum operation operation;
    enum verdict verdict;
    uint32_t count;
};

struct worker {
    /* Constant after create. */
    struct worker_options options;
    struct event_base *base;
    struct lane *lane;
    struct mailbox *mailbox;
    struct delay *delay;
    struct stats *stats;
    struct lane_env env;
    pthread_t thread;

    /* Worker's own. */
    struct connection *connections; /* doubly linked */
    struct connection *dirty;       /* replies to be sent at the end of this turn */
    struct event *flush_event, *stop_event;
    struct upkeep *upkeep; /* NULL: another worker's */
    struct warm *warm;     /* likewise */
    size_t parked;         /* calls not completed yet, detached ones and the cache's own too */
    bool is_draining;
    uint64_t now_us;     /* when the current batch was read */
    struct call passing; /* the request being looked at */
    struct arena arena;  /* its memory */
    struct batch_kind kinds[WORKER_KINDS];
    size_t kind_count;
    struct buffer out;    /* replies of the current batch */
    uint8_t *read_buffer; /* WORKER_READ_SIZE */
    uint8_t *arena_first;
};

/* Puts a connection on the list of those to flush at the end of the turn. */
void worker_turn_end(struct worker *worker);

/* A connection or a parked call is gone: the thread may end now if it is draining. */
void worker_maybe_stop(struct worker *worker);
