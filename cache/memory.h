/* memory.h - runs and size classes inside the budget; nothing above it ever.
 *
 * One anonymous mapping, cut into runs; a run holds slots of one class. What comes from the heap
 * (stripes, nodes, flights, ghosts) is charged to the same budget, so
 *     runs in use x run size + heap charges <= budget
 * holds at every moment. A slot whose owner was retired stays charged until it is freed.
 * Threads: any; one lock inside, the last in the lock order. Figures are atomics. */
#pragma once

#include "protocol/bytes.h"
#include "protocol/mutex.h"

#include <stdatomic.h>

enum {
    SLOT_MIN = 64,
    SLOT_MAX = 16 * 1024, /* or the run, whichever is less */
    SLOT_UNIT = 16,       /* handles count in these */
    SLOT_FLAGS_AT = 30,   /* every slot has its flags byte there, whatever it holds */
    MEMORY_CLASSES_MAX = 176,
    RUN_MIN = 4 * 1024,
    RUN_MAX = 64 * 1024,
};

/* Largest mapping that 32-bit handles reach. */
#define MEMORY_MAPPING_MAX ((size_t)1 << 36)

/* Flags of a slot; 0: free, or allocated and not yet published. */
enum slot_flag {
    SLOT_LIVE = 1,     /* a published entry */
    SLOT_DEAD = 2,     /* a retired entry: gone from the index, not yet free */
    SLOT_CHUNK = 4,    /* part of a large value */
    SLOT_NEGATIVE = 8, /* entry: there is no such item */
    SLOT_LARGE = 16,   /* entry: the value lies in chunks */
    SLOT_MAIN = 32,    /* entry: in the policy's main queue */
    SLOT_TABLE = 64,   /* part of an index */
    SLOT_MOVED = 128,  /* retired entry: its chunks are its copy's by now */
};

struct run;

struct memory_class {
    uint32_t slot_size, slots; /* constant */
    uint32_t partial;          /* first run with a free slot, or RUN_NONE */
    uint32_t runs;             /* in use */
    uint64_t live;             /* slots in use, retired ones included */
};

struct memory {
    /* Constant after memory_open. */
    uint8_t *base;
    void *mapping; /* base, aligned */
    size_t mapped_size;
    size_t budget, mapping_size, run_size;
    size_t kept_back; /* part of the budget for lanes and policies, so that they always find room */
    size_t kept_runs; /* bytes of runs for indexes to grow into, and for what moves */
    uint32_t run_count;
    uint8_t class_count, chunk_class;
    uint8_t class_by_units[SLOT_MAX / SLOT_UNIT + 1];

    /* Guarded by lock. */
    struct mutex lock;
    struct run *runs;
    struct memory_class classes[MEMORY_CLASSES_MAX];
    bool has_huge_pages;
    size_t populated;          /* bytes of the mapping that the system was asked to fill in */
    uint32_t fresh;            /* runs never used begin here */
    uint32_t warm, warm_count; /* given back, pages still there */
    uint32_t cold;             /* given back, pages returned to the system */
    uint32_t evacuating;       /* the run being emptied, or RUN_NONE */
    uint32_t evacuation_passes;
    bool is_evacuation_going_on;

    /* Atomic, relaxed. */
    atomic_size_t used;     /* what the budget is held against */
    atomic_size_t live;     /* slot bytes of what is not retired */
    atomic_size_t deferred; /* slot and heap bytes that wait for a grace period */
    atomic_size_t heap;     /* the part of `used` that is not runs */
    atomic_size_t tails;    /* the part of runs that is too short for a slot */
};

#define RUN_NONE UINT32_MAX

/* budget     CACHE_MEMORY_MIN..MEMORY_MAPPING_MAX
 * kept_back  of it, for memory_heap_alloc_kept()
 * False when there is no memory for the mapping or its table. */
MUST_CHECK bool memory_open(struct memory *memory, size_t budget, size_t kept_back);
void memory_close(struct memory *memory);

/* A slot of at least `size` bytes (1..memory_slot_max), flags 0, contents undefined. NULL when
 * neither a slot of the class nor a run is to be had. */
MUST_CHECK void *memory_alloc(struct memory *memory, size_t size);
/* The same for an index or for what moves, from the runs that are kept for them if need be. */
MUST_CHECK void *memory_alloc_kept(struct memory *memory, size_t size);
/* Of a slot that nobody can reach any more. Returns its size; `live` and `deferred` are the
 * caller's to correct. */
size_t memory_free(struct memory *memory, void *slot);

/* Bytes from the heap, charged. */
MUST_CHECK void *memory_heap_alloc(struct memory *memory, size_t size);
void memory_heap_free(struct memory *memory, void *block, size_t size);
/* The same from what is kept back. */
MUST_CHECK void *memory_heap_alloc_kept(struct memory *memory, size_t size);
/* Charges `size` bytes that somebody else allocates. */
MUST_CHECK bool memory_charge(struct memory *memory, size_t size);
void memory_uncharge(struct memory *memory, size_t size);

/* Picks the run that is cheapest to give up: the one with the fewest bytes in use, at most
 * `live_max` slots, of those whose slots in use fit into free ones of other runs of its class; or
 * goes on with the one picked before. No slot of it is handed out any more, and the run is given
 * back when its last slot is freed. Returns RUN_NONE when there is none or another thread is at it;
 * else memory_evacuation_end() must follow. slots  those below this number may be in use */
uint32_t memory_evacuation_begin(struct memory *memory, uint32_t live_max, uint32_t *slots);
void *memory_run_slot(const struct memory *memory, uint32_t run, uint32_t slot);
/* Ends a pass. A run that cannot be emptied in a number of passes goes back to its class. */
void memory_evacuation_end(struct memory *memory, uint32_t run);

/* Returns pages of runs that nobody uses to the system, but for `keep` bytes; a few a call. */
bool memory_trim(struct memory *memory, size_t keep);

/* Has the system fill in pages ahead of use, up to `ahead` bytes, one step a call: a huge page
 * takes milliseconds, which nobody's request should pay. Returns true if there is more to do. */
bool memory_populate(struct memory *memory, size_t ahead);

static inline uint32_t memory_slot_max(const struct memory *memory)
{
    return memory->classes[memory->class_count - 1].slot_size;
}

/* Slots that parts of large values take. Of a run they are a quarter at most: what is near a whole
 * one, or a third of one, would be rounded up by so much. */
static inline uint32_t memory_chunk_size(const struct memory *memory)
{
    return memory->classes[memory->chunk_class].slot_size;
}

/* What a slot of `size` bytes really takes. */
static inline uint32_t memory_slot_size(const struct memory *memory, size_t size)
{
    return memory->classes[memory->class_by_units[(size + SLOT_UNIT - 1) / SLOT_UNIT]].slot_size;
}

static inline uint32_t memory_handle(const struct memory *memory, const void *slot)
{
    return (uint32_t)((size_t)((const uint8_t *)slot - memory->base) / SLOT_UNIT) + 1;
}

/* NULL for handle 0. */
static inline void *memory_at(const struct memory *memory, uint32_t handle)
{
    return handle == 0 ? NULL : memory->base + (size_t)(handle - 1) * SLOT_UNIT;
}

static inline atomic_uchar *slot_flags(void *slot)
{
    return (atomic_uchar *)((uint8_t *)slot + SLOT_FLAGS_AT);
}

static inline size_t memory_figure(const atomic_size_t *figure)
{
    return atomic_load_explicit(figure, memory_order_relaxed);
}

static inline void memory_add(atomic_size_t *figure, size_t bytes)
{
    atomic_fetch_add_explicit(figure, bytes, memory_order_relaxed);
}

static inline void memory_sub(atomic_size_t *figure, size_t bytes)
{
    atomic_fetch_sub_explicit(figure, bytes, memory_order_relaxed);
}
