#include "backend/rocksdb/store.h"

#include "protocol/ensure.h"

#include <signal.h>
#include <stdlib.h>

/* ---- the URL: rocksdb:DIR, memory:, memory:?delay=4ms ---- */

static const struct {
    const char *suffix;
    uint64_t us;
} delay_units[] = {{"us", 1}, {"ms", 1000}, {"s", 1000000}};

enum { DELAY_DIGITS_MAX = 6 };

static bool delay_parse(struct bytes text, uint64_t *out_us)
{
    uint64_t number = 0;
    size_t digits = 0;
    while (digits < text.size && text.data[digits] >= '0' && text.data[digits] <= '9')
        number = number * 10 + (uint64_t)(text.data[digits++] - '0');
    struct bytes unit = bytes_of(text.data + digits, text.size - digits);
    if (digits == 0 || digits > DELAY_DIGITS_MAX)
        return false;
    for (size_t i = 0; i < sizeof delay_units / sizeof delay_units[0]; i++)
        if (bytes_equal(unit, bytes_text(delay_units[i].suffix))) {
            *out_us = number * delay_units[i].us;
            return true;
        }
    return false;
}

static enum status parse_memory(struct store *store, struct bytes rest, struct error *error)
{
    static const struct bytes option = BYTES_LITERAL("?delay=");
    if (rest.size == 0)
        return STATUS_OK;
    if (bytes_begin_with(rest, option) &&
        delay_parse(bytes_of(rest.data + option.size, rest.size - option.size), &store->delay_us))
        return STATUS_OK;
    return error_set(error, STATUS_VALIDATION,
                     "memory:%.*s is not understood; write memory: or memory:?delay=4ms (us, ms, "
                     "s)",
                     (int)rest.size, (const char *)rest.data);
}

/* Fills path, delay and environment. */
static enum status parse_url(struct store *store, struct bytes url, struct error *error)
{
    const struct bytes memory = BYTES_LITERAL("memory:");
    const struct bytes rocksdb = BYTES_LITERAL("rocksdb:");
    if (bytes_begin_with(url, memory)) {
        enum status status =
            parse_memory(store, bytes_of(url.data + memory.size, url.size - memory.size), error);
        if (status != STATUS_OK)
            return status;
        store->env = rocksdb_create_mem_env();
        store->path = strdup("/mudax");
    } else {
        ensure(bytes_begin_with(url, rocksdb));
        if (url.size == rocksdb.size)
            return error_set(error, STATUS_VALIDATION,
                             "rocksdb: names no directory; write rocksdb:DIR");
        store->path = strndup((const char *)url.data + rocksdb.size, url.size - rocksdb.size);
    }
    return store->path == NULL ? STATUS_NO_MEMORY : STATUS_OK;
}

/* ---- open and close ---- */

bool store_thread_start(pthread_t *thread, void *(*run)(void *), void *arg, const char *name)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool is_started = pthread_create(thread, NULL, run, arg) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (is_started)
        pthread_setname_np(*thread, name);
    return is_started;
}

static void store_close(struct kv **kv)
{
    struct store *store = (struct store *)*kv;
    *kv = NULL;
    writer_stop(store);
    readers_stop(store);
    database_close(store);
    pthread_cond_destroy(&store->read_queue.is_filled);
    pthread_cond_destroy(&store->gate_moved);
    mutex_deinit(&store->read_queue.lock);
    mutex_deinit(&store->gate);
    free(store->path);
    free(store);
}

static struct store *store_create(const struct store_options *options)
{
    struct store *store = aligned_alloc(_Alignof(struct store), sizeof *store);
    if (store == NULL)
        return NULL;
    memset(store, 0, sizeof *store);
    store->kv.ops = &kv_rocksdb;
    store->sync = options->sync;
    store->reopen_ms = store_reopen_ms;
    store->sync_ms = store_sync_ms;
    store->on_event = options->on_event;
    store->on_event_arg = options->on_event_arg;
    mutex_init(&store->gate);
    mutex_init(&store->read_queue.lock);
    ensure(pthread_cond_init(&store->gate_moved, NULL) == 0);
    ensure(pthread_cond_init(&store->read_queue.is_filled, NULL) == 0);
    pin_register(store, &store->report_pin);
    return store;
}

static enum status store_open(const struct store_options *options, struct kv **out,
                              struct error *error)
{
    struct store *store = store_create(options);
    if (store == NULL)
        return error_set(error, STATUS_NO_MEMORY, "no memory to open the store");
    enum status status = parse_url(store, options->url, error);
    if (status == STATUS_OK)
        status = database_open(store, options->memory_bytes, error);
    if (status == STATUS_OK)
        status = writer_start(store);
    if (status == STATUS_OK && !readers_start(store))
        status = error_set(error, STATUS_NO_MEMORY, "the store's threads cannot be started");
    if (status != STATUS_OK) {
        struct kv *kv = &store->kv;
        store_close(&kv);
        return status;
    }
    *out = &store->kv;
    return STATUS_OK;
}

/* ---- lanes ---- */

static enum status store_lane_open(struct kv *kv, const struct lane_env *env, struct kv_lane **out)
{
    struct store_lane *lane = aligned_alloc(_Alignof(struct store_lane), sizeof *lane);
    if (lane == NULL)
        return STATUS_NO_MEMORY;
    memset(lane, 0, sizeof *lane);
    lane->lane.ops = &kv_rocksdb;
    lane->store = (struct store *)kv;
    lane->env = *env;
    lane_part_init(lane);
    pin_register(lane->store, &lane->pin);
    *out = &lane->lane;
    return STATUS_OK;
}

static void store_lane_close(struct kv_lane **kv_lane)
{
    struct store_lane *lane = (struct store_lane *)*kv_lane;
    *kv_lane = NULL;
    ensure(lane->reads_pending == 0 && lane->commits_pending == 0);
    pin_unregister(lane->store, &lane->pin);
    free(lane);
}

static uint64_t store_token(struct kv *kv)
{
    return atomic_load_explicit(&((struct store *)kv)->readable, memory_order_acquire);
}

static bool store_is_ready(struct kv *kv, const char **why)
{
    const char *trouble = atomic_load(&((struct store *)kv)->trouble);
    if (trouble != NULL)
        *why = trouble;
    return trouble == NULL;
}

/* ---- figures ---- */

static void report_reads(const struct store *store, report_fn report, void *arg)
{
    const struct read_counters *reads = &store->reads;
    static const struct metric tiers = {"store_reads_total", "counter",
                                        "Reads by the tier that answered them"};
    report(arg, &tiers, "tier=\"memory\"", (double)atomic_load(&reads->cached));
    report(arg, &tiers, "tier=\"reader\"", (double)atomic_load(&reads->incomplete));
    report(arg, &tiers, "tier=\"reader-large\"", (double)atomic_load(&reads->large));
    static const struct metric records = {"store_read_records_total", "counter", "Records read"};
    report(arg, &records, "", (double)atomic_load(&reads->records));
    static const struct metric bytes = {"store_read_bytes_total", "counter", "Bytes read"};
    report(arg, &bytes, "", (double)atomic_load(&reads->bytes));
    static const struct metric errors = {"store_read_errors_total", "counter",
                                         "Reads that failed in the store"};
    report(arg, &errors, "", (double)atomic_load(&reads->errors));
}

static void report_database(struct store *store, report_fn report, void *arg)
{
    static const struct metric cache = {"store_block_cache_bytes", "gauge",
                                        "RocksDB's block cache in use"};
    report(arg, &cache, "", (double)rocksdb_cache_get_usage(store->block_cache));
    static const struct {
        struct metric metric;
        const char *property;
    } properties[] = {
        {{"store_memtable_bytes", "gauge", "RocksDB's write buffers in use"},
         "rocksdb.cur-size-all-mem-tables"},
        {{"store_table_files_bytes", "gauge", "Size of RocksDB's table files"},
         "rocksdb.total-sst-files-size"},
        {{"store_compaction_pending_bytes", "gauge", "What compaction still has to rewrite"},
         "rocksdb.estimate-pending-compaction-bytes"},
    };
    if (!pin_try(store, &store->report_pin))
        return;
    for (size_t i = 0; i < sizeof properties / sizeof properties[0]; i++) {
        uint64_t value;
        if (store->database != NULL &&
            rocksdb_property_int(store->database, properties[i].property, &value) == 0)
            report(arg, &properties[i].metric, "", (double)value);
    }
    unpin(store, &store->report_pin);
}

static void store_report(struct kv *kv, report_fn report, void *arg)
{
    struct store *store = (struct store *)kv;
    static const struct metric is_ready = {"store_ready", "gauge", "1 while writes are taken"};
    report(arg, &is_ready, "", atomic_load(&store->trouble) == NULL ? 1 : 0);
    writer_report(store, report, arg);
    report_reads(store, report, arg);
    report_database(store, report, arg);
}

static const char *const schemes[] = {"rocksdb", "memory", NULL};

const struct kv_ops kv_rocksdb = {
    .schemes = schemes,
    .has_instants = true,
    .open = store_open,
    .lane_open = store_lane_open,
    .lane_close = store_lane_close,
    .load = store_load,
    .token = store_token,
    .read = store_read,
    .commit = store_commit,
    .report = store_report,
    .is_ready = store_is_ready,
    .close = store_close,
};
