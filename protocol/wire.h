/* wire.h - SEAM: what a wire protocol implements.
 *
 * Pure: bytes in, request out; reply in, bytes out. No sockets, no clock.
 * To add one: a folder, a constant `struct wire_ops`, a line in wire.c. */
#pragma once

#include "protocol/buffer.h"
#include "protocol/reply.h"

enum wire_result {
    WIRE_REQUEST, /* *request is filled; `used` bytes belong to it */
    WIRE_MORE, /* incomplete; `needed` bytes in all would do (at least one more than there are) */
    WIRE_ANSWERED, /* `used` bytes were a matter of the protocol's own; an answer is in `out`. With
                      `used` 0 it is an interim one, at most one a request: decode again */
    WIRE_BROKEN,   /* an error reply is in `out`; send it, then close */
};

/* What a protocol remembers of one connection. Zeroed at start but for the limits. */
struct access_keys;

struct wire_session {
    size_t frame_max;               /* constant: largest frame taken */
    const struct access_keys *keys; /* sigv4.h: who may ask; NULL or none: whoever does */
    uint64_t unix_s;                /* the time, if there are keys */
    uint32_t version;               /* agreed; 0: no greeting yet */
    uint32_t features;              /* agreed */
    bool is_last;      /* set with every REQUEST and ANSWERED: the connection closes once that is
                          answered and everything is sent */
    uint64_t requests; /* decoded so far, for protocols whose requests have no number */
    uint64_t state[8]; /* of the protocol's own: a request that has come in part. Zero whenever a
                          whole one was given, so that the same bytes decode to the same again */
};

struct wire_ops {
    const char *scheme; /* "mudax" */
    bool in_order;      /* replies have no id: the next request is decoded when the reply to the
                           previous one is in the output */

    /* Looks at the front of `input`.
     * request   views into input and arena
     * out       answers of the protocol's own are appended */
    enum wire_result (*decode)(struct wire_session *session, struct bytes input,
                               struct arena *arena, struct request *request, size_t *used,
                               size_t *needed, struct buffer *out);

    /* Appends the reply to `out`. False without memory; `out` then ends where it did. */
    bool (*encode)(const struct wire_session *session, const struct request *request,
                   const struct reply *reply, struct buffer *out);
};

extern const struct wire_ops wire_native, wire_dynamodb;

/* By URL scheme without transport and TLS suffixes; NULL if there is none. */
const struct wire_ops *wire_by_scheme(const char *scheme);
