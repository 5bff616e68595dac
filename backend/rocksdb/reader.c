#include "backend/rocksdb/store.h"

#include "protocol/ensure.h"

#include <stdio.h>
#include <stdlib.h>

/* On the lane's thread a read looks only where no I/O is needed. What is not there ("Incomplete")
 * goes to the reader threads, all of one loop turn together; a range stops after a slice and goes
 * on in the next turn, and after some slices goes to a reader thread too, at once before a record
 * that is heavy by itself. The slice is bounded by bytes and records, and what each is worth: about
 * 200 us of work, because the store does not read the clock. */
enum {
    SLICE_BYTES = 64 << 10,
    SLICE_RECORDS = 256,
    SLICES_MAX = 4,
    HEAVY_BYTES = 1 << 20, /* of a record, as many times as it weighs */
    WALKS_MAX =
        32, /* ranges begun and not over, a lane: each holds a snapshot and part of a page */
    LAST_KEY_CAPACITY = 256,
    PATIENT_RECORDS = 256, /* between two looks at who else waits */
    PATIENCE = 64,         /* of them are served then */
    READ_TIER_ALL = 0,     /* rocksdb::ReadTier */
    READ_TIER_BLOCK_CACHE_ONLY = 1,
};

/* A read of several points or of a range: one instant, kept until it is over. In the read's arena;
 * `pin` is held. */
struct view {
    struct pin *pin;
    atomic_uint *walks; /* the lane's, if it counts this one; or NULL */
    const rocksdb_snapshot_t *snapshot;
    rocksdb_readoptions_t *options; /* snapshot, bounds; the tier of whoever reads */
    rocksdb_iterator_t *iterator;   /* ranges */
    uint8_t *last;                  /* key of the last record visited */
    size_t last_size, last_capacity;
    uint32_t slices;
};

/* What the store keeps in kv_read.store[]. */
static struct store_lane *read_lane(const struct kv_read *read)
{
    return read->store[0];
}

static struct view *read_view(const struct kv_read *read)
{
    return read->store[1];
}

static struct kv_read *read_next(const struct kv_read *read)
{
    return read->store[2];
}

static bool read_was_delayed(const struct kv_read *read)
{
    return read->store[3] != NULL;
}

static struct kv_read *read_of(struct task *task)
{
    return (struct kv_read *)((char *)task - offsetof(struct kv_read, task));
}

static void count(atomic_uint_fast64_t *counter, uint64_t more)
{
    atomic_fetch_add_explicit(counter, more, memory_order_relaxed);
}

/* ---- views ---- */

static enum status view_open(struct store *store, struct pin *pin, struct kv_read *read)
{
    struct view *view = arena_alloc(read->arena, sizeof *view);
    if (view == NULL)
        return STATUS_NO_MEMORY;
    *view = (struct view){.pin = pin};
    view->snapshot = rocksdb_create_snapshot(store->database);
    view->options = rocksdb_readoptions_create();
    rocksdb_readoptions_set_snapshot(view->options, view->snapshot);
    if (read->visit != NULL) { /* views of the caller's bytes, which outlive the iterator */
        /* Nobody reads a range that was dropped: kv.h. Minding drops would cost every read, and in
         * RocksDB 7.8 records besides: an iterator that may not do I/O takes a file with drops in
         * it that it cannot read for one that ended, and says nothing of it. */
        rocksdb_readoptions_set_ignore_range_deletions(view->options, 1);
        rocksdb_readoptions_set_iterate_lower_bound(view->options, (const char *)read->low.data,
                                                    read->low.size);
        if (bytes_given(read->high))
            rocksdb_readoptions_set_iterate_upper_bound(
                view->options, (const char *)read->high.data, read->high.size);
    }
    read->store[1] = view;
    return STATUS_OK;
}

static void view_close(struct store *store, struct kv_read *read)
{
    struct view *view = read_view(read);
    if (view == NULL)
        return;
    if (view->iterator != NULL)
        rocksdb_iter_destroy(view->iterator);
    rocksdb_readoptions_destroy(view->options);
    rocksdb_release_snapshot(store->database, view->snapshot);
    read->store[1] = NULL;
    if (view->walks != NULL)
        atomic_fetch_sub_explicit(view->walks, 1, memory_order_relaxed);
    unpin(store, view->pin);
}

/* ---- points ---- */

enum found { FOUND_ALL, FOUND_INCOMPLETE, FOUND_ERROR };

/* Takes RocksDB's error text. */
static enum found found_by_text(struct store *store, char *text)
{
    bool is_incomplete = strncmp(text, "Result incomplete", 17) == 0;
    rocksdb_free(text);
    if (!is_incomplete)
        count(&store->reads.errors, 1);
    return is_incomplete ? FOUND_INCOMPLETE : FOUND_ERROR;
}

static enum found read_point(struct store *store, const rocksdb_readoptions_t *options,
                             struct kv_read *read, struct kv_record *record)
{
    char *text = NULL;
    rocksdb_pinnableslice_t *slice = rocksdb_get_pinned(
        store->database, options, (const char *)record->key.data, record->key.size, &text);
    if (text != NULL) {
        enum found found = found_by_text(store, text);
        if (found == FOUND_ERROR)
            read->status = STATUS_INTERNAL;
        return found;
    }
    record->token = read->commit;
    record->value = BYTES_NONE;
    if (slice == NULL)
        return FOUND_ALL;
    size_t size;
    const char *value = rocksdb_pinnableslice_value(slice, &size);
    record->value = arena_copy(read->arena, bytes_of(value, size));
    rocksdb_pinnableslice_destroy(slice);
    count(&store->reads.bytes, size);
    if (bytes_given(record->value))
        return FOUND_ALL;
    read->status = STATUS_NO_MEMORY;
    return FOUND_ERROR;
}

static enum found read_points(struct store *store, const rocksdb_readoptions_t *options,
                              struct kv_read *read)
{
    read->status = STATUS_OK;
    for (size_t i = 0; i < read->count; i++) {
        enum found found = read_point(store, options, read, &read->records[i]);
        if (found != FOUND_ALL)
            return found;
    }
    count(&store->reads.records, read->count);
    return FOUND_ALL;
}

/* ---- ranges ---- */

static bool remember_last(struct view *view, struct arena *arena, struct bytes key)
{
    if (key.size > view->last_capacity) {
        size_t capacity = key.size < LAST_KEY_CAPACITY ? LAST_KEY_CAPACITY : 2 * key.size;
        view->last = arena_alloc(arena, capacity);
        if (view->last == NULL)
            return false;
        view->last_capacity = capacity;
    }
    memcpy(view->last, key.data, key.size);
    view->last_size = key.size;
    return true;
}

static struct bytes iterator_key(const rocksdb_iterator_t *iterator)
{
    size_t size;
    const char *key = rocksdb_iter_key(iterator, &size);
    return bytes_of(key, size);
}

static void iterator_step(rocksdb_iterator_t *iterator, bool is_backward)
{
    if (is_backward)
        rocksdb_iter_prev(iterator);
    else
        rocksdb_iter_next(iterator);
}

/* Begins, or goes on behind the last record visited with the tier that the options now name. */
static void iterator_place(struct store *store, struct kv_read *read)
{
    struct view *view = read_view(read);
    if (view->iterator != NULL)
        rocksdb_iter_destroy(view->iterator);
    view->iterator = rocksdb_create_iterator(store->database, view->options);
    bool is_backward = read->is_backward;
    if (view->last_size == 0) {
        if (is_backward)
            rocksdb_iter_seek_to_last(view->iterator);
        else
            rocksdb_iter_seek_to_first(view->iterator);
        return;
    }
    const char *last = (const char *)view->last;
    if (is_backward)
        rocksdb_iter_seek_for_prev(view->iterator, last, view->last_size);
    else
        rocksdb_iter_seek(view->iterator, last, view->last_size);
    if (rocksdb_iter_valid(view->iterator) &&
        bytes_equal(iterator_key(view->iterator), bytes_of(view->last, view->last_size)))
        iterator_step(view->iterator, is_backward);
}

enum walked { WALKED_ALL, WALKED_SLICE, WALKED_INCOMPLETE, WALKED_HEAVY };

static size_t weight_of(const struct kv_read *read)
{
    return read->weight != 0 ? read->weight : 1;
}

static enum walked walk_end(struct store *store, struct kv_read *read)
{
    char *text = NULL;
    rocksdb_iter_get_error(read_view(read)->iterator, &text);
    if (text == NULL)
        return WALKED_ALL;
    if (found_by_text(store, text) == FOUND_INCOMPLETE)
        return WALKED_INCOMPLETE;
    read->status = STATUS_INTERNAL;
    return WALKED_ALL;
}

/* Visits records until the range, the visitor's patience or `records_max` and `bytes_max` end, or
 * one has more than `heavy_bytes`. */
static enum walked walk(struct store *store, struct kv_read *read, size_t records_max,
                        size_t bytes_max, size_t heavy_bytes)
{
    struct view *view = read_view(read);
    size_t records = 0, bytes = 0;
    enum walked walked = WALKED_SLICE;
    while (records < records_max && bytes < bytes_max) {
        if (!rocksdb_iter_valid(view->iterator)) {
            walked = walk_end(store, read);
            break;
        }
        struct bytes key = iterator_key(view->iterator);
        struct bytes value;
        value.data = (const uint8_t *)rocksdb_iter_value(view->iterator, &value.size);
        if (value.size > heavy_bytes) {
            walked = WALKED_HEAVY;
            break;
        }
        records++;
        bytes += key.size + value.size;
        bool wants_more = read->visit(read, key, value);
        if (wants_more && !remember_last(view, read->arena, key)) {
            read->status = STATUS_NO_MEMORY;
            wants_more = false;
        }
        if (!wants_more) {
            walked = WALKED_ALL;
            break;
        }
        iterator_step(view->iterator, read->is_backward);
    }
    count(&store->reads.records, records);
    count(&store->reads.bytes, bytes);
    return walked;
}

/* ---- reader threads ---- */

static void read_finish_on_lane(struct task *task)
{
    struct kv_read *read = read_of(task);
    struct store_lane *lane = read_lane(read);
    if (lane->store->delay_us != 0 && !read_was_delayed(read)) {
        read->store[3] = read;
        lane->env.after(lane->env.worker, lane->store->delay_us, &read->task);
        return;
    }
    lane->reads_pending--;
    read->complete(read);
}

static void give_way(struct store *store, struct pin *pin);

static void read_range_fully(struct store *store, struct pin *pin, struct kv_read *read)
{
    if (read->is_patient && read->count != 0 &&
        read_points(store, read_view(read)->options, read) != FOUND_ALL)
        return;
    iterator_place(store, read);
    size_t records_max = read->is_patient ? PATIENT_RECORDS : SIZE_MAX;
    while (walk(store, read, records_max, SIZE_MAX, SIZE_MAX) == WALKED_SLICE)
        give_way(store, pin);
}

/* The whole read, with I/O. A read that has begun holds a pin in its view; else `pin` is held for
 * it and becomes the view's where one is opened. */
static void read_fully(struct store *store, struct pin *pin, struct kv_read *read)
{
    if (read_view(read) == NULL) {
        read->commit = atomic_load_explicit(&store->readable, memory_order_acquire);
        read->status = store->database == NULL ? STATUS_UNAVAILABLE : STATUS_OK;
        if (read->status == STATUS_OK && (read->visit != NULL || read->count > 1))
            read->status = view_open(store, pin, read);
    }
    struct view *view = read_view(read);
    if (view != NULL)
        rocksdb_readoptions_set_read_tier(view->options, READ_TIER_ALL);
    if (read->status == STATUS_OK && read->visit != NULL) {
        read_range_fully(store, pin, read);
    } else if (read->status == STATUS_OK) {
        (void)read_points(store, view == NULL ? store->read_full : view->options, read);
    }
    if (view != NULL)
        view_close(store, read);
    else
        unpin(store, pin);
}

/* Takes out the first read, with `pin` held for it if it has not begun. While the database is to be
 * reopened, the first that has begun: the reopening waits for it, and all others for that. NULL:
 * none. */
static struct kv_read *queue_pick(struct store *store, struct pin *pin)
    REQUIRES(store->read_queue.lock)
{
    struct read_queue *queue = &store->read_queue;
    struct kv_read *before = NULL, *read = queue->first;
    if (read != NULL && read_view(read) == NULL && !pin_try(store, pin))
        for (; read != NULL && read_view(read) == NULL; read = read_next(read))
            before = read;
    if (read == NULL)
        return NULL;
    if (before == NULL)
        queue->first = read_next(read);
    else
        before->store[2] = read_next(read);
    if (queue->last == read)
        queue->last = before;
    return read;
}

/* Waits for a read that can be served; NULL: the end. */
static struct kv_read *queue_take(struct store *store, struct pin *pin)
{
    mutex_lock(&store->read_queue.lock);
    struct kv_read *read;
    while ((read = queue_pick(store, pin)) == NULL && !store->read_queue.is_stopping)
        pthread_cond_wait(&store->read_queue.is_filled, &store->read_queue.lock.sleep);
    mutex_unlock(&store->read_queue.lock);
    return read;
}

static void serve(struct store *store, struct pin *pin, struct kv_read *read)
{
    struct store_lane *lane = read_lane(read);
    read_fully(store, pin, read);
    read->task.run = read_finish_on_lane;
    lane->env.post(lane->env.worker, &read->task);
}

/* The next read that can be served, unless a patient one is the next; NULL: there is none. */
static struct kv_read *queue_try(struct store *store, struct pin *pin)
{
    mutex_lock(&store->read_queue.lock);
    const struct kv_read *next = store->read_queue.first;
    struct kv_read *read = next != NULL && next->is_patient ? NULL : queue_pick(store, pin);
    mutex_unlock(&store->read_queue.lock);
    return read;
}

/* Serves those who wait behind a patient read. */
static void give_way(struct store *store, struct pin *pin)
{
    for (int i = 0; i < PATIENCE; i++) {
        struct kv_read *read = queue_try(store, pin);
        if (read == NULL)
            return;
        serve(store, pin, read);
    }
}

static void *reader_run(void *arg)
{
    struct reader *reader = arg;
    struct store *store = reader->store;
    for (struct kv_read *read; (read = queue_take(store, &reader->pin)) != NULL;)
        serve(store, &reader->pin, read);
    return NULL;
}

void readers_wake(struct store *store)
{
    mutex_lock(&store->read_queue.lock);
    pthread_cond_broadcast(&store->read_queue.is_filled);
    mutex_unlock(&store->read_queue.lock);
}

bool readers_start(struct store *store)
{
    for (int i = 0; i < STORE_READERS; i++) {
        struct reader *reader = &store->readers[i];
        reader->store = store;
        pin_register(store, &reader->pin);
        char name[16];
        snprintf(name, sizeof name, "mudax-reader-%d", i + 1);
        reader->is_started = store_thread_start(&reader->thread, reader_run, reader, name);
        if (!reader->is_started)
            return false;
    }
    return true;
}

void readers_stop(struct store *store)
{
    struct read_queue *queue = &store->read_queue;
    mutex_lock(&queue->lock);
    queue->is_stopping = true;
    pthread_cond_broadcast(&queue->is_filled);
    mutex_unlock(&queue->lock);
    for (int i = 0; i < STORE_READERS; i++)
        if (store->readers[i].is_started)
            pthread_join(store->readers[i].thread, NULL);
}

/* ---- the lane's side ---- */

/* Hands all reads that this loop turn could not answer to the reader threads at once. */
static void lane_part(struct task *task)
{
    struct store_lane *lane =
        (struct store_lane *)((char *)task - offsetof(struct store_lane, part));
    struct read_queue *queue = &lane->store->read_queue;
    lane->is_parting = false;
    mutex_lock(&queue->lock);
    if (queue->first == NULL)
        queue->first = lane->parted_first;
    else
        queue->last->store[2] = lane->parted_first;
    queue->last = lane->parted_last;
    pthread_cond_broadcast(&queue->is_filled);
    mutex_unlock(&queue->lock);
    lane->parted_first = lane->parted_last = NULL;
}

void lane_part_init(struct store_lane *lane)
{
    lane->part.run = lane_part;
}

static void hand_over(struct store_lane *lane, struct kv_read *read)
{
    read->store[2] = NULL;
    if (lane->parted_first == NULL)
        lane->parted_first = read;
    else
        lane->parted_last->store[2] = read;
    lane->parted_last = read;
    if (lane->is_parting)
        return;
    lane->is_parting = true;
    lane->env.post(lane->env.worker, &lane->part);
}

static bool points_on_lane(struct store_lane *lane, struct kv_read *read)
{
    struct store *store = lane->store;
    if (read->count > 1) {
        read->status = view_open(store, &lane->pin, read);
        if (read->status != STATUS_OK) {
            unpin(store, &lane->pin);
            return true;
        }
        rocksdb_readoptions_set_read_tier(read_view(read)->options, READ_TIER_BLOCK_CACHE_ONLY);
    }
    struct view *view = read_view(read);
    enum found found = read_points(store, view == NULL ? store->read_cached : view->options, read);
    if (found == FOUND_INCOMPLETE) {
        count(&store->reads.incomplete, 1);
        if (view == NULL)
            unpin(store, &lane->pin);
        hand_over(lane, read); /* a view goes along, with its pin */
        return false;
    }
    count(&store->reads.cached, 1);
    if (view == NULL)
        unpin(store, &lane->pin);
    else
        view_close(store, read);
    return true;
}

static void range_go_on(struct task *task);

/* One slice. False while there is more to come. */
static bool range_slice(struct store_lane *lane, struct kv_read *read)
{
    struct store *store = lane->store;
    struct view *view = read_view(read);
    size_t weight = weight_of(read);
    size_t records_max = weight < SLICE_RECORDS ? SLICE_RECORDS / weight : 1;
    enum walked walked = walk(store, read, records_max, SLICE_BYTES / weight, HEAVY_BYTES / weight);
    if (walked == WALKED_ALL) {
        count(&store->reads.cached, 1);
        view_close(store, read);
        return true;
    }
    if (walked != WALKED_SLICE || ++view->slices == SLICES_MAX) {
        count(walked == WALKED_INCOMPLETE ? &store->reads.incomplete : &store->reads.large, 1);
        hand_over(lane, read);
        return false;
    }
    read->task.run = range_go_on;
    lane->env.post(lane->env.worker, &read->task);
    return false;
}

static void range_go_on(struct task *task)
{
    struct kv_read *read = read_of(task);
    if (!range_slice(read_lane(read), read))
        return;
    task->run = read_finish_on_lane;
    read_finish_on_lane(task);
}

static bool range_on_lane(struct store_lane *lane, struct kv_read *read)
{
    struct store *store = lane->store;
    /* Beyond so many, the reader threads take one after the other, from its beginning. */
    if (read->is_large || atomic_load_explicit(&lane->walks, memory_order_relaxed) >= WALKS_MAX) {
        count(&store->reads.large, 1);
        unpin(store, &lane->pin);
        hand_over(lane, read);
        return false;
    }
    read->status = view_open(store, &lane->pin, read);
    if (read->status != STATUS_OK) {
        unpin(store, &lane->pin);
        return true;
    }
    struct view *view = read_view(read);
    view->walks = &lane->walks;
    atomic_fetch_add_explicit(view->walks, 1, memory_order_relaxed);
    rocksdb_readoptions_set_read_tier(view->options, READ_TIER_BLOCK_CACHE_ONLY);
    iterator_place(store, read);
    return range_slice(lane, read);
}

/* True when the read is over. */
static bool read_on_lane(struct store_lane *lane, struct kv_read *read)
{
    struct store *store = lane->store;
    if (lane->reads_pending > READS_PENDING_MAX) {
        read->status = STATUS_THROTTLED;
        return true;
    }
    if (!pin_try(store, &lane->pin)) { /* being reopened: the reader threads wait for that */
        hand_over(lane, read);
        return false;
    }
    if (store->database == NULL) {
        unpin(store, &lane->pin);
        read->status = STATUS_UNAVAILABLE;
        return true;
    }
    read->commit = atomic_load_explicit(&store->readable, memory_order_acquire);
    return read->visit == NULL ? points_on_lane(lane, read) : range_on_lane(lane, read);
}

enum submit store_read(struct kv_lane *kv_lane, struct kv_read *read)
{
    struct store_lane *lane = (struct store_lane *)kv_lane;
    read->status = STATUS_OK;
    read->store[0] = lane;
    read->store[1] = read->store[2] = read->store[3] = NULL;
    lane->reads_pending++;
    if (!read_on_lane(lane, read))
        return SUBMIT_PENDING;
    if (lane->store->delay_us == 0) {
        lane->reads_pending--;
        return SUBMIT_DONE;
    }
    read->store[3] = read; /* far away: the answer takes its time */
    read->task.run = read_finish_on_lane;
    lane->env.after(lane->env.worker, lane->store->delay_us, &read->task);
    return SUBMIT_PENDING;
}

void store_load(struct kv *kv, struct kv_read *read)
{
    struct store *store = (struct store *)kv;
    read->store[0] = read->store[1] = read->store[2] = read->store[3] = NULL;
    pin_wait(store, &store->report_pin);
    read_fully(store, &store->report_pin, read);
}
