/* explain.h - what the cache makes of a request.
 *
 * The store is asked only for the item that a write would find, where its table has indexes, and
 * for one to which a policy by an attribute may apply. */
#pragma once

#include "cache/core.h"

/* Answers an Explain: how its one part, a GetItem, Query or Scan, is keyed and whether it is cached
 * now; or what a PutItem or DeleteItem would drop. Nothing is kept or dropped. Returns as
 * backend_ops.submit. */
enum submit explain_submit(struct cache_lane *lane, struct call *call);
