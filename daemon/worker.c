#include "daemon/worker.h"

#include "daemon/clock.h"
#include "daemon/connection.h"
#include "daemon/delay.h"
#include "daemon/log.h"
#include "daemon/mailbox.h"
#include "daemon/upkeep.h"
#include "daemon/warm.h"
#include "protocol/ensure.h"

#include <event2/event.h>

#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Since glibc 2.35. */
#if __has_include(<sys/rseq.h>)
#include <sys/rseq.h>
#endif

/* A body of 16 MB over HTTP, unpacked, and the 9/4 of it that reading JSON may take. */
enum { PASSING_HEAP_MAX = 64 << 20 };

/* ---- what a lane is lent ---- */

static void post(void *arg, struct task *task)
{
    struct worker *worker = arg;
    mailbox_post(worker->mailbox, task);
}

static void after(void *arg, uint64_t delay_us, struct task *task)
{
    struct worker *worker = arg;
    delay_add(worker->delay, delay_us, task);
}

static void hold(void *arg, bool is_begun)
{
    struct worker *worker = arg;
    worker->parked += is_begun ? 1 : SIZE_MAX;
    if (!is_begun)
        worker_maybe_stop(worker);
}

/* ---- ends of turns ---- */

static void flush(void *arg)
{
    connection_flush_dirty(arg);
}

static void on_flush(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    connection_flush_dirty(arg);
}

void worker_turn_end(struct worker *worker)
{
    /* Runs behind what is active already, so that all replies of a turn leave in one write. */
    event_active(worker->flush_event, EV_TIMEOUT, 0);
}

/* ---- stopping ---- */

void worker_maybe_stop(struct worker *worker)
{
    if (worker->is_draining && worker->connections == NULL && worker->parked == 0)
        (void)event_base_loopbreak(worker->base);
}

static void on_stop_deadline(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    struct worker *worker = arg;
    while (worker->connections != NULL)
        connection_close(worker->connections);
}

struct drain {
    struct task task;
    struct worker *worker;
    uint64_t deadline_us;
};

static void run_drain(struct task *task)
{
    struct drain *drain = (struct drain *)task;
    struct worker *worker = drain->worker;
    uint64_t now_us = clock_now_us();
    uint64_t left_us = drain->deadline_us > now_us ? drain->deadline_us - now_us : 0;
    free(drain);
    worker->is_draining = true;
    upkeep_stop(worker->upkeep);
    warm_stop(worker->warm);
    struct timeval timeout = {.tv_sec = (time_t)(left_us / 1000000),
                              .tv_usec = (long)(left_us % 1000000)};
    (void)event_add(worker->stop_event, &timeout);
    for (struct connection *connection = worker->connections, *next; connection != NULL;
         connection = next) {
        next = connection_next(connection);
        connection_drain(connection);
    }
    worker_maybe_stop(worker);
}

void worker_drain(struct worker *worker, uint64_t deadline_us)
{
    struct drain *drain = malloc(sizeof *drain);
    ensure(drain != NULL);
    drain->task.run = run_drain;
    drain->worker = worker;
    drain->deadline_us = deadline_us;
    mailbox_post(worker->mailbox, &drain->task);
}

/* ---- taking over connections ---- */

struct adoption {
    struct task task;
    struct worker *worker;
    const struct wire_ops *wire;
    int fd;
};

static void run_adoption(struct task *task)
{
    struct adoption *adoption = (struct adoption *)task;
    connection_open(adoption->worker, adoption->fd, adoption->wire);
    free(adoption);
}

void worker_adopt(struct worker *worker, int fd, const struct wire_ops *wire)
{
    struct adoption *adoption = malloc(sizeof *adoption);
    ensure(adoption != NULL);
    adoption->task.run = run_adoption;
    adoption->worker = worker;
    adoption->fd = fd;
    adoption->wire = wire;
    mailbox_post(worker->mailbox, &adoption->task);
}

/* ---- life ---- */

/* What the C library does for each thread, and a worker has no use for. */
static void forgo_what_costs(void)
{
    /* Nobody cancels it. Told so in this way, glibc does without two atomic operations round each
     * system call that may wait: 0.05 us a request. */
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    /* NOLINTNEXTLINE(cert-pos47-c, concurrency-thread-canceltype-asynchronous) */
    (void)pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
#ifdef RSEQ_SIG
    /* Nobody asks on which CPU it runs so often that the kernel should have to write it down each
     * time that the worker is given one: 0.1 us a request. Where this fails all is as before. */
    uint8_t *area = (uint8_t *)__builtin_thread_pointer() + __rseq_offset;
    if (__rseq_size != 0)
        (void)syscall(SYS_rseq, area, sizeof(struct rseq), RSEQ_FLAG_UNREGISTER, RSEQ_SIG);
#endif
}

static void *run(void *arg)
{
    struct worker *worker = arg;
    char name[16];
    (void)snprintf(name, sizeof name, "mudax-work-%u", worker->options.number);
    (void)pthread_setname_np(pthread_self(), name);
    forgo_what_costs();
    (void)event_base_loop(worker->base, EVLOOP_NO_EXIT_ON_EMPTY);
    if (worker->warm != NULL)
        warm_save(worker->warm);
    return NULL;
}

static void destroy(struct worker **worker)
{
    struct worker *w = *worker;
    upkeep_stop(w->upkeep);
    warm_stop(w->warm);
    if (w->lane != NULL)
        w->lane->ops->lane_close(&w->lane);
    delay_destroy(&w->delay); /* runs what waits, the upkeep too */
    upkeep_destroy(&w->upkeep);
    warm_destroy(&w->warm);
    mailbox_destroy(&w->mailbox);
    if (w->flush_event != NULL)
        event_free(w->flush_event);
    if (w->stop_event != NULL)
        event_free(w->stop_event);
    if (w->base != NULL)
        event_base_free(w->base);
    arena_deinit(&w->arena);
    buffer_deinit(&w->out);
    stats_destroy(&w->stats);
    free(w->read_buffer);
    free(w->arena_first);
    free(w);
    *worker = NULL;
}

static bool create_loop(struct worker *worker)
{
    struct event_config *config = event_config_new();
    if (config == NULL)
        return false;
    /* Only the worker touches its loop; others write to the mailbox's eventfd. */
    (void)event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK);
    (void)event_config_set_flag(config, EVENT_BASE_FLAG_NO_CACHE_TIME); /* a batch has its own */
    (void)event_config_require_features(config, EV_FEATURE_ET | EV_FEATURE_EARLY_CLOSE);
    worker->base = event_base_new_with_config(config);
    event_config_free(config);
    if (worker->base == NULL)
        return false;
    worker->mailbox = mailbox_create(worker->base, flush, worker);
    worker->delay = delay_create(worker->base, flush, worker);
    worker->flush_event = event_new(worker->base, -1, 0, on_flush, worker);
    worker->stop_event = event_new(worker->base, -1, 0, on_stop_deadline, worker);
    return worker->mailbox != NULL && worker->delay != NULL && worker->flush_event != NULL &&
           worker->stop_event != NULL;
}

static enum status create_parts(struct worker *worker)
{
    worker->stats = stats_create();
    worker->read_buffer = malloc(WORKER_READ_SIZE);
    worker->arena_first = malloc(WORKER_ARENA_SIZE);
    if (worker->stats == NULL || worker->read_buffer == NULL || worker->arena_first == NULL ||
        !create_loop(worker))
        return STATUS_NO_MEMORY;
    arena_init(&worker->arena, worker->arena_first, WORKER_ARENA_SIZE, PASSING_HEAP_MAX);
    worker->passing.arena = &worker->arena;
    worker->passing.is_passing = true;
    worker->env = (struct lane_env){
        .event_base = worker->base, .worker = worker, .post = post, .after = after, .hold = hold};
    struct backend *backend = worker->options.backend;
    enum status status = backend->ops->lane_open(backend, &worker->env, &worker->lane);
    if (status == STATUS_OK && worker->options.upkeep_ms != 0) {
        worker->upkeep = upkeep_create(worker, worker->options.upkeep_ms);
        status = worker->upkeep == NULL ? STATUS_NO_MEMORY : STATUS_OK;
    }
    if (status == STATUS_OK && worker->options.warm_file != NULL) {
        worker->warm = warm_create(worker, worker->options.warm_file, worker->options.warm_rate);
        status = worker->warm == NULL ? STATUS_NO_MEMORY : STATUS_OK;
    }
    return status;
}

enum status worker_create(const struct worker_options *options, struct worker **out)
{
    struct worker *worker = calloc(1, sizeof *worker);
    if (worker == NULL)
        return STATUS_NO_MEMORY;
    worker->options = *options;
    enum status status = create_parts(worker);
    if (status == STATUS_OK && pthread_create(&worker->thread, NULL, run, worker) != 0)
        status = STATUS_NO_MEMORY;
    if (status != STATUS_OK) {
        destroy(&worker);
        return status;
    }
    *out = worker;
    return STATUS_OK;
}

bool worker_join(struct worker **worker, uint64_t until_us)
{
    uint64_t now_us = clock_now_us();
    uint64_t wall_us = clock_read_us(CLOCK_REALTIME) + (until_us > now_us ? until_us - now_us : 0);
    struct timespec until = {.tv_sec = (time_t)(wall_us / 1000000),
                             .tv_nsec = (long)(wall_us % 1000000) * 1000};
    /* Not pthread_clockjoin_np: ThreadSanitizer does not know that it joins. */
    if (pthread_timedjoin_np((*worker)->thread, NULL, &until) != 0)
        return false;
    destroy(worker);
    return true;
}

struct stats *worker_stats(struct worker *worker)
{
    return worker->stats;
}
