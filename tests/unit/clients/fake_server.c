#include "tests/unit/clients/fake_server.h"

#include <stdarg.h>

#include <setjmp.h>

#include <cmocka.h>

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { PATIENCE_MS = 10000 };

static void *run(void *arg)
{
    struct fake_server *server = arg;
    server->script(server);
    return NULL;
}

/* In a thread that is not the test's, a failure can only end the whole test. */
static void need(bool truth, const char *what)
{
    if (truth)
        return;
    (void)fprintf(stderr, "fake server: %s\n", what);
    abort();
}

static void start(struct fake_server *server)
{
    assert_int_equal(listen(server->listener, 16), 0);
    assert_int_equal(sem_init(&server->event, 0, 0), 0);
    assert_int_equal(pthread_create(&server->thread, NULL, run, server), 0);
}

void fake_server_start(struct fake_server *server, void (*script)(struct fake_server *server))
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    *server = (struct fake_server){
        .script = script, .frame_max = FRAME_SIZE_DEFAULT, .version = NATIVE_VERSION};
    (void)snprintf(server->folder, sizeof server->folder, "/tmp/mudax-fake-XXXXXX");
    assert_non_null(mkdtemp(server->folder));
    (void)snprintf(address.sun_path, sizeof address.sun_path, "%s/s", server->folder);
    (void)snprintf(server->url, sizeof server->url, "mudax+unix:%s/s", server->folder);
    server->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(server->listener, (struct sockaddr *)&address, sizeof address), 0);
    start(server);
}

void fake_server_start_tcp(struct fake_server *server, void (*script)(struct fake_server *server))
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    *server = (struct fake_server){
        .script = script, .frame_max = FRAME_SIZE_DEFAULT, .version = NATIVE_VERSION};
    server->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(server->listener, (struct sockaddr *)&address, size), 0);
    assert_int_equal(getsockname(server->listener, (struct sockaddr *)&address, &size), 0);
    (void)snprintf(server->url, sizeof server->url, "mudax://127.0.0.1:%d",
                   ntohs(address.sin_port));
    start(server);
}

void fake_server_stop(struct fake_server *server)
{
    char path[64];
    assert_int_equal(pthread_join(server->thread, NULL), 0);
    (void)close(server->listener);
    if (server->folder[0] != '\0') {
        (void)snprintf(path, sizeof path, "%s/s", server->folder);
        (void)unlink(path);
        (void)rmdir(server->folder);
    }
    (void)sem_destroy(&server->event);
}

static void wait_readable(int fd, const char *what)
{
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
    need(poll(&poll_fd, 1, PATIENCE_MS) == 1, what);
}

static void read_whole(int fd, uint8_t *out, size_t size)
{
    for (size_t at = 0; at < size;) {
        wait_readable(fd, "no request came");
        ssize_t got = recv(fd, out + at, size - at, 0);
        need(got > 0, "the client went away");
        at += (size_t)got;
    }
}

static uint64_t read_request(int fd, struct request *out, struct frame_greeting *greeting)
{
    static uint8_t frame[FRAME_SIZE_DEFAULT];
    struct error error;
    read_whole(fd, frame, FRAME_HEADER);
    size_t size = frame_size(frame);
    need(size <= sizeof frame, "the request is too large");
    read_whole(fd, frame + FRAME_HEADER, size - FRAME_HEADER);
    static uint8_t memory[1 << 16]; /* for the parts of one request at a time */
    struct arena arena;
    arena_init(&arena, memory, sizeof memory, 0);
    need(frame_read_request(bytes_of(frame + FRAME_HEADER, size - FRAME_HEADER), &arena, out,
                            greeting, &error) == STATUS_OK,
         "the request is malformed");
    return out->id;
}

int fake_accept(struct fake_server *server)
{
    struct request request;
    struct frame_greeting greeting;
    struct buffer out = {0};
    wait_readable(server->listener, "nobody connected");
    int fd = accept(server->listener, NULL, NULL);
    need(fd >= 0, "accept failed");
    server->connections++;
    need(read_request(fd, &request, &greeting) == 0 && request.operation == OPERATION_HELLO,
         "no Hello came first");
    greeting = (struct frame_greeting){
        .version = server->version, .peer = BYTES_LITERAL("fake"), .frame_max = server->frame_max};
    need(frame_write_greeting(0, &greeting, &out), "no memory");
    fake_send(fd, buffer_bytes(&out));
    buffer_deinit(&out);
    return fd;
}

uint64_t fake_read(int fd, struct request *out)
{
    struct request own;
    struct frame_greeting greeting;
    return read_request(fd, out != NULL ? out : &own, &greeting);
}

void fake_send(int fd, struct bytes bytes)
{
    for (size_t at = 0; at < bytes.size;) {
        ssize_t sent = send(fd, bytes.data + at, bytes.size - at, MSG_NOSIGNAL);
        need(sent > 0 || errno == EPIPE || errno == ECONNRESET, "send failed");
        if (sent <= 0)
            return; /* the client had enough */
        at += (size_t)sent;
    }
}

void fake_write_reply(uint64_t id, enum status status, struct bytes body, struct buffer *out)
{
    struct request request = {.id = id};
    struct reply reply;
    reply_init(&reply);
    reply.status = reply.error.status = status;
    reply.body = body;
    need(frame_write_reply(&request, &reply, out), "no memory");
}

void fake_send_reply(int fd, const struct request *request, const struct reply *reply)
{
    struct buffer out = {0};
    need(frame_write_reply(request, reply, &out), "no memory");
    fake_send(fd, buffer_bytes(&out));
    buffer_deinit(&out);
}

static void answer(int fd, uint64_t id, enum status status, struct bytes body)
{
    struct buffer out = {0};
    fake_write_reply(id, status, body, &out);
    fake_send(fd, buffer_bytes(&out));
    buffer_deinit(&out);
}

void fake_answer(int fd, uint64_t id, enum status status)
{
    answer(fd, id, status, BYTES_NONE);
}

void fake_answer_item(int fd, uint64_t id, struct bytes item)
{
    answer(fd, id, STATUS_OK, item);
}

void fake_wait_closed(int fd)
{
    uint8_t bytes[4096];
    do
        wait_readable(fd, "the client did not close");
    while (recv(fd, bytes, sizeof bytes, 0) > 0);
    (void)close(fd);
}
