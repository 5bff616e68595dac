#include "protocol/expression_binding.h"

#include "protocol/encoding/msgpack.h"
#include "protocol/expression_token.h"

#include <stdio.h>
#include <stdlib.h>

static int compare_aliases(const void *a, const void *b)
{
    const struct alias *left = a;
    const struct alias *right = b;
    return bytes_compare(left->alias, right->alias);
}

static enum status refuse_map(const char *what, struct error *error)
{
    return error_set(error, STATUS_MALFORMED, "%s: not a map of what it must hold", what);
}

static enum status read_value(struct msgpack_cursor *cursor, struct arena *arena,
                              struct alias *alias, struct error *error)
{
    const uint8_t *start = cursor->at;
    struct error inner = {.text = ""};
    enum status status = value_decode(cursor, arena, &alias->value, &inner);
    if (status == STATUS_VALIDATION)
        return error_set(
            error, status, "ExpressionAttributeValues contains invalid value: %.120s for key %.*s",
            error_text(&inner), (int)alias->alias.size, (const char *)alias->alias.data);
    if (status != STATUS_OK)
        *error = inner;
    alias->bytes = bytes_of(start, (size_t)(cursor->at - start));
    return status;
}

static enum status read_alias(struct msgpack_cursor *cursor, bool is_name, const char *what,
                              struct arena *arena, struct alias *out, struct error *error)
{
    *out = (struct alias){0};
    if (!msgpack_read_str(cursor, &out->alias))
        return refuse_map(what, error);
    if (out->alias.size > EXPRESSION_ALIAS_MAX && is_name)
        return error_set(error, STATUS_VALIDATION,
                         "%s contains invalid key: The expression attribute map contains a key "
                         "that is too long; size of key: %zu",
                         what, out->alias.size);
    if (out->alias.size > EXPRESSION_ALIAS_MAX)
        return error_set(error, STATUS_VALIDATION,
                         "%s contains invalid key: The expression attribute map contains a key "
                         "that is too long;",
                         what);
    if (!alias_is_valid(out->alias, is_name ? '#' : ':'))
        return error_set(error, STATUS_VALIDATION,
                         "%s contains invalid key: Syntax error; key: \"%.*s\"", what,
                         (int)out->alias.size, (const char *)out->alias.data);
    if (!is_name)
        return read_value(cursor, arena, out, error);
    if (!msgpack_read_str(cursor, &out->name))
        return refuse_map(what, error);
    return attribute_name_check(out->name, error);
}

static enum status sort_aliases(struct aliases *aliases, const char *what, struct error *error)
{
    bool is_sorted = true;
    for (size_t i = 1; i < aliases->count; i++)
        if (compare_aliases(&aliases->sorted[i - 1], &aliases->sorted[i]) >= 0)
            is_sorted = false;
    if (is_sorted)
        return STATUS_OK;
    qsort(aliases->sorted, aliases->count, sizeof aliases->sorted[0], compare_aliases);
    for (size_t i = 1; i < aliases->count; i++)
        if (compare_aliases(&aliases->sorted[i - 1], &aliases->sorted[i]) == 0)
            return refuse_map(what, error);
    return STATUS_OK;
}

static enum status read_aliases(struct bytes map, bool is_name, struct arena *arena,
                                struct aliases *out, struct error *error)
{
    const char *what = is_name ? "ExpressionAttributeNames" : "ExpressionAttributeValues";
    struct msgpack_cursor cursor = msgpack_cursor_of(map);
    uint32_t count = 0;
    *out = (struct aliases){0};
    if (!bytes_given(map))
        return STATUS_OK;
    if (!msgpack_read_map(&cursor, &count))
        return refuse_map(what, error);
    if (count == 0)
        return error_set(error, STATUS_VALIDATION, "%s must not be empty", what);
    struct alias *sorted = arena_alloc(arena, count * sizeof sorted[0]);
    if (sorted == NULL)
        return error_set(error, STATUS_NO_MEMORY, "%s", "");
    for (uint32_t i = 0; i < count; i++) {
        enum status status = read_alias(&cursor, is_name, what, arena, &sorted[i], error);
        if (status != STATUS_OK)
            return status;
    }
    if (cursor.at != cursor.end)
        return refuse_map(what, error);
    *out = (struct aliases){sorted, count};
    return sort_aliases(out, what, error);
}

enum status binding_init(struct bytes names, struct bytes values, struct arena *arena,
                         struct expression_binding *out, struct error *error)
{
    struct expression_binding binding = {.is_made = false};
    enum status status = read_aliases(names, true, arena, &binding.names, error);
    if (status == STATUS_OK)
        status = read_aliases(values, false, arena, &binding.values, error);
    if (status == STATUS_OK)
        *out = binding;
    return status;
}

/* A value counts at most so many times its bytes here: an empty list 3. */
enum { COUNT_MAX = 4 };

enum status binding_check_size(struct bytes names, struct bytes values, struct error *error)
{
    if (LIKELY(names.size + values.size <= EXPRESSION_ALIASES_BYTES_MAX / COUNT_MAX))
        return STATUS_OK;
    size_t size =
        (bytes_given(names) ? item_size(names) : 0) + (bytes_given(values) ? item_size(values) : 0);
    if (size <= EXPRESSION_ALIASES_BYTES_MAX)
        return STATUS_OK;
    return error_set(error, STATUS_VALIDATION,
                     "Combined size of ExpressionAttributeNames and ExpressionAttributeValues "
                     "exceeds max size");
}

enum status binding_encode(struct expression_binding *binding, struct arena *arena,
                           struct error *error)
{
    for (size_t i = 0; i < binding->values.count; i++) {
        struct alias *alias = &binding->values.sorted[i];
        alias->canonical = value_encode_arena(&alias->value, arena);
        if (!bytes_given(alias->canonical))
            return error_set(error, STATUS_NO_MEMORY, "%s", "");
    }
    return STATUS_OK;
}

struct alias *aliases_use(struct aliases *aliases, struct bytes alias)
{
    struct alias wanted = {.alias = alias};
    if (aliases->count == 0)
        return NULL;
    struct alias *found = bsearch(&wanted, aliases->sorted, aliases->count,
                                  sizeof aliases->sorted[0], compare_aliases);
    if (found != NULL)
        found->is_used = true;
    return found;
}

static enum status check_used(const struct aliases *aliases, const char *what, struct error *error)
{
    char list[sizeof error->text] = "";
    size_t size = 0;
    for (size_t i = 0; i < aliases->count && size < sizeof list; i++) {
        const struct alias *alias = &aliases->sorted[i];
        if (alias->is_used)
            continue;
        int echo = alias->alias.size < sizeof list ? (int)alias->alias.size : (int)sizeof list;
        int more = snprintf(list + size, sizeof list - size, "%s%.*s", size == 0 ? "" : ", ", echo,
                            (const char *)alias->alias.data);
        size += more > 0 ? (size_t)more : 0;
    }
    if (size == 0)
        return STATUS_OK;
    return error_set(error, STATUS_VALIDATION,
                     "Value provided in %s unused in expressions: keys: {%.120s}", what, list);
}

enum status binding_check_all_used(const struct expression_binding *binding, struct error *error)
{
    enum status status = check_used(&binding->names, "ExpressionAttributeNames", error);
    if (status == STATUS_OK)
        status = check_used(&binding->values, "ExpressionAttributeValues", error);
    return status;
}
