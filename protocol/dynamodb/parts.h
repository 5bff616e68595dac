/* parts.h - batches and transactions: several requests in one body, several answers in one.
 *
 * RequestItems groups its requests by table, TransactItems names a table in each; struct request
 * has a part for each of them. Source: API Reference, BatchGetItem, BatchWriteItem,
 * TransactGetItems, TransactWriteItems. Threads: pure functions. */
#pragma once

#include "protocol/dynamodb/members.h"

/* The member that holds the parts; not given: the operation has none. */
struct bytes parts_member(enum operation operation);

/* Reads the value of that member into request->parts. Arena memory. */
MUST_CHECK bool parts_read(struct json_reader *reader, struct request *request);

/* Appends the body of a reply that is OK. False without memory, or on bytes that are none. */
MUST_CHECK bool parts_write(const struct request *request, struct bytes body, struct buffer *out);

/* Appends CancellationReasons' value from a reply's details. */
MUST_CHECK bool parts_write_reasons(struct bytes details, struct buffer *out);
