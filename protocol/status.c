#include "protocol/status.h"

#include <stdarg.h>
#include <stdio.h>

struct status_row {
    const char *name;
    const char *text;
    int http;
    bool is_retryable;
};

static const struct status_row rows[] = {
#define STATUS(name, number, client_name, http, retryable, text)                                   \
    [number] = {client_name, text, http, retryable},
#include "protocol/status.def"
#undef STATUS
};

static const struct status_row *row_of(enum status status)
{
    size_t number = (size_t)status;
    return number < sizeof rows / sizeof rows[0] ? &rows[number] : &rows[STATUS_INTERNAL];
}

const char *status_name(enum status status)
{
    return row_of(status)->name;
}

int status_http(enum status status)
{
    return row_of(status)->http;
}

bool status_is_retryable(enum status status)
{
    return row_of(status)->is_retryable;
}

const char *status_text(enum status status)
{
    return row_of(status)->text;
}

enum status error_set(struct error *error, enum status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    error->status = status;
    error->is_misfit = false;
    (void)vsnprintf(error->text, sizeof error->text, format, arguments);
    va_end(arguments);
    return status;
}

const char *error_text(const struct error *error)
{
    return error->text[0] != '\0' ? error->text : status_text(error->status);
}
