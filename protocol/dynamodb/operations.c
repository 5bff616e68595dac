#include "protocol/dynamodb/operations.h"

#include "protocol/encoding/json.h"

#define BIT(operation) (1u << (operation))

enum {
    QUERY = BIT(OPERATION_QUERY),
    READS = BIT(OPERATION_GET_ITEM) | QUERY,
    UPDATE = BIT(OPERATION_UPDATE_ITEM),
    WRITES = BIT(OPERATION_PUT_ITEM) | BIT(OPERATION_DELETE_ITEM) | UPDATE,
    BY_KEY = BIT(OPERATION_GET_ITEM) | BIT(OPERATION_DELETE_ITEM) | UPDATE,
    ON_ITEMS = READS | WRITES,
    ON_TABLES = BIT(OPERATION_DESCRIBE_TABLE) | BIT(OPERATION_DELETE_TABLE),
    HERE = ON_ITEMS | ON_TABLES | BIT(OPERATION_CREATE_TABLE) | BIT(OPERATION_LIST_TABLES),
    DEFINITION_MEMBERS_MAX = 16,
    NAME_SHOWN_MAX = 64,
};

bool operations_find(struct bytes target, enum operation *out)
{
    static const struct bytes prefix = {(const uint8_t *)"DynamoDB_20120810.", 18};
    if (!bytes_begin_with(target, prefix))
        return false;
    struct bytes name = bytes_of(target.data + prefix.size, target.size - prefix.size);
    for (int operation = 0; operation < OPERATIONS; operation++) {
        if ((HERE & BIT(operation)) != 0 &&
            bytes_equal(name, bytes_text(operation_name((enum operation)operation)))) {
            *out = (enum operation)operation;
            return true;
        }
    }
    return false;
}

/* ---- members ---- */

static int shown(struct bytes text)
{
    return (int)(text.size < NAME_SHOWN_MAX ? text.size : NAME_SHOWN_MAX);
}

static enum status no_memory(struct error *error)
{
    return error_set(error, STATUS_NO_MEMORY, "%s", "");
}

/* How a member is read, and of what type its field in struct request is. */
enum kind {
    TEXT,    /* a string: struct bytes */
    ITEM,    /* attribute values: struct bytes, MessagePack */
    NAMES,   /* strings by name: struct bytes, MessagePack */
    TRUTH,   /* bool */
    UNTRUTH, /* bool, the other way round */
    LIMIT,   /* uint32_t, 1 or more */
};

struct row {
    const char *name;
    const char *path;              /* as DynamoDB's validation texts have it */
    uint32_t operations, required; /* bits of enum operation */
    enum kind kind;
    size_t field;
};

#define FIELD(name) offsetof(struct request, name)

static const struct row rows[] = {
    {"TableName", "tableName", ON_ITEMS | ON_TABLES, ON_ITEMS | ON_TABLES, TEXT, FIELD(table_name)},
    {"ExclusiveStartTableName", "exclusiveStartTableName", BIT(OPERATION_LIST_TABLES), 0, TEXT,
     FIELD(table_name)},
    {"Key", "key", BY_KEY, BY_KEY, ITEM, FIELD(key)},
    {"Item", "item", BIT(OPERATION_PUT_ITEM), BIT(OPERATION_PUT_ITEM), ITEM, FIELD(item)},
    {"ConsistentRead", "consistentRead", READS, 0, TRUTH, FIELD(is_consistent)},
    {"KeyConditionExpression", "keyConditionExpression", QUERY, 0, TEXT, FIELD(key_condition.text)},
    {"ExpressionAttributeNames", "expressionAttributeNames", ON_ITEMS, 0, NAMES,
     FIELD(key_condition.names)},
    {"ExpressionAttributeValues", "expressionAttributeValues", QUERY | WRITES, 0, ITEM,
     FIELD(key_condition.values)},
    {"ConditionExpression", "conditionExpression", WRITES, 0, TEXT, FIELD(condition)},
    {"UpdateExpression", "updateExpression", UPDATE, 0, TEXT, FIELD(update)},
    {"FilterExpression", "filterExpression", QUERY, 0, TEXT, FIELD(filter)},
    {"ProjectionExpression", "projectionExpression", READS, 0, TEXT, FIELD(projection)},
    {"ScanIndexForward", "scanIndexForward", QUERY, 0, UNTRUTH, FIELD(is_backward)},
    {"ExclusiveStartKey", "exclusiveStartKey", QUERY, 0, ITEM, FIELD(start_key)},
    {"Limit", "limit", QUERY | BIT(OPERATION_LIST_TABLES), 0, LIMIT, FIELD(limit)},
};
enum { ROWS = sizeof rows / sizeof rows[0] };

static enum status encode(const struct value *value, struct arena *arena, struct bytes *out,
                          struct error *error)
{
    struct bytes bytes = value_encode_arena(value, arena);
    if (!bytes_given(bytes))
        return no_memory(error);
    *out = bytes;
    return STATUS_OK;
}

static enum status read_item(const struct json_member *member, struct bytes *out,
                             struct error *error)
{
    struct value value;
    enum status status = json_member_item(member, &value, error);
    return status == STATUS_OK ? encode(&value, member->arena, out, error) : status;
}

static enum status read_names(const struct json_member *member, struct bytes *out,
                              struct error *error)
{
    struct value names;
    enum status status = json_member_plain(member, &names, error);
    bool are_strings = status != STATUS_OK || names.type == VALUE_M;
    for (size_t i = 0; status == STATUS_OK && are_strings && i < names.count; i++)
        are_strings = names.attributes[i].value.type == VALUE_S;
    if (!are_strings)
        return error_set(error, STATUS_MALFORMED, "%.*s must be a map of strings",
                         shown(member->name), (const char *)member->name.data);
    if (status == STATUS_OK)
        status = value_normalize(&names, error);
    return status == STATUS_OK ? encode(&names, member->arena, out, error) : status;
}

static enum status read_limit(const struct row *row, const struct json_member *member,
                              uint32_t *out, struct error *error)
{
    int64_t limit = 0;
    enum status status = json_member_integer(member, &limit, error);
    if (status == STATUS_OK && limit < 1)
        status = error_set(error, STATUS_VALIDATION,
                           "1 validation error detected: Value '%lld' at '%s' failed to satisfy "
                           "constraint: Member must have value greater than or equal to 1",
                           (long long)limit, row->path);
    if (status == STATUS_OK)
        *out = limit < INT32_MAX ? (uint32_t)limit : INT32_MAX;
    return status;
}

static enum status read_untruth(const struct json_member *member, bool *out, struct error *error)
{
    bool truth = false;
    enum status status = json_member_truth(member, &truth, error);
    if (status == STATUS_OK)
        *out = !truth;
    return status;
}

static enum status read_member(const struct row *row, const struct json_member *member,
                               struct request *request, struct error *error)
{
    void *field = (uint8_t *)request + row->field;
    switch (row->kind) {
    case TEXT:
        return json_member_text(member, field, error);
    case ITEM:
        return read_item(member, field, error);
    case NAMES:
        return read_names(member, field, error);
    case TRUTH:
        return json_member_truth(member, field, error);
    case UNTRUTH:
        return read_untruth(member, field, error);
    case LIMIT:
        return read_limit(row, member, field, error);
    }
    return STATUS_OK;
}

/* ---- members that choose one of several words: some words are not served yet ---- */

struct choice {
    const char *name, *path;
    uint32_t operations;
    const char *taken;    /* words that ask for nothing, or for what can be done */
    const char *known;    /* all of DynamoDB's */
    const char *numbered; /* words in the order of the enum that `field` is of; NULL: no field */
    size_t field;
};

/* In the order of enum select, from 1, and of enum return_values. */
#define SELECT_WORDS "ALL_ATTRIBUTES, ALL_PROJECTED_ATTRIBUTES, SPECIFIC_ATTRIBUTES, COUNT"
#define RETURN_WORDS "NONE, ALL_OLD, UPDATED_OLD, ALL_NEW, UPDATED_NEW"
_Static_assert(SELECT_ALL_ATTRIBUTES == 1 && SELECT_COUNT == 4 && RETURN_UPDATED_NEW == 4, "order");
_Static_assert(sizeof(enum select) == sizeof(int) && sizeof(enum return_values) == sizeof(int),
               "fields are written as int");

static const struct choice choices[] = {
    {"Select", "select", QUERY, SELECT_WORDS,
     "SPECIFIC_ATTRIBUTES, COUNT, ALL_ATTRIBUTES, ALL_PROJECTED_ATTRIBUTES",
     "NOT_GIVEN, " SELECT_WORDS, FIELD(select)},
    /* What a write was charged depends on the item it replaced, which is not told yet. */
    {"ReturnConsumedCapacity", "returnConsumedCapacity", ON_ITEMS, "NONE", "INDEXES, TOTAL, NONE",
     NULL, 0},
    {"ReturnValues", "returnValues", WRITES, RETURN_WORDS,
     "ALL_NEW, UPDATED_OLD, ALL_OLD, NONE, UPDATED_NEW", RETURN_WORDS, FIELD(return_values)},
    /* Told of local indexes only. */
    {"ReturnItemCollectionMetrics", "returnItemCollectionMetrics", WRITES, "SIZE, NONE",
     "SIZE, NONE", NULL, 0},
    /* Errors hold a text and no item yet. */
    {"ReturnValuesOnConditionCheckFailure", "returnValuesOnConditionCheckFailure", WRITES, "NONE",
     "ALL_OLD, NONE", NULL, 0},
};
enum { CHOICES = sizeof choices / sizeof choices[0] };

/* The place of the word in `list`, "A, B", from 0; -1: it is not there. */
static int list_find(const char *list, struct bytes word)
{
    for (int place = 0; *list != '\0'; place++) {
        size_t size = strcspn(list, ",");
        if (bytes_equal(bytes_of(list, size), word))
            return place;
        list += size;
        list += strspn(list, ", ");
    }
    return -1;
}

static bool list_has(const char *list, struct bytes word)
{
    return list_find(list, word) >= 0;
}

static enum status read_choice(const struct choice *choice, const struct json_member *member,
                               struct request *request, struct error *error)
{
    struct bytes word;
    enum status status = json_member_text(member, &word, error);
    if (status != STATUS_OK)
        return status;
    if (list_has(choice->taken, word)) {
        if (choice->numbered != NULL)
            *(int *)(void *)((uint8_t *)request + choice->field) =
                list_find(choice->numbered, word);
        return STATUS_OK;
    }
    if (!list_has(choice->known, word))
        return error_set(error, STATUS_VALIDATION,
                         "1 validation error detected: Value '%.*s' at '%s' failed to satisfy "
                         "constraint: Member must satisfy enum value set: [%s]",
                         shown(word), (const char *)word.data, choice->path, choice->known);
    return error_set(error, STATUS_UNSUPPORTED, "%s: %s with the value %.*s is not supported",
                     operation_name(request->operation), choice->name, shown(word),
                     (const char *)word.data);
}

/* ---- CreateTable ---- */

/* Members of CreateTable that the engine looks at; it refuses what it cannot do. */
static const char *const definition_members[] = {
    "AttributeDefinitions",
    "BillingMode",
    "DeletionProtectionEnabled",
    "GlobalSecondaryIndexes",
    "KeySchema",
    "LocalSecondaryIndexes",
    "ProvisionedThroughput",
    "SSESpecification",
    "StreamSpecification",
    "TableClass",
    "TableName",
    "Tags",
};

static enum status refuse_member(const struct request *request, struct bytes name,
                                 struct error *error)
{
    return error_set(error, STATUS_UNSUPPORTED, "%s: the member %.*s is not supported",
                     operation_name(request->operation), shown(name), (const char *)name.data);
}

static bool is_definition_member(struct bytes name)
{
    for (size_t i = 0; i < sizeof definition_members / sizeof definition_members[0]; i++)
        if (bytes_equal(name, bytes_text(definition_members[i])))
            return true;
    return false;
}

static enum status read_definition(struct json_document *document, struct request *request,
                                   struct error *error)
{
    struct attribute attributes[DEFINITION_MEMBERS_MAX];
    struct value definition = {.type = VALUE_M, .attributes = attributes};
    struct json_member member;
    enum status status = STATUS_OK;
    while (status == STATUS_OK && json_document_next(document, &member)) {
        if (!is_definition_member(member.name))
            return refuse_member(request, member.name, error);
        /* Names come once and are known, so that there are never too many. */
        struct attribute *attribute = &attributes[definition.count++];
        attribute->name = member.name;
        status = json_member_plain(&member, &attribute->value, error);
    }
    if (status == STATUS_OK)
        status = value_normalize(&definition, error);
    if (status != STATUS_OK)
        return status;
    return encode(&definition, document->arena, &request->definition, error);
}

/* ---- requests ---- */

static const struct row *find_row(struct bytes name, enum operation operation)
{
    for (size_t i = 0; i < ROWS; i++)
        if ((rows[i].operations & BIT(operation)) != 0 &&
            bytes_equal(name, bytes_text(rows[i].name)))
            return &rows[i];
    return NULL;
}

static const struct choice *find_choice(struct bytes name, enum operation operation)
{
    for (size_t i = 0; i < CHOICES; i++)
        if ((choices[i].operations & BIT(operation)) != 0 &&
            bytes_equal(name, bytes_text(choices[i].name)))
            return &choices[i];
    return NULL;
}

static enum status check_required(const struct request *request, uint32_t seen, struct error *error)
{
    for (size_t i = 0; i < ROWS; i++)
        if ((rows[i].required & BIT(request->operation)) != 0 && (seen & BIT(i)) == 0)
            return error_set(error, STATUS_VALIDATION,
                             "1 validation error detected: Value null at '%s' failed to satisfy "
                             "constraint: Member must not be null",
                             rows[i].path);
    return STATUS_OK;
}

static enum status read_any_member(const struct json_member *member, struct request *request,
                                   uint32_t *seen, struct error *error)
{
    const struct row *row = find_row(member->name, request->operation);
    if (row != NULL) {
        *seen |= BIT(row - rows);
        return read_member(row, member, request, error);
    }
    const struct choice *choice = find_choice(member->name, request->operation);
    if (choice != NULL)
        return read_choice(choice, member, request, error);
    return refuse_member(request, member->name, error);
}

enum status operations_read(struct bytes body, struct arena *arena, struct request *request,
                            struct error *error)
{
    struct json_document document;
    enum status status = json_document_read(body, arena, &document, error);
    if (status != STATUS_OK)
        return status;
    if (request->operation == OPERATION_CREATE_TABLE)
        return read_definition(&document, request, error);
    uint32_t seen = 0;
    struct json_member member;
    while (status == STATUS_OK && json_document_next(&document, &member))
        status = read_any_member(&member, request, &seen, error);
    return status == STATUS_OK ? check_required(request, seen, error) : status;
}
