#include "protocol/status.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void every_error_has_a_name_a_text_and_an_http_status(void **state)
{
    (void)state;
    static const enum status all[] = {
#define STATUS(name, number, client_name, http, retryable, text) STATUS_##name,
#include "protocol/status.def"
#undef STATUS
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        assert_int_equal(all[i], i); /* numbers are on the wire: no gaps, none used twice */
        if (all[i] == STATUS_OK)
            continue;
        assert_true(status_name(all[i])[0] != '\0');
        assert_true(status_text(all[i])[0] != '\0');
        assert_in_range(status_http(all[i]), 400, 503);
    }
    assert_string_equal(status_name(STATUS_OK), "");
}

static void unknown_numbers_read_as_our_own_fault(void **state)
{
    (void)state;
    assert_string_equal(status_name((enum status)9999), "InternalServerError");
    assert_int_equal(status_http((enum status) - 1), 500);
}

static void what_may_have_happened_is_not_repeated(void **state)
{
    (void)state;
    assert_false(status_is_retryable(STATUS_OUTCOME_UNKNOWN));
    assert_false(status_is_retryable(STATUS_VALIDATION));
    assert_true(status_is_retryable(STATUS_THROTTLED));
}

static void long_texts_are_cut_and_none_is_the_tables(void **state)
{
    (void)state;
    struct error error;
    assert_int_equal(error_set(&error, STATUS_VALIDATION, "%0500d", 7), STATUS_VALIDATION);
    assert_int_equal(strlen(error_text(&error)), sizeof error.text - 1);
    assert_int_equal(error_set(&error, STATUS_NO_MEMORY, "%s", ""), STATUS_NO_MEMORY);
    assert_string_equal(error_text(&error), status_text(STATUS_NO_MEMORY));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_error_has_a_name_a_text_and_an_http_status),
        cmocka_unit_test(unknown_numbers_read_as_our_own_fault),
        cmocka_unit_test(what_may_have_happened_is_not_repeated),
        cmocka_unit_test(long_texts_are_cut_and_none_is_the_tables),
    };
    return cmocka_run_group_tests_name("status", tests, NULL, NULL);
}
