#include "backend/engine/definition_tags.h"

enum { SHOWN_MAX = 128 };

/* ---- one key, one value ---- */

/* Letters, digits, blanks and + - = . _ : / @. Letters of other scripts are not told from their
 * other signs. */
static bool is_allowed(uint8_t byte)
{
    return byte >= 0x80 || (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'z') ||
           (byte >= 'A' && byte <= 'Z') || (byte != 0 && strchr(" +-=._:/@", byte) != NULL);
}

static bool is_text(struct bytes text, size_t characters_max)
{
    size_t characters = 0;
    for (size_t i = 0; i < text.size; i++) {
        characters += (text.data[i] & 0xc0) != 0x80; /* no byte that continues one */
        if (!is_allowed(text.data[i]))
            return false;
    }
    return characters <= characters_max;
}

static enum status refuse(const char *what, const struct value *given, struct error *error)
{
    bool is_text = given != NULL && given->type == VALUE_S;
    struct bytes text = is_text ? given->bytes : BYTES_LITERAL("null");
    return error_set(error, STATUS_VALIDATION, "%s%.*s", what,
                     (int)(text.size < SHOWN_MAX ? text.size : SHOWN_MAX), (const char *)text.data);
}

static enum status check_key(const struct value *key, struct error *error)
{
    if (key == NULL || key->type != VALUE_S || key->bytes.size == 0 ||
        !is_text(key->bytes, TAG_KEY_MAX))
        return refuse("The Tag Key provided is invalid, Key: ", key, error);
    if (bytes_begin_with(key->bytes, BYTES_LITERAL("aws:")))
        return refuse("Tag Key cannot be prefixed with aws:, Key: ", key, error);
    return STATUS_OK;
}

static enum status check_tag(const struct value *tag, struct error *error)
{
    const struct value *value = tree_member(tag, "Value");
    enum status status = check_key(tree_member(tag, "Key"), error);
    if (status == STATUS_OK &&
        (value == NULL || value->type != VALUE_S || !is_text(value->bytes, TAG_VALUE_MAX)))
        status = refuse("The Tag Value provided is invalid, Value: ", value, error);
    return status;
}

/* ---- lists of them ---- */

static struct bytes key_of(const struct value *tag)
{
    return tree_text(tag, "Key");
}

static bool has_key(const struct value *tags, size_t count, struct bytes key)
{
    for (size_t i = 0; i < count; i++)
        if (bytes_equal(key_of(&tags[i]), key))
            return true;
    return false;
}

static enum status too_many(struct error *error)
{
    return error_set(error, STATUS_VALIDATION,
                     "Number of Tags exceed the current limit for the provided ResourceArn");
}

static enum status check_list(const struct value *list, const char *path, const char *if_empty,
                              struct error *error)
{
    if (list == NULL)
        return error_set(error, STATUS_VALIDATION,
                         "1 validation error detected: Value null at '%s' failed to satisfy "
                         "constraint: Member must not be null",
                         path);
    if (list->type != VALUE_L)
        return error_set(error, STATUS_MALFORMED, "%s must be a list", path);
    if (list->count == 0)
        return error_set(error, STATUS_VALIDATION, "%s", if_empty);
    return list->count > TAGS_MAX ? too_many(error) : STATUS_OK;
}

enum status tags_check(const struct value *tags, struct error *error)
{
    if (tags == NULL || (tags->type == VALUE_L && tags->count == 0))
        return STATUS_OK;
    enum status status = check_list(tags, "tags", "", error);
    for (size_t i = 0; status == STATUS_OK && i < tags->count; i++) {
        status = check_tag(&tags->values[i], error);
        if (status == STATUS_OK && has_key(tags->values, i, key_of(&tags->values[i])))
            status = refuse("Duplicate Tag Keys provided as input: Duplicate Tag Key found ",
                            tree_member(&tags->values[i], "Key"), error);
    }
    return status;
}

enum status tags_add(const struct value *there, const struct value *more, struct arena *arena,
                     struct value *out, struct error *error)
{
    enum status status =
        check_list(more, "tags", "Atleast one Tag needs to be provided as Input.", error);
    if (status == STATUS_OK)
        status = tags_check(more, error);
    if (status != STATUS_OK)
        return status;
    struct value *values = arena_alloc(arena, (tree_count(there) + more->count) * sizeof *values);
    if (values == NULL)
        return STATUS_NO_MEMORY;
    size_t count = 0;
    for (size_t i = 0; i < tree_count(there); i++)
        if (!has_key(more->values, more->count, key_of(&there->values[i])))
            values[count++] = there->values[i];
    for (size_t i = 0; i < more->count; i++)
        values[count++] = more->values[i];
    *out = (struct value){.type = VALUE_L, .values = values, .count = count};
    return count > TAGS_MAX ? too_many(error) : STATUS_OK;
}

static bool is_listed(const struct value *keys, struct bytes key)
{
    for (size_t i = 0; i < keys->count; i++)
        if (bytes_equal(keys->values[i].bytes, key))
            return true;
    return false;
}

enum status tags_remove(const struct value *there, const struct value *keys, struct arena *arena,
                        struct value *out, struct error *error)
{
    enum status status =
        check_list(keys, "tagKeys", "Atleast one Tag Key needs to be provided as Input.", error);
    for (size_t i = 0; status == STATUS_OK && i < keys->count; i++)
        status = check_key(&keys->values[i], error);
    if (status != STATUS_OK)
        return status;
    struct value *values = arena_alloc(arena, (tree_count(there) + 1) * sizeof *values);
    if (values == NULL)
        return STATUS_NO_MEMORY;
    size_t count = 0;
    for (size_t i = 0; i < tree_count(there); i++)
        if (!is_listed(keys, key_of(&there->values[i])))
            values[count++] = there->values[i];
    *out = (struct value){.type = VALUE_L, .values = values, .count = count};
    return STATUS_OK;
}
