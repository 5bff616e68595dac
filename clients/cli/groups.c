#include "clients/cli/groups.h"

#include <stdlib.h>
#include <string.h>

struct groups {
    size_t room, count, slots; /* slots: a power of two, twice the room at least */
    struct group *groups;      /* `room` of them */
    struct group **table;      /* by hash, linear probing; NULL: free */
    struct group **heap;       /* the smallest first; `count` of them */
    bool has_left_out;
};

struct groups *groups_new(size_t room)
{
    struct groups *made = calloc(1, sizeof *made);
    if (made == NULL)
        return NULL;
    made->room = room;
    made->slots = 2;
    while (made->slots < 2 * room)
        made->slots *= 2;
    made->groups = calloc(room, sizeof *made->groups);
    made->table = calloc(made->slots, sizeof(struct group *));
    made->heap = calloc(room, sizeof(struct group *));
    if (made->groups != NULL && made->table != NULL && made->heap != NULL)
        return made;
    groups_free(made);
    return NULL;
}

void groups_free(struct groups *groups)
{
    if (groups == NULL)
        return;
    for (size_t i = 0; i < groups->count; i++)
        free(groups->heap[i]->name);
    free(groups->groups);
    free((void *)groups->table);
    free((void *)groups->heap);
    free(groups);
}

/* ---- the table ---- */

/* FNV-1a. */
static uint64_t hash_of(const char *name)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (; *name != '\0'; name++)
        hash = (hash ^ (uint8_t)*name) * UINT64_C(0x100000001b3);
    return hash ^ hash >> 32;
}

static size_t slot_of(const struct groups *groups, uint64_t hash)
{
    return (size_t)hash & (groups->slots - 1);
}

static struct group *find(const struct groups *groups, const char *name, uint64_t hash)
{
    size_t at = slot_of(groups, hash);
    for (; groups->table[at] != NULL; at = (at + 1) & (groups->slots - 1))
        if (groups->table[at]->hash == hash && strcmp(groups->table[at]->name, name) == 0)
            return groups->table[at];
    return NULL;
}

static void insert(struct groups *groups, struct group *group)
{
    size_t at = slot_of(groups, group->hash);
    while (groups->table[at] != NULL)
        at = (at + 1) & (groups->slots - 1);
    groups->table[at] = group;
}

/* What stands behind it in its run is put in again, for a gap ends a search. */
static void take_out(struct groups *groups, const struct group *group)
{
    size_t mask = groups->slots - 1, at = slot_of(groups, group->hash);
    while (groups->table[at] != group)
        at = (at + 1) & mask;
    groups->table[at] = NULL;
    for (at = (at + 1) & mask; groups->table[at] != NULL; at = (at + 1) & mask) {
        struct group *moved = groups->table[at];
        groups->table[at] = NULL;
        insert(groups, moved);
    }
}

/* ---- the heap ---- */

static void place(struct groups *groups, size_t at, struct group *group)
{
    groups->heap[at] = group;
    group->heap_at = at;
}

static void rise(struct groups *groups, struct group *group)
{
    size_t at = group->heap_at;
    while (at != 0 && groups->heap[(at - 1) / 2]->bytes > group->bytes) {
        place(groups, at, groups->heap[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    place(groups, at, group);
}

static void sink(struct groups *groups, struct group *group)
{
    size_t at = group->heap_at;
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= groups->count)
            break;
        if (child + 1 < groups->count &&
            groups->heap[child + 1]->bytes < groups->heap[child]->bytes)
            child++;
        if (groups->heap[child]->bytes >= group->bytes)
            break;
        place(groups, at, groups->heap[child]);
        at = child;
    }
    place(groups, at, group);
}

/* ---- adding ---- */

static struct group *add_new(struct groups *groups, char *name, uint64_t hash)
{
    struct group *group = &groups->groups[groups->count];
    *group = (struct group){.name = name, .hash = hash};
    place(groups, groups->count++, group);
    insert(groups, group);
    rise(groups, group);
    return group;
}

/* The smallest one gives its place, and its bytes. */
static struct group *replace(struct groups *groups, char *name, uint64_t hash)
{
    struct group *group = groups->heap[0];
    take_out(groups, group);
    free(group->name);
    group->name = name;
    group->hash = hash;
    group->too_many = group->bytes;
    group->items = 0;
    groups->has_left_out = true;
    insert(groups, group);
    return group;
}

static struct group *add_name(struct groups *groups, const char *name, uint64_t hash)
{
    char *copy = strdup(name);
    if (copy == NULL)
        return NULL;
    return groups->count < groups->room ? add_new(groups, copy, hash) : replace(groups, copy, hash);
}

bool groups_add(struct groups *groups, const char *name, uint64_t items, uint64_t bytes)
{
    uint64_t hash = hash_of(name);
    struct group *group = find(groups, name, hash);
    if (group == NULL)
        group = add_name(groups, name, hash);
    if (group == NULL)
        return false;
    group->items += items;
    group->bytes += bytes;
    sink(groups, group);
    return true;
}

bool groups_add_whole(struct groups *groups, const char *name, uint64_t items, uint64_t bytes)
{
    if (groups->count == groups->room && groups->heap[0]->bytes >= bytes) {
        groups->has_left_out = true;
        return true;
    }
    struct group *group = add_name(groups, name, hash_of(name));
    if (group == NULL)
        return false;
    group->items = items;
    group->bytes = bytes;
    group->too_many = 0;
    sink(groups, group);
    return true;
}

/* ---- reading ---- */

static int by_bytes(const void *a, const void *b)
{
    const struct group *left = *(struct group *const *)a, *right = *(struct group *const *)b;
    if (left->bytes != right->bytes)
        return left->bytes < right->bytes ? 1 : -1;
    return strcmp(left->name, right->name);
}

const struct group *const *groups_sorted(struct groups *groups, size_t *count, bool *left_out)
{
    qsort((void *)groups->heap, groups->count, sizeof(struct group *), by_bytes);
    *count = groups->count;
    *left_out = groups->has_left_out;
    return (const struct group *const *)groups->heap;
}
