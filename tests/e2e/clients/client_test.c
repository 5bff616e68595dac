#include "clients/c/include/mudax.h"
#include "tests/support/daemon.h"

#include <stdarg.h>

#include <setjmp.h>

#include <cmocka.h>

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
        cmocka_unit_test(all_addresses_of_a_name_are_tried),
        cmocka_unit_test(a_pipe_writes_thousands),
        cmocka_unit_test(a_pool_outlives_a_daemon_that_was_killed),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
