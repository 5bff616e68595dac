/* Throughput that is emulated: what is charged, and who is refused then. A table of one unit a
 * second takes 300 at once; what goes beyond is let through, and holds back what follows. */
#include "backend/engine/engine.h"
#include "tests/support/session.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { KB = 1000, ITEM_ROOM = 400 * KB, SECOND = 1000000 };

static struct session session;
static struct backend *backend;

static uint64_t wall_ms(void)
{
    return 1700000000123;
}

static int set_up(void **state)
{
    (void)state;
    struct engine_options options = {
        .store = {.url = BYTES_LITERAL("memory:"), .memory_bytes = 64 << 20, .sync = SYNC_NONE},
        .partitions = 1,
        .tables_max = 5,
        .emulates_throughput = true,
        .wall_ms = wall_ms,
    };
    struct error error;
    if (engine_open(&options, &backend, &error) != STATUS_OK)
        fail_msg("%s", error.text);
    session_open(&session, backend);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    session_close(&session);
    backend->ops->close(&backend);
    return 0;
}

#define UNITS "'ProvisionedThroughput': {'ReadCapacityUnits': 1, 'WriteCapacityUnits': 1}"
#define LOCAL                                                                                      \
    "'LocalSecondaryIndexes': [{'IndexName': 'local', 'KeySchema': [{'AttributeName': 'p', "       \
    "'KeyType': 'HASH'}, {'AttributeName': 'l', 'KeyType': 'RANGE'}], 'Projection': "              \
    "{'ProjectionType': 'ALL'}}]"

static void create(const char *table, const char *throughput)
{
    char text[1000];
    (void)snprintf(text, sizeof text,
                   "{'TableName': '%s', %s, " LOCAL ", 'KeySchema': [{'AttributeName': 'p', "
                   "'KeyType': 'HASH'}, {'AttributeName': 's', 'KeyType': 'RANGE'}], "
                   "'AttributeDefinitions': [{'AttributeName': 'p', 'AttributeType': 'S'}, "
                   "{'AttributeName': 's', 'AttributeType': 'S'}, {'AttributeName': 'l', "
                   "'AttributeType': 'S'}]}",
                   table, throughput);
    struct session_call call;
    session_call_init(&call, OPERATION_CREATE_TABLE, NULL);
    call.call.request.definition = session_plain(&session, text);
    session_run(&session, &call);
    assert_int_equal(call.call.reply.status, STATUS_OK);
    session_call_deinit(&call);
}

/* An item of so many KB and a little less, with other attributes. */
static struct bytes item_of(int kilobytes, const char *more)
{
    static char text[ITEM_ROOM];
    (void)snprintf(text, sizeof text, "{'p': {'S': 'k'}, 's': {'S': 'k'}%s, 'v': {'S': '%0*d'}}",
                   more, kilobytes * KB, 0);
    return session_item(&session, text);
}

static enum status put(const char *table, int kilobytes, const char *more, const char *condition)
{
    struct session_call call;
    session_call_init(&call, OPERATION_PUT_ITEM, table);
    call.call.request.item = item_of(kilobytes, more);
    if (condition != NULL)
        call.call.request.condition = bytes_text(condition);
    session_run(&session, &call);
    enum status status = call.call.reply.status;
    session_call_deinit(&call);
    return status;
}

/* Of one key in each table. `expected`: the text of a canceled one, or NULL. */
static void transact(enum operation operation, enum operation part, const char *const *tables,
                     size_t count, const char *expected)
{
    struct request parts[3];
    struct session_call call, one;
    session_call_init(&call, operation, NULL);
    for (size_t i = 0; i < count; i++) {
        session_call_init(&one, part, tables[i]);
        parts[i] = one.call.request;
        if (part == OPERATION_PUT_ITEM)
            parts[i].item = item_of(1, "");
        else
            parts[i].key = session_item(&session, "{'p': {'S': 'k'}, 's': {'S': 'k'}}");
        if (part == OPERATION_CONDITION_CHECK)
            parts[i].condition = BYTES_LITERAL("attribute_exists(p)");
        session_call_deinit(&one);
    }
    call.call.request.parts = parts;
    call.call.request.part_count = count;
    session_run(&session, &call);
    assert_int_equal(call.call.reply.status,
                     expected == NULL ? STATUS_OK : STATUS_TRANSACTION_CANCELED);
    if (expected != NULL)
        assert_non_null(strstr(call.call.reply.error.text, expected));
    session_call_deinit(&call);
}

static void a_condition_that_fails_takes_what_is_there(void **state)
{
    (void)state;
    create("Things", UNITS);
    assert_int_equal(put("Things", 155, "", NULL), STATUS_OK);
    assert_int_equal(put("Things", 1, "", "attribute_not_exists(p)"),
                     STATUS_CONDITIONAL_CHECK_FAILED);
    assert_int_equal(put("Things", 1, "", NULL), STATUS_PROVISIONED);
    assert_int_equal(put("Things", 1, "", "attribute_not_exists(p)"), STATUS_PROVISIONED);
    lane_loop_advance(&session.loop, 20 * SECOND);
    assert_int_equal(put("Things", 1, "", "attribute_not_exists(p)"),
                     STATUS_CONDITIONAL_CHECK_FAILED);
}

static void a_check_takes_twice_what_it_looks_at(void **state)
{
    (void)state;
    const char *const tables[] = {"Things"};
    create("Things", UNITS);
    assert_int_equal(put("Things", 105, "", NULL), STATUS_OK);
    transact(OPERATION_TRANSACT_WRITE_ITEMS, OPERATION_CONDITION_CHECK, tables, 1, NULL);
    assert_int_equal(put("Things", 1, "", NULL), STATUS_PROVISIONED);
}

static void a_local_index_takes_what_its_table_has(void **state)
{
    (void)state;
    create("Things", UNITS);
    assert_int_equal(put("Things", 160, ", 'l': {'S': 'x'}", NULL), STATUS_OK);
    assert_int_equal(put("Things", 1, "", NULL), STATUS_PROVISIONED);
}

static void a_transaction_that_is_held_back_says_for_which_items(void **state)
{
    (void)state;
    const char *const tables[] = {"Fresh", "Things", "Metered"};
    create("Fresh", UNITS);
    create("Things", UNITS);
    create("Metered", "'BillingMode': 'PAY_PER_REQUEST', 'OnDemandThroughput': "
                      "{'MaxReadRequestUnits': 1, 'MaxWriteRequestUnits': 1}");
    assert_int_equal(put("Things", 310, "", NULL), STATUS_OK);
    assert_int_equal(put("Metered", 310, "", NULL), STATUS_OK);
    transact(OPERATION_TRANSACT_WRITE_ITEMS, OPERATION_PUT_ITEM, tables, 1, NULL);
    transact(OPERATION_TRANSACT_WRITE_ITEMS, OPERATION_PUT_ITEM, tables, 3,
             "[None, ProvisionedThroughputExceeded, ThrottlingError]");
    transact(OPERATION_TRANSACT_GET_ITEMS, OPERATION_GET_ITEM, tables, 3, NULL);
    transact(OPERATION_TRANSACT_GET_ITEMS, OPERATION_GET_ITEM, tables, 3, NULL);
    transact(OPERATION_TRANSACT_GET_ITEMS, OPERATION_GET_ITEM, tables, 3,
             "[None, ProvisionedThroughputExceeded, ThrottlingError]");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_condition_that_fails_takes_what_is_there),
        TEST(a_check_takes_twice_what_it_looks_at),
        TEST(a_local_index_takes_what_its_table_has),
        TEST(a_transaction_that_is_held_back_says_for_which_items),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
