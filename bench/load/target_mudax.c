/* mudax's native protocol, by the frames of protocol/native. */
#include "bench/load/process.h"
#include "bench/load/target.h"
#include "protocol/encoding/msgpack.h"
#include "protocol/native/frame.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

/* Added to every id, so that all have the same width; even, for is_write(). */
static const uint64_t ID_BASE = 20ull << 32;

static const char *const table_names[] = {"bench", "bench_pages"};

static bool is_write(enum work work, uint64_t id)
{
    return work == WORK_LOAD || work == WORK_WRITE || (work == WORK_MIXED && id % 20 == 0);
}

/* Queries have a table of their own: `partition_items` items a partition. */
static bool has_pages(const struct target *target)
{
    return target->shape->partition_items > 1;
}

void key_text(uint64_t key, char out[KEY_SIZE + 1])
{
    memcpy(out, "user:0000000000000000000", KEY_SIZE + 1);
    for (int at = KEY_SIZE - 1; key != 0; at--, key /= 10)
        out[at] = (char)('0' + key % 10);
}

void value_text(uint64_t key, uint8_t *out, size_t size)
{
    for (size_t at = 0; at < size; at++)
        out[at] = (uint8_t)('a' + (key + at) % 26);
}

static uint8_t *put_text(uint8_t *at, const void *data, size_t size)
{
    if (size < 32) {
        *at++ = (uint8_t)(0xa0 | size);
    } else if (size <= UINT8_MAX) {
        *at++ = 0xd9;
        *at++ = (uint8_t)size;
    } else {
        *at++ = 0xdb;
        for (int octet = 3; octet >= 0; octet--)
            *at++ = (uint8_t)(size >> (8 * octet));
    }
    if (data != NULL)
        memcpy(at, data, size);
    return at + size;
}

/* The partition key (and sort key) of an item, as the attributes of a map. */
static uint8_t *put_key(struct target *target, uint8_t *at, uint64_t key)
{
    char text[KEY_SIZE + 1];
    uint32_t width = target->shape->partition_items;
    key_text(has_pages(target) ? key / width : key, text);
    at = put_text(put_text(at, "p", 1), text, KEY_SIZE);
    if (has_pages(target)) {
        key_text(key % width, text);
        at = put_text(put_text(at, "s", 1), text, KEY_SIZE);
    }
    return at;
}

static void write_frame(const struct request *request, const struct frame_greeting *greeting,
                        struct buffer *out)
{
    if (!frame_write_request(request, greeting, out))
        die("out of memory");
}

static void ask_item(struct target *target, uint64_t key, struct request *request,
                     struct buffer *out)
{
    static uint8_t item[512 * 1024];
    uint8_t *at = item;
    *at++ = has_pages(target) ? 0x83 : 0x82;
    at = put_key(target, at, key);
    at = put_text(at, "v", 1);
    uint8_t *value = put_text(at, NULL, target->shape->value_size);
    value_text(key, value - target->shape->value_size, target->shape->value_size);
    request->operation = OPERATION_PUT_ITEM;
    request->item = bytes_of(item, (size_t)(value - item));
    write_frame(request, NULL, out);
}

static void ask_query(struct target *target, uint64_t key, struct request *request,
                      struct buffer *out)
{
    uint8_t values[64], *at = values;
    char text[KEY_SIZE + 1];
    key_text(key / target->shape->partition_items, text);
    *at++ = 0x81;
    at = put_text(put_text(at, ":p", 2), text, KEY_SIZE);
    request->operation = OPERATION_QUERY;
    request->key_condition.text = BYTES_LITERAL("p = :p");
    request->key_condition.values = bytes_of(values, (size_t)(at - values));
    write_frame(request, NULL, out);
}

/* A GetItem is the most frequent request: made once, then patched, so that the client's own work
 * does not hide the server's. Ids of a fixed width make that possible. */
static bool ask_patched(struct target *target, uint64_t key, uint64_t id, struct buffer *out)
{
    enum { ID_AT = FRAME_HEADER + 2 };
    struct buffer *made = &target->made;
    if (made->size == 0 || id < UINT32_MAX || has_pages(target))
        return false;
    if (!buffer_append(out, buffer_bytes(made)))
        die("out of memory");
    uint8_t *frame = out->data + out->size - made->size;
    char text[KEY_SIZE + 1];
    key_text(key, text);
    memcpy(frame + target->made_key_at, text, KEY_SIZE);
    for (int octet = 0; octet < 8; octet++)
        frame[ID_AT + 1 + octet] = (uint8_t)(id >> (8 * (7 - octet)));
    return true;
}

static void keep_made(struct target *target, uint64_t id, struct bytes frame)
{
    const uint8_t *key = memmem(frame.data, frame.size, "user:", 5);
    if (id < UINT32_MAX || key == NULL)
        return;
    target->made.size = 0;
    target->made_key_at = (size_t)(key - frame.data);
    if (!buffer_append(&target->made, frame))
        die("out of memory");
}

static void ask(struct target *target, enum work work, uint64_t key, uint64_t id,
                struct buffer *out)
{
    id += ID_BASE;
    if (!is_write(work, id) && work != WORK_QUERY && ask_patched(target, key, id, out))
        return;
    struct request request = {.id = id,
                              .is_consistent = target->shape->is_consistent,
                              .wants_verdict = true,
                              .table_name = bytes_text(table_names[has_pages(target)])};
    if (is_write(work, id)) {
        request.wants_verdict = request.is_consistent = false;
        ask_item(target, key, &request, out);
    } else if (work == WORK_QUERY) {
        ask_query(target, key, &request, out);
    } else {
        uint8_t map[96];
        map[0] = has_pages(target) ? 0x82 : 0x81;
        uint8_t *end = put_key(target, map + 1, key);
        request.operation = OPERATION_GET_ITEM;
        request.key = bytes_of(map, (size_t)(end - map));
        size_t before = out->size;
        write_frame(&request, NULL, out);
        keep_made(target, id, bytes_of(out->data + before, out->size - before));
    }
}

static size_t reply(struct target *target, struct bytes in, uint64_t *id)
{
    if (in.size < FRAME_HEADER || in.size < frame_size(in.data))
        return 0;
    size_t size = frame_size(in.data);
    struct frame_reply taken;
    if (frame_read_reply(bytes_of(in.data + FRAME_HEADER, size - FRAME_HEADER), &taken) !=
        STATUS_OK)
        die("mudax: malformed reply");
    if (taken.status != STATUS_OK)
        die("mudax: %s: %.*s", status_name(taken.status), (int)taken.body.size,
            (const char *)taken.body.data);
    *id = taken.id - ID_BASE;
    target->hits += taken.verdict == VERDICT_HIT;
    target->misses += taken.verdict == VERDICT_MISS;
    return size;
}

static bool is_right(struct target *target, enum work work, uint64_t key, struct bytes bytes)
{
    struct frame_reply taken;
    char text[KEY_SIZE + 1];
    uint8_t expected[KEY_SIZE + 8];
    if (frame_read_reply(bytes_of(bytes.data + FRAME_HEADER, bytes.size - FRAME_HEADER), &taken) !=
        STATUS_OK)
        return false;
    if (taken.body.data[0] == 0xc0)
        return work != WORK_READ && work != WORK_QUERY;
    key_text(has_pages(target) ? key / target->shape->partition_items : key, text);
    size_t size = (size_t)(put_text(put_text(expected, "p", 1), text, KEY_SIZE) - expected);
    size_t offset = 1; /* behind the head of the map */
    if (work == WORK_QUERY)
        offset += target->shape->partition_items < 16 ? 2 : 4; /* heads of page and items */
    return taken.body.size > offset + size && memcmp(taken.body.data + offset, expected, size) == 0;
}

/* One request and its reply on a blocking socket. `ignored` is a status that is fine too. */
static void call(int fd, const struct request *request, const struct frame_greeting *greeting,
                 enum status ignored)
{
    struct buffer out = {0};
    write_frame(request, greeting, &out);
    if (write(fd, out.data, out.size) != (ssize_t)out.size)
        die("mudax: write: %s", strerror(errno));
    buffer_deinit(&out);
    uint8_t in[4096];
    size_t size = 0;
    while (size < FRAME_HEADER || size < frame_size(in)) {
        ssize_t got = read(fd, in + size, sizeof in - size);
        if (got <= 0)
            die("mudax: connection lost while preparing");
        size += (size_t)got;
    }
    struct frame_reply taken;
    if (frame_read_reply(bytes_of(in + FRAME_HEADER, size - FRAME_HEADER), &taken) != STATUS_OK ||
        (taken.status != STATUS_OK && taken.status != ignored))
        die("mudax: %.*s", (int)taken.body.size, (const char *)taken.body.data);
}

static void greet(struct target *target, int fd)
{
    (void)target;
    struct frame_greeting greeting = {.version = NATIVE_VERSION,
                                      .peer = BYTES_LITERAL("mudax-bench")};
    struct request request = {.operation = OPERATION_HELLO};
    call(fd, &request, &greeting, STATUS_OK);
}

static struct value text_value(const char *text)
{
    return (struct value){.type = VALUE_S, .bytes = bytes_text(text)};
}

/* {name_label: name, kind_label: kind} */
static struct value pair_value(struct attribute pair[2], const char *name, const char *kind_label,
                               const char *kind)
{
    pair[0] = (struct attribute){BYTES_LITERAL("AttributeName"), text_value(name)};
    pair[1] = (struct attribute){bytes_text(kind_label), text_value(kind)};
    return (struct value){.type = VALUE_M, .attributes = pair, .count = 2};
}

static void prepare(struct target *target, enum work work)
{
    (void)work;
    struct attribute pairs[4][2];
    struct value keys[2] = {pair_value(pairs[0], "p", "KeyType", "HASH"),
                            pair_value(pairs[1], "s", "KeyType", "RANGE")};
    struct value types[2] = {pair_value(pairs[2], "p", "AttributeType", "S"),
                             pair_value(pairs[3], "s", "AttributeType", "S")};
    size_t count = has_pages(target) ? 2 : 1;
    struct attribute members[] = {
        {BYTES_LITERAL("TableName"), text_value(table_names[has_pages(target)])},
        {BYTES_LITERAL("BillingMode"), text_value("PAY_PER_REQUEST")},
        {BYTES_LITERAL("KeySchema"), {.type = VALUE_L, .values = keys, .count = count}},
        {BYTES_LITERAL("AttributeDefinitions"), {.type = VALUE_L, .values = types, .count = count}},
    };
    struct value definition = {.type = VALUE_M, .attributes = members, .count = 4};
    struct buffer bytes = {0};
    struct error error;
    if (value_normalize(&definition, &error) != STATUS_OK || !value_encode(&definition, &bytes))
        die("mudax: cannot encode the table definition");
    struct request request = {.operation = OPERATION_CREATE_TABLE,
                              .definition = buffer_bytes(&bytes)};
    int fd = connect_to(target->path, target->port);
    greet(target, fd);
    call(fd, &request, NULL, STATUS_RESOURCE_IN_USE);
    (void)close(fd);
    buffer_deinit(&bytes);
}

const struct target_ops target_mudax = {
    .greet = greet, .prepare = prepare, .ask = ask, .reply = reply, .is_right = is_right};
