/* redis.h - private to backend/redis: what its files share.
 *
 * kv_redis.c opens, closes and loads; command.c turns reads and commits into commands, answer.c
 * takes the replies apart; connection.c holds a lane's connection and sends.
 * Buckets: a record key begins with a table id (4 bytes) and, unless that is 0, a hash (8 bytes);
 * what has those in common lies in one bucket. A range lies in one, or goes over a table's in the
 * order of their hashes. See engine/record.h. */
#pragma once

#include "backend/engine/kv.h"
#include "protocol/mutex.h"

#include <hiredis/async.h>
#include <hiredis/hiredis.h>

#include <stdatomic.h>

enum {
    IN_FLIGHT_MAX = 16384, /* commands of a lane; beyond: STATUS_THROTTLED */
    SILENT_TICKS_MAX = 10, /* then a connection with commands in flight is given up */
    SHA_SIZE = 40,
    RUN_ID_SIZE = 40,
    BUCKET_PATTERN_SIZE = 24,
};

/* Between looks at each connection. Copied when a lane is opened; a variable for tests alone. */
extern uint32_t redis_tick_ms;

enum script { SCRIPT_READ, SCRIPT_RANGE, SCRIPT_SCAN, SCRIPT_COMMIT, SCRIPTS };

struct redis_store {
    struct kv kv;
    /* Constant after open. */
    char
        *host; /* in numbers, so that connecting again never waits for a name; or a socket's path */
    int port;  /* 0: a Unix socket */
    char sha[SCRIPTS][SHA_SIZE + 1];
    event_fn on_event;
    void *on_event_arg;
    redisContext *loader; /* blocking, for load() */
    /* Guarded by lock, which is held while on_event is told of another run. */
    struct mutex lock;
    char run_id[RUN_ID_SIZE + 1];
    /* Atomic, relaxed. */
    atomic_uint_fast64_t reads, commits, conflicts, refusals, losses, reconnects, drops_left;
    /* Atomic: what is_ready says. */
    atomic_bool is_down;
    _Atomic(const char *) trouble; /* why a write has just been refused, a constant text */
};

struct redis_lane {
    struct kv_lane lane;
    struct redis_store *store;
    struct lane_env env;
    redisAsyncContext *connection; /* NULL: made with the next command */
    bool is_closing;
    bool is_waiting; /* could not connect: not again before the next tick */
    uint32_t in_flight;
    uint32_t silent_ticks; /* since something came, while something is in flight */
    struct event *tick;
};

/* ---- command.c ---- */

extern const char *const script_texts[SCRIPTS];

/* One command: words in the arena of the read or commit that it serves, or views into it. */
struct words {
    const char **texts;
    size_t *sizes;
    size_t count, capacity;
    bool has_failed; /* no memory */
};

/* by_text  sends the script itself, for a server that does not know it yet */
struct words command_read(const struct redis_store *store, const struct kv_read *read,
                          bool by_text);
struct words command_commit(const struct redis_store *store, const struct kv_commit *commit,
                            bool by_text);
/* How much of the record keys of a read all of them have in common: what names their bucket, or
 * their table when the read goes over several buckets. */
size_t read_prefix(const struct kv_read *read);
/* The name of the sorted set of a table's buckets; arena memory, NUL-terminated. NULL without. */
const char *table_buckets(struct bytes key, struct arena *arena);
/* True if a range is all of a table: its buckets match a pattern. */
bool bucket_pattern(struct bytes low, char out[BUCKET_PATTERN_SIZE]);

/* A token that stands for "the value is known, its version is not". */
#define TOKEN_BY_VALUE UINT64_MAX

/* ---- answer.c ---- */

/* Fills a read from its reply (NULL: there was none). True if the range goes on: then `low` or
 * `high` has moved behind what was visited, and it is to be sent again. */
bool answer_read(const redisReply *reply, struct kv_read *read);
/* is_sent  false: it never can have reached the server */
void answer_commit(struct redis_store *store, const redisReply *reply, bool is_sent,
                   struct kv_commit *commit);
bool answer_is_unknown_script(const redisReply *reply);
/* The run_id of a reply to INFO; BYTES_NONE if there is none. */
struct bytes answer_run_id(const redisReply *reply);

/* ---- connection.c ---- */

MUST_CHECK enum status connection_lane_open(struct kv *kv, const struct lane_env *env,
                                            struct kv_lane **out);
void connection_lane_close(struct kv_lane **lane);
enum submit connection_read(struct kv_lane *lane, struct kv_read *read);
void connection_commit(struct kv_lane *lane, struct kv_commit *commit);
