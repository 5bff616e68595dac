/* What kv.h promises, on every store: main() lists them. */
#include "tests/support/redis_server.h"
#include "tests/unit/backend/kv_suite.h"

#include "protocol/ensure.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

struct url {
    const char *url;
    bool recomputes; /* else a change is a conflict, even if it could be computed again */
};

static const struct url *url;
static struct store_under_test store;

static int set_up(void **state)
{
    (void)state;
    store_set_up(&store, url->url, SYNC_NONE, NULL, NULL);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    store_tear_down(&store);
    return 0;
}

/* Each test works below a prefix of its own. */
static const char *key(const char *name)
{
    static char keys[16][64];
    static size_t at;
    char *out = keys[at++ % 16];
    snprintf(out, sizeof keys[0], KV_BUCKET "test/%s", name);
    return out;
}

static void assert_value(const char *name, const char *value)
{
    struct kv_record record = store_get_one(&store, name);
    if (!bytes_equal(record.value, text(value)) || bytes_given(record.value) != (value != NULL))
        fail_msg("%s is \"%.*s\", must be %s", name, (int)record.value.size,
                 record.value.data == NULL ? "" : (const char *)record.value.data,
                 value == NULL ? "absent" : value);
}

/* ---- reads and commits ---- */

static void what_is_put_is_read_and_what_is_deleted_is_absent(void **state)
{
    (void)state;
    assert_value(key("a"), NULL);
    assert_int_equal(store_put(&store, key("a"), "1"), KV_DONE);
    assert_value(key("a"), "1");
    assert_int_equal(store_put(&store, key("a"), ""), KV_DONE);
    assert_value(key("a"), "");
    assert_int_equal(store_put(&store, key("a"), NULL), KV_DONE);
    assert_value(key("a"), NULL);
    assert_int_equal(store_put(&store, key("a"), NULL), KV_DONE);
}

static void several_records_are_read_at_one_instant(void **state)
{
    (void)state;
    store_put(&store, key("m1"), "1");
    store_put(&store, key("m3"), "3");
    struct kv_record records[] = {{.key = bytes_text(key("m1"))},
                                  {.key = bytes_text(key("m2"))},
                                  {.key = bytes_text(key("m3"))}};
    assert_int_equal(store_get(&store, records, 3), STATUS_OK);
    assert_true(bytes_equal(records[0].value, bytes_text("1")));
    assert_false(bytes_given(records[1].value));
    assert_true(bytes_equal(records[2].value, bytes_text("3")));
    struct kv_commit commit = {.reads = records, .read_count = 3};
    assert_int_equal(store_commit_all(&store, &commit), KV_DONE);
    store_put(&store, key("m2"), "2");
    assert_int_equal(store_commit_all(&store, &commit), KV_CONFLICT);
}

static void ranges_are_read_forward_and_backward(void **state)
{
    (void)state;
    static const char *const names[] = {KV_BUCKET "r/a", KV_BUCKET "r/b", KV_BUCKET "r/bb",
                                        KV_BUCKET "r/c", KV_BUCKET "r/d"};
    for (size_t i = 0; i < 5; i++)
        store_put(&store, names[i], "x");
    assert_string_equal(store_list(&store, KV_BUCKET "r/", KV_BUCKET "r0", false, 0),
                        "r/a r/b r/bb r/c r/d");
    assert_string_equal(store_list(&store, KV_BUCKET "r/", KV_BUCKET "r0", true, 0),
                        "r/d r/c r/bb r/b r/a");
    assert_string_equal(store_list(&store, KV_BUCKET "r/b", KV_BUCKET "r/c", false, 0), "r/b r/bb");
    assert_string_equal(store_list(&store, KV_BUCKET "r/b", KV_BUCKET "r/c", true, 0), "r/bb r/b");
    assert_string_equal(store_list(&store, KV_BUCKET "r/aa", KV_BUCKET "r/bbb", false, 0),
                        "r/b r/bb");
    assert_string_equal(store_list(&store, KV_BUCKET "r/", KV_BUCKET "r0", false, 2), "r/a r/b");
    assert_string_equal(store_list(&store, KV_BUCKET "r/", KV_BUCKET "r0", true, 2), "r/d r/c");
    assert_string_equal(store_list(&store, KV_BUCKET "r/e", KV_BUCKET "r0", false, 0), "");
    assert_string_equal(store_list(&store, KV_BUCKET "r/e", KV_BUCKET "r0", true, 0), "");
}

/* More than a slice, and more than all slices of a lane. */
static void long_ranges_are_read_whole_and_in_order(void **state)
{
    (void)state;
    enum { RECORDS = 1500 };
    char name[32];
    char *value = calloc(1, 513);
    memset(value, 'v', 512);
    for (int i = 0; i < RECORDS; i++) {
        snprintf(name, sizeof name, KV_BUCKET "long/%05d", i);
        store_put(&store, name, value);
    }
    for (int backward = 0; backward < 2; backward++) {
        const char *keys = store_list(&store, KV_BUCKET "long/", KV_BUCKET "long0", backward, 0);
        assert_int_equal(strlen(keys), RECORDS * 11 - 1);
        for (int i = 0; i < RECORDS; i++) {
            snprintf(name, sizeof name, KV_BUCKET "long/%05d", backward ? RECORDS - 1 - i : i);
            assert_memory_equal(keys + i * 11, name + sizeof KV_BUCKET - 1, 10);
        }
    }
    free(value);
}

static void large_reads_give_the_same_from_a_reader_thread(void **state)
{
    (void)state;
    store_put(&store, KV_BUCKET "large/a", "1");
    store_put(&store, KV_BUCKET "large/b", "2");
    assert_string_equal(store_list_large(&store, KV_BUCKET "large/", KV_BUCKET "large0"),
                        "large/a large/b");
    assert_string_equal(store_list_large(&store, KV_BUCKET "large/c", KV_BUCKET "large0"), "");
}

struct counting {
    size_t count;
    bool is_complete;
};

static bool count_visit(struct kv_read *read, struct bytes found, struct bytes value)
{
    (void)found;
    (void)value;
    ((struct counting *)read->owner)->count++;
    return true;
}

static void counting_is_complete(struct kv_read *read)
{
    ((struct counting *)read->owner)->is_complete = true;
}

/* Whatever is written between the slices of a range does not show in it. */
static void a_range_is_of_one_instant_however_long_it_takes(void **state)
{
    (void)state;
    enum { RECORDS = 700 };
    char name[32];
    for (int i = 0; i < RECORDS; i++) {
        snprintf(name, sizeof name, KV_BUCKET "instant/%05d", i);
        store_put(&store, name, "x");
    }
    struct counting counting = {0};
    struct kv_read read = {.low = bytes_text(KV_BUCKET "instant/"),
                           .high = bytes_text(KV_BUCKET "instant0"),
                           .visit = count_visit,
                           .arena = &store.arena,
                           .complete = counting_is_complete,
                           .owner = &counting};
    assert_int_equal(store.ops->read(store.lane, &read), SUBMIT_PENDING);
    store_put(&store, KV_BUCKET "instant/99999", "late");
    store_put(&store, KV_BUCKET "instant/00699", NULL);
    ensure(lane_loop_run_until(&store.loop, &counting.is_complete));
    assert_int_equal(read.status, STATUS_OK);
    assert_int_equal(counting.count, RECORDS);
}

static void a_commit_writes_all_or_nothing(void **state)
{
    (void)state;
    store_put(&store, key("x"), "old");
    struct kv_record read = store_get_one(&store, key("x"));
    store_put(&store, key("x"), "newer");
    struct kv_record writes[] = {{.key = bytes_text(key("y")), .value = bytes_text("1")},
                                 {.key = bytes_text(key("x")), .value = bytes_text("2")}};
    struct kv_commit commit = {.reads = &read, .read_count = 1, .writes = writes, .write_count = 2};
    assert_int_equal(store_commit_all(&store, &commit), KV_CONFLICT);
    assert_value(key("x"), "newer");
    assert_value(key("y"), NULL);
    read = store_get_one(&store, key("x"));
    assert_int_equal(store_commit_all(&store, &commit), KV_DONE);
    assert_value(key("x"), "2");
    assert_value(key("y"), "1");
}

static void absence_is_a_precondition_too(void **state)
{
    (void)state;
    struct kv_record read = store_get_one(&store, key("absent"));
    struct kv_record write = {.key = read.key, .value = bytes_text("mine")};
    struct kv_commit commit = {.reads = &read, .read_count = 1, .writes = &write, .write_count = 1};
    store_put(&store, key("absent"), "theirs");
    assert_int_equal(store_commit_all(&store, &commit), KV_CONFLICT);
    assert_value(key("absent"), "theirs");
}

static void a_token_taken_before_stands_for_what_was_there_then(void **state)
{
    (void)state;
    store_put(&store, key("catalog"), "1");
    struct kv_record read = {.key = bytes_text(key("catalog")),
                             .value = bytes_text("1"),
                             .token = store.ops->token(store.kv)};
    struct kv_record write = {.key = bytes_text(key("other")), .value = bytes_text("x")};
    struct kv_commit commit = {.reads = &read, .read_count = 1, .writes = &write, .write_count = 1};
    assert_int_equal(store_commit_all(&store, &commit), KV_DONE);
    store_put(&store, key("catalog"), NULL);
    assert_int_equal(store_commit_all(&store, &commit), KV_CONFLICT);
}

static void numbers_ascend_and_reads_tell_them(void **state)
{
    (void)state;
    uint64_t last = 0;
    for (int i = 0; i < 5; i++) {
        struct kv_record write = {.key = bytes_text(key("n")), .value = bytes_text("x")};
        struct kv_commit commit = {.writes = &write, .write_count = 1};
        assert_int_equal(store_commit_all(&store, &commit), KV_DONE);
        if (commit.number == 0)
            return; /* a store that has none */
        assert_true(commit.number > last);
        last = commit.number;
        assert_true(store_get_one(&store, key("n")).token >= last);
    }
}

/* ---- recomputing ---- */

/* Appends "+" to what is there; refuses beyond five. */
static enum kv_outcome append_plus(struct kv_commit *commit)
{
    struct bytes old = commit->reads[0].value;
    if (old.size == 5) {
        commit->status = STATUS_CONDITIONAL_CHECK_FAILED;
        return KV_REFUSED;
    }
    uint8_t *grown = arena_alloc(commit->arena, old.size + 1);
    assert_non_null(grown);
    if (old.size != 0)
        memcpy(grown, old.data, old.size);
    grown[old.size] = '+';
    commit->writes[0].value = bytes_of(grown, old.size + 1);
    return KV_DONE;
}

/* As the engine does it where the store does not: reads, computes and commits again. */
static enum kv_outcome commit_until_done(struct kv_commit *commit)
{
    enum kv_outcome outcome;
    while ((outcome = store_commit_all(&store, commit)) == KV_CONFLICT) {
        assert_false(url->recomputes);
        assert_int_equal(store_get(&store, commit->reads, commit->read_count), STATUS_OK);
        outcome = commit->recompute(commit);
        if (outcome != KV_DONE)
            return outcome;
    }
    return outcome;
}

static void a_changed_record_is_computed_again(void **state)
{
    (void)state;
    struct kv_record read = store_get_one(&store, key("plus"));
    struct kv_record write = {.key = read.key};
    struct kv_commit commit = {.reads = &read,
                               .read_count = 1,
                               .writes = &write,
                               .write_count = 1,
                               .recompute = append_plus,
                               .arena = &store.arena};
    assert_int_equal(append_plus(&commit), KV_DONE);
    store_put(&store, key("plus"), "abc");
    assert_int_equal(commit_until_done(&commit), KV_DONE);
    assert_value(key("plus"), "abc+");
    store_put(&store, key("plus"), "abcde");
    assert_int_equal(commit_until_done(&commit), KV_REFUSED);
    assert_int_equal(commit.status, STATUS_CONDITIONAL_CHECK_FAILED);
    assert_value(key("plus"), "abcde");
}

struct racing {
    struct kv_commit commit;
    struct kv_record read, write;
    bool is_complete;
};

static void racing_is_complete(struct kv_commit *commit)
{
    ((struct racing *)commit->owner)->is_complete = true;
}

/* All read before any commits, so that all but the first are computed again, in one group or more.
 */
static void commits_in_flight_together_all_count(void **state)
{
    (void)state;
    enum { RACERS = 5 };
    struct racing racing[RACERS];
    for (size_t i = 0; i < RACERS; i++) {
        struct racing *one = &racing[i];
        *one = (struct racing){.read = store_get_one(&store, KV_BUCKET "race/one")};
        one->write.key = one->read.key;
        one->commit = (struct kv_commit){.reads = &one->read,
                                         .read_count = 1,
                                         .writes = &one->write,
                                         .write_count = 1,
                                         .recompute = append_plus,
                                         .arena = &store.arena,
                                         .complete = racing_is_complete,
                                         .owner = one};
        assert_int_equal(append_plus(&one->commit), KV_DONE);
    }
    for (size_t i = 0; i < RACERS; i++)
        store.ops->commit(store.lane, &racing[i].commit);
    size_t done = 0;
    for (size_t i = 0; i < RACERS; i++) {
        ensure(lane_loop_run_until(&store.loop, &racing[i].is_complete));
        assert_true(racing[i].commit.outcome == KV_DONE || racing[i].commit.outcome == KV_CONFLICT);
        done += racing[i].commit.outcome == KV_DONE;
    }
    assert_true(done >= 1);
    assert_int_equal(store_get_one(&store, KV_BUCKET "race/one").value.size, done);
}

/* ---- counters ---- */

static int64_t counter_at(struct bytes value, size_t i)
{
    uint64_t bits = 0;
    for (size_t k = 8; k-- > 0;)
        bits = bits << 8 | value.data[8 * i + k];
    return (int64_t)bits;
}

static void counters_add_up_with_their_commits(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        struct kv_record write = {.key = bytes_text(key("counted")), .value = bytes_text("x")};
        struct kv_counter counter = {.key = bytes_text(key("counter")), .add = {1, 10, -3, 0}};
        struct kv_commit commit = {
            .writes = &write, .write_count = 1, .counters = &counter, .counter_count = 1};
        assert_int_equal(store_commit_all(&store, &commit), KV_DONE);
    }
    struct bytes value = store_get_one(&store, key("counter")).value;
    assert_int_equal(value.size, 8 * KV_COUNTERS);
    assert_int_equal(counter_at(value, 0), 4);
    assert_int_equal(counter_at(value, 1), 40);
    assert_int_equal(counter_at(value, 2), -12);
    assert_int_equal(counter_at(value, 3), 0);
}

static void a_refused_commit_counts_nothing(void **state)
{
    (void)state;
    struct kv_record read = store_get_one(&store, key("guard"));
    store_put(&store, key("guard"), "changed");
    struct kv_counter counter = {.key = bytes_text(key("uncounted")), .add = {1}};
    struct kv_commit commit = {
        .reads = &read, .read_count = 1, .counters = &counter, .counter_count = 1};
    assert_int_equal(store_commit_all(&store, &commit), KV_CONFLICT);
    assert_value(key("uncounted"), NULL);
}

/* ---- dropping ---- */

/* Adds to a counter that may not be above 100; beside it a write, which then must not happen. */
static enum kv_outcome add_limited(int64_t add, const char *value, int64_t *after)
{
    struct kv_record write = {.key = bytes_text(key("beside")), .value = bytes_text(value)};
    struct kv_counter counters[2] = {
        {.key = bytes_text(key("free")), .add = {add}},
        {.key = bytes_text(key("limited")), .add = {add, 1}, .limit = 100}};
    struct kv_commit commit = {
        .writes = &write, .write_count = 1, .counters = counters, .counter_count = 2};
    enum kv_outcome outcome = store_commit_all(&store, &commit);
    if (outcome == KV_REFUSED) {
        assert_int_equal(commit.status, STATUS_LIMIT_EXCEEDED);
        assert_ptr_equal(commit.exceeded, &counters[1]);
    } else {
        assert_null(commit.exceeded);
        *after = counters[1].after;
    }
    return outcome;
}

static void a_counter_does_not_grow_beyond_its_limit(void **state)
{
    (void)state;
    int64_t after;
    assert_int_equal(add_limited(60, "a", &after), KV_DONE);
    assert_int_equal(after, 60);
    assert_int_equal(add_limited(41, "b", &after), KV_REFUSED);
    assert_value(key("beside"), "a");
    assert_int_equal(counter_at(store_get_one(&store, key("free")).value, 0), 60);
    assert_int_equal(add_limited(40, "c", &after), KV_DONE);
    assert_int_equal(after, 100);
    struct kv_counter more = {.key = bytes_text(key("limited")), .add = {50}};
    struct kv_commit commit = {.counters = &more, .counter_count = 1};
    assert_int_equal(store_commit_all(&store, &commit), KV_DONE); /* who asks for no limit */
    assert_int_equal(add_limited(0, "d", &after), KV_DONE);
    assert_int_equal(after, 150);
    assert_int_equal(add_limited(1, "e", &after), KV_REFUSED);
    assert_int_equal(add_limited(-20, "f", &after), KV_DONE); /* it may shrink */
    assert_int_equal(after, 130);
}

static void a_counter_of_zeros_is_no_record(void **state)
{
    (void)state;
    struct kv_counter counter = {.key = bytes_text(key("gone")), .add = {5, -1, 0, 7}};
    struct kv_commit commit = {.counters = &counter, .counter_count = 1};
    assert_int_equal(store_commit_all(&store, &commit), KV_DONE);
    assert_true(bytes_given(store_get_one(&store, key("gone")).value));
    counter = (struct kv_counter){.key = bytes_text(key("gone")), .add = {-5, 1, 0, -7}};
    assert_int_equal(store_commit_all(&store, &commit), KV_DONE);
    assert_false(bytes_given(store_get_one(&store, key("gone")).value));
    counter = (struct kv_counter){.key = bytes_text(key("gone")), .add = {3}};
    assert_int_equal(store_commit_all(&store, &commit), KV_DONE);
    assert_int_equal(counter_at(store_get_one(&store, key("gone")).value, 0), 3);
}

static void dropped_ranges_go_with_the_commit_counters_too(void **state)
{
    (void)state;
    struct kv_counter counter = {.key = bytes_text(KV_BUCKET "drop/counter"), .add = {7}};
    struct kv_record write = {.key = bytes_text(KV_BUCKET "drop/b"), .value = bytes_text("x")};
    struct kv_commit commit = {
        .writes = &write, .write_count = 1, .counters = &counter, .counter_count = 1};
    assert_int_equal(store_commit_all(&store, &commit), KV_DONE);
    store_put(&store, KV_BUCKET "drop/a", "x");
    store_put(&store, KV_BUCKET "drop0", "kept");
    struct kv_range drop = {bytes_text(KV_BUCKET "drop/"), bytes_text(KV_BUCKET "drop0")};
    struct kv_record deletion = {.key = bytes_text(key("definition"))};
    commit =
        (struct kv_commit){.writes = &deletion, .write_count = 1, .drops = &drop, .drop_count = 1};
    assert_int_equal(store_commit_all(&store, &commit), KV_DONE);
    assert_value(KV_BUCKET "drop/a", NULL);
    assert_value(KV_BUCKET "drop/b", NULL);
    assert_value(KV_BUCKET "drop/counter", NULL);
    assert_string_equal(store_list(&store, KV_BUCKET "drop0", KV_BUCKET "drop1", false, 0),
                        "drop0");
    commit = (struct kv_commit){.counters = &counter, .counter_count = 1};
    assert_int_equal(store_commit_all(&store, &commit), KV_DONE);
    assert_int_equal(counter_at(store_get_one(&store, KV_BUCKET "drop/counter").value, 0), 7);
}

static bool first_visit(struct kv_read *read, struct bytes found, struct bytes value)
{
    (void)value;
    *(struct bytes *)read->owner = arena_copy(read->arena, found);
    return false;
}

static void load_reads_without_a_lane(void **state)
{
    (void)state;
    store_put(&store, KV_BUCKET "load/a", "1");
    struct kv_record record = {.key = bytes_text(KV_BUCKET "load/a")};
    struct kv_read read = {.records = &record, .count = 1, .arena = &store.arena};
    store.ops->load(store.kv, &read);
    assert_int_equal(read.status, STATUS_OK);
    assert_true(bytes_equal(record.value, bytes_text("1")));
    struct bytes found = BYTES_NONE;
    read = (struct kv_read){.low = bytes_text(KV_BUCKET "load/"),
                            .high = bytes_text(KV_BUCKET "load0"),
                            .visit = first_visit,
                            .arena = &store.arena,
                            .owner = &found};
    store.ops->load(store.kv, &read);
    assert_true(bytes_equal(found, bytes_text(KV_BUCKET "load/a")));
}

/* ---- against a model ---- */

enum { MODEL_KEYS = 40, MODEL_STEPS = 2000, MODEL_NAME = 32 };

struct model {
    char values[MODEL_KEYS][16]; /* "": absent */
    uint64_t random;
};

static uint32_t roll(struct model *model, uint32_t sides)
{
    model->random = model->random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(model->random >> 33) % sides;
}

static void model_name(char out[MODEL_NAME], uint32_t i)
{
    snprintf(out, MODEL_NAME, KV_BUCKET "model/%02u", i);
}

static void model_write(struct model *model)
{
    struct kv_record writes[3];
    char names[3][MODEL_NAME], values[3][16];
    uint32_t count = 1 + roll(model, 3);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t k = roll(model, MODEL_KEYS);
        bool is_deletion = roll(model, 4) == 0;
        model_name(names[i], k);
        snprintf(values[i], sizeof values[i], "%u", roll(model, 1000));
        writes[i] = (struct kv_record){.key = bytes_text(names[i]),
                                       .value = is_deletion ? BYTES_NONE : bytes_text(values[i])};
        snprintf(model->values[k], sizeof model->values[k], "%s", is_deletion ? "" : values[i]);
    }
    struct kv_commit commit = {.writes = writes, .write_count = count};
    assert_int_equal(store_commit_all(&store, &commit), KV_DONE);
}

static void model_get(struct model *model)
{
    uint32_t k = roll(model, MODEL_KEYS);
    char name[MODEL_NAME];
    model_name(name, k);
    assert_value(name, model->values[k][0] == '\0' ? NULL : model->values[k]);
}

static void model_list(struct model *model)
{
    uint32_t a = roll(model, MODEL_KEYS), b = a + roll(model, MODEL_KEYS - a + 1);
    bool is_backward = roll(model, 2) == 1;
    uint32_t most = roll(model, 6);
    char low[MODEL_NAME], high[MODEL_NAME], name[MODEL_NAME], expected[MODEL_KEYS * 16] = "";
    model_name(low, a);
    model_name(high, b);
    size_t count = 0;
    for (uint32_t i = a; i < b && (most == 0 || count < most); i++) {
        uint32_t k = is_backward ? b - 1 - (i - a) : i;
        if (model->values[k][0] == '\0')
            continue;
        model_name(name, k);
        if (count++ != 0)
            strcat(expected, " ");
        strcat(expected, name + sizeof KV_BUCKET - 1);
    }
    assert_string_equal(store_list(&store, low, high, is_backward, most), expected);
}

static void random_operations_agree_with_a_model(void **state)
{
    (void)state;
    struct model model = {.random = 42};
    for (int i = 0; i < MODEL_STEPS; i++) {
        uint32_t what = roll(&model, 4);
        if (what < 2)
            model_write(&model);
        else if (what == 2)
            model_get(&model);
        else
            model_list(&model);
    }
}

/* ---- patient reads ---- */

enum { PATIENT_KEYS = 700 };

/* A read that stops on its way until it is told to go on. */
struct stop {
    pthread_mutex_t lock;
    pthread_cond_t moved;
    size_t seen, old;
    bool is_there, may_go_on, is_complete;
};

static bool stop_visit(struct kv_read *read, struct bytes name, struct bytes value)
{
    (void)name;
    struct stop *stop = read->owner;
    stop->old += bytes_equal(value, bytes_text("old"));
    if (++stop->seen != 10)
        return true;
    pthread_mutex_lock(&stop->lock);
    stop->is_there = true;
    pthread_cond_broadcast(&stop->moved);
    while (!stop->may_go_on)
        pthread_cond_wait(&stop->moved, &stop->lock);
    pthread_mutex_unlock(&stop->lock);
    return true;
}

static void stop_is_complete(struct kv_read *read)
{
    ((struct stop *)read->owner)->is_complete = true;
}

static const char *patient_key(int number)
{
    char name[32];
    snprintf(name, sizeof name, "patient/%04d", number);
    return key(name);
}

static void a_patient_read_is_of_one_instant_records_and_all(void **state)
{
    (void)state;
    struct stop stop = {.lock = PTHREAD_MUTEX_INITIALIZER, .moved = PTHREAD_COND_INITIALIZER};
    if (!store.ops->has_instants)
        return;
    for (int i = 0; i < PATIENT_KEYS; i++)
        store_put(&store, patient_key(i), "old");
    store_put(&store, key("beside"), "old");
    struct kv_record beside = {.key = bytes_text(key("beside"))};
    struct kv_read read = {.records = &beside,
                           .count = 1,
                           .low = bytes_text(patient_key(0)),
                           .high = bytes_text(patient_key(PATIENT_KEYS)),
                           .is_large = true,
                           .is_patient = true,
                           .visit = stop_visit,
                           .arena = &store.arena,
                           .complete = stop_is_complete,
                           .owner = &stop};
    assert_int_equal(store.ops->read(store.lane, &read), SUBMIT_PENDING);
    pthread_mutex_lock(&stop.lock);
    lane_loop_settle(&store.loop); /* to the reader threads */
    while (!stop.is_there)
        pthread_cond_wait(&stop.moved, &stop.lock);
    pthread_mutex_unlock(&stop.lock);
    store_put(&store, key("beside"), "new");
    store_put(&store, patient_key(PATIENT_KEYS - 1), "new");
    store_put(&store, patient_key(PATIENT_KEYS - 2), NULL);
    /* Meanwhile others are read, by the other thread or between two slices. */
    assert_string_not_equal(store_list_large(&store, patient_key(0), patient_key(2)), "");
    pthread_mutex_lock(&stop.lock);
    stop.may_go_on = true;
    pthread_cond_broadcast(&stop.moved);
    pthread_mutex_unlock(&stop.lock);
    assert_true(lane_loop_run_until(&store.loop, &stop.is_complete));
    assert_int_equal(read.status, STATUS_OK);
    assert_int_equal(stop.seen, PATIENT_KEYS);
    assert_int_equal(stop.old, PATIENT_KEYS);
    assert_true(bytes_equal(beside.value, bytes_text("old")));
}

static void count_metric(void *arg, const struct metric *metric, const char *labels, double value)
{
    assert_true(value >= 0);
    assert_non_null(labels);
    assert_non_null(metric->help);
    ++*(size_t *)arg;
}

static void figures_are_reported_and_the_store_is_ready(void **state)
{
    (void)state;
    size_t count = 0;
    const char *why = NULL;
    store.ops->report(store.kv, count_metric, &count);
    assert_true(count > 5);
    assert_true(store.ops->is_ready(store.kv, &why));
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_put_is_read_and_what_is_deleted_is_absent),
        cmocka_unit_test(several_records_are_read_at_one_instant),
        cmocka_unit_test(ranges_are_read_forward_and_backward),
        cmocka_unit_test(long_ranges_are_read_whole_and_in_order),
        cmocka_unit_test(large_reads_give_the_same_from_a_reader_thread),
        cmocka_unit_test(a_range_is_of_one_instant_however_long_it_takes),
        cmocka_unit_test(a_commit_writes_all_or_nothing),
        cmocka_unit_test(absence_is_a_precondition_too),
        cmocka_unit_test(a_token_taken_before_stands_for_what_was_there_then),
        cmocka_unit_test(numbers_ascend_and_reads_tell_them),
        cmocka_unit_test(a_changed_record_is_computed_again),
        cmocka_unit_test(commits_in_flight_together_all_count),
        cmocka_unit_test(counters_add_up_with_their_commits),
        cmocka_unit_test(a_counter_does_not_grow_beyond_its_limit),
        cmocka_unit_test(a_counter_of_zeros_is_no_record),
        cmocka_unit_test(a_refused_commit_counts_nothing),
        cmocka_unit_test(dropped_ranges_go_with_the_commit_counters_too),
        cmocka_unit_test(load_reads_without_a_lane),
        cmocka_unit_test(random_operations_agree_with_a_model),
        cmocka_unit_test(a_patient_read_is_of_one_instant_records_and_all),
        cmocka_unit_test(figures_are_reported_and_the_store_is_ready),
    };
    static char directory[] = "kv-XXXXXX", rocksdb[64];
    char command[64];
    if (mkdtemp(directory) == NULL)
        return 1;
    snprintf(rocksdb, sizeof rocksdb, "rocksdb:%s", directory);
    struct url urls[5] = {{"memory:", true}, {"memory:?delay=1ms", true}, {rocksdb, true}};
    size_t count = 3;
#ifdef MUDAX_REDIS_SERVER
    struct redis_server redis;
    redis_server_start(&redis, NULL);
    urls[count++] = (struct url){redis.url, false};
    urls[count++] = (struct url){redis.unix_url, false};
#endif
    int failed = 0;
    for (size_t i = 0; i < count; i++) {
        url = &urls[i];
#ifdef MUDAX_REDIS_SERVER
        (void)redis_server_command(&redis, "FLUSHALL");
#endif
        failed += _cmocka_run_group_tests(url->url, tests, sizeof tests / sizeof tests[0], set_up,
                                          tear_down);
    }
#ifdef MUDAX_REDIS_SERVER
    redis_server_end(&redis);
#endif
    snprintf(command, sizeof command, "rm -rf %s", directory);
    return failed + (system(command) != 0);
}
