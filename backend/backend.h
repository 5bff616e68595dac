/* backend.h - SEAM: where requests are answered.
 *
 * The engine over a store is a backend; the cache is one that remembers. Both are opened once and
 * shared; each thread opens a lane of its own. */
#pragma once

#include "backend/lane.h"
#include "protocol/reply.h"

#include <stdatomic.h>

/* Who has a call made. */
enum call_origin {
    CALL_OF_CLIENT,
    CALL_OF_BATCH,        /* as a part of one */
    CALL_OF_TIME_TO_LIVE, /* the upkeep: the item has expired */
};

/* One request on its way down and its reply on the way up. */
struct call {
    struct request request;
    struct reply reply;
    struct arena *arena;  /* the request's; used only by whoever holds the call at the moment */
    uint64_t now_us;      /* monotonic, when the batch was read; `complete` gets it renewed */
    uint64_t deadline_us; /* monotonic; 0: none */
    bool wants_whole;     /* GetItem: the reply is the whole item; whoever sets this projects it */
    enum call_origin origin;
    /* Looked at by what may take long, on whatever thread; NULL: nobody can give it up. */
    const atomic_bool *is_cancelled;
    bool is_passing; /* memory is reused after the batch: SUBMIT_KEEP instead of PENDING */
    /* Called once after SUBMIT_PENDING, on the lane's thread, from its event loop. reply.body is
     * valid during the call. request.table is not: the table may have been deleted while the call
     * waited where nothing keeps a definition. */
    void (*complete)(struct call *call);
    void *owner;     /* the submitter's */
    void *below;     /* for the layer that has the call: what it must remember */
    const void *pin; /* the engine's: keeps request.table alive while it has the call */
};

struct lane {
    const struct backend_ops *ops;
};

struct backend {
    const struct backend_ops *ops;
};

struct backend_ops {
    const char *name;

    MUST_CHECK enum status (*lane_open)(struct backend *backend, const struct lane_env *env,
                                        struct lane **out);
    void (*lane_close)(struct lane **lane);

    /* Round a batch of requests, from the thread's loop. Between them nothing blocks. A reply that
     * was DONE is borrowed until the next submit or lane_end. */
    void (*lane_begin)(struct lane *lane);
    void (*lane_end)(struct lane *lane);

    /* The definition of a table that exists, or NULL; valid until lane_end or, outside of a batch,
     * until the thread's event loop goes on. */
    const struct table *(*table)(struct lane *lane, struct bytes name);

    /* Answers a call. Never both DONE and a completion; errors are replies. */
    enum submit (*submit)(struct lane *lane, struct call *call);

    /* A read's deadline has passed: an answer all the same, if there is one. The call itself goes
     * on. request  as decoded, whatever has become of its bound part; arena: not the call's May be
     * NULL: never. Inside a batch; the reply is borrowed as one that was DONE. */
    bool (*late)(struct lane *lane, const struct request *request, uint64_t now_us,
                 struct arena *arena, struct reply *reply);

    /* Any thread. */
    void (*report)(struct backend *backend, report_fn report, void *arg);
    /* False while writes cannot be taken; `why` is then a constant text. Any thread. */
    bool (*is_ready)(struct backend *backend, const char **why);

    void (*close)(struct backend **backend); /* after every lane is closed */
};

/* Fills an error reply. */
static inline enum submit call_fail(struct call *call, enum status status)
{
    call->reply.status = status;
    call->reply.error.status = status;
    return SUBMIT_DONE;
}
