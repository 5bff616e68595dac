#include "clients/cli/cli.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- messages ---- */

int report_error(const struct mudax_error *error, const char *operation)
{
    if (error->code < MUDAX_CONNECT_ERROR) {
        (void)fprintf(stderr, "\nAn error occurred (%s) when calling the %s operation: %s\n",
                      error->name, operation, error->text);
        return EXIT_SERVICE;
    }
    (void)fprintf(stderr, "\nmudax: %s: %s (%s)\n", operation, error->text, error->name);
    return error->code == MUDAX_INVALID_REQUEST ? EXIT_USAGE : EXIT_CONNECTION;
}

int report_no_memory(void)
{
    (void)fputs("\nmudax: this process has no memory left\n", stderr);
    return EXIT_CONNECTION;
}

struct mudax_error error_no_memory(void)
{
    return (struct mudax_error){MUDAX_NO_MEMORY, "MudaxNoMemory", "This process has no memory left",
                                false};
}

int report_usage(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)fputs("\nmudax: ", stderr);
    (void)vfprintf(stderr, format, arguments); // NOLINT(clang-analyzer-valist.Uninitialized)
    (void)fputs(
        "\nusage: mudax VERB [options]; \"mudax help\" lists the verbs, \"mudax VERB help\" "
        "the options\n",
        stderr);
    va_end(arguments);
    return EXIT_USAGE;
}

/* ---- files ---- */

char *read_stream(FILE *file, const char *head, size_t head_size, size_t *size)
{
    enum { FILE_MAX = 1 << 30, FIRST = 65536 };
    size_t capacity = head_size + FIRST;
    char *text = malloc(capacity);
    if (text != NULL && head_size != 0)
        memcpy(text, head, head_size);
    *size = head_size;
    while (text != NULL) {
        *size += fread(text + *size, 1, capacity - *size - 1, file);
        if (*size < capacity - 1)
            break; /* the end, or an error */
        capacity *= 2;
        char *grown = capacity > FILE_MAX ? NULL : realloc(text, capacity);
        if (grown == NULL)
            free(text);
        text = grown;
    }
    if (text != NULL && ferror(file) != 0) {
        free(text);
        text = NULL;
    }
    if (text != NULL)
        text[*size] = '\0';
    return text;
}

char *read_file(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    char *text = file == NULL ? NULL : read_stream(file, NULL, 0, size);
    if (file != NULL)
        (void)fclose(file);
    if (text == NULL)
        (void)report_usage("the file %s cannot be read, or is too large", path);
    return text;
}

/* ---- time ---- */

uint64_t now_us(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}
