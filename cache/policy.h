/* policy.h - SEAM: queues, ghosts and targets of one shard: what to admit, touch, evict.
 *
 * To add one: a file policy_NAME.c with a constant `struct policy_ops`, a line in shard.c.
 * Threads: under the shard's lock, except policy_touch(), which any reader may call. */
#pragma once

#include "cache/entry.h"

enum {
    POLICY_CLASSES = 28, /* of sizes, two an octave, from SLOT_MIN */
    POLICY_CLASS_ANY = POLICY_CLASSES,
};

struct policy_bytes {
    size_t kind[ENTRY_KINDS]; /* resident, by kind: items, pages */
    uint64_t evicted[POLICY_CLASSES];
};

struct policy_ops;
struct policy {
    const struct policy_ops *ops;
    struct memory *memory;
    struct policy_bytes bytes;
};

/* Why an entry leaves its queue other than as a victim. */
enum policy_reason {
    POLICY_GONE,    /* expired, purged: of no use any more */
    POLICY_WRITTEN, /* overwritten or invalidated: its worth should be remembered */
    POLICY_CROWDED, /* its place was needed: as good as evicted */
};

struct policy_ops {
    const char *name;
    /* share_bytes  what the shard may be expected to hold. NULL without memory. */
    struct policy *(*open)(struct memory *memory, size_t share_bytes);
    void (*close)(struct policy **policy);

    /* Whether something of this size may be taken at first sight; remembers it if not. */
    bool (*admits)(struct policy *policy, enum entry_kind kind, uint32_t hash, size_t size);
    /* Queues an entry about to be published. */
    void (*admit)(struct policy *policy, struct entry *entry);
    /* Takes an entry out of its queue. */
    void (*remove)(struct policy *policy, struct entry *entry, enum policy_reason reason);
    /* `copy` takes the place of `entry`, whose links it has. */
    void (*moved)(struct policy *policy, struct entry *entry, struct entry *copy);
    /* Whether something of this hash was evicted lately, as far as is remembered. */
    bool (*knows)(const struct policy *policy, enum entry_kind kind, uint32_t hash);
    /* Chooses what to evict next, takes it out of its queue and remembers it as evicted.
     * kinds       bit set of 1 << (enum entry_kind - 1): which may be taken
     * size_class  only from this class of sizes, or POLICY_CLASS_ANY
     * NULL when nothing qualifies. */
    struct entry *(*victim)(struct policy *policy, unsigned kinds, unsigned size_class);
};

extern const struct policy_ops policy_cas3, policy_s3fifo;

/* A reader's hit: a counter that stops at 3, so that a hot entry is only read. An increment lost
 * to a race does no harm. The same for all policies so far, and inline: it is on the hit path. */
static inline void policy_touch(struct entry *entry)
{
    unsigned counter = atomic_load_explicit(&entry->counter, memory_order_relaxed);
    if ((counter & ENTRY_COUNTER_MAX) < ENTRY_COUNTER_MAX)
        atomic_store_explicit(&entry->counter, (unsigned char)(counter + 1), memory_order_relaxed);
}

/* Two classes an octave: 64, 96, 128, 192, ... */
static inline unsigned policy_class(size_t size)
{
    if (size < SLOT_MIN)
        return 0;
    unsigned octave = 63u - (unsigned)__builtin_clzll(size);
    unsigned class = (octave - 6) * 2 + (unsigned)(size >> (octave - 1) & 1);
    return class < POLICY_CLASSES ? class : POLICY_CLASSES - 1;
}
