#include "backend/engine/heat.h"

#include <stdlib.h>

enum {
    WHOLE_BURST_US = 300 * 1000 * 1000,
    PART_BURST_US = 1000 * 1000,
    HALF_UNIT_US = 500 * 1000, /* at one unit a second */
    LOOK_US = 500 * 1000,      /* the least time between two looks */
    SAMPLES_LEAST = 32,
    SHARE_LEAST = 10, /* percent of the samples on the lighter side of a split */
};

static struct heat_partition *partition_create(void)
{
    struct heat_partition *partition = calloc(1, sizeof *partition);
    if (partition != NULL)
        atomic_init(&partition->references, 1);
    return partition;
}

static struct heat_partition *partition_ref(struct heat_partition *partition)
{
    atomic_fetch_add_explicit(&partition->references, 1, memory_order_relaxed);
    return partition;
}

static void partition_unref(struct heat_partition *partition)
{
    if (partition == NULL ||
        atomic_fetch_sub_explicit(&partition->references, 1, memory_order_acq_rel) != 1)
        return;
    struct heat_samples *samples = atomic_load(&partition->samples);
    if (samples != NULL)
        mutex_deinit(&samples->lock);
    free(samples);
    heat_keys_destroy(atomic_load(&partition->keys));
    free(partition);
}

struct heat *heat_create(uint32_t id, uint32_t partitions)
{
    struct heat *heat = calloc(1, sizeof *heat + partitions * sizeof(void *)); /* pointers */
    if (heat == NULL)
        return NULL;
    heat->id = id;
    heat->count = partitions;
    atomic_init(&heat->references, 1);
    heat->whole = partition_create();
    bool is_whole = heat->whole != NULL;
    for (uint32_t i = 0; i < partitions && is_whole; i++) {
        heat->partitions[i] = partition_create();
        is_whole = heat->partitions[i] != NULL;
    }
    if (!is_whole) {
        heat_unref(heat);
        return NULL;
    }
    return heat;
}

struct heat *heat_ref(struct heat *heat)
{
    atomic_fetch_add_explicit(&heat->references, 1, memory_order_relaxed);
    return heat;
}

void heat_unref(struct heat *heat)
{
    if (heat == NULL || atomic_fetch_sub_explicit(&heat->references, 1, memory_order_acq_rel) != 1)
        return;
    for (uint32_t i = 0; i < heat->count; i++)
        partition_unref(heat->partitions[i]);
    partition_unref(heat->whole);
    free(heat);
}

static void share(struct heat_partition **own, struct heat_partition *before)
{
    partition_unref(*own);
    *own = partition_ref(before);
}

/* Ids are less than their map's count; without memory what was is forgotten. */
void heat_inherit(struct heat *heat, const struct partition_map *map, const struct heat *before,
                  const struct partition_map *map_before)
{
    share(&heat->whole, before->whole);
    struct heat_partition **by_id = calloc(map_before->count, sizeof(struct heat_partition *));
    if (by_id == NULL)
        return;
    for (uint32_t i = 0; i < map_before->count; i++)
        by_id[map_before->partitions[i].id] = before->partitions[i];
    for (uint32_t i = 0; i < map->count; i++)
        if (map->partitions[i].id < map_before->count)
            share(&heat->partitions[i], by_id[map->partitions[i].id]);
    free(by_id);
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
    struct heat_partition *own = heat->partitions[partition];
    if (is_paid(&heat->whole->paid_until_us[is_write], rate_of(whole, is_write), now_us,
                WHOLE_BURST_US) &&
        is_paid(&own->paid_until_us[is_write], rate_of(part, is_write), now_us, PART_BURST_US))
        return true;
    atomic_fetch_add_explicit(&own->refused, 1, memory_order_relaxed);
    return false;
}

void heat_count(struct heat *heat, uint32_t partition, bool is_write, uint64_t half_units)
{
    atomic_fetch_add_explicit(&heat->partitions[partition]->half_units[is_write], half_units,
                              memory_order_relaxed);
}

void heat_pay(struct heat *heat, uint32_t partition, bool is_write, uint64_t half_units,
              uint64_t now_us, const struct heat_rates *whole, const struct heat_rates *part)
{
    struct heat_partition *own = heat->partitions[partition];
    pay(&heat->whole->paid_until_us[is_write], rate_of(whole, is_write), now_us, half_units);
    pay(&own->paid_until_us[is_write], rate_of(part, is_write), now_us, half_units);
}

/* ---- hot keys ---- */

/* NULL without memory. */
static struct heat_keys *keys_of(struct heat_partition *whole, uint64_t now_us)
{
    struct heat_keys *keys = atomic_load_explicit(&whole->keys, memory_order_acquire);
    if (LIKELY(keys != NULL))
        return keys;
    struct heat_keys *made = heat_keys_create(now_us);
    if (made == NULL || atomic_compare_exchange_strong(&whole->keys, &keys, made))
        return made;
    heat_keys_destroy(made);
    return keys;
}

void heat_count_key(struct heat *heat, const struct position *position, bool is_write,
                    uint64_t half_units, uint64_t now_us)
{
    if (position->key.size == 0 || half_units == 0)
        return;
    struct heat_keys *keys = keys_of(heat->whole, now_us);
    if (keys != NULL)
        heat_keys_count(keys, position, is_write, half_units, now_us);
}

/* ---- hot partitions ---- */

static void sample_set(struct heat_sample *sample, const struct position *position)
{
    struct bytes key = position->key, end = position->end;
    size_t size = key.size < HEAT_SAMPLE_KEY ? key.size : HEAT_SAMPLE_KEY;
    size_t more = end.size < HEAT_SAMPLE_KEY - size ? end.size : HEAT_SAMPLE_KEY - size;
    sample->hash = position->hash;
    sample->key_size = (uint8_t)(size + more);
    if (size != 0)
        memcpy(sample->key, key.data, size);
    if (more != 0)
        memcpy(sample->key + size, end.data, more);
}

/* A reservoir (Vitter's algorithm R) in which a request counts as many times as it has half units;
 * so what costs much takes several places. */
void heat_sample(struct heat *heat, uint32_t partition, const struct position *position,
                 uint64_t half_units, uint64_t random)
{
    struct heat_samples *samples =
        atomic_load_explicit(&heat->partitions[partition]->samples, memory_order_acquire);
    if (LIKELY(samples == NULL) || !mutex_try(&samples->lock))
        return;
    uint64_t most = half_units < HEAT_SAMPLES ? half_units : HEAT_SAMPLES;
    for (uint64_t i = 0; i < most; i++) {
        uint64_t place = samples->seen < HEAT_SAMPLES ? samples->seen : random % samples->seen;
        if (place < HEAT_SAMPLES)
            sample_set(&samples->of[place], position);
        samples->seen++;
        random = random * 6364136223846793005u + 1442695040888963407u;
        random ^= random >> 29;
    }
    mutex_unlock(&samples->lock);
}

static bool is_near(struct heat_partition *own, bool is_write, uint64_t elapsed_us, uint64_t rate)
{
    uint_fast64_t now = atomic_load(&own->half_units[is_write]);
    uint_fast64_t before = atomic_exchange(&own->seen_half_units[is_write], now);
    return rate != 0 && (unsigned __int128)(now - before) * HALF_UNIT_US * 8 >=
                            (unsigned __int128)elapsed_us * rate * 7;
}

/* False without memory. */
static bool begin_samples(struct heat_partition *own)
{
    struct heat_samples *samples = atomic_load(&own->samples);
    if (samples == NULL) {
        samples = calloc(1, sizeof *samples);
        if (samples == NULL)
            return false;
        mutex_init(&samples->lock);
        atomic_store_explicit(&own->samples, samples, memory_order_release);
    }
    mutex_lock(&samples->lock);
    samples->seen = 0;
    mutex_unlock(&samples->lock);
    return true;
}

bool heat_is_hot(struct heat *heat, uint32_t partition, uint64_t now_us, uint64_t long_us,
                 const struct heat_rates *part)
{
    struct heat_partition *own = heat->partitions[partition];
    uint64_t looked_at_us = atomic_load(&own->looked_at_us), since_us;
    if (now_us < looked_at_us + LOOK_US)
        return false;
    atomic_store(&own->looked_at_us, now_us);
    bool is_reading = is_near(own, false, now_us - looked_at_us, part->read);
    bool is_writing = is_near(own, true, now_us - looked_at_us, part->write);
    since_us = atomic_load(&own->hot_since_us);
    if (looked_at_us == 0 || (!is_reading && !is_writing)) {
        atomic_store(&own->hot_since_us, 0);
        return false;
    }
    if (since_us == 0) {
        if (begin_samples(own))
            atomic_store(&own->hot_since_us, now_us);
        return false;
    }
    return now_us - since_us >= long_us;
}

void heat_cool(struct heat *heat, uint32_t partition)
{
    atomic_store(&heat->partitions[partition]->hot_since_us, 0);
}

static struct bytes sample_key(const struct heat_sample *sample)
{
    return bytes_of(sample->key, sample->key_size);
}

static int compare_samples(const void *a, const void *b)
{
    const struct heat_sample *one = a, *other = b;
    if (one->hash != other->hash)
        return one->hash < other->hash ? -1 : 1;
    return bytes_compare(sample_key(one), sample_key(other));
}

/* The place nearest to the middle at which sorted samples can be parted; 0: there is none. */
static size_t find_middle(const struct heat_sample *samples, size_t count, bool may_be_inside)
{
    size_t best = 0, best_distance = count;
    for (size_t i = 1; i < count; i++) {
        size_t distance = i < count / 2 ? count / 2 - i : i - count / 2;
        bool is_border = samples[i].hash != samples[i - 1].hash ||
                         (may_be_inside && compare_samples(&samples[i], &samples[i - 1]) != 0);
        if (!is_border || distance >= best_distance)
            continue;
        best = i;
        best_distance = distance;
    }
    size_t lighter = best < count - best ? best : count - best;
    return lighter * 100 >= count * SHARE_LEAST ? best : 0;
}

bool heat_middle(struct heat *heat, uint32_t partition, bool may_be_inside, struct arena *arena,
                 struct position *position)
{
    struct heat_samples *samples = atomic_load(&heat->partitions[partition]->samples);
    struct heat_sample *sorted = arena_alloc(arena, sizeof samples->of);
    if (samples == NULL || sorted == NULL)
        return false;
    mutex_lock(&samples->lock);
    size_t count = samples->seen < HEAT_SAMPLES ? samples->seen : HEAT_SAMPLES;
    memcpy(sorted, samples->of, count * sizeof *sorted);
    mutex_unlock(&samples->lock);
    if (count < SAMPLES_LEAST)
        return false;
    qsort(sorted, count, sizeof *sorted, compare_samples);
    size_t at = find_middle(sorted, count, may_be_inside);
    if (at == 0)
        return false;
    *position = (struct position){.hash = sorted[at].hash, .key = BYTES_LITERAL("")};
    if (sorted[at].hash == sorted[at - 1].hash)
        position->key = partition_separator(sample_key(&sorted[at - 1]), sample_key(&sorted[at]));
    return true;
}
