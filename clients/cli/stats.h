/* stats.h - the daemon's figures by name: `mudax stats`. */
#pragma once

#include "clients/cli/cli.h"

/* prefix  only figures whose names begin with it; NULL: all but the buckets of histograms
 * Returns an exit code. */
int stats(struct mudax *db, const char *prefix);
