/* Every allocation of the client fails once: nothing leaks, nothing half done is believed. */
#include "clients/c/src/message.h"
#include "clients/c/src/token.h"
#include "clients/c/src/value.h"

#include <stdarg.h>

#include <setjmp.h>

#include <cmocka.h>

#include <stdlib.h>
#include <sys/types.h>

/* Linked with --wrap: the n-th allocation from now on fails; negative: none. */
static long allocations_left = -1;

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);

static bool has_randomness = true;

ssize_t __real_getrandom(void *out, size_t size, unsigned flags);
ssize_t __wrap_getrandom(void *out, size_t size, unsigned flags);

ssize_t __wrap_getrandom(void *out, size_t size, unsigned flags)
{
    return has_randomness ? __real_getrandom(out, size, flags) : -1;
}

static bool fails(void)
{
    if (allocations_left < 0)
        return false;
    return allocations_left-- == 0;
}

void *__wrap_malloc(size_t size)
{
    return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return fails() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *memory, size_t size)
{
    return fails() ? NULL : __real_realloc(memory, size);
}

/* Builds an item without looking at a single result. */
static struct mudax_value *build(void)
{
    struct mudax_value *item = mudax_map();
    struct mudax_value *list = mudax_list();
    struct mudax_value *set = mudax_binary_set();
    (void)mudax_append(set, mudax_binary("b", 1));
    (void)mudax_append(set, mudax_binary("a", 1));
    (void)mudax_append(list, mudax_string("x"));
    (void)mudax_append(list, mudax_bool(true));
    (void)mudax_append(list, set);
    (void)mudax_put(item, "list", list);
    (void)mudax_put(item, "id", mudax_int(1));
    (void)mudax_put(item, "id", mudax_number("2.5"));
    return item;
}

static int write_item(struct buffer *out, struct mudax_error *error)
{
    struct mudax_value *item = build();
    struct mudax_value *copy = mudax_copy(item);
    struct mudax_request part = {.operation = MUDAX_PUT_ITEM, .table = "t", .item = copy};
    struct mudax_request request = {
        .operation = MUDAX_BATCH_WRITE_ITEM, .parts = &part, .part_count = 1};
    int code = item == NULL || copy == NULL ? (int)MUDAX_NO_MEMORY
                                            : message_write(&request, 1, 1, out, error);
    mudax_free(item);
    mudax_free(copy);
    return code;
}

static void what_is_sent_is_whole_or_refused(void **state)
{
    (void)state;
    struct buffer expected = {0};
    struct mudax_error error;
    assert_int_equal(write_item(&expected, &error), MUDAX_OK);
    int code = MUDAX_NO_MEMORY;
    long count = 0;
    for (; code != MUDAX_OK; count++) {
        struct buffer out = {0};
        allocations_left = count;
        code = write_item(&out, &error);
        allocations_left = -1;
        assert_true(code == MUDAX_OK || code == MUDAX_NO_MEMORY || code == MUDAX_INVALID_REQUEST);
        assert_int_equal(out.size, code == MUDAX_OK ? expected.size : 0);
        if (code == MUDAX_OK)
            assert_memory_equal(out.data, expected.data, expected.size);
        buffer_deinit(&out);
        assert_true(count < 1000);
    }
    assert_true(count > 20); /* so many places were tried */
    buffer_deinit(&expected);
}

static void assert_whole_or_error(const struct frame_reply *frame, enum mudax_operation operation)
{
    int code = MUDAX_NO_MEMORY;
    long count = 0;
    for (; code != MUDAX_OK; count++) {
        struct mudax_reply *reply = NULL;
        struct mudax_error error;
        allocations_left = count;
        code = message_read(frame, operation, 1, &reply, &error);
        allocations_left = -1;
        assert_true(code == MUDAX_OK ? mudax_reply_count(reply) == 1
                                     : code == MUDAX_NO_MEMORY && reply == NULL);
        mudax_reply_free(reply);
        assert_true(count < 1000);
    }
    assert_true(count > 1);
}

static void a_reply_is_whole_or_an_error(void **state)
{
    (void)state;
    struct frame_reply page = {
        .id = 1,
        .body = BYTES_LITERAL("\x93\x91\x82\xa1\x61\x91\x01\xa1\x62\x80\x01\x81\xa1\x61\x01"),
        .capacity = BYTES_LITERAL("\x81\xa1\x61\x01"),
        .metrics = BYTES_LITERAL("\x81\xa1\x61\x01")};
    struct frame_reply batch = {.id = 1,
                                .body = BYTES_LITERAL("\x92\x91\x81\xa1\x61\x91\x01\x91\x00")};
    struct frame_reply cancelled = {
        .id = 1,
        .status = STATUS_TRANSACTION_CANCELED,
        .body = BYTES_LITERAL("why"),
        .details = BYTES_LITERAL("\x91\x93\xa1\x78\xa1\x79\x81\xa1\x61\x91\x01")};
    assert_whole_or_error(&page, MUDAX_QUERY);
    assert_whole_or_error(&batch, MUDAX_BATCH_GET_ITEM);
    assert_whole_or_error(&cancelled, MUDAX_TRANSACT_WRITE_ITEMS);
}

static void there_is_no_token_without_randomness(void **state)
{
    (void)state;
    char token[TOKEN_SIZE];
    has_randomness = false;
    assert_false(token_make(token));
    has_randomness = true;
    assert_true(token_make(token));
}

static void opening_leaves_nothing_behind(void **state)
{
    (void)state;
    struct mudax *db = NULL;
    for (long count = 0; db == NULL; count++) {
        struct mudax_error error;
        allocations_left = count;
        db = mudax_open("mudax+unix:/nonexistent", NULL, &error);
        allocations_left = -1;
        assert_true(db != NULL || error.code == MUDAX_NO_MEMORY);
        assert_true(count < 1000);
    }
    /* A call: the connection, its buffers, the request. Nobody listens, so it fails in any case. */
    for (long count = 0; count < 20; count++) {
        struct mudax_error error;
        struct mudax_request request = {.operation = MUDAX_PING, .timeout_ms = 1};
        allocations_left = count;
        int code = mudax_call(db, &request, NULL, &error);
        allocations_left = -1;
        assert_true(code == MUDAX_NO_MEMORY || code == MUDAX_CONNECT_ERROR);
    }
    mudax_close(&db);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_sent_is_whole_or_refused),
        cmocka_unit_test(a_reply_is_whole_or_an_error),
        cmocka_unit_test(there_is_no_token_without_randomness),
        cmocka_unit_test(opening_leaves_nothing_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
