/* One Redis or Valkey server behind kv.h: a connection a lane on the lane's own event loop, one
 * command a read, one script a commit. A commit whose reads have changed is a conflict; the engine
 * repeats it. */
#include "backend/engine/kv.h"
#include "backend/redis/scripts.h"
#include "protocol/ensure.h"

#include <hiredis/adapters/libevent.h>
#include <hiredis/async.h>
#include <hiredis/hiredis.h>

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    PORT_DEFAULT = 6379,
    OPEN_TIMEOUT_S = 5,
    SILENT_S_MAX = 10, /* longest life of a request: then the connection is given up */
    VERSION_BYTES = 8,
    BUCKET_BYTES = 12,         /* table id and hash of a record key, see engine/record.h */
    RANGE_BYTES_MAX = 4718592, /* more than any page of 1 MB examines, encoded */
    RANGE_RECORDS_MAX = 1 << 30,
    SHA_SIZE = 40,
    SCAN_COUNT = 1000,
};

enum script { SCRIPT_READ, SCRIPT_RANGE, SCRIPT_COMMIT, SCRIPTS };
static const char *const script_texts[SCRIPTS] = {script_read, script_range, script_commit};

struct redis_store {
    struct kv kv;
    /* Constant after open. */
    char *host; /* or the socket's path */
    int port;   /* 0: a Unix socket */
    char sha[SCRIPTS][SHA_SIZE + 1];
    event_fn on_event;
    void *on_event_arg;
    redisContext *loader; /* blocking; for load() before the first lane, closed by that */
    /* Atomic, relaxed. */
    atomic_uint_fast64_t reads, commits, conflicts, failures, reconnects;
    atomic_bool is_down;
};

struct redis_lane {
    struct kv_lane lane;
    struct redis_store *store;
    struct lane_env env;
    redisAsyncContext *connection; /* NULL: to be made with the next command */
    bool is_closing;
    uint32_t in_flight;
    uint32_t silent_s; /* since something came, while something is in flight */
    struct event *watchdog;
};

/* One command: words in the arena of the read or commit that it serves. */
struct words {
    const char **texts;
    size_t *sizes;
    size_t count, capacity;
    bool has_failed;
};

/* ---- words ---- */

static void words_init(struct words *words, struct arena *arena, size_t capacity)
{
    *words = (struct words){.capacity = capacity};
    words->texts = arena_alloc(arena, capacity * sizeof *words->texts);
    words->sizes = arena_alloc(arena, capacity * sizeof *words->sizes);
    words->has_failed = words->texts == NULL || words->sizes == NULL;
}

static void word(struct words *words, struct bytes bytes)
{
    words->has_failed |= !bytes_given(bytes);
    if (words->has_failed)
        return;
    ensure(words->count < words->capacity);
    words->texts[words->count] = (const char *)bytes.data;
    words->sizes[words->count++] = bytes.size;
}

static void number_word(struct words *words, struct arena *arena, int64_t number)
{
    char text[24];
    int size = snprintf(text, sizeof text, "%" PRId64, number);
    word(words, arena_copy(arena, bytes_of(text, (size_t)size)));
}

/* `head`, then `tail`, as one word. */
static void joined_word(struct words *words, struct arena *arena, struct bytes head,
                        struct bytes tail)
{
    char *both = arena_alloc(arena, head.size + tail.size);
    if (both != NULL) {
        memcpy(both, head.data, head.size);
        if (tail.size != 0)
            memcpy(both + head.size, tail.data, tail.size);
    }
    word(words, bytes_of(both, head.size + tail.size));
}

static bool is_metadata(struct bytes key)
{
    static const uint8_t zero[4] = {0};
    return key.size < BUCKET_BYTES || memcmp(key.data, zero, sizeof zero) == 0;
}

/* How much of a record key names its bucket. */
static size_t bucket_size(struct bytes key)
{
    return is_metadata(key) ? 4 : BUCKET_BYTES;
}

static struct bytes field_of(struct bytes key)
{
    size_t skipped = bucket_size(key);
    return bytes_of(key.data + skipped, key.size - skipped);
}

/* mudax:{00000007:0123456789abcdef}:h; hexadecimal, so that a table's buckets match a pattern. */
static struct bytes bucket_name(struct bytes key, char kind, struct arena *arena)
{
    char text[64];
    size_t used = 0;
    used += (size_t)snprintf(text, sizeof text, "mudax:{");
    for (size_t i = 0; i < bucket_size(key); i++)
        used += (size_t)snprintf(text + used, sizeof text - used, i == 4 ? ":%02x" : "%02x",
                                 key.data[i]);
    used += (size_t)snprintf(text + used, sizeof text - used, "}:%c", kind);
    return arena_copy(arena, bytes_of(text, used));
}

static void bucket_words(struct words *words, struct bytes key, struct arena *arena)
{
    word(words, bucket_name(key, 'h', arena));
    word(words, bucket_name(key, 'z', arena));
}

static void script_words(struct words *words, const struct redis_store *store, enum script script,
                         bool by_text)
{
    word(words, by_text ? BYTES_LITERAL("EVAL") : BYTES_LITERAL("EVALSHA"));
    word(words, by_text ? bytes_text(script_texts[script]) : bytes_text(store->sha[script]));
}

/* ---- reads as commands ---- */

static enum script read_script(const struct kv_read *read)
{
    return read->visit != NULL ? SCRIPT_RANGE : SCRIPT_READ;
}

static bool is_single(const struct kv_read *read)
{
    return read->visit == NULL && read->count == 1;
}

/* ZRANGEBYLEX's form of a bound; `high` may lie beyond the bucket. */
static void bound_words(struct words *words, const struct kv_read *read)
{
    size_t prefix = bucket_size(read->low);
    struct bytes low = field_of(read->low);
    bool ends_inside =
        read->high.size > prefix && memcmp(read->high.data, read->low.data, prefix) == 0;
    if (low.size == 0)
        word(words, BYTES_LITERAL("-"));
    else
        joined_word(words, read->arena, BYTES_LITERAL("["), low);
    if (ends_inside)
        joined_word(words, read->arena, BYTES_LITERAL("("),
                    bytes_of(read->high.data + prefix, read->high.size - prefix));
    else
        word(words, BYTES_LITERAL("+"));
}

static void range_words(struct words *words, const struct kv_read *read)
{
    number_word(words, read->arena, 2);
    bucket_words(words, read->low, read->arena);
    bound_words(words, read);
    word(words, read->is_backward ? BYTES_LITERAL("backward") : BYTES_LITERAL("forward"));
    number_word(words, read->arena,
                read->records_max != 0 ? (int64_t)read->records_max : RANGE_RECORDS_MAX);
    number_word(words, read->arena, RANGE_BYTES_MAX);
}

static struct words read_words(const struct redis_store *store, const struct kv_read *read,
                               bool by_text)
{
    struct words words;
    words_init(&words, read->arena, 16 + 2 * read->count);
    if (is_single(read)) {
        word(&words, BYTES_LITERAL("HGET"));
        word(&words, bucket_name(read->records[0].key, 'h', read->arena));
        word(&words, field_of(read->records[0].key));
        return words;
    }
    script_words(&words, store, read_script(read), by_text);
    if (read->visit != NULL) {
        range_words(&words, read);
        return words;
    }
    number_word(&words, read->arena, (int64_t)read->count);
    for (size_t i = 0; i < read->count; i++)
        word(&words, bucket_name(read->records[i].key, 'h', read->arena));
    for (size_t i = 0; i < read->count; i++)
        word(&words, field_of(read->records[i].key));
    return words;
}

/* ---- commits as commands ---- */

/* A token that stands for "the value is known, its version is not". */
static const uint64_t token_by_value = UINT64_MAX;

static void expected_word(struct words *words, const struct kv_commit *commit,
                          const struct kv_record *read)
{
    if (!bytes_given(read->value))
        word(words, BYTES_LITERAL("0"));
    else if (read->token == token_by_value)
        joined_word(words, commit->arena, BYTES_LITERAL("="), read->value);
    else
        joined_word(words, commit->arena, BYTES_LITERAL("v"),
                    bytes_of(&read->token, VERSION_BYTES));
}

static struct words commit_words(const struct redis_store *store, const struct kv_commit *commit,
                                 bool by_text)
{
    struct words words;
    struct arena *arena = commit->arena;
    size_t records = commit->read_count + commit->write_count + commit->counter_count;
    words_init(&words, arena, 8 + 7 * records);
    script_words(&words, store, SCRIPT_COMMIT, by_text);
    number_word(&words, arena, (int64_t)(1 + 2 * records));
    word(&words, BYTES_LITERAL("mudax:commits"));
    for (size_t i = 0; i < commit->read_count; i++)
        bucket_words(&words, commit->reads[i].key, arena);
    for (size_t i = 0; i < commit->write_count; i++)
        bucket_words(&words, commit->writes[i].key, arena);
    for (size_t i = 0; i < commit->counter_count; i++)
        bucket_words(&words, commit->counters[i].key, arena);
    number_word(&words, arena, (int64_t)commit->read_count);
    number_word(&words, arena, (int64_t)commit->write_count);
    number_word(&words, arena, (int64_t)commit->counter_count);
    for (size_t i = 0; i < commit->read_count; i++) {
        word(&words, field_of(commit->reads[i].key));
        expected_word(&words, commit, &commit->reads[i]);
    }
    for (size_t i = 0; i < commit->write_count; i++) {
        word(&words, field_of(commit->writes[i].key));
        if (bytes_given(commit->writes[i].value))
            joined_word(&words, arena, BYTES_LITERAL("+"), commit->writes[i].value);
        else
            word(&words, BYTES_LITERAL("-"));
    }
    for (size_t i = 0; i < commit->counter_count; i++) {
        word(&words, field_of(commit->counters[i].key));
        for (int k = 0; k < KV_COUNTERS; k++)
            number_word(&words, arena, commit->counters[i].add[k]);
    }
    return words;
}

/* ---- replies ---- */

static bool is_unknown_script(const redisReply *reply)
{
    return reply != NULL && reply->type == REDIS_REPLY_ERROR &&
           strncmp(reply->str, "NOSCRIPT", 8) == 0;
}

/* Takes one stored value apart. False when it is none. */
static bool take_value(const redisReply *reply, struct kv_record *record, struct arena *arena)
{
    record->value = BYTES_NONE;
    record->token = 0;
    if (reply->type == REDIS_REPLY_NIL)
        return true;
    if (reply->type != REDIS_REPLY_STRING || reply->len < VERSION_BYTES)
        return false;
    memcpy(&record->token, reply->str, VERSION_BYTES);
    record->value =
        arena_copy(arena, bytes_of(reply->str + VERSION_BYTES, reply->len - VERSION_BYTES));
    return bytes_given(record->value);
}

static bool take_records(const redisReply *reply, struct kv_read *read)
{
    if (is_single(read))
        return take_value(reply, &read->records[0], read->arena);
    bool is_right = reply->type == REDIS_REPLY_ARRAY && reply->elements == read->count;
    for (size_t i = 0; is_right && i < read->count; i++)
        is_right = take_value(reply->element[i], &read->records[i], read->arena);
    return is_right;
}

static bool take_range(const redisReply *reply, struct kv_read *read)
{
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements % 2 != 0)
        return false;
    struct bytes bucket = bytes_of(read->low.data, bucket_size(read->low));
    for (size_t i = 0; i < reply->elements; i += 2) {
        const redisReply *field = reply->element[i], *value = reply->element[i + 1];
        if (field->type != REDIS_REPLY_STRING || value->type != REDIS_REPLY_STRING ||
            value->len < VERSION_BYTES)
            return false;
        uint8_t *key = arena_alloc(read->arena, bucket.size + field->len);
        if (key == NULL)
            return false;
        memcpy(key, bucket.data, bucket.size);
        memcpy(key + bucket.size, field->str, field->len);
        if (!read->visit(read, bytes_of(key, bucket.size + field->len),
                         bytes_of(value->str + VERSION_BYTES, value->len - VERSION_BYTES)))
            return true;
    }
    return true;
}

static void take_read(const redisReply *reply, struct kv_read *read)
{
    read->commit = 0;
    if (reply == NULL)
        read->status = STATUS_UNAVAILABLE;
    else if (reply->type == REDIS_REPLY_ERROR)
        read->status = STATUS_INTERNAL;
    else if (read->visit != NULL ? take_range(reply, read) : take_records(reply, read))
        read->status = STATUS_OK;
    else
        read->status = STATUS_INTERNAL;
}

static void take_commit(const redisAsyncContext *connection, const redisReply *reply,
                        struct kv_commit *commit)
{
    struct redis_lane *lane = connection->data;
    commit->status = STATUS_OK;
    if (reply == NULL) { /* sent, perhaps done, unless there never was a connection */
        commit->outcome = (connection->c.flags & REDIS_CONNECTED) != 0 ? KV_UNKNOWN : KV_REFUSED;
        commit->status = STATUS_UNAVAILABLE;
    } else if (reply->type == REDIS_REPLY_ERROR) {
        /* -OOM and the like are refused before the script runs; others may have happened. */
        bool did_nothing =
            strncmp(reply->str, "OOM", 3) == 0 || strncmp(reply->str, "READONLY", 8) == 0 ||
            strncmp(reply->str, "LOADING", 7) == 0 || strncmp(reply->str, "MISCONF", 7) == 0;
        commit->outcome = did_nothing ? KV_REFUSED : KV_UNKNOWN;
        commit->status = STATUS_INTERNAL;
    } else if (reply->type == REDIS_REPLY_INTEGER && reply->integer > 0) {
        commit->outcome = KV_DONE;
        commit->number = (uint64_t)reply->integer;
    } else {
        commit->outcome = KV_CONFLICT;
        atomic_fetch_add_explicit(&lane->store->conflicts, 1, memory_order_relaxed);
    }
}

/* ---- sending ---- */

static bool ensure_connection(struct redis_lane *lane);
static void drop_ranges(struct redis_lane *lane, const struct kv_commit *commit);

static bool send_words(struct redis_lane *lane, const struct words *words, redisCallbackFn *done,
                       void *data)
{
    if (words->has_failed || !ensure_connection(lane) ||
        redisAsyncCommandArgv(lane->connection, done, data, (int)words->count, words->texts,
                              words->sizes) != REDIS_OK)
        return false;
    lane->in_flight++;
    return true;
}

static struct redis_lane *came(redisAsyncContext *connection)
{
    struct redis_lane *lane = connection->data;
    lane->in_flight--;
    lane->silent_s = 0;
    return lane;
}

static void read_failed(struct task *task)
{
    struct kv_read *read = (struct kv_read *)((char *)task - offsetof(struct kv_read, task));
    read->status = STATUS_UNAVAILABLE;
    read->complete(read);
}

static void commit_failed(struct task *task)
{
    struct kv_commit *commit =
        (struct kv_commit *)((char *)task - offsetof(struct kv_commit, task));
    commit->outcome = KV_REFUSED;
    commit->status = STATUS_UNAVAILABLE;
    commit->complete(commit);
}

static void on_read(redisAsyncContext *connection, void *answer, void *data)
{
    struct redis_lane *lane = came(connection);
    struct kv_read *read = data;
    if (is_unknown_script(answer)) { /* Redis has been restarted since */
        struct words words = read_words(lane->store, read, true);
        if (send_words(lane, &words, on_read, read))
            return;
    }
    take_read(answer, read);
    read->complete(read);
}

static void on_commit(redisAsyncContext *connection, void *answer, void *data)
{
    struct redis_lane *lane = came(connection);
    struct kv_commit *commit = data;
    if (is_unknown_script(answer)) {
        struct words words = commit_words(lane->store, commit, true);
        if (send_words(lane, &words, on_commit, commit))
            return;
        commit_failed(&commit->task);
        return;
    }
    take_commit(connection, answer, commit);
    if (commit->outcome == KV_DONE && commit->drop_count != 0)
        drop_ranges(lane, commit);
    commit->complete(commit);
}

static enum submit redis_read(struct kv_lane *base, struct kv_read *read)
{
    struct redis_lane *lane = (struct redis_lane *)base;
    atomic_fetch_add_explicit(&lane->store->reads, 1, memory_order_relaxed);
    struct words words = read_words(lane->store, read, false);
    if (!send_words(lane, &words, on_read, read)) {
        read->task.run = read_failed;
        lane->env.post(lane->env.worker, &read->task);
    }
    return SUBMIT_PENDING;
}

static void redis_commit(struct kv_lane *base, struct kv_commit *commit)
{
    struct redis_lane *lane = (struct redis_lane *)base;
    atomic_fetch_add_explicit(&lane->store->commits, 1, memory_order_relaxed);
    struct words words = commit_words(lane->store, commit, false);
    if (!send_words(lane, &words, on_commit, commit)) {
        commit->task.run = commit_failed;
        lane->env.post(lane->env.worker, &commit->task);
    }
}

/* ---- dropping a table's records, after its commit and a piece at a time ---- */

struct sweep {
    char pattern[32];
    char cursor[24];
};

static void on_sweep(redisAsyncContext *connection, void *answer, void *data);

static void sweep_on(struct redis_lane *lane, struct sweep *sweep)
{
    if (!lane->is_closing && ensure_connection(lane) &&
        redisAsyncCommand(lane->connection, on_sweep, sweep, "SCAN %s MATCH %s COUNT %d",
                          sweep->cursor, sweep->pattern, SCAN_COUNT) == REDIS_OK)
        lane->in_flight++;
    else
        free(sweep); /* what stays is never read: ids are not used twice */
}

static void on_unlink(redisAsyncContext *connection, void *answer, void *data)
{
    (void)answer;
    (void)data;
    (void)came(connection);
}

static void on_sweep(redisAsyncContext *connection, void *answer, void *data)
{
    struct redis_lane *lane = came(connection);
    struct sweep *sweep = data;
    const redisReply *reply = answer;
    if (reply == NULL || reply->type != REDIS_REPLY_ARRAY || reply->elements != 2) {
        free(sweep);
        return;
    }
    (void)snprintf(sweep->cursor, sizeof sweep->cursor, "%s", reply->element[0]->str);
    const redisReply *names = reply->element[1];
    for (size_t i = 0; i < names->elements && !lane->is_closing; i++)
        if (redisAsyncCommand(connection, on_unlink, NULL, "UNLINK %b", names->element[i]->str,
                              names->element[i]->len) == REDIS_OK)
            lane->in_flight++;
    if (strcmp(sweep->cursor, "0") == 0)
        free(sweep);
    else
        sweep_on(lane, sweep);
}

/* A range that is a table's items is a pattern of bucket names. Counters lie among the metadata and
 * are left: they are small, and nobody reads them again. */
static void drop_ranges(struct redis_lane *lane, const struct kv_commit *commit)
{
    for (size_t i = 0; i < commit->drop_count; i++) {
        struct bytes low = commit->drops[i].low;
        if (low.size != 4)
            continue;
        struct sweep *sweep = calloc(1, sizeof *sweep);
        if (sweep == NULL)
            return;
        (void)snprintf(sweep->pattern, sizeof sweep->pattern, "mudax:{%02x%02x%02x%02x:*",
                       low.data[0], low.data[1], low.data[2], low.data[3]);
        (void)snprintf(sweep->cursor, sizeof sweep->cursor, "0");
        sweep_on(lane, sweep);
    }
}

/* ---- the connection of a lane ---- */

static void tell(struct redis_store *store, const char *what, const char *detail)
{
    if (store->on_event != NULL)
        store->on_event(store->on_event_arg, what, detail);
}

static void lost(struct redis_lane *lane, const char *detail)
{
    lane->connection = NULL; /* hiredis frees it */
    if (lane->is_closing)
        return;
    atomic_fetch_add_explicit(&lane->store->failures, 1, memory_order_relaxed);
    if (!atomic_exchange(&lane->store->is_down, true))
        tell(lane->store, "store_lost", detail);
}

static void on_connect(const redisAsyncContext *connection, int status)
{
    struct redis_lane *lane = connection->data;
    if (status != REDIS_OK) {
        lost(lane, connection->errstr);
        return;
    }
    if (atomic_exchange(&lane->store->is_down, false)) {
        atomic_fetch_add_explicit(&lane->store->reconnects, 1, memory_order_relaxed);
        tell(lane->store, "store_reconnected", "Redis answers again");
    }
}

static void on_disconnect(const redisAsyncContext *connection, int status)
{
    struct redis_lane *lane = connection->data;
    if (lane->connection == connection)
        lost(lane, status == REDIS_OK ? "closed" : connection->errstr);
}

static bool ensure_connection(struct redis_lane *lane)
{
    if (lane->connection != NULL)
        return true;
    const struct redis_store *store = lane->store;
    redisAsyncContext *connection = store->port == 0 ? redisAsyncConnectUnix(store->host)
                                                     : redisAsyncConnect(store->host, store->port);
    if (connection == NULL)
        return false;
    connection->data = lane;
    if (connection->err != 0 || redisLibeventAttach(connection, lane->env.event_base) != REDIS_OK ||
        redisAsyncSetConnectCallback(connection, on_connect) != REDIS_OK ||
        redisAsyncSetDisconnectCallback(connection, on_disconnect) != REDIS_OK) {
        redisAsyncFree(connection);
        return false;
    }
    if (store->port != 0)
        (void)redisEnableKeepAlive(&connection->c);
    lane->connection = connection;
    lane->silent_s = 0;
    return true;
}

/* A server that takes commands and says nothing: its requests end with an unknown outcome. */
static void on_watchdog(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    struct redis_lane *lane = arg;
    if (lane->in_flight == 0 || lane->connection == NULL)
        lane->silent_s = 0;
    else if (++lane->silent_s >= SILENT_S_MAX) {
        redisAsyncContext *connection = lane->connection;
        lost(lane, "no answer for 10 s");
        redisAsyncFree(connection);
    }
}

static enum status redis_lane_open(struct kv *kv, const struct lane_env *env, struct kv_lane **out)
{
    struct redis_lane *lane = calloc(1, sizeof *lane);
    if (lane == NULL)
        return STATUS_NO_MEMORY;
    lane->lane.ops = &kv_redis;
    lane->store = (struct redis_store *)kv;
    lane->env = *env;
    lane->watchdog = event_new(env->event_base, -1, EV_PERSIST, on_watchdog, lane);
    struct timeval second = {.tv_sec = 1};
    if (lane->watchdog == NULL || event_add(lane->watchdog, &second) != 0) {
        struct kv_lane *half = &lane->lane;
        kv_redis.lane_close(&half);
        return STATUS_NO_MEMORY;
    }
    *out = &lane->lane;
    return STATUS_OK;
}

static void redis_lane_close(struct kv_lane **base)
{
    struct redis_lane *lane = (struct redis_lane *)*base;
    *base = NULL;
    lane->is_closing = true;
    if (lane->connection != NULL)
        redisAsyncFree(lane->connection);
    ensure(lane->in_flight == 0);
    if (lane->watchdog != NULL)
        event_free(lane->watchdog);
    free(lane);
}

/* ---- open, load, close ---- */

static enum status parse_url(struct redis_store *store, struct bytes url, struct error *error)
{
    const struct bytes tcp = BYTES_LITERAL("redis://");
    char text[256];
    if (!bytes_begin_with(url, tcp) || url.size - tcp.size >= sizeof text)
        return error_set(error, STATUS_VALIDATION,
                         "%.*s is not understood; write redis://HOST:PORT", (int)url.size,
                         (const char *)url.data);
    (void)snprintf(text, sizeof text, "%.*s", (int)(url.size - tcp.size),
                   (const char *)url.data + tcp.size);
    char *slash = strchr(text, '/');
    if (slash != NULL && slash[1] == '\0')
        *slash = '\0';
    char *colon = strrchr(text, ':');
    char *end = NULL;
    long port = colon == NULL ? PORT_DEFAULT : strtol(colon + 1, &end, 10);
    if (text[0] == '\0' || colon == text || strchr(text, '/') != NULL ||
        (colon != NULL && (end == colon + 1 || *end != '\0')) || port < 1 || port > UINT16_MAX)
        return error_set(error, STATUS_VALIDATION,
                         "%.*s is not understood; write redis://HOST:PORT", (int)url.size,
                         (const char *)url.data);
    if (colon != NULL)
        *colon = '\0';
    store->port = (int)port;
    store->host = strdup(text);
    return store->host == NULL ? STATUS_NO_MEMORY : STATUS_OK;
}

static enum status connect_loader(struct redis_store *store, struct error *error)
{
    struct timeval timeout = {.tv_sec = OPEN_TIMEOUT_S};
    store->loader = redisConnectWithTimeout(store->host, store->port, timeout);
    if (store->loader == NULL)
        return STATUS_NO_MEMORY;
    if (store->loader->err == 0 && redisSetTimeout(store->loader, timeout) == REDIS_OK)
        return STATUS_OK;
    return error_set(error, STATUS_UNAVAILABLE,
                     "cannot connect to Redis at %s port %d: %s; is it running?", store->host,
                     store->port, store->loader->errstr);
}

static enum status load_scripts(struct redis_store *store, struct error *error)
{
    for (int script = 0; script < SCRIPTS; script++) {
        redisReply *reply = redisCommand(store->loader, "SCRIPT LOAD %s", script_texts[script]);
        if (reply == NULL || reply->type != REDIS_REPLY_STRING || reply->len != SHA_SIZE) {
            enum status status =
                error_set(error, STATUS_UNAVAILABLE, "Redis at %s port %d refused a script: %s",
                          store->host, store->port,
                          reply == NULL ? store->loader->errstr
                                        : (reply->str == NULL ? "unexpected reply" : reply->str));
            if (reply != NULL)
                freeReplyObject(reply);
            return status;
        }
        memcpy(store->sha[script], reply->str, SHA_SIZE);
        freeReplyObject(reply);
    }
    return STATUS_OK;
}

static void redis_close(struct kv **kv)
{
    struct redis_store *store = (struct redis_store *)*kv;
    *kv = NULL;
    if (store->loader != NULL)
        redisFree(store->loader);
    free(store->host);
    free(store);
}

static enum status redis_open(const struct store_options *options, struct kv **out,
                              struct error *error)
{
    struct redis_store *store = calloc(1, sizeof *store);
    if (store == NULL)
        return STATUS_NO_MEMORY;
    store->kv.ops = &kv_redis;
    store->on_event = options->on_event;
    store->on_event_arg = options->on_event_arg;
    enum status status = parse_url(store, options->url, error);
    if (status == STATUS_OK)
        status = connect_loader(store, error);
    if (status == STATUS_OK)
        status = load_scripts(store, error);
    if (status != STATUS_OK) {
        struct kv *kv = &store->kv;
        redis_close(&kv);
        return status;
    }
    *out = &store->kv;
    return STATUS_OK;
}

static void redis_load(struct kv *kv, struct kv_read *read)
{
    struct redis_store *store = (struct redis_store *)kv;
    struct words words = read_words(store, read, false);
    if (words.has_failed) {
        read->status = STATUS_NO_MEMORY;
        return;
    }
    redisReply *reply = redisCommandArgv(store->loader, (int)words.count, words.texts, words.sizes);
    take_read(reply, read);
    if (reply != NULL)
        freeReplyObject(reply);
}

/* Versions are Redis's; what is known otherwise is held against its value. */
static uint64_t redis_token(struct kv *kv)
{
    (void)kv;
    return token_by_value;
}

static bool redis_is_ready(struct kv *kv, const char **why)
{
    bool is_down = atomic_load(&((struct redis_store *)kv)->is_down);
    if (is_down)
        *why = "Redis does not answer; it is tried again with every request";
    return !is_down;
}

static void redis_report(struct kv *kv, report_fn report, void *arg)
{
    const struct redis_store *store = (const struct redis_store *)kv;
    const struct {
        struct metric metric;
        const atomic_uint_fast64_t *value;
    } metrics[] = {
        {{"store_reads_total", "counter", "Reads sent to Redis"}, &store->reads},
        {{"store_commits_total", "counter", "Commits sent to Redis"}, &store->commits},
        {{"store_commit_conflicts_total", "counter", "Commits that found something changed"},
         &store->conflicts},
        {{"store_connections_lost_total", "counter", "Connections to Redis that broke"},
         &store->failures},
        {{"store_reconnects_total", "counter", "Times that Redis came back"}, &store->reconnects},
    };
    for (size_t i = 0; i < sizeof metrics / sizeof metrics[0]; i++)
        report(arg, &metrics[i].metric, "", (double)atomic_load(metrics[i].value));
    static const struct metric is_ready = {"store_ready", "gauge", "1 while Redis answers"};
    report(arg, &is_ready, "", atomic_load(&store->is_down) ? 0 : 1);
}

static const char *const schemes[] = {"redis", NULL};

const struct kv_ops kv_redis = {
    .schemes = schemes,
    .open = redis_open,
    .lane_open = redis_lane_open,
    .lane_close = redis_lane_close,
    .load = redis_load,
    .token = redis_token,
    .read = redis_read,
    .commit = redis_commit,
    .report = redis_report,
    .is_ready = redis_is_ready,
    .close = redis_close,
};
