/* Many threads on one small cache before a store that takes its time: no read shows anything older
 * than the last write acknowledged before it began, nor older than what another read had shown. */
#include "cache/cache.h"
#include "protocol/ensure.h"
#include "tests/support/lane_loop.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum {
    THREADS = 3,
    CALLS = 8,      /* a thread, at once */
    ROUNDS = 40000, /* a thread */
    PARTITIONS = 2,
    SORTS = 6,
    KEYS = PARTITIONS * SORTS,
    WRITES_MAX = THREADS * ROUNDS,
    FILLERS = 3000, /* keys that only take memory */
    VALUE_MAX = 1500,
    PAGE_BYTES_MAX = 1 + SORTS * 9,
};

/* --- The store --- */

struct record {
    uint32_t version, write; /* write 0: absent */
    uint32_t size;
    uint8_t item[VALUE_MAX + 64];
};

static struct {
    struct mutex lock;
    struct record records[KEYS]; /* guarded by lock */
    atomic_uint version_of[WRITES_MAX + 1];
    atomic_bool is_absent[KEYS][WRITES_MAX + 1]; /* by version */
    atomic_uint version[KEYS], acked[KEYS], seen[KEYS];
    atomic_uint writes;
    atomic_ulong hits, checked;
} store;

static const struct table table = {
    .id = 1,
    .name = {(const uint8_t *)"t", 1},
    .key = {{{(const uint8_t *)"p", 1}, VALUE_S}, {{(const uint8_t *)"s", 1}, VALUE_S}, false},
};

static void commit(int key, uint32_t write, bool is_delete, struct bytes item)
{
    mutex_lock(&store.lock);
    struct record *record = &store.records[key];
    record->version++;
    record->write = is_delete ? 0 : write;
    record->size = (uint32_t)item.size;
    if (item.size != 0)
        memcpy(record->item, item.data, item.size);
    atomic_store(&store.version_of[write], record->version);
    atomic_store(&store.is_absent[key][record->version], is_delete);
    atomic_store(&store.version[key], record->version);
    mutex_unlock(&store.lock);
}

static void raise_to(atomic_uint *to, uint32_t version)
{
    unsigned now = atomic_load(to);
    while (now < version && !atomic_compare_exchange_weak(to, &now, version))
        continue;
}

/* --- A lane of the store: operations advance in any order, one step at a time --- */

struct operation_state {
    struct operation_state *next;
    struct call *call; /* NULL: answered, but still to be committed */
    int stage;
    int key;
    uint32_t write;
    bool is_delete, is_read, is_query;
    uint32_t size;
    uint8_t body[VALUE_MAX + 64];
};

struct store_lane {
    struct lane lane;
    struct lane_env env;
    struct operation_state *operations;
    size_t count;
};

static _Thread_local uint64_t random_state;

static uint32_t random_below(uint32_t limit)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (uint32_t)(random_state >> 33) % limit;
}

/* 0..KEYS - 1, or -1: a filler */
static int key_index(struct item_key key)
{
    struct bytes partition = item_key_partition(key), sort = item_key_sort(key);
    if (partition.data[0] >= '0' + PARTITIONS)
        return -1;
    return (partition.data[0] - '0') * SORTS + (sort.data[0] - '0');
}

static void read_item(struct operation_state *op, int key)
{
    mutex_lock(&store.lock);
    const struct record *record = &store.records[key];
    op->size = record->write == 0 ? 1 : record->size;
    op->body[0] = 0xc0;
    if (record->write != 0)
        memcpy(op->body, record->item, record->size);
    mutex_unlock(&store.lock);
}

static void read_page(struct operation_state *op, struct call *call)
{
    const struct request *request = &call->request;
    int first = (request->range.partition.data[0] - '0') * SORTS;
    op->size = 1;
    op->body[0] = 0;
    mutex_lock(&store.lock);
    for (int sort = 0; sort < SORTS; sort++) {
        uint8_t name = (uint8_t)('0' + sort);
        const struct record *record = &store.records[first + sort];
        if (record->write == 0 || !key_interval_holds(&request->range.interval, bytes_of(&name, 1)))
            continue;
        op->body[op->size] = (uint8_t)sort;
        memcpy(op->body + op->size + 1, &record->write, 4);
        op->size += 9;
        op->body[0]++;
        if (op->body[0] == request->limit)
            break;
    }
    mutex_unlock(&store.lock);
    call->reply.examined = request->range.interval;
    if (request->limit != 0 && op->body[0] == request->limit) {
        uint8_t *high = arena_alloc(call->arena, 2);
        ensure(high != NULL);
        high[0] = (uint8_t)('0' + op->body[op->size - 9]);
        high[1] = 0;
        call->reply.examined.high = bytes_of(high, 2);
    }
}

static void read_step(struct operation_state *op, struct call *call)
{
    if (op->is_query)
        read_page(op, call);
    else if (op->key >= 0)
        read_item(op, op->key);
    else
        op->size = 1000;
}

static void answer(struct call *call, struct operation_state *op)
{
    call->reply.status = random_below(50) == 0 ? STATUS_UNAVAILABLE : STATUS_OK;
    call->reply.body = bytes_of(op->body, op->size);
    call->reply.count = op->is_query ? op->body[0] : op->size > 1;
    call->reply.read_bytes = op->size;
}

static enum submit store_submit(struct lane *lane, struct call *call)
{
    struct store_lane *store_lane = (struct store_lane *)lane;
    ensure(request_bind(&call->request, &table, call->arena, &call->reply.error) == STATUS_OK);
    struct operation_state *op = calloc(1, sizeof *op);
    ensure(op != NULL);
    enum operation operation = call->request.operation;
    op->call = call;
    op->is_query = operation == OPERATION_QUERY;
    op->is_read = op->is_query || operation == OPERATION_GET_ITEM;
    op->is_delete = operation == OPERATION_DELETE_ITEM;
    op->key = op->is_query ? -1 : key_index(call->request.item_key);
    if (op->is_read && (call->is_passing || random_below(4) == 0)) {
        if (random_below(2) == 0 && call->is_passing) {
            free(op);
            return SUBMIT_KEEP;
        }
        read_step(op, call);
        answer(call, op);
        call->reply.body = arena_copy(call->arena, call->reply.body);
        free(op);
        return SUBMIT_DONE;
    }
    if (call->is_passing) {
        free(op);
        return SUBMIT_KEEP;
    }
    op->next = store_lane->operations;
    store_lane->operations = op;
    store_lane->count++;
    return SUBMIT_PENDING;
}

static void announce(struct store_lane *lane, struct call *call)
{
    struct touched *touched = arena_alloc(call->arena, sizeof *touched);
    ensure(touched != NULL);
    *touched = (struct touched){.table_id = table.id, .key = call->request.item_key};
    call->reply.touched = touched;
    call->reply.touched_count = 1;
    lane->env.intent(lane->env.intent_arg, call);
}

/* True when the operation is over. */
static bool write_step(struct store_lane *lane, struct operation_state *op)
{
    struct call *call = op->call;
    if (op->stage++ == 0) {
        announce(lane, call);
        return false;
    }
    if (op->stage == 2) {
        uint32_t chance = random_below(4000);
        if (chance < 400) { /* refused */
            call->reply.status = STATUS_THROTTLED;
            call->complete(call);
            return true;
        }
        if (chance < 800) { /* once more */
            announce(lane, call);
            op->stage = 1;
            return false;
        }
        if (call->request.item.size != 0)
            memcpy(op->body, call->request.item.data, call->request.item.size);
        op->size = (uint32_t)call->request.item.size;
        op->write = atomic_fetch_add(&store.writes, 1) + 1;
        if (!op->is_delete) /* the number of the write is in the item; see item_write() */
            memcpy(op->body + 14, &op->write, 4);
        if (chance == 4000 - 1) { /* lost: it may happen yet */
            op->call = NULL;
            call->reply.status = STATUS_OUTCOME_UNKNOWN;
            call->complete(call);
            return false;
        }
        if (op->key >= 0)
            commit(op->key, op->write, op->is_delete, bytes_of(op->body, op->size));
        return false;
    }
    if (call == NULL) {
        if (op->key >= 0 && random_below(2) == 0)
            commit(op->key, op->write, op->is_delete, bytes_of(op->body, op->size));
        return true;
    }
    call->reply.status = STATUS_OK;
    call->reply.commit = op->write;
    call->reply.touched->is_image_known = random_below(4) != 0;
    call->reply.touched->image = op->is_delete ? BYTES_NONE : bytes_of(op->body, op->size);
    call->complete(call);
    return true;
}

static bool step(struct store_lane *lane, struct operation_state *op)
{
    if (!op->is_read)
        return write_step(lane, op);
    if (op->stage++ == 0) {
        read_step(op, op->call);
        return false;
    }
    answer(op->call, op);
    op->call->complete(op->call);
    return true;
}

/* Advances one operation by one step. */
static void store_turn(struct store_lane *lane)
{
    if (lane->count == 0)
        return;
    struct operation_state **at = &lane->operations;
    for (uint32_t skip = random_below((uint32_t)lane->count); skip > 0; skip--)
        at = &(*at)->next;
    struct operation_state *op = *at;
    *at = op->next; /* completing may submit */
    lane->count--;
    if (step(lane, op)) {
        free(op);
        return;
    }
    op->next = lane->operations;
    lane->operations = op;
    lane->count++;
}

static _Thread_local struct store_lane *this_lane;

static enum status store_lane_open(struct backend *backend, const struct lane_env *env,
                                   struct lane **out)
{
    this_lane = calloc(1, sizeof *this_lane);
    ensure(this_lane != NULL);
    this_lane->lane.ops = backend->ops;
    this_lane->env = *env;
    *out = &this_lane->lane;
    return STATUS_OK;
}

static void store_lane_close(struct lane **lane)
{
    ensure(((struct store_lane *)*lane)->count == 0);
    free(*lane);
    *lane = NULL;
}

static void nothing(struct lane *lane)
{
    (void)lane;
}

static const struct table *store_table(struct lane *lane, struct bytes name)
{
    (void)lane, (void)name;
    return &table;
}

static void store_report(struct backend *backend, report_fn report, void *arg)
{
    (void)backend, (void)report, (void)arg;
}

static void store_close(struct backend **backend)
{
    *backend = NULL;
}

static const struct backend_ops store_ops = {
    .name = "store",
    .lane_open = store_lane_open,
    .lane_close = store_lane_close,
    .lane_begin = nothing,
    .lane_end = nothing,
    .table = store_table,
    .submit = store_submit,
    .report = store_report,
    .close = store_close,
};

/* --- Clients --- */

struct client_call {
    struct call call;
    struct arena arena;
    bool is_busy;
    uint32_t floor[KEYS]; /* nothing older may be seen */
    int key, low, high;
    uint8_t key_bytes[32], item[VALUE_MAX + 64], values[64];
    _Alignas(16) uint8_t first[4096];
};

static uint8_t *put_text(uint8_t *at, const char *text)
{
    size_t size = strlen(text);
    *at++ = (uint8_t)(0xa0 | size);
    memcpy(at, text, size);
    return at + size;
}

static uint8_t *key_write(uint8_t *at, const char *partition, const char *sort)
{
    at = put_text(at, "p");
    at = put_text(at, partition);
    at = put_text(at, "s");
    return put_text(at, sort);
}

static void check_version(struct client_call *client, int key, uint32_t version)
{
    if (version < client->floor[key])
        fail_msg("key %d: version %u after %u, verdict %d", key, version, client->floor[key],
                 (int)client->call.reply.verdict);
    raise_to(&store.seen[key], version);
    atomic_fetch_add_explicit(&store.checked, 1, memory_order_relaxed);
}

static void check_absent(struct client_call *client, int key)
{
    uint32_t newest = atomic_load(&store.version[key]);
    for (uint32_t version = client->floor[key]; version <= newest; version++)
        if (version == 0 || atomic_load(&store.is_absent[key][version])) {
            check_version(client, key, version);
            return;
        }
    fail_msg("key %d: absent, though never so since version %u", key, client->floor[key]);
}

static void check_item(struct client_call *client)
{
    struct bytes body = client->call.reply.body;
    uint32_t write;
    if (body.size == 1) {
        check_absent(client, client->key);
        return;
    }
    memcpy(&write, body.data + 14, sizeof write);
    check_version(client, client->key, atomic_load(&store.version_of[write]));
}

static void check_page(struct client_call *client)
{
    struct bytes body = client->call.reply.body;
    uint32_t writes[SORTS] = {0};
    int last = client->high;
    for (uint8_t i = 0; i < body.data[0]; i++) {
        const uint8_t *row = body.data + 1 + i * 9;
        memcpy(&writes[row[0]], row + 1, 4);
        if (body.data[0] == client->call.request.limit)
            last = row[0];
    }
    for (int sort = client->low; sort <= last; sort++) {
        int key = client->key + sort;
        if (writes[sort] == 0)
            check_absent(client, key);
        else
            check_version(client, key, atomic_load(&store.version_of[writes[sort]]));
    }
}

static void completed(struct call *call)
{
    struct client_call *client = call->owner;
    const struct reply *reply = &call->reply;
    enum operation operation = call->request.operation;
    bool is_read = operation == OPERATION_GET_ITEM || operation == OPERATION_QUERY;
    if (operation == OPERATION_PURGE)
        ensure(reply->status == STATUS_OK);
    if (reply->status == STATUS_OK && client->key >= 0) {
        if (operation == OPERATION_GET_ITEM)
            check_item(client);
        else if (operation == OPERATION_QUERY)
            check_page(client);
        else
            raise_to(&store.acked[client->key],
                     atomic_load(&store.version_of[(uint32_t)reply->commit]));
    }
    if (is_read && reply->verdict == VERDICT_HIT)
        atomic_fetch_add_explicit(&store.hits, 1, memory_order_relaxed);
    client->is_busy = false;
}

/* {p, s, v: bin}: the first bytes of v, at 14, will hold the write's number. */
static void item_write(struct client_call *client, const char *partition, const char *sort)
{
    uint32_t size = 16 + random_below(VALUE_MAX - 16);
    if (size < 256)
        size += 256;
    uint8_t *at = client->item;
    *at++ = 0x83;
    at = key_write(at, partition, sort);
    at = put_text(at, "v");
    *at++ = 0xc5;
    *at++ = (uint8_t)(size >> 8);
    *at++ = (uint8_t)size;
    memset(at, 'x', size);
    client->call.request.item = bytes_of(client->item, (size_t)(at - client->item) + size);
}

static void fill_query(struct client_call *client, const char *partition)
{
    struct request *request = &client->call.request;
    client->low = (int)random_below(SORTS);
    client->high = client->low + (int)random_below((uint32_t)(SORTS - client->low));
    char low[2] = {(char)('0' + client->low)}, high[2] = {(char)('0' + client->high)};
    uint8_t *at = client->values;
    *at++ = 0x83;
    at = put_text(put_text(at, ":h"), high);
    at = put_text(put_text(at, ":l"), low);
    at = put_text(put_text(at, ":p"), partition);
    request->key_condition.text = BYTES_LITERAL("p = :p AND s BETWEEN :l AND :h");
    request->key_condition.values = bytes_of(client->values, (size_t)(at - client->values));
    request->limit = random_below(3) == 0 ? 1 + random_below(3) : 0;
    client->key = (partition[0] - '0') * SORTS;
}

/* An item, a partition, the table or everything. */
static void fill_purge(struct client_call *client, const char *partition)
{
    struct request *request = &client->call.request;
    uint32_t what = random_below(8);
    request->operation = OPERATION_PURGE;
    client->key = -1;
    if (what < 6)
        return;
    request->key = BYTES_NONE;
    if (what == 6) {
        client->key_bytes[0] = 0x81;
        uint8_t *end = put_text(put_text(client->key_bytes + 1, "p"), partition);
        request->key = bytes_of(client->key_bytes, (size_t)(end - client->key_bytes));
    } else if (random_below(2) == 0) {
        request->table_name = BYTES_NONE;
    }
}

static void begin(struct client_call *client, uint64_t now_us)
{
    char partition[8] = {(char)('0' + random_below(PARTITIONS))};
    char sort[2] = {(char)('0' + random_below(SORTS))};
    uint32_t chance = random_below(100);
    client->key = (partition[0] - '0') * SORTS + (sort[0] - '0');
    if (chance < 25) {
        snprintf(partition, sizeof partition, "f%u", random_below(FILLERS));
        client->key = -1;
    }
    arena_reset(&client->arena);
    struct call *call = &client->call;
    *call = (struct call){.arena = &client->arena, .complete = completed, .owner = client};
    reply_init(&call->reply);
    call->now_us = now_us;
    call->deadline_us = random_below(8) == 0 ? now_us + 50 : 0;
    call->request.table_name = table.name;
    for (int key = 0; key < KEYS; key++) {
        uint32_t acked = atomic_load(&store.acked[key]), seen = atomic_load(&store.seen[key]);
        client->floor[key] = acked > seen ? acked : seen;
    }
    client->key_bytes[0] = 0x82;
    uint8_t *end = key_write(client->key_bytes + 1, partition, sort);
    call->request.key = bytes_of(client->key_bytes, (size_t)(end - client->key_bytes));
    call->request.operation = chance < 65   ? OPERATION_GET_ITEM
                              : chance < 72 ? OPERATION_PUT_ITEM
                              : chance < 75 ? OPERATION_DELETE_ITEM
                                            : OPERATION_QUERY;
    if (call->request.operation == OPERATION_PUT_ITEM)
        item_write(client, partition, sort);
    if (call->request.operation == OPERATION_QUERY)
        fill_query(client, partition);
    if (call->request.operation == OPERATION_GET_ITEM)
        call->request.is_consistent = random_below(20) == 0;
    if (random_below(100) == 0)
        fill_purge(client, partition);
    client->is_busy = true;
}

struct thread {
    pthread_t id;
    struct backend *cache;
    uint64_t seed;
};

static void submit(struct lane *lane, struct client_call *client)
{
    struct call *call = &client->call;
    call->is_passing =
        call->request.operation == OPERATION_GET_ITEM || call->request.operation == OPERATION_QUERY;
    enum submit submit = lane->ops->submit(lane, call);
    if (submit == SUBMIT_KEEP) {
        call->is_passing = false;
        submit = lane->ops->submit(lane, call);
    }
    ensure(submit != SUBMIT_KEEP);
    if (submit == SUBMIT_DONE)
        completed(call);
}

static void *work(void *arg)
{
    struct thread *thread = arg;
    random_state = thread->seed;
    struct lane_loop loop;
    struct lane *lane;
    lane_loop_init(&loop);
    ensure(thread->cache->ops->lane_open(thread->cache, &loop.env, &lane) == STATUS_OK);
    struct client_call *clients = calloc(CALLS, sizeof *clients);
    ensure(clients != NULL);
    for (int i = 0; i < CALLS; i++)
        arena_init(&clients[i].arena, clients[i].first, sizeof clients[i].first, 1 << 20);
    int busy = 0;
    for (int round = 0; round < ROUNDS || busy > 0; round++) {
        busy = 0;
        lane->ops->lane_begin(lane);
        for (int i = 0; i < CALLS; i++) {
            if (!clients[i].is_busy && round < ROUNDS && random_below(3) == 0) {
                begin(&clients[i], loop.now_us);
                submit(lane, &clients[i]);
            }
            busy += clients[i].is_busy;
        }
        lane->ops->lane_end(lane);
        for (int i = 0; i < 3; i++)
            store_turn(this_lane);
        lane_loop_advance(&loop, 7);
    }
    while (this_lane->count > 0)
        store_turn(this_lane);
    while (lane_loop_timers(&loop) > 0) { /* what it retired waits for the other threads */
        lane_loop_advance(&loop, 1000);
        sched_yield();
    }
    lane->ops->lane_close(&lane);
    lane_loop_deinit(&loop);
    for (int i = 0; i < CALLS; i++)
        arena_deinit(&clients[i].arena);
    free(clients);
    return NULL;
}

/* --- Housekeeping beside them --- */

static void check_budget(void *arg, const struct metric *metric, const char *labels, double value)
{
    (void)arg, (void)labels;
    if (strcmp(metric->name, "cache_used_bytes") == 0 && value > CACHE_MEMORY_MIN)
        fail_msg("%.0f bytes used", value);
}

static atomic_bool is_over;

/* There need not be room for policies while many before them wait for readers. */
static void set_policies(struct backend *cache, const struct cache_policies *policies)
{
    struct error error;
    enum status status = cache_policies_set(cache, policies, &error);
    assert_true(status == STATUS_OK || status == STATUS_NO_MEMORY);
}

static void *keep_house(void *arg)
{
    struct backend *cache = arg;
    struct cache_rule rules[] = {
        {.name = BYTES_LITERAL("some"),
         .table = BYTES_LITERAL("t"),
         .partition_key = BYTES_LITERAL("1*"),
         .policy = {.is_enabled = true,
                    .item_ttl_ms = 300000,
                    .query_ttl_ms = 300000,
                    .negative_ttl_max_ms = 60000}},
        {.name = BYTES_LITERAL("tables"),
         .table = BYTES_LITERAL("*"),
         .policy = {.is_enabled = true,
                    .item_ttl_ms = 300000,
                    .query_ttl_ms = 300000,
                    .negative_ttl_max_ms = 60000}},
    };
    struct cache_policies policies = {.fallback = {.is_enabled = true,
                                                   .item_ttl_ms = 300000,
                                                   .query_ttl_ms = 300000,
                                                   .negative_ttl_max_ms = 60000},
                                      .rules = rules};
    uint64_t now_us = 1000000;
    for (unsigned turn = 1; !atomic_load(&is_over); turn++) {
        (void)cache_housekeep(cache, now_us);
        now_us += 50;
        if (turn % 16 == 0)
            cache->ops->report(cache, check_budget, NULL);
        if (turn % 512 == 0)
            cache_purge(cache);
        if (turn % 700 == 0) {
            policies.fallback.is_enabled = false;
            policies.rule_count = 0;
            set_policies(cache, &policies);
            policies.fallback.is_enabled = true;
            policies.fallback.query_ttl_ms = turn % 1400 == 0 ? 0 : 300000;
            set_policies(cache, &policies);
        } else if (turn % 64 == 0) {
            policies.rule_count = turn / 64 % 3;
            rules[0].policy.is_enabled = turn % 192 != 0;
            rules[1].policy.is_shadow = turn % 256 == 0;
            set_policies(cache, &policies);
        }
        sched_yield();
    }
    return NULL;
}

static void no_read_is_older_than_what_was_acknowledged_or_seen(void **state)
{
    (void)state;
    mutex_init(&store.lock);
    for (int key = 0; key < KEYS; key++)
        atomic_store(&store.is_absent[key][0], true);
    static struct backend backend;
    backend.ops = &store_ops;
    struct backend *below = &backend, *cache = NULL;
    struct cache_options options = {
        .memory_bytes = CACHE_MEMORY_MIN,
        .threads = THREADS,
        .seed = 99,
        .now_us = 1000000,
        .waiters_max = 4,
        .policies.fallback = {.is_enabled = true,
                              .item_ttl_ms = 300000,
                              .query_ttl_ms = 300000,
                              .negative_ttl_max_ms = 60000},
    };
    struct error error;
    assert_int_equal(cache_open(&options, &below, &cache, &error), STATUS_OK);
    struct thread threads[THREADS];
    pthread_t house;
    assert_int_equal(pthread_create(&house, NULL, keep_house, cache), 0);
    for (int i = 0; i < THREADS; i++) {
        threads[i] =
            (struct thread){.cache = cache, .seed = 0x9E3779B97F4A7C15u * (unsigned)(i + 1)};
        assert_int_equal(pthread_create(&threads[i].id, NULL, work, &threads[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i].id, NULL);
    atomic_store(&is_over, true);
    pthread_join(house, NULL);
    print_message("%lu hits, %lu values checked, %u writes\n", atomic_load(&store.hits),
                  atomic_load(&store.checked), atomic_load(&store.writes));
    /* Or it has proved nothing. */
    assert_true(atomic_load(&store.hits) > ROUNDS / 20);
    assert_true(atomic_load(&store.checked) > ROUNDS);
    cache->ops->close(&cache);
    mutex_deinit(&store.lock);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_read_is_older_than_what_was_acknowledged_or_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
