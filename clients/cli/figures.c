#include "clients/cli/figures.h"

#include <stdlib.h>
#include <string.h>

enum { KEYS_MAX = 1000 };

static const char requests_name[] = "cache_hot_key_requests_per_second{";
static const char hits_name[] = "cache_hot_key_hits_per_second{";

void figure_label(const char *labels, size_t size, const char *name, char out[LABEL_MAX])
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

double figure_number(const struct mudax_value *value)
{
    char text[MUDAX_NUMBER_TEXT];
    const char *number = mudax_number_text(value, text);
    return number == NULL ? 0 : strtod(number, NULL);
}

const char *figure_labels(const char *figure, size_t size, const char *name, size_t *rest)
{
    size_t name_size = strlen(name);
    if (figure == NULL || size < name_size || memcmp(figure, name, name_size) != 0)
        return NULL;
    *rest = size - name_size;
    return figure + name_size;
}

/* ---- hot keys ---- */

static double find_hits(const struct mudax_value *figures, const char *labels, size_t size)
{
    for (size_t i = 0; i < mudax_count(figures); i++) {
        size_t name_size, rest;
        const char *name = mudax_name_at(figures, i, &name_size);
        const char *other = figure_labels(name, name_size, hits_name, &rest);
        if (other != NULL && rest == size && memcmp(other, labels, size) == 0)
            return figure_number(mudax_at(figures, i));
    }
    return 0;
}

static size_t read_keys(const struct mudax_value *figures, struct hot_key *keys)
{
    size_t count = 0;
    for (size_t i = 0; i < mudax_count(figures) && count < KEYS_MAX; i++) {
        size_t size, rest;
        const char *name = mudax_name_at(figures, i, &size);
        const char *labels = figure_labels(name, size, requests_name, &rest);
        if (labels == NULL)
            continue;
        struct hot_key *hot = &keys[count++];
        figure_label(labels, rest, "table", hot->table);
        figure_label(labels, rest, "kind", hot->kind);
        figure_label(labels, rest, "key", hot->key);
        hot->requests = figure_number(mudax_at(figures, i));
        hot->hits = find_hits(figures, labels, rest);
    }
    return count;
}

static int by_rate(const void *a, const void *b)
{
    double left = ((const struct hot_key *)a)->requests,
           right = ((const struct hot_key *)b)->requests;
    return (left < right) - (left > right);
}

struct hot_key *figures_hot_keys(const struct mudax_value *figures, size_t *count)
{
    struct hot_key *keys = calloc(KEYS_MAX, sizeof *keys);
    if (keys == NULL)
        return NULL;
    *count = read_keys(figures, keys);
    qsort(keys, *count, sizeof *keys, by_rate);
    return keys;
}
