#include "daemon/connection.h"

#include "daemon/clock.h"
#include "daemon/log.h"
#include "protocol/ensure.h"

#include <event2/event.h>
#include <event2/event_struct.h>

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    OUT_MAX = 1 << 20, /* replies waiting for the socket before requests must wait too */
    SMALL_MAX = 4096,  /* buffers up to this size are kept while there is nothing in them */
    KEPT_ARENA = 1024, /* a kept request's memory before the heap */
    KEPT_HEAP_MAX = 64 << 20,
};

/* A request in memory of its own: it waits for the store. */
struct parked {
    struct call call;
    struct arena arena;
    struct worker *worker;
    struct connection *connection; /* NULL: answered at its deadline, or the connection is gone */
    struct parked *next, *previous;
    struct event deadline;
    bool has_deadline;
    uint64_t begun_us;
    size_t size;                   /* of all this, with what its request took from the heap */
    _Alignas(16) uint8_t memory[]; /* the arena's first block, then the frame */
};

struct connection {
    struct worker *worker;
    const struct wire_ops *wire;
    struct wire_session session;
    int fd;
    bool is_closing; /* once everything is sent */
    bool is_broken;  /* now */
    bool has_ended;  /* the client says nothing more, but may still listen */
    bool is_refused; /* it is closing, and may not know it yet */
    bool is_paused;  /* not read while `out` is long */
    bool is_dirty;
    bool is_drained; /* by the last read: epoll tells of new bytes once, and of these never again */
    bool has_backlog; /* `in` may hold whole frames, behind replies that were not taken or not given
                       */
    struct event read_event, write_event;
    struct buffer in; /* a frame that has not come whole */
    size_t needed;    /* bytes that the frame in `in` takes in all, as far as known */
    struct buffer out;
    size_t sent; /* of `out` */
    struct parked *parked;
    size_t parked_count, parked_bytes;
    size_t in_counted, out_counted; /* bytes of the buffers that the limits know of */
    uint64_t lingers_until_us;      /* 0: it does not */
    struct connection *next, *previous, *next_dirty;
};

static uint64_t limit(const atomic_uint_fast64_t *value)
{
    return atomic_load_explicit(value, memory_order_relaxed);
}

static struct timeval timeval_of(uint64_t us)
{
    return (struct timeval){.tv_sec = (time_t)(us / 1000000), .tv_usec = (long)(us % 1000000)};
}

/* ---- writing ---- */

/* Sends from `bytes` what the socket takes; returns how much. Sets is_broken when it is gone. */
static size_t send_some(struct connection *connection, struct bytes bytes)
{
    ssize_t sent = send(connection->fd, bytes.data, bytes.size, MSG_NOSIGNAL);
    if (sent < 0) {
        connection->is_broken = errno != EAGAIN && errno != EINTR;
        return 0;
    }
    stats_add(connection->worker->stats, COUNTER_sent_bytes, (uint64_t)sent);
    return (size_t)sent;
}

static bool has_unsent(const struct connection *connection)
{
    return connection->out.size != connection->sent;
}

static void wait_until_writable(struct connection *connection)
{
    struct timeval timeout =
        timeval_of(limit(&connection->worker->options.limits->write_timeout_us));
    connection->is_broken |= event_add(&connection->write_event, &timeout) != 0;
}

static void forget(struct buffer *buffer)
{
    if (buffer->capacity > SMALL_MAX)
        buffer_deinit(buffer);
    buffer->size = 0;
}

/* A client that always leaves something must not make the buffer grow with all that it takes. */
static void drop_sent(struct connection *connection)
{
    struct buffer *out = &connection->out;
    if (connection->sent < out->size - connection->sent)
        return; /* moved at most once a byte sent */
    memmove(out->data, out->data + connection->sent, out->size - connection->sent);
    out->size -= connection->sent;
    connection->sent = 0;
}

static void flush_own(struct connection *connection)
{
    connection->sent += send_some(connection, bytes_of(connection->out.data + connection->sent,
                                                       connection->out.size - connection->sent));
    if (has_unsent(connection)) {
        drop_sent(connection);
        wait_until_writable(connection);
        return;
    }
    forget(&connection->out);
    connection->sent = 0;
    if (event_pending(&connection->write_event, EV_WRITE, NULL))
        (void)event_del(&connection->write_event);
}

/* Where replies go: the worker's buffer during a batch, unless earlier ones still wait. */
static struct buffer *output(struct connection *connection, bool in_batch)
{
    return in_batch && !has_unsent(connection) ? &connection->worker->out : &connection->out;
}

/* Sends the replies of a batch: straight from the worker's buffer if the socket takes them. */
static void flush_batch(struct connection *connection)
{
    struct buffer *out = &connection->worker->out;
    if (out->size == 0)
        return;
    size_t sent = has_unsent(connection) ? 0 : send_some(connection, buffer_bytes(out));
    if (sent < out->size && !connection->is_broken) {
        connection->is_broken |=
            !buffer_append(&connection->out, bytes_of(out->data + sent, out->size - sent));
        wait_until_writable(connection);
    }
    out->size = 0;
    if (out->capacity > 2 * OUT_MAX) /* one long reply must not stay for ever */
        buffer_deinit(out);
}

static void mark_dirty(struct connection *connection)
{
    if (connection->is_dirty)
        return;
    connection->is_dirty = true;
    connection->next_dirty = connection->worker->dirty;
    connection->worker->dirty = connection;
    worker_turn_end(connection->worker);
}

static void reply_send(struct connection *connection, const struct request *request,
                       const struct reply *reply, bool in_batch)
{
    if (!connection->wire->encode(&connection->session, request, reply,
                                  output(connection, in_batch)))
        connection->is_broken = true;
    if (!in_batch)
        mark_dirty(connection);
}

/* ---- counting ---- */

static void count_in_batch(struct worker *worker, const struct request *request,
                           const struct reply *reply)
{
    stats_request(worker->stats, request->table, request->operation, reply->verdict, reply->status);
    for (size_t i = 0; i < worker->kind_count; i++) {
        struct batch_kind *kind = &worker->kinds[i];
        if (kind->operation == request->operation && kind->verdict == reply->verdict) {
            kind->count++;
            return;
        }
    }
    if (worker->kind_count < WORKER_KINDS)
        worker->kinds[worker->kind_count++] =
            (struct batch_kind){request->operation, reply->verdict, 1};
}

static void count_latencies(struct worker *worker)
{
    uint64_t us = clock_now_us() - worker->now_us;
    for (size_t i = 0; i < worker->kind_count; i++)
        stats_latency(worker->stats, worker->kinds[i].operation, worker->kinds[i].verdict, us,
                      worker->kinds[i].count);
    worker->kind_count = 0;
}

/* ---- memory: a client that sends much or takes little must not have it all ---- */

static void count_buffer(atomic_uint_fast64_t *sum, size_t *counted, size_t capacity)
{
    if (*counted == capacity)
        return;
    atomic_fetch_add_explicit(sum, (uint64_t)capacity - *counted, memory_order_relaxed);
    *counted = capacity;
}

static void count_buffers(struct connection *connection)
{
    struct limits *limits = connection->worker->options.limits;
    count_buffer(&limits->frames, &connection->in_counted, connection->in.capacity);
    count_buffer(&limits->memory, &connection->out_counted, connection->out.capacity);
}

/* True if `more` bytes are too many, for all or for this one, who may have a quarter. */
static bool is_memory_short(const struct connection *connection, size_t more)
{
    const struct limits *limits = connection->worker->options.limits;
    uint64_t most = limit(&limits->memory_max);
    return limit(&limits->memory) + more > most ||
           connection->parked_bytes + connection->out_counted + more > most / 4;
}

/* ---- requests that wait ---- */

static void parked_link(struct parked *parked)
{
    struct connection *connection = parked->connection;
    parked->previous = NULL;
    parked->next = connection->parked;
    if (parked->next != NULL)
        parked->next->previous = parked;
    connection->parked = parked;
    connection->parked_count++;
    connection->parked_bytes += parked->size;
}

static void parked_detach(struct parked *parked)
{
    struct connection *connection = parked->connection;
    if (connection == NULL)
        return;
    if (parked->next != NULL)
        parked->next->previous = parked->previous;
    if (parked->previous != NULL)
        parked->previous->next = parked->next;
    else
        connection->parked = parked->next;
    connection->parked_count--;
    connection->parked_bytes -= parked->size;
    parked->connection = NULL;
}

static void parked_destroy(struct parked *parked)
{
    arena_deinit(&parked->arena);
    free(parked);
}

static void throttle(struct worker *worker, struct reply *reply)
{
    stats_add(worker->stats, COUNTER_requests_throttled, 1);
    reply_init(reply);
    reply->status = STATUS_THROTTLED;
    reply->error.status = STATUS_THROTTLED;
}

/* True if a long reply would join others that the client does not take. What a write has to say is
 * short, and it has happened. */
static bool is_untaken(const struct connection *connection, const struct call *call)
{
    return call->reply.body.size > SMALL_MAX && !operation_may_change(call->request.operation) &&
           has_unsent(connection) && is_memory_short(connection, call->reply.body.size);
}

static void on_complete(struct call *call)
{
    struct parked *parked = call->owner;
    struct worker *worker = parked->worker;
    struct connection *connection = parked->connection;
    uint64_t us = clock_now_us() - parked->begun_us;
    if (parked->has_deadline)
        (void)event_del(&parked->deadline);
    stats_store_latency(worker->stats, call->request.operation, us);
    if (connection != NULL) {
        if (UNLIKELY(is_untaken(connection, call)))
            throttle(worker, &call->reply);
        /* Waiting for another's fetch keeps no definition alive: see backend.h. */
        call->request.table = worker->lane->ops->table(worker->lane, call->request.table_name);
        stats_request(worker->stats, call->request.table, call->request.operation,
                      call->reply.verdict, call->reply.status);
        stats_latency(worker->stats, call->request.operation, call->reply.verdict, us, 1);
        reply_send(connection, &call->request, &call->reply, false);
        count_buffers(connection);
        parked_detach(parked);
    }
    atomic_fetch_sub_explicit(&worker->options.limits->memory, parked->size, memory_order_relaxed);
    parked_destroy(parked);
    worker->parked--;
    atomic_fetch_sub_explicit(&worker->options.limits->requests, 1, memory_order_relaxed);
    worker_maybe_stop(worker);
}

static void deadline_add(struct parked *parked, uint64_t now_us)
{
    struct timeval timeout = timeval_of(parked->call.deadline_us - now_us);
    (void)event_add(&parked->deadline, &timeout);
}

/* Answers with what the cache has in place of an error. False if it has nothing. */
static bool answer_late(struct parked *parked, uint64_t now_us)
{
    struct worker *worker = parked->worker;
    struct lane *lane = worker->lane;
    const struct request *request = &parked->call.request;
    struct reply reply;
    if (lane->ops->late == NULL)
        return false;
    reply_init(&reply);
    lane->ops->lane_begin(lane);
    bool is_answered = lane->ops->late(lane, request, now_us, &worker->arena, &reply);
    if (is_answered) {
        stats_request(worker->stats, lane->ops->table(lane, request->table_name),
                      request->operation, reply.verdict, reply.status);
        stats_latency(worker->stats, request->operation, reply.verdict, now_us - parked->begun_us,
                      1);
        reply_send(parked->connection, request, &reply, false);
    }
    lane->ops->lane_end(lane);
    arena_reset(&worker->arena);
    return is_answered;
}

/* The client is told now; the call itself stays until the store has answered. The loop's clock
 * ticks every few milliseconds only, so that its timers can be early; a deadline is not. */
static void on_deadline(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    struct parked *parked = arg;
    struct worker *worker = parked->worker;
    struct connection *connection = parked->connection;
    if (connection == NULL)
        return;
    uint64_t now_us = clock_now_us();
    if (now_us < parked->call.deadline_us) {
        deadline_add(parked, now_us);
        return;
    }
    if (answer_late(parked, now_us)) {
        parked_detach(parked);
        return;
    }
    const struct request *request = &parked->call.request;
    struct reply reply;
    reply_init(&reply);
    reply.status = error_set(
        &reply.error, STATUS_TIMEOUT, "The store did not answer %s within %llu ms%s",
        operation_name(request->operation), (unsigned long long)(now_us - parked->begun_us) / 1000,
        operation_may_change(request->operation) ? "; the write may or may not happen" : "");
    stats_add(worker->stats, COUNTER_requests_timed_out, 1);
    reply_send(connection, request, &reply, false);
    parked_detach(parked);
}

/* What was a request a moment ago is one still, unless its memory now is too little: it was cut
 * into other blocks then. */
static bool decode_again(struct parked *parked, size_t frame_size)
{
    struct connection *connection = parked->connection;
    struct buffer *out = output(connection, true);
    size_t had = out->size, used, needed;
    enum wire_result result = connection->wire->decode(
        &connection->session, bytes_of(parked->memory + KEPT_ARENA, frame_size), &parked->arena,
        &parked->call.request, &used, &needed, out);
    out->size = had; /* who keeps the request tells why it cannot be kept */
    return result == WIRE_REQUEST;
}

static struct parked *parked_create(struct connection *connection, struct bytes frame)
{
    size_t size = sizeof(struct parked) + KEPT_ARENA + frame.size;
    struct parked *parked = malloc(size);
    if (parked == NULL)
        return NULL;
    struct worker *worker = connection->worker;
    memset(parked, 0, offsetof(struct parked, memory));
    arena_init(&parked->arena, parked->memory, KEPT_ARENA, KEPT_HEAP_MAX);
    memcpy(parked->memory + KEPT_ARENA, frame.data, frame.size);
    parked->size = size;
    parked->worker = worker;
    parked->connection = connection;
    parked->begun_us = worker->now_us;
    parked->call.arena = &parked->arena;
    parked->call.now_us = worker->now_us;
    parked->call.deadline_us = worker->passing.deadline_us;
    parked->call.complete = on_complete;
    parked->call.owner = parked;
    reply_init(&parked->call.reply);
    if (UNLIKELY(!decode_again(parked, frame.size))) {
        parked_destroy(parked);
        return NULL;
    }
    parked->size += parked->arena.heap_bytes; /* now: once submitted, it is another thread's too */
    return parked;
}

static void park(struct parked *parked)
{
    struct worker *worker = parked->worker;
    parked_link(parked);
    worker->parked++;
    atomic_fetch_add_explicit(&worker->options.limits->requests, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&worker->options.limits->memory, parked->size, memory_order_relaxed);
    parked->has_deadline =
        event_assign(&parked->deadline, worker->base, -1, 0, on_deadline, parked) == 0;
    if (parked->has_deadline)
        deadline_add(parked, worker->now_us);
}

static void refuse(struct connection *connection, const struct request *request, enum status status)
{
    struct reply reply;
    reply_init(&reply);
    reply.status = status;
    reply.error.status = status;
    count_in_batch(connection->worker, request, &reply);
    reply_send(connection, request, &reply, true);
}

/* A connection's only request may be larger than its share, and what it unpacks to is known later:
 * all of them together are beyond the limit by one a worker at most. */
static bool is_throttled(const struct connection *connection, size_t frame_size)
{
    const struct limits *limits = connection->worker->options.limits;
    return connection->parked_count >= limit(&limits->connection_requests_max) ||
           limit(&limits->requests) >= limit(&limits->requests_max) ||
           limit(&limits->memory) > limit(&limits->memory_max) ||
           (connection->parked_count != 0 && is_memory_short(connection, frame_size));
}

static void submit_kept(struct connection *connection, struct bytes frame)
{
    struct worker *worker = connection->worker;
    const struct request *passing = &worker->passing.request;
    if (UNLIKELY(is_throttled(connection, frame.size))) {
        stats_add(worker->stats, COUNTER_requests_throttled, 1);
        refuse(connection, passing, STATUS_THROTTLED);
        return;
    }
    struct parked *parked = parked_create(connection, frame);
    if (parked == NULL) {
        refuse(connection, passing, STATUS_NO_MEMORY);
        return;
    }
    stats_add(worker->stats, COUNTER_requests_kept, 1);
    struct call *call = &parked->call;
    uint64_t begun_us = clock_now_us();
    enum submit submit = worker->lane->ops->submit(worker->lane, call);
    ensure(submit != SUBMIT_KEEP);
    if (submit == SUBMIT_PENDING) {
        park(parked);
        return;
    }
    stats_store_latency(worker->stats, call->request.operation, clock_now_us() - begun_us);
    count_in_batch(worker, &call->request, &call->reply);
    reply_send(connection, &call->request, &call->reply, true);
    parked_destroy(parked);
}

/* ---- requests ---- */

static void answer_stats(struct connection *connection, struct call *call)
{
    struct worker *worker = connection->worker;
    struct buffer body = {0};
    if (worker->options.describe(worker->options.arg, &body)) {
        call->reply.body = buffer_bytes(&body);
        reply_send(connection, &call->request, &call->reply, true);
    } else {
        refuse(connection, &call->request, STATUS_NO_MEMORY);
    }
    buffer_deinit(&body);
}

/* Answers the worker's passing call, whose bytes are `frame`. */
static void serve(struct connection *connection, struct bytes frame)
{
    struct worker *worker = connection->worker;
    struct call *call = &worker->passing;
    uint64_t timeout_us = limit(&worker->options.limits->request_timeout_us);
    if (call->request.timeout_ms != 0 && call->request.timeout_ms * 1000ull < timeout_us)
        timeout_us = call->request.timeout_ms * 1000ull;
    call->now_us = worker->now_us;
    call->deadline_us = worker->now_us + timeout_us;
    reply_init(&call->reply);
    if (UNLIKELY(call->request.operation == OPERATION_STATS)) {
        answer_stats(connection, call);
        return;
    }
    enum submit submit = SUBMIT_KEEP;
    if (!operation_may_change(call->request.operation))
        submit = worker->lane->ops->submit(worker->lane, call);
    if (LIKELY(submit == SUBMIT_DONE)) {
        count_in_batch(worker, &call->request, &call->reply);
        reply_send(connection, &call->request, &call->reply, true);
    } else {
        submit_kept(connection, frame);
    }
}

/* Replies without ids come in the order of requests: one at a time. */
static bool must_wait_its_turn(const struct connection *connection)
{
    return connection->wire->in_order && connection->parked_count != 0;
}

/* Serves the whole frames at the front of `input`, as long as the replies do not get too many.
 * Returns how many bytes they were. */
static size_t serve_frames(struct connection *connection, struct bytes input)
{
    struct worker *worker = connection->worker;
    size_t done = 0;
    connection->has_backlog = input.size != 0;
    while (!connection->is_closing && !connection->is_broken && !must_wait_its_turn(connection) &&
           output(connection, true)->size < OUT_MAX) {
        size_t used = 0;
        struct bytes rest = bytes_of(input.data + done, input.size - done);
        enum wire_result result = connection->wire->decode(
            &connection->session, rest, &worker->arena, &worker->passing.request, &used,
            &connection->needed, output(connection, true));
        if (result == WIRE_MORE) {
            connection->has_backlog = false;
            break;
        }
        if (LIKELY(result == WIRE_REQUEST))
            serve(connection, bytes_of(rest.data, used));
        else
            stats_add(worker->stats, COUNTER_frames_refused, result == WIRE_BROKEN);
        connection->is_refused |= result == WIRE_BROKEN || connection->session.is_last;
        connection->is_closing |= connection->is_refused;
        arena_reset(&worker->arena);
        done += used;
    }
    connection->has_backlog &= done < input.size;
    return done;
}

/* Serves `input` in batches: look-ups inside a section, sending outside of it. Returns how many
 * bytes were used. */
static size_t process(struct connection *connection, struct bytes input)
{
    struct worker *worker = connection->worker;
    struct lane *lane = worker->lane;
    struct wire_session *session = &connection->session;
    size_t done = 0, used;
    session->keys = atomic_load_explicit(&worker->options.limits->keys, memory_order_acquire);
    if (session->keys != NULL)
        session->unix_s = clock_wall_ms() / 1000;
    do {
        lane->ops->lane_begin(lane);
        used = serve_frames(connection, bytes_of(input.data + done, input.size - done));
        lane->ops->lane_end(lane);
        flush_batch(connection);
        count_latencies(worker);
        done += used;
    } while (used != 0 && done < input.size && !connection->is_closing && !connection->is_broken &&
             !has_unsent(connection));
    return done;
}

/* ---- reading ---- */

static void pause_reading(struct connection *connection)
{
    if (connection->is_paused)
        return;
    connection->is_paused = true;
    stats_add(connection->worker->stats, COUNTER_reads_paused, 1);
    (void)event_del(&connection->read_event);
}

static void watch_reading(struct connection *connection)
{
    uint64_t idle_us = limit(&connection->worker->options.limits->idle_timeout_us);
    struct timeval timeout = timeval_of(idle_us);
    connection->is_broken |=
        event_add(&connection->read_event, idle_us == 0 ? NULL : &timeout) != 0;
}

/* RFC 9112, 9.6: closing while the client still sends would reset the connection, and what it was
 * told would be lost with it. So only our side is closed, and what comes is thrown away until the
 * client closes its own. False if there is nothing to wait for. */
static bool linger(struct connection *connection)
{
    if (!connection->is_refused || connection->has_ended || connection->worker->is_draining)
        return false;
    if (connection->lingers_until_us != 0)
        return true;
    uint64_t most_us = limit(&connection->worker->options.limits->write_timeout_us);
    struct timeval timeout = timeval_of(most_us);
    connection->lingers_until_us = clock_now_us() + most_us;
    buffer_deinit(&connection->in);
    if (shutdown(connection->fd, SHUT_WR) != 0 || event_add(&connection->read_event, &timeout) != 0)
        return false;
    event_active(&connection->read_event, EV_READ, 0); /* of what is there epoll has told */
    return true;
}

/* What every callback ends with. */
static void settle(struct connection *connection)
{
    count_buffers(connection);
    bool is_idle = connection->parked_count == 0 && !has_unsent(connection);
    bool ends = connection->is_closing || connection->worker->is_draining ||
                (connection->has_ended && !connection->has_backlog);
    if (connection->is_broken || (ends && is_idle && !linger(connection)))
        connection_close(connection);
    else if (connection->lingers_until_us != 0)
        return;
    else if (ends || connection->has_ended || connection->out.size - connection->sent >= OUT_MAX ||
             (connection->has_backlog &&
              (has_unsent(connection) || must_wait_its_turn(connection))))
        pause_reading(connection);
}

static ssize_t receive(struct connection *connection, uint8_t *at, size_t room)
{
    ssize_t got = recv(connection->fd, at, room, 0);
    connection->is_drained = got < 0 ? errno == EAGAIN : (size_t)got < room;
    return got;
}

/* Reads into the connection's own buffer: a frame longer than the worker's. */
static ssize_t read_long(struct connection *connection)
{
    struct buffer *in = &connection->in;
    size_t missing = connection->needed > in->size ? connection->needed - in->size : 1;
    /* Grown as bytes come, so that an announced length alone costs nothing. */
    size_t most = in->size < WORKER_READ_SIZE ? WORKER_READ_SIZE : in->size;
    const struct limits *limits = connection->worker->options.limits;
    bool is_full = limit(&limits->frames) > limit(&limits->memory_max);
    if (is_full || !buffer_reserve(in, missing < most ? missing : most)) {
        connection->is_broken = true;
        return 0;
    }
    ssize_t got = receive(connection, in->data + in->size, in->capacity - in->size);
    if (got <= 0)
        return got;
    in->size += (size_t)got;
    if (in->size >= connection->needed) {
        size_t used = process(connection, buffer_bytes(in));
        memmove(in->data, in->data + used, in->size - used);
        in->size -= used;
        if (in->size == 0)
            forget(in);
    }
    return got;
}

/* Reads into the worker's buffer, behind what the connection had left. */
static ssize_t read_short(struct connection *connection)
{
    struct worker *worker = connection->worker;
    struct buffer *in = &connection->in;
    size_t had = in->size;
    if (had != 0)
        memcpy(worker->read_buffer, in->data, had);
    ssize_t got = receive(connection, worker->read_buffer + had, WORKER_READ_SIZE - had);
    if (got <= 0)
        return got;
    size_t size = had + (size_t)got;
    in->size = 0;
    size_t used = process(connection, bytes_of(worker->read_buffer, size));
    if (used < size)
        connection->is_broken |=
            !buffer_append(in, bytes_of(worker->read_buffer + used, size - used));
    else
        forget(in);
    return got;
}

/* True if the socket may have something of which epoll will not tell again, after a read that `got`
 * bytes: more of them, its end, or a reset (which whole requests need not know: their replies will
 * fail). */
static bool has_unread(const struct connection *connection, short what, ssize_t got)
{
    return !connection->is_drained ||
           (got > 0 && ((what & EV_CLOSED) != 0 || connection->in.size != 0));
}

static void throw_away(struct connection *connection, short what)
{
    struct worker *worker = connection->worker;
    ssize_t got = receive(connection, worker->read_buffer, WORKER_READ_SIZE);
    connection->has_ended = got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR) ||
                            (what & EV_TIMEOUT) != 0 ||
                            worker->now_us > connection->lingers_until_us;
    if (got > 0) /* behind it may be the end: epoll tells of both at once */
        event_active(&connection->read_event, EV_READ, 0);
    settle(connection);
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    struct connection *connection = arg;
    struct worker *worker = connection->worker;
    worker->now_us = clock_now_us();
    if (connection->lingers_until_us != 0) {
        throw_away(connection, what);
        return;
    }
    if ((what & EV_TIMEOUT) != 0) {
        connection->is_closing = connection->parked_count == 0;
        settle(connection);
        return;
    }
    bool is_long = connection->in.size != 0 && connection->needed > WORKER_READ_SIZE / 2;
    ssize_t got = is_long || connection->in.size >= WORKER_READ_SIZE ? read_long(connection)
                                                                     : read_short(connection);
    if (got == 0)
        connection->has_ended = true;
    else if (got < 0 && errno != EAGAIN && errno != EINTR)
        connection->is_broken = true;
    else if (got > 0)
        stats_add(worker->stats, COUNTER_received_bytes, (uint64_t)got);
    if (UNLIKELY(has_unread(connection, what, got)))
        event_active(&connection->read_event, what, 0);
    settle(connection);
}

/* Goes on with requests that were read before the replies became too many. */
static void resume(struct connection *connection)
{
    struct buffer *in = &connection->in;
    connection->has_backlog = false; /* unless process() leaves some again */
    if (in->size != 0) {
        size_t used = process(connection, buffer_bytes(in));
        memmove(in->data, in->data + used, in->size - used);
        in->size -= used;
    }
    if (in->size == 0)
        forget(in);
    if (has_unsent(connection) || connection->is_closing || connection->worker->is_draining ||
        connection->has_ended || (connection->has_backlog && must_wait_its_turn(connection)))
        return;
    connection->is_paused = false;
    watch_reading(connection);
}

static void flush_more(struct connection *connection)
{
    flush_own(connection);
    if (!connection->is_broken && !has_unsent(connection) && connection->is_paused &&
        !connection->is_closing) {
        connection->worker->now_us = clock_now_us();
        resume(connection);
    }
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    struct connection *connection = arg;
    connection->worker->now_us = clock_now_us();
    if ((what & EV_TIMEOUT) != 0)
        connection->is_broken = true;
    else
        flush_more(connection);
    settle(connection);
}

void connection_flush_dirty(struct worker *worker)
{
    while (worker->dirty != NULL) {
        struct connection *connection = worker->dirty;
        worker->dirty = connection->next_dirty;
        connection->is_dirty = false;
        if (has_unsent(connection) && !connection->is_broken &&
            !event_pending(&connection->write_event, EV_WRITE, NULL))
            flush_more(connection);
        settle(connection);
    }
}

/* ---- life ---- */

void connection_open(struct worker *worker, int fd, const struct wire_ops *wire)
{
    struct connection *connection = calloc(1, sizeof *connection);
    if (connection == NULL) {
        (void)close(fd);
        atomic_fetch_sub_explicit(&worker->options.limits->connections, 1, memory_order_relaxed);
        return;
    }
    connection->worker = worker;
    connection->wire = wire;
    connection->fd = fd;
    connection->session.frame_max = limit(&worker->options.limits->frame_max);
    /* Edges: else each wait that sleeps begins with a look at the socket that was read last. */
    ensure(event_assign(&connection->read_event, worker->base, fd,
                        EV_READ | EV_CLOSED | EV_PERSIST | EV_ET, on_readable, connection) == 0);
    ensure(event_assign(&connection->write_event, worker->base, fd, EV_WRITE | EV_ET, on_writable,
                        connection) == 0);
    connection->next = worker->connections;
    if (connection->next != NULL)
        connection->next->previous = connection;
    worker->connections = connection;
    stats_add(worker->stats, COUNTER_connections_accepted, 1);
    watch_reading(connection);
    settle(connection);
}

static void leave_dirty(struct connection *connection)
{
    struct connection **link = &connection->worker->dirty;
    while (*link != connection)
        link = &(*link)->next_dirty;
    *link = connection->next_dirty;
}

void connection_close(struct connection *connection)
{
    struct worker *worker = connection->worker;
    while (connection->parked != NULL)
        parked_detach(connection->parked);
    if (connection->is_dirty)
        leave_dirty(connection);
    (void)event_del(&connection->read_event);
    (void)event_del(&connection->write_event);
    (void)close(connection->fd);
    buffer_deinit(&connection->in);
    buffer_deinit(&connection->out);
    count_buffers(connection);
    if (connection->next != NULL)
        connection->next->previous = connection->previous;
    if (connection->previous != NULL)
        connection->previous->next = connection->next;
    else
        worker->connections = connection->next;
    free(connection);
    stats_add(worker->stats, COUNTER_connections_closed, 1);
    atomic_fetch_sub_explicit(&worker->options.limits->connections, 1, memory_order_relaxed);
    worker_maybe_stop(worker);
}

void connection_drain(struct connection *connection)
{
    settle(connection);
}

struct connection *connection_next(const struct connection *connection)
{
    return connection->next;
}
