/* arn.h - Amazon Resource Names, as far as they name tables.
 *
 * Source: developer guide, "Actions, resources, and condition keys": arn:PARTITION:dynamodb:REGION:
 * ACCOUNT:table/NAME. Threads: pure functions. */
#pragma once

#include "protocol/schema.h"

enum { ARN_MAX = 1283 /* API reference, TagResource */ };

/* The table that a ResourceArn names. Partition, region and account may be any: all are here.
 * arn   not given: there is none
 * name  view into `arn`
 * Errors: STATUS_VALIDATION with DynamoDB's texts. */
MUST_CHECK enum status arn_table(struct bytes arn, struct bytes *name, struct error *error);
