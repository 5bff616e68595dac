#include "tests/check/check.h"

#include "protocol/encoding/json.h"
#include "protocol/native/frame.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum {
    CONNECT_ATTEMPTS = 600,
    CONNECT_PAUSE_US = 50000,
    TROUBLE_PAUSE_US = 5000, /* or failures, which are quick, would be most of the history */
    ARENA_MAX = 64 << 20,
};

struct client {
    char url[256];
    bool is_http;
    int fd;
    uint64_t next_id;
    struct buffer out, in;
    struct buffer body; /* a page, translated */
    struct arena arena; /* of the last answer */
};

static void die(const char *what, const char *url)
{
    fprintf(stderr, "mudax-check: %s: %s: %s\n", url, what, strerror(errno));
    exit(2);
}

/* ---- sockets ---- */

static int connect_once(const char *url)
{
    struct sockaddr_un local = {.sun_family = AF_UNIX};
    if (strncmp(url, "mudax+unix:", 11) == 0) {
        int fd = socket(AF_UNIX, SOCK_STREAM, 0);
        snprintf(local.sun_path, sizeof local.sun_path, "%s", url + 11);
        if (fd >= 0 && connect(fd, (struct sockaddr *)&local, sizeof local) == 0)
            return fd;
        if (fd >= 0)
            close(fd);
        return -1;
    }
    const char *host = strstr(url, "://");
    char name[200];
    snprintf(name, sizeof name, "%s", host == NULL ? url : host + 3);
    char *colon = strrchr(name, ':');
    struct sockaddr_in address = {.sin_family = AF_INET};
    if (colon == NULL)
        die("no port in the URL", url);
    *colon = '\0';
    address.sin_port = htons((uint16_t)atoi(colon + 1));
    if (inet_pton(AF_INET, name, &address.sin_addr) != 1)
        die("write the host as an IPv4 address", url);
    int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0) {
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        return fd;
    }
    if (fd >= 0)
        close(fd);
    return -1;
}

static bool send_all(struct client *client)
{
    size_t sent = 0;
    while (sent < client->out.size) {
        ssize_t got =
            send(client->fd, client->out.data + sent, client->out.size - sent, MSG_NOSIGNAL);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        sent += (size_t)got;
    }
    return true;
}

static bool receive(struct client *client)
{
    if (!buffer_reserve(&client->in, 65536))
        die("out of memory", client->url);
    ssize_t got;
    do
        got = recv(client->fd, client->in.data + client->in.size, 65536, 0);
    while (got < 0 && errno == EINTR);
    if (got <= 0)
        return false;
    client->in.size += (size_t)got;
    return true;
}

static bool receive_frame(struct client *client, struct bytes *frame)
{
    client->in.size = 0;
    while (client->in.size < FRAME_HEADER || client->in.size < frame_size(client->in.data))
        if (!receive(client))
            return false;
    size_t size = frame_size(client->in.data);
    *frame = bytes_of(client->in.data + FRAME_HEADER, size - FRAME_HEADER);
    return true;
}

static bool greet(struct client *client)
{
    struct request hello = {.operation = OPERATION_HELLO};
    struct frame_greeting greeting = {.version = NATIVE_VERSION, .peer = BYTES_LITERAL("check")};
    struct frame_reply reply;
    struct bytes frame;
    client->out.size = 0;
    return frame_write_request(&hello, &greeting, &client->out) && send_all(client) &&
           receive_frame(client, &frame) && frame_read_reply(frame, &reply) == STATUS_OK &&
           reply.status == STATUS_OK;
}

static void connect_client(struct client *client)
{
    if (client->fd >= 0)
        close(client->fd);
    for (int attempt = 0; attempt < CONNECT_ATTEMPTS; attempt++) {
        client->fd = connect_once(client->url);
        if (client->fd >= 0 && (client->is_http || greet(client)))
            return;
        if (client->fd >= 0)
            close(client->fd);
        client->fd = -1;
        (void)usleep(CONNECT_PAUSE_US);
    }
    die("no connection", client->url);
}

struct client *client_open(const char *url)
{
    struct client *client = calloc(1, sizeof *client);
    if (client == NULL)
        die("out of memory", url);
    snprintf(client->url, sizeof client->url, "%s", url);
    client->is_http = strncmp(url, "http:", 5) == 0;
    client->fd = -1;
    arena_init(&client->arena, NULL, 0, ARENA_MAX);
    connect_client(client);
    return client;
}

void client_close(struct client **client)
{
    close((*client)->fd);
    buffer_deinit(&(*client)->out);
    buffer_deinit(&(*client)->in);
    buffer_deinit(&(*client)->body);
    arena_deinit(&(*client)->arena);
    free(*client);
    *client = NULL;
}

bool client_is_http(const struct client *client)
{
    return client->is_http;
}

/* ---- outcomes ---- */

/* What was refused never happened. */
static enum outcome outcome_of(enum status status)
{
    switch (status) {
    case STATUS_OK:
        return OUTCOME_DONE;
    case STATUS_OUTCOME_UNKNOWN:
    case STATUS_TIMEOUT:
    case STATUS_INTERNAL:
    case STATUS_UNAVAILABLE:
    case STATUS_SHUTTING_DOWN:
        return OUTCOME_UNKNOWN;
    default:
        return OUTCOME_REFUSED;
    }
}

static void lose(struct client *client, struct answer *answer)
{
    *answer = (struct answer){.outcome = OUTCOME_UNKNOWN};
    snprintf(answer->text, sizeof answer->text, "the connection was lost");
    connect_client(client);
}

/* ---- the native protocol ---- */

static void call_native(struct client *client, struct request *request, struct answer *answer)
{
    struct frame_reply reply;
    struct bytes frame;
    request->id = ++client->next_id;
    request->wants_commit = true;
    request->wants_verdict = true;
    client->out.size = 0;
    if (!frame_write_request(request, NULL, &client->out))
        die("out of memory", client->url);
    if (!send_all(client) || !receive_frame(client, &frame)) {
        lose(client, answer);
        return;
    }
    if (frame_read_reply(frame, &reply) != STATUS_OK || reply.id != request->id) {
        fprintf(stderr, "mudax-check: %s: a reply that is none\n", client->url);
        exit(1);
    }
    *answer = (struct answer){.outcome = outcome_of(reply.status),
                              .commit = reply.commit,
                              .verdict = (enum verdict_)reply.verdict,
                              .body = reply.body,
                              .commits = reply.commits};
    if (reply.status != STATUS_OK)
        snprintf(answer->text, sizeof answer->text, "%s: %.*s", status_name(reply.status),
                 (int)(reply.body.size < 200 ? reply.body.size : 200),
                 (const char *)reply.body.data);
}

/* ---- DynamoDB's API ---- */

#define PUT(out, text)                                                                             \
    do {                                                                                           \
        if (!buffer_append((out), BYTES_LITERAL(text)))                                            \
            abort();                                                                               \
    } while (0)

static void put_text_member(struct buffer *out, const char *name, struct bytes text)
{
    if (!bytes_given(text))
        return;
    if (out->data[out->size - 1] != '{')
        PUT(out, ",");
    if (!json_from_text(bytes_text(name), out) || !buffer_append(out, BYTES_LITERAL(":")) ||
        !json_from_text(text, out))
        abort();
}

static void put_map_member(struct buffer *out, const char *name, struct bytes map, bool is_plain)
{
    struct msgpack_cursor cursor = msgpack_cursor_of(map);
    if (!bytes_given(map))
        return;
    if (out->data[out->size - 1] != '{')
        PUT(out, ",");
    if (!json_from_text(bytes_text(name), out) || !buffer_append(out, BYTES_LITERAL(":")) ||
        !(is_plain ? json_from_plain_bytes(&cursor, out) : json_from_item_bytes(&cursor, out)))
        abort();
}

static void put_members(struct buffer *out, const struct request *request)
{
    PUT(out, "{");
    put_text_member(out, "TableName", request->table_name);
    put_text_member(out, "IndexName", request->index_name);
    put_map_member(out, "Key", request->key, false);
    put_map_member(out, "Item", request->item, false);
    put_text_member(out, "KeyConditionExpression", request->key_condition.text);
    put_map_member(out, "ExpressionAttributeValues", request->key_condition.values, false);
    put_map_member(out, "ExpressionAttributeNames", request->key_condition.names, true);
    put_text_member(out, "ConditionExpression", request->condition);
    put_text_member(out, "UpdateExpression", request->update);
    if (request->is_consistent)
        PUT(out, ",\"ConsistentRead\":true");
    PUT(out, "}");
}

static void put_actions(struct buffer *out, const struct request *request)
{
    PUT(out, "{\"TransactItems\":[");
    for (size_t i = 0; i < request->part_count; i++) {
        const struct request *part = &request->parts[i];
        const char *verb = part->operation == OPERATION_GET_ITEM      ? "Get"
                           : part->operation == OPERATION_PUT_ITEM    ? "Put"
                           : part->operation == OPERATION_UPDATE_ITEM ? "Update"
                                                                      : "Delete";
        if (i != 0)
            PUT(out, ",");
        PUT(out, "{");
        if (!json_from_text(bytes_text(verb), out))
            abort();
        PUT(out, ":");
        put_members(out, part);
        PUT(out, "}");
    }
    PUT(out, "]}");
}

static void write_http(struct client *client, const struct request *request)
{
    struct buffer body = {0};
    char head[256];
    if (request->part_count != 0)
        put_actions(&body, request);
    else
        put_members(&body, request);
    int size = snprintf(head, sizeof head,
                        "POST / HTTP/1.1\r\nHost: localhost\r\nX-Amz-Target: DynamoDB_20120810.%s"
                        "\r\nContent-Length: %zu\r\n\r\n",
                        operation_name(request->operation), body.size);
    client->out.size = 0;
    if (!buffer_append(&client->out, bytes_of(head, (size_t)size)) ||
        !buffer_append(&client->out, buffer_bytes(&body)))
        abort();
    buffer_deinit(&body);
}

/* The value of a header field, or NULL. */
static const char *field_of(const char *head, const char *end, const char *name)
{
    size_t size = strlen(name);
    for (const char *at = head; at != NULL && at < end;
         at = memmem(at, (size_t)(end - at), "\r\n", 2)) {
        if (*at == '\r')
            at += 2;
        if (strncasecmp(at, name, size) == 0 && at[size] == ':')
            return at + size + 1 + strspn(at + size + 1, " ");
    }
    return NULL;
}

static bool receive_http(struct client *client, const char **head_end, struct bytes *body)
{
    const char *end = NULL;
    client->in.size = 0;
    while (end == NULL) {
        if (!receive(client))
            return false;
        end = memmem(client->in.data, client->in.size, "\r\n\r\n", 4);
    }
    size_t head = (size_t)((const uint8_t *)end - client->in.data) + 4;
    const char *length = field_of((const char *)client->in.data, end, "Content-Length");
    size_t size = length == NULL ? 0 : strtoul(length, NULL, 10);
    while (client->in.size < head + size)
        if (!receive(client))
            return false;
    *head_end = (const char *)client->in.data + head - 4;
    *body = bytes_of(client->in.data + head, size);
    return true;
}

static const struct value *member(const struct value *map, const char *name)
{
    for (size_t i = 0; map != NULL && map->type == VALUE_M && i < map->count; i++)
        if (bytes_equal(map->attributes[i].name, bytes_text(name)))
            return &map->attributes[i].value;
    return NULL;
}

/* {"S": ..} and {"N": ..} back to values: items here hold nothing else. */
static struct value typed(const struct value *wrapped)
{
    struct value value = wrapped->attributes[0].value;
    bool is_number = bytes_equal(wrapped->attributes[0].name, BYTES_LITERAL("N"));
    if (is_number) {
        value.type = VALUE_N;
        struct error error;
        if (number_parse(wrapped->attributes[0].value.bytes, &value.number, &error) != STATUS_OK)
            abort();
    }
    return value;
}

static void append_item(struct client *client, const struct value *item, struct buffer *out)
{
    struct error error;
    struct value map = {.type = VALUE_M, .count = item->count};
    map.attributes = arena_alloc(&client->arena, (item->count + 1) * sizeof *map.attributes);
    for (size_t i = 0; i < item->count; i++)
        map.attributes[i] =
            (struct attribute){item->attributes[i].name, typed(&item->attributes[i].value)};
    if (value_normalize(&map, &error) != STATUS_OK || !value_encode(&map, out))
        abort();
}

static void append_array(struct buffer *out, size_t count)
{
    uint8_t head[3] = {0xdc, (uint8_t)(count >> 8), (uint8_t)count};
    if (!buffer_append(out, bytes_of(head, sizeof head)))
        abort();
}

/* Brings an answer into the form that the native protocol has. */
static void translate(struct client *client, const struct request *request,
                      const struct value *tree, struct answer *answer)
{
    struct buffer *out = &client->body;
    const struct value *items = member(tree, "Items"), *item = member(tree, "Item");
    const struct value *responses = member(tree, "Responses");
    out->size = 0;
    if (request->operation == OPERATION_GET_ITEM) {
        if (item == NULL)
            PUT(out, "\xc0");
        else
            append_item(client, item, out);
    } else if (items != NULL) {
        PUT(out, "\x93");
        append_array(out, items->count);
        for (size_t i = 0; i < items->count; i++)
            append_item(client, &items->values[i], out);
        PUT(out, "\x00");
        if (member(tree, "LastEvaluatedKey") != NULL)
            PUT(out, "\x80");
        else
            PUT(out, "\xc0");
    } else if (responses != NULL && responses->type == VALUE_L) {
        append_array(out, responses->count);
        for (size_t i = 0; i < responses->count; i++) {
            item = member(&responses->values[i], "Item");
            if (item == NULL)
                PUT(out, "\xc0");
            else
                append_item(client, item, out);
        }
    } else {
        PUT(out, "\xc0");
    }
    answer->body = buffer_bytes(out);
}

static enum outcome http_outcome(int status, struct bytes body)
{
    if (status == 200)
        return OUTCOME_DONE;
    bool is_timeout = memmem(body.data, body.size, "RequestTimeoutException", 23) != NULL;
    return status >= 500 || is_timeout ? OUTCOME_UNKNOWN : OUTCOME_REFUSED;
}

static void call_http(struct client *client, struct request *request, struct answer *answer)
{
    const char *end;
    struct bytes body;
    struct value tree;
    struct error error;
    write_http(client, request);
    if (!send_all(client) || !receive_http(client, &end, &body)) {
        lose(client, answer);
        return;
    }
    const char *head = (const char *)client->in.data;
    const char *commit = field_of(head, end, "x-mudax-commit");
    const char *verdict = field_of(head, end, "x-mudax-cache");
    *answer = (struct answer){.outcome = http_outcome(atoi(head + 9), body),
                              .commit = commit == NULL ? 0 : strtoull(commit, NULL, 10)};
    if (verdict != NULL)
        answer->verdict = *verdict == 'h'   ? ANSWER_HIT
                          : *verdict == 'm' ? ANSWER_MISS
                          : *verdict == 's' ? ANSWER_STALE
                                            : ANSWER_BYPASS;
    if (answer->outcome != OUTCOME_DONE) {
        snprintf(answer->text, sizeof answer->text, "%.*s",
                 (int)(body.size < 200 ? body.size : 200), (const char *)body.data);
        return;
    }
    arena_reset(&client->arena);
    if (json_to_plain(body, &client->arena, &tree, &error) != STATUS_OK) {
        fprintf(stderr, "mudax-check: %s: %s\n", client->url, error.text);
        exit(1);
    }
    translate(client, request, &tree, answer);
}

void client_call(struct client *client, struct request *request, struct answer *answer)
{
    if (client->is_http)
        call_http(client, request, answer);
    else
        call_native(client, request, answer);
    if (answer->outcome == OUTCOME_UNKNOWN)
        (void)usleep(TROUBLE_PAUSE_US);
}
