#include "backend/engine/heat_keys.h"

#include <stdlib.h>

struct heat_keys *heat_keys_create(uint64_t now_us)
{
    struct heat_keys *keys = calloc(1, sizeof *keys);
    if (keys == NULL)
        return NULL;
    mutex_init(&keys->lock);
    keys->window_us = now_us;
    return keys;
}

void heat_keys_destroy(struct heat_keys *keys)
{
    if (keys == NULL)
        return;
    mutex_deinit(&keys->lock);
    free(keys);
}

static void halve(struct heat_keys *keys)
{
    for (uint32_t i = 0; i < keys->used; i++) {
        keys->keys[i].half_units[0] /= 2;
        keys->keys[i].half_units[1] /= 2;
        keys->keys[i].error /= 2;
    }
    keys->weight_us = (keys->weight_us + HEAT_KEYS_WINDOW_US) / 2;
    keys->window_us += HEAT_KEYS_WINDOW_US;
}

static void age(struct heat_keys *keys, uint64_t now_us)
{
    for (int i = 0; i < 64 && now_us >= keys->window_us + HEAT_KEYS_WINDOW_US; i++)
        halve(keys);
    if (now_us >= keys->window_us + HEAT_KEYS_WINDOW_US)
        keys->window_us = now_us; /* nothing is left of the counts */
}

static uint64_t cost(const struct heat_key *key)
{
    return key->half_units[0] + key->half_units[1];
}

static void set_key(struct heat_key *key, const struct position *position)
{
    key->hash = position->hash;
    key->is_cut = position->key.size > HEAT_KEY_ROOM;
    key->size = key->is_cut ? HEAT_KEY_ROOM : (uint16_t)position->key.size;
    memcpy(key->key, position->key.data, key->size);
}

static struct heat_key *place_of(struct heat_keys *keys, const struct position *position)
{
    struct heat_key *least = &keys->keys[0];
    for (uint32_t i = 0; i < keys->used; i++) {
        struct heat_key *key = &keys->keys[i];
        if (key->hash == position->hash)
            return key;
        if (cost(key) < cost(least))
            least = key;
    }
    if (keys->used < HEAT_KEYS) {
        least = &keys->keys[keys->used++];
        *least = (struct heat_key){.hash = 0};
    }
    least->error = cost(least);
    set_key(least, position);
    return least;
}

void heat_keys_count(struct heat_keys *keys, const struct position *position, bool is_write,
                     uint64_t half_units, uint64_t now_us)
{
    if (!mutex_try(&keys->lock))
        return;
    age(keys, now_us);
    place_of(keys, position)->half_units[is_write] += half_units;
    mutex_unlock(&keys->lock);
}

/* The error is taken from both sides as they are. */
static uint64_t tenths(const struct heat_key *key, bool is_write, double seconds)
{
    double sure = (double)(cost(key) - key->error) / (double)cost(key);
    return (uint64_t)((double)key->half_units[is_write] * sure * 5 / seconds + 0.5);
}

static int by_cost(const void *a, const void *b)
{
    const struct heat_keys_line *left = a, *right = b;
    uint64_t left_sum = left->tenths[0] + left->tenths[1];
    uint64_t right_sum = right->tenths[0] + right->tenths[1];
    return left_sum > right_sum ? -1 : left_sum < right_sum;
}

size_t heat_keys_list(struct heat_keys *keys, uint64_t now_us,
                      struct heat_keys_line out[HEAT_KEYS_SHOWN])
{
    struct heat_keys_line lines[HEAT_KEYS];
    size_t count = 0;
    mutex_lock(&keys->lock);
    age(keys, now_us);
    uint64_t begun_us = now_us > keys->window_us ? now_us - keys->window_us : 0;
    double seconds = (double)(keys->weight_us + begun_us) / 1e6;
    for (uint32_t i = 0; seconds >= 1 && i < keys->used; i++) {
        const struct heat_key *key = &keys->keys[i];
        if (cost(key) == 0)
            continue;
        lines[count] = (struct heat_keys_line){
            .key = *key, .tenths = {tenths(key, false, seconds), tenths(key, true, seconds)}};
        count += lines[count].tenths[0] + lines[count].tenths[1] != 0;
    }
    mutex_unlock(&keys->lock);
    if (count == 0)
        return 0;
    qsort(lines, count, sizeof *lines, by_cost);
    count = count < HEAT_KEYS_SHOWN ? count : HEAT_KEYS_SHOWN;
    memcpy(out, lines, count * sizeof *lines);
    return count;
}
