/* token.h - random tokens for transactions.
 *
 * Threads: any. */
#pragma once

#include "protocol/attributes.h"

#include <stdbool.h>

enum { TOKEN_SIZE = 37 }; /* a UUID as text, and a NUL */

/* A random UUID. False when the system has no randomness. Source: RFC 4122, section 4.4. */
MUST_CHECK bool token_make(char out[TOKEN_SIZE]);
