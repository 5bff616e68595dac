#include "daemon/stats.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

struct seen {
    char text[1 << 20];
    size_t used;
};

static void see(void *arg, const struct metric *metric, const char *labels, double value)
{
    struct seen *seen = arg;
    seen->used += (size_t)snprintf(seen->text + seen->used, sizeof seen->text - seen->used,
                                   "%s{%s} %g\n", metric->name, labels, value);
    assert_true(seen->used < sizeof seen->text);
}

static void assert_seen(const struct seen *seen, const char *line)
{
    if (strstr(seen->text, line) == NULL)
        fail_msg("no line %s in\n%s", line, seen->text);
}

static void workers_are_summed_by_table_operation_and_verdict(void **state)
{
    (void)state;
    struct stats *stats[2] = {stats_create(), stats_create()};
    struct table shop = {.id = 7, .name = BYTES_LITERAL("Shop")};
    struct table chat = {.id = 9, .name = BYTES_LITERAL("Chat")};
    stats_request(stats[0], &shop, OPERATION_GET_ITEM, VERDICT_HIT, STATUS_OK);
    stats_request(stats[0], &chat, OPERATION_GET_ITEM, VERDICT_HIT, STATUS_OK);
    stats_request(stats[1], &chat, OPERATION_QUERY, VERDICT_MISS, STATUS_VALIDATION);
    stats_request(stats[1], &shop, OPERATION_GET_ITEM, VERDICT_HIT, STATUS_OK);
    stats_request(stats[1], NULL, OPERATION_PING, VERDICT_NONE, STATUS_OK);
    stats_add(stats[0], COUNTER_sent_bytes, 40);
    stats_add(stats[1], COUNTER_sent_bytes, 2);
    struct seen *seen = calloc(1, sizeof *seen);
    stats_report(stats, 2, see, seen);
    assert_seen(seen, "requests_total{table=\"Shop\",operation=\"GetItem\",verdict=\"hit\"} 2\n");
    assert_seen(seen, "requests_total{table=\"Chat\",operation=\"GetItem\",verdict=\"hit\"} 1\n");
    assert_seen(seen, "requests_total{table=\"Chat\",operation=\"Query\",verdict=\"miss\"} 1\n");
    assert_seen(seen, "requests_total{table=\"\",operation=\"Ping\",verdict=\"none\"} 1\n");
    assert_seen(seen, "request_errors_total{table=\"Chat\",operation=\"Query\"} 1\n");
    assert_seen(seen, "sent_bytes_total{} 42\n");
    free(seen);
    stats_destroy(&stats[0]);
    stats_destroy(&stats[1]);
}

static void a_table_created_again_goes_on_in_its_row(void **state)
{
    (void)state;
    struct stats *stats[2] = {stats_create(), stats_create()};
    for (uint32_t id = 1; id <= 1000; id++) {
        struct table table = {.id = id, .name = BYTES_LITERAL("Shop")};
        stats_request(stats[id % 2], &table, OPERATION_GET_ITEM, VERDICT_MISS, STATUS_OK);
    }
    struct table other = {.id = 1001, .name = BYTES_LITERAL("Other")};
    stats_request(stats[0], &other, OPERATION_GET_ITEM, VERDICT_MISS, STATUS_OK);
    struct seen *seen = calloc(1, sizeof *seen);
    stats_report(stats, 2, see, seen);
    assert_seen(seen,
                "requests_total{table=\"Shop\",operation=\"GetItem\",verdict=\"miss\"} 1000\n");
    assert_seen(seen, "requests_total{table=\"Other\",operation=\"GetItem\",verdict=\"miss\"} 1\n");
    free(seen);
    stats_destroy(&stats[0]);
    stats_destroy(&stats[1]);
}

static void more_tables_than_rows_share_one(void **state)
{
    (void)state;
    struct stats *stats = stats_create();
    for (uint32_t id = 1; id <= 1000; id++) {
        char name[16];
        (void)snprintf(name, sizeof name, "Table%u", id);
        struct table table = {.id = id, .name = bytes_text(name)};
        stats_request(stats, &table, OPERATION_GET_ITEM, VERDICT_MISS, STATUS_OK);
    }
    struct seen *seen = calloc(1, sizeof *seen);
    stats_report(&stats, 1, see, seen);
    assert_seen(
        seen,
        "requests_total{table=\"(other tables)\",operation=\"GetItem\",verdict=\"miss\"} 746");
    free(seen);
    stats_destroy(&stats);
}

static void quantiles_are_right_to_a_quarter_of_an_octave(void **state)
{
    (void)state;
    struct stats *stats = stats_create();
    for (uint64_t us = 1; us <= 10000; us++)
        stats_latency(stats, OPERATION_QUERY, VERDICT_MISS, us, 1);
    double median = stats_quantile(&stats, 1, OPERATION_QUERY, VERDICT_MISS, 0.5);
    double p99 = stats_quantile(&stats, 1, OPERATION_QUERY, VERDICT_MISS, 0.99);
    assert_true(median >= 5000 && median <= 6250);
    assert_true(p99 >= 9900 && p99 <= 12375);
    assert_true(stats_quantile(&stats, 1, OPERATION_QUERY, VERDICT_HIT, 0.5) <= 0);
    stats_latency(stats, OPERATION_PING, VERDICT_NONE, UINT64_MAX / 4, 1);
    assert_true(stats_quantile(&stats, 1, OPERATION_PING, VERDICT_NONE, 0.5) > 1e8);
    stats_destroy(&stats);
}

static void the_histogram_is_cumulative_and_ends_with_everything(void **state)
{
    (void)state;
    struct stats *stats = stats_create();
    stats_latency(stats, OPERATION_GET_ITEM, VERDICT_HIT, 3, 5);
    stats_latency(stats, OPERATION_GET_ITEM, VERDICT_HIT, 100, 2);
    struct seen *seen = calloc(1, sizeof *seen);
    stats_report(&stats, 1, see, seen);
    assert_seen(seen, "operation=\"GetItem\",verdict=\"hit\",le=\"4e-06\"} 5\n");
    assert_seen(seen, "operation=\"GetItem\",verdict=\"hit\",le=\"6.4e-05\"} 5\n");
    assert_seen(seen, "operation=\"GetItem\",verdict=\"hit\",le=\"0.000128\"} 7\n");
    assert_seen(seen, "operation=\"GetItem\",verdict=\"hit\",le=\"+Inf\"} 7\n");
    assert_seen(seen, "request_duration_seconds_count{operation=\"GetItem\",verdict=\"hit\"} 7\n");
    free(seen);
    stats_destroy(&stats);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(workers_are_summed_by_table_operation_and_verdict),
        cmocka_unit_test(a_table_created_again_goes_on_in_its_row),
        cmocka_unit_test(more_tables_than_rows_share_one),
        cmocka_unit_test(quantiles_are_right_to_a_quarter_of_an_octave),
        cmocka_unit_test(the_histogram_is_cumulative_and_ends_with_everything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
