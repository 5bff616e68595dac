/* admin.h - the admin listener: /metrics (Prometheus text), /healthz, /readyz, POST /purge, over
 * libevent's HTTP.
 *
 * Threads: main's. */
#pragma once

#include "backend/backend.h"

#include <stdbool.h>

struct admin;

/* What the pages show; all of it may be called from main's thread at any time. */
struct admin_source {
    void (*report)(void *arg, report_fn report, void *report_arg);
    bool (*is_ready)(void *arg, const char **why);
    /* Answers a request that asks no store; body in `arena`. */
    void (*ask)(void *arg, const struct request *request, struct arena *arena, struct reply *reply);
    void *arg;
};

/* fd  listening; passes on success */
MUST_CHECK struct admin *admin_create(struct event_base *base, int fd,
                                      const struct admin_source *source);
void admin_destroy(struct admin **admin);
