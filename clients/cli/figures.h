/* figures.h - the daemon's figures, which Stats tells by names such as name{table="T",kind="item"}.
 */
#pragma once

#include "clients/cli/cli.h"

enum { LABEL_MAX = 300 };

double figure_number(const struct mudax_value *value);
/* What follows `name` in the name of a figure; NULL: it is another one. */
const char *figure_labels(const char *figure, size_t size, const char *name, size_t *rest);
/* The value of one label of a="..",b="..", without its escapes; "" if there is none. */
void figure_label(const char *labels, size_t size, const char *name, char out[LABEL_MAX]);

/* A key that is asked for often. */
struct hot_key {
    char table[LABEL_MAX], kind[LABEL_MAX], key[LABEL_MAX];
    double requests, hits; /* a second */
};

/* All of them, most requests first; passes to the caller: free(). NULL without memory. */
struct hot_key *figures_hot_keys(const struct mudax_value *figures, size_t *count);
