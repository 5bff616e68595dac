#include "protocol/request.h"

#include "protocol/encoding/msgpack.h"

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
    };
    size_t number = (size_t)operation;
    return number < OPERATIONS ? names[number] : "Unknown";
}

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

static enum status bind_query(struct request *request, const struct key_schema *schema,
                              struct arena *arena, struct error *error)
{
    if (!bytes_given(request->key_condition.text))
        return error_set(error, STATUS_VALIDATION,
                         "Either the KeyConditions or KeyConditionExpression parameter must be "
                         "specified in the request.");
    struct key_condition range;
    enum status status = key_condition_bind(&request->key_condition, schema, arena, &range, error);
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
    enum status status = STATUS_OK;
    switch (request->operation) {
    case OPERATION_GET_ITEM:
    case OPERATION_DELETE_ITEM:
        status = bind_key(request, &table->key, arena, error);
        break;
    case OPERATION_PUT_ITEM:
        status = bind_item(request, &table->key, arena, error);
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
