#include "daemon/upkeep.h"

#include "daemon/clock.h"
#include "daemon/log.h"
#include "protocol/encoding/msgpack.h"
#include "protocol/ensure.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    ROUND_US = 1000 * 1000,   /* between two looks at all tables */
    SHARED_US = 500 * 1000,   /* between two at what others have done to them */
    PAUSE_US = 2 * 1000,      /* between two calls */
    TROUBLE_US = 1000 * 1000, /* after one that failed */
    DEADLINE_US = 10 * 1000 * 1000,
    SCAN_ITEMS_MAX = 1000, /* examined by one call */
    EXPIRED_YEARS_MAX = 5,
    YEAR_S = 365 * 24 * 3600 + 6 * 3600,
    ARENA_MAX = 8 << 20,
};

enum phase {
    PHASE_NEXT_TABLE,
    PHASE_SPLIT,  /* its partitions, one after the other */
    PHASE_FILL,   /* its indexes that are being filled, one after the other */
    PHASE_SCAN,   /* its items, for expired ones */
    PHASE_DELETE, /* those of one page, one after the other */
};

struct upkeep {
    struct worker *worker;
    uint64_t interval_us;
    struct task task;
    bool is_stopped, is_pending;
    atomic_bool is_cancelled; /* what the call looks at */
    struct call call;
    struct arena arena; /* the call's */

    enum phase phase;
    uint8_t table[TABLE_NAME_MAX], index[KEY_NAME_MAX], attribute[KEY_NAME_MAX];
    size_t table_size, index_size, attribute_size; /* 0: none */
    uint64_t shared_at_us; /* when a store that others share is looked at next */
    bool is_shared_looked; /* by this call, in between; `phase` goes on afterwards */
    uint64_t sweep_at_us;  /* when items are looked at next */
    bool is_sweeping;      /* in this round */
    struct buffer start;   /* where the next slice or page begins; empty: at the first */
    struct buffer page;    /* the last page's body */
    struct msgpack_cursor items;
    uint32_t items_left;
    uint64_t filled, expired, split; /* in this table */
};

static void run(struct task *task);

static struct bytes table_name(const struct upkeep *upkeep)
{
    return bytes_of(upkeep->table, upkeep->table_size);
}

static void pause_for(struct upkeep *upkeep, uint64_t us)
{
    struct worker *worker = upkeep->worker;
    if (!upkeep->is_stopped)
        worker->env.after(worker->env.worker, us, &upkeep->task);
}

static bool keep(struct buffer *buffer, struct bytes bytes)
{
    buffer->size = 0;
    return buffer_append(buffer, bytes);
}

/* ---- calls ---- */

static void take(struct upkeep *upkeep);

static void completed(struct call *call)
{
    struct upkeep *upkeep = call->owner;
    upkeep->is_pending = false;
    upkeep->worker->parked--;
    take(upkeep);
    worker_maybe_stop(upkeep->worker);
}

/* Makes a call of `request`, whose views are in the arena or longer-lived. */
static void submit(struct upkeep *upkeep, const struct request *request)
{
    struct worker *worker = upkeep->worker;
    struct lane *lane = worker->lane;
    uint64_t now_us = clock_now_us();
    upkeep->call =
        (struct call){.request = *request,
                      .arena = &upkeep->arena,
                      .origin = request->operation == OPERATION_DELETE_ITEM ? CALL_OF_TIME_TO_LIVE
                                                                            : CALL_OF_CLIENT,
                      .now_us = now_us,
                      .deadline_us = now_us + DEADLINE_US,
                      .is_cancelled = &upkeep->is_cancelled,
                      .complete = completed,
                      .owner = upkeep};
    lane->ops->lane_begin(lane);
    enum submit submit = lane->ops->submit(lane, &upkeep->call);
    if (submit == SUBMIT_DONE)
        take(upkeep);
    lane->ops->lane_end(lane);
    upkeep->is_pending = submit == SUBMIT_PENDING;
    worker->parked += upkeep->is_pending;
}

/* ---- which table ---- */

static void next_table(struct upkeep *upkeep)
{
    upkeep->phase = PHASE_NEXT_TABLE;
    upkeep->start.size = 0;
    upkeep->filled = 0;
    upkeep->expired = 0;
    upkeep->split = 0;
}

static void end_round(struct upkeep *upkeep)
{
    upkeep->table_size = 0;
    if (upkeep->is_sweeping)
        upkeep->sweep_at_us = clock_now_us() + upkeep->interval_us;
    upkeep->is_sweeping = false;
    next_table(upkeep);
}

static const struct secondary_index *find_filling(const struct table *table)
{
    for (size_t i = 0; i < table->index_count; i++)
        if (!table->indexes[i].is_ready)
            return &table->indexes[i];
    return NULL;
}

/* What there is to do in a table, from the first. */
static void choose(struct upkeep *upkeep)
{
    struct lane *lane = upkeep->worker->lane;
    const struct table *table = lane->ops->table(lane, table_name(upkeep));
    next_table(upkeep);
    if (table == NULL)
        return;
    const struct secondary_index *filling = find_filling(table);
    if (filling != NULL) {
        upkeep->phase = PHASE_FILL;
        upkeep->index_size = filling->name.size;
        memcpy(upkeep->index, filling->name.data, filling->name.size);
    } else if (bytes_given(table->time_to_live) && upkeep->is_sweeping) {
        upkeep->phase = PHASE_SCAN;
        upkeep->attribute_size = table->time_to_live.size;
        memcpy(upkeep->attribute, table->time_to_live.data, table->time_to_live.size);
    }
}

static void list(struct upkeep *upkeep)
{
    if (upkeep->table_size == 0)
        upkeep->is_sweeping = clock_now_us() >= upkeep->sweep_at_us;
    struct request request = {.operation = OPERATION_LIST_TABLES,
                              .limit = 1,
                              .table_name =
                                  upkeep->table_size == 0 ? BYTES_NONE : table_name(upkeep)};
    submit(upkeep, &request);
}

/* Returns how long to wait before the next call. */
static uint64_t take_list(struct upkeep *upkeep)
{
    struct bytes names, name;
    uint32_t count = 0;
    if (item_find(upkeep->call.reply.body, BYTES_LITERAL("TableNames"), &names)) {
        struct msgpack_cursor cursor = msgpack_cursor_of(names);
        if (msgpack_read_array(&cursor, &count) && count != 0 && msgpack_read_str(&cursor, &name) &&
            name.size <= sizeof upkeep->table) {
            memcpy(upkeep->table, name.data, name.size);
            upkeep->table_size = name.size;
            upkeep->phase = PHASE_SPLIT;
            return 0;
        }
    }
    end_round(upkeep);
    return ROUND_US;
}

/* ---- what others have done to the tables ---- */

static void look_at_shared(struct upkeep *upkeep)
{
    struct request request = {.operation = OPERATION_LOOK_AT_SHARED};
    upkeep->is_shared_looked = true;
    submit(upkeep, &request);
}

static uint64_t take_shared(struct upkeep *upkeep)
{
    const struct reply *reply = &upkeep->call.reply;
    bool is_known = reply->status == STATUS_OK;
    upkeep->is_shared_looked = false;
    upkeep->shared_at_us =
        is_known && reply->count == SHARED_NOT ? UINT64_MAX : clock_now_us() + SHARED_US;
    if (is_known && reply->count == SHARED_CHANGED)
        log_line(LOG_LEVEL_INFO, "tables_changed", "by=others");
    return 0;
}

/* ---- partitions ---- */

static void split(struct upkeep *upkeep)
{
    struct request request = {.operation = OPERATION_SPLIT_PARTITION,
                              .table_name = table_name(upkeep)};
    submit(upkeep, &request);
}

static uint64_t take_split(struct upkeep *upkeep)
{
    enum split_step step = (enum split_step)upkeep->call.reply.count;
    upkeep->split += step == SPLIT_COUNTED;
    stats_add(upkeep->worker->stats, COUNTER_upkeep_split, step == SPLIT_COUNTED);
    if (step != SPLIT_NOTHING)
        return 0;
    if (upkeep->split != 0)
        log_line(LOG_LEVEL_INFO, "partitions_split", "table=%.*s splits=%llu",
                 (int)upkeep->table_size, (const char *)upkeep->table,
                 (unsigned long long)upkeep->split);
    choose(upkeep);
    return 0;
}

/* ---- a new index ---- */

static void fill(struct upkeep *upkeep)
{
    struct request request = {.operation = OPERATION_FILL_INDEX,
                              .table_name = table_name(upkeep),
                              .index_name = bytes_of(upkeep->index, upkeep->index_size)};
    if (upkeep->start.size != 0)
        request.start_key = buffer_bytes(&upkeep->start);
    submit(upkeep, &request);
}

static uint64_t take_fill(struct upkeep *upkeep)
{
    const struct reply *reply = &upkeep->call.reply;
    upkeep->filled += reply->count;
    stats_add(upkeep->worker->stats, COUNTER_upkeep_filled, reply->count);
    if (reply->count != 0)
        return keep(&upkeep->start, reply->body) ? 0 : TROUBLE_US;
    log_line(LOG_LEVEL_INFO, "index_ready", "table=%.*s index=%.*s items=%llu",
             (int)upkeep->table_size, (const char *)upkeep->table, (int)upkeep->index_size,
             (const char *)upkeep->index, (unsigned long long)upkeep->filled);
    choose(upkeep); /* perhaps there is another */
    return 0;
}

/* ---- expired items ---- */

/* Map of one member, in the arena. */
static struct bytes one(struct upkeep *upkeep, const char *name, const struct value *value)
{
    struct attribute attribute = {bytes_text(name), *value};
    struct value map = {.type = VALUE_M, .attributes = &attribute, .count = 1};
    return value_encode_arena(&map, &upkeep->arena);
}

static struct bytes attribute_names(struct upkeep *upkeep)
{
    struct value name = {.type = VALUE_S,
                         .bytes = bytes_of(upkeep->attribute, upkeep->attribute_size)};
    return one(upkeep, "#t", &name);
}

/* Of other types than a number, and of milliseconds, none is between the two. */
static struct bytes bounds(struct upkeep *upkeep)
{
    uint64_t now_s = clock_wall_ms() / 1000;
    struct attribute members[2] = {
        {BYTES_LITERAL(":now"), {.type = VALUE_N, .number = number_from_uint(now_s)}},
        {BYTES_LITERAL(":old"),
         {.type = VALUE_N, .number = number_from_uint(now_s - EXPIRED_YEARS_MAX * YEAR_S)}}};
    struct value map = {.type = VALUE_M, .attributes = members, .count = 2};
    return value_encode_arena(&map, &upkeep->arena);
}

static void scan(struct upkeep *upkeep)
{
    struct request request = {.operation = OPERATION_SCAN,
                              .table_name = table_name(upkeep),
                              .is_consistent = true,
                              .limit = SCAN_ITEMS_MAX,
                              .filter = BYTES_LITERAL("#t <= :now AND #t > :old"),
                              .key_condition.names = attribute_names(upkeep),
                              .key_condition.values = bounds(upkeep)};
    if (upkeep->start.size != 0)
        request.start_key = buffer_bytes(&upkeep->start);
    submit(upkeep, &request);
}

static uint64_t take_scan(struct upkeep *upkeep)
{
    struct bytes last;
    uint32_t parts;
    uint64_t scanned;
    if (!keep(&upkeep->page, upkeep->call.reply.body))
        return TROUBLE_US;
    upkeep->items = msgpack_cursor_of(buffer_bytes(&upkeep->page));
    struct msgpack_cursor ahead = upkeep->items;
    ensure(msgpack_read_array(&ahead, &parts) && parts == 3);
    upkeep->items = ahead;
    ensure(msgpack_read_array(&upkeep->items, &upkeep->items_left));
    ensure(msgpack_skip(&ahead, NULL) && msgpack_read_uint(&ahead, &scanned) &&
           msgpack_skip(&ahead, &last));
    bool is_last = last.size == 1;
    if (!keep(&upkeep->start, is_last ? BYTES_LITERAL("") : last))
        return TROUBLE_US;
    upkeep->phase = PHASE_DELETE;
    return 0;
}

static const struct value *find(const struct value *item, struct bytes name)
{
    for (size_t i = 0; i < item->count; i++)
        if (bytes_equal(item->attributes[i].name, name))
            return &item->attributes[i].value;
    return NULL;
}

/* The item's key. Not given: the table is another by now, or there is no memory. */
static struct bytes key_of(struct upkeep *upkeep, const struct value *item)
{
    struct lane *lane = upkeep->worker->lane;
    const struct table *table = lane->ops->table(lane, table_name(upkeep));
    if (table == NULL)
        return BYTES_NONE;
    struct bytes names[2] = {table->key.partition.name, table->key.sort.name};
    struct attribute attributes[2];
    struct value map = {.type = VALUE_M, .attributes = attributes};
    struct error error;
    for (size_t i = 0; i < (key_schema_has_sort(&table->key) ? 2u : 1u); i++) {
        const struct value *value = find(item, names[i]);
        if (value == NULL)
            return BYTES_NONE;
        attributes[map.count++] = (struct attribute){names[i], *value};
    }
    return value_normalize(&map, &error) == STATUS_OK ? value_encode_arena(&map, &upkeep->arena)
                                                      : BYTES_NONE;
}

/* False when the page has no more items. */
static bool delete_next(struct upkeep *upkeep)
{
    struct value item;
    struct error error;
    if (upkeep->items_left == 0)
        return false;
    upkeep->items_left--;
    if (value_decode(&upkeep->items, &upkeep->arena, &item, &error) != STATUS_OK)
        return false;
    const struct value *time = find(&item, bytes_of(upkeep->attribute, upkeep->attribute_size));
    struct request request = {.operation = OPERATION_DELETE_ITEM,
                              .table_name = table_name(upkeep),
                              .key = key_of(upkeep, &item),
                              .condition = BYTES_LITERAL("#t = :t"),
                              .key_condition.names = attribute_names(upkeep)};
    if (time == NULL || !bytes_given(request.key))
        return false;
    request.key_condition.values = one(upkeep, ":t", time);
    submit(upkeep, &request);
    return true;
}

static void end_page(struct upkeep *upkeep)
{
    upkeep->phase = PHASE_SCAN;
    if (upkeep->start.size != 0)
        return;
    if (upkeep->expired != 0)
        log_line(LOG_LEVEL_INFO, "items_expired", "table=%.*s items=%llu", (int)upkeep->table_size,
                 (const char *)upkeep->table, (unsigned long long)upkeep->expired);
    next_table(upkeep);
}

static uint64_t take_delete(struct upkeep *upkeep)
{
    bool is_done = upkeep->call.reply.status == STATUS_OK;
    upkeep->expired += is_done;
    stats_add(upkeep->worker->stats, COUNTER_upkeep_expired, is_done);
    return 0;
}

/* ---- step by step ---- */

static void run(struct task *task)
{
    struct upkeep *upkeep = (struct upkeep *)((char *)task - offsetof(struct upkeep, task));
    if (upkeep->is_stopped)
        return;
    arena_reset(&upkeep->arena);
    if (clock_now_us() >= upkeep->shared_at_us) {
        look_at_shared(upkeep);
        return;
    }
    switch (upkeep->phase) {
    case PHASE_NEXT_TABLE:
        list(upkeep);
        return;
    case PHASE_SPLIT:
        split(upkeep);
        return;
    case PHASE_FILL:
        fill(upkeep);
        return;
    case PHASE_SCAN:
        scan(upkeep);
        return;
    case PHASE_DELETE:
        if (delete_next(upkeep))
            return;
        end_page(upkeep);
        break;
    }
    pause_for(upkeep, PAUSE_US);
}

/* A table that went away, an item that changed: the next round sees what there is then. */
static bool has_failed(const struct upkeep *upkeep)
{
    enum status status = upkeep->call.reply.status;
    return status != STATUS_OK &&
           !(upkeep->phase == PHASE_DELETE && status == STATUS_CONDITIONAL_CHECK_FAILED);
}

static void take(struct upkeep *upkeep)
{
    uint64_t wait_us = TROUBLE_US;
    if (upkeep->is_shared_looked)
        wait_us = take_shared(upkeep);
    else if (has_failed(upkeep) && upkeep->phase == PHASE_SPLIT)
        choose(upkeep); /* the rest of what the table needs does not wait for it */
    else if (has_failed(upkeep))
        next_table(upkeep);
    else if (upkeep->phase == PHASE_NEXT_TABLE)
        wait_us = take_list(upkeep);
    else if (upkeep->phase == PHASE_SPLIT)
        wait_us = take_split(upkeep);
    else if (upkeep->phase == PHASE_FILL)
        wait_us = take_fill(upkeep);
    else if (upkeep->phase == PHASE_SCAN)
        wait_us = take_scan(upkeep);
    else
        wait_us = take_delete(upkeep);
    pause_for(upkeep, wait_us > PAUSE_US ? wait_us : PAUSE_US);
}

/* ---- life ---- */

struct upkeep *upkeep_create(struct worker *worker, uint64_t interval_ms)
{
    struct upkeep *upkeep = calloc(1, sizeof *upkeep);
    if (upkeep == NULL)
        return NULL;
    upkeep->worker = worker;
    upkeep->interval_us = interval_ms * 1000;
    upkeep->task.run = run;
    arena_init(&upkeep->arena, NULL, 0, ARENA_MAX);
    pause_for(upkeep, PAUSE_US);
    return upkeep;
}

void upkeep_stop(struct upkeep *upkeep)
{
    if (upkeep == NULL)
        return;
    upkeep->is_stopped = true;
    atomic_store(&upkeep->is_cancelled, true);
}

void upkeep_destroy(struct upkeep **upkeep)
{
    if (*upkeep == NULL)
        return;
    ensure(!(*upkeep)->is_pending);
    arena_deinit(&(*upkeep)->arena);
    buffer_deinit(&(*upkeep)->start);
    buffer_deinit(&(*upkeep)->page);
    free(*upkeep);
    *upkeep = NULL;
}
