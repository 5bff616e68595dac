/* channel.h - one connection: bytes out, replies in, never blocking.
 *
 * The Hello goes out in front of the first request and its reply is taken here, so that a new
 * connection costs no round trip of its own. Who owns a channel polls its descriptor.
 * Threads: one at a time.
 * Not here: deadlines of calls, retries, who waits for which reply (pool.c, pipe.c). */
#pragma once

#include "clients/c/src/address.h"
#include "protocol/native/frame.h"

struct channel {
    struct channel *next_idle;         /* the pool's */
    const struct addresses *addresses; /* caller's */
    size_t address;                    /* the one that is tried or connected */
    int fd;                            /* -1: not connected */
    bool is_connecting;
    bool is_greeted;           /* the reply to the Hello was read */
    bool has_received;         /* any byte since channel_rest() */
    bool is_broken;            /* channel_next() said so; of no further use */
    int error_number;          /* errno of the failure; 0: the daemon closed the connection */
    uint64_t connect_until_us; /* then the next address has its turn */
    uint64_t connect_end_us;   /* then all had theirs */
    uint64_t next_id;
    uint64_t frame_max; /* what the daemon takes; 0: not known yet */
    struct buffer in;
    size_t in_at; /* bytes before are used */
    struct buffer out;
    size_t out_at;                     /* bytes before are sent */
    uint64_t queued_total, sent_total; /* bytes ever put into `out`, ever sent */
};

/* Begins to connect. connect_end_us: monotonic; failing later is up to the caller.
 * False when no address can be tried, or without memory (error_number ENOMEM). */
MUST_CHECK bool channel_open(struct channel *channel, const struct addresses *addresses,
                             uint64_t now_us, uint64_t connect_end_us);
void channel_close(struct channel *channel);

/* Sends what `out` holds, as far as possible; finishes connecting before. False when the connection
 * is lost or none can be made (then fd is -1). */
MUST_CHECK bool channel_flush(struct channel *channel, uint64_t now_us);

/* Receives what is there, a bounded amount. False when the connection has ended; what came before
 * can still be read. */
MUST_CHECK bool channel_fill(struct channel *channel);

enum channel_result {
    CHANNEL_REPLY,
    CHANNEL_MORE,   /* no whole reply is there */
    CHANNEL_BROKEN, /* `error` says why: the daemon's own word, or what came is no reply */
};

/* Takes the next reply apart; its body is a view that lasts until the next channel_fill(). */
enum channel_result channel_next(struct channel *channel, struct frame_reply *out,
                                 struct mudax_error *error);

static inline bool channel_wants_write(const struct channel *channel)
{
    return channel->is_connecting || channel->out_at < channel->out.size;
}

/* Bytes were put behind channel->out: counts them. */
void channel_queued(struct channel *channel, size_t size);

/* Between two calls. False when the other side has closed it, or has said something unasked. */
MUST_CHECK bool channel_is_alive(const struct channel *channel);
void channel_rest(struct channel *channel);

/* What went wrong, as words: strerror() or "closed by the daemon". */
const char *channel_failure(const struct channel *channel);
