/* ensure.h - the check that stays on in release.
 *
 * For mistakes of ours, never for input: a failed check stops the process and names the expression,
 * the place and the thread. */
#pragma once

#include "protocol/attributes.h"

#define ensure(truth) (LIKELY(truth) ? (void)0 : ensure_failed(#truth, __FILE__, __LINE__))

/* Writes one line to standard error and aborts. */
_Noreturn void ensure_failed(const char *expression, const char *file, int line);
