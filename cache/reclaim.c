#include "cache/reclaim.h"

#include "cache/tsan.h"
#include "protocol/ensure.h"

/* In front of a heap block that can be retired. */
struct heap_block {
    ck_epoch_entry_t retired;
    size_t size;
    uint8_t unused[8]; /* keeps what follows aligned to 16 */
};

void reclaim_open(struct reclaimer *reclaimer, ck_epoch_t *epoch, struct memory *memory)
{
    reclaimer->memory = memory;
    reclaimer->epoch = epoch;
    ck_stack_init(&reclaimer->ready);
    ck_epoch_register(epoch, &reclaimer->record, NULL);
}

void reclaim_begin(struct reclaimer *reclaimer)
{
    ck_epoch_begin(&reclaimer->record, NULL);
}

void reclaim_end(struct reclaimer *reclaimer)
{
    TSAN_RELEASE(reclaimer->epoch);
    (void)ck_epoch_end(&reclaimer->record, NULL);
}

/* The functions only tell the kinds apart: reclaim_poll() takes what is ready off the record
 * and frees it in steps, libck calls none of them. */
static void is_entry(ck_epoch_entry_t *entry)
{
    ensure(entry == NULL);
}

static void is_slot(ck_epoch_entry_t *entry)
{
    ensure(entry == NULL);
}

static void is_heap_block(ck_epoch_entry_t *entry)
{
    ensure(entry == NULL);
}

void reclaim_entry(struct reclaimer *reclaimer, struct entry *entry)
{
    entry_mark_retired(reclaimer->memory, entry);
    ck_epoch_call(&reclaimer->record, &entry->retired, is_entry);
}

void reclaim_slot(struct reclaimer *reclaimer, void *slot, size_t size)
{
    atomic_store_explicit(slot_flags(slot), SLOT_DEAD, memory_order_release);
    memory_add(&reclaimer->memory->deferred, size);
    memory_sub(&reclaimer->memory->live, size);
    ck_epoch_call(&reclaimer->record, slot, is_slot);
}

void reclaim_heap(struct reclaimer *reclaimer, void *block)
{
    struct heap_block *head = (struct heap_block *)block - 1;
    memory_add(&reclaimer->memory->deferred, head->size);
    ck_epoch_call(&reclaimer->record, &head->retired, is_heap_block);
}

void *reclaim_heap_alloc(struct memory *memory, size_t size)
{
    struct heap_block *head = memory_heap_alloc_kept(memory, sizeof *head + size);
    if (head == NULL)
        return NULL;
    head->size = size;
    return head + 1;
}

void reclaim_heap_free(struct memory *memory, void *block)
{
    struct heap_block *head = (struct heap_block *)block - 1;
    memory_heap_free(memory, head, sizeof *head + head->size);
}

static void free_one(struct reclaimer *reclaimer, ck_stack_entry_t *at)
{
    ck_epoch_entry_t *retired =
        (ck_epoch_entry_t *)(void *)((uint8_t *)at - offsetof(ck_epoch_entry_t, stack_entry));
    if (retired->function == is_entry) {
        uint8_t *entry = (uint8_t *)retired - offsetof(struct entry, retired);
        entry_free_retired(reclaimer->memory, (struct entry *)(void *)entry);
        return;
    }
    if (retired->function == is_slot) {
        memory_sub(&reclaimer->memory->deferred, memory_free(reclaimer->memory, retired));
        return;
    }
    ensure(retired->function == is_heap_block);
    struct heap_block *head = (struct heap_block *)(void *)retired;
    memory_sub(&reclaimer->memory->deferred, head->size);
    reclaim_heap_free(reclaimer->memory, head + 1);
}

bool reclaim_is_pending(const struct reclaimer *reclaimer)
{
    return reclaimer->record.n_pending != 0 || !CK_STACK_ISEMPTY(&reclaimer->ready);
}

void reclaim_poll(struct reclaimer *reclaimer, uint32_t count_max)
{
    if (CK_STACK_ISEMPTY(&reclaimer->ready)) {
        if (reclaimer->record.n_pending == 0)
            return;
        (void)ck_epoch_poll_deferred(&reclaimer->record, &reclaimer->ready);
    }
    TSAN_ACQUIRE(reclaimer->epoch);
    while (count_max-- > 0 && !CK_STACK_ISEMPTY(&reclaimer->ready))
        free_one(reclaimer, ck_stack_pop_npsc(&reclaimer->ready));
}

void reclaim_close(struct reclaimer *reclaimer)
{
    while (reclaim_is_pending(reclaimer)) {
        size_t before = memory_figure(&reclaimer->memory->deferred);
        reclaim_poll(reclaimer, UINT32_MAX);
        ensure(memory_figure(&reclaimer->memory->deferred) < before);
    }
}
