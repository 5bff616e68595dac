/* S3-FIFO ("FIFO queues are all you need for cache eviction", SOSP'23) for each class of sizes and
 * kind, the classes held against each other by the priority of queues.h. */
#include "cache/queues.h"

enum {
    GHOST_PERCENT = 90, /* of the resident entries of the class */
    PROMOTE_HITS = 2,
};

static const double small_share = 0.10;

static struct policy *s3fifo_open(struct memory *memory, size_t share_bytes)
{
    struct queues *queues =
        queues_open(&policy_s3fifo, memory, share_bytes, small_share, PROMOTE_HITS);
    return queues == NULL ? NULL : &queues->policy;
}

static void s3fifo_admit(struct policy *policy, struct entry *entry)
{
    struct queues *queues = queues_of(policy);
    unsigned class = queues_class(entry_kind(entry), entry_size(policy->memory, entry));
    enum ghost_kind found = ghost_take(&queues->ghost, class, entry->hash);
    queues_push(queues, entry, found != GHOST_NONE && found != GHOST_MAIN);
    /* Here and not at the first eviction, when there is no memory left for it. */
    size_t count = queues->classes[class].count;
    ghost_resize(&queues->ghost, class, GHOST_SMALL, count * GHOST_PERCENT / 100);
    ghost_resize(&queues->ghost, class, GHOST_WRITTEN, count * GHOST_PERCENT / 100);
    ghost_resize(&queues->ghost, class, GHOST_LARGE, count * GHOST_PERCENT / 100);
}

static struct entry *s3fifo_victim(struct policy *policy, unsigned kinds, unsigned size_class)
{
    struct queues *queues = queues_of(policy);
    unsigned class = 0;
    struct entry *entry = queues_victim(queues, kinds, size_class, &class);
    if (entry != NULL && !(entry_flags(entry) & SLOT_MAIN))
        ghost_add(&queues->ghost, class, GHOST_SMALL, entry->hash);
    return entry;
}

const struct policy_ops policy_s3fifo = {
    .name = "s3fifo",
    .open = s3fifo_open,
    .close = queues_close,
    .admits = queues_admits,
    .admit = s3fifo_admit,
    .remove = queues_remove,
    .moved = queues_moved,
    .knows = queues_knows,
    .victim = s3fifo_victim,
};
