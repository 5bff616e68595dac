/* bytes.h - a view of bytes that somebody else owns.
 *
 * {NULL, 0} means "not given"; an empty but given value has a non-NULL pointer. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct bytes {
    const uint8_t *data;
    size_t size;
};

#define BYTES_NONE          ((struct bytes){NULL, 0})
#define BYTES_LITERAL(text) ((struct bytes){(const uint8_t *)(text), sizeof(text) - 1})

static inline struct bytes bytes_of(const void *data, size_t size)
{
    return (struct bytes){data, size};
}

/* text  NUL-terminated, borrowed */
static inline struct bytes bytes_text(const char *text)
{
    return (struct bytes){(const uint8_t *)text, strlen(text)};
}

static inline bool bytes_given(struct bytes bytes)
{
    return bytes.data != NULL;
}

static inline bool bytes_equal(struct bytes a, struct bytes b)
{
    return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

/* Order of unsigned bytes; a prefix comes before what it begins. Negative, 0 or positive. */
static inline int bytes_compare(struct bytes a, struct bytes b)
{
    size_t common = a.size < b.size ? a.size : b.size;
    int order = common == 0 ? 0 : memcmp(a.data, b.data, common);
    return order != 0 ? order : (a.size > b.size) - (a.size < b.size);
}

static inline bool bytes_begin_with(struct bytes bytes, struct bytes prefix)
{
    return prefix.size <= bytes.size &&
           (prefix.size == 0 || memcmp(bytes.data, prefix.data, prefix.size) == 0);
}
