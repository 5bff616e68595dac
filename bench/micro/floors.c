/* bench-floors: what bare RocksDB takes, for rows 16, 18 and 19 of the targets: a get in memory, a
 * put without sync, a synced put, in microseconds of wall time, one thread. */
#include <rocksdb/c.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { VALUE_SIZE = 134, KEY_SIZE = 36, ROUNDS = 5 };

static double now_us(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static void check(char *error)
{
    if (error == NULL)
        return;
    (void)fprintf(stderr, "bench-floors: %s\n", error);
    exit(1);
}

static void make_key(uint64_t number, char *key)
{
    (void)snprintf(key, KEY_SIZE + 1, "%012llx%024llu",
                   (unsigned long long)(number * 0x9e3779b97f4a7c15ull >> 16),
                   (unsigned long long)number);
}

static rocksdb_t *open_database(const char *path, rocksdb_options_t *options)
{
    char *error = NULL;
    rocksdb_options_set_create_if_missing(options, 1);
    rocksdb_options_set_info_log_level(options, 4);
    rocksdb_t *database = rocksdb_open(options, path, &error);
    check(error);
    return database;
}

static double put_us(rocksdb_t *database, uint64_t first, uint64_t count, int sync)
{
    char key[KEY_SIZE + 1], value[VALUE_SIZE], *error = NULL;
    memset(value, 'v', sizeof value);
    rocksdb_writeoptions_t *options = rocksdb_writeoptions_create();
    rocksdb_writeoptions_set_sync(options, (unsigned char)sync);
    double begun = now_us();
    for (uint64_t i = 0; i < count; i++) {
        make_key(first + i, key);
        rocksdb_put(database, options, key, KEY_SIZE, value, sizeof value, &error);
        check(error);
    }
    double us = (now_us() - begun) / (double)count;
    rocksdb_writeoptions_destroy(options);
    return us;
}

static double get_us(rocksdb_t *database, uint64_t items, uint64_t count)
{
    char key[KEY_SIZE + 1], *error = NULL;
    rocksdb_readoptions_t *options = rocksdb_readoptions_create();
    double begun = now_us();
    for (uint64_t i = 0; i < count; i++) {
        make_key(i * 7919 % items, key);
        rocksdb_pinnableslice_t *slice =
            rocksdb_get_pinned(database, options, key, KEY_SIZE, &error);
        check(error);
        if (slice == NULL) {
            (void)fprintf(stderr, "bench-floors: a key is missing\n");
            exit(1);
        }
        rocksdb_pinnableslice_destroy(slice);
    }
    double us = (now_us() - begun) / (double)count;
    rocksdb_readoptions_destroy(options);
    return us;
}

int main(int argument_count, char **arguments)
{
    const char *folder = argument_count > 1 ? arguments[1] : "/tmp";
    uint64_t items = 1000000;
    char path[512], *error = NULL;
    (void)snprintf(path, sizeof path, "%s/mudax-floors-%d", folder, getpid());
    rocksdb_options_t *memory = rocksdb_options_create(), *disk = rocksdb_options_create();
    rocksdb_env_t *env = rocksdb_create_mem_env();
    rocksdb_options_set_env(memory, env);
    rocksdb_t *in_memory = open_database("/floors", memory), *on_disk = open_database(path, disk);
    (void)put_us(in_memory, 0, items, 0);
    for (int round = 0; round < ROUNDS; round++)
        (void)printf("get %.2f us   put %.2f us   put on disk, no sync %.2f us   synced %.1f us\n",
                     get_us(in_memory, items, 300000), put_us(in_memory, items, 100000, 0),
                     put_us(on_disk, 0, 100000, 0), put_us(on_disk, 0, 1000, 1));
    rocksdb_close(in_memory);
    rocksdb_close(on_disk);
    rocksdb_destroy_db(disk, path, &error);
    check(error);
    rocksdb_options_destroy(memory);
    rocksdb_options_destroy(disk);
    rocksdb_env_destroy(env);
    return 0;
}
