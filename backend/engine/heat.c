#include "backend/engine/heat.h"

#include <stdlib.h>

enum {
    WHOLE_BURST_US = 300 * 1000 * 1000,
    PART_BURST_US = 1000 * 1000,
    HALF_UNIT_US = 500 * 1000, /* at one unit a second */
};

struct heat *heat_create(uint32_t id, uint32_t partitions)
{
    struct heat *heat = calloc(1, sizeof *heat + partitions * sizeof heat->partitions[0]);
    if (heat == NULL)
        return NULL;
    heat->id = id;
    heat->count = partitions;
    atomic_init(&heat->references, 1);
    return heat;
}

struct heat *heat_ref(struct heat *heat)
{
    atomic_fetch_add_explicit(&heat->references, 1, memory_order_relaxed);
    return heat;
}

void heat_unref(struct heat *heat)
{
    if (heat != NULL && atomic_fetch_sub_explicit(&heat->references, 1, memory_order_acq_rel) == 1)
        free(heat);
}

static uint64_t rate_of(const struct heat_rates *rates, bool is_write)
{
    return is_write ? rates->write : rates->read;
}

static bool is_paid(const atomic_uint_fast64_t *paid_until_us, uint64_t rate, uint64_t now_us,
                    uint64_t burst_us)
{
    return rate == 0 || atomic_load_explicit((atomic_uint_fast64_t *)paid_until_us,
                                             memory_order_relaxed) < now_us + burst_us;
}

static void pay(atomic_uint_fast64_t *paid_until_us, uint64_t rate, uint64_t now_us,
                uint64_t half_units)
{
    if (rate == 0)
        return;
    uint64_t cost_us = half_units * HALF_UNIT_US / rate;
    uint_fast64_t before = atomic_load_explicit(paid_until_us, memory_order_relaxed), after;
    do
        after = (before > now_us ? before : now_us) + cost_us;
    while (!atomic_compare_exchange_weak_explicit(paid_until_us, &before, after,
                                                  memory_order_relaxed, memory_order_relaxed));
}

bool heat_admits(struct heat *heat, uint32_t partition, bool is_write, uint64_t now_us,
                 const struct heat_rates *whole, const struct heat_rates *part)
{
    struct heat_partition *own = &heat->partitions[partition];
    if (is_paid(&heat->paid_until_us[is_write], rate_of(whole, is_write), now_us, WHOLE_BURST_US) &&
        is_paid(&own->paid_until_us[is_write], rate_of(part, is_write), now_us, PART_BURST_US))
        return true;
    atomic_fetch_add_explicit(&own->refused, 1, memory_order_relaxed);
    return false;
}

void heat_consume(struct heat *heat, uint32_t partition, bool is_write, uint64_t half_units,
                  uint64_t now_us, const struct heat_rates *whole, const struct heat_rates *part)
{
    struct heat_partition *own = &heat->partitions[partition];
    atomic_fetch_add_explicit(&own->half_units[is_write], half_units, memory_order_relaxed);
    pay(&heat->paid_until_us[is_write], rate_of(whole, is_write), now_us, half_units);
    pay(&own->paid_until_us[is_write], rate_of(part, is_write), now_us, half_units);
}
