#include "clients/c/src/channel.h"
#include "tests/unit/clients/fake_server.h"

#include <stdarg.h>

#include <setjmp.h>

#include <cmocka.h>

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <unistd.h>

/* Two places: one that swallows every attempt to connect, and the fake server. */
struct places {
    struct addresses addresses;
    int listener, filler;
};

/* A listener whose queue is full lets a further SYN wait for ever. */
static void places_init(struct places *places, const struct fake_server *server)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    places->listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(places->listener, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(places->listener, 0), 0);
    assert_int_equal(getsockname(places->listener, (struct sockaddr *)&address, &size), 0);
    places->filler = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(places->filler, (struct sockaddr *)&address, size), 0);
    assert_int_equal(addresses_find(server->url, &places->addresses, NULL), MUDAX_OK);
    places->addresses.list[1] = places->addresses.list[0];
    memcpy(&places->addresses.list[0].storage, &address, size);
    places->addresses.list[0].size = size;
    places->addresses.count = 2;
}

static void places_deinit(struct places *places)
{
    (void)close(places->filler);
    (void)close(places->listener);
}

static void accept_and_wait(struct fake_server *server)
{
    fake_wait_closed(fake_accept(server));
}

static void an_address_that_does_not_answer_leaves_time_for_the_next(void **state)
{
    (void)state;
    struct fake_server server;
    struct places places;
    struct channel channel;
    struct frame_reply reply;
    struct mudax_error error;
    fake_server_start(&server, accept_and_wait);
    places_init(&places, &server);
    assert_true(channel_open(&channel, &places.addresses, 0, 1000)); /* until 1 ms after 0 */
    assert_true(channel.is_connecting);
    assert_int_equal(channel.connect_until_us, 500);
    assert_true(channel_flush(&channel, 499));
    assert_true(channel.is_connecting);
    assert_int_equal(channel.address, 0);
    assert_true(channel_flush(&channel, 500)); /* the other address has its turn */
    assert_int_equal(channel.address, 1);
    assert_false(channel_wants_write(&channel)); /* the Hello has left */
    while (!channel.is_greeted) {
        struct pollfd poll_fd = {.fd = channel.fd, .events = POLLIN};
        assert_int_equal(poll(&poll_fd, 1, 10000), 1);
        assert_true(channel_fill(&channel));
        assert_int_equal(channel_next(&channel, &reply, &error), CHANNEL_MORE);
    }
    assert_int_equal(channel.frame_max, FRAME_SIZE_DEFAULT);
    channel_close(&channel);
    places_deinit(&places);
    fake_server_stop(&server);
}

static void when_no_address_answers_the_last_failure_is_told(void **state)
{
    (void)state;
    struct fake_server server;
    struct places places;
    struct channel channel;
    fake_server_start(&server, accept_and_wait);
    places_init(&places, &server);
    places.addresses.list[1] = places.addresses.list[0];
    assert_true(channel_open(&channel, &places.addresses, 0, 1000));
    assert_true(channel_flush(&channel, 600));
    assert_int_equal(channel.address, 1);
    assert_false(channel_flush(&channel, 1000));
    assert_int_equal(channel.fd, -1);
    assert_int_equal(channel.error_number, ETIMEDOUT);
    assert_string_equal(channel_failure(&channel), "no answer in time");
    channel_close(&channel);
    places_deinit(&places);
    /* Lets the script end. */
    assert_int_equal(addresses_find(server.url, &places.addresses, NULL), MUDAX_OK);
    assert_true(channel_open(&channel, &places.addresses, 0, 1000));
    assert_true(channel_flush(&channel, 0));
    channel_close(&channel);
    fake_server_stop(&server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_address_that_does_not_answer_leaves_time_for_the_next),
        cmocka_unit_test(when_no_address_answers_the_last_failure_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
