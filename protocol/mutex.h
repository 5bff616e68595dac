/* mutex.h - a lock that spins a little, then sleeps.
 *
 * For critical sections of well under a microsecond: a pure spinlock burns a time slice when its
 * holder is preempted beside the application, a pure mutex sleeps for what would have been over. */
#pragma once

#include "protocol/attributes.h"

#include <pthread.h>
#include <stdbool.h>

struct CAPABILITY("mutex") mutex {
    pthread_mutex_t sleep;
};

void mutex_init(struct mutex *mutex);
void mutex_deinit(struct mutex *mutex);
void mutex_lock(struct mutex *mutex) ACQUIRES(*mutex);
/* Without waiting: false if somebody has it. */
MUST_CHECK bool mutex_try(struct mutex *mutex) TRY_ACQUIRES(true, *mutex);
void mutex_unlock(struct mutex *mutex) RELEASES(*mutex);
