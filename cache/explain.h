/* explain.h - what the cache makes of a request, without asking the store. */
#pragma once

#include "cache/core.h"

/* Answers an Explain: how its one part, a GetItem, Query or Scan, is keyed and whether it is cached
 * now; or, of a DeleteItem, which stands for any write of its key, what that would drop. Returns as
 * backend_ops.submit. */
enum submit explain_submit(struct cache_lane *lane, struct call *call);
