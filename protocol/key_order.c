#include "protocol/key_order.h"

enum { KEY_ESCAPE = 0x00, KEY_ESCAPED_ZERO = 0xff, KEY_END = 0x01 };

/* Copies up to the end, turning 00 into 00 FF. */
static uint8_t *write_escaped(uint8_t *out, struct bytes bytes)
{
    const uint8_t *at = bytes.data;
    size_t left = bytes.size;
    while (left != 0) {
        const uint8_t *zero = memchr(at, KEY_ESCAPE, left);
        size_t plain = zero == NULL ? left : (size_t)(zero - at);
        memcpy(out, at, plain);
        out += plain;
        if (zero == NULL)
            break;
        *out++ = KEY_ESCAPE;
        *out++ = KEY_ESCAPED_ZERO;
        at += plain + 1;
        left -= plain + 1;
    }
    return out;
}

uint8_t *key_part_write(uint8_t *out, enum value_type type, struct bytes bytes, bool is_last)
{
    if (is_last || type == VALUE_N) {
        if (bytes.size != 0)
            memcpy(out, bytes.data, bytes.size);
        return out + bytes.size;
    }
    out = write_escaped(out, bytes);
    *out++ = KEY_ESCAPE;
    *out++ = KEY_END;
    return out;
}

/* Finds the terminator. `size`: the part with its terminator; `escapes`: how many zeros are inside.
 */
static bool find_end(struct bytes in, size_t *size, size_t *escapes)
{
    size_t at = 0;
    *escapes = 0;
    while (at < in.size) {
        const uint8_t *zero = memchr(in.data + at, KEY_ESCAPE, in.size - at);
        if (zero == NULL)
            return false;
        at = (size_t)(zero - in.data) + 1;
        if (at == in.size)
            return false;
        uint8_t mark = in.data[at++];
        if (mark == KEY_END) {
            *size = at;
            return true;
        }
        if (mark != KEY_ESCAPED_ZERO)
            return false;
        (*escapes)++;
    }
    return false;
}

static struct bytes undo_escapes(struct bytes escaped, size_t escapes, struct arena *arena)
{
    uint8_t *copy = arena_alloc(arena, escaped.size - escapes);
    if (copy == NULL)
        return BYTES_NONE;
    uint8_t *out = copy;
    for (size_t at = 0; at < escaped.size; at++) {
        *out++ = escaped.data[at];
        if (escaped.data[at] == KEY_ESCAPE)
            at++; /* its FF */
    }
    return bytes_of(copy, escaped.size - escapes);
}

bool key_part_read(struct bytes in, enum value_type type, bool is_last, struct arena *arena,
                   struct bytes *out, size_t *used)
{
    if (type == VALUE_N) {
        struct number number;
        size_t size = 0;
        if (!number_from_ordered(in, &number, &size))
            return false;
        *out = bytes_of(in.data, size);
        *used = size;
        return true;
    }
    if (is_last) {
        *out = in;
        *used = in.size;
        return true;
    }
    size_t size = 0;
    size_t escapes = 0;
    if (!find_end(in, &size, &escapes))
        return false;
    struct bytes contents = bytes_of(in.data, size - 2);
    if (escapes != 0) {
        contents = undo_escapes(contents, escapes, arena);
        if (!bytes_given(contents))
            return false;
    }
    *out = contents;
    *used = size;
    return true;
}

bool item_key_split(struct bytes key, const struct key_schema *schema, struct item_key *out)
{
    struct number number;
    size_t size = key.size, escapes;
    if (schema->partition.type == VALUE_N) {
        if (!number_from_ordered(key, &number, &size))
            return false;
    } else if (key_schema_has_sort(schema) && !find_end(key, &size, &escapes)) {
        return false;
    }
    *out = (struct item_key){key, size};
    return true;
}

bool bytes_prefix_end(struct bytes prefix, struct arena *arena, struct bytes *out,
                      bool *is_unbounded)
{
    size_t size = prefix.size;
    while (size != 0 && prefix.data[size - 1] == 0xff)
        size--;
    *is_unbounded = size == 0;
    if (size == 0) {
        *out = BYTES_NONE;
        return true;
    }
    uint8_t *end = arena_alloc(arena, size);
    if (end == NULL)
        return false;
    memcpy(end, prefix.data, size);
    end[size - 1]++;
    *out = bytes_of(end, size);
    return true;
}

bool bytes_next(struct bytes bytes, struct arena *arena, struct bytes *out)
{
    uint8_t *next = arena_alloc(arena, bytes.size + 1);
    if (next == NULL)
        return false;
    if (bytes.size != 0)
        memcpy(next, bytes.data, bytes.size);
    next[bytes.size] = 0;
    *out = bytes_of(next, bytes.size + 1);
    return true;
}
