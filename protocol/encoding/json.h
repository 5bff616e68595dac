/* json.h - values as DynamoDB JSON: {"S": "x"}, {"N": "1"}, {"M": {...}}, ...
 *
 * Used by the command line and by the HTTP API. Reads and writes with jansson; numbers are texts,
 * so nothing loses digits; B is base64 (RFC 4648 section 4). Threads: pure functions. */
#pragma once

#include "protocol/encoding/msgpack.h"

/* Text of one item or key, {"name": {"S": ...}, ...}, to a normalized map value in the arena.
 * Errors: STATUS_MALFORMED (not JSON, text says where; a member of the wrong JSON type),
 * STATUS_VALIDATION, STATUS_NO_MEMORY. */
MUST_CHECK enum status json_to_item(struct bytes text, struct arena *arena, struct value *out,
                                    struct error *error);

/* Appends an item (map value) as DynamoDB JSON, attributes in the order of the map.
 * indent  spaces a level, 0 to 31; 0: one line. False without memory. */
MUST_CHECK bool json_from_item(const struct value *item, int indent, struct buffer *out);

/* Ordinary JSON without type members, for table definitions and figures: objects become M, arrays
 * L, strings S, numbers N, true and false BOOL, null NULL.
 * text  one object
 * out   normalized map in the arena
 * Errors: STATUS_MALFORMED (not JSON, not an object), STATUS_VALIDATION, STATUS_NO_MEMORY. */
MUST_CHECK enum status json_to_plain(struct bytes text, struct arena *arena, struct value *out,
                                     struct error *error);

/* Appends a value as ordinary JSON, the way back from json_to_plain(); sets become arrays, B a
 * base64 string. Numbers that are no 64-bit integers are written as doubles of 15
 * digits.
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

/* ---- the body of a request: one object, member by member ---- */

/* All of it is memory of the arena: there is nothing to close. */
struct json_document {
    void *root, *at;
    struct arena *arena;
};

struct json_member {
    struct bytes name;
    void *value;
    struct arena *arena;
};

/* Errors: STATUS_MALFORMED (not JSON, not an object, a name twice), STATUS_NO_MEMORY. */
MUST_CHECK enum status json_document_read(struct bytes text, struct arena *arena,
                                          struct json_document *out, struct error *error);

/* The next member that is not null, in the order of the text; false at the end. */
bool json_document_next(struct json_document *document, struct json_member *out);

/* What a member says, if it has that type. Errors: STATUS_MALFORMED with DynamoDB's texts, else as
 * json_to_item() and json_to_plain().
 * _item   an object of attribute values, normalized
 * _plain  any ordinary JSON; normalized only once value_normalize() was called on the whole */
MUST_CHECK enum status json_member_text(const struct json_member *member, struct bytes *out,
                                        struct error *error);
MUST_CHECK enum status json_member_truth(const struct json_member *member, bool *out,
                                         struct error *error);
MUST_CHECK enum status json_member_integer(const struct json_member *member, int64_t *out,
                                           struct error *error);
MUST_CHECK enum status json_member_item(const struct json_member *member, struct value *out,
                                        struct error *error);
MUST_CHECK enum status json_member_plain(const struct json_member *member, struct value *out,
                                         struct error *error);
