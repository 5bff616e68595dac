#include "daemon/server.h"

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

int main(int argument_count, char **arguments)
{
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
