#include "bench/micro/instant.h"

#include <stdlib.h>

const struct table instant_table = {
    .id = 1, .name = BYTES_LITERAL("bench"), .key = {.partition = {BYTES_LITERAL("p"), VALUE_S}}};

static void never(void *worker, struct task *task)
{
    (void)worker;
    (void)task;
}

static void never_after(void *worker, uint64_t delay_us, struct task *task)
{
    (void)worker;
    (void)delay_us;
    (void)task;
}

const struct lane_env instant_env = {.post = never, .after = never_after};

static struct bytes (*read_body)(void);

static struct backend_ops instant_ops;
struct instant_lane {
    struct lane lane;
    struct lane_env env;
};

static enum status lane_open(struct backend *backend, const struct lane_env *env, struct lane **out)
{
    (void)backend;
    struct instant_lane *lane = calloc(1, sizeof *lane);
    if (lane == NULL)
        return STATUS_NO_MEMORY;
    lane->lane.ops = &instant_ops;
    lane->env = *env;
    *out = &lane->lane;
    return STATUS_OK;
}

static void lane_close(struct lane **lane)
{
    free(*lane);
    *lane = NULL;
}

static void nothing(struct lane *lane)
{
    (void)lane;
}

static const struct table *table(struct lane *lane, struct bytes name)
{
    (void)lane;
    return bytes_equal(name, instant_table.name) ? &instant_table : NULL;
}

static enum submit submit(struct lane *base, struct call *call)
{
    struct instant_lane *lane = (struct instant_lane *)base;
    struct reply *reply = &call->reply;
    if (call->is_passing)
        return SUBMIT_KEEP;
    if (call->request.operation == OPERATION_GET_ITEM) {
        reply->body = read_body();
        return SUBMIT_DONE;
    }
    reply->touched = arena_alloc(call->arena, sizeof *reply->touched);
    if (reply->touched == NULL ||
        request_bind(&call->request, &instant_table, call->arena, &reply->error) != STATUS_OK)
        return call_fail(call, STATUS_NO_MEMORY);
    *reply->touched = (struct touched){.table_id = instant_table.id, .key = call->request.item_key};
    reply->touched_count = 1;
    lane->env.intent(lane->env.intent_arg, call);
    reply->touched->is_image_known = true;
    reply->touched->image = call->request.item;
    reply->body = BYTES_LITERAL("\xc0");
    return SUBMIT_DONE;
}

static void report(struct backend *backend, report_fn say, void *arg)
{
    (void)backend;
    (void)say;
    (void)arg;
}

static void close_backend(struct backend **backend)
{
    *backend = NULL;
}

static struct backend_ops instant_ops = {.name = "instant",
                                         .lane_open = lane_open,
                                         .lane_close = lane_close,
                                         .lane_begin = nothing,
                                         .lane_end = nothing,
                                         .table = table,
                                         .submit = submit,
                                         .report = report,
                                         .close = close_backend};

struct backend *instant_backend(struct bytes (*body)(void))
{
    static struct backend instant = {&instant_ops};
    read_body = body;
    return &instant;
}
