/* CAS3: S3-FIFO for each class of sizes and kind whose small queue's share follows what is asked
 * for again, as ARC (FAST'03) moves its target; the classes held against each other by the priority
 * of queues.h.
 *
 * A fill that was evicted from the small queue lately says that this is too short, one evicted from
 * the main queue that that is. Until something has to go for the first time, the small queue
 * overflows into the main one, so that a part of a loop larger than the cache stays. */
#include "cache/queues.h"

enum {
    GHOST_SMALL_PERCENT = 90, /* of the resident entries of the class */
    GHOST_MAIN_PERCENT = 18,  /* 15 to 25 are level, but for single traces */
    /* One, not two as in S3-FIFO: 0.4 points less misses where sizes differ, level where not. */
    PROMOTE_HITS = 1,
};

static const double share_begin = 0.08, share_min = 0.02, share_max = 0.90;

static struct policy *cas3_open(struct memory *memory, size_t share_bytes)
{
    struct queues *queues =
        queues_open(&policy_cas3, memory, share_bytes, share_begin, PROMOTE_HITS);
    return queues == NULL ? NULL : &queues->policy;
}

static void adapt(struct queues *queues, unsigned class, enum ghost_kind found)
{
    struct size_class *size_class = &queues->classes[class];
    double small = ghost_held(&queues->ghost, class, GHOST_SMALL);
    double main = ghost_held(&queues->ghost, class, GHOST_MAIN);
    double count = size_class->count + 1;
    double step = 0;
    if (found == GHOST_SMALL)
        step = (main > small ? main / (small + 1) : 1) / count;
    else if (found == GHOST_MAIN)
        step = -(small > main ? small / (main + 1) : 1) / count;
    double share = size_class->small_share + step;
    size_class->small_share = share < share_min ? share_min : share > share_max ? share_max : share;
}

static void cas3_admit(struct policy *policy, struct entry *entry)
{
    struct queues *queues = queues_of(policy);
    unsigned class = queues_class(entry_kind(entry), entry_size(policy->memory, entry));
    enum ghost_kind found = ghost_take(&queues->ghost, class, entry->hash);
    adapt(queues, class, found);
    queues_push(queues, entry, found != GHOST_NONE);
    if (!queues->was_full)
        queues_overflow(queues, class);
    /* Here and not at the first eviction, when there is no memory left for it. */
    size_t count = queues->classes[class].count;
    ghost_resize(&queues->ghost, class, GHOST_SMALL, count * GHOST_SMALL_PERCENT / 100);
    ghost_resize(&queues->ghost, class, GHOST_MAIN, count * GHOST_MAIN_PERCENT / 100);
    ghost_resize(&queues->ghost, class, GHOST_WRITTEN, count * GHOST_MAIN_PERCENT / 100);
    ghost_resize(&queues->ghost, class, GHOST_LARGE, count * GHOST_SMALL_PERCENT / 100);
}

static struct entry *cas3_victim(struct policy *policy, unsigned kinds, unsigned size_class)
{
    struct queues *queues = queues_of(policy);
    unsigned class = 0;
    struct entry *entry = queues_victim(queues, kinds, size_class, &class);
    if (entry != NULL)
        queues_remember(queues, class, entry);
    return entry;
}

const struct policy_ops policy_cas3 = {
    .name = "cas3",
    .open = cas3_open,
    .close = queues_close,
    .admits = queues_admits,
    .admit = cas3_admit,
    .remove = queues_remove,
    .moved = queues_moved,
    .knows = queues_knows,
    .victim = cas3_victim,
};
