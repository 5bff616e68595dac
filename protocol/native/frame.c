#include "protocol/native/frame.h"

#include "protocol/encoding/msgpack.h"

/* ---- reading requests ---- */

/* Macros, for an enum's constants have 32 bits. */
#define BIT(parameter) (UINT64_C(1) << (parameter))
#define EVERYWHERE     (BIT(PARAMETER_TIMEOUT_MS) | BIT(PARAMETER_VERDICT) | BIT(PARAMETER_COMMIT))
#define ALIASES        (BIT(PARAMETER_NAMES) | BIT(PARAMETER_VALUES))
#define PAGE                                                                                       \
    (ALIASES | BIT(PARAMETER_CONSISTENT) | BIT(PARAMETER_FILTER) | BIT(PARAMETER_PROJECTION) |     \
     BIT(PARAMETER_SELECT) | BIT(PARAMETER_LIMIT) | BIT(PARAMETER_START_KEY) |                     \
     BIT(PARAMETER_INDEX) | BIT(PARAMETER_CAPACITY))
#define ACTION (ALIASES | BIT(PARAMETER_CONDITION) | BIT(PARAMETER_FAILED))
#define CONDITIONAL                                                                                \
    (ACTION | BIT(PARAMETER_RETURN_VALUES) | BIT(PARAMETER_CAPACITY) | BIT(PARAMETER_METRICS))
#define BY_KEY  (BIT(PARAMETER_TABLE) | BIT(PARAMETER_KEY))
#define BY_ITEM (BIT(PARAMETER_TABLE) | BIT(PARAMETER_ITEM))

struct operation_row {
    uint64_t required, allowed; /* bits of enum frame_parameter */
};

static const struct operation_row operations[OPERATIONS] = {
    [OPERATION_HELLO] = {BIT(PARAMETER_VERSION), BIT(PARAMETER_FEATURES) | BIT(PARAMETER_CLIENT)},
    [OPERATION_PING] = {0, EVERYWHERE},
    [OPERATION_GET_ITEM] = {BIT(PARAMETER_TABLE) | BIT(PARAMETER_KEY),
                            EVERYWHERE | BIT(PARAMETER_CONSISTENT) | BIT(PARAMETER_NAMES) |
                                BIT(PARAMETER_PROJECTION) | BIT(PARAMETER_CAPACITY)},
    [OPERATION_PUT_ITEM] = {BIT(PARAMETER_TABLE) | BIT(PARAMETER_ITEM), EVERYWHERE | CONDITIONAL},
    [OPERATION_DELETE_ITEM] = {BIT(PARAMETER_TABLE) | BIT(PARAMETER_KEY), EVERYWHERE | CONDITIONAL},
    [OPERATION_QUERY] = {BIT(PARAMETER_TABLE) | BIT(PARAMETER_KEY_CONDITION),
                         EVERYWHERE | PAGE | BIT(PARAMETER_FORWARD)},
    [OPERATION_CREATE_TABLE] = {BIT(PARAMETER_DEFINITION), EVERYWHERE},
    [OPERATION_DESCRIBE_TABLE] = {BIT(PARAMETER_TABLE), EVERYWHERE},
    [OPERATION_LIST_TABLES] = {0, EVERYWHERE | BIT(PARAMETER_LIMIT) | BIT(PARAMETER_START_TABLE)},
    [OPERATION_DELETE_TABLE] = {BIT(PARAMETER_TABLE), EVERYWHERE},
    [OPERATION_STATS] = {0, EVERYWHERE},
    [OPERATION_SCAN] = {BIT(PARAMETER_TABLE),
                        EVERYWHERE | PAGE | BIT(PARAMETER_SEGMENT) | BIT(PARAMETER_SEGMENTS)},
    [OPERATION_UPDATE_ITEM] = {BIT(PARAMETER_TABLE) | BIT(PARAMETER_KEY),
                               EVERYWHERE | CONDITIONAL | BIT(PARAMETER_UPDATE)},
    [OPERATION_BATCH_GET_ITEM] = {BIT(PARAMETER_PARTS), EVERYWHERE | BIT(PARAMETER_CAPACITY)},
    [OPERATION_BATCH_WRITE_ITEM] = {BIT(PARAMETER_PARTS),
                                    EVERYWHERE | BIT(PARAMETER_CAPACITY) | BIT(PARAMETER_METRICS)},
    [OPERATION_UPDATE_TABLE] = {BIT(PARAMETER_DEFINITION), EVERYWHERE},
    [OPERATION_UPDATE_TIME_TO_LIVE] = {BIT(PARAMETER_DEFINITION), EVERYWHERE},
    [OPERATION_DESCRIBE_TIME_TO_LIVE] = {BIT(PARAMETER_TABLE), EVERYWHERE},
    [OPERATION_TAG_RESOURCE] = {BIT(PARAMETER_DEFINITION), EVERYWHERE},
    [OPERATION_UNTAG_RESOURCE] = {BIT(PARAMETER_DEFINITION), EVERYWHERE},
    [OPERATION_LIST_TAGS_OF_RESOURCE] = {BIT(PARAMETER_DEFINITION), EVERYWHERE},
    [OPERATION_TRANSACT_GET_ITEMS] = {BIT(PARAMETER_PARTS), EVERYWHERE | BIT(PARAMETER_CAPACITY)},
    [OPERATION_DESCRIBE_HEAT] = {BIT(PARAMETER_TABLE), EVERYWHERE},
    [OPERATION_EXPLAIN] = {BIT(PARAMETER_PARTS), EVERYWHERE},
    [OPERATION_PURGE] = {0, EVERYWHERE | BY_KEY | BIT(PARAMETER_INDEX)},
    [OPERATION_TRANSACT_WRITE_ITEMS] = {BIT(PARAMETER_PARTS), EVERYWHERE | BIT(PARAMETER_TOKEN) |
                                                                  BIT(PARAMETER_CAPACITY) |
                                                                  BIT(PARAMETER_METRICS)},
};

/* What a batch or a transaction may be made of. */
static const struct {
    enum operation whole, part;
    struct operation_row row;
} part_rows[] = {
    {OPERATION_BATCH_GET_ITEM,
     OPERATION_GET_ITEM,
     {BY_KEY, BIT(PARAMETER_CONSISTENT) | BIT(PARAMETER_NAMES) | BIT(PARAMETER_PROJECTION)}},
    {OPERATION_EXPLAIN,
     OPERATION_GET_ITEM,
     {BY_KEY, BIT(PARAMETER_CONSISTENT) | BIT(PARAMETER_NAMES) | BIT(PARAMETER_PROJECTION)}},
    {OPERATION_EXPLAIN,
     OPERATION_QUERY,
     {BIT(PARAMETER_TABLE) | BIT(PARAMETER_KEY_CONDITION), PAGE | BIT(PARAMETER_FORWARD)}},
    {OPERATION_EXPLAIN,
     OPERATION_SCAN,
     {BIT(PARAMETER_TABLE), PAGE | BIT(PARAMETER_SEGMENT) | BIT(PARAMETER_SEGMENTS)}},
    {OPERATION_EXPLAIN, OPERATION_PUT_ITEM, {BY_ITEM, 0}},
    {OPERATION_EXPLAIN, OPERATION_DELETE_ITEM, {BY_KEY, 0}},
    {OPERATION_BATCH_WRITE_ITEM, OPERATION_PUT_ITEM, {BY_ITEM, 0}},
    {OPERATION_BATCH_WRITE_ITEM, OPERATION_DELETE_ITEM, {BY_KEY, 0}},
    {OPERATION_TRANSACT_GET_ITEMS,
     OPERATION_GET_ITEM,
     {BY_KEY, BIT(PARAMETER_NAMES) | BIT(PARAMETER_PROJECTION)}},
    {OPERATION_TRANSACT_WRITE_ITEMS, OPERATION_PUT_ITEM, {BY_ITEM, ACTION}},
    {OPERATION_TRANSACT_WRITE_ITEMS, OPERATION_DELETE_ITEM, {BY_KEY, ACTION}},
    {OPERATION_TRANSACT_WRITE_ITEMS,
     OPERATION_UPDATE_ITEM,
     {BY_KEY | BIT(PARAMETER_UPDATE), ACTION}},
    {OPERATION_TRANSACT_WRITE_ITEMS,
     OPERATION_CONDITION_CHECK,
     {BY_KEY | BIT(PARAMETER_CONDITION), ACTION}},
};
enum { PART_ROWS = sizeof part_rows / sizeof part_rows[0], PARTS_MAX = 1000 };

static const struct operation_row *find_part_row(enum operation whole, uint64_t part)
{
    for (size_t i = 0; i < PART_ROWS; i++)
        if (part_rows[i].whole == whole && (uint64_t)part_rows[i].part == part)
            return &part_rows[i].row;
    return NULL;
}

static const char *const parameter_names[] = {
    [PARAMETER_TABLE] = "TableName",
    [PARAMETER_KEY] = "Key",
    [PARAMETER_ITEM] = "Item",
    [PARAMETER_CONSISTENT] = "ConsistentRead",
    [PARAMETER_KEY_CONDITION] = "KeyConditionExpression",
    [PARAMETER_NAMES] = "ExpressionAttributeNames",
    [PARAMETER_VALUES] = "ExpressionAttributeValues",
    [PARAMETER_FORWARD] = "ScanIndexForward",
    [PARAMETER_LIMIT] = "Limit",
    [PARAMETER_START_KEY] = "ExclusiveStartKey",
    [PARAMETER_VERDICT] = "verdict",
    [PARAMETER_TIMEOUT_MS] = "timeout",
    [PARAMETER_DEFINITION] = "table definition",
    [PARAMETER_START_TABLE] = "ExclusiveStartTableName",
    [PARAMETER_COMMIT] = "commit number",
    [PARAMETER_VERSION] = "version",
    [PARAMETER_FEATURES] = "features",
    [PARAMETER_CLIENT] = "client",
    [PARAMETER_CONDITION] = "ConditionExpression",
    [PARAMETER_RETURN_VALUES] = "ReturnValues",
    [PARAMETER_FILTER] = "FilterExpression",
    [PARAMETER_PROJECTION] = "ProjectionExpression",
    [PARAMETER_SELECT] = "Select",
    [PARAMETER_UPDATE] = "UpdateExpression",
    [PARAMETER_INDEX] = "IndexName",
    [PARAMETER_SEGMENT] = "Segment",
    [PARAMETER_SEGMENTS] = "TotalSegments",
    [PARAMETER_PARTS] = "parts",
    [PARAMETER_TOKEN] = "ClientRequestToken",
    [PARAMETER_FAILED] = "ReturnValuesOnConditionCheckFailure",
    [PARAMETER_CAPACITY] = "ReturnConsumedCapacity",
    [PARAMETER_METRICS] = "ReturnItemCollectionMetrics",
};
enum { PARAMETERS = sizeof parameter_names / sizeof parameter_names[0] };
_Static_assert(PARAMETERS <= 64, "a bit each");

static bool read_bool(struct msgpack_cursor *cursor, bool *out)
{
    struct msgpack_head head;
    if (!msgpack_read(cursor, &head) || head.kind != MSGPACK_BOOL)
        return false;
    *out = head.truth;
    return true;
}

/* The bytes of one map of any contents. */
static bool read_raw_map(struct msgpack_cursor *cursor, struct bytes *out)
{
    struct msgpack_cursor probe = *cursor;
    uint32_t pairs;
    return msgpack_read_map(&probe, &pairs) && msgpack_skip(cursor, out);
}

static bool read_uint32(struct msgpack_cursor *cursor, uint32_t least, uint32_t *out)
{
    uint64_t wide;
    if (!msgpack_read_uint(cursor, &wide) || wide < least || wide > INT32_MAX)
        return false;
    *out = (uint32_t)wide;
    return true;
}

/* One of `count` numbers from 0. */
static bool read_choice(struct msgpack_cursor *cursor, uint64_t count, uint64_t *out)
{
    return msgpack_read_uint(cursor, out) && *out < count;
}

/* Of greetings, and what fewer requests have. */
static bool read_rare_parameter(struct msgpack_cursor *cursor, enum frame_parameter parameter,
                                struct request *request, struct frame_greeting *greeting)
{
    uint64_t choice;
    switch (parameter) {
    case PARAMETER_VERSION:
        return msgpack_read_uint(cursor, &greeting->version);
    case PARAMETER_FEATURES:
        return msgpack_read_uint(cursor, &greeting->features);
    case PARAMETER_CLIENT:
        return msgpack_read_str(cursor, &greeting->peer);
    case PARAMETER_CONDITION:
        return msgpack_read_str(cursor, &request->condition);
    case PARAMETER_RETURN_VALUES:
        if (!read_choice(cursor, RETURN_VALUES, &choice))
            return false;
        request->return_values = (enum return_values)choice;
        return true;
    case PARAMETER_FILTER:
        return msgpack_read_str(cursor, &request->filter);
    case PARAMETER_PROJECTION:
        return msgpack_read_str(cursor, &request->projection);
    case PARAMETER_SELECT:
        if (!read_choice(cursor, SELECTS, &choice))
            return false;
        request->select = (enum select)choice;
        return true;
    case PARAMETER_UPDATE:
        return msgpack_read_str(cursor, &request->update);
    case PARAMETER_INDEX:
        return msgpack_read_str(cursor, &request->index_name);
    case PARAMETER_SEGMENT:
        request->has_segment = true;
        return read_uint32(cursor, 0, &request->segment);
    case PARAMETER_SEGMENTS:
        return read_uint32(cursor, 1, &request->segments);
    case PARAMETER_PARTS: /* by read_parts(), once all else is known */
        return msgpack_skip(cursor, &request->definition);
    case PARAMETER_TOKEN:
        return msgpack_read_str(cursor, &request->token);
    case PARAMETER_FAILED:
        return read_bool(cursor, &request->wants_failed);
    case PARAMETER_CAPACITY:
        if (!read_choice(cursor, CAPACITY_DETAILS, &choice))
            return false;
        request->capacity = (enum capacity_detail)choice;
        return true;
    case PARAMETER_METRICS:
        return read_bool(cursor, &request->wants_metrics);
    default:
        return false;
    }
}

static bool read_parameter(struct msgpack_cursor *cursor, enum frame_parameter parameter,
                           struct request *request, struct frame_greeting *greeting)
{
    bool forward;
    switch (parameter) {
    case PARAMETER_TABLE:
    case PARAMETER_START_TABLE:
        return msgpack_read_str(cursor, &request->table_name);
    case PARAMETER_KEY:
        return read_raw_map(cursor, &request->key);
    case PARAMETER_ITEM:
        return read_raw_map(cursor, &request->item);
    case PARAMETER_CONSISTENT:
        return read_bool(cursor, &request->is_consistent);
    case PARAMETER_KEY_CONDITION:
        return msgpack_read_str(cursor, &request->key_condition.text);
    case PARAMETER_NAMES:
        return read_raw_map(cursor, &request->key_condition.names);
    case PARAMETER_VALUES:
        return read_raw_map(cursor, &request->key_condition.values);
    case PARAMETER_FORWARD:
        if (!read_bool(cursor, &forward))
            return false;
        request->is_backward = !forward;
        return true;
    case PARAMETER_LIMIT:
        return read_uint32(cursor, 1, &request->limit);
    case PARAMETER_START_KEY:
        return read_raw_map(cursor, &request->start_key);
    case PARAMETER_VERDICT:
        return read_bool(cursor, &request->wants_verdict);
    case PARAMETER_TIMEOUT_MS:
        return read_uint32(cursor, 1, &request->timeout_ms);
    case PARAMETER_DEFINITION:
        return read_raw_map(cursor, &request->definition);
    case PARAMETER_COMMIT:
        return read_bool(cursor, &request->wants_commit);
    default:
        return read_rare_parameter(cursor, parameter, request, greeting);
    }
}

static enum status missing_parameter(const struct operation_row *row, uint64_t seen,
                                     enum operation operation, struct error *error)
{
    uint64_t missing = row->required & ~seen;
    unsigned first = (unsigned)__builtin_ctzll(missing);
    bool is_batch =
        operation == OPERATION_BATCH_GET_ITEM || operation == OPERATION_BATCH_WRITE_ITEM;
    if (first == PARAMETER_PARTS && operation != OPERATION_EXPLAIN)
        return error_set(error, STATUS_VALIDATION,
                         "1 validation error detected: Value null at '%s' failed to satisfy "
                         "constraint: Member must not be null",
                         is_batch ? "requestItems" : "transactItems");
    return error_set(error, STATUS_VALIDATION, "%s: the parameter %s is missing",
                     operation_name(operation), parameter_names[first]);
}

static enum status read_parameters(struct msgpack_cursor *cursor, const struct operation_row *row,
                                   struct request *request, struct frame_greeting *greeting,
                                   struct error *error)
{
    const char *operation = operation_name(request->operation);
    uint32_t pairs;
    if (!msgpack_read_map(cursor, &pairs))
        return error_set(error, STATUS_MALFORMED, "%s: parameters are not a map", operation);
    uint64_t seen = 0;
    for (; pairs > 0; pairs--) {
        uint64_t key;
        if (!msgpack_read_uint(cursor, &key))
            return error_set(error, STATUS_MALFORMED, "%s: a parameter's key is not a number",
                             operation);
        if (key >= PARAMETERS || ((row->required | row->allowed) & BIT(key)) == 0)
            return error_set(error, STATUS_VALIDATION, "%s: has no parameter %s", operation,
                             key < PARAMETERS ? parameter_names[key] : "of that number");
        if ((seen & BIT(key)) != 0)
            return error_set(error, STATUS_MALFORMED, "%s: the parameter %s is given twice",
                             operation, parameter_names[key]);
        seen |= BIT(key);
        if (!read_parameter(cursor, (enum frame_parameter)key, request, greeting))
            return error_set(error, STATUS_MALFORMED,
                             "%s: the parameter %s is malformed or out of range", operation,
                             parameter_names[key]);
    }
    if ((row->required & ~seen) != 0)
        return missing_parameter(row, seen, request->operation, error);
    return STATUS_OK;
}

static enum status read_part(struct msgpack_cursor *cursor, enum operation whole,
                             struct request *part, struct error *error)
{
    uint32_t elements;
    uint64_t operation;
    memset(part, 0, sizeof *part);
    if (!msgpack_read_array(cursor, &elements) || elements != 2 ||
        !msgpack_read_uint(cursor, &operation))
        return error_set(error, STATUS_MALFORMED, "%s: a part is an array of operation, parameters",
                         operation_name(whole));
    const struct operation_row *row = find_part_row(whole, operation);
    if (row == NULL)
        return error_set(error, STATUS_VALIDATION, "%s: operation %llu cannot be a part of it",
                         operation_name(whole), (unsigned long long)operation);
    part->operation = (enum operation)operation;
    return read_parameters(cursor, row, part, NULL, error);
}

/* How many there may be is no matter of the frame, but memory is: of more than any operation takes
 * not all are read, and it says so. */
static enum status read_parts(struct bytes bytes, struct arena *arena, struct request *request,
                              struct error *error)
{
    struct msgpack_cursor cursor = msgpack_cursor_of(bytes);
    uint32_t count = 0;
    if (!msgpack_read_array(&cursor, &count))
        return error_set(error, STATUS_MALFORMED, "%s: parts are an array",
                         operation_name(request->operation));
    if (count > PARTS_MAX)
        count = PARTS_MAX;
    struct request *parts = arena_alloc(arena, (count + 1) * sizeof *parts);
    if (parts == NULL)
        return error_set(error, STATUS_NO_MEMORY, "%s", "");
    enum status status = STATUS_OK;
    for (uint32_t i = 0; i < count && status == STATUS_OK; i++)
        status = read_part(&cursor, request->operation, &parts[i], error);
    request->definition = BYTES_NONE;
    request->parts = parts;
    request->part_count = count;
    return status;
}

enum status frame_read_request(struct bytes frame, struct arena *arena, struct request *request,
                               struct frame_greeting *greeting, struct error *error)
{
    memset(request, 0, sizeof *request);
    struct msgpack_cursor cursor = msgpack_cursor_of(frame);
    uint32_t elements;
    uint64_t operation;
    if (!msgpack_read_array(&cursor, &elements) || elements != 3 ||
        !msgpack_read_uint(&cursor, &operation) || !msgpack_read_uint(&cursor, &request->id))
        return error_set(error, STATUS_MALFORMED,
                         "A frame is an array of operation, id and parameters");
    if (operation >= OPERATIONS || !operation_is_spoken((enum operation)operation))
        return error_set(error, STATUS_UNKNOWN_OPERATION, "Unknown operation %llu",
                         (unsigned long long)operation);
    request->operation = (enum operation)operation;
    if (request->operation == OPERATION_HELLO)
        *greeting = (struct frame_greeting){0};
    const struct operation_row *row = &operations[request->operation];
    enum status status = read_parameters(&cursor, row, request, greeting, error);
    if (status == STATUS_OK && (row->required & BIT(PARAMETER_PARTS)) != 0)
        status = read_parts(request->definition, arena, request, error);
    if (status == STATUS_OK)
        status = definition_check_size(request->operation, request->definition.size, error);
    if (status == STATUS_OK && cursor.at != cursor.end)
        status = error_set(error, STATUS_MALFORMED, "%s: bytes behind the end of the request",
                           operation_name(request->operation));
    return status;
}

/* ---- reading replies ---- */

static bool read_meta(struct msgpack_cursor *cursor, struct frame_reply *out)
{
    struct msgpack_head head;
    if (!msgpack_read(cursor, &head))
        return false;
    if (head.kind == MSGPACK_NIL)
        return true;
    if (head.kind != MSGPACK_MAP)
        return false;
    for (uint32_t pair = 0; pair < head.count; pair++) {
        uint64_t key, number;
        if (!msgpack_read_uint(cursor, &key))
            return false;
        struct bytes *whole = key == META_DETAILS    ? &out->details
                              : key == META_CAPACITY ? &out->capacity
                              : key == META_COMMITS  ? &out->commits
                              : key == META_METRICS  ? &out->metrics
                                                     : NULL;
        if (whole != NULL) {
            if (!msgpack_skip(cursor, whole))
                return false;
            continue;
        }
        if (!msgpack_read_uint(cursor, &number))
            return false;
        if (key == META_VERDICT)
            out->verdict = (enum verdict)number;
        else if (key == META_AGE_MS)
            out->age_ms = (uint32_t)number;
        else if (key == META_COMMIT)
            out->commit = number;
    }
    return true;
}

enum status frame_read_reply(struct bytes frame, struct frame_reply *out)
{
    *out = (struct frame_reply){0};
    struct msgpack_cursor cursor = msgpack_cursor_of(frame);
    uint32_t elements;
    uint64_t status;
    if (!msgpack_read_array(&cursor, &elements) || elements != 4 ||
        !msgpack_read_uint(&cursor, &out->id) || !msgpack_read_uint(&cursor, &status) ||
        status > INT32_MAX || !read_meta(&cursor, out))
        return STATUS_MALFORMED;
    out->status = (enum status)status;
    if (out->status != STATUS_OK)
        return msgpack_read_str(&cursor, &out->body) && cursor.at == cursor.end ? STATUS_OK
                                                                                : STATUS_MALFORMED;
    return msgpack_skip(&cursor, &out->body) && cursor.at == cursor.end ? STATUS_OK
                                                                        : STATUS_MALFORMED;
}

enum status frame_read_greeting(struct bytes body, struct frame_greeting *out)
{
    *out = (struct frame_greeting){0};
    struct msgpack_cursor cursor = msgpack_cursor_of(body);
    uint32_t pairs;
    if (!msgpack_read_map(&cursor, &pairs))
        return STATUS_MALFORMED;
    for (; pairs > 0; pairs--) {
        uint64_t key;
        bool is_right;
        if (!msgpack_read_uint(&cursor, &key))
            return STATUS_MALFORMED;
        if (key == HELLO_VERSION)
            is_right = msgpack_read_uint(&cursor, &out->version);
        else if (key == HELLO_FEATURES)
            is_right = msgpack_read_uint(&cursor, &out->features);
        else if (key == HELLO_SERVER)
            is_right = msgpack_read_str(&cursor, &out->peer);
        else if (key == HELLO_FRAME_MAX)
            is_right = msgpack_read_uint(&cursor, &out->frame_max);
        else
            is_right = msgpack_skip(&cursor, NULL);
        if (!is_right)
            return STATUS_MALFORMED;
    }
    return STATUS_OK;
}

/* ---- writing ----
 * Heads are written by hand into room reserved once: this is the hit path. */

enum {
    HEAD_MAX = 9, /* longest head of a number, string, binary, array or map */
    META_MAX = 3 + 3 * (1 + HEAD_MAX),
    COMMITS_MAX = 1 + 3 + BATCH_WRITE_MAX * HEAD_MAX,
};

static uint8_t *put_big_endian(uint8_t *at, uint64_t number, int octets)
{
    for (int octet = octets - 1; octet >= 0; octet--)
        *at++ = (uint8_t)(number >> (8 * octet));
    return at;
}

static uint8_t *put_uint(uint8_t *at, uint64_t number)
{
    if (number < 0x80) {
        *at++ = (uint8_t)number;
        return at;
    }
    if (number <= UINT8_MAX) {
        *at++ = 0xcc;
        return put_big_endian(at, number, 1);
    }
    if (number <= UINT16_MAX) {
        *at++ = 0xcd;
        return put_big_endian(at, number, 2);
    }
    *at++ = number <= UINT32_MAX ? 0xce : 0xcf;
    return put_big_endian(at, number, number <= UINT32_MAX ? 4 : 8);
}

static uint8_t *put_str_head(uint8_t *at, size_t size)
{
    if (size < 32) {
        *at++ = (uint8_t)(0xa0 | size);
        return at;
    }
    if (size <= UINT8_MAX) {
        *at++ = 0xd9;
        return put_big_endian(at, size, 1);
    }
    *at++ = size <= UINT16_MAX ? 0xda : 0xdb;
    return put_big_endian(at, size, size <= UINT16_MAX ? 2 : 4);
}

static uint8_t *put_raw(uint8_t *at, struct bytes bytes)
{
    if (bytes.size != 0)
        memcpy(at, bytes.data, bytes.size);
    return at + bytes.size;
}

static uint8_t *put_commits(uint8_t *at, const uint64_t *commits, size_t count)
{
    *at++ = META_COMMITS;
    *at++ = 0xdc;
    at = put_big_endian(at, count, 2);
    for (size_t i = 0; i < count; i++)
        at = put_uint(at, commits[i]);
    return at;
}

static uint8_t *put_meta(uint8_t *at, const struct request *request, const struct reply *reply)
{
    bool has_verdict = request->wants_verdict && reply->verdict != VERDICT_NONE;
    bool has_age =
        has_verdict && reply->verdict != VERDICT_MISS && reply->verdict != VERDICT_BYPASS;
    bool has_commit = request->wants_commit && reply->commit != 0;
    bool has_details = UNLIKELY(bytes_given(reply->details)) && reply->status != STATUS_OK;
    bool has_capacity = UNLIKELY(bytes_given(reply->capacity));
    bool has_commits = UNLIKELY(reply->commits != NULL) && request->wants_commit;
    bool has_metrics = UNLIKELY(bytes_given(reply->metrics));
    if (!has_verdict && !has_commit && !has_details && !has_capacity && !has_commits &&
        !has_metrics) {
        *at++ = 0xc0;
        return at;
    }
    *at++ = (uint8_t)(0x80 | (has_verdict + has_age + has_commit + has_details + has_capacity +
                              has_commits + has_metrics));
    if (has_verdict) {
        *at++ = META_VERDICT;
        at = put_uint(at, reply->verdict);
    }
    if (has_age) {
        *at++ = META_AGE_MS;
        at = put_uint(at, reply->age_ms);
    }
    if (has_commit) {
        *at++ = META_COMMIT;
        at = put_uint(at, reply->commit);
    }
    if (has_details) {
        *at++ = META_DETAILS;
        at = put_raw(at, reply->details);
    }
    if (has_capacity) {
        *at++ = META_CAPACITY;
        at = put_raw(at, reply->capacity);
    }
    if (has_commits)
        at = put_commits(at, reply->commits, request->part_count);
    if (has_metrics) {
        *at++ = META_METRICS;
        at = put_raw(at, reply->metrics);
    }
    return at;
}

/* Fills in the length of the frame from `start` to `at` and takes it into the buffer. */
static void frame_end(struct buffer *out, uint8_t *start, uint8_t *at)
{
    (void)put_big_endian(start, (uint64_t)(at - start - FRAME_HEADER), FRAME_HEADER);
    out->size = (size_t)(at - out->data);
}

bool frame_write_reply(const struct request *request, const struct reply *reply, struct buffer *out)
{
    bool is_error = reply->status != STATUS_OK;
    struct bytes body = is_error ? bytes_text(error_text(&reply->error)) : reply->body;
    size_t details = (is_error ? reply->details.size : 0) + reply->capacity.size +
                     reply->metrics.size + (reply->commits != NULL ? COMMITS_MAX : 0);
    if (!buffer_reserve(out, FRAME_HEADER + 1 + 3 * HEAD_MAX + META_MAX + body.size + details))
        return false;
    uint8_t *start = out->data + out->size;
    uint8_t *at = start + FRAME_HEADER;
    *at++ = 0x94;
    at = put_uint(at, request->id);
    at = put_uint(at, (uint64_t)reply->status);
    at = put_meta(at, request, reply);
    if (is_error)
        at = put_str_head(at, body.size);
    else if (!bytes_given(body))
        *at++ = 0xc0;
    frame_end(out, start, put_raw(at, body));
    return true;
}

bool frame_write_greeting(uint64_t id, const struct frame_greeting *greeting, struct buffer *out)
{
    if (!buffer_reserve(out, FRAME_HEADER + 10 * HEAD_MAX + greeting->peer.size))
        return false;
    uint8_t *start = out->data + out->size;
    uint8_t *at = start + FRAME_HEADER;
    *at++ = 0x94;
    at = put_uint(at, id);
    at = put_uint(at, STATUS_OK);
    *at++ = 0xc0;
    *at++ = 0x84;
    *at++ = HELLO_VERSION;
    at = put_uint(at, greeting->version);
    *at++ = HELLO_FEATURES;
    at = put_uint(at, greeting->features);
    *at++ = HELLO_SERVER;
    at = put_raw(put_str_head(at, greeting->peer.size), greeting->peer);
    *at++ = HELLO_FRAME_MAX;
    frame_end(out, start, put_uint(at, greeting->frame_max));
    return true;
}

/* What one parameter of a request looks like on its way out. */
struct outgoing {
    struct bytes bytes;
    uint64_t number;
    enum { OUT_NONE, OUT_STR, OUT_RAW, OUT_TRUE, OUT_FALSE, OUT_UINT } form;
};

static struct outgoing out_str(struct bytes bytes)
{
    return (struct outgoing){.bytes = bytes, .form = bytes_given(bytes) ? OUT_STR : OUT_NONE};
}

static struct outgoing out_raw(struct bytes bytes)
{
    return (struct outgoing){.bytes = bytes, .form = bytes_given(bytes) ? OUT_RAW : OUT_NONE};
}

static struct outgoing out_true(bool truth)
{
    return (struct outgoing){.form = truth ? OUT_TRUE : OUT_NONE};
}

static struct outgoing out_number(uint64_t number)
{
    return (struct outgoing){.number = number, .form = number != 0 ? OUT_UINT : OUT_NONE};
}

static struct outgoing outgoing_parameter(enum frame_parameter parameter,
                                          const struct request *request,
                                          const struct frame_greeting *greeting)
{
    bool lists = request->operation == OPERATION_LIST_TABLES;
    switch (parameter) {
    case PARAMETER_TABLE:
        return out_str(lists ? BYTES_NONE : request->table_name);
    case PARAMETER_START_TABLE:
        return out_str(lists ? request->table_name : BYTES_NONE);
    case PARAMETER_KEY:
        return out_raw(request->key);
    case PARAMETER_ITEM:
        return out_raw(request->item);
    case PARAMETER_CONSISTENT:
        return out_true(request->is_consistent);
    case PARAMETER_KEY_CONDITION:
        return out_str(request->key_condition.text);
    case PARAMETER_NAMES:
        return out_raw(request->key_condition.names);
    case PARAMETER_VALUES:
        return out_raw(request->key_condition.values);
    case PARAMETER_FORWARD:
        return (struct outgoing){.form = request->is_backward ? OUT_FALSE : OUT_NONE};
    case PARAMETER_LIMIT:
        return out_number(request->limit);
    case PARAMETER_START_KEY:
        return out_raw(request->start_key);
    case PARAMETER_VERDICT:
        return out_true(request->wants_verdict);
    case PARAMETER_TIMEOUT_MS:
        return out_number(request->timeout_ms);
    case PARAMETER_DEFINITION:
        return out_raw(request->definition);
    case PARAMETER_COMMIT:
        return out_true(request->wants_commit);
    case PARAMETER_VERSION:
        return out_number(greeting != NULL ? greeting->version : 0);
    case PARAMETER_FEATURES:
        return out_number(greeting != NULL ? greeting->features : 0);
    case PARAMETER_CLIENT:
        return out_str(greeting != NULL ? greeting->peer : BYTES_NONE);
    case PARAMETER_CONDITION:
        return out_str(request->condition);
    case PARAMETER_RETURN_VALUES:
        return out_number(request->return_values);
    case PARAMETER_FILTER:
        return out_str(request->filter);
    case PARAMETER_PROJECTION:
        return out_str(request->projection);
    case PARAMETER_SELECT:
        return out_number(request->select);
    case PARAMETER_UPDATE:
        return out_str(request->update);
    case PARAMETER_INDEX:
        return out_str(request->index_name);
    case PARAMETER_SEGMENT:
        return (struct outgoing){.number = request->segment,
                                 .form = request->has_segment ? OUT_UINT : OUT_NONE};
    case PARAMETER_SEGMENTS:
        return out_number(request->segments);
    case PARAMETER_PARTS: /* by put_parts() */
        break;
    case PARAMETER_TOKEN:
        return out_str(request->token);
    case PARAMETER_FAILED:
        return out_true(request->wants_failed);
    case PARAMETER_CAPACITY:
        return out_number(request->capacity);
    case PARAMETER_METRICS:
        return out_true(request->wants_metrics);
    }
    return (struct outgoing){.form = OUT_NONE};
}

static uint8_t *put_outgoing(uint8_t *at, const struct outgoing *outgoing)
{
    switch (outgoing->form) {
    case OUT_STR:
        return put_raw(put_str_head(at, outgoing->bytes.size), outgoing->bytes);
    case OUT_RAW:
        return put_raw(at, outgoing->bytes);
    case OUT_TRUE:
    case OUT_FALSE:
        *at++ = outgoing->form == OUT_TRUE ? 0xc3 : 0xc2;
        return at;
    case OUT_UINT:
        return put_uint(at, outgoing->number);
    case OUT_NONE:
        break;
    }
    return at;
}

/* What is made of parts says so when there are none, too. */
static bool has_parts(const struct request *request)
{
    return request->parts != NULL ||
           (operations[request->operation].required & BIT(PARAMETER_PARTS)) != 0;
}

/* The parameters of a request or of a part. */
struct outgoing_map {
    struct outgoing given[PARAMETERS];
    unsigned pairs;
    size_t size; /* of all of it, at most */
};

static void collect_outgoing(const struct request *request, const struct frame_greeting *greeting,
                             struct outgoing_map *out)
{
    *out = (struct outgoing_map){.size = HEAD_MAX};
    for (unsigned parameter = 0; parameter < PARAMETERS; parameter++) {
        struct outgoing *given = &out->given[parameter];
        *given = outgoing_parameter((enum frame_parameter)parameter, request, greeting);
        if (given->form == OUT_NONE)
            continue;
        out->pairs++;
        out->size += 1 + HEAD_MAX + given->bytes.size;
    }
    out->pairs += has_parts(request);
}

static uint8_t *put_outgoing_map(uint8_t *at, const struct outgoing_map *map)
{
    if (map->pairs < 16) {
        *at++ = (uint8_t)(0x80 | map->pairs);
    } else {
        *at++ = 0xde;
        at = put_big_endian(at, map->pairs, 2);
    }
    for (unsigned parameter = 0; parameter < PARAMETERS; parameter++) {
        if (map->given[parameter].form == OUT_NONE)
            continue;
        *at++ = (uint8_t)parameter;
        at = put_outgoing(at, &map->given[parameter]);
    }
    return at;
}

/* The last pair of the map. */
static bool put_parts(const struct request *request, struct buffer *out)
{
    if (!buffer_reserve(out, 2 * HEAD_MAX))
        return false;
    uint8_t *at = out->data + out->size;
    *at++ = PARAMETER_PARTS;
    *at++ = 0xdc;
    at = put_big_endian(at, request->part_count, 2);
    out->size = (size_t)(at - out->data);
    for (size_t i = 0; i < request->part_count; i++) {
        struct outgoing_map map;
        collect_outgoing(&request->parts[i], NULL, &map);
        if (!buffer_reserve(out, 2 * HEAD_MAX + map.size))
            return false;
        at = out->data + out->size;
        *at++ = 0x92;
        at = put_uint(at, (uint64_t)request->parts[i].operation);
        out->size = (size_t)(put_outgoing_map(at, &map) - out->data);
    }
    return true;
}

bool frame_write_request(const struct request *request, const struct frame_greeting *greeting,
                         struct buffer *out)
{
    struct outgoing_map map;
    size_t begin = out->size;
    collect_outgoing(request, greeting, &map);
    if (request->part_count > UINT16_MAX ||
        !buffer_reserve(out, FRAME_HEADER + 3 * HEAD_MAX + map.size))
        return false;
    uint8_t *at = out->data + begin + FRAME_HEADER;
    *at++ = 0x93;
    at = put_uint(at, (uint64_t)request->operation);
    at = put_uint(at, request->id);
    out->size = (size_t)(put_outgoing_map(at, &map) - out->data);
    if (has_parts(request) && !put_parts(request, out)) {
        out->size = begin;
        return false;
    }
    frame_end(out, out->data + begin, out->data + out->size);
    return true;
}
