#include "daemon/warm.h"

#include "cache/cache.h"
#include "daemon/clock.h"
#include "daemon/log.h"
#include "protocol/encoding/msgpack_put.h"
#include "protocol/ensure.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define WARM_MAGIC "mudax hot keys 1\n"

enum {
    HEAD_SIZE = sizeof WARM_MAGIC - 1 + 4,
    KEYS_MAX = 1000000,
    BATCH_US = 100 * 1000,    /* what a batch has the keys of, at most */
    TROUBLE_US = 1000 * 1000, /* after one that failed */
    DEADLINE_US = 10 * 1000 * 1000,
    ARENA_MAX = 8 << 20,
    READ_SIZE = 64 * 1024,
    TABLES_A_CALL = 100,
    /* A name, a key of two attributes, their names, and what stands round them. */
    RECORD_MAX = TABLE_NAME_MAX + 2 * KEY_NAME_MAX + 2048 + 1024 + 64,
};

struct warm {
    struct worker *worker;
    const char *path;
    uint64_t rate;
    FILE *file;      /* NULL: everything was read */
    bool is_foreign; /* what the path names is none of ours, and stays */
    struct task task;
    bool is_stopped, is_pending;
    struct call call;
    struct request parts[BATCH_GET_MAX];
    struct arena arena; /* the call's */
    struct buffer read; /* of the file, ahead of what was used */
    size_t used;        /* of `read` */
    uint64_t asked, begun_us;
};

static void log_trouble(const struct warm *warm, const char *event)
{
    char path[LOG_QUOTED_MAX], why[LOG_QUOTED_MAX];
    int number = errno;
    log_line(LOG_LEVEL_WARN, event, "file=%s error=%s", log_quote(warm->path, path),
             log_quote(strerror(number), why));
}

/* ---- the file, read ---- */

/* Has the next record whole in `read`, or all that is left. */
static void read_ahead(struct warm *warm)
{
    struct buffer *read = &warm->read;
    if (read->size - warm->used >= RECORD_MAX || warm->file == NULL)
        return;
    if (warm->used != 0)
        memmove(read->data, read->data + warm->used, read->size - warm->used);
    read->size -= warm->used;
    warm->used = 0;
    if (!buffer_reserve(read, READ_SIZE))
        return;
    size_t got = fread(read->data + read->size, 1, READ_SIZE, warm->file);
    read->size += got;
    if (got == READ_SIZE)
        return;
    (void)fclose(warm->file);
    warm->file = NULL;
}

/* The next record's bytes; not given: there is none, or nothing that could be one. */
static struct bytes next_record(struct warm *warm)
{
    struct bytes record;
    read_ahead(warm);
    if (warm->used == warm->read.size) /* perhaps nothing was ever read */
        return BYTES_NONE;
    struct msgpack_cursor cursor =
        msgpack_cursor_of(bytes_of(warm->read.data + warm->used, warm->read.size - warm->used));
    if (!msgpack_skip(&cursor, &record))
        return BYTES_NONE;
    warm->used += record.size;
    return record;
}

/* False for what is none, or of a table that is gone. */
static bool read_record(struct warm *warm, struct bytes record, struct request *out)
{
    struct lane *lane = warm->worker->lane;
    struct msgpack_cursor cursor = msgpack_cursor_of(record);
    struct bytes name, key;
    uint32_t members;
    if (!msgpack_read_array(&cursor, &members) || members != 2 ||
        !msgpack_read_str(&cursor, &name) || !msgpack_skip(&cursor, &key))
        return false;
    *out = (struct request){.operation = OPERATION_GET_ITEM,
                            .table_name = arena_copy(&warm->arena, name),
                            .key = arena_copy(&warm->arena, key)};
    return bytes_given(out->table_name) && bytes_given(out->key) &&
           lane->ops->table(lane, name) != NULL;
}

/* ---- fetching ---- */

static void end(struct warm *warm)
{
    if (warm->begun_us != 0)
        log_line(LOG_LEVEL_INFO, "warm_start_done", "keys=%llu seconds=%.1f",
                 (unsigned long long)warm->asked, (double)(clock_now_us() - warm->begun_us) / 1e6);
    warm->begun_us = 0;
}

static void pause_for(struct warm *warm, uint64_t us)
{
    struct worker *worker = warm->worker;
    if (!warm->is_stopped)
        worker->env.after(worker->env.worker, us, &warm->task);
}

static void take(struct warm *warm)
{
    uint64_t count = warm->call.request.part_count;
    if (warm->call.reply.status == STATUS_OK) {
        warm->asked += count;
        stats_add(warm->worker->stats, COUNTER_warm_fetched, count);
        pause_for(warm, count * 1000000 / warm->rate);
        return;
    }
    /* Not again: perhaps there is a key among them that is none any more. */
    stats_add(warm->worker->stats, COUNTER_warm_skipped, count);
    pause_for(warm, TROUBLE_US);
}

static void completed(struct call *call)
{
    struct warm *warm = call->owner;
    warm->is_pending = false;
    warm->worker->parked--;
    take(warm);
    worker_maybe_stop(warm->worker);
}

static void submit(struct warm *warm, size_t count)
{
    struct worker *worker = warm->worker;
    struct lane *lane = worker->lane;
    uint64_t now_us = clock_now_us();
    warm->call = (struct call){.request = {.operation = OPERATION_BATCH_GET_ITEM,
                                           .parts = warm->parts,
                                           .part_count = count},
                               .arena = &warm->arena,
                               .now_us = now_us,
                               .deadline_us = now_us + DEADLINE_US,
                               .complete = completed,
                               .owner = warm};
    lane->ops->lane_begin(lane);
    enum submit submit = lane->ops->submit(lane, &warm->call);
    if (submit == SUBMIT_DONE)
        take(warm);
    lane->ops->lane_end(lane);
    warm->is_pending = submit == SUBMIT_PENDING;
    worker->parked += warm->is_pending;
}

static void run(struct task *task)
{
    struct warm *warm = (struct warm *)((char *)task - offsetof(struct warm, task));
    uint64_t most = warm->rate * BATCH_US / 1000000;
    size_t count = 0;
    if (warm->is_stopped)
        return;
    most = most < 1 ? 1 : most > BATCH_GET_MAX ? BATCH_GET_MAX : most;
    arena_reset(&warm->arena);
    while (count < most) {
        struct bytes record = next_record(warm);
        if (!bytes_given(record))
            break;
        if (read_record(warm, record, &warm->parts[count]))
            count++;
        else
            stats_add(warm->worker->stats, COUNTER_warm_skipped, 1);
    }
    if (count != 0)
        submit(warm, count);
    else
        end(warm);
}

/* ---- the file, written ---- */

struct known {
    uint32_t id;
    const struct table *table; /* valid until the loop goes on, which it never does */
};

struct saving {
    struct warm *warm;
    FILE *file;
    struct known *tables; /* by id */
    size_t table_count;
    struct buffer record;
    uint32_t keys;
};

static int by_id(const void *a, const void *b)
{
    const struct known *x = a, *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

/* The names behind `after`. */
static struct msgpack_cursor list_tables(struct warm *warm, struct bytes after, uint32_t *count)
{
    struct lane *lane = warm->worker->lane;
    struct bytes names;
    *count = 0;
    warm->call = (struct call){.request = {.operation = OPERATION_LIST_TABLES,
                                           .limit = TABLES_A_CALL,
                                           .table_name = after},
                               .arena = &warm->arena,
                               .now_us = clock_now_us()};
    lane->ops->lane_begin(lane);
    enum submit submit = lane->ops->submit(lane, &warm->call);
    ensure(submit == SUBMIT_DONE); /* it is in memory */
    struct bytes body = warm->call.reply.status == STATUS_OK
                            ? arena_copy(&warm->arena, warm->call.reply.body)
                            : BYTES_NONE;
    lane->ops->lane_end(lane);
    struct msgpack_cursor cursor = msgpack_cursor_of(BYTES_LITERAL(""));
    if (bytes_given(body) && item_find(body, BYTES_LITERAL("TableNames"), &names)) {
        cursor = msgpack_cursor_of(names);
        if (!msgpack_read_array(&cursor, count))
            *count = 0;
    }
    return cursor;
}

static bool know_tables(struct saving *saving)
{
    struct warm *warm = saving->warm;
    struct lane *lane = warm->worker->lane;
    struct bytes name = BYTES_NONE;
    for (uint32_t count = 1; count != 0;) {
        struct msgpack_cursor names = list_tables(warm, name, &count);
        struct known *grown =
            realloc(saving->tables, (saving->table_count + count + 1) * sizeof *grown);
        if (grown == NULL)
            return false;
        saving->tables = grown;
        for (uint32_t i = 0; i < count && msgpack_read_str(&names, &name); i++) {
            const struct table *table = lane->ops->table(lane, name);
            if (table != NULL)
                saving->tables[saving->table_count++] = (struct known){table->id, table};
        }
    }
    qsort(saving->tables, saving->table_count, sizeof *saving->tables, by_id);
    return true;
}

static bool write_record(struct saving *saving, struct bytes record)
{
    if (saving->keys == KEYS_MAX ||
        fwrite(record.data, 1, record.size, saving->file) != record.size)
        return false;
    saving->keys++;
    return true;
}

/* Under a lock of the cache's. */
static bool save_key(void *arg, uint32_t table_id, struct bytes bytes)
{
    struct saving *saving = arg;
    struct arena *arena = &saving->warm->arena;
    struct buffer *record = &saving->record;
    const struct known *known = bsearch(&(struct known){.id = table_id}, saving->tables,
                                        saving->table_count, sizeof *known, by_id);
    struct item_key key;
    if (known == NULL)
        return true; /* deleted meanwhile */
    const struct table *table = known->table;
    arena_reset(arena);
    record->size = 0;
    if (!item_key_split(bytes, &table->key, &key) || !buffer_reserve(record, RECORD_MAX))
        return false;
    uint8_t *at = msgpack_put_count(record->data, false, 2);
    at = msgpack_put_str_head(at, table->name.size);
    memcpy(at, table->name.data, table->name.size);
    record->size = (size_t)(at - record->data) + table->name.size;
    return item_key_encode(key, &table->key, arena, record) &&
           write_record(saving, buffer_bytes(record));
}

static bool write_head(FILE *file, uint32_t keys)
{
    uint8_t head[HEAD_SIZE] = WARM_MAGIC;
    (void)msgpack_put_bytes_of(head + sizeof WARM_MAGIC - 1, keys, 4);
    return fseek(file, 0, SEEK_SET) == 0 && fwrite(head, 1, sizeof head, file) == sizeof head;
}

static bool write_all(struct saving *saving)
{
    struct warm *warm = saving->warm;
    if (!write_head(saving->file, 0) || !know_tables(saving))
        return false;
    cache_hot_keys(warm->worker->options.backend, save_key, saving);
    for (struct bytes rest = next_record(warm); bytes_given(rest); rest = next_record(warm))
        if (!write_record(saving, rest))
            break;
    return write_head(saving->file, saving->keys) && fflush(saving->file) == 0 &&
           !ferror(saving->file) && fsync(fileno(saving->file)) == 0;
}

void warm_save(struct warm *warm)
{
    struct saving saving = {.warm = warm};
    if (warm->is_foreign)
        return;
    size_t size = strlen(warm->path) + sizeof ".new";
    char *fresh = malloc(size);
    ensure(fresh != NULL);
    (void)snprintf(fresh, size, "%s.new", warm->path);
    saving.file = fopen(fresh, "wb");
    bool is_written = saving.file != NULL && write_all(&saving);
    if (saving.file != NULL)
        is_written = fclose(saving.file) == 0 && is_written;
    if (is_written && rename(fresh, warm->path) == 0)
        log_line(LOG_LEVEL_INFO, "warm_keys_saved", "keys=%u", saving.keys);
    else
        log_trouble(warm, "warm_keys_not_saved");
    free(saving.tables);
    buffer_deinit(&saving.record);
    free(fresh);
}

/* ---- life ---- */

/* True if there is a file with something to fetch. */
static bool open_file(struct warm *warm)
{
    uint8_t head[HEAD_SIZE];
    warm->file = fopen(warm->path, "rb");
    if (warm->file == NULL) {
        if (errno != ENOENT)
            log_trouble(warm, "warm_start_failed");
        return false;
    }
    size_t got = fread(head, 1, sizeof head, warm->file);
    if (got == 0 && feof(warm->file)) { /* made for us, but not by us */
        (void)fclose(warm->file);
        warm->file = NULL;
        return false;
    }
    if (got != sizeof head || memcmp(head, WARM_MAGIC, sizeof WARM_MAGIC - 1) != 0) {
        errno = EINVAL;
        log_trouble(warm, "warm_start_failed");
        (void)fclose(warm->file);
        warm->file = NULL;
        warm->is_foreign = true;
        return false;
    }
    const uint8_t *at = head + sizeof WARM_MAGIC - 1;
    uint32_t keys = (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
    stats_add(warm->worker->stats, COUNTER_warm_keys, keys);
    log_line(LOG_LEVEL_INFO, "warm_start", "keys=%u rate=%llu", keys,
             (unsigned long long)warm->rate);
    return true;
}

struct warm *warm_create(struct worker *worker, const char *path, uint64_t rate)
{
    struct warm *warm = calloc(1, sizeof *warm);
    if (warm == NULL)
        return NULL;
    warm->worker = worker;
    warm->path = path;
    warm->rate = rate;
    warm->task.run = run;
    arena_init(&warm->arena, NULL, 0, ARENA_MAX);
    if (open_file(warm)) {
        warm->begun_us = clock_now_us();
        pause_for(warm, 0);
    }
    return warm;
}

void warm_stop(struct warm *warm)
{
    if (warm != NULL)
        warm->is_stopped = true;
}

void warm_destroy(struct warm **warm)
{
    if (*warm == NULL)
        return;
    ensure(!(*warm)->is_pending);
    if ((*warm)->file != NULL)
        (void)fclose((*warm)->file);
    arena_deinit(&(*warm)->arena);
    buffer_deinit(&(*warm)->read);
    free(*warm);
    *warm = NULL;
}
