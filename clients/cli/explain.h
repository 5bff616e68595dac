/* explain.h - what the cache makes of a request: `mudax explain`. */
#pragma once

#include "clients/cli/cli.h"

/* part     a GetItem, Query or Scan; a DeleteItem stands for any write of its key
 * is_json  as the daemon tells it
 * Returns an exit code. */
int explain(struct mudax *db, const struct mudax_request *part, bool is_json);
