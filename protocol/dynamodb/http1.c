#include "protocol/dynamodb/http1.h"

#include <http_parser.h>

#include <strings.h>

/* What is kept of a request that has come in part; in wire_session.state. */
struct partial {
    http_parser parser;
    size_t scanned; /* bytes the parser has seen; 0: nothing is kept */
    uint32_t body_size;
    bool has_head;     /* the parser has seen the end of the header fields */
    bool is_continued; /* the client was told to go on */
};

_Static_assert(sizeof(struct partial) <= sizeof((struct wire_session *)0)->state,
               "wire_session.state must hold it");

/* One run of the parser. */
struct run {
    struct partial *partial;
    struct bytes input;
    size_t body_max;
    struct arena *arena;
    struct http1_message *message; /* NULL: only the end is looked for */
    struct bytes field;            /* name whose value comes next */
    uint8_t *joined;               /* arena memory, when the body has several pieces */
    bool is_whole;
    enum http1_result refusal; /* why a callback has stopped the parser; HTTP1_WHOLE: none has */
    const char *complaint;     /* of HTTP1_MALFORMED */
};

enum { GO_ON = 0, STOP = 3 };

static int refuse(struct run *run, enum http1_result refusal, const char *complaint)
{
    run->refusal = refusal;
    run->complaint = complaint;
    return STOP;
}

/* ---- what the parser calls ---- */

/* One piece of the head, which ends at most there. */
static int check_head(struct run *run, struct bytes piece)
{
    size_t end = (size_t)(piece.data + piece.size - run->input.data);
    return end > HTTP1_HEAD_MAX ? refuse(run, HTTP1_HEAD_TOO_LARGE, "") : GO_ON;
}

static int on_url(http_parser *parser, const char *at, size_t size)
{
    struct run *run = parser->data;
    if (run->message == NULL)
        return GO_ON;
    run->message->url = bytes_of(at, size);
    return check_head(run, run->message->url);
}

static int on_field(http_parser *parser, const char *at, size_t size)
{
    struct run *run = parser->data;
    run->field = bytes_of(at, size);
    /* As the library is mostly built it takes this; RFC 9112, 5.1 does not. */
    if (memchr(at, ' ', size) != NULL)
        return refuse(run, HTTP1_MALFORMED, "a blank in the name of a header field");
    return GO_ON;
}

static bool is_name(struct bytes field, const char *name, size_t size)
{
    return field.size == size && strncasecmp((const char *)field.data, name, size) == 0;
}

#define IS_NAME(field, name) is_name(field, name, sizeof(name) - 1)

static int on_value(http_parser *parser, const char *at, size_t size)
{
    struct run *run = parser->data;
    struct http1_message *message = run->message;
    if (message == NULL || run->partial->has_head) /* trailers of a chunked body say nothing */
        return GO_ON;
    if (!bytes_given(run->field)) /* RFC 9112, 5.2 */
        return refuse(run, HTTP1_MALFORMED, "a header field goes on on a second line");
    while (size != 0 && (at[size - 1] == ' ' || at[size - 1] == '\t'))
        size--;
    struct bytes value = bytes_of(at, size);
    if (IS_NAME(run->field, "x-amz-target"))
        message->target = value;
    else if (IS_NAME(run->field, "content-encoding"))
        message->content_encoding = value;
    else if (IS_NAME(run->field, "expect"))
        message->expects_continue |= IS_NAME(value, "100-continue");
    run->field = BYTES_NONE;
    return check_head(run, value);
}

static int on_head(http_parser *parser)
{
    struct run *run = parser->data;
    struct http1_message *message = run->message;
    run->partial->has_head = true;
    if (parser->http_major != 1)
        return refuse(run, HTTP1_MALFORMED, "neither HTTP/1.1 nor HTTP/1.0");
    if (message != NULL) {
        bool is_old = parser->http_minor == 0;
        bool is_kept = is_old && (parser->flags & F_CONNECTION_KEEP_ALIVE) != 0;
        message->is_last = (is_old && !is_kept) || (parser->flags & F_CONNECTION_CLOSE) != 0;
        message->must_say_alive = is_kept && !message->is_last;
        message->expects_continue &= !is_old;
    }
    if ((parser->flags & F_CONTENTLENGTH) != 0 && parser->content_length > run->body_max)
        return refuse(run, HTTP1_BODY_TOO_LARGE, "");
    return GO_ON;
}

/* Puts a further piece of a body behind the others. */
static int join(struct run *run, struct bytes piece)
{
    struct bytes *body = &run->message->body;
    if (run->joined == NULL) {
        /* What can still come is not longer than the input. */
        size_t left = (size_t)(run->input.data + run->input.size - piece.data);
        size_t most = body->size + (left < run->body_max ? left : run->body_max);
        run->joined = arena_alloc(run->arena, most);
        if (run->joined == NULL)
            return refuse(run, HTTP1_NO_MEMORY, "");
        memcpy(run->joined, body->data, body->size);
    }
    memcpy(run->joined + body->size, piece.data, piece.size);
    *body = bytes_of(run->joined, body->size + piece.size);
    return GO_ON;
}

static int on_body(http_parser *parser, const char *at, size_t size)
{
    struct run *run = parser->data;
    if (size > run->body_max - run->partial->body_size)
        return refuse(run, HTTP1_BODY_TOO_LARGE, "");
    run->partial->body_size += (uint32_t)size;
    if (run->message == NULL)
        return GO_ON;
    struct bytes piece = bytes_of(at, size);
    if (bytes_given(run->message->body))
        return join(run, piece);
    run->message->body = piece;
    return GO_ON;
}

static int on_whole(http_parser *parser)
{
    struct run *run = parser->data;
    run->is_whole = true;
    http_parser_pause(parser, 1); /* what follows is the next request */
    return GO_ON;
}

static const http_parser_settings callbacks = {
    .on_url = on_url,
    .on_header_field = on_field,
    .on_header_value = on_value,
    .on_headers_complete = on_head,
    .on_body = on_body,
    .on_message_complete = on_whole,
};

/* ---- runs ---- */

/* Lets the parser see what it has not seen. HTTP1_MORE when it wants more. */
static enum http1_result run_parser(struct run *run, struct error *error)
{
    struct partial *partial = run->partial;
    const char *at = (const char *)run->input.data + partial->scanned;
    size_t left = run->input.size - partial->scanned;
    partial->parser.data = run;
    size_t seen = http_parser_execute(&partial->parser, &callbacks, at, left);
    partial->parser.data = NULL;
    partial->scanned += seen;
    if (run->is_whole)
        return HTTP1_WHOLE;
    enum http_errno failure = HTTP_PARSER_ERRNO(&partial->parser);
    if (failure == HPE_OK && seen == left)
        return HTTP1_MORE;
    if (failure == HPE_HEADER_OVERFLOW)
        return HTTP1_HEAD_TOO_LARGE;
    if (run->refusal != HTTP1_WHOLE && run->refusal != HTTP1_MALFORMED)
        return run->refusal;
    (void)error_set(error, STATUS_MALFORMED, "Malformed HTTP request: %s",
                    run->refusal == HTTP1_MALFORMED ? run->complaint
                                                    : http_errno_description(failure));
    return HTTP1_MALFORMED;
}

/* The framing of chunks may be as long as the body again, not longer. */
static enum http1_result check_size(const struct partial *partial, size_t body_max)
{
    if (!partial->has_head)
        return partial->scanned > HTTP1_HEAD_MAX ? HTTP1_HEAD_TOO_LARGE : HTTP1_MORE;
    return partial->scanned / 2 > body_max + HTTP1_HEAD_MAX ? HTTP1_BODY_TOO_LARGE : HTTP1_MORE;
}

/* Goes on where the parser was. False when the bytes are to be read from the front, because the
 * head or the whole request is there now, or something is wrong with it. */
static bool is_still_waiting(struct partial *partial, struct bytes input, size_t body_max)
{
    struct error error;
    struct run run = {.partial = partial, .input = input, .body_max = body_max};
    bool had_head = partial->has_head;
    return run_parser(&run, &error) == HTTP1_MORE && had_head == partial->has_head &&
           check_size(partial, body_max) == HTTP1_MORE;
}

static enum http1_method method_of(const http_parser *parser)
{
    if (parser->method == HTTP_POST)
        return HTTP1_POST;
    return parser->method == HTTP_GET    ? HTTP1_GET
           : parser->method == HTTP_HEAD ? HTTP1_HEAD
                                         : HTTP1_OTHER;
}

/* Reads all of `input` from the front. */
static enum http1_result read_front(struct partial *partial, struct bytes input, size_t body_max,
                                    struct arena *arena, struct http1_message *message,
                                    struct error *error)
{
    *partial = (struct partial){.is_continued = partial->is_continued};
    *message = (struct http1_message){.head = input};
    http_parser_init(&partial->parser, HTTP_REQUEST);
    struct run run = {.partial = partial,
                      .input = input,
                      .body_max = body_max,
                      .arena = arena,
                      .message = message};
    enum http1_result result = run_parser(&run, error);
    message->method = method_of(&partial->parser);
    return result == HTTP1_MORE ? check_size(partial, body_max) : result;
}

static size_t bytes_needed(const struct partial *partial)
{
    bool is_known = partial->has_head && (partial->parser.flags & F_CONTENTLENGTH) != 0;
    return partial->scanned + (is_known ? (size_t)partial->parser.content_length : 1);
}

enum http1_result http1_read(struct wire_session *session, struct bytes input, size_t body_max,
                             struct arena *arena, struct http1_message *out, size_t *used,
                             size_t *needed, struct error *error)
{
    struct partial partial;
    memcpy(&partial, session->state, sizeof partial);
    enum http1_result result = HTTP1_MORE;
    if (input.size == partial.scanned) { /* to the parser, no bytes are the end of the connection */
        *needed = bytes_needed(&partial);
        return result;
    }
    bool is_waiting = partial.scanned != 0 && is_still_waiting(&partial, input, body_max);
    if (!is_waiting)
        result = read_front(&partial, input, body_max, arena, out, error);
    if (result != HTTP1_MORE) {
        memset(session->state, 0, sizeof session->state);
        *used = partial.scanned;
        return result;
    }
    *needed = bytes_needed(&partial);
    if (!is_waiting && partial.has_head && out->expects_continue && !partial.is_continued) {
        partial.is_continued = true;
        result = HTTP1_CONTINUE;
    }
    memcpy(session->state, &partial, sizeof partial);
    return result;
}

/* ---- what a message says ---- */

static struct bytes trim(struct bytes bytes)
{
    while (bytes.size != 0 && strchr(" \t\r", bytes.data[bytes.size - 1]) != NULL)
        bytes.size--;
    while (bytes.size != 0 && strchr(" \t", bytes.data[0]) != NULL)
        bytes = bytes_of(bytes.data + 1, bytes.size - 1);
    return bytes;
}

/* Takes a line, its end too, from the front of `rest`. */
static struct bytes take_line(struct bytes *rest)
{
    const uint8_t *end = rest->size == 0 ? NULL : memchr(rest->data, '\n', rest->size);
    size_t size = end == NULL ? rest->size : (size_t)(end - rest->data);
    struct bytes line = bytes_of(rest->data, size);
    *rest = bytes_of(rest->data + size + (end != NULL), rest->size - size - (end != NULL));
    return line;
}

bool http1_next_field(struct bytes head, struct bytes *rest, struct bytes *name,
                      struct bytes *value)
{
    if (!bytes_given(*rest)) {
        *rest = head;
        while (rest->size != 0 && trim(take_line(rest)).size == 0)
            continue; /* empty lines may stand before the request line */
    }
    struct bytes line = take_line(rest);
    const uint8_t *colon = line.size == 0 ? NULL : memchr(line.data, ':', line.size);
    if (colon == NULL)
        return false;
    *name = bytes_of(line.data, (size_t)(colon - line.data));
    *value = trim(bytes_of(colon + 1, line.size - name->size - 1));
    return true;
}

struct bytes http1_path(struct bytes url)
{
    struct http_parser_url parts;
    http_parser_url_init(&parts);
    if (!bytes_given(url) ||
        http_parser_parse_url((const char *)url.data, url.size, 0, &parts) != 0)
        return BYTES_NONE;
    if ((parts.field_set & (1 << UF_PATH)) == 0)
        return BYTES_LITERAL("/");
    return bytes_of(url.data + parts.field_data[UF_PATH].off, parts.field_data[UF_PATH].len);
}

const char *http1_reason(int code)
{
    return http_status_str((enum http_status)code);
}
