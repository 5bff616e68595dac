#include "cache/misses.h"

#include "protocol/ensure.h"

const char *miss_reason_name(unsigned reason)
{
    static const char *const names[MISS_REASONS] = {
        [SHARD_PUT] = "put",
        [SHARD_UPDATED] = "update",
        [SHARD_DELETED] = "delete",
        [SHARD_BATCH] = "batch",
        [SHARD_TRANSACTION] = "transaction",
        [SHARD_TIME_TO_LIVE] = "time_to_live",
        [SHARD_UNLIKE] = "consistent_read_differs",
        [SHARD_TABLE] = "table_changed",
        [SHARD_PURGED] = "purge",
        [SHARD_EXPIRED] = "expired",
        [SHARD_EVICTED] = "evicted",
        [MISS_COLD] = "cold",
        [MISS_CONSISTENT] = "consistent_read",
        [MISS_OFF] = "cache_off",
        [MISS_UNCACHEABLE] = "not_cacheable",
        [MISS_SHADOW] = "shadow",
        [MISS_NOT_KEPT] = "not_kept",
    };
    ensure(reason < MISS_REASONS);
    return names[reason];
}

bool gone_open(struct gone *gone, struct memory *memory, uint32_t count)
{
    ensure(count >= GONE_SLOTS_MIN && (count & (count - 1)) == 0);
    gone->count = count;
    gone->slots = memory_heap_alloc(memory, count * sizeof *gone->slots);
    if (gone->slots != NULL)
        memset(gone->slots, 0, count * sizeof *gone->slots);
    return gone->slots != NULL;
}

void gone_close(struct gone *gone, struct memory *memory)
{
    if (gone->slots != NULL)
        memory_heap_free(memory, gone->slots, gone->count * sizeof *gone->slots);
    gone->slots = NULL;
}

static struct miss_row *row_at(const struct misses *misses, uint32_t i)
{
    return atomic_load_explicit((_Atomic(struct miss_row *) *)&misses->rows[i],
                                memory_order_acquire);
}

static struct miss_row *row_find(const struct misses *misses, const struct table *table)
{
    for (uint32_t i = 0; i < misses->count; i++)
        if (row_at(misses, i)->table_id == table->id)
            return row_at(misses, i);
    for (uint32_t i = 0; i < misses->count; i++)
        if (bytes_equal(bytes_text(row_at(misses, i)->name), table->name))
            return row_at(misses, i);
    return NULL;
}

static struct miss_row *row_make(struct misses *misses, struct memory *memory,
                                 const struct table *table)
{
    struct miss_row *row =
        misses->count == MISS_TABLES ? NULL : memory_heap_alloc(memory, sizeof *row);
    if (row == NULL)
        return NULL;
    memset(row, 0, sizeof *row);
    memcpy(row->name, table->name.data, table->name.size);
    atomic_store_explicit(&misses->rows[misses->count++], row, memory_order_release);
    return row;
}

struct miss_row *misses_row(struct misses *misses, struct memory *memory, const struct table *table)
{
    if (misses->last != NULL && misses->last->table_id == table->id)
        return misses->last;
    struct miss_row *row = row_find(misses, table);
    if (row == NULL)
        row = row_make(misses, memory, table);
    if (row == NULL)
        row = &misses->others;
    row->table_id = table->id;
    return misses->last = row;
}

static void add(atomic_uint_fast64_t *count, uint64_t more)
{
    uint64_t value = atomic_load_explicit(count, memory_order_relaxed);
    atomic_store_explicit(count, value + more, memory_order_relaxed);
}

void misses_count(struct miss_row *row, enum entry_kind kind, unsigned reason)
{
    ensure(reason < MISS_REASONS);
    add(&row->counts[kind - 1][reason], 1);
}

void misses_deinit(struct misses *misses, struct memory *memory)
{
    for (uint32_t i = 0; i < misses->count; i++)
        memory_heap_free(memory, row_at(misses, i), sizeof(struct miss_row));
    misses->count = 0;
}

static void sum_row(struct miss_row *sum, const struct miss_row *row)
{
    for (int kind = 0; kind < ENTRY_KINDS; kind++)
        for (int reason = 0; reason < MISS_REASONS; reason++)
            add(&sum->counts[kind][reason],
                atomic_load_explicit((atomic_uint_fast64_t *)&row->counts[kind][reason],
                                     memory_order_relaxed));
}

void misses_sum(const struct misses *misses, struct miss_row *sums)
{
    for (uint32_t i = 0; i < MISS_TABLES && row_at(misses, i) != NULL; i++) {
        const struct miss_row *row = row_at(misses, i);
        uint32_t at = 0;
        while (at < MISS_TABLES && sums[at].name[0] != '\0' &&
               strcmp(sums[at].name, row->name) != 0)
            at++;
        if (at < MISS_TABLES)
            memcpy(sums[at].name, row->name, sizeof row->name);
        sum_row(&sums[at], row);
    }
    sum_row(&sums[MISS_TABLES], &misses->others);
}
