#include "cache/expiry.h"

static struct entry *at(const struct memory *memory, uint32_t handle)
{
    return memory_at(memory, handle);
}

void expiry_push(struct expiry_list *list, const struct memory *memory, struct entry *entry)
{
    uint32_t handle = memory_handle(memory, entry);
    entry->expiry_next = 0;
    entry->expiry_prev = list->newest;
    if (list->newest != 0)
        at(memory, list->newest)->expiry_next = handle;
    else
        list->oldest = handle;
    list->newest = handle;
}

/* Makes the neighbours of `entry` (or the list's ends) point to `next` and `prev`. */
static void relink(struct expiry_list *list, const struct memory *memory, const struct entry *entry,
                   uint32_t next, uint32_t prev)
{
    if (entry->expiry_prev != 0)
        at(memory, entry->expiry_prev)->expiry_next = next;
    else
        list->oldest = next;
    if (entry->expiry_next != 0)
        at(memory, entry->expiry_next)->expiry_prev = prev;
    else
        list->newest = prev;
}

void expiry_unlink(struct expiry_list *list, const struct memory *memory, struct entry *entry)
{
    if (list->hand == memory_handle(memory, entry))
        expiry_pass(list, entry);
    relink(list, memory, entry, entry->expiry_next, entry->expiry_prev);
}

void expiry_moved(struct expiry_list *list, const struct memory *memory, const struct entry *entry,
                  struct entry *copy)
{
    uint32_t handle = memory_handle(memory, copy);
    if (list->hand == memory_handle(memory, entry))
        list->hand = handle;
    relink(list, memory, copy, handle, handle);
}
