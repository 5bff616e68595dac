#include "bench/load/keys.h"

#include <math.h>

static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15ull;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

static double zeta(uint64_t count, double theta)
{
    double sum = 0;
    for (uint64_t i = 1; i <= count; i++)
        sum += 1 / pow((double)i, theta);
    return sum;
}

void keys_init(struct keys *keys, uint64_t count, double theta, uint64_t seed)
{
    *keys = (struct keys){.count = count, .state = seed, .is_zipf = theta > 0, .theta = theta};
    if (!keys->is_zipf)
        return;
    keys->zeta = zeta(count, theta);
    keys->alpha = 1 / (1 - theta);
    keys->eta = (1 - pow(2.0 / (double)count, 1 - theta)) / (1 - zeta(2, theta) / keys->zeta);
}

uint64_t keys_next(struct keys *keys)
{
    uint64_t random = mix(keys->state++);
    if (!keys->is_zipf)
        return (uint64_t)(((unsigned __int128)random * keys->count) >> 64);
    double u = (double)(random >> 11) * 0x1p-53, uz = u * keys->zeta;
    uint64_t rank;
    if (uz < 1)
        rank = 0;
    else if (uz < 1 + pow(0.5, keys->theta))
        rank = 1;
    else
        rank = (uint64_t)((double)keys->count * pow(keys->eta * u - keys->eta + 1, keys->alpha));
    return mix(rank) % keys->count;
}
