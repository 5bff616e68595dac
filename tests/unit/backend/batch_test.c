/* What a batch makes of the outcomes of its parts. */
#include "backend/batch.h"
#include "protocol/encoding/msgpack.h"
#include "tests/support/fake_backend.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { PARTS = 2, HEAP_BYTES_MAX = 1 << 20 };

struct bench {
    struct fake_backend *fake;
    struct backend *backend;
    struct lane *lane;
    struct arena arena;
    struct request parts[PARTS];
    struct call call;
    bool is_complete;
};

static void complete(struct call *call)
{
    ((struct bench *)call->owner)->is_complete = true;
}

static int set_up(void **state)
{
    static struct bench bench;
    bench = (struct bench){.fake = fake_backend_open()};
    bench.backend = &bench.fake->backend;
    fake_backend_table(bench.fake, 1, "Shop", "p", NULL);
    arena_init(&bench.arena, NULL, 0, HEAP_BYTES_MAX);
    struct lane_env env = {0};
    assert_int_equal(bench.backend->ops->lane_open(bench.backend, &env, &bench.lane), STATUS_OK);
    *state = &bench;
    return 0;
}

static int tear_down(void **state)
{
    struct bench *bench = *state;
    arena_deinit(&bench->arena);
    bench->backend->ops->lane_close(&bench->lane);
    bench->backend->ops->close(&bench->backend);
    return 0;
}

/* {"p": "a"} and {"p": "b"} */
static const struct bytes items[PARTS] = {{(const uint8_t *)"\x81\xa1p\xa1"
                                                            "a",
                                           5},
                                          {(const uint8_t *)"\x81\xa1p\xa1"
                                                            "b",
                                           5}};

/* Has the parts answered with these, the last one first. */
static void run(struct bench *bench, enum operation operation, const enum status outcomes[PARTS])
{
    bool is_get = operation == OPERATION_BATCH_GET_ITEM;
    for (size_t i = 0; i < PARTS; i++) {
        bench->parts[i] = (struct request){
            .operation = is_get ? OPERATION_GET_ITEM : OPERATION_PUT_ITEM,
            .table_name = BYTES_LITERAL("Shop"),
        };
        *(is_get ? &bench->parts[i].key : &bench->parts[i].item) = items[i];
    }
    bench->call = (struct call){
        .request = {.operation = operation, .parts = bench->parts, .part_count = PARTS},
        .arena = &bench->arena,
        .complete = complete,
        .owner = bench,
    };
    assert_int_equal(batch_submit(bench->lane, &bench->call), SUBMIT_PENDING);
    for (size_t i = PARTS; i-- > 0;) {
        struct fake_call *held = bench->fake->calls;
        for (size_t k = 0; k < i; k++)
            held = held->next;
        assert_false(bench->is_complete);
        fake_call_answer(&held, outcomes[i], is_get ? items[i] : BYTES_LITERAL("\xc0"), false, 0);
    }
    assert_true(bench->is_complete);
}

static void what_was_written_is_not_called_failed(void **state)
{
    struct bench *bench = *state;
    /* As when an index came in between, whose key the second item does not fit. */
    run(bench, OPERATION_BATCH_WRITE_ITEM, (enum status[]){STATUS_OK, STATUS_VALIDATION});
    assert_int_equal(bench->call.reply.status, STATUS_OK);
    assert_memory_equal(bench->call.reply.body.data, "\x91\x01", 2);
}

static void what_may_have_been_written_is_not_called_failed(void **state)
{
    struct bench *bench = *state;
    run(bench, OPERATION_BATCH_WRITE_ITEM,
        (enum status[]){STATUS_VALIDATION, STATUS_OUTCOME_UNKNOWN});
    assert_int_equal(bench->call.reply.status, STATUS_OK);
    assert_memory_equal(bench->call.reply.body.data, "\x92\x00\x01", 3);
}

static void an_error_that_would_come_again_is_that_of_the_whole(void **state)
{
    struct bench *bench = *state;
    run(bench, OPERATION_BATCH_WRITE_ITEM, (enum status[]){STATUS_THROTTLED, STATUS_VALIDATION});
    assert_int_equal(bench->call.reply.status, STATUS_VALIDATION);
}

static void reads_that_failed_for_good_fail_the_batch(void **state)
{
    struct bench *bench = *state;
    run(bench, OPERATION_BATCH_GET_ITEM, (enum status[]){STATUS_OK, STATUS_VALIDATION});
    assert_int_equal(bench->call.reply.status, STATUS_VALIDATION);
}

static void what_may_pass_is_left_unless_it_is_all(void **state)
{
    struct bench *bench = *state;
    run(bench, OPERATION_BATCH_WRITE_ITEM, (enum status[]){STATUS_THROTTLED, STATUS_OK});
    assert_int_equal(bench->call.reply.status, STATUS_OK);
    assert_memory_equal(bench->call.reply.body.data, "\x91\x00", 2);
    bench->is_complete = false;
    run(bench, OPERATION_BATCH_WRITE_ITEM, (enum status[]){STATUS_UNAVAILABLE, STATUS_THROTTLED});
    assert_int_equal(bench->call.reply.status, STATUS_UNAVAILABLE);
}

/* {"p": ..., "v": [NULL, ...]}, 409,598 bytes for DynamoDB, of which the encoding has half. */
enum { LARGE_HEAD = 12, LARGE_COUNT = 204796, LARGE_BYTES = LARGE_HEAD + LARGE_COUNT, MANY = 42 };

static void what_is_read_is_counted_in_dynamodbs_sizes(void **state)
{
    struct bench *bench = *state;
    static uint8_t item[LARGE_BYTES];
    memcpy(item, "\x82\xa1p\xa1-\xa1v\xdd\x00\x03\x1f\xfc", LARGE_HEAD);
    memset(item + LARGE_HEAD, 0xc0, LARGE_COUNT);
    assert_int_equal(item_size(bytes_of(item, sizeof item)), 409598);
    uint8_t keys[MANY][5];
    struct request parts[MANY];
    for (uint8_t i = 0; i < MANY; i++) {
        memcpy(keys[i], "\x81\xa1p\xa1", 4);
        keys[i][4] = '0' + i;
        parts[i] = (struct request){.operation = OPERATION_GET_ITEM,
                                    .table_name = BYTES_LITERAL("Shop"),
                                    .key = bytes_of(keys[i], sizeof keys[i])};
    }
    bench->arena.heap_bytes_max = 64 << 20;
    bench->call = (struct call){
        .request = {.operation = OPERATION_BATCH_GET_ITEM, .parts = parts, .part_count = MANY},
        .arena = &bench->arena,
        .complete = complete,
        .owner = bench,
    };
    assert_int_equal(batch_submit(bench->lane, &bench->call), SUBMIT_PENDING);
    for (size_t i = 0; i < MANY; i++) {
        struct fake_call *held = bench->fake->calls;
        fake_call_answer(&held, STATUS_OK, bytes_of(item, sizeof item), false, 0);
    }
    struct bytes body = bench->call.reply.body;
    assert_int_equal(bench->call.reply.count, 40); /* 16 MB have room for as many */
    assert_memory_equal(body.data + body.size - 5, "\xc0\xc0\x92\x28\x29", 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_read_is_counted_in_dynamodbs_sizes, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(what_was_written_is_not_called_failed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_may_have_been_written_is_not_called_failed, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(an_error_that_would_come_again_is_that_of_the_whole, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(reads_that_failed_for_good_fail_the_batch, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(what_may_pass_is_left_unless_it_is_all, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("batch", tests, NULL, NULL);
}
