/* status.h - every error in one table: name, what a client sees, retryable or not, text. */
#pragma once

#include "protocol/attributes.h"
#include "protocol/bytes.h"

enum status {
#define STATUS(name, number, client_name, http, retryable, text) STATUS_##name = (number),
#include "protocol/status.def"
#undef STATUS
};

/* DynamoDB's exception name, "" for OK. Unknown numbers read as InternalServerError. */
const char *status_name(enum status status);
int status_http(enum status status);
bool status_is_retryable(enum status status);
const char *status_text(enum status status);

/* What went wrong with one request, for the client to read. */
struct error {
    enum status status;
    bool is_misfit; /* VALIDATION: a key is not what its table's or index's schema says: of another
                       type, or missing. A transaction is canceled for it, not refused */
    char text[240]; /* NUL-terminated; "" means status_text() */
};

/* Fills `error` (cut at its size) and returns `status`, so that one can `return error_set(...)`. */
enum status error_set(struct error *error, enum status status, const char *format, ...)
    PRINTF_LIKE(3, 4);

/* Says so of an error that has been set, and returns its status. */
static inline enum status error_is_misfit(struct error *error)
{
    error->is_misfit = true;
    return error->status;
}

/* The text to show: the error's own, else the table's. */
const char *error_text(const struct error *error);
