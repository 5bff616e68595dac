/* listener.h - listening sockets by URL.
 *
 *   mudax://HOST:PORT   native protocol, TCP        mudax+unix:PATH   on a Unix socket
 *   http://HOST:PORT    DynamoDB's API              admin://HOST:PORT   metrics and health */
#pragma once

#include "protocol/attributes.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct listen_url {
    char scheme[16]; /* "mudax", "http", "admin" */
    bool is_unix;
    bool is_loopback;
    char host[256]; /* or the socket's path */
    uint16_t port;  /* 0: any free one */
};

/* Takes a URL apart. False with a text that says what was expected. */
MUST_CHECK bool listen_url_parse(const char *text, struct listen_url *out, char *error,
                                 size_t error_size);

/* Binds and listens; the socket does not block and closes on exec. A stale Unix socket that nobody
 * answers on is replaced. -1 with a text that says what failed and what to do. */
MUST_CHECK int listen_url_open(const struct listen_url *url, char *error, size_t error_size);

/* The port that was really bound, 0 for a Unix socket. */
uint16_t listen_port(int fd);
