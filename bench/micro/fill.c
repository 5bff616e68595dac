/* bench-fill: what filling and evicting costs at its worst, and what memory is left of it.
 *
 * usage: bench-fill [FILLS [MEBIBYTES]]
 * Fills a cache with items of 50 B to 400 KB (equally many in each doubling), most of which must
 * evict others, beside housekeeping as the daemon does it. Prints the longest fills (performance
 * row 20), and the process's resident memory against what is promised: 1.02 of the budget and
 * 40 MiB. Then fills it with small items, lets half of them expire at once, and prints how soon the
 * memory is back, how long a turn of housekeeping takes, and how long hits of the others take
 * meanwhile. */
#include "bench/micro/instant.h"
#include "cache/cache.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum {
    SIZE_MIN = 50,
    SIZE_MOST = 400000,
    ITEM_TTL_MS = 60000,
    HOUSE_PAUSE_US = 100000,    /* between turns of housekeeping, as in the daemon */
    HOUSE_PAUSE_MORE_US = 1000, /* when there is more to do */
    REPORTS = 10,
    BUCKETS = 64 * 16, /* sixteenths of doublings of nanoseconds */
};

static struct backend *the_cache;
static atomic_uint_fast64_t now_us = 1000000; /* the cache's clock: moved by hand */
static atomic_bool must_stop;
static uint8_t value[SIZE_MOST];
static size_t value_size;

static uint64_t clock_ns(clockid_t clock)
{
    struct timespec now;
    (void)clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static uint64_t cpu_ns(void)
{
    return clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

static double wall_s(void)
{
    return (double)clock_ns(CLOCK_MONOTONIC) / 1e9;
}

static double resident_mib(void)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file == NULL || fscanf(file, "%*d %ld", &pages) != 1)
        exit(1);
    (void)fclose(file);
    return (double)pages * (double)sysconf(_SC_PAGESIZE) / 1048576;
}

static uint64_t random_next(uint64_t *state)
{
    uint64_t x = *state += 0x9e3779b97f4a7c15ull;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

/* ---- times ---- */

struct times {
    uint64_t buckets[BUCKETS], count, worst_ns;
};

static void times_add(struct times *times, uint64_t ns)
{
    unsigned doubling = ns < 16 ? 4 : 63 - (unsigned)__builtin_clzll(ns);
    unsigned sixteenth = (unsigned)(ns >> (doubling - 4)) & 15;
    times->buckets[doubling * 16 + sixteenth]++;
    times->count++;
    times->worst_ns = ns > times->worst_ns ? ns : times->worst_ns;
}

static double times_us(const struct times *times, double share)
{
    uint64_t left = (uint64_t)((double)times->count * (1 - share));
    for (unsigned i = BUCKETS; i-- > 0;) {
        if (times->buckets[i] > left)
            return (double)((16 + (i & 15) + 1) * (1ull << (i / 16)) / 16) / 1e3;
        left -= times->buckets[i];
    }
    return 0;
}

static void times_print(const char *what, const struct times *times)
{
    (void)printf("%s: p50 %.1f, p99 %.1f, p99.9 %.1f, worst %.1f\n", what, times_us(times, 0.5),
                 times_us(times, 0.99), times_us(times, 0.999), (double)times->worst_ns / 1e3);
}

/* ---- housekeeping ---- */

static struct times turns;

static void *keep_house(void *arg)
{
    (void)arg;
    while (!atomic_load(&must_stop)) {
        uint64_t begun = cpu_ns();
        bool has_more = cache_housekeep(the_cache, atomic_load(&now_us));
        times_add(&turns, cpu_ns() - begun);
        (void)usleep(has_more ? HOUSE_PAUSE_MORE_US : HOUSE_PAUSE_US);
    }
    return NULL;
}

struct figure {
    const char *name;
    double value;
};

static void take_figure(void *arg, const struct metric *metric, const char *labels, double is)
{
    struct figure *figure = arg;
    (void)labels;
    if (strcmp(metric->name, figure->name) == 0)
        figure->value += is;
}

static double figure_of(const char *name)
{
    struct figure figure = {.name = name};
    the_cache->ops->report(the_cache, take_figure, &figure);
    return figure.value;
}

/* ---- fills ---- */

/* {"p": ..., "v": binary}: only its size matters to the cache. */
static struct bytes body(void)
{
    return bytes_of(value, value_size);
}

/* How long it took. */
static uint64_t ask(struct lane *lane, struct arena *arena, uint64_t key, clockid_t clock)
{
    uint8_t map[64];
    map[0] = 0x81;
    int size =
        snprintf((char *)map + 1, sizeof map - 1, "\xa1p\xb8%024llu", (unsigned long long)key);
    struct call call = {.arena = arena, .now_us = atomic_load(&now_us)};
    call.request.operation = OPERATION_GET_ITEM;
    call.request.table_name = instant_table.name;
    call.request.key = bytes_of(map, (size_t)size + 1);
    reply_init(&call.reply);
    uint64_t begun = clock_ns(clock);
    lane->ops->lane_begin(lane);
    enum submit submit = lane->ops->submit(lane, &call);
    lane->ops->lane_end(lane);
    uint64_t ns = clock_ns(clock) - begun;
    if (submit != SUBMIT_DONE || call.reply.status != STATUS_OK)
        exit(1);
    arena_reset(arena);
    return ns;
}

static uint64_t fill(struct lane *lane, struct arena *arena, uint64_t key)
{
    return ask(lane, arena, key, CLOCK_THREAD_CPUTIME_ID);
}

/* Equally many in each doubling, evenly within it. */
static size_t random_size(uint64_t *state)
{
    static const double doublings = 12.9531; /* from the least to the largest */
    double at = (double)(random_next(state) >> 11) / 9007199254740992.0 * doublings;
    unsigned whole = (unsigned)at;
    return (size_t)(SIZE_MIN * (double)(1u << whole) * (1 + at - whole));
}

static void fill_with_all_sizes(struct lane *lane, struct arena *arena, uint64_t fills,
                                double budget_mib)
{
    struct times times = {0};
    uint64_t state = 1, key = 0;
    double most_mib = 0, begun = wall_s();
    for (int report = 1; report <= REPORTS; report++) {
        for (; key < fills / REPORTS * (uint64_t)report; key++) {
            value_size = random_size(&state);
            times_add(&times, fill(lane, arena, key));
        }
        double mib = resident_mib();
        most_mib = mib > most_mib ? mib : most_mib;
        (void)printf("%llu fills, %.0f s: %.1f MiB resident, %.0f entries\n",
                     (unsigned long long)key, wall_s() - begun, mib, figure_of("cache_entries"));
        (void)fflush(stdout);
    }
    times_print("a fill, us of CPU", &times);
    (void)printf("resident at most %.1f MiB; promised %.1f\n", most_mib, 1.02 * budget_mib + 40);
}

/* Fills with `count` items from `key` on, half a life after what was filled before. */
static void fill_small(struct lane *lane, struct arena *arena, uint64_t key, uint64_t count)
{
    atomic_fetch_add(&now_us, ITEM_TTL_MS * 500ull);
    for (uint64_t i = 0; i < count; i++)
        (void)fill(lane, arena, key + i);
}

static void expire_half(struct lane *lane, struct arena *arena, double budget_mib)
{
    enum { HITS = 1000 };
    static struct times hits;
    uint64_t half = (uint64_t)(budget_mib * 2000), old = UINT64_MAX / 2, young = old + half;
    uint64_t state = 2;
    value_size = 100;
    atomic_fetch_add(&now_us, ITEM_TTL_MS * 1000ull); /* none of the others is left to expire */
    while (figure_of("cache_entries") > 0)
        (void)usleep(1000);
    fill_small(lane, arena, old, half);
    fill_small(lane, arena, young, half);
    double all = figure_of("cache_entries"), misses = figure_of("cache_misses_total");
    turns = (struct times){0};
    atomic_fetch_add(&now_us, (ITEM_TTL_MS / 2 + 1000) * 1000ull);
    double begun = wall_s();
    while (figure_of("cache_entries") > (double)half && wall_s() - begun < 60)
        for (int i = 0; i < HITS; i++)
            times_add(&hits, ask(lane, arena, young + random_next(&state) % half, CLOCK_MONOTONIC));
    (void)printf("half of %.0f entries expired at once: back after %.2f s\n", all,
                 wall_s() - begun);
    times_print("a turn of housekeeping, us of CPU", &turns);
    times_print("a hit of the others beside it, us", &hits);
    if (figure_of("cache_misses_total") != misses)
        (void)printf("%.0f of them were misses\n", figure_of("cache_misses_total") - misses);
}

int main(int argument_count, char **arguments)
{
    uint64_t fills = argument_count > 1 ? strtoull(arguments[1], NULL, 10) : 1000000;
    size_t mib = argument_count > 2 ? strtoull(arguments[2], NULL, 10) : 256;
    static uint8_t memory[64 * 1024];
    struct arena arena;
    struct lane *lane;
    pthread_t house;
    struct error error;
    struct backend *below = instant_backend(body);
    struct cache_options options = {
        .memory_bytes = mib << 20,
        .threads = 2,
        .seed = 7,
        .now_us = atomic_load(&now_us),
        .waiters_max = 1,
        .policies.fallback = {.is_enabled = true, .item_ttl_ms = ITEM_TTL_MS}};
    if (cache_open(&options, &below, &the_cache, &error) != STATUS_OK ||
        the_cache->ops->lane_open(the_cache, &instant_env, &lane) != STATUS_OK ||
        pthread_create(&house, NULL, keep_house, NULL) != 0)
        return 1;
    arena_init(&arena, memory, sizeof memory, 64 << 20);
    fill_with_all_sizes(lane, &arena, fills, (double)mib);
    expire_half(lane, &arena, (double)mib);
    atomic_store(&must_stop, true);
    (void)pthread_join(house, NULL);
    arena_deinit(&arena);
    lane->ops->lane_close(&lane);
    the_cache->ops->close(&the_cache);
    return 0;
}
