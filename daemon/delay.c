#include "daemon/delay.h"

#include "daemon/clock.h"
#include "protocol/ensure.h"

#include <event2/event.h>

#include <stdbool.h>
#include <stdlib.h>
#include <sys/timerfd.h>
#include <unistd.h>

struct waiting {
    struct waiting *earlier, *later;
    uint64_t due_us;
    struct task *task;
};

/* A list sorted by due time and searched from its end: nearly all delays of a lane are equal. */
struct delay {
    int timer_fd;
    struct event *event;
    struct waiting *first, *last;
    void (*ran)(void *arg);
    void *arg;
};

static void arm(struct delay *delay)
{
    struct itimerspec when = {0};
    if (delay->first != NULL) {
        when.it_value.tv_sec = (time_t)(delay->first->due_us / 1000000);
        when.it_value.tv_nsec = (long)(delay->first->due_us % 1000000) * 1000;
    }
    ensure(timerfd_settime(delay->timer_fd, TFD_TIMER_ABSTIME, &when, NULL) == 0);
}

static struct task *take_due(struct delay *delay, uint64_t now_us)
{
    struct waiting *first = delay->first;
    if (first == NULL || first->due_us > now_us)
        return NULL;
    struct task *task = first->task;
    delay->first = first->later;
    if (delay->first != NULL)
        delay->first->earlier = NULL;
    else
        delay->last = NULL;
    free(first);
    return task;
}

static void run_due(struct delay *delay, uint64_t now_us)
{
    for (struct task *task; (task = take_due(delay, now_us)) != NULL;)
        task->run(task);
    if (delay->ran != NULL)
        delay->ran(delay->arg);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
    (void)what;
    struct delay *delay = arg;
    uint64_t expirations;
    if (read(fd, &expirations, sizeof expirations) < 0)
        expirations = 0; /* armed again meanwhile */
    run_due(delay, clock_now_us());
    arm(delay);
}

struct delay *delay_create(struct event_base *base, void (*ran)(void *arg), void *arg)
{
    struct delay *delay = calloc(1, sizeof *delay);
    if (delay == NULL)
        return NULL;
    delay->ran = ran;
    delay->arg = arg;
    delay->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (delay->timer_fd >= 0)
        delay->event = event_new(base, delay->timer_fd, EV_READ | EV_PERSIST, on_timer, delay);
    if (delay->event == NULL || event_add(delay->event, NULL) != 0)
        delay_destroy(&delay);
    return delay;
}

void delay_destroy(struct delay **delay)
{
    if (*delay == NULL)
        return;
    run_due(*delay, UINT64_MAX);
    if ((*delay)->event != NULL)
        event_free((*delay)->event);
    if ((*delay)->timer_fd >= 0)
        (void)close((*delay)->timer_fd);
    free(*delay);
    *delay = NULL;
}

void delay_add(struct delay *delay, uint64_t us, struct task *task)
{
    struct waiting *waiting = malloc(sizeof *waiting);
    ensure(waiting != NULL);
    waiting->task = task;
    waiting->due_us = clock_now_us() + us;
    waiting->earlier = delay->last;
    waiting->later = NULL;
    while (waiting->earlier != NULL && waiting->earlier->due_us > waiting->due_us) {
        waiting->later = waiting->earlier;
        waiting->earlier = waiting->earlier->earlier;
    }
    if (waiting->later != NULL)
        waiting->later->earlier = waiting;
    else
        delay->last = waiting;
    if (waiting->earlier != NULL) {
        waiting->earlier->later = waiting;
    } else {
        delay->first = waiting;
        arm(delay);
    }
}
