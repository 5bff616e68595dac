/* The engine over a store in memory that can be made to hesitate, to conflict and to lose its
 * answer.
 */
#include "backend/engine/engine.h"
#include "backend/engine/record.h"
#include "tests/support/session.h"

#include "protocol/encoding/msgpack.h"
#include "protocol/ensure.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static struct session session, other;

/* ---- a store in front of the real one ---- */

enum answer {
    ANSWER_TRUE,
    ANSWER_CONFLICT,    /* nothing is done */
    ANSWER_LOST,        /* done, but the outcome is unknown */
    ANSWER_LOST_UNDONE, /* not done, and the outcome is unknown */
    ANSWER_REFUSED,     /* nothing is done: STATUS_INTERNAL */
};

static struct {
    enum answer answer; /* of the next `answers` commits */
    uint32_t answers;
    bool hesitates; /* reads are PENDING though they are done */
    enum status read_status;
    uint32_t commits;                           /* seen */
    struct lane_loop *loop;                     /* of the lane that commits oddly */
    struct kv_range dropped;                    /* by the last commit, in the session's arena */
    void (*complete)(struct kv_commit *commit); /* of the commit whose answer gets lost */
} odd;

static const char *const odd_schemes[] = {"odd", NULL};
static struct kv_ops odd_ops; /* the real ones but for open, read and commit */

static enum status odd_open(const struct store_options *options, struct kv **out,
                            struct error *error)
{
    struct store_options inner = *options;
    inner.url = BYTES_LITERAL("memory:");
    enum status status = kv_rocksdb.open(&inner, out, error);
    if (status == STATUS_OK)
        (*out)->ops = &odd_ops;
    return status;
}

static enum status odd_lane_open(struct kv *kv, const struct lane_env *env, struct kv_lane **out)
{
    enum status status = kv_rocksdb.lane_open(kv, env, out);
    if (status == STATUS_OK)
        (*out)->ops = &odd_ops;
    return status;
}

static void run_commit(struct task *task)
{
    struct kv_commit *commit =
        (struct kv_commit *)((char *)task - offsetof(struct kv_commit, task));
    commit->complete(commit);
}

static void lose_answer(struct kv_commit *commit)
{
    commit->complete = odd.complete;
    commit->outcome = KV_UNKNOWN;
    commit->complete(commit);
}

static void odd_commit(struct kv_lane *lane, struct kv_commit *commit)
{
    odd.commits++;
    odd.dropped = (struct kv_range){.low = BYTES_LITERAL(""), .high = BYTES_LITERAL("")};
    if (commit->drop_count != 0) {
        odd.dropped.low = arena_copy(&session.arena, commit->drops->low);
        odd.dropped.high = arena_copy(&session.arena, commit->drops->high);
    }
    enum answer answer = odd.answers == 0 ? ANSWER_TRUE : odd.answer;
    if (answer == ANSWER_TRUE) {
        kv_rocksdb.commit(lane, commit);
        return;
    }
    odd.answers--;
    if (answer == ANSWER_LOST) {
        odd.complete = commit->complete;
        commit->complete = lose_answer;
        kv_rocksdb.commit(lane, commit);
        return;
    }
    commit->outcome = answer == ANSWER_CONFLICT  ? KV_CONFLICT
                      : answer == ANSWER_REFUSED ? KV_REFUSED
                                                 : KV_UNKNOWN;
    commit->status = answer == ANSWER_REFUSED ? STATUS_INTERNAL : STATUS_OK;
    commit->task.run = run_commit;
    odd.loop->env.post(odd.loop, &commit->task);
}

static void run_read(struct task *task)
{
    struct kv_read *read = (struct kv_read *)((char *)task - offsetof(struct kv_read, task));
    read->complete(read);
}

static enum submit odd_read(struct kv_lane *lane, struct kv_read *read)
{
    enum submit submit = kv_rocksdb.read(lane, read);
    if (submit == SUBMIT_DONE && odd.read_status != STATUS_OK)
        read->status = odd.read_status;
    if (submit != SUBMIT_DONE || !odd.hesitates)
        return submit;
    read->task.run = run_read;
    odd.loop->env.post(odd.loop, &read->task);
    return SUBMIT_PENDING;
}

const struct kv_ops *const kv_stores[] = {&odd_ops, &kv_rocksdb, NULL};

static void odd_init(void)
{
    odd_ops = kv_rocksdb;
    odd_ops.schemes = odd_schemes;
    odd_ops.open = odd_open;
    odd_ops.lane_open = odd_lane_open;
    odd_ops.read = odd_read;
    odd_ops.commit = odd_commit;
}

/* ---- set-up ---- */

static uint64_t wall_clock_ms;

static uint64_t wall_ms(void)
{
    return wall_clock_ms;
}

static struct backend *open_backend(const char *url, uint32_t tables_max)
{
    struct engine_options options = {
        .store = {.url = bytes_text(url), .memory_bytes = 16 << 20, .sync = SYNC_NONE},
        .partitions = 4,
        .tables_max = tables_max,
        .wall_ms = wall_ms,
    };
    struct backend *backend;
    struct error error;
    if (engine_open(&options, &backend, &error) != STATUS_OK)
        fail_msg("%s", error.text);
    return backend;
}

/* What intent() was told. */
struct watch {
    uint32_t count;
    struct touched last;
    size_t touched_count;
    struct session *session;
};

static void watch_intent(void *arg, struct call *call)
{
    struct watch *watch = arg;
    assert_int_not_equal(call->reply.touched_count, 0);
    watch->count++;
    watch->touched_count = call->reply.touched_count;
    watch->last = call->reply.touched[0];
    struct bytes copy = arena_copy(&watch->session->arena, watch->last.key.bytes);
    watch->last.key.bytes = copy;
}

static struct watch watch;

static int set_up(void **state)
{
    (void)state;
    memset(&odd, 0, sizeof odd);
    wall_clock_ms = 1700000000123;
    watch = (struct watch){.session = &session};
    struct backend *backend = open_backend("odd:", 5);
    session_open_watched(&session, backend, watch_intent, &watch);
    session_open(&other, backend);
    odd.loop = &session.loop;
    assert_int_equal(session_create(&session, "Things", "p:S", "s:N").status, STATUS_OK);
    watch.count = 0;
    odd.commits = 0;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    struct backend *backend = session.backend;
    session_close(&session);
    session_close(&other);
    backend->ops->close(&backend);
    return 0;
}

#define KEY  "{'p': {'S': 'k'}, 's': {'N': '1'}}"
#define ITEM "{'p': {'S': 'k'}, 's': {'N': '1'}, 'v': {'S': 'x'}}"

static void assert_reply(struct reply reply, enum status status, const char *text)
{
    if (reply.status != status ||
        (status != STATUS_OK && strstr(error_text(&reply.error), text) == NULL))
        fail_msg("%d: %s, must be %d: %s", reply.status, error_text(&reply.error), status, text);
}

static void assert_item(const char *json)
{
    struct reply reply = session_get(&session, "Things", KEY);
    assert_int_equal(reply.status, STATUS_OK);
    if (json == NULL)
        assert_true(bytes_equal(reply.body, bytes_text("\xc0")));
    else
        assert_true(bytes_equal(reply.body, session_item(&session, json)));
}

/* ---- answers at once, and later ---- */

static void what_may_wait_is_kept_before_anything_is_begun(void **state)
{
    (void)state;
    static const struct {
        enum operation operation;
        enum submit submit;
    } cases[] = {
        {OPERATION_PING, SUBMIT_DONE},           {OPERATION_GET_ITEM, SUBMIT_KEEP},
        {OPERATION_PUT_ITEM, SUBMIT_KEEP},       {OPERATION_DELETE_ITEM, SUBMIT_KEEP},
        {OPERATION_QUERY, SUBMIT_KEEP},          {OPERATION_CREATE_TABLE, SUBMIT_KEEP},
        {OPERATION_DESCRIBE_TABLE, SUBMIT_KEEP}, {OPERATION_LIST_TABLES, SUBMIT_DONE},
        {OPERATION_DELETE_TABLE, SUBMIT_KEEP},   {OPERATION_STATS, SUBMIT_DONE},
        {(enum operation)99, SUBMIT_DONE},
    };
    const struct backend_ops *ops = session.backend->ops;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct session_call call;
        session_call_init(&call, cases[i].operation, "Things");
        call.call.is_passing = true;
        ops->lane_begin(session.lane);
        assert_int_equal(ops->submit(session.lane, &call.call), cases[i].submit);
        ops->lane_end(session.lane);
        session_call_deinit(&call);
    }
    assert_int_equal(odd.commits, 0);
}

static void ping_is_answered_and_what_is_no_operation_refused(void **state)
{
    (void)state;
    struct session_call call;
    session_call_init(&call, OPERATION_PING, NULL);
    session_run(&session, &call);
    assert_int_equal(call.call.reply.status, STATUS_OK);
    assert_true(bytes_equal(call.body, bytes_text("\xc0")));
    session_call_deinit(&call);
    assert_reply(session_table(&session, OPERATION_STATS, NULL), STATUS_UNKNOWN_OPERATION, "");
    assert_reply(session_table(&session, (enum operation)99, NULL), STATUS_UNKNOWN_OPERATION, "");
}

static void operations_work_over_a_store_that_answers_later(void **state)
{
    (void)state;
    odd.hesitates = true;
    assert_item(NULL);
    assert_reply(session_put(&session, "Things", ITEM), STATUS_OK, "");
    assert_item(ITEM);
    struct session_call call;
    session_call_init(&call, OPERATION_QUERY, "Things");
    call.call.request.key_condition.text = bytes_text("p = :p");
    call.call.request.key_condition.values = session_item(&session, "{':p': {'S': 'k'}}");
    session_run(&session, &call);
    assert_int_equal(call.call.reply.status, STATUS_OK);
    assert_int_equal(call.call.reply.count, 1);
    session_call_deinit(&call);
    assert_reply(session_create(&session, "More", "p:S", NULL), STATUS_OK, "");
    assert_reply(session_table(&session, OPERATION_DESCRIBE_TABLE, "More"), STATUS_OK, "");
    assert_reply(session_table(&session, OPERATION_DELETE_TABLE, "More"), STATUS_OK, "");
    assert_reply(session_delete(&session, "Things", KEY), STATUS_OK, "");
    assert_item(NULL);
}

static void what_the_store_cannot_say_is_an_error_and_not_no_item(void **state)
{
    (void)state;
    assert_reply(session_put(&session, "Things", ITEM), STATUS_OK, "");
    odd.read_status = STATUS_INTERNAL;
    assert_reply(session_get(&session, "Things", KEY), STATUS_INTERNAL, "");
    assert_reply(session_put(&session, "Things", ITEM), STATUS_INTERNAL, "");
    assert_reply(session_table(&session, OPERATION_DESCRIBE_TABLE, "Things"), STATUS_INTERNAL, "");
    odd.read_status = STATUS_UNAVAILABLE;
    assert_reply(session_delete(&session, "Things", KEY), STATUS_UNAVAILABLE, "");
    odd.read_status = STATUS_OK;
    assert_int_equal(odd.commits, 1);
    assert_item(ITEM);
}

/* ---- what replies tell the cache ---- */

static void a_write_tells_what_it_touches_before_and_what_is_there_afterwards(void **state)
{
    (void)state;
    struct session_call call;
    session_call_init(&call, OPERATION_PUT_ITEM, "Things");
    call.call.request.item = session_item(&session, ITEM);
    session_run(&session, &call);
    struct reply *reply = &call.call.reply;
    assert_int_equal(watch.count, 1);
    assert_int_equal(watch.last.table_id, 1);
    assert_false(watch.last.is_image_known);
    assert_false(watch.last.is_all);
    assert_true(bytes_equal(watch.last.key.bytes, call.call.request.item_key.bytes));
    assert_int_equal(reply->touched_count, 1);
    assert_true(reply->touched[0].is_image_known);
    assert_true(bytes_equal(reply->touched[0].image, session_item(&session, ITEM)));
    assert_true(reply->commit > 0);
    uint64_t commit = reply->commit;
    session_call_deinit(&call);

    assert_true(session_get(&session, "Things", KEY).commit >= commit);
    session_call_init(&call, OPERATION_DELETE_ITEM, "Things");
    call.call.request.key = session_item(&session, KEY);
    session_run(&session, &call);
    assert_int_equal(watch.count, 2);
    assert_true(call.call.reply.touched[0].is_image_known);
    assert_false(bytes_given(call.call.reply.touched[0].image));
    assert_true(call.call.reply.commit > commit);
    session_call_deinit(&call);
}

static void run_query(struct session_call *call, const char *condition, uint32_t limit,
                      bool is_backward)
{
    session_call_init(call, OPERATION_QUERY, "Things");
    call->call.request.key_condition.text = bytes_text(condition);
    call->call.request.key_condition.values =
        session_item(&session, strstr(condition, ":l") == NULL
                                   ? "{':p': {'S': 'k'}}"
                                   : "{':p': {'S': 'k'}, ':l': {'N': '2'}, ':h': {'N': '8'}}");
    call->call.request.limit = limit;
    call->call.request.is_backward = is_backward;
    session_run(&session, call);
    assert_int_equal(call->call.reply.status, STATUS_OK);
}

static bool examined(const struct session_call *call, int64_t number)
{
    uint8_t ordered[NUMBER_ORDERED_MAX];
    struct number value = number_from_int(number);
    struct bytes sort = bytes_of(ordered, number_to_ordered(&value, ordered));
    return key_interval_holds(&call->call.reply.examined, sort);
}

static void a_page_depends_on_what_was_examined_and_no_more(void **state)
{
    (void)state;
    for (int i = 1; i <= 9; i++) {
        char item[64];
        snprintf(item, sizeof item, "{'p': {'S': 'k'}, 's': {'N': '%d'}}", i);
        assert_reply(session_put(&session, "Things", item), STATUS_OK, "");
    }
    static const struct {
        const char *condition;
        uint32_t limit;
        bool is_backward;
        int64_t first, last; /* examined, of -1..11 */
        uint32_t count;
    } cases[] = {
        {"p = :p", 0, false, -1, 11, 9},
        {"p = :p", 0, true, -1, 11, 9},
        {"p = :p", 3, false, -1, 3, 3},
        {"p = :p", 3, true, 7, 11, 3},
        {"p = :p", 9, false, -1, 9, 9},
        {"p = :p AND s BETWEEN :l AND :h", 0, false, 2, 8, 7},
        {"p = :p AND s BETWEEN :l AND :h", 2, false, 2, 3, 2},
        {"p = :p AND s BETWEEN :l AND :h", 2, true, 7, 8, 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct session_call call;
        run_query(&call, cases[i].condition, cases[i].limit, cases[i].is_backward);
        assert_int_equal(call.call.reply.count, cases[i].count);
        for (int64_t k = -1; k <= 11; k++)
            assert_int_equal(examined(&call, k), k >= cases[i].first && k <= cases[i].last);
        session_call_deinit(&call);
    }
}

static void reads_say_how_much_they_examined(void **state)
{
    (void)state;
    assert_reply(session_put(&session, "Things", ITEM), STATUS_OK, "");
    assert_int_equal(session_get(&session, "Things", KEY).read_bytes, 2 + 3 + 2);
    assert_int_equal(
        session_get(&session, "Things", "{'p': {'S': 'x'}, 's': {'N': '1'}}").read_bytes, 0);
    struct session_call call;
    run_query(&call, "p = :p", 0, false);
    assert_int_equal(call.call.reply.read_bytes, 7);
    session_call_deinit(&call);
}

/* ---- conflicts and lost answers ---- */

static void a_conflict_is_tried_again_and_announced_again(void **state)
{
    (void)state;
    odd.answer = ANSWER_CONFLICT;
    odd.answers = 3;
    assert_reply(session_put(&session, "Things", ITEM), STATUS_OK, "");
    assert_int_equal(odd.commits, 4);
    assert_int_equal(watch.count, 4);
    assert_item(ITEM);
}

static void conflicts_end_at_the_deadline_or_after_many_attempts(void **state)
{
    (void)state;
    odd.answer = ANSWER_CONFLICT;
    odd.answers = UINT32_MAX;
    struct session_call call;
    session_call_init(&call, OPERATION_PUT_ITEM, "Things");
    call.call.request.item = session_item(&session, ITEM);
    call.call.deadline_us = session.loop.now_us + 20000;
    uint64_t deadline_us = call.call.deadline_us;
    session_run(&session, &call);
    assert_int_equal(call.call.reply.status, STATUS_TIMEOUT);
    assert_int_equal(call.call.reply.touched_count, 1);
    assert_true(session.loop.now_us <= deadline_us);
    assert_true(odd.commits > 2);
    session_call_deinit(&call);
    odd.commits = 0;
    assert_reply(session_put(&session, "Things", ITEM), STATUS_TIMEOUT, "");
    assert_int_equal(odd.commits, 64);
    odd.answers = 0;
    assert_item(NULL);
}

static void a_lost_answer_is_an_unknown_outcome(void **state)
{
    (void)state;
    struct session_call call;
    session_call_init(&call, OPERATION_PUT_ITEM, "Things");
    call.call.request.item = session_item(&session, ITEM);
    odd.answer = ANSWER_LOST;
    odd.answers = 1;
    session_run(&session, &call);
    assert_int_equal(call.call.reply.status, STATUS_OUTCOME_UNKNOWN);
    assert_int_equal(call.call.reply.touched_count, 1);
    assert_false(call.call.reply.touched[0].is_image_known);
    session_call_deinit(&call);
    assert_item(ITEM);
}

static void a_refusal_by_the_store_is_passed_on(void **state)
{
    (void)state;
    odd.answer = ANSWER_REFUSED;
    odd.answers = 1;
    assert_reply(session_put(&session, "Things", ITEM), STATUS_INTERNAL, "");
    assert_item(NULL);
}

/* ---- tables that come and go ---- */

static void a_write_on_its_way_does_not_land_in_a_deleted_table(void **state)
{
    (void)state;
    struct session_call call;
    odd.hesitates = true;
    session_call_init(&call, OPERATION_PUT_ITEM, "Things");
    call.call.request.item = session_item(&session, ITEM);
    session_submit(&session, &call); /* has read, and waits for its loop */
    odd.hesitates = false;
    assert_reply(session_table(&other, OPERATION_DELETE_TABLE, "Things"), STATUS_OK, "");
    assert_reply(session_create(&other, "Things", "p:S", "s:N"), STATUS_OK, "");
    assert_true(lane_loop_run_until(&session.loop, &call.is_complete));
    assert_int_equal(call.call.reply.status, STATUS_RESOURCE_NOT_FOUND);
    session_call_deinit(&call);
    assert_item(NULL);
    const char *body = session_plain_json(
        &session, session_table(&session, OPERATION_DESCRIBE_TABLE, "Things").body);
    assert_non_null(strstr(body, "\"ItemCount\":0"));
}

static void a_retried_write_does_not_land_in_a_deleted_table(void **state)
{
    (void)state;
    struct session_call call;
    odd.answer = ANSWER_CONFLICT;
    odd.answers = 1;
    session_call_init(&call, OPERATION_PUT_ITEM, "Things");
    call.call.request.item = session_item(&session, ITEM);
    session_submit(&session, &call);
    lane_loop_settle(&session.loop); /* conflicts, and waits for its next attempt */
    assert_int_equal(lane_loop_timers(&session.loop), 1);
    assert_reply(session_table(&other, OPERATION_DELETE_TABLE, "Things"), STATUS_OK, "");
    assert_true(lane_loop_run_until(&session.loop, &call.is_complete));
    assert_int_equal(call.call.reply.status, STATUS_RESOURCE_NOT_FOUND);
    session_call_deinit(&call);
}

/* The name now stands for another table, with another key. */
static void a_retried_write_is_bound_again_to_what_the_table_is_now(void **state)
{
    (void)state;
    struct session_call call;
    odd.answer = ANSWER_CONFLICT;
    odd.answers = 1;
    session_call_init(&call, OPERATION_PUT_ITEM, "Things");
    call.call.request.item = session_item(&session, ITEM);
    session_submit(&session, &call);
    lane_loop_settle(&session.loop);
    assert_reply(session_table(&other, OPERATION_DELETE_TABLE, "Things"), STATUS_OK, "");
    assert_reply(session_create(&other, "Things", "v:S", NULL), STATUS_OK, "");
    assert_true(lane_loop_run_until(&session.loop, &call.is_complete));
    assert_int_equal(call.call.reply.status, STATUS_OK);
    assert_int_equal(call.call.reply.touched[0].table_id, 2);
    session_call_deinit(&call);
    struct reply reply = session_get(&session, "Things", "{'v': {'S': 'x'}}");
    assert_true(bytes_equal(reply.body, session_item(&session, ITEM)));
}

static void a_deletion_touches_everything_of_its_table(void **state)
{
    (void)state;
    assert_reply(session_table(&session, OPERATION_DELETE_TABLE, "Things"), STATUS_OK, "");
    assert_int_equal(watch.count, 1);
    assert_true(watch.last.is_all);
    assert_int_equal(watch.last.table_id, 1);
    assert_int_equal(watch.last.key.bytes.size, 0);
}

static void while_a_table_is_being_deleted_it_takes_no_second_deletion_and_no_items(void **state)
{
    (void)state;
    struct session_call call;
    session_call_init(&call, OPERATION_DELETE_TABLE, "Things");
    odd.answer = ANSWER_REFUSED;
    odd.answers = 1;
    session_submit(&session, &call); /* the refusal waits in the loop */
    assert_reply(session_table(&other, OPERATION_DELETE_TABLE, "Things"), STATUS_RESOURCE_IN_USE,
                 "Table is being deleted: Things");
    assert_reply(session_put(&other, "Things", ITEM), STATUS_RESOURCE_NOT_FOUND, "");
    const char *body =
        session_plain_json(&other, session_table(&other, OPERATION_DESCRIBE_TABLE, "Things").body);
    assert_non_null(strstr(body, "\"TableStatus\":\"DELETING\""));
    const struct backend_ops *ops = other.backend->ops;
    ops->lane_begin(other.lane);
    assert_null(ops->table(other.lane, bytes_text("Things")));
    ops->lane_end(other.lane);
    assert_true(lane_loop_run_until(&session.loop, &call.is_complete));
    assert_int_equal(call.call.reply.status, STATUS_INTERNAL);
    session_call_deinit(&call);
    assert_reply(session_put(&other, "Things", ITEM), STATUS_OK, ""); /* it never was */
    assert_item(ITEM);
}

static void a_deletion_with_a_lost_answer_is_repeated(void **state)
{
    (void)state;
    static const enum answer answers[] = {ANSWER_LOST, ANSWER_LOST_UNDONE};
    static const enum status second[] = {STATUS_RESOURCE_NOT_FOUND, STATUS_OK};
    for (size_t i = 0; i < 2; i++) {
        odd.answer = answers[i];
        odd.answers = 1;
        assert_reply(session_table(&session, OPERATION_DELETE_TABLE, "Things"),
                     STATUS_OUTCOME_UNKNOWN, "");
        assert_reply(session_put(&session, "Things", ITEM), STATUS_RESOURCE_NOT_FOUND, "");
        const char *body = session_plain_json(
            &session, session_table(&session, OPERATION_DESCRIBE_TABLE, "Things").body);
        assert_non_null(strstr(body, "DELETING"));
        assert_reply(session_table(&session, OPERATION_DELETE_TABLE, "Things"), second[i], "");
        assert_reply(session_table(&session, OPERATION_DESCRIBE_TABLE, "Things"),
                     STATUS_RESOURCE_NOT_FOUND, "");
        assert_reply(session_create(&session, "Things", "p:S", "s:N"), STATUS_OK, "");
        assert_item(NULL);
    }
}

static void a_creation_with_a_lost_answer_is_found_by_the_next(void **state)
{
    (void)state;
    odd.answer = ANSWER_LOST;
    odd.answers = 1;
    assert_reply(session_create(&session, "Lost", "p:S", NULL), STATUS_OUTCOME_UNKNOWN, "");
    assert_reply(session_put(&session, "Lost", "{'p': {'S': 'k'}}"), STATUS_RESOURCE_NOT_FOUND, "");
    assert_reply(session_create(&session, "Lost", "p:S", NULL), STATUS_RESOURCE_IN_USE,
                 "Table already exists: Lost");
    assert_reply(session_put(&session, "Lost", "{'p': {'S': 'k'}}"), STATUS_OK, "");
    odd.answer = ANSWER_LOST_UNDONE;
    odd.answers = 1;
    assert_reply(session_create(&session, "Never", "p:S", NULL), STATUS_OUTCOME_UNKNOWN, "");
    assert_reply(session_create(&session, "Never", "p:S", NULL), STATUS_OK, "");
}

static void of_two_creations_in_flight_one_makes_the_table(void **state)
{
    (void)state;
    struct session_call call;
    odd.hesitates = true;
    session_call_init(&call, OPERATION_CREATE_TABLE, NULL);
    call.call.request.definition = session_plain(
        &session, "{'TableName': 'Both', 'KeySchema': [{'AttributeName': 'p', 'KeyType': 'HASH'}], "
                  "'AttributeDefinitions': [{'AttributeName': 'p', 'AttributeType': 'S'}]}");
    session_submit(&session, &call); /* has read that there is none */
    odd.hesitates = false;
    assert_reply(session_create(&other, "Both", "p:S", NULL), STATUS_OK, "");
    assert_true(lane_loop_run_until(&session.loop, &call.is_complete));
    assert_int_equal(call.call.reply.status, STATUS_RESOURCE_IN_USE);
    session_call_deinit(&call);
}

/* A change is in the store, and not yet in the catalog: a write that begins then has a token of
 * after it, which catches nothing. */
static void a_write_between_a_change_and_its_publication_sees_the_change(void **state)
{
    (void)state;
    struct session_call call;
    session_call_init(&call, OPERATION_UPDATE_TABLE, NULL);
    call.call.request.definition = session_plain(
        &session,
        "{'TableName': 'Things', 'AttributeDefinitions': [{'AttributeName': 'g', 'AttributeType': "
        "'S'}], 'GlobalSecondaryIndexUpdates': [{'Create': {'IndexName': 'by-g', 'KeySchema': "
        "[{'AttributeName': 'g', 'KeyType': 'HASH'}], 'Projection': {'ProjectionType': 'ALL'}}}]}");
    session_submit(&session, &call);
    for (int i = 0; i < 1000 && odd.commits == 0; i++)
        (void)lane_loop_turn(&session.loop);
    assert_int_equal(odd.commits, 1); /* the change is handed over; its lane hears no more */
    struct session_call write;
    assert_reply(session_create(&other, "After", "p:S", NULL), STATUS_OK, ""); /* behind it */
    session_call_init(&write, OPERATION_PUT_ITEM, "Things");
    write.call.request.item =
        session_item(&other, "{'p': {'S': 'k'}, 's': {'N': '1'}, 'g': {'S': 'x'}}");
    session_submit(&other, &write);
    assert_false(call.is_complete);
    assert_true(lane_loop_run_until(&other.loop, &write.is_complete));
    assert_int_equal(write.call.reply.status, STATUS_OK);
    assert_true(lane_loop_run_until(&session.loop, &call.is_complete));
    assert_int_equal(call.call.reply.status, STATUS_OK);
    session_call_deinit(&write);
    session_call_deinit(&call);
    struct reply reply = session_table(&session, OPERATION_DESCRIBE_TABLE, "Things");
    const char *text = session_plain_json(&session, reply.body);
    assert_non_null(strstr(text, "\"IndexSizeBytes\""));
    assert_null(strstr(text, "\"IndexSizeBytes\":0")); /* the item has its place */
}

static void two_tables_made_at_once_get_two_ids(void **state)
{
    (void)state;
    struct session_call call;
    odd.hesitates = true;
    session_call_init(&call, OPERATION_CREATE_TABLE, NULL);
    call.call.request.definition = session_plain(
        &session, "{'TableName': 'One', 'KeySchema': [{'AttributeName': 'p', 'KeyType': 'HASH'}], "
                  "'AttributeDefinitions': [{'AttributeName': 'p', 'AttributeType': 'S'}]}");
    session_submit(&session, &call);
    odd.hesitates = false;
    assert_reply(session_create(&other, "Two", "p:S", NULL), STATUS_OK, "");
    assert_true(lane_loop_run_until(&session.loop, &call.is_complete));
    assert_int_equal(call.call.reply.status, STATUS_OK);
    session_call_deinit(&call);
    const struct backend_ops *ops = session.backend->ops;
    ops->lane_begin(session.lane);
    const struct table *one = ops->table(session.lane, bytes_text("One"));
    const struct table *two = ops->table(session.lane, bytes_text("Two"));
    assert_non_null(one);
    assert_non_null(two);
    assert_int_not_equal(one->id, two->id);
    ops->lane_end(session.lane);
}

static void lanes_learn_of_tables_at_their_next_batch(void **state)
{
    (void)state;
    const struct backend_ops *ops = session.backend->ops;
    ops->lane_begin(session.lane);
    assert_non_null(ops->table(session.lane, bytes_text("Things")));
    assert_null(ops->table(session.lane, bytes_text("New")));
    assert_reply(session_create(&other, "New", "p:S", NULL), STATUS_OK, "");
    assert_null(ops->table(session.lane, bytes_text("New")));
    ops->lane_end(session.lane);
    ops->lane_begin(session.lane);
    const struct table *table = ops->table(session.lane, bytes_text("New"));
    assert_non_null(table);
    assert_int_equal(table->partitions, 4);
    ops->lane_end(session.lane);
}

static void there_are_no_more_tables_than_allowed(void **state)
{
    (void)state;
    char name[16];
    for (int i = 0; i < 4; i++) {
        snprintf(name, sizeof name, "Table%d", i);
        assert_reply(session_create(&session, name, "p:S", NULL), STATUS_OK, "");
    }
    assert_reply(session_create(&session, "Table4", "p:S", NULL), STATUS_LIMIT_EXCEEDED,
                 "limit of 5 tables");
    assert_reply(session_create(&session, "Table0", "p:S", NULL), STATUS_RESOURCE_IN_USE, "");
    assert_reply(session_table(&session, OPERATION_DELETE_TABLE, "Table0"), STATUS_OK, "");
    assert_reply(session_create(&session, "Table4", "p:S", NULL), STATUS_OK, "");
}

/* ---- memory ---- */

/* With every limit of a call's memory: the right answer, or "out of memory" and nothing written. */
static void every_lack_of_memory_is_an_error_reply(void **state)
{
    (void)state;
    static const enum operation operations[] = {OPERATION_PUT_ITEM,       OPERATION_GET_ITEM,
                                                OPERATION_QUERY,          OPERATION_LIST_TABLES,
                                                OPERATION_DESCRIBE_TABLE, OPERATION_DELETE_ITEM};
    for (size_t i = 0; i < sizeof operations / sizeof operations[0]; i++) {
        enum status status = STATUS_NO_MEMORY;
        size_t memory = 0, failures = 0;
        for (; status != STATUS_OK; memory += 16, failures++) {
            assert_true(memory < 100000);
            struct session_call call;
            session_call_init(&call, operations[i], "Things");
            struct request *request = &call.call.request;
            request->item = session_item(&session, ITEM);
            request->key = session_item(&session, KEY);
            request->limit = 1;
            request->key_condition.text = bytes_text("p = :p");
            request->key_condition.values = session_item(&session, "{':p': {'S': 'k'}}");
            if (operations[i] == OPERATION_LIST_TABLES)
                request->table_name = BYTES_NONE;
            struct arena small;
            arena_init(&small, NULL, 0, memory);
            call.call.arena = &small;
            session_run(&session, &call);
            status = call.call.reply.status;
            assert_true(status == STATUS_OK || status == STATUS_NO_MEMORY);
            arena_deinit(&small);
            session_call_deinit(&call);
        }
        assert_true(failures > 2);
        assert_item(operations[i] == OPERATION_DELETE_ITEM ? NULL : ITEM);
    }
}

/* What indexes show of it does not take the room of the whole item for each of them. */
static void a_long_item_in_many_indexes_takes_little_memory(void **state)
{
    (void)state;
    enum { LONG = 100000 };
    static char item[LONG + 100];
    struct session_call create;
    session_call_init(&create, OPERATION_CREATE_TABLE, NULL);
    create.call.request.definition = session_plain(
        &session,
        "{'TableName': 'Long', 'KeySchema': [{'AttributeName': 'p', 'KeyType': 'HASH'}, "
        "{'AttributeName': 's', 'KeyType': 'RANGE'}], 'AttributeDefinitions': [{'AttributeName': "
        "'p', 'AttributeType': 'S'}, {'AttributeName': 's', 'AttributeType': 'N'}, "
        "{'AttributeName': 'g', 'AttributeType': 'S'}], 'LocalSecondaryIndexes': [{'IndexName': "
        "'local', 'KeySchema': [{'AttributeName': 'p', 'KeyType': 'HASH'}, {'AttributeName': 'g', "
        "'KeyType': 'RANGE'}], 'Projection': {'ProjectionType': 'KEYS_ONLY'}}], "
        "'GlobalSecondaryIndexes': [{'IndexName': 'one', 'KeySchema': [{'AttributeName': 'g', "
        "'KeyType': 'HASH'}], 'Projection': {'ProjectionType': 'KEYS_ONLY'}}, {'IndexName': 'two', "
        "'KeySchema': [{'AttributeName': 'g', 'KeyType': 'HASH'}], 'Projection': "
        "{'ProjectionType': 'INCLUDE', 'NonKeyAttributes': ['w']}}]}");
    session_run(&session, &create);
    assert_int_equal(create.call.reply.status, STATUS_OK);
    session_call_deinit(&create);
    for (int i = 0; i < 2; i++) { /* the second leaves places, too */
        struct session_call call;
        struct arena small;
        (void)snprintf(item, sizeof item,
                       "{'p': {'S': 'k'}, 's': {'N': '1'}, 'g': {'S': 'g%d'}, 'v': {'S': '%0*d'}}",
                       i, LONG, i);
        session_call_init(&call, OPERATION_PUT_ITEM, "Long");
        call.call.request.item = session_item(&session, item);
        arena_init(&small, NULL, 0, 3 * LONG);
        call.call.arena = &small;
        session_run(&session, &call);
        assert_int_equal(call.call.reply.status, STATUS_OK);
        arena_deinit(&small);
        session_call_deinit(&call);
    }
}

/* ---- a transaction once ---- */

enum { TOKEN_LIFE_MS = 600000 };

/* Adds to the item's number in a transaction. */
static enum status add_once(const char *token, const char *values)
{
    struct session_call call, part;
    session_call_init(&part, OPERATION_UPDATE_ITEM, "Things");
    part.call.request.key = session_item(&session, KEY);
    part.call.request.update = BYTES_LITERAL("ADD n :n");
    part.call.request.key_condition.values = session_item(&session, values);
    session_call_init(&call, OPERATION_TRANSACT_WRITE_ITEMS, NULL);
    call.call.request.parts = &part.call.request;
    call.call.request.part_count = 1;
    call.call.request.token = bytes_text(token);
    session_run(&session, &call);
    enum status status = call.call.reply.status;
    session_call_deinit(&call);
    session_call_deinit(&part);
    return status;
}

static void assert_added(const char *token, const char *item)
{
    assert_int_equal(add_once(token, "{':n': {'N': '1'}}"), STATUS_OK);
    assert_item(item);
}

/* Whether what the last commit dropped holds a token of that span. */
static bool was_dropped(uint64_t span)
{
    struct bytes key = record_token_key(span, BYTES_LITERAL("a"), &session.arena);
    return odd.dropped.high.size != 0 && bytes_compare(key, odd.dropped.low) >= 0 &&
           bytes_compare(key, odd.dropped.high) < 0;
}

static void a_token_holds_for_ten_minutes_and_its_record_not_much_longer(void **state)
{
    (void)state;
    static const char one[] = "{'p': {'S': 'k'}, 's': {'N': '1'}, 'n': {'N': '1'}}",
                      two[] = "{'p': {'S': 'k'}, 's': {'N': '1'}, 'n': {'N': '2'}}",
                      three[] = "{'p': {'S': 'k'}, 's': {'N': '1'}, 'n': {'N': '3'}}",
                      four[] = "{'p': {'S': 'k'}, 's': {'N': '1'}, 'n': {'N': '4'}}";
    const uint64_t span = 2833333;
    wall_clock_ms = span * TOKEN_LIFE_MS + 200123;
    assert_added("a", one);
    assert_added("a", one);
    wall_clock_ms += TOKEN_LIFE_MS - 1; /* in the next span, which looks back */
    assert_added("a", one);
    assert_int_equal(add_once("a", "{':n': {'N': '2'}}"), STATUS_IDEMPOTENT_MISMATCH);
    wall_clock_ms++;
    assert_added("a", two);
    /* The whole of a span; what was before the last one is dropped, once. */
    wall_clock_ms = (span + 2) * TOKEN_LIFE_MS;
    assert_added("b", three);
    assert_true(was_dropped(span));
    assert_false(was_dropped(span + 1));
    assert_added("a", three); /* may still be asked for */
    wall_clock_ms += TOKEN_LIFE_MS - 1;
    assert_added("b", three);
    assert_added("c", four);
    assert_false(was_dropped(span));
    wall_clock_ms++;
    assert_added("b", "{'p': {'S': 'k'}, 's': {'N': '1'}, 'n': {'N': '5'}}");
    assert_true(was_dropped(span + 1));
    assert_false(was_dropped(span + 2));
    /* A clock that is set back still knows what it has seen, and drops nothing that is to come. */
    wall_clock_ms -= 2;
    assert_added("b", "{'p': {'S': 'k'}, 's': {'N': '1'}, 'n': {'N': '5'}}");
}

/* ---- opening ---- */

static void assert_open_fails(const char *url, const char *text)
{
    struct engine_options options = {
        .store = {.url = bytes_text(url), .memory_bytes = 16 << 20, .sync = SYNC_NONE},
        .partitions = 4,
        .tables_max = 5,
        .wall_ms = wall_ms,
    };
    struct backend *backend = NULL;
    struct error error = {.text = ""};
    assert_int_equal(engine_open(&options, &backend, &error), STATUS_VALIDATION);
    assert_null(backend);
    if (strstr(error.text, text) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", error.text, text);
}

static void raw_is_written(struct kv_commit *commit)
{
    *(bool *)commit->owner = true;
}

/* Writes one record into a store of its own, past the engine. */
static void write_raw(const char *url, struct bytes key, struct bytes value)
{
    struct store_options options = {.url = bytes_text(url), .memory_bytes = 16 << 20};
    struct error error;
    struct kv *kv;
    struct kv_lane *lane;
    struct lane_loop loop;
    lane_loop_init(&loop);
    assert_int_equal(kv_rocksdb.open(&options, &kv, &error), STATUS_OK);
    assert_int_equal(kv_rocksdb.lane_open(kv, &loop.env, &lane), STATUS_OK);
    bool is_written = false;
    struct kv_record write = {.key = key, .value = value};
    struct kv_commit commit = {
        .writes = &write, .write_count = 1, .complete = raw_is_written, .owner = &is_written};
    kv_rocksdb.commit(lane, &commit);
    assert_true(lane_loop_run_until(&loop, &is_written));
    assert_int_equal(commit.outcome, KV_DONE);
    kv_rocksdb.lane_close(&lane);
    kv_rocksdb.close(&kv);
    lane_loop_deinit(&loop);
}

static void places_that_are_not_ours_to_read_are_refused(void **state)
{
    (void)state;
    assert_open_fails("", "no store answers to \"\"");
    assert_open_fails("mysql://x", "no store answers to \"mysql://x\"");
    assert_open_fails("memory:?x", "memory:?delay=4ms");
    char newer[] = "engine-XXXXXX", foreign[] = "engine-XXXXXX", url[64], command[128];
    assert_non_null(mkdtemp(newer));
    assert_non_null(mkdtemp(foreign));
    struct arena arena;
    arena_init(&arena, NULL, 0, 4096);
    snprintf(url, sizeof url, "rocksdb:%s", newer);
    write_raw(url, record_format_key(&arena), record_number_write(RECORD_FORMAT + 1, &arena));
    assert_open_fails(url, "in format 2 by a newer mudax, this one knows 1");
    assert_open_fails(url, newer);
    snprintf(url, sizeof url, "rocksdb:%s", foreign);
    write_raw(url, bytes_text("somebody's"), bytes_text("data"));
    assert_open_fails(url, "holds data that is not mudax's");
    arena_deinit(&arena);
    snprintf(command, sizeof command, "rm -rf %s %s", newer, foreign);
    assert_int_equal(system(command), 0);
}

static void tables_and_their_ids_outlive_a_restart(void **state)
{
    (void)state;
    char directory[] = "engine-XXXXXX", url[64], command[64];
    assert_non_null(mkdtemp(directory));
    snprintf(url, sizeof url, "rocksdb:%s", directory);
    uint32_t last_id = 0;
    for (int start = 0; start < 3; start++) {
        struct session opened;
        struct backend *backend = open_backend(url, 5);
        session_open(&opened, backend);
        if (start != 0) {
            struct reply reply = session_get(&opened, "Things", "{'p': {'S': 'k'}}");
            assert_true(bytes_equal(reply.body, session_item(&opened, "{'p': {'S': 'k'}}")));
            assert_reply(session_table(&opened, OPERATION_DELETE_TABLE, "Things"), STATUS_OK, "");
        }
        assert_reply(session_create(&opened, "Things", "p:S", NULL), STATUS_OK, "");
        assert_reply(session_put(&opened, "Things", "{'p': {'S': 'k'}}"), STATUS_OK, "");
        backend->ops->lane_begin(opened.lane);
        const struct table *table = backend->ops->table(opened.lane, bytes_text("Things"));
        assert_true(table->id > last_id);
        last_id = table->id;
        backend->ops->lane_end(opened.lane);
        session_close(&opened);
        backend->ops->close(&backend);
    }
    snprintf(command, sizeof command, "rm -rf %s", directory);
    assert_int_equal(system(command), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    odd_init();
    static const struct CMUnitTest tests[] = {
        TEST(what_may_wait_is_kept_before_anything_is_begun),
        TEST(ping_is_answered_and_what_is_no_operation_refused),
        TEST(operations_work_over_a_store_that_answers_later),
        TEST(what_the_store_cannot_say_is_an_error_and_not_no_item),
        TEST(a_write_tells_what_it_touches_before_and_what_is_there_afterwards),
        TEST(a_page_depends_on_what_was_examined_and_no_more),
        TEST(reads_say_how_much_they_examined),
        TEST(a_conflict_is_tried_again_and_announced_again),
        TEST(conflicts_end_at_the_deadline_or_after_many_attempts),
        TEST(a_lost_answer_is_an_unknown_outcome),
        TEST(a_refusal_by_the_store_is_passed_on),
        TEST(a_write_on_its_way_does_not_land_in_a_deleted_table),
        TEST(a_retried_write_does_not_land_in_a_deleted_table),
        TEST(a_retried_write_is_bound_again_to_what_the_table_is_now),
        TEST(a_deletion_touches_everything_of_its_table),
        TEST(while_a_table_is_being_deleted_it_takes_no_second_deletion_and_no_items),
        TEST(a_deletion_with_a_lost_answer_is_repeated),
        TEST(a_creation_with_a_lost_answer_is_found_by_the_next),
        TEST(of_two_creations_in_flight_one_makes_the_table),
        TEST(a_write_between_a_change_and_its_publication_sees_the_change),
        TEST(two_tables_made_at_once_get_two_ids),
        TEST(lanes_learn_of_tables_at_their_next_batch),
        TEST(there_are_no_more_tables_than_allowed),
        TEST(every_lack_of_memory_is_an_error_reply),
        TEST(a_long_item_in_many_indexes_takes_little_memory),
        TEST(a_token_holds_for_ten_minutes_and_its_record_not_much_longer),
        cmocka_unit_test(places_that_are_not_ours_to_read_are_refused),
        cmocka_unit_test(tables_and_their_ids_outlive_a_restart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
