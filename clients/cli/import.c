#include "clients/cli/import.h"

#include "clients/cli/output.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    IN_FLIGHT = 128, /* well below what the daemon takes of one connection */
    TRIES_MAX = 10,
    PROGRESS_MS = 200,
};

/* One table under import. */
struct import {
    struct mudax_pipe *pipe;
    const char *table;
    uint32_t timeout_ms;
    size_t done;
    struct mudax_error error; /* the first that ended it; code MUDAX_OK: none */
};

/* One item on its way. */
struct item_put {
    struct import *import;
    struct mudax_value *item; /* owned */
    int tries;
};

static uint64_t now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* A member that is a text, as a string of the caller's; NULL if it is not there. */
static char *text_member(const struct mudax_value *map, const char *name)
{
    size_t size;
    const struct mudax_value *value = mudax_get(map, name);
    const char *text = mudax_text(value, &size);
    return mudax_type(value) == MUDAX_S ? strndup(text, size) : NULL;
}

/* ---- items ---- */

static void submit_put(struct item_put *put);

static void on_put(void *arg, const struct mudax_reply *reply, const struct mudax_error *error)
{
    struct item_put *put = arg;
    struct import *import = put->import;
    if (error != NULL && error->is_retryable && error->code < MUDAX_CONNECT_ERROR &&
        put->tries < TRIES_MAX && import->error.code == MUDAX_OK) {
        submit_put(put);
        return;
    }
    if (reply != NULL)
        import->done++;
    else if (error != NULL && import->error.code == MUDAX_OK)
        import->error = *error;
    mudax_free(put->item);
    free(put);
}

/* Takes over `put`. */
static void submit_put(struct item_put *put)
{
    struct import *import = put->import;
    struct mudax_error later; /* only the first is told */
    struct mudax_error *error = import->error.code == MUDAX_OK ? &import->error : &later;
    struct mudax_request request = {.operation = MUDAX_PUT_ITEM,
                                    .table = import->table,
                                    .item = put->item,
                                    .timeout_ms = import->timeout_ms};
    put->tries++;
    if (mudax_pipe_submit(import->pipe, &request, on_put, put, error) == MUDAX_OK)
        return;
    mudax_free(put->item);
    free(put);
}

static struct mudax_value *read_item(const struct mudax_value *plain, struct mudax_error *error)
{
    char *text = mudax_to_plain_json(plain, 0);
    struct mudax_value *item = NULL;
    if (text == NULL)
        *error = (struct mudax_error){MUDAX_INVALID_REQUEST, "MudaxInvalidRequest",
                                      "an item is no JSON object", false};
    else
        item = mudax_from_json(text, strlen(text), error);
    free(text);
    return item;
}

static void start_put(struct import *import, const struct mudax_value *plain)
{
    struct item_put *put = malloc(sizeof *put);
    struct mudax_value *item = put == NULL ? NULL : read_item(plain, &import->error);
    if (item == NULL) {
        if (put == NULL)
            import->error = (struct mudax_error){MUDAX_NO_MEMORY, "MudaxNoMemory",
                                                 "This process has no memory left", false};
        free(put);
        return;
    }
    *put = (struct item_put){import, item, 0};
    submit_put(put);
}

static void show_progress(const struct import *import, size_t count, uint64_t *shown_ms)
{
    if (!isatty(STDERR_FILENO) || now_ms() - *shown_ms < PROGRESS_MS)
        return;
    *shown_ms = now_ms();
    (void)fprintf(stderr, "\r%s: %zu of %zu items", import->table, import->done, count);
}

/* Puts all items; import->error says whether that worked. */
static void put_items(struct import *import, const struct mudax_value *items)
{
    size_t count = mudax_count(items);
    uint64_t shown_ms = now_ms();
    bool was_shown = false;
    for (size_t i = 0; i < count && import->error.code == MUDAX_OK; i++) {
        while (mudax_pipe_pending(import->pipe) >= IN_FLIGHT)
            (void)mudax_pipe_wait(import->pipe, -1);
        start_put(import, mudax_at(items, i));
        uint64_t before_ms = shown_ms;
        show_progress(import, count, &shown_ms);
        was_shown |= shown_ms != before_ms;
    }
    while (mudax_pipe_pending(import->pipe) > 0)
        (void)mudax_pipe_wait(import->pipe, -1);
    if (was_shown)
        (void)fputs("\r\033[K", stderr);
}

/* ---- tables ---- */

/* Appends an attribute of the key to both lists of a table's definition. */
static bool add_key(const struct mudax_value *attribute, const char *key_type,
                    struct mudax_value *keys, struct mudax_value *types)
{
    struct mudax_value *key = mudax_map(), *type = mudax_map();
    const struct mudax_value *name = mudax_get(attribute, "AttributeName");
    bool is_right = mudax_put(key, "AttributeName", mudax_copy(name));
    is_right &= mudax_put(key, "KeyType", mudax_string(key_type));
    is_right &= mudax_put(type, "AttributeName", mudax_copy(name));
    is_right &= mudax_put(type, "AttributeType", mudax_copy(mudax_get(attribute, "AttributeType")));
    is_right &= mudax_append(keys, key);
    is_right &= mudax_append(types, type);
    return is_right;
}

static bool add_billing(struct mudax_value *definition, const struct mudax_value *table)
{
    const struct mudax_value *units =
        mudax_get(mudax_get(table, "ProvisionedCapacitySettings"), "ProvisionedThroughput");
    size_t size;
    const char *mode = mudax_text(mudax_get(table, "BillingMode"), &size);
    bool is_provisioned = units != NULL && size == 11 && memcmp(mode, "PROVISIONED", 11) == 0;
    if (!is_provisioned)
        return mudax_put(definition, "BillingMode", mudax_string("PAY_PER_REQUEST"));
    return mudax_put(definition, "BillingMode", mudax_string("PROVISIONED")) &&
           mudax_put(definition, "ProvisionedThroughput", mudax_copy(units));
}

/* NULL if the model does not say what is needed. */
static struct mudax_value *make_definition(const struct mudax_value *table)
{
    const struct mudax_value *attributes = mudax_get(table, "KeyAttributes");
    const struct mudax_value *sort = mudax_get(attributes, "SortKey");
    struct mudax_value *definition = mudax_map(), *keys = mudax_list(), *types = mudax_list();
    bool is_right = add_key(mudax_get(attributes, "PartitionKey"), "HASH", keys, types);
    if (sort != NULL)
        is_right &= add_key(sort, "RANGE", keys, types);
    is_right &= mudax_put(definition, "TableName", mudax_copy(mudax_get(table, "TableName")));
    is_right &= mudax_put(definition, "KeySchema", keys);
    is_right &= mudax_put(definition, "AttributeDefinitions", types);
    is_right &= add_billing(definition, table);
    if (is_right)
        return definition;
    mudax_free(definition);
    return NULL;
}

/* was_there  the table exists already */
static int create_table(struct mudax *db, const struct mudax_value *table, const char *name,
                        bool *was_there)
{
    struct mudax_value *definition = make_definition(table);
    if (definition == NULL)
        return report_usage("the model's table %s lacks a name, or a key with name and type", name);
    struct mudax_request request = {.operation = MUDAX_CREATE_TABLE, .definition = definition};
    struct mudax_error error;
    int code = mudax_call(db, &request, NULL, &error);
    mudax_free(definition);
    *was_there = code == MUDAX_RESOURCE_IN_USE;
    return code == MUDAX_OK || *was_there ? 0 : report_error(&error, "CreateTable");
}

static size_t count_indexes(const struct mudax_value *table)
{
    return mudax_count(mudax_get(table, "GlobalSecondaryIndexes")) +
           mudax_count(mudax_get(table, "LocalSecondaryIndexes"));
}

static int put_table_items(const struct import_options *options, const char *name,
                           const struct mudax_value *items, size_t *done)
{
    struct mudax_pipe_options pipe_options = {.in_flight_max = IN_FLIGHT,
                                              .timeout_ms = options->timeout_ms};
    struct import import = {.table = name, .timeout_ms = options->timeout_ms};
    import.pipe = mudax_pipe_open(options->url, &pipe_options, &import.error);
    if (import.pipe == NULL)
        return report_error(&import.error, "PutItem");
    put_items(&import, items);
    mudax_pipe_close(&import.pipe);
    *done = import.done;
    if (import.error.code == MUDAX_OK)
        return 0;
    (void)fprintf(stderr,
                  "%s: stopped after %zu of %zu items; import it again when this is right\n", name,
                  import.done, mudax_count(items));
    return report_error(&import.error, "PutItem");
}

static int import_table(struct mudax *db, const struct mudax_value *table, const char *name,
                        const struct import_options *options)
{
    const struct mudax_value *items = mudax_get(table, "TableData");
    uint64_t begun_ms = now_ms();
    bool was_there = false;
    size_t done = 0;
    int exit_code = create_table(db, table, name, &was_there);
    if (exit_code == 0 && mudax_count(items) > 0)
        exit_code = put_table_items(options, name, items, &done);
    if (exit_code != 0)
        return exit_code;
    char took[24], left_out[48] = "";
    size_t indexes = count_indexes(table);
    if (indexes > 0)
        (void)snprintf(left_out, sizeof left_out, ", %zu %s left out", indexes,
                       indexes == 1 ? "index" : "indexes");
    (void)printf("%s: table %s, %zu items put%s, %s\n", name, was_there ? "was there" : "created",
                 done, left_out, format_time((now_ms() - begun_ms) * 1000, took));
    return 0;
}

/* ---- models ---- */

static bool is_wanted(const char *name, const struct import_options *options)
{
    return options->table_name == NULL || strcmp(options->table_name, name) == 0;
}

/* Looks at the whole model before anything is touched. */
static int check_model(const struct mudax_value *tables, const char *path,
                       const struct import_options *options)
{
    size_t wanted = 0;
    if (mudax_type(tables) != MUDAX_L || mudax_count(tables) == 0)
        return report_usage("%s is no NoSQL Workbench model: it has no list DataModel", path);
    for (size_t i = 0; i < mudax_count(tables); i++) {
        const struct mudax_value *table = mudax_at(tables, i);
        char *name = text_member(table, "TableName");
        if (name == NULL)
            return report_usage("%s: table %zu of the model has no TableName", path, i + 1);
        int exit_code = 0;
        wanted += is_wanted(name, options);
        if (is_wanted(name, options) && count_indexes(table) > 0 && !options->without_indexes)
            exit_code = report_usage(
                "table %s has %zu secondary indexes, which mudax does not have; --without-indexes "
                "imports the table and its items alone. Nothing was imported",
                name, count_indexes(table));
        free(name);
        if (exit_code != 0)
            return exit_code;
    }
    return wanted > 0 ? 0 : report_usage("%s has no table %s", path, options->table_name);
}

static int import_tables(struct mudax *db, const struct mudax_value *tables,
                         const struct import_options *options)
{
    int exit_code = 0;
    for (size_t i = 0; i < mudax_count(tables) && exit_code == 0; i++) {
        char *name = text_member(mudax_at(tables, i), "TableName");
        if (name == NULL)
            return report_no_memory();
        if (is_wanted(name, options))
            exit_code = import_table(db, mudax_at(tables, i), name, options);
        free(name);
    }
    return exit_code;
}

int import_model(struct mudax *db, const char *path, const struct import_options *options)
{
    size_t size;
    char *text = read_file(path, &size);
    if (text == NULL)
        return EXIT_USAGE;
    struct mudax_error error;
    struct mudax_value *model = mudax_from_plain_json(text, size, &error);
    free(text);
    if (model == NULL)
        return report_usage("%s: %s", path, error.text);
    const struct mudax_value *tables = mudax_get(model, "DataModel");
    int exit_code = check_model(tables, path, options);
    if (exit_code == 0)
        exit_code = import_tables(db, tables, options);
    mudax_free(model);
    return exit_code;
}
