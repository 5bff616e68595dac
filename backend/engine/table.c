#include "backend/engine/table.h"

#include "protocol/hash.h"

#include <stdlib.h>

struct catalog {
    uint64_t version;
    size_t count;
    size_t slots_count;          /* a power of two, at least twice `count` */
    struct definition **by_name; /* sorted */
    struct definition **slots;   /* hashed, open addressing; NULL: free */
    atomic_uint references;
};

static struct catalog *catalog_alloc(size_t count_max)
{
    size_t slots = 4;
    while (slots < 2 * count_max)
        slots *= 2;
    struct catalog *catalog = calloc(1, sizeof *catalog);
    struct definition **pointers = calloc(slots + count_max, sizeof(struct definition *));
    if (catalog == NULL || pointers == NULL) {
        free(catalog);
        free(pointers);
        return NULL;
    }
    catalog->slots_count = slots;
    catalog->slots = pointers;
    catalog->by_name = pointers + slots;
    atomic_init(&catalog->references, 1);
    return catalog;
}

static struct definition **find_slot(const struct catalog *catalog, struct bytes name)
{
    size_t mask = catalog->slots_count - 1;
    for (size_t i = hash_partition(name) & mask;; i = (i + 1) & mask) {
        struct definition **slot = &catalog->slots[i];
        if (*slot == NULL || bytes_equal((*slot)->table.name, name))
            return slot;
    }
}

static void append(struct catalog *catalog, struct definition *definition)
{
    catalog->by_name[catalog->count++] = definition_ref(definition);
    *find_slot(catalog, definition->table.name) = definition;
}

struct catalog *catalog_create(void)
{
    return catalog_alloc(0);
}

struct catalog *catalog_change(const struct catalog *catalog, struct definition *added,
                               const struct definition *removed)
{
    struct catalog *next = catalog_alloc(catalog->count + 1);
    if (next == NULL)
        return NULL;
    next->version = catalog->version + 1;
    for (size_t i = 0; i < catalog->count; i++) {
        struct definition *definition = catalog->by_name[i];
        int order = added == NULL ? -1 : bytes_compare(definition->table.name, added->table.name);
        if (order >= 0 && added != NULL) {
            append(next, added);
            added = NULL;
        }
        if (order != 0 && definition != removed)
            append(next, definition);
    }
    if (added != NULL)
        append(next, added);
    return next;
}

struct catalog *catalog_ref(struct catalog *catalog)
{
    atomic_fetch_add_explicit(&catalog->references, 1, memory_order_relaxed);
    return catalog;
}

void catalog_unref(struct catalog *catalog)
{
    if (catalog == NULL ||
        atomic_fetch_sub_explicit(&catalog->references, 1, memory_order_acq_rel) != 1)
        return;
    for (size_t i = 0; i < catalog->count; i++)
        definition_unref(catalog->by_name[i]);
    free(catalog->slots);
    free(catalog);
}

uint64_t catalog_version(const struct catalog *catalog)
{
    return catalog->version;
}

struct definition *catalog_find(const struct catalog *catalog, struct bytes name)
{
    return *find_slot(catalog, name);
}

size_t catalog_count(const struct catalog *catalog)
{
    return catalog->count;
}

struct definition *catalog_at(const struct catalog *catalog, size_t i)
{
    return catalog->by_name[i];
}

size_t catalog_after(const struct catalog *catalog, struct bytes name)
{
    size_t low = 0, high = bytes_given(name) ? catalog->count : 0;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (bytes_compare(catalog->by_name[middle]->table.name, name) <= 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}
