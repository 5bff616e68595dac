/* pay.h - what the cache saves, policy by policy, and from what rate on it pays: `mudax pay`. */
#pragma once

#include "clients/cli/cli.h"

enum { PAY_SECONDS = 5 };

/* seconds  between the two looks that rates are made of; 0: PAY_SECONDS. Returns an exit code. */
int pay(struct mudax *db, uint32_t seconds, bool is_json);
