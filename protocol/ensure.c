#include "protocol/ensure.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

void ensure_failed(const char *expression, const char *file, int line)
{
    char thread[16] = "?";
    (void)pthread_getname_np(pthread_self(), thread, sizeof thread);
    (void)fprintf(stderr, "mudax: broken invariant: %s (%s:%d, thread %s)\n", expression, file,
                  line, thread);
    abort();
}
