/* check.h - what a consistent read has shown, held against what is cached.
 *
 * A store may have other writers. What is cached and differs from what the store says goes, as if
 * it had just been written.
 * Threads: the lane's own. */
#pragma once

#include "cache/core.h"

/* What a consistent read's reply is to be held against. The request's definition may be gone by
 * then, so everything is a copy. */
struct check {
    uint32_t table_id;
    bool is_page;
    const struct entry *probe; /* of the same request; NULL: such a page is never cached */
    /* Pages. */
    struct partition_ref partition;
    struct key_schema schema; /* the table's */
    bool is_whole;            /* it shows whole items */
};

/* For a bound GetItem, Query or Scan, in the arena, of which the key is borrowed. NULL without
 * memory. */
MUST_CHECK struct check *check_make(const struct cache *cache, struct arena *arena,
                                    const struct request *request);

/* The reply is there. Cached items that it shows otherwise go, with all pages that hold their keys.
 * So does a page that is cached for the same request and differs, and with it the keys that only
 * one of the two shows so; or, where it does not show its keys, all pages of its partition. Work:
 * some look-ups an item; nothing is searched for. */
void check_reply(struct cache_lane *lane, const struct call *call, const struct check *check);
/* TransactGetItems: to the store, and the same for each item that it showed. */
enum submit check_transaction(struct cache_lane *lane, struct call *call);
