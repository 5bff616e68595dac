/* daemon.h - starts and ends a mudaxd for tests. Ends only what it started.
 *
 * It listens on a Unix socket in a folder of its own, and on a free TCP port of the loopback. Its
 * store is memory: or a database in that folder, which outlives restarts.
 * Threads: one at a time. Failures end the running cmocka test. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

struct test_daemon {
    pid_t process; /* 0: not running */
    char folder[40];
    char url[64];     /* mudax+unix:... */
    char tcp_url[40]; /* mudax://127.0.0.1:... */
    char store[64];
};

/* Starts one and returns when it answers.
 * program      path of mudaxd
 * is_embedded  the store is a database on disk; else memory: */
void test_daemon_start(struct test_daemon *daemon, const char *program, bool is_embedded);

/* Ends the process, by SIGTERM or, as a crash would, by SIGKILL; the folder stays. */
void test_daemon_stop(struct test_daemon *daemon);
void test_daemon_kill(struct test_daemon *daemon);
/* Starts it again where it was. */
void test_daemon_restart(struct test_daemon *daemon, const char *program);

/* Ends it if it runs, and removes the folder. */
void test_daemon_destroy(struct test_daemon *daemon);
