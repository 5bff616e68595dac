#include "daemon/listener.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { BACKLOG = 1024 };

static bool parse_host_port(const char *text, struct listen_url *out)
{
    const char *colon = strrchr(text, ':');
    if (colon == NULL || colon == text || (size_t)(colon - text) >= sizeof out->host)
        return false;
    bool has_brackets = text[0] == '[' && colon[-1] == ']';
    size_t length = (size_t)(colon - text) - (has_brackets ? 2 : 0);
    memcpy(out->host, text + (has_brackets ? 1 : 0), length);
    out->host[length] = '\0';
    char *end;
    unsigned long port = strtoul(colon + 1, &end, 10);
    if (end == colon + 1 || *end != '\0' || port > UINT16_MAX)
        return false;
    out->port = (uint16_t)port;
    out->is_loopback = strcmp(out->host, "localhost") == 0 || strcmp(out->host, "::1") == 0 ||
                       strncmp(out->host, "127.", 4) == 0;
    return true;
}

static bool parse_path(const char *text, struct listen_url *out)
{
    struct sockaddr_un address;
    if (text[0] == '\0' || strlen(text) >= sizeof address.sun_path)
        return false;
    (void)snprintf(out->host, sizeof out->host, "%s", text);
    out->is_unix = true;
    out->is_loopback = true; /* file permissions guard it */
    return true;
}

static const struct {
    const char *prefix, *scheme;
    bool (*parse)(const char *rest, struct listen_url *out);
} forms[] = {
    {"mudax://", "mudax", parse_host_port},
    {"mudax+unix:", "mudax", parse_path},
    {"http://", "http", parse_host_port},
    {"admin://", "admin", parse_host_port},
};

bool listen_url_parse(const char *text, struct listen_url *out, char *error, size_t error_size)
{
    *out = (struct listen_url){0};
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        size_t length = strlen(forms[i].prefix);
        if (strncmp(text, forms[i].prefix, length) == 0 && forms[i].parse(text + length, out)) {
            (void)snprintf(out->scheme, sizeof out->scheme, "%s", forms[i].scheme);
            return true;
        }
    }
    (void)snprintf(error, error_size,
                   "listen: got \"%s\", expected mudax://HOST:PORT, mudax+unix:PATH (under 108 "
                   "bytes), http://HOST:PORT or admin://HOST:PORT",
                   text);
    return false;
}

/* A socket file left behind by a process that is gone. */
static void remove_stale(const struct sockaddr_un *address)
{
    struct stat facts;
    if (lstat(address->sun_path, &facts) != 0 || !S_ISSOCK(facts.st_mode))
        return;
    int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (probe < 0)
        return;
    bool is_stale = connect(probe, (const struct sockaddr *)address, sizeof *address) != 0 &&
                    errno == ECONNREFUSED;
    (void)close(probe);
    if (is_stale)
        (void)unlink(address->sun_path);
}

static int open_unix(const struct listen_url *url)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, url->host, strnlen(url->host, sizeof address.sun_path - 1));
    remove_stale(&address);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd >= 0 &&
        (bind(fd, (struct sockaddr *)&address, sizeof address) != 0 || listen(fd, BACKLOG) != 0)) {
        int reason = errno;
        (void)close(fd);
        errno = reason;
        return -1;
    }
    return fd;
}

static int open_address(const struct addrinfo *address)
{
    int fd = socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    int on = 1;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    /* Inherited by what is accepted. The system may default to bbr, whose pacing hurts loopback. */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "cubic", 5);
    if (bind(fd, address->ai_addr, address->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0)
        return fd;
    int reason = errno;
    (void)close(fd);
    errno = reason;
    return -1;
}

static int open_tcp(const struct listen_url *url, const char **reason)
{
    char port[8];
    (void)snprintf(port, sizeof port, "%u", url->port);
    struct addrinfo hints = {.ai_family = AF_UNSPEC,
                             .ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    int code = getaddrinfo(url->host, port, &hints, &found);
    if (code != 0) {
        *reason = gai_strerror(code);
        return -1;
    }
    int fd = open_address(found);
    *reason = strerror(errno);
    freeaddrinfo(found);
    return fd;
}

int listen_url_open(const struct listen_url *url, char *error, size_t error_size)
{
    const char *reason = NULL;
    int fd = url->is_unix ? open_unix(url) : open_tcp(url, &reason);
    if (fd >= 0)
        return fd;
    if (url->is_unix)
        (void)snprintf(error, error_size,
                       "listen: cannot use the socket %s: %s; is another mudaxd running?",
                       url->host, strerror(errno));
    else
        (void)snprintf(
            error, error_size,
            "listen: cannot bind %s port %u: %s; another program may have it, see --listen",
            url->host, url->port, reason);
    return -1;
}

uint16_t listen_port(int fd)
{
    struct sockaddr_storage address = {0};
    socklen_t size = sizeof address;
    if (getsockname(fd, (struct sockaddr *)&address, &size) != 0)
        return 0;
    if (address.ss_family == AF_INET)
        return ntohs(((struct sockaddr_in *)&address)->sin_port);
    if (address.ss_family == AF_INET6)
        return ntohs(((struct sockaddr_in6 *)&address)->sin6_port);
    return 0;
}
