#include "clients/cli/scan.h"

#include "clients/cli/progress.h"

#include <limits.h>
#include <stdlib.h>
#include <time.h>

enum {
    SEGMENTS = 8,
    TRIES_MAX = 10,
    PAUSE_MS = 5, /* before the second try; doubled before each further one */
};

struct scan;

/* A part of the table, read page by page. */
struct segment {
    struct scan *scan;
    uint32_t number;
    struct mudax_value *start; /* owned; NULL: the first page */
    int tries;
    enum { SEGMENT_READY, SEGMENT_SENT, SEGMENT_DONE } state;
};

struct scan {
    const struct scan_options *options;
    scan_item_fn *take;
    void *arg;
    struct mudax_pipe *pipe;
    struct progress progress;
    size_t done;
    struct mudax_error error; /* the first that ended it; code MUDAX_OK: none */
    bool has_no_memory, is_ended;
    uint32_t count;
    struct segment segments[];
};

/* ---- one page ---- */

static void take_page(struct segment *segment, const struct mudax_reply *reply)
{
    struct scan *scan = segment->scan;
    const struct mudax_value *last_key = mudax_reply_last_key(reply);
    for (size_t i = 0; i < mudax_reply_count(reply) && !scan->is_ended; i++) {
        scan->is_ended = !scan->take(scan->arg, segment->number, mudax_reply_item_at(reply, i));
        scan->done += !scan->is_ended;
    }
    mudax_free(segment->start);
    segment->start = mudax_copy(last_key);
    scan->has_no_memory |= last_key != NULL && segment->start == NULL;
    segment->tries = 0;
    segment->state = last_key == NULL ? SEGMENT_DONE : SEGMENT_READY;
}

static void on_page(void *arg, const struct mudax_reply *reply, const struct mudax_error *error)
{
    struct segment *segment = arg;
    struct scan *scan = segment->scan;
    if (error == NULL) {
        take_page(segment, reply);
    } else if (error->is_retryable && error->code < MUDAX_CONNECT_ERROR &&
               segment->tries < TRIES_MAX) {
        segment->tries++;
        segment->state = SEGMENT_READY;
    } else {
        if (scan->error.code == MUDAX_OK)
            scan->error = *error;
        segment->state = SEGMENT_DONE;
    }
}

static void submit(struct segment *segment)
{
    struct scan *scan = segment->scan;
    struct mudax_request request = {.operation = MUDAX_SCAN,
                                    .table = scan->options->table_name,
                                    .segment = segment->number,
                                    .segments = scan->count,
                                    .start_key = segment->start,
                                    .consistent_read = true};
    struct mudax_error error;
    segment->state = SEGMENT_SENT;
    if (mudax_pipe_submit(scan->pipe, &request, on_page, segment, &error) != MUDAX_OK)
        on_page(segment, NULL, &error);
}

/* ---- all of them ---- */

/* The shortest pause before a page is tried again, if nothing else is to be done. */
static void pause_for_retry(const struct scan *scan)
{
    int tries = INT_MAX;
    for (uint32_t i = 0; i < scan->count; i++)
        if (scan->segments[i].state == SEGMENT_READY && scan->segments[i].tries < tries)
            tries = scan->segments[i].tries;
    struct timespec pause = {0, (PAUSE_MS * 1000000L) << (tries < 7 ? tries : 7)};
    if (tries > 0 && tries != INT_MAX)
        (void)nanosleep(&pause, NULL);
}

static void read_segments(struct scan *scan)
{
    for (;;) {
        bool has_ended = scan->error.code != MUDAX_OK || scan->has_no_memory || scan->is_ended;
        bool is_idle = mudax_pipe_pending(scan->pipe) == 0;
        if (is_idle && !has_ended)
            pause_for_retry(scan);
        for (uint32_t i = 0; i < scan->count && !has_ended; i++)
            if (scan->segments[i].state == SEGMENT_READY &&
                (scan->segments[i].tries == 0 || is_idle))
                submit(&scan->segments[i]);
        if (mudax_pipe_pending(scan->pipe) == 0)
            return;
        (void)mudax_pipe_wait(scan->pipe, -1);
        progress_show(&scan->progress, scan->done);
    }
}

int scan_table(const struct scan_options *options, scan_item_fn *take, void *arg, size_t *done)
{
    uint32_t count = options->segments != 0 ? options->segments : SEGMENTS;
    struct scan *scan = calloc(1, sizeof *scan + count * sizeof scan->segments[0]);
    if (scan == NULL)
        return report_no_memory();
    *scan = (struct scan){.options = options, .take = take, .arg = arg, .count = count};
    for (uint32_t i = 0; i < count; i++)
        scan->segments[i] = (struct segment){.scan = scan, .number = i};
    struct mudax_pipe_options pipe_options = {.in_flight_max = count,
                                              .timeout_ms = options->timeout_ms};
    scan->pipe = mudax_pipe_open(options->url, &pipe_options, &scan->error);
    progress_begin(&scan->progress, options->table_name, options->count);
    if (scan->pipe != NULL)
        read_segments(scan);
    progress_end(&scan->progress);
    mudax_pipe_close(&scan->pipe);
    int exit_code = scan->has_no_memory            ? report_no_memory()
                    : scan->error.code != MUDAX_OK ? report_error(&scan->error, "Scan")
                                                   : 0;
    *done = scan->done;
    for (uint32_t i = 0; i < count; i++)
        mudax_free(scan->segments[i].start);
    free(scan);
    return exit_code;
}
