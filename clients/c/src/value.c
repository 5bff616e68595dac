#include "clients/c/src/value.h"

#include "clients/c/src/failure.h"
#include "protocol/encoding/json.h"

#include <stdlib.h>

enum { JSON_ARENA_MAX = 1 << 30 };

static struct value *tree_of(struct mudax_value *value)
{
    return (struct value *)value;
}

static bool is_set(enum value_type type)
{
    return type == VALUE_SS || type == VALUE_NS || type == VALUE_BS;
}

static bool is_container(enum value_type type)
{
    return type == VALUE_L || type == VALUE_M || is_set(type);
}

/* Containers have no use for `truth`; it remembers that a member is missing. */
bool value_is_spoilt(const struct value *value)
{
    return is_container(value->type) && value->truth;
}

/* ---- life ---- */

static void release(struct value *value)
{
    free((void *)(uintptr_t)value->bytes.data);
    for (size_t i = 0; value->values != NULL && i < value->count; i++)
        release(&value->values[i]);
    free(value->values);
    for (size_t i = 0; value->attributes != NULL && i < value->count; i++) {
        free((void *)(uintptr_t)value->attributes[i].name.data);
        release(&value->attributes[i].value);
    }
    free(value->attributes);
    *value = (struct value){0};
}

void mudax_free(struct mudax_value *value)
{
    if (value == NULL)
        return;
    release(tree_of(value));
    free(value);
}

/* A heap copy; a byte longer, so that an empty one has an address too. */
static bool copy_bytes(struct bytes bytes, struct bytes *out)
{
    uint8_t *copy = malloc(bytes.size + 1);
    if (copy == NULL)
        return false;
    if (bytes.size != 0)
        memcpy(copy, bytes.data, bytes.size);
    *out = bytes_of(copy, bytes.size);
    return true;
}

static struct mudax_value *make(struct value contents)
{
    struct value *value = malloc(sizeof *value);
    if (value != NULL)
        *value = contents;
    return (struct mudax_value *)value;
}

static struct mudax_value *make_bytes(enum value_type type, const void *data, size_t size)
{
    struct value contents = {.type = type};
    if ((data == NULL && size != 0) || !copy_bytes(bytes_of(data, size), &contents.bytes))
        return NULL;
    struct mudax_value *value = make(contents);
    if (value == NULL)
        release(&contents);
    return value;
}

struct mudax_value *mudax_string(const char *text)
{
    return text == NULL ? NULL : make_bytes(VALUE_S, text, strlen(text));
}

struct mudax_value *mudax_string_of(const void *data, size_t size)
{
    return make_bytes(VALUE_S, data, size);
}

struct mudax_value *mudax_binary(const void *data, size_t size)
{
    return make_bytes(VALUE_B, data, size);
}

struct mudax_value *mudax_number(const char *text)
{
    struct value contents = {.type = VALUE_N};
    struct error error;
    if (text == NULL || number_parse(bytes_text(text), &contents.number, &error) != STATUS_OK)
        return NULL;
    return make(contents);
}

struct mudax_value *mudax_int(int64_t integer)
{
    return make((struct value){.type = VALUE_N, .number = number_from_int(integer)});
}

struct mudax_value *mudax_bool(bool truth)
{
    return make((struct value){.type = VALUE_BOOL, .truth = truth});
}

struct mudax_value *mudax_null(void)
{
    return make((struct value){.type = VALUE_NULL});
}

struct mudax_value *mudax_list(void)
{
    return make((struct value){.type = VALUE_L});
}

struct mudax_value *mudax_map(void)
{
    return make((struct value){.type = VALUE_M});
}

struct mudax_value *mudax_string_set(void)
{
    return make((struct value){.type = VALUE_SS});
}

struct mudax_value *mudax_number_set(void)
{
    return make((struct value){.type = VALUE_NS});
}

struct mudax_value *mudax_binary_set(void)
{
    return make((struct value){.type = VALUE_BS});
}

/* ---- building ---- */

/* Arrays double whenever their count is a power of two, so no capacity needs to be kept; arrays
 * that were made in one piece (copy_tree) are just as long as the next power of two too. */
static size_t capacity_of(size_t count)
{
    size_t capacity = 1;
    while (capacity < count)
        capacity *= 2;
    return capacity;
}

static void *grow(void *array, size_t count, size_t element_size)
{
    bool is_full = count == 0 || (count & (count - 1)) == 0;
    return is_full ? realloc(array, (count == 0 ? 1 : 2 * count) * element_size) : array;
}

/* First place of a map's attributes whose name is not below `name`. */
static size_t find_place(const struct value *map, struct bytes name, bool *is_there)
{
    size_t low = 0, high = map->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (bytes_compare(map->attributes[middle].name, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    *is_there = low < map->count && bytes_equal(map->attributes[low].name, name);
    return low;
}

/* Moves `value` into the map, or leaves it alone on failure. */
static bool put(struct value *map, struct bytes name, struct value *value)
{
    bool is_there;
    size_t place = find_place(map, name, &is_there);
    if (!is_there) {
        struct bytes copy;
        struct attribute *grown = grow(map->attributes, map->count, sizeof map->attributes[0]);
        if (grown == NULL)
            return false;
        map->attributes = grown;
        if (!copy_bytes(name, &copy))
            return false;
        memmove(&grown[place + 1], &grown[place], (map->count - place) * sizeof grown[0]);
        grown[place] = (struct attribute){.name = copy};
        map->count++;
    } else {
        release(&map->attributes[place].value);
    }
    map->attributes[place].value = *value;
    return true;
}

/* Frees what a failed mudax_put() or mudax_append() was given, and remembers the failure. */
static bool spoil(struct value *container, struct mudax_value *value)
{
    mudax_free(value);
    if (container != NULL && is_container(container->type))
        container->truth = true;
    return false;
}

bool mudax_put(struct mudax_value *map, const char *name, struct mudax_value *value)
{
    struct value *tree = tree_of(map);
    if (tree == NULL || tree->type != VALUE_M || value == NULL || name == NULL)
        return spoil(tree, value);
    bool is_spoilt = value_is_spoilt(value_tree(value));
    if (!put(tree, bytes_text(name), tree_of(value)))
        return spoil(tree, value);
    free(value); /* its contents moved */
    tree->truth |= is_spoilt;
    return !is_spoilt;
}

static int compare_members(const struct value *a, const struct value *b)
{
    return a->type == VALUE_N ? number_compare(&a->number, &b->number)
                              : bytes_compare(a->bytes, b->bytes);
}

static enum value_type member_type(enum value_type set)
{
    return set == VALUE_SS ? VALUE_S : set == VALUE_NS ? VALUE_N : VALUE_B;
}

/* Where a new member of a set goes; false when it is there already. */
static bool find_member_place(const struct value *set, const struct value *member, size_t *place)
{
    size_t low = 0, high = set->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = compare_members(&set->values[middle], member);
        if (order == 0)
            return false;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    *place = low;
    return true;
}

static bool append(struct value *list, const struct value *value)
{
    size_t place = list->count;
    if (is_set(list->type) &&
        (value->type != member_type(list->type) || !find_member_place(list, value, &place)))
        return false;
    struct value *grown = grow(list->values, list->count, sizeof list->values[0]);
    if (grown == NULL)
        return false;
    list->values = grown;
    memmove(&grown[place + 1], &grown[place], (list->count - place) * sizeof grown[0]);
    grown[place] = *value;
    list->count++;
    return true;
}

bool mudax_append(struct mudax_value *list_or_set, struct mudax_value *value)
{
    struct value *tree = tree_of(list_or_set);
    if (tree == NULL || !is_container(tree->type) || tree->type == VALUE_M || value == NULL)
        return spoil(tree, value);
    bool is_spoilt = value_is_spoilt(value_tree(value));
    if (!append(tree, value_tree(value)))
        return spoil(tree, value);
    free(value);
    tree->truth |= is_spoilt;
    return !is_spoilt;
}

/* ---- copying ---- */

/* On failure `out` holds what release() can take. */
static bool copy_tree(const struct value *value, struct value *out)
{
    *out = (struct value){.type = value->type, .truth = value->truth, .number = value->number};
    if (value->type == VALUE_S || value->type == VALUE_B)
        return copy_bytes(value->bytes, &out->bytes);
    if (!is_container(value->type) || value->count == 0)
        return true;
    size_t capacity = capacity_of(value->count);
    if (value->type == VALUE_M)
        out->attributes = calloc(capacity, sizeof out->attributes[0]);
    else
        out->values = calloc(capacity, sizeof out->values[0]);
    if (out->attributes == NULL && out->values == NULL)
        return false;
    out->count = value->count; /* the rest is zero: nothing to release */
    for (size_t i = 0; i < value->count; i++) {
        bool is_copied = value->type == VALUE_M
                             ? copy_bytes(value->attributes[i].name, &out->attributes[i].name) &&
                                   copy_tree(&value->attributes[i].value, &out->attributes[i].value)
                             : copy_tree(&value->values[i], &out->values[i]);
        if (!is_copied)
            return false;
    }
    return true;
}

struct mudax_value *mudax_copy(const struct mudax_value *value)
{
    struct value contents = {0};
    if (value == NULL)
        return NULL;
    struct mudax_value *copy = copy_tree(value_tree(value), &contents) ? make(contents) : NULL;
    if (copy == NULL)
        release(&contents);
    return copy;
}

/* ---- reading ---- */

enum mudax_type mudax_type(const struct mudax_value *value)
{
    return value == NULL ? MUDAX_NONE : (enum mudax_type)value_tree(value)->type;
}

size_t mudax_count(const struct mudax_value *value)
{
    return value != NULL && is_container(value_tree(value)->type) ? value_tree(value)->count : 0;
}

const struct mudax_value *mudax_get(const struct mudax_value *map, const char *name)
{
    bool is_there = false;
    if (mudax_type(map) != MUDAX_M || name == NULL)
        return NULL;
    size_t place = find_place(value_tree(map), bytes_text(name), &is_there);
    return is_there ? value_handle(&value_tree(map)->attributes[place].value) : NULL;
}

const struct mudax_value *mudax_at(const struct mudax_value *value, size_t index)
{
    if (index >= mudax_count(value))
        return NULL;
    const struct value *tree = value_tree(value);
    return value_handle(tree->type == VALUE_M ? &tree->attributes[index].value
                                              : &tree->values[index]);
}

const char *mudax_name_at(const struct mudax_value *map, size_t index, size_t *size)
{
    struct bytes name = BYTES_NONE;
    if (mudax_type(map) == MUDAX_M && index < mudax_count(map))
        name = value_tree(map)->attributes[index].name;
    if (size != NULL)
        *size = name.size;
    return (const char *)name.data;
}

const char *mudax_text(const struct mudax_value *value, size_t *size)
{
    enum mudax_type type = mudax_type(value);
    struct bytes bytes = type == MUDAX_S || type == MUDAX_B ? value_tree(value)->bytes : BYTES_NONE;
    if (size != NULL)
        *size = bytes.size;
    return (const char *)bytes.data;
}

const char *mudax_number_text(const struct mudax_value *value, char out[MUDAX_NUMBER_TEXT])
{
    _Static_assert((int)MUDAX_NUMBER_TEXT == (int)NUMBER_TEXT_MAX + 1, "room for a NUL");
    size_t size = mudax_type(value) == MUDAX_N ? number_print(&value_tree(value)->number, out) : 0;
    out[size] = '\0';
    return out;
}

bool mudax_as_int(const struct mudax_value *value, int64_t *out)
{
    return mudax_type(value) == MUDAX_N && number_to_int(&value_tree(value)->number, out);
}

bool mudax_truth(const struct mudax_value *value)
{
    return mudax_type(value) == MUDAX_BOOL && value_tree(value)->truth;
}

size_t mudax_item_size(const struct mudax_value *map)
{
    struct buffer packed = {0};
    bool is_packed = mudax_type(map) == MUDAX_M && value_encode(value_tree(map), &packed);
    size_t size = is_packed ? item_size(buffer_bytes(&packed)) : 0;
    buffer_deinit(&packed);
    return size;
}

/* ---- JSON ---- */

static struct mudax_value *from_json(const char *text, size_t size, bool is_plain,
                                     struct mudax_error *error)
{
    struct arena arena;
    struct error reason = {0};
    struct value tree = {0};
    struct mudax_value *value = NULL;
    arena_init(&arena, NULL, 0, JSON_ARENA_MAX);
    enum status status = is_plain ? json_to_plain(bytes_of(text, size), &arena, &tree, &reason)
                                  : json_to_item(bytes_of(text, size), &arena, &tree, &reason);
    if (status == STATUS_NO_MEMORY) {
        failure_no_memory(error);
    } else if (status != STATUS_OK) {
        failure_set(error, MUDAX_INVALID_REQUEST, "%s", error_text(&reason));
    } else {
        value = mudax_copy(value_handle(&tree));
        if (value == NULL)
            failure_no_memory(error);
    }
    arena_deinit(&arena);
    return value;
}

struct mudax_value *mudax_from_json(const char *text, size_t size, struct mudax_error *error)
{
    return from_json(text, size, false, error);
}

struct mudax_value *mudax_from_plain_json(const char *text, size_t size, struct mudax_error *error)
{
    return from_json(text, size, true, error);
}

static char *to_json(const struct mudax_value *map, int indent, bool is_plain)
{
    struct buffer out = {0};
    if (mudax_type(map) != MUDAX_M || indent < 0 || indent > 31)
        return NULL;
    bool is_written = is_plain ? json_from_plain(value_tree(map), indent, &out)
                               : json_from_item(value_tree(map), indent, &out);
    if (is_written && buffer_append(&out, bytes_of("", 1)))
        return (char *)out.data;
    buffer_deinit(&out);
    return NULL;
}

char *mudax_to_json(const struct mudax_value *map, int indent)
{
    return to_json(map, indent, false);
}

char *mudax_to_plain_json(const struct mudax_value *map, int indent)
{
    return to_json(map, indent, true);
}
