/* bench-fixed: the least that a server of HTTP can do, to hold mudaxd's against: whatever a read
 * brings is a whole request, and has the same reply.
 *   bench-fixed PORT BODY_SIZE */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BODY_MAX = 1 << 20, HEAD_MAX = 256, IN_MAX = 64 * 1024 };

static char reply[HEAD_MAX + BODY_MAX];
static size_t reply_size;

static void make_reply(size_t body_size)
{
    int head = snprintf(reply, HEAD_MAX,
                        "HTTP/1.1 200 OK\r\nContent-Type: application/x-amz-json-1.0\r\n"
                        "Content-Length: %zu\r\n\r\n",
                        body_size);
    memset(reply + head, 'x', body_size);
    reply_size = (size_t)head + body_size;
}

static int listen_on(unsigned short port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    /* As mudaxd's, and inherited. */
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "cubic", 5);
    return bind(fd, (struct sockaddr *)&address, sizeof address) == 0 && listen(fd, 128) == 0 ? fd
                                                                                              : -1;
}

static void watch(int poll_fd, int fd, unsigned events)
{
    struct epoll_event event = {.events = events, .data.fd = fd};
    if (fd >= 0)
        (void)epoll_ctl(poll_fd, EPOLL_CTL_ADD, fd, &event);
}

static void answer(int fd)
{
    static char in[IN_MAX];
    ssize_t got = recv(fd, in, sizeof in, 0);
    if (got == 0 || (got < 0 && errno != EAGAIN) ||
        (got > 0 && send(fd, reply, reply_size, MSG_NOSIGNAL) != (ssize_t)reply_size))
        (void)close(fd);
}

int main(int argument_count, char **arguments)
{
    if (argument_count != 3 || strtoul(arguments[2], NULL, 10) > BODY_MAX)
        return 2;
    int listen_fd = listen_on((unsigned short)strtoul(arguments[1], NULL, 10));
    int poll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (listen_fd < 0 || poll_fd < 0) {
        (void)fprintf(stderr, "bench-fixed: cannot listen: %s\n", strerror(errno));
        return 1;
    }
    make_reply(strtoul(arguments[2], NULL, 10));
    watch(poll_fd, listen_fd, EPOLLIN);
    for (;;) {
        struct epoll_event events[64];
        int count = epoll_wait(poll_fd, events, 64, -1);
        for (int i = 0; i < count; i++) {
            if (events[i].data.fd != listen_fd)
                answer(events[i].data.fd);
            else
                watch(poll_fd, accept4(listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC),
                      EPOLLIN | EPOLLET);
        }
    }
}
