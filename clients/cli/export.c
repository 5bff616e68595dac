#include "clients/cli/export.h"

#include "clients/cli/description.h"
#include "clients/cli/output.h"
#include "clients/cli/progress.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    SEGMENTS = 8,
    SEGMENTS_MAX = 256, /* of --total-segments: all of them are in flight */
    TRIES_MAX = 10,
    PAUSE_MS = 5, /* before the second try; doubled before each further one */
};

struct export;

/* A part of the table, read page by page. */
struct segment {
    struct export *export;
    uint32_t number;
    struct mudax_value *start; /* owned; NULL: the first page */
    int tries;
    enum { SEGMENT_READY, SEGMENT_SENT, SEGMENT_DONE } state;
};

struct export
{
    const struct export_options *options;
    struct mudax_pipe *pipe;
    FILE *file;
    struct progress progress;
    size_t done;
    struct mudax_error error; /* the first that ended it; code MUDAX_OK: none */
    bool has_no_memory;
    uint32_t count;
    struct segment segments[];
};

/* ---- one page ---- */

static bool write_item(FILE *file, const struct mudax_value *item)
{
    char *text = mudax_to_json(item, 0);
    if (text != NULL)
        (void)fprintf(file, "{\"Item\":%s}\n", text);
    free(text);
    return text != NULL;
}

static void take_page(struct segment *segment, const struct mudax_reply *reply)
{
    struct export *export = segment->export;
    const struct mudax_value *last_key = mudax_reply_last_key(reply);
    for (size_t i = 0; i < mudax_reply_count(reply) && !export->has_no_memory; i++) {
        export->has_no_memory = !write_item(export->file, mudax_reply_item_at(reply, i));
        export->done++;
    }
    mudax_free(segment->start);
    segment->start = mudax_copy(last_key);
    export->has_no_memory |= last_key != NULL && segment->start == NULL;
    segment->tries = 0;
    segment->state = last_key == NULL ? SEGMENT_DONE : SEGMENT_READY;
}

static void on_page(void *arg, const struct mudax_reply *reply, const struct mudax_error *error)
{
    struct segment *segment = arg;
    struct export *export = segment->export;
    if (error == NULL) {
        take_page(segment, reply);
    } else if (error->is_retryable && error->code < MUDAX_CONNECT_ERROR &&
               segment->tries < TRIES_MAX) {
        segment->tries++;
        segment->state = SEGMENT_READY;
    } else {
        if (export->error.code == MUDAX_OK)
            export->error = *error;
        segment->state = SEGMENT_DONE;
    }
}

static void submit(struct segment *segment)
{
    struct export *export = segment->export;
    struct mudax_request request = {.operation = MUDAX_SCAN,
                                    .table = export->options->table_name,
                                    .segment = segment->number,
                                    .segments = export->count,
                                    .start_key = segment->start,
                                    .consistent_read = true};
    struct mudax_error error;
    segment->state = SEGMENT_SENT;
    if (mudax_pipe_submit(export->pipe, &request, on_page, segment, &error) != MUDAX_OK)
        on_page(segment, NULL, &error);
}

/* ---- all of them ---- */

/* The shortest pause before a page is tried again, if nothing else is to be done. */
static void pause_for_retry(const struct export *export)
{
    int tries = INT_MAX;
    for (uint32_t i = 0; i < export->count; i++)
        if (export->segments[i].state == SEGMENT_READY && export->segments[i].tries < tries)
            tries = export->segments[i].tries;
    struct timespec pause = {0, (PAUSE_MS * 1000000L) << (tries < 7 ? tries : 7)};
    if (tries > 0 && tries != INT_MAX)
        (void)nanosleep(&pause, NULL);
}

static void read_segments(struct export *export)
{
    for (;;) {
        bool has_ended =
            export->error.code != MUDAX_OK || export->has_no_memory || ferror(export->file) != 0;
        bool is_idle = mudax_pipe_pending(export->pipe) == 0;
        if (is_idle && !has_ended)
            pause_for_retry(export);
        for (uint32_t i = 0; i < export->count && !has_ended; i++)
            if (export->segments[i].state == SEGMENT_READY &&
                (export->segments[i].tries == 0 || is_idle))
                submit(&export->segments[i]);
        if (mudax_pipe_pending(export->pipe) == 0)
            return;
        (void)mudax_pipe_wait(export->pipe, -1);
        progress_show(&export->progress, export->done);
    }
}

static int report(const struct export *export, uint64_t begun_us)
{
    const struct export_options *options = export->options;
    char took[24];
    if (export->has_no_memory)
        return report_no_memory();
    if (export->error.code != MUDAX_OK)
        return report_error(&export->error, "Scan");
    (void)fprintf(stderr, "%s: %zu items, %s\n", options->table_name, export->done,
                  format_time(now_us() - begun_us, took));
    return 0;
}

static int export_items(FILE *file, const struct export_options *options)
{
    uint32_t count = options->segments != 0 ? options->segments : SEGMENTS;
    uint64_t begun_us = now_us();
    struct export *export = calloc(1, sizeof *export + count * sizeof export->segments[0]);
    if (export == NULL)
        return report_no_memory();
    *export = (struct export){.options = options, .file = file, .count = count};
    for (uint32_t i = 0; i < count; i++)
        export->segments[i] = (struct segment){.export = export, .number = i};
    struct mudax_pipe_options pipe_options = {.in_flight_max = count,
                                              .timeout_ms = options->timeout_ms};
    export->pipe = mudax_pipe_open(options->url, &pipe_options, &export->error);
    progress_begin(&export->progress, options->table_name, 0);
    if (export->pipe != NULL)
        read_segments(export);
    progress_end(&export->progress);
    mudax_pipe_close(&export->pipe);
    int exit_code = report(export, begun_us);
    for (uint32_t i = 0; i < count; i++)
        mudax_free(export->segments[i].start);
    free(export);
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
    if (options->segments > SEGMENTS_MAX)
        return report_usage("--total-segments is at most %d here", SEGMENTS_MAX);
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
