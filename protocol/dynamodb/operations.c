#include "protocol/dynamodb/operations.h"

#include "protocol/dynamodb/members.h"
#include "protocol/dynamodb/parts.h"

#define BIT(operation) (1u << (operation))

enum {
    QUERY = BIT(OPERATION_QUERY),
    SCAN = BIT(OPERATION_SCAN),
    PAGES = QUERY | SCAN,
    READS = BIT(OPERATION_GET_ITEM) | PAGES,
    UPDATE = BIT(OPERATION_UPDATE_ITEM),
    CHECK = BIT(OPERATION_CONDITION_CHECK), /* a part only */
    WRITES = BIT(OPERATION_PUT_ITEM) | BIT(OPERATION_DELETE_ITEM) | UPDATE,
    BY_KEY = BIT(OPERATION_GET_ITEM) | BIT(OPERATION_DELETE_ITEM) | UPDATE | CHECK,
    ON_ITEMS = READS | WRITES,
    BATCHES = BIT(OPERATION_BATCH_GET_ITEM) | BIT(OPERATION_BATCH_WRITE_ITEM),
    TRANSACT_WRITE = BIT(OPERATION_TRANSACT_WRITE_ITEMS),
    OF_PARTS = BATCHES | TRANSACT_WRITE | BIT(OPERATION_TRANSACT_GET_ITEMS),
    ON_TABLES = BIT(OPERATION_DESCRIBE_TABLE) | BIT(OPERATION_DELETE_TABLE) |
                BIT(OPERATION_DESCRIBE_TIME_TO_LIVE),
    TAGGING = BIT(OPERATION_TAG_RESOURCE) | BIT(OPERATION_UNTAG_RESOURCE),
    LIST_TAGS = BIT(OPERATION_LIST_TAGS_OF_RESOURCE),
    DEFINING = BIT(OPERATION_CREATE_TABLE) | BIT(OPERATION_UPDATE_TABLE) |
               BIT(OPERATION_UPDATE_TIME_TO_LIVE) | TAGGING | LIST_TAGS,
    HERE = ON_ITEMS | OF_PARTS | ON_TABLES | DEFINING | BIT(OPERATION_LIST_TABLES),
    NAME_SHOWN_MAX = 64,
};

/* What is behind the version of the API; BYTES_NONE if another one is meant. */
static struct bytes name_of(struct bytes target)
{
    struct bytes prefix = BYTES_LITERAL("DynamoDB_20120810.");
    if (!bytes_begin_with(target, prefix))
        return BYTES_NONE;
    return bytes_of(target.data + prefix.size, target.size - prefix.size);
}

static const char *const own_names[] = {
    [OWN_DESCRIBE_LIMITS] = "DescribeLimits",
    [OWN_DESCRIBE_ENDPOINTS] = "DescribeEndpoints",
};

bool operations_find_own(struct bytes target, enum own_operation *out)
{
    struct bytes name = name_of(target);
    for (size_t i = 0; i < sizeof own_names / sizeof own_names[0]; i++) {
        if (bytes_equal(name, bytes_text(own_names[i]))) {
            *out = (enum own_operation)i;
            return true;
        }
    }
    return false;
}

bool operations_find(struct bytes target, enum operation *out)
{
    struct bytes name = name_of(target);
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

/* How a member is read, and of what type its field in struct request is. */
enum kind {
    TEXT,    /* a string: struct bytes */
    ITEM,    /* attribute values: struct bytes, MessagePack */
    NAMES,   /* strings by name: struct bytes, MessagePack */
    TRUTH,   /* bool */
    UNTRUTH, /* bool, the other way round */
    LIMIT,   /* uint32_t, 1 or more */
    SEGMENT, /* uint32_t, 0 or more; given or not is has_segment */
};

struct row {
    struct bytes name;
    const char *path;              /* as DynamoDB's validation texts have it */
    uint32_t operations, required; /* bits of enum operation */
    enum kind kind;
    size_t field;
};

#define FIELD(name) offsetof(struct request, name)

static const struct row rows[] = {
    {BYTES_LITERAL("TableName"), "tableName", ON_ITEMS | CHECK | ON_TABLES,
     ON_ITEMS | CHECK | ON_TABLES, TEXT, FIELD(table_name)},
    {BYTES_LITERAL("ExclusiveStartTableName"), "exclusiveStartTableName",
     BIT(OPERATION_LIST_TABLES), 0, TEXT, FIELD(table_name)},
    {BYTES_LITERAL("Key"), "key", BY_KEY, BY_KEY, ITEM, FIELD(key)},
    {BYTES_LITERAL("Item"), "item", BIT(OPERATION_PUT_ITEM), BIT(OPERATION_PUT_ITEM), ITEM,
     FIELD(item)},
    {BYTES_LITERAL("ConsistentRead"), "consistentRead", READS, 0, TRUTH, FIELD(is_consistent)},
    {BYTES_LITERAL("KeyConditionExpression"), "keyConditionExpression", QUERY, 0, TEXT,
     FIELD(key_condition.text)},
    {BYTES_LITERAL("ExpressionAttributeNames"), "expressionAttributeNames", ON_ITEMS | CHECK, 0,
     NAMES, FIELD(key_condition.names)},
    {BYTES_LITERAL("ExpressionAttributeValues"), "expressionAttributeValues",
     PAGES | WRITES | CHECK, 0, ITEM, FIELD(key_condition.values)},
    {BYTES_LITERAL("ConditionExpression"), "conditionExpression", WRITES | CHECK, CHECK, TEXT,
     FIELD(condition)},
    {BYTES_LITERAL("UpdateExpression"), "updateExpression", UPDATE, 0, TEXT, FIELD(update)},
    {BYTES_LITERAL("FilterExpression"), "filterExpression", PAGES, 0, TEXT, FIELD(filter)},
    {BYTES_LITERAL("ProjectionExpression"), "projectionExpression", READS, 0, TEXT,
     FIELD(projection)},
    {BYTES_LITERAL("ScanIndexForward"), "scanIndexForward", QUERY, 0, UNTRUTH, FIELD(is_backward)},
    {BYTES_LITERAL("ExclusiveStartKey"), "exclusiveStartKey", PAGES, 0, ITEM, FIELD(start_key)},
    {BYTES_LITERAL("IndexName"), "indexName", PAGES, 0, TEXT, FIELD(index_name)},
    {BYTES_LITERAL("Segment"), "segment", SCAN, 0, SEGMENT, FIELD(segment)},
    {BYTES_LITERAL("TotalSegments"), "totalSegments", SCAN, 0, LIMIT, FIELD(segments)},
    {BYTES_LITERAL("ClientRequestToken"), "clientRequestToken", TRANSACT_WRITE, 0, TEXT,
     FIELD(token)},
    {BYTES_LITERAL("Limit"), "limit", PAGES | BIT(OPERATION_LIST_TABLES), 0, LIMIT, FIELD(limit)},
};
enum { ROWS = sizeof rows / sizeof rows[0] };

static bool read_natural(const struct row *row, struct json_reader *reader, int64_t least,
                         uint32_t *out)
{
    int64_t natural = 0;
    if (!json_read_integer(reader, &natural))
        return false;
    if (natural < least)
        return json_reader_refuse(
            reader, STATUS_VALIDATION,
            "1 validation error detected: Value '%lld' at '%s' failed to satisfy constraint: "
            "Member must have value greater than or equal to %lld",
            (long long)natural, row->path, (long long)least);
    *out = natural < INT32_MAX ? (uint32_t)natural : INT32_MAX;
    return true;
}

static bool read_untruth(struct json_reader *reader, bool *out)
{
    bool truth = false;
    if (!json_read_truth(reader, &truth))
        return false;
    *out = !truth;
    return true;
}

static bool read_row(const struct row *row, struct json_reader *reader, struct request *request)
{
    void *field = (uint8_t *)request + row->field;
    switch (row->kind) {
    case TEXT:
        return json_read_text(reader, field);
    case ITEM:
        return json_read_item(reader, field);
    case NAMES:
        return json_read_names(reader, field);
    case TRUTH:
        return json_read_truth(reader, field);
    case UNTRUTH:
        return read_untruth(reader, field);
    case LIMIT:
        return read_natural(row, reader, 1, field);
    case SEGMENT:
        request->has_segment = true;
        return read_natural(row, reader, 0, field);
    }
    return false;
}

/* ---- members that choose one of several words ---- */

struct choice {
    struct bytes name;
    const char *path;
    const char *known;    /* as DynamoDB lists them */
    const char *numbered; /* the same in the order of the enum that `field` is of; NULL: no field */
    size_t field;
    uint32_t operations;
    bool is_truth; /* the field is a bool: whether it is the second word */
};

/* In the order of enum capacity_detail, of enum select, from 1, and of enum return_values. */
#define CAPACITY_WORDS "NONE, TOTAL, INDEXES"
#define SELECT_WORDS   "ALL_ATTRIBUTES, ALL_PROJECTED_ATTRIBUTES, SPECIFIC_ATTRIBUTES, COUNT"
#define RETURN_WORDS   "NONE, ALL_OLD, UPDATED_OLD, ALL_NEW, UPDATED_NEW"
_Static_assert(CAPACITY_INDEXES == 2 && SELECT_ALL_ATTRIBUTES == 1 && SELECT_COUNT == 4 &&
                   RETURN_UPDATED_NEW == 4,
               "order");
_Static_assert(sizeof(enum select) == sizeof(int) && sizeof(enum return_values) == sizeof(int) &&
                   sizeof(enum capacity_detail) == sizeof(int),
               "fields are written as int");

static const struct choice choices[] = {
    {BYTES_LITERAL("Select"), "select",
     "SPECIFIC_ATTRIBUTES, COUNT, ALL_ATTRIBUTES, ALL_PROJECTED_ATTRIBUTES",
     "NOT_GIVEN, " SELECT_WORDS, FIELD(select), PAGES, false},
    {BYTES_LITERAL("ReturnConsumedCapacity"), "returnConsumedCapacity", "INDEXES, TOTAL, NONE",
     CAPACITY_WORDS, FIELD(capacity), ON_ITEMS | OF_PARTS, false},
    {BYTES_LITERAL("ReturnValues"), "returnValues",
     "ALL_NEW, UPDATED_OLD, ALL_OLD, NONE, UPDATED_NEW", RETURN_WORDS, FIELD(return_values), WRITES,
     false},
    /* Told of local indexes only. */
    {BYTES_LITERAL("ReturnItemCollectionMetrics"), "returnItemCollectionMetrics", "SIZE, NONE",
     "NONE, SIZE", FIELD(wants_metrics), WRITES | BIT(OPERATION_BATCH_WRITE_ITEM) | TRANSACT_WRITE,
     true},
    {BYTES_LITERAL("ReturnValuesOnConditionCheckFailure"), "returnValuesOnConditionCheckFailure",
     "ALL_OLD, NONE", "NONE, ALL_OLD", FIELD(wants_failed), WRITES | CHECK, true},
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

static bool read_choice(const struct choice *choice, struct json_reader *reader,
                        struct request *request)
{
    struct bytes word;
    if (!json_read_text(reader, &word))
        return false;
    if (list_find(choice->known, word) < 0)
        return json_reader_refuse(reader, STATUS_VALIDATION,
                                  "1 validation error detected: Value '%.*s' at '%s' failed to "
                                  "satisfy constraint: Member must satisfy enum value set: [%s]",
                                  shown(word), (const char *)word.data, choice->path,
                                  choice->known);
    void *field = (uint8_t *)request + choice->field;
    if (choice->is_truth)
        *(bool *)field = list_find(choice->numbered, word) != 0;
    else if (choice->numbered != NULL)
        *(int *)field = list_find(choice->numbered, word);
    return true;
}

/* ---- members of whatever kind ---- */

static bool refuse_member(struct json_reader *reader, const struct request *request,
                          struct bytes name)
{
    return json_reader_refuse(reader, STATUS_UNSUPPORTED, "%s: the member %.*s is not supported",
                              operation_name(request->operation), shown(name),
                              (const char *)name.data);
}

static bool refuse_repeated(struct json_reader *reader, struct bytes name)
{
    return json_reader_refuse(reader, STATUS_MALFORMED, "The member %.*s is given twice",
                              shown(name), (const char *)name.data);
}

enum status operations_read_own(struct bytes body, struct arena *arena,
                                enum own_operation operation, struct error *error)
{
    struct json_reader reader;
    struct bytes name;
    json_reader_init(&reader, body, arena, error);
    if (json_enter_map(&reader) && json_next_member(&reader, &name))
        (void)json_reader_refuse(&reader, STATUS_UNSUPPORTED,
                                 "%s: the member %.*s is not supported", own_names[operation],
                                 shown(name), (const char *)name.data);
    return json_reader_end(&reader);
}

/* ---- definitions of tables ---- */

/* Members that the engine looks at, by the operations that have them; it refuses what it cannot do.
 */
enum {
    CREATE = BIT(OPERATION_CREATE_TABLE),
    CHANGE = BIT(OPERATION_UPDATE_TABLE),
    LIVE = BIT(OPERATION_UPDATE_TIME_TO_LIVE),
};
static const struct {
    const char *name;
    uint32_t operations;
} definition_members[] = {
    {"AttributeDefinitions", CREATE | CHANGE},
    {"BillingMode", CREATE | CHANGE},
    {"DeletionProtectionEnabled", CREATE | CHANGE},
    {"GlobalSecondaryIndexUpdates", CHANGE},
    {"GlobalSecondaryIndexes", CREATE},
    {"KeySchema", CREATE},
    {"LocalSecondaryIndexes", CREATE},
    {"NextToken", LIST_TAGS},
    {"OnDemandThroughput", CREATE | CHANGE},
    {"ProvisionedThroughput", CREATE | CHANGE},
    {"ReplicaUpdates", CHANGE},
    {"ResourceArn", TAGGING | LIST_TAGS},
    {"SSESpecification", CREATE | CHANGE},
    {"StreamSpecification", CREATE | CHANGE},
    {"TableClass", CREATE | CHANGE},
    {"TableName", CREATE | CHANGE | LIVE},
    {"TagKeys", BIT(OPERATION_UNTAG_RESOURCE)},
    {"Tags", CREATE | BIT(OPERATION_TAG_RESOURCE)},
    {"TimeToLiveSpecification", LIVE},
    {"WarmThroughput", CREATE | CHANGE},
};
enum { DEFINITION_MEMBERS = sizeof definition_members / sizeof definition_members[0] };

static bool is_definition_member(struct bytes name, enum operation operation)
{
    for (size_t i = 0; i < DEFINITION_MEMBERS; i++)
        if ((definition_members[i].operations & BIT(operation)) != 0 &&
            bytes_equal(name, bytes_text(definition_members[i].name)))
            return true;
    return false;
}

/* One member of a definition, as a tree: definitions are small and rare.
 * size  of the members before, counted up */
static bool read_part(struct json_reader *reader, enum operation operation, size_t *size,
                      struct value *out)
{
    struct bytes packed;
    if (!json_read_plain(reader, &packed))
        return false;
    struct msgpack_cursor cursor = msgpack_cursor_of(packed);
    struct error error;
    *size += packed.size;
    enum status status = definition_check_size(operation, *size, &error);
    if (status == STATUS_OK)
        status = value_decode(&cursor, reader->arena, out, &error);
    return status == STATUS_OK || json_reader_refuse(reader, error.status, "%s", error.text);
}

static bool read_definition(struct json_reader *reader, struct request *request)
{
    struct attribute attributes[DEFINITION_MEMBERS];
    struct value definition = {.type = VALUE_M, .attributes = attributes};
    struct bytes name;
    size_t size = 0;
    while (json_next_member(reader, &name)) {
        if (!is_definition_member(name, request->operation))
            return refuse_member(reader, request, name);
        if (definition.count == DEFINITION_MEMBERS) /* more than there are names */
            return refuse_repeated(reader, name);
        struct attribute *attribute = &attributes[definition.count++];
        attribute->name = name;
        if (!read_part(reader, request->operation, &size, &attribute->value))
            return false;
    }
    struct error error;
    if (value_normalize(&definition, &error) != STATUS_OK)
        return json_reader_refuse(reader, error.status, "%s", error.text);
    request->definition = value_encode_arena(&definition, reader->arena);
    return bytes_given(request->definition) ||
           json_reader_refuse(reader, STATUS_NO_MEMORY, "%s", "");
}

/* ---- requests ---- */

_Static_assert(ROWS + CHOICES + LEGACY_PARAMETERS <= 64, "a bit each");
#define SEEN(number) (1ull << (number))

static bool take_once(struct json_reader *reader, struct bytes name, uint64_t bit, uint64_t *seen)
{
    if ((*seen & bit) != 0)
        return refuse_repeated(reader, name);
    *seen |= bit;
    return true;
}

bool members_read_one(struct json_reader *reader, struct bytes name, struct request *request,
                      struct members *members)
{
    enum legacy_parameter legacy;
    uint64_t *seen = &members->seen;
    for (size_t i = 0; i < ROWS; i++)
        if (bytes_equal(name, rows[i].name) && (rows[i].operations & BIT(request->operation)) != 0)
            return take_once(reader, name, SEEN(i), seen) && read_row(&rows[i], reader, request);
    for (size_t i = 0; i < CHOICES; i++)
        if (bytes_equal(name, choices[i].name) &&
            (choices[i].operations & BIT(request->operation)) != 0)
            return take_once(reader, name, SEEN(ROWS + i), seen) &&
                   read_choice(&choices[i], reader, request);
    if (!legacy_find(name, request->operation, &legacy))
        return refuse_member(reader, request, name);
    members->legacy.is_used = true;
    return take_once(reader, name, SEEN(ROWS + CHOICES + legacy), seen) &&
           json_skip(reader, &members->legacy.texts[legacy]);
}

static bool check_required(struct json_reader *reader, const struct request *request, uint64_t seen)
{
    for (size_t i = 0; i < ROWS; i++)
        if ((rows[i].required & BIT(request->operation)) != 0 && (seen & SEEN(i)) == 0)
            return json_reader_refuse(reader, STATUS_VALIDATION,
                                      "1 validation error detected: Value null at '%s' failed to "
                                      "satisfy constraint: Member must not be null",
                                      rows[i].path);
    return true;
}

bool members_end(struct json_reader *reader, struct request *request, struct members *members)
{
    return LIKELY(!members->legacy.is_used) || legacy_apply(&members->legacy, reader, request);
}

bool members_read(struct json_reader *reader, struct request *request)
{
    struct members members = {.seen = 0};
    struct bytes name;
    if (!json_enter_map(reader))
        return false;
    while (json_next_member(reader, &name))
        if (!members_read_one(reader, name, request, &members))
            return false;
    return check_required(reader, request, members.seen) && members_end(reader, request, &members);
}

/* A batch or a transaction: what is said of all parts, and the parts. */
static bool read_parts(struct json_reader *reader, struct request *request)
{
    struct bytes wanted = parts_member(request->operation), name;
    struct members members = {.seen = 0};
    bool is_seen = false;
    if (!json_enter_map(reader))
        return false;
    while (json_next_member(reader, &name)) {
        bool is_parts = bytes_equal(name, wanted);
        if (is_parts && is_seen)
            return refuse_repeated(reader, name);
        is_seen |= is_parts;
        if (!(is_parts ? parts_read(reader, request)
                       : members_read_one(reader, name, request, &members)))
            return false;
    }
    bool is_batch = (BATCHES & BIT(request->operation)) != 0;
    return is_seen ||
           json_reader_refuse(reader, STATUS_VALIDATION,
                              "1 validation error detected: Value null at '%s' failed to satisfy "
                              "constraint: Member must not be null",
                              is_batch ? "requestItems" : "transactItems");
}

enum status operations_read(struct bytes body, struct arena *arena, struct request *request,
                            struct error *error)
{
    struct json_reader reader;
    uint32_t operation = BIT(request->operation);
    json_reader_init(&reader, body, arena, error);
    bool is_read;
    if ((DEFINING & operation) != 0)
        is_read = json_enter_map(&reader) && read_definition(&reader, request);
    else if (UNLIKELY((OF_PARTS & operation) != 0))
        is_read = read_parts(&reader, request);
    else
        is_read = members_read(&reader, request);
    (void)is_read; /* the reader knows why not */
    return json_reader_end(&reader);
}
