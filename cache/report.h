/* report.h - the cache's figures. */
#pragma once

#include "cache/core.h"

void counters_add(struct counters *to, const struct counters *from);

/* backend_ops.report */
void cache_report(struct backend *backend, report_fn report, void *arg);
