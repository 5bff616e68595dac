/* memcached's meta commands and Redis's protocol. */
#include "bench/load/process.h"
#include "bench/load/target.h"

#include <stdio.h>
#include <stdlib.h>

static void put(struct buffer *out, const void *data, size_t size)
{
    if (!buffer_append(out, bytes_of(data, size)))
        die("out of memory");
}

static bool is_write(enum work work, uint64_t id)
{
    return work == WORK_LOAD || work == WORK_WRITE || (work == WORK_MIXED && id % 20 == 0);
}

static void put_value(struct target *target, uint64_t key, struct buffer *out)
{
    size_t size = target->shape->value_size;
    if (!buffer_reserve(out, size))
        die("out of memory");
    value_text(key, out->data + out->size, size);
    out->size += size;
}

/* Length of the first line with its CR LF, 0 if it is incomplete. */
static size_t line_size(struct bytes in)
{
    const uint8_t *end = in.size == 0 ? NULL : memchr(in.data, '\n', in.size);
    return end == NULL ? 0 : (size_t)(end - in.data) + 1;
}

/* A line that announces `digits` bytes of data, then the data and CR LF. */
static size_t counted_reply(struct bytes in, size_t line, const uint8_t *digits)
{
    size_t whole = line + strtoul((const char *)digits, NULL, 10) + 2;
    return in.size >= whole ? whole : 0;
}

static bool holds_value(struct target *target, uint64_t key, struct bytes reply)
{
    size_t size = target->shape->value_size;
    uint8_t head[32];
    size_t compared = size < sizeof head ? size : sizeof head;
    size_t line = line_size(reply);
    value_text(key, head, compared);
    return reply.size == line + size + 2 && memcmp(reply.data + line, head, compared) == 0;
}

static bool is_right(struct target *target, enum work work, uint64_t key, struct bytes reply)
{
    bool is_value = reply.data[0] == 'V' || reply.data[0] == '$';
    if (!is_value)
        return work != WORK_READ && work != WORK_QUERY;
    return holds_value(target, key, reply);
}

static void memcached_ask(struct target *target, enum work work, uint64_t key, uint64_t id,
                          struct buffer *out)
{
    char line[96] = "mg ", name[KEY_SIZE + 1];
    if (!is_write(work, id)) {
        key_text(key, line + 3);
        memcpy(line + 3 + KEY_SIZE, " v\r\n", 4);
        put(out, line, 3 + KEY_SIZE + 4);
        return;
    }
    key_text(key, name);
    put(out, line,
        (size_t)snprintf(line, sizeof line, "ms %s %zu\r\n", name, target->shape->value_size));
    put_value(target, key, out);
    put(out, "\r\n", 2);
}

static size_t memcached_reply(struct target *target, struct bytes in, uint64_t *id)
{
    (void)target;
    (void)id;
    size_t line = line_size(in);
    if (line == 0)
        return 0;
    if (in.size >= 3 && memcmp(in.data, "VA ", 3) == 0)
        return counted_reply(in, line, in.data + 3);
    if (memcmp(in.data, "HD", 2) != 0)
        die("memcached: unexpected reply %.*s", (int)line, (const char *)in.data);
    return line;
}

static void redis_ask(struct target *target, enum work work, uint64_t key, uint64_t id,
                      struct buffer *out)
{
    char line[128], name[KEY_SIZE + 1];
    key_text(key, name);
    if (!is_write(work, id)) {
        put(out, line,
            (size_t)snprintf(line, sizeof line, "*2\r\n$3\r\nGET\r\n$%d\r\n%s\r\n", KEY_SIZE,
                             name));
        return;
    }
    put(out, line,
        (size_t)snprintf(line, sizeof line, "*3\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$%zu\r\n", KEY_SIZE,
                         name, target->shape->value_size));
    put_value(target, key, out);
    put(out, "\r\n", 2);
}

static size_t redis_reply(struct target *target, struct bytes in, uint64_t *id)
{
    (void)target;
    (void)id;
    size_t line = line_size(in);
    if (line == 0)
        return 0;
    if (in.data[0] == '$' && in.data[1] != '-')
        return counted_reply(in, line, in.data + 1);
    if (in.data[0] != '+')
        die("redis: unexpected reply %.*s", (int)line, (const char *)in.data);
    return line;
}

const struct target_ops target_memcached = {
    .ask = memcached_ask, .reply = memcached_reply, .is_right = is_right};
const struct target_ops target_redis = {
    .ask = redis_ask, .reply = redis_reply, .is_right = is_right};
