/* The whole stack but the sockets: many clients on a small cache over the engine, whose store takes
 * its time. What they saw is written down and judged afterwards: no read shows anything older than
 * the last write acknowledged before it began, nor older than what another read had shown before it
 * began. A page is a read of every key that it examined. */
#include "backend/engine/engine.h"
#include "cache/cache.h"
#include "protocol/encoding/msgpack.h"
#include "protocol/ensure.h"
#include "tests/support/redis_server.h"
#include "tests/support/session.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum {
    THREADS = 3,
    CALLS = 6, /* of a thread, in flight */
    PARTITIONS = 2,
    SORTS = 5,
    KEYS = PARTITIONS * SORTS,
    FILLERS = 1500, /* keys that only take memory */
    SIZES = 3,
    ID_BYTES = 8,
    DOZE_MAX = 200,    /* steps without it */
    STEP_US_MAX = 300, /* the clock moves up to so much with each step */
};

/* ---- what happened ---- */

struct record {
    uint64_t start, end; /* in the order of everything; unique */
    uint64_t write;      /* id of what was written or read; 0: absent */
    bool is_write, is_delete;
};

struct history {
    struct record *records;
    size_t count, capacity;
};

static void history_add(struct history *history, struct record record)
{
    if (history->count == history->capacity) {
        history->capacity = 2 * history->capacity + 1024;
        history->records = realloc(history->records, history->capacity * sizeof *history->records);
        ensure(history->records != NULL);
    }
    history->records[history->count++] = record;
}

/* ---- the stage ---- */

struct client {
    pthread_t thread;
    struct session session;
    uint64_t random;
    struct history histories[KEYS];
    struct bytes keys[KEYS], items[KEYS][SIZES]; /* the id's bytes are zero */
    size_t hits, stale, timeouts;
};

static struct {
    const char *url;
    int rounds; /* of a thread */
    struct backend *cache;
    atomic_uint_fast64_t clock_us, now, writes;
    atomic_uint_fast64_t *commits; /* of each write, by id; 0: it did not happen */
    size_t writes_max;
    atomic_int running;
} stage;

static uint32_t roll(struct client *client, uint32_t sides)
{
    client->random ^= client->random << 13;
    client->random ^= client->random >> 7;
    client->random ^= client->random << 17;
    return (uint32_t)(client->random >> 33) % sides;
}

static uint64_t tick(void)
{
    return atomic_fetch_add(&stage.now, 1) + 1;
}

static uint64_t wall_ms(void)
{
    return 1700000000123;
}

static void prepare_items(struct client *client)
{
    static const size_t sizes[SIZES] = {10, 700, 6000};
    char json[8192], value[6001];
    for (int key = 0; key < KEYS; key++) {
        int p = key / SORTS, s = key % SORTS;
        snprintf(json, sizeof json, "{'p': {'S': '%d'}, 's': {'N': '%d'}}", p, s);
        client->keys[key] = session_item(&client->session, json);
        for (int size = 0; size < SIZES; size++) {
            memset(value, 'v', sizes[size]);
            value[sizes[size]] = '\0';
            snprintf(json, sizeof json,
                     "{'p': {'S': '%d'}, 's': {'N': '%d'}, 'i': {'B': 'AAAAAAAAAAA='}, "
                     "'d': {'S': '%s'}}",
                     p, s, value);
            client->items[key][size] = session_item(&client->session, json);
        }
    }
}

static uint8_t *id_in(struct bytes item)
{
    struct bytes found; /* bin 8, its size, then the bytes */
    ensure(item_find(item, BYTES_LITERAL("i"), &found) && found.size == 2 + ID_BYTES);
    return (uint8_t *)(uintptr_t)found.data + 2;
}

static uint64_t id_of(struct bytes item)
{
    uint64_t id;
    memcpy(&id, id_in(item), sizeof id);
    return id;
}

/* ---- one call ---- */

struct flying {
    struct session_call call;
    bool is_used;
    int key;        /* -1: a filler */
    int first, end; /* Query: keys asked for */
    uint64_t start, write;
};

static void begin_write(struct client *client, struct flying *flying)
{
    bool is_delete = roll(client, 4) == 0;
    struct request *request = &flying->call.call.request;
    session_call_init(&flying->call, is_delete ? OPERATION_DELETE_ITEM : OPERATION_PUT_ITEM,
                      "Things");
    flying->write = atomic_fetch_add(&stage.writes, 1) + 1;
    ensure(flying->write <= stage.writes_max);
    if (is_delete) {
        request->key = client->keys[flying->key];
        return;
    }
    request->item =
        arena_copy(&flying->call.arena, client->items[flying->key][roll(client, SIZES)]);
    memcpy(id_in(request->item), &flying->write, ID_BYTES);
}

static void begin_query(struct client *client, struct flying *flying)
{
    static const char *const bounds[] = {"0", "1", "2", "3", "4"};
    struct request *request = &flying->call.call.request;
    session_call_init(&flying->call, OPERATION_QUERY, "Things");
    int p = flying->key / SORTS, low = (int)roll(client, SORTS);
    int high = low + (int)roll(client, (uint32_t)(SORTS - low));
    char values[128];
    snprintf(values, sizeof values, "{':p': {'S': '%d'}, ':a': {'N': '%s'}, ':b': {'N': '%s'}}", p,
             bounds[low], bounds[high]);
    request->key_condition.text = BYTES_LITERAL("p = :p AND s BETWEEN :a AND :b");
    struct bytes made = session_item(&client->session, values);
    request->key_condition.values = arena_copy(&flying->call.arena, made);
    request->limit = roll(client, 3) == 0 ? 1 + roll(client, 3) : 0;
    request->is_backward = roll(client, 4) == 0;
    flying->first = p * SORTS + low;
    flying->end = p * SORTS + high + 1;
}

static void begin_filler(struct client *client, struct flying *flying)
{
    char key[64];
    flying->key = -1;
    session_call_init(&flying->call, OPERATION_GET_ITEM, "Things");
    snprintf(key, sizeof key, "{'p': {'S': 'filler %u'}, 's': {'N': '0'}}", roll(client, FILLERS));
    flying->call.call.request.key =
        arena_copy(&flying->call.arena, session_item(&client->session, key));
}

static void begin_get(struct client *client, struct flying *flying)
{
    session_call_init(&flying->call, OPERATION_GET_ITEM, "Things");
    flying->call.call.request.key = client->keys[flying->key];
    flying->call.call.request.is_consistent = roll(client, 16) == 0;
}

static void begin(struct client *client, struct flying *flying)
{
    uint32_t what = roll(client, 20);
    flying->is_used = true;
    flying->write = 0;
    flying->key = (int)roll(client, KEYS);
    if (what < 3)
        begin_write(client, flying);
    else if (what < 8)
        begin_query(client, flying);
    else if (what < 13)
        begin_filler(client, flying);
    else
        begin_get(client, flying);
    struct call *call = &flying->call.call;
    if (flying->write == 0 && roll(client, 10) == 0)
        call->deadline_us = client->session.loop.now_us + roll(client, 3000) + 1;
    flying->start = tick();
    session_submit(&client->session, &flying->call);
}

/* ---- what it showed ---- */

static void end_write(struct client *client, struct flying *flying, struct record record)
{
    const struct call *call = &flying->call.call;
    ensure(call->reply.status == STATUS_OK && call->reply.commit != 0);
    atomic_store(&stage.commits[flying->write], call->reply.commit);
    record.is_write = true;
    record.is_delete = call->request.operation == OPERATION_DELETE_ITEM;
    record.write = flying->write;
    history_add(&client->histories[flying->key], record);
}

static int sort_of(struct bytes item)
{
    struct bytes found;
    uint64_t sort;
    ensure(item_find(item, BYTES_LITERAL("s"), &found));
    struct msgpack_cursor cursor = msgpack_cursor_of(found);
    ensure(msgpack_read_uint(&cursor, &sort));
    return (int)sort;
}

static void end_query(struct client *client, struct flying *flying, struct record record)
{
    struct msgpack_cursor cursor = msgpack_cursor_of(flying->call.body);
    const struct request *request = &flying->call.call.request;
    uint32_t three, count;
    int base = flying->first / SORTS * SORTS, first = flying->first, end = flying->end;
    ensure(msgpack_read_array(&cursor, &three) && msgpack_read_array(&cursor, &count));
    uint64_t seen[KEYS] = {0};
    for (uint32_t i = 0; i < count; i++) {
        struct bytes item;
        ensure(msgpack_skip(&cursor, &item));
        int key = base + sort_of(item);
        ensure(key >= first && key < end && seen[key] == 0);
        seen[key] = id_of(item);
        if (i + 1 == request->limit && request->is_backward)
            first = key;
        else if (i + 1 == request->limit)
            end = key + 1;
    }
    for (int key = first; key < end; key++) {
        record.write = seen[key];
        history_add(&client->histories[key], record);
    }
}

static void end_call(struct client *client, struct flying *flying)
{
    struct call *call = &flying->call.call;
    struct record record = {.start = flying->start, .end = tick()};
    flying->is_used = false;
    client->hits += call->reply.verdict == VERDICT_HIT;
    client->stale += call->reply.verdict == VERDICT_STALE;
    if (flying->write != 0) {
        end_write(client, flying, record);
    } else if (call->reply.status == STATUS_TIMEOUT) {
        ensure(call->deadline_us != 0);
        client->timeouts++;
    } else {
        ensure(call->reply.status == STATUS_OK);
        if (call->request.operation == OPERATION_QUERY) {
            end_query(client, flying, record);
        } else if (flying->key >= 0) {
            record.write = call->reply.count == 0 ? 0 : id_of(flying->call.body);
            history_add(&client->histories[flying->key], record);
        }
    }
    session_call_deinit(&flying->call);
}

/* ---- threads ---- */

/* All lanes live in the same time. */
static void move_clock(struct client *client)
{
    uint64_t now_us = atomic_fetch_add(&stage.clock_us, roll(client, STEP_US_MAX)) + STEP_US_MAX;
    if (now_us > client->session.loop.now_us)
        lane_loop_advance(&client->session.loop, now_us - client->session.loop.now_us);
}

static void *use(void *arg)
{
    struct client *client = arg;
    struct flying flying[CALLS] = {{.is_used = false}};
    int begun = 0, in_flight = 0;
    uint32_t dozing = 0;
    session_open(&client->session, stage.cache);
    client->session.loop.is_clock_manual = true;
    prepare_items(client);
    while (begun < stage.rounds || in_flight != 0) {
        struct flying *one = &flying[roll(client, CALLS)];
        if (one->is_used && one->call.is_complete) {
            end_call(client, one);
            in_flight--;
        } else if (!one->is_used && begun < stage.rounds) {
            begin(client, one);
            begun++;
            in_flight++;
        }
        /* Now and then one lane falls behind, so that what others did meanwhile overtakes it. */
        if (dozing == 0 && roll(client, 100) == 0)
            dozing = roll(client, DOZE_MAX);
        if (dozing != 0)
            dozing--;
        if (dozing == 0 && roll(client, 3) == 0)
            move_clock(client);
        else if (!lane_loop_turn(&client->session.loop))
            (void)sched_yield();
    }
    atomic_fetch_sub(&stage.running, 1);
    session_close(&client->session);
    return NULL;
}

static const struct cache_policy policies[] = {
    {.is_enabled = true, .item_ttl_ms = 100, .query_ttl_ms = 30, .negative_ttl_max_ms = 20},
    {.is_enabled = true, .item_ttl_ms = 0, .query_ttl_ms = 5, .negative_ttl_max_ms = 1000},
    {.is_enabled = true,
     .item_ttl_ms = 2,
     .query_ttl_ms = 5,
     .negative_ttl_max_ms = 1000,
     .stale_while_refetch_ms = 100,
     .stale_if_error_ms = 100,
     .refresh_percent = 50},
};
enum { POLICIES = sizeof policies / sizeof policies[0] };
static const struct cache_policy off = {.is_enabled = false};

static void set_policy(const struct cache_policy *policy)
{
    struct cache_policies all = {.fallback = *policy};
    struct error error;
    assert_int_equal(cache_policies_set(stage.cache, &all, &error), STATUS_OK);
}

/* Turns the cache off for a while, changes how long things stay, forgets everything: every 40 ms of
 * the clients' time something else. */
static void *keep_house(void *arg)
{
    (void)arg;
    uint64_t last = 0;
    while (atomic_load(&stage.running) != 0) {
        uint64_t now_us = atomic_load(&stage.clock_us), period = now_us / 40000;
        cache_housekeep(stage.cache, now_us);
        if (period != last && period % 16 == 7)
            cache_purge(stage.cache);
        else if (period != last)
            set_policy(period % 16 == 3 ? &off : &policies[period / 8 % POLICIES]);
        last = period;
        (void)sched_yield();
    }
    return NULL;
}

/* ---- the judgement ---- */

struct version {
    uint64_t commit, start, end;
    bool is_delete;
};

static int by_end(const void *a, const void *b)
{
    uint64_t left = ((const struct record *)a)->end, right = ((const struct record *)b)->end;
    return (left > right) - (left < right);
}

static int by_commit(const void *a, const void *b)
{
    uint64_t left = ((const struct version *)a)->commit;
    uint64_t right = ((const struct version *)b)->commit;
    return (left > right) - (left < right);
}

/* Greatest commit that must show in what began at `start`: floors[i] is that of records[0..i]. */
static uint64_t floor_at(const struct history *all, const uint64_t *floors, uint64_t start)
{
    size_t low = 0, high = all->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (all->records[middle].end < start)
            low = middle + 1;
        else
            high = middle;
    }
    return low == 0 ? 0 : floors[low - 1];
}

/* The oldest version that an absent item may stand for, from `floor` on. 0 stands for the time
 * before any write. */
static bool find_absence(const struct version *versions, size_t count, uint64_t floor,
                         uint64_t before, uint64_t *commit)
{
    *commit = 0;
    if (floor == 0)
        return true;
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (versions[middle].commit < floor)
            low = middle + 1;
        else
            high = middle;
    }
    while (low < count && !(versions[low].is_delete && versions[low].start < before))
        low++;
    *commit = low < count ? versions[low].commit : 0;
    return low < count;
}

static void judge_read(const struct record *read, uint64_t floor, const struct version *versions,
                       size_t count, uint64_t *shown)
{
    if (read->write == 0) {
        if (!find_absence(versions, count, floor, read->end, shown))
            fail_msg("absent, though commit %llu had been acknowledged or shown",
                     (unsigned long long)floor);
        return;
    }
    *shown = atomic_load(&stage.commits[read->write]);
    if (*shown == 0)
        fail_msg("showed write %llu, which never happened", (unsigned long long)read->write);
    if (*shown < floor)
        fail_msg("showed commit %llu, though %llu had been acknowledged or shown",
                 (unsigned long long)*shown, (unsigned long long)floor);
}

static void judge_key(struct history *all)
{
    size_t count = 0;
    struct version *versions = calloc(all->count + 1, sizeof *versions);
    uint64_t *floors = calloc(all->count + 1, sizeof *floors);
    for (size_t i = 0; i < all->count; i++) {
        const struct record *record = &all->records[i];
        if (record->is_write)
            versions[count++] = (struct version){atomic_load(&stage.commits[record->write]),
                                                 record->start, record->end, record->is_delete};
    }
    qsort(versions, count, sizeof *versions, by_commit);
    qsort(all->records, all->count, sizeof *all->records, by_end);
    for (size_t i = 0; i < all->count; i++) {
        const struct record *record = &all->records[i];
        uint64_t shown;
        if (record->is_write)
            shown = atomic_load(&stage.commits[record->write]);
        else
            judge_read(record, floor_at(all, floors, record->start), versions, count, &shown);
        floors[i] = i != 0 && floors[i - 1] > shown ? floors[i - 1] : shown;
    }
    free(versions);
    free(floors);
}

static void judge(struct client *clients)
{
    size_t reads = 0;
    for (int key = 0; key < KEYS; key++) {
        struct history all = {0};
        for (int i = 0; i < THREADS; i++) {
            struct history *own = &clients[i].histories[key];
            for (size_t k = 0; k < own->count; k++)
                history_add(&all, own->records[k]);
            free(own->records);
        }
        judge_key(&all);
        reads += all.count;
        free(all.records);
    }
    assert_true(reads > (size_t)stage.rounds);
}

/* ---- the tests ---- */

static enum status open_engine(const char *url, struct backend **out)
{
    struct error error;
    struct engine_options options = {
        .store = {.url = bytes_text(url), .memory_bytes = 16 << 20, .sync = SYNC_NONE},
        .partitions = 16,
        .tables_max = 10,
        .collection_bytes_max = 10ull << 30,
        .wall_ms = wall_ms};
    return engine_open(&options, out, &error);
}

static int set_up(void **state)
{
    (void)state;
    struct backend *engine;
    struct error error;
    struct session session;
    struct cache_options options = {.memory_bytes = CACHE_MEMORY_MIN,
                                    .threads = THREADS,
                                    .seed = 7,
                                    .waiters_max = 4,
                                    .policies.fallback = policies[0]};
    atomic_store(&stage.clock_us, 1000000);
    atomic_store(&stage.writes, 0);
    stage.writes_max = (size_t)stage.rounds * THREADS;
    stage.commits = calloc(stage.writes_max + 1, sizeof *stage.commits);
    assert_int_equal(open_engine(stage.url, &engine), STATUS_OK);
    assert_int_equal(cache_open(&options, &engine, &stage.cache, &error), STATUS_OK);
    session_open(&session, stage.cache);
    assert_int_equal(session_create(&session, "Things", "p:S", "s:N").status, STATUS_OK);
    char item[2048], value[1501];
    memset(value, 'f', 1500);
    value[1500] = '\0';
    for (int i = 0; i < FILLERS; i++) {
        snprintf(item, sizeof item, "{'p': {'S': 'filler %d'}, 's': {'N': '0'}, 'd': {'S': '%s'}}",
                 i, value);
        assert_int_equal(session_put(&session, "Things", item).status, STATUS_OK);
    }
    session_close(&session);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    stage.cache->ops->close(&stage.cache);
    free(stage.commits);
    return 0;
}

static void find_evictions(void *arg, const struct metric *metric, const char *labels, double value)
{
    (void)labels;
    if (strstr(metric->name, "evict") != NULL)
        *(double *)arg += value;
}

static void no_read_is_older_than_what_was_acknowledged_or_shown(void **state)
{
    (void)state;
    struct client *clients = calloc(THREADS, sizeof *clients);
    pthread_t house;
    atomic_store(&stage.running, THREADS);
    for (unsigned i = 0; i < THREADS; i++) {
        clients[i].random = 88172645463325252u + i * 7919;
        assert_int_equal(pthread_create(&clients[i].thread, NULL, use, &clients[i]), 0);
    }
    assert_int_equal(pthread_create(&house, NULL, keep_house, NULL), 0);
    size_t hits = 0, stale = 0, timeouts = 0;
    for (unsigned i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(clients[i].thread, NULL), 0);
        hits += clients[i].hits;
        stale += clients[i].stale;
        timeouts += clients[i].timeouts;
    }
    assert_int_equal(pthread_join(house, NULL), 0);
    double evictions = 0;
    stage.cache->ops->report(stage.cache, find_evictions, &evictions);
    print_message("%zu hits, %zu stale, %zu timeouts, %.0f evictions in %llu ms\n", hits, stale,
                  timeouts, evictions, (unsigned long long)atomic_load(&stage.clock_us) / 1000);
    judge(clients);
    assert_true(hits > (size_t)stage.rounds / 10 && stale > 0 && evictions > 0);
    free(clients);
}

/* Leads, waits for it, and waits for it with a deadline. The definition goes while they wait. */
static void a_table_deleted_while_reads_wait_for_each_other_harms_nobody(void **state)
{
    (void)state;
    enum { READS = 3 };
    struct session reader, deleter;
    struct session_call calls[READS], ping;
    session_open(&reader, stage.cache);
    session_open(&deleter, stage.cache);
    reader.loop.is_clock_manual = true;
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < READS; i++) {
            session_call_init(&calls[i], OPERATION_GET_ITEM, "Things");
            calls[i].call.request.key =
                session_item(&reader, "{'p': {'S': 'filler 1'}, 's': {'N': '1'}}");
            calls[i].call.deadline_us = i == 2 ? reader.loop.now_us + 500 : 0;
            session_submit(&reader, &calls[i]);
            assert_false(calls[i].is_complete);
        }
        assert_int_equal(session_table(&deleter, OPERATION_DELETE_TABLE, "Things").status,
                         STATUS_OK);
        if (round == 1) /* and another comes in its place */
            assert_int_equal(session_create(&deleter, "Things", "p:S", "s:N").status, STATUS_OK);
        session_call_init(&ping, OPERATION_PING, NULL);
        session_run(&reader, &ping); /* its lane has seen it */
        session_call_deinit(&ping);
        lane_loop_advance(&reader.loop, 100000);
        for (int i = 0; i < READS; i++) {
            enum status status = calls[i].call.reply.status;
            assert_true(calls[i].is_complete);
            assert_true(status == STATUS_RESOURCE_NOT_FOUND ||
                        (status == STATUS_OK && calls[i].call.reply.count == 0) ||
                        (i == 2 && status == STATUS_TIMEOUT));
            session_call_deinit(&calls[i]);
        }
        if (round == 0)
            assert_int_equal(session_create(&deleter, "Things", "p:S", "s:N").status, STATUS_OK);
    }
    session_close(&reader);
    session_close(&deleter);
}

static int run(const char *url, int rounds)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(no_read_is_older_than_what_was_acknowledged_or_shown,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            a_table_deleted_while_reads_wait_for_each_other_harms_nobody, set_up, tear_down),
    };
    stage.url = url;
    stage.rounds = rounds;
    /* Reads wait only where the store is slow. */
    size_t count = strstr(url, "delay") != NULL ? 2 : 1;
    return _cmocka_run_group_tests(url, tests, count, NULL, NULL);
}

int main(void)
{
    int failed = run("memory:?delay=1ms", 25000) + run("memory:", 10000);
#ifdef MUDAX_REDIS_SERVER
    struct redis_server redis;
    redis_server_start(&redis, NULL);
    failed += run(redis.url, 5000);
    redis_server_end(&redis);
#endif
    return failed;
}
