#include "tests/support/lane_loop.h"

#include "protocol/ensure.h"

#include <stdlib.h>
#include <time.h>

enum { WAIT_SECONDS_MAX = 30 };

struct lane_timer {
    uint64_t due_us, order;
    struct task *task;
};

static void loop_post(void *worker, struct task *task)
{
    struct lane_loop *loop = worker;
    mutex_lock(&loop->lock);
    task->next = NULL;
    if (loop->first == NULL)
        loop->first = task;
    else
        loop->last->next = task;
    loop->last = task;
    pthread_cond_signal(&loop->is_filled);
    mutex_unlock(&loop->lock);
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

void lane_loop_init(struct lane_loop *loop)
{
    *loop = (struct lane_loop){.now_us = 1000000};
    loop->env = (struct lane_env){.worker = loop, .post = loop_post, .after = loop_after};
    mutex_init(&loop->lock);
    ensure(pthread_cond_init(&loop->is_filled, NULL) == 0);
}

void lane_loop_deinit(struct lane_loop *loop)
{
    ensure(loop->first == NULL && loop->timers_count == 0);
    free(loop->timers);
    pthread_cond_destroy(&loop->is_filled);
    mutex_deinit(&loop->lock);
}

bool lane_loop_turn(struct lane_loop *loop)
{
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

/* False: nothing was posted for as long as anybody may take. */
static bool wait_for_post(struct lane_loop *loop)
{
    struct timespec until;
    ensure(clock_gettime(CLOCK_REALTIME, &until) == 0);
    until.tv_sec += WAIT_SECONDS_MAX;
    int error = 0;
    mutex_lock(&loop->lock);
    while (loop->first == NULL && error == 0)
        error = pthread_cond_timedwait(&loop->is_filled, &loop->lock.sleep, &until);
    bool is_filled = loop->first != NULL;
    mutex_unlock(&loop->lock);
    return is_filled;
}

bool lane_loop_run_until(struct lane_loop *loop, const bool *flag)
{
    while (!*flag) {
        if (lane_loop_turn(loop))
            continue;
        struct lane_timer *timer = loop->is_clock_manual ? NULL : next_timer(loop);
        if (timer != NULL)
            run_timer(loop, timer);
        else if (!wait_for_post(loop))
            return false;
    }
    return true;
}

size_t lane_loop_timers(const struct lane_loop *loop)
{
    return loop->timers_count;
}
