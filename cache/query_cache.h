/* query_cache.h - canonical request -> result page. */
#pragma once

#include "cache/core.h"

/* The partition of a page's key; empty of a Scan. */
struct bytes page_partition(const struct entry *page);

/* False if filter and projection are too long to be a part of a key. */
bool page_is_cacheable(const struct request *request);
/* What finds the page of a bound Query or Scan, in the arena. NULL without memory. */
const struct entry *page_probe_make(const struct cache *cache, struct arena *arena,
                                    const struct request *request, struct partition_ref *partition);

/* Answers a Query. Returns as backend_ops.submit. */
enum submit query_get(struct cache_lane *lane, struct call *call);
