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
    assert_refused(READ("--config", "/dev/zero"), "/dev/zero: is no file of settings");
    assert_refused(READ("--config", "no/such/file"), "no/such/file: cannot be read");
    assert_refused(READ("--config", "/"), "/: cannot be read: Is a directory");
}

/* The parser's lines are short: what goes beyond must not become a line of its own. */
static void a_long_line_is_a_mistake_but_a_long_comment_is_none(void **state)
{
    (void)state;
    char text[1024], expected[128];
    (void)snprintf(text, sizeof text, "# %0300d\nworkers = 2\n  ; %0300d = 1", 0, 0);
    char *path = write_file(text);
    struct outcome outcome = READ("--config", path);
    (void)unlink(path);
    assert_int_equal(outcome.result, CONFIG_OK);
    assert_int_equal(outcome.config->workers, 2);
    config_destroy(&outcome.config);
    (void)snprintf(text, sizeof text, "workers = 2\nstore = memory:%0300d\nworkers = 3\n", 0);
    path = write_file(text);
    outcome = READ("--config", path);
    (void)unlink(path);
    (void)snprintf(expected, sizeof expected, "%s:2: a line may have 199 letters", path);
    assert_refused(outcome, expected);
}

static void an_indented_line_is_a_line_of_its_own(void **state)
{
    (void)state;
    char *path = write_file("    workers = 2\n    tables_max = 7\n\n    [policy \"orders\"]\n"
                            "\ttable = Shop\n\t; a comment\n  item_ttl = 30s\n");
    struct outcome outcome = READ("--config", path);
    (void)unlink(path);
    assert_int_equal(outcome.result, CONFIG_OK);
    assert_int_equal(outcome.config->workers, 2);
    assert_int_equal(outcome.config->tables_max, 7);
    assert_int_equal(outcome.config->policies.count, 1);
    config_destroy(&outcome.config);
    path = write_file("workers = 2\n    nonsense\n");
    outcome = READ("--config", path);
    (void)unlink(path);
    assert_refused(outcome, ":2: expected name = value");
}

static void a_file_may_have_a_mebibyte_and_be_a_pipe(void **state)
{
    (void)state;
    enum { BYTES = 1 << 20 };
    static char text[BYTES + 2];
    memset(text, '\n', BYTES);
    memcpy(text, "workers = 3", strlen("workers = 3"));
    char *path = write_file(text);
    struct outcome outcome = READ("--config", path);
    (void)unlink(path);
    assert_int_equal(outcome.result, CONFIG_OK);
    assert_int_equal(outcome.config->workers, 3);
    config_destroy(&outcome.config);
    text[BYTES] = '\n';
    path = write_file(text);
    outcome = READ("--config", path);
    (void)unlink(path);
    assert_refused(outcome, "a file of settings may have 1048576 bytes");
    int ends[2];
    char end[32];
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], text, 100), 100);
    (void)close(ends[1]);
    (void)snprintf(end, sizeof end, "/dev/fd/%d", ends[0]);
    outcome = READ("--config", end);
    (void)close(ends[0]);
    assert_int_equal(outcome.result, CONFIG_OK);
    assert_int_equal(outcome.config->workers, 3);
    config_destroy(&outcome.config);
    outcome = READ("--config", "/dev/null");
    assert_int_equal(outcome.result, CONFIG_OK);
    config_destroy(&outcome.config);
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

/* ---- policies ---- */

static struct outcome read_file(const char *text)
{
    char *path = write_file(text);
    struct outcome outcome = READ("--config", path);
    (void)unlink(path);
    return outcome;
}

static const char orders_text[] = "item_ttl = 1m\n"
                                  "[policy \"orders\"]\n"
                                  "table = Shop\n"
                                  "partition_key = USER#*\n"
                                  "sort-key = ORDER#*\n"
                                  "item_ttl = 30s\n"
                                  "query_ttl = 0\n"
                                  "refresh_ahead = 80%\n"
                                  "stale_if_error = 1m\n"
                                  "[policy \"sessions\"]\n"
                                  "type = Session\n"
                                  "type_attribute = kind\n"
                                  "cache = off\n"
                                  "[mudaxd]\n"
                                  "negative_ttl = 5s\n";

static void policies_are_sections_that_inherit_what_they_do_not_say(void **state)
{
    (void)state;
    struct outcome outcome = read_file(orders_text);
    assert_int_equal(outcome.result, CONFIG_OK);
    const struct policy_list *list = &outcome.config->policies;
    assert_int_equal(list->count, 2);
    struct cache_policy all = {.stale_while_refetch_ms = 7,
                               .is_enabled = true,
                               .item_ttl_ms = 60000,
                               .query_ttl_ms = 300000,
                               .negative_ttl_max_ms = 5000};
    struct cache_rule rules[2];
    assert_int_equal(outcome.config->negative_ttl, 5000);
    policy_list_rules(list, &all, rules);
    assert_true(bytes_equal(rules[0].name, BYTES_LITERAL("orders")));
    assert_true(bytes_equal(rules[0].table, BYTES_LITERAL("Shop")));
    assert_true(bytes_equal(rules[0].sort_key, BYTES_LITERAL("ORDER#*")));
    assert_false(bytes_given(rules[0].index));
    assert_false(bytes_given(rules[0].attribute));
    assert_true(rules[0].policy.is_enabled);
    assert_int_equal(rules[0].policy.item_ttl_ms, 30000);
    assert_int_equal(rules[0].policy.query_ttl_ms, 0);
    assert_int_equal(rules[0].policy.refresh_percent, 80);
    assert_int_equal(rules[0].policy.stale_if_error_ms, 60000);
    assert_int_equal(rules[0].policy.stale_while_refetch_ms, 7);
    assert_int_equal(rules[1].policy.stale_while_refetch_ms, 7);
    assert_int_equal(rules[1].policy.refresh_percent, 0);
    assert_int_equal(rules[0].policy.negative_ttl_max_ms, 5000);
    assert_true(bytes_equal(rules[1].attribute, BYTES_LITERAL("kind")));
    assert_true(bytes_equal(rules[1].value, BYTES_LITERAL("Session")));
    assert_int_equal(rules[1].policy.item_ttl_ms, 60000);
    assert_false(rules[1].policy.is_enabled);
    config_destroy(&outcome.config);
}

static void prices_are_kept_in_millionths(void **state)
{
    (void)state;
    struct outcome outcome = READ("--price-read-unit", "12.05", "--price-cache-hour=3");
    assert_int_equal(outcome.result, CONFIG_OK);
    assert_int_equal(outcome.config->price_read_unit, 12050000);
    assert_int_equal(outcome.config->price_cache_hour, 3000000);
    config_destroy(&outcome.config);
}

static void what_a_policy_keeps_is_one_word(void **state)
{
    (void)state;
    struct outcome outcome =
        read_file("[policy \"a\"]\ncache=items\n[policy \"b\"]\ncache=queries\n"
                  "[policy \"c\"]\ncache=all\ntype=X\nmax_share=25%\nmax_bytes=64M\n");
    assert_int_equal(outcome.result, CONFIG_OK);
    const struct policy_list *list = &outcome.config->policies;
    struct cache_policy on = {.is_enabled = true, .item_ttl_ms = 1, .query_ttl_ms = 2},
                        off = {.query_ttl_ms = 2};
    struct cache_policy items = policy_section_policy(&list->sections[0], &on);
    assert_true(items.is_enabled && !items.is_without_items && items.query_ttl_ms == 0);
    struct cache_policy queries = policy_section_policy(&list->sections[1], &on);
    assert_true(queries.is_enabled && queries.is_without_items && queries.query_ttl_ms == 2);
    struct cache_rule rules[3];
    policy_list_rules(list, &off, rules); /* above all of them it is off */
    for (int i = 0; i < 3; i++)
        assert_false(rules[i].policy.is_enabled);
    assert_true(bytes_equal(rules[2].attribute, BYTES_LITERAL("Type")));
    assert_int_equal(rules[2].policy.percent_max, 25);
    assert_int_equal(rules[2].policy.bytes_max, 64 << 20);
    assert_int_equal(rules[0].policy.bytes_max, 0);
    config_destroy(&outcome.config);
}

static void a_last_policy_may_take_all_the_rest(void **state)
{
    (void)state;
    struct outcome outcome =
        read_file("[policy \"a\"]\ntable=A\n[policy \"rest\"]\nmax_share=40%\nitem_ttl=1m\n");
    assert_int_equal(outcome.result, CONFIG_OK);
    struct cache_policy all = {.is_enabled = true};
    struct cache_rule rules[2];
    policy_list_rules(&outcome.config->policies, &all, rules);
    const struct cache_rule *rest = &rules[1];
    assert_false(bytes_given(rest->table) || bytes_given(rest->index) ||
                 bytes_given(rest->partition_key) || bytes_given(rest->sort_key) ||
                 bytes_given(rest->attribute));
    assert_int_equal(rest->policy.percent_max, 40);
    assert_int_equal(rest->policy.item_ttl_ms, 60000);
    config_destroy(&outcome.config);
    assert_refused(read_file("[policy \"default\"]\nmax_share=40%\n"),
                   "not \"default\": its settings stand above all sections");
}

static void a_mistake_in_a_policy_names_section_and_setting(void **state)
{
    (void)state;
    assert_refused(read_file("[policy \"orders\"]\nitem_ttl = 5\n"),
                   ":2: policy \"orders\": item_ttl: got \"5\", expected a time");
    assert_refused(read_file("[policy \"orders\"]\ncache = some\n"),
                   "policy \"orders\": cache: got \"some\", expected one of all items queries off");
    assert_refused(read_file("[policy \"orders\"]\nmax_share = 101%\n"),
                   "max_share: got \"101%\", expected a share such as 25%, from 1 to 100%");
    assert_refused(read_file("[policy \"orders\"]\nmax_bytes = 1K\n"),
                   "max_bytes: got \"1K\", expected a size such as 64M, from 65536 to");
    assert_refused(READ("--price-read-unit", "0.1234567"), "expected a price such as 0.125");
    assert_refused(READ("--price-read-unit", "1."), "expected a price");
    assert_refused(READ("--price-cache-hour", "-1"), "expected a price");
    assert_refused(READ("--refresh-ahead", "100%"), "expected a share such as 25%, from 0 to 99%");
    assert_refused(read_file("[policy \"orders\"]\ntabel = Shop\n"),
                   "policy \"orders\": tabel: there is no such setting");
    assert_refused(read_file("[policy \"o\"]\ntable=a\n[policy \"p\"]\ntable=b\n"
                             "[policy \"o\"]\ntable=c\n"),
                   ":6: policy \"o\": table: is given twice");
    assert_refused(read_file("[policy \"o\"]\nshadow=maybe\n[policy \"p\"]\ntable=b\ncache=x\n"),
                   ":2: policy \"o\": shadow: got \"maybe\""); /* the first one, whatever follows */
    assert_refused(read_file("[policy \"o\"]\ntype_attribute=T\n"),
                   "policy \"o\": type_attribute: without type");
    assert_refused(read_file("[policy \"o\"]\ntype=T\nindex=I\n"), "policy \"o\": type: items");
    static const char *const titles[] = {
        "policy",     "policy orders",      "policy \"\"",       "policy \"a b\"",
        "policy \"a", "policy \"default\"", "policy \"a\" \"b\""};
    for (size_t i = 0; i < sizeof titles / sizeof titles[0]; i++) {
        char text[100];
        (void)snprintf(text, sizeof text, "[%s]\ntable=a\n", titles[i]);
        assert_refused(read_file(text), "expected [policy \"NAME\"], up to 32 letters");
    }
    assert_refused(read_file("[policies]\ntable=a\n"), "there is no setting \"policies.table\"");
}

static void a_file_has_at_most_63_policies(void **state)
{
    (void)state;
    char text[64 * 40];
    size_t size = 0;
    for (int i = 0; i < 63; i++)
        size += (size_t)snprintf(text + size, sizeof text - size, "[policy \"p%d\"]\ntable=t%d\n",
                                 i, i);
    struct outcome outcome = read_file(text);
    assert_int_equal(outcome.result, CONFIG_OK);
    config_destroy(&outcome.config);
    (void)snprintf(text + size, sizeof text - size, "[policy \"more\"]\ntable=t\n");
    assert_refused(read_file(text),
                   "policy \"more\": table: there can be no more policies than 63");
}

static void a_reload_takes_policies_that_differ(void **state)
{
    (void)state;
    struct outcome before = read_file(orders_text);
    struct outcome same = read_file(orders_text);
    struct outcome other =
        read_file("item_ttl=1m\nnegative_ttl=5s\n[policy \"orders\"]\ntable=Shop\n");
    told[0] = '\0';
    config_reload(before.config, same.config, tell);
    assert_string_equal(told, "");
    config_reload(before.config, other.config, tell);
    assert_string_equal(told, "policies+ ");
    assert_int_equal(before.config->policies.count, 1);
    config_destroy(&before.config);
    config_destroy(&same.config);
    config_destroy(&other.config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(policies_are_sections_that_inherit_what_they_do_not_say),
        cmocka_unit_test(prices_are_kept_in_millionths),
        cmocka_unit_test(what_a_policy_keeps_is_one_word),
        cmocka_unit_test(a_last_policy_may_take_all_the_rest),
        cmocka_unit_test(a_mistake_in_a_policy_names_section_and_setting),
        cmocka_unit_test(a_file_has_at_most_63_policies),
        cmocka_unit_test(a_reload_takes_policies_that_differ),
        cmocka_unit_test(defaults_are_those_of_the_table),
        cmocka_unit_test(units_switches_and_both_forms_of_a_flag_are_taken),
        cmocka_unit_test(a_switch_may_stand_alone_or_with_its_value),
        cmocka_unit_test(the_command_line_goes_before_the_environment_and_that_before_the_file),
        cmocka_unit_test(the_file_can_be_named_in_the_environment),
        cmocka_unit_test(a_wrong_value_names_its_place_and_what_was_expected),
        cmocka_unit_test(a_mistake_in_the_file_names_file_and_line),
        cmocka_unit_test(a_long_line_is_a_mistake_but_a_long_comment_is_none),
        cmocka_unit_test(an_indented_line_is_a_line_of_its_own),
        cmocka_unit_test(a_file_may_have_a_mebibyte_and_be_a_pipe),
        cmocka_unit_test(access_keys_are_repeatable_and_told_to_nobody),
        cmocka_unit_test(reload_takes_what_it_can_and_names_the_rest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
