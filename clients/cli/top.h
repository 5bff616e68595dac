/* top.h - the keys that are asked for most, and why reads are no hits: `mudax top`. */
#pragma once

#include "clients/cli/cli.h"

/* Draws it again and again until a call fails or the program is stopped; once if `is_once`. Returns
 * an exit code. */
int top(struct mudax *db, bool is_once);
