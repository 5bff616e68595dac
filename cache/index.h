/* index.h - entries by key: get, set, remove, iterate.
 *
 * A great number of small tables, each of buckets of one cache line: ten 16-bit tags, ten 32-bit
 * handles, and how many entries had to go on to the next bucket. Of a hash the top bits choose the
 * shard, the next the table, and sixteen are the tag; a tag (as a fraction) times the number of
 * buckets is its bucket: so a table grows by an eighth, by copying tags and handles alone, and no
 * insertion ever pays for more than one of them. An entry stays in its slot until it is removed;
 * who looks for it goes on from bucket to bucket as long as they say that others did.
 * Tables lie in slots of the cache's memory, on its pages and charged like entries.
 * Threads: a shard's tables have one writer, under its lock; readers inside an epoch section. */
#pragma once

#include "cache/reclaim.h"

struct index {
    /* Constant after index_open. */
    struct memory *memory;
    unsigned shard_bits, table_bits; /* of a hash: for the shard; for the table, those included */
    /* Published: for each table its slot's handle, and above it the number of buckets. */
    _Atomic uint64_t *tables;
};

/* index  zeroed. False without memory. */
MUST_CHECK bool index_open(struct index *index, struct memory *memory, unsigned shard_bits);
/* Gives the tables back at once: nobody reads any more. */
void index_close(struct index *index);

/* The entry with the probe's hash and key, or NULL. */
struct entry *index_get(const struct index *index, const struct entry *probe);
/* Puts an entry in, in place of one with the same key if there is one (`previous`, NULL if not).
 * False if there is no slot near its own and no memory for a larger table; nothing has changed
 * then. Inside a section. */
MUST_CHECK bool index_set(struct index *index, struct reclaimer *reclaimer, struct entry *entry,
                          struct entry **previous);
/* After it failed: whom to remove so that it succeeds, the one of least use; NULL if there is not
 * even memory for a first table. */
struct entry *index_near(const struct index *index, const struct entry *entry);
/* Inside a section. */
void index_remove(struct index *index, const struct entry *entry);

/* Calls `visit` for all entries of a shard's table *walk and of those behind it until `entries`
 * were met, and leaves *walk (0 at first) behind them; `visit` may remove entries. False when that
 * was the shard's last table. An entry that is there all the time is met however the tables change
 * meanwhile. */
typedef void (*index_visit_fn)(void *arg, struct entry *entry);
bool index_iterate(const struct index *index, uint32_t shard, uint32_t *walk, uint32_t entries,
                   index_visit_fn visit, void *arg);

/* Gives a shard's table *walk (any number) the size that suits it, and goes on to the next. Inside
 * a section. */
void index_tidy(struct index *index, struct reclaimer *reclaimer, uint32_t shard, uint32_t *walk);

/* A slot marked SLOT_TABLE: a hash that leads to its shard. */
uint32_t index_table_hash(const void *slot);
/* Moves that table elsewhere if there is memory: its run is given up. Inside a
 * section. */
void index_move(struct index *index, struct reclaimer *reclaimer, const void *slot);

/* Entries of a shard, and what its tables take. */
size_t index_count(const struct index *index, uint32_t shard);
size_t index_bytes(const struct index *index, uint32_t shard);
