/* Opening: what is said about a place that will not do. Write errors: what goes on, what comes
 * back. */
#include "backend/rocksdb/store.h"
#include "tests/unit/backend/kv_suite.h"

#include "protocol/ensure.h"

#include <fcntl.h>
#include <sched.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char directory[32];

static int set_up(void **state)
{
    (void)state;
    snprintf(directory, sizeof directory, "database-XXXXXX");
    return mkdtemp(directory) == NULL;
}

static int tear_down(void **state)
{
    (void)state;
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", directory);
    return system(command);
}

static const char *path_of(const char *name)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    return path;
}

static void assert_refused(const char *url, const char *wanted)
{
    struct store_options options = {.url = bytes_text(url), .memory_bytes = 8 << 20};
    struct error error = {.text = ""};
    struct kv *kv = NULL;
    assert_int_equal(kv_rocksdb.open(&options, &kv, &error), STATUS_VALIDATION);
    assert_null(kv);
    if (strstr(error.text, wanted) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", error.text, wanted);
}

static void assert_path_refused(const char *name, const char *wanted)
{
    char url[160];
    snprintf(url, sizeof url, "rocksdb:%s", path_of(name));
    assert_refused(url, wanted);
    assert_refused(url, path_of(name));
}

/* ---- opening ---- */

static void a_missing_directory_is_made_but_not_its_parents(void **state)
{
    (void)state;
    char url[160];
    snprintf(url, sizeof url, "rocksdb:%s", path_of("new"));
    struct store_under_test store;
    store_set_up(&store, url, SYNC_NONE, NULL, NULL);
    store_tear_down(&store);
    struct stat found;
    assert_int_equal(stat(path_of("new"), &found), 0);
    assert_true(S_ISDIR(found.st_mode));
    assert_int_equal(found.st_mode & 07, 0);
    assert_path_refused("missing/new", "its parent must exist");
}

static void a_directory_in_use_is_refused_in_plain_words(void **state)
{
    (void)state;
    char url[160];
    snprintf(url, sizeof url, "rocksdb:%s", path_of("shared"));
    struct store_under_test store;
    store_set_up(&store, url, SYNC_NONE, NULL, NULL);
    assert_path_refused("shared", "in use by another process; stop the other mudaxd");
    store_tear_down(&store);
}

static void a_directory_of_other_files_is_left_alone(void **state)
{
    (void)state;
    assert_int_equal(mkdir(path_of("photos"), 0700), 0);
    int file = open(path_of("photos/cat.jpg"), O_CREAT | O_WRONLY, 0600);
    assert_true(file >= 0);
    close(file);
    assert_path_refused("photos", "holds other files (cat.jpg)");
    assert_int_not_equal(access(path_of("photos/LOCK"), F_OK), 0);
    assert_path_refused("photos/cat.jpg", "cannot be opened");
}

static void what_a_cut_short_first_start_left_is_taken(void **state)
{
    (void)state;
    assert_int_equal(mkdir(path_of("half"), 0700), 0);
    static const char *const names[] = {"half/LOCK", "half/LOG", "half/IDENTITY"};
    for (size_t i = 0; i < 3; i++)
        close(open(path_of(names[i]), O_CREAT | O_WRONLY, 0600));
    char url[160];
    snprintf(url, sizeof url, "rocksdb:%s", path_of("half"));
    struct store_under_test store;
    store_set_up(&store, url, SYNC_NONE, NULL, NULL);
    assert_int_equal(store_put(&store, "a", "b"), KV_DONE);
    store_tear_down(&store);
}

static void urls_that_mean_nothing_are_refused(void **state)
{
    (void)state;
    assert_refused("rocksdb:", "names no directory");
    assert_refused("memory:?delay=", "memory:?delay=4ms");
    assert_refused("memory:?delay=4", "memory:?delay=4ms");
    assert_refused("memory:?delay=4min", "memory:?delay=4ms");
    assert_refused("memory:?delay=12345678us", "memory:?delay=4ms");
    assert_refused("memory:x", "memory:x");
}

static void a_delay_is_what_the_answer_takes(void **state)
{
    (void)state;
    static const struct {
        const char *url;
        uint64_t us;
    } cases[] = {
        {"memory:?delay=100us", 100}, {"memory:?delay=4ms", 4000}, {"memory:?delay=1s", 1000000}};
    for (size_t i = 0; i < 3; i++) {
        struct store_under_test store;
        store_set_up(&store, cases[i].url, SYNC_NONE, NULL, NULL);
        uint64_t before = store.loop.now_us;
        assert_int_equal(store_put(&store, "a", "b"), KV_DONE);
        assert_int_equal(store.loop.now_us - before, cases[i].us);
        (void)store_get_one(&store, "a");
        assert_int_equal(store.loop.now_us - before, 2 * cases[i].us);
        (void)store_list(&store, "a", "b", false, 0);
        assert_int_equal(store.loop.now_us - before, 3 * cases[i].us);
        store_tear_down(&store);
    }
}

static void what_was_acknowledged_is_there_after_a_restart(void **state)
{
    (void)state;
    char url[160];
    snprintf(url, sizeof url, "rocksdb:%s", path_of("kept"));
    struct store_under_test store;
    store_set_up(&store, url, SYNC_ALWAYS, NULL, NULL);
    struct kv_record write = {.key = bytes_text("a"), .value = bytes_text("1")};
    struct kv_counter counter = {.key = bytes_text("c"), .add = {3}};
    struct kv_commit commit = {
        .writes = &write, .write_count = 1, .counters = &counter, .counter_count = 1};
    assert_int_equal(store_commit_all(&store, &commit), KV_DONE);
    store_tear_down(&store);
    store_set_up(&store, url, SYNC_ALWAYS, NULL, NULL);
    assert_true(bytes_equal(store_get_one(&store, "a").value, bytes_text("1")));
    assert_int_equal(store_commit_all(&store, &commit), KV_DONE);
    assert_int_equal(store_get_one(&store, "c").value.data[0], 6);
    store_tear_down(&store);
}

/* Blocks that are not in memory come from a reader thread, in the same order. */
static void what_is_not_in_memory_is_read_by_a_reader_thread(void **state)
{
    (void)state;
    char url[160], name[32];
    snprintf(url, sizeof url, "rocksdb:%s", path_of("cold"));
    struct store_under_test store;
    store_set_up(&store, url, SYNC_NONE, NULL, NULL);
    for (int i = 0; i < 2000; i++) {
        snprintf(name, sizeof name, "cold/%04d", i);
        store_put(&store, name, "some value or other, so that there are several blocks");
    }
    store_tear_down(&store); /* opening again makes a table file of the log */
    for (int round = 0; round < 3; round++) {
        store_set_up(&store, url, SYNC_NONE, NULL, NULL);
        const char *keys = store_list(&store, "cold/", "cold0", round == 1, 0);
        assert_int_equal(strlen(keys), 2000 * 10 - 1);
        assert_memory_equal(keys, round == 1 ? "cold/1999" : "cold/0000", 9);
        assert_true(bytes_given(store_get_one(&store, "cold/0777").value));
        assert_false(bytes_given(store_get_one(&store, "cold/9777").value));
        struct kv_record records[] = {{.key = bytes_text("cold/0001")},
                                      {.key = bytes_text("cold/1001")}};
        assert_int_equal(store_get(&store, records, 2), STATUS_OK);
        assert_true(bytes_given(records[0].value) && bytes_given(records[1].value));
        store_tear_down(&store);
    }
    store_set_up(&store, url, SYNC_NONE, NULL, NULL);
    struct store *opened = (struct store *)store.kv;
    assert_true(bytes_given(store_get_one(&store, "cold/0777").value));
    assert_int_equal(atomic_load(&opened->reads.incomplete), 1);
    assert_true(bytes_given(store_get_one(&store, "cold/0777").value));
    assert_int_equal(atomic_load(&opened->reads.incomplete), 1);
    assert_int_equal(atomic_load(&opened->reads.cached), 1);
    store_tear_down(&store);
}

/* ---- write errors ---- */

/* Files may not grow beyond a limit, so that writes fail as on a full disk. */
static void limit_files(rlim_t bytes)
{
    struct rlimit limit;
    ensure(getrlimit(RLIMIT_FSIZE, &limit) == 0);
    limit.rlim_cur = bytes;
    ensure(setrlimit(RLIMIT_FSIZE, &limit) == 0);
}

struct events {
    sem_t failed, reopen_failed, read_only, reopened;
};

static void note_event(void *arg, const char *what, const char *detail)
{
    struct events *events = arg;
    if (strcmp(what, "store_failed") == 0)
        sem_post(&events->failed);
    else if (strcmp(what, "store_reopen_failed") == 0)
        sem_post(&events->reopen_failed);
    else if (strcmp(detail, "for reading only") == 0)
        sem_post(&events->read_only);
    else if (strcmp(what, "store_reopened") == 0)
        sem_post(&events->reopened);
}

static void wait_for(sem_t *event)
{
    while (sem_wait(event) != 0)
        continue;
}

enum { VALUE_SIZE = 20000, RECORDS_MAX = 100 };

static void record_name(char out[16], int i)
{
    snprintf(out, 16, "k%03d", i);
}

static int put_until_it_fails(struct store_under_test *store, const char *value)
{
    char name[16];
    int i = 0;
    enum kv_outcome outcome = KV_DONE;
    for (; outcome == KV_DONE; i++) {
        ensure(i < RECORDS_MAX); /* the limit is reached */
        record_name(name, i);
        outcome = store_put(store, name, value);
    }
    ensure(outcome == KV_UNKNOWN);
    return i - 1;
}

static void ensure_readable(struct store_under_test *store, int count)
{
    char name[16];
    for (int i = 0; i < count; i++) {
        record_name(name, i);
        ensure(store_get_one(store, name).value.size == VALUE_SIZE);
    }
    const char *keys = store_list(store, "k", "l", false, (size_t)count);
    ensure(strlen(keys) == (size_t)count * 5 - 1);
}

static void ensure_refused(struct store_under_test *store)
{
    struct kv_record write = {.key = bytes_text("z"), .value = bytes_text("z")};
    struct kv_commit commit = {.writes = &write, .write_count = 1};
    ensure(store_commit_all(store, &commit) == KV_REFUSED);
    ensure(commit.status == STATUS_INTERNAL);
    const char *why = NULL;
    ensure(!store->ops->is_ready(store->kv, &why));
    ensure(strstr(why, "disk full") != NULL);
}

/* In a program of its own, for limits are a process's, and RocksDB's threads do not outlive a fork.
 */
static void fill_the_disk(void)
{
    struct events events;
    sem_init(&events.failed, 0, 0);
    sem_init(&events.reopen_failed, 0, 0);
    sem_init(&events.read_only, 0, 0);
    sem_init(&events.reopened, 0, 0);
    signal(SIGXFSZ, SIG_IGN);
    alarm(60);
    store_reopen_ms = 20;
    char url[160];
    snprintf(url, sizeof url, "rocksdb:%s", path_of("full"));
    struct store_under_test store;
    store_set_up(&store, url, SYNC_ALWAYS, note_event, &events);
    static char value[VALUE_SIZE + 1];
    memset(value, 'v', VALUE_SIZE);

    limit_files(300000);
    int count = put_until_it_fails(&store, value);
    ensure(count > 5);
    limit_files(150000); /* too little for what is in the log: reopening fails too */
    wait_for(&events.failed);
    ensure_refused(&store);
    ensure_readable(&store, count);
    wait_for(&events.read_only);
    ensure_refused(&store);
    ensure_readable(&store, count);
    wait_for(&events.reopen_failed);

    limit_files(RLIM_INFINITY);
    wait_for(&events.reopened);
    ensure_readable(&store, count);
    while (store_put(&store, "z", "z") == KV_REFUSED) /* the last step follows the event */
        continue;
    const char *why = NULL;
    ensure(store.ops->is_ready(store.kv, &why));
    ensure(bytes_equal(store_get_one(&store, "z").value, bytes_text("z")));
    store_tear_down(&store);
    store_set_up(&store, url, SYNC_ALWAYS, NULL, NULL);
    ensure_readable(&store, count);
    ensure(bytes_equal(store_get_one(&store, "z").value, bytes_text("z")));
    store_tear_down(&store);
}

static void a_full_disk_stops_writes_only_and_they_come_back_by_themselves(void **state)
{
    (void)state;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        execl("/proc/self/exe", "database_test", "fill-the-disk", directory, (char *)NULL);
        _exit(127);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* ---- reopening beside reads ---- */

enum { RANGE_RECORDS = 2000, POINTS = 2 * STORE_READERS };

struct waiting_read {
    struct kv_read read;
    struct kv_record record;
    char key[16];
    size_t visited;
    bool is_complete;
};

static void waiting_is_complete(struct kv_read *read)
{
    ((struct waiting_read *)read->owner)->is_complete = true;
}

static bool waiting_visit(struct kv_read *read, struct bytes key, struct bytes value)
{
    (void)key, (void)value;
    ((struct waiting_read *)read->owner)->visited++;
    return true;
}

static void begin_read(struct store_under_test *store, struct waiting_read *waiting)
{
    waiting->read.arena = &store->arena;
    waiting->read.complete = waiting_is_complete;
    waiting->read.owner = waiting;
    assert_int_equal(store->ops->read(store->lane, &waiting->read), SUBMIT_PENDING);
}

static void begin_point(struct store_under_test *store, struct waiting_read *waiting, int i)
{
    *waiting = (struct waiting_read){.read = {.records = &waiting->record, .count = 1}};
    record_name(waiting->key, i);
    waiting->record.key = bytes_text(waiting->key);
    begin_read(store, waiting);
}

static void put_range(struct store_under_test *store)
{
    char name[16];
    for (int i = 0; i < RANGE_RECORDS; i++) {
        record_name(name, i);
        assert_int_equal(store_put(store, name, name), KV_DONE);
    }
}

/* As the writer does after a write error; it has nothing else to do. */
static void *reopen(void *arg)
{
    struct store *store = arg;
    ensure(database_reopen(store, atomic_load(&store->readable)));
    return NULL;
}

/* A range is begun, and needs a reader thread for its rest; before it in the queue come as many
 * reads as would keep all of them waiting for the reopening, which waits for the range. */
static void reopening_and_the_reads_that_it_waits_for_do_not_wait_for_each_other(void **state)
{
    (void)state;
    struct store_under_test store;
    store_set_up(&store, "memory:", SYNC_NONE, NULL, NULL);
    struct store *opened = (struct store *)store.kv;
    put_range(&store);
    struct waiting_read range = {
        .read = {.low = bytes_text("k"), .high = bytes_text("l"), .visit = waiting_visit}};
    begin_read(&store, &range);

    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, reopen, opened), 0);
    while (!atomic_load(&opened->is_reopening))
        sched_yield();
    static struct waiting_read points[POINTS];
    for (int i = 0; i < POINTS; i++)
        begin_point(&store, &points[i], i);

    assert_true(lane_loop_run_until(&store.loop, &range.is_complete));
    assert_int_equal(range.read.status, STATUS_OK);
    assert_int_equal(range.visited, RANGE_RECORDS);
    assert_int_equal(atomic_load(&opened->reads.large), 1); /* it did go to a reader thread */
    for (int i = 0; i < POINTS; i++) {
        assert_true(lane_loop_run_until(&store.loop, &points[i].is_complete));
        assert_int_equal(points[i].read.status, STATUS_OK);
        assert_true(bytes_equal(points[i].record.value, points[i].record.key));
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(store_put(&store, "z", "z"), KV_DONE);
    store_tear_down(&store);
}

/* ---- how much is visited before others have their turn ---- */

static size_t visited_at_once(struct store_under_test *store, uint32_t weight)
{
    struct waiting_read range = {.read = {.low = bytes_text("k"),
                                          .high = bytes_text("l"),
                                          .visit = waiting_visit,
                                          .weight = weight}};
    begin_read(store, &range);
    size_t visited = range.visited;
    assert_true(lane_loop_run_until(&store->loop, &range.is_complete));
    assert_int_equal(range.read.status, STATUS_OK);
    assert_int_equal(range.visited, RANGE_RECORDS);
    return visited;
}

static void what_is_more_work_is_visited_in_smaller_slices(void **state)
{
    (void)state;
    struct store_under_test store;
    store_set_up(&store, "memory:", SYNC_NONE, NULL, NULL);
    put_range(&store);
    assert_int_equal(visited_at_once(&store, 0), 256);
    assert_int_equal(visited_at_once(&store, 1), 256);
    assert_int_equal(visited_at_once(&store, 8), 32);
    assert_int_equal(visited_at_once(&store, 1000), 1);
    store_tear_down(&store);
}

static void a_record_that_is_too_much_work_is_left_to_a_reader_thread(void **state)
{
    (void)state;
    static char value[20001];
    struct store_under_test store;
    store_set_up(&store, "memory:", SYNC_NONE, NULL, NULL);
    struct store *opened = (struct store *)store.kv;
    memset(value, 'v', sizeof value - 1);
    assert_int_equal(store_put(&store, "k1", "small"), KV_DONE);
    assert_int_equal(store_put(&store, "k2", value), KV_DONE);
    for (uint32_t weight = 50; weight <= 60; weight += 10) { /* a record of 20 KB is too much */
        struct waiting_read range = {.read = {.low = bytes_text("k"),
                                              .high = bytes_text("l"),
                                              .visit = waiting_visit,
                                              .weight = weight}};
        begin_read(&store, &range);
        bool is_heavy = weight == 60;
        assert_int_equal(range.visited, is_heavy ? 1 : 2);
        assert_true(lane_loop_run_until(&store.loop, &range.is_complete));
        assert_int_equal(range.visited, 2);
        assert_int_equal(atomic_load(&opened->reads.large), is_heavy);
    }
    store_tear_down(&store);
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "fill-the-disk") == 0) {
        snprintf(directory, sizeof directory, "%s", argv[2]);
        fill_the_disk();
        return 0;
    }
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_missing_directory_is_made_but_not_its_parents, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_directory_in_use_is_refused_in_plain_words, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_directory_of_other_files_is_left_alone, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(what_a_cut_short_first_start_left_is_taken, set_up,
                                        tear_down),
        cmocka_unit_test(urls_that_mean_nothing_are_refused),
        cmocka_unit_test(a_delay_is_what_the_answer_takes),
        cmocka_unit_test_setup_teardown(what_was_acknowledged_is_there_after_a_restart, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(what_is_not_in_memory_is_read_by_a_reader_thread, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(
            a_full_disk_stops_writes_only_and_they_come_back_by_themselves, set_up, tear_down),
        cmocka_unit_test(reopening_and_the_reads_that_it_waits_for_do_not_wait_for_each_other),
        cmocka_unit_test(what_is_more_work_is_visited_in_smaller_slices),
        cmocka_unit_test(a_record_that_is_too_much_work_is_left_to_a_reader_thread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
