#include "cache/queues.h"

#include "protocol/ensure.h"

enum {
    LARGE_FRACTION = 8,     /* of the small queue's share: larger things need a second sight */
    STEPS_MAX = 64,         /* promotions a call; then the next candidate goes whatever its hits */
    PRIORITY_ONE = 1 << 24, /* f / size is kept in units of this; it wraps, see is_before() */
};

_Static_assert(QUEUES_CLASSES <= 64, "fits the bit set");
_Static_assert((int)QUEUES_CLASSES <= (int)GHOST_CLASSES, "the ghost can tell them apart");

static struct entry *at(const struct queues *queues, uint32_t handle)
{
    return memory_at(queues->policy.memory, handle);
}

/* Priorities move within far less than half of their range, so the difference tells. */
static bool is_before(uint32_t a, uint32_t b)
{
    return (int32_t)(a - b) < 0;
}

unsigned queues_class(enum entry_kind kind, size_t size)
{
    return (unsigned)(kind - 1) * POLICY_CLASSES + policy_class(size);
}

struct queues *queues_open(const struct policy_ops *ops, struct memory *memory, size_t share_bytes,
                           double small_share, unsigned promote_hits)
{
    struct queues *queues = memory_heap_alloc(memory, sizeof *queues);
    if (queues == NULL)
        return NULL;
    *queues = (struct queues){.policy = {.ops = ops, .memory = memory},
                              .share_bytes = share_bytes,
                              .promote_hits = promote_hits};
    for (unsigned i = 0; i < QUEUES_CLASSES; i++)
        queues->classes[i].small_share = small_share;
    if (!ghost_open(&queues->ghost, memory)) {
        memory_heap_free(memory, queues, sizeof *queues);
        return NULL;
    }
    return queues;
}

void queues_close(struct policy **policy)
{
    if (*policy == NULL)
        return;
    struct queues *queues = queues_of(*policy);
    ghost_close(&queues->ghost);
    memory_heap_free(queues->policy.memory, queues, sizeof *queues);
    *policy = NULL;
}

/* An entry in its place: all that the functions below need. */
struct place {
    struct entry *entry;
    size_t size;
    unsigned class;
    struct size_class *queues;
    bool is_main;
};

static struct place place_of(struct queues *queues, struct entry *entry)
{
    size_t size = entry_size(queues->policy.memory, entry);
    unsigned class = queues_class(entry_kind(entry), size);
    return (struct place){.entry = entry,
                          .size = size,
                          .class = class,
                          .queues = &queues->classes[class],
                          .is_main = (entry_flags(entry) & SLOT_MAIN) != 0};
}

static struct queue *queue_of(const struct place *place)
{
    return place->is_main ? &place->queues->main : &place->queues->small;
}

static void link_in(struct queues *queues, const struct place *place)
{
    struct queue *queue = queue_of(place);
    struct entry *entry = place->entry;
    uint32_t handle = memory_handle(queues->policy.memory, entry);
    entry->queue_prev = 0;
    entry->queue_next = queue->head;
    if (queue->head != 0)
        at(queues, queue->head)->queue_prev = handle;
    else
        queue->tail = handle;
    queue->head = handle;
    queue->bytes += place->size;
}

/* Makes the neighbours of `entry` (or the queue's ends) point to `next` and `prev`. */
static void relink(struct queues *queues, struct queue *queue, const struct entry *entry,
                   uint32_t next, uint32_t prev)
{
    if (entry->queue_prev != 0)
        at(queues, entry->queue_prev)->queue_next = next;
    else
        queue->head = next;
    if (entry->queue_next != 0)
        at(queues, entry->queue_next)->queue_prev = prev;
    else
        queue->tail = prev;
}

static void link_out(struct queues *queues, const struct place *place)
{
    struct queue *queue = queue_of(place);
    relink(queues, queue, place->entry, place->entry->queue_next, place->entry->queue_prev);
    ensure(queue->bytes >= place->size);
    queue->bytes -= place->size;
}

/* Queues an entry that was not in a queue, or not any more. */
static void enter(struct queues *queues, struct place *place, bool is_main, unsigned hits)
{
    uint64_t worth = (uint64_t)PRIORITY_ONE * (1 + hits) / place->size;
    place->entry->priority = queues->floor + (uint32_t)worth;
    place->is_main = is_main;
    entry_flags_set(place->entry, is_main ? SLOT_MAIN : 0, is_main ? 0 : SLOT_MAIN);
    link_in(queues, place);
}

bool queues_admits(struct policy *policy, enum entry_kind kind, uint32_t hash, size_t size)
{
    struct queues *queues = queues_of(policy);
    unsigned class = queues_class(kind, size);
    double share = queues->classes[class].small_share * (double)queues->share_bytes;
    if ((double)size * LARGE_FRACTION <= share)
        return true;
    enum ghost_kind known = ghost_take(&queues->ghost, class, hash);
    /* Known: so that who queues it sees that, too. */
    ghost_add(&queues->ghost, class, known == GHOST_NONE ? GHOST_LARGE : known, hash);
    return known != GHOST_NONE;
}

void queues_push(struct queues *queues, struct entry *entry, bool is_main)
{
    struct place place = place_of(queues, entry);
    enter(queues, &place, is_main, 0);
    queues->filled |= UINT64_C(1) << place.class;
    queues->policy.bytes.kind[entry_kind(entry) - 1] += place.size;
    place.queues->count++;
}

void queues_overflow(struct queues *queues, unsigned class)
{
    struct size_class *size_class = &queues->classes[class];
    double both = (double)(size_class->small.bytes + size_class->main.bytes);
    if ((double)size_class->small.bytes <= size_class->small_share * both)
        return;
    struct place place = place_of(queues, at(queues, size_class->small.tail));
    link_out(queues, &place);
    enter(queues, &place, true, entry_counter(place.entry));
}

static void take_out(struct queues *queues, const struct place *place)
{
    link_out(queues, place);
    if (place->queues->small.head == 0 && place->queues->main.head == 0)
        queues->filled &= ~(UINT64_C(1) << place->class);
    size_t *kind_bytes = &queues->policy.bytes.kind[entry_kind(place->entry) - 1];
    ensure(*kind_bytes >= place->size && place->queues->count > 0);
    *kind_bytes -= place->size;
    place->queues->count--;
}

void queues_remove(struct policy *policy, struct entry *entry, enum policy_reason reason)
{
    struct queues *queues = queues_of(policy);
    struct place place = place_of(queues, entry);
    take_out(queues, &place);
    bool is_proven = place.is_main || entry_counter(entry) >= queues->promote_hits;
    if (reason == POLICY_WRITTEN && is_proven)
        ghost_add(&queues->ghost, place.class, GHOST_WRITTEN, entry->hash);
    else if (reason == POLICY_CROWDED)
        queues_remember(queues, place.class, entry);
}

void queues_remember(struct queues *queues, unsigned class, const struct entry *entry)
{
    bool is_main = entry_flags(entry) & SLOT_MAIN;
    ghost_add(&queues->ghost, class, is_main ? GHOST_MAIN : GHOST_SMALL, entry->hash);
}

void queues_moved(struct policy *policy, struct entry *entry, struct entry *copy)
{
    struct queues *queues = queues_of(policy);
    struct place place = place_of(queues, entry);
    uint32_t handle = memory_handle(policy->memory, copy);
    relink(queues, queue_of(&place), copy, handle, handle);
}

bool queues_knows(const struct policy *policy, enum entry_kind kind, uint32_t hash)
{
    const struct queues *queues = (const struct queues *)policy;
    unsigned first = queues_class(kind, 0);
    return ghost_knows(&queues->ghost, first, first + POLICY_CLASSES, hash);
}

/* The class's own candidate: the small queue's tail while that has more than its share. */
static struct entry *candidate(const struct queues *queues, unsigned class)
{
    const struct size_class *size_class = &queues->classes[class];
    double both = (double)(size_class->small.bytes + size_class->main.bytes);
    bool is_small = size_class->small.tail != 0 &&
                    (size_class->main.tail == 0 ||
                     (double)size_class->small.bytes > size_class->small_share * both);
    return at(queues, is_small ? size_class->small.tail : size_class->main.tail);
}

static struct entry *least(const struct queues *queues, unsigned kinds, unsigned size_class)
{
    struct entry *best = NULL;
    for (uint64_t left = queues->filled; left != 0; left &= left - 1) {
        unsigned i = (unsigned)__builtin_ctzll(left);
        if (!(kinds >> i / POLICY_CLASSES & 1) ||
            (size_class != POLICY_CLASS_ANY && i % POLICY_CLASSES != size_class))
            continue;
        struct entry *entry = candidate(queues, i);
        if (best == NULL || is_before(entry->priority, best->priority))
            best = entry;
    }
    return best;
}

/* A candidate that was used goes to the main queue, or round in it once more. */
static bool spare(struct queues *queues, struct place *place)
{
    unsigned hits = entry_counter(place->entry);
    if (hits < (place->is_main ? 1 : queues->promote_hits))
        return false;
    link_out(queues, place);
    unsigned left = place->is_main ? hits - 1 : 0; /* those of the small queue are spent on it */
    atomic_store_explicit(&place->entry->counter, (unsigned char)left, memory_order_relaxed);
    enter(queues, place, true, hits);
    return true;
}

struct entry *queues_victim(struct queues *queues, unsigned kinds, unsigned size_class,
                            unsigned *class)
{
    for (int step = 0;; step++) {
        struct entry *entry = least(queues, kinds, size_class);
        if (entry == NULL)
            return NULL;
        if (is_before(queues->floor, entry->priority))
            queues->floor = entry->priority;
        struct place place = place_of(queues, entry);
        if (step < STEPS_MAX && spare(queues, &place))
            continue;
        take_out(queues, &place);
        queues->was_full = true;
        queues->policy.bytes.evicted[policy_class(place.size)]++;
        *class = place.class;
        return entry;
    }
}
