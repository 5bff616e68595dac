#include "daemon/mailbox.h"

#include "protocol/ensure.h"

#include <event2/event.h>

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* A stack of tasks that the owner takes whole and turns round: pushing needs one compare-and-swap,
 * and only the post that finds it empty pays for a wake-up. */
struct mailbox {
    /* Atomic; release on push, acquire on take. */
    _Atomic(struct task *) newest;
    /* Constant after create. */
    int wake_fd;
    void (*ran)(void *arg);
    void *arg;
    /* Owner's own. */
    struct event *wake;
};

static struct task *take_in_order(struct mailbox *mailbox)
{
    struct task *task = atomic_exchange_explicit(&mailbox->newest, NULL, memory_order_acquire);
    struct task *oldest = NULL;
    while (task != NULL) {
        struct task *next = task->next;
        task->next = oldest;
        oldest = task;
        task = next;
    }
    return oldest;
}

static void on_wake(evutil_socket_t fd, short what, void *arg)
{
    (void)what;
    struct mailbox *mailbox = arg;
    uint64_t posts;
    if (read(fd, &posts, sizeof posts) < 0)
        ensure(errno == EAGAIN || errno == EINTR);
    for (struct task *task = take_in_order(mailbox); task != NULL;) {
        struct task *next = task->next; /* the task may be gone once it has run */
        task->run(task);
        task = next;
    }
    if (mailbox->ran != NULL)
        mailbox->ran(mailbox->arg);
}

struct mailbox *mailbox_create(struct event_base *base, void (*ran)(void *arg), void *arg)
{
    struct mailbox *mailbox = calloc(1, sizeof *mailbox);
    if (mailbox == NULL)
        return NULL;
    mailbox->ran = ran;
    mailbox->arg = arg;
    mailbox->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (mailbox->wake_fd >= 0)
        mailbox->wake = event_new(base, mailbox->wake_fd, EV_READ | EV_PERSIST, on_wake, mailbox);
    if (mailbox->wake == NULL || event_add(mailbox->wake, NULL) != 0) {
        mailbox_destroy(&mailbox);
        return NULL;
    }
    return mailbox;
}

void mailbox_destroy(struct mailbox **mailbox)
{
    if (*mailbox == NULL)
        return;
    ensure(atomic_load(&(*mailbox)->newest) == NULL);
    if ((*mailbox)->wake != NULL)
        event_free((*mailbox)->wake);
    if ((*mailbox)->wake_fd >= 0)
        (void)close((*mailbox)->wake_fd);
    free(*mailbox);
    *mailbox = NULL;
}

void mailbox_post(struct mailbox *mailbox, struct task *task)
{
    struct task *newest = atomic_load_explicit(&mailbox->newest, memory_order_relaxed);
    do
        task->next = newest;
    while (!atomic_compare_exchange_weak_explicit(&mailbox->newest, &newest, task,
                                                  memory_order_release, memory_order_relaxed));
    if (newest != NULL)
        return; /* whoever found it empty has woken the owner */
    uint64_t one = 1;
    if (write(mailbox->wake_fd, &one, sizeof one) < 0)
        ensure(errno == EAGAIN); /* the counter is full: it is awake */
}
