/* loader.h - many items into one table: batches of 25, several in flight on one connection.
 *
 * What the daemon leaves of a batch is sent again after a while. A batch that is refused is put
 * item by item, in order: so a key may come twice, and the one item that is wrong is found. */
#pragma once

#include "clients/cli/cli.h"

struct loader_options {
    const char *url, *table; /* both outlive the loader */
    uint32_t timeout_ms;     /* of one batch */
    size_t count;            /* how many items there will be, for progress; 0: not known */
};

/* How it went. */
struct load {
    size_t done;              /* items that are there now */
    size_t wrong;             /* number of the item that was refused, from 1; 0: no single one */
    struct mudax_error error; /* the first that ended it; code MUDAX_OK: none */
    const char *operation;    /* that was refused */
};

struct loader;

/* NULL: `out` says why. */
struct loader *loader_open(const struct loader_options *options, struct load *out);

/* Puts an item; waits while enough are on their way.
 * item  passes; NULL: no memory
 * size  bytes of its text, about
 * False when it has come to an end, of which loader_close() tells. */
bool loader_put(struct loader *loader, struct mudax_value *item, size_t size);

/* Waits for all that is on its way. Leaves NULL. */
void loader_close(struct loader **loader, struct load *out);

/* Says how it failed; gives the exit code. load->error is one. */
int load_report(const struct load *load, const char *table);
