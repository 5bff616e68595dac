#include "protocol/value.h"

#include <stdio.h>
#include <stdlib.h>

const char *value_type_name(enum value_type type)
{
    static const char *const names[] = {
        [VALUE_S] = "S",       [VALUE_N] = "N",   [VALUE_B] = "B", [VALUE_BOOL] = "BOOL",
        [VALUE_NULL] = "NULL", [VALUE_L] = "L",   [VALUE_M] = "M", [VALUE_SS] = "SS",
        [VALUE_NS] = "NS",     [VALUE_BS] = "BS",
    };
    size_t number = (size_t)type;
    return number < sizeof names / sizeof names[0] ? names[number] : "?";
}

/* ---- UTF-8 ---- */

static uint64_t load_eight(const uint8_t *at)
{
    uint64_t eight;
    memcpy(&eight, at, sizeof eight);
    return eight;
}

/* Passes over ASCII, eight bytes at a time. */
static const uint8_t *skip_ascii(const uint8_t *at, const uint8_t *end)
{
    const uint64_t high_bits = 0x8080808080808080ULL;
    const uint8_t *begin = at;
    while (end - at >= 8 && (load_eight(at) & high_bits) == 0)
        at += 8;
    /* The last few of a longer text: the eight bytes that end with them. */
    if (end - at < 8 && end - begin >= 8 && (load_eight(end - 8) & high_bits) == 0)
        return end;
    while (at < end && *at < 0x80)
        at++;
    return at;
}

static bool is_continuation(uint8_t byte)
{
    return (byte & 0xc0) == 0x80;
}

/* Length of the multi-byte character at `at`, of which `left` bytes are there; 0: not valid.
 * Source: Unicode standard, table 3-7, "Well-Formed UTF-8 Byte Sequences". */
static size_t character_size(const uint8_t *at, size_t left)
{
    uint8_t lead = at[0];
    if (lead < 0xc2 || left < 2 || !is_continuation(at[1]))
        return 0;
    if (lead < 0xe0)
        return 2;
    if (left < 3 || !is_continuation(at[2]))
        return 0;
    if (lead < 0xf0) {
        bool is_overlong = lead == 0xe0 && at[1] < 0xa0;
        bool is_surrogate = lead == 0xed && at[1] >= 0xa0;
        return is_overlong || is_surrogate ? 0 : 3;
    }
    if (lead > 0xf4 || left < 4 || !is_continuation(at[3]))
        return 0;
    bool is_overlong = lead == 0xf0 && at[1] < 0x90;
    bool is_too_large = lead == 0xf4 && at[1] >= 0x90;
    return is_overlong || is_too_large ? 0 : 4;
}

bool utf8_is_valid(struct bytes bytes)
{
    if (bytes.size == 0)
        return true;
    const uint8_t *at = bytes.data;
    const uint8_t *end = at + bytes.size;
    while ((at = skip_ascii(at, end)) < end) {
        size_t size = character_size(at, (size_t)(end - at));
        if (size == 0)
            return false;
        at += size;
    }
    return true;
}

/* ---- refusals ---- */

#define INVALID "One or more parameter values were invalid: "

enum status value_refuse_text(struct error *error)
{
    return error_set(error, STATUS_VALIDATION, INVALID "A string is not valid UTF-8");
}

enum status value_refuse_depth(struct error *error)
{
    return error_set(error, STATUS_VALIDATION,
                     "Nesting Levels have exceeded supported limits: Attributes in the item have "
                     "nested levels beyond supported limit");
}

enum status value_refuse_empty_set(enum value_type type, struct error *error)
{
    const char *text = type == VALUE_SS   ? "An string set  may not be empty"
                       : type == VALUE_NS ? "An number set  may not be empty"
                                          : "Binary sets should not be empty";
    return error_set(error, STATUS_VALIDATION, INVALID "%s", text);
}

enum status attribute_name_check(struct bytes name, struct error *error)
{
    if (name.size == 0)
        return error_set(error, STATUS_VALIDATION, INVALID "Empty attribute name");
    if (name.size > ATTRIBUTE_NAME_MAX)
        return error_set(
            error, STATUS_VALIDATION,
            "1 validation error detected: Attribute name is too large, must be less than "
            "65536 bytes");
    return utf8_is_valid(name) ? STATUS_OK : value_refuse_text(error);
}

/* ---- normal form ---- */

static enum status normalize(struct value *value, int depth, struct error *error);

static int compare_attributes(const void *a, const void *b)
{
    const struct attribute *left = a;
    const struct attribute *right = b;
    return bytes_compare(left->name, right->name);
}

static enum status normalize_map(struct value *map, int depth, struct error *error)
{
    bool is_sorted = true;
    for (size_t i = 0; i < map->count; i++) {
        struct attribute *attribute = &map->attributes[i];
        enum status status = attribute_name_check(attribute->name, error);
        if (status == STATUS_OK)
            status = normalize(&attribute->value, depth + 1, error);
        if (status != STATUS_OK)
            return status;
        if (i != 0 && compare_attributes(attribute - 1, attribute) >= 0)
            is_sorted = false;
    }
    if (is_sorted)
        return STATUS_OK;
    qsort(map->attributes, map->count, sizeof map->attributes[0], compare_attributes);
    for (size_t i = 1; i < map->count; i++)
        if (bytes_equal(map->attributes[i - 1].name, map->attributes[i].name))
            return error_set(error, STATUS_VALIDATION, INVALID "Duplicate attribute name: %.*s",
                             (int)map->attributes[i].name.size,
                             (const char *)map->attributes[i].name.data);
    return STATUS_OK;
}

static int compare_members(const void *a, const void *b)
{
    const struct value *left = a;
    const struct value *right = b;
    return left->type == VALUE_N ? number_compare(&left->number, &right->number)
                                 : bytes_compare(left->bytes, right->bytes);
}

/* DynamoDB lists the members of a string set; ours come sorted. */
static enum status refuse_repeated_member(const struct value *set, struct error *error)
{
    if (set->type == VALUE_NS)
        return error_set(error, STATUS_VALIDATION, "Input collection contains duplicates");
    if (set->type == VALUE_BS)
        return error_set(error, STATUS_VALIDATION,
                         INVALID "Input collection of type BS contains duplicates.");
    char list[sizeof error->text] = "";
    size_t size = 0;
    for (size_t i = 0; i < set->count && size < sizeof list; i++) {
        struct bytes member = set->values[i].bytes;
        int echo = member.size < sizeof list ? (int)member.size : (int)sizeof list;
        int more = snprintf(list + size, sizeof list - size, "%s%.*s", i == 0 ? "" : ", ", echo,
                            (const char *)member.data);
        size += more > 0 ? (size_t)more : 0;
    }
    return error_set(error, STATUS_VALIDATION,
                     INVALID "Input collection [%.150s] contains duplicates.", list);
}

static enum status normalize_set(struct value *set, enum value_type member_type,
                                 struct error *error)
{
    if (set->count == 0)
        return value_refuse_empty_set(set->type, error);
    bool is_sorted = true;
    for (size_t i = 0; i < set->count; i++) {
        const struct value *member = &set->values[i];
        if (member->type != member_type)
            return error_set(error, STATUS_VALIDATION,
                             INVALID "A member of type %s in a set of type %s",
                             value_type_name(member->type), value_type_name(set->type));
        if (member_type == VALUE_S && !utf8_is_valid(member->bytes))
            return value_refuse_text(error);
        if (i != 0 && compare_members(member - 1, member) >= 0)
            is_sorted = false;
    }
    if (is_sorted)
        return STATUS_OK;
    qsort(set->values, set->count, sizeof set->values[0], compare_members);
    for (size_t i = 1; i < set->count; i++)
        if (compare_members(&set->values[i - 1], &set->values[i]) == 0)
            return refuse_repeated_member(set, error);
    return STATUS_OK;
}

static enum status normalize(struct value *value, int depth, struct error *error)
{
    if ((value->type == VALUE_M || value->type == VALUE_L) && depth >= ITEM_DEPTH_MAX)
        return value_refuse_depth(error);
    switch (value->type) {
    case VALUE_S:
        return utf8_is_valid(value->bytes) ? STATUS_OK : value_refuse_text(error);
    case VALUE_M:
        return normalize_map(value, depth, error);
    case VALUE_L:
        for (size_t i = 0; i < value->count; i++) {
            enum status status = normalize(&value->values[i], depth + 1, error);
            if (status != STATUS_OK)
                return status;
        }
        return STATUS_OK;
    case VALUE_SS:
        return normalize_set(value, VALUE_S, error);
    case VALUE_NS:
        return normalize_set(value, VALUE_N, error);
    case VALUE_BS:
        return normalize_set(value, VALUE_B, error);
    case VALUE_N:
    case VALUE_B:
    case VALUE_BOOL:
    case VALUE_NULL:
        return STATUS_OK;
    }
    return STATUS_OK;
}

enum status value_normalize(struct value *value, struct error *error)
{
    return normalize(value, 0, error);
}

enum status value_normalize_plain(struct value *value, struct error *error)
{
    return normalize(value, ITEM_DEPTH_MAX - PLAIN_DEPTH_MAX, error);
}
