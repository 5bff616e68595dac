/* mailbox.h - the only way one thread speaks to another: tasks for its event loop.
 *
 * Threads: any may post; one owns it and runs what comes. */
#pragma once

#include "backend/lane.h"

struct mailbox;

/* base  the owner's event loop; the mailbox wakes it
 * ran   called on the owner's thread after every batch of tasks; may be NULL */
MUST_CHECK struct mailbox *mailbox_create(struct event_base *base, void (*ran)(void *arg),
                                          void *arg);
void mailbox_destroy(struct mailbox **mailbox); /* nothing posts any more */

/* Runs `task` on the owner's thread, in order of posting, never inside the call. */
void mailbox_post(struct mailbox *mailbox, struct task *task);
