/* reply.c - replies as HTTP: the body first, from MessagePack to JSON text, then its head in front.
 */
#include "protocol/dynamodb/http1.h"
#include "protocol/dynamodb/operations.h"
#include "protocol/dynamodb/parts.h"
#include "protocol/encoding/json.h"

#include <libdeflate.h>

enum {
    HEAD_MAX = 512, /* all that put_head() can write */
    DECIMAL_MAX = 20,
    ID_DIGITS = 16,
};

/* What stands above the body. */
struct head {
    int http;
    uint64_t id;
    const char *content_type;
    enum verdict verdict; /* VERDICT_NONE: not told */
    uint32_t age_ms;
    uint64_t commit; /* 0: not told */
    enum ending ending;
    bool is_head; /* the body is not sent */
};

static const char json_type[] = "application/x-amz-json-1.0";

/* ---- heads ---- */

static uint8_t *put_text(uint8_t *at, const char *text)
{
    size_t size = strlen(text);
    memcpy(at, text, size);
    return at + size;
}

static uint8_t *put_decimal(uint8_t *at, uint64_t number)
{
    uint8_t digits[DECIMAL_MAX];
    size_t count = 0;
    do {
        digits[count++] = (uint8_t)('0' + number % 10);
        number /= 10;
    } while (number != 0);
    while (count != 0)
        *at++ = digits[--count];
    return at;
}

static uint8_t *put_id(uint8_t *at, uint64_t id)
{
    for (int digit = ID_DIGITS - 1; digit >= 0; digit--)
        *at++ = (uint8_t) "0123456789ABCDEF"[id >> (4 * digit) & 15];
    return at;
}

static uint8_t *put_verdict(uint8_t *at, const struct head *head)
{
    static const char *const names[] = {
        [VERDICT_HIT] = "hit",
        [VERDICT_MISS] = "miss",
        [VERDICT_BYPASS] = "bypass",
        [VERDICT_STALE] = "stale",
    };
    at = put_text(put_text(at, "\r\nx-mudax-cache: "), names[head->verdict]);
    if (head->verdict == VERDICT_HIT || head->verdict == VERDICT_STALE)
        at = put_text(put_decimal(put_text(at, " age="), head->age_ms), "ms");
    return at;
}

/* Returns the end. */
static uint8_t *put_head(uint8_t *at, const struct head *head, struct bytes body)
{
    at = put_decimal(put_text(at, "HTTP/1.1 "), (uint64_t)head->http);
    at = put_text(put_text(at, " "), http1_reason(head->http));
    at = put_text(put_text(at, "\r\nContent-Type: "), head->content_type);
    at = put_decimal(put_text(at, "\r\nContent-Length: "), body.size);
    at = put_id(put_text(at, "\r\nx-amzn-RequestId: "), head->id);
    at = put_decimal(put_text(at, "\r\nx-amz-crc32: "), libdeflate_crc32(0, body.data, body.size));
    if (head->verdict != VERDICT_NONE)
        at = put_verdict(at, head);
    if (head->commit != 0)
        at = put_decimal(put_text(at, "\r\nx-mudax-commit: "), head->commit);
    if (head->http == 405)
        at = put_text(at, "\r\nAllow: POST, GET, HEAD");
    static const char *const endings[] = {
        [ENDING_NONE] = "\r\n\r\n",
        [ENDING_CLOSE] = "\r\nConnection: close\r\n\r\n",
        [ENDING_ALIVE] = "\r\nConnection: keep-alive\r\n\r\n",
    };
    return put_text(at, endings[head->ending]);
}

/* Begins a reply: room for its head. False without memory. */
static bool begin(struct buffer *out, size_t *start)
{
    *start = out->size;
    if (!buffer_reserve(out, HEAD_MAX))
        return false;
    out->size += HEAD_MAX;
    return true;
}

/* Puts the head before the body, which is all that was appended since begin(). Bodies are mostly
 * short: moving them costs less than learning their length beforehand. */
static void end(struct buffer *out, size_t start, const struct head *head)
{
    struct bytes body = bytes_of(out->data + start + HEAD_MAX, out->size - start - HEAD_MAX);
    uint8_t *at = put_head(out->data + start, head, body);
    if (!head->is_head) {
        memmove(at, body.data, body.size);
        at += body.size;
    }
    out->size = (size_t)(at - out->data);
}

/* ---- bodies ---- */

#define PUT(out, text) buffer_append(out, BYTES_LITERAL(text))

static bool is_nil(struct bytes body)
{
    return body.size == 0 || body.data[0] == 0xc0;
}

static bool put_natural(struct buffer *out, uint64_t natural)
{
    if (!buffer_reserve(out, DECIMAL_MAX))
        return false;
    out->size = (size_t)(put_decimal(out->data + out->size, natural) - out->data);
    return true;
}

/* An item, or attributes of one, as the member that `opening` begins. */
static bool put_item(struct buffer *out, struct bytes opening, struct bytes body)
{
    struct msgpack_cursor cursor = msgpack_cursor_of(body);
    if (is_nil(body))
        return PUT(out, "{}");
    return buffer_append(out, opening) && json_from_item_bytes(&cursor, out) && PUT(out, "}");
}

static bool put_items(struct buffer *out, struct msgpack_cursor *cursor, uint32_t items)
{
    if (!PUT(out, "\"Items\":["))
        return false;
    for (uint32_t item = 0; item < items; item++)
        if ((item != 0 && !PUT(out, ",")) || !json_from_item_bytes(cursor, out))
            return false;
    return PUT(out, "],");
}

/* With Select COUNT, the page has a number in place of its items. */
static bool put_page(struct buffer *out, struct bytes body)
{
    struct msgpack_cursor cursor = msgpack_cursor_of(body);
    struct msgpack_head head;
    uint32_t parts;
    uint64_t scanned;
    if (!msgpack_read_array(&cursor, &parts) || parts != 3 || !msgpack_read(&cursor, &head) ||
        (head.kind != MSGPACK_ARRAY && head.kind != MSGPACK_UINT) || !PUT(out, "{"))
        return false;
    bool is_count = head.kind == MSGPACK_UINT;
    if (!is_count && !put_items(out, &cursor, head.count))
        return false;
    if (!PUT(out, "\"Count\":") || !put_natural(out, is_count ? head.integer : head.count) ||
        !msgpack_read_uint(&cursor, &scanned) || !PUT(out, ",\"ScannedCount\":") ||
        !put_natural(out, scanned))
        return false;
    if (!is_nil(bytes_of(cursor.at, (size_t)(cursor.end - cursor.at))) &&
        (!PUT(out, ",\"LastEvaluatedKey\":") || !json_from_item_bytes(&cursor, out)))
        return false;
    return PUT(out, "}");
}

/* Into the object that has just been closed. A hit was charged nothing. */
static bool put_capacity(struct buffer *out, const struct request *request, struct bytes capacity)
{
    struct msgpack_cursor cursor = msgpack_cursor_of(capacity);
    out->size--;
    if ((out->data[out->size - 1] != '{' && !PUT(out, ",")) || !PUT(out, "\"ConsumedCapacity\":"))
        return false;
    bool is_put = bytes_given(capacity) ? json_from_plain_bytes(&cursor, out)
                  : request->part_count != 0
                      ? PUT(out, "[]")
                      : PUT(out, "{\"CapacityUnits\":0,\"TableName\":") &&
                            json_from_text(request->table_name, out) && PUT(out, "}");
    return is_put && PUT(out, "}");
}

/* One item collection: the map that collection.c makes, whose first member is a key. */
static bool put_collection(struct buffer *out, struct msgpack_cursor *cursor)
{
    struct bytes name;
    uint32_t members;
    return msgpack_read_map(cursor, &members) && members == 2 && msgpack_read_str(cursor, &name) &&
           PUT(out, "{\"ItemCollectionKey\":") && json_from_item_bytes(cursor, out) &&
           msgpack_read_str(cursor, &name) && PUT(out, ",\"SizeEstimateRangeGB\":") &&
           json_from_plain_bytes(cursor, out) && PUT(out, "}");
}

static bool put_collections(struct buffer *out, struct msgpack_cursor *cursor)
{
    uint32_t count;
    if (!msgpack_read_array(cursor, &count) || !PUT(out, "["))
        return false;
    for (uint32_t i = 0; i < count; i++)
        if ((i != 0 && !PUT(out, ",")) || !put_collection(out, cursor))
            return false;
    return PUT(out, "]");
}

/* Into the object that has just been closed. */
static bool put_metrics(struct buffer *out, const struct request *request, struct bytes metrics)
{
    struct msgpack_cursor cursor = msgpack_cursor_of(metrics);
    uint32_t tables;
    struct bytes name;
    out->size--;
    if ((out->data[out->size - 1] != '{' && !PUT(out, ",")) ||
        !PUT(out, "\"ItemCollectionMetrics\":"))
        return false;
    if (request->part_count == 0)
        return put_collection(out, &cursor) && PUT(out, "}");
    if (!msgpack_read_map(&cursor, &tables) || !PUT(out, "{"))
        return false;
    for (uint32_t i = 0; i < tables; i++)
        if ((i != 0 && !PUT(out, ",")) || !msgpack_read_str(&cursor, &name) ||
            !json_from_text(name, out) || !PUT(out, ":") || !put_collections(out, &cursor))
            return false;
    return PUT(out, "}}");
}

static bool put_body(struct buffer *out, const struct request *request, struct bytes body)
{
    struct msgpack_cursor cursor = msgpack_cursor_of(body);
    if (UNLIKELY(bytes_given(parts_member(request->operation))))
        return parts_write(request, body, out);
    switch (request->operation) {
    case OPERATION_GET_ITEM:
        return put_item(out, BYTES_LITERAL("{\"Item\":"), body);
    case OPERATION_PUT_ITEM:
    case OPERATION_DELETE_ITEM:
    case OPERATION_UPDATE_ITEM:
        return put_item(out, BYTES_LITERAL("{\"Attributes\":"), body);
    case OPERATION_QUERY:
    case OPERATION_SCAN:
        return put_page(out, body);
    case OPERATION_TAG_RESOURCE:
    case OPERATION_UNTAG_RESOURCE:
        return true; /* DynamoDB's body is empty */
    default:
        return is_nil(body) ? PUT(out, "{}") : json_from_plain_bytes(&cursor, out);
    }
}

/* Where DynamoDB's own services declare the error; clients read what follows the #. */
static struct bytes error_space(enum status status)
{
    switch (status) {
    case STATUS_VALIDATION:
    case STATUS_UNSUPPORTED:
        return BYTES_LITERAL("com.amazon.coral.validate#");
    case STATUS_MALFORMED:
    case STATUS_UNKNOWN_OPERATION:
    case STATUS_MISSING_TOKEN:
    case STATUS_INCOMPLETE_SIGNATURE:
    case STATUS_UNRECOGNIZED_CLIENT:
    case STATUS_INVALID_SIGNATURE:
        return BYTES_LITERAL("com.amazon.coral.service#");
    case STATUS_THROTTLED:
        return BYTES_LITERAL("com.amazon.coral.availability#");
    default:
        return BYTES_LITERAL("com.amazonaws.dynamodb.v20120810#");
    }
}

/* What is wrong with the form of a request has its text under another name. */
static bool put_details(struct buffer *out, enum status status, struct bytes details)
{
    struct msgpack_cursor cursor = msgpack_cursor_of(details);
    if (!bytes_given(details))
        return true;
    if (status == STATUS_TRANSACTION_CANCELED)
        return PUT(out, ",\"CancellationReasons\":") && parts_write_reasons(details, out);
    return PUT(out, ",\"Item\":") && json_from_item_bytes(&cursor, out);
}

static bool put_error(struct buffer *out, enum status status, const char *text,
                      struct bytes details)
{
    bool is_capital = status == STATUS_MALFORMED || status == STATUS_TRANSACTION_CANCELED;
    struct bytes member =
        is_capital ? BYTES_LITERAL("\",\"Message\":") : BYTES_LITERAL("\",\"message\":");
    return PUT(out, "{\"__type\":\"") && buffer_append(out, error_space(status)) &&
           buffer_append(out, bytes_text(status_name(status))) && buffer_append(out, member) &&
           json_from_text(bytes_text(text), out) && put_details(out, status, details) &&
           PUT(out, "}");
}

/* ---- replies ---- */

bool operations_write_refusal(const struct refusal *refusal, struct buffer *out)
{
    struct head head = {.http = refusal->http,
                        .id = refusal->id,
                        .content_type = json_type,
                        .ending = refusal->ending,
                        .is_head = refusal->is_head};
    const char *text = refusal->text[0] != '\0' ? refusal->text : status_text(refusal->status);
    size_t start;
    if (!begin(out, &start))
        return false;
    if (!put_error(out, refusal->status, text, refusal->details)) {
        out->size = start;
        return false;
    }
    end(out, start, &head);
    return true;
}

/* DynamoDB's quotas, which nothing here enforces. */
static bool put_limits(struct buffer *out)
{
    return PUT(out, "{\"AccountMaxReadCapacityUnits\":80000,\"AccountMaxWriteCapacityUnits\":80000,"
                    "\"TableMaxReadCapacityUnits\":40000,\"TableMaxWriteCapacityUnits\":40000}");
}

/* The one endpoint there is, whoever leads to it. */
static bool put_endpoints(struct buffer *out, struct bytes host)
{
    bool is_told = bytes_given(host) && utf8_is_valid(host);
    return PUT(out, "{\"Endpoints\":[{\"Address\":") &&
           json_from_text(is_told ? host : BYTES_LITERAL("localhost"), out) &&
           PUT(out, ",\"CachePeriodInMinutes\":1440}]}");
}

bool operations_write_own(enum own_operation operation, struct bytes host, uint64_t id,
                          enum ending ending, struct buffer *out)
{
    struct head head = {.http = 200, .id = id, .content_type = json_type, .ending = ending};
    size_t start;
    if (!begin(out, &start))
        return false;
    if (operation == OWN_DESCRIBE_LIMITS ? !put_limits(out) : !put_endpoints(out, host)) {
        out->size = start;
        return false;
    }
    end(out, start, &head);
    return true;
}

bool operations_write_health(uint64_t id, enum ending ending, bool is_head, struct buffer *out)
{
    struct head head = {
        .http = 200, .id = id, .content_type = "text/plain", .ending = ending, .is_head = is_head};
    size_t start;
    if (!begin(out, &start))
        return false;
    if (!PUT(out, "healthy: dynamodb\n")) {
        out->size = start;
        return false;
    }
    end(out, start, &head);
    return true;
}

bool operations_write_reply(const struct request *request, const struct reply *reply,
                            enum ending ending, struct buffer *out)
{
    struct refusal refusal = {.http = status_http(reply->status),
                              .status = reply->status,
                              .text = reply->error.text,
                              .details = reply->details,
                              .id = request->id,
                              .ending = ending};
    if (reply->status != STATUS_OK)
        return operations_write_refusal(&refusal, out);
    struct head head = {.http = 200,
                        .id = request->id,
                        .content_type = json_type,
                        .verdict = request->wants_verdict ? reply->verdict : VERDICT_NONE,
                        .age_ms = reply->age_ms,
                        .commit = reply->commit,
                        .ending = ending};
    size_t start;
    if (!begin(out, &start))
        return false;
    if (put_body(out, request, reply->body) &&
        (LIKELY(request->capacity == CAPACITY_NONE) ||
         put_capacity(out, request, reply->capacity)) &&
        (LIKELY(!bytes_given(reply->metrics)) || put_metrics(out, request, reply->metrics))) {
        end(out, start, &head);
        return true;
    }
    /* No memory, or a store that gives back what nobody wrote. */
    out->size = start;
    refusal.http = status_http(STATUS_INTERNAL);
    refusal.status = STATUS_INTERNAL;
    refusal.text = "The reply of the store cannot be told as JSON";
    return operations_write_refusal(&refusal, out);
}
