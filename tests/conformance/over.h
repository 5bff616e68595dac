/* over.h - a request and its reply as if they had gone over a wire: spelled, read, spelled, read.
 */
#pragma once

#include "protocol/reply.h"

enum over {
    OVER_NOTHING,
    OVER_NATIVE,
    OVER_HTTP, /* DynamoDB's API */
};

/* Spells the request and reads it again.
 * request  replaced by what was read, in the arena
 * answer   filled when the wire answers by itself: then false
 * What cannot be spelled (another part of one table in a BatchGetItem, say) stays as it is. */
bool over_request(enum over over, struct request *request, struct arena *arena,
                  struct reply *answer);

/* The same of the reply. Its body, text, details and capacity are what was read, in the arena. */
void over_reply(enum over over, const struct request *request, struct reply *reply,
                struct arena *arena);
