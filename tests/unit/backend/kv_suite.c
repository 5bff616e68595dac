#include "tests/unit/backend/kv_suite.h"

#include "protocol/ensure.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { SUITE_BYTES_MAX = 512 << 20, STORE_MEMORY = 32 << 20 };

static const struct kv_ops *ops_of(const char *url)
{
    for (const struct kv_ops *const *ops = kv_stores; *ops != NULL; ops++)
        for (const char *const *scheme = (*ops)->schemes; *scheme != NULL; scheme++)
            if (strncmp(url, *scheme, strlen(*scheme)) == 0 && url[strlen(*scheme)] == ':')
                return *ops;
    fail_msg("no store for %s", url);
    return NULL;
}

void store_set_up(struct store_under_test *store, const char *url, enum sync_mode sync,
                  event_fn on_event, void *on_event_arg)
{
    struct store_options options = {.url = bytes_text(url),
                                    .memory_bytes = STORE_MEMORY,
                                    .sync = sync,
                                    .on_event = on_event,
                                    .on_event_arg = on_event_arg};
    struct error error = {.text = ""};
    *store = (struct store_under_test){.ops = ops_of(url)};
    if (store->ops->open(&options, &store->kv, &error) != STATUS_OK)
        fail_msg("%s", error.text);
    store_lane_set_up(store, store);
}

void store_lane_set_up(struct store_under_test *store, const struct store_under_test *opened)
{
    store->ops = opened->ops;
    store->kv = opened->kv;
    lane_loop_init(&store->loop);
    arena_init(&store->arena, NULL, 0, SUITE_BYTES_MAX);
    ensure(store->ops->lane_open(store->kv, &store->loop.env, &store->lane) == STATUS_OK);
}

void store_lane_tear_down(struct store_under_test *store)
{
    store->ops->lane_close(&store->lane);
    lane_loop_deinit(&store->loop);
    arena_deinit(&store->arena);
}

void store_tear_down(struct store_under_test *store)
{
    store_lane_tear_down(store);
    store->ops->close(&store->kv);
}

/* ---- reads ---- */

struct listing {
    bool is_complete;
    struct buffer *keys;
    size_t most, count;
};

static void read_is_complete(struct kv_read *read)
{
    ((struct listing *)read->owner)->is_complete = true;
}

static enum status run_read(struct store_under_test *store, struct kv_read *read)
{
    struct listing *listing = read->owner;
    read->arena = &store->arena;
    read->complete = read_is_complete;
    if (store->ops->read(store->lane, read) == SUBMIT_PENDING)
        ensure(lane_loop_run_until(&store->loop, &listing->is_complete));
    else
        ensure(!listing->is_complete);
    return read->status;
}

enum status store_get(struct store_under_test *store, struct kv_record *records, size_t count)
{
    struct listing listing = {.is_complete = false};
    struct kv_read read = {.records = records, .count = count, .owner = &listing};
    return run_read(store, &read);
}

struct kv_record store_get_one(struct store_under_test *store, const char *key)
{
    struct kv_record record = {.key = bytes_text(key)};
    ensure(store_get(store, &record, 1) == STATUS_OK);
    return record;
}

static bool list_visit(struct kv_read *read, struct bytes key, struct bytes value)
{
    struct listing *listing = read->owner;
    struct bytes bucket = BYTES_LITERAL(KV_BUCKET);
    ensure(bytes_given(value));
    if (bytes_begin_with(key, bucket))
        key = bytes_of(key.data + bucket.size, key.size - bucket.size);
    if (listing->keys->size != 0)
        ensure(buffer_append(listing->keys, bytes_text(" ")));
    ensure(buffer_append(listing->keys, key));
    return ++listing->count != listing->most;
}

static const char *list(struct store_under_test *store, struct kv_read *read, size_t most)
{
    struct buffer keys = {0};
    struct listing listing = {.keys = &keys, .most = most};
    read->visit = list_visit;
    read->owner = &listing;
    ensure(run_read(store, read) == STATUS_OK);
    ensure(buffer_append(&keys, bytes_of("", 1)));
    struct bytes copy = arena_copy(&store->arena, buffer_bytes(&keys));
    buffer_deinit(&keys);
    return (const char *)copy.data;
}

const char *store_list(struct store_under_test *store, const char *low, const char *high,
                       bool is_backward, size_t most)
{
    struct kv_read read = {.low = bytes_text(low), .high = text(high), .is_backward = is_backward};
    return list(store, &read, most);
}

const char *store_list_large(struct store_under_test *store, const char *low, const char *high)
{
    struct kv_read read = {.low = bytes_text(low), .high = text(high), .is_large = true};
    return list(store, &read, 0);
}

/* ---- commits ---- */

static void commit_is_complete(struct kv_commit *commit)
{
    *(bool *)commit->owner = true;
}

enum kv_outcome store_commit_all(struct store_under_test *store, struct kv_commit *commit)
{
    bool is_complete = false;
    void *owner = commit->owner;
    ensure(owner == NULL);
    commit->owner = &is_complete;
    commit->arena = &store->arena;
    commit->complete = commit_is_complete;
    store->ops->commit(store->lane, commit);
    ensure(!is_complete); /* never inside the call */
    ensure(lane_loop_run_until(&store->loop, &is_complete));
    commit->owner = NULL;
    return commit->outcome;
}

enum kv_outcome store_put(struct store_under_test *store, const char *key, const char *value)
{
    struct kv_record write = {.key = bytes_text(key), .value = text(value)};
    struct kv_commit commit = {.writes = &write, .write_count = 1};
    return store_commit_all(store, &commit);
}
