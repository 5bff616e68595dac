/* The Redis store when Redis is slow, full, gone, or not what it was. What it promises otherwise:
 * kv_test.c and the conformance cases. */
#include "backend/engine/engine.h"
#include "backend/redis/redis.h"
#include "cache/cache.h"
#include "protocol/ensure.h"
#include "tests/support/redis_server.h"
#include "tests/support/session.h"
#include "tests/unit/backend/kv_suite.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static struct redis_server redis;
static struct store_under_test store;

static struct {
    int lost, reopened, reconnected;
    bool is_lost, is_reconnected;
    bool was_reopened_first; /* before it was reconnected */
} events;

static void on_event(void *arg, const char *what, const char *detail)
{
    (void)arg;
    assert_non_null(detail);
    events.lost += strcmp(what, "store_lost") == 0;
    events.reopened += strcmp(what, "store_reopened") == 0;
    events.reconnected += strcmp(what, "store_reconnected") == 0;
    events.is_lost = events.lost != 0;
    events.is_reconnected = events.reconnected != 0;
    if (events.reconnected == 0)
        events.was_reopened_first = events.reopened != 0;
}

static int set_up(void **state)
{
    (void)state;
    redis_tick_ms = 1000;
    memset(&events, 0, sizeof events);
    redis_server_start(&redis, NULL);
    store_set_up(&store, redis.url, SYNC_NONE, on_event, NULL);
    return 0;
}

/* With a watchdog that barks after a tenth of a second instead of ten. */
static int set_up_quick(void **state)
{
    set_up(state);
    store_lane_tear_down(&store);
    redis_tick_ms = 10;
    store_lane_set_up(&store, &store);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    store_tear_down(&store);
    redis_server_end(&redis);
    return 0;
}

/* ---- requests in flight ---- */

struct reading {
    struct kv_read read;
    struct kv_record record;
    bool is_complete;
    size_t visits;
};

static void reading_is_complete(struct kv_read *read)
{
    struct reading *reading = read->owner;
    assert_false(reading->is_complete);
    reading->is_complete = true;
}

static bool reading_visit(struct kv_read *read, struct bytes key, struct bytes value)
{
    (void)key;
    (void)value;
    ((struct reading *)read->owner)->visits++;
    return true;
}

static void reading_submit(struct reading *reading, const char *key)
{
    *reading = (struct reading){.record = {.key = bytes_text(key)}};
    reading->read = (struct kv_read){.records = &reading->record,
                                     .count = 1,
                                     .arena = &store.arena,
                                     .complete = reading_is_complete,
                                     .owner = reading};
    assert_int_equal(store.ops->read(store.lane, &reading->read), SUBMIT_PENDING);
    assert_false(reading->is_complete);
}

static void range_submit(struct reading *reading, const char *low, const char *high)
{
    *reading = (struct reading){.visits = 0};
    reading->read = (struct kv_read){.low = bytes_text(low),
                                     .high = bytes_text(high),
                                     .visit = reading_visit,
                                     .arena = &store.arena,
                                     .complete = reading_is_complete,
                                     .owner = reading};
    assert_int_equal(store.ops->read(store.lane, &reading->read), SUBMIT_PENDING);
}

struct committing {
    struct kv_commit commit;
    struct kv_record write;
    bool is_complete;
};

static void committing_is_complete(struct kv_commit *commit)
{
    ((struct committing *)commit->owner)->is_complete = true;
}

static void committing_submit(struct committing *committing, const char *key, const char *value)
{
    *committing =
        (struct committing){.write = {.key = bytes_text(key), .value = bytes_text(value)}};
    committing->commit = (struct kv_commit){.writes = &committing->write,
                                            .write_count = 1,
                                            .arena = &store.arena,
                                            .complete = committing_is_complete,
                                            .owner = committing};
    store.ops->commit(store.lane, &committing->commit);
}

static void wait_for(const bool *flag)
{
    assert_true(lane_loop_run_until(&store.loop, flag));
}

static bool is_ready(void)
{
    const char *why = NULL;
    bool is_ready = store.ops->is_ready(store.kv, &why);
    assert_true(is_ready || why != NULL);
    return is_ready;
}

static void assert_value(const char *key, const char *value)
{
    struct kv_record record = store_get_one(&store, key);
    assert_true(bytes_given(record.value) == (value != NULL));
    assert_true(bytes_equal(record.value, text(value)));
}

static const char key[] = KV_BUCKET "key", other_key[] = KV_BUCKET "other";

/* ---- gone ---- */

static void requests_in_flight_when_redis_dies_have_no_answer(void **state)
{
    (void)state;
    struct reading reading, range;
    struct committing committing;
    assert_int_equal(store_put(&store, key, "1"), KV_DONE);
    redis_server_pause(&redis);
    reading_submit(&reading, key);
    range_submit(&range, KV_BUCKET, KV_BUCKET "z");
    committing_submit(&committing, key, "2");
    lane_loop_turn(&store.loop); /* sent */
    redis_server_kill(&redis);
    wait_for(&committing.is_complete);
    assert_true(reading.is_complete && range.is_complete);
    assert_int_equal(reading.read.status, STATUS_UNAVAILABLE);
    assert_int_equal(range.read.status, STATUS_UNAVAILABLE);
    assert_int_equal(range.visits, 0);
    assert_int_equal(committing.commit.outcome, KV_UNKNOWN);
    assert_int_equal(events.lost, 1);
    assert_false(is_ready());
}

static void while_redis_is_gone_reads_fail_and_commits_are_refused(void **state)
{
    (void)state;
    struct kv_record record = {.key = bytes_text(key)};
    assert_int_equal(store_put(&store, key, "1"), KV_DONE);
    redis_server_kill(&redis);
    wait_for(&events.is_lost);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(store_get(&store, &record, 1), STATUS_UNAVAILABLE);
        assert_int_equal(store_put(&store, key, "2"), KV_REFUSED);
    }
    assert_int_equal(events.lost, 1);
}

static void what_redis_had_saved_is_back_when_it_is(void **state)
{
    (void)state;
    struct store_under_test second;
    store_lane_set_up(&second, &store);
    assert_int_equal(store_put(&second, key, "1"), KV_DONE);
    assert_value(key, "1");
    assert_string_equal(redis_server_command(&redis, "SAVE"), "+OK");
    redis_server_kill(&redis);
    wait_for(&events.is_lost);
    redis_server_restart(&redis);
    wait_for(&events.is_reconnected); /* by itself */
    assert_true(events.was_reopened_first);
    assert_true(is_ready());
    assert_value(key, "1");
    struct kv_record record = {.key = bytes_text(key)};
    while (store_get(&second, &record, 1) != STATUS_OK)
        continue;
    assert_true(bytes_equal(record.value, bytes_text("1")));
    assert_int_equal(events.reopened, 1); /* both lanes lost the same run */
    assert_int_equal(store_put(&store, key, "2"), KV_DONE);
    assert_value(key, "2");
    store_lane_tear_down(&second);
}

static void a_redis_that_comes_back_empty_is_used_again(void **state)
{
    (void)state;
    assert_int_equal(store_put(&store, key, "1"), KV_DONE);
    redis_server_kill(&redis);
    wait_for(&events.is_lost);
    redis_server_restart(&redis);
    wait_for(&events.is_reconnected);
    assert_int_equal(events.reopened, 1);
    assert_value(key, NULL);
    assert_int_equal(store_put(&store, key, "2"), KV_DONE); /* it knows no script any longer */
    assert_value(key, "2");
}

/* Else a token of before could stand for another value. */
static void numbers_ascend_also_when_older_data_comes_back(void **state)
{
    (void)state;
    struct committing committing;
    assert_int_equal(store_put(&store, key, "1"), KV_DONE);
    assert_string_equal(redis_server_command(&redis, "SAVE"), "+OK");
    committing_submit(&committing, key, "2");
    wait_for(&committing.is_complete);
    uint64_t number = committing.commit.number;
    redis_server_kill(&redis);
    wait_for(&events.is_lost);
    redis_server_restart(&redis);
    wait_for(&events.is_reconnected);
    assert_value(key, "1");
    committing_submit(&committing, key, "3");
    wait_for(&committing.is_complete);
    assert_int_equal(committing.commit.outcome, KV_DONE);
    assert_true(committing.commit.number > number);
}

static void a_connection_that_breaks_is_made_again(void **state)
{
    (void)state;
    assert_int_equal(store_put(&store, key, "1"), KV_DONE);
    (void)redis_server_command(&redis, "CLIENT KILL TYPE normal");
    wait_for(&events.is_lost);
    assert_value(key, "1");
    assert_int_equal(events.reopened, 0); /* the same run: nothing to forget */
    assert_int_equal(events.reconnected, 1);
}

/* ---- silent ---- */

static void a_redis_that_says_nothing_is_given_up(void **state)
{
    (void)state;
    struct reading reading;
    struct committing committing;
    assert_int_equal(store_put(&store, key, "1"), KV_DONE);
    redis_server_pause(&redis);
    reading_submit(&reading, key);
    committing_submit(&committing, key, "2");
    wait_for(&committing.is_complete);
    assert_true(reading.is_complete);
    assert_int_equal(reading.read.status, STATUS_UNAVAILABLE);
    assert_int_equal(committing.commit.outcome, KV_UNKNOWN);
    assert_false(is_ready());
    redis_server_resume(&redis);
    wait_for(&events.is_reconnected);
    assert_value(key, "2"); /* it had been sent: this is why the outcome was unknown */
}

static void a_silent_redis_at_the_first_connection_is_given_up_too(void **state)
{
    (void)state;
    struct reading reading;
    redis_server_pause(&redis);
    reading_submit(&reading, key);
    wait_for(&reading.is_complete);
    assert_int_equal(reading.read.status, STATUS_UNAVAILABLE);
    redis_server_resume(&redis);
    wait_for(&events.is_reconnected);
    assert_value(key, NULL);
}

static void commands_in_flight_have_a_limit(void **state)
{
    (void)state;
    assert_value(key, NULL); /* connected */
    struct reading *readings = calloc(IN_FLIGHT_MAX + 1, sizeof *readings);
    struct committing committing;
    redis_server_pause(&redis);
    for (size_t i = 0; i <= IN_FLIGHT_MAX; i++)
        reading_submit(&readings[i], key);
    committing_submit(&committing, key, "1");
    wait_for(&committing.is_complete);
    assert_int_equal(committing.commit.outcome, KV_REFUSED);
    assert_int_equal(committing.commit.status, STATUS_THROTTLED);
    assert_true(readings[IN_FLIGHT_MAX].is_complete);
    assert_int_equal(readings[IN_FLIGHT_MAX].read.status, STATUS_THROTTLED);
    redis_server_resume(&redis);
    wait_for(&readings[IN_FLIGHT_MAX - 1].is_complete);
    for (size_t i = 0; i < IN_FLIGHT_MAX; i++)
        assert_int_equal(readings[i].read.status, STATUS_OK);
    free(readings);
}

/* ---- errors ---- */

static void scripts_that_redis_forgot_are_sent_again(void **state)
{
    (void)state;
    assert_int_equal(store_put(&store, key, "1"), KV_DONE);
    struct kv_record records[] = {{.key = bytes_text(key)}, {.key = bytes_text(other_key)}};
    (void)redis_server_command(&redis, "SCRIPT FLUSH");
    assert_int_equal(store_get(&store, records, 2), STATUS_OK);
    assert_true(bytes_equal(records[0].value, bytes_text("1")));
    assert_false(bytes_given(records[1].value));
    assert_string_equal(store_list(&store, KV_BUCKET, KV_BUCKET "z", false, 0), "key");
    assert_int_equal(store_put(&store, key, "2"), KV_DONE);
    assert_value(key, "2");
}

static void a_full_redis_refuses_with_a_reason(void **state)
{
    (void)state;
    struct committing committing;
    assert_int_equal(store_put(&store, key, "1"), KV_DONE);
    assert_string_equal(redis_server_command(&redis, "CONFIG SET maxmemory 1"), "+OK");
    committing_submit(&committing, key, "2");
    wait_for(&committing.is_complete);
    assert_int_equal(committing.commit.outcome, KV_REFUSED);
    assert_int_equal(committing.commit.status, STATUS_INTERNAL);
    assert_non_null(strstr(committing.commit.why, "maxmemory"));
    assert_false(is_ready());
    assert_value(key, "1");
    assert_string_equal(redis_server_command(&redis, "CONFIG SET maxmemory 0"), "+OK");
    assert_int_equal(store_put(&store, key, "2"), KV_DONE);
    assert_value(key, "2");
}

static void what_somebody_else_has_put_there_is_an_error_not_an_absent_record(void **state)
{
    (void)state;
    assert_int_equal(store_put(&store, key, "1"), KV_DONE);
    /* "test:bucket/" */
    const char *bucket = "mudax:{74657374:3a6275636b65742f}";
    char command[128];
    struct kv_record records[] = {{.key = bytes_text(key)}, {.key = bytes_text(other_key)}};
    (void)snprintf(command, sizeof command, "SET %s:h x", bucket);
    assert_string_equal(redis_server_command(&redis, command), "+OK");
    assert_int_equal(store_get(&store, records, 1), STATUS_INTERNAL);
    assert_int_equal(store_get(&store, records, 2), STATUS_INTERNAL);
    assert_int_equal(store_put(&store, key, "2"), KV_UNKNOWN); /* the number was taken already */
    (void)snprintf(command, sizeof command, "DEL %s:h", bucket);
    assert_string_equal(redis_server_command(&redis, command), ":1");
    (void)snprintf(command, sizeof command, "HSET %s:h /key x", bucket); /* no version */
    (void)redis_server_command(&redis, command);
    struct reading range;
    range_submit(&range, KV_BUCKET, KV_BUCKET "z");
    wait_for(&range.is_complete);
    assert_int_equal(range.read.status, STATUS_INTERNAL);
    assert_int_equal(range.visits, 0);
}

/* ---- bytes ---- */

static int by_bytes(const void *a, const void *b)
{
    return bytes_compare(*(const struct bytes *)a, *(const struct bytes *)b);
}

struct expecting {
    const struct bytes *keys; /* to come, in order */
    size_t count, seen;
    bool is_backward, is_complete;
};

static bool expecting_visit(struct kv_read *read, struct bytes found, struct bytes value)
{
    struct expecting *expecting = read->owner;
    assert_true(expecting->seen < expecting->count);
    size_t i = expecting->is_backward ? expecting->count - 1 - expecting->seen : expecting->seen;
    assert_true(bytes_equal(found, expecting->keys[i]));
    assert_true(value.size >= found.size);
    assert_memory_equal(value.data, found.data, found.size); /* each record holds its key */
    expecting->seen++;
    return true;
}

static void expecting_is_complete(struct kv_read *read)
{
    ((struct expecting *)read->owner)->is_complete = true;
}

/* keys  all from low (inclusive) to high (exclusive) */
static void assert_range(struct bytes low, struct bytes high, const struct bytes *keys,
                         size_t count)
{
    for (int backward = 0; backward < 2; backward++) {
        struct expecting expecting = {.keys = keys, .count = count, .is_backward = backward};
        struct kv_read read = {.low = low,
                               .high = high,
                               .is_backward = backward,
                               .visit = expecting_visit,
                               .arena = &store.arena,
                               .complete = expecting_is_complete,
                               .owner = &expecting};
        assert_int_equal(store.ops->read(store.lane, &read), SUBMIT_PENDING);
        wait_for(&expecting.is_complete);
        assert_int_equal(read.status, STATUS_OK);
        assert_int_equal(expecting.seen, count);
    }
}

static void put_records(struct kv_record *records, size_t count)
{
    struct kv_commit commit = {.writes = records, .write_count = count};
    assert_int_equal(store_commit_all(&store, &commit), KV_DONE);
}

static void keys_are_bytes_of_any_kind_in_their_order(void **state)
{
    (void)state;
    /* A table's id and a hash, with what means something in patterns, numbers and lines. */
    static const uint8_t prefix[12] = {0x2a, 0, 0xff, '\n', '*', '?', '[', ']', '\\', 0, 0xff, '}'};
    static const uint8_t bytes[] = {0, 1, '\n', '\r', '(', '*', '-', '+', '[', '\\', 0x7f, 0xff};
    enum { BYTES = sizeof bytes, KEYS = BYTES + BYTES * BYTES };
    struct bytes keys[KEYS];
    struct kv_record records[KEYS];
    for (size_t i = 0; i < KEYS; i++) {
        uint8_t *made = arena_alloc(&store.arena, sizeof prefix + 2);
        memcpy(made, prefix, sizeof prefix);
        made[sizeof prefix] = bytes[i < BYTES ? i : (i - BYTES) / BYTES];
        made[sizeof prefix + 1] = bytes[i < BYTES ? 0 : (i - BYTES) % BYTES];
        keys[i] = bytes_of(made, sizeof prefix + (i < BYTES ? 1 : 2));
        records[i] = (struct kv_record){.key = keys[i], .value = keys[i]};
    }
    put_records(records, KEYS);
    qsort(keys, KEYS, sizeof keys[0], by_bytes);
    for (size_t i = 0; i < KEYS; i++) {
        struct kv_record record = {.key = keys[i]};
        assert_int_equal(store_get(&store, &record, 1), STATUS_OK);
        assert_true(bytes_equal(record.value, keys[i]));
    }
    for (size_t i = 0; i < KEYS; i += 7)
        for (size_t k = i; k < KEYS; k += 13)
            assert_range(keys[i], keys[k], keys + i, k - i);
    uint8_t next[12];
    memcpy(next, prefix, sizeof next);
    next[11]++;
    assert_range(bytes_of(prefix, sizeof prefix), bytes_of(next, sizeof next), keys, KEYS);
    assert_range(bytes_of(prefix, sizeof prefix), keys[0], keys, 0);
}

static struct bytes make_key(const char *format, int i)
{
    char name[64];
    int size = snprintf(name, sizeof name, format, i);
    return arena_copy(&store.arena, bytes_of(name, (size_t)size));
}

static void ranges_of_many_megabytes_are_read_whole(void **state)
{
    (void)state;
    enum { RECORDS = 30, SIZE = 400 * 1024 };
    struct bytes keys[RECORDS];
    for (int i = 0; i < RECORDS; i++) {
        uint8_t *value = arena_alloc(&store.arena, SIZE);
        keys[i] = make_key(KV_BUCKET "large/%02d", i);
        memset(value, i, SIZE);
        memcpy(value, keys[i].data, keys[i].size);
        struct kv_record record = {.key = keys[i], .value = bytes_of(value, SIZE)};
        put_records(&record, 1);
        record.value = BYTES_NONE;
        assert_int_equal(store_get(&store, &record, 1), STATUS_OK);
        assert_true(bytes_equal(record.value, bytes_of(value, SIZE)));
    }
    assert_range(bytes_text(KV_BUCKET "large/"), bytes_text(KV_BUCKET "large0"), keys, RECORDS);
    assert_range(keys[3], keys[21], keys + 3, 18);
}

static void ranges_of_many_records_are_read_whole(void **state)
{
    (void)state;
    enum { RECORDS = 20000, PER_COMMIT = 1000, SIZE = 150 };
    struct bytes *keys = calloc(RECORDS, sizeof *keys);
    struct kv_record records[PER_COMMIT];
    for (int i = 0; i < RECORDS; i++) {
        keys[i] = make_key(KV_BUCKET "many/%06d", i);
        uint8_t *value = arena_alloc(&store.arena, SIZE);
        memset(value, 0, SIZE);
        memcpy(value, keys[i].data, keys[i].size);
        records[i % PER_COMMIT] =
            (struct kv_record){.key = keys[i], .value = bytes_of(value, SIZE)};
        if (i % PER_COMMIT == PER_COMMIT - 1)
            put_records(records, PER_COMMIT);
    }
    assert_range(bytes_text(KV_BUCKET "many/"), bytes_text(KV_BUCKET "many0"), keys, RECORDS);
    /* A hint that was too low ends nothing. */
    struct expecting expecting = {.keys = keys, .count = RECORDS};
    struct kv_read read = {.low = bytes_text(KV_BUCKET "many/"),
                           .high = bytes_text(KV_BUCKET "many0"),
                           .records_max = 7000,
                           .visit = expecting_visit,
                           .arena = &store.arena,
                           .complete = expecting_is_complete,
                           .owner = &expecting};
    assert_int_equal(store.ops->read(store.lane, &read), SUBMIT_PENDING);
    wait_for(&expecting.is_complete);
    assert_int_equal(expecting.seen, RECORDS);
    free(keys);
}

/* ---- many lanes ---- */

enum { LANES = 4, INCREMENTS = 50 };

/* Reads, adds one and writes, as often as it takes. */
static void *increment(void *arg)
{
    (void)arg;
    struct store_under_test own;
    store_lane_set_up(&own, &store);
    for (int i = 0; i < INCREMENTS; i++) {
        enum kv_outcome outcome;
        do {
            struct kv_record read = store_get_one(&own, key);
            char value[16];
            int now = bytes_given(read.value) ? atoi((const char *)read.value.data) : 0;
            (void)snprintf(value, sizeof value, "%d", now + 1);
            struct kv_record write = {.key = read.key, .value = bytes_of(value, strlen(value) + 1)};
            struct kv_counter counter = {.key = bytes_text(other_key), .add = {1, -1, 0, 7}};
            struct kv_commit commit = {.reads = &read,
                                       .read_count = 1,
                                       .writes = &write,
                                       .write_count = 1,
                                       .counters = &counter,
                                       .counter_count = 1};
            outcome = store_commit_all(&own, &commit);
        } while (outcome == KV_CONFLICT);
        ensure(outcome == KV_DONE);
    }
    store_lane_tear_down(&own);
    return NULL;
}

static void no_update_of_many_lanes_is_lost(void **state)
{
    (void)state;
    pthread_t threads[LANES];
    for (int i = 0; i < LANES; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, increment, NULL), 0);
    for (int i = 0; i < LANES; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(atoi((const char *)store_get_one(&store, key).value.data), LANES * INCREMENTS);
    int64_t counts[KV_COUNTERS];
    struct bytes counter = store_get_one(&store, other_key).value;
    assert_int_equal(counter.size, sizeof counts);
    memcpy(counts, counter.data, sizeof counts);
    assert_int_equal(counts[0], LANES * INCREMENTS);
    assert_int_equal(counts[1], -LANES * INCREMENTS);
    assert_int_equal(counts[3], 7 * LANES * INCREMENTS);
}

/* ---- the engine over it ---- */

static uint64_t wall_ms(void)
{
    return 1700000000123;
}

static enum status open_engine(const char *url, struct backend **out, struct error *error)
{
    struct engine_options options = {
        .store = {.url = bytes_text(url)}, .partitions = 16, .tables_max = 10, .wall_ms = wall_ms};
    return engine_open(&options, out, error);
}

static void a_deleted_table_leaves_nothing_behind(void **state)
{
    (void)state;
    struct backend *engine;
    struct session session;
    struct error error;
    char item[64];
    assert_int_equal(open_engine(redis.url, &engine, &error), STATUS_OK);
    session_open(&session, engine);
    assert_string_equal(redis_server_command(&redis, "SET mine 1"), "+OK");
    assert_int_equal(session_create(&session, "Kept", "p:S", NULL).status, STATUS_OK);
    assert_int_equal(session_create(&session, "Gone", "p:S", NULL).status, STATUS_OK);
    for (int i = 0; i < 300; i++) {
        snprintf(item, sizeof item, "{'p': {'S': '%d'}}", i);
        assert_int_equal(session_put(&session, "Gone", item).status, STATUS_OK);
    }
    assert_int_equal(session_put(&session, "Kept", "{'p': {'S': 'k'}}").status, STATUS_OK);
    assert_int_equal(session_table(&session, OPERATION_DELETE_TABLE, "Gone").status, STATUS_OK);
    /* Left: the number of commits, metadata, the other table's one bucket and its order of them,
     * and what is not ours. */
    const char *left = "";
    for (int i = 0; i < 1000 && strcmp(left, ":7") != 0; i++) {
        (void)session_get(&session, "Kept", "{'p': {'S': 'k'}}"); /* the loop goes round */
        left = redis_server_command(&redis, "DBSIZE");
    }
    assert_string_equal(left, ":7");
    /* Format, next id, definition and the one counter of the other table. */
    assert_string_equal(redis_server_command(&redis, "HLEN mudax:{00000000}:h"), ":4");
    assert_int_equal(session_get(&session, "Kept", "{'p': {'S': 'k'}}").count, 1);
    session_close(&session);
    engine->ops->close(&engine);
}

static void what_redis_refuses_is_told_and_not_remembered(void **state)
{
    (void)state;
    struct backend *engine, *cache;
    struct session session;
    struct error error;
    struct cache_options options = {
        .memory_bytes = 8 << 20,
        .threads = 1,
        .waiters_max = 10,
        .policies.fallback = {.is_enabled = true, .negative_ttl_max_ms = 1000}};
    assert_int_equal(open_engine(redis.url, &engine, &error), STATUS_OK);
    assert_int_equal(cache_open(&options, &engine, &cache, &error), STATUS_OK);
    session_open(&session, cache);
    assert_int_equal(session_create(&session, "Things", "p:S", NULL).status, STATUS_OK);
    const char *old = "{'p': {'S': 'k'}, 'a': {'N': '1'}}", *key_json = "{'p': {'S': 'k'}}";
    assert_int_equal(session_put(&session, "Things", old).status, STATUS_OK);
    assert_string_equal(redis_server_command(&redis, "CONFIG SET maxmemory 1"), "+OK");
    struct reply reply = session_put(&session, "Things", "{'p': {'S': 'k'}, 'a': {'N': '2'}}");
    assert_int_equal(reply.status, STATUS_INTERNAL);
    assert_non_null(strstr(error_text(&reply.error), "maxmemory"));
    reply = session_get(&session, "Things", key_json);
    assert_int_equal(reply.status, STATUS_OK);
    assert_true(bytes_equal(reply.body, session_item(&session, old)));
    /* And what has no answer is no absent item. */
    redis_server_kill(&redis);
    reply = session_get(&session, "Things", "{'p': {'S': 'unknown'}}");
    assert_int_equal(reply.status, STATUS_UNAVAILABLE);
    reply = session_put(&session, "Things", "{'p': {'S': 'k'}, 'a': {'N': '2'}}");
    assert_int_equal(reply.status, STATUS_UNAVAILABLE);
    session_close(&session);
    cache->ops->close(&cache);
}

/* ---- others who write, too ---- */

static const char indexed_table[] =
    "{'TableName': 'Shared', 'BillingMode': 'PAY_PER_REQUEST', 'KeySchema': [{'AttributeName': "
    "'p', 'KeyType': 'HASH'}, {'AttributeName': 's', 'KeyType': 'RANGE'}], "
    "'LocalSecondaryIndexes': [{'IndexName': 'ByA', 'Projection': {'ProjectionType': 'ALL'}, "
    "'KeySchema': [{'AttributeName': 'p', 'KeyType': 'HASH'}, {'AttributeName': 'a', 'KeyType': "
    "'RANGE'}]}], 'AttributeDefinitions': [{'AttributeName': 'p', 'AttributeType': 'S'}, "
    "{'AttributeName': 's', 'AttributeType': 'S'}, {'AttributeName': 'a', 'AttributeType': 'N'}]}";

static void create_indexed(struct session *session)
{
    struct session_call call;
    session_call_init(&call, OPERATION_CREATE_TABLE, NULL);
    call.call.request.definition = session_plain(session, indexed_table);
    session_run(session, &call);
    assert_int_equal(call.call.reply.status, STATUS_OK);
    session_call_deinit(&call);
}

/* How many items the partition shows, in the index (or NULL), and how they came. */
static uint32_t query(struct session *session, const char *index, bool is_consistent,
                      enum verdict verdict)
{
    struct session_call call;
    session_call_init(&call, OPERATION_QUERY, "Shared");
    struct request *request = &call.call.request;
    request->key_condition.text = bytes_text("p = :p");
    request->key_condition.values = session_item(session, "{':p': {'S': 'x'}}");
    request->index_name = text(index);
    request->is_consistent = is_consistent;
    session_run(session, &call);
    assert_int_equal(call.call.reply.status, STATUS_OK);
    assert_int_equal(call.call.reply.verdict, verdict);
    uint32_t count = call.call.reply.count;
    session_call_deinit(&call);
    return count;
}

static void a_consistent_query_finds_what_others_have_written(void **state)
{
    (void)state;
    struct backend *engine, *cache, *other;
    struct session session, others;
    struct error error;
    struct cache_options options = {.memory_bytes = 8 << 20,
                                    .threads = 1,
                                    .waiters_max = 10,
                                    .policies.fallback = {.is_enabled = true,
                                                          .item_ttl_ms = 1000,
                                                          .query_ttl_ms = 1000,
                                                          .negative_ttl_max_ms = 1000}};
    assert_int_equal(open_engine(redis.url, &engine, &error), STATUS_OK);
    assert_int_equal(cache_open(&options, &engine, &cache, &error), STATUS_OK);
    session_open(&session, cache);
    create_indexed(&session);
    assert_int_equal(open_engine(redis.url, &other, &error), STATUS_OK);
    session_open(&others, other);

    const char *item = "{'p': {'S': 'x'}, 's': {'S': '1'}, 'a': {'N': '1'}}";
    const char *key_json = "{'p': {'S': 'x'}, 's': {'S': '1'}}";
    assert_int_equal(session_put(&session, "Shared", item).status, STATUS_OK);
    assert_int_equal(query(&session, NULL, false, VERDICT_MISS), 1);
    assert_int_equal(query(&session, "ByA", false, VERDICT_MISS), 1);
    assert_int_equal(query(&session, "ByA", true, VERDICT_BYPASS), 1);
    assert_int_equal(session_delete(&others, "Shared", key_json).status, STATUS_OK);
    assert_int_equal(query(&session, "ByA", false, VERDICT_HIT), 1); /* until the TTL ends */
    assert_int_equal(session_get(&session, "Shared", key_json).count, 1);
    assert_int_equal(query(&session, "ByA", true, VERDICT_BYPASS), 0);
    assert_int_equal(query(&session, "ByA", false, VERDICT_MISS), 0);
    assert_int_equal(query(&session, NULL, false, VERDICT_MISS), 0);
    assert_int_equal(session_get(&session, "Shared", key_json).count, 0);

    session_close(&others);
    session_close(&session);
    other->ops->close(&other);
    cache->ops->close(&cache);
}

static enum shared_state look(struct session *session)
{
    struct session_call call;
    session_call_init(&call, OPERATION_LOOK_AT_SHARED, NULL);
    session_run(session, &call);
    assert_int_equal(call.call.reply.status, STATUS_OK);
    enum shared_state found = (enum shared_state)call.call.reply.count;
    session_call_deinit(&call);
    return found;
}

static enum status run(struct session *session, enum operation operation, const char *table)
{
    struct session_call call;
    session_call_init(&call, operation, table);
    session_run(session, &call);
    enum status status = call.call.reply.status;
    session_call_deinit(&call);
    return status;
}

static void what_others_do_to_tables_is_found(void **state)
{
    (void)state;
    struct backend *engine, *cache, *other;
    struct session session, others;
    struct error error;
    struct cache_options options = {.memory_bytes = 8 << 20,
                                    .threads = 1,
                                    .waiters_max = 10,
                                    .policies.fallback = {.is_enabled = true,
                                                          .item_ttl_ms = 100000,
                                                          .query_ttl_ms = 100000,
                                                          .negative_ttl_max_ms = 1000}};
    const char *item = "{'p': {'S': 'x'}, 's': {'S': '1'}, 'a': {'N': '1'}}";
    const char *key_json = "{'p': {'S': 'x'}, 's': {'S': '1'}}";
    assert_int_equal(open_engine(redis.url, &engine, &error), STATUS_OK);
    assert_int_equal(cache_open(&options, &engine, &cache, &error), STATUS_OK);
    session_open(&session, cache);
    assert_int_equal(look(&session), SHARED_SAME);
    assert_int_equal(open_engine(redis.url, &other, &error), STATUS_OK);
    session_open(&others, other);

    create_indexed(&others);
    assert_int_equal(run(&session, OPERATION_DESCRIBE_TABLE, "Shared"), STATUS_RESOURCE_NOT_FOUND);
    assert_int_equal(look(&session), SHARED_CHANGED);
    assert_int_equal(look(&session), SHARED_SAME);
    assert_int_equal(run(&session, OPERATION_DESCRIBE_TABLE, "Shared"), STATUS_OK);
    assert_int_equal(session_put(&session, "Shared", item).status, STATUS_OK);
    assert_int_equal(query(&session, "ByA", false, VERDICT_MISS), 1);
    assert_int_equal(session_get(&others, "Shared", key_json).count, 1);
    assert_int_equal(look(&others), SHARED_SAME); /* its own */

    /* Emptied, the store gives the same id again: nothing of before may be shown. */
    redis_server_command(&redis, "FLUSHALL");
    assert_int_equal(look(&session), SHARED_CHANGED);
    assert_int_equal(run(&session, OPERATION_DESCRIBE_TABLE, "Shared"), STATUS_RESOURCE_NOT_FOUND);
    create_indexed(&session);
    assert_int_equal(session_get(&session, "Shared", key_json).count, 0);
    assert_int_equal(query(&session, "ByA", false, VERDICT_MISS), 0);

    session_close(&others);
    session_close(&session);
    other->ops->close(&other);
    cache->ops->close(&cache);
}

static void a_store_that_is_not_there_says_so(void **state)
{
    (void)state;
    struct backend *engine = NULL;
    struct error error;
    static const char *const absent[] = {"redis://127.0.0.1:1", "redis+unix:/nowhere/at/all"};
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(open_engine(absent[i], &engine, &error), STATUS_UNAVAILABLE);
        assert_non_null(strstr(error.text, absent[i]));
        assert_non_null(strstr(error.text, "is it running"));
    }
    static const char *const wrong[] = {
        "redis:",           "redis://",          "redis:127.0.0.1:1", "redis://:6379",
        "redis://h:0",      "redis://h:65536",   "redis://h:12a",     "redis://h:",
        "redis://u:p@h:12", "redis://h:6379/db", "redis+unix:"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(open_engine(wrong[i], &engine, &error), STATUS_VALIDATION);
        assert_non_null(strstr(error.text, "redis://HOST:PORT"));
    }
    assert_null(engine);
}

int main(void)
{
#define TEST(name)  cmocka_unit_test_setup_teardown(name, set_up, tear_down)
#define QUICK(name) cmocka_unit_test_setup_teardown(name, set_up_quick, tear_down)
    static const struct CMUnitTest tests[] = {
        TEST(requests_in_flight_when_redis_dies_have_no_answer),
        TEST(while_redis_is_gone_reads_fail_and_commits_are_refused),
        QUICK(what_redis_had_saved_is_back_when_it_is),
        QUICK(a_redis_that_comes_back_empty_is_used_again),
        QUICK(numbers_ascend_also_when_older_data_comes_back),
        TEST(a_connection_that_breaks_is_made_again),
        QUICK(a_redis_that_says_nothing_is_given_up),
        QUICK(a_silent_redis_at_the_first_connection_is_given_up_too),
        TEST(commands_in_flight_have_a_limit),
        TEST(scripts_that_redis_forgot_are_sent_again),
        TEST(a_full_redis_refuses_with_a_reason),
        TEST(what_somebody_else_has_put_there_is_an_error_not_an_absent_record),
        TEST(keys_are_bytes_of_any_kind_in_their_order),
        TEST(ranges_of_many_megabytes_are_read_whole),
        TEST(ranges_of_many_records_are_read_whole),
        TEST(no_update_of_many_lanes_is_lost),
        TEST(a_deleted_table_leaves_nothing_behind),
        TEST(what_redis_refuses_is_told_and_not_remembered),
        TEST(a_consistent_query_finds_what_others_have_written),
        TEST(what_others_do_to_tables_is_found),
        cmocka_unit_test(a_store_that_is_not_there_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
