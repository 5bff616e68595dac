/* redis_server.h - a Redis of a test's own: a free port of the loopback, a directory of its own.
 *
 * Built where redis-server was found, which defines MUDAX_REDIS_SERVER. It dies with the thread
 * that started it. What goes wrong ends the process. Threads: one. */
#pragma once

#include <sys/types.h>

struct redis_server {
    pid_t pid; /* 0: not running */
    int port;
    int log; /* what it prints */
    char directory[32];
    char url[64], unix_url[128]; /* of the store */
};

/* Starts one and waits until it takes connections. It saves nothing by itself.
 * options  further command line, NULL-terminated; NULL: none */
void redis_server_start(struct redis_server *server, const char *const *options);
/* The same server again, on the same port, with what it had saved. */
void redis_server_restart(struct redis_server *server);
/* As kill -9 does it. */
void redis_server_kill(struct redis_server *server);
/* Kills it and removes its directory. */
void redis_server_end(struct redis_server *server);

/* Takes connections and answers nobody, until told to go on. */
void redis_server_pause(struct redis_server *server);
void redis_server_resume(struct redis_server *server);

/* Sends a command on a connection of its own. The first line of the reply without its end: "+OK",
 * ":7"; static memory. */
const char *redis_server_command(const struct redis_server *server, const char *command);
