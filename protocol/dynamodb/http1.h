/* http1.h - HTTP/1.1 requests, read from a connection's own bytes; heads of replies.
 *
 * Own code, for a hit's sake: lines are found and looked at many bytes at a time, where parsers
 * that take a byte at a time cost half of all instructions of a request. What can be read in two
 * ways is refused. A head that comes in pieces is read from its front each time, bodies where they
 * go on. Source: RFC 9110 and 9112. Threads: pure functions. */
#pragma once

#include "protocol/buffer.h"
#include "protocol/wire.h"

enum {
    HTTP1_HEAD_MAX = 16 * 1024, /* request line and header fields */
};

enum http1_method { HTTP1_GET, HTTP1_HEAD, HTTP1_POST, HTTP1_OTHER };

/* One whole request; all views are of the input, or arena memory for a chunked body. */
struct http1_message {
    enum http1_method method;
    struct bytes url;
    struct bytes target;           /* X-Amz-Target; not given: no such field */
    struct bytes content_encoding; /* likewise */
    struct bytes body;             /* chunks joined, still compressed */
    struct bytes head;             /* request line, header fields, and whatever is behind them */
    bool is_last;                  /* no other request is wanted on this connection */
    bool must_say_alive;           /* a client of HTTP/1.0 wants the connection to stay */
    bool expects_continue;         /* waits for 100 Continue before it sends the body */
};

enum http1_result {
    HTTP1_WHOLE,
    HTTP1_MORE,           /* `needed` bytes in all would do, as far as known */
    HTTP1_CONTINUE,       /* MORE, and the client waits to be told to go on: once a request */
    HTTP1_MALFORMED,      /* text is in `error` */
    HTTP1_HEAD_TOO_LARGE, /* more than HTTP1_HEAD_MAX */
    HTTP1_BODY_TOO_LARGE, /* more than body_max */
    HTTP1_NO_MEMORY,
};

/* Reads one request from the front of `input`.
 * session   its state is this function's
 * body_max  bytes of a body, as it comes
 * out       set with WHOLE; may be changed otherwise
 * used      set with WHOLE */
MUST_CHECK enum http1_result http1_read(struct wire_session *session, struct bytes input,
                                        size_t body_max, struct arena *arena,
                                        struct http1_message *out, size_t *used, size_t *needed,
                                        struct error *error);

/* The header fields of a request, one after the other.
 * head  of a message: well-formed
 * rest  where to go on; begins as BYTES_NONE
 * value without blanks at its ends. False behind the last one. */
bool http1_next_field(struct bytes head, struct bytes *rest, struct bytes *name,
                      struct bytes *value);

/* The path of a request's target without its query; BYTES_NONE if it is no target. */
struct bytes http1_path(struct bytes url);

/* "OK", "Bad Request", ... */
const char *http1_reason(int code);
