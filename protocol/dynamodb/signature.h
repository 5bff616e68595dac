/* signature.h - whether a request is signed by somebody who may ask.
 *
 * The texts of refusals are DynamoDB's, and so is the order in which mistakes are told. Region and
 * session token may be any. Threads: pure functions. */
#pragma once

#include "protocol/dynamodb/http1.h"
#include "protocol/sigv4.h"

enum { SIGNATURE_WINDOW_S = 300 }; /* a request may be so much older or newer than now */

/* Checks the signature of a whole message over its body as it came.
 * unix_s  the time
 * Errors: STATUS_MISSING_TOKEN, STATUS_INCOMPLETE_SIGNATURE, STATUS_UNRECOGNIZED_CLIENT,
 * STATUS_INVALID_SIGNATURE, STATUS_NO_MEMORY. */
MUST_CHECK enum status signature_check(const struct access_keys *keys, uint64_t unix_s,
                                       const struct http1_message *message, struct arena *arena,
                                       struct error *error);
