/* pool.c - struct mudax: connections shared by threads, one call at a time on each; deadlines and
 * retries of blocking calls. */
#include "clients/c/src/channel.h"
#include "clients/c/src/clock.h"
#include "clients/c/src/failure.h"
#include "clients/c/src/message.h"
#include "clients/c/src/token.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>

enum {
    CONNECTIONS_DEFAULT = 16,
    CONNECTIONS_MOST = 65536,
    TIMEOUT_DEFAULT_MS = 1000,
    RETRIES_DEFAULT = 3,
};

struct mudax {
    /* Constant after mudax_open. */
    struct addresses addresses;
    uint32_t connections_max, timeout_ms, retries_max;
    /* Guarded by lock. */
    pthread_mutex_t lock;
    pthread_cond_t has_room; /* a connection came back or ended */
    struct channel *idle;    /* the one used last is the first */
    uint32_t open_count;     /* idle or in use */
    struct retry_budget budget;
    uint64_t random;
};

/* One call under way. */
struct call {
    struct mudax *db;
    const struct mudax_request *request;
    uint64_t deadline_us;
    uint32_t timeout_ms;
    struct mudax_reply **reply;
    struct mudax_error *error;
    enum effect effect;        /* of an attempt more */
    enum effect caller_effect; /* of the caller's repetition, with a token of its own */
    enum status status;        /* of an answer that is an error */
    bool was_stale; /* the attempt failed on a connection from the pool, without a word */
};

const char *mudax_version(void)
{
    return MUDAX_VERSION;
}

/* ---- life ---- */

static uint32_t or_default(uint32_t given, uint32_t fallback)
{
    return given == 0 ? fallback : given;
}

static bool locks_init(struct mudax *db)
{
    pthread_condattr_t attributes;
    if (pthread_condattr_init(&attributes) != 0)
        return false;
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    bool is_made = pthread_cond_init(&db->has_room, &attributes) == 0;
    (void)pthread_condattr_destroy(&attributes);
    if (is_made && pthread_mutex_init(&db->lock, NULL) == 0)
        return true;
    if (is_made)
        (void)pthread_cond_destroy(&db->has_room);
    return false;
}

struct mudax *mudax_open(const char *url, const struct mudax_options *options,
                         struct mudax_error *error)
{
    static const struct mudax_options defaults;
    if (options == NULL)
        options = &defaults;
    uint32_t connections_max = or_default(options->connections_max, CONNECTIONS_DEFAULT);
    if (connections_max > CONNECTIONS_MOST || options->timeout_ms > INT32_MAX) {
        (void)failure_set(error, MUDAX_INVALID_REQUEST,
                          "connections_max is at most %d, timeout_ms at most 2147483647",
                          CONNECTIONS_MOST);
        return NULL;
    }
    struct addresses addresses;
    if (addresses_find(url, &addresses, error) != MUDAX_OK)
        return NULL;
    struct mudax *db = calloc(1, sizeof *db);
    if (db == NULL || !locks_init(db)) {
        free(db);
        (void)failure_no_memory(error);
        return NULL;
    }
    db->addresses = addresses;
    db->connections_max = connections_max;
    db->timeout_ms = or_default(options->timeout_ms, TIMEOUT_DEFAULT_MS);
    db->retries_max = options->retries_max < 0    ? 0
                      : options->retries_max == 0 ? RETRIES_DEFAULT
                                                  : (uint32_t)options->retries_max;
    db->random = clock_us() ^ (uint64_t)(uintptr_t)db;
    retry_budget_init(&db->budget);
    return db;
}

static void destroy(struct channel *channel)
{
    channel_close(channel);
    free(channel);
}

/* A daemon that was restarted left all of them stale. */
static void discard_idle(struct mudax *db)
{
    (void)pthread_mutex_lock(&db->lock);
    while (db->idle != NULL) {
        struct channel *channel = db->idle;
        db->idle = channel->next_idle;
        db->open_count--;
        destroy(channel);
    }
    (void)pthread_cond_broadcast(&db->has_room);
    (void)pthread_mutex_unlock(&db->lock);
}

void mudax_close(struct mudax **db)
{
    if (*db == NULL)
        return;
    discard_idle(*db);
    (void)pthread_cond_destroy(&(*db)->has_room);
    (void)pthread_mutex_destroy(&(*db)->lock);
    free(*db);
    *db = NULL;
}

/* ---- connections ---- */

static void discard(struct mudax *db, struct channel *channel)
{
    destroy(channel);
    (void)pthread_mutex_lock(&db->lock);
    db->open_count--;
    (void)pthread_cond_signal(&db->has_room);
    (void)pthread_mutex_unlock(&db->lock);
}

static void give_back(struct mudax *db, struct channel *channel)
{
    channel_rest(channel);
    (void)pthread_mutex_lock(&db->lock);
    channel->next_idle = db->idle;
    db->idle = channel;
    (void)pthread_cond_signal(&db->has_room);
    (void)pthread_mutex_unlock(&db->lock);
}

/* An idle connection (*out), or the right to open one (*out NULL). False: the deadline passed. */
static bool take(struct mudax *db, uint64_t deadline_us, struct channel **out)
{
    struct timespec until = {.tv_sec = (time_t)(deadline_us / 1000000),
                             .tv_nsec = (long)(deadline_us % 1000000) * 1000};
    bool is_in_time = true;
    (void)pthread_mutex_lock(&db->lock);
    while (is_in_time && db->idle == NULL && db->open_count == db->connections_max)
        is_in_time = pthread_cond_timedwait(&db->has_room, &db->lock, &until) != ETIMEDOUT;
    bool has_room = db->idle != NULL || db->open_count < db->connections_max;
    *out = db->idle;
    if (db->idle != NULL)
        db->idle = db->idle->next_idle;
    else if (has_room)
        db->open_count++;
    (void)pthread_mutex_unlock(&db->lock);
    return has_room;
}

static enum attempt refuse_connection(struct call *call, const struct channel *channel)
{
    (void)failure_set(call->error, MUDAX_CONNECT_ERROR,
                      "Cannot connect to %s: %s; is mudaxd running there?", call->db->addresses.url,
                      channel_failure(channel));
    return ATTEMPT_NOT_CONNECTED;
}

static enum attempt acquire(struct call *call, struct channel **out, bool *is_pooled)
{
    struct mudax *db = call->db;
    struct channel *channel;
    for (;;) {
        if (!take(db, call->deadline_us, &channel)) {
            (void)failure_set(
                call->error, MUDAX_TIMEOUT,
                "All %u connections of the pool were in use for %u ms, the timeout of "
                "the call; allow more (connections_max) or longer (timeout_ms)",
                db->connections_max, call->timeout_ms);
            return ATTEMPT_NOT_CONNECTED;
        }
        if (channel == NULL)
            break;
        if (channel_is_alive(channel)) {
            *out = channel;
            *is_pooled = true;
            return ATTEMPT_DONE;
        }
        discard(db, channel); /* closed while it lay here */
    }
    channel = malloc(sizeof *channel);
    if (channel == NULL) {
        (void)pthread_mutex_lock(&db->lock);
        db->open_count--;
        (void)pthread_mutex_unlock(&db->lock);
        (void)failure_no_memory(call->error);
        return ATTEMPT_FAILED;
    }
    if (!channel_open(channel, &db->addresses, clock_us(), call->deadline_us)) {
        enum attempt attempt = refuse_connection(call, channel);
        discard(db, channel);
        return attempt;
    }
    *out = channel;
    *is_pooled = false;
    return ATTEMPT_DONE;
}

/* ---- one attempt ---- */

static const char *outcome(const struct call *call, bool is_sent)
{
    if (!is_sent)
        return "; nothing happened";
    return call->effect == EFFECT_NONE ? "" : "; the write may or may not have happened";
}

static enum attempt lost(struct call *call, const struct channel *channel, bool is_pooled)
{
    bool is_sent = channel->out_at == channel->out.size;
    if (channel->fd < 0)
        return refuse_connection(call, channel);
    call->was_stale = is_pooled && !channel->has_received;
    (void)failure_set(call->error, MUDAX_CONNECTION_LOST,
                      "The connection to %s ended before the reply to %s: %s%s",
                      call->db->addresses.url, message_operation_name(call->request->operation),
                      channel_failure(channel), outcome(call, is_sent));
    return is_sent ? ATTEMPT_LOST : ATTEMPT_NOT_SENT;
}

static enum attempt timed_out(struct call *call, const struct channel *channel)
{
    bool is_sent = channel->out_at == channel->out.size;
    (void)failure_set(call->error, MUDAX_TIMEOUT,
                      "%s %s within %u ms, the timeout of the call (timeout_ms)%s",
                      call->db->addresses.url,
                      channel->is_connecting ? "could not be connected to"
                      : is_sent              ? "did not answer"
                                             : "did not take the request",
                      call->timeout_ms, outcome(call, is_sent));
    return channel->is_connecting ? ATTEMPT_NOT_CONNECTED
           : is_sent              ? ATTEMPT_TIMED_OUT
                                  : ATTEMPT_NOT_SENT;
}

/* What a whole reply, or a channel beyond repair, means for the call. */
static enum attempt conclude(struct call *call, enum channel_result result,
                             const struct frame_reply *frame, uint64_t id)
{
    if (result == CHANNEL_BROKEN) {
        struct mudax_error *error = call->error;
        call->status = (enum status)error->code;
        return error->code < MUDAX_CONNECT_ERROR ? ATTEMPT_ANSWERED : ATTEMPT_FAILED;
    }
    if (frame->id != id) {
        (void)failure_set(call->error, MUDAX_PROTOCOL_ERROR,
                          "%s answered a request that was never made; is it a mudaxd?",
                          call->db->addresses.url);
        return ATTEMPT_FAILED;
    }
    call->status = frame->status;
    if (frame->status != STATUS_OK)
        (void)failure_from_reply(call->error, frame, call->effect);
    if (message_has_reply(frame) &&
        message_read(frame, call->request->operation, call->request->part_count, call->reply,
                     call->error) != MUDAX_OK)
        return ATTEMPT_FAILED;
    return frame->status == STATUS_OK ? ATTEMPT_DONE : ATTEMPT_ANSWERED;
}

/* Sends what the channel holds and waits for the reply. */
static enum attempt exchange(struct call *call, struct channel *channel, uint64_t id,
                             bool is_pooled)
{
    for (;;) {
        uint64_t now_us = clock_us();
        bool is_open = channel_flush(channel, now_us);
        is_open = channel_fill(channel) && is_open; /* also if not all was sent: why, it may say */
        struct frame_reply frame;
        enum channel_result result = channel_next(channel, &frame, call->error);
        if (result != CHANNEL_MORE)
            return conclude(call, result, &frame, id);
        if (!is_open)
            return lost(call, channel, is_pooled);
        if (now_us >= call->deadline_us)
            return timed_out(call, channel);
        uint64_t until_us = call->deadline_us;
        if (channel->is_connecting && channel->connect_until_us < until_us)
            until_us = channel->connect_until_us;
        struct pollfd poll_fd = {.fd = channel->fd, .events = POLLIN};
        if (channel_wants_write(channel))
            poll_fd.events |= POLLOUT;
        (void)poll(&poll_fd, 1, clock_left_ms(until_us, now_us));
    }
}

static enum attempt try_once(struct call *call)
{
    struct channel *channel;
    bool is_pooled = false;
    call->was_stale = false;
    enum attempt attempt = acquire(call, &channel, &is_pooled);
    if (attempt != ATTEMPT_DONE)
        return attempt;
    size_t start = channel->out.size;
    uint64_t id = channel->next_id++;
    uint32_t told_ms = message_daemon_timeout_ms(clock_left_ms(call->deadline_us, clock_us()));
    if (message_write(call->request, id, told_ms, &channel->out, call->error) != MUDAX_OK ||
        message_check_size(channel->out.size - start, channel->frame_max, call->error) !=
            MUDAX_OK) {
        channel->out.size = start; /* as if nothing had been written */
        if (is_pooled)
            give_back(call->db, channel);
        else
            discard(call->db, channel);
        return ATTEMPT_FAILED;
    }
    channel_queued(channel, channel->out.size - start);
    attempt = exchange(call, channel, id, is_pooled);
    bool is_usable = (attempt == ATTEMPT_DONE || attempt == ATTEMPT_ANSWERED) &&
                     !channel->is_broken && channel->in_at == channel->in.size &&
                     channel->out.size == 0;
    if (is_usable)
        give_back(call->db, channel);
    else
        discard(call->db, channel);
    return attempt;
}

/* ---- retries ---- */

static uint64_t next_random(uint64_t *state)
{
    /* splitmix64: spreads retries, protects nothing. */
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Waits before retry number `retry`. False when the budget is spent or the time would be. */
static bool wait_for_retry(struct call *call, unsigned retry)
{
    struct mudax *db = call->db;
    (void)pthread_mutex_lock(&db->lock);
    uint64_t delay_us = backoff_us(retry, next_random(&db->random));
    bool is_allowed = clock_us() + delay_us < call->deadline_us && retry_budget_spend(&db->budget);
    (void)pthread_mutex_unlock(&db->lock);
    if (!is_allowed)
        return false;
    struct timespec delay = {.tv_sec = 0, .tv_nsec = (long)delay_us * 1000};
    (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &delay, NULL);
    return true;
}

static int call_with_retries(struct call *call)
{
    bool has_been_stale = false;
    for (unsigned retry = 0;; retry++) {
        enum attempt attempt = try_once(call);
        if (attempt == ATTEMPT_DONE)
            return MUDAX_OK;
        bool is_safe = retry_is_safe(call->effect, attempt, call->status);
        call->error->is_retryable = retry_is_safe(call->caller_effect, attempt, call->status);
        if (is_safe && call->was_stale && !has_been_stale) {
            has_been_stale = true; /* costs nothing: it was the pool's mistake */
            discard_idle(call->db);
            continue;
        }
        if (!is_safe || retry >= call->db->retries_max || !wait_for_retry(call, retry))
            return call->error->code;
    }
}

int mudax_call(struct mudax *db, const struct mudax_request *request, struct mudax_reply **reply,
               struct mudax_error *error)
{
    struct mudax_error own_error = {0};
    struct mudax_reply *own_reply = NULL;
    if (reply != NULL)
        *reply = NULL;
    /* One for all attempts. Without randomness there is none, and no attempt more. */
    char token[TOKEN_SIZE];
    struct mudax_request named = *request;
    if (request->operation == MUDAX_TRANSACT_WRITE_ITEMS && request->token == NULL &&
        token_make(token))
        named.token = token;
    uint32_t timeout_ms = or_default(request->timeout_ms, db->timeout_ms);
    struct call call = {.db = db,
                        .request = &named,
                        .deadline_us = clock_us() + (uint64_t)timeout_ms * 1000,
                        .timeout_ms = timeout_ms,
                        .reply = reply != NULL ? reply : &own_reply,
                        .error = error != NULL ? error : &own_error,
                        .effect = effect_of(named.operation, named.token != NULL),
                        .caller_effect = effect_of(named.operation, request->token != NULL)};
    (void)pthread_mutex_lock(&db->lock);
    retry_budget_earn(&db->budget);
    (void)pthread_mutex_unlock(&db->lock);
    int code = call_with_retries(&call);
    mudax_reply_free(own_reply);
    return code;
}

/* ---- shorthands ---- */

int mudax_get_item(struct mudax *db, const char *table, const struct mudax_value *key,
                   struct mudax_reply **reply, struct mudax_error *error)
{
    struct mudax_request request = {.operation = MUDAX_GET_ITEM, .table = table, .key = key};
    return mudax_call(db, &request, reply, error);
}

int mudax_put_item(struct mudax *db, const char *table, const struct mudax_value *item,
                   struct mudax_error *error)
{
    struct mudax_request request = {.operation = MUDAX_PUT_ITEM, .table = table, .item = item};
    return mudax_call(db, &request, NULL, error);
}

int mudax_delete_item(struct mudax *db, const char *table, const struct mudax_value *key,
                      struct mudax_error *error)
{
    struct mudax_request request = {.operation = MUDAX_DELETE_ITEM, .table = table, .key = key};
    return mudax_call(db, &request, NULL, error);
}

int mudax_query(struct mudax *db, const char *table, const char *key_condition,
                const struct mudax_value *values, struct mudax_reply **reply,
                struct mudax_error *error)
{
    struct mudax_request request = {
        .operation = MUDAX_QUERY, .table = table, .key_condition = key_condition, .values = values};
    return mudax_call(db, &request, reply, error);
}
