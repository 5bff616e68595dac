/* progress.h - how far it is, on standard error, if that is a terminal. */
#pragma once

#include "clients/cli/cli.h"

struct progress {
    const char *name; /* borrowed */
    size_t count;     /* 0: not known */
    uint64_t shown_us;
    bool is_shown;
};

void progress_begin(struct progress *progress, const char *name, size_t count);
/* Shows the line again, a few times a second. */
void progress_show(struct progress *progress, size_t done);
void progress_end(struct progress *progress); /* takes the line away */
