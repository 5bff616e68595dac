/* DynamoDB's API over HTTP, with the header fields that an SDK sends. */
#include "bench/load/process.h"
#include "bench/load/target.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { HEAD_MAX = 700 };

static bool is_write(enum work work, uint64_t id)
{
    return work == WORK_LOAD || work == WORK_WRITE || (work == WORK_MIXED && id % 20 == 0);
}

static void put(struct buffer *out, struct bytes bytes)
{
    if (!buffer_append(out, bytes))
        die("out of memory");
}

static void put_head(struct buffer *out, const char *operation, size_t body_size)
{
    char head[HEAD_MAX];
    int size = snprintf(
        head, sizeof head,
        "POST / HTTP/1.1\r\nHost: 127.0.0.1:8000\r\nAccept-Encoding: identity\r\n"
        "X-Amz-Target: DynamoDB_20120810.%s\r\nContent-Type: application/x-amz-json-1.0\r\n"
        "User-Agent: Boto3/1.26.27 Python/3.11.2 Linux/6.1.0 Botocore/1.29.27\r\n"
        "X-Amz-Date: 20240101T000000Z\r\nAuthorization: AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/"
        "20240101/us-east-1/dynamodb/aws4_request, SignedHeaders=content-type;host;x-amz-date;"
        "x-amz-target, Signature="
        "d3d1904c05f40fc0b3c52a68918c5c8559b532e06e085698e8716a9a086b136f\r\n"
        "Content-Length: %zu\r\n\r\n",
        operation, body_size);
    put(out, bytes_of(head, (size_t)size));
}

static void ask_item(struct target *target, const char *key, uint64_t number, struct buffer *out)
{
    char opening[128];
    size_t value_size = target->shape->value_size;
    int size = snprintf(opening, sizeof opening,
                        "{\"TableName\": \"bench\", \"Item\": {\"p\": {\"S\": \"%s\"}, \"v\": "
                        "{\"S\": \"",
                        key);
    struct bytes closing = BYTES_LITERAL("\"}}}");
    put_head(out, "PutItem", (size_t)size + value_size + closing.size);
    put(out, bytes_of(opening, (size_t)size));
    if (!buffer_reserve(out, value_size))
        die("out of memory");
    value_text(number, out->data + out->size, value_size);
    out->size += value_size;
    put(out, closing);
}

/* Made once, then patched, as with the native protocol. */
static void make_get(struct target *target, const char *key)
{
    char body[160];
    int size = snprintf(body, sizeof body,
                        "{\"TableName\": \"bench\", \"Key\": {\"p\": {\"S\": \"%s\"}}%s}", key,
                        target->shape->is_consistent ? ", \"ConsistentRead\": true" : "");
    put_head(&target->made, "GetItem", (size_t)size);
    target->made_key_at = target->made.size + (size_t)(strstr(body, key) - body);
    put(&target->made, bytes_of(body, (size_t)size));
}

static void ask(struct target *target, enum work work, uint64_t number, uint64_t id,
                struct buffer *out)
{
    char key[KEY_SIZE + 1];
    key_text(number, key);
    if (is_write(work, id)) {
        ask_item(target, key, number, out);
        return;
    }
    if (target->made.size == 0)
        make_get(target, key);
    put(out, buffer_bytes(&target->made));
    memcpy(out->data + out->size - target->made.size + target->made_key_at, key, KEY_SIZE);
}

/* The head with its empty line, 0 if it is incomplete; sets the size of the body. */
static size_t read_head(struct bytes in, size_t *body_size)
{
    static const char field[] = "Content-Length: ";
    const uint8_t *end = in.size == 0 ? NULL : memmem(in.data, in.size, "\r\n\r\n", 4);
    if (end == NULL)
        return 0;
    size_t size = (size_t)(end - in.data) + 4;
    const char *length = memmem(in.data, size, field, sizeof field - 1);
    if (length == NULL)
        die("http: a reply without Content-Length");
    *body_size = strtoul(length + sizeof field - 1, NULL, 10);
    return size;
}

static size_t reply(struct target *target, struct bytes in, uint64_t *id)
{
    (void)id; /* in the order of requests */
    size_t body_size = 0;
    size_t head_size = read_head(in, &body_size);
    if (head_size == 0 || in.size < head_size + body_size)
        return 0;
    if (in.size < 12 || memcmp(in.data, "HTTP/1.1 200", 12) != 0)
        die("http: %.*s", (int)(head_size + body_size), (const char *)in.data);
    target->hits += memmem(in.data, head_size, "cache: hit", 10) != NULL;
    target->misses += memmem(in.data, head_size, "cache: miss", 11) != NULL;
    return head_size + body_size;
}

static bool is_right(struct target *target, enum work work, uint64_t number, struct bytes bytes)
{
    char key[KEY_SIZE + 1];
    (void)target;
    key_text(number, key);
    bool is_empty = bytes.size > 2 && memcmp(bytes.data + bytes.size - 2, "{}", 2) == 0;
    return is_empty ? work != WORK_READ : memmem(bytes.data, bytes.size, key, KEY_SIZE) != NULL;
}

static void prepare(struct target *target, enum work work)
{
    static const char body[] =
        "{\"TableName\": \"bench\", \"BillingMode\": \"PAY_PER_REQUEST\", \"KeySchema\": "
        "[{\"AttributeName\": \"p\", \"KeyType\": \"HASH\"}], \"AttributeDefinitions\": "
        "[{\"AttributeName\": \"p\", \"AttributeType\": \"S\"}]}";
    (void)work;
    struct buffer out = {0};
    uint8_t in[4096];
    size_t size = 0, body_size = 0;
    int fd = connect_to(NULL, target->port);
    put_head(&out, "CreateTable", sizeof body - 1);
    put(&out, bytes_of(body, sizeof body - 1));
    if (write(fd, out.data, out.size) != (ssize_t)out.size)
        die("http: write: %s", strerror(errno));
    for (size_t head = 0; head == 0 || size < head + body_size;) {
        ssize_t got = read(fd, in + size, sizeof in - size);
        if (got <= 0)
            die("http: connection lost while preparing");
        size += (size_t)got;
        head = read_head(bytes_of(in, size), &body_size);
    }
    if (memmem(in, size, "TableDescription", 16) == NULL &&
        memmem(in, size, "ResourceInUse", 13) == NULL)
        die("http: %.*s", (int)size, (const char *)in);
    (void)close(fd);
    buffer_deinit(&out);
}

const struct target_ops target_http = {
    .prepare = prepare, .ask = ask, .reply = reply, .is_right = is_right};
