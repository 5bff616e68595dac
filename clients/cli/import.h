/* import.h - NoSQL Workbench models: tables made where they are missing, items put through a pipe.
 *
 * Source of the format: DynamoDB developer guide, "NoSQL Workbench data model format". */
#pragma once

#include "clients/cli/cli.h"

struct import_options {
    const char *url;
    uint32_t timeout_ms;
    bool without_indexes;   /* leave them out; else a model that has some is refused, untouched */
    const char *table_name; /* import this one only; NULL: all */
};

/* Returns an exit code; says on standard output what was done. */
int import_model(struct mudax *db, const char *path, const struct import_options *options);
