#include "daemon/server.h"

#include <malloc.h>
#include <stdio.h>

extern char **environ;

struct command_line {
    int count;
    char **texts;
};

static enum config_result read_settings(void *arg, struct config **out, char *error, size_t size)
{
    const struct command_line *command_line = arg;
    return config_read(command_line->count, command_line->texts, environ, out, error, size);
}

enum { HEAP_MAPPED_FROM = 64 * 1024, HEAP_TRIMMED_FROM = 256 * 1024 };

/* Large pieces (items on their way, RocksDB's buffers) get mappings of their own and go back when
 * they are freed. Left alone, glibc raises that threshold with every such piece and keeps holes
 * between them: 194 instead of 125 MiB resident in tests/e2e/memory.py. */
static void settle_heap(void)
{
#ifdef __GLIBC__
    (void)mallopt(M_MMAP_THRESHOLD, HEAP_MAPPED_FROM);
    (void)mallopt(M_TRIM_THRESHOLD, HEAP_TRIMMED_FROM);
#endif
}

int main(int argument_count, char **arguments)
{
    settle_heap();
    struct command_line command_line = {argument_count, arguments};
    struct config *config = NULL;
    char error[512];
    switch (read_settings(&command_line, &config, error, sizeof error)) {
    case CONFIG_HELP:
        return 0;
    case CONFIG_WRONG:
        (void)fprintf(stderr, "mudaxd: %s\n", error);
        return 2;
    case CONFIG_OK:
        break;
    }
    int exit_status = server_run(config, read_settings, &command_line);
    config_destroy(&config);
    return exit_status;
}
