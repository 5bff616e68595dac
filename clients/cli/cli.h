/* cli.h - what the parts of the command line share. One thread. */
#pragma once

#include <mudax.h>

#include <stdio.h>

/* As the AWS CLI's. */
enum {
    EXIT_USAGE = 252,
    EXIT_SERVICE = 254,    /* the daemon answered with an error */
    EXIT_CONNECTION = 255, /* no answer; anything else */
};

/* Says what happened, as the AWS CLI does, and gives the exit code.
 * operation  "GetItem", ... */
int report_error(const struct mudax_error *error, const char *operation);
int report_no_memory(void);
struct mudax_error error_no_memory(void);

#define PRINTF_LIKE(text, args) __attribute__((format(printf, text, args)))

/* "mudax: ..." and where to look for help. Returns EXIT_USAGE. */
int report_usage(const char *format, ...) PRINTF_LIKE(1, 2);

/* The contents of a file, NUL-terminated; passes to the caller. NULL, with a message written, when
 * it cannot be read or is larger than 1 GiB. */
char *read_file(const char *path, size_t *size);

/* Likewise, of a file that was opened: the `head_size` bytes that were read of it, and all the
 * rest. Writes no message. */
char *read_stream(FILE *file, const char *head, size_t head_size, size_t *size);

/* Monotonic, microseconds. */
uint64_t now_us(void);
