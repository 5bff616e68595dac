/* fake_server.h - a daemon that does what a test's script says, on a thread of its own.
 *
 * The script accepts, reads and answers step by step; it never waits longer than ten seconds for
 * anything. */
#pragma once

#include "protocol/native/frame.h"

#include <pthread.h>
#include <semaphore.h>

struct fake_server {
    char folder[32];
    char url[64];
    int listener;
    pthread_t thread;
    void (*script)(struct fake_server *server);
    sem_t event;                 /* for script and test to wait for each other */
    uint64_t frame_max, version; /* what it greets with */
    int connections;             /* accepted so far; read it after fake_server_stop() */
};

void fake_server_start(struct fake_server *server, void (*script)(struct fake_server *server));
/* The same on TCP, where a write to a closed connection seems to work. */
void fake_server_start_tcp(struct fake_server *server, void (*script)(struct fake_server *server));
void fake_server_stop(struct fake_server *server); /* waits for the script's end */

/* For the script. The first answers the Hello. */
int fake_accept(struct fake_server *server);
uint64_t fake_read(int fd, struct request *out); /* what `out` points to lasts until the next one */
void fake_send(int fd, struct bytes bytes);
void fake_answer(int fd, uint64_t id, enum status status);
void fake_answer_item(int fd, uint64_t id, struct bytes item);
/* A whole reply to what was read: body, details, capacity and all. */
void fake_send_reply(int fd, const struct request *request, const struct reply *reply);
/* One whole reply frame, in `out`. */
void fake_write_reply(uint64_t id, enum status status, struct bytes body, struct buffer *out);
void fake_wait_closed(int fd); /* until the client closes it; closes it too */
