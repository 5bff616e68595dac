#include "daemon/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static atomic_int least = LOG_LEVEL_INFO;

void log_level_set(enum log_level level)
{
    atomic_store_explicit(&least, (int)level, memory_order_relaxed);
}

void log_line(enum log_level level, const char *event, const char *format, ...)
{
    static const char *const names[] = {"error", "warn", "info", "debug"};
    if ((int)level > atomic_load_explicit(&least, memory_order_relaxed))
        return;
    struct timespec now;
    struct tm parts;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    (void)gmtime_r(&now.tv_sec, &parts);
    char line[2048];
    size_t used = strftime(line, sizeof line, "ts=%Y-%m-%dT%H:%M:%S", &parts);
    used += (size_t)snprintf(line + used, sizeof line - used, ".%03ldZ level=%s event=%s",
                             now.tv_nsec / 1000000, names[level], event);
    va_list arguments;
    va_start(arguments, format);
    int more = vsnprintf(line + used + 1, sizeof line - used - 2, format, arguments);
    va_end(arguments);
    if (more > 0) { /* else nothing but the event is to be said */
        line[used] = ' ';
        used += 1 + (size_t)more;
    }
    if (used > sizeof line - 2)
        used = sizeof line - 2;
    line[used++] = '\n';
    ssize_t written = write(STDERR_FILENO, line, used);
    (void)written; /* nobody left to tell */
}

const char *log_quote(const char *text, char out[LOG_QUOTED_MAX])
{
    size_t used = 0;
    out[used++] = '"';
    for (; *text != '\0' && used < LOG_QUOTED_MAX - 4; text++) {
        unsigned char octet = (unsigned char)*text;
        if (octet == '"' || octet == '\\')
            out[used++] = '\\';
        out[used++] = octet < 0x20 || octet == 0x7f ? '?' : (char)octet;
    }
    out[used++] = '"';
    out[used] = '\0';
    return out;
}
