#include "daemon/errand.h"

#include "daemon/clock.h"
#include "daemon/worker.h"
#include "protocol/ensure.h"

struct errand {
    struct task task;
    struct worker *worker;
    struct call call;
    /* Guarded by lock. */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_done;
};

static void finish(struct errand *errand)
{
    struct reply *reply = &errand->call.reply;
    if (reply->status == STATUS_OK) {
        reply->body = arena_copy(errand->call.arena, reply->body);
        if (!bytes_given(reply->body))
            (void)call_fail(&errand->call, STATUS_NO_MEMORY);
    }
    ensure(pthread_mutex_lock(&errand->lock) == 0);
    errand->is_done = true;
    ensure(pthread_cond_signal(&errand->changed) == 0);
    ensure(pthread_mutex_unlock(&errand->lock) == 0);
}

static void completed(struct call *call)
{
    struct errand *errand = call->owner;
    struct worker *worker = errand->worker;
    finish(errand); /* which ends the errand's life */
    worker->parked--;
    worker_maybe_stop(worker);
}

/* On the worker's thread. */
static void run(struct task *task)
{
    struct errand *errand = (struct errand *)task;
    struct worker *worker = errand->worker;
    struct lane *lane = worker->lane;
    errand->call.now_us = clock_now_us();
    worker->parked++;
    lane->ops->lane_begin(lane);
    enum submit submit = lane->ops->submit(lane, &errand->call);
    ensure(submit != SUBMIT_KEEP);
    if (submit == SUBMIT_DONE)
        completed(&errand->call);
    lane->ops->lane_end(lane);
}

void errand_run(struct worker *worker, const struct request *request, struct arena *arena,
                struct reply *reply)
{
    struct errand errand = {
        .task = {.run = run},
        .worker = worker,
        .call = {.request = *request, .arena = arena, .complete = completed},
    };
    errand.call.owner = &errand;
    reply_init(&errand.call.reply);
    ensure(pthread_mutex_init(&errand.lock, NULL) == 0);
    ensure(pthread_cond_init(&errand.changed, NULL) == 0);
    worker->env.post(worker->env.worker, &errand.task);
    ensure(pthread_mutex_lock(&errand.lock) == 0);
    while (!errand.is_done)
        ensure(pthread_cond_wait(&errand.changed, &errand.lock) == 0);
    ensure(pthread_mutex_unlock(&errand.lock) == 0);
    ensure(pthread_cond_destroy(&errand.changed) == 0);
    ensure(pthread_mutex_destroy(&errand.lock) == 0);
    *reply = errand.call.reply;
}
