/* bench-http: what DynamoDB's API costs inside the process, without sockets and stores: requests
 * out of bytes, replies into bytes. Prints ns of each, the median of some rounds. */
#include "protocol/ensure.h"
#include "protocol/wire.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { ROUNDS = 9, HEAP_MAX = 64 << 20, FRAME_MAX = 16 << 20 };

static uint64_t now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static struct wire_session session = {.frame_max = FRAME_MAX};
static struct arena arena;
static uint8_t arena_first[64 * 1024];

/* ---- requests ---- */

static void append(struct buffer *out, const char *text)
{
    ensure(buffer_append(out, bytes_text(text)));
}

/* As an SDK sends it. */
static struct buffer make_request(const char *operation, const struct buffer *body)
{
    struct buffer out = {0};
    char head[600];
    (void)snprintf(
        head, sizeof head,
        "POST / HTTP/1.1\r\nHost: 127.0.0.1:8000\r\nAccept-Encoding: identity\r\n"
        "X-Amz-Target: DynamoDB_20120810.%s\r\nContent-Type: application/x-amz-json-1.0\r\n"
        "User-Agent: Boto3/1.26.27 Python/3.11.2 Linux/6.1.0 Botocore/1.29.27\r\n"
        "X-Amz-Date: 20240101T000000Z\r\nAuthorization: AWS4-HMAC-SHA256 Credential=x/20240101/"
        "us-east-1/dynamodb/aws4_request, SignedHeaders=content-type;host;x-amz-date;x-amz-target, "
        "Signature=0123456789012345678901234567890123456789012345678901234567890123\r\n"
        "Content-Length: %zu\r\n\r\n",
        operation, body->size);
    append(&out, head);
    ensure(buffer_append(&out, buffer_bytes(body)));
    return out;
}

static void decode_once(struct bytes input, struct request *request, struct buffer *out)
{
    size_t used, needed;
    enum wire_result result =
        wire_dynamodb.decode(&session, input, &arena, request, &used, &needed, out);
    if (result != WIRE_REQUEST) {
        (void)fprintf(stderr, "%.*s\n", (int)out->size, (const char *)out->data);
        exit(1);
    }
}

static double decode_ns(struct bytes input, int count)
{
    struct request request;
    struct buffer out = {0};
    uint64_t begun = now_ns();
    for (int i = 0; i < count; i++) {
        decode_once(input, &request, &out);
        arena_reset(&arena);
    }
    buffer_deinit(&out);
    return (double)(now_ns() - begun) / count;
}

static double encode_ns(struct bytes item, int count)
{
    struct request request = {.operation = OPERATION_GET_ITEM, .wants_verdict = true};
    struct reply reply;
    struct buffer out = {0};
    reply_init(&reply);
    reply.body = item;
    reply.verdict = VERDICT_HIT;
    uint64_t begun = now_ns();
    for (int i = 0; i < count; i++) {
        ensure(wire_dynamodb.encode(&session, &request, &reply, &out));
        out.size = 0;
    }
    buffer_deinit(&out);
    return (double)(now_ns() - begun) / count;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double (*measure)(struct bytes, int), struct bytes bytes, int count)
{
    double figures[ROUNDS];
    (void)measure(bytes, count);
    for (int round = 0; round < ROUNDS; round++)
        figures[round] = measure(bytes, count);
    qsort(figures, ROUNDS, sizeof figures[0], compare);
    return figures[ROUNDS / 2];
}

/* ---- what is measured ---- */

/* An item as JSON, decoded to the bytes that a store would give back. */
static void measure_item(const char *what, const struct buffer *item, int count)
{
    struct buffer body = {0}, sink = {0};
    struct request request;
    append(&body, "{\"TableName\": \"Shop\", \"Item\": ");
    ensure(buffer_append(&body, buffer_bytes(item)));
    append(&body, "}");
    struct buffer put = make_request("PutItem", &body);
    (void)printf("%s, %zu bytes of JSON: PutItem decoded in %.0f ns", what, item->size,
                 median(decode_ns, buffer_bytes(&put), count));
    decode_once(buffer_bytes(&put), &request, &sink);
    struct buffer kept = {0};
    ensure(buffer_append(&kept, request.item));
    (void)printf(", GetItem's reply encoded in %.0f ns\n",
                 median(encode_ns, buffer_bytes(&kept), count));
    arena_reset(&arena);
    buffer_deinit(&kept);
    buffer_deinit(&put);
    buffer_deinit(&body);
    buffer_deinit(&sink);
}

int main(void)
{
    arena_init(&arena, arena_first, sizeof arena_first, HEAP_MAX);
    struct buffer body = {0};
    append(&body,
           "{\"TableName\": \"Shop\", \"Key\": {\"PK\": {\"S\": \"customer#00000000000017\"}, "
           "\"SK\": {\"S\": \"order#000042\"}}}");
    struct buffer get = make_request("GetItem", &body);
    (void)printf("GetItem, %zu bytes: decoded in %.0f ns\n", get.size,
                 median(decode_ns, buffer_bytes(&get), 20000));
    buffer_deinit(&get);

    body.size = 0;
    append(&body,
           "{\"PK\": {\"S\": \"customer#00000000000017\"}, \"SK\": {\"S\": \"order#000042\"}, "
           "\"total\": {\"N\": \"1250\"}, \"state\": {\"S\": \"shipped\"}, \"note\": {\"S\": \"");
    for (int i = 0; i < 10; i++)
        append(&body, "ten bytes.");
    append(&body, "\"}}");
    measure_item("a small item", &body, 20000);

    body.size = 0;
    append(&body, "{\"PK\": {\"S\": \"p\"}, \"t\": {\"S\": \"");
    for (int i = 0; i < 40000; i++)
        append(&body, "ten bytes.");
    append(&body, "\"}}");
    measure_item("one text of 400 KB", &body, 200);

    body.size = 0;
    append(&body, "{\"PK\": {\"S\": \"p\"}, \"l\": {\"L\": [");
    for (int i = 0; i < 20000; i++)
        append(&body, i == 0 ? "{\"N\": \"1\"}" : ", {\"N\": \"1\"}");
    append(&body, "]}}");
    measure_item("20,000 numbers", &body, 20);
    buffer_deinit(&body);
    arena_deinit(&arena);
    return 0;
}
