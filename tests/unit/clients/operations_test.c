/* Batches, transactions, Scan, what else was asked for: what is sent of them and heard back. */
#include "clients/c/include/mudax.h"
#include "tests/unit/clients/fake_server.h"

#include <stdarg.h>

#include <setjmp.h>

#include <cmocka.h>

#include <stdlib.h>
#include <unistd.h>

/* {"id": 7} */
#define ITEM "\x81\xa2id\x07"

static struct mudax *open_pool(const struct fake_server *server, int32_t retries_max)
{
    struct mudax_options options = {.timeout_ms = 10000, .retries_max = retries_max};
    struct mudax *db = mudax_open(server->url, &options, NULL);
    assert_non_null(db);
    return db;
}

static struct mudax_value *make_key(void)
{
    struct mudax_value *key = mudax_map();
    (void)mudax_put(key, "id", mudax_int(7));
    return key;
}

static void assert_is_item(const struct mudax_value *item)
{
    int64_t id = 0;
    assert_true(mudax_as_int(mudax_get(item, "id"), &id));
    assert_int_equal(id, 7);
}

/* A request of `count` parts, all of them alike. */
static int call_parts(struct mudax *db, enum mudax_operation whole, enum mudax_operation part,
                      size_t count, const char *token, struct mudax_reply **reply,
                      struct mudax_error *error)
{
    struct mudax_value *key = make_key();
    bool is_put = part == MUDAX_PUT_ITEM;
    struct mudax_request parts[3] = {{.operation = part,
                                      .table = "users",
                                      .key = is_put ? NULL : key,
                                      .item = is_put ? key : NULL}};
    parts[1] = parts[2] = parts[0];
    struct mudax_request request = {
        .operation = whole, .parts = parts, .part_count = count, .token = token};
    int code = mudax_call(db, &request, reply, error);
    mudax_free(key);
    return code;
}

/* ---- requests ---- */

static char told[2][64]; /* by a script, for the test to look at after the server's end */

static void tell(int which, struct bytes text)
{
    assert_true(text.size < sizeof told[0]);
    memset(told[which], 0, sizeof told[0]);
    if (text.size != 0)
        memcpy(told[which], text.data, text.size);
}

static bool is_text(struct bytes bytes, const char *text)
{
    return bytes_equal(bytes, bytes_text(text));
}

static void expect_scan(struct fake_server *server)
{
    struct request request;
    int fd = fake_accept(server);
    (void)fake_read(fd, &request);
    bool is_right = request.operation == OPERATION_SCAN && is_text(request.table_name, "users") &&
                    is_text(request.index_name, "by-name") && request.has_segment &&
                    request.segment == 0 && request.segments == 4 && request.limit == 9 &&
                    is_text(request.filter, "id = :v") && request.capacity == CAPACITY_INDEXES &&
                    request.is_consistent && request.timeout_ms != 0;
    tell(0, bytes_text(is_right ? "right" : "wrong"));
    struct reply reply;
    reply_init(&reply);
    reply.body = BYTES_LITERAL("\x93\x91" ITEM "\x05" ITEM);
    reply.capacity = BYTES_LITERAL("\x82\xa9TableName\xa5users\xad"
                                   "CapacityUnits\x01");
    fake_send_reply(fd, &request, &reply);
    fake_wait_closed(fd);
}

static void a_scan_says_all_that_it_is_asked_for(void **state)
{
    (void)state;
    struct fake_server server;
    struct mudax_reply *reply;
    struct mudax_error error;
    struct mudax_request request = {.operation = MUDAX_SCAN,
                                    .table = "users",
                                    .index = "by-name",
                                    .segment = 0,
                                    .segments = 4,
                                    .limit = 9,
                                    .filter = "id = :v",
                                    .consistent_read = true,
                                    .wants_capacity = MUDAX_CAPACITY_INDEXES};
    int64_t units = 0;
    fake_server_start(&server, expect_scan);
    struct mudax *db = open_pool(&server, -1);
    assert_int_equal(mudax_call(db, &request, &reply, &error), MUDAX_OK);
    assert_int_equal(mudax_reply_count(reply), 1);
    assert_is_item(mudax_reply_item_at(reply, 0));
    assert_int_equal(mudax_reply_scanned_count(reply), 5);
    assert_is_item(mudax_reply_last_key(reply));
    const struct mudax_value *capacity = mudax_reply_capacity(reply);
    assert_true(mudax_as_int(mudax_get(capacity, "CapacityUnits"), &units));
    assert_int_equal(units, 1);
    mudax_reply_free(reply);
    mudax_close(&db);
    fake_server_stop(&server);
    assert_string_equal(told[0], "right");
}

static void expect_transaction(struct fake_server *server)
{
    struct request request;
    int fd = fake_accept(server);
    (void)fake_read(fd, &request);
    const struct request *parts = request.parts;
    bool is_right =
        request.operation == OPERATION_TRANSACT_WRITE_ITEMS && request.part_count == 3 &&
        is_text(request.token, "mine") && parts[0].operation == OPERATION_PUT_ITEM &&
        is_text(parts[0].item, ITEM) && is_text(parts[0].condition, "attribute_not_exists(id)") &&
        parts[0].wants_failed && parts[1].operation == OPERATION_UPDATE_ITEM &&
        is_text(parts[1].update, "SET n = :v") && is_text(parts[1].key, ITEM) &&
        is_text(parts[1].key_condition.values, "\x81\xa2:v\x07") && !parts[1].wants_failed &&
        parts[2].operation == OPERATION_CONDITION_CHECK && is_text(parts[2].table_name, "others") &&
        !bytes_given(parts[2].key_condition.values) && is_text(parts[2].key, ITEM);
    tell(0, bytes_text(is_right ? "right" : "wrong"));
    fake_answer(fd, request.id, STATUS_OK);
    fake_wait_closed(fd);
}

static void parts_are_sent_with_all_that_is_theirs(void **state)
{
    (void)state;
    struct fake_server server;
    struct mudax_error error;
    struct mudax_value *key = make_key(), *values = mudax_map();
    (void)mudax_put(values, ":v", mudax_int(7));
    struct mudax_request parts[] = {
        {.operation = MUDAX_PUT_ITEM,
         .table = "users",
         .item = key,
         .condition = "attribute_not_exists(id)",
         .wants_failed_item = true},
        {.operation = MUDAX_UPDATE_ITEM,
         .table = "users",
         .key = key,
         .update = "SET n = :v",
         .values = values},
        {.operation = MUDAX_CONDITION_CHECK,
         .table = "others",
         .key = key,
         .condition = "attribute_exists(id)"},
    };
    struct mudax_request request = {
        .operation = MUDAX_TRANSACT_WRITE_ITEMS, .parts = parts, .part_count = 3, .token = "mine"};
    fake_server_start(&server, expect_transaction);
    struct mudax *db = open_pool(&server, -1);
    assert_int_equal(mudax_call(db, &request, NULL, &error), MUDAX_OK);
    mudax_close(&db);
    fake_server_stop(&server);
    assert_string_equal(told[0], "right");
    mudax_free(key);
    mudax_free(values);
}

static void answer_two(struct fake_server *server)
{
    int fd = fake_accept(server);
    fake_answer(fd, fake_read(fd, NULL), STATUS_OK);
    fake_answer(fd, fake_read(fd, NULL), STATUS_OK);
    fake_wait_closed(fd);
}

static void what_would_break_the_connection_is_not_sent(void **state)
{
    (void)state;
    struct fake_server server;
    struct mudax_error error;
    static struct mudax_request many[1001];
    struct mudax_value *spoilt = mudax_map();
    (void)mudax_put(spoilt, "n", mudax_number("no number"));
    struct mudax_request nested = {
        .operation = MUDAX_BATCH_GET_ITEM, .parts = many, .part_count = 1};
    struct mudax_request part = {.operation = MUDAX_PUT_ITEM, .table = "users", .item = spoilt};
    const struct mudax_request wrong[] = {
        {.operation = MUDAX_BATCH_GET_ITEM, .parts = &nested, .part_count = 1},
        {.operation = MUDAX_BATCH_GET_ITEM, .parts = many, .part_count = 1001},
        {.operation = MUDAX_BATCH_WRITE_ITEM, .parts = &part, .part_count = 1},
        {.operation = MUDAX_SCAN, .table = "users", .segment = 1},
        {.operation = MUDAX_SCAN, .table = "users", .segments = UINT32_MAX},
        {.operation = (enum mudax_operation)21, .table = "users"},
    };
    struct mudax_request ping = {.operation = MUDAX_PING};
    fake_server_start(&server, answer_two);
    struct mudax *db = open_pool(&server, -1);
    assert_int_equal(mudax_call(db, &ping, NULL, &error), MUDAX_OK);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_int_equal(mudax_call(db, &wrong[i], NULL, &error), MUDAX_INVALID_REQUEST);
    assert_int_equal(mudax_call(db, &ping, NULL, &error), MUDAX_OK);
    mudax_close(&db);
    fake_server_stop(&server);
    mudax_free(spoilt);
}

/* ---- replies ---- */

static struct bytes scripted_body, scripted_details, scripted_capacity, scripted_metrics;
static enum status scripted_status;

static void answer_as_scripted(struct fake_server *server)
{
    struct request request;
    struct reply reply;
    int fd = fake_accept(server);
    (void)fake_read(fd, &request);
    reply_init(&reply);
    reply.status = reply.error.status = scripted_status;
    reply.body = scripted_body;
    reply.details = scripted_details;
    reply.capacity = scripted_capacity;
    reply.metrics = scripted_metrics;
    fake_send_reply(fd, &request, &reply);
    fake_wait_closed(fd);
}

/* Calls a daemon that answers so. */
static int hear(enum mudax_operation whole, enum mudax_operation part, size_t count,
                struct bytes body, struct mudax_reply **reply, struct mudax_error *error)
{
    struct fake_server server;
    bool is_error = scripted_status != STATUS_OK;
    scripted_body = is_error ? BYTES_NONE : body;
    scripted_details = is_error ? body : BYTES_NONE;
    fake_server_start(&server, answer_as_scripted);
    struct mudax *db = open_pool(&server, -1);
    int code = call_parts(db, whole, part, count, NULL, reply, error);
    mudax_close(&db);
    fake_server_stop(&server);
    return code;
}

static void a_batch_of_gets_shows_what_is_there_and_what_is_left(void **state)
{
    (void)state;
    struct mudax_reply *reply;
    struct mudax_error error;
    scripted_status = STATUS_OK;
    assert_int_equal(hear(MUDAX_BATCH_GET_ITEM, MUDAX_GET_ITEM, 3,
                          BYTES_LITERAL("\x92\x93" ITEM "\xc0\xc0\x91\x02"), &reply, &error),
                     MUDAX_OK);
    assert_int_equal(mudax_reply_count(reply), 3);
    assert_is_item(mudax_reply_item_at(reply, 0));
    assert_null(mudax_reply_item_at(reply, 1));
    assert_null(mudax_reply_item_at(reply, 3));
    assert_int_equal(mudax_reply_unprocessed_count(reply), 1);
    assert_int_equal(mudax_reply_unprocessed_at(reply, 0), 2);
    assert_int_equal(mudax_reply_unprocessed_at(reply, 1), 0);
    assert_null(mudax_reply_item(reply));
    assert_null(mudax_reply_description(reply));
    assert_null(mudax_reply_capacity(reply));
    assert_null(mudax_reply_metrics(reply));
    mudax_reply_free(reply);
}

static void a_batch_of_writes_shows_what_is_left(void **state)
{
    (void)state;
    struct mudax_reply *reply;
    struct mudax_error error;
    scripted_status = STATUS_OK;
    scripted_capacity = BYTES_LITERAL("\x91\x81\xa9TableName\xa5users");
    scripted_metrics = BYTES_LITERAL("\x81\xa5users\x91\x82\xb1ItemCollectionKey\x81\xa1p\xa1k"
                                     "\xb3SizeEstimateRangeGB\x92\x00\x01");
    assert_int_equal(hear(MUDAX_BATCH_WRITE_ITEM, MUDAX_PUT_ITEM, 3, BYTES_LITERAL("\x92\x00\x02"),
                          &reply, &error),
                     MUDAX_OK);
    scripted_capacity = scripted_metrics = BYTES_NONE;
    assert_int_equal(mudax_reply_unprocessed_count(reply), 2);
    assert_int_equal(mudax_reply_unprocessed_at(reply, 0), 0);
    assert_int_equal(mudax_reply_unprocessed_at(reply, 1), 2);
    assert_int_equal(mudax_reply_count(reply), 0);
    assert_int_equal(mudax_count(mudax_reply_capacity(reply)), 1);
    assert_int_equal(mudax_type(mudax_reply_capacity(reply)), MUDAX_L);
    const struct mudax_value *collection =
        mudax_at(mudax_get(mudax_reply_metrics(reply), "users"), 0);
    int64_t gigabytes;
    assert_true(
        mudax_as_int(mudax_at(mudax_get(collection, "SizeEstimateRangeGB"), 1), &gigabytes));
    assert_int_equal(gigabytes, 1);
    assert_int_equal(mudax_count(mudax_get(collection, "ItemCollectionKey")), 1);
    mudax_reply_free(reply);
}

static void a_cancelled_transaction_says_why_of_each_part(void **state)
{
    (void)state;
    struct mudax_reply *reply;
    struct mudax_error error;
    const char *text;
    scripted_status = STATUS_TRANSACTION_CANCELED;
    assert_int_equal(
        hear(MUDAX_TRANSACT_WRITE_ITEMS, MUDAX_PUT_ITEM, 3,
             BYTES_LITERAL("\x93\xc0\x93\xb6"
                           "ConditionalCheckFailed\xa3why" ITEM "\x93\xafValidationError\xc0\xc0"),
             &reply, &error),
        MUDAX_TRANSACTION_CANCELED);
    assert_string_equal(error.name, "TransactionCanceledException");
    assert_false(error.is_retryable);
    assert_int_equal(mudax_reply_count(reply), 3);
    assert_string_equal(mudax_reply_reason(reply, 0, &text), "None");
    assert_string_equal(text, "");
    assert_null(mudax_reply_item_at(reply, 0));
    assert_string_equal(mudax_reply_reason(reply, 1, &text), "ConditionalCheckFailed");
    assert_string_equal(text, "why");
    assert_is_item(mudax_reply_item_at(reply, 1));
    assert_string_equal(mudax_reply_reason(reply, 2, NULL), "ValidationError");
    assert_null(mudax_reply_item_at(reply, 2));
    assert_null(mudax_reply_reason(reply, 3, &text));
    assert_string_equal(text, "");
    mudax_reply_free(reply);
    /* Nobody wants them. */
    assert_int_equal(hear(MUDAX_TRANSACT_WRITE_ITEMS, MUDAX_PUT_ITEM, 1, BYTES_LITERAL("\x91\xc0"),
                          NULL, &error),
                     MUDAX_TRANSACTION_CANCELED);
}

static void a_condition_that_fails_shows_the_item(void **state)
{
    (void)state;
    struct fake_server server;
    struct mudax_reply *reply;
    struct mudax_error error;
    struct mudax_value *item = make_key();
    struct mudax_request request = {.operation = MUDAX_PUT_ITEM,
                                    .table = "users",
                                    .item = item,
                                    .condition = "attribute_not_exists(id)",
                                    .wants_failed_item = true};
    scripted_status = STATUS_CONDITIONAL_CHECK_FAILED;
    scripted_details = BYTES_LITERAL(ITEM);
    fake_server_start(&server, answer_as_scripted);
    struct mudax *db = open_pool(&server, -1);
    assert_int_equal(mudax_call(db, &request, &reply, &error), MUDAX_CONDITIONAL_CHECK_FAILED);
    assert_is_item(mudax_reply_item(reply));
    mudax_reply_free(reply);
    mudax_close(&db);
    fake_server_stop(&server);
    mudax_free(item);
}

static void replies_that_do_not_fit_the_request_are_errors(void **state)
{
    (void)state;
    static const struct {
        enum mudax_operation whole, part;
        enum status status;
        struct bytes body;
    } wrong[] = {
        {MUDAX_BATCH_GET_ITEM, MUDAX_GET_ITEM, STATUS_OK, BYTES_LITERAL("\x92\x91\xc0\x90")},
        {MUDAX_BATCH_GET_ITEM, MUDAX_GET_ITEM, STATUS_OK,
         BYTES_LITERAL("\x92\x92\xc0\xc0\x91\x02")},
        {MUDAX_BATCH_GET_ITEM, MUDAX_GET_ITEM, STATUS_OK, BYTES_LITERAL("\x91\x92\xc0\xc0")},
        {MUDAX_BATCH_GET_ITEM, MUDAX_GET_ITEM, STATUS_OK, BYTES_LITERAL("\x92\x92\xc0\x01\x90")},
        {MUDAX_BATCH_WRITE_ITEM, MUDAX_PUT_ITEM, STATUS_OK, BYTES_LITERAL("\x91\x02")},
        {MUDAX_BATCH_WRITE_ITEM, MUDAX_PUT_ITEM, STATUS_OK, BYTES_LITERAL("\xc0")},
        {MUDAX_TRANSACT_GET_ITEMS, MUDAX_GET_ITEM, STATUS_OK, BYTES_LITERAL("\x93\xc0\xc0\xc0")},
        {MUDAX_TRANSACT_WRITE_ITEMS, MUDAX_PUT_ITEM, STATUS_OK, BYTES_LITERAL("\x90")},
        {MUDAX_TRANSACT_WRITE_ITEMS, MUDAX_PUT_ITEM, STATUS_TRANSACTION_CANCELED,
         BYTES_LITERAL("\x91\xc0")},
        {MUDAX_TRANSACT_WRITE_ITEMS, MUDAX_PUT_ITEM, STATUS_TRANSACTION_CANCELED,
         BYTES_LITERAL("\x92\xc0\x93\x01\xc0\xc0")},
        {MUDAX_TRANSACT_WRITE_ITEMS, MUDAX_PUT_ITEM, STATUS_TRANSACTION_CANCELED,
         BYTES_LITERAL("\x92\xc0\x93\xa1x\xc0\x01")},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct mudax_reply *reply;
        struct mudax_error error;
        scripted_status = wrong[i].status;
        assert_int_equal(hear(wrong[i].whole, wrong[i].part, 2, wrong[i].body, &reply, &error),
                         MUDAX_PROTOCOL_ERROR);
        assert_null(reply);
        assert_false(error.is_retryable);
    }
}

/* ---- repetition ---- */

static void lose_first_then_answer_two(struct fake_server *server)
{
    struct request request;
    int fd = fake_accept(server);
    (void)fake_read(fd, &request);
    tell(0, request.token);
    (void)close(fd);
    fd = fake_accept(server);
    (void)fake_read(fd, &request);
    tell(1, request.token);
    struct reply reply;
    reply_init(&reply);
    reply.body =
        request.operation == OPERATION_BATCH_WRITE_ITEM ? BYTES_LITERAL("\x90") : BYTES_NONE;
    fake_send_reply(fd, &request, &reply);
    fake_wait_closed(fd);
}

static void assert_is_uuid(const char *text)
{
    assert_int_equal(strlen(text), 36);
    assert_int_equal(strspn(text, "0123456789abcdef-"), 36);
    assert_int_equal(text[14], '4');
}

static void a_transaction_is_repeated_with_its_random_token(void **state)
{
    (void)state;
    char before[64] = "";
    for (int round = 0; round < 2; round++) {
        struct fake_server server;
        struct mudax_error error;
        fake_server_start(&server, lose_first_then_answer_two);
        struct mudax *db = open_pool(&server, 0);
        assert_int_equal(
            call_parts(db, MUDAX_TRANSACT_WRITE_ITEMS, MUDAX_PUT_ITEM, 1, NULL, NULL, &error),
            MUDAX_OK);
        mudax_close(&db);
        fake_server_stop(&server);
        assert_is_uuid(told[0]);
        assert_string_equal(told[0], told[1]);
        assert_string_not_equal(told[0], before); /* another call, another token */
        memcpy(before, told[0], sizeof before);
    }
}

static void a_batch_of_writes_is_repeated_when_its_reply_is_lost(void **state)
{
    (void)state;
    struct fake_server server;
    struct mudax_error error;
    fake_server_start(&server, lose_first_then_answer_two);
    struct mudax *db = open_pool(&server, 0);
    assert_int_equal(call_parts(db, MUDAX_BATCH_WRITE_ITEM, MUDAX_PUT_ITEM, 2, NULL, NULL, &error),
                     MUDAX_OK);
    mudax_close(&db);
    fake_server_stop(&server);
    assert_string_equal(told[1], "");
    assert_int_equal(server.connections, 2);
}

static void lose_two(struct fake_server *server)
{
    for (int i = 0; i < 2; i++) {
        int fd = fake_accept(server);
        (void)fake_read(fd, NULL);
        (void)close(fd);
    }
}

static void the_caller_may_repeat_a_transaction_only_with_a_token_of_its_own(void **state)
{
    (void)state;
    struct fake_server server;
    struct mudax_error error;
    fake_server_start(&server, lose_two);
    struct mudax *db = open_pool(&server, -1);
    assert_int_equal(
        call_parts(db, MUDAX_TRANSACT_WRITE_ITEMS, MUDAX_PUT_ITEM, 1, NULL, NULL, &error),
        MUDAX_CONNECTION_LOST);
    assert_false(error.is_retryable);
    assert_non_null(strstr(error.text, "the write may or may not have happened"));
    assert_int_equal(
        call_parts(db, MUDAX_TRANSACT_WRITE_ITEMS, MUDAX_PUT_ITEM, 1, "mine", NULL, &error),
        MUDAX_CONNECTION_LOST);
    assert_true(error.is_retryable);
    mudax_close(&db);
    fake_server_stop(&server);
}

static void unknown_then_answer(struct fake_server *server)
{
    int fd = fake_accept(server);
    fake_answer(fd, fake_read(fd, NULL), STATUS_OUTCOME_UNKNOWN);
    fake_answer(fd, fake_read(fd, NULL), STATUS_OK);
    fake_wait_closed(fd);
}

static void a_transaction_is_repeated_when_its_outcome_is_unknown(void **state)
{
    (void)state;
    struct fake_server server;
    struct mudax_error error;
    fake_server_start(&server, unknown_then_answer);
    struct mudax *db = open_pool(&server, 0);
    assert_int_equal(
        call_parts(db, MUDAX_TRANSACT_WRITE_ITEMS, MUDAX_PUT_ITEM, 1, NULL, NULL, &error),
        MUDAX_OK);
    mudax_close(&db);
    fake_server_stop(&server);
}

/* ---- the pipe ---- */

struct heard {
    int code[2];
    bool is_retryable[2];
    size_t count; /* callbacks */
    size_t parts; /* of the last reply */
};

static void on_reply(void *arg, const struct mudax_reply *reply, const struct mudax_error *error)
{
    struct heard *heard = arg;
    heard->code[heard->count] = error == NULL ? (int)MUDAX_OK : error->code;
    heard->is_retryable[heard->count++] = error != NULL && error->is_retryable;
    heard->parts = mudax_reply_count(reply);
}

static void cancel_then_lose(struct fake_server *server)
{
    struct request request;
    struct reply reply;
    int fd = fake_accept(server);
    (void)fake_read(fd, &request);
    tell(0, request.token);
    reply_init(&reply);
    reply.status = reply.error.status = STATUS_TRANSACTION_CANCELED;
    reply.details = BYTES_LITERAL("\x91\x93\xa1x\xc0\xc0");
    fake_send_reply(fd, &request, &reply);
    (void)fake_read(fd, &request);
    tell(1, request.token);
    (void)close(fd);
}

static void a_pipe_hears_reasons_and_sends_no_token_but_the_callers(void **state)
{
    (void)state;
    struct fake_server server;
    struct mudax_error error;
    struct heard heard = {.count = 0};
    struct mudax_value *item = make_key();
    struct mudax_request part = {.operation = MUDAX_PUT_ITEM, .table = "users", .item = item};
    struct mudax_request request = {
        .operation = MUDAX_TRANSACT_WRITE_ITEMS, .parts = &part, .part_count = 1};
    struct mudax_pipe_options options = {.timeout_ms = 10000};
    fake_server_start(&server, cancel_then_lose);
    struct mudax_pipe *pipe = mudax_pipe_open(server.url, &options, &error);
    assert_non_null(pipe);
    assert_int_equal(mudax_pipe_submit(pipe, &request, on_reply, &heard, &error), MUDAX_OK);
    assert_int_equal(mudax_pipe_wait(pipe, -1), 1);
    assert_int_equal(heard.code[0], MUDAX_TRANSACTION_CANCELED);
    assert_int_equal(heard.parts, 1);
    request.token = "mine";
    assert_int_equal(mudax_pipe_submit(pipe, &request, on_reply, &heard, &error), MUDAX_OK);
    assert_int_equal(mudax_pipe_wait(pipe, -1), 1);
    assert_int_equal(heard.code[1], MUDAX_CONNECTION_LOST);
    assert_true(heard.is_retryable[1]);
    mudax_pipe_close(&pipe);
    fake_server_stop(&server);
    assert_string_equal(told[0], "");
    assert_string_equal(told[1], "mine");
    mudax_free(item);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_scan_says_all_that_it_is_asked_for),
        cmocka_unit_test(parts_are_sent_with_all_that_is_theirs),
        cmocka_unit_test(what_would_break_the_connection_is_not_sent),
        cmocka_unit_test(a_batch_of_gets_shows_what_is_there_and_what_is_left),
        cmocka_unit_test(a_batch_of_writes_shows_what_is_left),
        cmocka_unit_test(a_cancelled_transaction_says_why_of_each_part),
        cmocka_unit_test(a_condition_that_fails_shows_the_item),
        cmocka_unit_test(replies_that_do_not_fit_the_request_are_errors),
        cmocka_unit_test(a_transaction_is_repeated_with_its_random_token),
        cmocka_unit_test(a_batch_of_writes_is_repeated_when_its_reply_is_lost),
        cmocka_unit_test(the_caller_may_repeat_a_transaction_only_with_a_token_of_its_own),
        cmocka_unit_test(a_transaction_is_repeated_when_its_outcome_is_unknown),
        cmocka_unit_test(a_pipe_hears_reasons_and_sends_no_token_but_the_callers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
