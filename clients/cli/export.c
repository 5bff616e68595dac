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

static int describe(struct mudax *db, enum mudax_operation operation, const char *table,
                    struct mudax_reply **reply)
{
    struct mudax_request request = {.operation = operation, .table = table};
    struct mudax_error error;
    if (mudax_call(db, &request, reply, &error) == MUDAX_OK)
        return 0;
    return report_error(&error,
                        operation == MUDAX_DESCRIBE_TABLE ? "DescribeTable" : "DescribeTimeToLive");
}

static int write_definition(FILE *file, const struct mudax_reply *described,
                            const struct mudax_reply *expires)
{
    struct mudax_value *definition = description_to_definition(
        mudax_get(mudax_reply_description(described), "Table"),
        mudax_get(mudax_reply_description(expires), "TimeToLiveDescription"));
    char *text = mudax_to_plain_json(definition, 0);
    mudax_free(definition);
    if (text == NULL)
        return report_no_memory();
    (void)fprintf(file, "%s\n", text);
    free(text);
    return 0;
}

/* described, expires  replies about the table */
static int write_table(const struct export_options *options, const struct mudax_reply *described,
                       const struct mudax_reply *expires)
{
    FILE *file = options->output == NULL ? stdout : fopen(options->output, "wb");
    if (file == NULL)
        return report_usage("the file %s cannot be written", options->output);
    int exit_code = options->with_definition ? write_definition(file, described, expires) : 0;
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
    struct mudax_reply *described = NULL, *expires = NULL;
    if (options->segments > SCAN_SEGMENTS_MAX)
        return report_usage("--total-segments is at most %d here", SCAN_SEGMENTS_MAX);
    /* Before a file is touched: there may be no such table. */
    int exit_code = describe(db, MUDAX_DESCRIBE_TABLE, options->table_name, &described);
    if (exit_code == 0)
        exit_code = describe(db, MUDAX_DESCRIBE_TIME_TO_LIVE, options->table_name, &expires);
    if (exit_code == 0)
        exit_code = write_table(options, described, expires);
    mudax_reply_free(described);
    mudax_reply_free(expires);
    return exit_code;
}
