#include "backend/rocksdb/store.h"

#include "protocol/ensure.h"
#include "protocol/hash.h"

#include <stdlib.h>
#include <time.h>

/* One thread takes all queued commits and checks them in order. What each commit has read is held
 * against a table of last commit numbers, raised before the group is written; a commit whose
 * records have changed is computed again here, on the newest records, those earlier in the same
 * group included. A group is one rocksdb_write: visible only once it is as durable as was asked
 * for. */
enum {
    GROUP_COMMITS_MAX = 1024,
    GROUP_BYTES_MAX = 8 << 20,
    SLOTS = 65536,
    COUNTER_BUCKETS = 4096,
    COUNTERS_CACHED_MAX = 65536,
    READS_MAX = 512, /* of one commit */
};

uint32_t store_reopen_ms = 5000;
uint32_t store_sync_ms = 1000;

/* The value that counters of one key have after this group. */
struct counter {
    struct counter *next, *next_dirty;
    int64_t values[KV_COUNTERS];
    bool is_dirty;
    size_t key_size;
    uint8_t key[];
};

/* Newest value of each key that the group writes: open addressing, at most half full. */
struct written {
    uint64_t hash;
    const struct kv_record *record; /* NULL: free */
};

struct writer {
    struct store *store;
    pthread_t thread;
    bool is_started;

    /* Guarded by lock. */
    struct mutex lock;
    struct kv_commit *first, *last; /* linked by commit_next() */
    size_t queued;
    bool is_waiting, is_stopping;
    pthread_cond_t is_moved;

    /* The writer thread's own. */
    uint64_t *slots;
    uint64_t number; /* of the last commit accepted */
    rocksdb_writebatch_t *batch;
    rocksdb_writeoptions_t *write_options;
    struct kv_commit *group[GROUP_COMMITS_MAX];
    size_t group_count;
    struct written *written;
    size_t written_capacity, written_allocated;
    struct counter *counters[COUNTER_BUCKETS];
    struct counter *dirty;
    size_t counter_count;
    bool needs_sync;     /* SYNC_INTERVAL: something was written since */
    uint64_t wake_at_ms; /* next sync, or next attempt to reopen; 0: none */

    /* Atomic, relaxed. */
    atomic_uint_fast64_t commits, groups, recomputed, conflicts, refused, unknown, reopens, syncs,
        bytes;
    atomic_uint_fast64_t queue_length;
};

/* What the store keeps in kv_commit.store[]. */
static struct store_lane *commit_lane(const struct kv_commit *commit)
{
    return commit->store[0];
}

static struct kv_commit *commit_next(const struct kv_commit *commit)
{
    return commit->store[1];
}

static bool commit_was_delayed(const struct kv_commit *commit)
{
    return commit->store[2] != NULL;
}

static struct kv_commit *commit_of(struct task *task)
{
    return (struct kv_commit *)((char *)task - offsetof(struct kv_commit, task));
}

static void count(atomic_uint_fast64_t *counter, uint64_t more)
{
    atomic_fetch_add_explicit(counter, more, memory_order_relaxed);
}

/* For the writer's own waits alone; nothing that is stored or answered depends on it. */
static uint64_t clock_ms(void)
{
    struct timespec now;
    ensure(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* ---- what the group has written so far ---- */

static size_t size_of_writes(const struct kv_commit *commit)
{
    size_t size = 0;
    for (size_t i = 0; i < commit->write_count; i++)
        size += commit->writes[i].key.size + commit->writes[i].value.size;
    return size;
}

/* Room for the writes of the whole group, empty. */
static bool written_clear(struct writer *writer)
{
    size_t count_max = 0;
    for (size_t i = 0; i < writer->group_count; i++)
        count_max += writer->group[i]->write_count;
    size_t capacity = 64;
    while (capacity < 2 * count_max)
        capacity *= 2;
    if (capacity > writer->written_allocated) {
        struct written *written = realloc(writer->written, capacity * sizeof *written);
        if (written == NULL)
            return false;
        writer->written = written;
        writer->written_allocated = capacity;
    }
    writer->written_capacity = capacity;
    memset(writer->written, 0, capacity * sizeof *writer->written);
    return true;
}

static struct written *written_find(const struct writer *writer, uint64_t hash, struct bytes key)
{
    size_t mask = writer->written_capacity - 1;
    for (size_t i = hash & mask;; i = (i + 1) & mask) {
        struct written *at = &writer->written[i];
        if (at->record == NULL || (at->hash == hash && bytes_equal(at->record->key, key)))
            return at;
    }
}

/* ---- counters ---- */

static struct counter **counter_bucket(struct writer *writer, struct bytes key)
{
    return &writer->counters[hash_partition(key) % COUNTER_BUCKETS];
}

static int64_t read_int64(const uint8_t *from)
{
    uint64_t bits = 0;
    for (int i = 7; i >= 0; i--)
        bits = bits << 8 | from[i];
    return (int64_t)bits;
}

static void write_int64(uint8_t *to, int64_t integer)
{
    for (int i = 0; i < 8; i++)
        to[i] = (uint8_t)((uint64_t)integer >> 8 * i);
}

static enum status counter_read(struct writer *writer, struct counter *counter)
{
    char *text = NULL;
    rocksdb_pinnableslice_t *slice =
        rocksdb_get_pinned(writer->store->database, writer->store->read_full,
                           (const char *)counter->key, counter->key_size, &text);
    if (text != NULL) {
        rocksdb_free(text);
        return STATUS_INTERNAL;
    }
    if (slice == NULL)
        return STATUS_OK;
    size_t size;
    const uint8_t *value = (const uint8_t *)rocksdb_pinnableslice_value(slice, &size);
    for (size_t i = 0; i < KV_COUNTERS && (i + 1) * 8 <= size; i++)
        counter->values[i] = read_int64(value + 8 * i);
    rocksdb_pinnableslice_destroy(slice);
    return STATUS_OK;
}

static enum status counter_get(struct writer *writer, struct bytes key, struct counter **out)
{
    struct counter **bucket = counter_bucket(writer, key);
    for (struct counter *at = *bucket; at != NULL; at = at->next)
        if (bytes_equal(bytes_of(at->key, at->key_size), key)) {
            *out = at;
            return STATUS_OK;
        }
    struct counter *counter = calloc(1, sizeof *counter + key.size);
    if (counter == NULL)
        return STATUS_NO_MEMORY;
    counter->key_size = key.size;
    memcpy(counter->key, key.data, key.size);
    enum status status = counter_read(writer, counter);
    if (status != STATUS_OK) {
        free(counter);
        return status;
    }
    counter->next = *bucket;
    *bucket = counter;
    writer->counter_count++;
    *out = counter;
    return STATUS_OK;
}

/* Forgets the counters of a range, not given: all. */
static void counters_forget(struct writer *writer, const struct kv_range *range)
{
    writer->dirty = NULL;
    for (size_t i = 0; i < COUNTER_BUCKETS; i++) {
        struct counter **at = &writer->counters[i];
        while (*at != NULL) {
            struct counter *counter = *at;
            struct bytes key = bytes_of(counter->key, counter->key_size);
            if (range == NULL ||
                (bytes_compare(key, range->low) >= 0 && bytes_compare(key, range->high) < 0)) {
                *at = counter->next;
                free(counter);
                writer->counter_count--;
                continue;
            }
            if (counter->is_dirty) {
                counter->next_dirty = writer->dirty;
                writer->dirty = counter;
            }
            at = &counter->next;
        }
    }
}

static void counters_put(struct writer *writer)
{
    while (writer->dirty != NULL) {
        struct counter *counter = writer->dirty;
        writer->dirty = counter->next_dirty;
        counter->is_dirty = false;
        uint8_t value[8 * KV_COUNTERS];
        bool is_zero = true;
        for (size_t i = 0; i < KV_COUNTERS; i++) {
            write_int64(value + 8 * i, counter->values[i]);
            is_zero &= counter->values[i] == 0;
        }
        if (is_zero)
            rocksdb_writebatch_delete(writer->batch, (const char *)counter->key, counter->key_size);
        else
            rocksdb_writebatch_put(writer->batch, (const char *)counter->key, counter->key_size,
                                   (const char *)value, sizeof value);
    }
}

/* ---- one commit ---- */

static bool same_value(struct bytes a, struct bytes b)
{
    return bytes_given(a) == bytes_given(b) && bytes_equal(a, b);
}

/* Holds the newest records against those that the commit has read.
 * slices  what `values` point into, for the caller to destroy */
static enum status read_newest(struct writer *writer, const struct kv_commit *commit,
                               struct bytes *values, rocksdb_pinnableslice_t **slices,
                               bool *is_changed)
{
    *is_changed = false;
    for (size_t i = 0; i < commit->read_count; i++) {
        const struct kv_record *record = &commit->reads[i];
        uint64_t hash = hash_partition(record->key);
        values[i] = record->value;
        if (writer->slots[hash % SLOTS] <= record->token)
            continue;
        struct written *written = written_find(writer, hash, record->key);
        if (written->record != NULL) {
            values[i] = written->record->value;
        } else {
            char *text = NULL;
            slices[i] = rocksdb_get_pinned(writer->store->database, writer->store->read_full,
                                           (const char *)record->key.data, record->key.size, &text);
            if (text != NULL) {
                rocksdb_free(text);
                return STATUS_INTERNAL;
            }
            values[i] = BYTES_NONE;
            if (slices[i] != NULL)
                values[i].data =
                    (const uint8_t *)rocksdb_pinnableslice_value(slices[i], &values[i].size);
        }
        *is_changed |= !same_value(values[i], record->value);
    }
    return STATUS_OK;
}

static void recompute(struct writer *writer, struct kv_commit *commit, const struct bytes *values)
{
    if (commit->recompute == NULL) {
        commit->outcome = KV_CONFLICT;
        count(&writer->conflicts, 1);
        return;
    }
    count(&writer->recomputed, 1);
    for (size_t i = 0; i < commit->read_count; i++) {
        commit->reads[i].value = values[i];
        commit->reads[i].token = writer->number;
    }
    commit->outcome = commit->recompute(commit);
    count(&writer->conflicts, commit->outcome == KV_CONFLICT);
}

static bool reads_may_have_changed(const struct writer *writer, const struct kv_commit *commit)
{
    for (size_t i = 0; i < commit->read_count; i++)
        if (writer->slots[hash_partition(commit->reads[i].key) % SLOTS] > commit->reads[i].token)
            return true;
    return false;
}

/* Sets another outcome than KV_DONE if the commit may not happen. */
static void check_reads(struct writer *writer, struct kv_commit *commit)
{
    ensure(commit->read_count <= READS_MAX);
    if (!reads_may_have_changed(writer, commit))
        return;
    struct bytes values[READS_MAX];
    rocksdb_pinnableslice_t *slices[READS_MAX];
    for (size_t i = 0; i < commit->read_count; i++)
        slices[i] = NULL;
    bool is_changed;
    commit->status = read_newest(writer, commit, values, slices, &is_changed);
    if (commit->status != STATUS_OK)
        commit->outcome = KV_REFUSED;
    else if (is_changed)
        recompute(writer, commit, values);
    for (size_t i = 0; i < commit->read_count; i++)
        if (slices[i] != NULL)
            rocksdb_pinnableslice_destroy(slices[i]);
}

static bool is_exceeded(const struct kv_counter *added, const struct counter *counter)
{
    return added->limit != 0 && added->add[0] > 0 &&
           counter->values[0] + added->add[0] > added->limit;
}

/* Reads in all counters first, so that nothing has been done when that fails. */
static void add_counters(struct writer *writer, struct kv_commit *commit)
{
    struct counter *counter;
    for (size_t i = 0; i < commit->counter_count; i++) {
        commit->status = counter_get(writer, commit->counters[i].key, &counter);
        if (commit->status == STATUS_OK && is_exceeded(&commit->counters[i], counter)) {
            commit->status = STATUS_LIMIT_EXCEEDED;
            commit->exceeded = &commit->counters[i];
        }
        if (commit->status != STATUS_OK) {
            commit->outcome = KV_REFUSED;
            return;
        }
    }
    for (size_t i = 0; i < commit->counter_count; i++) {
        ensure(counter_get(writer, commit->counters[i].key, &counter) == STATUS_OK);
        for (size_t k = 0; k < KV_COUNTERS; k++)
            counter->values[k] += commit->counters[i].add[k];
        commit->counters[i].after = counter->values[0];
        if (!counter->is_dirty) {
            counter->is_dirty = true;
            counter->next_dirty = writer->dirty;
            writer->dirty = counter;
        }
    }
}

static void add_writes(struct writer *writer, struct kv_commit *commit)
{
    for (size_t i = 0; i < commit->write_count; i++) {
        const struct kv_record *record = &commit->writes[i];
        uint64_t hash = hash_partition(record->key);
        writer->slots[hash % SLOTS] = writer->number;
        *written_find(writer, hash, record->key) = (struct written){hash, record};
        if (bytes_given(record->value))
            rocksdb_writebatch_put(writer->batch, (const char *)record->key.data, record->key.size,
                                   (const char *)record->value.data, record->value.size);
        else
            rocksdb_writebatch_delete(writer->batch, (const char *)record->key.data,
                                      record->key.size);
    }
    for (size_t i = 0; i < commit->drop_count; i++) {
        const struct kv_range *drop = &commit->drops[i];
        counters_forget(writer, drop);
        rocksdb_writebatch_delete_range(writer->batch, (const char *)drop->low.data, drop->low.size,
                                        (const char *)drop->high.data, drop->high.size);
    }
}

static void add_commit(struct writer *writer, struct kv_commit *commit)
{
    commit->outcome = KV_DONE;
    commit->status = STATUS_OK;
    check_reads(writer, commit);
    if (commit->outcome == KV_DONE)
        add_counters(writer, commit);
    if (commit->outcome != KV_DONE)
        return;
    if (commit->write_count + commit->counter_count + commit->drop_count != 0)
        writer->number++; /* at least one record each, so RocksDB's own number keeps up */
    commit->number = writer->number;
    add_writes(writer, commit);
}

/* ---- groups ---- */

static void commit_finish_on_lane(struct task *task)
{
    struct kv_commit *commit = commit_of(task);
    struct store_lane *lane = commit_lane(commit);
    if (lane->store->delay_us != 0 && !commit_was_delayed(commit)) {
        commit->store[2] = commit;
        lane->env.after(lane->env.worker, lane->store->delay_us, &commit->task);
        return;
    }
    lane->commits_pending--;
    commit->complete(commit);
}

static void finish(struct kv_commit *commit)
{
    struct store_lane *lane = commit_lane(commit);
    commit->task.run = commit_finish_on_lane;
    lane->env.post(lane->env.worker, &commit->task);
}

static void refuse(struct writer *writer, struct kv_commit *commit, enum status status)
{
    commit->outcome = KV_REFUSED;
    commit->status = status;
    count(&writer->refused, 1);
    finish(commit);
}

/* After a failed write RocksDB refuses all others until it is opened again. */
static void fall_ill(struct writer *writer, char *text)
{
    struct store *store = writer->store;
    atomic_store(&store->trouble, "the store failed to write; it is reopened every few seconds "
                                  "until that works (is the disk full?)");
    writer->wake_at_ms = clock_ms() + store->reopen_ms;
    counters_forget(writer, NULL);
    if (store->on_event != NULL)
        store->on_event(store->on_event_arg, "store_failed", text);
    rocksdb_free(text);
}

static bool write_group(struct writer *writer)
{
    counters_put(writer);
    if (rocksdb_writebatch_count(writer->batch) == 0)
        return true;
    size_t size;
    (void)rocksdb_writebatch_data(writer->batch, &size);
    char *text = NULL;
    rocksdb_write(writer->store->database, writer->write_options, writer->batch, &text);
    rocksdb_writebatch_clear(writer->batch);
    if (text != NULL) {
        fall_ill(writer, text);
        return false;
    }
    count(&writer->bytes, size);
    if (writer->store->sync == SYNC_INTERVAL && !writer->needs_sync) {
        writer->needs_sync = true;
        writer->wake_at_ms = clock_ms() + writer->store->sync_ms;
    }
    atomic_store_explicit(&writer->store->readable, writer->number, memory_order_release);
    return true;
}

static void commit_group(struct writer *writer)
{
    if (!written_clear(writer)) {
        for (size_t i = 0; i < writer->group_count; i++)
            refuse(writer, writer->group[i], STATUS_NO_MEMORY);
        return;
    }
    for (size_t i = 0; i < writer->group_count; i++)
        add_commit(writer, writer->group[i]);
    bool is_written = write_group(writer);
    if (writer->counter_count > COUNTERS_CACHED_MAX)
        counters_forget(writer, NULL);
    count(&writer->groups, 1);
    count(&writer->commits, writer->group_count);
    for (size_t i = 0; i < writer->group_count; i++) {
        struct kv_commit *commit = writer->group[i];
        if (!is_written && commit->outcome == KV_DONE) {
            commit->outcome = KV_UNKNOWN;
            count(&writer->unknown, 1);
        }
        finish(commit);
    }
}

static void refuse_group(struct writer *writer)
{
    for (size_t i = 0; i < writer->group_count; i++)
        refuse(writer, writer->group[i], STATUS_INTERNAL);
}

/* ---- the thread ---- */

static bool take_group(struct writer *writer) REQUIRES(writer->lock)
{
    size_t bytes = 0;
    writer->group_count = 0;
    while (writer->first != NULL && writer->group_count < GROUP_COMMITS_MAX &&
           bytes < GROUP_BYTES_MAX) {
        struct kv_commit *commit = writer->first;
        writer->first = commit_next(commit);
        bytes += size_of_writes(commit);
        writer->group[writer->group_count++] = commit;
    }
    writer->queued -= writer->group_count;
    atomic_store_explicit(&writer->queue_length, writer->queued, memory_order_relaxed);
    return writer->group_count != 0;
}

static void wait_until(struct writer *writer, uint64_t at_ms) REQUIRES(writer->lock)
{
    writer->is_waiting = true;
    if (at_ms == 0) {
        pthread_cond_wait(&writer->is_moved, &writer->lock.sleep);
    } else {
        struct timespec at = {.tv_sec = (time_t)(at_ms / 1000),
                              .tv_nsec = (long)(at_ms % 1000) * 1000000};
        pthread_cond_timedwait(&writer->is_moved, &writer->lock.sleep, &at);
    }
    writer->is_waiting = false;
}

/* Waits for commits, a moment to wake at, or the end. False: the end, and nothing is queued. */
static bool wait_for_work(struct writer *writer)
{
    mutex_lock(&writer->lock);
    bool is_due = false, has_group = take_group(writer);
    while (!has_group && !is_due && !writer->is_stopping) {
        wait_until(writer, writer->wake_at_ms);
        has_group = take_group(writer);
        is_due = writer->wake_at_ms != 0 && clock_ms() >= writer->wake_at_ms;
    }
    bool is_over = writer->is_stopping && !has_group;
    mutex_unlock(&writer->lock);
    return !is_over;
}

static void sync_log(struct writer *writer)
{
    writer->needs_sync = false;
    writer->wake_at_ms = 0;
    count(&writer->syncs, 1);
    char *text = NULL;
    rocksdb_flush_wal(writer->store->database, 1, &text);
    if (text != NULL)
        fall_ill(writer, text);
}

static void try_to_reopen(struct writer *writer)
{
    struct store *store = writer->store;
    count(&writer->reopens, 1);
    writer->needs_sync = false;
    bool is_well = database_reopen(store, writer->number);
    writer->wake_at_ms = is_well ? 0 : clock_ms() + store->reopen_ms;
    if (is_well)
        atomic_store(&store->trouble, NULL);
}

static void *writer_run(void *arg)
{
    struct writer *writer = arg;
    while (wait_for_work(writer)) {
        bool is_ill = atomic_load(&writer->store->trouble) != NULL;
        if (writer->group_count != 0 && is_ill)
            refuse_group(writer);
        else if (writer->group_count != 0)
            commit_group(writer);
        if (writer->wake_at_ms == 0 || clock_ms() < writer->wake_at_ms)
            continue;
        if (atomic_load(&writer->store->trouble) != NULL)
            try_to_reopen(writer);
        else
            sync_log(writer);
    }
    if (writer->needs_sync && atomic_load(&writer->store->trouble) == NULL)
        sync_log(writer);
    return NULL;
}

enum status writer_start(struct store *store)
{
    struct writer *writer = calloc(1, sizeof *writer);
    if (writer == NULL)
        return STATUS_NO_MEMORY;
    store->writer = writer;
    writer->store = store;
    writer->number = atomic_load(&store->readable);
    mutex_init(&writer->lock);
    pthread_condattr_t attributes;
    ensure(pthread_condattr_init(&attributes) == 0);
    ensure(pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) == 0);
    ensure(pthread_cond_init(&writer->is_moved, &attributes) == 0);
    pthread_condattr_destroy(&attributes);
    writer->batch = rocksdb_writebatch_create();
    writer->write_options = rocksdb_writeoptions_create();
    rocksdb_writeoptions_set_sync(writer->write_options, store->sync == SYNC_ALWAYS);
    writer->slots = calloc(SLOTS, sizeof writer->slots[0]);
    if (writer->slots == NULL)
        return STATUS_NO_MEMORY;
    writer->is_started = store_thread_start(&writer->thread, writer_run, writer, "mudax-writer");
    return writer->is_started ? STATUS_OK : STATUS_NO_MEMORY;
}

void writer_stop(struct store *store)
{
    struct writer *writer = store->writer;
    if (writer == NULL)
        return;
    mutex_lock(&writer->lock);
    writer->is_stopping = true;
    pthread_cond_signal(&writer->is_moved);
    mutex_unlock(&writer->lock);
    if (writer->is_started)
        pthread_join(writer->thread, NULL);
    counters_forget(writer, NULL);
    rocksdb_writebatch_destroy(writer->batch);
    rocksdb_writeoptions_destroy(writer->write_options);
    pthread_cond_destroy(&writer->is_moved);
    mutex_deinit(&writer->lock);
    free(writer->written);
    free(writer->slots);
    free(writer);
    store->writer = NULL;
}

/* ---- the lane's side ---- */

/* OK, or why the commit is refused at once. */
static enum status enqueue(struct writer *writer, struct kv_commit *commit)
{
    if (UNLIKELY(atomic_load(&writer->store->trouble) != NULL))
        return STATUS_INTERNAL;
    mutex_lock(&writer->lock);
    bool has_room = writer->queued < COMMITS_QUEUED_MAX;
    if (has_room) {
        if (writer->first == NULL)
            writer->first = commit;
        else
            writer->last->store[1] = commit;
        writer->last = commit;
        writer->queued++;
        atomic_store_explicit(&writer->queue_length, writer->queued, memory_order_relaxed);
        if (writer->is_waiting)
            pthread_cond_signal(&writer->is_moved);
    }
    mutex_unlock(&writer->lock);
    return has_room ? STATUS_OK : STATUS_THROTTLED;
}

void store_commit(struct kv_lane *kv_lane, struct kv_commit *commit)
{
    struct store_lane *lane = (struct store_lane *)kv_lane;
    commit->store[0] = lane;
    commit->store[1] = commit->store[2] = commit->store[3] = NULL;
    commit->number = 0;
    lane->commits_pending++;
    enum status status = enqueue(lane->store->writer, commit);
    if (status != STATUS_OK)
        refuse(lane->store->writer, commit, status);
}

void writer_report(struct store *store, report_fn report, void *arg)
{
    const struct writer *writer = store->writer;
    const struct {
        struct metric metric;
        const atomic_uint_fast64_t *value;
    } metrics[] = {
        {{"store_commits_total", "counter", "Commits that the writer has taken"}, &writer->commits},
        {{"store_commit_groups_total", "counter", "Groups written"}, &writer->groups},
        {{"store_commits_recomputed_total", "counter", "Commits computed again on newer records"},
         &writer->recomputed},
        {{"store_commit_conflicts_total", "counter", "Commits sent back"}, &writer->conflicts},
        {{"store_commits_refused_total", "counter", "Commits refused: queue full, store not ready"},
         &writer->refused},
        {{"store_commits_unknown_total", "counter", "Commits with an unknown outcome"},
         &writer->unknown},
        {{"store_reopens_total", "counter", "Attempts to reopen after a write error"},
         &writer->reopens},
        {{"store_log_syncs_total", "counter",
          "Syncs of the log apart from groups (--sync interval)"},
         &writer->syncs},
        {{"store_written_bytes_total", "counter", "Bytes given to the log"}, &writer->bytes},
        {{"store_commit_queue", "gauge", "Commits waiting for the writer"}, &writer->queue_length},
    };
    for (size_t i = 0; i < sizeof metrics / sizeof metrics[0]; i++)
        report(arg, &metrics[i].metric, "", (double)atomic_load(metrics[i].value));
}
