#include "cache/ghost.h"

#include "protocol/ensure.h"

enum {
    GHOST_WAYS = 8,
    GHOST_BUCKETS_MIN = 8,
    WINDOW_MIN = 8,
    GHOST_SLACK_PERCENT =
        115, /* slots for what is wanted: with two buckets to choose from enough */
    GHOST_GROWTH_PERCENT = 125,
    /* A slot: fingerprint, group, tick. A window is 32 to 63 ticks, far less than their range, so
     * that old ones are not taken for new. */
    TICK_BITS = 8,
    TICK_MASK = (1 << TICK_BITS) - 1,
    WINDOW_SHIFT = 5,
    GROUP_BITS = 8,
    PRINT_SHIFT = TICK_BITS + GROUP_BITS,
    PRINT_MASK = (1 << (32 - PRINT_SHIFT)) - 1,
    RELATIVE_AGE_ONE = 1 << 10, /* as old as its window */
};

_Static_assert(GHOST_CLASSES *GHOST_KINDS <= 1 << GROUP_BITS, "groups fit a slot");

static size_t bytes_of_buckets(uint32_t buckets)
{
    return (size_t)buckets * GHOST_WAYS * sizeof(uint32_t);
}

/* Spread, for a shard's hashes agree in their top bits. */
static uint32_t spread(uint32_t hash)
{
    return hash * UINT32_C(0x9E3779B1);
}

/* The two buckets where it may be. */
static uint32_t *bucket_of(const struct ghost *ghost, uint32_t spread_hash, int which)
{
    uint32_t at = which == 0 ? spread_hash : spread(spread_hash ^ spread_hash >> 15);
    return ghost->slots + ((uint64_t)at * ghost->buckets >> 32) * GHOST_WAYS;
}

/* Not 0, which marks a free slot. */
static uint32_t print_of(uint32_t spread_hash)
{
    uint32_t print = spread_hash & PRINT_MASK;
    return print != 0 ? print : 1;
}

static uint32_t tick_length(const struct ghost_group *group)
{
    return (group->window >> WINDOW_SHIFT) + 1;
}

/* Of a slot in use, by the clock of its group; above RELATIVE_AGE_ONE it does not count any more.
 */
static uint64_t relative_age(const struct ghost *ghost, uint32_t slot)
{
    const struct ghost_group *group = &ghost->groups[slot >> TICK_BITS & ((1 << GROUP_BITS) - 1)];
    uint64_t age = (uint64_t)((group->tick - slot) & TICK_MASK) * tick_length(group);
    return age * RELATIVE_AGE_ONE / group->window;
}

static bool slots_alloc(struct ghost *ghost, uint32_t buckets)
{
    uint32_t *slots = memory_heap_alloc(ghost->memory, bytes_of_buckets(buckets));
    if (slots == NULL)
        return false;
    memset(slots, 0, bytes_of_buckets(buckets));
    ghost->slots = slots;
    ghost->buckets = buckets;
    return true;
}

bool ghost_open(struct ghost *ghost, struct memory *memory)
{
    *ghost = (struct ghost){.memory = memory};
    for (unsigned i = 0; i < GHOST_CLASSES * GHOST_KINDS; i++)
        ghost->groups[i].window = WINDOW_MIN;
    return slots_alloc(ghost, GHOST_BUCKETS_MIN);
}

void ghost_close(struct ghost *ghost)
{
    if (ghost->slots == NULL)
        return;
    memory_heap_free(ghost->memory, ghost->slots, bytes_of_buckets(ghost->buckets));
    ghost->slots = NULL;
}

static void grow(struct ghost *ghost, size_t slots)
{
    uint32_t *old = ghost->slots;
    size_t old_bytes = bytes_of_buckets(ghost->buckets);
    if (!slots_alloc(ghost, (uint32_t)(slots / GHOST_WAYS * GHOST_GROWTH_PERCENT / 100 + 1)))
        return;
    memory_heap_free(ghost->memory, old, old_bytes);
    for (unsigned i = 0; i < GHOST_CLASSES * GHOST_KINDS; i++)
        ghost->groups[i].held = 0;
}

void ghost_resize(struct ghost *ghost, unsigned class, enum ghost_kind kind, size_t window)
{
    ensure(class < GHOST_CLASSES && kind < GHOST_NONE);
    struct ghost_group *group = &ghost->groups[class * GHOST_KINDS + kind];
    window = window < WINDOW_MIN ? WINDOW_MIN : window;
    size_t before = group->window;
    group->window = (uint32_t)window;
    if (kind == GHOST_WRITTEN || kind == GHOST_LARGE)
        return;
    ghost->wanted += window - before; /* modulo: may be negative */
    size_t slots = ghost->wanted * GHOST_SLACK_PERCENT / 100;
    if (UNLIKELY(slots > (size_t)ghost->buckets * GHOST_WAYS))
        grow(ghost, slots);
}

/* Where in a bucket something new goes, and how many that count there are. */
static uint32_t *slot_to_use(const struct ghost *ghost, uint32_t *bucket, unsigned *live,
                             uint64_t *age)
{
    uint32_t *oldest = bucket;
    *live = 0;
    *age = 0;
    for (uint32_t *slot = bucket; slot < bucket + GHOST_WAYS; slot++) {
        uint64_t slot_age = *slot == 0 ? UINT64_MAX : relative_age(ghost, *slot);
        *live += slot_age <= RELATIVE_AGE_ONE;
        if (slot_age > *age) {
            *age = slot_age;
            oldest = slot;
        }
    }
    return oldest;
}

void ghost_add(struct ghost *ghost, unsigned class, enum ghost_kind kind, uint32_t hash)
{
    uint32_t mixed = spread(hash), *slots[2];
    unsigned live[2];
    uint64_t age[2];
    for (int which = 0; which < 2; which++)
        slots[which] =
            slot_to_use(ghost, bucket_of(ghost, mixed, which), &live[which], &age[which]);
    bool is_second = live[0] != live[1] ? live[1] < live[0] : age[1] > age[0];
    uint32_t index = class * GHOST_KINDS + kind;
    struct ghost_group *group = &ghost->groups[index];
    *slots[is_second] =
        print_of(mixed) << PRINT_SHIFT | index << TICK_BITS | (group->tick & TICK_MASK);
    if (group->held < group->window)
        group->held++;
    if (++group->tick_at >= tick_length(group)) {
        group->tick_at = 0;
        group->tick++;
    }
}

static enum ghost_kind take_from(struct ghost *ghost, uint32_t *bucket, unsigned class,
                                 uint32_t print)
{
    for (uint32_t *slot = bucket; slot < bucket + GHOST_WAYS; slot++) {
        uint32_t index = *slot >> TICK_BITS & ((1 << GROUP_BITS) - 1);
        if (*slot >> PRINT_SHIFT != print || index / GHOST_KINDS != class)
            continue;
        bool is_recent = relative_age(ghost, *slot) <= RELATIVE_AGE_ONE;
        *slot = 0;
        if (!is_recent)
            continue;
        if (ghost->groups[index].held > 0)
            ghost->groups[index].held--;
        return (enum ghost_kind)(index % GHOST_KINDS);
    }
    return GHOST_NONE;
}

enum ghost_kind ghost_take(struct ghost *ghost, unsigned class, uint32_t hash)
{
    uint32_t mixed = spread(hash);
    enum ghost_kind kind = GHOST_NONE;
    for (int which = 0; which < 2 && kind == GHOST_NONE; which++)
        kind = take_from(ghost, bucket_of(ghost, mixed, which), class, print_of(mixed));
    return kind;
}

bool ghost_knows(const struct ghost *ghost, unsigned class, unsigned end, uint32_t hash)
{
    uint32_t mixed = spread(hash), print = print_of(mixed);
    for (int which = 0; which < 2; which++) {
        const uint32_t *bucket = bucket_of(ghost, mixed, which);
        for (const uint32_t *slot = bucket; slot < bucket + GHOST_WAYS; slot++) {
            uint32_t index = *slot >> TICK_BITS & ((1 << GROUP_BITS) - 1);
            if (*slot >> PRINT_SHIFT == print && index / GHOST_KINDS >= class &&
                index / GHOST_KINDS < end && index % GHOST_KINDS <= GHOST_MAIN &&
                relative_age(ghost, *slot) <= RELATIVE_AGE_ONE)
                return true;
        }
    }
    return false;
}
