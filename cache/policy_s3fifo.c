/* S3-FIFO ("FIFO queues are all you need for cache eviction", SOSP'23) for each class of sizes and
 * kind, the classes held against each other by a greedy-dual priority H = L + f / size. */
#include "cache/ghost.h"
#include "cache/policy.h"
#include "protocol/ensure.h"

enum {
    QUEUES = ENTRY_KINDS * POLICY_CLASSES,
    SMALL_PERCENT = 10,     /* share of the small queue in its class */
    PROMOTE_HITS = 2,       /* in the small queue, to get into the main one */
    LARGE_FRACTION = 8,     /* of the small queue's share: larger things need a second sight */
    STEPS_MAX = 64,         /* promotions a call; then the next candidate goes whatever its hits */
    GHOST_PERCENT = 90,     /* of the resident entries */
    PRIORITY_ONE = 1 << 24, /* f / size is kept in units of this; it wraps, see is_before() */
};

struct queue {
    uint32_t head, tail; /* handles; entries enter at the head */
    size_t bytes;
};

struct size_class {
    struct queue small, main;
};

struct s3fifo {
    struct policy policy;
    struct size_class classes[QUEUES]; /* by kind, then by size */
    uint64_t filled;                   /* bit set of classes that hold something */
    uint32_t floor;                    /* L: the priority of what went out last */
    size_t share_bytes, count;
    struct ghost ghost;
};

_Static_assert(QUEUES <= 64, "fits the bit set");

static struct s3fifo *of(struct policy *policy)
{
    return (struct s3fifo *)policy;
}

static struct entry *at(const struct s3fifo *s3, uint32_t handle)
{
    return memory_at(s3->policy.memory, handle);
}

/* Priorities move within far less than half of their range, so the difference tells. */
static bool is_before(uint32_t a, uint32_t b)
{
    return (int32_t)(a - b) < 0;
}

static uint32_t priority_for(const struct s3fifo *s3, unsigned hits, size_t size)
{
    return s3->floor + (uint32_t)((uint64_t)PRIORITY_ONE * (1 + hits) / size);
}

static void queue_push(struct s3fifo *s3, struct queue *queue, struct entry *entry, size_t size)
{
    uint32_t handle = memory_handle(s3->policy.memory, entry);
    entry->queue_prev = 0;
    entry->queue_next = queue->head;
    if (queue->head != 0)
        at(s3, queue->head)->queue_prev = handle;
    else
        queue->tail = handle;
    queue->head = handle;
    queue->bytes += size;
}

static void queue_unlink(struct s3fifo *s3, struct queue *queue, struct entry *entry, size_t size)
{
    if (entry->queue_prev != 0)
        at(s3, entry->queue_prev)->queue_next = entry->queue_next;
    else
        queue->head = entry->queue_next;
    if (entry->queue_next != 0)
        at(s3, entry->queue_next)->queue_prev = entry->queue_prev;
    else
        queue->tail = entry->queue_prev;
    ensure(queue->bytes >= size);
    queue->bytes -= size;
}

static struct policy *s3fifo_open(struct memory *memory, size_t share_bytes)
{
    struct s3fifo *s3 = memory_heap_alloc(memory, sizeof *s3);
    if (s3 == NULL)
        return NULL;
    *s3 = (struct s3fifo){.policy = {.ops = &policy_s3fifo, .memory = memory},
                          .share_bytes = share_bytes};
    if (!ghost_open(&s3->ghost, memory)) {
        memory_heap_free(memory, s3, sizeof *s3);
        return NULL;
    }
    return &s3->policy;
}

static void s3fifo_close(struct policy **policy)
{
    if (*policy == NULL)
        return;
    struct s3fifo *s3 = of(*policy);
    ghost_close(&s3->ghost);
    memory_heap_free(s3->policy.memory, s3, sizeof *s3);
    *policy = NULL;
}

static bool s3fifo_admits(struct policy *policy, uint32_t hash, size_t size)
{
    struct s3fifo *s3 = of(policy);
    if (size <= s3->share_bytes * SMALL_PERCENT / 100 / LARGE_FRACTION)
        return true;
    bool is_known = ghost_take(&s3->ghost, hash);
    ghost_add(&s3->ghost, hash); /* known: so that admit() sees it, too */
    return is_known;
}

static unsigned class_of(const struct entry *entry, size_t size)
{
    return (unsigned)(entry_kind(entry) - 1) * POLICY_CLASSES + policy_class(size);
}

static void s3fifo_admit(struct policy *policy, struct entry *entry)
{
    struct s3fifo *s3 = of(policy);
    size_t size = entry_size(policy->memory, entry);
    unsigned class = class_of(entry, size);
    bool is_proven = ghost_take(&s3->ghost, entry->hash);
    entry->priority = priority_for(s3, 0, size);
    entry_flags_set(entry, is_proven ? SLOT_MAIN : 0, is_proven ? 0 : SLOT_MAIN);
    struct size_class *queues = &s3->classes[class];
    queue_push(s3, is_proven ? &queues->main : &queues->small, entry, size);
    s3->filled |= UINT64_C(1) << class;
    policy->bytes.kind[entry_kind(entry) - 1] += size;
    s3->count++;
    /* Here and not at the first eviction, when there is no memory left for it. */
    ghost_resize(&s3->ghost, s3->count * GHOST_PERCENT / 100);
}

static void take_out(struct s3fifo *s3, struct entry *entry, unsigned class, size_t size)
{
    struct size_class *queues = &s3->classes[class];
    bool is_main = entry_flags(entry) & SLOT_MAIN;
    queue_unlink(s3, is_main ? &queues->main : &queues->small, entry, size);
    if (queues->small.head == 0 && queues->main.head == 0)
        s3->filled &= ~(UINT64_C(1) << class);
    size_t *kind_bytes = &s3->policy.bytes.kind[entry_kind(entry) - 1];
    ensure(*kind_bytes >= size && s3->count > 0);
    *kind_bytes -= size;
    s3->count--;
}

static void s3fifo_remove(struct policy *policy, struct entry *entry, bool is_wanted)
{
    struct s3fifo *s3 = of(policy);
    size_t size = entry_size(policy->memory, entry);
    take_out(s3, entry, class_of(entry, size), size);
    if (is_wanted && (entry_flags(entry) & SLOT_MAIN || entry_counter(entry) >= PROMOTE_HITS))
        ghost_add(&s3->ghost, entry->hash);
}

static void s3fifo_moved(struct policy *policy, struct entry *entry, struct entry *copy)
{
    struct s3fifo *s3 = of(policy);
    size_t size = entry_size(policy->memory, entry);
    struct size_class *queues = &s3->classes[class_of(entry, size)];
    struct queue *queue = entry_flags(entry) & SLOT_MAIN ? &queues->main : &queues->small;
    uint32_t handle = memory_handle(policy->memory, copy);
    if (copy->queue_prev != 0)
        at(s3, copy->queue_prev)->queue_next = handle;
    else
        queue->head = handle;
    if (copy->queue_next != 0)
        at(s3, copy->queue_next)->queue_prev = handle;
    else
        queue->tail = handle;
}

/* The class's own candidate: the small queue's tail while that has more than its share. */
static struct entry *candidate(const struct s3fifo *s3, unsigned class)
{
    const struct size_class *queues = &s3->classes[class];
    size_t both = queues->small.bytes + queues->main.bytes;
    bool is_small = queues->small.tail != 0 &&
                    (queues->main.tail == 0 || queues->small.bytes * 100 > both * SMALL_PERCENT);
    return at(s3, is_small ? queues->small.tail : queues->main.tail);
}

static struct entry *least(const struct s3fifo *s3, unsigned kinds, unsigned size_class,
                           unsigned *class)
{
    struct entry *best = NULL;
    for (uint64_t left = s3->filled; left != 0; left &= left - 1) {
        unsigned i = (unsigned)__builtin_ctzll(left);
        if (!(kinds >> i / POLICY_CLASSES & 1) ||
            (size_class != POLICY_CLASS_ANY && i % POLICY_CLASSES != size_class))
            continue;
        struct entry *entry = candidate(s3, i);
        if (best == NULL || is_before(entry->priority, best->priority)) {
            best = entry;
            *class = i;
        }
    }
    return best;
}

/* A candidate that was used goes to the main queue, or round in it once more. */
static bool spare(struct s3fifo *s3, struct entry *entry, unsigned class, size_t size)
{
    struct size_class *queues = &s3->classes[class];
    unsigned hits = entry_counter(entry);
    bool is_main = entry_flags(entry) & SLOT_MAIN;
    if (hits < (is_main ? 1u : (unsigned)PROMOTE_HITS))
        return false;
    queue_unlink(s3, is_main ? &queues->main : &queues->small, entry, size);
    unsigned left = is_main ? hits - 1 : 0; /* hits of the small queue are spent on the promotion */
    atomic_store_explicit(&entry->counter, (unsigned char)left, memory_order_relaxed);
    entry->priority = priority_for(s3, is_main ? left : hits, size);
    entry_flags_set(entry, SLOT_MAIN, 0);
    queue_push(s3, &queues->main, entry, size);
    return true;
}

static struct entry *s3fifo_victim(struct policy *policy, unsigned kinds, unsigned size_class)
{
    struct s3fifo *s3 = of(policy);
    for (int step = 0;; step++) {
        unsigned class = 0;
        struct entry *entry = least(s3, kinds, size_class, &class);
        if (entry == NULL)
            return NULL;
        if (is_before(s3->floor, entry->priority))
            s3->floor = entry->priority;
        size_t size = entry_size(policy->memory, entry);
        if (step < STEPS_MAX && spare(s3, entry, class, size))
            continue;
        take_out(s3, entry, class, size);
        if (!(entry_flags(entry) & SLOT_MAIN))
            ghost_add(&s3->ghost, entry->hash);
        policy->bytes.evicted[policy_class(size)]++;
        return entry;
    }
}

const struct policy_ops policy_s3fifo = {
    .name = "s3fifo",
    .open = s3fifo_open,
    .close = s3fifo_close,
    .admits = s3fifo_admits,
    .admit = s3fifo_admit,
    .remove = s3fifo_remove,
    .moved = s3fifo_moved,
    .victim = s3fifo_victim,
};
