/* item_cache.h - key -> item, and "known absent". */
#pragma once

#include "cache/core.h"

/* Answers a GetItem. Returns as backend_ops.submit. */
enum submit item_get(struct cache_lane *lane, struct call *call);

/* What finds an item's entry. room may be NULL: then in the arena. NULL without memory. */
const struct entry *item_probe(const struct cache *cache, struct probe_room *room,
                               struct arena *arena, uint32_t table_id, struct item_key key);
