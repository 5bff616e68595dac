/* json.h - values as DynamoDB JSON: {"S": "x"}, {"N": "1"}, {"M": {...}}, ...
 *
 * Used by the command line, the client and the HTTP API; what comes in requests is read without a
 * tree, by json_reader.h. Numbers are texts, so nothing loses digits; B is base64 (RFC 4648 section
 * 4). Threads: pure functions. */
#pragma once

#include "protocol/encoding/msgpack.h"

/* Text of one item or key, {"name": {"S": ...}, ...}, to a normalized map value in the arena.
 * text  borrowed as long as the value
 * Errors: STATUS_MALFORMED (not JSON, text says where; a member of the wrong JSON type),
 * STATUS_VALIDATION, STATUS_NO_MEMORY. */
MUST_CHECK enum status json_to_item(struct bytes text, struct arena *arena, struct value *out,
                                    struct error *error);

/* Appends an item (map value) as DynamoDB JSON, attributes in the order of the map.
 * indent  spaces a level, 0 to 31; 0: one line. False without memory. */
MUST_CHECK bool json_from_item(const struct value *item, int indent, struct buffer *out);

/* Ordinary JSON without type members, for table definitions and figures: objects become M, arrays
 * L, strings S, numbers N, true and false BOOL, null NULL. Up to PLAIN_DEPTH_MAX levels.
 * text  one object; borrowed as long as the value
 * out   normalized map in the arena
 * Errors: STATUS_MALFORMED (not JSON, not an object), STATUS_VALIDATION, STATUS_NO_MEMORY. */
MUST_CHECK enum status json_to_plain(struct bytes text, struct arena *arena, struct value *out,
                                     struct error *error);

/* Appends a value as ordinary JSON, the way back from json_to_plain(); sets become arrays, B a
 * base64 string.
 * indent  as json_from_item(). False without memory. */
MUST_CHECK bool json_from_plain(const struct value *value, int indent, struct buffer *out);

/* ---- MessagePack to JSON, without a tree between ---- */

/* Append the value at the cursor, all on one line: an item as DynamoDB JSON; or any value as
 * ordinary JSON, numbers with all their digits. False without memory, or on bytes that are no
 * value; `out` then ends where it did. */
MUST_CHECK bool json_from_item_bytes(struct msgpack_cursor *cursor, struct buffer *out);
MUST_CHECK bool json_from_plain_bytes(struct msgpack_cursor *cursor, struct buffer *out);

/* Appends a JSON string, quotes included. False without memory. */
MUST_CHECK bool json_from_text(struct bytes text, struct buffer *out);
