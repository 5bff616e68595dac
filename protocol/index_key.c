#include "protocol/index_key.h"

#include "protocol/encoding/msgpack.h"
#include "protocol/expression_update.h"

/* The values of an index's key before they are put together. */
struct places {
    struct bytes partition, sort; /* not given: the item has no such attribute */
    uint8_t ordered_partition[NUMBER_ORDERED_MAX], ordered_sort[NUMBER_ORDERED_MAX];
};

static enum status refuse_type(const struct secondary_index *index,
                               const struct key_attribute *attribute, enum value_type actual,
                               struct error *error)
{
    (void)error_set(error, STATUS_VALIDATION,
                    "One or more parameter values were invalid: Type mismatch for Index Key %.*s "
                    "Expected: %s Actual: %s IndexName: %.*s",
                    (int)attribute->name.size, (const char *)attribute->name.data,
                    value_type_name(attribute->type), value_type_name(actual),
                    (int)index->name.size, (const char *)index->name.data);
    return error_is_misfit(error);
}

static enum status refuse_empty(const struct secondary_index *index,
                                const struct key_attribute *attribute, struct error *error)
{
    return error_set(error, STATUS_VALIDATION,
                     "One or more parameter values are not valid. A value specified for a "
                     "secondary index key is not supported. The AttributeValue for a key attribute "
                     "cannot contain an empty %s value. IndexName: %.*s, IndexKey: %.*s",
                     attribute->type == VALUE_S ? "string" : "binary", (int)index->name.size,
                     (const char *)index->name.data, (int)attribute->name.size,
                     (const char *)attribute->name.data);
}

/* Leaves `out` not given when the item has no such attribute. */
static enum status read_place(struct bytes item, const struct secondary_index *index, bool is_sort,
                              uint8_t ordered[NUMBER_ORDERED_MAX], struct bytes *out,
                              struct error *error)
{
    const struct key_attribute *attribute = is_sort ? &index->key.sort : &index->key.partition;
    struct bytes value;
    *out = BYTES_NONE;
    if (!item_find(item, attribute->name, &value))
        return STATUS_OK;
    struct msgpack_cursor cursor = msgpack_cursor_of(value), ahead = cursor;
    struct msgpack_head head;
    enum value_type type;
    if (msgpack_read(&ahead, &head) && msgpack_head_type(&head, &type)) {
        if (type != attribute->type)
            return refuse_type(index, attribute, type, error);
        if (type != VALUE_N && head.bytes.size == 0)
            return refuse_empty(index, attribute, error);
    }
    return key_value_read(&cursor, &index->key, is_sort, KEY_IN_ITEM, ordered, out, error);
}

static enum status read_places(struct bytes item, const struct secondary_index *index,
                               struct places *out, struct error *error)
{
    out->sort = BYTES_NONE;
    enum status status =
        read_place(item, index, false, out->ordered_partition, &out->partition, error);
    if (status == STATUS_OK && key_schema_has_sort(&index->key))
        status = read_place(item, index, true, out->ordered_sort, &out->sort, error);
    return status;
}

enum status index_key_build(struct bytes item, const struct secondary_index *index,
                            struct item_key primary, struct arena *arena, struct item_key *out,
                            struct error *error)
{
    struct places places;
    bool has_sort = key_schema_has_sort(&index->key);
    *out = (struct item_key){.partition_size = 0};
    enum status status = read_places(item, index, &places, error);
    if (status != STATUS_OK || !bytes_given(places.partition) ||
        (has_sort && !bytes_given(places.sort)))
        return status;
    uint8_t *bytes = arena_alloc(arena, 2 * places.partition.size + 2 + 2 * places.sort.size + 2 +
                                            primary.bytes.size);
    if (bytes == NULL)
        return error_set(error, STATUS_NO_MEMORY, "%s", "");
    uint8_t *end = key_part_write(bytes, index->key.partition.type, places.partition, false);
    out->partition_size = (size_t)(end - bytes);
    if (has_sort)
        end = key_part_write(end, index->key.sort.type, places.sort, false);
    memcpy(end, primary.bytes.data, primary.bytes.size);
    out->bytes = bytes_of(bytes, (size_t)(end - bytes) + primary.bytes.size);
    return STATUS_OK;
}

static bool is_empty(struct bytes item, const struct key_attribute *attribute)
{
    struct bytes value;
    struct msgpack_head head;
    enum value_type type;
    if (attribute->name.size == 0 || attribute->type == VALUE_N ||
        !item_find(item, attribute->name, &value))
        return false;
    struct msgpack_cursor cursor = msgpack_cursor_of(value);
    return msgpack_read(&cursor, &head) && msgpack_head_type(&head, &type) &&
           type == attribute->type && head.bytes.size == 0;
}

/* Empty keys come first, in whatever index: they are refused where another type cancels. */
static enum status refuse_misfit(struct bytes item, const struct table *table, struct error *error)
{
    for (size_t i = 0; i < table->index_count; i++) {
        const struct secondary_index *index = &table->indexes[i];
        if (is_empty(item, &index->key.partition))
            return refuse_empty(index, &index->key.partition, error);
        if (is_empty(item, &index->key.sort))
            return refuse_empty(index, &index->key.sort, error);
    }
    return STATUS_VALIDATION;
}

enum status index_keys_check(struct bytes item, const struct table *table, struct error *error)
{
    enum status status = STATUS_OK;
    for (size_t i = 0; i < table->index_count && status == STATUS_OK; i++) {
        struct places places;
        status = read_places(item, &table->indexes[i], &places, error);
    }
    return status == STATUS_VALIDATION && error->is_misfit ? refuse_misfit(item, table, error)
                                                           : status;
}

/* False: only the item can tell. */
static bool type_of_value(const struct expression *value, enum value_type *out)
{
    switch (value->kind) {
    case EXPRESSION_VALUE:
        *out = value->value->value.type;
        return true;
    case EXPRESSION_IF_NOT_EXISTS:
        return type_of_value(value->first->next, out);
    case EXPRESSION_LIST_APPEND:
        *out = VALUE_L;
        return true;
    case EXPRESSION_PLUS:
    case EXPRESSION_MINUS:
        *out = VALUE_N;
        return true;
    default:
        return false;
    }
}

static enum status check_type(const struct secondary_index *index,
                              const struct key_attribute *attribute, const struct path_node *update,
                              struct error *error)
{
    enum value_type type;
    if (attribute->name.size == 0)
        return STATUS_OK;
    for (const struct path_node *node = update->first; node != NULL; node = node->next)
        if (node->first == NULL && bytes_equal(node->name, attribute->name) &&
            node->action->value != NULL && type_of_value(node->action->value, &type) &&
            type != attribute->type)
            return refuse_type(index, attribute, type, error);
    return STATUS_OK;
}

enum status index_keys_check_update(const struct path_node *update, const struct table *table,
                                    struct error *error)
{
    enum status status = STATUS_OK;
    for (size_t i = 0; i < table->index_count && status == STATUS_OK; i++) {
        const struct secondary_index *index = &table->indexes[i];
        status = check_type(index, &index->key.partition, update, error);
        if (status == STATUS_OK)
            status = check_type(index, &index->key.sort, update, error);
    }
    return status;
}

static enum status refuse_empty_update(enum value_type type, struct error *error)
{
    return error_set(error, STATUS_VALIDATION,
                     "One or more parameter values are not valid. The update expression attempted "
                     "to update a secondary index key to a value that is not supported. The "
                     "AttributeValue for a key attribute cannot contain an empty %s value.",
                     type == VALUE_S ? "string" : "binary");
}

static bool is_set_empty(const struct path_node *update, const struct key_attribute *attribute)
{
    for (const struct path_node *node = update->first; node != NULL; node = node->next) {
        const struct expression *value = node->action == NULL ? NULL : node->action->value;
        if (node->first == NULL && bytes_equal(node->name, attribute->name) && value != NULL &&
            value->kind == EXPRESSION_VALUE)
            return value->value->value.type == attribute->type && attribute->type != VALUE_N &&
                   value->value->value.bytes.size == 0;
    }
    return false;
}

enum status index_keys_check_empty(const struct path_node *update, const struct table *table,
                                   struct error *error)
{
    for (size_t i = 0; i < table->index_count; i++) {
        const struct key_schema *key = &table->indexes[i].key;
        if (is_set_empty(update, &key->partition))
            return refuse_empty_update(key->partition.type, error);
        if (key_schema_has_sort(key) && is_set_empty(update, &key->sort))
            return refuse_empty_update(key->sort.type, error);
    }
    return STATUS_OK;
}

enum status index_key_refuse_update(struct bytes item, const struct secondary_index *index,
                                    struct error *error)
{
    const struct key_attribute *attributes[] = {&index->key.partition, &index->key.sort};
    for (size_t i = 0; i < 2; i++) {
        struct bytes value;
        struct msgpack_head head;
        enum value_type type;
        if (attributes[i]->name.size == 0 || !item_find(item, attributes[i]->name, &value))
            continue;
        struct msgpack_cursor cursor = msgpack_cursor_of(value);
        if (!msgpack_read(&cursor, &head) || !msgpack_head_type(&head, &type) ||
            type != attributes[i]->type)
            return error_set(error, STATUS_VALIDATION,
                             "The update expression attempted to update the secondary index key "
                             "to unsupported type");
        if (type != VALUE_N && head.bytes.size == 0)
            return refuse_empty_update(type, error);
    }
    return error_set(error, STATUS_VALIDATION,
                     "The update expression attempted to update the secondary index key beyond "
                     "allowed size limits");
}

enum status index_start_key_build(struct bytes map, const struct table *table,
                                  const struct secondary_index *index, struct arena *arena,
                                  struct item_key *out, struct error *error)
{
    struct msgpack_cursor cursor = msgpack_cursor_of(map);
    struct item_key primary;
    uint32_t pairs = 0;
    enum status status = item_key_build(map, &table->key, false, arena, &primary, error);
    if (status == STATUS_OK)
        status = index_key_build(map, index, primary, arena, out, error);
    if (status == STATUS_NO_MEMORY)
        return status;
    if (status != STATUS_OK || !bytes_given(out->bytes) || !msgpack_read_map(&cursor, &pairs) ||
        pairs != index->key_count)
        return error_set(error, STATUS_VALIDATION, "The provided starting key is invalid");
    return STATUS_OK;
}

bool index_shows(const struct secondary_index *index, struct bytes name)
{
    const struct path_node *node = index->shown == NULL ? NULL : index->shown->first;
    while (node != NULL && !bytes_equal(node->name, name))
        node = node->next;
    return index->shown == NULL || node != NULL;
}

const struct path_node *names_tree(const struct bytes *names, size_t count, struct arena *arena,
                                   size_t *distinct)
{
    struct path_node *root = arena_alloc(arena, sizeof *root);
    size_t made = 0;
    if (root == NULL)
        return NULL;
    *root = (struct path_node){.name = BYTES_NONE};
    for (size_t i = 0; i < count; i++) {
        struct path_node **at = &root->first;
        while (*at != NULL && bytes_compare((*at)->name, names[i]) < 0)
            at = &(*at)->next;
        if (*at != NULL && bytes_equal((*at)->name, names[i]))
            continue;
        struct path_node *node = arena_alloc(arena, sizeof *node);
        if (node == NULL)
            return NULL;
        *node = (struct path_node){.next = *at, .name = names[i]};
        *at = node;
        made++;
    }
    if (distinct != NULL)
        *distinct = made;
    return root;
}
