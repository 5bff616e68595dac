#include "clients/c/include/mudax.h"
#include "tests/unit/clients/fake_server.h"

#include <stdarg.h>

#include <setjmp.h>

#include <cmocka.h>

#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* {"id": 7} */
#define ITEM BYTES_LITERAL("\x81\xa2id\x07")

static struct mudax *open_pool(const struct fake_server *server, uint32_t timeout_ms)
{
    struct mudax_error error;
    struct mudax_options options = {.timeout_ms = timeout_ms};
    struct mudax *db = mudax_open(server->url, &options, &error);
    assert_non_null(db);
    return db;
}

static int get(struct mudax *db, struct mudax_reply **reply, struct mudax_error *error)
{
    struct mudax_value *key = mudax_map();
    (void)mudax_put(key, "id", mudax_int(7));
    int code = mudax_get_item(db, "users", key, reply, error);
    mudax_free(key);
    return code;
}

static int put(struct mudax *db, struct mudax_error *error)
{
    struct mudax_value *item = mudax_map();
    (void)mudax_put(item, "id", mudax_int(7));
    int code = mudax_put_item(db, "users", item, error);
    mudax_free(item);
    return code;
}

static void assert_get_works(struct mudax *db)
{
    struct mudax_reply *reply;
    struct mudax_error error;
    int64_t id = 0;
    assert_int_equal(get(db, &reply, &error), MUDAX_OK);
    assert_true(mudax_as_int(mudax_get(mudax_reply_item(reply), "id"), &id));
    assert_int_equal(id, 7);
    mudax_reply_free(reply);
}

static uint64_t now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* ---- replies ---- */

static void answer_byte_by_byte(struct fake_server *server)
{
    struct buffer out = {0};
    struct request request;
    int fd = fake_accept(server);
    fake_write_reply(fake_read(fd, &request), STATUS_OK, ITEM, &out);
    server->frame_max = request.timeout_ms; /* for the test to look at */
    for (size_t i = 0; i < out.size; i++)
        fake_send(fd, bytes_of(out.data + i, 1));
    buffer_deinit(&out);
    fake_wait_closed(fd);
}

static void a_reply_in_pieces_is_put_together(void **state)
{
    (void)state;
    struct fake_server server;
    fake_server_start(&server, answer_byte_by_byte);
    struct mudax *db = open_pool(&server, 5000);
    assert_get_works(db);
    mudax_close(&db);
    fake_server_stop(&server);
    /* The daemon is told a little less than what is left, so that it speaks first. */
    assert_in_range(server.frame_max, 4000, 4999);
}

static void answer_large_page(struct fake_server *server)
{
    struct buffer body = {0}, out = {0};
    int fd = fake_accept(server);
    uint64_t id = fake_read(fd, NULL);
    assert_true(buffer_append(&body, BYTES_LITERAL("\x93\xdd\x00\x03\x0d\x40")));
    for (int i = 0; i < 200000; i++)
        assert_true(buffer_append(&body, ITEM));
    assert_true(buffer_append(&body, BYTES_LITERAL("\xce\x00\x03\x0d\x40\x81\xa2id\x07")));
    fake_write_reply(id, STATUS_OK, buffer_bytes(&body), &out);
    fake_send(fd, buffer_bytes(&out));
    buffer_deinit(&body);
    buffer_deinit(&out);
    fake_wait_closed(fd);
}

static void a_page_of_many_items_is_read_whole(void **state)
{
    (void)state;
    struct fake_server server;
    struct mudax_reply *reply;
    struct mudax_error error;
    int64_t id = 0;
    fake_server_start(&server, answer_large_page);
    struct mudax *db = open_pool(&server, 20000);
    assert_int_equal(mudax_query(db, "users", "id = :v", NULL, &reply, &error), MUDAX_OK);
    assert_int_equal(mudax_reply_count(reply), 200000);
    assert_int_equal(mudax_reply_scanned_count(reply), 200000);
    assert_true(mudax_as_int(mudax_get(mudax_reply_item_at(reply, 199999), "id"), &id));
    assert_int_equal(id, 7);
    assert_null(mudax_reply_item_at(reply, 200000));
    assert_int_equal(mudax_count(mudax_reply_last_key(reply)), 1);
    mudax_reply_free(reply);
    mudax_close(&db);
    fake_server_stop(&server);
}

static void answer_wrong_id(struct fake_server *server)
{
    int fd = fake_accept(server);
    fake_answer_item(fd, fake_read(fd, NULL) + 1, ITEM);
    fake_wait_closed(fd);
}

static void a_reply_to_a_request_never_made_is_an_error(void **state)
{
    (void)state;
    struct fake_server server;
    struct mudax_reply *reply;
    struct mudax_error error;
    fake_server_start(&server, answer_wrong_id);
    struct mudax *db = open_pool(&server, 5000);
    assert_int_equal(get(db, &reply, &error), MUDAX_PROTOCOL_ERROR);
    assert_string_equal(error.name, "MudaxProtocolError");
    assert_null(reply);
    mudax_close(&db);
    fake_server_stop(&server);
}

static void answer_http(struct fake_server *server)
{
    int fd = fake_accept(server);
    (void)fake_read(fd, NULL);
    fake_send(fd, BYTES_LITERAL("HTTP/1.1 400 Bad Request\r\n\r\n"));
    fake_wait_closed(fd);
}

static void another_protocol_is_recognised(void **state)
{
    (void)state;
    struct fake_server server;
    struct mudax_error error;
    fake_server_start(&server, answer_http);
    struct mudax *db = open_pool(&server, 5000);
    assert_int_equal(put(db, &error), MUDAX_PROTOCOL_ERROR);
    assert_non_null(strstr(error.text, "may not speak mudax's native protocol"));
    mudax_close(&db);
    fake_server_stop(&server);
}

static void answer_wrong_shape(struct fake_server *server)
{
    int fd = fake_accept(server);
    fake_answer_item(fd, fake_read(fd, NULL), BYTES_LITERAL("\xc3")); /* true is no item */
    fake_wait_closed(fd);
}

static void a_reply_of_the_wrong_shape_is_an_error_and_never_no_item(void **state)
{
    (void)state;
    struct fake_server server;
    struct mudax_reply *reply;
    struct mudax_error error;
    fake_server_start(&server, answer_wrong_shape);
    struct mudax *db = open_pool(&server, 5000);
    assert_int_equal(get(db, &reply, &error), MUDAX_PROTOCOL_ERROR);
    assert_null(reply);
    mudax_close(&db);
    fake_server_stop(&server);
}

/* ---- lost connections ---- */

static void lose_first_answer_second(struct fake_server *server)
{
    struct buffer out = {0};
    int fd = fake_accept(server);
    fake_write_reply(fake_read(fd, NULL), STATUS_OK, ITEM, &out);
    fake_send(fd, bytes_of(out.data, out.size / 2));
    buffer_deinit(&out);
    (void)close(fd);
    fd = fake_accept(server);
    fake_answer_item(fd, fake_read(fd, NULL), ITEM);
    fake_wait_closed(fd);
}

static void a_read_is_asked_again_when_the_connection_is_lost_amid_its_reply(void **state)
{
    (void)state;
    struct fake_server server;
    fake_server_start(&server, lose_first_answer_second);
    struct mudax *db = open_pool(&server, 5000);
    assert_get_works(db);
    mudax_close(&db);
    fake_server_stop(&server);
    assert_int_equal(server.connections, 2);
}

static void lose_all(struct fake_server *server)
{
    int fd = fake_accept(server);
    (void)fake_read(fd, NULL);
    (void)close(fd);
}

static void a_write_is_not_repeated_when_its_reply_is_lost(void **state)
{
    (void)state;
    struct fake_server server;
    struct mudax_error error;
    fake_server_start(&server, lose_all);
    struct mudax *db = open_pool(&server, 5000);
    assert_int_equal(put(db, &error), MUDAX_CONNECTION_LOST);
    assert_string_equal(error.name, "MudaxConnectionLost");
    assert_false(error.is_retryable);
    assert_non_null(strstr(error.text, "the write may or may not have happened"));
    mudax_close(&db);
    fake_server_stop(&server);
    assert_int_equal(server.connections, 1);
}

static void answer_then_close_then_answer(struct fake_server *server)
{
    int fd = fake_accept(server);
    fake_answer(fd, fake_read(fd, NULL), STATUS_OK);
    (void)close(fd);
    (void)sem_post(&server->event);
    fd = fake_accept(server);
    fake_answer(fd, fake_read(fd, NULL), STATUS_OK);
    fake_wait_closed(fd);
}

static void a_connection_that_was_closed_while_idle_is_not_used_for_a_write(void **state)
{
    (void)state;
    struct fake_server server;
    struct mudax_error error;
    fake_server_start_tcp(&server, answer_then_close_then_answer);
    struct mudax *db = open_pool(&server, 5000);
    assert_int_equal(put(db, &error), MUDAX_OK);
    (void)sem_wait(&server.event);
    assert_int_equal(put(db, &error), MUDAX_OK);
    mudax_close(&db);
    fake_server_stop(&server);
    assert_int_equal(server.connections, 2);
}

static void close_on_second_request(struct fake_server *server)
{
    int fd = fake_accept(server);
    fake_answer_item(fd, fake_read(fd, NULL), ITEM);
    (void)fake_read(fd, NULL);
    (void)close(fd);
    fd = fake_accept(server);
    fake_answer_item(fd, fake_read(fd, NULL), ITEM);
    fake_wait_closed(fd);
}

static void a_read_on_a_stale_connection_costs_no_retry(void **state)
{
    (void)state;
    struct fake_server server;
    struct mudax_error error;
    fake_server_start(&server, close_on_second_request);
    struct mudax_options options = {.timeout_ms = 5000, .retries_max = -1};
    struct mudax *db = mudax_open(server.url, &options, &error);
    assert_get_works(db);
    assert_get_works(db);
    mudax_close(&db);
    fake_server_stop(&server);
    assert_int_equal(server.connections, 2);
}

static void close_what_was_idle(struct fake_server *server)
{
    struct pollfd fds[2];
    uint64_t ids[2];
    for (int i = 0; i < 2; i++) { /* in use together, so there are two */
        fds[i] = (struct pollfd){.fd = fake_accept(server), .events = POLLIN};
        ids[i] = fake_read(fds[i].fd, NULL);
    }
    for (int i = 0; i < 2; i++)
        fake_answer_item(fds[i].fd, ids[i], ITEM);
    (void)poll(fds, 2, 10000);
    (void)fake_read((fds[0].revents & POLLIN) != 0 ? fds[0].fd : fds[1].fd, NULL);
    (void)close(fds[0].fd);
    (void)close(fds[1].fd);
    int fd = fake_accept(server);
    fake_answer_item(fd, fake_read(fd, NULL), ITEM);
    fake_wait_closed(fd);
}

static void *get_in_thread(void *arg)
{
    struct mudax_error error;
    struct mudax_reply *reply;
    (void)get(arg, &reply, &error);
    mudax_reply_free(reply);
    return NULL;
}

static void one_stale_connection_is_enough_to_mistrust_all(void **state)
{
    (void)state;
    struct fake_server server;
    pthread_t thread;
    fake_server_start(&server, close_what_was_idle);
    struct mudax_options options = {.timeout_ms = 5000, .retries_max = -1};
    struct mudax *db = mudax_open(server.url, &options, NULL);
    assert_int_equal(pthread_create(&thread, NULL, get_in_thread, db), 0);
    assert_get_works(db);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_get_works(db);
    mudax_close(&db);
    fake_server_stop(&server);
    assert_int_equal(server.connections, 3);
}

static void nobody_listens_is_said_at_once(void **state)
{
    (void)state;
    struct mudax_error error;
    struct mudax_options options = {.timeout_ms = 60000};
    struct mudax *db = mudax_open("mudax+unix:/nonexistent/mudax.sock", &options, &error);
    uint64_t begun_ms = now_ms();
    assert_int_equal(put(db, &error), MUDAX_CONNECT_ERROR);
    assert_true(now_ms() - begun_ms < 10000); /* retries and all */
    assert_true(error.is_retryable);
    assert_non_null(strstr(error.text, "no such socket; is mudaxd running there?"));
    mudax_close(&db);
}

/* ---- answers that are errors ---- */

static void throttle_then_answer(struct fake_server *server)
{
    int fd = fake_accept(server);
    fake_answer(fd, fake_read(fd, NULL), STATUS_THROTTLED);
    fake_answer(fd, fake_read(fd, NULL), STATUS_OK);
    fake_wait_closed(fd);
}

static void a_write_is_repeated_when_the_daemon_says_that_nothing_happened(void **state)
{
    (void)state;
    struct fake_server server;
    struct mudax_error error;
    fake_server_start(&server, throttle_then_answer);
    struct mudax *db = open_pool(&server, 5000);
    assert_int_equal(put(db, &error), MUDAX_OK);
    mudax_close(&db);
    fake_server_stop(&server);
}

static void answer_unknown_outcomes(struct fake_server *server)
{
    int fd = fake_accept(server);
    fake_answer(fd, fake_read(fd, NULL), STATUS_OUTCOME_UNKNOWN);
    fake_answer(fd, fake_read(fd, NULL), STATUS_INTERNAL);
    fake_answer(fd, fake_read(fd, NULL), STATUS_TIMEOUT);
    fake_answer(fd, fake_read(fd, NULL), STATUS_VALIDATION);
    fake_wait_closed(fd);
}

static void a_write_is_not_repeated_when_its_outcome_is_open(void **state)
{
    (void)state;
    struct fake_server server;
    struct mudax_error error;
    fake_server_start(&server, answer_unknown_outcomes);
    struct mudax *db = open_pool(&server, 5000);
    assert_int_equal(put(db, &error), MUDAX_OUTCOME_UNKNOWN);
    assert_string_equal(error.name, "InternalServerError");
    assert_false(error.is_retryable);
    assert_int_equal(put(db, &error), MUDAX_INTERNAL);
    assert_false(error.is_retryable);
    assert_int_equal(put(db, &error), MUDAX_STORE_TIMEOUT);
    assert_int_equal(put(db, &error), MUDAX_VALIDATION);
    assert_string_equal(error.name, "ValidationException");
    assert_string_equal(error.text, "One or more parameter values were invalid");
    mudax_close(&db);
    fake_server_stop(&server);
    assert_int_equal(server.connections, 1);
}

static void throttle_for_ever(struct fake_server *server)
{
    int fd = fake_accept(server);
    for (int i = 0; i < 4; i++)
        fake_answer(fd, fake_read(fd, NULL), STATUS_THROTTLED);
    fake_wait_closed(fd); /* a fifth request would be swallowed and time out */
}

static void retries_end(void **state)
{
    (void)state;
    struct fake_server server;
    struct mudax_error error;
    fake_server_start(&server, throttle_for_ever);
    struct mudax *db = open_pool(&server, 20000);
    assert_int_equal(put(db, &error), MUDAX_THROTTLED);
    assert_true(error.is_retryable);
    mudax_close(&db);
    fake_server_stop(&server);
}

static void refuse_connection(struct fake_server *server)
{
    int fd = fake_accept(server);
    (void)fake_read(fd, NULL);
    fake_answer(fd, 0, STATUS_TOO_LARGE);
    int next = fake_accept(server); /* nothing more comes on the first */
    fake_answer(next, fake_read(next, NULL), STATUS_OK);
    fake_wait_closed(fd);
    fake_wait_closed(next);
}

static void the_daemons_word_on_the_connection_is_passed_on(void **state)
{
    (void)state;
    struct fake_server server;
    struct mudax_error error;
    fake_server_start(&server, refuse_connection);
    struct mudax *db = open_pool(&server, 5000);
    assert_int_equal(put(db, &error), MUDAX_TOO_LARGE);
    assert_string_equal(error.name, "RequestEntityTooLarge");
    assert_int_equal(put(db, &error), MUDAX_OK);
    mudax_close(&db);
    fake_server_stop(&server);
}

static void refuse_half_a_request(struct fake_server *server)
{
    uint8_t bytes[16];
    server->frame_max = FRAME_SIZE_MAX;
    int fd = fake_accept(server);
    assert_int_equal(recv(fd, bytes, sizeof bytes, MSG_WAITALL), sizeof bytes);
    fake_answer(fd, 0, STATUS_TOO_LARGE);
    (void)close(fd);
}

static void the_daemons_word_is_heard_although_it_takes_no_more(void **state)
{
    (void)state;
    enum { SIZE = 8 * 1024 * 1024 }; /* more than a socket holds */
    struct fake_server server;
    struct mudax_error error;
    char *large = calloc(1, SIZE);
    fake_server_start(&server, refuse_half_a_request);
    struct mudax *db = open_pool(&server, 5000);
    struct mudax_value *item = mudax_map();
    (void)mudax_put(item, "data", mudax_binary(large, SIZE));
    assert_int_equal(mudax_put_item(db, "users", item, &error), MUDAX_TOO_LARGE);
    mudax_free(item);
    free(large);
    mudax_close(&db);
    fake_server_stop(&server);
}

static void greet_with_version_2(struct fake_server *server)
{
    server->version = 2;
    fake_wait_closed(fake_accept(server));
}

static void a_daemon_of_another_version_is_refused(void **state)
{
    (void)state;
    struct fake_server server;
    struct mudax_error error;
    fake_server_start(&server, greet_with_version_2);
    struct mudax *db = open_pool(&server, 5000);
    assert_int_equal(put(db, &error), MUDAX_PROTOCOL_ERROR);
    assert_non_null(strstr(error.text, "native protocol, version 1"));
    mudax_close(&db);
    fake_server_stop(&server);
}

static void answer_small_frames(struct fake_server *server)
{
    server->frame_max = FRAME_SIZE_MIN;
    int fd = fake_accept(server);
    fake_answer(fd, fake_read(fd, NULL), STATUS_OK);
    fake_answer(fd, fake_read(fd, NULL), STATUS_OK);
    fake_wait_closed(fd);
}

static void a_request_beyond_the_daemons_limit_is_not_sent(void **state)
{
    (void)state;
    static char large[FRAME_SIZE_MIN];
    struct fake_server server;
    struct mudax_error error;
    fake_server_start(&server, answer_small_frames);
    struct mudax *db = open_pool(&server, 5000);
    struct mudax_value *item = mudax_map();
    (void)mudax_put(item, "data", mudax_binary(large, sizeof large));
    assert_int_equal(put(db, &error), MUDAX_OK);
    assert_int_equal(mudax_put_item(db, "users", item, &error), MUDAX_TOO_LARGE);
    assert_non_null(strstr(error.text, "the daemon takes 65536 (its setting max-frame)"));
    assert_int_equal(put(db, &error), MUDAX_OK); /* on the same connection */
    mudax_free(item);
    mudax_close(&db);
    fake_server_stop(&server);
    assert_int_equal(server.connections, 1);
}

/* ---- deadlines ---- */

static void never_answer(struct fake_server *server)
{
    int fd = fake_accept(server);
    (void)fake_read(fd, NULL);
    (void)sem_post(&server->event);
    fake_wait_closed(fd);
}

static void a_slow_reply_ends_the_call_at_its_deadline(void **state)
{
    (void)state;
    struct fake_server server;
    struct mudax_error error;
    fake_server_start(&server, never_answer);
    struct mudax *db = open_pool(&server, 50);
    uint64_t begun_ms = now_ms();
    assert_int_equal(put(db, &error), MUDAX_TIMEOUT);
    uint64_t took_ms = now_ms() - begun_ms;
    assert_in_range(took_ms, 49, 5000);
    assert_false(error.is_retryable);
    assert_non_null(strstr(error.text, "did not answer within 50 ms, the timeout of the call"));
    assert_non_null(strstr(error.text, "the write may or may not have happened"));
    mudax_close(&db);
    fake_server_stop(&server);
}

static void accept_nobody(struct fake_server *server)
{
    (void)sem_wait(&server->event);
}

static void a_daemon_that_does_not_greet_ends_the_call_too(void **state)
{
    (void)state;
    struct fake_server server;
    struct mudax_error error;
    struct mudax_reply *reply;
    fake_server_start(&server, accept_nobody);
    struct mudax *db = open_pool(&server, 50);
    assert_int_equal(get(db, &reply, &error), MUDAX_TIMEOUT);
    assert_true(error.is_retryable);
    mudax_close(&db);
    (void)sem_post(&server.event);
    fake_server_stop(&server);
}

static void *put_in_thread(void *arg)
{
    struct mudax_error error;
    (void)put(arg, &error);
    return NULL;
}

static void waiting_for_a_connection_counts_too(void **state)
{
    (void)state;
    struct fake_server server;
    struct mudax_error error;
    struct mudax_value *key = mudax_map();
    pthread_t thread;
    fake_server_start(&server, never_answer);
    struct mudax_options options = {.connections_max = 1, .timeout_ms = 1000};
    struct mudax *db = mudax_open(server.url, &options, &error);
    assert_int_equal(pthread_create(&thread, NULL, put_in_thread, db), 0);
    (void)sem_wait(&server.event); /* the only connection is in use */
    struct mudax_request request = {
        .operation = MUDAX_GET_ITEM, .table = "users", .key = key, .timeout_ms = 20};
    assert_int_equal(mudax_call(db, &request, NULL, &error), MUDAX_TIMEOUT);
    assert_non_null(strstr(error.text, "All 1 connections of the pool were in use for 20 ms"));
    assert_int_equal(pthread_join(thread, NULL), 0);
    mudax_free(key);
    mudax_close(&db);
    fake_server_stop(&server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reply_in_pieces_is_put_together),
        cmocka_unit_test(a_page_of_many_items_is_read_whole),
        cmocka_unit_test(a_reply_to_a_request_never_made_is_an_error),
        cmocka_unit_test(another_protocol_is_recognised),
        cmocka_unit_test(a_reply_of_the_wrong_shape_is_an_error_and_never_no_item),
        cmocka_unit_test(a_read_is_asked_again_when_the_connection_is_lost_amid_its_reply),
        cmocka_unit_test(a_write_is_not_repeated_when_its_reply_is_lost),
        cmocka_unit_test(a_connection_that_was_closed_while_idle_is_not_used_for_a_write),
        cmocka_unit_test(a_read_on_a_stale_connection_costs_no_retry),
        cmocka_unit_test(one_stale_connection_is_enough_to_mistrust_all),
        cmocka_unit_test(nobody_listens_is_said_at_once),
        cmocka_unit_test(a_write_is_repeated_when_the_daemon_says_that_nothing_happened),
        cmocka_unit_test(a_write_is_not_repeated_when_its_outcome_is_open),
        cmocka_unit_test(retries_end),
        cmocka_unit_test(the_daemons_word_on_the_connection_is_passed_on),
        cmocka_unit_test(the_daemons_word_is_heard_although_it_takes_no_more),
        cmocka_unit_test(a_daemon_of_another_version_is_refused),
        cmocka_unit_test(a_request_beyond_the_daemons_limit_is_not_sent),
        cmocka_unit_test(a_slow_reply_ends_the_call_at_its_deadline),
        cmocka_unit_test(a_daemon_that_does_not_greet_ends_the_call_too),
        cmocka_unit_test(waiting_for_a_connection_counts_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
