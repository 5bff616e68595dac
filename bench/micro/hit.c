/* bench-hit: what a hit costs inside the process, and what a writer beside it does to it; and
 * what a hit of one and the same item costs, alone and beside another reader of it.
 *
 * The cache over a backend that answers at once. Prints ns a hit, alone and beside a thread that
 * writes as fast as it can, round by round; the ratio of the two is performance row 21. */
#include "bench/micro/instant.h"
#include "cache/cache.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { ITEM_SIZE = 134, BATCH = 16, ROUNDS = 7, ROUND_HITS = 2000000 };

static uint64_t item_count = 1000000;

static uint64_t now_ns(clockid_t clock)
{
    struct timespec now;
    (void)clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static _Noreturn void die(const char *what)
{
    (void)fprintf(stderr, "bench-hit: %s\n", what);
    exit(1);
}

/* ---- requests ---- */

struct client {
    struct lane *lane;
    struct arena arena;
    uint64_t state, misses;
    uint8_t memory[64 * 1024];
};

static struct client *client_open(struct backend *cache, uint64_t seed)
{
    struct client *client = calloc(1, sizeof *client);
    if (client == NULL || cache->ops->lane_open(cache, &instant_env, &client->lane) != STATUS_OK)
        exit(1);
    arena_init(&client->arena, client->memory, sizeof client->memory, 1 << 20);
    client->state = seed;
    return client;
}

static uint64_t next_key(struct client *client)
{
    uint64_t x = client->state += 0x9e3779b97f4a7c15ull;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return (uint64_t)(((unsigned __int128)(x ^ (x >> 31)) * item_count) >> 64);
}

/* {"p": 24 digits}, and for an item {"p": ..., "v": 100 bytes}. */
static size_t write_map(uint8_t *out, uint64_t key, bool with_value)
{
    uint8_t *at = out;
    *at++ = with_value ? 0x82 : 0x81;
    at += snprintf((char *)at, 32, "\xa1p\xb8%024llu", (unsigned long long)key);
    if (with_value) {
        *at++ = 0xa1;
        *at++ = 'v';
        *at++ = 0xd9;
        *at++ = 100;
        memset(at, 'x', 100);
        at += 100;
    }
    return (size_t)(at - out);
}

static void run_call(struct client *client, uint64_t key, bool is_write)
{
    uint8_t map[160];
    struct call call = {.arena = &client->arena, .is_passing = !is_write, .now_us = 1000000};
    struct bytes bytes = bytes_of(map, write_map(map, key, is_write));
    call.request.operation = is_write ? OPERATION_PUT_ITEM : OPERATION_GET_ITEM;
    call.request.table_name = instant_table.name;
    call.request.key = is_write ? BYTES_NONE : bytes;
    call.request.item = is_write ? bytes : BYTES_NONE;
    reply_init(&call.reply);
    enum submit submit = client->lane->ops->submit(client->lane, &call);
    if (is_write ? submit != SUBMIT_DONE : submit == SUBMIT_PENDING)
        die("what waits");
    client->misses += submit == SUBMIT_KEEP;
    arena_reset(&client->arena);
}

static void run_batches(struct client *client, uint64_t calls, bool is_write)
{
    const struct backend_ops *ops = client->lane->ops;
    for (uint64_t done = 0; done < calls; done += BATCH) {
        ops->lane_begin(client->lane);
        for (int i = 0; i < BATCH; i++)
            run_call(client, next_key(client), is_write);
        ops->lane_end(client->lane);
    }
}

/* ---- who is beside ---- */

static struct backend *the_cache;
static atomic_bool must_stop;
static atomic_uint_fast64_t written;

/* is_write  a bool: writes, else reads */
static void *run_all_the_time(void *is_write)
{
    bool is_writer = *(bool *)is_write;
    struct client *client = client_open(the_cache, 99);
    while (!atomic_load(&must_stop)) {
        run_batches(client, 1024, is_writer);
        atomic_fetch_add(&written, is_writer ? 1024 : 0);
    }
    client->lane->ops->lane_close(&client->lane);
    free(client);
    return NULL;
}

static double ns_a_hit(struct client *client)
{
    uint64_t begun = now_ns(CLOCK_THREAD_CPUTIME_ID);
    run_batches(client, ROUND_HITS, false);
    return (double)(now_ns(CLOCK_THREAD_CPUTIME_ID) - begun) / ROUND_HITS;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, size_t count)
{
    qsort(values, count, sizeof *values, compare);
    return values[count / 2];
}

/* Medians of ns a hit, alone and beside another thread, and of their ratio. */
struct figures {
    double alone, beside, ratio;
};

static struct figures measure(struct client *reader, bool is_writer_beside)
{
    double alone[ROUNDS], beside[ROUNDS], ratio[ROUNDS];
    for (int round = 0; round < ROUNDS; round++) {
        pthread_t thread;
        reader->misses = 0;
        alone[round] = ns_a_hit(reader);
        if (reader->misses != 0)
            die("misses without a writer");
        atomic_store(&must_stop, false);
        if (pthread_create(&thread, NULL, run_all_the_time, &is_writer_beside) != 0)
            die("no thread");
        beside[round] = ns_a_hit(reader);
        atomic_store(&must_stop, true);
        (void)pthread_join(thread, NULL);
        /* Of keys that were just being written. */
        if (reader->misses > ROUND_HITS / 100)
            die("more than one read of a hundred missed");
        ratio[round] = beside[round] / alone[round];
    }
    return (struct figures){median(alone, ROUNDS), median(beside, ROUNDS), median(ratio, ROUNDS)};
}

int main(int argument_count, char **arguments)
{
    if (argument_count > 1)
        item_count = strtoull(arguments[1], NULL, 10);
    struct backend *below = instant_backend(NULL);
    struct cache_options options = {.memory_bytes = 1ull << 30,
                                    .threads = 2,
                                    .seed = 7,
                                    .waiters_max = 1,
                                    .policies.fallback = {.is_enabled = true}};
    struct error error;
    if (item_count == 0 || cache_open(&options, &below, &the_cache, &error) != STATUS_OK)
        return 1;
    struct client *reader = client_open(the_cache, 1);
    for (uint64_t key = 0; key < item_count; key++) {
        reader->lane->ops->lane_begin(reader->lane);
        run_call(reader, key, true);
        reader->lane->ops->lane_end(reader->lane);
    }
    struct figures all = measure(reader, true);
    (void)printf("%llu items: %.0f ns a hit alone, %.0f ns beside a writer (%llu writes): %.3fx\n",
                 (unsigned long long)item_count, all.alone, all.beside,
                 (unsigned long long)atomic_load(&written), all.ratio);
    item_count = 1;
    struct figures one = measure(reader, false);
    (void)printf("one item: %.0f ns a hit alone, %.0f ns beside another reader of it: %.3fx\n",
                 one.alone, one.beside, one.ratio);
    reader->lane->ops->lane_close(&reader->lane);
    free(reader);
    the_cache->ops->close(&the_cache);
    return 0;
}
