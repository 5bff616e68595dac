#include "protocol/request.h"

#include "protocol/encoding/msgpack.h"
#include "protocol/expression_form.h"
#include "protocol/expression_update.h"

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
    };
    size_t number = (size_t)operation;
    return number < OPERATIONS ? names[number] : "Unknown";
}

/* ---- expressions ---- */

/* What the expressions of a request say, until all is known to be right. */
struct trees {
    struct expression *condition, *key_condition, *filter;
    struct path_node *projection, *update;
};

/* Names and values without an expression that could use them. */
static enum status check_use(const struct request *request, struct error *error)
{
    bool is_update = request->operation == OPERATION_UPDATE_ITEM;
    bool has_user = bytes_given(request->condition) || bytes_given(request->key_condition.text) ||
                    bytes_given(request->update);
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

static enum status bind_expressions(struct request *request, struct arena *arena,
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
    return bind_expressions(request, arena, &trees, error);
}

/* ---- keys and items ---- */

static enum status bind_key(struct request *request, const struct key_schema *schema,
                            struct arena *arena, struct error *error)
{
    if (UNLIKELY(!bytes_given(request->key)))
        return error_set(error, STATUS_VALIDATION,
                         "The parameter 'Key' is required but was not present in the request");
    return item_key_build(request->key, schema, true, arena, &request->item_key, error);
}

static enum status bind_item(struct request *request, const struct key_schema *schema,
                             struct arena *arena, struct error *error)
{
    if (!bytes_given(request->item))
        return error_set(error, STATUS_VALIDATION,
                         "The parameter 'Item' is required but was not present in the request");
    struct bytes canonical;
    size_t size = 0;
    enum status status = item_canonical(request->item, arena, &canonical, &size, error);
    if (status == STATUS_OK)
        status = item_key_build(canonical, schema, false, arena, &request->item_key, error);
    if (status != STATUS_OK)
        return status;
    request->item = canonical;
    request->item_size = size;
    return STATUS_OK;
}

/* Leaves of the interval what comes behind the start key, in the direction of reading. */
static enum status apply_start_key(struct request *request, const struct key_schema *schema,
                                   struct arena *arena, struct key_condition *range,
                                   struct error *error)
{
    struct item_key start;
    enum status status = item_key_build(request->start_key, schema, true, arena, &start, error);
    if (status == STATUS_VALIDATION)
        return error_set(error, status, "The provided starting key is invalid");
    if (status != STATUS_OK)
        return status;
    struct bytes sort = item_key_sort(start);
    if (!bytes_equal(item_key_partition(start), range->partition) ||
        !key_interval_holds(&range->interval, sort))
        return error_set(error, STATUS_VALIDATION,
                         "The provided starting key is outside query boundaries based on provided "
                         "conditions");
    if (request->is_backward)
        range->interval.high = sort;
    else if (!bytes_next(sort, arena, &range->interval.low))
        return error_set(error, STATUS_NO_MEMORY, "%s", "");
    return STATUS_OK;
}

/* ---- updates ---- */

static enum status check_update(const struct path_node *update, const struct key_schema *schema,
                                struct error *error)
{
    for (const struct path_node *node = update->first; node != NULL; node = node->next)
        if (bytes_equal(node->name, schema->partition.name) ||
            (key_schema_has_sort(schema) && bytes_equal(node->name, schema->sort.name)))
            return error_set(error, STATUS_VALIDATION,
                             "One or more parameter values were invalid: Cannot update attribute "
                             "%.*s. This attribute is part of the key",
                             (int)node->name.size, (const char *)node->name.data);
    return STATUS_OK;
}

static enum status bind_update(struct request *request, const struct key_schema *schema,
                               struct arena *arena, struct error *error)
{
    struct trees trees = {.condition = NULL};
    struct bytes fresh = BYTES_NONE;
    enum status status = bind_expressions(request, arena, &trees, error);
    if (status == STATUS_OK)
        status = bind_key(request, schema, arena, error);
    if (status == STATUS_OK && trees.update != NULL)
        status = check_update(trees.update, schema, error);
    if (status == STATUS_OK)
        status = item_canonical(request->key, arena, &fresh, NULL, error);
    if (status == STATUS_OK)
        request->item = fresh;
    return status;
}

/* ---- pages ---- */

static enum status check_select(const struct request *request, struct error *error)
{
    static const char *const shown[SELECTS] = {
        [SELECT_ALL_ATTRIBUTES] = "ALL_ATTRIBUTES",
        [SELECT_COUNT] = "only the Count",
    };
    if (request->select == SELECT_ALL_PROJECTED_ATTRIBUTES)
        return error_set(error, STATUS_VALIDATION,
                         "One or more parameter values were invalid: Select type "
                         "ALL_PROJECTED_ATTRIBUTES is not supported for a query on a table");
    if (request->select == SELECT_SPECIFIC_ATTRIBUTES && !bytes_given(request->projection))
        return error_set(error, STATUS_VALIDATION,
                         "Must specify the AttributesToGet or ProjectionExpression when choosing "
                         "to get SPECIFIC_ATTRIBUTES");
    if (bytes_given(request->projection) && shown[request->select] != NULL)
        return error_set(error, STATUS_VALIDATION,
                         "Cannot specify the ProjectionExpression when choosing to get %s",
                         shown[request->select]);
    return STATUS_OK;
}

static enum status refuse_filter(struct bytes name, struct error *error)
{
    return error_set(error, STATUS_VALIDATION,
                     "Filter Expression can only contain non-primary key attributes: Primary key "
                     "attribute: %.*s",
                     (int)name.size, (const char *)name.data);
}

/* A filter must not look at the key: that is the key condition's matter. */
static enum status check_filter(const struct expression *node, const struct key_schema *schema,
                                struct error *error)
{
    if (node->kind == EXPRESSION_PATH) {
        struct bytes name = node->path->name;
        bool is_key = bytes_equal(name, schema->partition.name) ||
                      (key_schema_has_sort(schema) && bytes_equal(name, schema->sort.name));
        return is_key ? refuse_filter(name, error) : STATUS_OK;
    }
    enum status status = STATUS_OK;
    for (const struct expression *operand = node->first; operand != NULL && status == STATUS_OK;
         operand = operand->next)
        status = check_filter(operand, schema, error);
    return status;
}

static enum status make_page_form(const struct request *request, struct arena *arena,
                                  struct bytes *out, struct error *error)
{
    bool is_count = request->select == SELECT_COUNT;
    *out = BYTES_LITERAL("");
    if (LIKELY(request->filter_tree == NULL && request->projection_tree == NULL && !is_count))
        return STATUS_OK;
    struct bytes form =
        expression_form(request->filter_tree, request->projection_tree, is_count, arena);
    if (!bytes_given(form))
        return error_set(error, STATUS_NO_MEMORY, "%s", "");
    *out = form;
    return STATUS_OK;
}

static enum status bind_query(struct request *request, const struct key_schema *schema,
                              struct arena *arena, struct error *error)
{
    if (!bytes_given(request->key_condition.text))
        return error_set(error, STATUS_VALIDATION,
                         "Either the KeyConditions or KeyConditionExpression parameter must be "
                         "specified in the request.");
    struct key_condition range;
    struct trees trees = {.condition = NULL};
    enum status status = check_select(request, error);
    if (status == STATUS_OK)
        status = bind_expressions(request, arena, &trees, error);
    if (status == STATUS_OK)
        status = key_condition_of_tree(trees.key_condition, schema, arena, &range, error);
    if (status == STATUS_OK && trees.filter != NULL)
        status = check_filter(trees.filter, schema, error);
    if (status == STATUS_OK)
        status = make_page_form(request, arena, &request->page_form, error);
    if (status == STATUS_OK && bytes_given(request->start_key))
        status = apply_start_key(request, schema, arena, &range, error);
    if (status == STATUS_OK)
        request->range = range;
    return status;
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
            status = bind_expressions(request, arena, &trees, error);
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
            status = bind_item(request, &table->key, arena, error);
        break;
    case OPERATION_UPDATE_ITEM:
        status = bind_update(request, &table->key, arena, error);
        break;
    case OPERATION_QUERY:
        status = bind_query(request, &table->key, arena, error);
        break;
    default: /* the others name no key */
        break;
    }
    if (status == STATUS_OK)
        request->table = table;
    return status;
}
