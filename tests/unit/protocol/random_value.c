#include "tests/unit/protocol/random_value.h"

#include "protocol/ensure.h"

#include <stdio.h>

uint64_t random_next(struct random *random)
{
    uint64_t mixed = random->state += 0x9e3779b97f4a7c15ULL;
    mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9ULL;
    mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111ebULL;
    return mixed ^ mixed >> 31;
}

size_t random_below(struct random *random, size_t limit)
{
    return (size_t)(random_next(random) % limit);
}

void random_number_text(struct random *random, char out[RANDOM_NUMBER_TEXT_MAX])
{
    char digits[39];
    size_t count = 1 + random_below(random, random_below(random, 3) == 0 ? 38 : 4);
    for (size_t i = 0; i < count; i++)
        digits[i] = (char)('0' + random_below(random, 10));
    digits[count] = '\0';
    size_t point = random_below(random, count + 1);
    /* The leading digit stays between 10^-130 and 10^125 wherever the first digit that is not 0 is.
     */
    int exponent = random_below(random, 3) == 0 ? (int)random_below(random, 160) - 80 : 0;
    const char *sign = random_below(random, 2) == 0 ? "" : random_below(random, 4) == 0 ? "+" : "-";
    char *at = out + sprintf(out, "%s%.*s", sign, (int)point, digits);
    if (point < count)
        at += sprintf(at, ".%s", digits + point);
    if (exponent != 0)
        (void)sprintf(at, "%c%+d", random_below(random, 2) == 0 ? 'e' : 'E', exponent);
}

struct bytes random_bytes(struct random *random, struct arena *arena, size_t size_max)
{
    static const uint8_t hard[] = {0x00, 0x01, 0xfe, 0xff};
    size_t size = random_below(random, size_max + 1);
    uint8_t *bytes = arena_alloc(arena, size);
    ensure(bytes != NULL);
    for (size_t i = 0; i < size; i++)
        bytes[i] = random_below(random, 2) == 0 ? hard[random_below(random, sizeof hard)]
                                                : (uint8_t)random_next(random);
    return bytes_of(bytes, size);
}

static size_t write_character(uint32_t code, uint8_t *out)
{
    if (code < 0x80) {
        out[0] = (uint8_t)code;
        return 1;
    }
    if (code < 0x800) {
        out[0] = (uint8_t)(0xc0 | code >> 6);
        out[1] = (uint8_t)(0x80 | (code & 0x3f));
        return 2;
    }
    if (code < 0x10000) {
        out[0] = (uint8_t)(0xe0 | code >> 12);
        out[1] = (uint8_t)(0x80 | (code >> 6 & 0x3f));
        out[2] = (uint8_t)(0x80 | (code & 0x3f));
        return 3;
    }
    out[0] = (uint8_t)(0xf0 | code >> 18);
    out[1] = (uint8_t)(0x80 | (code >> 12 & 0x3f));
    out[2] = (uint8_t)(0x80 | (code >> 6 & 0x3f));
    out[3] = (uint8_t)(0x80 | (code & 0x3f));
    return 4;
}

struct bytes random_text(struct random *random, struct arena *arena, size_t characters_max)
{
    static const uint32_t limits[] = {0x80, 0x80, 0x80, 0x800, 0xd800, 0x110000};
    size_t count = random_below(random, characters_max + 1);
    uint8_t *text = arena_alloc(arena, 4 * count);
    ensure(text != NULL);
    size_t size = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t limit = limits[random_below(random, sizeof limits / sizeof limits[0])];
        uint32_t code = (uint32_t)random_below(random, limit);
        if (code >= 0xd800 && code < 0xe000)
            code = 0xffff;
        size += write_character(code, text + size);
    }
    return bytes_of(text, size);
}

static struct value random_scalar(struct random *random, struct arena *arena, enum value_type type)
{
    struct value value = {.type = type};
    struct error error;
    char text[RANDOM_NUMBER_TEXT_MAX];
    switch (type) {
    case VALUE_S:
        value.bytes = random_text(random, arena, random_below(random, 20) == 0 ? 300 : 20);
        break;
    case VALUE_B:
        value.bytes = random_bytes(random, arena, random_below(random, 20) == 0 ? 300 : 20);
        break;
    case VALUE_N:
        random_number_text(random, text);
        if (random_below(random, 3) == 0)
            value.number =
                random_below(random, 2) == 0
                    ? number_from_int((int64_t)random_next(random) >> random_below(random, 64))
                    : number_from_uint(random_next(random));
        else
            ensure(number_parse(bytes_text(text), &value.number, &error) == STATUS_OK);
        break;
    default:
        value.truth = type == VALUE_BOOL && random_below(random, 2) == 0;
        break;
    }
    return value;
}

static struct value random_members(struct random *random, struct arena *arena, enum value_type type,
                                   size_t count, int depth_max)
{
    static const enum value_type member_types[] = {
        [VALUE_SS] = VALUE_S, [VALUE_NS] = VALUE_N, [VALUE_BS] = VALUE_B};
    struct value value = {.type = type, .count = count};
    value.values = arena_alloc(arena, count * sizeof value.values[0]);
    ensure(value.values != NULL);
    for (size_t i = 0; i < count; i++)
        value.values[i] = type == VALUE_L ? random_value(random, arena, depth_max - 1)
                                          : random_scalar(random, arena, member_types[type]);
    return value;
}

static struct value random_map(struct random *random, struct arena *arena, int depth_max)
{
    struct value value = {.type = VALUE_M};
    size_t count = random_below(random, 6);
    value.attributes = arena_alloc(arena, count * sizeof value.attributes[0]);
    ensure(value.attributes != NULL);
    for (size_t i = 0; i < count; i++) {
        struct bytes name = random_text(random, arena, 8);
        if (name.size == 0)
            continue;
        value.attributes[value.count++] =
            (struct attribute){name, random_value(random, arena, depth_max - 1)};
    }
    return value;
}

struct value random_value(struct random *random, struct arena *arena, int depth_max)
{
    for (;;) {
        enum value_type type = (enum value_type)random_below(random, VALUE_BS + 1);
        struct value value;
        struct error error;
        if (type == VALUE_M && depth_max > 0)
            value = random_map(random, arena, depth_max);
        else if (type >= VALUE_SS || (type == VALUE_L && depth_max > 0))
            value = random_members(random, arena, type,
                                   random_below(random, 5) + (type >= VALUE_SS), depth_max);
        else if (type != VALUE_L && type != VALUE_M)
            value = random_scalar(random, arena, type);
        else
            continue;
        if (value_normalize(&value, &error) == STATUS_OK)
            return value; /* else a member was there twice: another try */
    }
}

struct value random_item(struct random *random, struct arena *arena)
{
    for (;;) {
        struct value value = random_map(random, arena, 4);
        struct error error;
        if (value_normalize(&value, &error) == STATUS_OK)
            return value;
    }
}

void shuffle_value(struct random *random, struct value *value)
{
    if (value->type == VALUE_M) {
        for (size_t i = 0; i < value->count; i++) {
            struct attribute *a = &value->attributes[i];
            struct attribute *b = &value->attributes[random_below(random, value->count)];
            struct attribute swapped = *a;
            *a = *b;
            *b = swapped;
        }
        for (size_t i = 0; i < value->count; i++)
            shuffle_value(random, &value->attributes[i].value);
        return;
    }
    for (size_t i = 0; i < value->count; i++) {
        shuffle_value(random, &value->values[i]);
        if (value->type == VALUE_L)
            continue;
        struct value *other = &value->values[random_below(random, value->count)];
        struct value swapped = value->values[i];
        value->values[i] = *other;
        *other = swapped;
    }
}

bool values_are_equal(const struct value *a, const struct value *b)
{
    if (a->type != b->type || a->count != b->count || a->truth != b->truth ||
        !bytes_equal(a->bytes, b->bytes) || number_compare(&a->number, &b->number) != 0)
        return false;
    for (size_t i = 0; i < a->count; i++) {
        if (a->type == VALUE_M) {
            if (!bytes_equal(a->attributes[i].name, b->attributes[i].name) ||
                !values_are_equal(&a->attributes[i].value, &b->attributes[i].value))
                return false;
        } else if (!values_are_equal(&a->values[i], &b->values[i])) {
            return false;
        }
    }
    return true;
}
