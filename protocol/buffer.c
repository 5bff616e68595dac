#include "protocol/buffer.h"

#include <stdlib.h>

enum { BUFFER_CAPACITY_MIN = 256 };

bool buffer_reserve(struct buffer *buffer, size_t more)
{
    if (more <= buffer->capacity - buffer->size)
        return true;
    if (more > SIZE_MAX / 2 - buffer->size)
        return false;
    size_t capacity =
        buffer->capacity < BUFFER_CAPACITY_MIN ? BUFFER_CAPACITY_MIN : buffer->capacity;
    while (capacity < buffer->size + more)
        capacity *= 2;
    uint8_t *data = realloc(buffer->data, capacity);
    if (data == NULL)
        return false;
    buffer->data = data;
    buffer->capacity = capacity;
    return true;
}

bool buffer_append(struct buffer *buffer, struct bytes bytes)
{
    if (!buffer_reserve(buffer, bytes.size))
        return false;
    if (bytes.size != 0)
        memcpy(buffer->data + buffer->size, bytes.data, bytes.size);
    buffer->size += bytes.size;
    return true;
}

void buffer_deinit(struct buffer *buffer)
{
    free(buffer->data);
    *buffer = (struct buffer){0};
}
