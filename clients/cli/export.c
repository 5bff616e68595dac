#include "clients/cli/export.h"

#include "clients/cli/description.h"
#include "clients/cli/output.h"
#include "clients/cli/scan.h"

#include <stdlib.h>

/* Where items go. */
struct sink {
    FILE *file;
    bool has_no_memory;
};

/* ---- items ---- */

static bool write_item(void *arg, uint32_t segment, const struct mudax_value *item)
{
    (void)segment;
    struct sink *sink = arg;
    char *text = mudax_to_json(item, 0);
    sink->has_no_memory = text == NULL;
    if (text != NULL)
        (void)fprintf(sink->file, "{\"Item\":%s}\n", text);
    free(text);
    return !sink->has_no_memory && ferror(sink->file) == 0;
}

static int export_items(FILE *file, const struct export_options *options)
{
    struct scan_options scan = {.url = options->url,
                                .table_name = options->table_name,
                                .timeout_ms = options->timeout_ms,
                                .segments = options->segments};
    struct sink sink = {.file = file};
    uint64_t begun_us = now_us();
    size_t done;
    int exit_code = scan_table(&scan, write_item, &sink, &done);
    char took[24];
    if (exit_code == 0 && sink.has_no_memory)
        exit_code = report_no_memory();
    if (exit_code == 0)
        (void)fprintf(stderr, "%s: %zu items, %s\n", options->table_name, done,
                      format_time(now_us() - begun_us, took));
    return exit_code;
}

/* ---- the table ---- */

/* What the definition is made of: replies, or NULL. */
struct told {
    struct mudax_reply *table, *time_to_live, *tags;
};

static int ask(struct mudax *db, const struct mudax_request *request, const char *name,
               struct mudax_reply **reply)
{
    struct mudax_error error;
    return mudax_call(db, request, reply, &error) == MUDAX_OK ? 0 : report_error(&error, name);
}

static int ask_tags(struct mudax *db, const struct mudax_value *table, struct mudax_reply **reply)
{
    struct mudax_value *definition = mudax_map();
    int exit_code = 0;
    if (!mudax_put(definition, "ResourceArn", mudax_copy(mudax_get(table, "TableArn"))))
        exit_code = report_no_memory();
    struct mudax_request request = {.operation = MUDAX_LIST_TAGS_OF_RESOURCE,
                                    .definition = definition};
    if (exit_code == 0)
        exit_code = ask(db, &request, "ListTagsOfResource", reply);
    mudax_free(definition);
    return exit_code;
}

static const struct mudax_value *description_of(const struct mudax_reply *described)
{
    return mudax_get(mudax_reply_description(described), "Table");
}

static int describe(struct mudax *db, const struct export_options *options, struct told *told)
{
    struct mudax_request request = {.operation = MUDAX_DESCRIBE_TABLE,
                                    .table = options->table_name};
    int exit_code = ask(db, &request, "DescribeTable", &told->table);
    request.operation = MUDAX_DESCRIBE_TIME_TO_LIVE;
    if (exit_code == 0 && options->with_definition)
        exit_code = ask(db, &request, "DescribeTimeToLive", &told->time_to_live);
    if (exit_code == 0 && options->with_definition)
        exit_code = ask_tags(db, description_of(told->table), &told->tags);
    return exit_code;
}

static int write_definition(FILE *file, const struct told *told)
{
    struct mudax_value *definition = description_to_definition(
        description_of(told->table),
        mudax_get(mudax_reply_description(told->time_to_live), "TimeToLiveDescription"),
        mudax_get(mudax_reply_description(told->tags), "Tags"));
    char *text = mudax_to_plain_json(definition, 0);
    mudax_free(definition);
    if (text == NULL)
        return report_no_memory();
    (void)fprintf(file, "%s\n", text);
    free(text);
    return 0;
}

static int write_table(const struct export_options *options, const struct told *told)
{
    FILE *file = options->output == NULL ? stdout : fopen(options->output, "wb");
    if (file == NULL)
        return report_usage("the file %s cannot be written", options->output);
    int exit_code = options->with_definition ? write_definition(file, told) : 0;
    if (exit_code == 0)
        exit_code = export_items(file, options);
    bool is_written = ferror(file) == 0;
    if (options->output != NULL)
        is_written = fclose(file) == 0 && is_written;
    if (exit_code == 0 && !is_written)
        exit_code = report_usage("%s takes nothing more",
                                 options->output != NULL ? options->output : "standard output");
    return exit_code;
}

int export_table(struct mudax *db, const struct export_options *options)
{
    struct told told = {.table = NULL};
    if (options->segments > SCAN_SEGMENTS_MAX)
        return report_usage("--total-segments is at most %d here", SCAN_SEGMENTS_MAX);
    /* Before a file is touched: there may be no such table. */
    int exit_code = describe(db, options, &told);
    if (exit_code == 0)
        exit_code = write_table(options, &told);
    mudax_reply_free(told.table);
    mudax_reply_free(told.time_to_live);
    mudax_reply_free(told.tags);
    return exit_code;
}
