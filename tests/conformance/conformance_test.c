/* Requests and their right answers, on every store there is, bare and behind a cache. */
#include "backend/engine/engine.h"
#include "cache/cache.h"
#include "tests/conformance/script.h"
#include "tests/support/redis_server.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- backends ---- */

static uint64_t wall_ms(void)
{
    return 1700000000123;
}

static struct backend *open_engine(const char *url)
{
    struct engine_options options = {
        .store = {.url = bytes_text(url), .memory_bytes = 64 << 20, .sync = SYNC_NONE},
        .partitions = 16,
        .tables_max = 100,
        .collection_bytes_max = 1 << 20, /* so that a case can reach it */
        .wall_ms = wall_ms,
    };
    struct backend *backend;
    struct error error;
    if (engine_open(&options, &backend, &error) != STATUS_OK)
        fail_msg("%s", error.text);
    return backend;
}

enum mode { MODE_BARE, MODE_CACHED, MODE_CACHE_OFF, MODE_NATIVE, MODE_HTTP, MODES };
static const char *const mode_names[MODES] = {"", "cache over ", "cache that is off over ",
                                              "native protocol, cache over ",
                                              "DynamoDB's API, cache over "};

static bool is_cached(enum mode mode)
{
    return mode != MODE_BARE && mode != MODE_CACHE_OFF;
}

static struct backend *open_cache(struct backend *below, enum mode mode)
{
    struct cache_options options = {
        .memory_bytes = 64 << 20,
        .threads = 1,
        .seed = 42,
        .waiters_max = 100,
        .policies.fallback = {.is_enabled = is_cached(mode),
                              .item_ttl_ms = 300000,
                              .query_ttl_ms = 300000,
                              .negative_ttl_max_ms = 60000},
    };
    struct backend *cache;
    struct error error;
    if (cache_open(&options, &below, &cache, &error) != STATUS_OK)
        fail_msg("%s", error.text);
    return cache;
}

/* ---- tests ---- */

static const struct file {
    const char *name;
    bool is_cache_only;
} files[] = {{"items.cases", false},      {"queries.cases", false},      {"tables.cases", false},
             {"conditions.cases", false}, {"filters.cases", false},      {"updates.cases", false},
             {"freshness.cases", false},  {"indexes.cases", false},      {"scans.cases", false},
             {"batches.cases", false},    {"transactions.cases", false}, {"changes.cases", false},
             {"capacity.cases", false},   {"collections.cases", false},  {"limits.cases", false},
             {"tags.cases", false},       {"cache.cases", true},         {"purges.cases", true},
             {"explains.cases", true}};
enum { FILES = sizeof files / sizeof files[0], TESTS_MAX = 512, STORES_MAX = 4 };

struct test {
    const struct script *script;
    size_t number;
};

static const char *url;
static enum mode mode;
static struct session session, behind;
static struct script_stage stage;

static int set_up(void **state)
{
    (void)state;
    struct backend *engine = open_engine(url), *backend = engine;
    stage = (struct script_stage){
        .session = &session, .behind = &behind, .is_cache_on = is_cached(mode)};
    stage.over = mode == MODE_NATIVE ? OVER_NATIVE : mode == MODE_HTTP ? OVER_HTTP : OVER_NOTHING;
    if (mode != MODE_BARE)
        stage.cache = backend = open_cache(engine, mode);
    session_open(&session, backend);
    session_open(&behind, engine);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    struct backend *backend = session.backend;
    session_close(&behind);
    session_close(&session);
    backend->ops->close(&backend);
    return 0;
}

static void run_case(void **state)
{
    const struct test *test = *state;
    char why[4096];
    if (!script_run(test->script, test->number, &stage, why, sizeof why))
        fail_msg("%s", why);
}

/* ---- stores, each opened empty ---- */

static char directory[] = "conformance-XXXXXX";

static bool remove_directory(void)
{
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", directory);
    return system(command) == 0;
}

#ifdef MUDAX_REDIS_SERVER
static struct redis_server redis;

static void empty_redis(void)
{
    (void)redis_server_command(&redis, "FLUSHALL");
}
#endif

/* Runs all cases on the store, bare and behind a cache; and over the wires, which know nothing of
 * stores, if it is the first. */
static int run_store(const struct CMUnitTest *units, size_t count, size_t cache_only, bool is_first)
{
    int failed = 0;
    for (mode = MODE_BARE; mode < (is_first ? MODES : MODE_NATIVE); mode++) {
        char name[128];
        snprintf(name, sizeof name, "%sengine over %s", mode_names[mode], url);
        failed += !remove_directory();
#ifdef MUDAX_REDIS_SERVER
        empty_redis();
#endif
        failed += _cmocka_run_group_tests(name, units, is_cached(mode) ? count : count - cache_only,
                                          set_up, tear_down);
    }
    return failed;
}

int main(void)
{
    static struct CMUnitTest units[TESTS_MAX];
    static struct test tests[TESTS_MAX];
    struct script *scripts[FILES];
    size_t count = 0, cache_only = 0;
    for (size_t f = 0; f < FILES; f++) {
        char path[512];
        snprintf(path, sizeof path, "%s/%s", MUDAX_CASES, files[f].name);
        scripts[f] = script_read(path);
        for (size_t i = 0; i < script_cases(scripts[f]); i++, count++) {
            assert_true(count < TESTS_MAX);
            tests[count] = (struct test){scripts[f], i};
            units[count] = (struct CMUnitTest){script_case_name(scripts[f], i), run_case, NULL,
                                               NULL, &tests[count]};
            cache_only += files[f].is_cache_only;
        }
    }
    char rocksdb[64];
    if (mkdtemp(directory) == NULL)
        return 1;
    snprintf(rocksdb, sizeof rocksdb, "rocksdb:%s", directory);
    const char *urls[STORES_MAX] = {"memory:", "memory:?delay=1ms", rocksdb};
    size_t stores = 3;
#ifdef MUDAX_REDIS_SERVER
    redis_server_start(&redis, NULL);
    urls[stores++] = redis.url;
#endif
    int failed = 0;
    for (size_t i = 0; i < stores; i++) {
        url = urls[i];
        failed += run_store(units, count, cache_only, i == 0);
    }
#ifdef MUDAX_REDIS_SERVER
    redis_server_end(&redis);
#endif
    for (size_t f = 0; f < FILES; f++)
        script_free(scripts[f]);
    return failed + !remove_directory();
}
