#include "clients/c/include/mudax.h"
#include "tests/unit/clients/fake_server.h"

#include <stdarg.h>

#include <setjmp.h>

#include <cmocka.h>

#include <stdlib.h>
#include <unistd.h>

enum { CALLS = 3 };

/* What the callback of one call was given. */
struct outcome {
    int runs;
    int code;
    bool is_retryable;
    int64_t id;
};

static void on_reply(void *arg, const struct mudax_reply *reply, const struct mudax_error *error)
{
    struct outcome *outcome = arg;
    outcome->runs++;
    outcome->code = error == NULL ? MUDAX_OK : error->code;
    outcome->is_retryable = error != NULL && error->is_retryable;
    if (reply != NULL)
        (void)mudax_as_int(mudax_get(mudax_reply_item(reply), "id"), &outcome->id);
}

static struct mudax_pipe *open_pipe(const struct fake_server *server, uint32_t in_flight_max)
{
    struct mudax_pipe_options options = {.in_flight_max = in_flight_max, .timeout_ms = 10000};
    struct mudax_pipe *pipe = mudax_pipe_open(server->url, &options, NULL);
    assert_non_null(pipe);
    return pipe;
}

static int submit(struct mudax_pipe *pipe, enum mudax_operation operation, uint32_t timeout_ms,
                  struct outcome *outcome, struct mudax_error *error)
{
    struct mudax_value *map = mudax_map();
    (void)mudax_put(map, "id", mudax_int(1));
    struct mudax_request request = {.operation = operation,
                                    .table = "users",
                                    .key = operation == MUDAX_PUT_ITEM ? NULL : map,
                                    .item = operation == MUDAX_PUT_ITEM ? map : NULL,
                                    .timeout_ms = timeout_ms};
    int code = mudax_pipe_submit(pipe, &request, on_reply, outcome, error);
    mudax_free(map);
    return code;
}

static void wait_for_all(struct mudax_pipe *pipe)
{
    while (mudax_pipe_pending(pipe) > 0)
        (void)mudax_pipe_wait(pipe, -1);
}

/* {"id": number} */
static void answer_number(int fd, uint64_t id, uint8_t number)
{
    uint8_t item[] = {0x81, 0xa2, 'i', 'd', number};
    fake_answer_item(fd, id, bytes_of(item, sizeof item));
}

static void answer_backwards(struct fake_server *server)
{
    uint64_t ids[CALLS];
    int fd = fake_accept(server);
    for (int i = 0; i < CALLS; i++)
        ids[i] = fake_read(fd, NULL);
    for (int i = CALLS - 1; i >= 0; i--)
        answer_number(fd, ids[i], (uint8_t)i);
    fake_wait_closed(fd);
}

static void replies_in_any_order_reach_their_own_calls(void **state)
{
    (void)state;
    struct fake_server server;
    struct outcome outcomes[CALLS] = {0};
    fake_server_start(&server, answer_backwards);
    struct mudax_pipe *pipe = open_pipe(&server, CALLS);
    for (int i = 0; i < CALLS; i++)
        assert_int_equal(submit(pipe, MUDAX_GET_ITEM, 0, &outcomes[i], NULL), MUDAX_OK);
    assert_int_equal(mudax_pipe_pending(pipe), CALLS);
    wait_for_all(pipe);
    for (int i = 0; i < CALLS; i++) {
        assert_int_equal(outcomes[i].runs, 1);
        assert_int_equal(outcomes[i].code, MUDAX_OK);
        assert_int_equal(outcomes[i].id, i);
    }
    mudax_pipe_close(&pipe);
    fake_server_stop(&server);
}

static void a_full_pipe_refuses_and_goes_on(void **state)
{
    (void)state;
    struct fake_server server;
    struct mudax_error error;
    struct outcome outcomes[CALLS] = {0}, refused = {0};
    fake_server_start(&server, answer_backwards);
    struct mudax_pipe *pipe = open_pipe(&server, CALLS);
    for (int i = 0; i < CALLS; i++)
        assert_int_equal(submit(pipe, MUDAX_GET_ITEM, 0, &outcomes[i], NULL), MUDAX_OK);
    assert_int_equal(submit(pipe, MUDAX_GET_ITEM, 0, &refused, &error), MUDAX_PIPE_FULL);
    assert_string_equal(error.name, "MudaxPipeFull");
    assert_true(error.is_retryable);
    wait_for_all(pipe);
    assert_int_equal(refused.runs, 0);
    assert_int_equal(outcomes[CALLS - 1].runs, 1);
    mudax_pipe_close(&pipe);
    fake_server_stop(&server);
}

static void answer_late(struct fake_server *server)
{
    int fd = fake_accept(server);
    uint64_t late = fake_read(fd, NULL);
    uint64_t second = fake_read(fd, NULL); /* submitted behind the first one's deadline */
    answer_number(fd, late, 1);
    answer_number(fd, second, 2);
    fake_wait_closed(fd);
}

static void a_reply_behind_its_deadline_is_passed_over(void **state)
{
    (void)state;
    struct fake_server server;
    struct outcome first = {0}, second = {0};
    fake_server_start(&server, answer_late);
    struct mudax_pipe *pipe = open_pipe(&server, 1); /* so both have the same place */
    assert_int_equal(submit(pipe, MUDAX_PUT_ITEM, 20, &first, NULL), MUDAX_OK);
    assert_in_range(mudax_pipe_timeout_ms(pipe), 0, 20);
    wait_for_all(pipe);
    assert_int_equal(first.code, MUDAX_TIMEOUT);
    assert_false(first.is_retryable);
    assert_int_equal(submit(pipe, MUDAX_GET_ITEM, 0, &second, NULL), MUDAX_OK);
    wait_for_all(pipe);
    assert_int_equal(first.runs, 1);
    assert_int_equal(second.code, MUDAX_OK);
    assert_int_equal(second.id, 2);
    mudax_pipe_close(&pipe);
    fake_server_stop(&server);
}

static void accept_and_wait(struct fake_server *server)
{
    fake_wait_closed(fake_accept(server));
}

static void every_call_has_a_deadline_of_its_own(void **state)
{
    (void)state;
    struct fake_server server;
    struct outcome outcomes[2] = {0};
    fake_server_start(&server, accept_and_wait);
    struct mudax_pipe *pipe = open_pipe(&server, 4);
    assert_int_equal(submit(pipe, MUDAX_GET_ITEM, 1000, &outcomes[0], NULL), MUDAX_OK);
    assert_int_equal(submit(pipe, MUDAX_GET_ITEM, 20, &outcomes[1], NULL), MUDAX_OK);
    assert_int_equal(mudax_pipe_wait(pipe, 5000), 1);
    assert_int_equal(outcomes[1].code, MUDAX_TIMEOUT);
    assert_int_equal(outcomes[0].runs, 0);
    assert_int_equal(mudax_pipe_wait(pipe, 5000), 1);
    assert_int_equal(outcomes[0].code, MUDAX_TIMEOUT);
    assert_int_equal(mudax_pipe_timeout_ms(pipe), -1);
    mudax_pipe_close(&pipe);
    fake_server_stop(&server);
}

static void answer_one_then_close(struct fake_server *server)
{
    uint64_t ids[CALLS];
    int fd = fake_accept(server);
    for (int i = 0; i < CALLS; i++)
        ids[i] = fake_read(fd, NULL);
    answer_number(fd, ids[1], 1);
    (void)close(fd);
}

static void a_lost_connection_ends_what_is_pending_once(void **state)
{
    (void)state;
    struct fake_server server;
    struct mudax_error error;
    struct outcome outcomes[CALLS] = {0}, refused = {0};
    fake_server_start(&server, answer_one_then_close);
    struct mudax_pipe *pipe = open_pipe(&server, 8);
    assert_int_equal(submit(pipe, MUDAX_PUT_ITEM, 0, &outcomes[0], NULL), MUDAX_OK);
    assert_int_equal(submit(pipe, MUDAX_GET_ITEM, 0, &outcomes[1], NULL), MUDAX_OK);
    assert_int_equal(submit(pipe, MUDAX_GET_ITEM, 0, &outcomes[2], NULL), MUDAX_OK);
    wait_for_all(pipe);
    assert_int_equal(outcomes[0].code, MUDAX_CONNECTION_LOST);
    assert_false(outcomes[0].is_retryable);
    assert_int_equal(outcomes[1].code, MUDAX_OK);
    assert_int_equal(outcomes[1].id, 1);
    assert_int_equal(outcomes[2].code, MUDAX_CONNECTION_LOST);
    assert_true(outcomes[2].is_retryable);
    assert_int_equal(mudax_pipe_fd(pipe), -1);
    assert_int_equal(submit(pipe, MUDAX_GET_ITEM, 0, &refused, &error), MUDAX_CONNECTION_LOST);
    mudax_pipe_close(&pipe);
    for (int i = 0; i < CALLS; i++)
        assert_int_equal(outcomes[i].runs, 1);
    assert_int_equal(refused.runs, 0);
    fake_server_stop(&server);
}

static void answer_what_was_never_asked(struct fake_server *server)
{
    int fd = fake_accept(server);
    answer_number(fd, fake_read(fd, NULL) + 1000, 1);
    fake_wait_closed(fd);
}

static void a_reply_to_a_request_never_made_ends_the_pipe(void **state)
{
    (void)state;
    struct fake_server server;
    struct outcome outcome = {0};
    fake_server_start(&server, answer_what_was_never_asked);
    struct mudax_pipe *pipe = open_pipe(&server, 4);
    assert_int_equal(submit(pipe, MUDAX_GET_ITEM, 0, &outcome, NULL), MUDAX_OK);
    wait_for_all(pipe);
    assert_int_equal(outcome.code, MUDAX_PROTOCOL_ERROR);
    mudax_pipe_close(&pipe);
    fake_server_stop(&server);
}

static void closing_ends_what_is_pending(void **state)
{
    (void)state;
    struct fake_server server;
    struct outcome outcomes[2] = {0};
    fake_server_start(&server, accept_and_wait);
    struct mudax_pipe *pipe = open_pipe(&server, 4);
    (void)mudax_pipe_process(pipe); /* sends the Hello */
    assert_int_equal(submit(pipe, MUDAX_PUT_ITEM, 0, &outcomes[0], NULL), MUDAX_OK);
    assert_true(mudax_pipe_wants_write(pipe));
    (void)mudax_pipe_process(pipe);
    assert_false(mudax_pipe_wants_write(pipe));
    assert_int_equal(submit(pipe, MUDAX_PUT_ITEM, 0, &outcomes[1], NULL), MUDAX_OK);
    mudax_pipe_close(&pipe);
    assert_null(pipe);
    assert_int_equal(outcomes[0].code, MUDAX_CLOSED);
    assert_false(outcomes[0].is_retryable); /* it was sent */
    assert_int_equal(outcomes[1].code, MUDAX_CLOSED);
    assert_true(outcomes[1].is_retryable); /* it was not */
    fake_server_stop(&server);
}

static void nobody_listens_is_said_when_opening(void **state)
{
    (void)state;
    struct mudax_error error;
    assert_null(mudax_pipe_open("mudax+unix:/nonexistent/mudax.sock", NULL, &error));
    assert_int_equal(error.code, MUDAX_CONNECT_ERROR);
}

/* ---- a callback that submits ---- */

struct chain {
    struct mudax_pipe *pipe;
    int left, replies;
};

static void on_link(void *arg, const struct mudax_reply *reply, const struct mudax_error *error)
{
    struct chain *chain = arg;
    struct mudax_request request = {.operation = MUDAX_PING};
    (void)reply;
    assert_null(error);
    chain->replies++;
    if (chain->left-- > 0)
        assert_int_equal(mudax_pipe_submit(chain->pipe, &request, on_link, chain, NULL), MUDAX_OK);
}

static void answer_pings(struct fake_server *server)
{
    int fd = fake_accept(server);
    for (int i = 0; i < 101; i++)
        fake_answer(fd, fake_read(fd, NULL), STATUS_OK);
    fake_wait_closed(fd);
}

static void callbacks_may_submit(void **state)
{
    (void)state;
    struct fake_server server;
    fake_server_start(&server, answer_pings);
    struct chain chain = {.pipe = open_pipe(&server, 1), .left = 100};
    struct mudax_request request = {.operation = MUDAX_PING};
    assert_int_equal(mudax_pipe_submit(chain.pipe, &request, on_link, &chain, NULL), MUDAX_OK);
    wait_for_all(chain.pipe);
    assert_int_equal(chain.replies, 101);
    mudax_pipe_close(&chain.pipe);
    fake_server_stop(&server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replies_in_any_order_reach_their_own_calls),
        cmocka_unit_test(a_full_pipe_refuses_and_goes_on),
        cmocka_unit_test(a_reply_behind_its_deadline_is_passed_over),
        cmocka_unit_test(every_call_has_a_deadline_of_its_own),
        cmocka_unit_test(a_lost_connection_ends_what_is_pending_once),
        cmocka_unit_test(a_reply_to_a_request_never_made_ends_the_pipe),
        cmocka_unit_test(closing_ends_what_is_pending),
        cmocka_unit_test(nobody_listens_is_said_when_opening),
        cmocka_unit_test(callbacks_may_submit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
