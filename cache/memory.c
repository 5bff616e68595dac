#include "cache/memory.h"

#include "protocol/ensure.h"

#include <stdlib.h>
#include <sys/mman.h>

enum run_state { RUN_FREE, RUN_PARTIAL, RUN_FULL, RUN_EVACUATING };

enum {
    SLOT_NONE = UINT16_MAX,
    HEAP_OVERHEAD = 16, /* what the allocator adds to a block */
    CHUNKS_OF_RUN = 4,
    PARTIAL_SCAN_MAX = 64, /* runs looked at for the emptiest */
    TRIM_MAX = 16,         /* runs a call */
    KEPT_FRACTION = 256,   /* of the runs: see kept_runs; two at least */
    KEPT_RUNS_MIN = 2,
    HUGE_PAGES_FROM = 64 << 20,
    HUGE_PAGE = 2 << 20,
    EVACUATION_PASSES_MAX = 16, /* tries to empty one run */
};

struct run {
    uint32_t next, prev; /* in the class's partial list, or in warm or cold (next only) */
    uint16_t live;       /* slots in use */
    uint16_t bumped;     /* slots ever handed out */
    uint16_t free;       /* first of the slots given back, or SLOT_NONE */
    uint8_t class;
    uint8_t state;
};

static size_t run_size_for(size_t budget)
{
    size_t size = RUN_MIN;
    while (size < RUN_MAX && size * 4096 < budget)
        size *= 2;
    return size;
}

/* Steps of 16 B below 256 B (handles cannot tell finer), then of 32 B to 2 KiB, then 32 an octave;
 * a class takes what its slots leave over in a run. */
static void classes_init(struct memory *memory)
{
    uint32_t run_size = (uint32_t)memory->run_size;
    uint32_t slot_max = run_size < SLOT_MAX ? run_size : SLOT_MAX;
    uint32_t units = 0;
    uint8_t count = 0;
    for (uint32_t octave = SLOT_MIN; octave <= slot_max; octave *= 2) {
        uint32_t step = octave < 256 ? SLOT_UNIT : octave < 2048 ? 2 * SLOT_UNIT : octave / 32;
        for (uint32_t size = octave; size < 2 * octave && size <= slot_max; size += step) {
            uint32_t slots = run_size / size;
            uint32_t wide = (run_size / slots) & ~(uint32_t)(SLOT_UNIT - 1);
            wide = wide < slot_max ? wide : slot_max;
            if (count > 0 && memory->classes[count - 1].slot_size >= wide)
                continue;
            ensure(count < MEMORY_CLASSES_MAX);
            memory->classes[count] =
                (struct memory_class){.slot_size = wide, .slots = slots, .partial = RUN_NONE};
            for (; units <= wide / SLOT_UNIT; units++)
                memory->class_by_units[units] = count;
            count++;
        }
    }
    memory->class_count = count;
    memory->chunk_class = memory->class_by_units[run_size / CHUNKS_OF_RUN / SLOT_UNIT];
}

bool memory_open(struct memory *memory, size_t budget, size_t kept_back)
{
    *memory = (struct memory){.budget = budget,
                              .kept_back = kept_back,
                              .run_size = run_size_for(budget),
                              .warm = RUN_NONE,
                              .cold = RUN_NONE,
                              .evacuating = RUN_NONE};
    ensure(budget <= MEMORY_MAPPING_MAX);
    memory->run_count = (uint32_t)(budget / memory->run_size);
    memory->mapping_size = memory->run_count * memory->run_size;
    uint32_t kept_runs = memory->run_count / KEPT_FRACTION;
    memory->kept_runs = (kept_runs < KEPT_RUNS_MIN ? KEPT_RUNS_MIN : kept_runs) * memory->run_size;
    classes_init(memory);
    memory->mapped_size = memory->mapping_size + HUGE_PAGE;
    memory->mapping = mmap(NULL, memory->mapped_size, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory->mapping == MAP_FAILED)
        return false;
    uint8_t *mapping = memory->mapping;
    memory->base = mapping + (size_t)(-(uintptr_t)mapping & (HUGE_PAGE - 1));
    memory->runs = calloc(memory->run_count, sizeof *memory->runs);
    if (memory->runs == NULL) {
        (void)munmap(memory->mapping, memory->mapped_size);
        memory->base = NULL;
        return false;
    }
    /* Fewer page faults and TLB misses where the system has huge pages to give; an advice. Small
     * budgets would be overdrawn by whole huge pages. */
    if (memory->mapping_size >= HUGE_PAGES_FROM)
        memory->has_huge_pages = madvise(memory->base, memory->mapping_size, MADV_HUGEPAGE) == 0;
    mutex_init(&memory->lock);
    return memory_charge(memory, memory->run_count * sizeof *memory->runs);
}

void memory_close(struct memory *memory)
{
    if (memory->base == NULL)
        return;
    (void)munmap(memory->mapping, memory->mapped_size);
    free(memory->runs);
    mutex_deinit(&memory->lock);
    memory->base = NULL;
}

static bool charge(struct memory *memory, size_t size, size_t limit)
{
    size_t used = memory_figure(&memory->used);
    do {
        if (used > limit || size > limit - used)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(&memory->used, &used, used + size,
                                                    memory_order_relaxed, memory_order_relaxed));
    memory_add(&memory->heap, size);
    return true;
}

/* The budget but for what is kept for indexes, lanes and policies. */
static size_t common(const struct memory *memory)
{
    return memory->budget - memory->kept_back - memory->kept_runs;
}

bool memory_charge(struct memory *memory, size_t size)
{
    return charge(memory, size, common(memory));
}

void memory_uncharge(struct memory *memory, size_t size)
{
    ensure(memory_figure(&memory->heap) >= size);
    memory_sub(&memory->heap, size);
    memory_sub(&memory->used, size);
}

static void *heap_alloc(struct memory *memory, size_t size, size_t limit)
{
    if (!charge(memory, size + HEAP_OVERHEAD, limit))
        return NULL;
    void *block = malloc(size);
    if (block == NULL)
        memory_uncharge(memory, size + HEAP_OVERHEAD);
    return block;
}

void *memory_heap_alloc(struct memory *memory, size_t size)
{
    return heap_alloc(memory, size, common(memory));
}

void *memory_heap_alloc_kept(struct memory *memory, size_t size)
{
    return heap_alloc(memory, size, memory->budget - memory->kept_runs);
}

void memory_heap_free(struct memory *memory, void *block, size_t size)
{
    if (block == NULL)
        return;
    free(block);
    memory_uncharge(memory, size + HEAP_OVERHEAD);
}

static size_t tail_size(const struct memory *memory, uint8_t class_index)
{
    const struct memory_class *class = &memory->classes[class_index];
    return memory->run_size - (size_t) class->slots * class->slot_size;
}

static void partial_push(struct memory *memory, uint32_t index) REQUIRES(memory->lock)
{
    struct run *run = &memory->runs[index];
    struct memory_class *class = &memory->classes[run->class];
    run->state = RUN_PARTIAL;
    run->prev = RUN_NONE;
    run->next = class->partial;
    if (run->next != RUN_NONE)
        memory->runs[run->next].prev = index;
    class->partial = index;
}

static void partial_unlink(struct memory *memory, uint32_t index) REQUIRES(memory->lock)
{
    struct run *run = &memory->runs[index];
    if (run->prev != RUN_NONE)
        memory->runs[run->prev].next = run->next;
    else
        memory->classes[run->class].partial = run->next;
    if (run->next != RUN_NONE)
        memory->runs[run->next].prev = run->prev;
}

/* Takes a run for the class into its partial list, if `limit` bytes of the budget allow it. */
static bool run_take(struct memory *memory, uint8_t class_index, size_t limit)
    REQUIRES(memory->lock)
{
    if (!charge(memory, memory->run_size, limit))
        return false;
    memory_sub(&memory->heap, memory->run_size);
    uint32_t index;
    if (memory->warm != RUN_NONE) {
        index = memory->warm;
        memory->warm = memory->runs[index].next;
        memory->warm_count--;
    } else if (memory->cold != RUN_NONE) {
        index = memory->cold;
        memory->cold = memory->runs[index].next;
    } else if (memory->fresh < memory->run_count) {
        index = memory->fresh++;
    } else {
        memory_sub(&memory->used, memory->run_size);
        return false;
    }
    memory->runs[index] = (struct run){.free = SLOT_NONE, .class = class_index};
    memory->classes[class_index].runs++;
    memory_add(&memory->tails, tail_size(memory, class_index));
    partial_push(memory, index);
    return true;
}

static void run_give(struct memory *memory, uint32_t index) REQUIRES(memory->lock)
{
    struct run *run = &memory->runs[index];
    memory->classes[run->class].runs--;
    memory_sub(&memory->tails, tail_size(memory, run->class));
    run->state = RUN_FREE;
    run->next = memory->warm;
    memory->warm = index;
    memory->warm_count++;
    memory_sub(&memory->used, memory->run_size);
}

void *memory_run_slot(const struct memory *memory, uint32_t run, uint32_t slot)
{
    uint32_t slot_size = memory->classes[memory->runs[run].class].slot_size;
    return memory->base + run * memory->run_size + (size_t)slot * slot_size;
}

static void *slot_take(struct memory *memory, struct memory_class *class) REQUIRES(memory->lock)
{
    uint32_t index = class->partial;
    struct run *run = &memory->runs[index];
    void *slot;
    if (run->free != SLOT_NONE) {
        slot = memory_run_slot(memory, index, run->free);
        memcpy(&run->free, slot, sizeof run->free);
    } else {
        slot = memory_run_slot(memory, index, run->bumped++);
    }
    run->live++;
    class->live++;
    if (run->live == class->slots) {
        partial_unlink(memory, index);
        run->state = RUN_FULL;
    }
    atomic_store_explicit(slot_flags(slot), 0, memory_order_relaxed);
    return slot;
}

static void *alloc(struct memory *memory, size_t size, size_t limit)
{
    ensure(size > 0 && size <= memory_slot_max(memory));
    uint8_t index = memory->class_by_units[(size + SLOT_UNIT - 1) / SLOT_UNIT];
    struct memory_class *class = &memory->classes[index];
    void *slot = NULL;
    mutex_lock(&memory->lock);
    if (class->partial != RUN_NONE || run_take(memory, index, limit))
        slot = slot_take(memory, class);
    mutex_unlock(&memory->lock);
    if (slot != NULL)
        memory_add(&memory->live, class->slot_size);
    return slot;
}

void *memory_alloc(struct memory *memory, size_t size)
{
    return alloc(memory, size, common(memory));
}

void *memory_alloc_kept(struct memory *memory, size_t size)
{
    return alloc(memory, size, memory->budget - memory->kept_back);
}

size_t memory_free(struct memory *memory, void *slot)
{
    size_t offset = (size_t)((uint8_t *)slot - memory->base);
    ensure(offset < memory->mapping_size);
    uint32_t index = (uint32_t)(offset / memory->run_size);
    mutex_lock(&memory->lock);
    struct run *run = &memory->runs[index];
    struct memory_class *class = &memory->classes[run->class];
    ensure(run->state != RUN_FREE && run->live > 0);
    atomic_store_explicit(slot_flags(slot), 0, memory_order_relaxed);
    memcpy(slot, &run->free, sizeof run->free);
    run->free = (uint16_t)(offset % memory->run_size / class->slot_size);
    run->live--;
    class->live--;
    if (run->state == RUN_FULL)
        partial_push(memory, index);
    if (run->live == 0 && run->state == RUN_PARTIAL) {
        partial_unlink(memory, index);
        run_give(memory, index);
    } else if (run->live == 0 && !memory->is_evacuation_going_on) {
        ensure(memory->evacuating == index);
        memory->evacuating = RUN_NONE;
        run_give(memory, index);
    }
    size_t slot_size = class->slot_size;
    mutex_unlock(&memory->lock);
    return slot_size;
}

static uint32_t emptiest_run(const struct memory *memory, const struct memory_class *class)
    REQUIRES(memory->lock)
{
    uint32_t best = RUN_NONE, looked_at = 0;
    for (uint32_t index = class->partial; index != RUN_NONE && looked_at < PARTIAL_SCAN_MAX;
         index = memory->runs[index].next, looked_at++)
        if (best == RUN_NONE || memory->runs[index].live < memory->runs[best].live)
            best = index;
    return best;
}

static uint32_t evacuation_pick(const struct memory *memory, uint32_t live_max)
    REQUIRES(memory->lock)
{
    uint32_t best = RUN_NONE;
    uint64_t best_bytes = UINT64_MAX;
    for (uint8_t i = 0; i < memory->class_count; i++) {
        const struct memory_class *class = &memory->classes[i];
        uint64_t free_slots = (uint64_t) class->runs * class->slots - class->live;
        uint32_t run = emptiest_run(memory, class);
        if (run == RUN_NONE)
            continue;
        uint32_t live = memory->runs[run].live;
        uint64_t bytes = (uint64_t)live * class->slot_size;
        /* Free slots, without its own, for all that is in it. */
        if (free_slots >= class->slots && live <= live_max && bytes < best_bytes) {
            best = run;
            best_bytes = bytes;
        }
    }
    return best;
}

uint32_t memory_evacuation_begin(struct memory *memory, uint32_t live_max, uint32_t *slots)
{
    uint32_t run = RUN_NONE;
    mutex_lock(&memory->lock);
    if (!memory->is_evacuation_going_on) {
        run = memory->evacuating;
        if (run == RUN_NONE) {
            run = evacuation_pick(memory, live_max);
            if (run != RUN_NONE) {
                partial_unlink(memory, run);
                memory->runs[run].state = RUN_EVACUATING;
                memory->evacuating = run;
                memory->evacuation_passes = 0;
            }
        }
    }
    if (run != RUN_NONE) {
        memory->is_evacuation_going_on = true;
        memory->evacuation_passes++;
        *slots = memory->runs[run].bumped;
    }
    mutex_unlock(&memory->lock);
    return run;
}

void memory_evacuation_end(struct memory *memory, uint32_t index)
{
    mutex_lock(&memory->lock);
    struct run *run = &memory->runs[index];
    ensure(memory->is_evacuation_going_on && memory->evacuating == index);
    memory->is_evacuation_going_on = false;
    if (run->live == 0) {
        memory->evacuating = RUN_NONE;
        run_give(memory, index);
    } else if (memory->evacuation_passes >= EVACUATION_PASSES_MAX) {
        memory->evacuating = RUN_NONE;
        if (run->live == memory->classes[run->class].slots)
            run->state = RUN_FULL;
        else
            partial_push(memory, index);
    }
    mutex_unlock(&memory->lock);
}

bool memory_trim(struct memory *memory, size_t keep)
{
    for (int i = 0; i < TRIM_MAX; i++) {
        mutex_lock(&memory->lock);
        uint32_t index = memory->warm;
        bool is_done = index == RUN_NONE || memory->warm_count * memory->run_size <= keep;
        if (!is_done) {
            memory->warm = memory->runs[index].next;
            memory->warm_count--;
        }
        mutex_unlock(&memory->lock);
        if (is_done)
            return false;
        (void)madvise(memory->base + index * memory->run_size, memory->run_size, MADV_DONTNEED);
        mutex_lock(&memory->lock);
        memory->runs[index].next = memory->cold;
        memory->cold = index;
        mutex_unlock(&memory->lock);
    }
    return true;
}

bool memory_populate(struct memory *memory, size_t ahead)
{
#ifdef MADV_POPULATE_WRITE
    mutex_lock(&memory->lock);
    size_t used = memory->fresh * memory->run_size;
    size_t from = memory->populated > used ? memory->populated : used;
    from = (from + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    bool is_wanted =
        memory->has_huge_pages && from + HUGE_PAGE <= memory->mapping_size && from < used + ahead;
    mutex_unlock(&memory->lock);
    if (!is_wanted)
        return false;
    bool is_done = madvise(memory->base + from, HUGE_PAGE, MADV_POPULATE_WRITE) == 0;
    mutex_lock(&memory->lock);
    memory->populated = from + HUGE_PAGE;
    memory->has_huge_pages = is_done; /* else an old kernel: nothing to be had */
    mutex_unlock(&memory->lock);
    return is_done;
#else
    (void)memory, (void)ahead;
    return false;
#endif
}
