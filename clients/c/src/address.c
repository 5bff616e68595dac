#include "clients/c/src/address.h"

#include "clients/c/src/failure.h"

#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

static const char tcp_scheme[] = "mudax://";
static const char unix_scheme[] = "mudax+unix:";

static int refuse(const char *text, const char *why, struct mudax_error *error)
{
    return failure_set(error, MUDAX_INVALID_REQUEST,
                       "URL \"%.120s\": %s; expected mudax://HOST:PORT or mudax+unix:PATH", text,
                       why);
}

static int parse_unix(const char *text, struct url *out, struct mudax_error *error)
{
    const char *path = text + sizeof unix_scheme - 1;
    if (path[0] == '\0')
        return refuse(text, "the path is missing", error);
    if (strlen(path) >= sizeof out->path)
        return refuse(text, "the path is longer than a Unix socket's may be (107 bytes)", error);
    out->is_unix = true;
    (void)snprintf(out->path, sizeof out->path, "%s", path);
    return MUDAX_OK;
}

static bool parse_port(const char *text, struct url *out)
{
    char *end;
    if (text[0] < '0' || text[0] > '9')
        return false;
    unsigned long port = strtoul(text, &end, 10);
    if (*end != '\0' || port == 0 || port > 65535)
        return false;
    (void)snprintf(out->port, sizeof out->port, "%u", (unsigned)port);
    return true;
}

static int parse_tcp(const char *text, struct url *out, struct mudax_error *error)
{
    const char *host = text + sizeof tcp_scheme - 1;
    bool is_bracketed = host[0] == '[';
    const char *end = is_bracketed ? strchr(host, ']') : strchr(host, ':');
    if (end == NULL)
        return refuse(text, is_bracketed ? "the bracket is not closed" : "the port is missing",
                      error);
    const char *colon = is_bracketed ? end + 1 : end;
    host += is_bracketed;
    size_t size = (size_t)(end - host);
    if (size == 0 || size > HOST_MAX)
        return refuse(text, "the host is missing or too long", error);
    if (colon[0] != ':' || !parse_port(colon + 1, out))
        return refuse(text, "the port must be a number from 1 to 65535", error);
    memcpy(out->host, host, size);
    out->host[size] = '\0';
    return MUDAX_OK;
}

int url_parse(const char *text, struct url *out, struct mudax_error *error)
{
    *out = (struct url){0};
    if (text == NULL)
        return refuse("", "it is missing", error);
    if (strncmp(text, unix_scheme, sizeof unix_scheme - 1) == 0)
        return parse_unix(text, out, error);
    if (strncmp(text, tcp_scheme, sizeof tcp_scheme - 1) == 0)
        return parse_tcp(text, out, error);
    return refuse(text, "the scheme is not known", error);
}

static int look_up(const struct url *url, struct addresses *out, struct mudax_error *error)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    int result = getaddrinfo(url->host, url->port, &hints, &found);
    if (result != 0)
        return failure_set(error, MUDAX_CONNECT_ERROR, "The host \"%.150s\" cannot be found: %s",
                           url->host, gai_strerror(result));
    for (struct addrinfo *at = found; at != NULL && out->count < ADDRESSES_MAX; at = at->ai_next) {
        memcpy(&out->list[out->count].storage, at->ai_addr, at->ai_addrlen);
        out->list[out->count++].size = at->ai_addrlen;
    }
    freeaddrinfo(found);
    return MUDAX_OK;
}

int addresses_find(const char *text, struct addresses *out, struct mudax_error *error)
{
    struct url url;
    *out = (struct addresses){0};
    int code = url_parse(text, &url, error);
    if (code != MUDAX_OK)
        return code;
    (void)snprintf(out->url, sizeof out->url, "%s", text);
    if (!url.is_unix)
        return look_up(&url, out, error);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, url.path, sizeof url.path);
    memcpy(&out->list[0].storage, &address, sizeof address);
    out->list[0].size = sizeof address;
    out->count = 1;
    return MUDAX_OK;
}
