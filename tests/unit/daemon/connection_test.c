/* One worker, its connections, and a backend that answers as the test says. */
#include "daemon/clock.h"
#include "daemon/worker.h"
#include "protocol/native/frame.h"

#include <event2/event.h>

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- the backend: table "now" is answered at once, "keep" asks to be kept and is then answered,
 * "later" stays pending until release_all(), and its definition is gone by then; "big" gets 64 KiB
 * ---- */

enum { PENDING_MAX = 4096 };

static struct backend_ops ops;

struct fake_lane {
    struct lane lane;
    struct lane_env env;
    int socket; /* when it is readable, all that is pending completes */
    struct event *readable;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct call *pending[PENDING_MAX];
static size_t pending_count;
static struct table *later; /* of the calls that are pending */
static struct fake_lane *the_lane;
static struct backend the_backend = {&ops};
static uint8_t big_body[65536 + 5];
static atomic_bool reply_big; /* to those that were pending */

static void complete_all(evutil_socket_t fd, short what, void *arg);

static enum status lane_open(struct backend *backend, const struct lane_env *env, struct lane **out)
{
    (void)backend;
    the_lane = calloc(1, sizeof *the_lane);
    the_lane->lane.ops = &ops;
    the_lane->env = *env;
    the_lane->socket = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    the_lane->readable = event_new(env->event_base, the_lane->socket, EV_READ, complete_all, NULL);
    assert_non_null(the_lane->readable);
    assert_int_equal(event_add(the_lane->readable, NULL), 0);
    *out = &the_lane->lane;
    return STATUS_OK;
}

static void lane_close(struct lane **lane)
{
    struct fake_lane *closing = (struct fake_lane *)*lane;
    event_free(closing->readable);
    (void)close(closing->socket);
    free(closing);
    *lane = NULL;
}

static void lane_nothing(struct lane *lane)
{
    (void)lane;
}

static enum submit submit(struct lane *lane, struct call *call)
{
    (void)lane;
    struct bytes table = call->request.table_name;
    call->reply.body = BYTES_LITERAL("\x81\xa1p\x01");
    call->reply.verdict = VERDICT_HIT;
    if (call->request.operation == OPERATION_PING || bytes_equal(table, BYTES_LITERAL("now")))
        return SUBMIT_DONE;
    if (bytes_equal(table, BYTES_LITERAL("big"))) {
        call->reply.body = bytes_of(big_body, sizeof big_body);
        return SUBMIT_DONE;
    }
    if (call->is_passing)
        return SUBMIT_KEEP;
    if (bytes_equal(table, BYTES_LITERAL("keep")))
        return SUBMIT_DONE;
    (void)pthread_mutex_lock(&lock);
    assert_true(pending_count < PENDING_MAX);
    if (later == NULL)
        later = calloc(1, sizeof *later);
    call->request.table = later;
    pending[pending_count++] = call;
    (void)pthread_mutex_unlock(&lock);
    return SUBMIT_PENDING;
}

static void complete_all(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    (void)arg;
    (void)pthread_mutex_lock(&lock);
    struct call *calls[PENDING_MAX];
    size_t count = pending_count;
    memcpy(calls, pending, count * sizeof calls[0]);
    pending_count = 0;
    free(later);
    later = NULL;
    (void)pthread_mutex_unlock(&lock);
    for (size_t i = 0; i < count; i++) {
        if (atomic_load(&reply_big))
            calls[i]->reply.body = bytes_of(big_body, sizeof big_body);
        calls[i]->complete(calls[i]);
    }
}

static void release(struct task *task)
{
    free(task);
    complete_all(-1, 0, NULL);
}

static void release_all(void)
{
    struct task *task = calloc(1, sizeof *task);
    task->run = release;
    the_lane->env.post(the_lane->env.worker, task);
}

static size_t pending_now(void)
{
    (void)pthread_mutex_lock(&lock);
    size_t count = pending_count;
    (void)pthread_mutex_unlock(&lock);
    return count;
}

static const struct table *table(struct lane *lane, struct bytes name)
{
    static const struct table now = {.id = 7, .name = BYTES_LITERAL("now")};
    (void)lane;
    return bytes_equal(name, now.name) ? &now : NULL;
}

static struct backend_ops ops = {.lane_open = lane_open,
                                 .lane_close = lane_close,
                                 .lane_begin = lane_nothing,
                                 .lane_end = lane_nothing,
                                 .table = table,
                                 .submit = submit};

/* ---- the worker stands still from hold() until let_go() has been called as often ---- */

static sem_t gate;

static void wait_at_gate(struct task *task)
{
    free(task);
    while (sem_wait(&gate) != 0)
        assert_int_equal(errno, EINTR);
}

static void hold(void)
{
    struct task *task = calloc(1, sizeof *task);
    task->run = wait_at_gate;
    the_lane->env.post(the_lane->env.worker, task);
}

static void let_go(void)
{
    assert_int_equal(sem_post(&gate), 0);
}

/* ---- a client: one end of a socket pair ---- */

static struct limits limits;
static struct worker *worker;

static bool describe(void *arg, struct buffer *body)
{
    (void)arg;
    return buffer_append(body, BYTES_LITERAL("\x80"));
}

static int set_up(void **state)
{
    (void)state;
    assert_int_equal(sem_init(&gate, 0, 0), 0);
    struct limits fresh = {.frame_max = FRAME_SIZE_MIN,
                           .requests_max = 1000,
                           .connection_requests_max = 100,
                           .request_timeout_us = 5000000,
                           .write_timeout_us = 5000000,
                           .memory_max = 64 << 20};
    limits = fresh;
    atomic_store(&reply_big, false);
    struct worker_options options = {
        .backend = &the_backend, .limits = &limits, .describe = describe};
    big_body[0] = 0xc6;
    big_body[2] = 1;
    return worker_create(&options, &worker) == STATUS_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    release_all();
    worker_drain(worker, clock_now_us());
    return worker_join(&worker, clock_now_us() + 5000000) ? 0 : -1;
}

static const struct wire_ops *the_wire = &wire_native;

static int open_client(void)
{
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    struct timeval patience = {.tv_sec = 5};
    assert_int_equal(setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience), 0);
    assert_int_equal(setsockopt(pair[0], SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience), 0);
    int small = 32 * 1024;
    (void)setsockopt(pair[1], SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
    atomic_fetch_add(&limits.connections, 1);
    assert_int_equal(fcntl(pair[1], F_SETFL, O_NONBLOCK), 0);
    worker_adopt(worker, pair[1], the_wire);
    return pair[0];
}

static void send_bytes(int fd, struct bytes bytes)
{
    for (size_t sent = 0; sent < bytes.size;) {
        ssize_t wrote = send(fd, bytes.data + sent, bytes.size - sent, MSG_NOSIGNAL);
        assert_true(wrote > 0);
        sent += (size_t)wrote;
    }
}

static void append_get(struct buffer *out, uint64_t id, const char *table)
{
    struct request request = {.operation = OPERATION_GET_ITEM,
                              .id = id,
                              .wants_verdict = true,
                              .table_name = bytes_text(table),
                              .key = BYTES_LITERAL("\x81\xa1p\x01")};
    assert_true(frame_write_request(&request, NULL, out));
}

static void hello(int fd)
{
    struct buffer out = {0};
    struct request request = {.operation = OPERATION_HELLO};
    struct frame_greeting greeting = {.version = NATIVE_VERSION};
    assert_true(frame_write_request(&request, &greeting, &out));
    send_bytes(fd, buffer_bytes(&out));
    buffer_deinit(&out);
}

static void get(int fd, uint64_t id, const char *table)
{
    struct buffer out = {0};
    append_get(&out, id, table);
    send_bytes(fd, buffer_bytes(&out));
    buffer_deinit(&out);
}

static void read_whole(int fd, uint8_t *into, size_t size)
{
    for (size_t had = 0; had < size;) {
        ssize_t got = recv(fd, into + had, size - had, 0);
        if (got <= 0)
            fail_msg("no reply: %s", got == 0 ? "closed" : strerror(errno));
        had += (size_t)got;
    }
}

/* The next reply; its body is valid until the next call. */
static struct frame_reply next_reply(int fd)
{
    static uint8_t frame[1 << 20];
    struct frame_reply reply;
    read_whole(fd, frame, FRAME_HEADER);
    size_t size = frame_size(frame);
    assert_true(size <= sizeof frame);
    read_whole(fd, frame + FRAME_HEADER, size - FRAME_HEADER);
    assert_int_equal(frame_read_reply(bytes_of(frame + FRAME_HEADER, size - FRAME_HEADER), &reply),
                     STATUS_OK);
    return reply;
}

static int greeted_client(void)
{
    int fd = open_client();
    hello(fd);
    assert_int_equal(next_reply(fd).status, STATUS_OK);
    return fd;
}

static void assert_closed(int fd)
{
    uint8_t byte;
    assert_int_equal(recv(fd, &byte, 1, 0), 0);
    (void)close(fd);
}

static void wait_for_pending(size_t count)
{
    for (int i = 0; i < 5000 && pending_now() != count; i++)
        (void)poll(NULL, 0, 1);
    assert_int_equal(pending_now(), count);
}

/* ---- what must hold ---- */

static void a_hit_is_answered_at_once_and_a_miss_does_not_hold_it_up(void **state)
{
    (void)state;
    int fd = greeted_client();
    get(fd, 1, "later");
    get(fd, 2, "now");
    get(fd, 3, "keep");
    struct frame_reply reply = next_reply(fd);
    assert_int_equal(reply.id, 2);
    assert_int_equal(reply.verdict, VERDICT_HIT);
    assert_int_equal(next_reply(fd).id, 3);
    wait_for_pending(1);
    release_all();
    assert_int_equal(next_reply(fd).id, 1);
    (void)close(fd);
}

static void a_frame_that_comes_byte_by_byte_is_served(void **state)
{
    (void)state;
    int fd = greeted_client();
    struct buffer out = {0};
    append_get(&out, 5, "now");
    for (size_t i = 0; i < out.size; i++)
        send_bytes(fd, bytes_of(out.data + i, 1));
    assert_int_equal(next_reply(fd).id, 5);
    buffer_deinit(&out);
    (void)close(fd);
}

static void thousands_of_pipelined_requests_are_all_answered(void **state)
{
    (void)state;
    int fd = greeted_client();
    struct buffer out = {0};
    for (uint64_t id = 0; id < 4000; id++)
        append_get(&out, id, "now");
    send_bytes(fd, buffer_bytes(&out));
    for (uint64_t id = 0; id < 4000; id++)
        assert_int_equal(next_reply(fd).id, id);
    buffer_deinit(&out);
    (void)close(fd);
}

static void replies_that_nobody_takes_stop_the_reading_and_go_on_later(void **state)
{
    (void)state;
    int fd = greeted_client();
    struct buffer out = {0};
    for (uint64_t id = 0; id < 200; id++)
        append_get(&out, id, "big");
    send_bytes(fd, buffer_bytes(&out)); /* asks for 13 MB and reads nothing yet */
    (void)poll(NULL, 0, 50);
    for (uint64_t id = 0; id < 200; id++) {
        struct frame_reply reply = next_reply(fd);
        assert_int_equal(reply.id, id);
        assert_int_equal(reply.body.size, sizeof big_body);
    }
    buffer_deinit(&out);
    (void)close(fd);
}

static void replies_that_fill_the_buffer_exactly_leave_nothing_to_go_on_with(void **state)
{
    (void)state;
    int fd = greeted_client();
    struct buffer out = {0};
    for (uint64_t id = 0; id < 16; id++) /* the last one is what makes them too many */
        append_get(&out, id, "big");
    send_bytes(fd, buffer_bytes(&out));
    for (uint64_t id = 0; id < 16; id++)
        assert_int_equal(next_reply(fd).id, id);
    get(fd, 17, "now");
    assert_int_equal(next_reply(fd).id, 17);
    buffer_deinit(&out);
    (void)close(fd);
}

static int tcp_client(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int much = 8 << 20;
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &much, sizeof much);
    assert_int_equal(bind(listening, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(listening, 1), 0);
    assert_int_equal(getsockname(listening, (struct sockaddr *)&address, &size), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, size), 0);
    int accepted = accept4(listening, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    assert_true(accepted >= 0);
    (void)close(listening);
    struct timeval patience = {.tv_sec = 5};
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience), 0);
    atomic_fetch_add(&limits.connections, 1);
    worker_adopt(worker, accepted, &wire_native);
    return fd;
}

/* Completions that fill the buffer, and then a request that must wait for them, in one turn; and a
 * socket that takes all at once, so that it never says that it is writable again. */
static void a_request_behind_many_completions_is_served_when_they_are_sent(void **state)
{
    (void)state;
    int fd = tcp_client();
    hello(fd);
    assert_int_equal(next_reply(fd).status, STATUS_OK);
    for (uint64_t id = 0; id < 200; id++) /* the socket's buffer grows with use */
        get(fd, id, "big");
    for (uint64_t id = 0; id < 200; id++)
        assert_int_equal(next_reply(fd).id, id);
    for (uint64_t id = 0; id < 20; id++)
        get(fd, id, "later");
    wait_for_pending(20);
    atomic_store(&reply_big, true);
    hold();
    (void)poll(NULL, 0, 20); /* it stands, and finds both when it goes on */
    uint64_t one = 1;
    assert_int_equal(write(the_lane->socket, &one, sizeof one), sizeof one);
    get(fd, 99, "now");
    let_go();
    for (uint64_t id = 0; id < 20; id++)
        assert_int_equal(next_reply(fd).body.size, sizeof big_body);
    assert_int_equal(next_reply(fd).id, 99);
    (void)close(fd);
}

static void one_that_takes_nothing_is_closed_after_the_write_timeout(void **state)
{
    (void)state;
    atomic_store(&limits.write_timeout_us, 50000);
    int fd = greeted_client();
    for (uint64_t id = 0; id < 20; id++)
        get(fd, id, "big");
    for (int i = 0; i < 5000 && atomic_load(&limits.connections) != 0; i++)
        (void)poll(NULL, 0, 1);
    assert_int_equal(atomic_load(&limits.connections), 0);
    (void)close(fd);
}

static void a_malformed_frame_closes_this_connection_only(void **state)
{
    (void)state;
    int good = greeted_client(), bad = greeted_client();
    send_bytes(bad, BYTES_LITERAL("\x00\x00\x00\x02\xc1\xc1"));
    struct frame_reply reply = next_reply(bad);
    assert_int_equal(reply.status, STATUS_MALFORMED);
    assert_closed(bad);
    get(good, 9, "now");
    assert_int_equal(next_reply(good).id, 9);
    (void)close(good);
}

static void a_frame_over_the_limit_is_refused_before_it_is_read(void **state)
{
    (void)state;
    int fd = greeted_client();
    send_bytes(fd, BYTES_LITERAL("\x7f\xff\xff\xff"));
    assert_int_equal(next_reply(fd).status, STATUS_TOO_LARGE);
    assert_closed(fd);
}

/* Its announcement is refused, and it goes on: closing would reset the connection, and what it was
 * told would be lost with it. */
static void what_is_sent_behind_a_refused_frame_does_not_reset_the_connection(void **state)
{
    (void)state;
    int fd = greeted_client();
    send_bytes(fd, BYTES_LITERAL("\x7f\xff\xff\xff"));
    assert_int_equal(next_reply(fd).status, STATUS_TOO_LARGE);
    for (int i = 0; i < 20; i++)
        send_bytes(fd, bytes_of(big_body, sizeof big_body));
    assert_int_equal(atomic_load(&limits.connections), 1);
    assert_closed(fd);
    for (int i = 0; i < 5000 && atomic_load(&limits.connections) != 0; i++)
        (void)poll(NULL, 0, 1);
    assert_int_equal(atomic_load(&limits.connections), 0);
}

static void who_never_stops_sending_behind_a_refused_frame_is_closed(void **state)
{
    (void)state;
    atomic_store(&limits.write_timeout_us, 50000);
    int fd = greeted_client();
    send_bytes(fd, BYTES_LITERAL("\x7f\xff\xff\xff"));
    uint64_t until_us = clock_now_us() + 5000000;
    while (atomic_load(&limits.connections) != 0 && clock_now_us() < until_us)
        (void)!send(fd, big_body, 1, MSG_NOSIGNAL);
    assert_int_equal(atomic_load(&limits.connections), 0);
    (void)close(fd);
}

static void requests_beyond_the_limit_are_throttled_at_once(void **state)
{
    (void)state;
    atomic_store(&limits.connection_requests_max, 3);
    int fd = greeted_client();
    for (uint64_t id = 0; id < 5; id++)
        get(fd, id, "later");
    for (uint64_t id = 3; id < 5; id++) {
        struct frame_reply reply = next_reply(fd);
        assert_int_equal(reply.id, id);
        assert_int_equal(reply.status, STATUS_THROTTLED);
    }
    get(fd, 7, "now"); /* hits do not count */
    assert_int_equal(next_reply(fd).status, STATUS_OK);
    release_all();
    for (uint64_t id = 0; id < 3; id++)
        assert_int_equal(next_reply(fd).status, STATUS_OK);
    (void)close(fd);
}

static void the_limit_over_all_connections_holds_too(void **state)
{
    (void)state;
    atomic_store(&limits.requests_max, 2);
    int first = greeted_client(), second = greeted_client();
    get(first, 1, "later");
    get(first, 2, "later");
    wait_for_pending(2);
    get(second, 3, "later");
    assert_int_equal(next_reply(second).status, STATUS_THROTTLED);
    release_all();
    assert_int_equal(next_reply(first).status, STATUS_OK);
    assert_int_equal(next_reply(first).status, STATUS_OK);
    (void)close(first);
    (void)close(second);
}

static void put(int fd, uint64_t id, size_t size)
{
    struct buffer out = {0}, item = {0};
    assert_true(buffer_append(&item, BYTES_LITERAL("\x82\xa1p\x01\xa1v\xc5")));
    uint8_t length[2] = {(uint8_t)(size >> 8), (uint8_t)size};
    assert_true(buffer_append(&item, bytes_of(length, 2)));
    assert_true(buffer_append(&item, bytes_of(big_body, size)));
    struct request request = {.operation = OPERATION_PUT_ITEM,
                              .id = id,
                              .table_name = BYTES_LITERAL("later"),
                              .item = buffer_bytes(&item)};
    assert_true(frame_write_request(&request, NULL, &out));
    send_bytes(fd, buffer_bytes(&out));
    buffer_deinit(&item);
    buffer_deinit(&out);
}

static void wait_for_memory(uint64_t least, uint64_t most)
{
    for (int i = 0;
         i < 5000 && (atomic_load(&limits.memory) < least || atomic_load(&limits.memory) > most);
         i++)
        (void)poll(NULL, 0, 1);
    assert_in_range(atomic_load(&limits.memory), least, most);
}

static void requests_beyond_the_memory_are_throttled_at_once(void **state)
{
    (void)state;
    atomic_store(&limits.memory_max, 400 << 10); /* 100 KiB a connection */
    int first = greeted_client(), second = greeted_client();
    for (uint64_t id = 0; id < 5; id++)
        put(first, id, 40000);
    for (uint64_t id = 2; id < 5; id++) {
        struct frame_reply reply = next_reply(first);
        assert_int_equal(reply.id, id);
        assert_int_equal(reply.status, STATUS_THROTTLED);
    }
    put(second, 7, 40000);
    wait_for_pending(3);
    wait_for_memory(3 * 40000, 3 * 44000);
    release_all();
    assert_int_equal(next_reply(first).status, STATUS_OK);
    assert_int_equal(next_reply(first).status, STATUS_OK);
    assert_int_equal(next_reply(second).status, STATUS_OK);
    (void)close(first);
    (void)close(second);
    wait_for_memory(0, 0);
}

static void pages_that_nobody_takes_are_throttled(void **state)
{
    (void)state;
    atomic_store(&limits.memory_max, 2 << 20); /* 512 KiB a connection */
    atomic_store(&reply_big, true);
    int fd = greeted_client();
    for (uint64_t id = 0; id < 50; id++)
        get(fd, id, "later");
    wait_for_pending(50);
    release_all();
    for (int i = 0; i < 5000 && atomic_load(&limits.requests) != 0; i++)
        (void)poll(NULL, 0, 1);
    assert_true(atomic_load(&limits.memory) <= 512 << 10);
    int served = 0, throttled = 0;
    for (uint64_t id = 0; id < 50; id++) {
        struct frame_reply reply = next_reply(fd);
        served += reply.status == STATUS_OK && reply.body.size == sizeof big_body;
        throttled += reply.status == STATUS_THROTTLED;
    }
    assert_true(served >= 3);
    assert_int_equal(served + throttled, 50);
    (void)close(fd);
    wait_for_memory(0, 0);
}

static void one_that_never_takes_everything_does_not_make_the_buffer_grow(void **state)
{
    (void)state;
    int fd = greeted_client();
    for (uint64_t id = 0; id < 4; id++)
        get(fd, id, "big");
    for (uint64_t id = 4; id < 200; id++) {
        assert_int_equal(next_reply(fd).id, id - 4);
        get(fd, id, "big");
        assert_true(atomic_load(&limits.memory) <= 1 << 20);
    }
    (void)close(fd);
}

static void frames_that_have_not_come_whole_have_a_limit(void **state)
{
    (void)state;
    atomic_store(&limits.frame_max, 1 << 20);
    /* More than one such frame can take, its buffer rounded up; less than two of them take. */
    atomic_store(&limits.memory_max, 1100 << 10);
    int first = greeted_client(), second = greeted_client();
    static uint8_t part[1000000] = {0, 0x0f, 0xff, 0};
    size_t begun = 300000;
    send_bytes(first, bytes_of(part, begun));
    for (int i = 0; i < 5000 && atomic_load(&limits.frames) < begun; i++)
        (void)poll(NULL, 0, 1);
    for (size_t sent = 0; sent < sizeof part; sent += 1000) /* until it is closed */
        if (send(second, part + sent, 1000, MSG_NOSIGNAL) < 0)
            break;
    struct pollfd closing = {.fd = second, .events = POLLIN};
    for (int i = 0; i < 5000 && poll(&closing, 1, 1) == 0; i++) /* told with its next read */
        (void)send(second, part, 1, MSG_NOSIGNAL);
    uint8_t byte;
    ssize_t got = recv(second, &byte, 1, 0);
    assert_true(got == 0 || (got < 0 && errno == ECONNRESET));
    get(first, 1, "now"); /* lies inside the frame */
    assert_int_equal(recv(first, &byte, 1, MSG_DONTWAIT), -1);
    (void)close(first);
    (void)close(second);
}

static void a_deadline_is_answered_and_the_late_completion_is_swallowed(void **state)
{
    (void)state;
    int fd = greeted_client();
    struct buffer out = {0};
    struct request request = {.operation = OPERATION_DELETE_ITEM,
                              .id = 1,
                              .timeout_ms = 20,
                              .table_name = BYTES_LITERAL("later"),
                              .key = BYTES_LITERAL("\x81\xa1p\x01")};
    assert_true(frame_write_request(&request, NULL, &out));
    send_bytes(fd, buffer_bytes(&out));
    struct frame_reply reply = next_reply(fd);
    assert_int_equal(reply.status, STATUS_TIMEOUT);
    assert_non_null(memmem(reply.body.data, reply.body.size, "may or may not", 14));
    assert_int_equal(pending_now(), 1);
    release_all();
    get(fd, 2, "now");
    assert_int_equal(next_reply(fd).id, 2);
    for (int i = 0; i < 5000 && atomic_load(&limits.requests) != 0; i++)
        (void)poll(NULL, 0, 1);
    assert_int_equal(atomic_load(&limits.requests), 0);
    buffer_deinit(&out);
    (void)close(fd);
}

static void a_deadline_is_never_early(void **state)
{
    (void)state;
    int fd = greeted_client();
    struct request request = {.operation = OPERATION_GET_ITEM,
                              .timeout_ms = 20,
                              .table_name = BYTES_LITERAL("later"),
                              .key = BYTES_LITERAL("\x81\xa1p\x01")};
    for (uint64_t i = 0; i < 15; i++) {
        struct buffer out = {0};
        assert_true(frame_write_request(&request, NULL, &out));
        uint64_t begun_us = clock_now_us() + 300 * i; /* anywhere between two ticks */
        while (clock_now_us() < begun_us)
            continue;
        send_bytes(fd, buffer_bytes(&out));
        assert_int_equal(next_reply(fd).status, STATUS_TIMEOUT);
        assert_true(clock_now_us() >= begun_us + 20000);
        buffer_deinit(&out);
    }
    release_all();
    (void)close(fd);
}

static void a_client_that_leaves_early_harms_nobody(void **state)
{
    (void)state;
    int leaver = greeted_client(), stayer = greeted_client();
    get(leaver, 1, "later");
    wait_for_pending(1);
    (void)close(leaver);
    get(stayer, 2, "now");
    assert_int_equal(next_reply(stayer).id, 2);
    release_all();
    get(stayer, 3, "now");
    assert_int_equal(next_reply(stayer).id, 3);
    (void)close(stayer);
}

static void a_drain_finishes_what_is_in_flight_and_closes_the_idle(void **state)
{
    (void)state;
    int idle = greeted_client(), busy = greeted_client();
    get(busy, 1, "later");
    wait_for_pending(1);
    worker_drain(worker, clock_now_us() + 5000000);
    assert_closed(idle);
    release_all();
    assert_int_equal(next_reply(busy).id, 1);
    assert_closed(busy);
    assert_true(worker_join(&worker, clock_now_us() + 5000000));
    assert_int_equal(set_up(state), 0); /* for tear_down */
}

static void replies_without_ids_come_in_the_order_of_requests(void **state)
{
    (void)state;
    static struct wire_ops in_order; /* outlives the connection */
    in_order = wire_native;
    in_order.in_order = true;
    the_wire = &in_order;
    int fd = greeted_client();
    the_wire = &wire_native;
    for (uint64_t id = 1; id <= 30; id++)
        get(fd, id, id % 3 == 0 ? "later" : id % 3 == 1 ? "now" : "keep");
    for (uint64_t id = 1; id <= 30; id++) {
        if (id % 3 == 0) { /* nothing behind it is begun */
            wait_for_pending(1);
            release_all();
        }
        assert_int_equal(next_reply(fd).id, id);
    }
    (void)close(fd);
}

/* As a wire that has no memory when it is asked again, and says so. */
static enum wire_result decode_in_passing_only(struct wire_session *session, struct bytes input,
                                               struct arena *arena, struct request *request,
                                               size_t *used, size_t *needed, struct buffer *out)
{
    enum wire_result result = wire_native.decode(session, input, arena, request, used, needed, out);
    bool is_kept = result == WIRE_REQUEST && arena != &worker->arena;
    if (!is_kept || !bytes_equal(request->table_name, BYTES_LITERAL("keep")))
        return result;
    assert_true(buffer_append(out, BYTES_LITERAL("no memory")));
    return WIRE_ANSWERED;
}

static void a_request_that_cannot_be_decoded_again_is_refused(void **state)
{
    (void)state;
    static struct wire_ops forgetful; /* outlives the connection */
    forgetful = wire_native;
    forgetful.decode = decode_in_passing_only;
    the_wire = &forgetful;
    int fd = greeted_client();
    the_wire = &wire_native;
    hold();
    get(fd, 1, "now");
    get(fd, 2, "keep");
    get(fd, 3, "now");
    let_go();
    for (uint64_t id = 1; id <= 3; id++) {
        struct frame_reply reply = next_reply(fd);
        assert_int_equal(reply.id, id);
        assert_int_equal(reply.status, id == 2 ? STATUS_NO_MEMORY : STATUS_OK);
    }
    (void)close(fd);
}

static void who_has_said_everything_still_gets_every_reply(void **state)
{
    (void)state;
    int fd = greeted_client();
    get(fd, 1, "later");
    get(fd, 2, "now");
    assert_int_equal(shutdown(fd, SHUT_WR), 0);
    assert_int_equal(next_reply(fd).id, 2);
    wait_for_pending(1);
    release_all();
    assert_int_equal(next_reply(fd).id, 1);
    assert_closed(fd);
}

/* A GetItem of "now" whose frame takes 256 bytes. */
static void append_long_get(struct buffer *out)
{
    enum { FRAME = 256, KEY_HEAD = 5 };
    uint8_t key[FRAME] = "\x81\xa1p\xd9";
    struct request request = {
        .operation = OPERATION_GET_ITEM, .id = 1, .table_name = BYTES_LITERAL("now")};
    request.key = bytes_of(key, KEY_HEAD + 200);
    key[KEY_HEAD - 1] = 200;
    struct buffer probe = {0};
    assert_true(frame_write_request(&request, NULL, &probe));
    request.key.size += FRAME - probe.size;
    key[KEY_HEAD - 1] = (uint8_t)(request.key.size - KEY_HEAD);
    buffer_deinit(&probe);
    assert_true(frame_write_request(&request, NULL, out));
}

/* Epoll tells once of all that came while the worker was busy, and what one read takes ends where a
 * frame does. */
static void more_than_one_read_takes_is_served_without_being_told_again(void **state)
{
    (void)state;
    enum { GETS = 300 };
    int fd = greeted_client();
    struct buffer out = {0};
    for (int i = 0; i < GETS; i++)
        append_long_get(&out);
    assert_int_equal(WORKER_READ_SIZE % (out.size / GETS), 0);
    assert_true(out.size > WORKER_READ_SIZE);
    hold();
    send_bytes(fd, buffer_bytes(&out));
    let_go();
    for (int i = 0; i < GETS; i++)
        assert_int_equal(next_reply(fd).id, 1);
    buffer_deinit(&out);
    (void)close(fd);
}

static void the_end_that_comes_with_the_last_request_is_seen(void **state)
{
    (void)state;
    int fd = greeted_client();
    hold();
    get(fd, 1, "now");
    assert_int_equal(shutdown(fd, SHUT_WR), 0);
    let_go();
    assert_int_equal(next_reply(fd).id, 1);
    assert_closed(fd);
}

/* Both ends of a TCP connection over loopback; the worker gets one. */
static int open_tcp_client(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t size = sizeof address;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &size), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    int theirs = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    assert_true(theirs >= 0);
    (void)close(listener);
    atomic_fetch_add(&limits.connections, 1);
    worker_adopt(worker, theirs, the_wire);
    return fd;
}

static void a_reset_behind_half_a_frame_is_seen(void **state)
{
    (void)state;
    int fd = open_tcp_client();
    hello(fd);
    assert_int_equal(next_reply(fd).status, STATUS_OK);
    hold();
    send_bytes(fd, bytes_of("\0\0", 2));
    struct linger at_once = {.l_onoff = 1};
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once), 0);
    (void)close(fd);
    let_go();
    for (int i = 0; i < 5000 && atomic_load(&limits.connections) != 0; i++)
        (void)poll(NULL, 0, 1);
    assert_int_equal(atomic_load(&limits.connections), 0);
}

static void idle_connections_are_closed_only_if_asked_for(void **state)
{
    (void)state;
    int kept = greeted_client();
    atomic_store(&limits.idle_timeout_us, 30000);
    int closed = greeted_client();
    assert_closed(closed);
    get(kept, 1, "now");
    assert_int_equal(next_reply(kept).id, 1);
    (void)close(kept);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_hit_is_answered_at_once_and_a_miss_does_not_hold_it_up),
        TEST(a_frame_that_comes_byte_by_byte_is_served),
        TEST(thousands_of_pipelined_requests_are_all_answered),
        TEST(replies_that_nobody_takes_stop_the_reading_and_go_on_later),
        TEST(replies_that_fill_the_buffer_exactly_leave_nothing_to_go_on_with),
        TEST(a_request_behind_many_completions_is_served_when_they_are_sent),
        TEST(one_that_takes_nothing_is_closed_after_the_write_timeout),
        TEST(a_malformed_frame_closes_this_connection_only),
        TEST(a_frame_over_the_limit_is_refused_before_it_is_read),
        TEST(what_is_sent_behind_a_refused_frame_does_not_reset_the_connection),
        TEST(who_never_stops_sending_behind_a_refused_frame_is_closed),
        TEST(requests_beyond_the_limit_are_throttled_at_once),
        TEST(the_limit_over_all_connections_holds_too),
        TEST(requests_beyond_the_memory_are_throttled_at_once),
        TEST(pages_that_nobody_takes_are_throttled),
        TEST(one_that_never_takes_everything_does_not_make_the_buffer_grow),
        TEST(frames_that_have_not_come_whole_have_a_limit),
        TEST(a_deadline_is_answered_and_the_late_completion_is_swallowed),
        TEST(a_deadline_is_never_early),
        TEST(a_client_that_leaves_early_harms_nobody),
        TEST(a_drain_finishes_what_is_in_flight_and_closes_the_idle),
        TEST(replies_without_ids_come_in_the_order_of_requests),
        TEST(a_request_that_cannot_be_decoded_again_is_refused),
        TEST(who_has_said_everything_still_gets_every_reply),
        TEST(more_than_one_read_takes_is_served_without_being_told_again),
        TEST(the_end_that_comes_with_the_last_request_is_seen),
        TEST(a_reset_behind_half_a_frame_is_seen),
        TEST(idle_connections_are_closed_only_if_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
