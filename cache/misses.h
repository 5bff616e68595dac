/* misses.h - why reads were not answered from the cache, by table.
 *
 * What a shard can tell of a key that is not there: the last thing that happened to the few
 * thousand entries that went last (`struct gone`, exact up to equal 32-bit hashes), and that it was
 * evicted, if a ghost remembers it (a 16-bit fingerprint: one cold miss in some 4,000 is taken for
 * one). Or that what was fetched last was not kept, among the same few thousand. Beyond that a miss
 * counts as cold.
 * Threads: `struct gone` under the shard's lock; `struct misses` is written by its lane, read by
 * anybody. */
#pragma once

#include "cache/entry.h"
#include "protocol/schema.h"

/* Why an entry goes. The first ones: its key was written, and how. */
enum shard_reason {
    SHARD_PUT,
    SHARD_UPDATED,
    SHARD_DELETED,
    SHARD_BATCH,
    SHARD_TRANSACTION,
    SHARD_TIME_TO_LIVE, /* the item's own, in the store */
    SHARD_UNLIKE,       /* a consistent read saw something else */
    SHARD_TABLE,        /* its table or index went, or anything may have been written */
    SHARD_PURGED,
    SHARD_EXPIRED,
    SHARD_EVICTED,
    SHARD_REPLACED,
};
enum { SHARD_WRITTEN_REASONS = SHARD_TABLE, SHARD_REASONS = 12 };

/* Why a read goes to the store: its entry went, or: */
enum miss_reason {
    MISS_COLD = SHARD_REPLACED, /* which leaves nothing missing */
    MISS_CONSISTENT,            /* ConsistentRead */
    MISS_OFF,                   /* not cached, as configured */
    MISS_UNCACHEABLE,           /* filter and projection are too long for a key */
    MISS_SHADOW,                /* it is there, and only compared */
    MISS_NOT_KEPT,              /* fetched, but too large at first sight, or there was no room */
};
enum { MISS_REASONS = MISS_NOT_KEPT + 1 };

/* "put", "evicted", "cold", ... */
const char *miss_reason_name(unsigned reason);

/* ---- what went last, of a shard ---- */

enum { GONE_SLOTS_MIN = 256 };

/* A slot: 24 bits of the hash, the other eight are its place; and the reason, plus one. */
struct gone {
    uint32_t *slots;
    uint32_t count; /* a power of two, GONE_SLOTS_MIN or more */
};

/* gone  zeroed. False without memory. */
MUST_CHECK bool gone_open(struct gone *gone, struct memory *memory, uint32_t count);
void gone_close(struct gone *gone, struct memory *memory);

/* reason  of both kinds */
static inline void gone_note(struct gone *gone, uint32_t hash, unsigned reason)
{
    gone->slots[hash & (gone->count - 1)] = (hash & ~UINT32_C(0xFF)) | (reason + 1);
}

/* MISS_COLD if it is not known. */
static inline unsigned gone_why(const struct gone *gone, uint32_t hash)
{
    uint32_t slot = gone->slots[hash & (gone->count - 1)];
    bool is_known = (slot & 0xFF) != 0 && ((slot ^ hash) & ~UINT32_C(0xFF)) == 0;
    return is_known ? (slot & 0xFF) - 1 : (unsigned)MISS_COLD;
}

/* ---- what a lane counts ---- */

enum { MISS_TABLES = 64 }; /* told apart; the rest shares one row */

/* Of a name, so that a table created again goes on in the row of the one before. */
struct miss_row {
    char name[TABLE_NAME_MAX + 1];                          /* constant once published */
    uint32_t table_id;                                      /* owner's: that had the name last */
    atomic_uint_fast64_t counts[ENTRY_KINDS][MISS_REASONS]; /* relaxed */
};

struct misses {
    _Atomic(struct miss_row *) rows[MISS_TABLES]; /* published with release */
    uint32_t count;                               /* owner's */
    struct miss_row *last;                        /* owner's */
    struct miss_row others;
};

/* misses  zeroed
 * Returns the table's row, there until misses_deinit(); never NULL. */
struct miss_row *misses_row(struct misses *misses, struct memory *memory,
                            const struct table *table);
void misses_count(struct miss_row *row, enum entry_kind kind, unsigned reason);
void misses_deinit(struct misses *misses, struct memory *memory);

/* Adds a lane's rows to `sums`, MISS_TABLES + 1 of them, zeroed at first, by name; the last one is
 * for all others. */
void misses_sum(const struct misses *misses, struct miss_row *sums);
