#include "tests/support/session.h"

#include "protocol/encoding/json.h"
#include "protocol/encoding/msgpack.h"
#include "protocol/ensure.h"

#include <stdio.h>
#include <stdlib.h>

enum { SESSION_BYTES_MAX = 256 << 20 };

void session_open(struct session *session, struct backend *backend)
{
    session_open_watched(session, backend, NULL, NULL);
}

void session_open_watched(struct session *session, struct backend *backend,
                          void (*intent)(void *intent_arg, struct call *call), void *intent_arg)
{
    session->backend = backend;
    lane_loop_init(&session->loop);
    session->loop.env.intent = intent;
    session->loop.env.intent_arg = intent_arg;
    arena_init(&session->arena, NULL, 0, SESSION_BYTES_MAX);
    ensure(backend->ops->lane_open(backend, &session->loop.env, &session->lane) == STATUS_OK);
}

void session_close(struct session *session)
{
    lane_loop_release(&session->loop);
    session->backend->ops->lane_close(&session->lane);
    while (lane_loop_timers(&session->loop) != 0) /* a cache's lane has left one, perhaps */
        lane_loop_advance(&session->loop, 1000000);
    lane_loop_deinit(&session->loop);
    arena_deinit(&session->arena);
}

void session_forget(struct session *session)
{
    arena_reset(&session->arena);
}

/* ---- JSON ---- */

static struct bytes with_double_quotes(struct arena *arena, const char *json)
{
    size_t size = strlen(json);
    uint8_t *text = arena_alloc(arena, size);
    ensure(text != NULL);
    for (size_t i = 0; i < size; i++)
        text[i] = json[i] == '\'' ? '"' : (uint8_t)json[i];
    return bytes_of(text, size);
}

typedef enum status (*from_json_fn)(struct bytes text, struct arena *arena, struct value *out,
                                    struct error *error);

static enum status try_json(struct arena *arena, const char *json, from_json_fn from_json,
                            struct bytes *out, struct error *error)
{
    struct value value;
    struct buffer buffer = {0};
    error->text[0] = '\0';
    enum status status = from_json(with_double_quotes(arena, json), arena, &value, error);
    if (status == STATUS_OK)
        status = value_normalize(&value, error);
    if (status != STATUS_OK)
        return status;
    ensure(value_encode(&value, &buffer));
    *out = arena_copy(arena, buffer_bytes(&buffer));
    buffer_deinit(&buffer);
    ensure(bytes_given(*out));
    return STATUS_OK;
}

static struct bytes encode_json(struct arena *arena, const char *json, from_json_fn from_json)
{
    struct error error;
    struct bytes bytes;
    if (try_json(arena, json, from_json, &bytes, &error) == STATUS_OK)
        return bytes;
    fprintf(stderr, "not understood: %.200s: %s\n", json, error.text);
    abort();
}

enum status session_try_item(struct session *session, const char *json, struct bytes *out,
                             struct error *error)
{
    return try_json(&session->arena, json, json_to_item, out, error);
}

struct bytes session_item(struct session *session, const char *json)
{
    return encode_json(&session->arena, json, json_to_item);
}

struct bytes session_plain(struct session *session, const char *json)
{
    return encode_json(&session->arena, json, json_to_plain);
}

static const char *print(struct session *session, struct bytes bytes, bool is_plain)
{
    struct value value;
    struct error error;
    struct buffer buffer = {0};
    struct msgpack_cursor cursor = msgpack_cursor_of(bytes);
    ensure(value_decode(&cursor, &session->arena, &value, &error) == STATUS_OK);
    ensure(is_plain ? json_from_plain(&value, 0, &buffer) : json_from_item(&value, 0, &buffer));
    ensure(buffer_append(&buffer, bytes_of("", 1)));
    struct bytes copy = arena_copy(&session->arena, buffer_bytes(&buffer));
    buffer_deinit(&buffer);
    return (const char *)copy.data;
}

const char *session_json(struct session *session, struct bytes item)
{
    return print(session, item, false);
}

const char *session_plain_json(struct session *session, struct bytes map)
{
    return print(session, map, true);
}

/* ---- calls ---- */

static void call_is_complete(struct call *call)
{
    struct session_call *owner = call->owner;
    if (bytes_given(call->reply.body)) {
        owner->body = arena_copy(&owner->arena, call->reply.body);
        ensure(bytes_given(owner->body));
    }
    owner->is_complete = true;
}

void session_call_init(struct session_call *call, enum operation operation, const char *table)
{
    *call = (struct session_call){.is_complete = false};
    arena_init(&call->arena, NULL, 0, SESSION_BYTES_MAX);
    call->call.arena = &call->arena;
    call->call.owner = call;
    call->call.complete = call_is_complete;
    call->call.request.operation = operation;
    call->call.request.table_name = table == NULL ? BYTES_NONE : bytes_text(table);
}

void session_call_deinit(struct session_call *call)
{
    arena_deinit(&call->arena);
}

void session_submit(struct session *session, struct session_call *call)
{
    const struct backend_ops *ops = session->backend->ops;
    call->call.now_us = session->loop.now_us;
    ops->lane_begin(session->lane);
    enum submit submit = ops->submit(session->lane, &call->call);
    ensure(submit != SUBMIT_KEEP);
    if (submit == SUBMIT_DONE)
        call_is_complete(&call->call);
    ops->lane_end(session->lane);
}

void session_run(struct session *session, struct session_call *call)
{
    session_submit(session, call);
    ensure(lane_loop_run_until(&session->loop, &call->is_complete));
}

/* Runs and takes the reply out of the call's memory. */
static struct reply run_and_take(struct session *session, struct session_call *call)
{
    session_run(session, call);
    struct reply reply = call->call.reply;
    reply.body = bytes_given(call->body) ? arena_copy(&session->arena, call->body) : BYTES_NONE;
    reply.touched = NULL;
    reply.examined = (struct key_interval){BYTES_NONE, BYTES_NONE};
    session_call_deinit(call);
    return reply;
}

static int print_key(char *out, size_t size, const char *key, const char *role, bool is_schema)
{
    int name_size = (int)(strchr(key, ':') - key);
    if (is_schema)
        return snprintf(out, size, "{'AttributeName': '%.*s', 'KeyType': '%s'}", name_size, key,
                        role);
    return snprintf(out, size, "{'AttributeName': '%.*s', 'AttributeType': '%s'}", name_size, key,
                    key + name_size + 1);
}

struct reply session_create(struct session *session, const char *table, const char *partition,
                            const char *sort)
{
    char keys[2][400] = {"", ""}, types[2][400] = {"", ""}, text[2200];
    print_key(keys[0], sizeof keys[0], partition, "HASH", true);
    print_key(types[0], sizeof types[0], partition, "HASH", false);
    if (sort != NULL) {
        print_key(keys[1], sizeof keys[1], sort, "RANGE", true);
        print_key(types[1], sizeof types[1], sort, "RANGE", false);
    }
    const char *comma = sort == NULL ? "" : ", ";
    snprintf(text, sizeof text,
             "{'TableName': '%s', 'BillingMode': 'PAY_PER_REQUEST', 'KeySchema': [%s%s%s], "
             "'AttributeDefinitions': [%s%s%s]}",
             table, keys[0], comma, keys[1], types[0], comma, types[1]);
    struct session_call call;
    session_call_init(&call, OPERATION_CREATE_TABLE, NULL);
    call.call.request.definition = session_plain(session, text);
    return run_and_take(session, &call);
}

struct reply session_get(struct session *session, const char *table, const char *key)
{
    struct session_call call;
    session_call_init(&call, OPERATION_GET_ITEM, table);
    call.call.request.key = session_item(session, key);
    return run_and_take(session, &call);
}

struct reply session_put(struct session *session, const char *table, const char *item)
{
    struct session_call call;
    session_call_init(&call, OPERATION_PUT_ITEM, table);
    call.call.request.item = session_item(session, item);
    return run_and_take(session, &call);
}

struct reply session_delete(struct session *session, const char *table, const char *key)
{
    struct session_call call;
    session_call_init(&call, OPERATION_DELETE_ITEM, table);
    call.call.request.key = session_item(session, key);
    return run_and_take(session, &call);
}

struct reply session_table(struct session *session, enum operation operation, const char *table)
{
    struct session_call call;
    session_call_init(&call, operation, table);
    return run_and_take(session, &call);
}
