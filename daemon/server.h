/* server.h - starts and stops everything; stop is start read backwards.
 *
 * Threads: main's. */
#pragma once

#include "daemon/config.h"

/* Reads the settings once more, for SIGHUP. */
typedef enum config_result (*config_reader_fn)(void *arg, struct config **out, char *error,
                                               size_t error_size);

/* Runs until SIGTERM or SIGINT.
 * config  caller's; what SIGHUP may change is changed in it
 * Returns the process's exit status; what went wrong has been logged. */
int server_run(struct config *config, config_reader_fn reader, void *reader_arg);
