#include "protocol/sigv4.h"

#include "protocol/ensure.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <limits.h>
#include <stdio.h>

enum {
    DIGEST = 32,
};

static void put_hex(const uint8_t digest[DIGEST], char out[SIGV4_HEX])
{
    for (size_t i = 0; i < DIGEST; i++) {
        out[2 * i] = "0123456789abcdef"[digest[i] >> 4];
        out[2 * i + 1] = "0123456789abcdef"[digest[i] & 15];
    }
}

bool sigv4_hash(struct bytes bytes, char out[SIGV4_HEX])
{
    uint8_t digest[DIGEST];
    const void *data = bytes_given(bytes) ? (const void *)bytes.data : "";
    if (EVP_Digest(data, bytes.size, digest, NULL, EVP_sha256(), NULL) != 1)
        return false;
    put_hex(digest, out);
    return true;
}

static bool hmac(struct bytes key, struct bytes text, uint8_t out[DIGEST])
{
    return key.size <= INT_MAX &&
           HMAC(EVP_sha256(), key.data, (int)key.size, text.data, text.size, out, NULL) != NULL;
}

/* The key for one day, region and service. */
static bool derive_key(struct bytes secret, const struct sigv4_scope *scope, uint8_t key[DIGEST])
{
    uint8_t first[4 + SIGV4_SECRET_MAX] = "AWS4";
    ensure(secret.size <= SIGV4_SECRET_MAX);
    memcpy(first + 4, secret.data, secret.size);
    bool is_derived = hmac(bytes_of(first, 4 + secret.size), scope->date, key) &&
                      hmac(bytes_of(key, DIGEST), scope->region, key) &&
                      hmac(bytes_of(key, DIGEST), scope->service, key) &&
                      hmac(bytes_of(key, DIGEST), BYTES_LITERAL("aws4_request"), key);
    OPENSSL_cleanse(first, sizeof first);
    return is_derived;
}

bool sigv4_sign(struct bytes secret, const struct sigv4_scope *scope, struct bytes time,
                struct bytes canonical_request, char out[SIGV4_HEX])
{
    ensure(time.size <= SIGV4_PART_MAX && scope->date.size <= SIGV4_PART_MAX &&
           scope->region.size <= SIGV4_PART_MAX && scope->service.size <= SIGV4_PART_MAX);
    char hash[SIGV4_HEX];
    char text[64 + 4 * SIGV4_PART_MAX + SIGV4_HEX];
    uint8_t key[DIGEST], digest[DIGEST];
    if (!sigv4_hash(canonical_request, hash) || !derive_key(secret, scope, key))
        return false;
    int size = snprintf(
        text, sizeof text, "AWS4-HMAC-SHA256\n%.*s\n%.*s/%.*s/%.*s/aws4_request\n%.*s",
        (int)time.size, (const char *)time.data, (int)scope->date.size,
        (const char *)scope->date.data, (int)scope->region.size, (const char *)scope->region.data,
        (int)scope->service.size, (const char *)scope->service.data, SIGV4_HEX, hash);
    bool is_signed = hmac(bytes_of(key, DIGEST), bytes_of(text, (size_t)size), digest);
    if (is_signed)
        put_hex(digest, out);
    OPENSSL_cleanse(key, sizeof key);
    return is_signed;
}

bool sigv4_equal(struct bytes a, struct bytes b)
{
    return a.size == b.size && CRYPTO_memcmp(a.data, b.data, a.size) == 0;
}
