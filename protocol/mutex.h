/* mutex.h - a lock that spins a little, then sleeps.
 *
 * For critical sections of well under a microsecond: a pure spinlock burns a time slice when its
 * holder is preempted beside the application, a pure mutex sleeps for what would have been over. */
#pragma once

#include "protocol/attributes.h"

#include <pthread.h>

struct CAPABILITY("mutex") mutex {
    pthread_mutex_t sleep;
};

void mutex_init(struct mutex *mutex);
void mutex_deinit(struct mutex *mutex);
void mutex_lock(struct mutex *mutex) ACQUIRES(*mutex);
void mutex_unlock(struct mutex *mutex) RELEASES(*mutex);
