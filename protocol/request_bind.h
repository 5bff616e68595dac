/* request_bind.h - private to request*.c: how a request is bound to its table. */
#pragma once

#include "protocol/request.h"

/* What the expressions of a request say, until all is known to be right. */
struct trees {
    struct expression *condition, *key_condition, *filter;
    struct path_node *projection, *update;
};

/* Parses all that there are; sets the trees of the request, and `trees`. */
MUST_CHECK enum status request_bind_expressions(struct request *request, struct arena *arena,
                                                struct trees *trees, struct error *error);

MUST_CHECK enum status request_bind_query(struct request *request, const struct table *table,
                                          struct arena *arena, struct error *error);
MUST_CHECK enum status request_bind_scan(struct request *request, const struct table *table,
                                         struct arena *arena, struct error *error);
MUST_CHECK enum status request_bind_purge(struct request *request, const struct table *table,
                                          struct arena *arena, struct error *error);
/* Finds the index that the request names, if it names one. */
MUST_CHECK enum status request_bind_index(struct request *request, const struct table *table,
                                          struct error *error);
