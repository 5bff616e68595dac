#include "protocol/request_bind.h"

#include "protocol/encoding/msgpack.h"
#include "protocol/expression_update.h"
#include "protocol/index_key.h"

const char *operation_name(enum operation operation)
{
    static const char *const names[OPERATIONS] = {
        [OPERATION_HELLO] = "Hello",
        [OPERATION_PING] = "Ping",
        [OPERATION_GET_ITEM] = "GetItem",
        [OPERATION_PUT_ITEM] = "PutItem",
        [OPERATION_DELETE_ITEM] = "DeleteItem",
        [OPERATION_QUERY] = "Query",
        [OPERATION_CREATE_TABLE] = "CreateTable",
        [OPERATION_DESCRIBE_TABLE] = "DescribeTable",
        [OPERATION_LIST_TABLES] = "ListTables",
        [OPERATION_DELETE_TABLE] = "DeleteTable",
        [OPERATION_STATS] = "Stats",
        [OPERATION_UPDATE_ITEM] = "UpdateItem",
        [OPERATION_SCAN] = "Scan",
        [OPERATION_BATCH_GET_ITEM] = "BatchGetItem",
        [OPERATION_BATCH_WRITE_ITEM] = "BatchWriteItem",
        [OPERATION_TRANSACT_GET_ITEMS] = "TransactGetItems",
        [OPERATION_TRANSACT_WRITE_ITEMS] = "TransactWriteItems",
        [OPERATION_CONDITION_CHECK] = "ConditionCheck",
        [OPERATION_UPDATE_TABLE] = "UpdateTable",
        [OPERATION_UPDATE_TIME_TO_LIVE] = "UpdateTimeToLive",
        [OPERATION_DESCRIBE_TIME_TO_LIVE] = "DescribeTimeToLive",
        [OPERATION_FILL_INDEX] = "FillIndex",
        [OPERATION_SPLIT_PARTITION] = "SplitPartition",
        [OPERATION_LOOK_AT_SHARED] = "LookAtShared",
        [OPERATION_PURGE] = "Purge",
        [OPERATION_EXPLAIN] = "Explain",
        [OPERATION_DESCRIBE_HEAT] = "DescribeHeat",
        [OPERATION_TAG_RESOURCE] = "TagResource",
        [OPERATION_UNTAG_RESOURCE] = "UntagResource",
        [OPERATION_LIST_TAGS_OF_RESOURCE] = "ListTagsOfResource",
    };
    size_t number = (size_t)operation;
    return number < OPERATIONS && names[number] != NULL ? names[number] : "Unknown";
}

enum status definition_check_size(enum operation operation, size_t size, struct error *error)
{
    return size <= DEFINITION_BYTES_MAX
               ? STATUS_OK
               : error_set(error, STATUS_VALIDATION,
                           "%s: the parameters are too large: %d bytes of MessagePack at most",
                           operation_name(operation), DEFINITION_BYTES_MAX);
}

bool operation_is_spoken(enum operation operation)
{
    return (unsigned)operation < OPERATIONS && operation != OPERATION_FILL_INDEX &&
           operation != OPERATION_SPLIT_PARTITION && operation != OPERATION_LOOK_AT_SHARED;
}

bool operation_may_change(enum operation operation)
{
    switch (operation) {
    case OPERATION_PUT_ITEM:
    case OPERATION_DELETE_ITEM:
    case OPERATION_UPDATE_ITEM:
    case OPERATION_BATCH_WRITE_ITEM:
    case OPERATION_TRANSACT_WRITE_ITEMS:
    case OPERATION_CREATE_TABLE:
    case OPERATION_UPDATE_TABLE:
    case OPERATION_DELETE_TABLE:
    case OPERATION_UPDATE_TIME_TO_LIVE:
    case OPERATION_TAG_RESOURCE:
    case OPERATION_UNTAG_RESOURCE:
    case OPERATION_FILL_INDEX:
    case OPERATION_SPLIT_PARTITION:
    case OPERATION_LOOK_AT_SHARED:
        return true;
    default:
        return false;
    }
}

/* ---- expressions ---- */

/* Names and values without an expression that could use them. */
static enum status check_use(const struct request *request, struct error *error)
{
    bool is_update = request->operation == OPERATION_UPDATE_ITEM;
    bool has_user = bytes_given(request->condition) || bytes_given(request->key_condition.text) ||
                    bytes_given(request->update) || bytes_given(request->filter);
    bool has_names_user = has_user || bytes_given(request->projection);
    if (!has_names_user && bytes_given(request->key_condition.names))
        return error_set(error, STATUS_VALIDATION,
                         "ExpressionAttributeNames can only be specified when using expressions");
    if (!has_user && bytes_given(request->key_condition.values))
        return error_set(error, STATUS_VALIDATION,
                         "ExpressionAttributeValues can only be specified when using expressions: "
                         "%s",
                         is_update ? "UpdateExpression and ConditionExpression are null"
                                   : "ConditionExpression is null");
    return STATUS_OK;
}

static enum status parse_condition(struct bytes text, const char *what,
                                   struct expression_binding *binding, struct arena *arena,
                                   struct expression **out, struct error *error)
{
    return bytes_given(text) ? condition_parse(text, what, binding, arena, out, error) : STATUS_OK;
}

/* Each is parsed before any is judged by what it says, in DynamoDB's order. */
static enum status parse_expressions(const struct request *request, struct arena *arena,
                                     struct trees *out, struct error *error)
{
    struct expression_binding binding;
    const struct expression_input *input = &request->key_condition;
    bool needs_values = bytes_given(request->condition) || bytes_given(request->filter) ||
                        bytes_given(request->update);
    enum status status = check_use(request, error);
    if (status == STATUS_OK)
        status = binding_init(input->names, input->values, arena, &binding, error);
    binding.is_made = request->is_legacy;
    if (status == STATUS_OK && !request->is_legacy)
        status = binding_check_size(input->names, input->values, error);
    if (status == STATUS_OK && needs_values)
        status = binding_encode(&binding, arena, error);
    if (status == STATUS_OK && bytes_given(request->update))
        status = update_parse(request->update, &binding, arena, &out->update, error);
    if (status == STATUS_OK)
        status = parse_condition(request->condition, "ConditionExpression", &binding, arena,
                                 &out->condition, error);
    if (status == STATUS_OK)
        status = parse_condition(input->text, "KeyConditionExpression", &binding, arena,
                                 &out->key_condition, error);
    if (status == STATUS_OK)
        status = parse_condition(request->filter, "FilterExpression", &binding, arena, &out->filter,
                                 error);
    if (status == STATUS_OK && bytes_given(request->projection))
        status = projection_parse(request->projection, &binding, arena, &out->projection, error);
    if (status == STATUS_OK)
        status = binding_check_all_used(&binding, error);
    return status;
}

/* One branch: this is on the path of every hit. */
static inline bool has_expressions(const struct request *request)
{
    const struct expression_input *input = &request->key_condition;
    return ((uintptr_t)input->text.data | (uintptr_t)input->names.data |
            (uintptr_t)input->values.data | (uintptr_t)request->condition.data |
            (uintptr_t)request->filter.data | (uintptr_t)request->projection.data |
            (uintptr_t)request->update.data) != 0;
}

enum status request_bind_expressions(struct request *request, struct arena *arena,
                                     struct trees *trees, struct error *error)
{
    *trees = (struct trees){.condition = NULL};
    if (!has_expressions(request))
        return STATUS_OK;
    enum status status = parse_expressions(request, arena, trees, error);
    if (status == STATUS_OK) {
        request->condition_tree = trees->condition;
        request->filter_tree = trees->filter;
        request->projection_tree = trees->projection;
        request->update_tree = trees->update;
    }
    return status;
}

/* PutItem and DeleteItem, of which nothing is updated. */
static enum status bind_write(struct request *request, struct arena *arena, struct error *error)
{
    struct trees trees = {.condition = NULL};
    if (request->return_values != RETURN_NONE && request->return_values != RETURN_ALL_OLD)
        return error_set(error, STATUS_VALIDATION, "ReturnValues can only be ALL_OLD or NONE");
    return request_bind_expressions(request, arena, &trees, error);
}

/* ---- keys and items ---- */

static enum status check_key(const struct request *request, struct error *error)
{
    return LIKELY(bytes_given(request->key))
               ? STATUS_OK
               : error_set(error, STATUS_VALIDATION,
                           "The parameter 'Key' is required but was not present in the request");
}

static enum status bind_key(struct request *request, const struct key_schema *schema,
                            struct arena *arena, struct error *error)
{
    enum status status = check_key(request, error);
    if (UNLIKELY(status != STATUS_OK))
        return status;
    return item_key_build(request->key, schema, true, arena, &request->item_key, error);
}

static enum status check_item(const struct request *request, struct arena *arena,
                              struct bytes *canonical, size_t *size, struct error *error)
{
    if (!bytes_given(request->item))
        return error_set(error, STATUS_VALIDATION,
                         "The parameter 'Item' is required but was not present in the request");
    return item_canonical(request->item, arena, canonical, size, error);
}

static enum status bind_item(struct request *request, const struct table *table,
                             struct arena *arena, struct error *error)
{
    struct bytes canonical;
    size_t size = 0;
    enum status status = check_item(request, arena, &canonical, &size, error);
    if (status == STATUS_OK)
        status = item_key_build(canonical, &table->key, false, arena, &request->item_key, error);
    if (status == STATUS_OK)
        status = index_keys_check(canonical, table, error);
    if (status != STATUS_OK)
        return status;
    request->item = canonical;
    request->item_size = size;
    return STATUS_OK;
}

/* ---- updates ---- */

static bool is_key(const struct key_schema *schema, struct bytes name)
{
    return bytes_equal(name, schema->partition.name) ||
           (key_schema_has_sort(schema) && bytes_equal(name, schema->sort.name));
}

static enum status check_update(const struct path_node *update, const struct key_schema *schema,
                                struct error *error)
{
    for (const struct path_node *node = update->first; node != NULL; node = node->next)
        if (is_key(schema, node->name))
            return error_set(error, STATUS_VALIDATION,
                             "One or more parameter values were invalid: Cannot update attribute "
                             "%.*s. This attribute is part of the key",
                             (int)node->name.size, (const char *)node->name.data);
    return STATUS_OK;
}

static enum status bind_update(struct request *request, const struct table *table,
                               struct arena *arena, struct error *error)
{
    const struct key_schema *schema = &table->key;
    struct trees trees = {.condition = NULL};
    struct bytes fresh = BYTES_NONE;
    enum status status = request_bind_expressions(request, arena, &trees, error);
    if (status == STATUS_OK)
        status = bind_key(request, schema, arena, error);
    if (status == STATUS_OK && trees.update != NULL)
        status = check_update(trees.update, schema, error);
    if (status == STATUS_OK && trees.update != NULL)
        status = index_keys_check_empty(trees.update, table, error);
    if (status == STATUS_OK)
        status = item_canonical(request->key, arena, &fresh, NULL, error);
    if (status == STATUS_OK)
        request->item = fresh;
    return status;
}

/* ---- keys in paths ---- */

/* A path that goes on behind this name. */
static enum status check_scalar(const struct table *table, struct bytes name, struct error *error)
{
    bool is_own = is_key(&table->key, name), is_other = false;
    for (size_t i = 0; i < table->index_count && !is_own && !is_other; i++)
        is_other = is_key(&table->indexes[i].key, name);
    if (!is_own && !is_other)
        return STATUS_OK;
    return error_set(error, STATUS_VALIDATION,
                     "Key attributes must be scalars; list random access '[]' and map lookup '.' "
                     "are not allowed: %s: %.*s",
                     is_own ? "Key" : "IndexKey", (int)name.size, (const char *)name.data);
}

static enum status check_scalars_of_operands(const struct table *table,
                                             const struct expression *node, struct error *error)
{
    if (node->kind == EXPRESSION_PATH)
        return node->path->next == NULL ? STATUS_OK : check_scalar(table, node->path->name, error);
    enum status status = STATUS_OK;
    for (const struct expression *operand = node->first; operand != NULL && status == STATUS_OK;
         operand = operand->next)
        status = check_scalars_of_operands(table, operand, error);
    return status;
}

/* What a SET has on its right. */
static enum status check_scalars_of_values(const struct table *table, const struct path_node *node,
                                           struct error *error)
{
    enum status status = node->action == NULL || node->action->value == NULL
                             ? STATUS_OK
                             : check_scalars_of_operands(table, node->action->value, error);
    for (node = node->first; node != NULL && status == STATUS_OK; node = node->next)
        status = check_scalars_of_values(table, node, error);
    return status;
}

static enum status check_scalars_of_paths(const struct table *table, const struct path_node *tree,
                                          struct error *error)
{
    enum status status = STATUS_OK;
    for (const struct path_node *node = tree->first; node != NULL && status == STATUS_OK;
         node = node->next)
        if (node->first != NULL)
            status = check_scalar(table, node->name, error);
    return status;
}

/* Keys have no parts that projections, filters and updates could name. */
static enum status check_scalars(const struct request *request, const struct table *table,
                                 struct error *error)
{
    enum status status = STATUS_OK;
    if (request->projection_tree != NULL)
        status = check_scalars_of_paths(table, request->projection_tree, error);
    if (status == STATUS_OK && request->update_tree != NULL)
        status = check_scalars_of_paths(table, request->update_tree, error);
    if (status == STATUS_OK && request->update_tree != NULL)
        status = check_scalars_of_values(table, request->update_tree, error);
    if (status == STATUS_OK && request->filter_tree != NULL)
        status = check_scalars_of_operands(table, request->filter_tree, error);
    return status;
}

static enum status check_expressions(struct request *request, struct arena *arena,
                                     struct error *error)
{
    struct trees trees = {.condition = NULL};
    bool is_write = request->operation == OPERATION_PUT_ITEM ||
                    request->operation == OPERATION_DELETE_ITEM ||
                    request->operation == OPERATION_CONDITION_CHECK;
    return is_write ? bind_write(request, arena, error)
                    : request_bind_expressions(request, arena, &trees, error);
}

enum status request_check(struct request *request, struct arena *arena, struct error *error)
{
    struct bytes canonical;
    size_t size = 0;
    enum status status = table_name_check(request->table_name, error);
    if (status == STATUS_OK)
        status = check_expressions(request, arena, error);
    if (status != STATUS_OK)
        return status;
    switch (request->operation) {
    case OPERATION_PUT_ITEM:
        return check_item(request, arena, &canonical, &size, error);
    case OPERATION_GET_ITEM:
    case OPERATION_DELETE_ITEM:
    case OPERATION_UPDATE_ITEM:
    case OPERATION_CONDITION_CHECK:
        return check_key(request, error);
    default:
        return STATUS_OK;
    }
}

enum status request_bind(struct request *request, const struct table *table, struct arena *arena,
                         struct error *error)
{
    if (request->table != NULL)
        return STATUS_OK;
    struct trees trees = {.condition = NULL};
    enum status status = STATUS_OK;
    switch (request->operation) {
    case OPERATION_GET_ITEM:
        if (UNLIKELY(has_expressions(request)))
            status = request_bind_expressions(request, arena, &trees, error);
        if (LIKELY(status == STATUS_OK))
            status = bind_key(request, &table->key, arena, error);
        break;
    case OPERATION_DELETE_ITEM:
        status = bind_write(request, arena, error);
        if (status == STATUS_OK)
            status = bind_key(request, &table->key, arena, error);
        break;
    case OPERATION_PUT_ITEM:
        status = bind_write(request, arena, error);
        if (status == STATUS_OK)
            status = bind_item(request, table, arena, error);
        break;
    case OPERATION_UPDATE_ITEM:
        status = bind_update(request, table, arena, error);
        break;
    case OPERATION_QUERY:
        status = request_bind_query(request, table, arena, error);
        break;
    case OPERATION_SCAN:
        status = request_bind_scan(request, table, arena, error);
        break;
    case OPERATION_CONDITION_CHECK:
        status = bind_write(request, arena, error);
        if (status == STATUS_OK)
            status = bind_key(request, &table->key, arena, error);
        break;
    case OPERATION_PURGE:
        status = request_bind_purge(request, table, arena, error);
        break;
    default: /* the others name no key */
        break;
    }
    if (status == STATUS_OK && has_expressions(request))
        status = check_scalars(request, table, error);
    if (status == STATUS_OK)
        request->table = table;
    return status;
}

bool request_copy_read(const struct request *request, struct arena *arena, struct request *out)
{
    *out = (struct request){
        .operation = request->operation,
        .limit = request->limit,
        .is_consistent = request->is_consistent,
        .is_backward = request->is_backward,
        .select = request->select,
        .is_legacy = request->is_legacy,
        .segment = request->segment,
        .segments = request->segments,
        .has_segment = request->has_segment,
    };
    const struct bytes *from[] = {
        &request->table_name,           &request->key,
        &request->key_condition.text,   &request->key_condition.names,
        &request->key_condition.values, &request->filter,
        &request->projection,           &request->start_key,
        &request->index_name,
    };
    struct bytes *to[] = {
        &out->table_name,           &out->key,
        &out->key_condition.text,   &out->key_condition.names,
        &out->key_condition.values, &out->filter,
        &out->projection,           &out->start_key,
        &out->index_name,
    };
    for (size_t i = 0; i < sizeof from / sizeof from[0]; i++) {
        if (!bytes_given(*from[i]))
            continue;
        *to[i] = arena_copy(arena, *from[i]);
        if (!bytes_given(*to[i]))
            return false;
    }
    return true;
}
