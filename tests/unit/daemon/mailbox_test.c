/* Also run by the race preset: many threads post, one runs. */
#include "daemon/mailbox.h"

#include <event2/event.h>

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

enum { POSTERS = 4, POSTS = 20000 };

struct numbered {
    struct task task;
    int poster, number;
};

static struct event_base *base;
static struct mailbox *mailbox;
static int next[POSTERS], total;
static bool is_in_order = true;

static void run(struct task *task)
{
    struct numbered *numbered = (struct numbered *)task;
    is_in_order &= next[numbered->poster]++ == numbered->number;
    free(numbered);
    if (++total == POSTERS * POSTS)
        (void)event_base_loopbreak(base);
}

static void *post_all(void *arg)
{
    int poster = *(int *)arg;
    for (int number = 0; number < POSTS; number++) {
        struct numbered *numbered = malloc(sizeof *numbered);
        *numbered = (struct numbered){.task.run = run, .poster = poster, .number = number};
        mailbox_post(mailbox, &numbered->task);
    }
    return NULL;
}

static void everything_posted_runs_once_and_in_each_posters_order(void **state)
{
    (void)state;
    base = event_base_new();
    mailbox = mailbox_create(base, NULL, NULL);
    assert_non_null(mailbox);
    pthread_t threads[POSTERS];
    int posters[POSTERS];
    for (int i = 0; i < POSTERS; i++) {
        posters[i] = i;
        assert_int_equal(pthread_create(&threads[i], NULL, post_all, &posters[i]), 0);
    }
    (void)event_base_loop(base, EVLOOP_NO_EXIT_ON_EMPTY);
    for (int i = 0; i < POSTERS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(total, POSTERS * POSTS);
    assert_true(is_in_order);
    mailbox_destroy(&mailbox);
    event_base_free(base);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_posted_runs_once_and_in_each_posters_order)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
