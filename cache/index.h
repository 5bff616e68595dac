/* index.h - entries by key: get, set, remove, iterate.
 *
 * A ck_hs in direct mode whose values are an entry's 32-bit hash and its 32-bit handle, so that
 * probing and growing look at entries only when the whole hash agrees. (With pointers every probe
 * would load an entry, and growing all of them.)
 * Threads: one writer, under the shard's lock; readers inside an epoch section. */
#pragma once

#include "cache/reclaim.h"

#include <ck_hs.h>

struct index {
    ck_hs_t table; /* published */
    struct memory *memory;
    size_t table_bytes;
};

/* expected  entries there is room for before the table grows */
MUST_CHECK bool index_open(struct index *index, struct memory *memory, size_t expected);
void index_close(struct index *index);

/* The entry with the probe's hash and key, or NULL. */
struct entry *index_get(const struct index *index, const struct entry *probe);
/* Puts an entry in, in place of one with the same key if there is one (`previous`, NULL if not).
 * False if the table would have to grow and may not. Inside a section. */
MUST_CHECK bool index_set(struct index *index, struct reclaimer *reclaimer, struct entry *entry,
                          struct entry **previous);
/* Inside a section. */
void index_remove(struct index *index, const struct entry *entry);

/* Calls `visit` for entries in at most `slots` slots of the table from *at on; it may remove them.
 * False when the end was reached. Starts again by itself if the table was changed for a larger one
 * meanwhile. */
struct index_walk {
    const void *map;
    unsigned long at;
};
typedef void (*index_visit_fn)(void *arg, struct entry *entry);
bool index_iterate(struct index *index, struct index_walk *walk, uint32_t slots,
                   index_visit_fn visit, void *arg);

/* Shortens probes that removals have lengthened; about `entries` of them, beginning anywhere. */
void index_tidy(struct index *index, uint32_t entries, unsigned long begin);

/* True when further entries would make probes too long: something has to go for each. */
bool index_is_full(const struct index *index);
/* What it would take to grow a table that is fuller than it should be; 0 if it is not. */
size_t index_growth_bytes(const struct index *index);
/* Grows it then. Inside a section. */
void index_grow(struct index *index, struct reclaimer *reclaimer);

size_t index_count(const struct index *index);
