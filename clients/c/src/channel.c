#include "clients/c/src/channel.h"

#include "clients/c/src/failure.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

enum {
    READ_SIZE = 64 * 1024,
    READS_MAX = 16,             /* of one channel_fill(): the owner's loop has other things to do */
    KEPT_CAPACITY = 256 * 1024, /* a buffer that grew beyond is given back between calls */
};

static bool fail(struct channel *channel, int error_number)
{
    channel->error_number = error_number;
    if (channel->fd >= 0)
        (void)close(channel->fd);
    channel->fd = -1;
    channel->is_connecting = false;
    return false;
}

/* ---- connecting ---- */

static bool connect_begin(struct channel *channel)
{
    const struct sockaddr *address =
        (const struct sockaddr *)&channel->addresses->list[channel->address].storage;
    int one = 1;
    channel->fd = socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (channel->fd < 0)
        return fail(channel, errno);
    if (address->sa_family != AF_UNIX) /* a small request shall not wait for an acknowledgement */
        (void)setsockopt(channel->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    channel->is_connecting = true;
    if (connect(channel->fd, address, channel->addresses->list[channel->address].size) == 0) {
        channel->is_connecting = false;
        return true;
    }
    return errno == EINPROGRESS || fail(channel, errno);
}

/* Tries addresses from channel->address on; each has its share of the time that is left. */
static bool connect_any(struct channel *channel, uint64_t now_us)
{
    for (; channel->address < channel->addresses->count; channel->address++) {
        uint64_t left = channel->connect_end_us > now_us ? channel->connect_end_us - now_us : 0;
        channel->connect_until_us = now_us + left / (channel->addresses->count - channel->address);
        if (connect_begin(channel))
            return true;
    }
    channel->address = 0;
    return false;
}

static bool connect_next(struct channel *channel, int error_number, uint64_t now_us)
{
    (void)fail(channel, error_number);
    channel->address++;
    return connect_any(channel, now_us);
}

static bool connect_finish(struct channel *channel, uint64_t now_us)
{
    struct pollfd poll_fd = {.fd = channel->fd, .events = POLLOUT};
    int error_number = 0;
    socklen_t size = sizeof error_number;
    if (poll(&poll_fd, 1, 0) <= 0)
        return now_us < channel->connect_until_us || connect_next(channel, ETIMEDOUT, now_us);
    (void)getsockopt(channel->fd, SOL_SOCKET, SO_ERROR, &error_number, &size);
    if (error_number != 0)
        return connect_next(channel, error_number, now_us);
    channel->is_connecting = false;
    return true;
}

static bool queue_hello(struct channel *channel)
{
    struct frame_greeting greeting = {.version = NATIVE_VERSION,
                                      .peer = BYTES_LITERAL("libmudax " MUDAX_VERSION)};
    struct request request = {.operation = OPERATION_HELLO};
    if (!frame_write_request(&request, &greeting, &channel->out))
        return false;
    channel_queued(channel, channel->out.size);
    return true;
}

bool channel_open(struct channel *channel, const struct addresses *addresses, uint64_t now_us,
                  uint64_t connect_end_us)
{
    *channel = (struct channel){
        .addresses = addresses, .fd = -1, .connect_end_us = connect_end_us, .next_id = 1};
    if (!queue_hello(channel))
        return fail(channel, ENOMEM);
    return connect_any(channel, now_us);
}

void channel_close(struct channel *channel)
{
    if (channel->fd >= 0)
        (void)close(channel->fd);
    buffer_deinit(&channel->in);
    buffer_deinit(&channel->out);
    channel->fd = -1;
}

/* ---- bytes ---- */

void channel_queued(struct channel *channel, size_t size)
{
    channel->queued_total += size;
}

bool channel_flush(struct channel *channel, uint64_t now_us)
{
    if (channel->fd < 0)
        return false;
    if (channel->is_connecting && !connect_finish(channel, now_us))
        return false;
    while (!channel->is_connecting && channel->out_at < channel->out.size) {
        ssize_t sent = send(channel->fd, channel->out.data + channel->out_at,
                            channel->out.size - channel->out_at, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return true;
        if (sent < 0) {
            channel->error_number = errno; /* the descriptor stays: an answer may be there */
            return false;
        }
        channel->out_at += (size_t)sent;
        channel->sent_total += (size_t)sent;
    }
    if (channel->out_at == channel->out.size)
        channel->out_at = channel->out.size = 0;
    return true;
}

/* Moves what is not used yet to the front. */
static void compact(struct channel *channel)
{
    if (channel->in_at == 0)
        return;
    channel->in.size -= channel->in_at;
    memmove(channel->in.data, channel->in.data + channel->in_at, channel->in.size);
    channel->in_at = 0;
}

bool channel_fill(struct channel *channel)
{
    if (channel->fd < 0)
        return false;
    if (channel->is_connecting)
        return true;
    compact(channel);
    for (int reads = 0; reads < READS_MAX; reads++) {
        if (!buffer_reserve(&channel->in, READ_SIZE)) {
            channel->error_number = ENOMEM;
            return false;
        }
        ssize_t got = recv(channel->fd, channel->in.data + channel->in.size,
                           channel->in.capacity - channel->in.size, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return true;
        if (got <= 0) {
            channel->error_number = got == 0 ? 0 : errno;
            return false;
        }
        channel->in.size += (size_t)got;
        channel->has_received = true;
        if (channel->in.size < channel->in.capacity)
            return true; /* the socket is empty, most likely: no call only to hear that */
    }
    return true;
}

/* ---- replies ---- */

/* One whole frame at in_at. */
static enum channel_result next_frame(struct channel *channel, struct bytes *out,
                                      struct mudax_error *error)
{
    size_t left = channel->in.size - channel->in_at;
    if (left < FRAME_HEADER)
        return CHANNEL_MORE;
    const uint8_t *at = channel->in.data + channel->in_at;
    size_t size = frame_size(at);
    if (size > FRAME_REPLY_SIZE_MAX) {
        (void)failure_set(error, MUDAX_PROTOCOL_ERROR,
                          "%s answered with a frame of %zu bytes, more than any reply has; it may "
                          "not speak mudax's native protocol",
                          channel->addresses->url, size);
        return CHANNEL_BROKEN;
    }
    if (left < size)
        return CHANNEL_MORE;
    *out = bytes_of(at + FRAME_HEADER, size - FRAME_HEADER);
    channel->in_at += size;
    return CHANNEL_REPLY;
}

static bool take_greeting(struct channel *channel, const struct frame_reply *reply)
{
    struct frame_greeting greeting;
    if (frame_read_greeting(reply->body, &greeting) != STATUS_OK ||
        greeting.version != NATIVE_VERSION)
        return false;
    channel->frame_max = greeting.frame_max;
    channel->is_greeted = true;
    return true;
}

static enum channel_result take_reply(struct channel *channel, struct frame_reply *out,
                                      struct mudax_error *error)
{
    for (;;) {
        struct bytes frame;
        enum channel_result result = next_frame(channel, &frame, error);
        if (result != CHANNEL_REPLY)
            return result;
        bool is_reply = frame_read_reply(frame, out) == STATUS_OK;
        if (is_reply && out->status != STATUS_OK && out->id == 0) {
            (void)failure_from_reply(error, out, EFFECT_NONE);
            return CHANNEL_BROKEN;
        }
        if (is_reply && channel->is_greeted && out->id != 0)
            return CHANNEL_REPLY;
        if (!is_reply || channel->is_greeted || out->id != 0 || !take_greeting(channel, out)) {
            (void)failure_set(error, MUDAX_PROTOCOL_ERROR,
                              "%s did not answer as mudax's native protocol, version %d, has it; "
                              "is it a mudaxd, and the port its native one?",
                              channel->addresses->url, NATIVE_VERSION);
            return CHANNEL_BROKEN;
        }
    }
}

enum channel_result channel_next(struct channel *channel, struct frame_reply *out,
                                 struct mudax_error *error)
{
    enum channel_result result = take_reply(channel, out, error);
    channel->is_broken |= result == CHANNEL_BROKEN;
    return result;
}

/* ---- between calls ---- */

bool channel_is_alive(const struct channel *channel)
{
    char byte;
    ssize_t got = recv(channel->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
}

void channel_rest(struct channel *channel)
{
    channel->has_received = false;
    if (channel->in.capacity > KEPT_CAPACITY) {
        buffer_deinit(&channel->in);
        channel->in_at = 0;
    }
    if (channel->out.capacity > KEPT_CAPACITY)
        buffer_deinit(&channel->out);
}

const char *channel_failure(const struct channel *channel)
{
    /* Not strerror(): these are most of what happens, and it is not for several threads. */
    switch (channel->error_number) {
    case 0:
        return "closed by the daemon";
    case ECONNREFUSED:
        return "connection refused";
    case ECONNRESET:
        return "connection reset";
    case EPIPE:
        return "closed by the daemon";
    case ENOENT:
        return "no such socket";
    case ETIMEDOUT:
        return "no answer in time";
    case ENETUNREACH:
    case EHOSTUNREACH:
        return "no route to the host";
    case EACCES:
    case EPERM:
        return "permission denied";
    case EMFILE:
    case ENFILE:
        return "too many open files";
    case ENOMEM:
        return "no memory left";
    case EAGAIN: /* of a Unix socket */
        return "the daemon's queue of new connections is full";
    default:
        return "the connection failed";
    }
}
