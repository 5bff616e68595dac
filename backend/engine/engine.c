#include "backend/batch.h"
#include "backend/engine/action.h"
#include "backend/engine/record.h"

#include "protocol/ensure.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    RETRY_FIRST_US = 500,
    RETRY_DOUBLINGS_MAX = 6,
    LOAD_BYTES_MAX = 256 << 20,
    PAGE_KEPT_MAX = 2 << 20, /* a lane keeps a page's memory up to this */
};

const struct bytes body_nil = BYTES_LITERAL("\xc0");

/* ---- the catalog ---- */

/* Takes one reference to `next`. */
static void replace_catalog(struct engine *engine, struct catalog *next) REQUIRES(engine->lock)
{
    struct catalog *before = engine->catalog;
    engine->catalog = next;
    atomic_store_explicit(&engine->version, catalog_version(next), memory_order_release);
    catalog_unref(before);
}

static bool publish_locked(struct engine *engine, struct definition *added,
                           const struct definition *removed) REQUIRES(engine->lock)
{
    if (added != NULL) {
        const struct definition *there = catalog_find(engine->catalog, added->table.name);
        bool is_same = there != NULL && there->table.id == added->table.id;
        if (there != NULL &&
            (there->table.id > added->table.id || (is_same && there->version >= added->version)))
            return true;
        if (is_same)
            definition_take_heat(added, there);
    }
    struct catalog *next = catalog_change(engine->catalog, added, removed);
    if (next == NULL)
        return false;
    replace_catalog(engine, next);
    return true;
}

bool engine_publish(struct engine *engine, struct definition *added,
                    const struct definition *removed)
{
    mutex_lock(&engine->lock);
    bool is_published = publish_locked(engine, added, removed);
    mutex_unlock(&engine->lock);
    return is_published;
}

bool engine_adopt(struct engine *engine, const struct catalog *seen,
                  const struct listed_definition *found, const struct listed_definition *gone)
{
    bool is_fine = true;
    mutex_lock(&engine->lock);
    if (engine->catalog == seen) {
        for (; is_fine && found != NULL; found = found->next)
            is_fine = publish_locked(engine, found->definition, NULL);
        for (; is_fine && gone != NULL; gone = gone->next)
            is_fine = publish_locked(engine, NULL, gone->definition);
    }
    mutex_unlock(&engine->lock);
    return is_fine;
}

/* The token first: a change of the catalog after it is caught by the commit that relies on this. */
static void refresh(struct engine_lane *lane)
{
    struct engine *engine = lane->engine;
    lane->token = engine->kv->ops->token(engine->kv);
    if (LIKELY(atomic_load_explicit(&engine->version, memory_order_acquire) ==
               catalog_version(lane->catalog)))
        return;
    struct catalog *before = lane->catalog;
    lane->last_found = NULL;
    mutex_lock(&engine->lock);
    lane->catalog = catalog_ref(engine->catalog);
    mutex_unlock(&engine->lock);
    catalog_unref(before);
}

/* ---- moving an operation along ---- */

enum submit action_fail(struct action *action, enum status status)
{
    return call_fail(action->call, status);
}

void action_charge(struct action *action, const struct secondary_index *index,
                   const struct position *position, uint64_t half_units)
{
    struct call *call = action->call;
    throughput_consume(action, action->definition, index, position, false, half_units);
    if (LIKELY(call->request.capacity == CAPACITY_NONE))
        return;
    ensure(call->reply.consumed_count < sizeof action->consumed / sizeof action->consumed[0]);
    call->reply.consumed = action->consumed;
    action->consumed[call->reply.consumed_count++] =
        (struct consumed){.table = action->definition->table.name,
                          .index = index == NULL ? BYTES_NONE : index->name,
                          .is_local = index != NULL && index->is_local,
                          .half_units = half_units};
}

enum submit action_no_table(struct action *action)
{
    struct error *error = &action->call->reply.error;
    enum status status = table_name_check(action->call->request.table_name, error);
    return action_fail(action, status != STATUS_OK ? status
                                                   : error_set(error, STATUS_RESOURCE_NOT_FOUND,
                                                               "Requested resource not found"));
}

enum submit action_bind(struct action *action)
{
    struct request *request = &action->call->request;
    action->token = action->lane->token;
    action->definition = catalog_find(action->lane->catalog, request->table_name);
    struct error *error = &action->call->reply.error;
    if (action->definition == NULL ||
        atomic_load(&action->definition->state) != DEFINITION_ACTIVE) {
        enum status status = request_check(request, action->call->arena, error);
        return status == STATUS_OK ? action_no_table(action) : action_fail(action, status);
    }
    const struct table *table = &action->definition->table;
    if (request->table != table) /* not yet bound, or to a definition of the past */
        request->table = NULL;
    enum status status = request_bind(request, table, action->call->arena, error);
    return status == STATUS_OK ? SUBMIT_PENDING : action_fail(action, status);
}

/* The page goes back to the lane, which keeps its contents until the next Query. */
static void return_page(struct engine_lane *lane, struct buffer *page)
{
    if (page->data == NULL)
        return;
    buffer_deinit(&lane->page);
    lane->page = *page;
    *page = (struct buffer){0};
}

static void keep_page_small(struct engine_lane *lane)
{
    if (lane->page.capacity > PAGE_KEPT_MAX)
        buffer_deinit(&lane->page);
}

/* The reply goes to whoever submitted; the operation's memory goes with it. */
static void finish(struct action *action)
{
    struct call *call = action->call;
    struct engine_lane *lane = action->lane;
    struct catalog *held = (struct catalog *)(uintptr_t)call->pin;
    struct buffer page = action->page;
    lane->pending--;
    call->pin = NULL;
    call->complete(call);
    return_page(lane, &page);
    keep_page_small(lane);
    catalog_unref(held);
}

static void finish_if_done(struct action *action, enum submit submit)
{
    if (submit == SUBMIT_DONE)
        finish(action);
}

static enum submit read_is_over(struct action *action)
{
    if (action->read.status != STATUS_OK)
        return action_fail(action, action->read.status);
    return action->read_done(action);
}

static void read_complete(struct kv_read *read)
{
    struct action *action = read->owner;
    finish_if_done(action, read_is_over(action));
}

enum submit action_read(struct action *action)
{
    struct engine_lane *lane = action->lane;
    action->read.arena = action->call->arena;
    action->read.deadline_us = action->call->deadline_us;
    action->read.complete = read_complete;
    action->read.owner = action;
    enum submit submit = lane->kv->ops->read(lane->kv, &action->read);
    return submit == SUBMIT_DONE ? read_is_over(action) : submit;
}

/* ---- commits ---- */

uint64_t lane_random(struct engine_lane *lane)
{
    lane->random ^= lane->random << 13;
    lane->random ^= lane->random >> 7;
    lane->random ^= lane->random << 17;
    return lane->random;
}

/* Holds the definitions that the request is bound to for as long as the call is pending. */
static void pin(struct action *action)
{
    struct catalog *before = (struct catalog *)(uintptr_t)action->call->pin;
    action->call->pin = catalog_ref(action->lane->catalog);
    catalog_unref(before);
}

static void retry_run(struct task *task)
{
    struct action *action = (struct action *)((char *)task - offsetof(struct action, retry));
    struct engine_lane *lane = action->lane;
    if (!lane->is_in_batch)
        refresh(lane);
    memset(&action->read, 0, sizeof action->read);
    memset(&action->commit, 0, sizeof action->commit);
    memset(action->reads, 0, sizeof action->reads);
    memset(action->writes, 0, sizeof action->writes);
    enum submit submit = action->begin(action);
    if (submit == SUBMIT_PENDING)
        pin(action);
    finish_if_done(action, submit);
}

/* Again after a while, within the deadline; with jitter, or those who conflict meet again. */
enum submit action_retry(struct action *action)
{
    struct engine_lane *lane = action->lane;
    const struct call *call = action->call;
    uint32_t doublings =
        action->attempts < RETRY_DOUBLINGS_MAX ? action->attempts : RETRY_DOUBLINGS_MAX;
    uint64_t most_us = (uint64_t)RETRY_FIRST_US << doublings;
    uint64_t delay_us = most_us / 2 + lane_random(lane) % (most_us / 2);
    action->waited_us += delay_us;
    if (++action->attempts == ATTEMPTS_MAX ||
        (call->deadline_us != 0 && call->now_us + action->waited_us >= call->deadline_us))
        return action_fail(action, STATUS_TIMEOUT);
    atomic_fetch_add_explicit(&lane->engine->retries, 1, memory_order_relaxed);
    action->retry.run = retry_run;
    lane->env.after(lane->env.worker, delay_us, &action->retry);
    return SUBMIT_PENDING;
}

/* Somebody else's change: of another lane, which publishes it soon, or of another daemon. */
enum submit action_outdated(struct action *action, struct bytes record)
{
    struct definition *found;
    enum status status = definition_decode(record, &found);
    if (status != STATUS_OK)
        return action_fail(action, status);
    bool is_published = found->table.id != action->definition->table.id ||
                        engine_publish(action->lane->engine, found, NULL);
    definition_unref(found);
    return is_published ? action_retry(action) : action_fail(action, STATUS_NO_MEMORY);
}

enum submit action_refuse(struct action *action)
{
    struct kv *kv = action->lane->engine->kv;
    struct error *error = &action->call->reply.error;
    const char *why = action->commit.why;
    if (why == NULL && action->commit.status == STATUS_INTERNAL)
        (void)kv->ops->is_ready(kv, &why);
    if (why != NULL && error->text[0] == '\0')
        (void)error_set(error, action->commit.status, "%s", why);
    return action_fail(action, action->commit.status);
}

static enum submit commit_is_over(struct action *action)
{
    enum kv_outcome outcome = action->commit.outcome;
    if (outcome == KV_DONE)
        return action->commit_done(action);
    if (action->commit_failed != NULL)
        action->commit_failed(action);
    switch (outcome) {
    case KV_CONFLICT:
        return action_retry(action);
    case KV_REFUSED:
        return action->commit_refused != NULL ? action->commit_refused(action)
                                              : action_refuse(action);
    default:
        return action_fail(action, STATUS_OUTCOME_UNKNOWN);
    }
}

static void commit_complete(struct kv_commit *commit)
{
    struct action *action = commit->owner;
    finish_if_done(action, commit_is_over(action));
}

enum submit action_commit(struct action *action)
{
    struct engine_lane *lane = action->lane;
    struct call *call = action->call;
    action->commit.arena = call->arena;
    action->commit.deadline_us = call->deadline_us;
    action->commit.complete = commit_complete;
    action->commit.owner = action;
    if (call->reply.touched_count != 0 && lane->env.intent != NULL)
        lane->env.intent(lane->env.intent_arg, call);
    lane->kv->ops->commit(lane->kv, &action->commit);
    return SUBMIT_PENDING;
}

/* What has an unknown outcome stays counted. */
static void change_failed(struct action *action)
{
    definition_unref(action->created);
    action->created = NULL;
    if (action->commit.outcome != KV_UNKNOWN)
        atomic_fetch_sub(&action->definition->changes, 1);
}

enum submit action_change(struct action *action, step_fn done)
{
    atomic_fetch_add(&action->definition->changes, 1);
    action->commit_done = done;
    action->commit_failed = change_failed;
    return action_commit(action);
}

/* ---- the backend ---- */

static const struct {
    step_fn begin;
    bool needs_store; /* may have to wait */
} operations[OPERATIONS] = {
    [OPERATION_GET_ITEM] = {get_begin, true},
    [OPERATION_PUT_ITEM] = {write_begin, true},
    [OPERATION_DELETE_ITEM] = {write_begin, true},
    [OPERATION_UPDATE_ITEM] = {write_begin, true},
    [OPERATION_QUERY] = {query_begin, true},
    [OPERATION_SCAN] = {scan_begin, true},
    [OPERATION_TRANSACT_GET_ITEMS] = {transact_get_begin, true},
    [OPERATION_TRANSACT_WRITE_ITEMS] = {transact_write_begin, true},
    [OPERATION_CREATE_TABLE] = {create_table_begin, true},
    [OPERATION_UPDATE_TABLE] = {update_table_begin, true},
    [OPERATION_UPDATE_TIME_TO_LIVE] = {update_time_to_live_begin, true},
    [OPERATION_DESCRIBE_TIME_TO_LIVE] = {describe_time_to_live_begin, false},
    [OPERATION_TAG_RESOURCE] = {tag_resource_begin, true},
    [OPERATION_UNTAG_RESOURCE] = {tag_resource_begin, true},
    [OPERATION_LIST_TAGS_OF_RESOURCE] = {list_tags_begin, false},
    [OPERATION_FILL_INDEX] = {fill_index_begin, true},
    [OPERATION_DESCRIBE_HEAT] = {describe_heat_begin, true},
    [OPERATION_SPLIT_PARTITION] = {split_begin, true},
    [OPERATION_LOOK_AT_SHARED] = {look_at_shared_begin, true},
    [OPERATION_DESCRIBE_TABLE] = {describe_table_begin, true},
    [OPERATION_LIST_TABLES] = {list_tables_begin, false},
    [OPERATION_DELETE_TABLE] = {delete_table_begin, true},
};

static enum submit begin(struct engine_lane *lane, struct call *call)
{
    struct action *action = arena_alloc(call->arena, sizeof *action);
    if (action == NULL)
        return call_fail(call, STATUS_NO_MEMORY);
    memset(action, 0, sizeof *action);
    action->call = call;
    action->lane = lane;
    action->begin = operations[call->request.operation].begin;
    lane->random += call->now_us;
    enum submit submit = action->begin(action);
    if (submit == SUBMIT_PENDING) {
        lane->pending++;
        call->pin = NULL;
        pin(action);
    } else {
        return_page(lane, &action->page);
    }
    return submit;
}

static enum submit engine_submit(struct lane *base, struct call *call)
{
    struct engine_lane *lane = (struct engine_lane *)base;
    enum operation operation = call->request.operation;
    if (operation == OPERATION_BATCH_GET_ITEM || operation == OPERATION_BATCH_WRITE_ITEM)
        return batch_submit(base, call);
    bool is_known = (unsigned)operation < OPERATIONS && operations[operation].begin != NULL;
    if (is_known && operations[operation].needs_store && call->is_passing)
        return SUBMIT_KEEP;
    reply_init(&call->reply);
    if (operation == OPERATION_PING) {
        call->reply.body = body_nil;
        return SUBMIT_DONE;
    }
    if (!is_known)
        return call_fail(call, STATUS_UNKNOWN_OPERATION);
    atomic_fetch_add_explicit(&lane->engine->calls[operation], 1, memory_order_relaxed);
    return begin(lane, call);
}

static void engine_lane_begin(struct lane *base)
{
    struct engine_lane *lane = (struct engine_lane *)base;
    refresh(lane);
    lane->is_in_batch = true;
}

static void engine_lane_end(struct lane *base)
{
    struct engine_lane *lane = (struct engine_lane *)base;
    lane->is_in_batch = false;
    keep_page_small(lane);
}

static const struct table *engine_table(struct lane *base, struct bytes name)
{
    struct engine_lane *lane = (struct engine_lane *)base;
    /* Most requests name the table that the one before did. */
    if (lane->last_found == NULL || !bytes_equal(lane->last_found->table.name, name))
        lane->last_found = catalog_find(lane->catalog, name);
    struct definition *definition = lane->last_found;
    if (definition == NULL ||
        atomic_load_explicit(&definition->state, memory_order_acquire) != DEFINITION_ACTIVE)
        return NULL;
    return &definition->table;
}

static enum status engine_lane_open(struct backend *backend, const struct lane_env *env,
                                    struct lane **out)
{
    struct engine *engine = (struct engine *)backend;
    struct engine_lane *lane = calloc(1, sizeof *lane);
    if (lane == NULL)
        return STATUS_NO_MEMORY;
    enum status status = engine->kv->ops->lane_open(engine->kv, env, &lane->kv);
    if (status != STATUS_OK) {
        free(lane);
        return status;
    }
    lane->lane.ops = backend->ops;
    lane->engine = engine;
    lane->env = *env;
    lane->random = (uint64_t)(uintptr_t)lane | 1;
    mutex_lock(&engine->lock);
    lane->catalog = catalog_ref(engine->catalog);
    mutex_unlock(&engine->lock);
    *out = &lane->lane;
    return STATUS_OK;
}

static void engine_lane_close(struct lane **base)
{
    struct engine_lane *lane = (struct engine_lane *)*base;
    *base = NULL;
    ensure(lane->pending == 0);
    lane->kv->ops->lane_close(&lane->kv);
    catalog_unref(lane->catalog);
    buffer_deinit(&lane->page);
    free(lane);
}

static void engine_report(struct backend *backend, report_fn report, void *arg)
{
    struct engine *engine = (struct engine *)backend;
    static const struct metric calls = {"engine_calls_total", "counter",
                                        "Calls that reached the store's engine"};
    for (size_t i = 0; i < OPERATIONS; i++) {
        char labels[64];
        if (operations[i].begin == NULL)
            continue;
        snprintf(labels, sizeof labels, "operation=\"%s\"", operation_name((enum operation)i));
        report(arg, &calls, labels, (double)atomic_load(&engine->calls[i]));
    }
    static const struct metric retries = {"engine_retries_total", "counter",
                                          "Writes tried again after a conflict"};
    report(arg, &retries, "", (double)atomic_load(&engine->retries));
    mutex_lock(&engine->lock);
    size_t tables = catalog_count(engine->catalog);
    mutex_unlock(&engine->lock);
    static const struct metric table_count = {"engine_tables", "gauge", "Tables there are"};
    report(arg, &table_count, "", (double)tables);
    engine->kv->ops->report(engine->kv, report, arg);
}

static bool engine_is_ready(struct backend *backend, const char **why)
{
    struct engine *engine = (struct engine *)backend;
    return engine->kv->ops->is_ready(engine->kv, why);
}

static void engine_close(struct backend **backend)
{
    struct engine *engine = (struct engine *)*backend;
    *backend = NULL;
    if (engine->kv != NULL)
        engine->kv->ops->close(&engine->kv);
    catalog_unref(engine->catalog);
    mutex_deinit(&engine->lock);
    free(engine);
}

static const struct backend_ops engine_ops = {
    .name = "engine",
    .lane_open = engine_lane_open,
    .lane_close = engine_lane_close,
    .lane_begin = engine_lane_begin,
    .lane_end = engine_lane_end,
    .table = engine_table,
    .submit = engine_submit,
    .report = engine_report,
    .is_ready = engine_is_ready,
    .close = engine_close,
};

/* ---- opening ---- */

static const struct kv_ops *find_store(struct bytes url)
{
    const uint8_t *colon = url.size == 0 ? NULL : memchr(url.data, ':', url.size);
    if (colon == NULL)
        return NULL;
    struct bytes scheme = bytes_of(url.data, (size_t)(colon - url.data));
    for (const struct kv_ops *const *store = kv_stores; *store != NULL; store++)
        for (const char *const *name = (*store)->schemes; *name != NULL; name++)
            if (bytes_equal(scheme, bytes_text(*name)))
                return *store;
    return NULL;
}

/* What is there at opening: definitions one after the other. */
struct load {
    struct engine *engine;
    enum status status;
    bool is_anything;
};

static bool load_visit(struct kv_read *read, struct bytes key, struct bytes value)
{
    (void)key;
    struct load *load = read->owner;
    struct definition *definition;
    load->status = definition_decode(value, &definition);
    if (load->status != STATUS_OK)
        return false;
    if (!engine_publish(load->engine, definition, NULL))
        load->status = STATUS_NO_MEMORY;
    definition_unref(definition);
    return load->status == STATUS_OK;
}

static bool anything_visit(struct kv_read *read, struct bytes key, struct bytes value)
{
    (void)key;
    (void)value;
    ((struct load *)read->owner)->is_anything = true;
    return false;
}

static enum status load_range(struct load *load, kv_visit_fn visit, struct bytes low,
                              struct bytes high, struct arena *arena)
{
    struct kv *kv = load->engine->kv;
    struct kv_read read = {.low = low, .high = high, .visit = visit, .arena = arena, .owner = load};
    kv->ops->load(kv, &read);
    return read.status == STATUS_OK ? load->status : read.status;
}

static enum status check_format(struct load *load, struct bytes url, struct arena *arena,
                                struct error *error)
{
    struct kv *kv = load->engine->kv;
    struct kv_record record = {.key = record_format_key(arena)};
    if (!bytes_given(record.key))
        return STATUS_NO_MEMORY;
    struct kv_read read = {.records = &record, .count = 1, .arena = arena};
    kv->ops->load(kv, &read);
    if (read.status != STATUS_OK)
        return read.status;
    uint64_t format = record_number_read(record.value);
    if (format > RECORD_FORMAT)
        return error_set(error, STATUS_VALIDATION,
                         "%.*s was written in format %llu by a newer mudax, this one knows %d; "
                         "start that version or give another place",
                         (int)url.size, (const char *)url.data, (unsigned long long)format,
                         RECORD_FORMAT);
    if (format != 0)
        return STATUS_OK;
    enum status status = load_range(load, anything_visit, bytes_of("", 0), BYTES_NONE, arena);
    if (status == STATUS_OK && load->is_anything)
        return error_set(error, STATUS_VALIDATION,
                         "%.*s holds data that is not mudax's; give an empty or a new place",
                         (int)url.size, (const char *)url.data);
    return status;
}

static enum status load_catalog(struct engine *engine, struct bytes url, struct error *error)
{
    struct load load = {.engine = engine};
    struct arena arena;
    arena_init(&arena, NULL, 0, LOAD_BYTES_MAX);
    struct bytes low, high;
    enum status status = check_format(&load, url, &arena, error);
    if (status == STATUS_OK && !record_definitions_range(&arena, &low, &high))
        status = STATUS_NO_MEMORY;
    if (status == STATUS_OK)
        status = load_range(&load, load_visit, low, high, &arena);
    if (status != STATUS_OK && error->text[0] == '\0')
        status = error_set(error, status, "%.*s: the table definitions cannot be read: %s",
                           (int)url.size, (const char *)url.data, status_text(status));
    arena_deinit(&arena);
    return status;
}

enum status engine_open(const struct engine_options *options, struct backend **out,
                        struct error *error)
{
    struct bytes url = options->store.url;
    ensure(options->partitions >= 1 && options->partitions <= PARTITIONS_MAX);
    ensure(options->wall_ms != NULL);
    error->text[0] = '\0';
    const struct kv_ops *store = find_store(url);
    if (store == NULL)
        return error_set(error, STATUS_VALIDATION,
                         "no store answers to \"%.*s\"; write rocksdb:DIR, memory: or "
                         "redis://HOST:PORT",
                         (int)url.size, (const char *)url.data);
    struct engine *engine = calloc(1, sizeof *engine);
    if (engine == NULL)
        return STATUS_NO_MEMORY;
    engine->backend.ops = &engine_ops;
    engine->partitions = options->partitions;
    engine->tables_max = options->tables_max;
    ensure(options->collection_bytes_max <= INT64_MAX);
    engine->collection_bytes_max =
        options->collection_bytes_max == 0 ? INT64_MAX : (int64_t)options->collection_bytes_max;
    engine->emulates_throughput = options->emulates_throughput;
    engine->partition_rates = (struct heat_rates){.read = options->partition_read_units,
                                                  .write = options->partition_write_units};
    engine->partition_bytes_max = options->partition_bytes_max;
    engine->partition_hot_us = options->partition_hot_ms * 1000;
    engine->wall_ms = options->wall_ms;
    mutex_init(&engine->lock);
    engine->catalog = catalog_create();
    enum status status = engine->catalog == NULL ? STATUS_NO_MEMORY : STATUS_OK;
    if (status == STATUS_OK)
        status = store->open(&options->store, &engine->kv, error);
    if (status == STATUS_OK)
        status = load_catalog(engine, url, error);
    if (status != STATUS_OK) {
        struct backend *backend = &engine->backend;
        engine_close(&backend);
        return status;
    }
    *out = &engine->backend;
    return STATUS_OK;
}
