#include "clients/cli/loader.h"

#include "clients/cli/progress.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    BATCH_ITEMS = 25,
    BATCH_BYTES = 4 << 20,
    BATCHES = 8, /* 200 items: well below what the daemon takes of one connection */
    TRIES_MAX = 12,
    PAUSE_MS = 5, /* before the second try; doubled before each further one */
    PAUSE_MAX_MS = 1000,
};

enum batch_state {
    BATCH_FREE,
    BATCH_FILLING,
    BATCH_READY, /* to be sent at due_ms */
    BATCH_SENT,
};

struct batch {
    struct loader *loader;
    enum batch_state state;
    bool is_single; /* was refused: only its first item is sent, and so on */
    int tries;
    uint64_t due_ms;
    size_t bytes, count;
    struct mudax_value *items[BATCH_ITEMS]; /* owned */
    size_t numbers[BATCH_ITEMS];
};

struct loader {
    struct loader_options options;
    struct mudax_pipe *pipe;
    struct progress progress;
    struct load load;
    size_t taken; /* items so far */
    struct batch batches[BATCHES];
};

static uint64_t now_ms(void)
{
    return now_us() / 1000;
}

/* ---- life ---- */

struct loader *loader_open(const struct loader_options *options, struct load *out)
{
    *out = (struct load){.operation = "BatchWriteItem"};
    struct loader *loader = calloc(1, sizeof *loader);
    if (loader == NULL) {
        out->error = error_no_memory();
        return NULL;
    }
    loader->options = *options;
    loader->load = *out;
    for (size_t i = 0; i < BATCHES; i++)
        loader->batches[i].loader = loader;
    struct mudax_pipe_options pipe_options = {.in_flight_max = BATCHES,
                                              .timeout_ms = options->timeout_ms};
    loader->pipe = mudax_pipe_open(options->url, &pipe_options, &out->error);
    if (loader->pipe == NULL) {
        free(loader);
        return NULL;
    }
    progress_begin(&loader->progress, options->table, options->count);
    return loader;
}

/* Drops the first `count` items of a batch. */
static void drop_items(struct batch *batch, size_t count)
{
    for (size_t i = 0; i < count; i++)
        mudax_free(batch->items[i]);
    batch->count -= count;
    memmove(batch->items, batch->items + count, batch->count * sizeof(struct mudax_value *));
    memmove(batch->numbers, batch->numbers + count, batch->count * sizeof batch->numbers[0]);
}

static void free_batch(struct batch *batch)
{
    drop_items(batch, batch->count);
    batch->state = BATCH_FREE;
    batch->is_single = false;
    batch->bytes = 0;
    batch->tries = 0;
}

/* ---- one batch ---- */

/* Notes what ends all; only the first is told. */
static void fail(struct batch *batch, const struct mudax_error *error)
{
    struct load *load = &batch->loader->load;
    if (load->error.code == MUDAX_OK) {
        load->error = *error;
        load->operation = batch->is_single ? "PutItem" : "BatchWriteItem";
        load->wrong = batch->is_single ? batch->numbers[0] : 0;
    }
    free_batch(batch);
}

/* Sends it again after a pause, unless it was tried often enough. */
static void try_again(struct batch *batch, const struct mudax_error *error)
{
    if (batch->tries >= TRIES_MAX || batch->loader->load.error.code != MUDAX_OK) {
        fail(batch, error);
        return;
    }
    uint64_t pause_ms = (uint64_t)PAUSE_MS << batch->tries++;
    batch->due_ms = now_ms() + (pause_ms < PAUSE_MAX_MS ? pause_ms : PAUSE_MAX_MS);
    batch->state = BATCH_READY;
}

static void on_error(struct batch *batch, const struct mudax_error *error)
{
    bool is_refused = error->code == MUDAX_VALIDATION || error->code == MUDAX_TOO_LARGE;
    if (is_refused && !batch->is_single) {
        batch->is_single = true;
        batch->due_ms = 0;
        batch->state = BATCH_READY;
    } else if (error->is_retryable && error->code < MUDAX_CONNECT_ERROR) {
        try_again(batch, error);
    } else {
        fail(batch, error);
    }
}

/* Keeps what was not processed. */
static void on_batch(struct batch *batch, const struct mudax_reply *reply)
{
    static const struct mudax_error busy = {MUDAX_THROTTLED, "ThrottlingException",
                                            "The daemon left items of a batch again and again",
                                            true};
    size_t left = mudax_reply_unprocessed_count(reply), at = 0;
    batch->loader->load.done += batch->count - left;
    if (left < batch->count)
        batch->tries = 0;
    for (size_t i = 0; i < batch->count; i++) {
        if (at < left && mudax_reply_unprocessed_at(reply, at) == i) {
            batch->items[at] = batch->items[i];
            batch->numbers[at++] = batch->numbers[i];
        } else {
            mudax_free(batch->items[i]);
        }
    }
    batch->count = at;
    if (at == 0)
        free_batch(batch);
    else
        try_again(batch, &busy);
}

static void on_single(struct batch *batch)
{
    batch->loader->load.done++;
    batch->tries = 0;
    batch->due_ms = 0;
    drop_items(batch, 1);
    if (batch->count == 0)
        free_batch(batch);
    else
        batch->state = BATCH_READY;
}

static void on_reply(void *arg, const struct mudax_reply *reply, const struct mudax_error *error)
{
    struct batch *batch = arg;
    if (error != NULL)
        on_error(batch, error);
    else if (batch->is_single)
        on_single(batch);
    else
        on_batch(batch, reply);
}

static void submit(struct batch *batch)
{
    struct loader *loader = batch->loader;
    struct mudax_request parts[BATCH_ITEMS];
    struct mudax_error error;
    for (size_t i = 0; i < batch->count; i++)
        parts[i] = (struct mudax_request){
            .operation = MUDAX_PUT_ITEM, .table = loader->options.table, .item = batch->items[i]};
    struct mudax_request request = {
        .operation = MUDAX_BATCH_WRITE_ITEM, .parts = parts, .part_count = batch->count};
    if (mudax_pipe_submit(loader->pipe, batch->is_single ? &parts[0] : &request, on_reply, batch,
                          &error) == MUDAX_OK)
        batch->state = BATCH_SENT;
    else
        on_error(batch, &error);
}

/* ---- all of them ---- */

/* Sends what is due and waits until something has happened. False: nothing is on its way. */
static bool pump(struct loader *loader)
{
    uint64_t now = now_ms(), next = UINT64_MAX;
    for (size_t i = 0; i < BATCHES; i++) {
        struct batch *batch = &loader->batches[i];
        if (batch->state == BATCH_READY && loader->load.error.code != MUDAX_OK)
            free_batch(batch);
        if (batch->state == BATCH_READY && batch->due_ms <= now)
            submit(batch);
        if (batch->state == BATCH_READY && batch->due_ms < next)
            next = batch->due_ms;
    }
    progress_show(&loader->progress, loader->load.done);
    bool is_waiting = next != UINT64_MAX;
    int pause_ms = !is_waiting ? -1 : next > now ? (int)(next - now) : 0;
    if (mudax_pipe_pending(loader->pipe) > 0) {
        (void)mudax_pipe_wait(loader->pipe, pause_ms);
    } else if (is_waiting) {
        struct timespec pause = {pause_ms / 1000, pause_ms % 1000 * 1000000L};
        (void)nanosleep(&pause, NULL);
    } else {
        return false;
    }
    return true;
}

/* The batch that is being filled, or one that is free. NULL: none is, for now. */
static struct batch *find_open(struct loader *loader)
{
    struct batch *open = NULL;
    for (size_t i = 0; i < BATCHES; i++) {
        struct batch *batch = &loader->batches[i];
        if (batch->state == BATCH_FILLING)
            return batch;
        if (batch->state == BATCH_FREE)
            open = batch;
    }
    return open;
}

static void make_ready(struct batch *batch)
{
    batch->state = BATCH_READY;
    batch->due_ms = 0;
}

bool loader_put(struct loader *loader, struct mudax_value *item, size_t size)
{
    struct batch *batch = find_open(loader);
    if (item == NULL && loader->load.error.code == MUDAX_OK)
        loader->load.error = error_no_memory();
    if (batch != NULL && batch->bytes + size > BATCH_BYTES && batch->count > 0) {
        make_ready(batch);
        batch = find_open(loader);
    }
    while (batch == NULL && pump(loader))
        batch = find_open(loader);
    if (loader->load.error.code != MUDAX_OK || batch == NULL) {
        mudax_free(item);
        return false;
    }
    batch->state = BATCH_FILLING;
    batch->items[batch->count] = item;
    batch->numbers[batch->count++] = ++loader->taken;
    batch->bytes += size;
    if (batch->count == BATCH_ITEMS)
        make_ready(batch);
    return true;
}

void loader_close(struct loader **loader, struct load *out)
{
    struct loader *closing = *loader;
    struct batch *last = find_open(closing);
    if (last != NULL && last->state == BATCH_FILLING)
        make_ready(last);
    while (pump(closing)) {
    }
    progress_end(&closing->progress);
    mudax_pipe_close(&closing->pipe);
    *out = closing->load;
    free(closing);
    *loader = NULL;
}

int load_report(const struct load *load, const char *table)
{
    (void)fprintf(stderr, "%s: stopped after %zu items", table, load->done);
    if (load->wrong != 0)
        (void)fprintf(stderr, "; item %zu is refused", load->wrong);
    (void)fputs("; import it again when this is right\n", stderr);
    return report_error(&load->error, load->operation);
}
