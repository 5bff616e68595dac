#include "clients/cli/progress.h"

#include <stdio.h>
#include <unistd.h>

enum { EVERY_US = 200000 };

void progress_begin(struct progress *progress, const char *name, size_t count)
{
    *progress = (struct progress){.name = name, .count = count, .shown_us = now_us()};
}

void progress_show(struct progress *progress, size_t done)
{
    if (isatty(STDERR_FILENO) == 0 || now_us() - progress->shown_us < EVERY_US)
        return;
    progress->shown_us = now_us();
    progress->is_shown = true;
    (void)fprintf(stderr, "\r%s: %zu", progress->name, done);
    if (progress->count != 0)
        (void)fprintf(stderr, " of %zu", progress->count);
    (void)fputs(" items", stderr);
}

void progress_end(struct progress *progress)
{
    if (progress->is_shown)
        (void)fputs("\r\033[K", stderr);
}
