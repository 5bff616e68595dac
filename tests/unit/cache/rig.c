#include "tests/unit/cache/rig.h"

#include "cache/item_cache.h"
#include "protocol/ensure.h"

#include <stdio.h>

void rig_open(struct rig *rig, size_t memory_bytes)
{
    struct cache_options options = {
        .memory_bytes = memory_bytes,
        .threads = 1,
        .seed = 5,
        .now_us = 1000000,
        .waiters_max = 10,
        .policies.fallback = {.is_enabled = true,
                              .item_ttl_ms = 300000,
                              .query_ttl_ms = 300000,
                              .negative_ttl_max_ms = 60000},
    };
    struct error error;
    *rig = (struct rig){.fake = fake_backend_open(), .now_us = 1000000};
    fake_backend_table(rig->fake, 1, "users", "id", NULL);
    fake_backend_table(rig->fake, 2, "events", "p", "s");
    rig->fake->is_prompt = true;
    struct backend *below = &rig->fake->backend;
    ensure(cache_open(&options, &below, &rig->backend, &error) == STATUS_OK);
    rig->cache = (struct cache *)rig->backend;
    lane_loop_init(&rig->loop);
    ensure(rig->backend->ops->lane_open(rig->backend, &rig->loop.env, &rig->lane) == STATUS_OK);
    arena_init(&rig->arena, NULL, 0, 4 << 20);
}

void rig_close(struct rig *rig)
{
    if (rig->lane != NULL)
        rig->backend->ops->lane_close(&rig->lane);
    lane_loop_advance(&rig->loop, 1000000);
    lane_loop_deinit(&rig->loop);
    rig->backend->ops->close(&rig->backend);
    arena_deinit(&rig->arena);
}

static enum verdict ask(struct rig *rig, struct bytes body)
{
    rig->fake->prompt.body = bytes_given(body) ? body : BODY_NO_ITEM;
    rig->call.now_us = rig->now_us;
    rig->call.arena = &rig->arena;
    rig->call.is_passing = true;
    ensure(rig->lane->ops->submit(rig->lane, &rig->call) == SUBMIT_DONE);
    ensure(rig->call.reply.status == STATUS_OK);
    return rig->call.reply.verdict;
}

static void begin(struct rig *rig, enum operation operation)
{
    arena_reset(&rig->arena);
    rig->call = (struct call){.request.operation = operation,
                              .request.projection = rig->projection,
                              .request.filter = rig->filter};
}

enum verdict rig_get_in_batch(struct rig *rig, uint64_t number, struct bytes body)
{
    begin(rig, OPERATION_GET_ITEM);
    rig->call.request.table_name = BYTES_LITERAL("users");
    int size =
        snprintf((char *)rig->key, sizeof rig->key, "\x81\xa2id\xac%012lu", (unsigned long)number);
    rig->call.request.key = bytes_of(rig->key, (size_t)size);
    return ask(rig, body);
}

enum verdict rig_get(struct rig *rig, uint64_t number, struct bytes body)
{
    rig->lane->ops->lane_begin(rig->lane);
    enum verdict verdict = rig_get_in_batch(rig, number, body);
    rig->lane->ops->lane_end(rig->lane);
    return verdict;
}

enum verdict rig_query(struct rig *rig, uint64_t number, struct bytes body)
{
    begin(rig, OPERATION_QUERY);
    struct request *request = &rig->call.request;
    request->table_name = BYTES_LITERAL("events");
    request->key_condition.text = BYTES_LITERAL("p = :p");
    int size = snprintf((char *)rig->values, sizeof rig->values, "\x81\xa2:p\xac%012lu",
                        (unsigned long)number);
    request->key_condition.values = bytes_of(rig->values, (size_t)size);
    rig->lane->ops->lane_begin(rig->lane);
    enum verdict verdict = ask(rig, body);
    rig->lane->ops->lane_end(rig->lane);
    return verdict;
}

void rig_keep_house(struct rig *rig)
{
    for (int i = 0; i < 10000 && cache_housekeep(rig->backend, rig->now_us); i++)
        continue;
}

struct entry *rig_entry(struct rig *rig, uint64_t number)
{
    char text[16];
    struct probe_room room;
    (void)snprintf(text, sizeof text, "%012lu", (unsigned long)number);
    struct item_key key = {bytes_of(text, 12), 12};
    const struct entry *probe = item_probe(rig->cache, &room, &rig->arena, 1, key);
    return index_get(&rig->cache->index, probe);
}

struct sought {
    const char *name, *labels;
    double value;
};

static void seek(void *arg, const struct metric *metric, const char *labels, double value)
{
    struct sought *sought = arg;
    if (strcmp(metric->name, sought->name) == 0 &&
        (sought->labels == NULL || strcmp(labels, sought->labels) == 0))
        sought->value += value;
}

double rig_figure(struct rig *rig, const char *name, const char *labels)
{
    struct sought sought = {name, labels, 0};
    rig->backend->ops->report(rig->backend, seek, &sought);
    return sought.value;
}
