/* legacy.h - the parameters that DynamoDB had before it had expressions.
 *
 * They become expressions with names and values of their own (#L0, :L0), so that all below knows
 * expressions only. What they demand of their arguments is checked here, with DynamoDB's texts.
 * Source: Amazon DynamoDB developer guide, "Legacy conditional parameters"; API Reference,
 * "Condition", "ExpectedAttributeValue", "AttributeValueUpdate". Threads: pure functions. */
#pragma once

#include "protocol/encoding/json_reader.h"
#include "protocol/request.h"

/* In the order in which DynamoDB lists them. */
enum legacy_parameter {
    LEGACY_ATTRIBUTES_TO_GET,
    LEGACY_QUERY_FILTER,
    LEGACY_SCAN_FILTER,
    LEGACY_CONDITIONAL_OPERATOR,
    LEGACY_KEY_CONDITIONS,
    LEGACY_ATTRIBUTE_UPDATES,
    LEGACY_EXPECTED,
};
enum { LEGACY_PARAMETERS = 7 };

/* What of them one request has, as JSON: one may tell how another is meant, and comes later. */
struct legacy {
    struct bytes texts[LEGACY_PARAMETERS]; /* views of the body; not given: none */
    bool is_used;                          /* one of them is given */
};

/* False if the operation has no such parameter. */
bool legacy_find(struct bytes name, enum operation operation, enum legacy_parameter *out);

/* Makes expressions of them, once all members of the request are known.
 * reader  of the body; what is wrong ends it. Arena memory. */
MUST_CHECK bool legacy_apply(const struct legacy *legacy, struct json_reader *reader,
                             struct request *request);
