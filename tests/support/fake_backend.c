#include "tests/support/fake_backend.h"

#include "protocol/ensure.h"

#include <stdlib.h>

struct fake_lane {
    struct lane lane;
    struct fake_backend *fake;
    struct lane_env env;
};

static enum status fake_lane_open(struct backend *backend, const struct lane_env *env,
                                  struct lane **out)
{
    struct fake_lane *lane = calloc(1, sizeof *lane);
    ensure(lane != NULL);
    lane->lane.ops = backend->ops;
    lane->fake = (struct fake_backend *)backend;
    lane->env = *env;
    *out = &lane->lane;
    return STATUS_OK;
}

static void fake_lane_close(struct lane **lane)
{
    free(*lane);
    *lane = NULL;
}

static void nothing(struct lane *lane)
{
    (void)lane;
}

static const struct table *fake_table(struct lane *lane, struct bytes name)
{
    struct fake_backend *fake = ((struct fake_lane *)lane)->fake;
    fake->tables_asked++;
    for (int i = 0; i < FAKE_TABLES_MAX; i++)
        if (fake->tables[i].id != 0 && bytes_equal(fake->tables[i].name, name))
            return &fake->tables[i];
    return NULL;
}

static enum submit fake_submit(struct lane *lane, struct call *call)
{
    struct fake_lane *fake_lane = (struct fake_lane *)lane;
    struct fake_backend *fake = fake_lane->fake;
    fake->calls_seen++;
    if (fake->is_prompt && (call->request.operation == OPERATION_GET_ITEM ||
                            call->request.operation == OPERATION_QUERY)) {
        call->reply.status = fake->prompt.status;
        call->reply.body = fake->prompt.body;
        return SUBMIT_DONE;
    }
    if (call->is_passing)
        return SUBMIT_KEEP;
    const struct table *table = fake_table(lane, call->request.table_name);
    if (table == NULL)
        return call_fail(call, STATUS_RESOURCE_NOT_FOUND);
    enum status status = request_bind(&call->request, table, call->arena, &call->reply.error);
    if (status != STATUS_OK)
        return call_fail(call, status);
    struct fake_call *held = calloc(1, sizeof *held);
    ensure(held != NULL);
    held->call = call;
    held->lane = fake_lane;
    struct fake_call **at = &fake->calls;
    while (*at != NULL)
        at = &(*at)->next;
    *at = held;
    return SUBMIT_PENDING;
}

static void fake_report(struct backend *backend, report_fn report, void *arg)
{
    (void)backend, (void)report, (void)arg;
}

static bool fake_is_ready(struct backend *backend, const char **why)
{
    (void)backend, (void)why;
    return true;
}

static void fake_close(struct backend **backend)
{
    struct fake_backend *fake = (struct fake_backend *)*backend;
    ensure(fake->calls == NULL);
    free(fake);
    *backend = NULL;
}

static const struct backend_ops fake_ops = {
    .name = "fake",
    .lane_open = fake_lane_open,
    .lane_close = fake_lane_close,
    .lane_begin = nothing,
    .lane_end = nothing,
    .table = fake_table,
    .submit = fake_submit,
    .report = fake_report,
    .is_ready = fake_is_ready,
    .close = fake_close,
};

struct fake_backend *fake_backend_open(void)
{
    struct fake_backend *fake = calloc(1, sizeof *fake);
    ensure(fake != NULL);
    fake->backend.ops = &fake_ops;
    return fake;
}

void fake_backend_table(struct fake_backend *fake, uint32_t id, const char *name,
                        const char *partition, const char *sort)
{
    struct table *table = fake->tables;
    while (table->id != 0)
        table++;
    ensure(table < fake->tables + FAKE_TABLES_MAX);
    table->id = id;
    table->name = bytes_text(name);
    table->key.partition = (struct key_attribute){bytes_text(partition), VALUE_S};
    if (sort != NULL)
        table->key.sort = (struct key_attribute){bytes_text(sort), VALUE_S};
}

static struct bytes key_of(const struct call *call)
{
    return call->request.operation == OPERATION_QUERY ? call->request.range.partition
                                                      : call->request.item_key.bytes;
}

struct fake_call *fake_backend_find(struct fake_backend *fake, enum operation operation,
                                    const char *table, struct bytes key)
{
    for (struct fake_call *held = fake->calls; held != NULL; held = held->next)
        if (held->call->request.operation == operation &&
            bytes_equal(held->call->request.table_name, bytes_text(table)) &&
            (!bytes_given(key) || bytes_equal(key_of(held->call), key)))
            return held;
    return NULL;
}

static struct touched *touch_more(struct fake_call *held)
{
    struct reply *reply = &held->call->reply;
    size_t size = sizeof(struct touched);
    struct touched *touched = arena_alloc(held->call->arena, (reply->touched_count + 1) * size);
    ensure(touched != NULL);
    if (reply->touched_count != 0)
        memcpy(touched, reply->touched, reply->touched_count * size);
    reply->touched = touched;
    touched += reply->touched_count++;
    *touched = (struct touched){.table_id = held->call->request.table->id};
    return touched;
}

void fake_call_touch(struct fake_call *held)
{
    const struct request *request = &held->call->request;
    struct touched *touched = touch_more(held);
    touched->key = request->item_key;
    touched->is_all = request->operation == OPERATION_DELETE_TABLE;
}

void fake_call_announce(struct fake_call *held)
{
    if (!held->is_announced)
        fake_call_touch(held);
    held->is_announced = true;
    held->lane->env.intent(held->lane->env.intent_arg, held->call);
}

void fake_call_announce_also(struct fake_call *held, struct item_key key)
{
    touch_more(held)->key = key;
    fake_call_announce(held);
}

static void complete(struct fake_call **held, uint64_t now_us)
{
    struct call *call = (*held)->call;
    struct fake_call **at = &(*held)->lane->fake->calls;
    while (*at != *held)
        at = &(*at)->next;
    *at = (*held)->next;
    free(*held);
    *held = NULL;
    call->now_us = now_us;
    call->complete(call);
}

void fake_call_answer(struct fake_call **held, enum status status, struct bytes body,
                      bool is_image_known, uint64_t now_us)
{
    struct call *call = (*held)->call;
    (void)call_fail(call, status);
    call->reply.body = body;
    call->reply.count = body.size > 1;
    for (size_t i = 0; i < call->reply.touched_count; i++) {
        call->reply.touched[i].is_image_known = is_image_known;
        call->reply.touched[i].image = call->request.item;
    }
    complete(held, now_us);
}

void fake_call_answer_page(struct fake_call **held, struct bytes body, uint32_t count,
                           struct key_interval examined, uint64_t now_us)
{
    struct reply *reply = &(*held)->call->reply;
    reply->status = STATUS_OK;
    reply->body = body;
    reply->count = count;
    reply->read_bytes = body.size;
    reply->examined = examined;
    complete(held, now_us);
}
