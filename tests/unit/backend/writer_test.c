/* The one thread that commits: hot keys, its queue, its syncs. */
#include "backend/rocksdb/store.h"
#include "tests/unit/backend/kv_suite.h"

#include "protocol/ensure.h"

#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static struct store_under_test store;

static int set_up(void **state)
{
    (void)state;
    store_set_up(&store, "memory:", SYNC_ALWAYS, NULL, NULL);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    store_tear_down(&store);
    return 0;
}

struct wanted_metric {
    const char *name;
    double value;
};

static void find_metric(void *arg, const struct metric *metric, const char *labels, double value)
{
    (void)labels;
    struct wanted_metric *wanted = arg;
    if (strcmp(metric->name, wanted->name) == 0)
        wanted->value = value;
}

static double metric_of(const struct store_under_test *from, const char *name)
{
    struct wanted_metric wanted = {name, -1};
    from->ops->report(from->kv, find_metric, &wanted);
    return wanted.value;
}

/* ---- one hot item ---- */

enum { THREADS = 16, ADDS = 60 };

struct adder {
    struct store_under_test lane;
    pthread_t thread;
    bool recomputes;
    size_t conflicts;
    uint8_t sum[8];
};

static uint64_t number_of(struct bytes value)
{
    uint64_t number = 0;
    if (bytes_given(value))
        memcpy(&number, value.data, sizeof number);
    return number;
}

/* Adds one to the record; the sum lives in the arena, so that each attempt has its own. */
static enum kv_outcome add_one(struct kv_commit *commit)
{
    uint64_t sum = number_of(commit->reads[0].value) + 1;
    commit->writes[0].value = arena_copy(commit->arena, bytes_of(&sum, sizeof sum));
    ensure(bytes_given(commit->writes[0].value));
    return KV_DONE;
}

static void *add_many(void *arg)
{
    struct adder *adder = arg;
    for (int done = 0; done < ADDS;) {
        struct kv_record read = store_get_one(&adder->lane, "hot");
        struct kv_record write = {.key = read.key};
        struct kv_counter counter = {.key = bytes_text("hot/counter"), .add = {1}};
        struct kv_commit commit = {.reads = &read,
                                   .read_count = 1,
                                   .writes = &write,
                                   .write_count = 1,
                                   .counters = &counter,
                                   .counter_count = 1,
                                   .recompute = adder->recomputes ? add_one : NULL,
                                   .arena = &adder->lane.arena};
        ensure(add_one(&commit) == KV_DONE);
        enum kv_outcome outcome = store_commit_all(&adder->lane, &commit);
        ensure(outcome == KV_DONE || outcome == KV_CONFLICT);
        done += outcome == KV_DONE;
        adder->conflicts += outcome == KV_CONFLICT;
        arena_reset(&adder->lane.arena);
    }
    return NULL;
}

/* Returns how often somebody had to begin again. */
static size_t run_adders(bool recomputes)
{
    static struct adder adders[THREADS];
    for (size_t i = 0; i < THREADS; i++) {
        adders[i].recomputes = recomputes;
        adders[i].conflicts = 0;
        store_lane_set_up(&adders[i].lane, &store);
        assert_int_equal(pthread_create(&adders[i].thread, NULL, add_many, &adders[i]), 0);
    }
    size_t conflicts = 0;
    for (size_t i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(adders[i].thread, NULL), 0);
        store_lane_tear_down(&adders[i].lane);
        conflicts += adders[i].conflicts;
    }
    return conflicts;
}

static void sixteen_threads_lose_no_update_of_a_hot_item(void **state)
{
    (void)state;
    assert_int_equal(run_adders(true), 0);
    assert_int_equal(number_of(store_get_one(&store, "hot").value), THREADS * ADDS);
    assert_int_equal(number_of(store_get_one(&store, "hot/counter").value), THREADS * ADDS);
}

static void without_recomputing_conflicts_come_back_and_nothing_is_lost(void **state)
{
    (void)state;
    size_t conflicts = run_adders(false);
    assert_int_equal(number_of(store_get_one(&store, "hot").value), THREADS * ADDS);
    assert_int_equal(number_of(store_get_one(&store, "hot/counter").value), THREADS * ADDS);
    assert_true(metric_of(&store, "store_commit_conflicts_total") == (double)conflicts);
}

/* ---- the queue ---- */

struct queued {
    struct kv_commit commit;
    struct kv_record write;
    char key[16];
    bool is_complete;
};

static void queued_is_complete(struct kv_commit *commit)
{
    ((struct queued *)commit->owner)->is_complete = true;
}

static sem_t may_go_on, has_begun;

static enum kv_outcome wait_for_test(struct kv_commit *commit)
{
    (void)commit;
    sem_post(&has_begun);
    while (sem_wait(&may_go_on) != 0)
        continue;
    return KV_DONE;
}

static void queue_one(struct queued *queued, size_t i)
{
    snprintf(queued->key, sizeof queued->key, "q/%zu", i);
    queued->write = (struct kv_record){.key = bytes_text(queued->key), .value = bytes_text("x")};
    queued->commit = (struct kv_commit){.writes = &queued->write,
                                        .write_count = 1,
                                        .arena = &store.arena,
                                        .complete = queued_is_complete,
                                        .owner = queued};
    store.ops->commit(store.lane, &queued->commit);
}

static void a_full_queue_refuses_at_once_and_takes_up_again(void **state)
{
    (void)state;
    assert_int_equal(sem_init(&may_go_on, 0, 0) | sem_init(&has_begun, 0, 0), 0);
    struct kv_record read = store_get_one(&store, "blocker");
    store_put(&store, "blocker", "changed");
    struct queued blocker = {.write = {.key = bytes_text("blocked"), .value = bytes_text("x")}};
    blocker.commit = (struct kv_commit){.reads = &read,
                                        .read_count = 1,
                                        .writes = &blocker.write,
                                        .write_count = 1,
                                        .recompute = wait_for_test,
                                        .arena = &store.arena,
                                        .complete = queued_is_complete,
                                        .owner = &blocker};
    store.ops->commit(store.lane, &blocker.commit);
    while (sem_wait(&has_begun) != 0)
        continue;

    struct queued *queued = calloc(COMMITS_QUEUED_MAX + 2, sizeof *queued);
    assert_non_null(queued);
    for (size_t i = 0; i < COMMITS_QUEUED_MAX + 2; i++)
        queue_one(&queued[i], i);
    assert_true(metric_of(&store, "store_commit_queue") == COMMITS_QUEUED_MAX);
    for (size_t i = COMMITS_QUEUED_MAX; i < COMMITS_QUEUED_MAX + 2; i++) {
        assert_true(lane_loop_run_until(&store.loop, &queued[i].is_complete));
        assert_int_equal(queued[i].commit.outcome, KV_REFUSED);
        assert_int_equal(queued[i].commit.status, STATUS_THROTTLED);
    }
    sem_post(&may_go_on);
    for (size_t i = 0; i < COMMITS_QUEUED_MAX; i++) {
        assert_true(lane_loop_run_until(&store.loop, &queued[i].is_complete));
        assert_int_equal(queued[i].commit.outcome, KV_DONE);
        assert_true(i == 0 || queued[i].commit.number == queued[i - 1].commit.number + 1);
    }
    assert_true(blocker.is_complete);
    /* 1,024 a group at most */
    assert_true(metric_of(&store, "store_commit_groups_total") >= COMMITS_QUEUED_MAX / 1024.0);
    assert_int_equal(store_put(&store, "afterwards", "x"), KV_DONE);
    free(queued);
    sem_destroy(&may_go_on);
    sem_destroy(&has_begun);
}

/* ---- numbers and syncs ---- */

static uint64_t put_for_number(struct store_under_test *to)
{
    struct kv_record write = {.key = bytes_text("n"), .value = bytes_text("x")};
    struct kv_commit commit = {.writes = &write, .write_count = 1};
    assert_int_equal(store_commit_all(to, &commit), KV_DONE);
    return commit.number;
}

static void remove_directory(const char *directory)
{
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", directory);
    assert_int_equal(system(command), 0);
}

static void numbers_ascend_over_a_restart(void **state)
{
    (void)state;
    char directory[] = "writer-XXXXXX", url[64];
    assert_non_null(mkdtemp(directory));
    snprintf(url, sizeof url, "rocksdb:%s", directory);
    uint64_t last = 0;
    for (int start = 0; start < 3; start++) {
        struct store_under_test opened;
        store_set_up(&opened, url, SYNC_ALWAYS, NULL, NULL);
        for (int i = 0; i < 20; i++) {
            uint64_t number = put_for_number(&opened);
            assert_true(number > last);
            last = number;
        }
        store_tear_down(&opened);
    }
    remove_directory(directory);
}

static void the_log_is_synced_at_intervals_when_asked_for(void **state)
{
    (void)state;
    char directory[] = "writer-XXXXXX", url[64];
    assert_non_null(mkdtemp(directory));
    snprintf(url, sizeof url, "rocksdb:%s", directory);
    uint32_t before = store_sync_ms;
    store_sync_ms = 50; /* longer than a few commits, also on a slow machine */
    struct store_under_test opened;
    store_set_up(&opened, url, SYNC_INTERVAL, NULL, NULL);
    int commits = 0;
    while (metric_of(&opened, "store_log_syncs_total") < 2 && commits++ < 100000)
        assert_int_equal(store_put(&opened, "k", "v"), KV_DONE);
    assert_true(commits > 2 && commits < 100000);
    store_tear_down(&opened);
    store_sync_ms = before;
    remove_directory(directory);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(sixteen_threads_lose_no_update_of_a_hot_item, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(without_recomputing_conflicts_come_back_and_nothing_is_lost,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_full_queue_refuses_at_once_and_takes_up_again, set_up,
                                        tear_down),
        cmocka_unit_test(numbers_ascend_over_a_restart),
        cmocka_unit_test(the_log_is_synced_at_intervals_when_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
