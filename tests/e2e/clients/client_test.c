#include "clients/c/include/mudax.h"
#include "tests/support/daemon.h"

#include <stdarg.h>

#include <setjmp.h>

#include <cmocka.h>

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *program;

static const char definition_json[] =
    "{\"TableName\": \"events\", \"BillingMode\": \"PAY_PER_REQUEST\","
    " \"KeySchema\": [{\"AttributeName\": \"p\", \"KeyType\": \"HASH\"},"
    "                 {\"AttributeName\": \"s\", \"KeyType\": \"RANGE\"}],"
    " \"AttributeDefinitions\": [{\"AttributeName\": \"p\", \"AttributeType\": \"S\"},"
    "                            {\"AttributeName\": \"s\", \"AttributeType\": \"N\"}]}";

static void create_table(struct mudax *db)
{
    struct mudax_error error;
    struct mudax_reply *reply;
    struct mudax_value *definition =
        mudax_from_plain_json(definition_json, sizeof definition_json - 1, &error);
    struct mudax_request request = {.operation = MUDAX_CREATE_TABLE, .definition = definition};
    assert_non_null(definition);
    assert_int_equal(mudax_call(db, &request, &reply, &error), MUDAX_OK);
    const struct mudax_value *table = mudax_get(mudax_reply_description(reply), "TableDescription");
    assert_memory_equal(mudax_text(mudax_get(table, "TableName"), NULL), "events", 6);
    mudax_reply_free(reply);
    mudax_free(definition);
}

static struct mudax *open_pool(const char *url)
{
    struct mudax_error error;
    struct mudax_options options = {.connections_max = 3, .timeout_ms = 20000};
    struct mudax *db = mudax_open(url, &options, &error);
    assert_non_null(db);
    return db;
}

static struct mudax_value *make_key(const char *partition, int64_t sort)
{
    struct mudax_value *key = mudax_map();
    (void)mudax_put(key, "p", mudax_string(partition));
    (void)mudax_put(key, "s", mudax_int(sort));
    return key;
}

static int put(struct mudax *db, const char *partition, int64_t sort, int64_t version,
               struct mudax_error *error)
{
    struct mudax_value *item = make_key(partition, sort);
    (void)mudax_put(item, "v", mudax_int(version));
    int code = mudax_put_item(db, "events", item, error);
    mudax_free(item);
    return code;
}

/* -1 if there is no such item. */
static int64_t get(struct mudax *db, const char *partition, int64_t sort)
{
    struct mudax_error error;
    struct mudax_reply *reply;
    struct mudax_value *key = make_key(partition, sort);
    int64_t version = -1;
    if (mudax_get_item(db, "events", key, &reply, &error) != MUDAX_OK)
        fail_msg("%s: %s", error.name, error.text);
    (void)mudax_as_int(mudax_get(mudax_reply_item(reply), "v"), &version);
    mudax_reply_free(reply);
    mudax_free(key);
    return version;
}

/* ---- the pool ---- */

enum { THREADS = 8, ROUNDS = 200 };

struct writer {
    struct mudax *db;
    int number;
    int wrong;
};

/* Writes an item of its own again and again and reads it back every time. */
static void *write_and_read(void *arg)
{
    struct writer *writer = arg;
    char partition[16];
    struct mudax_error error;
    (void)snprintf(partition, sizeof partition, "thread%d", writer->number);
    for (int round = 0; round < ROUNDS; round++) {
        writer->wrong += put(writer->db, partition, 0, round, &error) != MUDAX_OK;
        writer->wrong += get(writer->db, partition, 0) != round;
    }
    return NULL;
}

static void threads_share_a_pool_and_read_their_own_writes(void **state)
{
    struct test_daemon *daemon = *state;
    struct mudax *db = open_pool(daemon->tcp_url);
    pthread_t threads[THREADS];
    struct writer writers[THREADS];
    create_table(db);
    for (int i = 0; i < THREADS; i++) {
        writers[i] = (struct writer){db, i, 0};
        assert_int_equal(pthread_create(&threads[i], NULL, write_and_read, &writers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(writers[i].wrong, 0);
    }
    mudax_close(&db);
}

static void a_miss_is_followed_by_a_hit_and_a_write_by_the_new_page(void **state)
{
    struct test_daemon *daemon = *state;
    struct mudax *db = open_pool(daemon->url);
    struct mudax_error error;
    struct mudax_reply *reply;
    struct mudax_value *values = mudax_map();
    struct mudax_request request = {.operation = MUDAX_QUERY,
                                    .table = "events",
                                    .key_condition = "p = :p",
                                    .values = values,
                                    .wants_verdict = true};
    static const enum mudax_verdict expected[] = {MUDAX_MISS, MUDAX_HIT, MUDAX_MISS};
    (void)mudax_put(values, ":p", mudax_string("pages"));
    for (int round = 0; round < 3; round++) {
        if (round != 1)
            assert_int_equal(put(db, "pages", round, 0, &error), MUDAX_OK);
        assert_int_equal(mudax_call(db, &request, &reply, &error), MUDAX_OK);
        assert_int_equal(mudax_reply_verdict(reply), expected[round]);
        assert_int_equal(mudax_reply_count(reply), round == 2 ? 2 : 1);
        mudax_reply_free(reply);
    }
    mudax_free(values);
    mudax_close(&db);
}

static void the_largest_item_comes_back_as_it_was(void **state)
{
    struct test_daemon *daemon = *state;
    struct mudax *db = open_pool(daemon->tcp_url);
    struct mudax_error error;
    struct mudax_reply *reply;
    enum { SIZE = 409600 - 32 };
    char *data = malloc(SIZE);
    assert_non_null(data);
    memset(data, 'x', SIZE);
    struct mudax_value *key = make_key("large", 0);
    struct mudax_value *item = mudax_copy(key);
    (void)mudax_put(item, "d", mudax_string_of(data, SIZE));
    assert_int_equal(mudax_put_item(db, "events", item, &error), MUDAX_OK);
    for (int round = 0; round < 2; round++) {
        size_t size;
        assert_int_equal(mudax_get_item(db, "events", key, &reply, &error), MUDAX_OK);
        const char *text = mudax_text(mudax_get(mudax_reply_item(reply), "d"), &size);
        assert_int_equal(size, SIZE);
        assert_memory_equal(text, data, SIZE);
        mudax_reply_free(reply);
    }
    (void)mudax_put(item, "e", mudax_string("a little more than DynamoDB takes"));
    assert_int_equal(mudax_put_item(db, "events", item, &error), MUDAX_VALIDATION);
    mudax_free(item);
    mudax_free(key);
    mudax_close(&db);
    free(data);
}

/* ---- many items at once ---- */

enum { BATCH = 25, SEGMENTS = 4 };

static void call(struct mudax *db, const struct mudax_request *request, struct mudax_reply **reply)
{
    struct mudax_error error;
    if (mudax_call(db, request, reply, &error) != MUDAX_OK)
        fail_msg("%s: %s", error.name, error.text);
}

static void a_batch_is_written_and_read_back_and_again_from_the_cache(void **state)
{
    struct test_daemon *daemon = *state;
    struct mudax *db = open_pool(daemon->url);
    struct mudax_value *items[BATCH], *keys[BATCH];
    struct mudax_request writes[BATCH] = {{0}}, gets[BATCH] = {{0}};
    struct mudax_reply *reply;
    for (int i = 0; i < BATCH; i++) {
        keys[i] = make_key("batch", i);
        items[i] = mudax_copy(keys[i]);
        (void)mudax_put(items[i], "v", mudax_int(i));
        writes[i] = (struct mudax_request){
            .operation = MUDAX_PUT_ITEM, .table = "events", .item = items[i]};
        gets[BATCH - 1 - i] =
            (struct mudax_request){.operation = MUDAX_GET_ITEM, .table = "events", .key = keys[i]};
    }
    /* The last one is not written, so that it is not found. */
    struct mudax_request write = {.operation = MUDAX_BATCH_WRITE_ITEM,
                                  .parts = writes,
                                  .part_count = BATCH - 1,
                                  .wants_capacity = MUDAX_CAPACITY_TOTAL};
    call(db, &write, &reply);
    assert_int_equal(mudax_reply_unprocessed_count(reply), 0);
    assert_int_equal(mudax_count(mudax_reply_capacity(reply)), 1);
    mudax_reply_free(reply);
    struct mudax_request get = {.operation = MUDAX_BATCH_GET_ITEM,
                                .parts = gets,
                                .part_count = BATCH,
                                .wants_verdict = true};
    for (int round = 0; round < 2; round++) {
        call(db, &get, &reply);
        assert_int_equal(mudax_reply_count(reply), BATCH);
        assert_null(mudax_reply_item_at(reply, 0));
        for (int i = 1; i < BATCH; i++) {
            int64_t version = -1;
            assert_true(
                mudax_as_int(mudax_get(mudax_reply_item_at(reply, (size_t)i), "v"), &version));
            assert_int_equal(version, BATCH - 1 - i);
        }
        assert_true(round == 0 || mudax_reply_verdict(reply) == MUDAX_HIT);
        mudax_reply_free(reply);
    }
    for (int i = 0; i < BATCH; i++) {
        mudax_free(items[i]);
        mudax_free(keys[i]);
    }
    mudax_close(&db);
}

static void a_transaction_is_done_once_for_its_token_or_says_what_was_wrong(void **state)
{
    struct test_daemon *daemon = *state;
    struct mudax *db = open_pool(daemon->url);
    struct mudax_error error;
    struct mudax_reply *reply;
    struct mudax_value *key = make_key("once", 1), *other = make_key("once", 2);
    struct mudax_value *one = mudax_map();
    (void)mudax_put(one, ":one", mudax_int(1));
    struct mudax_request parts[] = {
        {.operation = MUDAX_UPDATE_ITEM,
         .table = "events",
         .key = key,
         .update = "ADD v :one",
         .values = one},
        {.operation = MUDAX_CONDITION_CHECK,
         .table = "events",
         .key = other,
         .condition = "attribute_not_exists(p)",
         .wants_failed_item = true},
    };
    struct mudax_request request = {.operation = MUDAX_TRANSACT_WRITE_ITEMS,
                                    .parts = parts,
                                    .part_count = 2,
                                    .token = "only-once"};
    for (int round = 0; round < 2; round++)
        call(db, &request, NULL);
    assert_int_equal(get(db, "once", 1), 1);
    request.token = NULL; /* then every call has its own */
    for (int round = 0; round < 2; round++)
        call(db, &request, NULL);
    assert_int_equal(get(db, "once", 1), 3);
    request.token = "only-once";
    request.part_count = 1;
    assert_int_equal(mudax_call(db, &request, NULL, &error), MUDAX_IDEMPOTENT_MISMATCH);

    assert_int_equal(put(db, "once", 2, 9, &error), MUDAX_OK);
    request.token = NULL;
    request.part_count = 2;
    assert_int_equal(mudax_call(db, &request, &reply, &error), MUDAX_TRANSACTION_CANCELED);
    assert_string_equal(mudax_reply_reason(reply, 0, NULL), "None");
    assert_string_equal(mudax_reply_reason(reply, 1, NULL), "ConditionalCheckFailed");
    assert_int_equal(mudax_count(mudax_reply_item_at(reply, 1)), 3);
    mudax_reply_free(reply);
    assert_int_equal(get(db, "once", 1), 3);
    mudax_free(key);
    mudax_free(other);
    mudax_free(one);
    mudax_close(&db);
}

static void segments_of_a_scan_are_the_whole_table(void **state)
{
    struct test_daemon *daemon = *state;
    struct mudax *db = open_pool(daemon->url);
    struct mudax_reply *reply;
    struct mudax_request whole = {
        .operation = MUDAX_SCAN, .table = "events", .select = MUDAX_SELECT_COUNT};
    call(db, &whole, &reply);
    size_t count = mudax_reply_count(reply), found = 0;
    assert_true(count > SEGMENTS);
    mudax_reply_free(reply);
    for (uint32_t segment = 0; segment < SEGMENTS; segment++) {
        struct mudax_value *start = NULL;
        do {
            struct mudax_request page = {.operation = MUDAX_SCAN,
                                         .table = "events",
                                         .segment = segment,
                                         .segments = SEGMENTS,
                                         .limit = 7,
                                         .start_key = start};
            call(db, &page, &reply);
            found += mudax_reply_count(reply);
            mudax_free(start);
            start = mudax_copy(mudax_reply_last_key(reply));
            mudax_reply_free(reply);
        } while (start != NULL);
    }
    assert_int_equal(found, count);
    mudax_close(&db);
}

/* ---- tables that change ---- */

static void change(struct mudax *db, enum mudax_operation operation, const char *json)
{
    struct mudax_value *definition = mudax_from_plain_json(json, strlen(json), NULL);
    struct mudax_request request = {.operation = operation, .definition = definition};
    struct mudax_reply *reply;
    call(db, &request, &reply);
    assert_non_null(mudax_reply_description(reply));
    mudax_reply_free(reply);
    mudax_free(definition);
}

static bool has_active_index(struct mudax *db)
{
    struct mudax_request request = {.operation = MUDAX_DESCRIBE_TABLE, .table = "events"};
    struct mudax_reply *reply;
    size_t size;
    call(db, &request, &reply);
    const struct mudax_value *table = mudax_get(mudax_reply_description(reply), "Table");
    const struct mudax_value *index = mudax_at(mudax_get(table, "GlobalSecondaryIndexes"), 0);
    const char *status = mudax_text(mudax_get(index, "IndexStatus"), &size);
    bool is_active = size == 6 && memcmp(status, "ACTIVE", 6) == 0;
    mudax_reply_free(reply);
    return is_active;
}

static void an_index_that_is_added_is_filled_and_can_be_queried(void **state)
{
    struct test_daemon *daemon = *state;
    struct mudax *db = open_pool(daemon->url);
    struct mudax_error error;
    struct mudax_reply *reply;
    struct mudax_value *values = mudax_map();
    (void)mudax_put(values, ":v", mudax_int(4711));
    assert_int_equal(put(db, "indexed", 1, 4711, &error), MUDAX_OK);
    change(db, MUDAX_UPDATE_TABLE,
           "{\"TableName\": \"events\","
           " \"AttributeDefinitions\": [{\"AttributeName\": \"v\", \"AttributeType\": \"N\"}],"
           " \"GlobalSecondaryIndexUpdates\": [{\"Create\": {\"IndexName\": \"by-v\","
           "  \"KeySchema\": [{\"AttributeName\": \"v\", \"KeyType\": \"HASH\"}],"
           "  \"Projection\": {\"ProjectionType\": \"ALL\"}}}]}");
    for (int tries = 0; tries < 2000 && !has_active_index(db); tries++)
        (void)poll(NULL, 0, 10); /* the daemon fills it in its own time */
    struct mudax_request query = {.operation = MUDAX_QUERY,
                                  .table = "events",
                                  .index = "by-v",
                                  .key_condition = "v = :v",
                                  .values = values};
    call(db, &query, &reply);
    assert_int_equal(mudax_reply_count(reply), 1);
    assert_int_equal(mudax_count(mudax_reply_item_at(reply, 0)), 3);
    mudax_reply_free(reply);
    mudax_free(values);
    mudax_close(&db);
}

static void a_time_to_live_is_set_and_described(void **state)
{
    struct test_daemon *daemon = *state;
    struct mudax *db = open_pool(daemon->url);
    struct mudax_reply *reply;
    change(db, MUDAX_UPDATE_TIME_TO_LIVE,
           "{\"TableName\": \"events\","
           " \"TimeToLiveSpecification\": {\"Enabled\": true, \"AttributeName\": \"until\"}}");
    struct mudax_request describe = {.operation = MUDAX_DESCRIBE_TIME_TO_LIVE, .table = "events"};
    call(db, &describe, &reply);
    const struct mudax_value *told =
        mudax_get(mudax_reply_description(reply), "TimeToLiveDescription");
    assert_memory_equal(mudax_text(mudax_get(told, "AttributeName"), NULL), "until", 5);
    mudax_reply_free(reply);
    mudax_close(&db);
}

static void a_purge_tells_what_it_dropped(void **state)
{
    struct test_daemon *daemon = *state;
    struct mudax *db = open_pool(daemon->url);
    struct mudax_error error;
    struct mudax_reply *reply;
    int64_t items = -1, pages = -1;
    struct mudax_value *partition = mudax_map();
    (void)mudax_put(partition, "p", mudax_string("purged"));
    struct mudax_request purge = {.operation = MUDAX_PURGE, .table = "events", .key = partition};
    assert_int_equal(put(db, "purged", 1, 0, &error), MUDAX_OK);
    assert_int_equal(put(db, "purged", 2, 0, &error), MUDAX_OK);
    call(db, &purge, &reply);
    assert_true(mudax_as_int(mudax_get(mudax_reply_description(reply), "Items"), &items));
    assert_true(mudax_as_int(mudax_get(mudax_reply_description(reply), "Pages"), &pages));
    assert_int_equal(items, 2);
    assert_int_equal(pages, 0);
    mudax_reply_free(reply);
    mudax_free(partition);
    mudax_close(&db);
}

/* localhost may stand for ::1 too, where nobody listens. */
static void all_addresses_of_a_name_are_tried(void **state)
{
    struct test_daemon *daemon = *state;
    char url[64];
    struct mudax_error error;
    struct mudax_options options = {.timeout_ms = 20000, .retries_max = -1};
    (void)snprintf(url, sizeof url, "mudax://localhost%s", strrchr(daemon->tcp_url, ':'));
    struct mudax *db = mudax_open(url, &options, &error);
    assert_non_null(db);
    assert_int_equal(get(db, "nobody", 0), -1);
    mudax_close(&db);
}

/* ---- the pipe ---- */

enum { PIPED = 5000 };

struct piped {
    int done, failed;
};

static void on_put(void *arg, const struct mudax_reply *reply, const struct mudax_error *error)
{
    struct piped *piped = arg;
    (void)reply;
    piped->done++;
    piped->failed += error != NULL;
}

static void a_pipe_writes_thousands(void **state)
{
    struct test_daemon *daemon = *state;
    struct mudax *db = open_pool(daemon->url);
    struct mudax_pipe_options options = {.in_flight_max = 200, .timeout_ms = 20000};
    struct mudax_pipe *pipe = mudax_pipe_open(daemon->tcp_url, &options, NULL);
    struct piped piped = {0};
    assert_non_null(pipe);
    for (int i = 0; i < PIPED; i++) {
        struct mudax_value *item = make_key("piped", i);
        (void)mudax_put(item, "v", mudax_int(i));
        struct mudax_request request = {
            .operation = MUDAX_PUT_ITEM, .table = "events", .item = item};
        while (mudax_pipe_submit(pipe, &request, on_put, &piped, NULL) == MUDAX_PIPE_FULL)
            assert_true(mudax_pipe_wait(pipe, 20000) > 0);
        mudax_free(item);
    }
    while (mudax_pipe_pending(pipe) > 0)
        (void)mudax_pipe_wait(pipe, -1);
    assert_int_equal(piped.done, PIPED);
    assert_int_equal(piped.failed, 0);
    for (int i = 0; i < PIPED; i += 499)
        assert_int_equal(get(db, "piped", i), i);
    mudax_pipe_close(&pipe);
    mudax_close(&db);
}

/* ---- restarts; the last ones: they begin with an empty daemon ---- */

static void a_pool_outlives_a_daemon_that_was_killed(void **state)
{
    (void)state;
    struct test_daemon daemon;
    struct mudax_error error;
    test_daemon_start(&daemon, program, true);
    struct mudax *db = open_pool(daemon.url);
    create_table(db);
    assert_int_equal(put(db, "a", 1, 1, &error), MUDAX_OK);

    test_daemon_kill(&daemon);
    struct mudax_value *key = make_key("a", 1);
    struct mudax_request request = {
        .operation = MUDAX_GET_ITEM, .table = "events", .key = key, .timeout_ms = 200};
    int code = mudax_call(db, &request, NULL, &error);
    assert_true(code == MUDAX_CONNECT_ERROR);
    mudax_free(key);

    test_daemon_restart(&daemon, program);
    assert_int_equal(get(db, "a", 1), 1); /* a read: retried where needed */
    test_daemon_stop(&daemon);
    test_daemon_restart(&daemon, program);
    /* A write: only because the idle connection is seen to be closed before. */
    assert_int_equal(put(db, "a", 1, 2, &error), MUDAX_OK);
    assert_int_equal(get(db, "a", 1), 2);
    mudax_close(&db);
    test_daemon_destroy(&daemon);
}

static int start(void **state)
{
    static struct test_daemon daemon;
    test_daemon_start(&daemon, program, false);
    *state = &daemon;
    return 0;
}

static int stop(void **state)
{
    test_daemon_destroy(*state);
    return 0;
}

int main(int count, char **words)
{
    if (count != 2) {
        (void)fprintf(stderr, "usage: client_test MUDAXD\n");
        return 2;
    }
    program = words[1];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_share_a_pool_and_read_their_own_writes),
        cmocka_unit_test(a_miss_is_followed_by_a_hit_and_a_write_by_the_new_page),
        cmocka_unit_test(the_largest_item_comes_back_as_it_was),
        cmocka_unit_test(a_batch_is_written_and_read_back_and_again_from_the_cache),
        cmocka_unit_test(a_transaction_is_done_once_for_its_token_or_says_what_was_wrong),
        cmocka_unit_test(segments_of_a_scan_are_the_whole_table),
        cmocka_unit_test(an_index_that_is_added_is_filled_and_can_be_queried),
        cmocka_unit_test(a_time_to_live_is_set_and_described),
        cmocka_unit_test(a_purge_tells_what_it_dropped),
        cmocka_unit_test(all_addresses_of_a_name_are_tried),
        cmocka_unit_test(a_pipe_writes_thousands),
        cmocka_unit_test(a_pool_outlives_a_daemon_that_was_killed),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
