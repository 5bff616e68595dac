/* scan.h - all items of a table, by segments that are read side by side.
 *
 * From the store, past the cache, which is left as it is. What is written meanwhile may be among
 * them or not. One thread. */
#pragma once

#include "clients/cli/cli.h"

enum { SCAN_SEGMENTS_MAX = 256 }; /* all of them are in flight */

struct scan_options {
    const char *url, *table_name;
    uint32_t timeout_ms; /* of a page */
    uint32_t segments;   /* 0: as it likes */
    size_t count;        /* of items, for the progress; 0: not known */
};

/* Takes an item, borrowed. The items of a segment come in its order: those of one partition key one
 * after the other. False ends the scan.
 * segment  from 0 */
typedef bool scan_item_fn(void *arg, uint32_t segment, const struct mudax_value *item);

/* Returns an exit code, of a scan that `take` has ended too; a message is written if it is not 0.
 * done  how many items were taken */
int scan_table(const struct scan_options *options, scan_item_fn *take, void *arg, size_t *done);
