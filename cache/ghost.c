#include "cache/ghost.h"

enum { GHOST_WAYS = 8, GHOST_BUCKETS_MIN = 8 };

static size_t bytes_of_buckets(uint32_t buckets)
{
    return (size_t)buckets * GHOST_WAYS * sizeof(uint32_t);
}

/* 0 marks a free place. The print is spread, for a shard's hashes agree in their top bits, and the
 * bucket follows from the print alone, so that growing needs nothing else. */
static uint32_t print_of(uint32_t hash)
{
    uint32_t print = hash * UINT32_C(0x9E3779B1);
    return print != 0 ? print : 1;
}

static uint32_t *bucket_of(const struct ghost *ghost, uint32_t print)
{
    return ghost->prints + ((uint64_t)print * ghost->buckets >> 32) * GHOST_WAYS;
}

static void push(struct ghost *ghost, uint32_t print)
{
    uint32_t *bucket = bucket_of(ghost, print);
    memmove(bucket + 1, bucket, (GHOST_WAYS - 1) * sizeof *bucket);
    bucket[0] = print;
}

static uint32_t *prints_alloc(struct memory *memory, uint32_t buckets)
{
    uint32_t *prints = memory_heap_alloc(memory, bytes_of_buckets(buckets));
    if (prints != NULL)
        memset(prints, 0, bytes_of_buckets(buckets));
    return prints;
}

bool ghost_open(struct ghost *ghost, struct memory *memory)
{
    *ghost = (struct ghost){.memory = memory, .buckets = GHOST_BUCKETS_MIN, .ways = 1};
    ghost->prints = prints_alloc(memory, ghost->buckets);
    return ghost->prints != NULL;
}

void ghost_close(struct ghost *ghost)
{
    if (ghost->prints != NULL)
        memory_heap_free(ghost->memory, ghost->prints, bytes_of_buckets(ghost->buckets));
    ghost->prints = NULL;
}

static void grow(struct ghost *ghost)
{
    struct ghost larger = *ghost;
    larger.buckets = ghost->buckets * 2;
    larger.prints = prints_alloc(ghost->memory, larger.buckets);
    if (larger.prints == NULL)
        return;
    for (uint32_t i = 0; i < ghost->buckets; i++)
        for (int way = GHOST_WAYS - 1; way >= 0; way--)
            if (ghost->prints[i * GHOST_WAYS + (uint32_t)way] != 0)
                push(&larger, ghost->prints[i * GHOST_WAYS + (uint32_t)way]);
    ghost_close(ghost);
    *ghost = larger;
}

void ghost_resize(struct ghost *ghost, size_t wanted)
{
    if (wanted > (size_t)ghost->buckets * GHOST_WAYS)
        grow(ghost);
    size_t ways = (wanted + ghost->buckets - 1) / ghost->buckets;
    ghost->ways = ways < 1 ? 1 : ways > GHOST_WAYS ? GHOST_WAYS : (uint32_t)ways;
}

void ghost_add(struct ghost *ghost, uint32_t hash)
{
    push(ghost, print_of(hash));
}

bool ghost_take(struct ghost *ghost, uint32_t hash)
{
    uint32_t print = print_of(hash);
    uint32_t *bucket = bucket_of(ghost, print);
    for (uint32_t way = 0; way < ghost->ways; way++) {
        if (bucket[way] != print)
            continue;
        memmove(bucket + way, bucket + way + 1, (GHOST_WAYS - 1 - way) * sizeof *bucket);
        bucket[GHOST_WAYS - 1] = 0;
        return true;
    }
    return false;
}
