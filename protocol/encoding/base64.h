/* base64.h - binary values as text: RFC 4648 section 4.
 *
 * Strict: padded, no blanks, unused bits zero. Threads: pure functions. */
#pragma once

#include "protocol/attributes.h"
#include "protocol/bytes.h"

/* Letters that `bytes` bytes take. */
static inline size_t base64_size(size_t bytes)
{
    return (bytes + 2) / 3 * 4;
}

/* out  base64_size() letters; no NUL */
void base64_encode(struct bytes bytes, char *out);

/* out  room for 3 bytes for each four letters
 * False when the text is not base64; `size` is then unspecified. */
MUST_CHECK bool base64_decode(struct bytes text, uint8_t *out, size_t *size);
