/* sigv4.h - AWS Signature Version 4: the arithmetic of it, for whoever signs and whoever checks.
 *
 * Source: AWS IAM user guide, "Create a signed AWS API request". Threads: pure functions. */
#pragma once

#include "protocol/attributes.h"
#include "protocol/bytes.h"

/* Who may ask. */
struct access_key {
    struct bytes id, secret;
};

struct access_keys {
    const struct access_key *keys;
    size_t count;
};

enum {
    SIGV4_HEX = 64,         /* digits of a SHA-256; no NUL */
    SIGV4_PART_MAX = 64,    /* of a scope, and a time */
    SIGV4_SECRET_MAX = 256, /* AWS's have 40 */
};

/* What a signature is bound to, besides what is signed. */
struct sigv4_scope {
    struct bytes date;            /* YYYYMMDD */
    struct bytes region, service; /* each up to SIGV4_PART_MAX */
};

/* SHA-256 in small hexadecimal digits. False without memory. */
MUST_CHECK bool sigv4_hash(struct bytes bytes, char out[SIGV4_HEX]);

/* The signature of a canonical request.
 * time  YYYYMMDDTHHMMSSZ, as the request has it
 * False without memory. */
MUST_CHECK bool sigv4_sign(struct bytes secret, const struct sigv4_scope *scope, struct bytes time,
                           struct bytes canonical_request, char out[SIGV4_HEX]);

/* In a time that tells nothing of where they differ. */
MUST_CHECK bool sigv4_equal(struct bytes a, struct bytes b);
