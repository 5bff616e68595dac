/* session.h - calls on any `struct backend`, one after the other, for tests.
 *
 * Requests are written as DynamoDB JSON with ' for ", replies are compared as canonical bytes.
 * Threads: one; open a session each. */
#pragma once

#include "backend/backend.h"
#include "tests/support/lane_loop.h"

struct session {
    struct backend *backend;
    struct lane *lane;
    struct lane_loop loop;
    struct arena arena; /* what session_*() return, until session_forget() */
};

/* A call and its memory, for those who want several at once. */
struct session_call {
    struct call call;
    struct arena arena;
    bool is_complete;
    struct bytes body; /* a copy, in the call's arena */
};

/* backend  borrowed */
void session_open(struct session *session, struct backend *backend);
/* The same, with somebody who wants to know of commits (lane_env.intent). */
void session_open_watched(struct session *session, struct backend *backend,
                          void (*intent)(void *intent_arg, struct call *call), void *intent_arg);
void session_close(struct session *session);
void session_forget(struct session *session);

/* Canonical bytes of an item, key or map of values; of plain JSON. Fails the process on bad text.
 */
struct bytes session_item(struct session *session, const char *json);
struct bytes session_plain(struct session *session, const char *json);
/* The same, for text that may be refused. */
MUST_CHECK enum status session_try_item(struct session *session, const char *json,
                                        struct bytes *out, struct error *error);
/* Printable. */
const char *session_json(struct session *session, struct bytes item);
const char *session_plain_json(struct session *session, struct bytes map);

/* An empty call of an operation on a table, which belongs to the session's thread. */
void session_call_init(struct session_call *call, enum operation operation, const char *table);
void session_call_deinit(struct session_call *call);
void session_submit(struct session *session, struct session_call *call);
/* Submits and waits. */
void session_run(struct session *session, struct session_call *call);

/* Shorthands; the reply's body is copied to the session. */
struct reply session_create(struct session *session, const char *table, const char *partition,
                            const char *sort); /* "p:S"; sort may be NULL */
struct reply session_get(struct session *session, const char *table, const char *key);
struct reply session_put(struct session *session, const char *table, const char *item);
struct reply session_delete(struct session *session, const char *table, const char *key);
struct reply session_table(struct session *session, enum operation operation, const char *table);
