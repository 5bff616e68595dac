/* lane.h - one thread's private way into a backend or a store, and what that thread lends it. */
#pragma once

#include "protocol/attributes.h"

#include <stdbool.h>
#include <stdint.h>

struct event_base; /* libevent's; only where a backend owns sockets */
struct call;

/* Work for a thread, embedded in what it is about. Caller's until run. */
struct task {
    void (*run)(struct task *task);
    struct task *next; /* the queue's */
};

/* Lent by the thread that opens a lane; stays valid until lane_close. */
struct lane_env {
    struct event_base *event_base;
    void *worker;
    /* Runs `task` on the worker's thread, from its event loop, never inside the call. Any thread.
     */
    void (*post)(void *worker, struct task *task);
    /* The same after a delay. The worker's own thread only. */
    void (*after)(void *worker, uint64_t delay_us, struct task *task);
    /* Something is under way that no call stands for, or is over: the lane may not be closed while
     * there is. The worker's own thread only. NULL: whoever closes it takes care. */
    void (*hold)(void *worker, bool is_begun);
    /* Told right before each commit attempt, on the lane's thread: call->reply.touched is what the
     * write will touch. NULL: nobody wants to know. */
    void (*intent)(void *intent_arg, struct call *call);
    void *intent_arg;
};

enum submit {
    SUBMIT_DONE,    /* the reply is filled; no completion follows */
    SUBMIT_PENDING, /* the completion comes later, on the same thread */
    SUBMIT_KEEP,    /* nothing was begun: the call lies in passing memory and would have to wait;
                       keep it and submit again */
};

/* What happens between requests; texts are one line. Any thread. */
typedef void (*event_fn)(void *arg, const char *what, const char *detail);

/* Figures for the operator. `labels` is `name="value",...` or "". */
struct metric {
    const char *name; /* Prometheus name without "mudax_" */
    const char *type; /* "counter" or "gauge" */
    const char *help;
};
typedef void (*report_fn)(void *arg, const struct metric *metric, const char *labels, double value);
