/* entry.h - what is cached: an immutable reply with its key, in slots of the cache's memory.
 *
 * An entry never changes after it was published but for the counter, the flags, the tag and what
 * only the shard's writer looks at (links, priority). A key begins with its kind and the table's
 * id. A value that does not fit the largest slot ends in a list of chunks. Threads: made by one,
 * published under its shard's lock, read inside epoch sections. */
#pragma once

#include "cache/memory.h"
#include "protocol/request.h"

#include <ck_epoch.h>

enum entry_kind { ENTRY_ITEM = 1, ENTRY_PAGE = 2 };
enum { ENTRY_KINDS = 2 };

enum {
    ENTRY_HEADER = 36,
    ENTRY_COUNTER_MAX = 3,
    ENTRY_IS_REFETCHED = 0x80, /* in the counter's byte: somebody fetches it again */
    ENTRY_KEY_PREFIX = 5,      /* kind, table id */
    ENTRY_KEY_MAX = UINT16_MAX,
    ENTRY_VALUE_MAX = (1 << 23) - 1, /* far above the 1 MB of a page */
    ENTRY_TAG_SHIFT = 23,
    ENTRY_TAGS = 1 << (32 - ENTRY_TAG_SHIFT),
};

struct entry {
    uint32_t hash;      /* its top bits choose the shard */
    uint32_t stored_ms; /* since the cache was opened, modulo 2^32 */
    union {
        struct {
            uint32_t queue_next, queue_prev;   /* handles */
            uint32_t expiry_next, expiry_prev; /* handles */
        };
        ck_epoch_entry_t retired; /* takes the links' place */
    };
    _Atomic(uint32_t) size_and_tag; /* of the body; whose it is: rules.h. Relaxed */
    uint16_t key_size;
    atomic_uchar flags;   /* enum slot_flag */
    atomic_uchar counter; /* the only byte that readers write */
    uint32_t priority;    /* the policy's */
    uint8_t key[];
};

_Static_assert(offsetof(struct entry, flags) == SLOT_FLAGS_AT, "flags of every slot");
_Static_assert(offsetof(struct entry, key) == ENTRY_HEADER, "no padding");

/* A part of a large value. */
struct chunk {
    ck_epoch_entry_t retired; /* readers may still need the rest then */
    _Atomic(uint32_t) next;   /* handle, 0: the last; changes when the next one moves */
    _Atomic(uint32_t) owner;  /* handle of the head entry, relaxed: that may move, too */
    uint8_t unused[SLOT_FLAGS_AT - sizeof(ck_epoch_entry_t) - 8];
    atomic_uchar flags;
    uint8_t unused_end;
    uint8_t data[];
};

/* Stands between key and body of a page. Unaligned: use the functions. */
struct page_head {
    uint32_t count, read_bytes;
    uint16_t low_size, high_size; /* of the interval, which follows */
    /* The writer's, under the shard's lock. */
    uint32_t node_slot;
    struct node *node;
};
enum { PAGE_HIGH_NONE = UINT16_MAX };

/* Everything an entry is made from; all borrowed. */
struct entry_source {
    const struct entry *probe; /* hash and key */
    struct bytes body;
    bool is_negative;
    uint32_t stored_ms;
    unsigned tag;
    /* Pages. */
    uint32_t count, read_bytes;
    struct key_interval interval;
};

/* Writes a key's fixed front and returns its end. */
uint8_t *entry_key_begin(uint8_t *key, enum entry_kind kind, uint32_t table_id);

static inline enum entry_kind entry_kind(const struct entry *entry)
{
    return (enum entry_kind)entry->key[0];
}

static inline uint32_t entry_table_id(const struct entry *entry)
{
    uint32_t id;
    memcpy(&id, entry->key + 1, sizeof id);
    return id;
}

static inline size_t entry_value_size(const struct entry *entry)
{
    return atomic_load_explicit((_Atomic(uint32_t) *)&entry->size_and_tag, memory_order_relaxed) &
           ENTRY_VALUE_MAX;
}

static inline unsigned entry_tag(const struct entry *entry)
{
    return atomic_load_explicit((_Atomic(uint32_t) *)&entry->size_and_tag, memory_order_relaxed) >>
           ENTRY_TAG_SHIFT;
}

static inline void entry_tag_set(struct entry *entry, unsigned tag)
{
    uint32_t both = (uint32_t)entry_value_size(entry) | (uint32_t)tag << ENTRY_TAG_SHIFT;
    atomic_store_explicit(&entry->size_and_tag, both, memory_order_relaxed);
}

static inline unsigned entry_flags(const struct entry *entry)
{
    return atomic_load_explicit((atomic_uchar *)&entry->flags, memory_order_relaxed);
}

static inline void entry_flags_set(struct entry *entry, unsigned set, unsigned clear)
{
    unsigned flags = (entry_flags(entry) | set) & ~clear;
    atomic_store_explicit(&entry->flags, (unsigned char)flags, memory_order_release);
}

static inline unsigned entry_counter(const struct entry *entry)
{
    return atomic_load_explicit((atomic_uchar *)&entry->counter, memory_order_relaxed) &
           ENTRY_COUNTER_MAX;
}

/* The mark may be lost to a hit or an eviction's look; the flight then tells. */
static inline bool entry_is_refetched(const struct entry *entry)
{
    return atomic_load_explicit((atomic_uchar *)&entry->counter, memory_order_relaxed) &
           ENTRY_IS_REFETCHED;
}

static inline void entry_refetched_set(struct entry *entry, bool is_refetched)
{
    unsigned counter = entry_counter(entry) | (is_refetched ? ENTRY_IS_REFETCHED : 0u);
    atomic_store_explicit(&entry->counter, (unsigned char)counter, memory_order_relaxed);
}

/* Bytes of slots that an entry like this takes, chunks included; 0: it does not fit. */
size_t entry_size_needed(const struct memory *memory, const struct entry_source *source);
/* The same of an entry that exists. */
size_t entry_size(const struct memory *memory, const struct entry *entry);

/* Builds an entry in memory of its own; not published yet. NULL without memory or if too large. */
MUST_CHECK struct entry *entry_make(struct memory *memory, const struct entry_source *source);
/* A copy in another slot, for a run that is given up; NULL without memory. Chunks are not copied:
 * once the copy is published, entry_chunks_pass() gives them to it. */
MUST_CHECK struct entry *entry_move(struct memory *memory, const struct entry *entry);
/* A copy of one chunk of a published entry, put in its place; NULL without memory. Under the
 * shard's lock; the chunk is then to be retired. */
MUST_CHECK struct chunk *entry_chunk_move(struct memory *memory, struct entry *entry,
                                          const struct chunk *chunk);
void entry_chunks_pass(struct memory *memory, struct entry *entry, const struct entry *copy);

/* Gives back an entry that was never published. */
void entry_drop(struct memory *memory, struct entry *entry);
/* Gives back a retired entry after its grace period. */
void entry_free_retired(struct memory *memory, struct entry *entry);
/* Marks an entry and its chunks as published: from now on they are freed through the epoch only. */
void entry_mark_published(struct memory *memory, struct entry *entry);
/* Marks a published entry and its chunks as gone and moves their bytes from live to deferred. */
void entry_mark_retired(struct memory *memory, struct entry *entry);

/* The body: a view into the entry, or for a large one a copy in `arena` (not given without memory).
 */
MUST_CHECK struct bytes entry_body(const struct memory *memory, const struct entry *entry,
                                   struct arena *arena);
bool entry_body_equals(const struct memory *memory, const struct entry *entry, struct bytes body);

struct page_head page_head_of(const struct entry *page);
/* Where its partition node has it; under the shard's lock. */
struct node *page_node(const struct entry *page, uint32_t *node_slot);
void page_head_set_node(struct entry *page, struct node *node, uint32_t node_slot);
struct key_interval page_interval(const struct entry *page);

/* The head of the large entry that a chunk belongs to. */
struct entry *entry_of_chunk(const struct memory *memory, const struct chunk *chunk);
