/* failure.h - filling a struct mudax_error. */
#pragma once

#include "clients/c/src/retry.h"
#include "protocol/native/frame.h"

/* Fills `error` (may be NULL), cut at its size; is_retryable is false. Returns the code. */
int failure_set(struct mudax_error *error, enum mudax_code code, const char *format, ...)
    PRINTF_LIKE(3, 4);
int failure_no_memory(struct mudax_error *error);

/* The daemon's answer as an error. Returns the code. */
int failure_from_reply(struct mudax_error *error, const struct frame_reply *reply,
                       enum effect effect);
