/* Many writers of one item, or of one item collection, through a cache: no update is lost, none is
 * seen twice, none goes back, and no collection becomes too large. */
#include "backend/engine/engine.h"
#include "cache/cache.h"
#include "tests/support/session.h"

#include "protocol/encoding/msgpack.h"
#include "protocol/ensure.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { WRITERS = 16, STEPS = 60, TOTAL = WRITERS * STEPS };
enum { ITEM_BYTES = 2 * 50, FITTING = 300 }; /* in table and index */

static struct backend *cache;
static atomic_int seen[TOTAL + 1]; /* how often an ADD answered with this number */
static atomic_int changed;         /* conditional updates that happened */
static atomic_int next_writer, taken;

static uint64_t wall_ms(void)
{
    return 1700000000123;
}

static int set_up(void **state)
{
    (void)state;
    struct engine_options options = {
        .store = {.url = BYTES_LITERAL("memory:"), .memory_bytes = 16 << 20, .sync = SYNC_ALWAYS},
        .partitions = 16,
        .tables_max = 10,
        .collection_bytes_max = FITTING * ITEM_BYTES + ITEM_BYTES / 2,
        .wall_ms = wall_ms,
    };
    struct cache_options cached = {
        .memory_bytes = 64 << 20,
        .threads = WRITERS,
        .seed = 42,
        .waiters_max = 100,
        .policies.fallback = {.is_enabled = true,
                              .query_ttl_ms = 300000,
                              .negative_ttl_max_ms = 60000},
    };
    struct backend *engine;
    struct error error;
    if (engine_open(&options, &engine, &error) != STATUS_OK ||
        cache_open(&cached, &engine, &cache, &error) != STATUS_OK)
        return 1;
    struct session session;
    session_open(&session, cache);
    bool is_made = session_create(&session, "Things", "p:S", NULL).status == STATUS_OK;
    session_close(&session);
    return !is_made;
}

static int tear_down(void **state)
{
    (void)state;
    cache->ops->close(&cache);
    return 0;
}

static uint64_t number_of(struct bytes item)
{
    struct bytes found;
    uint64_t number = 0;
    ensure(item_find(item, BYTES_LITERAL("n"), &found));
    struct msgpack_cursor cursor = msgpack_cursor_of(found);
    ensure(msgpack_read_uint(&cursor, &number));
    return number;
}

static uint64_t read_number(struct session *session)
{
    struct reply reply = session_get(session, "Things", "{'p': {'S': 'k'}}");
    ensure(reply.status == STATUS_OK);
    return reply.count == 0 ? 0 : number_of(reply.body);
}

/* The number afterwards; 0: the condition failed. */
static uint64_t update(struct session *session, const char *text, const char *condition,
                       const char *values)
{
    struct session_call call;
    session_call_init(&call, OPERATION_UPDATE_ITEM, "Things");
    struct request *request = &call.call.request;
    request->key = session_item(session, "{'p': {'S': 'k'}}");
    request->update = bytes_text(text);
    request->condition = condition == NULL ? BYTES_NONE : bytes_text(condition);
    request->key_condition.values = session_item(session, values);
    request->return_values = RETURN_UPDATED_NEW;
    session_run(session, &call);
    enum status status = call.call.reply.status;
    ensure(status == STATUS_OK || (condition != NULL && status == STATUS_CONDITIONAL_CHECK_FAILED));
    uint64_t number = status == STATUS_OK ? number_of(call.body) : 0;
    session_call_deinit(&call);
    return number;
}

static void *add(void *arg)
{
    (void)arg;
    struct session session;
    session_open(&session, cache);
    uint64_t before = 0;
    for (int i = 0; i < STEPS; i++) {
        uint64_t number = update(&session, "ADD n :one", NULL, "{':one': {'N': '1'}}");
        ensure(number > before && number <= TOTAL);
        atomic_fetch_add(&seen[number], 1);
        before = read_number(&session);
        ensure(before >= number);
        session_forget(&session);
    }
    session_close(&session);
    return NULL;
}

static void *compare_and_set(void *arg)
{
    (void)arg;
    struct session session;
    session_open(&session, cache);
    for (int i = 0; i < STEPS; i++) {
        char values[80];
        uint64_t old = read_number(&session);
        (void)snprintf(values, sizeof values, "{':old': {'N': '%llu'}, ':new': {'N': '%llu'}}",
                       (unsigned long long)old, (unsigned long long)old + 1);
        uint64_t new = update(&session, "SET n = :new", "n = :old", values);
        ensure(new == 0 || new == old + 1);
        atomic_fetch_add(&changed, new != 0);
        session_forget(&session);
    }
    session_close(&session);
    return NULL;
}

static void run_all(void *(*run)(void *))
{
    pthread_t threads[WRITERS];
    for (int i = 0; i < WRITERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, run, NULL), 0);
    for (int i = 0; i < WRITERS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
}

static void sixteen_writers_of_a_counter_lose_nothing(void **state)
{
    (void)state;
    struct session session;
    run_all(add);
    for (int i = 1; i <= TOTAL; i++)
        assert_int_equal(atomic_load(&seen[i]), 1);
    session_open(&session, cache);
    assert_int_equal(read_number(&session), TOTAL);
    session_close(&session);
}

static void conditional_updates_count_what_happened(void **state)
{
    (void)state;
    struct session session;
    session_open(&session, cache);
    assert_int_equal(session_put(&session, "Things", "{'p': {'S': 'k'}, 'n': {'N': '1'}}").status,
                     STATUS_OK);
    run_all(compare_and_set);
    assert_int_equal(read_number(&session), 1 + atomic_load(&changed));
    assert_true(atomic_load(&changed) > 0);
    session_close(&session);
}

/* Puts until the collection is full, deletes what it has put of every tenth, and puts these again.
 */
static void *fill(void *arg)
{
    (void)arg;
    struct session session;
    int writer = atomic_fetch_add(&next_writer, 1);
    session_open(&session, cache);
    for (int i = 0; i < STEPS; i++) {
        char key[64], item[160];
        (void)snprintf(key, sizeof key, "{'p': {'S': 'k'}, 's': {'S': '%03d-%03d'}}", writer, i);
        (void)snprintf(item, sizeof item, "%.*s, 'l': {'S': 'x'}, 'v': {'S': '%037d'}}",
                       (int)strlen(key) - 1, key, i);
        enum status status = session_put(&session, "Local", item).status;
        ensure(status == STATUS_OK || status == STATUS_COLLECTION_SIZE);
        atomic_fetch_add(&taken, status == STATUS_OK);
        if (status == STATUS_OK && i % 10 == 0) {
            ensure(session_delete(&session, "Local", key).status == STATUS_OK);
            atomic_fetch_sub(&taken, 1);
        }
        session_forget(&session);
    }
    session_close(&session);
    return NULL;
}

static void a_collection_takes_as_much_as_fits(void **state)
{
    (void)state;
    struct session session;
    struct session_call call;
    session_open(&session, cache);
    session_call_init(&call, OPERATION_CREATE_TABLE, NULL);
    call.call.request.definition = session_plain(
        &session,
        "{'TableName': 'Local', 'KeySchema': [{'AttributeName': 'p', 'KeyType': 'HASH'}, "
        "{'AttributeName': 's', 'KeyType': 'RANGE'}], 'AttributeDefinitions': "
        "[{'AttributeName': 'p', 'AttributeType': 'S'}, {'AttributeName': 's', 'AttributeType': "
        "'S'}, {'AttributeName': 'l', 'AttributeType': 'S'}], 'LocalSecondaryIndexes': "
        "[{'IndexName': 'by-l', 'KeySchema': [{'AttributeName': 'p', 'KeyType': 'HASH'}, "
        "{'AttributeName': 'l', 'KeyType': 'RANGE'}], 'Projection': {'ProjectionType': 'ALL'}}]}");
    session_run(&session, &call);
    assert_int_equal(call.call.reply.status, STATUS_OK);
    session_call_deinit(&call);
    run_all(fill);
    assert_in_range(atomic_load(&taken), FITTING - WRITERS, FITTING);
    int last = atomic_load(&taken);
    for (enum status status = STATUS_OK; status == STATUS_OK; last += status == STATUS_OK) {
        char item[160];
        (void)snprintf(item, sizeof item,
                       "{'p': {'S': 'k'}, 's': {'S': 'end-%03d'}, 'l': {'S': 'x'}, 'v': {'S': "
                       "'%037d'}}",
                       last, 0);
        status = session_put(&session, "Local", item).status;
    }
    assert_int_equal(last, FITTING); /* to the last byte */
    session_close(&session);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(sixteen_writers_of_a_counter_lose_nothing, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(conditional_updates_count_what_happened, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_collection_takes_as_much_as_fits, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
