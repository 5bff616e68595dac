#include "tests/check/check.h"

#include "protocol/encoding/json.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum {
    PARTS_MAX = 3,
    ITEM_MAX = 8192,
    PAD_MAX = 4000,
    FILLER_TABLE_ITEMS = FILLERS,
    PROGRESS_MS = 1000,
};
#define FILLER_TABLE "MudaxCheckFill"

static atomic_uint_fast64_t operations_done, next_id;
static atomic_uint generations[SLOTS];

uint64_t now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

uint32_t driver_generation(unsigned slot)
{
    return atomic_load(&generations[slot]);
}

/* ---- one client's thread ---- */

struct thread {
    const struct plan *plan;
    struct history *history;
    struct client *client;
    pthread_t thread;
    unsigned number;
    uint64_t random, stop_at_ns;
    /* Memory of the request that is being made. */
    uint8_t maps[2 * PARTS_MAX + 2][ITEM_MAX];
    size_t map_count;
    struct request parts[PARTS_MAX];
    struct write writes[PARTS_MAX];
};

static uint32_t roll(struct thread *thread, uint32_t sides)
{
    thread->random ^= thread->random << 13;
    thread->random ^= thread->random >> 7;
    thread->random ^= thread->random << 17;
    return (uint32_t)(thread->random >> 24) % sides;
}

/* ---- MessagePack, of the few shapes that are needed ---- */

static uint8_t *put_str(uint8_t *at, const char *text)
{
    size_t size = strlen(text);
    *at++ = 0xda;
    *at++ = (uint8_t)(size >> 8);
    *at++ = (uint8_t)size;
    memcpy(at, text, size);
    return at + size;
}

static uint8_t *put_number(uint8_t *at, uint64_t number)
{
    *at++ = 0xcf;
    for (int i = 7; i >= 0; i--)
        *at++ = (uint8_t)(number >> 8 * i);
    return at;
}

static uint8_t *new_map(struct thread *thread)
{
    if (thread->map_count == sizeof thread->maps / sizeof thread->maps[0])
        abort();
    return thread->maps[thread->map_count++];
}

static void key_texts(unsigned slot, uint32_t generation, char partition[16], char sort[32])
{
    snprintf(partition, 16, "P%u", slot / SORTS);
    snprintf(sort, 32, "S%ug%u", slot % SORTS, generation);
}

static struct bytes make_key(struct thread *thread, unsigned slot, uint32_t generation)
{
    char partition[16], sort[32];
    uint8_t *map = new_map(thread), *at = map;
    key_texts(slot, generation, partition, sort);
    *at++ = 0x82;
    at = put_str(put_str(at, "p"), partition);
    at = put_str(put_str(at, "s"), sort);
    return bytes_of(map, (size_t)(at - map));
}

static struct bytes make_item(struct thread *thread, const struct write *write)
{
    char partition[16], sort[32], group[8], pad[PAD_MAX + 1];
    uint8_t *map = new_map(thread), *at = map;
    uint32_t pad_size = roll(thread, 4) == 0 ? roll(thread, PAD_MAX) : roll(thread, 100);
    key_texts(write->slot, write->generation, partition, sort);
    memset(pad, 'x', pad_size);
    pad[pad_size] = '\0';
    *at++ = write->group < GROUPS ? 0x85 : 0x84;
    if (write->group < GROUPS) {
        snprintf(group, sizeof group, "G%u", write->group);
        at = put_str(put_str(at, "grp"), group);
    }
    at = put_number(put_str(at, "id"), write->id);
    at = put_str(put_str(at, "p"), partition);
    at = put_str(put_str(at, "pad"), pad);
    at = put_str(put_str(at, "s"), sort);
    return bytes_of(map, (size_t)(at - map));
}

static struct bytes make_values(struct thread *thread, const struct write *write)
{
    char group[8];
    uint8_t *map = new_map(thread), *at = map;
    *at++ = write->group < GROUPS ? 0x82 : 0x81;
    if (write->group < GROUPS) {
        snprintf(group, sizeof group, "G%u", write->group);
        at = put_str(put_str(at, ":g"), group);
    }
    at = put_number(put_str(at, ":i"), write->id);
    return bytes_of(map, (size_t)(at - map));
}

static struct bytes make_one_text(struct thread *thread, const char *name, const char *text)
{
    uint8_t *map = new_map(thread), *at = map;
    *at++ = 0x81;
    at = put_str(put_str(at, name), text);
    return bytes_of(map, (size_t)(at - map));
}

/* ---- writes ---- */

static void plan_write(struct thread *thread, struct write *write, unsigned slot, bool is_delete)
{
    *write = (struct write){.id = atomic_fetch_add(&next_id, 1) + 1,
                            .generation = atomic_load(&generations[slot]),
                            .slot = (uint16_t)slot,
                            .group = (uint8_t)roll(thread, GROUPS + 1),
                            .is_delete = is_delete};
}

static void make_write(struct thread *thread, const struct write *write, bool may_update,
                       struct request *request)
{
    *request = (struct request){.table_name = BYTES_LITERAL(TABLE_NAME)};
    if (write->is_delete) {
        request->operation = OPERATION_DELETE_ITEM;
        request->key = make_key(thread, write->slot, write->generation);
    } else if (may_update && roll(thread, 2) == 0) {
        request->operation = OPERATION_UPDATE_ITEM;
        request->key = make_key(thread, write->slot, write->generation);
        request->update = write->group < GROUPS ? BYTES_LITERAL("SET id = :i, grp = :g")
                                                : BYTES_LITERAL("SET id = :i REMOVE grp");
        request->key_condition.values = make_values(thread, write);
    } else {
        request->operation = OPERATION_PUT_ITEM;
        request->item = make_item(thread, write);
    }
}

/* Nothing is concluded from the slot's present generation any more. */
static void give_up(const struct write *write)
{
    unsigned expected = write->generation;
    (void)atomic_compare_exchange_strong(&generations[write->slot], &expected, expected + 1);
}

static void record_writes(struct thread *thread, size_t count, const struct answer *answer,
                          uint64_t begin, uint64_t end)
{
    struct history *history = thread->history;
    struct msgpack_cursor commits = msgpack_cursor_of(answer->commits);
    uint32_t told = 0;
    bool has_each = bytes_given(answer->commits) && msgpack_read_array(&commits, &told);
    if (answer->outcome == OUTCOME_REFUSED)
        return;
    for (size_t i = 0; i < count; i++) {
        struct write *write = &thread->writes[i];
        write->begin = begin;
        write->end = end;
        write->commit = answer->commit;
        if (has_each && (i >= told || !msgpack_read_uint(&commits, &write->commit)))
            write->commit = 0;
        write->is_unknown = answer->outcome == OUTCOME_UNKNOWN || write->commit == 0;
        if (write->is_unknown)
            give_up(write);
        history->writes = history_grow(history->writes, history->write_count, &history->write_room,
                                       sizeof *history->writes);
        history->writes[history->write_count++] = *write;
    }
}

static void do_write(struct thread *thread)
{
    bool is_http = client_is_http(thread->client);
    uint32_t kind = roll(thread, 10);
    bool is_batch = kind == 0 && !is_http, is_transaction = kind == 1;
    size_t count = is_batch || is_transaction ? 1 + roll(thread, PARTS_MAX) : 1;
    unsigned first = roll(thread, SLOTS);
    struct request request;
    struct answer answer;
    for (size_t i = 0; i < count; i++) {
        bool is_delete = thread->plan->has_deletes && roll(thread, 5) == 0;
        plan_write(thread, &thread->writes[i], (first + (unsigned)i * 5) % SLOTS, is_delete);
        make_write(thread, &thread->writes[i], !is_batch, &thread->parts[i]);
    }
    if (is_batch || is_transaction)
        request = (struct request){.operation = is_batch ? OPERATION_BATCH_WRITE_ITEM
                                                         : OPERATION_TRANSACT_WRITE_ITEMS,
                                   .parts = thread->parts,
                                   .part_count = count};
    else
        request = thread->parts[0];
    request.timeout_ms = thread->plan->timeout_ms;
    uint64_t begin = now_ns();
    client_call(thread->client, &request, &answer);
    record_writes(thread, count, &answer, begin, now_ns());
}

/* ---- reads ---- */

/* Slot and generation of a key; false for what is none of ours. */
static bool parse_key(struct bytes partition, struct bytes sort, struct seen *out)
{
    char texts[2][40];
    unsigned p, s, g;
    if (partition.size >= sizeof texts[0] || sort.size >= sizeof texts[1])
        return false;
    snprintf(texts[0], sizeof texts[0], "%.*s", (int)partition.size, (const char *)partition.data);
    snprintf(texts[1], sizeof texts[1], "%.*s", (int)sort.size, (const char *)sort.data);
    if (sscanf(texts[0], "P%u", &p) != 1 || sscanf(texts[1], "S%ug%u", &s, &g) != 2)
        return false;
    out->slot = (uint16_t)(p * SORTS + s);
    out->generation = g;
    return p < PARTITIONS && s < SORTS;
}

static struct bytes text_of(struct bytes item, const char *name)
{
    struct bytes value, text = BYTES_LITERAL("");
    if (item_find(item, bytes_text(name), &value)) {
        struct msgpack_cursor cursor = msgpack_cursor_of(value);
        if (!msgpack_read_str(&cursor, &text))
            abort();
    }
    return text;
}

static void parse_item(struct bytes item, struct seen *out)
{
    struct bytes value;
    uint64_t id = 0;
    if (!parse_key(text_of(item, "p"), text_of(item, "s"), out) ||
        !item_find(item, BYTES_LITERAL("id"), &value))
        abort();
    struct msgpack_cursor cursor = msgpack_cursor_of(value);
    if (!msgpack_read_uint(&cursor, &id))
        abort();
    out->id = id;
}

static struct read *begin_read(struct thread *thread, enum scope scope, const struct answer *answer,
                               uint64_t begin)
{
    struct history *history = thread->history;
    history->reads = history_grow(history->reads, history->read_count, &history->read_room,
                                  sizeof *history->reads);
    struct read *read = &history->reads[history->read_count++];
    *read = (struct read){.begin = begin,
                          .end = now_ns(),
                          .seen_at = (uint32_t)history->seen_count,
                          .scope = (uint8_t)scope,
                          .verdict = (uint8_t)answer->verdict,
                          .is_http = client_is_http(thread->client)};
    return read;
}

static struct seen *add_seen(struct thread *thread, struct read *read)
{
    struct history *history = thread->history;
    history->seen = history_grow(history->seen, history->seen_count, &history->seen_room,
                                 sizeof *history->seen);
    read->seen_count++;
    return &history->seen[history->seen_count++];
}

static void record_item(struct thread *thread, struct read *read, struct bytes item, unsigned slot,
                        uint32_t generation)
{
    struct seen *seen = add_seen(thread, read);
    *seen = (struct seen){.slot = (uint16_t)slot, .generation = generation};
    if (item.data[0] != 0xc0)
        parse_item(item, seen);
    if (seen->slot != slot || seen->generation != generation) {
        fprintf(stderr, "mudax-check: asked for one item, got another\n");
        exit(1);
    }
}

static void do_get(struct thread *thread)
{
    struct answer answer;
    unsigned slot = roll(thread, SLOTS);
    uint32_t generation = atomic_load(&generations[slot]);
    struct request request = {.operation = OPERATION_GET_ITEM,
                              .table_name = BYTES_LITERAL(TABLE_NAME),
                              .is_consistent = roll(thread, 10) == 0,
                              .timeout_ms = thread->plan->timeout_ms,
                              .key = make_key(thread, slot, generation)};
    uint64_t begin = now_ns();
    client_call(thread->client, &request, &answer);
    if (answer.outcome == OUTCOME_DONE)
        record_item(thread, begin_read(thread, SCOPE_ITEMS, &answer, begin), answer.body, slot,
                    generation);
}

/* BatchGetItem: reads of their own; TransactGetItems: one. */
static void do_get_many(struct thread *thread, bool is_transaction)
{
    struct answer answer;
    unsigned slots[PARTS_MAX], first = roll(thread, SLOTS);
    uint32_t made[PARTS_MAX];
    size_t count = 1 + roll(thread, PARTS_MAX);
    for (size_t i = 0; i < count; i++) {
        slots[i] = (first + (unsigned)i * 7) % SLOTS;
        made[i] = atomic_load(&generations[slots[i]]);
        thread->parts[i] = (struct request){.operation = OPERATION_GET_ITEM,
                                            .table_name = BYTES_LITERAL(TABLE_NAME),
                                            .key = make_key(thread, slots[i], made[i])};
    }
    struct request request = {.operation = is_transaction ? OPERATION_TRANSACT_GET_ITEMS
                                                          : OPERATION_BATCH_GET_ITEM,
                              .timeout_ms = thread->plan->timeout_ms,
                              .parts = thread->parts,
                              .part_count = count};
    uint64_t begin = now_ns();
    client_call(thread->client, &request, &answer);
    if (answer.outcome != OUTCOME_DONE)
        return;
    struct msgpack_cursor cursor = msgpack_cursor_of(answer.body), left;
    uint32_t parts;
    uint64_t place;
    bool is_left[PARTS_MAX] = {false};
    if (!is_transaction) {
        struct bytes items;
        if (!msgpack_read_array(&cursor, &parts) || parts != 2)
            abort();
        left = cursor;
        if (!msgpack_skip(&left, &items) || !msgpack_read_array(&left, &parts))
            abort();
        for (; parts != 0; parts--) {
            if (!msgpack_read_uint(&left, &place) || place >= count)
                abort();
            is_left[place] = true;
        }
    }
    if (!msgpack_read_array(&cursor, &parts) || parts != count)
        abort();
    struct read *read = is_transaction ? begin_read(thread, SCOPE_TOGETHER, &answer, begin) : NULL;
    for (size_t i = 0; i < count; i++) {
        struct bytes item;
        if (!msgpack_skip(&cursor, &item))
            abort();
        if (is_left[i])
            continue;
        if (!is_transaction)
            read = begin_read(thread, SCOPE_ITEMS, &answer, begin);
        record_item(thread, read, item, slots[i], made[i]);
    }
}

static void record_page(struct thread *thread, enum scope scope, unsigned of, unsigned first,
                        const struct answer *answer, uint64_t begin)
{
    struct msgpack_cursor cursor = msgpack_cursor_of(answer->body);
    uint32_t three, count;
    uint64_t scanned;
    struct bytes item, last;
    if (!msgpack_read_array(&cursor, &three) || three != 3)
        abort();
    struct msgpack_cursor items = cursor;
    if (!msgpack_skip(&cursor, NULL) || !msgpack_read_uint(&cursor, &scanned) ||
        !msgpack_skip(&cursor, &last) || !msgpack_read_array(&items, &count))
        abort();
    if (last.data[0] != 0xc0)
        return; /* in part only: nothing to be concluded */
    struct read *read = begin_read(thread, scope, answer, begin);
    read->of = (uint8_t)of;
    read->first = (uint8_t)first;
    for (; count != 0; count--) {
        if (!msgpack_skip(&items, &item))
            abort();
        parse_item(item, add_seen(thread, read));
    }
}

static void do_query(struct thread *thread)
{
    struct answer answer;
    char partition[8], sort[8];
    unsigned of = roll(thread, PARTITIONS), first = roll(thread, 2) == 0 ? 0 : roll(thread, SORTS);
    uint8_t *map = new_map(thread), *at = map;
    snprintf(partition, sizeof partition, "P%u", of);
    snprintf(sort, sizeof sort, "S%u", first);
    *at++ = 0x82;
    at = put_str(put_str(at, ":p"), partition);
    at = put_str(put_str(at, ":s"), sort);
    struct request request = {.operation = OPERATION_QUERY,
                              .table_name = BYTES_LITERAL(TABLE_NAME),
                              .key_condition = {.text = BYTES_LITERAL("p = :p AND s >= :s"),
                                                .values = bytes_of(map, (size_t)(at - map))},
                              .timeout_ms = thread->plan->timeout_ms,
                              .is_consistent = roll(thread, 10) == 0};
    uint64_t begin = now_ns();
    client_call(thread->client, &request, &answer);
    if (answer.outcome == OUTCOME_DONE)
        record_page(thread, SCOPE_PARTITION, of, first, &answer, begin);
}

static void do_query_index(struct thread *thread)
{
    struct answer answer;
    char group[8];
    unsigned of = roll(thread, GROUPS);
    snprintf(group, sizeof group, "G%u", of);
    struct request request = {.operation = OPERATION_QUERY,
                              .table_name = BYTES_LITERAL(TABLE_NAME),
                              .index_name = BYTES_LITERAL(INDEX_NAME),
                              .timeout_ms = thread->plan->timeout_ms,
                              .key_condition = {.text = BYTES_LITERAL("grp = :g"),
                                                .values = make_one_text(thread, ":g", group)}};
    uint64_t begin = now_ns();
    client_call(thread->client, &request, &answer);
    if (answer.outcome == OUTCOME_DONE)
        record_page(thread, SCOPE_GROUP, of, 0, &answer, begin);
}

static void do_scan(struct thread *thread)
{
    struct answer answer;
    struct request request = {.operation = OPERATION_SCAN,
                              .table_name = BYTES_LITERAL(TABLE_NAME),
                              .timeout_ms = thread->plan->timeout_ms};
    uint64_t begin = now_ns();
    client_call(thread->client, &request, &answer);
    if (answer.outcome == OUTCOME_DONE)
        record_page(thread, SCOPE_TABLE, 0, 0, &answer, begin);
}

/* Only takes room in the cache. */
static void do_fill(struct thread *thread)
{
    struct answer answer;
    char name[16];
    snprintf(name, sizeof name, "F%u", roll(thread, FILLER_TABLE_ITEMS));
    struct request request = {.operation = OPERATION_GET_ITEM,
                              .table_name = BYTES_LITERAL(FILLER_TABLE),
                              .timeout_ms = thread->plan->timeout_ms,
                              .key = make_one_text(thread, "p", name)};
    client_call(thread->client, &request, &answer);
}

/* Of a key, a partition, the index, a partition of it, the table, everything: whatever is
 * forgotten, answers stay right. */
static void do_purge(struct thread *thread)
{
    struct answer answer;
    char text[16];
    unsigned slot = roll(thread, SLOTS), kind = roll(thread, 16);
    struct request request = {.operation = OPERATION_PURGE,
                              .table_name = BYTES_LITERAL(TABLE_NAME),
                              .timeout_ms = thread->plan->timeout_ms};
    if (kind < 7) {
        request.key = make_key(thread, slot, atomic_load(&generations[slot]));
    } else if (kind < 11) {
        snprintf(text, sizeof text, "P%u", slot / SORTS);
        request.key = make_one_text(thread, "p", text);
    } else if (kind < 14 && thread->plan->has_index) {
        request.index_name = BYTES_LITERAL(INDEX_NAME);
        snprintf(text, sizeof text, "G%u", roll(thread, GROUPS));
        if (kind < 13)
            request.key = make_one_text(thread, "grp", text);
    } else if (kind == 15) {
        request.table_name = BYTES_NONE;
    }
    client_call(thread->client, &request, &answer);
}

static void do_one(struct thread *thread)
{
    uint32_t kind = roll(thread, 100);
    thread->map_count = 0;
    if (kind < 25)
        do_write(thread);
    else if (kind < 60)
        do_get(thread);
    else if (kind < 64)
        do_fill(thread);
    else if (kind < 65 && !client_is_http(thread->client))
        do_purge(thread);
    else if (kind < 70 && !client_is_http(thread->client))
        do_get_many(thread, false);
    else if (kind < 75)
        do_get_many(thread, true);
    else if (kind < 90 || (kind < 97 && !thread->plan->has_index))
        do_query(thread);
    else if (kind < 97)
        do_query_index(thread);
    else
        do_scan(thread);
}

static void *run(void *arg)
{
    struct thread *thread = arg;
    while (atomic_fetch_add(&operations_done, 1) < thread->plan->operations &&
           (thread->stop_at_ns == 0 || now_ns() < thread->stop_at_ns))
        do_one(thread);
    return NULL;
}

/* ---- the whole ---- */

static bool make_table(struct client *client, const char *json_name, bool has_index, bool has_sort)
{
    struct answer answer;
    struct arena arena;
    struct value tree;
    struct error error;
    char text[1200];
    struct request drop = {.operation = OPERATION_DELETE_TABLE,
                           .table_name = bytes_text(json_name)};
    client_call(client, &drop, &answer);
    snprintf(text, sizeof text,
             "{\"TableName\":\"%s\",\"BillingMode\":\"PAY_PER_REQUEST\",\"KeySchema\":["
             "{\"AttributeName\":\"p\",\"KeyType\":\"HASH\"}%s],\"AttributeDefinitions\":["
             "{\"AttributeName\":\"p\",\"AttributeType\":\"S\"}%s%s]%s}",
             json_name, has_sort ? ",{\"AttributeName\":\"s\",\"KeyType\":\"RANGE\"}" : "",
             has_sort ? ",{\"AttributeName\":\"s\",\"AttributeType\":\"S\"}" : "",
             has_index ? ",{\"AttributeName\":\"grp\",\"AttributeType\":\"S\"}" : "",
             has_index ? ",\"GlobalSecondaryIndexes\":[{\"IndexName\":\"" INDEX_NAME
                         "\",\"KeySchema\":[{\"AttributeName\":\"grp\",\"KeyType\":\"HASH\"}],"
                         "\"Projection\":{\"ProjectionType\":\"ALL\"}}]"
                       : "");
    arena_init(&arena, NULL, 0, 1 << 20);
    if (json_to_plain(bytes_text(text), &arena, &tree, &error) != STATUS_OK)
        abort();
    struct request create = {.operation = OPERATION_CREATE_TABLE,
                             .definition = value_encode_arena(&tree, &arena)};
    client_call(client, &create, &answer);
    arena_deinit(&arena);
    if (answer.outcome != OUTCOME_DONE)
        fprintf(stderr, "mudax-check: CreateTable %s: %s\n", json_name, answer.text);
    return answer.outcome == OUTCOME_DONE;
}

bool driver_prepare(const struct plan *plan)
{
    struct client *client = client_open(plan->urls[0]);
    if (client_is_http(client)) {
        fprintf(stderr, "mudax-check: the first URL must be one of the native protocol\n");
        return false;
    }
    bool is_made = make_table(client, TABLE_NAME, plan->has_index, true) &&
                   make_table(client, FILLER_TABLE, false, false);
    client_close(&client);
    return is_made;
}

static void show_progress(const struct plan *plan, uint64_t begin)
{
    uint64_t done;
    while ((done = atomic_load(&operations_done)) < plan->operations) {
        double seconds = (double)(now_ns() - begin) / 1e9;
        if (plan->seconds != 0 && seconds > plan->seconds)
            return;
        fprintf(stderr, "\r%12llu operations, %.0f a second ", (unsigned long long)done,
                (double)done / seconds);
        (void)usleep(PROGRESS_MS * 1000);
    }
}

void driver_run(const struct plan *plan, struct history *histories, bool shows_progress)
{
    struct thread *threads = calloc(plan->clients, sizeof *threads);
    uint64_t begin = now_ns();
    if (threads == NULL)
        abort();
    for (unsigned i = 0; i < plan->clients; i++) {
        threads[i].plan = plan;
        threads[i].history = &histories[i];
        threads[i].number = i;
        threads[i].random = (plan->seed + 1) * 0x9E3779B97F4A7C15ull + i * 7919 + 1;
        threads[i].client = client_open(plan->urls[i % plan->url_count]);
        if (plan->seconds != 0)
            threads[i].stop_at_ns = begin + (uint64_t)(plan->seconds * 1e9);
    }
    for (unsigned i = 0; i < plan->clients; i++)
        if (pthread_create(&threads[i].thread, NULL, run, &threads[i]) != 0)
            abort();
    if (shows_progress)
        show_progress(plan, begin);
    for (unsigned i = 0; i < plan->clients; i++) {
        (void)pthread_join(threads[i].thread, NULL);
        client_close(&threads[i].client);
    }
    if (shows_progress)
        fprintf(stderr, "\n");
    free(threads);
}
