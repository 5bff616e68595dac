#include "cache/index.h"

#include "cache/tsan.h"
#include "protocol/ensure.h"

/* ck_hs hands its callbacks no context. What they need is set before each call. */
static _Thread_local struct {
    struct index *index;
    struct memory *memory;
    struct reclaimer *reclaimer;
    const struct entry *probe;
    bool may_grow;
} context;

enum {
    SLOT_BYTES = sizeof(void *) + 1, /* ck_hs: the value and a byte of its probe bound */
    LOAD_EIGHTHS = 6,                /* of the slots: then the table grows */
    FULL_EIGHTHS = 7,                /* then something has to go for each that comes */
    LINE_BYTES = 64,
    LINES_AHEAD = 3,
};

static inline const void *pack(uint32_t hash, uint32_t handle)
{
    return (const void *)((uintptr_t)hash << 32 | handle); // NOLINT(performance-no-int-to-ptr)
}

static inline uint32_t packed_hash(const void *value)
{
    return (uint32_t)((uintptr_t)value >> 32);
}

static inline struct entry *packed_entry(const struct memory *memory, const void *value)
{
    return memory_at(memory, (uint32_t)(uintptr_t)value);
}

/* The stored 32 bits spread over what ck_hs uses: low bits for the bucket, high ones for strides.
 */
static inline unsigned long spread(uint32_t hash)
{
    uint64_t wide = (uint64_t)hash * UINT64_C(0x9E3779B97F4A7C15);
    return wide ^ wide >> 32;
}

static unsigned long hash_value(const void *value, unsigned long seed)
{
    (void)seed;
    return spread(packed_hash(value));
}

/* a  in the table
 * b  what is looked for; handle 0 stands for the probe */
static bool is_same(const void *a, const void *b)
{
    if (packed_hash(a) != packed_hash(b))
        return false;
    const struct entry *entry = packed_entry(context.memory, a);
    /* It is nearly always the one: have its value's lines come with its key's. */
    for (size_t line = 1; line <= LINES_AHEAD; line++)
        __builtin_prefetch((const uint8_t *)entry + line * LINE_BYTES);
    const struct entry *other = packed_entry(context.memory, b);
    if (other == NULL)
        other = context.probe;
    TSAN_ACQUIRE(entry);
    return entry->key_size == other->key_size &&
           memcmp(entry->key, other->key, entry->key_size) == 0;
}

static size_t capacity(const struct index *index)
{
    return index->table_bytes / SLOT_BYTES;
}

static bool is_crowded(const struct index *index, size_t eighths)
{
    return 8 * index_count(index) > eighths * capacity(index);
}

/* ck_hs asks for a larger table from half full on. Refused, it goes on with the one it has: probes
 * are cheap here, memory is not. */
static void *table_alloc(size_t size)
{
    if (!context.may_grow)
        return NULL;
    void *table = reclaim_heap_alloc(context.memory, size, false);
    if (table != NULL)
        context.index->table_bytes = size;
    return table;
}

static void *table_realloc(void *block, size_t old_size, size_t new_size, bool defer)
{
    (void)block, (void)old_size, (void)new_size, (void)defer;
    return NULL; /* ck_hs never asks */
}

static void table_free(void *block, size_t size, bool defer)
{
    (void)size;
    if (defer)
        reclaim_heap(context.reclaimer, block);
    else
        reclaim_heap_free(context.memory, block);
}

static struct ck_malloc table_memory = {table_alloc, table_realloc, table_free};

bool index_open(struct index *index, struct memory *memory, size_t expected)
{
    context.index = index;
    context.memory = memory;
    context.may_grow = true;
    index->memory = memory;
    if (ck_hs_init(&index->table, CK_HS_MODE_SPMC | CK_HS_MODE_DIRECT | CK_HS_MODE_DELETE,
                   hash_value, is_same, &table_memory, expected + expected / 3, 0))
        return true;
    index->memory = NULL;
    return false;
}

void index_close(struct index *index)
{
    if (index->memory == NULL)
        return;
    context.memory = index->memory;
    ck_hs_destroy(&index->table);
    index->memory = NULL;
}

struct entry *index_get(const struct index *index, const struct entry *probe)
{
    context.memory = index->memory;
    context.probe = probe;
    const void *value =
        ck_hs_get((ck_hs_t *)&index->table, spread(probe->hash), pack(probe->hash, 0));
    struct entry *entry = value == NULL ? NULL : packed_entry(index->memory, value);
    TSAN_ACQUIRE(entry);
    return entry;
}

bool index_set(struct index *index, struct reclaimer *reclaimer, struct entry *entry,
               struct entry **previous)
{
    context.index = index;
    context.memory = index->memory;
    context.reclaimer = reclaimer;
    context.may_grow = is_crowded(index, LOAD_EIGHTHS);
    const void *value = pack(entry->hash, memory_handle(index->memory, entry));
    void *old = NULL;
    TSAN_RELEASE(entry);
    bool is_set = ck_hs_set(&index->table, spread(entry->hash), value, &old);
    if (UNLIKELY(!is_set) && !context.may_grow) { /* no slot within the longest probe */
        context.may_grow = true;
        is_set = ck_hs_set(&index->table, spread(entry->hash), value, &old);
    }
    if (!is_set)
        return false;
    *previous = old == NULL ? NULL : packed_entry(index->memory, old);
    return true;
}

void index_remove(struct index *index, const struct entry *entry)
{
    context.memory = index->memory;
    const void *value = pack(entry->hash, memory_handle(index->memory, entry));
    ensure(ck_hs_remove(&index->table, spread(entry->hash), value) == value);
}

bool index_iterate(struct index *index, struct index_walk *walk, uint32_t slots,
                   index_visit_fn visit, void *arg)
{
    if (walk->map != index->table.map)
        *walk = (struct index_walk){.map = index->table.map};
    ck_hs_iterator_t iterator = CK_HS_ITERATOR_INITIALIZER;
    iterator.offset = walk->at;
    unsigned long end = walk->at + slots;
    void *value;
    while (iterator.offset < end) {
        if (!ck_hs_next(&index->table, &iterator, &value))
            return false;
        visit(arg, packed_entry(index->memory, value));
    }
    walk->at = iterator.offset;
    return true;
}

void index_tidy(struct index *index, uint32_t entries, unsigned long begin)
{
    context.memory = index->memory;
    /* In a nearly empty table it would look for entries for long, and there is nothing to gain. */
    if (ck_hs_count(&index->table) > entries)
        (void)ck_hs_gc(&index->table, entries, begin);
}

bool index_is_full(const struct index *index)
{
    return is_crowded(index, FULL_EIGHTHS);
}

size_t index_growth_bytes(const struct index *index)
{
    return is_crowded(index, LOAD_EIGHTHS) ? 2 * index->table_bytes : 0;
}

void index_grow(struct index *index, struct reclaimer *reclaimer)
{
    context.index = index;
    context.memory = index->memory;
    context.reclaimer = reclaimer;
    context.may_grow = true;
    unsigned long slots = 1;
    while (2 * slots <= capacity(index))
        slots *= 2;
    (void)ck_hs_grow(&index->table, 2 * slots);
}

size_t index_count(const struct index *index)
{
    return ck_hs_count((ck_hs_t *)&index->table);
}
