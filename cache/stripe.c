#include "cache/stripe.h"

bool stripes_open(struct stripes *stripes, struct memory *memory, uint32_t count)
{
    *stripes = (struct stripes){.count = count};
    stripes->items = memory_heap_alloc(memory, count * sizeof *stripes->items);
    stripes->partitions = memory_heap_alloc(memory, count * sizeof *stripes->partitions);
    if (stripes->items == NULL || stripes->partitions == NULL)
        return false;
    memset(stripes->items, 0, count * sizeof *stripes->items);
    memset(stripes->partitions, 0, count * sizeof *stripes->partitions);
    return true;
}

void stripes_close(struct stripes *stripes, struct memory *memory)
{
    memory_heap_free(memory, stripes->items, stripes->count * sizeof *stripes->items);
    memory_heap_free(memory, stripes->partitions, stripes->count * sizeof *stripes->partitions);
    stripes->items = NULL;
    stripes->partitions = NULL;
}

void stripes_bump_all(struct stripes *stripes)
{
    for (uint32_t i = 0; i < stripes->count; i++)
        stripes->items[i].ver++;
}
