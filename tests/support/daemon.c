#include "tests/support/daemon.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    READY_TRIES = 1500, /* of 20 ms; a sanitizer's daemon on a busy machine takes seconds */
    TRY_MS = 20,
};

static int free_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, size), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    (void)close(fd);
    return ntohs(address.sin_port);
}

static bool answers(const struct test_daemon *daemon)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    (void)snprintf(address.sun_path, sizeof address.sun_path, "%s",
                   daemon->url + strlen("mudax+unix:"));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool is_there = connect(fd, (struct sockaddr *)&address, sizeof address) == 0;
    (void)close(fd);
    return is_there;
}

static void become_daemon(struct test_daemon *daemon, const char *program)
{
    char log[64];
    (void)snprintf(log, sizeof log, "%s/log", daemon->folder);
    int fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    int null = open("/dev/null", O_RDONLY);
    (void)dup2(null, STDIN_FILENO);
    (void)dup2(fd, STDOUT_FILENO);
    (void)dup2(fd, STDERR_FILENO);
    (void)execl(program, program, "--listen", daemon->url, "--listen", daemon->tcp_url, "--store",
                daemon->store, "--cache-memory", "16M", "--store-memory", "16M", "--workers", "2",
                (char *)NULL);
    _exit(127);
}

void test_daemon_restart(struct test_daemon *daemon, const char *program)
{
    assert_int_equal(daemon->process, 0);
    (void)unlink(daemon->url + strlen("mudax+unix:"));
    daemon->process = fork();
    assert_true(daemon->process >= 0);
    if (daemon->process == 0)
        become_daemon(daemon, program);
    for (int i = 0; i < READY_TRIES && !answers(daemon); i++) {
        int status;
        if (waitpid(daemon->process, &status, WNOHANG) == daemon->process) {
            daemon->process = 0;
            fail_msg("mudaxd ended; see %s/log", daemon->folder);
        }
        (void)poll(NULL, 0, TRY_MS);
    }
    assert_true(answers(daemon));
}

void test_daemon_start(struct test_daemon *daemon, const char *program, bool is_embedded)
{
    *daemon = (struct test_daemon){0};
    (void)snprintf(daemon->folder, sizeof daemon->folder, "/tmp/mudax-test-XXXXXX");
    assert_non_null(mkdtemp(daemon->folder));
    (void)snprintf(daemon->url, sizeof daemon->url, "mudax+unix:%s/socket", daemon->folder);
    (void)snprintf(daemon->tcp_url, sizeof daemon->tcp_url, "mudax://127.0.0.1:%d", free_port());
    if (is_embedded)
        (void)snprintf(daemon->store, sizeof daemon->store, "rocksdb:%s/data", daemon->folder);
    else
        (void)snprintf(daemon->store, sizeof daemon->store, "memory:");
    test_daemon_restart(daemon, program);
}

static void end(struct test_daemon *daemon, int signal_number)
{
    int status;
    if (daemon->process == 0)
        return;
    (void)kill(daemon->process, signal_number);
    (void)waitpid(daemon->process, &status, 0);
    daemon->process = 0;
}

void test_daemon_stop(struct test_daemon *daemon)
{
    end(daemon, SIGTERM);
}

void test_daemon_kill(struct test_daemon *daemon)
{
    end(daemon, SIGKILL);
}

void test_daemon_destroy(struct test_daemon *daemon)
{
    test_daemon_stop(daemon);
    pid_t remover = fork();
    assert_true(remover >= 0);
    if (remover == 0) {
        (void)execlp("rm", "rm", "-rf", daemon->folder, (char *)NULL);
        _exit(127);
    }
    int status;
    (void)waitpid(remover, &status, 0);
}
