#include "clients/cli/top.h"

#include "clients/cli/figures.h"

#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { REDRAW_MS = 2000, ROWS = 40 };

static const char reasons_name[] = "cache_miss_reasons_total{";

/* ---- hot keys ---- */

static bool print_hot(const struct mudax_value *figures)
{
    size_t count;
    struct hot_key *keys = figures_hot_keys(figures, &count);
    if (keys == NULL)
        return false;
    (void)printf("%10s %6s  %-6s %-20s %s\n", "REQUESTS/S", "HITS", "KIND", "TABLE", "KEY");
    if (count == 0)
        (void)puts("         - none in sight yet: one read in 64 is looked at");
    for (size_t i = 0; i < count && i < ROWS; i++) {
        double percent = keys[i].requests > 0 ? 100 * keys[i].hits / keys[i].requests : 0;
        (void)printf("%10.0f %5.0f%%  %-6s %-20s %s\n", keys[i].requests, percent, keys[i].kind,
                     keys[i].table, keys[i].key);
    }
    free(keys);
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
        const char *labels = figure_labels(name, size, reasons_name, &rest);
        if (labels == NULL)
            continue;
        figure_label(labels, rest, "table", table);
        figure_label(labels, rest, "kind", kind);
        figure_label(labels, rest, "reason", reason);
        (void)printf("%10.0f  %-6s %-20s %s\n", figure_number(mudax_at(figures, i)), kind, table,
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
    bool is_done = print_hot(figures);
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
