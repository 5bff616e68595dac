#include "clients/cli/import.h"

#include "clients/cli/loader.h"
#include "clients/cli/model.h"
#include "clients/cli/output.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- where items come from ---- */

struct items {
    /* A model's. */
    const struct mudax_value *list;
    size_t at;
    /* Lines, the next of which may be read already. */
    FILE *file;
    char *line;
    size_t room, size, number;
    bool is_read;
};

static const char *skip_space(const char *at)
{
    return at + strspn(at, " \t\r\n");
}

/* The value of an object whose first member, or only one, has this name, and all that follows up to
 * the last brace. NULL: it has not. Cheaper than reading the object, and as deep as items are. */
static const char *find_inner(const char *line, const char *name, size_t *size)
{
    size_t name_size = strlen(name), end = strlen(line);
    const char *at = skip_space(line);
    if (*at != '{')
        return NULL;
    at = skip_space(at + 1);
    if (*at != '"' || strncmp(at + 1, name, name_size) != 0 || at[name_size + 1] != '"')
        return NULL;
    at = skip_space(at + name_size + 2);
    if (*at != ':')
        return NULL;
    at = skip_space(at + 1);
    while (end > 0 && strchr(" \t\r\n", line[end - 1]) != NULL)
        end--;
    if (*at != '{' || line[end - 1] != '}')
        return NULL;
    *size = (size_t)(line + end - 1 - at);
    return at;
}

/* An item may itself have an attribute Item, so that both forms are tried. */
static struct mudax_value *read_item(const char *line, struct mudax_error *error)
{
    size_t size;
    const char *inner = find_inner(line, "Item", &size);
    struct mudax_value *item = inner == NULL ? NULL : mudax_from_json(inner, size, error);
    struct mudax_error own_error;
    if (item == NULL)
        item = mudax_from_json(line, strlen(line), inner == NULL ? error : &own_error);
    return item;
}

/* False at the end of the file. Empty lines are passed over. */
static bool read_line(struct items *items)
{
    bool was_read = items->is_read;
    items->is_read = false;
    while (!was_read) {
        ssize_t got = getline(&items->line, &items->room, items->file);
        if (got < 0)
            return false;
        items->number++;
        items->size = (size_t)got;
        was_read = *skip_space(items->line) != '\0';
    }
    return true;
}

/* The next item; NULL with code MUDAX_OK in `error` at the end.
 * size  bytes of its text */
static struct mudax_value *next_item(struct items *items, size_t *size, struct mudax_error *error)
{
    char text[sizeof error->text];
    char *json = NULL;
    struct mudax_value *item;
    *error = (struct mudax_error){.code = MUDAX_OK};
    if (items->file != NULL ? !read_line(items) : items->at == mudax_count(items->list))
        return NULL;
    if (items->file != NULL) {
        item = read_item(items->line, error);
        *size = items->size;
    } else {
        json = mudax_to_plain_json(mudax_at(items->list, items->at++), 0);
        *size = json == NULL ? 0 : strlen(json);
        item = mudax_from_json(json == NULL ? "" : json, *size, error);
        free(json);
    }
    if (item != NULL || error->code == MUDAX_OK)
        return item;
    memcpy(text, error->text, sizeof text);
    (void)snprintf(error->text, sizeof error->text, "%s %zu: %.200s",
                   items->file != NULL ? "line" : "item",
                   items->file != NULL ? items->number : items->at, text);
    return NULL;
}

static int load_items(const struct import_options *options, const char *table, struct items *items,
                      size_t *done)
{
    struct loader_options loader_options = {.url = options->url,
                                            .table = table,
                                            .timeout_ms = options->timeout_ms,
                                            .count = mudax_count(items->list)};
    struct load load;
    struct mudax_error error;
    struct loader *loader = loader_open(&loader_options, &load);
    if (loader == NULL)
        return report_error(&load.error, load.operation);
    size_t size;
    struct mudax_value *item;
    do
        item = next_item(items, &size, &error);
    while (item != NULL && loader_put(loader, item, size));
    loader_close(&loader, &load);
    *done = load.done;
    if (load.error.code == MUDAX_OK && error.code != MUDAX_OK)
        load.error = error;
    return load.error.code == MUDAX_OK ? 0 : load_report(&load, table);
}

/* ---- tables ---- */

static size_t count_indexes(const struct mudax_value *definition)
{
    return mudax_count(mudax_get(definition, "GlobalSecondaryIndexes")) +
           mudax_count(mudax_get(definition, "LocalSecondaryIndexes"));
}

static bool is_text(const struct mudax_value *value, const char *text, size_t size)
{
    size_t own_size;
    const char *own = mudax_text(value, &own_size);
    return own != NULL && own_size == size && memcmp(own, text, size) == 0;
}

/* Those of AttributeDefinitions that the table's own key needs: others are refused. */
static struct mudax_value *own_types(const struct mudax_value *definition)
{
    const struct mudax_value *all = mudax_get(definition, "AttributeDefinitions");
    const struct mudax_value *keys = mudax_get(definition, "KeySchema");
    struct mudax_value *types = mudax_list();
    for (size_t i = 0; i < mudax_count(all); i++) {
        size_t size;
        const char *name = mudax_text(mudax_get(mudax_at(all, i), "AttributeName"), &size);
        for (size_t k = 0; k < mudax_count(keys); k++)
            if (name != NULL &&
                is_text(mudax_get(mudax_at(keys, k), "AttributeName"), name, size) &&
                !mudax_append(types, mudax_copy(mudax_at(all, i))))
                return types; /* spoilt */
    }
    return types;
}

/* A copy, with or without its indexes.
 * name  another name, or NULL */
static struct mudax_value *copy_definition(const struct mudax_value *definition, const char *name,
                                           bool without_indexes)
{
    static const char *const members[] = {"TableName",
                                          "AttributeDefinitions",
                                          "KeySchema",
                                          "BillingMode",
                                          "ProvisionedThroughput",
                                          "GlobalSecondaryIndexes",
                                          "TableClass",
                                          "DeletionProtectionEnabled",
                                          "LocalSecondaryIndexes",
                                          "Tags",
                                          "StreamSpecification",
                                          "OnDemandThroughput",
                                          "SSESpecification"};
    struct mudax_value *copy = mudax_map();
    bool is_right = copy != NULL;
    for (size_t i = 0; i < sizeof members / sizeof members[0] && is_right; i++) {
        bool is_index = strstr(members[i], "Indexes") != NULL;
        const struct mudax_value *value = mudax_get(definition, members[i]);
        if (value != NULL && !(is_index && without_indexes))
            is_right = mudax_put(copy, members[i], mudax_copy(value));
    }
    if (is_right && without_indexes)
        is_right = mudax_put(copy, "AttributeDefinitions", own_types(definition));
    if (is_right && name != NULL)
        is_right = mudax_put(copy, "TableName", mudax_string(name));
    if (is_right)
        return copy;
    mudax_free(copy);
    return NULL;
}

/* was_there  the table exists already; then it stays as it is */
static int create_table(struct mudax *db, const struct mudax_value *definition, bool *was_there)
{
    struct mudax_request request = {.operation = MUDAX_CREATE_TABLE, .definition = definition};
    struct mudax_error error;
    int code = mudax_call(db, &request, NULL, &error);
    *was_there = code == MUDAX_RESOURCE_IN_USE;
    return code == MUDAX_OK || *was_there ? 0 : report_error(&error, "CreateTable");
}

static int set_time_to_live(struct mudax *db, const char *table,
                            const struct mudax_value *specification)
{
    struct mudax_value *definition = mudax_map();
    struct mudax_error error;
    (void)mudax_put(definition, "TableName", mudax_string(table)); /* the call tells */
    (void)mudax_put(definition, "TimeToLiveSpecification", mudax_copy(specification));
    if (definition == NULL)
        return report_no_memory();
    struct mudax_request request = {.operation = MUDAX_UPDATE_TIME_TO_LIVE,
                                    .definition = definition};
    int code = mudax_call(db, &request, NULL, &error);
    mudax_free(definition);
    return code == MUDAX_OK ? 0 : report_error(&error, "UpdateTimeToLive");
}

static void report_done(const char *table, const char *made, size_t done, const char *indexes,
                        uint64_t begun_us)
{
    char took[24];
    (void)printf("%s: %s%zu items put%s, %s\n", table, made, done, indexes,
                 format_time(now_us() - begun_us, took));
}

/* Makes the table, where it is missing, and puts the items.
 * definition    with all its indexes
 * time_to_live  NULL: nothing expires */
static int import_table(struct mudax *db, const struct mudax_value *definition, const char *name,
                        const struct mudax_value *time_to_live, struct items *items,
                        const struct import_options *options)
{
    uint64_t begun_us = now_us();
    struct mudax_value *copy = copy_definition(definition, name, options->without_indexes);
    if (copy == NULL)
        return report_no_memory();
    bool was_there = false;
    size_t done = 0;
    int exit_code = create_table(db, copy, &was_there);
    mudax_free(copy);
    if (exit_code == 0 && !was_there && time_to_live != NULL)
        exit_code = set_time_to_live(db, name, time_to_live);
    if (exit_code == 0)
        exit_code = load_items(options, name, items, &done);
    if (exit_code != 0)
        return exit_code;
    char indexes[48] = "";
    size_t count = count_indexes(definition);
    bool is_told = count > 0 && (!was_there || options->without_indexes);
    if (is_told)
        (void)snprintf(indexes, sizeof indexes, ", %zu %s%s", count,
                       count == 1 ? "index" : "indexes",
                       options->without_indexes ? " left out" : "");
    report_done(name, was_there ? "table was there, " : "table created, ", done, indexes, begun_us);
    return 0;
}

/* ---- models ---- */

/* A member that is a text, as a string of the caller's; NULL if it is not there. */
static char *text_member(const struct mudax_value *map, const char *name)
{
    size_t size;
    const struct mudax_value *value = mudax_get(map, name);
    const char *text = mudax_text(value, &size);
    return mudax_type(value) == MUDAX_S ? strndup(text, size) : NULL;
}

/* Looks at the whole model before anything is touched. */
static int check_model(const struct mudax_value *tables, const char *path,
                       const struct import_options *options)
{
    size_t wanted = 0;
    if (mudax_type(tables) != MUDAX_L || mudax_count(tables) == 0)
        return report_usage("%s is no NoSQL Workbench model: it has no list DataModel; nor are its "
                            "lines items",
                            path);
    for (size_t i = 0; i < mudax_count(tables); i++) {
        char *name = text_member(mudax_at(tables, i), "TableName");
        if (name == NULL)
            return report_usage("%s: table %zu of the model has no TableName", path, i + 1);
        wanted += options->table_name == NULL || strcmp(options->table_name, name) == 0;
        free(name);
    }
    return wanted > 0 ? 0 : report_usage("%s has no table %s", path, options->table_name);
}

static int import_model_table(struct mudax *db, const struct mudax_value *table, const char *name,
                              const struct import_options *options)
{
    struct items items = {.list = mudax_get(table, "TableData")};
    struct mudax_value *definition = model_definition(table);
    if (definition == NULL)
        return report_usage("the model's table %s lacks a name, or a key with name and type, or an "
                            "index lacks one, or its Projection",
                            name);
    int exit_code = import_table(db, definition, name, NULL, &items, options);
    mudax_free(definition);
    return exit_code;
}

static int import_model(struct mudax *db, const struct mudax_value *tables,
                        const struct import_options *options)
{
    int exit_code = 0;
    for (size_t i = 0; i < mudax_count(tables) && exit_code == 0; i++) {
        char *name = text_member(mudax_at(tables, i), "TableName");
        if (name == NULL)
            return report_no_memory();
        if (options->table_name == NULL || strcmp(options->table_name, name) == 0)
            exit_code = import_model_table(db, mudax_at(tables, i), name, options);
        free(name);
    }
    return exit_code;
}

/* What has been read of the file, and its rest. */
static int import_whole(struct mudax *db, struct items *items, const char *path,
                        const struct import_options *options)
{
    size_t size;
    struct mudax_error error;
    char *text = read_stream(items->file, items->line, items->size, &size);
    if (text == NULL)
        return report_usage("the file %s cannot be read, or is too large", path);
    struct mudax_value *model = mudax_from_plain_json(text, size, &error);
    free(text);
    if (model == NULL)
        return report_usage("%s: %s", path, error.text);
    const struct mudax_value *tables = mudax_get(model, "DataModel");
    int exit_code = check_model(tables, path, options);
    if (exit_code == 0)
        exit_code = import_model(db, tables, options);
    mudax_free(model);
    return exit_code;
}

/* ---- lines ---- */

/* Lines that begin with what the table is. */
static int import_defined(struct mudax *db, struct items *items, const char *path,
                          const struct import_options *options)
{
    struct mudax_error error;
    struct mudax_value *first = mudax_from_plain_json(items->line, items->size, &error);
    if (first == NULL)
        return report_usage("%s: %s", path, error.text);
    const struct mudax_value *definition = mudax_get(first, "Table");
    char *own_name = text_member(definition, "TableName");
    const char *name = options->table_name != NULL ? options->table_name : own_name;
    int exit_code;
    if (name == NULL)
        exit_code = report_usage("%s: its first line has a Table without TableName", path);
    else
        exit_code = import_table(db, definition, name, mudax_get(first, "TimeToLiveSpecification"),
                                 items, options);
    free(own_name);
    mudax_free(first);
    return exit_code;
}

/* Items alone, into a table that is there. */
static int import_lines(struct items *items, const char *path, const struct import_options *options)
{
    uint64_t begun_us = now_us();
    size_t done = 0;
    if (options->table_name == NULL)
        return report_usage(
            "%s holds items and does not say of which table: --table-name is needed", path);
    int exit_code = load_items(options, options->table_name, items, &done);
    if (exit_code == 0)
        report_done(options->table_name, "", done, "", begun_us);
    return exit_code;
}

/* What the file is, its first line says. */
static int import_stream(struct mudax *db, struct items *items, const char *path,
                         const struct import_options *options)
{
    size_t size;
    struct mudax_error error;
    if (!read_line(items))
        return ferror(items->file) != 0 ? report_usage("the file %s cannot be read", path)
                                        : import_lines(items, path, options);
    struct mudax_value *item = read_item(items->line, &error);
    mudax_free(item);
    if (item != NULL) {
        items->is_read = true;
        return import_lines(items, path, options);
    }
    if (strncmp(items->line, "\x1f\x8b", 2) == 0)
        return report_usage("%s is compressed: gunzip it first", path);
    return find_inner(items->line, "Table", &size) != NULL
               ? import_defined(db, items, path, options)
               : import_whole(db, items, path, options);
}

int import_file(struct mudax *db, const char *path, const struct import_options *options)
{
    struct items items = {.file = fopen(path, "rb")};
    if (items.file == NULL)
        return report_usage("the file %s cannot be read", path);
    int exit_code = import_stream(db, &items, path, options);
    if (exit_code == 0 && ferror(items.file) != 0)
        exit_code = report_usage("the file %s could not be read to its end", path);
    (void)fclose(items.file);
    free(items.line);
    return exit_code;
}
