/* buffer.h - bytes that grow at the end.
 *
 * Threads: one at a time. */
#pragma once

#include "protocol/attributes.h"
#include "protocol/bytes.h"

struct buffer {
    uint8_t *data; /* heap, owned */
    size_t size, capacity;
};

/* Makes room for `more` bytes behind the end; the size stays. False when there is no memory. */
MUST_CHECK bool buffer_reserve(struct buffer *buffer, size_t more);
MUST_CHECK bool buffer_append(struct buffer *buffer, struct bytes bytes);
void buffer_deinit(struct buffer *buffer);

static inline struct bytes buffer_bytes(const struct buffer *buffer)
{
    return bytes_of(buffer->data, buffer->size);
}
