#include "tests/support/lane_loop.h"

#include "protocol/ensure.h"

#include <event2/event.h>

#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { WAIT_SECONDS_MAX = 30 };

struct lane_timer {
    uint64_t due_us, order;
    struct task *task;
};

static void loop_post(void *worker, struct task *task)
{
    struct lane_loop *loop = worker;
    uint64_t one = 1;
    mutex_lock(&loop->lock);
    task->next = NULL;
    if (loop->first == NULL)
        loop->first = task;
    else
        loop->last->next = task;
    loop->last = task;
    if (loop->first == task)
        ensure(write(loop->posted_fd, &one, sizeof one) == sizeof one);
    mutex_unlock(&loop->lock);
}

static void on_posted(evutil_socket_t fd, short what, void *arg)
{
    (void)what;
    (void)arg;
    uint64_t count;
    (void)!read(fd, &count, sizeof count);
}

static void loop_after(void *worker, uint64_t delay_us, struct task *task)
{
    struct lane_loop *loop = worker;
    if (loop->timers_count == loop->timers_capacity) {
        loop->timers_capacity = 2 * loop->timers_capacity + 8;
        loop->timers = realloc(loop->timers, loop->timers_capacity * sizeof *loop->timers);
        ensure(loop->timers != NULL);
    }
    loop->timers[loop->timers_count++] =
        (struct lane_timer){loop->now_us + delay_us, loop->order++, task};
}

static void loop_hold(void *worker, bool is_begun)
{
    struct lane_loop *loop = worker;
    loop->held += is_begun ? 1 : SIZE_MAX;
}

static struct event_base *create_base(void)
{
    struct event_config *config = event_config_new();
    ensure(config != NULL && event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK) == 0);
    struct event_base *base = event_base_new_with_config(config);
    ensure(base != NULL);
    event_config_free(config);
    return base;
}

void lane_loop_init(struct lane_loop *loop)
{
    *loop = (struct lane_loop){.now_us = 1000000};
    loop->env = (struct lane_env){.event_base = create_base(),
                                  .worker = loop,
                                  .post = loop_post,
                                  .after = loop_after,
                                  .hold = loop_hold};
    mutex_init(&loop->lock);
    loop->posted_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    ensure(loop->posted_fd >= 0);
    loop->posted =
        event_new(loop->env.event_base, loop->posted_fd, EV_READ | EV_PERSIST, on_posted, NULL);
    ensure(loop->posted != NULL && event_add(loop->posted, NULL) == 0);
}

void lane_loop_deinit(struct lane_loop *loop)
{
    ensure(loop->first == NULL && loop->timers_count == 0);
    free(loop->timers);
    event_free(loop->posted);
    event_base_free(loop->env.event_base);
    (void)close(loop->posted_fd);
    mutex_deinit(&loop->lock);
}

bool lane_loop_turn(struct lane_loop *loop)
{
    ensure(event_base_loop(loop->env.event_base, EVLOOP_NONBLOCK) >= 0);
    mutex_lock(&loop->lock);
    struct task *task = loop->first;
    loop->first = loop->last = NULL;
    mutex_unlock(&loop->lock);
    bool has_run = task != NULL;
    while (task != NULL) {
        struct task *next = task->next; /* the task may be gone once it has run */
        task->run(task);
        task = next;
    }
    return has_run;
}

void lane_loop_settle(struct lane_loop *loop)
{
    while (lane_loop_turn(loop))
        continue;
}

static struct lane_timer *next_timer(struct lane_loop *loop)
{
    struct lane_timer *next = NULL;
    for (size_t i = 0; i < loop->timers_count; i++) {
        struct lane_timer *timer = &loop->timers[i];
        if (next == NULL || timer->due_us < next->due_us ||
            (timer->due_us == next->due_us && timer->order < next->order))
            next = timer;
    }
    return next;
}

static void run_timer(struct lane_loop *loop, struct lane_timer *timer)
{
    struct task *task = timer->task;
    if (timer->due_us > loop->now_us)
        loop->now_us = timer->due_us;
    *timer = loop->timers[--loop->timers_count];
    task->run(task);
}

void lane_loop_advance(struct lane_loop *loop, uint64_t us)
{
    uint64_t until_us = loop->now_us + us;
    lane_loop_settle(loop);
    for (struct lane_timer *timer;
         (timer = next_timer(loop)) != NULL && timer->due_us <= until_us;) {
        run_timer(loop, timer);
        lane_loop_settle(loop);
    }
    loop->now_us = until_us;
}

static void on_patience_end(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    *(bool *)arg = true;
}

bool lane_loop_run_until(struct lane_loop *loop, const bool *flag)
{
    const struct timeval patience = {.tv_sec = WAIT_SECONDS_MAX};
    struct event *end = NULL;
    bool is_over = false;
    while (!*flag && !is_over) {
        if (lane_loop_turn(loop) || *flag)
            continue;
        struct lane_timer *timer = loop->is_clock_manual ? NULL : next_timer(loop);
        if (timer != NULL) {
            run_timer(loop, timer);
            continue;
        }
        if (end == NULL) {
            end = event_new(loop->env.event_base, -1, 0, on_patience_end, &is_over);
            ensure(end != NULL && event_add(end, &patience) == 0);
        }
        ensure(event_base_loop(loop->env.event_base, EVLOOP_ONCE) >= 0);
    }
    if (end != NULL)
        event_free(end);
    return *flag;
}

size_t lane_loop_timers(const struct lane_loop *loop)
{
    return loop->timers_count;
}

void lane_loop_release(struct lane_loop *loop)
{
    for (int i = 0; loop->held != 0; i++) {
        ensure(i < WAIT_SECONDS_MAX * 1000);
        if (lane_loop_turn(loop))
            continue;
        (void)usleep(1000);
        lane_loop_advance(loop, 1000);
    }
}
