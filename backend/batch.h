/* batch.h - BatchGetItem and BatchWriteItem, as the single requests that they are.
 *
 * DynamoDB promises nothing of a batch beyond its requests, each of which succeeds or not by
 * itself. So any lane does them by submitting to itself: the engine's and the cache's alike, and
 * what single requests have (hits, single flight, one group of commits), batches have too.
 * All parts are checked before the first is begun.
 * Threads: the lane's. */
#pragma once

#include "backend/backend.h"

/* Answers a batch. A reply that is DONE is the call's arena's memory.
 * Errors: STATUS_VALIDATION and STATUS_RESOURCE_NOT_FOUND with DynamoDB's texts, for the whole; of
 * those that the store gives, one that may be gone at the next attempt leaves its part unprocessed,
 * unless all parts fail; so does any other when a part has been written already.
 * Source: API reference, BatchGetItem, BatchWriteItem. */
enum submit batch_submit(struct lane *lane, struct call *call);

/* For batches and transactions: binds a part to its table. Errors as above. */
MUST_CHECK enum status part_bind(struct lane *lane, struct call *call, struct request *part);
/* What is said of a batch or transaction of which a part could not be bound: what needs no table is
 * said first, whichever part it is of.
 * status  of the part, with its text in the call's reply */
MUST_CHECK enum status parts_refuse(struct call *call, enum status status);
/* text  "Provided list of item keys contains duplicates", say */
MUST_CHECK enum status parts_check_distinct(const struct request *request, const char *text,
                                            struct error *error);
