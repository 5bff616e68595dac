/* export.h - all items of a table as JSON lines, {"Item": {..}}, the form in which DynamoDB exports
 * them to S3, and what `mudax import` reads.
 *
 * Segments of the table are read side by side from the store, past the cache, which is left as it
 * is. What is written meanwhile may be in it or not. */
#pragma once

#include "clients/cli/cli.h"

struct export_options {
    const char *url, *table_name;
    uint32_t timeout_ms;
    const char *output;   /* a file; NULL: standard output */
    bool with_definition; /* a first line {"Table": {..}} */
    uint32_t segments;    /* 0: as it likes */
};

/* Returns an exit code; says on standard error how many items there were. */
int export_table(struct mudax *db, const struct export_options *options);
