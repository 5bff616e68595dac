#include "cache/tally.h"

#include "protocol/ensure.h"

static struct tally *row_at(const struct tallies *tallies, unsigned policy)
{
    return atomic_load_explicit((_Atomic(struct tally *) *)&tallies->rows[policy],
                                memory_order_acquire);
}

/* NULL without memory: not counted. */
static struct tally *row_of(struct tallies *tallies, struct memory *memory, unsigned policy)
{
    ensure(policy < CACHE_POLICIES_MAX);
    struct tally *row = row_at(tallies, policy);
    if (row != NULL)
        return row;
    row = memory_heap_alloc(memory, sizeof *row);
    if (row == NULL)
        return NULL;
    memset(row, 0, sizeof *row);
    atomic_store_explicit(&tallies->rows[policy], row, memory_order_release);
    return row;
}

static uint64_t get(const atomic_uint_fast64_t *count)
{
    return atomic_load_explicit((atomic_uint_fast64_t *)count, memory_order_relaxed);
}

static void add(atomic_uint_fast64_t *count, uint64_t more)
{
    atomic_store_explicit(count, get(count) + more, memory_order_relaxed);
}

void tally_hit(struct tallies *tallies, struct memory *memory, unsigned policy,
               enum entry_kind kind, uint64_t half_units)
{
    struct tally *row = row_of(tallies, memory, policy);
    if (row == NULL)
        return;
    add(&row->hits[kind - 1], 1);
    add(&row->half_units_saved, half_units);
}

void tally_miss(struct tallies *tallies, struct memory *memory, unsigned policy,
                enum entry_kind kind, unsigned reason)
{
    ensure(reason < MISS_REASONS);
    struct tally *row = row_of(tallies, memory, policy);
    if (row != NULL)
        add(&row->misses[kind - 1][reason], 1);
}

void tally_stale(struct tallies *tallies, struct memory *memory, unsigned policy, bool is_excuse)
{
    struct tally *row = row_of(tallies, memory, policy);
    if (row != NULL)
        add(is_excuse ? &row->stale_excuses : &row->stale_hits, 1);
}

void tally_shadow(struct tallies *tallies, struct memory *memory, unsigned policy, bool is_same)
{
    struct tally *row = row_of(tallies, memory, policy);
    if (row != NULL)
        add(is_same ? &row->shadow_same : &row->shadow_unlike, 1);
}

void tallies_deinit(struct tallies *tallies, struct memory *memory)
{
    for (unsigned i = 0; i < CACHE_POLICIES_MAX; i++)
        if (row_at(tallies, i) != NULL)
            memory_heap_free(memory, row_at(tallies, i), sizeof(struct tally));
}

void tallies_sum(const struct tallies *tallies, unsigned policy, struct tally *sum)
{
    const struct tally *row = row_at(tallies, policy);
    if (row == NULL)
        return;
    add(&sum->half_units_saved, get(&row->half_units_saved));
    add(&sum->stale_hits, get(&row->stale_hits));
    add(&sum->stale_excuses, get(&row->stale_excuses));
    add(&sum->shadow_same, get(&row->shadow_same));
    add(&sum->shadow_unlike, get(&row->shadow_unlike));
    for (unsigned kind = 0; kind < ENTRY_KINDS; kind++) {
        add(&sum->hits[kind], get(&row->hits[kind]));
        for (unsigned reason = 0; reason < MISS_REASONS; reason++)
            add(&sum->misses[kind][reason], get(&row->misses[kind][reason]));
    }
}
