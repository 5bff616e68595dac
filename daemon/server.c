#include "daemon/server.h"

#include "backend/engine/engine.h"
#include "cache/cache.h"
#include "daemon/admin.h"
#include "daemon/clock.h"
#include "daemon/errand.h"
#include "daemon/listener.h"
#include "daemon/log.h"
#include "daemon/worker.h"
#include "protocol/encoding/msgpack.h"
#include "protocol/ensure.h"
#include "protocol/sigv4.h"

#include <event2/event.h>
#include <event2/listener.h>

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    WORKERS_MAX = 256,
    LISTENERS_MAX = 16,
    HOUSEKEEP_MS = 100,
    PREPARE_STEPS_MAX = 64,
    STORE_GRACE_US = 10000000, /* a stop waits so long for a store that answers late */
    FILES_BESIDE = 512,        /* descriptors for all but connections */
};

struct listener {
    struct server *server;
    struct listen_url url;
    const struct wire_ops *wire; /* NULL: admin */
    struct evconnlistener *accepting;
    struct admin *admin;
};

struct housekeeper {
    /* Constant after start. */
    struct backend *cache;
    pthread_t thread;
    bool is_running;
    /* Guarded by lock. */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool must_stop;
};

struct server {
    struct config *config;
    config_reader_fn reader;
    void *reader_arg;
    struct event_base *base;
    struct event *signals[3];
    struct backend *backend; /* the cache over the engine */
    struct limits limits;
    struct key_set *key_sets; /* the one that is published first */
    struct worker *workers[WORKERS_MAX];
    struct stats *stats[WORKERS_MAX];
    unsigned worker_count, next_worker;
    struct listener listeners[LISTENERS_MAX];
    size_t listener_count;
    struct housekeeper housekeeper;
    uint64_t started_us;
};

static void log_failure(const char *event, const char *text)
{
    char quoted[LOG_QUOTED_MAX];
    log_line(LOG_LEVEL_ERROR, event, "error=%s", log_quote(text, quoted));
}

/* ---- settings ---- */

static void limit_set(atomic_uint_fast64_t *limit, uint64_t value)
{
    atomic_store_explicit(limit, value, memory_order_relaxed);
}

static void apply_limits(struct server *server)
{
    const struct config *config = server->config;
    struct limits *limits = &server->limits;
    limit_set(&limits->frame_max, config->max_frame);
    limit_set(&limits->connections_max, config->max_connections);
    limit_set(&limits->requests_max, config->max_requests);
    limit_set(&limits->connection_requests_max, config->max_connection_requests);
    limit_set(&limits->memory_max, config->max_request_memory);
    limit_set(&limits->request_timeout_us, config->request_timeout * 1000);
    limit_set(&limits->idle_timeout_us, config->idle_timeout * 1000);
    limit_set(&limits->write_timeout_us, config->write_timeout * 1000);
    log_level_set((enum log_level)config->log_level);
}

/* ---- access keys ---- */

/* Keys as workers see them. Earlier sets stay until the end: a worker may be looking at one. */
struct key_set {
    struct key_set *next;
    struct access_keys keys;
    struct access_key list[];
};

/* text  "AKID:SECRET", config.c has made sure */
static void read_key(const char *text, struct access_key *out)
{
    char *copy = strdup(text);
    ensure(copy != NULL);
    size_t id = strcspn(copy, ":");
    *out = (struct access_key){bytes_of(copy, id), bytes_text(copy + id + 1)};
}

static bool keys_are(const struct key_set *set, const struct setting_list *list)
{
    size_t count = set == NULL ? 0 : set->keys.count;
    bool are_equal = count == list->count;
    for (size_t i = 0; are_equal && i < count; i++)
        are_equal = strcmp((const char *)set->list[i].id.data, list->texts[i]) == 0;
    return are_equal;
}

static void apply_keys(struct server *server)
{
    const struct setting_list *list = &server->config->access_key;
    if (keys_are(server->key_sets, list))
        return;
    struct key_set *set = malloc(sizeof *set + list->count * sizeof set->list[0]);
    ensure(set != NULL);
    for (size_t i = 0; i < list->count; i++)
        read_key(list->texts[i], &set->list[i]);
    set->keys = (struct access_keys){set->list, list->count};
    set->next = server->key_sets;
    server->key_sets = set;
    atomic_store_explicit(&server->limits.keys, list->count == 0 ? NULL : &set->keys,
                          memory_order_release);
}

static void forget_keys(struct server *server)
{
    while (server->key_sets != NULL) {
        struct key_set *set = server->key_sets;
        server->key_sets = set->next;
        for (size_t i = 0; i < set->keys.count; i++) {
            char *text = (char *)(uintptr_t)set->list[i].id.data;
            explicit_bzero(text, strlen(text));
            free(text);
        }
        free(set);
    }
}

static struct cache_policy policy_of(const struct config *config)
{
    return (struct cache_policy){
        .is_enabled = config->cache,
        .item_ttl_ms = (uint32_t)config->item_ttl,
        .query_ttl_ms = (uint32_t)config->query_ttl,
        .negative_ttl_max_ms = (uint32_t)config->negative_ttl,
        .stale_while_refetch_ms = (uint32_t)config->stale_while_refetch,
        .stale_if_error_ms = (uint32_t)config->stale_if_error,
        .refresh_percent = (uint32_t)config->refresh_ahead,
    };
}

/* rules  room for CACHE_POLICIES_MAX of them */
static struct cache_policies policies_of(const struct config *config, struct cache_rule *rules)
{
    struct cache_policies policies = {
        .fallback = policy_of(config), .rules = rules, .rule_count = config->policies.count};
    policy_list_rules(&config->policies, &policies.fallback, rules);
    return policies;
}

/* What the cache refuses stays as it was. */
static bool apply_policies(struct server *server, const struct config *config)
{
    struct cache_rule rules[CACHE_POLICIES_MAX];
    struct cache_policies policies = policies_of(config, rules);
    struct error error;
    bool is_done = cache_policies_set(server->backend, &policies, &error) == STATUS_OK;
    if (!is_done)
        log_failure("reload_failed", error_text(&error));
    return is_done;
}

static void tell_reload(const char *name, bool is_reloaded)
{
    log_line(is_reloaded ? LOG_LEVEL_INFO : LOG_LEVEL_WARN, "setting_changed", "name=%s effect=%s",
             name, is_reloaded ? "now" : "after_restart");
}

static void reload(struct server *server)
{
    struct config *fresh = NULL;
    char error[512];
    if (server->reader(server->reader_arg, &fresh, error, sizeof error) != CONFIG_OK) {
        log_failure("reload_failed", error);
        return;
    }
    bool is_done = apply_policies(server, fresh);
    if (is_done)
        config_reload(server->config, fresh, tell_reload);
    config_destroy(&fresh);
    if (!is_done)
        return;
    apply_limits(server);
    apply_keys(server);
    log_line(LOG_LEVEL_INFO, "reloaded", "%s", "");
}

/* ---- figures ---- */

static void report_daemon(struct server *server, report_fn report, void *arg)
{
    static const struct metric connections = {"connections", "gauge", "connections open"};
    static const struct metric requests = {"requests_in_flight", "gauge",
                                           "requests waiting for the store"};
    static const struct metric memory = {
        "request_memory_bytes", "gauge",
        "requests waiting for the store, replies not taken, frames that have not come whole"};
    static const struct metric read_unit = {"price_million_read_units", "gauge", "as configured"};
    static const struct metric cache_hour = {"price_cache_hour", "gauge", "as configured"};
    static const struct metric uptime = {"uptime_seconds", "gauge", "since the start"};
    static const struct metric info = {"build_info", "gauge", "1, labelled with the version"};
    report(arg, &read_unit, "", (double)server->config->price_read_unit / 1e6);
    report(arg, &cache_hour, "", (double)server->config->price_cache_hour / 1e6);
    report(arg, &info, "version=\"" MUDAX_VERSION "\"", 1);
    report(arg, &uptime, "", (double)(clock_now_us() - server->started_us) / 1e6);
    report(arg, &connections, "", (double)atomic_load(&server->limits.connections));
    report(arg, &requests, "", (double)atomic_load(&server->limits.requests));
    report(arg, &memory, "",
           (double)(atomic_load(&server->limits.memory) + atomic_load(&server->limits.frames)));
}

static void report_all(void *arg, report_fn report, void *report_arg)
{
    struct server *server = arg;
    report_daemon(server, report, report_arg);
    stats_report(server->stats, server->worker_count, report, report_arg);
    server->backend->ops->report(server->backend, report, report_arg);
}

static bool is_ready(void *arg, const char **why)
{
    struct server *server = arg;
    return server->backend->ops->is_ready(server->backend, why);
}

static void ask(void *arg, const struct request *request, struct arena *arena, struct reply *reply)
{
    struct server *server = arg;
    errand_run(server->workers[0], request, arena, reply);
}

/* Collects metrics as attributes of a map. */
struct collection {
    struct arena arena;
    struct attribute *attributes;
    size_t count, capacity;
    bool has_failed;
};

static void collect(void *arg, const struct metric *metric, const char *labels, double value)
{
    struct collection *collection = arg;
    char name[600], text[40];
    int length =
        snprintf(name, sizeof name, labels[0] == '\0' ? "%s" : "%s{%s}", metric->name, labels);
    int digits = snprintf(text, sizeof text, "%.15g", value);
    struct error error;
    struct attribute attribute = {.value.type = VALUE_N};
    attribute.name = arena_copy(&collection->arena, bytes_of(name, (size_t)length));
    if (collection->count == collection->capacity) {
        size_t capacity = collection->capacity == 0 ? 256 : 2 * collection->capacity;
        struct attribute *grown =
            realloc(collection->attributes, capacity * sizeof *collection->attributes);
        collection->has_failed |= grown == NULL;
        if (grown == NULL)
            return;
        collection->attributes = grown;
        collection->capacity = capacity;
    }
    if (!bytes_given(attribute.name) || (size_t)length >= sizeof name ||
        number_parse(bytes_of(text, (size_t)digits), &attribute.value.number, &error) != STATUS_OK)
        collection->has_failed = true;
    else
        collection->attributes[collection->count++] = attribute;
}

/* The body of a reply to Stats: every figure by name, and some quantiles. Worker's thread. */
static bool describe(void *arg, struct buffer *body)
{
    static const struct metric latency = {"request_latency_us", "", ""};
    struct server *server = arg;
    struct collection collection = {0};
    arena_init(&collection.arena, NULL, 0, 4 << 20);
    report_all(server, collect, &collection);
    for (int kind = 0; kind < OPERATIONS * VERDICTS; kind++) {
        static const double quantiles[] = {0.5, 0.99};
        for (size_t i = 0; i < 2; i++) {
            enum operation operation = (enum operation)(kind / VERDICTS);
            enum verdict verdict = (enum verdict)(kind % VERDICTS);
            double us = stats_quantile(server->stats, server->worker_count, operation, verdict,
                                       quantiles[i]);
            char labels[160];
            (void)snprintf(labels, sizeof labels, "operation=\"%s\",verdict=\"%s\",quantile=\"%g\"",
                           operation_name(operation), verdict_name(verdict), quantiles[i]);
            if (us > 0)
                collect(&collection, &latency, labels, us);
        }
    }
    struct value map = {
        .type = VALUE_M, .attributes = collection.attributes, .count = collection.count};
    struct error error;
    bool is_done = !collection.has_failed && value_normalize(&map, &error) == STATUS_OK &&
                   value_encode(&map, body);
    free(collection.attributes);
    arena_deinit(&collection.arena);
    return is_done;
}

/* ---- the store and the cache ---- */

static void on_event(void *arg, const char *what, const char *detail)
{
    struct server *server = arg;
    char quoted[LOG_QUOTED_MAX];
    log_line(LOG_LEVEL_WARN, what, "detail=%s", log_quote(detail, quoted));
    /* What failed while the store was closed may be in its log after all. */
    if (strcmp(what, "store_reopened") == 0 && server->backend != NULL)
        cache_purge(server->backend);
}

static uint64_t machine_memory(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGE_SIZE);
    return pages > 0 && size > 0 ? (uint64_t)pages * (uint64_t)size : 1ull << 30;
}

static bool open_backend(struct server *server)
{
    const struct config *config = server->config;
    struct error error = {0};
    struct engine_options engine_options = {
        .store = {.url = bytes_text(config->store),
                  .memory_bytes =
                      config->store_memory != 0 ? config->store_memory : machine_memory() / 4,
                  .sync = (enum sync_mode)config->sync,
                  .on_event = on_event,
                  .on_event_arg = server},
        .partitions = (uint32_t)config->partitions,
        .emulates_throughput = config->emulate_throughput,
        .partition_bytes_max = config->partition_size,
        .partition_hot_ms = config->partition_heat_time,
        .partition_read_units = config->partition_read_units,
        .partition_write_units = config->partition_write_units,
        .collection_bytes_max = config->item_collection_size_limit,
        .tables_max = (uint32_t)config->tables_max,
        .wall_ms = clock_wall_ms};
    struct backend *engine = NULL;
    if (engine_open(&engine_options, &engine, &error) != STATUS_OK) {
        log_failure("start_failed", error_text(&error));
        return false;
    }
    struct cache_rule rules[CACHE_POLICIES_MAX];
    struct cache_options cache_options = {.memory_bytes = config->cache_memory,
                                          .threads = server->worker_count,
                                          .now_us = clock_now_us(),
                                          .waiters_max = (uint32_t)config->flight_waiters,
                                          .eviction = (enum cache_eviction)config->cache_policy,
                                          .policies = policies_of(config, rules)};
    cache_options.on_event = on_event;
    cache_options.on_event_arg = server;
    if (getrandom(&cache_options.seed, sizeof cache_options.seed, 0) !=
        (ssize_t)sizeof cache_options.seed)
        cache_options.seed = clock_wall_ms() ^ (uint64_t)getpid() << 32;
    if (cache_open(&cache_options, &engine, &server->backend, &error) != STATUS_OK) {
        log_failure("start_failed", error_text(&error));
        if (engine != NULL)
            engine->ops->close(&engine);
        return false;
    }
    return true;
}

/* ---- the housekeeper ---- */

static void *housekeep(void *arg)
{
    struct housekeeper *housekeeper = arg;
    (void)pthread_setname_np(pthread_self(), "mudax-housekee");
    ensure(pthread_mutex_lock(&housekeeper->lock) == 0);
    while (!housekeeper->must_stop) {
        ensure(pthread_mutex_unlock(&housekeeper->lock) == 0);
        bool has_more = cache_housekeep(housekeeper->cache, clock_now_us());
        uint64_t until_us = clock_now_us() + (has_more ? 1000 : HOUSEKEEP_MS * 1000);
        struct timespec until = {.tv_sec = (time_t)(until_us / 1000000),
                                 .tv_nsec = (long)(until_us % 1000000) * 1000};
        ensure(pthread_mutex_lock(&housekeeper->lock) == 0);
        if (!housekeeper->must_stop)
            (void)pthread_cond_clockwait(&housekeeper->changed, &housekeeper->lock, CLOCK_MONOTONIC,
                                         &until);
    }
    ensure(pthread_mutex_unlock(&housekeeper->lock) == 0);
    return NULL;
}

/* Has the first pages of the cache there before the first request: a huge page takes the system
 * milliseconds, and whoever shares the CPU meanwhile waits. */
static void prepare_memory(struct backend *cache)
{
    int steps = 0;
    while (steps < PREPARE_STEPS_MAX && cache_housekeep(cache, clock_now_us()))
        steps++;
}

static bool housekeeper_start(struct server *server)
{
    struct housekeeper *housekeeper = &server->housekeeper;
    housekeeper->cache = server->backend;
    prepare_memory(server->backend);
    ensure(pthread_mutex_init(&housekeeper->lock, NULL) == 0);
    ensure(pthread_cond_init(&housekeeper->changed, NULL) == 0);
    housekeeper->is_running =
        pthread_create(&housekeeper->thread, NULL, housekeep, housekeeper) == 0;
    return housekeeper->is_running;
}

static void housekeeper_stop(struct housekeeper *housekeeper)
{
    if (!housekeeper->is_running)
        return;
    ensure(pthread_mutex_lock(&housekeeper->lock) == 0);
    housekeeper->must_stop = true;
    ensure(pthread_cond_signal(&housekeeper->changed) == 0);
    ensure(pthread_mutex_unlock(&housekeeper->lock) == 0);
    ensure(pthread_join(housekeeper->thread, NULL) == 0);
    ensure(pthread_cond_destroy(&housekeeper->changed) == 0);
    ensure(pthread_mutex_destroy(&housekeeper->lock) == 0);
    housekeeper->is_running = false;
}

/* ---- listeners ---- */

static void on_accept(struct evconnlistener *accepting, evutil_socket_t fd,
                      struct sockaddr *address, int size, void *arg)
{
    (void)accepting;
    (void)size;
    struct listener *listener = arg;
    struct server *server = listener->server;
    uint64_t most = atomic_load_explicit(&server->limits.connections_max, memory_order_relaxed);
    if (atomic_load_explicit(&server->limits.connections, memory_order_relaxed) >= most) {
        log_line(LOG_LEVEL_WARN, "connection_refused", "max_connections=%llu",
                 (unsigned long long)most);
        (void)close(fd);
        return;
    }
    int on = 1;
    if (address->sa_family != AF_UNIX)
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    atomic_fetch_add_explicit(&server->limits.connections, 1, memory_order_relaxed);
    worker_adopt(server->workers[server->next_worker++ % server->worker_count], fd, listener->wire);
}

static void on_accept_error(struct evconnlistener *accepting, void *arg)
{
    (void)accepting;
    (void)arg;
    log_failure("accept_failed", strerror(errno));
}

static void log_listening(const struct listener *listener, const char *text, int fd)
{
    char quoted[LOG_QUOTED_MAX];
    log_line(LOG_LEVEL_INFO, "listening", "url=%s port=%u", log_quote(text, quoted),
             listener->url.is_unix ? 0 : listen_port(fd));
}

/* Off loopback only if that is wanted. */
static bool is_allowed(const struct server *server, const struct listen_url *url, const char *text,
                       char *error, size_t size)
{
    bool is_signed = strcmp(url->scheme, "http") == 0 && server->config->access_key.count != 0;
    if (url->is_loopback || server->config->insecure)
        return true;
    (void)snprintf(error, size,
                   "listen: %s is not a loopback address and has %s; add --insecure if that is "
                   "wanted",
                   text, is_signed ? "no TLS" : "neither authentication nor TLS");
    return false;
}

static bool start_listener(struct server *server, const char *text, char *error, size_t size)
{
    struct listener *listener = &server->listeners[server->listener_count];
    listener->server = server;
    if (!listen_url_parse(text, &listener->url, error, size))
        return false;
    if (!is_allowed(server, &listener->url, text, error, size))
        return false;
    int fd = listen_url_open(&listener->url, error, size);
    if (fd < 0)
        return false;
    log_listening(listener, text, fd);
    server->listener_count++;
    if (strcmp(listener->url.scheme, "admin") == 0) {
        struct admin_source source = {report_all, is_ready, ask, server};
        listener->admin = admin_create(server->base, fd, &source);
    } else {
        listener->wire = wire_by_scheme(listener->url.scheme);
        ensure(listener->wire != NULL);
        listener->accepting =
            evconnlistener_new(server->base, on_accept, listener,
                               LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC, 0, fd);
        if (listener->accepting != NULL)
            evconnlistener_set_error_cb(listener->accepting, on_accept_error);
    }
    if (listener->admin != NULL || listener->accepting != NULL)
        return true;
    (void)close(fd);
    (void)snprintf(error, size, "listen: %s: out of memory", text);
    return false;
}

static bool start_listeners(struct server *server)
{
    const struct setting_list *urls = &server->config->listen;
    char error[512];
    for (size_t i = 0; i < urls->count; i++) {
        if (i == LISTENERS_MAX) {
            log_failure("start_failed", "listen: at most 16 URLs");
            return false;
        }
        if (!start_listener(server, urls->texts[i], error, sizeof error)) {
            log_failure("start_failed", error);
            return false;
        }
    }
    return true;
}

static void stop_listeners(struct server *server, bool is_admin)
{
    for (size_t i = 0; i < server->listener_count; i++) {
        struct listener *listener = &server->listeners[i];
        if (is_admin) {
            admin_destroy(&listener->admin);
            continue;
        }
        if (listener->accepting == NULL)
            continue;
        evconnlistener_free(listener->accepting);
        listener->accepting = NULL;
        if (listener->url.is_unix)
            (void)unlink(listener->url.host);
    }
}

/* ---- signals ---- */

static void on_signal(evutil_socket_t number, short what, void *arg)
{
    (void)what;
    struct server *server = arg;
    if (number == SIGHUP) {
        reload(server);
        return;
    }
    log_line(LOG_LEVEL_INFO, "stopping", "signal=%d", number);
    (void)event_base_loopbreak(server->base);
}

static bool start_signals(struct server *server)
{
    static const int numbers[] = {SIGTERM, SIGINT, SIGHUP};
    (void)signal(SIGPIPE, SIG_IGN);
    for (size_t i = 0; i < 3; i++) {
        server->signals[i] = evsignal_new(server->base, numbers[i], on_signal, server);
        if (server->signals[i] == NULL || event_add(server->signals[i], NULL) != 0)
            return false;
    }
    return true;
}

/* ---- workers ---- */

static bool start_workers(struct server *server)
{
    for (unsigned number = 0; number < server->worker_count; number++) {
        struct worker_options options = {.number = number,
                                         .backend = server->backend,
                                         .limits = &server->limits,
                                         .upkeep_ms =
                                             number == 0 ? server->config->expiry_interval : 0,
                                         .describe = describe,
                                         .arg = server};
        if (number == 0 && server->config->warm_file[0] != '\0') {
            options.warm_file = server->config->warm_file;
            options.warm_rate = server->config->warm_rate;
        }
        enum status status = worker_create(&options, &server->workers[number]);
        if (status != STATUS_OK) {
            log_failure("start_failed", status_text(status));
            return false;
        }
        server->stats[number] = worker_stats(server->workers[number]);
    }
    return true;
}

static void stop_workers(struct server *server)
{
    uint64_t deadline_us = clock_now_us() + server->config->shutdown_timeout * 1000;
    for (unsigned i = 0; i < server->worker_count; i++)
        if (server->workers[i] != NULL)
            worker_drain(server->workers[i], deadline_us);
    for (unsigned i = 0; i < server->worker_count; i++) {
        if (server->workers[i] == NULL ||
            worker_join(&server->workers[i], deadline_us + STORE_GRACE_US))
            continue;
        /* Its calls belong to a store that does not answer: nothing can be freed any more. */
        log_failure("stop_failed", "the store does not answer; leaving without it");
        _exit(1);
    }
}

static void raise_file_limit(uint64_t connections)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur >= connections + FILES_BESIDE)
        return;
    rlim_t wanted = connections + FILES_BESIDE;
    files.rlim_cur = wanted < files.rlim_max ? wanted : files.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &files);
    if (files.rlim_cur < wanted)
        log_line(LOG_LEVEL_WARN, "few_files", "limit=%llu wanted=%llu",
                 (unsigned long long)files.rlim_cur, (unsigned long long)wanted);
}

/* ---- start and stop ---- */

static bool start(struct server *server)
{
    apply_limits(server);
    apply_keys(server);
    raise_file_limit(server->config->max_connections);
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    server->worker_count = (unsigned)server->config->workers;
    if (server->worker_count == 0)
        server->worker_count = cpus < 1 ? 1 : cpus > WORKERS_MAX ? WORKERS_MAX : (unsigned)cpus;
    server->started_us = clock_now_us();
    server->base = event_base_new();
    if (server->base == NULL || !start_signals(server)) {
        log_failure("start_failed", "no event loop");
        return false;
    }
    if (!open_backend(server) || !housekeeper_start(server) || !start_workers(server) ||
        !start_listeners(server))
        return false;
    char store[LOG_QUOTED_MAX];
    log_line(LOG_LEVEL_INFO, "ready", "version=%s store=%s workers=%u cache_memory=%llu",
             MUDAX_VERSION, log_quote(server->config->store, store), server->worker_count,
             (unsigned long long)server->config->cache_memory);
    return true;
}

static void stop(struct server *server)
{
    stop_listeners(server, false);
    stop_workers(server);
    stop_listeners(server, true);
    housekeeper_stop(&server->housekeeper);
    if (server->backend != NULL)
        server->backend->ops->close(&server->backend);
    forget_keys(server);
    for (size_t i = 0; i < 3; i++)
        if (server->signals[i] != NULL)
            event_free(server->signals[i]);
    if (server->base != NULL)
        event_base_free(server->base);
    libevent_global_shutdown();
}

int server_run(struct config *config, config_reader_fn reader, void *reader_arg)
{
    struct server *server = calloc(1, sizeof *server);
    ensure(server != NULL);
    server->config = config;
    server->reader = reader;
    server->reader_arg = reader_arg;
    bool has_started = start(server);
    if (has_started)
        (void)event_base_dispatch(server->base);
    stop(server);
    if (has_started)
        log_line(LOG_LEVEL_INFO, "stopped", "%s", "");
    free(server);
    return has_started ? 0 : 1;
}
