/* reclaim.h - epochs: when memory that readers may still see can be used again.
 *
 * One record per thread that reads or writes. Whoever removes something takes the shard's lock,
 * opens a section, removes, retires inside the section, and ends it. What was retired is freed by
 * reclaim_poll() of the same record after a grace period, a bounded number of things a call.
 * Threads: a reclaimer is one thread's; one that was given up may go on in another's hands. */
#pragma once

#include "cache/entry.h"

struct reclaimer {
    ck_epoch_record_t record;
    struct memory *memory;
    ck_epoch_t *epoch;
    ck_stack_t ready;       /* past their grace period, not yet freed */
    struct reclaimer *next; /* whoever keeps a list */
    void *block;            /* whoever allocated it */
};

/* reclaimer  zeroed, aligned to a cache line; stays valid as long as the epoch */
void reclaim_open(struct reclaimer *reclaimer, ck_epoch_t *epoch, struct memory *memory);

void reclaim_begin(struct reclaimer *reclaimer);
void reclaim_end(struct reclaimer *reclaimer);

/* Inside the section that removed it. */
void reclaim_entry(struct reclaimer *reclaimer, struct entry *entry);
/* A slot of `size` bytes that is no entry's; its first 16 bytes are overwritten. */
void reclaim_slot(struct reclaimer *reclaimer, void *slot, size_t size);
/* Of reclaim_heap_alloc(). */
void reclaim_heap(struct reclaimer *reclaimer, void *block);

/* Heap memory, from what the budget keeps back, that can be retired; freed at once by
 * reclaim_heap_free(). */
MUST_CHECK void *reclaim_heap_alloc(struct memory *memory, size_t size);
void reclaim_heap_free(struct memory *memory, void *block);

/* True while something waits. */
bool reclaim_is_pending(const struct reclaimer *reclaimer);
/* Frees at most `count_max` things whose grace period is over. Outside of sections. */
void reclaim_poll(struct reclaimer *reclaimer, uint32_t count_max);
/* Frees everything. When no other thread is inside a section any more. */
void reclaim_close(struct reclaimer *reclaimer);
