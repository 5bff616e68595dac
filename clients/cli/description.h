/* description.h - from what DescribeTable says to what CreateTable wants. */
#pragma once

#include "clients/cli/cli.h"

/* {"Table": what CreateTable wants, "TimeToLiveSpecification": only if items expire}
 * table         member Table of DescribeTable
 * time_to_live  member TimeToLiveDescription of DescribeTimeToLive
 * tags          member Tags of ListTagsOfResource
 * Passes to the caller; NULL without memory. */
struct mudax_value *description_to_definition(const struct mudax_value *table,
                                              const struct mudax_value *time_to_live,
                                              const struct mudax_value *tags);
