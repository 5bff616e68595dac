#include "backend/redis/redis.h"

#include "protocol/ensure.h"

#include <hiredis/adapters/libevent.h>

#include <stdio.h>
#include <stdlib.h>

enum { SCAN_COUNT = 1000 };

uint32_t redis_tick_ms = 1000;

static enum status connect_lane(struct redis_lane *lane);

static void tell(struct redis_store *store, const char *what, const char *detail)
{
    if (store->on_event != NULL)
        store->on_event(store->on_event_arg, what, detail);
}

/* ---- sending ---- */

static enum status send_words(struct redis_lane *lane, const struct words *words,
                              redisCallbackFn *done, void *data)
{
    if (words->has_failed)
        return STATUS_NO_MEMORY;
    if (lane->in_flight >= IN_FLIGHT_MAX)
        return STATUS_THROTTLED;
    enum status status = connect_lane(lane);
    if (status != STATUS_OK)
        return status;
    /* Refused while a lost connection is taken down. */
    if (redisAsyncCommandArgv(lane->connection, done, data, (int)words->count, words->texts,
                              words->sizes) != REDIS_OK)
        return STATUS_UNAVAILABLE;
    lane->in_flight++;
    return STATUS_OK;
}

static struct redis_lane *came(const redisAsyncContext *connection, const void *answer)
{
    struct redis_lane *lane = connection->data;
    ensure(lane->in_flight > 0);
    lane->in_flight--;
    if (answer != NULL)
        lane->silent_ticks = 0;
    return lane;
}

static enum status send_read(struct redis_lane *lane, struct kv_read *read, bool by_text);
static enum status send_commit(struct redis_lane *lane, struct kv_commit *commit, bool by_text);

static void on_read(redisAsyncContext *connection, void *answer, void *data)
{
    struct redis_lane *lane = came(connection, answer);
    struct kv_read *read = data;
    bool by_text = answer_is_unknown_script(answer); /* Redis has been started again since */
    if (by_text || answer_read(answer, read)) {
        read->status = send_read(lane, read, by_text);
        if (read->status == STATUS_OK)
            return;
    }
    read->complete(read);
}

static enum status send_read(struct redis_lane *lane, struct kv_read *read, bool by_text)
{
    struct words words = command_read(lane->store, read, by_text);
    return send_words(lane, &words, on_read, read);
}

static void read_failed(struct task *task)
{
    struct kv_read *read = (struct kv_read *)((char *)task - offsetof(struct kv_read, task));
    read->complete(read);
}

enum submit connection_read(struct kv_lane *base, struct kv_read *read)
{
    struct redis_lane *lane = (struct redis_lane *)base;
    atomic_fetch_add_explicit(&lane->store->reads, 1, memory_order_relaxed);
    read->status = send_read(lane, read, false);
    if (read->status == STATUS_OK)
        return SUBMIT_PENDING;
    read->task.run = read_failed;
    lane->env.post(lane->env.worker, &read->task);
    return SUBMIT_PENDING;
}

/* ---- dropping a table's records, after its commit and a piece at a time ---- */

struct sweep {
    char pattern[BUCKET_PATTERN_SIZE];
    char cursor[24];
};

static void on_sweep(redisAsyncContext *connection, void *answer, void *data);

/* What stays when the connection is lost is never read: table ids are not used twice. */
static void sweep_on(struct redis_lane *lane, struct sweep *sweep)
{
    if (!lane->is_closing && connect_lane(lane) == STATUS_OK &&
        redisAsyncCommand(lane->connection, on_sweep, sweep, "SCAN %s MATCH %s COUNT %d",
                          sweep->cursor, sweep->pattern, SCAN_COUNT) == REDIS_OK) {
        lane->in_flight++;
        return;
    }
    atomic_fetch_add_explicit(&lane->store->drops_left, 1, memory_order_relaxed);
    free(sweep);
}

static void on_unlink(redisAsyncContext *connection, void *answer, void *data)
{
    (void)data;
    (void)came(connection, answer);
}

static bool is_scan(const redisReply *reply)
{
    return reply != NULL && reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 &&
           reply->element[0]->type == REDIS_REPLY_STRING &&
           reply->element[1]->type == REDIS_REPLY_ARRAY;
}

static void on_sweep(redisAsyncContext *connection, void *answer, void *data)
{
    struct redis_lane *lane = came(connection, answer);
    struct sweep *sweep = data;
    const redisReply *reply = answer;
    if (!is_scan(reply)) {
        atomic_fetch_add_explicit(&lane->store->drops_left, 1, memory_order_relaxed);
        free(sweep);
        return;
    }
    (void)snprintf(sweep->cursor, sizeof sweep->cursor, "%s", reply->element[0]->str);
    const redisReply *names = reply->element[1];
    for (size_t i = 0; i < names->elements; i++)
        if (redisAsyncCommand(connection, on_unlink, NULL, "UNLINK %b", names->element[i]->str,
                              names->element[i]->len) == REDIS_OK)
            lane->in_flight++;
    if (strcmp(sweep->cursor, "0") == 0)
        free(sweep);
    else
        sweep_on(lane, sweep);
}

/* The order of a table's buckets; if it stays, so be it. */
static void unlink_buckets(struct redis_lane *lane, struct bytes key, struct arena *arena)
{
    const char *name = table_buckets(key, arena);
    if (name != NULL && connect_lane(lane) == STATUS_OK &&
        redisAsyncCommand(lane->connection, on_unlink, NULL, "UNLINK %s", name) == REDIS_OK)
        lane->in_flight++;
}

static void sweep_tables(struct redis_lane *lane, const struct kv_commit *commit)
{
    for (size_t i = 0; i < commit->drop_count; i++) {
        struct sweep *sweep = calloc(1, sizeof *sweep);
        if (sweep == NULL)
            return;
        sweep->cursor[0] = '0';
        if (bucket_pattern(commit->drops[i].low, sweep->pattern)) {
            unlink_buckets(lane, commit->drops[i].low, commit->arena);
            sweep_on(lane, sweep);
        } else {
            free(sweep); /* gone with the commit */
        }
    }
}

/* ---- commits ---- */

static void on_commit(redisAsyncContext *connection, void *answer, void *data)
{
    struct redis_lane *lane = came(connection, answer);
    struct kv_commit *commit = data;
    if (answer_is_unknown_script(answer)) {
        commit->status = send_commit(lane, commit, true);
        if (commit->status == STATUS_OK)
            return;
        commit->outcome = KV_REFUSED;
    } else {
        bool is_sent = (connection->c.flags & REDIS_CONNECTED) != 0;
        answer_commit(lane->store, answer, is_sent, commit);
    }
    if (commit->outcome == KV_DONE)
        sweep_tables(lane, commit);
    commit->complete(commit);
}

static enum status send_commit(struct redis_lane *lane, struct kv_commit *commit, bool by_text)
{
    struct words words = command_commit(lane->store, commit, by_text);
    return send_words(lane, &words, on_commit, commit);
}

static void commit_failed(struct task *task)
{
    struct kv_commit *commit =
        (struct kv_commit *)((char *)task - offsetof(struct kv_commit, task));
    commit->complete(commit);
}

void connection_commit(struct kv_lane *base, struct kv_commit *commit)
{
    struct redis_lane *lane = (struct redis_lane *)base;
    atomic_fetch_add_explicit(&lane->store->commits, 1, memory_order_relaxed);
    commit->status = send_commit(lane, commit, false);
    if (commit->status == STATUS_OK)
        return;
    commit->outcome = KV_REFUSED;
    commit->task.run = commit_failed;
    lane->env.post(lane->env.worker, &commit->task);
}

/* ---- the connection ---- */

static void lost(struct redis_lane *lane, const char *detail)
{
    lane->connection = NULL; /* hiredis frees it */
    if (lane->is_closing)
        return;
    if (!atomic_exchange(&lane->store->is_down, true)) {
        atomic_fetch_add_explicit(&lane->store->losses, 1, memory_order_relaxed);
        tell(lane->store, "store_lost", detail);
    }
}

static void on_connect(const redisAsyncContext *connection, int status)
{
    struct redis_lane *lane = connection->data;
    if (status == REDIS_OK)
        return;
    lane->is_waiting = true;
    lost(lane, connection->errstr);
}

static void on_disconnect(const redisAsyncContext *connection, int status)
{
    struct redis_lane *lane = connection->data;
    if (lane->connection == connection)
        lost(lane, status == REDIS_OK ? "closed" : connection->errstr);
}

/* A server that has been started again may have lost what it had not saved, so that a cache may
 * know better than it does. Replies come in order: this one before that of any read. */
static void note_run(struct redis_store *store, struct bytes run_id)
{
    mutex_lock(&store->lock);
    if (!bytes_equal(run_id, bytes_text(store->run_id))) {
        memcpy(store->run_id, run_id.data, RUN_ID_SIZE);
        tell(store, "store_reopened", "Redis has been started again");
    }
    mutex_unlock(&store->lock);
}

static void on_info(redisAsyncContext *connection, void *answer, void *data)
{
    (void)data;
    struct redis_lane *lane = came(connection, answer);
    struct redis_store *store = lane->store;
    if (answer == NULL)
        return;
    struct bytes run_id = answer_run_id(answer);
    if (bytes_given(run_id))
        note_run(store, run_id);
    if (atomic_exchange(&store->is_down, false)) {
        atomic_fetch_add_explicit(&store->reconnects, 1, memory_order_relaxed);
        tell(store, "store_reconnected", "Redis answers again");
    }
}

static bool prepare(struct redis_lane *lane, redisAsyncContext *connection)
{
    connection->data = lane;
    return connection->err == 0 &&
           redisLibeventAttach(connection, lane->env.event_base) == REDIS_OK &&
           redisAsyncSetConnectCallback(connection, on_connect) == REDIS_OK &&
           redisAsyncSetDisconnectCallback(connection, on_disconnect) == REDIS_OK &&
           (lane->store->port == 0 || redisEnableKeepAlive(&connection->c) == REDIS_OK);
}

/* Makes the connection if there is none. */
static enum status connect_lane(struct redis_lane *lane)
{
    if (lane->connection != NULL)
        return STATUS_OK;
    if (lane->is_waiting)
        return STATUS_UNAVAILABLE;
    const struct redis_store *store = lane->store;
    redisAsyncContext *connection = store->port == 0 ? redisAsyncConnectUnix(store->host)
                                                     : redisAsyncConnect(store->host, store->port);
    if (connection == NULL)
        return STATUS_NO_MEMORY;
    if (!prepare(lane, connection)) {
        lane->is_waiting = true;
        lost(lane, connection->errstr);
        redisAsyncFree(connection);
        return STATUS_UNAVAILABLE;
    }
    lane->connection = connection;
    lane->silent_ticks = 0;
    if (redisAsyncCommand(connection, on_info, NULL, "INFO server") == REDIS_OK)
        lane->in_flight++;
    return STATUS_OK;
}

/* A server that takes commands and says nothing: what is in flight ends with an unknown outcome. */
static void give_up(struct redis_lane *lane)
{
    redisAsyncContext *connection = lane->connection;
    lane->is_waiting = true;
    lost(lane, "no answer for 10 s");
    redisAsyncFree(connection);
}

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    struct redis_lane *lane = arg;
    lane->is_waiting = false;
    /* Only another write can tell, and there may be none as long as we seem not to be ready. */
    atomic_store(&lane->store->trouble, NULL);
    if (lane->connection != NULL && lane->in_flight != 0) {
        if (++lane->silent_ticks >= SILENT_TICKS_MAX)
            give_up(lane);
    } else {
        lane->silent_ticks = 0;
    }
    /* Nobody may ask while the daemon says that it is not ready. */
    if (atomic_load_explicit(&lane->store->is_down, memory_order_relaxed))
        (void)connect_lane(lane);
}

/* ---- lanes ---- */

enum status connection_lane_open(struct kv *kv, const struct lane_env *env, struct kv_lane **out)
{
    ensure(env->event_base != NULL);
    struct redis_lane *lane = calloc(1, sizeof *lane);
    if (lane == NULL)
        return STATUS_NO_MEMORY;
    lane->lane.ops = kv->ops;
    lane->store = (struct redis_store *)kv;
    lane->env = *env;
    lane->tick = event_new(env->event_base, -1, EV_PERSIST, on_tick, lane);
    struct timeval every = {.tv_sec = redis_tick_ms / 1000, .tv_usec = redis_tick_ms % 1000 * 1000};
    *out = &lane->lane;
    if (lane->tick != NULL && event_add(lane->tick, &every) == 0)
        return STATUS_OK;
    connection_lane_close(out);
    return STATUS_NO_MEMORY;
}

void connection_lane_close(struct kv_lane **base)
{
    struct redis_lane *lane = (struct redis_lane *)*base;
    *base = NULL;
    lane->is_closing = true;
    if (lane->connection != NULL)
        redisAsyncFree(lane->connection);
    ensure(lane->in_flight == 0);
    if (lane->tick != NULL)
        event_free(lane->tick);
    free(lane);
}
