/* delay.h - tasks that run on one thread's event loop after a while.
 *
 * A kernel timer instead of libevent's: its cached clock is too coarse for a store that is a few
 * milliseconds away. Threads: the owner's only. */
#pragma once

#include "backend/lane.h"

struct delay;

/* ran  called after every batch of tasks; may be NULL */
MUST_CHECK struct delay *delay_create(struct event_base *base, void (*ran)(void *arg), void *arg);
/* Tasks still waiting are run first: whoever posted them must not wait for ever. */
void delay_destroy(struct delay **delay);

/* Runs `task` in `us` microseconds, never inside the call; equal times in order of adding. */
void delay_add(struct delay *delay, uint64_t us, struct task *task);
