/* import.h - tables and items from a file: a NoSQL Workbench model, or JSON lines.
 *
 * JSON lines: an item a line, {"Item": {..}} as DynamoDB exports them to S3, or {..} alone,
 * DynamoDB JSON in both. The first line may be {"Table": {..}}, what CreateTable wants, as `mudax
 * export
 * --definition` writes it; TimeToLiveSpecification may follow in it.
 * Source: DynamoDB developer guide, "DynamoDB table export output format". */
#pragma once

#include "clients/cli/cli.h"

struct import_options {
    const char *url;
    uint32_t timeout_ms;
    bool without_indexes; /* leave them out */
    /* Of a model: import this one only, NULL: all. Of lines: put them there, NULL: as Table says.
     */
    const char *table_name;
};

/* Tables are made where they are missing, items put, whatever was there. Returns an exit code; says
 * on standard output what was done. */
int import_file(struct mudax *db, const char *path, const struct import_options *options);
