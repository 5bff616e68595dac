#include "bench/trace/replay.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    KEY_SIZE = 8,
    VALUE_MAX = 400 << 20, /* beyond what any cache keeps; never written, so never resident */
    ARENA_MAX = 512 << 20,
    LOOK_EVERY = 64,         /* requests between two looks at what is held */
    HOUSEKEEP_EVERY = 10000, /* requests: a tenth of a second of 100,000 a second */
    HOUSEKEEP_MAX = 100,
    NOW_US = 1000000,
};

static const struct table the_table = {
    .id = 1, .name = BYTES_LITERAL("trace"), .key = {.partition = {BYTES_LITERAL("p"), VALUE_S}}};

/* ---- a backend that answers at once ---- */

struct source {
    struct backend backend;
    struct lane lane;
    struct bytes value; /* of the next answer */
};

static struct backend_ops source_ops;

static enum status lane_open(struct backend *backend, const struct lane_env *env, struct lane **out)
{
    (void)env;
    struct source *source = (struct source *)backend;
    source->lane.ops = &source_ops;
    *out = &source->lane;
    return STATUS_OK;
}

static void lane_close(struct lane **lane)
{
    *lane = NULL;
}

static void nothing(struct lane *lane)
{
    (void)lane;
}

static const struct table *table(struct lane *lane, struct bytes name)
{
    (void)lane;
    return bytes_equal(name, the_table.name) ? &the_table : NULL;
}

static enum submit submit(struct lane *lane, struct call *call)
{
    const struct source *source =
        (const struct source *)(const void *)((uint8_t *)lane - offsetof(struct source, lane));
    call->reply.status = STATUS_OK;
    call->reply.count = 1;
    call->reply.body = source->value;
    return SUBMIT_DONE;
}

static void report_nothing(struct backend *backend, report_fn report, void *arg)
{
    (void)backend, (void)report, (void)arg;
}

static void close_backend(struct backend **backend)
{
    *backend = NULL;
}

static struct backend_ops source_ops = {.name = "source",
                                        .lane_open = lane_open,
                                        .lane_close = lane_close,
                                        .lane_begin = nothing,
                                        .lane_end = nothing,
                                        .table = table,
                                        .submit = submit,
                                        .report = report_nothing,
                                        .close = close_backend};

/* ---- what the cache holds ---- */

struct wanted_figure {
    const char *name;
    size_t offset; /* in struct replay_result */
};

static const struct wanted_figure figures[] = {
    {"cache_entries", offsetof(struct replay_result, entries)},
    {"cache_payload_bytes", offsetof(struct replay_result, payload)},
    {"cache_entry_bytes", offsetof(struct replay_result, entry_bytes)},
    {"cache_used_bytes", offsetof(struct replay_result, used)},
    {"cache_overhead_bytes", offsetof(struct replay_result, overhead)},
    {"cache_index_bytes", offsetof(struct replay_result, index)},
    {"cache_evictions_total", offsetof(struct replay_result, evictions)},
    {"cache_evacuations_total", offsetof(struct replay_result, evacuations)},
    {"cache_fills_dropped_total", offsetof(struct replay_result, not_kept)},
};

static double *figure(struct replay_result *result, const struct wanted_figure *which)
{
    return (double *)(void *)((uint8_t *)result + which->offset);
}

static void add_figure(void *arg, const struct metric *metric, const char *labels, double value)
{
    (void)labels;
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
        if (strcmp(metric->name, figures[i].name) == 0)
            *figure(arg, &figures[i]) += value;
}

/* looks  how often it was looked while full */
static void look(struct backend *cache, struct replay_result *result, double *looks)
{
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
        *figure(result, &figures[i]) = 0;
    cache->ops->report(cache, add_figure, result);
    if ((uint64_t)result->entries > result->entries_max)
        result->entries_max = (uint64_t)result->entries;
    if ((uint64_t)result->payload > result->payload_max)
        result->payload_max = (uint64_t)result->payload;
    if (result->evictions == 0)
        return;
    ++*looks;
    result->entries_mean += (result->entries - result->entries_mean) / *looks;
    result->payload_mean += (result->payload - result->payload_mean) / *looks;
}

/* ---- requests ---- */

struct client {
    struct source source;
    struct backend *cache;
    struct lane *lane;
    struct arena arena;
    uint8_t memory[64 * 1024];
};

static void never(void *worker, struct task *task)
{
    (void)worker, (void)task;
}

static void never_after(void *worker, uint64_t delay_us, struct task *task)
{
    (void)worker, (void)delay_us, (void)task;
}

static bool client_open(struct client *client, const struct replay_options *options,
                        const uint8_t *values)
{
    static const struct lane_env env = {.post = never, .after = never_after};
    struct cache_options cache_options = {.memory_bytes = options->budget,
                                          .threads = 1,
                                          .seed = 7,
                                          .now_us = NOW_US,
                                          .waiters_max = 1,
                                          .eviction = options->eviction,
                                          .policies.fallback = {.is_enabled = true}};
    client->source.backend.ops = &source_ops;
    client->source.value.data = values;
    struct backend *below = &client->source.backend;
    struct error error;
    if (cache_open(&cache_options, &below, &client->cache, &error) != STATUS_OK ||
        client->cache->ops->lane_open(client->cache, &env, &client->lane) != STATUS_OK)
        return false;
    arena_init(&client->arena, client->memory, sizeof client->memory, ARENA_MAX);
    return true;
}

static void client_close(struct client *client)
{
    if (client->lane != NULL) {
        client->lane->ops->lane_close(&client->lane);
        arena_deinit(&client->arena);
    }
    if (client->cache != NULL)
        client->cache->ops->close(&client->cache);
}

/* {"p": eight digits}. True if it was a hit. */
static bool get(struct client *client, uint32_t id)
{
    char key[16];
    int key_size = snprintf(key, sizeof key, "\x81\xa1p\xa8%08u", id);
    struct call call = {.arena = &client->arena, .is_passing = true, .now_us = NOW_US};
    call.request.operation = OPERATION_GET_ITEM;
    call.request.table_name = the_table.name;
    call.request.key = bytes_of((const uint8_t *)key, (size_t)key_size);
    reply_init(&call.reply);
    const struct backend_ops *ops = client->lane->ops;
    ops->lane_begin(client->lane);
    bool is_done = ops->submit(client->lane, &call) == SUBMIT_DONE;
    ops->lane_end(client->lane);
    arena_reset(&client->arena);
    if (!is_done || call.reply.status != STATUS_OK)
        abort(); /* the source answers everything */
    return call.reply.verdict == VERDICT_HIT;
}

static size_t value_size(const struct replay_options *options, uint32_t id)
{
    size_t size = options->sizes == NULL ? 1 : options->sizes[id];
    size *= options->scale;
    size = size > KEY_SIZE + 1 ? size - KEY_SIZE : 1;
    return size < VALUE_MAX ? size : VALUE_MAX;
}

bool replay_run(const struct replay_options *options, struct replay_result *result)
{
    struct client *client = calloc(1, sizeof *client);
    uint8_t *values = calloc(1, VALUE_MAX);
    bool is_ok = client != NULL && values != NULL && client_open(client, options, values);
    double looks = 0;
    *result = (struct replay_result){0};
    for (size_t i = 0; is_ok && i < options->trace->count; i++) {
        uint32_t id = options->trace->ids[i];
        client->source.value.size = value_size(options, id);
        result->misses += !get(client, id);
        if (i % HOUSEKEEP_EVERY == 0)
            for (int more = 0; more < HOUSEKEEP_MAX && cache_housekeep(client->cache, NOW_US);)
                more++;
        if (i % LOOK_EVERY == 0 || i + 1 == options->trace->count)
            look(client->cache, result, &looks);
    }
    if (!is_ok)
        (void)fprintf(stderr, "bench-trace: cannot open a cache of %zu bytes\n", options->budget);
    if (client != NULL)
        client_close(client);
    free(client);
    free(values);
    return is_ok;
}
