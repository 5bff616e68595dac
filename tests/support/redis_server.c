#include "tests/support/redis_server.h"

#include "protocol/ensure.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ARGUMENTS_MAX = 32, STARTS_MAX = 10, LINE_MAX_SIZE = 512 };

static struct sockaddr_in loopback(int port)
{
    return (struct sockaddr_in){.sin_family = AF_INET,
                                .sin_port = htons((uint16_t)port),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

static int free_port(void)
{
    struct sockaddr_in address = loopback(0);
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ensure(fd >= 0 && bind(fd, (struct sockaddr *)&address, size) == 0);
    ensure(getsockname(fd, (struct sockaddr *)&address, &size) == 0);
    (void)close(fd);
    return ntohs(address.sin_port);
}

static void run(const struct redis_server *server, const char *const *options, int log)
{
    char port[16], socket_path[128];
    (void)snprintf(port, sizeof port, "%d", server->port);
    (void)snprintf(socket_path, sizeof socket_path, "%s", strchr(server->unix_url, ':') + 1);
    const char *arguments[ARGUMENTS_MAX] = {
        MUDAX_REDIS_SERVER, "--port",       port,       "--bind",       "127.0.0.1", "--unixsocket",
        socket_path,        "--save",       "",         "--appendonly", "no",        "--dir",
        server->directory,  "--dbfilename", "saved.rdb"};
    size_t count = 15;
    for (size_t i = 0; options != NULL && options[i] != NULL; i++) {
        ensure(count < ARGUMENTS_MAX - 1);
        arguments[count++] = options[i];
    }
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (dup2(log, STDOUT_FILENO) >= 0 && dup2(log, STDERR_FILENO) >= 0)
        (void)execv(MUDAX_REDIS_SERVER, (char *const *)(uintptr_t)arguments);
    _exit(127);
}

/* Reads what it prints until it is ready. False: it has ended. */
static bool is_ready(int log)
{
    char text[8192];
    size_t size = 0;
    while (size < sizeof text - 1) {
        ssize_t got = read(log, text + size, sizeof text - 1 - size);
        if (got <= 0)
            return false;
        size += (size_t)got;
        text[size] = '\0';
        /* The last of its lines about listening. */
        if (strstr(text, "ready to accept connections at") != NULL)
            return true;
    }
    return false;
}

static bool try_start(struct redis_server *server, const char *const *options)
{
    int pipes[2];
    ensure(pipe(pipes) == 0);
    server->pid = fork();
    ensure(server->pid >= 0);
    if (server->pid == 0) {
        (void)close(pipes[0]);
        run(server, options, pipes[1]);
    }
    (void)close(pipes[1]);
    server->log = pipes[0];
    if (is_ready(server->log))
        return true;
    redis_server_kill(server);
    return false;
}

void redis_server_start(struct redis_server *server, const char *const *options)
{
    char here[64];
    *server = (struct redis_server){.directory = "/tmp/mudax-redis-XXXXXX"};
    ensure(mkdtemp(server->directory) != NULL);
    (void)signal(SIGPIPE, SIG_IGN); /* hiredis writes to sockets that are gone */
    (void)snprintf(here, sizeof here, "%s/socket", server->directory);
    (void)snprintf(server->unix_url, sizeof server->unix_url, "redis+unix:%s", here);
    for (int i = 0; i < STARTS_MAX; i++) { /* the port may be taken meanwhile */
        server->port = free_port();
        (void)snprintf(server->url, sizeof server->url, "redis://127.0.0.1:%d", server->port);
        if (try_start(server, options))
            return;
    }
    bool has_started = false;
    ensure(has_started);
}

void redis_server_restart(struct redis_server *server)
{
    ensure(server->pid == 0 && try_start(server, NULL));
}

void redis_server_kill(struct redis_server *server)
{
    ensure(server->pid > 0 && kill(server->pid, SIGKILL) == 0);
    ensure(waitpid(server->pid, NULL, 0) == server->pid);
    (void)close(server->log);
    server->pid = 0;
}

void redis_server_end(struct redis_server *server)
{
    char path[64];
    if (server->pid != 0)
        redis_server_kill(server);
    (void)snprintf(path, sizeof path, "%s/socket", server->directory);
    (void)unlink(path);
    (void)snprintf(path, sizeof path, "%s/saved.rdb", server->directory);
    (void)unlink(path);
    ensure(rmdir(server->directory) == 0);
}

void redis_server_pause(struct redis_server *server)
{
    int how;
    ensure(kill(server->pid, SIGSTOP) == 0);
    ensure(waitpid(server->pid, &how, WUNTRACED) == server->pid && WIFSTOPPED(how));
}

void redis_server_resume(struct redis_server *server)
{
    ensure(kill(server->pid, SIGCONT) == 0);
}

const char *redis_server_command(const struct redis_server *server, const char *command)
{
    static char line[LINE_MAX_SIZE];
    struct sockaddr_in address = loopback(server->port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ensure(fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0);
    ensure(dprintf(fd, "%s\r\n", command) > 0);
    size_t size = 0;
    while (size < sizeof line - 1 && read(fd, line + size, 1) == 1 && line[size] != '\r')
        size++;
    line[size] = '\0';
    (void)close(fd);
    return line;
}
