#include "backend/engine/record.h"

#include "protocol/ensure.h"
#include "protocol/request.h"

static uint8_t *write_big(uint8_t *to, uint64_t number, int size)
{
    for (int i = size - 1; i >= 0; i--)
        *to++ = (uint8_t)(number >> 8 * i);
    return to;
}

struct bytes record_item_key(uint32_t table_id, uint64_t hash, struct bytes primary,
                             struct arena *arena)
{
    uint8_t *key = arena_alloc(arena, RECORD_ITEM_PREFIX + primary.size);
    if (key == NULL)
        return BYTES_NONE;
    uint8_t *at = write_big(write_big(key, table_id, RECORD_ID_BYTES), hash, 8);
    if (primary.size != 0)
        memcpy(at, primary.data, primary.size);
    return bytes_of(key, RECORD_ITEM_PREFIX + primary.size);
}

static struct bytes metadata_key(char letter, struct bytes rest, struct arena *arena)
{
    uint8_t *key = arena_alloc(arena, RECORD_ID_BYTES + 1 + rest.size);
    if (key == NULL)
        return BYTES_NONE;
    uint8_t *at = write_big(key, 0, RECORD_ID_BYTES);
    *at++ = (uint8_t)letter;
    if (rest.size != 0)
        memcpy(at, rest.data, rest.size);
    return bytes_of(key, RECORD_ID_BYTES + 1 + rest.size);
}

struct bytes record_format_key(struct arena *arena)
{
    return metadata_key('f', BYTES_NONE, arena);
}

struct bytes record_next_id_key(struct arena *arena)
{
    return metadata_key('i', BYTES_NONE, arena);
}

struct bytes record_definition_key(struct bytes name, struct arena *arena)
{
    return metadata_key('n', name, arena);
}

struct bytes record_definition_name(struct bytes key)
{
    ensure(key.size > RECORD_ID_BYTES);
    return bytes_of(key.data + RECORD_ID_BYTES + 1, key.size - RECORD_ID_BYTES - 1);
}

struct bytes record_counter_key(uint32_t table_id, uint32_t partition, struct arena *arena)
{
    uint8_t rest[8];
    write_big(write_big(rest, table_id, 4), partition, 4);
    return metadata_key('c', bytes_of(rest, sizeof rest), arena);
}

struct bytes record_token_key(uint64_t span, struct bytes token, struct arena *arena)
{
    uint8_t rest[8 + CLIENT_TOKEN_MAX];
    ensure(token.size <= CLIENT_TOKEN_MAX);
    memcpy(write_big(rest, span, 8), token.data, token.size);
    return metadata_key('t', bytes_of(rest, 8 + token.size), arena);
}

bool record_tokens_range(uint64_t span, struct arena *arena, struct bytes *low, struct bytes *high)
{
    uint8_t end[8];
    write_big(end, span, 8);
    *low = metadata_key('t', BYTES_NONE, arena);
    *high = metadata_key('t', bytes_of(end, sizeof end), arena);
    return bytes_given(*low) && bytes_given(*high);
}

bool record_items_range(uint32_t table_id, struct arena *arena, struct bytes *low,
                        struct bytes *high)
{
    uint8_t *both = arena_alloc(arena, 2 * RECORD_ID_BYTES);
    if (both == NULL)
        return false;
    write_big(write_big(both, table_id, RECORD_ID_BYTES), (uint64_t)table_id + 1, RECORD_ID_BYTES);
    *low = bytes_of(both, RECORD_ID_BYTES);
    *high = bytes_of(both + RECORD_ID_BYTES, RECORD_ID_BYTES);
    return true;
}

bool record_counters_range(uint32_t table_id, struct arena *arena, struct bytes *low,
                           struct bytes *high)
{
    uint8_t id[4], next_id[4];
    write_big(id, table_id, 4);
    write_big(next_id, (uint64_t)table_id + 1, 4);
    *low = metadata_key('c', bytes_of(id, sizeof id), arena);
    *high = metadata_key('c', bytes_of(next_id, sizeof next_id), arena);
    return bytes_given(*low) && bytes_given(*high);
}

bool record_definitions_range(struct arena *arena, struct bytes *low, struct bytes *high)
{
    *low = metadata_key('n', BYTES_NONE, arena);
    *high = metadata_key('n' + 1, BYTES_NONE, arena);
    return bytes_given(*low) && bytes_given(*high);
}

uint64_t record_number_read(struct bytes value)
{
    uint64_t number = 0;
    for (int i = 7; i >= 0 && value.size >= 8; i--)
        number = number << 8 | value.data[i];
    return number;
}

struct bytes record_number_write(uint64_t number, struct arena *arena)
{
    uint8_t *value = arena_alloc(arena, 8);
    if (value == NULL)
        return BYTES_NONE;
    for (int i = 0; i < 8; i++)
        value[i] = (uint8_t)(number >> 8 * i);
    return bytes_of(value, 8);
}
