/* query_cache.h - canonical request -> result page. */
#pragma once

#include "cache/core.h"

/* Answers a Query. Returns as backend_ops.submit. */
enum submit query_get(struct cache_lane *lane, struct call *call);
