/* parts.h - RequestItems and TransactItems of the AWS CLI to the parts of a request, and back. */
#pragma once

#include "clients/cli/cli.h"

struct parts {
    struct mudax_request *requests; /* what they point to is owned */
    size_t count;
};

/* Reads what --request-items or --transact-items says, ordinary JSON in which items and keys are
 * DynamoDB JSON. Parts of one table stand side by side, in the order of RequestItems.
 * operation  of the whole
 * False: a message is written. The parts are to be freed either way. */
bool parts_read(enum mudax_operation operation, const struct mudax_value *members,
                struct parts *out);
void parts_free(struct parts *parts);

/* What the reply says was not processed of RequestItems, to be given again. Passes to the caller;
 * NULL without memory. */
struct mudax_value *parts_left(const struct mudax_value *members, const struct mudax_reply *reply);
