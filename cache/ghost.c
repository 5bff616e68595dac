#include "cache/ghost.h"

enum {
    GHOST_WAYS = 8,
    GHOST_BUCKETS_MIN = 8,
    GHOSTS_MIN = 45,           /* for which those are enough */
    GHOST_SLACK_PERCENT = 140, /* slots for what is wanted: of Poisson's 5.7 a bucket 9 are rare */
    GHOST_GROWTH_PERCENT = 125,
    TICK_BITS = 10,
    TICK_MASK = (1 << TICK_BITS) - 1,
    WINDOW_TICKS = 128, /* far less than the ticks' range, so that old ones are not taken for new */
};

static size_t bytes_of_buckets(uint32_t buckets)
{
    return (size_t)buckets * GHOST_WAYS * sizeof(uint32_t);
}

/* Spread, for a shard's hashes agree in their top bits. */
static uint32_t spread(uint32_t hash)
{
    return hash * UINT32_C(0x9E3779B1);
}

static uint32_t *bucket_of(const struct ghost *ghost, uint32_t spread_hash)
{
    return ghost->slots + ((uint64_t)spread_hash * ghost->buckets >> 32) * GHOST_WAYS;
}

/* 0 marks a free slot. */
static uint32_t print_of(uint32_t spread_hash)
{
    uint32_t print = spread_hash & (UINT32_MAX >> TICK_BITS);
    return (print != 0 ? print : 1) << TICK_BITS;
}

static uint32_t age(const struct ghost *ghost, uint32_t slot)
{
    return (ghost->tick - slot) & TICK_MASK;
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
    *ghost = (struct ghost){.memory = memory, .tick_length = 1};
    if (!slots_alloc(ghost, GHOST_BUCKETS_MIN))
        return false;
    ghost_resize(ghost, 0);
    return true;
}

void ghost_close(struct ghost *ghost)
{
    if (ghost->slots != NULL)
        memory_heap_free(ghost->memory, ghost->slots, bytes_of_buckets(ghost->buckets));
    ghost->slots = NULL;
}

void ghost_resize(struct ghost *ghost, size_t wanted)
{
    wanted = wanted < GHOSTS_MIN ? GHOSTS_MIN : wanted;
    size_t slots = wanted * GHOST_SLACK_PERCENT / 100;
    if (UNLIKELY(slots > (size_t)ghost->buckets * GHOST_WAYS)) {
        struct ghost old = *ghost;
        size_t buckets = slots / GHOST_WAYS * GHOST_GROWTH_PERCENT / 100 + 1;
        if (slots_alloc(ghost, (uint32_t)buckets))
            ghost_close(&old);
    }
    size_t room = (size_t)ghost->buckets * GHOST_WAYS;
    wanted = wanted < room ? wanted : room;
    ghost->tick_length = wanted < WINDOW_TICKS ? 1 : (uint32_t)(wanted / WINDOW_TICKS);
    ghost->window = (uint32_t)wanted / ghost->tick_length;
}

void ghost_add(struct ghost *ghost, uint32_t hash)
{
    uint32_t *bucket = bucket_of(ghost, spread(hash));
    int oldest = 0;
    for (int way = 0; way < GHOST_WAYS && bucket[oldest] != 0; way++)
        if (bucket[way] == 0 || age(ghost, bucket[way]) > age(ghost, bucket[oldest]))
            oldest = way;
    bucket[oldest] = print_of(spread(hash)) | (ghost->tick & TICK_MASK);
    if (++ghost->tick_at >= ghost->tick_length) {
        ghost->tick_at = 0;
        ghost->tick++;
    }
}

bool ghost_take(struct ghost *ghost, uint32_t hash)
{
    uint32_t print = print_of(spread(hash));
    uint32_t *bucket = bucket_of(ghost, spread(hash));
    for (int way = 0; way < GHOST_WAYS; way++) {
        if ((bucket[way] & ~(uint32_t)TICK_MASK) != print)
            continue;
        bool is_recent = age(ghost, bucket[way]) <= ghost->window;
        bucket[way] = 0;
        return is_recent;
    }
    return false;
}
