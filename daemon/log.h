/* log.h - logfmt lines on standard error: ts=... level=info event=... key=value.
 *
 * Threads: any; a line is one write. */
#pragma once

#include "protocol/attributes.h"

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARN, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

/* Least level that is written; any thread. */
void log_level_set(enum log_level level);

/* event   what happened, one word with underscores
 * format  further `key=value` pairs; a value with blanks goes through log_quote(), may be "" */
void log_line(enum log_level level, const char *event, const char *format, ...) PRINTF_LIKE(3, 4);

enum { LOG_QUOTED_MAX = 512 };

/* `text` in quotes with quotes, backslashes and control bytes escaped, cut at the buffer's size.
 * Returns `out`. */
const char *log_quote(const char *text, char out[LOG_QUOTED_MAX]);
