/* Many threads on one engine over one store: items, pages and tables that come and go. What
 * ThreadSanitizer looks at; the assertions hold without it too. */
#include "backend/engine/engine.h"
#include "tests/support/session.h"

#include "protocol/encoding/msgpack.h"
#include "protocol/ensure.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { THREADS = 4, STEPS = 300, ITEMS = 8 };

static struct backend *backend;
static atomic_int next_value; /* of all items: a later put has a greater one */

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
        .collection_bytes_max = 10ull << 30,
        .wall_ms = wall_ms,
    };
    struct error error;
    atomic_store(&next_value, 0);
    return engine_open(&options, &backend, &error) != STATUS_OK;
}

static int tear_down(void **state)
{
    (void)state;
    backend->ops->close(&backend);
    return 0;
}

struct worker {
    pthread_t thread;
    unsigned number;
    uint32_t random;

    size_t writes;
};

static uint32_t roll(struct worker *worker, uint32_t sides)
{
    worker->random = worker->random * 1664525 + 1013904223;
    return (worker->random >> 16) % sides;
}

static void run_all(void *(*run)(void *), struct worker *workers)
{
    for (unsigned i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){.number = i, .random = i * 7919 + 1};
        assert_int_equal(pthread_create(&workers[i].thread, NULL, run, &workers[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
}

static int64_t value_of(struct bytes item)
{
    struct bytes found;
    uint64_t value = 0;
    ensure(item_find(item, BYTES_LITERAL("v"), &found));
    struct msgpack_cursor cursor = msgpack_cursor_of(found);
    ensure(msgpack_read_uint(&cursor, &value));
    return (int64_t)value;
}

/* ---- items ---- */

static void query_all(struct session *session)
{
    struct session_call call;
    session_call_init(&call, OPERATION_QUERY, "Things");
    call.call.request.key_condition.text = bytes_text("p = :p");
    call.call.request.key_condition.values = session_item(session, "{':p': {'S': 'k'}}");
    session_run(session, &call);
    ensure(call.call.reply.status == STATUS_OK && call.call.reply.count <= ITEMS);
    session_call_deinit(&call);
}

static void *use_items(void *arg)
{
    struct worker *worker = arg;
    struct session session;
    session_open(&session, backend);
    char text[128];
    for (int i = 0; i < STEPS; i++) {
        uint32_t what = roll(worker, 8), item = roll(worker, ITEMS);
        snprintf(text, sizeof text, "{'p': {'S': 'k'}, 's': {'N': '%u'}}", item);
        if (what < 3) {
            snprintf(text, sizeof text, "{'p': {'S': 'k'}, 's': {'N': '%u'}, 'v': {'N': '%d'}}",
                     item, atomic_fetch_add(&next_value, 1));
            ensure(session_put(&session, "Things", text).status == STATUS_OK);
        } else if (what == 3) {
            ensure(session_delete(&session, "Things", text).status == STATUS_OK);
        } else if (what == 4) {
            query_all(&session);
        } else {
            struct reply reply = session_get(&session, "Things", text);
            ensure(reply.status == STATUS_OK);
            if (reply.count == 1)
                ensure(value_of(reply.body) >= 0);
        }
        session_forget(&session);
    }
    session_close(&session);
    return NULL;
}

static void counts_stay_exact_under_concurrent_writes(void **state)
{
    (void)state;
    struct session session;
    session_open(&session, backend);
    assert_int_equal(session_create(&session, "Things", "p:S", "s:N").status, STATUS_OK);
    struct worker workers[THREADS];
    run_all(use_items, workers);
    size_t items = 0, bytes = 0;
    for (int i = 0; i < ITEMS; i++) {
        char text[64], wanted[64];
        snprintf(text, sizeof text, "{'p': {'S': 'k'}, 's': {'N': '%d'}}", i);
        struct reply reply = session_get(&session, "Things", text);
        items += reply.count;
        bytes += reply.read_bytes;
        if (i + 1 < ITEMS)
            continue;
        const char *body = session_plain_json(
            &session, session_table(&session, OPERATION_DESCRIBE_TABLE, "Things").body);
        snprintf(wanted, sizeof wanted, "\"ItemCount\":%zu,", items);
        assert_non_null(strstr(body, wanted));
        snprintf(wanted, sizeof wanted, "\"TableSizeBytes\":%zu,", bytes);
        assert_non_null(strstr(body, wanted));
    }
    session_close(&session);
}

/* ---- one item read while it is written ---- */

static void *write_or_watch(void *arg)
{
    struct worker *worker = arg;
    struct session session;
    session_open(&session, backend);
    char text[128];
    int64_t last = -1;
    for (int i = 0; i < STEPS; i++) {
        if (worker->number == 0) {
            snprintf(text, sizeof text, "{'p': {'S': 'k'}, 's': {'N': '0'}, 'v': {'N': '%d'}}", i);
            ensure(session_put(&session, "Things", text).status == STATUS_OK);
            last = i;
        }
        struct reply reply = session_get(&session, "Things", "{'p': {'S': 'k'}, 's': {'N': '0'}}");
        ensure(reply.status == STATUS_OK);
        int64_t value = reply.count == 0 ? -1 : value_of(reply.body);
        ensure(value >= last); /* never back, and the writer sees its own */
        last = value;
        session_forget(&session);
    }
    session_close(&session);
    return NULL;
}

static void no_reader_sees_an_item_go_back(void **state)
{
    (void)state;
    struct session session;
    session_open(&session, backend);
    assert_int_equal(session_create(&session, "Things", "p:S", "s:N").status, STATUS_OK);
    session_close(&session);
    struct worker workers[THREADS];
    run_all(write_or_watch, workers);
}

/* ---- tables ---- */

/* One makes and drops the table over and over, the others write to it all the time. */
static void *make_or_use_tables(void *arg)
{
    struct worker *worker = arg;
    struct session session;
    session_open(&session, backend);
    for (int i = 0; i < STEPS / 3; i++) {
        enum status status;
        if (worker->number == 0) {
            ensure(session_create(&session, "Brief", "p:S", NULL).status == STATUS_OK);
            status = session_table(&session, OPERATION_DESCRIBE_TABLE, "Brief").status;
            ensure(status == STATUS_OK);
            ensure(session_table(&session, OPERATION_DELETE_TABLE, "Brief").status == STATUS_OK);
        } else {
            status = roll(worker, 2) == 0
                         ? session_put(&session, "Brief", "{'p': {'S': 'k'}}").status
                         : session_get(&session, "Brief", "{'p': {'S': 'k'}}").status;
            ensure(status == STATUS_OK || status == STATUS_RESOURCE_NOT_FOUND);
            worker->writes += status == STATUS_OK;
            ensure(session_table(&session, OPERATION_LIST_TABLES, NULL).status == STATUS_OK);
        }
        session_forget(&session);
    }
    session_close(&session);
    return NULL;
}

static void tables_come_and_go_under_writes(void **state)
{
    (void)state;
    struct worker workers[THREADS];
    run_all(make_or_use_tables, workers);
    struct session session;
    session_open(&session, backend);
    assert_int_equal(session_create(&session, "Brief", "p:S", NULL).status, STATUS_OK);
    assert_int_equal(session_get(&session, "Brief", "{'p': {'S': 'k'}}").count, 0);
    const char *body = session_plain_json(
        &session, session_table(&session, OPERATION_DESCRIBE_TABLE, "Brief").body);
    assert_non_null(strstr(body, "\"ItemCount\":0,"));
    session_close(&session);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(counts_stay_exact_under_concurrent_writes, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(no_reader_sees_an_item_go_back, set_up, tear_down),
        cmocka_unit_test_setup_teardown(tables_come_and_go_under_writes, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
