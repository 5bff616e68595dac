/* members.h - private to operations.c and parts.c: the members of one request. */
#pragma once

#include "protocol/dynamodb/legacy.h"

/* What a request says besides what is in struct request already. */
struct members {
    uint64_t seen; /* a bit each */
    struct legacy legacy;
};

/* Reads the value of one member; refuses what the operation does not have. */
MUST_CHECK bool members_read_one(struct json_reader *reader, struct bytes name,
                                 struct request *request, struct members *members);
/* Makes of the older parameters what they mean. */
MUST_CHECK bool members_end(struct json_reader *reader, struct request *request,
                            struct members *members);
/* Reads a whole map of them, and checks that all are there that must be. */
MUST_CHECK bool members_read(struct json_reader *reader, struct request *request);
