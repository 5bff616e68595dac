/* Partitions that are split while items are written: every count right to the last commit, and
 * every partition's own as soon as it is counted; over a stop in the middle, too. */
#include "backend/engine/action.h"
#include "backend/engine/definition_tree.h"
#include "tests/support/session.h"

#include "protocol/encoding/msgpack.h"
#include "protocol/ensure.h"
#include "protocol/hash.h"
#include "protocol/index_key.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

enum {
    KEYS = 6,
    SORTS = 120,
    SPLIT_BYTES = 4000,
    ITEM_ROOM = 600,
    SECOND = 1000000,
    STEPS_MAX = 2000,
};

/* What should be there. */
static struct bytes model[KEYS][SORTS]; /* not given: no item; heap */
static struct session session;
static char directory[] = "split-XXXXXX";
static bool emulates;

static uint64_t wall_ms(void)
{
    return 1700000000123;
}

static void open_engine(const char *url)
{
    struct engine_options options = {
        .store = {.url = bytes_text(url), .memory_bytes = 16 << 20, .sync = SYNC_NONE},
        .partitions = 2,
        .tables_max = 5,
        .emulates_throughput = emulates,
        .partition_bytes_max = emulates ? 0 : SPLIT_BYTES,
        .partition_hot_ms = 3000,
        .partition_read_units = 1000,
        .partition_write_units = 20,
        .wall_ms = wall_ms,
    };
    struct backend *backend;
    struct error error;
    if (engine_open(&options, &backend, &error) != STATUS_OK)
        fail_msg("%s", error.text);
    session_open(&session, backend);
}

static void close_engine(void)
{
    struct backend *backend = session.backend;
    session_close(&session);
    backend->ops->close(&backend);
}

static int tear_down(void **state)
{
    (void)state;
    close_engine();
    for (int p = 0; p < KEYS; p++)
        for (int s = 0; s < SORTS; s++) {
            free((void *)(uintptr_t)model[p][s].data);
            model[p][s] = BYTES_NONE;
        }
    return 0;
}

static int set_up(void **state)
{
    (void)state;
    emulates = false;
    srand(7);
    open_engine("memory:");
    return 0;
}

static int set_up_emulating(void **state)
{
    (void)state;
    emulates = true;
    open_engine("memory:");
    return 0;
}

/* ---- the table ---- */

#define TABLE                                                                                      \
    "'TableName': 'Things', 'KeySchema': [{'AttributeName': 'p', 'KeyType': 'HASH'}, "             \
    "{'AttributeName': 's', 'KeyType': 'RANGE'}], 'AttributeDefinitions': "                        \
    "[{'AttributeName': 'p', 'AttributeType': 'S'}, {'AttributeName': 's', 'AttributeType': 'N'}"
#define GLOBAL                                                                                     \
    ", {'AttributeName': 'g', 'AttributeType': 'S'}], 'GlobalSecondaryIndexes': [{'IndexName': "   \
    "'by-g', 'KeySchema': [{'AttributeName': 'g', 'KeyType': 'HASH'}], 'Projection': "             \
    "{'ProjectionType': 'ALL'}}]"
#define LOCAL                                                                                      \
    ", {'AttributeName': 'g', 'AttributeType': 'S'}], 'LocalSecondaryIndexes': [{'IndexName': "    \
    "'by-g', 'KeySchema': [{'AttributeName': 'p', 'KeyType': 'HASH'}, {'AttributeName': 'g', "     \
    "'KeyType': 'RANGE'}], 'Projection': {'ProjectionType': 'KEYS_ONLY'}}]"

static void create(const char *json)
{
    struct session_call call;
    session_call_init(&call, OPERATION_CREATE_TABLE, NULL);
    call.call.request.definition = session_plain(&session, json);
    session_run(&session, &call);
    assert_int_equal(call.call.reply.status, STATUS_OK);
    session_call_deinit(&call);
}

/* size  0: deletes */
static void write_item(struct session *on, int p, int s, int size)
{
    char key[64], item[ITEM_ROOM];
    struct bytes *there = &model[p][s];
    snprintf(key, sizeof key, "{'p': {'S': 'key %d'}, 's': {'N': '%d'}}", p, s);
    snprintf(item, sizeof item, "%.*s, 'g': {'S': 'group %d'}, 'v': {'S': '%0*d'}}",
             (int)strlen(key) - 1, key, (p + s) % 2, size, s);
    struct reply reply =
        size == 0 ? session_delete(on, "Things", key) : session_put(on, "Things", item);
    assert_int_equal(reply.status, STATUS_OK);
    free((void *)(uintptr_t)there->data);
    *there = BYTES_NONE;
    if (size == 0)
        return;
    struct bytes bytes = session_item(on, item);
    uint8_t *copy = malloc(bytes.size);
    assert_non_null(copy);
    memcpy(copy, bytes.data, bytes.size);
    *there = bytes_of(copy, bytes.size);
}

static void write_any(void)
{
    write_item(&session, rand() % KEYS, rand() % SORTS, rand() % 4 == 0 ? 0 : 1 + rand() % 200);
}

/* ---- what is right ---- */

static const struct definition *definition(void)
{
    struct engine_lane *lane = (struct engine_lane *)session.lane;
    session.backend->ops->lane_begin(session.lane);
    const struct definition *found = catalog_find(lane->catalog, bytes_text("Things"));
    session.backend->ops->lane_end(session.lane);
    assert_non_null(found);
    return found;
}

static struct value describe(enum operation operation)
{
    struct value value;
    struct error error;
    struct reply reply = session_table(&session, operation, "Things");
    assert_int_equal(reply.status, STATUS_OK);
    struct msgpack_cursor cursor = msgpack_cursor_of(reply.body);
    assert_int_equal(value_decode(&cursor, &session.arena, &value, &error), STATUS_OK);
    return value;
}

/* Sum over all partitions: always right. */
static void check_totals(void)
{
    uint64_t items = 0, bytes = 0;
    for (int p = 0; p < KEYS; p++)
        for (int s = 0; s < SORTS; s++)
            if (bytes_given(model[p][s])) {
                items++;
                bytes += item_size(model[p][s]);
            }
    struct value body = describe(OPERATION_DESCRIBE_TABLE);
    const struct value *table = tree_member(&body, "Table");
    assert_int_equal(tree_number(table, "ItemCount"), items);
    assert_int_equal(tree_number(table, "TableSizeBytes"), bytes);
    for (int kind = 0; kind < 2; kind++) {
        const struct value *indexes =
            tree_member(table, kind == 0 ? "GlobalSecondaryIndexes" : "LocalSecondaryIndexes");
        for (size_t i = 0; i < tree_count(indexes); i++)
            assert_int_equal(tree_number(&indexes->values[i], "ItemCount"), items);
    }
}

struct tally {
    uint64_t items, bytes;
};

static void add_item(const struct definition *found, size_t place, struct bytes item,
                     struct tally *tallies)
{
    const struct table *table = &found->table;
    struct item_key key;
    struct error error;
    struct bytes value;
    size_t size = item_size(item);
    assert_int_equal(item_key_build(item, &table->key, false, &session.arena, &key, &error),
                     STATUS_OK);
    if (place != 0) {
        struct item_key primary = key;
        assert_int_equal(index_entry_of(&table->indexes[place - 1], item, primary, &session.arena,
                                        &key, &value, &size),
                         STATUS_OK);
    }
    struct position position = {.hash = hash_partition(item_key_partition(key)), .key = key.bytes};
    struct tally *tally = &tallies[partition_find(definition_map(found, place), &position)];
    tally->items++;
    tally->bytes += size;
}

/* Each partition's own counts, when none is being counted. */
static void check_partitions(void)
{
    const struct definition *found = definition();
    struct value body = describe(OPERATION_DESCRIBE_HEAT);
    const struct value *places = tree_member(&body, "Heat");
    assert_int_equal(places->count, 1 + found->table.index_count);
    for (size_t place = 0; place < places->count; place++) {
        const struct partition_map *map = definition_map(found, place);
        const struct value *rows = tree_member(&places->values[place], "Partitions");
        struct tally *tallies = calloc(map->count, sizeof *tallies);
        assert_non_null(tallies);
        for (int p = 0; p < KEYS; p++)
            for (int s = 0; s < SORTS; s++)
                if (bytes_given(model[p][s]))
                    add_item(found, place, model[p][s], tallies);
        assert_int_equal(rows->count, map->count);
        for (uint32_t i = 0; i < map->count; i++) {
            assert_false(map->partitions[i].is_uncounted);
            assert_int_equal(tree_number(&rows->values[i], "Items"), tallies[i].items);
            assert_int_equal(tree_number(&rows->values[i], "Bytes"), tallies[i].bytes);
        }
        free(tallies);
    }
    session_forget(&session);
}

/* ---- splitting ---- */

static enum split_step step(void)
{
    struct session_call call;
    session_call_init(&call, OPERATION_SPLIT_PARTITION, "Things");
    session_run(&session, &call);
    assert_int_equal(call.call.reply.status, STATUS_OK);
    enum split_step done = (enum split_step)call.call.reply.count;
    session_call_deinit(&call);
    return done;
}

static void split_all(void)
{
    for (int i = 0; step() != SPLIT_NOTHING; i++)
        assert_true(i < STEPS_MAX);
}

static size_t count_inside(const struct partition_map *map)
{
    size_t count = 0;
    for (uint32_t i = 0; i < map->count; i++)
        count += map->partitions[i].key.size != 0;
    return count;
}

static void assert_small(size_t place)
{
    struct value body = describe(OPERATION_DESCRIBE_HEAT);
    const struct value *rows =
        tree_member(&tree_member(&body, "Heat")->values[place], "Partitions");
    for (size_t i = 0; i < rows->count; i++)
        assert_in_range(tree_number(&rows->values[i], "Bytes"), 0, SPLIT_BYTES);
}

/* Writes between the steps, so that what is counted changes while it is being counted. */
static void write_and_split(int rounds)
{
    for (int i = 0; i < rounds; i++) {
        for (int k = rand() % 30; k > 0; k--)
            write_any();
        enum split_step done = step();
        check_totals();
        if (done == SPLIT_COUNTED)
            check_partitions();
        session_forget(&session);
    }
    split_all();
    check_totals();
    check_partitions();
}

static void a_table_and_its_global_index_are_split_beside_writes(void **state)
{
    (void)state;
    create("{" TABLE GLOBAL "}");
    write_and_split(200);
    assert_small(0);
    assert_small(1);
    assert_true(definition()->partitions.count >= 10);
    assert_true(count_inside(definition_map(definition(), 0)) > 0);
    assert_true(count_inside(definition_map(definition(), 1)) > 5); /* of two keys only */
}

/* ---- many writers ---- */

static atomic_int writing;

/* Of one partition key, which is its own. */
static void *write_on_thread(void *arg)
{
    int p = *(int *)arg;
    struct session own;
    unsigned seed = (unsigned)p;
    session_open(&own, session.backend);
    for (int i = 0; i < 1500; i++) {
        int size = rand_r(&seed) % 4 == 0 ? 0 : 1 + rand_r(&seed) % 200;
        write_item(&own, p, rand_r(&seed) % SORTS, size);
        session_forget(&own);
    }
    session_close(&own);
    atomic_fetch_sub(&writing, 1);
    return NULL;
}

static void splits_disturb_no_writer_and_no_writer_a_split(void **state)
{
    (void)state;
    pthread_t threads[KEYS];
    int numbers[KEYS], splits = 0;
    create("{" TABLE GLOBAL "}");
    atomic_store(&writing, KEYS);
    for (int p = 0; p < KEYS; p++) {
        numbers[p] = p;
        assert_int_equal(pthread_create(&threads[p], NULL, write_on_thread, &numbers[p]), 0);
    }
    while (atomic_load(&writing) != 0)
        splits += step() == SPLIT_COUNTED;
    for (int p = 0; p < KEYS; p++)
        assert_int_equal(pthread_join(threads[p], NULL), 0);
    assert_true(splits > 5);
    split_all();
    check_totals();
    check_partitions();
}

static void what_a_local_index_keeps_together_is_not_split(void **state)
{
    (void)state;
    create("{" TABLE LOCAL "}");
    write_and_split(200);
    assert_in_range(definition()->partitions.count, 3, KEYS + 2);
    assert_int_equal(count_inside(definition_map(definition(), 0)), 0);
    assert_int_equal(count_inside(definition_map(definition(), 1)), 0);
}

static void what_was_begun_is_completed_after_a_stop(void **state)
{
    (void)state;
    char url[64];
    close_engine();
    assert_non_null(mkdtemp(directory));
    snprintf(url, sizeof url, "rocksdb:%s", directory);
    open_engine(url);
    create("{" TABLE GLOBAL "}");
    for (int i = 0; i < 300; i++)
        write_any();
    for (int i = 0; i < 20; i++) {
        enum split_step done = step();
        close_engine();
        open_engine(url);
        for (int k = 0; k < 10; k++)
            write_any();
        check_totals();
        if (done == SPLIT_COUNTED)
            check_partitions();
    }
    split_all();
    check_totals();
    check_partitions();
    assert_small(0);
    snprintf(url, sizeof url, "rm -rf %s", directory);
    assert_int_equal(system(url), 0);
}

static void segments_of_a_scan_show_every_item_once(void **state)
{
    (void)state;
    create("{" TABLE GLOBAL "}");
    for (int i = 0; i < 600; i++)
        write_any();
    split_all();
    uint32_t count = 0, expected = 0;
    for (int p = 0; p < KEYS; p++)
        for (int s = 0; s < SORTS; s++)
            expected += bytes_given(model[p][s]);
    for (uint32_t segment = 0; segment < 7; segment++) {
        struct session_call call;
        session_call_init(&call, OPERATION_SCAN, "Things");
        call.call.request.has_segment = true;
        call.call.request.segment = segment;
        call.call.request.segments = 7;
        session_run(&session, &call);
        assert_int_equal(call.call.reply.status, STATUS_OK);
        count += call.call.reply.count;
        session_call_deinit(&call);
    }
    assert_int_equal(count, expected);
}

static void an_index_that_is_added_begins_with_ranges_of_its_own(void **state)
{
    (void)state;
    create("{" TABLE "]}");
    for (int i = 0; i < 600; i++)
        write_any();
    split_all();
    struct session_call call;
    session_call_init(&call, OPERATION_UPDATE_TABLE, NULL);
    call.call.request.definition = session_plain(
        &session,
        "{'TableName': 'Things', 'AttributeDefinitions': [{'AttributeName': 'g', 'AttributeType': "
        "'S'}], 'GlobalSecondaryIndexUpdates': [{'Create': {'IndexName': 'by-g', 'KeySchema': "
        "[{'AttributeName': 'g', 'KeyType': 'HASH'}], 'Projection': {'ProjectionType': 'ALL'}}}]}");
    session_run(&session, &call);
    assert_int_equal(call.call.reply.status, STATUS_OK);
    session_call_deinit(&call);
    assert_int_equal(count_inside(definition_map(definition(), 1)), 0);
    struct buffer start = {0};
    for (uint32_t count = 1; count != 0;) {
        session_call_init(&call, OPERATION_FILL_INDEX, "Things");
        call.call.request.index_name = bytes_text("by-g");
        if (start.size != 0)
            call.call.request.start_key = buffer_bytes(&start);
        session_run(&session, &call);
        assert_int_equal(call.call.reply.status, STATUS_OK);
        count = call.call.reply.count;
        start.size = 0;
        assert_true(count == 0 || buffer_append(&start, call.body));
        session_call_deinit(&call);
        (void)step(); /* while it is filled */
    }
    buffer_deinit(&start);
    split_all();
    check_totals();
    check_partitions();
    assert_small(1);
}

/* ---- by load ---- */

/* Writes of a second, at the limit of a partition. */
static void heat_up(int p, bool is_one_item)
{
    for (int i = 0; i < 40; i++) {
        struct session_call call;
        char item[ITEM_ROOM];
        session_call_init(&call, OPERATION_PUT_ITEM, "Things");
        snprintf(item, sizeof item, "{'p': {'S': 'key %d'}, 's': {'N': '%d'}}", p,
                 is_one_item ? 1 : i);
        call.call.request.item = session_item(&session, item);
        session_run(&session, &call);
        session_call_deinit(&call);
    }
}

static enum split_step heat_and_look(int seconds, bool is_one_item)
{
    enum split_step done = SPLIT_NOTHING;
    for (int i = 0; i < seconds && done == SPLIT_NOTHING; i++) {
        heat_up(1, is_one_item);
        lane_loop_advance(&session.loop, SECOND);
        done = step();
    }
    return done;
}

static void a_partition_that_stays_hot_is_split_where_it_is_hot(void **state)
{
    (void)state;
    lane_loop_advance(&session.loop, SECOND);
    create("{" TABLE "]}");
    assert_int_equal(step(), SPLIT_NOTHING);
    assert_int_equal(heat_and_look(3, false), SPLIT_NOTHING); /* not for long enough */
    lane_loop_advance(&session.loop, 10 * (uint64_t)SECOND);
    assert_int_equal(step(), SPLIT_NOTHING); /* nor at a stretch */
    assert_int_equal(heat_and_look(10, false), SPLIT_PARTED);
    assert_int_equal(step(), SPLIT_COUNTED);
    const struct partition_map *map = &definition()->partitions;
    assert_int_equal(map->count, 3);
    assert_int_equal(count_inside(map), 1); /* all was of one partition key */
}

static void one_hot_item_is_not_split(void **state)
{
    (void)state;
    lane_loop_advance(&session.loop, SECOND);
    create("{" TABLE "]}");
    assert_int_equal(step(), SPLIT_NOTHING);
    assert_int_equal(heat_and_look(20, true), SPLIT_NOTHING);
    assert_int_equal(definition()->partitions.count, 2);
}

static void a_hot_key_with_a_local_index_is_not_split(void **state)
{
    (void)state;
    lane_loop_advance(&session.loop, SECOND);
    create("{" TABLE LOCAL "}");
    assert_int_equal(step(), SPLIT_NOTHING);
    assert_int_equal(heat_and_look(20, false), SPLIT_NOTHING);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_table_and_its_global_index_are_split_beside_writes,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(splits_disturb_no_writer_and_no_writer_a_split, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(what_a_local_index_keeps_together_is_not_split, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(what_was_begun_is_completed_after_a_stop, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(segments_of_a_scan_show_every_item_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_index_that_is_added_begins_with_ranges_of_its_own,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_partition_that_stays_hot_is_split_where_it_is_hot,
                                        set_up_emulating, tear_down),
        cmocka_unit_test_setup_teardown(one_hot_item_is_not_split, set_up_emulating, tear_down),
        cmocka_unit_test_setup_teardown(a_hot_key_with_a_local_index_is_not_split, set_up_emulating,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
