/* pipe.c - struct mudax_pipe: many calls in flight on one connection. */
#include "clients/c/src/channel.h"
#include "clients/c/src/clock.h"
#include "clients/c/src/failure.h"
#include "clients/c/src/message.h"

#include <poll.h>
#include <stdlib.h>

enum {
    IN_FLIGHT_DEFAULT = 256,
    IN_FLIGHT_MOST = 65536,
    PIPE_TIMEOUT_DEFAULT_MS = 1000,
};

/* A place for one call. Its request's id is place + capacity x turn, turn counting from 1, so that
 * a reply finds its call at once and a late one does not find another. */
struct slot {
    uint64_t id; /* 0: free */
    uint64_t deadline_us;
    uint64_t sent_at; /* when so many bytes have left, the request has */
    mudax_reply_fn *callback;
    void *arg;
    enum mudax_operation operation;
    enum effect effect;
    uint32_t timeout_ms, part_count;
    uint32_t next_free;
};

struct mudax_pipe {
    struct addresses addresses;
    struct channel channel;
    struct mudax_error failure; /* code MUDAX_OK: none so far */
    uint32_t timeout_ms, capacity, first_free, pending;
    uint64_t turn;
    uint64_t earliest_us; /* no pending call's deadline is before */
    size_t ran;           /* callbacks, since mudax_pipe_process() began */
    struct slot slots[];
};

/* ---- life ---- */

struct mudax_pipe *mudax_pipe_open(const char *url, const struct mudax_pipe_options *options,
                                   struct mudax_error *error)
{
    static const struct mudax_pipe_options defaults;
    if (options == NULL)
        options = &defaults;
    uint32_t capacity =
        options->in_flight_max == 0 ? (uint32_t)IN_FLIGHT_DEFAULT : options->in_flight_max;
    if (capacity > IN_FLIGHT_MOST || options->timeout_ms > INT32_MAX) {
        (void)failure_set(error, MUDAX_INVALID_REQUEST,
                          "in_flight_max is at most %d, timeout_ms at most 2147483647",
                          IN_FLIGHT_MOST);
        return NULL;
    }
    struct mudax_pipe *pipe = calloc(1, sizeof *pipe + capacity * sizeof pipe->slots[0]);
    if (pipe == NULL) {
        (void)failure_no_memory(error);
        return NULL;
    }
    pipe->timeout_ms =
        options->timeout_ms == 0 ? (uint32_t)PIPE_TIMEOUT_DEFAULT_MS : options->timeout_ms;
    pipe->capacity = capacity;
    pipe->earliest_us = UINT64_MAX;
    for (uint32_t i = 0; i < capacity; i++)
        pipe->slots[i].next_free = i + 1;
    if (addresses_find(url, &pipe->addresses, error) != MUDAX_OK) {
        free(pipe);
        return NULL;
    }
    uint64_t now_us = clock_us();
    if (!channel_open(&pipe->channel, &pipe->addresses, now_us,
                      now_us + (uint64_t)pipe->timeout_ms * 1000)) {
        (void)failure_set(error, MUDAX_CONNECT_ERROR,
                          "Cannot connect to %s: %s; is mudaxd running there?", pipe->addresses.url,
                          channel_failure(&pipe->channel));
        channel_close(&pipe->channel);
        free(pipe);
        return NULL;
    }
    return pipe;
}

/* Takes a call out of its slot, then runs its callback, which may submit into that very slot. */
static void finish(struct mudax_pipe *pipe, struct slot *slot, const struct mudax_reply *reply,
                   const struct mudax_error *error)
{
    mudax_reply_fn *callback = slot->callback;
    void *arg = slot->arg;
    slot->id = 0;
    slot->next_free = pipe->first_free;
    pipe->first_free = (uint32_t)(slot - pipe->slots);
    pipe->pending--;
    pipe->ran++;
    callback(arg, reply, error);
}

static bool is_sent(const struct mudax_pipe *pipe, const struct slot *slot)
{
    return pipe->channel.sent_total >= slot->sent_at;
}

static const char *outcome(const struct mudax_pipe *pipe, const struct slot *slot)
{
    if (!is_sent(pipe, slot))
        return "; nothing happened";
    return slot->effect == EFFECT_NONE ? "" : "; the write may or may not have happened";
}

/* Ends every pending call with pipe->failure. */
static void fail_all(struct mudax_pipe *pipe)
{
    for (uint32_t i = 0; i < pipe->capacity && pipe->pending > 0; i++) {
        struct slot *slot = &pipe->slots[i];
        if (slot->id == 0)
            continue;
        struct mudax_error error = pipe->failure;
        enum attempt attempt = is_sent(pipe, slot) ? ATTEMPT_LOST : ATTEMPT_NOT_SENT;
        error.is_retryable = retry_is_safe(slot->effect, attempt, STATUS_OK);
        size_t size = strlen(error.text);
        const char *more = outcome(pipe, slot);
        if (size + strlen(more) < sizeof error.text)
            memcpy(error.text + size, more, strlen(more) + 1);
        finish(pipe, slot, NULL, &error);
    }
}

void mudax_pipe_close(struct mudax_pipe **pipe)
{
    struct mudax_pipe *closing = *pipe;
    if (closing == NULL)
        return;
    if (closing->failure.code == MUDAX_OK)
        (void)failure_set(&closing->failure, MUDAX_CLOSED,
                          "The pipe to %s was closed before the reply was there",
                          closing->addresses.url);
    fail_all(closing);
    channel_close(&closing->channel);
    free(closing);
    *pipe = NULL;
}

/* ---- submitting ---- */

int mudax_pipe_submit(struct mudax_pipe *pipe, const struct mudax_request *request,
                      mudax_reply_fn *callback, void *arg, struct mudax_error *error)
{
    struct channel *channel = &pipe->channel;
    if (pipe->failure.code != MUDAX_OK) {
        if (error != NULL)
            *error = pipe->failure;
        return pipe->failure.code;
    }
    if (pipe->pending == pipe->capacity) {
        (void)failure_set(
            error, MUDAX_PIPE_FULL,
            "%u calls are pending, as many as this pipe takes (in_flight_max); process "
            "some replies first",
            pipe->capacity);
        if (error != NULL)
            error->is_retryable = true;
        return MUDAX_PIPE_FULL;
    }
    uint32_t timeout_ms = request->timeout_ms == 0 ? pipe->timeout_ms : request->timeout_ms;
    uint32_t capped_ms = timeout_ms > INT32_MAX ? INT32_MAX : timeout_ms;
    uint32_t place = pipe->first_free;
    uint64_t id = place + (uint64_t)pipe->capacity * (pipe->turn + 1);
    size_t start = channel->out.size;
    int code =
        message_write(request, id, message_daemon_timeout_ms((int)capped_ms), &channel->out, error);
    if (code == MUDAX_OK)
        code = message_check_size(channel->out.size - start, channel->frame_max, error);
    if (code != MUDAX_OK) {
        channel->out.size = start;
        return code;
    }
    channel_queued(channel, channel->out.size - start);
    pipe->turn++;
    pipe->pending++;
    struct slot *slot = &pipe->slots[place];
    pipe->first_free = slot->next_free;
    *slot = (struct slot){.id = id,
                          .deadline_us = clock_us() + (uint64_t)timeout_ms * 1000,
                          .sent_at = channel->queued_total,
                          .callback = callback,
                          .arg = arg,
                          .operation = request->operation,
                          .effect = effect_of(request->operation, request->token != NULL),
                          .timeout_ms = timeout_ms,
                          .part_count = (uint32_t)request->part_count};
    if (slot->deadline_us < pipe->earliest_us)
        pipe->earliest_us = slot->deadline_us;
    return MUDAX_OK;
}

/* ---- processing ---- */

static void take_reply(struct mudax_pipe *pipe, const struct frame_reply *frame)
{
    struct slot *slot = &pipe->slots[frame->id % pipe->capacity];
    struct mudax_error error;
    struct mudax_reply *reply = NULL;
    uint64_t turn = frame->id / pipe->capacity;
    if (turn == 0 || turn > pipe->turn) {
        (void)failure_set(&pipe->failure, MUDAX_PROTOCOL_ERROR,
                          "%s answered a request that was never made; is it a mudaxd?",
                          pipe->addresses.url);
        return;
    }
    if (slot->id != frame->id)
        return; /* came behind its deadline */
    int code =
        frame->status != STATUS_OK ? failure_from_reply(&error, frame, slot->effect) : MUDAX_OK;
    if (message_has_reply(frame)) {
        int read = message_read(frame, slot->operation, slot->part_count, &reply, &error);
        code = read == MUDAX_OK ? code : read;
    }
    finish(pipe, slot, reply, code == MUDAX_OK ? NULL : &error);
    mudax_reply_free(reply);
}

static void take_replies(struct mudax_pipe *pipe)
{
    while (pipe->failure.code == MUDAX_OK) {
        struct frame_reply frame;
        switch (channel_next(&pipe->channel, &frame, &pipe->failure)) {
        case CHANNEL_REPLY:
            take_reply(pipe, &frame);
            break;
        case CHANNEL_MORE:
        case CHANNEL_BROKEN:
            return;
        }
    }
}

static void end_overdue(struct mudax_pipe *pipe, uint64_t now_us)
{
    if (now_us < pipe->earliest_us)
        return;
    pipe->earliest_us = UINT64_MAX;
    for (uint32_t i = 0; i < pipe->capacity; i++) {
        struct slot *slot = &pipe->slots[i];
        if (slot->id != 0 && slot->deadline_us <= now_us) {
            struct mudax_error error;
            (void)failure_set(&error, MUDAX_TIMEOUT,
                              "%s did not answer %s within %u ms, the timeout of the call "
                              "(timeout_ms)%s",
                              pipe->addresses.url, message_operation_name(slot->operation),
                              slot->timeout_ms, outcome(pipe, slot));
            error.is_retryable = retry_is_safe(
                slot->effect, is_sent(pipe, slot) ? ATTEMPT_TIMED_OUT : ATTEMPT_NOT_SENT,
                STATUS_OK);
            finish(pipe, slot, NULL, &error);
        }
        if (slot->id != 0 && slot->deadline_us < pipe->earliest_us)
            pipe->earliest_us = slot->deadline_us;
    }
}

static void note_loss(struct mudax_pipe *pipe)
{
    const struct channel *channel = &pipe->channel;
    if (pipe->failure.code != MUDAX_OK)
        return;
    if (channel->fd < 0)
        (void)failure_set(&pipe->failure, MUDAX_CONNECT_ERROR,
                          "Cannot connect to %s: %s; is mudaxd running there?", pipe->addresses.url,
                          channel_failure(channel));
    else
        (void)failure_set(&pipe->failure, MUDAX_CONNECTION_LOST, "The connection to %s ended: %s",
                          pipe->addresses.url, channel_failure(channel));
}

size_t mudax_pipe_process(struct mudax_pipe *pipe)
{
    struct channel *channel = &pipe->channel;
    uint64_t now_us = clock_us();
    pipe->ran = 0;
    if (channel->fd >= 0) {
        bool is_open = channel_flush(channel, now_us);
        is_open = channel_fill(channel) && is_open;
        take_replies(pipe);
        /* What callbacks have submitted leaves at once. */
        if (is_open && pipe->failure.code == MUDAX_OK)
            is_open = channel_flush(channel, now_us);
        if (!is_open)
            note_loss(pipe);
    }
    if (pipe->failure.code != MUDAX_OK) {
        channel_close(channel);
        fail_all(pipe);
    }
    end_overdue(pipe, now_us);
    return pipe->ran;
}

int mudax_pipe_fd(const struct mudax_pipe *pipe)
{
    return pipe->channel.fd;
}

bool mudax_pipe_wants_write(const struct mudax_pipe *pipe)
{
    return pipe->channel.fd >= 0 && channel_wants_write(&pipe->channel);
}

int mudax_pipe_timeout_ms(const struct mudax_pipe *pipe)
{
    uint64_t until_us = pipe->pending > 0 ? pipe->earliest_us : UINT64_MAX;
    if (pipe->channel.is_connecting && pipe->channel.connect_until_us < until_us)
        until_us = pipe->channel.connect_until_us;
    return until_us == UINT64_MAX ? -1 : clock_left_ms(until_us, clock_us());
}

size_t mudax_pipe_pending(const struct mudax_pipe *pipe)
{
    return pipe->pending;
}

/* How long one poll() may take: until a deadline of the pipe or the end of the wait. */
static int poll_ms(const struct mudax_pipe *pipe, int timeout_ms, uint64_t end_us)
{
    int own_ms = mudax_pipe_timeout_ms(pipe);
    int wait_ms = timeout_ms < 0 ? -1 : clock_left_ms(end_us, clock_us());
    if (own_ms < 0 || wait_ms < 0)
        return own_ms < 0 ? wait_ms : own_ms;
    return own_ms < wait_ms ? own_ms : wait_ms;
}

size_t mudax_pipe_wait(struct mudax_pipe *pipe, int timeout_ms)
{
    uint64_t end_us = clock_us() + (timeout_ms < 0 ? 0 : (uint64_t)timeout_ms * 1000);
    for (;;) {
        size_t ran = mudax_pipe_process(pipe);
        if (ran > 0 || pipe->pending == 0 || (timeout_ms >= 0 && clock_us() >= end_us))
            return ran;
        struct pollfd poll_fd = {.fd = pipe->channel.fd, .events = POLLIN};
        if (mudax_pipe_wants_write(pipe))
            poll_fd.events |= POLLOUT;
        (void)poll(&poll_fd, 1, poll_ms(pipe, timeout_ms, end_us));
    }
}
