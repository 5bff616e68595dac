/* query_cache.h - canonical request -> result page. */
#pragma once

#include "cache/core.h"

/* The partition of a page's key; empty of a Scan. */
struct bytes page_partition(const struct entry *page);

/* Answers a Query. Returns as backend_ops.submit. */
enum submit query_get(struct cache_lane *lane, struct call *call);
