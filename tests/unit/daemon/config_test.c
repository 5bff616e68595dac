#include "daemon/config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char *no_environment[] = {NULL};

struct outcome {
    enum config_result result;
    struct config *config;
    char error[512];
};

static struct outcome read_with(char **arguments, char **environment)
{
    struct outcome outcome = {0};
    int count = 0;
    while (arguments[count] != NULL)
        count++;
    outcome.result = config_read(count, arguments, environment, &outcome.config, outcome.error,
                                 sizeof outcome.error);
    return outcome;
}

#define READ(...) read_with((char *[]){"mudaxd", __VA_ARGS__ __VA_OPT__(, ) NULL}, no_environment)

static void assert_refused(struct outcome outcome, const char *part)
{
    assert_int_equal(outcome.result, CONFIG_WRONG);
    assert_null(outcome.config);
    if (strstr(outcome.error, part) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", outcome.error, part);
}

/* A file in the working directory; removed by the caller. */
static char *write_file(const char *text)
{
    static char path[] = "config_test_XXXXXX";
    memcpy(path + sizeof path - 7, "XXXXXX", 6);
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    (void)close(fd);
    return path;
}

static void defaults_are_those_of_the_table(void **state)
{
    (void)state;
    struct outcome outcome = READ();
    assert_int_equal(outcome.result, CONFIG_OK);
    assert_string_equal(outcome.config->store, "rocksdb:./mudax-data");
    assert_int_equal(outcome.config->listen.count, 3);
    assert_int_equal(outcome.config->item_ttl, 300000);
    assert_int_equal(outcome.config->cache_memory, 256 << 20);
    assert_int_equal(outcome.config->sync, CONFIG_SYNC_ALWAYS);
    assert_true(outcome.config->cache);
    config_destroy(&outcome.config);
}

static void units_switches_and_both_forms_of_a_flag_are_taken(void **state)
{
    (void)state;
    struct outcome outcome = READ("--cache-memory", "2G", "--item-ttl=500ms", "--query-ttl", "0",
                                  "--insecure", "--cache=off", "--sync", "none", "--listen",
                                  "mudax://127.0.0.1:1", "--listen", "mudax+unix:/tmp/x");
    assert_int_equal(outcome.result, CONFIG_OK);
    assert_true(outcome.config->cache_memory == 2ull << 30);
    assert_int_equal(outcome.config->item_ttl, 500);
    assert_int_equal(outcome.config->query_ttl, 0);
    assert_true(outcome.config->insecure);
    assert_false(outcome.config->cache);
    assert_int_equal(outcome.config->sync, CONFIG_SYNC_NONE);
    assert_int_equal(outcome.config->listen.count, 2);
    assert_string_equal(outcome.config->listen.texts[1], "mudax+unix:/tmp/x");
    config_destroy(&outcome.config);
}

static void a_switch_may_stand_alone_or_with_its_value(void **state)
{
    (void)state;
    struct outcome outcome = READ("--cache", "off", "--insecure", "--workers", "1");
    assert_int_equal(outcome.result, CONFIG_OK);
    assert_false(outcome.config->cache);
    assert_true(outcome.config->insecure);
    assert_int_equal(outcome.config->workers, 1);
    config_destroy(&outcome.config);
}

static void the_command_line_goes_before_the_environment_and_that_before_the_file(void **state)
{
    (void)state;
    char *path = write_file("# a comment\nworkers = 3\nitem-ttl = 3s\nquery_ttl = 3s\n");
    char *environment[] = {"MUDAX_ITEM_TTL=2s", "MUDAX_WORKERS=2", "MUDAX_URL=elsewhere",
                           "PATH=/bin", NULL};
    struct outcome outcome =
        read_with((char *[]){"mudaxd", "--workers", "1", "--config", path, NULL}, environment);
    (void)unlink(path);
    assert_int_equal(outcome.result, CONFIG_OK);
    assert_int_equal(outcome.config->workers, 1);
    assert_int_equal(outcome.config->item_ttl, 2000);
    assert_int_equal(outcome.config->query_ttl, 3000);
    config_destroy(&outcome.config);
}

static void the_file_can_be_named_in_the_environment(void **state)
{
    (void)state;
    char *path = write_file("[mudaxd]\nworkers = 7\n");
    char pair[64];
    (void)snprintf(pair, sizeof pair, "MUDAX_CONFIG=%s", path);
    struct outcome outcome = read_with((char *[]){"mudaxd", NULL}, (char *[]){pair, NULL});
    (void)unlink(path);
    assert_int_equal(outcome.result, CONFIG_OK);
    assert_int_equal(outcome.config->workers, 7);
    config_destroy(&outcome.config);
}

static void a_wrong_value_names_its_place_and_what_was_expected(void **state)
{
    (void)state;
    assert_refused(READ("--workers", "many"),
                   "command line: workers: got \"many\", expected a number");
    assert_refused(READ("--workers", "-1"), "expected a number, from 0 to 256");
    assert_refused(READ("--workers", "257"), "from 0 to 256");
    assert_refused(READ("--item-ttl", "5"), "expected a time");
    assert_refused(READ("--cache-memory", "5T"), "expected a size");
    assert_refused(READ("--cache-memory", "99999999999G"), "expected a size");
    assert_refused(READ("--sync", "maybe"), "one of always interval none");
    assert_refused(READ("--cache=perhaps"), "expected on or off");
    assert_refused(READ("--store", ""), "expected a text");
    assert_refused(READ("--store"), "--store needs a value");
    assert_refused(READ("--sotre", "x"), "there is no option --sotre");
    assert_refused(READ("memory:"), "there is no option memory:");
    char *environment[] = {"MUDAX_SYNC=never", NULL};
    assert_refused(read_with((char *[]){"mudaxd", NULL}, environment), "environment MUDAX_SYNC");
}

static void a_mistake_in_the_file_names_file_and_line(void **state)
{
    (void)state;
    static const struct {
        const char *text, *part;
    } cases[] = {
        {"workers = 1\n\nworkerz = 2\n", ":3: there is no setting \"workerz\""},
        {"workers = x\n", ":1: workers: got \"x\""},
        {"workers = 1\nnonsense\n", ":2: expected name = value"},
        {"[other]\nworkers = 1\n", ":2: there is no setting \"other.workers\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *path = write_file(cases[i].text), expected[128];
        struct outcome outcome = READ("--config", path);
        (void)unlink(path);
        (void)snprintf(expected, sizeof expected, "%s%s", path, cases[i].part);
        assert_refused(outcome, expected);
    }
    assert_refused(READ("--config", "no/such/file"), "no/such/file: cannot be read");
}

static void access_keys_are_repeatable_and_told_to_nobody(void **state)
{
    (void)state;
    struct outcome outcome = READ("--workers", "1");
    assert_int_equal(outcome.config->access_key.count, 0);
    config_destroy(&outcome.config);
    outcome = READ("--access-key", "AKID:se/c+ret=", "--access-key=OTHER:s:t");
    assert_int_equal(outcome.result, CONFIG_OK);
    assert_int_equal(outcome.config->access_key.count, 2);
    assert_string_equal(outcome.config->access_key.texts[0], "AKID:se/c+ret=");
    assert_string_equal(outcome.config->access_key.texts[1], "OTHER:s:t");
    config_destroy(&outcome.config);
    char *path = write_file("access_key = A:b\naccess_key = C:d\n");
    outcome = READ("--config", path);
    (void)unlink(path);
    assert_int_equal(outcome.result, CONFIG_OK);
    assert_int_equal(outcome.config->access_key.count, 2);
    config_destroy(&outcome.config);
    static char *const wrong[] = {"AKID", ":secret", "AKID:", "a/b:secret"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_refused(READ("--access-key", wrong[i]),
                       "access_key: got \"...\", expected AKID:SECRET");
}

static char told[512];

static void tell(const char *name, bool is_reloaded)
{
    (void)strcat(told, name);
    (void)strcat(told, is_reloaded ? "+ " : "- ");
}

static void reload_takes_what_it_can_and_names_the_rest(void **state)
{
    (void)state;
    struct outcome before = READ("--workers", "1", "--store", "memory:");
    struct outcome after = READ("--workers", "2", "--store", "rocksdb:x", "--item-ttl", "1s",
                                "--cache", "--listen", "admin://127.0.0.1:1", "--cache=off");
    told[0] = '\0';
    config_reload(before.config, after.config, tell);
    assert_string_equal(told, "listen- store- cache+ item_ttl+ workers- ");
    assert_int_equal(before.config->item_ttl, 1000);
    assert_false(before.config->cache);
    assert_int_equal(before.config->workers, 1);
    told[0] = '\0';
    config_reload(before.config, before.config, tell);
    assert_string_equal(told, "");
    config_destroy(&after.config);
    after = READ("--workers", "1", "--store", "memory:", "--cache=off", "--item-ttl", "1s",
                 "--access-key", "A:b");
    config_reload(before.config, after.config, tell);
    assert_string_equal(told, "access_key+ ");
    assert_int_equal(before.config->access_key.count, 1);
    assert_int_equal(after.config->access_key.count, 0);
    config_destroy(&before.config);
    config_destroy(&after.config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_those_of_the_table),
        cmocka_unit_test(units_switches_and_both_forms_of_a_flag_are_taken),
        cmocka_unit_test(a_switch_may_stand_alone_or_with_its_value),
        cmocka_unit_test(the_command_line_goes_before_the_environment_and_that_before_the_file),
        cmocka_unit_test(the_file_can_be_named_in_the_environment),
        cmocka_unit_test(a_wrong_value_names_its_place_and_what_was_expected),
        cmocka_unit_test(a_mistake_in_the_file_names_file_and_line),
        cmocka_unit_test(access_keys_are_repeatable_and_told_to_nobody),
        cmocka_unit_test(reload_takes_what_it_can_and_names_the_rest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
