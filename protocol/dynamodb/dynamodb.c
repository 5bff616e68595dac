/* dynamodb.c - DynamoDB's API over HTTP/1.1 as a wire protocol: SPEC.md. */
#include "protocol/dynamodb/http1.h"
#include "protocol/dynamodb/operations.h"
#include "protocol/dynamodb/signature.h"
#include "protocol/hash.h"

#include <libdeflate.h>

#include <strings.h>

enum {
    HASHED_MAX = 240,         /* what XXH3 takes at its fastest */
    INFLATED_PER_BYTE = 1032, /* deflate's best; zlib.net, "Maximum compression factor" */
};

/* ---- compressed bodies ---- */

static enum status refuse_gzip(struct error *error)
{
    return error_set(error, STATUS_MALFORMED, "The body is not what Content-Encoding: gzip says");
}

/* What the end of a gzip file says of its size: RFC 1952, 2.3.1. */
static size_t announced_size(struct bytes packed)
{
    if (packed.size < 4)
        return 0;
    const uint8_t *end = packed.data + packed.size;
    return end[-4] | (size_t)end[-3] << 8 | (size_t)end[-2] << 16 | (size_t)end[-1] << 24;
}

static enum status inflate(struct bytes packed, struct arena *arena, size_t body_max,
                           struct bytes *out, struct error *error)
{
    size_t size = announced_size(packed), used = 0;
    if (size > packed.size * INFLATED_PER_BYTE)
        return refuse_gzip(error);
    if (size > body_max)
        return error_set(error, STATUS_TOO_LARGE, "A body may have %zu bytes, uncompressed",
                         body_max);
    uint8_t *memory = arena_alloc(arena, size + 1);
    struct libdeflate_decompressor *decompressor =
        memory == NULL ? NULL : libdeflate_alloc_decompressor();
    if (decompressor == NULL)
        return error_set(error, STATUS_NO_MEMORY, "%s", "");
    enum libdeflate_result result = libdeflate_gzip_decompress_ex(
        decompressor, packed.data, packed.size, memory, size, &used, NULL);
    libdeflate_free_decompressor(decompressor);
    if (result != LIBDEFLATE_SUCCESS || used != packed.size)
        return refuse_gzip(error);
    *out = bytes_of(memory, size);
    return STATUS_OK;
}

static enum status unpack_body(struct http1_message *message, struct arena *arena, size_t body_max,
                               struct error *error)
{
    struct bytes encoding = message->content_encoding;
    if (encoding.size == 0 ||
        (encoding.size == 8 && strncasecmp((const char *)encoding.data, "identity", 8) == 0))
        return STATUS_OK;
    if (encoding.size != 4 || strncasecmp((const char *)encoding.data, "gzip", 4) != 0)
        return error_set(error, STATUS_MALFORMED, "Content-Encoding must be gzip, or none");
    return inflate(message->body, arena, body_max, &message->body, error);
}

/* ---- answers of the protocol's own ---- */

struct answer {
    struct wire_session *session;
    struct buffer *out;
    uint64_t id;
    bool is_head;
};

/* Agreed with the request that is answered. */
enum { FEATURE_ALIVE = 1 };

static enum ending ending_of(const struct wire_session *session)
{
    if (session->is_last)
        return ENDING_CLOSE;
    return (session->features & FEATURE_ALIVE) != 0 ? ENDING_ALIVE : ENDING_NONE;
}

static enum wire_result refuse(const struct answer *answer, int http, enum status status,
                               const char *text)
{
    struct refusal refusal = {.http = http,
                              .status = status,
                              .text = text,
                              .id = answer->id,
                              .ending = ending_of(answer->session),
                              .is_head = answer->is_head};
    return operations_write_refusal(&refusal, answer->out) ? WIRE_ANSWERED : WIRE_BROKEN;
}

/* The rest of the stream cannot be trusted, or is not wanted. */
static enum wire_result give_up(const struct answer *answer, int http, enum status status,
                                const char *text)
{
    answer->session->is_last = true;
    (void)refuse(answer, http, status, text);
    return WIRE_BROKEN;
}

static enum wire_result refuse_body(const struct answer *answer)
{
    struct error error;
    (void)error_set(&error, STATUS_TOO_LARGE, "A body may have %zu bytes (max-frame)",
                    answer->session->frame_max);
    return give_up(answer, 413, STATUS_TOO_LARGE, error.text);
}

static bool is_text(struct bytes bytes, const char *text)
{
    return bytes_equal(bytes, bytes_text(text));
}

/* Probes of whoever wants to know if somebody listens. */
static enum wire_result answer_get(const struct answer *answer, struct bytes path)
{
    if (!is_text(path, "/") && !is_text(path, "/healthz") && !is_text(path, "/ping"))
        return refuse(answer, 404, STATUS_UNKNOWN_OPERATION, "Nothing is served under this path");
    return operations_write_health(answer->id, ending_of(answer->session), answer->is_head,
                                   answer->out)
               ? WIRE_ANSWERED
               : WIRE_BROKEN;
}

static enum wire_result refuse_target(const struct answer *answer, struct bytes target)
{
    struct error error;
    if (bytes_given(target))
        (void)error_set(&error, STATUS_UNKNOWN_OPERATION, "%.*s is not supported",
                        (int)(target.size < 96 ? target.size : 96), (const char *)target.data);
    else
        (void)error_set(&error, STATUS_UNKNOWN_OPERATION,
                        "The header field X-Amz-Target is missing");
    return refuse(answer, 400, STATUS_UNKNOWN_OPERATION, error.text);
}

/* Who asks, and the body unpacked. */
static enum status open_body(const struct answer *answer, struct http1_message *message,
                             struct arena *arena, struct error *error)
{
    const struct wire_session *session = answer->session;
    enum status status = STATUS_OK;
    if (UNLIKELY(session->keys != NULL && session->keys->count != 0))
        status = signature_check(session->keys, session->unix_s, message, arena, error);
    return status == STATUS_OK ? unpack_body(message, arena, session->frame_max, error) : status;
}

static struct bytes host_of(const struct http1_message *message)
{
    struct bytes rest = BYTES_NONE, name, value;
    while (http1_next_field(message->head, &rest, &name, &value))
        if (name.size == 4 && strncasecmp((const char *)name.data, "host", 4) == 0)
            return value;
    return BYTES_NONE;
}

static enum wire_result answer_own(const struct answer *answer, struct http1_message *message,
                                   struct arena *arena, enum own_operation operation)
{
    struct error error;
    enum status status = open_body(answer, message, arena, &error);
    if (status == STATUS_OK)
        status = operations_read_own(message->body, arena, operation, &error);
    if (status != STATUS_OK)
        return refuse(answer, status_http(status), status, error.text);
    return operations_write_own(operation, host_of(message), answer->id, ending_of(answer->session),
                                answer->out)
               ? WIRE_ANSWERED
               : WIRE_BROKEN;
}

static enum wire_result read_message(const struct answer *answer, struct http1_message *message,
                                     struct arena *arena, struct request *request)
{
    struct bytes path = http1_path(message->url);
    if (message->method == HTTP1_GET || message->method == HTTP1_HEAD)
        return answer_get(answer, path);
    if (message->method != HTTP1_POST)
        return refuse(answer, 405, STATUS_UNKNOWN_OPERATION, "Operations are sent by POST");
    if (!is_text(path, "/"))
        return refuse(answer, 404, STATUS_UNKNOWN_OPERATION, "Operations are sent to /");
    *request = (struct request){.id = answer->id, .wants_verdict = true};
    if (!operations_find(message->target, &request->operation)) {
        enum own_operation own;
        return operations_find_own(message->target, &own) ? answer_own(answer, message, arena, own)
                                                          : refuse_target(answer, message->target);
    }
    struct error error;
    enum status status = open_body(answer, message, arena, &error);
    if (status == STATUS_OK)
        status = operations_read(message->body, arena, request, &error);
    if (status != STATUS_OK)
        return refuse(answer, status_http(status), status, error.text);
    return WIRE_REQUEST;
}

/* ---- the seam ---- */

/* Differs from request to request: of other connections by what clients send, of this one by its
 * number. */
static uint64_t id_of(const struct wire_session *session, struct bytes message)
{
    if (message.size > HASHED_MAX)
        message = bytes_of(message.data + message.size - HASHED_MAX, HASHED_MAX);
    return hash_partition(message) ^ session->requests * 0x9e3779b97f4a7c15;
}

static enum wire_result decode(struct wire_session *session, struct bytes input,
                               struct arena *arena, struct request *request, size_t *used,
                               size_t *needed, struct buffer *out)
{
    struct http1_message message;
    struct error error;
    enum http1_result result =
        http1_read(session, input, session->frame_max, arena, &message, used, needed, &error);
    if (result == HTTP1_MORE)
        return WIRE_MORE;
    struct answer answer = {.session = session, .out = out};
    switch (result) {
    case HTTP1_CONTINUE:
        *used = 0;
        session->is_last = false;
        return buffer_append(out, BYTES_LITERAL("HTTP/1.1 100 Continue\r\n\r\n")) ? WIRE_ANSWERED
                                                                                  : WIRE_BROKEN;
    case HTTP1_MALFORMED:
        return give_up(&answer, 400, STATUS_MALFORMED, error.text);
    case HTTP1_HEAD_TOO_LARGE:
        return give_up(&answer, 431, STATUS_TOO_LARGE,
                       "The request line and header fields may have 16384 bytes");
    case HTTP1_BODY_TOO_LARGE:
        return refuse_body(&answer);
    case HTTP1_NO_MEMORY:
        return give_up(&answer, 500, STATUS_NO_MEMORY, "");
    case HTTP1_MORE:
    case HTTP1_WHOLE:
        break;
    }
    session->is_last = message.is_last;
    session->features = message.must_say_alive ? FEATURE_ALIVE : 0;
    session->requests++;
    answer.id = id_of(session, bytes_of(input.data, *used));
    answer.is_head = message.method == HTTP1_HEAD;
    return read_message(&answer, &message, arena, request);
}

static bool encode(const struct wire_session *session, const struct request *request,
                   const struct reply *reply, struct buffer *out)
{
    return operations_write_reply(request, reply, ending_of(session), out);
}

const struct wire_ops wire_dynamodb = {
    .scheme = "http",
    .in_order = true,
    .decode = decode,
    .encode = encode,
};
