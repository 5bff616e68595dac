#include "bench/trace/models.h"

#include <stdlib.h>
#include <string.h>

enum { NONE = UINT32_MAX, NOWHERE = 0 };

/* An id is in at most one list; lists run from the newest to the oldest. */
struct node {
    uint32_t next, prev;
    uint8_t list; /* 0: none */
    uint8_t hits;
};

struct list {
    uint32_t newest, oldest;
    uint64_t size;
};

enum { LISTS = 5 };
struct lists {
    const uint32_t *sizes; /* NULL: all 1 */
    struct node *nodes;
    struct list lists[LISTS];
};

static uint64_t size_of(const struct lists *lists, uint32_t id)
{
    return lists->sizes == NULL ? 1 : lists->sizes[id];
}

static void lists_open(struct lists *lists, const struct trace *trace, const uint32_t *sizes)
{
    *lists = (struct lists){.sizes = sizes, .nodes = calloc(trace->id_count, sizeof(struct node))};
    if (lists->nodes == NULL)
        abort();
    for (int i = 0; i < LISTS; i++)
        lists->lists[i] = (struct list){NONE, NONE, 0};
}

static void take(struct lists *lists, uint32_t id)
{
    struct node *node = &lists->nodes[id];
    struct list *list = &lists->lists[node->list];
    *(node->prev == NONE ? &list->newest : &lists->nodes[node->prev].next) = node->next;
    *(node->next == NONE ? &list->oldest : &lists->nodes[node->next].prev) = node->prev;
    list->size -= size_of(lists, id);
    node->list = NOWHERE;
}

static void push(struct lists *lists, uint32_t id, unsigned to)
{
    struct node *node = &lists->nodes[id];
    struct list *list = &lists->lists[to];
    if (node->list != NOWHERE)
        take(lists, id);
    node->list = (uint8_t)to;
    node->prev = NONE;
    node->next = list->newest;
    *(list->newest == NONE ? &list->oldest : &lists->nodes[list->newest].prev) = id;
    list->newest = id;
    list->size += size_of(lists, id);
}

static uint64_t lru(const struct trace *trace, const uint32_t *sizes, uint64_t capacity)
{
    struct lists lists;
    uint64_t misses = 0;
    lists_open(&lists, trace, sizes);
    struct list *list = &lists.lists[1];
    for (size_t i = 0; i < trace->count; i++) {
        uint32_t id = trace->ids[i];
        bool is_hit = lists.nodes[id].list != NOWHERE;
        misses += !is_hit;
        if (!is_hit && size_of(&lists, id) > capacity)
            continue;
        while (!is_hit && list->size + size_of(&lists, id) > capacity)
            take(&lists, list->oldest);
        push(&lists, id, 1);
    }
    free(lists.nodes);
    return misses;
}

enum { SMALL = 1, MAIN = 2, GHOST = 3 };

static void s3fifo_evict_small(struct lists *lists, uint64_t ghost_max)
{
    struct list *small = &lists->lists[SMALL], *ghost = &lists->lists[GHOST];
    while (small->oldest != NONE) {
        uint32_t id = small->oldest;
        bool is_proven = lists->nodes[id].hits > 1;
        lists->nodes[id].hits = 0;
        push(lists, id, is_proven ? MAIN : GHOST);
        while (ghost->size > ghost_max)
            take(lists, ghost->oldest);
        if (!is_proven)
            return;
    }
}

static void s3fifo_evict_main(struct lists *lists)
{
    for (;;) {
        uint32_t id = lists->lists[MAIN].oldest;
        if (lists->nodes[id].hits == 0) {
            take(lists, id);
            return;
        }
        lists->nodes[id].hits--;
        push(lists, id, MAIN);
    }
}

static uint64_t s3fifo(const struct trace *trace, const uint32_t *sizes, uint64_t capacity)
{
    struct lists lists;
    uint64_t misses = 0, small_max = capacity / 10, ghost_max = capacity * 9 / 10;
    lists_open(&lists, trace, sizes);
    struct list *small = &lists.lists[SMALL], *main = &lists.lists[MAIN];
    for (size_t i = 0; i < trace->count; i++) {
        uint32_t id = trace->ids[i];
        struct node *node = &lists.nodes[id];
        if (node->list == SMALL || node->list == MAIN) {
            node->hits = node->hits < 3 ? (uint8_t)(node->hits + 1) : 3;
            continue;
        }
        misses++;
        unsigned to = node->list == GHOST ? MAIN : SMALL;
        if (node->list == GHOST)
            take(&lists, id);
        if (size_of(&lists, id) > (to == SMALL ? small_max : capacity))
            continue;
        while (small->size + main->size + size_of(&lists, id) > capacity)
            if (main->size > capacity - small_max || small->oldest == NONE)
                s3fifo_evict_main(&lists);
            else
                s3fifo_evict_small(&lists, ghost_max);
        node->hits = 0;
        push(&lists, id, to);
    }
    free(lists.nodes);
    return misses;
}

enum { T1 = 1, T2 = 2, B1 = 3, B2 = 4 };

/* The target of T1, moved by a request found in a ghost list. */
static double arc_adapt(const struct lists *lists, uint8_t list, double target, uint64_t capacity,
                        uint64_t size)
{
    double b1 = (double)lists->lists[B1].size, b2 = (double)lists->lists[B2].size;
    if (list == B1) {
        target += (b2 > b1 ? b2 / b1 : 1) * (double)size;
        return target < (double)capacity ? target : (double)capacity;
    }
    target -= (b1 > b2 ? b1 / b2 : 1) * (double)size;
    return target > 0 ? target : 0;
}

static void arc_make_room(struct lists *lists, uint8_t found_in, double target, uint64_t capacity,
                          uint64_t size)
{
    struct list *lists_of = lists->lists;
    while (lists_of[T1].size + lists_of[T2].size + size > capacity) {
        double t1 = (double)lists_of[T1].size;
        bool is_t1 = lists_of[T1].oldest != NONE &&
                     (t1 > target || (found_in == B2 && t1 >= target) || lists_of[T2].size == 0);
        push(lists, lists_of[is_t1 ? T1 : T2].oldest, is_t1 ? B1 : B2);
    }
    while (lists_of[T1].size + lists_of[B1].size > capacity && lists_of[B1].oldest != NONE)
        take(lists, lists_of[B1].oldest);
    while (lists_of[T1].size + lists_of[T2].size + lists_of[B1].size + lists_of[B2].size >
               2 * capacity &&
           lists_of[B2].oldest != NONE)
        take(lists, lists_of[B2].oldest);
}

static uint64_t arc(const struct trace *trace, const uint32_t *sizes, uint64_t capacity)
{
    struct lists lists;
    uint64_t misses = 0;
    double target = 0;
    lists_open(&lists, trace, sizes);
    for (size_t i = 0; i < trace->count; i++) {
        uint32_t id = trace->ids[i];
        uint64_t size = size_of(&lists, id);
        uint8_t list = lists.nodes[id].list;
        if (list == T1 || list == T2) {
            push(&lists, id, T2);
            continue;
        }
        misses++;
        if (size > capacity)
            continue;
        if (list != NOWHERE) {
            target = arc_adapt(&lists, list, target, capacity, size);
            take(&lists, id);
        }
        arc_make_room(&lists, list, target, capacity, size);
        push(&lists, id, list == NOWHERE ? T1 : T2);
    }
    free(lists.nodes);
    return misses;
}

/* A heap by priority; among equals the one that was used last stays longest. */
struct heap {
    uint32_t *ids; /* of the heap's places, from 0 */
    uint32_t *at;  /* places of ids, NONE: not in it */
    double *priority;
    uint64_t *used;
    uint32_t *hits;
    uint32_t count;
};

static bool heap_less(const struct heap *heap, uint32_t a, uint32_t b)
{
    if (heap->priority[a] != heap->priority[b])
        return heap->priority[a] < heap->priority[b];
    return heap->used[a] < heap->used[b];
}

static void heap_set(struct heap *heap, uint32_t at, uint32_t id)
{
    heap->ids[at] = id;
    heap->at[id] = at;
}

/* Puts what stands at `at` where it belongs. */
static void heap_settle(struct heap *heap, uint32_t at)
{
    uint32_t id = heap->ids[at];
    while (at > 0 && heap_less(heap, id, heap->ids[(at - 1) / 2])) {
        heap_set(heap, at, heap->ids[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    for (uint32_t child; (child = 2 * at + 1) < heap->count; at = child) {
        if (child + 1 < heap->count && heap_less(heap, heap->ids[child + 1], heap->ids[child]))
            child++;
        if (!heap_less(heap, heap->ids[child], id))
            break;
        heap_set(heap, at, heap->ids[child]);
    }
    heap_set(heap, at, id);
}

static uint32_t heap_pop(struct heap *heap)
{
    uint32_t id = heap->ids[0];
    heap->at[id] = NONE;
    if (--heap->count > 0) {
        heap_set(heap, 0, heap->ids[heap->count]);
        heap_settle(heap, 0);
    }
    return id;
}

static void heap_open(struct heap *heap, size_t id_count)
{
    *heap = (struct heap){.ids = calloc(id_count, sizeof(uint32_t)),
                          .at = calloc(id_count, sizeof(uint32_t)),
                          .priority = calloc(id_count, sizeof(double)),
                          .used = calloc(id_count, sizeof(uint64_t)),
                          .hits = calloc(id_count, sizeof(uint32_t))};
    if (heap->ids == NULL || heap->at == NULL || heap->priority == NULL || heap->used == NULL ||
        heap->hits == NULL)
        abort();
    memset(heap->at, 0xff, id_count * sizeof *heap->at);
}

static void heap_close(struct heap *heap)
{
    free(heap->ids);
    free(heap->at);
    free(heap->priority);
    free(heap->used);
    free(heap->hits);
}

static uint64_t gdsf(const struct trace *trace, const uint32_t *sizes, uint64_t capacity)
{
    struct heap heap;
    uint64_t misses = 0, held = 0;
    double floor = 0;
    heap_open(&heap, trace->id_count);
    for (size_t i = 0; i < trace->count; i++) {
        uint32_t id = trace->ids[i];
        uint64_t size = sizes == NULL ? 1 : sizes[id];
        bool is_hit = heap.at[id] != NONE;
        misses += !is_hit;
        if (size > capacity)
            continue;
        while (!is_hit && held + size > capacity) {
            uint32_t victim = heap_pop(&heap);
            floor = heap.priority[victim];
            held -= sizes == NULL ? 1 : sizes[victim];
        }
        if (!is_hit) {
            heap_set(&heap, heap.count++, id);
            heap.hits[id] = 0;
            held += size;
        }
        heap.priority[id] = floor + (double)++heap.hits[id] / (double)size;
        heap.used[id] = i;
        heap_settle(&heap, heap.at[id]);
    }
    heap_close(&heap);
    return misses;
}

const struct model models[] = {
    {"lru", false, lru},
    {"arc", false, arc},
    {"s3fifo", false, s3fifo},
    {"gdsf", true, gdsf},
};
const size_t model_count = sizeof models / sizeof *models;
