#include "protocol/mutex.h"

#include "protocol/ensure.h"

enum { MUTEX_SPINS = 100 };

void mutex_init(struct mutex *mutex)
{
    ensure(pthread_mutex_init(&mutex->sleep, NULL) == 0);
}

void mutex_deinit(struct mutex *mutex)
{
    ensure(pthread_mutex_destroy(&mutex->sleep) == 0);
}

static void pause_once(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

void mutex_lock(struct mutex *mutex) NO_THREAD_ANALYSIS
{
    for (int spin = 0; spin < MUTEX_SPINS; spin++) {
        if (pthread_mutex_trylock(&mutex->sleep) == 0)
            return;
        pause_once();
    }
    ensure(pthread_mutex_lock(&mutex->sleep) == 0);
}

bool mutex_try(struct mutex *mutex) NO_THREAD_ANALYSIS
{
    return pthread_mutex_trylock(&mutex->sleep) == 0;
}

void mutex_unlock(struct mutex *mutex) NO_THREAD_ANALYSIS
{
    ensure(pthread_mutex_unlock(&mutex->sleep) == 0);
}
