#include "daemon/listener.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static void urls_are_taken_apart(void **state)
{
    (void)state;
    struct listen_url url;
    char error[512];
    assert_true(listen_url_parse("mudax://127.0.0.1:8110", &url, error, sizeof error));
    assert_string_equal(url.scheme, "mudax");
    assert_string_equal(url.host, "127.0.0.1");
    assert_int_equal(url.port, 8110);
    assert_true(url.is_loopback && !url.is_unix);
    assert_true(listen_url_parse("http://localhost:8000", &url, error, sizeof error));
    assert_string_equal(url.scheme, "http");
    assert_true(listen_url_parse("admin://[::1]:0", &url, error, sizeof error));
    assert_string_equal(url.host, "::1");
    assert_true(url.is_loopback);
    assert_true(listen_url_parse("mudax://0.0.0.0:1", &url, error, sizeof error));
    assert_false(url.is_loopback);
    assert_true(listen_url_parse("mudax+unix:/tmp/a:b", &url, error, sizeof error));
    assert_string_equal(url.host, "/tmp/a:b");
    assert_true(url.is_unix && url.is_loopback);
}

static void what_is_no_url_is_refused_with_what_was_expected(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "",
        "8110",
        "127.0.0.1:8110",
        "mudax://",
        "mudax://:1",
        "mudax://127.0.0.1",
        "mudax+unix:",
        "mudax://127.0.0.1:",
        "mudax://127.0.0.1:65536",
        "mudax://127.0.0.1:x",
        "gopher://127.0.0.1:1",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct listen_url url;
        char error[512] = "";
        if (listen_url_parse(wrong[i], &url, error, sizeof error))
            fail_msg("%s was taken", wrong[i]);
        assert_non_null(strstr(error, "expected mudax://HOST:PORT"));
    }
    char path[200], error[512];
    struct listen_url url;
    (void)snprintf(path, sizeof path, "mudax+unix:%0150d", 0);
    assert_false(listen_url_parse(path, &url, error, sizeof error));
}

static void a_port_in_use_is_told(void **state)
{
    (void)state;
    struct listen_url url;
    char error[512] = "";
    assert_true(listen_url_parse("mudax://127.0.0.1:0", &url, error, sizeof error));
    int fd = listen_url_open(&url, error, sizeof error);
    assert_true(fd >= 0);
    url.port = listen_port(fd);
    assert_true(url.port != 0);
    assert_int_equal(listen_url_open(&url, error, sizeof error), -1);
    assert_non_null(strstr(error, "cannot bind 127.0.0.1 port"));
    (void)close(fd);
}

static void a_stale_socket_is_replaced_and_a_live_one_is_not(void **state)
{
    (void)state;
    struct listen_url url;
    char error[512] = "", text[64];
    (void)snprintf(text, sizeof text, "mudax+unix:listener_test_%d.sock", getpid());
    assert_true(listen_url_parse(text, &url, error, sizeof error));
    int fd = listen_url_open(&url, error, sizeof error);
    assert_true(fd >= 0);
    assert_int_equal(listen_url_open(&url, error, sizeof error), -1);
    assert_non_null(strstr(error, "is another mudaxd running?"));
    (void)close(fd); /* as if the process had been killed: the file stays */
    struct stat facts;
    assert_int_equal(stat(url.host, &facts), 0);
    fd = listen_url_open(&url, error, sizeof error);
    assert_true(fd >= 0);
    (void)close(fd);
    (void)unlink(url.host);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(urls_are_taken_apart),
        cmocka_unit_test(what_is_no_url_is_refused_with_what_was_expected),
        cmocka_unit_test(a_port_in_use_is_told),
        cmocka_unit_test(a_stale_socket_is_replaced_and_a_live_one_is_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
