/* expression_binding.h - ExpressionAttributeNames and ExpressionAttributeValues of one request.
 *
 * All expressions of a request share one binding; each marks what it uses, and what none has used
 * is an error in the end, as in DynamoDB. */
#pragma once

#include "protocol/arena.h"
#include "protocol/value.h"

/* "#n" with its name, or ":v" with its value. */
struct alias {
    struct bytes alias;
    struct bytes name;      /* of #n */
    struct bytes bytes;     /* of :v, as the request has it */
    struct value value;     /* of :v, normalized */
    struct bytes canonical; /* of :v; binding_encode() sets it */
    bool is_used;
};

/* Developer guide, quotas, as the next. */
enum {
    EXPRESSION_ALIAS_MAX = 255,             /* of #n and :v, with their signs */
    EXPRESSION_ALIASES_BYTES_MAX = 2 << 20, /* of all of them, with what they stand for */
};

struct aliases {
    struct alias *sorted; /* by alias */
    size_t count;
};

struct expression_binding {
    struct aliases names, values;
    bool is_made; /* the expressions are made by us, so that they may be longer; binding_init()
                     clears it */
};

/* Reads the two maps.
 * names, values  MessagePack maps, borrowed as long as the binding; not given: none
 * out            arena memory
 * Errors: STATUS_VALIDATION with DynamoDB's texts (an empty map, a key without # or :, a value that
 * is none), STATUS_MALFORMED, STATUS_NO_MEMORY. */
MUST_CHECK enum status binding_init(struct bytes names, struct bytes values, struct arena *arena,
                                    struct expression_binding *out, struct error *error);

/* Refuses maps that are larger than both together may be, and that binding_init() has read.
 * Errors: STATUS_VALIDATION. */
MUST_CHECK enum status binding_check_size(struct bytes names, struct bytes values,
                                          struct error *error);

/* Gives all values their canonical bytes, arena memory: what stands beside an item's.
 * Errors: STATUS_NO_MEMORY. */
MUST_CHECK enum status binding_encode(struct expression_binding *binding, struct arena *arena,
                                      struct error *error);

/* Finds an alias and marks it used; NULL when it is not defined. */
struct alias *aliases_use(struct aliases *aliases, struct bytes alias);

/* Refuses what no expression has used.
 * Errors: STATUS_VALIDATION with DynamoDB's text. */
MUST_CHECK enum status binding_check_all_used(const struct expression_binding *binding,
                                              struct error *error);
