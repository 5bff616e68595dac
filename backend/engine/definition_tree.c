#include "backend/engine/definition_tree.h"

#include "protocol/encoding/msgpack.h"
#include "protocol/ensure.h"

const struct value *tree_member(const struct value *map, const char *name)
{
    if (map == NULL || map->type != VALUE_M)
        return NULL;
    for (size_t i = 0; i < map->count; i++)
        if (bytes_equal(map->attributes[i].name, bytes_text(name)))
            return &map->attributes[i].value;
    return NULL;
}

struct bytes tree_text(const struct value *map, const char *name)
{
    const struct value *value = tree_member(map, name);
    return value == NULL || value->type != VALUE_S ? BYTES_NONE : value->bytes;
}

uint64_t tree_number(const struct value *map, const char *name)
{
    const struct value *value = tree_member(map, name);
    uint64_t number = 0;
    if (value != NULL && value->type == VALUE_N && !number_to_uint(&value->number, &number))
        number = 0;
    return number;
}

bool tree_truth(const struct value *map, const char *name)
{
    const struct value *value = tree_member(map, name);
    return value != NULL && value->type == VALUE_BOOL && value->truth;
}

size_t tree_count(const struct value *list)
{
    return list == NULL || list->type != VALUE_L ? 0 : list->count;
}

struct value tree_of_text(struct bytes text)
{
    return (struct value){.type = VALUE_S, .bytes = text};
}

struct value tree_of_number(uint64_t number)
{
    return (struct value){.type = VALUE_N, .number = number_from_uint(number)};
}

void tree_add(struct tree_members *members, const char *name, struct value value)
{
    ensure(members->count < TREE_MEMBERS_MAX);
    members->attributes[members->count++] = (struct attribute){bytes_text(name), value};
}

struct value tree_of_members(struct tree_members *members)
{
    return (struct value){
        .type = VALUE_M, .attributes = members->attributes, .count = members->count};
}

bool tree_keep_members(const struct tree_members *members, struct arena *arena, struct value *out)
{
    size_t size = members->count * sizeof members->attributes[0];
    struct attribute *attributes = arena_alloc(arena, size);
    if (attributes == NULL)
        return false;
    memcpy(attributes, members->attributes, size);
    *out = (struct value){.type = VALUE_M, .attributes = attributes, .count = members->count};
    return true;
}

struct bytes tree_encode(struct value *value, struct arena *arena)
{
    struct error error;
    return value_normalize(value, &error) == STATUS_OK ? value_encode_arena(value, arena)
                                                       : BYTES_NONE;
}
