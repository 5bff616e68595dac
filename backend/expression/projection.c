#include "backend/expression/projection.h"

#include "protocol/encoding/msgpack.h"

enum {
    MAP_SHORT = 0x80,
    MAP_16 = 0xde,
    ARRAY_SHORT = 0x90,
    ARRAY_16 = 0xdc,
    SHORT_MAX = 15,
};

static size_t write_head(uint8_t *out, bool is_map, uint32_t count)
{
    if (count <= SHORT_MAX) {
        out[0] = (uint8_t)((is_map ? MAP_SHORT : ARRAY_SHORT) | count);
        return 1;
    }
    size_t octets = count <= UINT16_MAX ? 2 : 4;
    out[0] = (uint8_t)((is_map ? MAP_16 : ARRAY_16) + (octets == 4));
    for (size_t i = 0; i < octets; i++)
        out[1 + i] = (uint8_t)(count >> 8 * (octets - 1 - i));
    return 1 + octets;
}

static size_t write_parts(const struct path_node *parent, struct bytes value, uint8_t *out);

/* Appends a value whole, or the parts of it below the node. 0: nothing of it is wanted. */
static size_t write_value(const struct path_node *node, struct bytes value, uint8_t *out)
{
    if (node->first != NULL)
        return write_parts(node, value, out);
    memcpy(out, value.data, value.size);
    return value.size;
}

/* Pairs of a map; `at` moves on. Both are sorted by name. */
static uint32_t write_pairs(const struct path_node *node, struct msgpack_cursor *cursor,
                            uint32_t pairs, uint8_t **at)
{
    uint32_t count = 0;
    for (; pairs != 0 && node != NULL; pairs--) {
        const uint8_t *begin = cursor->at;
        struct bytes name, value;
        if (!msgpack_read_str(cursor, &name))
            break;
        size_t name_size = (size_t)(cursor->at - begin);
        if (!msgpack_skip(cursor, &value))
            break;
        while (node != NULL && bytes_compare(node->name, name) < 0)
            node = node->next;
        if (node == NULL || !bytes_equal(node->name, name))
            continue;
        size_t size = write_value(node, value, *at + name_size);
        if (size == 0)
            continue;
        memcpy(*at, begin, name_size);
        *at += name_size + size;
        count++;
    }
    return count;
}

static uint32_t write_elements(const struct path_node *node, struct msgpack_cursor *cursor,
                               uint32_t elements, uint8_t **at)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < elements && node != NULL; i++) {
        struct bytes value;
        if (!msgpack_skip(cursor, &value))
            break;
        if (node->index != i)
            continue;
        size_t size = write_value(node, value, *at);
        *at += size;
        count += size != 0;
        node = node->next;
    }
    return count;
}

/* What is below the children of a node, in a map or list of the same kind; 0: nothing. The parts
 * never need more room than the whole: each is there once, and the head does not grow. */
static size_t write_parts(const struct path_node *parent, struct bytes value, uint8_t *out)
{
    const struct path_node *first = parent->first;
    struct msgpack_cursor cursor = msgpack_cursor_of(value);
    struct msgpack_head head;
    bool is_map = bytes_given(first->name);
    if (!msgpack_read(&cursor, &head) || head.kind != (is_map ? MSGPACK_MAP : MSGPACK_ARRAY))
        return 0;
    size_t head_size = (size_t)(cursor.at - value.data);
    uint8_t *at = out + head_size;
    uint32_t count = is_map ? write_pairs(first, &cursor, head.count, &at)
                            : write_elements(first, &cursor, head.count, &at);
    if (count == 0)
        return 0;
    size_t parts = (size_t)(at - out) - head_size;
    size_t new_head_size = write_head(out, is_map, count);
    if (new_head_size != head_size)
        memmove(out + new_head_size, out + head_size, parts);
    return new_head_size + parts;
}

size_t projection_write(const struct path_node *projection, struct bytes item, uint8_t *out)
{
    size_t size = write_parts(projection, item, out);
    return size != 0 ? size : write_head(out, true, 0);
}

struct bytes projection_apply(const struct path_node *projection, struct bytes item,
                              struct arena *arena)
{
    uint8_t *out = arena_alloc(arena, item.size);
    if (out == NULL)
        return BYTES_NONE;
    return bytes_of(out, projection_write(projection, item, out));
}
