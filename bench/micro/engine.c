/* bench-engine: what the engine takes over the embedded store in memory, in CPU of the whole
 * process (the writer's and the readers' threads included), each beside what it is held against in
 * the same round: a transaction of 10 puts and a batch of 10; ADD on one hot item and on 16; a
 * filter over pages of 1 MB; a page of 100 items and RocksDB's own iterator over as many records.
 */
#include "protocol/encoding/msgpack.h"
#include "tests/support/session.h"

#include "backend/engine/engine.h"

#include <rocksdb/c.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { ROUNDS = 5, WRITERS = 16, PARTS = 10, PAGE_ITEMS = 100, LARGE_ITEMS = 5000 };

static struct backend *engine;
static struct session session;

static void die(const char *what)
{
    fprintf(stderr, "bench-engine: %s\n", what);
    exit(1);
}

static double cpu_us(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static double wall_us(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static uint64_t wall_ms(void)
{
    return 1700000000123;
}

static void open_engine(void)
{
    struct engine_options options = {
        .store = {.url = BYTES_LITERAL("memory:"), .memory_bytes = 256 << 20},
        .partitions = 16,
        .tables_max = 10,
        .collection_bytes_max = 10ull << 30,
        .wall_ms = wall_ms};
    struct error error;
    if (engine_open(&options, &engine, &error) != STATUS_OK)
        die(error.text);
    session_open(&session, engine);
    if (session_create(&session, "Bench", "p:S", "s:N").status != STATUS_OK)
        die("no table");
}

static struct bytes item(const char *format, unsigned number, unsigned sort)
{
    char text[512];
    snprintf(text, sizeof text, format, number, sort);
    return session_item(&session, text);
}

static void run(struct session_call *call)
{
    session_run(&session, call);
    if (call->call.reply.status != STATUS_OK)
        die(error_text(&call->call.reply.error));
    session_call_deinit(call);
}

/* ---- a transaction and a batch ---- */

static double many_puts(enum operation operation, unsigned rounds)
{
    static struct request parts[PARTS];
    for (unsigned i = 0; i < PARTS; i++)
        parts[i] = (struct request){
            .operation = OPERATION_PUT_ITEM,
            .table_name = BYTES_LITERAL("Bench"),
            .item = item("{'p':{'S':'many%u'},'s':{'N':'%u'},'v':{'S':'0123456789012345678901234567"
                         "890123456789012345678901234567890123456789'}}",
                         i, i)};
    double begun = cpu_us();
    for (unsigned i = 0; i < rounds; i++) {
        struct session_call call;
        struct request copies[PARTS];
        memcpy(copies, parts, sizeof parts);
        session_call_init(&call, operation, NULL);
        call.call.request.parts = copies;
        call.call.request.part_count = PARTS;
        run(&call);
    }
    return (cpu_us() - begun) / rounds;
}

/* ---- one hot item, 16 items ---- */

/* Wall time of an update, 16 in flight. */
static double adds(unsigned items, unsigned rounds)
{
    struct bytes keys[WRITERS];
    struct bytes values = session_item(&session, "{':one':{'N':'1'}}");
    for (unsigned i = 0; i < WRITERS; i++)
        keys[i] = item("{'p':{'S':'hot%u'},'s':{'N':'%u'}}", i % items, 0);
    double begun = wall_us();
    for (unsigned i = 0; i < rounds; i++) {
        static struct session_call calls[WRITERS];
        for (unsigned w = 0; w < WRITERS; w++) {
            session_call_init(&calls[w], OPERATION_UPDATE_ITEM, "Bench");
            struct request *request = &calls[w].call.request;
            request->key = keys[w];
            request->update = BYTES_LITERAL("ADD n :one");
            request->key_condition.values = values;
            session_submit(&session, &calls[w]);
        }
        for (unsigned w = 0; w < WRITERS; w++) {
            if (!lane_loop_run_until(&session.loop, &calls[w].is_complete) ||
                calls[w].call.reply.status != STATUS_OK)
                die("an update failed");
            session_call_deinit(&calls[w]);
        }
    }
    return (wall_us() - begun) / (rounds * WRITERS);
}

/* ---- pages ---- */

static void fill(const char *partition, unsigned items)
{
    char text[512];
    for (unsigned i = 0; i < items; i++) {
        snprintf(text, sizeof text,
                 "{'p':{'S':'%s'},'s':{'N':'%u'},'kind':{'S':'Order'},'n':{'N':'%u'},'v':{'S':"
                 "'01234567890123456789012345678901234567890123456789012345678901234567890123456789"
                 "01234567890123456789012345678901234567890123456789012345678901234567890123456789'"
                 "}}",
                 partition, i, i % 1000);
        if (session_put(&session, "Bench", text).status != STATUS_OK)
            die("no item");
        session_forget(&session);
    }
}

/* CPU of one page; `bytes` are DynamoDB's of what was examined. */
static double pages(const char *partition, const char *filter, unsigned rounds, double *bytes)
{
    char text[256];
    snprintf(text, sizeof text,
             filter == NULL ? "{':p':{'S':'%s'}}" : "{':p':{'S':'%s'},':n':{'N':'990'}}",
             partition);
    struct bytes values = session_item(&session, text);
    double begun = cpu_us();
    for (unsigned i = 0; i < rounds; i++) {
        struct session_call call;
        session_call_init(&call, OPERATION_QUERY, "Bench");
        call.call.request.key_condition =
            (struct expression_input){BYTES_LITERAL("p = :p"), BYTES_NONE, values};
        call.call.request.filter = filter == NULL ? BYTES_NONE : bytes_text(filter);
        session_run(&session, &call);
        if (call.call.reply.status != STATUS_OK)
            die(error_text(&call.call.reply.error));
        *bytes = (double)call.call.reply.read_bytes;
        session_call_deinit(&call);
    }
    return (cpu_us() - begun) / rounds;
}

/* As many records of the same size through the iterator alone, copied. */
static rocksdb_t *floor_database(void)
{
    char *error = NULL, key[64], value[260];
    rocksdb_options_t *options = rocksdb_options_create();
    rocksdb_options_set_env(options, rocksdb_create_mem_env());
    rocksdb_options_set_create_if_missing(options, 1);
    rocksdb_t *database = rocksdb_open(options, "/floor", &error);
    rocksdb_writeoptions_t *writes = rocksdb_writeoptions_create();
    memset(value, 'v', sizeof value);
    for (unsigned i = 0; error == NULL && i < 100000; i++) {
        int size = snprintf(key, sizeof key, "0000hashhash-partition-%08u", i);
        rocksdb_put(database, writes, key, (size_t)size, value, 218, &error);
    }
    if (error != NULL)
        die(error);
    rocksdb_writeoptions_destroy(writes);
    return database;
}

static double iterate(rocksdb_t *database, unsigned rounds)
{
    static char copy[65536];
    rocksdb_readoptions_t *options = rocksdb_readoptions_create();
    double begun = cpu_us();
    for (unsigned i = 0; i < rounds; i++) {
        char key[64];
        int key_size = snprintf(key, sizeof key, "0000hashhash-partition-%08u", i * 37 % 90000);
        rocksdb_iterator_t *iterator = rocksdb_create_iterator(database, options);
        rocksdb_iter_seek(iterator, key, (size_t)key_size);
        size_t at = 0;
        for (unsigned k = 0; k < PAGE_ITEMS && rocksdb_iter_valid(iterator); k++) {
            size_t size;
            const char *value = rocksdb_iter_value(iterator, &size);
            memcpy(copy + at, value, size);
            at += size;
            rocksdb_iter_next(iterator);
        }
        rocksdb_iter_destroy(iterator);
    }
    double us = (cpu_us() - begun) / rounds;
    rocksdb_readoptions_destroy(options);
    return us;
}

int main(void)
{
    open_engine();
    fill("page", PAGE_ITEMS);
    fill("large", LARGE_ITEMS);
    rocksdb_t *floor = floor_database();
    printf("%-44s %-44s %-36s %s\n", "10 puts: transaction / batch, CPU us",
           "ADD: one hot item / 16 items, updates a ms", "filter, MB examined a s of CPU",
           "page of 100 / iterator, CPU us");
    for (int round = 0; round < ROUNDS; round++) {
        double bytes, transaction = many_puts(OPERATION_TRANSACT_WRITE_ITEMS, 2000);
        double batch = many_puts(OPERATION_BATCH_WRITE_ITEM, 2000);
        double hot = adds(1, 2000), spread = adds(WRITERS, 2000);
        double filtered = pages("large", "n >= :n AND attribute_exists(kind)", 200, &bytes);
        double rate = bytes / filtered;
        double page = pages("page", NULL, 5000, &bytes), bare = iterate(floor, 5000);
        printf(
            "%6.1f / %6.1f = %.2f                      %6.1f / %6.1f = %.2f                      "
            "%6.0f                               %6.1f / %6.1f = %.2f\n",
            transaction, batch, transaction / batch, 1000 / hot, 1000 / spread, spread / hot, rate,
            page, bare, page / bare);
    }
    rocksdb_close(floor);
    session_close(&session);
    engine->ops->close(&engine);
    return 0;
}
