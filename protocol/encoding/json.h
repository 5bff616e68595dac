/* json.h - values as DynamoDB JSON: {"S": "x"}, {"N": "1"}, {"M": {...}}, ...
 *
 * Used by the command line and by the HTTP API. Reads and writes with jansson; numbers are texts,
 * so nothing loses digits; B is base64 (RFC 4648 section 4). Threads: pure functions. */
#pragma once

#include "protocol/buffer.h"
#include "protocol/value.h"

/* Text of one item or key, {"name": {"S": ...}, ...}, to a normalized map value.
 * Errors: STATUS_MALFORMED (not JSON; text says where), STATUS_VALIDATION, STATUS_NO_MEMORY. */
MUST_CHECK enum status json_to_item(struct bytes text, struct arena *arena, struct value *out,
                                    struct error *error);

/* Appends an item (map value) as DynamoDB JSON.
 * indent  spaces a level; 0: one line. False without memory. */
MUST_CHECK bool json_from_item(const struct value *item, int indent, struct buffer *out);
