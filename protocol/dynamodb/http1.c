#include "protocol/dynamodb/http1.h"

#include <strings.h>

enum {
    CHUNK_DIGITS_MAX = 15,
    CHUNK_LINE_MAX = 4096, /* a size and its extensions */
};

/* What is kept of a request that has come in part; in wire_session.state. */
struct partial {
    size_t head_size; /* its empty line too; 0: it is not whole, and read from the front again */
    size_t needed;    /* bytes in all; with a whole request, what it takes */
    size_t chunk_at;  /* where the first chunk that is not whole begins; 0: Content-Length */
    size_t body_size; /* of the chunks before it */
};

_Static_assert(sizeof(struct partial) <= sizeof((struct wire_session *)0)->state,
               "wire_session.state must hold it");

/* One call. */
struct reading {
    struct partial *partial;
    struct bytes input;
    size_t body_max;
    struct arena *arena;
    struct http1_message *message;
    const char *complaint; /* of HTTP1_MALFORMED */
};

/* What the head says of the body, and of the connection. */
struct head {
    struct bytes rest; /* lines not yet read */
    size_t length;
    bool has_length, is_chunked;
    bool is_old; /* HTTP/1.0 */
    bool wants_close, wants_alive;
};

static enum http1_result refuse(struct reading *reading, const char *complaint)
{
    reading->complaint = complaint;
    return HTTP1_MALFORMED;
}

static enum http1_result more(struct reading *reading, size_t needed)
{
    reading->partial->needed = needed;
    return HTTP1_MORE;
}

/* ---- characters ---- */

/* RFC 9110, 5.6.2: letters, digits, and !#$%&'*+-.^_`|~; a bit each. */
static bool is_token(uint8_t c)
{
    static const uint32_t tokens[8] = {0, 0x03ff6cfa, 0xc7fffffe, 0x57ffffff};
    return (tokens[c / 32] >> (c % 32) & 1) != 0;
}

static size_t token_size(struct bytes text)
{
    size_t size = 0;
    while (size < text.size && is_token(text.data[size]))
        size++;
    return size;
}

static bool is_control(uint8_t c)
{
    return (c < ' ' && c != '\t') || c == 0x7f;
}

/* Whether one of eight may be; all others are not. */
static bool may_be_control(const uint8_t *at)
{
    const uint64_t ones = 0x0101010101010101, highs = 0x8080808080808080;
    uint64_t eight;
    memcpy(&eight, at, sizeof eight);
    uint64_t deletes = eight ^ (ones * 0x7f);
    return ((((eight - ones * ' ') & ~eight) | ((deletes - ones) & ~deletes)) & highs) != 0;
}

static bool has_control(struct bytes text)
{
    size_t at = 0;
    while (text.size - at >= 8 && !may_be_control(text.data + at))
        at += 8;
    while (at < text.size && !is_control(text.data[at]))
        at++;
    return at < text.size;
}

static bool is_blank(uint8_t c)
{
    return c == ' ' || c == '\t';
}

static struct bytes trim(struct bytes text)
{
    while (text.size != 0 && is_blank(text.data[text.size - 1]))
        text.size--;
    while (text.size != 0 && is_blank(text.data[0]))
        text = bytes_of(text.data + 1, text.size - 1);
    return text;
}

/* As words of HTTP are compared, whatever their case. */
static bool is_word(struct bytes text, struct bytes word)
{
    return text.size == word.size &&
           strncasecmp((const char *)text.data, (const char *)word.data, word.size) == 0;
}

#define IS(text, literal) is_word(text, BYTES_LITERAL(literal))

/* Takes what is before the next `end`, and that too, from the front of `rest`; all, if there is
 * none. */
static struct bytes take_until(struct bytes *rest, uint8_t end)
{
    const uint8_t *at = rest->size == 0 ? NULL : memchr(rest->data, end, rest->size);
    size_t size = at == NULL ? rest->size : (size_t)(at - rest->data);
    size_t taken = size + (at != NULL);
    struct bytes text = bytes_of(rest->data, size);
    *rest = bytes_of(rest->data + taken, rest->size - taken);
    return text;
}

/* One line, without its CR LF; a LF alone stays in it, where nothing may have one. False if it has
 * no end. */
static bool take_line(struct bytes *rest, struct bytes *line)
{
    struct bytes all = *rest;
    *line = take_until(rest, '\n');
    if (line->size == all.size)
        return false;
    bool has_cr = line->size != 0 && line->data[line->size - 1] == '\r';
    line->size = has_cr ? line->size - 1 : line->size + 1;
    return true;
}

/* ---- heads ---- */

static enum http1_method method_of(struct bytes name)
{
    if (bytes_equal(name, BYTES_LITERAL("POST")))
        return HTTP1_POST;
    if (bytes_equal(name, BYTES_LITERAL("GET")))
        return HTTP1_GET;
    return bytes_equal(name, BYTES_LITERAL("HEAD")) ? HTTP1_HEAD : HTTP1_OTHER;
}

/* Blanks are among what it may not have: RFC 9112, 3.2, tells of who splits lines at any. */
static bool is_visible(struct bytes text)
{
    size_t size = 0;
    while (size < text.size && text.data[size] > ' ' && text.data[size] < 0x7f)
        size++;
    return size == text.size;
}

/* RFC 9112, 3. */
static enum http1_result read_request_line(struct reading *reading, struct bytes line,
                                           struct head *head)
{
    struct bytes version = line;
    struct bytes method = take_until(&version, ' ');
    struct bytes url = take_until(&version, ' ');
    if (method.size == 0 || token_size(method) != method.size)
        return refuse(reading, "invalid HTTP method");
    head->is_old = bytes_equal(version, BYTES_LITERAL("HTTP/1.0"));
    if (!head->is_old && !bytes_equal(version, BYTES_LITERAL("HTTP/1.1")))
        return refuse(reading, "neither HTTP/1.1 nor HTTP/1.0");
    if (url.size == 0 || !is_visible(url))
        return refuse(reading, "invalid target");
    reading->message->method = method_of(method);
    reading->message->url = url;
    return HTTP1_WHOLE;
}

/* Too long for anything here is as long as can be. */
static bool read_length(struct bytes digits, size_t *out)
{
    *out = 0;
    for (size_t i = 0; i < digits.size; i++) {
        if (digits.data[i] < '0' || digits.data[i] > '9')
            return false;
        *out = *out > SIZE_MAX / 16 ? SIZE_MAX : 10 * *out + (digits.data[i] - '0');
    }
    return digits.size != 0;
}

static void read_connection(struct bytes list, struct head *head)
{
    while (list.size != 0) {
        struct bytes word = trim(take_until(&list, ','));
        head->wants_close |= IS(word, "close");
        head->wants_alive |= IS(word, "keep-alive");
    }
}

/* RFC 9112, 6. Where several readings are possible none is taken. */
static enum http1_result read_framing(struct reading *reading, struct bytes name,
                                      struct bytes value, struct head *head)
{
    if (IS(name, "content-length")) {
        if (head->has_length || !read_length(value, &head->length))
            return refuse(reading, "invalid content-length");
        head->has_length = true;
    } else if (IS(name, "transfer-encoding")) {
        if (head->is_chunked || head->is_old || !IS(value, "chunked"))
            return refuse(reading, "invalid transfer-encoding");
        head->is_chunked = true;
    }
    return head->has_length && head->is_chunked
               ? refuse(reading, "content-length beside transfer-encoding")
               : HTTP1_WHOLE;
}

/* RFC 9112, 5. */
static enum http1_result split_field(struct reading *reading, struct bytes line, struct bytes *name,
                                     struct bytes *value)
{
    *name = bytes_of(line.data, token_size(line));
    if (is_blank(line.data[0]))
        return refuse(reading, "a header field goes on on a second line");
    if (name->size == 0 || name->size == line.size || line.data[name->size] != ':')
        return refuse(reading, "invalid name of a header field");
    *value = trim(bytes_of(line.data + name->size + 1, line.size - name->size - 1));
    return has_control(*value) ? refuse(reading, "a control character in a header field")
                               : HTTP1_WHOLE;
}

/* For fields of which the first may count for one reader, the last for another. */
static enum http1_result set_once(struct reading *reading, struct bytes *field, struct bytes value)
{
    if (bytes_given(*field))
        return refuse(reading, "a header field is given twice");
    *field = value;
    return HTTP1_WHOLE;
}

static enum http1_result read_field(struct reading *reading, struct bytes line, struct head *head)
{
    struct http1_message *message = reading->message;
    struct bytes name, value;
    enum http1_result result = split_field(reading, line, &name, &value);
    if (result != HTTP1_WHOLE)
        return result;
    if (IS(name, "x-amz-target"))
        return set_once(reading, &message->target, value);
    if (IS(name, "content-encoding"))
        return set_once(reading, &message->content_encoding, value);
    if (IS(name, "expect"))
        message->expects_continue |= !head->is_old && IS(value, "100-continue");
    else if (IS(name, "connection"))
        read_connection(value, head);
    else
        return read_framing(reading, name, value, head);
    return HTTP1_WHOLE;
}

/* Empty lines may stand before it: RFC 9112, 2.2. */
static enum http1_result find_request_line(struct reading *reading, struct head *head,
                                           struct bytes *line)
{
    do {
        if (!take_line(&head->rest, line))
            return line->size == 0 || line->data[0] == '\r' || token_size(*line) != 0
                       ? HTTP1_MORE
                       : refuse(reading, "invalid HTTP method");
    } while (line->size == 0);
    return HTTP1_WHOLE;
}

static enum http1_result read_lines(struct reading *reading, struct head *head)
{
    struct bytes line;
    enum http1_result result = find_request_line(reading, head, &line);
    if (result == HTTP1_WHOLE)
        result = read_request_line(reading, line, head);
    while (result == HTTP1_WHOLE) {
        if (!take_line(&head->rest, &line))
            return HTTP1_MORE;
        if (line.size == 0)
            return HTTP1_WHOLE;
        result = read_field(reading, line, head);
    }
    return result;
}

static enum http1_result read_head(struct reading *reading)
{
    struct http1_message *message = reading->message;
    struct partial *partial = reading->partial;
    struct head head = {.rest = reading->input};
    *message = (struct http1_message){.method = HTTP1_OTHER};
    enum http1_result result = read_lines(reading, &head);
    size_t size = reading->input.size - head.rest.size;
    if (result != HTTP1_MALFORMED &&
        (result == HTTP1_MORE ? reading->input.size : size) > HTTP1_HEAD_MAX)
        return HTTP1_HEAD_TOO_LARGE;
    if (result != HTTP1_WHOLE)
        return result == HTTP1_MORE ? more(reading, reading->input.size + 1) : result;
    message->head = bytes_of(reading->input.data, size);
    message->is_last = head.wants_close || (head.is_old && !head.wants_alive);
    message->must_say_alive = head.is_old && !message->is_last;
    if (head.length > reading->body_max)
        return HTTP1_BODY_TOO_LARGE;
    partial->head_size = size;
    if (head.is_chunked)
        partial->chunk_at = size;
    else
        partial->needed = size + head.length;
    return HTTP1_WHOLE;
}

/* ---- chunks: RFC 9112, 7.1 ---- */

struct chunk {
    size_t line_size; /* of the line that tells its size; 0: it is not whole */
    size_t size;
};

static int digit_of(uint8_t c)
{
    uint8_t letter = c | 0x20;
    if (c >= '0' && c <= '9')
        return c - '0';
    return letter >= 'a' && letter <= 'f' ? letter - 'a' + 10 : -1;
}

/* Extensions are ignored. False if it is none. */
static bool read_chunk(struct bytes rest, struct chunk *out)
{
    struct bytes after = rest, line;
    size_t digits = 0;
    *out = (struct chunk){0};
    for (; digits < rest.size && digit_of(rest.data[digits]) >= 0; digits++) {
        if (digits == CHUNK_DIGITS_MAX)
            return false;
        out->size = 16 * out->size + (size_t)digit_of(rest.data[digits]);
    }
    if (!take_line(&after, &line)) /* it will be read again from its front: it must not be long */
        return rest.size <= CHUNK_LINE_MAX;
    out->line_size = rest.size - after.size;
    struct bytes extensions = bytes_of(line.data + digits, line.size - digits);
    return digits != 0 && out->line_size <= CHUNK_LINE_MAX && !has_control(extensions) &&
           (extensions.size == 0 || bytes_begin_with(trim(extensions), BYTES_LITERAL(";")));
}

static struct bytes input_from(const struct reading *reading, size_t at)
{
    return bytes_of(reading->input.data + at, reading->input.size - at);
}

/* What is behind the last chunk says nothing here. */
static enum http1_result skip_trailers(struct reading *reading, size_t at)
{
    struct bytes rest = input_from(reading, at), line, name, value;
    enum http1_result result = HTTP1_WHOLE;
    do {
        bool is_whole = take_line(&rest, &line);
        if (reading->input.size - rest.size - at > HTTP1_HEAD_MAX)
            return HTTP1_HEAD_TOO_LARGE;
        if (!is_whole)
            return more(reading, reading->input.size + 1);
        if (line.size != 0)
            result = split_field(reading, line, &name, &value);
    } while (line.size != 0 && result == HTTP1_WHOLE);
    reading->partial->needed = reading->input.size - rest.size;
    return result;
}

/* The framing of chunks may be as long as the body again, not longer. */
static bool is_framing_long(const struct reading *reading)
{
    return reading->partial->chunk_at / 2 > reading->body_max + HTTP1_HEAD_MAX;
}

/* Goes on where it was. */
static enum http1_result scan_chunks(struct reading *reading)
{
    struct partial *partial = reading->partial;
    for (;;) {
        struct bytes rest = input_from(reading, partial->chunk_at);
        struct chunk chunk;
        if (!read_chunk(rest, &chunk))
            return refuse(reading, "invalid chunk size");
        if (partial->body_size + chunk.size > reading->body_max || is_framing_long(reading))
            return HTTP1_BODY_TOO_LARGE;
        if (chunk.line_size == 0)
            return more(reading, reading->input.size + 1);
        size_t end = chunk.line_size + chunk.size;
        if (chunk.size == 0)
            return skip_trailers(reading, partial->chunk_at + end);
        if (rest.size < end + 2)
            return more(reading, partial->chunk_at + end + 2);
        if (memcmp(rest.data + end, "\r\n", 2) != 0)
            return refuse(reading, "a chunk longer than its chunk size");
        partial->chunk_at += end + 2;
        partial->body_size += chunk.size;
    }
}

static enum http1_result join_chunks(struct reading *reading)
{
    const struct partial *partial = reading->partial;
    uint8_t *body = arena_alloc(reading->arena, partial->body_size + 1);
    if (body == NULL)
        return HTTP1_NO_MEMORY;
    size_t size = 0;
    for (size_t at = partial->head_size; at < partial->chunk_at;) {
        struct bytes rest = input_from(reading, at);
        struct chunk chunk;
        (void)read_chunk(rest, &chunk);
        memcpy(body + size, rest.data + chunk.line_size, chunk.size);
        size += chunk.size;
        at += chunk.line_size + chunk.size + 2;
    }
    reading->message->body = bytes_of(body, size);
    return HTTP1_WHOLE;
}

/* ---- requests ---- */

static enum http1_result read_request(struct reading *reading)
{
    struct partial *partial = reading->partial;
    bool is_begun = partial->head_size != 0;
    enum http1_result result = is_begun ? HTTP1_WHOLE : read_head(reading);
    if (result == HTTP1_WHOLE && partial->chunk_at != 0)
        result = scan_chunks(reading);
    else if (result == HTTP1_WHOLE && reading->input.size < partial->needed)
        result = HTTP1_MORE;
    if (result == HTTP1_MORE && !is_begun && partial->head_size != 0 &&
        reading->message->expects_continue)
        return HTTP1_CONTINUE;
    if (result != HTTP1_WHOLE)
        return result;
    struct partial whole = *partial;
    if (is_begun)
        (void)read_head(reading); /* its views were of bytes that may have moved */
    *partial = whole;
    if (whole.chunk_at != 0)
        return join_chunks(reading);
    reading->message->body =
        bytes_of(reading->input.data + whole.head_size, whole.needed - whole.head_size);
    return HTTP1_WHOLE;
}

enum http1_result http1_read(struct wire_session *session, struct bytes input, size_t body_max,
                             struct arena *arena, struct http1_message *out, size_t *used,
                             size_t *needed, struct error *error)
{
    struct partial partial;
    memcpy(&partial, session->state, sizeof partial);
    if (input.size == 0 || input.size < partial.needed) {
        *needed = input.size == 0 && partial.needed == 0 ? 1 : partial.needed;
        return HTTP1_MORE;
    }
    struct reading reading = {
        .partial = &partial, .input = input, .body_max = body_max, .arena = arena, .message = out};
    enum http1_result result = read_request(&reading);
    if (result == HTTP1_MALFORMED)
        (void)error_set(error, STATUS_MALFORMED, "Malformed HTTP request: %s", reading.complaint);
    if (result == HTTP1_WHOLE)
        *used = partial.needed;
    *needed = partial.needed;
    if (result == HTTP1_MORE || result == HTTP1_CONTINUE)
        memcpy(session->state, &partial, sizeof partial);
    else
        memset(session->state, 0, sizeof session->state);
    return result;
}

/* ---- what a message says ---- */

bool http1_next_field(struct bytes head, struct bytes *rest, struct bytes *name,
                      struct bytes *value)
{
    struct bytes line = BYTES_NONE;
    bool is_first = !bytes_given(*rest);
    if (is_first)
        *rest = head;
    while (is_first && line.size == 0 && take_line(rest, &line))
        continue; /* empty lines, and the request line */
    if (!take_line(rest, &line) || line.size == 0)
        return false;
    *name = take_until(&line, ':');
    *value = trim(line);
    return true;
}

/* Where the host's name ends. */
static struct bytes skip_host(struct bytes rest)
{
    while (rest.size != 0 && rest.data[0] != '/' && rest.data[0] != '?')
        rest = bytes_of(rest.data + 1, rest.size - 1);
    return rest;
}

/* RFC 9112, 3.2: origin form, or absolute form. */
struct bytes http1_path(struct bytes url)
{
    struct bytes rest = url;
    if (url.size == 0)
        return BYTES_NONE;
    if (url.data[0] != '/') {
        struct bytes scheme = take_until(&rest, ':');
        if ((!IS(scheme, "http") && !IS(scheme, "https")) ||
            !bytes_begin_with(rest, BYTES_LITERAL("//")))
            return BYTES_NONE;
        rest = skip_host(bytes_of(rest.data + 2, rest.size - 2));
    }
    struct bytes path = take_until(&rest, '?');
    return path.size == 0 ? BYTES_LITERAL("/") : path;
}

const char *http1_reason(int code)
{
    switch (code) {
    case 200:
        return "OK";
    case 400:
        return "Bad Request";
    case 404:
        return "Not Found";
    case 405:
        return "Method Not Allowed";
    case 408:
        return "Request Timeout";
    case 413:
        return "Payload Too Large";
    case 431:
        return "Request Header Fields Too Large";
    case 503:
        return "Service Unavailable";
    default:
        return "Internal Server Error";
    }
}
