/* bench-evhttp: libevent's own HTTP server with a fixed body, to hold mudaxd's against.
 *   bench-evhttp PORT BODY_SIZE */
#include <event2/buffer.h>
#include <event2/event.h>
#include <event2/http.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct body {
    char *bytes;
    size_t size;
};

static void answer(struct evhttp_request *request, void *arg)
{
    const struct body *body = arg;
    struct evkeyvalq *fields = evhttp_request_get_output_headers(request);
    (void)evhttp_add_header(fields, "Content-Type", "application/x-amz-json-1.0");
    (void)evbuffer_add_reference(evhttp_request_get_output_buffer(request), body->bytes, body->size,
                                 NULL, NULL);
    evhttp_send_reply(request, 200, "OK", NULL);
}

int main(int argument_count, char **arguments)
{
    if (argument_count != 3)
        return 2;
    struct body body = {.size = strtoul(arguments[2], NULL, 10)};
    body.bytes = malloc(body.size + 1);
    struct event_base *base = event_base_new();
    struct evhttp *http = base == NULL ? NULL : evhttp_new(base);
    unsigned long port = strtoul(arguments[1], NULL, 10);
    if (body.bytes == NULL || http == NULL ||
        evhttp_bind_socket(http, "127.0.0.1", (unsigned short)port) != 0) {
        (void)fprintf(stderr, "bench-evhttp: cannot listen\n");
        return 1;
    }
    memset(body.bytes, 'x', body.size);
    evhttp_set_gencb(http, answer, &body);
    (void)event_base_dispatch(base);
    return 0;
}
