#include "protocol/hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

_Static_assert(sizeof(((struct hash_secret *)0)->bytes) >= XXH3_SECRET_SIZE_MIN, "XXH3 secret");

uint64_t hash_partition(struct bytes partition)
{
    return XXH3_64bits(partition.data, partition.size);
}

void hash_secret_init(struct hash_secret *secret, uint64_t seed)
{
    XXH3_generateSecret(secret->bytes, sizeof secret->bytes, &seed, sizeof seed);
}

uint64_t hash_secret_apply(const struct hash_secret *secret, struct bytes bytes)
{
    return XXH3_64bits_withSecret(bytes.data, bytes.size, secret->bytes, sizeof secret->bytes);
}
