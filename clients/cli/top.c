#include "clients/cli/top.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { LINES_MAX = 1000, LABEL_MAX = 300, REDRAW_MS = 2000, ROWS = 40 };

static const char requests_name[] = "cache_hot_key_requests_per_second{";
static const char hits_name[] = "cache_hot_key_hits_per_second{";
static const char reasons_name[] = "cache_miss_reasons_total{";

/* ---- figures ---- */

/* The value of one label of name{a="..",b=".."}, without its escapes; "" if there is none. */
static void read_label(const char *labels, size_t size, const char *name, char out[LABEL_MAX])
{
    size_t used = 0, name_size = strlen(name);
    const char *at = labels, *end = labels + size;
    out[0] = '\0';
    while (at + name_size + 2 < end &&
           (memcmp(at, name, name_size) != 0 || at[name_size] != '=' || at[name_size + 1] != '"')) {
        at = memchr(at, '"', (size_t)(end - at)); /* over this label's value */
        if (at == NULL)
            return;
        for (at++; at < end && *at != '"'; at++)
            at += *at == '\\';
        at += 2; /* the quote and the comma */
    }
    for (at += name_size + 2; at < end && *at != '"' && used + 1 < LABEL_MAX; at++) {
        if (*at == '\\' && at + 1 < end)
            at++;
        out[used++] = *at;
    }
    out[used] = '\0';
}

static double number_of(const struct mudax_value *value)
{
    char text[MUDAX_NUMBER_TEXT];
    const char *number = mudax_number_text(value, text);
    return number == NULL ? 0 : strtod(number, NULL);
}

/* What follows `name` in the name of a figure; NULL: it is another one. */
static const char *labels_of(const char *figure, size_t size, const char *name, size_t *rest)
{
    size_t name_size = strlen(name);
    if (figure == NULL || size < name_size || memcmp(figure, name, name_size) != 0)
        return NULL;
    *rest = size - name_size;
    return figure + name_size;
}

/* ---- hot keys ---- */

struct line {
    char table[LABEL_MAX], kind[LABEL_MAX], key[LABEL_MAX];
    double requests, hits;
};

static double find_hits(const struct mudax_value *figures, const char *labels, size_t size)
{
    for (size_t i = 0; i < mudax_count(figures); i++) {
        size_t name_size, rest;
        const char *name = mudax_name_at(figures, i, &name_size);
        const char *other = labels_of(name, name_size, hits_name, &rest);
        if (other != NULL && rest == size && memcmp(other, labels, size) == 0)
            return number_of(mudax_at(figures, i));
    }
    return 0;
}

static size_t read_lines(const struct mudax_value *figures, struct line *lines)
{
    size_t count = 0;
    for (size_t i = 0; i < mudax_count(figures) && count < LINES_MAX; i++) {
        size_t size, rest;
        const char *name = mudax_name_at(figures, i, &size);
        const char *labels = labels_of(name, size, requests_name, &rest);
        if (labels == NULL)
            continue;
        struct line *line = &lines[count++];
        read_label(labels, rest, "table", line->table);
        read_label(labels, rest, "kind", line->kind);
        read_label(labels, rest, "key", line->key);
        line->requests = number_of(mudax_at(figures, i));
        line->hits = find_hits(figures, labels, rest);
    }
    return count;
}

static int by_rate(const void *a, const void *b)
{
    double left = ((const struct line *)a)->requests, right = ((const struct line *)b)->requests;
    return (left < right) - (left > right);
}

static bool print_lines(const struct mudax_value *figures)
{
    struct line *lines = calloc(LINES_MAX, sizeof *lines);
    if (lines == NULL)
        return false;
    size_t count = read_lines(figures, lines);
    qsort(lines, count, sizeof *lines, by_rate);
    (void)printf("%10s %6s  %-6s %-20s %s\n", "REQUESTS/S", "HITS", "KIND", "TABLE", "KEY");
    for (size_t i = 0; i < count && i < ROWS; i++) {
        double percent = lines[i].requests > 0 ? 100 * lines[i].hits / lines[i].requests : 0;
        (void)printf("%10.0f %5.0f%%  %-6s %-20s %s\n", lines[i].requests, percent, lines[i].kind,
                     lines[i].table, lines[i].key);
    }
    free(lines);
    return true;
}

/* ---- misses ---- */

static void print_reasons(const struct mudax_value *figures)
{
    (void)printf("\n%10s  %-6s %-20s %s\n", "MISSES", "KIND", "TABLE", "BECAUSE");
    for (size_t i = 0; i < mudax_count(figures); i++) {
        char table[LABEL_MAX], kind[LABEL_MAX], reason[LABEL_MAX];
        size_t size, rest;
        const char *name = mudax_name_at(figures, i, &size);
        const char *labels = labels_of(name, size, reasons_name, &rest);
        if (labels == NULL)
            continue;
        read_label(labels, rest, "table", table);
        read_label(labels, rest, "kind", kind);
        read_label(labels, rest, "reason", reason);
        (void)printf("%10.0f  %-6s %-20s %s\n", number_of(mudax_at(figures, i)), kind, table,
                     reason);
    }
}

/* ---- drawing ---- */

static int draw(struct mudax *db, bool is_live)
{
    static const struct mudax_request stats = {.operation = MUDAX_STATS};
    struct mudax_reply *reply;
    struct mudax_error error;
    if (mudax_call(db, &stats, &reply, &error) != MUDAX_OK)
        return report_error(&error, "Stats");
    const struct mudax_value *figures = mudax_reply_description(reply);
    if (is_live && isatty(STDOUT_FILENO))
        (void)fputs("\033[H\033[2J", stdout); /* to the corner, and all away */
    bool is_done = print_lines(figures);
    print_reasons(figures);
    mudax_reply_free(reply);
    (void)fflush(stdout);
    return is_done ? 0 : report_no_memory();
}

int top(struct mudax *db, bool is_once)
{
    static const struct timespec pause = {.tv_sec = REDRAW_MS / 1000,
                                          .tv_nsec = REDRAW_MS % 1000 * 1000000L};
    int exit_code = draw(db, !is_once);
    while (exit_code == 0 && !is_once && ferror(stdout) == 0) {
        (void)nanosleep(&pause, NULL);
        exit_code = draw(db, true);
    }
    return exit_code;
}
