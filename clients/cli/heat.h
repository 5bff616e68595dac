/* heat.h - how a table's items and its use are spread: `mudax heat`. */
#pragma once

#include "clients/cli/cli.h"

enum {
    HEAT_SECONDS = 1, /* between the two looks that rates are made of */
    HEAT_TOP = 20,
    HEAT_TOP_MAX = 100000,
};

struct heat_options {
    const char *url, *table_name; /* NULL: all tables */
    uint32_t timeout_ms;
    uint32_t seconds, top, segments; /* 0: as above; of the scan */
    const char *by; /* group items by this attribute, or HEAT_BY_PREFIX; NULL: do not */
    bool by_key;    /* group items by their partition key */
    bool is_json;
};
/* Partition keys up to their first #. */
#define HEAT_BY_PREFIX "key-prefix"

/* Partitions of tables and indexes: what they hold and bear, and the keys that are asked for most.
 * Returns an exit code. */
int heat_partitions(struct mudax *db, const struct heat_options *options);

/* Reads all items of the table (scan.h) and tells the groups with the most bytes. Likewise. */
int heat_groups(struct mudax *db, const struct heat_options *options);

/* "1.2 KB" */
const char *heat_size(double bytes, char out[24]);
/* Prints it, if it could be made; frees it. */
int heat_print_json(struct mudax_value *told);
