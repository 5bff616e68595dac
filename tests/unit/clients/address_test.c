#include "clients/c/src/address.h"

#include <stdarg.h>

#include <setjmp.h>

#include <cmocka.h>

#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

static void urls_are_taken_apart(void **state)
{
    (void)state;
    struct url url;
    assert_int_equal(url_parse("mudax://127.0.0.1:8110", &url, NULL), MUDAX_OK);
    assert_string_equal(url.host, "127.0.0.1");
    assert_string_equal(url.port, "8110");
    assert_false(url.is_unix);
    assert_int_equal(url_parse("mudax://[::1]:1", &url, NULL), MUDAX_OK);
    assert_string_equal(url.host, "::1");
    assert_string_equal(url.port, "1");
    assert_int_equal(url_parse("mudax+unix:/run/mudax.sock", &url, NULL), MUDAX_OK);
    assert_true(url.is_unix);
    assert_string_equal(url.path, "/run/mudax.sock");
}

static void wrong_urls_are_refused_with_what_was_expected(void **state)
{
    (void)state;
    char long_path[256] = "mudax+unix:", long_host[400] = "mudax://";
    memset(long_path + strlen(long_path), 'a', 120);
    memset(long_host + strlen(long_host), 'h', 300);
    memcpy(long_host + 308, ":80", 4);
    const char *wrong[] = {"",
                           "mudax",
                           "http://127.0.0.1:8000",
                           "mudax://",
                           "mudax://host",
                           "mudax://:8110",
                           "mudax://host:",
                           "mudax://host:0",
                           "mudax://host:65536",
                           "mudax://host:-1",
                           "mudax://host: 80",
                           "mudax://host:80x",
                           "mudax://host:99999999999999999999",
                           "mudax://[::1",
                           "mudax://[::1]",
                           "mudax://[]:80",
                           "mudax+unix:",
                           long_path,
                           long_host,
                           NULL};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct url url;
        struct mudax_error error = {0};
        assert_int_equal(url_parse(wrong[i], &url, &error), MUDAX_INVALID_REQUEST);
        assert_string_equal(error.name, "MudaxInvalidRequest");
        assert_non_null(strstr(error.text, "expected mudax://HOST:PORT or mudax+unix:PATH"));
        assert_false(error.is_retryable);
        assert_null(mudax_open(wrong[i], NULL, &error));
    }
}

static void numeric_hosts_become_addresses(void **state)
{
    (void)state;
    struct addresses addresses;
    assert_int_equal(addresses_find("mudax://127.0.0.1:8110", &addresses, NULL), MUDAX_OK);
    assert_int_equal(addresses.count, 1);
    const struct sockaddr_in *address = (const struct sockaddr_in *)&addresses.list[0].storage;
    assert_int_equal(address->sin_family, AF_INET);
    assert_int_equal(ntohs(address->sin_port), 8110);
    assert_int_equal(ntohl(address->sin_addr.s_addr), INADDR_LOOPBACK);
}

static void a_host_that_cannot_be_found_is_named(void **state)
{
    (void)state;
    struct addresses addresses;
    struct mudax_error error;
    /* A name that no resolver is asked about: its label is too long. */
    char url[128] = "mudax://";
    memset(url + 8, 'x', 70);
    (void)snprintf(url + 78, sizeof url - 78, ":1");
    assert_int_equal(addresses_find(url, &addresses, &error), MUDAX_CONNECT_ERROR);
    assert_non_null(strstr(error.text, "xxx\" cannot be found"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(urls_are_taken_apart),
        cmocka_unit_test(wrong_urls_are_refused_with_what_was_expected),
        cmocka_unit_test(numeric_hosts_become_addresses),
        cmocka_unit_test(a_host_that_cannot_be_found_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
