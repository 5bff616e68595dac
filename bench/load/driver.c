#include "bench/load/driver.h"

#include "bench/load/process.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

enum { READ_SIZE = 64 * 1024, PROGRESS_NS = 500000000 };

struct slot {
    uint64_t key, asked_ns, id;
    bool is_taken;
};

struct connection {
    int fd;
    struct slot *slots; /* one a request in flight */
    unsigned *free;     /* stack of free slots */
    uint64_t *order;    /* ring of ids, for protocols that answer in order */
    unsigned free_count, first, in_flight;
    struct buffer in, out;
};

struct drive {
    struct target *target;
    const struct point *point;
    struct result *result;
    struct keys keys;
    struct connection *connections;
    uint64_t asked, most, end_ns, shown_ns, begun_ns;
};

static void open_connection(struct drive *drive, struct connection *connection)
{
    unsigned depth = drive->point->depth;
    *connection = (struct connection){.fd = connect_to(drive->target->path, drive->target->port)};
    connection->slots = calloc(depth, sizeof *connection->slots);
    connection->free = calloc(depth, sizeof *connection->free);
    connection->order = calloc(depth, sizeof *connection->order);
    if (connection->slots == NULL || connection->free == NULL || connection->order == NULL)
        die("out of memory");
    for (unsigned i = 0; i < depth; i++)
        connection->free[connection->free_count++] = i;
    if (drive->target->ops->greet != NULL)
        drive->target->ops->greet(drive->target, connection->fd);
}

static void close_connection(struct connection *connection)
{
    (void)close(connection->fd);
    free(connection->slots);
    free(connection->free);
    free(connection->order);
    buffer_deinit(&connection->in);
    buffer_deinit(&connection->out);
}

static void ask_one(struct drive *drive, struct connection *connection)
{
    unsigned depth = drive->point->depth, slot = connection->free[--connection->free_count];
    uint64_t key = drive->point->is_sequential ? drive->asked : keys_next(&drive->keys);
    uint64_t id = drive->asked * depth + slot;
    connection->slots[slot] = (struct slot){.key = key, .id = id, .is_taken = true};
    connection->order[(connection->first + connection->in_flight) % depth] = id;
    connection->in_flight++;
    drive->asked++;
    drive->target->ops->ask(drive->target, drive->point->work, key, id, &connection->out);
}

static void send_all(struct connection *connection)
{
    for (size_t sent = 0; sent < connection->out.size;) {
        ssize_t wrote =
            write(connection->fd, connection->out.data + sent, connection->out.size - sent);
        if (wrote < 0 && errno != EINTR)
            die("write: %s", strerror(errno));
        sent += wrote > 0 ? (size_t)wrote : 0;
    }
    connection->out.size = 0;
}

static bool wants_more(const struct drive *drive, uint64_t now)
{
    return drive->asked < drive->most && (drive->end_ns == 0 || now < drive->end_ns);
}

static void fill(struct drive *drive, struct connection *connection, uint64_t now)
{
    unsigned depth = drive->point->depth, before = connection->in_flight;
    while (connection->free_count > 0 && wants_more(drive, now))
        ask_one(drive, connection);
    /* From here: what the harness itself takes to check replies and to make requests differs from
     * server to server, and is no server's latency. */
    now = now_ns();
    for (unsigned i = before; i < connection->in_flight; i++)
        connection->slots[connection->order[(connection->first + i) % depth] % depth].asked_ns =
            now;
    send_all(connection);
}

/* Takes one whole reply; false when there is none. */
static bool take_reply(struct drive *drive, struct connection *connection, struct bytes *rest,
                       uint64_t now)
{
    unsigned depth = drive->point->depth;
    uint64_t id = connection->order[connection->first];
    size_t size = drive->target->ops->reply(drive->target, *rest, &id);
    if (size == 0)
        return false;
    unsigned slot = (unsigned)(id % depth);
    struct slot *asked = &connection->slots[slot];
    if (!asked->is_taken || asked->id != id)
        die("%s: a reply to nothing", drive->target->name);
    if (!drive->target->ops->is_right(drive->target, drive->point->work, asked->key,
                                      bytes_of(rest->data, size)))
        die("%s: wrong reply for key %llu", drive->target->name, (unsigned long long)asked->key);
    histogram_add(&drive->result->latency, now - asked->asked_ns);
    asked->is_taken = false;
    connection->free[connection->free_count++] = slot;
    connection->first = (connection->first + 1) % depth;
    connection->in_flight--;
    drive->result->operations++;
    *rest = bytes_of(rest->data + size, rest->size - size);
    return true;
}

static uint64_t receive(struct drive *drive, struct connection *connection)
{
    struct buffer *in = &connection->in;
    if (!buffer_reserve(in, READ_SIZE))
        die("out of memory");
    ssize_t got = read(connection->fd, in->data + in->size, in->capacity - in->size);
    if (got <= 0)
        die("%s: connection lost: %s", drive->target->name, got == 0 ? "closed" : strerror(errno));
    in->size += (size_t)got;
    uint64_t now = now_ns();
    struct bytes rest = buffer_bytes(in);
    while (connection->in_flight > 0 && take_reply(drive, connection, &rest, now))
        ;
    memmove(in->data, rest.data, rest.size);
    in->size = rest.size;
    return now;
}

static void show_progress(struct drive *drive, uint64_t now)
{
    if (!drive->point->shows_progress || now - drive->shown_ns < PROGRESS_NS)
        return;
    drive->shown_ns = now;
    (void)fprintf(stderr, "\r%-10s %12llu operations, %.1f s ", drive->target->name,
                  (unsigned long long)drive->result->operations,
                  (double)(now - drive->begun_ns) / 1e9);
}

/* One connection: a blocking read is what a blocking client does. */
static void loop_one(struct drive *drive)
{
    struct connection *connection = &drive->connections[0];
    while (connection->in_flight > 0) {
        uint64_t now = receive(drive, connection);
        fill(drive, connection, now);
        show_progress(drive, now);
    }
}

static void loop_many(struct drive *drive)
{
    int poll_fd = epoll_create1(EPOLL_CLOEXEC);
    for (unsigned i = 0; i < drive->point->connections; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.u32 = i};
        if (epoll_ctl(poll_fd, EPOLL_CTL_ADD, drive->connections[i].fd, &event) != 0)
            die("epoll_ctl: %s", strerror(errno));
    }
    for (uint64_t in_flight = 1; in_flight > 0;) {
        struct epoll_event events[64];
        int count = epoll_wait(poll_fd, events, 64, 10000);
        if (count == 0)
            die("%s: no reply for 10 s", drive->target->name);
        uint64_t now = 0;
        for (int i = 0; i < count; i++) {
            struct connection *connection = &drive->connections[events[i].data.u32];
            now = receive(drive, connection);
            fill(drive, connection, now);
        }
        show_progress(drive, now);
        in_flight = 0;
        for (unsigned i = 0; i < drive->point->connections; i++)
            in_flight += drive->connections[i].in_flight;
    }
    (void)close(poll_fd);
}

void drive(struct target *target, const struct point *point, uint64_t seed, struct result *result)
{
    struct drive drive = {.target = target, .point = point, .result = result};
    result->operations = 0;
    histogram_clear(&result->latency);
    target->hits = target->misses = 0;
    keys_init(&drive.keys, target->shape->items, point->theta, seed);
    drive.connections = calloc(point->connections, sizeof *drive.connections);
    if (drive.connections == NULL)
        die("out of memory");
    for (unsigned i = 0; i < point->connections; i++)
        open_connection(&drive, &drive.connections[i]);
    uint64_t cpu = process_cpu_ns(target->pid);
    drive.begun_ns = drive.shown_ns = now_ns();
    drive.most = point->operations != 0 ? point->operations : UINT64_MAX;
    drive.end_ns = point->seconds > 0 ? drive.begun_ns + (uint64_t)(point->seconds * 1e9) : 0;
    for (unsigned i = 0; i < point->connections; i++)
        fill(&drive, &drive.connections[i], drive.begun_ns);
    if (point->connections == 1)
        loop_one(&drive);
    else
        loop_many(&drive);
    result->seconds = (double)(now_ns() - drive.begun_ns) / 1e9;
    uint64_t used = target->pid == 0 ? 0 : process_cpu_ns(target->pid) - cpu;
    result->server_cpu_ns = (double)used / (double)result->operations;
    result->hits = target->hits;
    result->misses = target->misses;
    if (point->shows_progress)
        (void)fprintf(stderr, "\r%60s\r", "");
    for (unsigned i = 0; i < point->connections; i++)
        close_connection(&drive.connections[i]);
    free(drive.connections);
}

void measure_sizes(struct target *target, enum work work, size_t *request, size_t *reply)
{
    int fd = connect_to(target->path, target->port);
    if (target->ops->greet != NULL)
        target->ops->greet(target, fd);
    struct buffer out = {0}, in = {0};
    uint64_t id = 1;
    target->ops->ask(target, work, 0, id, &out);
    *request = out.size;
    if (write(fd, out.data, out.size) != (ssize_t)out.size)
        die("write: %s", strerror(errno));
    while ((*reply = target->ops->reply(target, buffer_bytes(&in), &id)) == 0) {
        if (!buffer_reserve(&in, READ_SIZE))
            die("out of memory");
        ssize_t got = read(fd, in.data + in.size, in.capacity - in.size);
        if (got <= 0)
            die("%s: connection lost", target->name);
        in.size += (size_t)got;
    }
    buffer_deinit(&out);
    buffer_deinit(&in);
    (void)close(fd);
}
