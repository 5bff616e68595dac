/* connection.h - one client: read, decode, submit, encode, write.
 *
 * Here is where a hit is served; the other half is cache/cache.c. An idle connection holds no
 * buffers: bytes are read into the worker's and replies gathered there; only a frame that has not
 * come whole, or replies that the socket did not take, cost memory of the connection's own.
 * Threads: its worker's only. */
#pragma once

#include "daemon/worker.h"

/* Takes over a socket; closes it when it cannot. */
void connection_open(struct worker *worker, int fd, const struct wire_ops *wire);

/* Reads no more; closes as soon as nothing is in flight. */
void connection_drain(struct connection *connection);
void connection_close(struct connection *connection);
struct connection *connection_next(const struct connection *connection);

/* Sends what the connections on worker->dirty have to say. */
void connection_flush_dirty(struct worker *worker);
