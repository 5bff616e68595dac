#include "daemon/clock.h"
#include "daemon/delay.h"

#include <event2/event.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

struct noted {
    struct task task;
    int number;
    uint64_t ran_us;
};

static int order[16], ran;
static struct event_base *base;

static void note(struct task *task)
{
    struct noted *noted = (struct noted *)task;
    noted->ran_us = clock_now_us();
    order[ran++] = noted->number;
}

static void stop(struct task *task)
{
    note(task);
    (void)event_base_loopbreak(base);
}

static void tasks_run_when_due_in_order_and_never_before(void **state)
{
    (void)state;
    base = event_base_new();
    struct delay *delay = delay_create(base, NULL, NULL);
    struct noted late = {.task.run = stop, .number = 4}, early = {.task.run = note, .number = 1};
    struct noted same[2] = {{.task.run = note, .number = 2}, {.task.run = note, .number = 3}};
    uint64_t begun_us = clock_now_us();
    ran = 0;
    delay_add(delay, 30000, &late.task);
    delay_add(delay, 10000, &same[0].task);
    delay_add(delay, 1000, &early.task);
    delay_add(delay, 10000, &same[1].task);
    assert_int_equal(ran, 0);
    (void)event_base_dispatch(base);
    assert_int_equal(ran, 4);
    for (int i = 0; i < 4; i++)
        assert_int_equal(order[i], i + 1);
    assert_true(late.ran_us - begun_us >= 30000);
    assert_true(early.ran_us - begun_us >= 1000);
    delay_destroy(&delay);
    event_base_free(base);
}

static void what_waits_at_the_end_is_run(void **state)
{
    (void)state;
    base = event_base_new();
    struct delay *delay = delay_create(base, NULL, NULL);
    struct noted task = {.task.run = note, .number = 9};
    ran = 0;
    delay_add(delay, 3600000000ull, &task.task);
    delay_destroy(&delay);
    assert_null(delay);
    assert_int_equal(ran, 1);
    event_base_free(base);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tasks_run_when_due_in_order_and_never_before),
        cmocka_unit_test(what_waits_at_the_end_is_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
