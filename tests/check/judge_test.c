#include "tests/check/check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

/* Histories by hand: times and commits are small numbers. One client does, for judging knows of no
 * order but that of time. */
static struct history history;

static int forget(void **state)
{
    (void)state;
    free(history.writes);
    free(history.reads);
    free(history.seen);
    history = (struct history){.writes = NULL};
    return 0;
}

static struct write *add_write(unsigned slot, uint64_t id, uint64_t commit, uint64_t begin,
                               uint64_t end)
{
    history.writes = history_grow(history.writes, history.write_count, &history.write_room,
                                  sizeof *history.writes);
    struct write *write = &history.writes[history.write_count++];
    *write = (struct write){.begin = begin,
                            .end = end,
                            .commit = commit,
                            .id = id,
                            .slot = (uint16_t)slot,
                            .group = GROUPS,
                            .is_unknown = commit == 0};
    return write;
}

static struct read *add_read(enum scope scope, unsigned of, uint64_t begin, uint64_t end)
{
    history.reads =
        history_grow(history.reads, history.read_count, &history.read_room, sizeof *history.reads);
    struct read *read = &history.reads[history.read_count++];
    *read = (struct read){.begin = begin,
                          .end = end,
                          .seen_at = (uint32_t)history.seen_count,
                          .scope = (uint8_t)scope,
                          .of = (uint8_t)of};
    return read;
}

static void add_seen(unsigned slot, uint64_t id)
{
    history.seen =
        history_grow(history.seen, history.seen_count, &history.seen_room, sizeof *history.seen);
    history.seen[history.seen_count++] = (struct seen){.id = id, .slot = (uint16_t)slot};
    history.reads[history.read_count - 1].seen_count++;
}

static void read_item(unsigned slot, uint64_t id, uint64_t begin, uint64_t end)
{
    (void)add_read(SCOPE_ITEMS, 0, begin, end);
    add_seen(slot, id);
}

static uint64_t findings(void)
{
    struct verdicts verdicts;
    judge(&history, 1, &verdicts);
    return verdicts.findings;
}

static void reads_of_what_was_there_are_right(void **state)
{
    (void)state;
    read_item(0, 0, 1, 2);
    (void)add_write(0, 7, 1, 3, 6);
    read_item(0, 0, 4, 5); /* while it is written, both are right */
    read_item(0, 7, 4, 5);
    read_item(0, 7, 7, 8);
    (void)add_write(0, 8, 2, 9, 10);
    add_write(0, 9, 3, 11, 12)->is_delete = true;
    read_item(0, 8, 9, 13); /* it may have happened at its begin */
    read_item(0, 0, 14, 15);
    assert_int_equal(findings(), 0);
}

static void a_read_older_than_an_acknowledged_write_is_found(void **state)
{
    (void)state;
    (void)add_write(0, 7, 1, 1, 2);
    (void)add_write(0, 8, 2, 3, 4);
    read_item(0, 7, 5, 6);
    assert_int_equal(findings(), 1);
}

static void an_item_that_is_missing_although_it_was_written_is_found(void **state)
{
    (void)state;
    (void)add_write(0, 7, 1, 1, 2);
    read_item(0, 0, 3, 4);
    assert_int_equal(findings(), 1);
}

static void a_deleted_item_that_shows_again_is_found(void **state)
{
    (void)state;
    (void)add_write(0, 7, 1, 1, 2);
    add_write(0, 8, 2, 3, 4)->is_delete = true;
    read_item(0, 7, 5, 6);
    assert_int_equal(findings(), 1);
}

static void a_read_that_goes_back_behind_another_is_found(void **state)
{
    (void)state;
    (void)add_write(0, 7, 1, 1, 2);
    (void)add_write(0, 8, 2, 3, 100); /* not acknowledged until later */
    read_item(0, 8, 4, 5);
    read_item(0, 7, 6, 7);
    assert_int_equal(findings(), 1);
}

static void reads_at_the_same_time_may_differ(void **state)
{
    (void)state;
    (void)add_write(0, 7, 1, 1, 2);
    (void)add_write(0, 8, 2, 3, 100);
    read_item(0, 8, 4, 7);
    read_item(0, 7, 6, 8);
    assert_int_equal(findings(), 0);
}

static void a_value_that_nobody_wrote_yet_is_found(void **state)
{
    (void)state;
    read_item(0, 7, 1, 2);
    (void)add_write(0, 7, 1, 3, 4);
    assert_int_equal(findings(), 1);
}

static void a_page_that_no_instant_explains_is_found(void **state)
{
    (void)state;
    (void)add_write(0, 7, 1, 1, 100);
    (void)add_write(1, 8, 2, 1, 100);
    (void)add_read(SCOPE_PARTITION, 0, 3, 4); /* the second without the first */
    add_seen(1, 8);
    assert_int_equal(findings(), 1);
    forget(NULL);
    (void)add_write(0, 7, 1, 1, 100);
    (void)add_write(1, 8, 2, 1, 100);
    (void)add_read(SCOPE_PARTITION, 0, 3, 4); /* the first without the second */
    add_seen(0, 7);
    assert_int_equal(findings(), 0);
}

static void a_transaction_is_seen_whole_or_not_at_all(void **state)
{
    (void)state;
    (void)add_write(0, 7, 1, 1, 100);
    (void)add_write(9, 8, 1, 1, 100);
    (void)add_read(SCOPE_TABLE, 0, 3, 4);
    add_seen(0, 7);
    add_seen(9, 8);
    (void)add_read(SCOPE_TABLE, 0, 3, 4);
    assert_int_equal(findings(), 0);
    (void)add_read(SCOPE_TABLE, 0, 3, 4);
    add_seen(9, 8);
    assert_int_equal(findings(), 1);
}

static void a_page_of_a_group_shows_its_items_and_no_others(void **state)
{
    (void)state;
    add_write(0, 7, 1, 1, 2)->group = 1;
    (void)add_read(SCOPE_GROUP, 1, 3, 4);
    add_seen(0, 7);
    (void)add_read(SCOPE_GROUP, 2, 3, 4);
    add_write(0, 8, 2, 5, 6)->group = 2;
    (void)add_read(SCOPE_GROUP, 1, 7, 8);
    assert_int_equal(findings(), 0);
    (void)add_read(SCOPE_GROUP, 1, 9, 10); /* it has left */
    add_seen(0, 7);
    (void)add_read(SCOPE_GROUP, 2, 9, 10); /* and come here */
    assert_int_equal(findings(), 2);
}

static void pages_and_items_are_held_against_each_other(void **state)
{
    (void)state;
    (void)add_write(0, 7, 1, 1, 100);
    (void)add_read(SCOPE_PARTITION, 0, 2, 3);
    add_seen(0, 7);
    read_item(0, 0, 4, 5);
    assert_int_equal(findings(), 1);
}

static void nothing_is_concluded_of_an_item_after_a_write_of_unknown_outcome(void **state)
{
    (void)state;
    (void)add_write(0, 7, 1, 1, 2);
    (void)add_write(0, 8, 0, 10, 11);
    read_item(0, 8, 12, 13);
    read_item(0, 7, 14, 15);
    read_item(0, 0, 16, 17);
    assert_int_equal(findings(), 0);
    read_item(0, 0, 5, 6); /* before it, all is as ever */
    assert_int_equal(findings(), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(reads_of_what_was_there_are_right, forget),
        cmocka_unit_test_teardown(a_read_older_than_an_acknowledged_write_is_found, forget),
        cmocka_unit_test_teardown(an_item_that_is_missing_although_it_was_written_is_found, forget),
        cmocka_unit_test_teardown(a_deleted_item_that_shows_again_is_found, forget),
        cmocka_unit_test_teardown(a_read_that_goes_back_behind_another_is_found, forget),
        cmocka_unit_test_teardown(reads_at_the_same_time_may_differ, forget),
        cmocka_unit_test_teardown(a_value_that_nobody_wrote_yet_is_found, forget),
        cmocka_unit_test_teardown(a_page_that_no_instant_explains_is_found, forget),
        cmocka_unit_test_teardown(a_transaction_is_seen_whole_or_not_at_all, forget),
        cmocka_unit_test_teardown(a_page_of_a_group_shows_its_items_and_no_others, forget),
        cmocka_unit_test_teardown(pages_and_items_are_held_against_each_other, forget),
        cmocka_unit_test_teardown(nothing_is_concluded_of_an_item_after_a_write_of_unknown_outcome,
                                  forget),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
