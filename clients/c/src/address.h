/* address.h - a URL, and the socket addresses behind it. */
#pragma once

#include "clients/c/include/mudax.h"
#include "protocol/attributes.h"

#include <sys/socket.h>

enum {
    ADDRESSES_MAX = 8, /* of one host name; further ones are not tried */
    HOST_MAX = 255,
    URL_TEXT_MAX = 320, /* enough for texts of errors */
};

/* mudax://HOST:PORT or mudax+unix:PATH, taken apart. */
struct url {
    bool is_unix;
    char host[HOST_MAX + 1]; /* without brackets */
    char port[6];
    char path[108]; /* sizeof sockaddr_un.sun_path, NUL included */
};

struct addresses {
    struct {
        struct sockaddr_storage storage;
        socklen_t size;
    } list[ADDRESSES_MAX];
    size_t count;
    char url[URL_TEXT_MAX]; /* as given, for texts of errors; cut */
};

/* Only takes apart; no name is looked up. Errors: MUDAX_INVALID_REQUEST. */
MUST_CHECK int url_parse(const char *text, struct url *out, struct mudax_error *error);

/* Parses and looks up; may block on a host name. Errors: also MUDAX_CONNECT_ERROR. */
MUST_CHECK int addresses_find(const char *url, struct addresses *out, struct mudax_error *error);
