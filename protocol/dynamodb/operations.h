/* operations.h - requests and replies as DynamoDB's JSON spells them.
 *
 * Reading goes from JSON to the MessagePack that struct request wants, writing from the MessagePack
 * of a reply straight to text. Members that no layer below can serve yet are refused by name:
 * better than an answer that silently lacks what was asked for. Source: Amazon DynamoDB API
 * Reference, version 2012-08-10; "Low-level API" in its developer guide. Threads: pure functions.
 */
#pragma once

#include "protocol/wire.h"

/* The operation that an X-Amz-Target names. False if there is none of that name here. */
bool operations_find(struct bytes target, enum operation *out);

/* Operations that are answered here: they say nothing of stored data. */
enum own_operation { OWN_DESCRIBE_LIMITS, OWN_DESCRIBE_ENDPOINTS };

/* The same for those. */
bool operations_find_own(struct bytes target, enum own_operation *out);

/* Reads the body of one, which has no members. Errors: as operations_read(). */
MUST_CHECK enum status operations_read_own(struct bytes body, struct arena *arena,
                                           enum own_operation operation, struct error *error);

/* Fills `request`, whose operation is set and all else zero, from the JSON of a body. Views are
 * into the arena. Errors: STATUS_MALFORMED, STATUS_VALIDATION, STATUS_UNSUPPORTED with DynamoDB's
 * texts or ones that name the member, STATUS_NO_MEMORY. */
MUST_CHECK enum status operations_read(struct bytes body, struct arena *arena,
                                       struct request *request, struct error *error);

/* What a reply says of its connection. */
enum ending {
    ENDING_NONE,  /* nothing: it stays open */
    ENDING_CLOSE, /* it is the last one */
    ENDING_ALIVE, /* it stays open, which a client of HTTP/1.0 has to be told */
};

/* Appends a whole HTTP reply. False without memory; `out` then ends where it did. */
MUST_CHECK bool operations_write_reply(const struct request *request, const struct reply *reply,
                                       enum ending ending, struct buffer *out);

/* An answer of the protocol's own: what is said of a request that nobody below sees. */
struct refusal {
    int http;
    enum status status; /* whose name and, if text is "", text is told */
    const char *text;
    struct bytes details; /* as in struct reply; not given: none */
    uint64_t id;
    enum ending ending;
    bool is_head; /* answers a HEAD: no body */
};

/* Append whole HTTP replies. False without memory. */
MUST_CHECK bool operations_write_refusal(const struct refusal *refusal, struct buffer *out);
/* host  as the client has called this server; not given: it has not */
MUST_CHECK bool operations_write_own(enum own_operation operation, struct bytes host, uint64_t id,
                                     enum ending ending, struct buffer *out);
MUST_CHECK bool operations_write_health(uint64_t id, enum ending ending, bool is_head,
                                        struct buffer *out);
