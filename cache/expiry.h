/* expiry.h - time to live.
 *
 * An entry knows when it was stored, not when it ends, so a changed TTL works at once. Within one
 * list all entries have the same TTL, so insertion order is expiry order.
 * Threads: lists under the shard's lock. */
#pragma once

#include "cache/entry.h"

enum expiry_kind { EXPIRY_ITEMS, EXPIRY_NEGATIVES, EXPIRY_PAGES };
enum { EXPIRY_KINDS = 3 };

/* Entries older than this go whatever their policy: ages are kept modulo 2^32 milliseconds. */
enum { AGE_MAX_MS = 24 * 24 * 3600 * 1000 };

struct expiry_list {
    uint32_t oldest, newest; /* handles */
    uint32_t hand;           /* where the search for what is not used stopped; 0: at the oldest */
};

static inline enum expiry_kind expiry_kind(const struct entry *entry)
{
    return entry_kind(entry) == ENTRY_PAGE      ? EXPIRY_PAGES
           : entry_flags(entry) & SLOT_NEGATIVE ? EXPIRY_NEGATIVES
                                                : EXPIRY_ITEMS;
}

static inline enum entry_kind expiry_entry_kind(enum expiry_kind kind)
{
    return kind == EXPIRY_PAGES ? ENTRY_PAGE : ENTRY_ITEM;
}

/* 0 when the clock that the reader brings is the older one. */
static inline uint32_t entry_age_ms(const struct entry *entry, uint32_t now_ms)
{
    int32_t age = (int32_t)(now_ms - entry->stored_ms);
    return age > 0 ? (uint32_t)age : 0;
}

/* due_ms  at most AGE_MAX_MS */
static inline bool expiry_is_due(const struct entry *entry, uint32_t due_ms, uint32_t now_ms)
{
    return entry_age_ms(entry, now_ms) >= due_ms;
}

void expiry_push(struct expiry_list *list, const struct memory *memory, struct entry *entry);
void expiry_unlink(struct expiry_list *list, const struct memory *memory, struct entry *entry);
/* `copy` takes the place of `entry`, whose links it has. */
void expiry_moved(struct expiry_list *list, const struct memory *memory, const struct entry *entry,
                  struct entry *copy);

/* The entry at the hand, which goes round from the oldest to the newest; NULL if there is none. */
static inline struct entry *expiry_at_hand(const struct expiry_list *list,
                                           const struct memory *memory)
{
    return memory_at(memory, list->hand != 0 ? list->hand : list->oldest);
}
/* Moves the hand behind that entry. */
static inline void expiry_pass(struct expiry_list *list, const struct entry *entry)
{
    list->hand = entry->expiry_next;
}
