/* The limit that everything is held against: an epoll loop which reads requests of a fixed size and
 * writes as many replies of a fixed size, one read and one write a turn and connection. */
#include "bench/load/process.h"
#include "bench/load/target.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { ECHO_BUFFER = 64 * 1024, ECHO_FILES = 1024 };

static int listen_on(const char *path, int port)
{
    struct sockaddr_un unix_address = {.sun_family = AF_UNIX};
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd =
        socket(path != NULL ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int on = 1;
    int bound;
    if (path != NULL) {
        (void)snprintf(unix_address.sun_path, sizeof unix_address.sun_path, "%s", path);
        bound = bind(fd, (struct sockaddr *)&unix_address, sizeof unix_address);
    } else {
        (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        (void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "cubic", 5);
        bound = bind(fd, (struct sockaddr *)&address, sizeof address);
    }
    if (bound != 0 || listen(fd, 128) != 0)
        die("echo: cannot listen: %s", strerror(errno));
    return fd;
}

struct echo {
    int poll_fd;
    size_t request_size, reply_size;
    size_t rest[ECHO_FILES]; /* by descriptor: bytes of an incomplete request */
    uint8_t in[ECHO_BUFFER];
    uint8_t *out;
};

static void accept_one(struct echo *echo, int listen_fd)
{
    int fd = accept4(listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC), on = 1;
    if (fd < 0)
        return;
    if (fd >= ECHO_FILES)
        die("echo: too many connections");
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    echo->rest[fd] = 0;
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    (void)epoll_ctl(echo->poll_fd, EPOLL_CTL_ADD, fd, &event);
}

static void answer(struct echo *echo, int fd)
{
    ssize_t got = read(fd, echo->in, sizeof echo->in);
    if (got <= 0) {
        if (got == 0 || errno != EAGAIN)
            (void)close(fd);
        return;
    }
    size_t size = echo->rest[fd] + (size_t)got;
    size_t requests = size / echo->request_size;
    echo->rest[fd] = size % echo->request_size;
    for (size_t left = requests * echo->reply_size; left != 0;) {
        ssize_t sent = write(fd, echo->out, left);
        if (sent > 0)
            left -= (size_t)sent;
        else if (sent < 0 && errno != EAGAIN)
            return;
    }
}

void echo_serve(void *arg)
{
    const struct target *target = arg;
    struct echo *echo = calloc(1, sizeof *echo);
    size_t most = ECHO_BUFFER / target->request_size * target->reply_size + target->reply_size;
    if (echo == NULL || (echo->out = calloc(1, most)) == NULL)
        die("echo: out of memory");
    echo->request_size = target->request_size;
    echo->reply_size = target->reply_size;
    int listen_fd = listen_on(target->path, target->port);
    echo->poll_fd = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = listen_fd};
    (void)epoll_ctl(echo->poll_fd, EPOLL_CTL_ADD, listen_fd, &event);
    for (;;) {
        struct epoll_event events[64];
        int count = epoll_wait(echo->poll_fd, events, 64, -1);
        for (int i = 0; i < count; i++) {
            if (events[i].data.fd == listen_fd)
                accept_one(echo, listen_fd);
            else
                answer(echo, events[i].data.fd);
        }
    }
}

static void ask(struct target *target, enum work work, uint64_t key, uint64_t id,
                struct buffer *out)
{
    (void)work;
    (void)key;
    (void)id;
    if (!buffer_reserve(out, target->request_size))
        die("out of memory");
    memset(out->data + out->size, 'r', target->request_size);
    out->size += target->request_size;
}

static size_t reply(struct target *target, struct bytes in, uint64_t *id)
{
    (void)id;
    return in.size >= target->reply_size ? target->reply_size : 0;
}

static bool is_right(struct target *target, enum work work, uint64_t key, struct bytes bytes)
{
    (void)work;
    (void)key;
    return bytes.size == target->reply_size;
}

const struct target_ops target_echo = {.ask = ask, .reply = reply, .is_right = is_right};
