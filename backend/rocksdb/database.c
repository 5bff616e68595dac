#include "backend/rocksdb/store.h"

#include "protocol/ensure.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    WRITE_BUFFER_MIN = 1 << 20,
    WRITE_BUFFER_MAX = 64 << 20,
    BLOOM_BITS = 10,
    INFO_LEVEL_HEADER = 5,     /* rocksdb::InfoLogLevel */
    READ_TIER_BLOCK_CACHE = 1, /* rocksdb::ReadTier */
};

/* ---- pins ---- */

void pin_register(struct store *store, struct pin *pin)
{
    mutex_lock(&store->gate);
    pin->next = store->pins;
    store->pins = pin;
    mutex_unlock(&store->gate);
}

void pin_unregister(struct store *store, struct pin *pin)
{
    ensure(atomic_load(&pin->count) == 0);
    mutex_lock(&store->gate);
    struct pin **at = &store->pins;
    while (*at != pin)
        at = &(*at)->next;
    *at = pin->next;
    mutex_unlock(&store->gate);
}

/* Sequentially consistent on both sides: either we see that the store is being reopened, or the
 * writer sees our count. */
bool pin_try(struct store *store, struct pin *pin)
{
    atomic_fetch_add(&pin->count, 1);
    if (LIKELY(!atomic_load(&store->is_reopening)))
        return true;
    unpin(store, pin);
    return false;
}

void unpin(struct store *store, struct pin *pin)
{
    ensure(atomic_fetch_sub(&pin->count, 1) != 0);
    if (LIKELY(!atomic_load(&store->is_reopening)))
        return;
    mutex_lock(&store->gate);
    pthread_cond_broadcast(&store->gate_moved);
    mutex_unlock(&store->gate);
}

void pin_wait(struct store *store, struct pin *pin)
{
    while (!pin_try(store, pin)) {
        mutex_lock(&store->gate);
        while (atomic_load(&store->is_reopening))
            pthread_cond_wait(&store->gate_moved, &store->gate.sleep);
        mutex_unlock(&store->gate);
    }
}

static bool anybody_pins(const struct store *store) REQUIRES(store->gate)
{
    for (const struct pin *pin = store->pins; pin != NULL; pin = pin->next)
        if (atomic_load(&pin->count) != 0)
            return true;
    return false;
}

static void shut_gate(struct store *store)
{
    atomic_store(&store->is_reopening, true);
    mutex_lock(&store->gate);
    while (anybody_pins(store))
        pthread_cond_wait(&store->gate_moved, &store->gate.sleep);
    mutex_unlock(&store->gate);
}

static void open_gate(struct store *store)
{
    mutex_lock(&store->gate);
    atomic_store(&store->is_reopening, false);
    pthread_cond_broadcast(&store->gate_moved);
    mutex_unlock(&store->gate);
    readers_wake(store);
}

/* ---- the directory ---- */

/* Files that RocksDB makes before CURRENT, so that a first start that was cut short is no stranger.
 */
static bool is_own_file(const char *name)
{
    static const char *const begins[] = {".",        "..",        "LOCK",     "LOG",
                                         "IDENTITY", "MANIFEST-", "OPTIONS-", "lost+found"};
    for (size_t i = 0; i < sizeof begins / sizeof begins[0]; i++) {
        bool is_whole = begins[i][0] == '.';
        if (is_whole ? strcmp(name, begins[i]) == 0
                     : strncmp(name, begins[i], strlen(begins[i])) == 0)
            return true;
    }
    size_t size = strlen(name);
    return (size > 4 && strcmp(name + size - 4, ".log") == 0) ||
           (size > 6 && strcmp(name + size - 6, ".dbtmp") == 0);
}

static enum status look_into(const char *path, DIR *directory, struct error *error)
{
    char stranger[64] = "";
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        if (strcmp(entry->d_name, "CURRENT") == 0)
            return STATUS_OK;
        if (!is_own_file(entry->d_name))
            strncpy(stranger, entry->d_name, sizeof stranger - 1);
    }
    if (stranger[0] == '\0')
        return STATUS_OK;
    return error_set(error, STATUS_VALIDATION,
                     "rocksdb:%s holds other files (%s) and no mudax store; give an empty or a new "
                     "directory",
                     path, stranger);
}

static enum status prepare_directory(const char *path, struct error *error)
{
    if (mkdir(path, 0750) != 0 && errno != EEXIST)
        return error_set(error, STATUS_VALIDATION,
                         "rocksdb:%s cannot be made: %s; its parent must exist and be writable",
                         path, strerror(errno));
    DIR *directory = opendir(path);
    if (directory == NULL)
        return error_set(error, STATUS_VALIDATION,
                         "rocksdb:%s cannot be opened: %s; give a directory that mudaxd may read "
                         "and write",
                         path, strerror(errno));
    enum status status = look_into(path, directory, error);
    closedir(directory);
    return status;
}

/* ---- opening and closing ---- */

static size_t clamp(size_t value, size_t low, size_t high)
{
    return value < low ? low : value > high ? high : value;
}

static void make_options(struct store *store, size_t memory_bytes)
{
    store->block_cache = rocksdb_cache_create_lru(memory_bytes / 4 * 3);
    store->table_options = rocksdb_block_based_options_create();
    rocksdb_block_based_options_set_block_cache(store->table_options, store->block_cache);
    rocksdb_block_based_options_set_cache_index_and_filter_blocks(store->table_options, 1);
    rocksdb_block_based_options_set_cache_index_and_filter_blocks_with_high_priority(
        store->table_options, 1);
    rocksdb_block_based_options_set_filter_policy(
        store->table_options, rocksdb_filterpolicy_create_bloom_full(BLOOM_BITS));
    rocksdb_block_based_options_set_whole_key_filtering(store->table_options, 1);

    rocksdb_options_t *options = rocksdb_options_create();
    store->options = options;
    rocksdb_options_set_block_based_table_factory(options, store->table_options);
    rocksdb_options_set_create_if_missing(options, 1);
    rocksdb_options_set_db_write_buffer_size(options, memory_bytes / 4);
    rocksdb_options_set_write_buffer_size(
        options, clamp(memory_bytes / 8, WRITE_BUFFER_MIN, WRITE_BUFFER_MAX));
    rocksdb_options_set_max_open_files(options, -1);
    rocksdb_options_set_use_fsync(options, 0);
    rocksdb_options_set_compression(options, rocksdb_no_compression);
    rocksdb_options_set_info_log_level(options, INFO_LEVEL_HEADER);
    if (store->env != NULL)
        rocksdb_options_set_env(options, store->env);

    store->read_full = rocksdb_readoptions_create();
    store->read_cached = rocksdb_readoptions_create();
    rocksdb_readoptions_set_read_tier(store->read_cached, READ_TIER_BLOCK_CACHE);
}

/* RocksDB's info log goes to a file in memory that is unlinked at once, and holds only what is said
 * at opening. Debian builds RocksDB with assertions, and one of them stops the process at the
 * second line of that log that cannot be written: a full disk would end mudaxd instead of stopping
 * writes.
 */
struct log_place {
    char directory[32]; /* "": could not be made; the log is then where RocksDB wants it */
};

static void log_place_make(const struct store *store, struct log_place *place)
{
    strcpy(place->directory, "/dev/shm/mudax-XXXXXX");
    if (store->env != NULL || mkdtemp(place->directory) == NULL)
        place->directory[0] = '\0';
    rocksdb_options_set_db_log_dir(store->options, place->directory);
}

static void log_place_remove(const struct log_place *place)
{
    DIR *directory = place->directory[0] == '\0' ? NULL : opendir(place->directory);
    if (directory == NULL)
        return;
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;)
        if (entry->d_name[0] != '.')
            (void)unlinkat(dirfd(directory), entry->d_name, 0);
    closedir(directory);
    (void)rmdir(place->directory);
}

/* Sets store->database. False and RocksDB's text, the caller's to free, when that fails. */
static bool open_rocksdb(struct store *store, bool is_writable, char **text)
{
    struct log_place place;
    *text = NULL;
    log_place_make(store, &place);
    store->database = is_writable
                          ? rocksdb_open(store->options, store->path, text)
                          : rocksdb_open_for_read_only(store->options, store->path, 0, text);
    log_place_remove(&place);
    return *text == NULL;
}

static enum status open_failed(const struct store *store, const char *text, struct error *error)
{
    if (strstr(text, "lock") != NULL || strstr(text, "LOCK") != NULL)
        return error_set(error, STATUS_VALIDATION,
                         "rocksdb:%s is in use by another process; stop the other mudaxd or give "
                         "another directory",
                         store->path);
    return error_set(error, STATUS_VALIDATION, "rocksdb:%s cannot be opened: %s", store->path,
                     text);
}

enum status database_open(struct store *store, size_t memory_bytes, struct error *error)
{
    if (store->env == NULL) {
        enum status status = prepare_directory(store->path, error);
        if (status != STATUS_OK)
            return status;
    }
    make_options(store, memory_bytes);
    char *text;
    if (!open_rocksdb(store, true, &text)) {
        enum status status = open_failed(store, text, error);
        rocksdb_free(text);
        return status;
    }
    atomic_store(&store->readable, rocksdb_get_latest_sequence_number(store->database));
    return STATUS_OK;
}

void database_close(struct store *store)
{
    if (store->database != NULL)
        rocksdb_close(store->database);
    store->database = NULL;
    if (store->options != NULL) {
        rocksdb_readoptions_destroy(store->read_cached);
        rocksdb_readoptions_destroy(store->read_full);
        rocksdb_options_destroy(store->options);
        rocksdb_block_based_options_destroy(store->table_options);
        rocksdb_cache_destroy(store->block_cache);
    }
    if (store->env != NULL)
        rocksdb_env_destroy(store->env);
}

static void tell(const struct store *store, const char *what, const char *detail)
{
    if (store->on_event != NULL)
        store->on_event(store->on_event_arg, what, detail);
}

bool database_reopen(struct store *store, uint64_t number)
{
    shut_gate(store);
    if (store->database != NULL)
        rocksdb_close(store->database);
    char *text;
    bool is_writable = open_rocksdb(store, true, &text);
    if (!is_writable) {
        tell(store, "store_reopen_failed", text);
        rocksdb_free(text);
        (void)open_rocksdb(store, false, &text);
        rocksdb_free(text);
    }
    /* What failed may be in the log after all: a cache that is purged within this call never shows
     * what was there before, for no read has seen the reopened store yet. From one read-only
     * opening to the next nothing can have changed. */
    if (is_writable)
        tell(store, "store_reopened", store->path);
    else if (store->database != NULL && !store->is_read_only)
        tell(store, "store_reopened", "for reading only");
    store->is_read_only = !is_writable && store->database != NULL;
    if (is_writable)
        atomic_store_explicit(&store->readable, number, memory_order_release);
    open_gate(store);
    return is_writable;
}
