/* Requests and their right answers, on every backend there is. */
#include "backend/engine/engine.h"
#include "tests/conformance/script.h"

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
        .wall_ms = wall_ms,
    };
    struct backend *backend;
    struct error error;
    if (engine_open(&options, &backend, &error) != STATUS_OK)
        fail_msg("%s", error.text);
    return backend;
}

static struct backend *open_memory(void)
{
    return open_engine("memory:");
}

static struct backend *open_slow_memory(void)
{
    return open_engine("memory:?delay=1ms");
}

static char directory[] = "conformance-XXXXXX";

static struct backend *open_rocksdb(void)
{
    char url[64];
    assert_non_null(mkdtemp(directory));
    snprintf(url, sizeof url, "rocksdb:%s", directory);
    return open_engine(url);
}

static const struct factory {
    const char *name;
    struct backend *(*open)(void);
} factories[] = {
    {"engine over memory", open_memory},
    {"engine over slow memory", open_slow_memory},
    {"engine over rocksdb", open_rocksdb},
};

/* ---- tests ---- */

static const char *const files[] = {"items.cases", "queries.cases", "tables.cases"};
enum { FILES = sizeof files / sizeof files[0], TESTS_MAX = 512 };

struct test {
    const struct script *script;
    size_t number;
};

static const struct factory *factory;
static struct session session;

static int set_up(void **state)
{
    (void)state;
    session_open(&session, factory->open());
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    struct backend *backend = session.backend;
    session_close(&session);
    backend->ops->close(&backend);
    return 0;
}

static void run_case(void **state)
{
    const struct test *test = *state;
    char why[4096];
    if (!script_run(test->script, test->number, &session, why, sizeof why))
        fail_msg("%s", why);
}

int main(void)
{
    static struct CMUnitTest units[TESTS_MAX];
    static struct test tests[TESTS_MAX];
    struct script *scripts[FILES];
    size_t count = 0;
    for (size_t f = 0; f < FILES; f++) {
        char path[512];
        snprintf(path, sizeof path, "%s/%s", MUDAX_CASES, files[f]);
        scripts[f] = script_read(path);
        for (size_t i = 0; i < script_cases(scripts[f]); i++, count++) {
            assert_true(count < TESTS_MAX);
            tests[count] = (struct test){scripts[f], i};
            units[count] = (struct CMUnitTest){script_case_name(scripts[f], i), run_case, NULL,
                                               NULL, &tests[count]};
        }
    }
    int failed = 0;
    for (size_t i = 0; i < sizeof factories / sizeof factories[0]; i++) {
        factory = &factories[i];
        failed += _cmocka_run_group_tests(factory->name, units, count, set_up, tear_down);
    }
    for (size_t f = 0; f < FILES; f++)
        script_free(scripts[f]);
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", directory);
    return failed + (system(command) != 0);
}
