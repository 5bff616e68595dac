/* json_reader.h - JSON text, read once from its front to its end.
 *
 * No tree is made: who reads says what is to come next, and attribute values become MessagePack as
 * they are met. Takes memory of the arena once, when the first thing comes that is no plain view of
 * the text: 9/4 of the text's size, for 9e9 in a list is four bytes with its comma, and nine as
 * MessagePack.
 *
 * The first thing that is wrong ends it: from then on all functions give false and do nothing, and
 * json_reader_end() tells what it was.
 *
 * Strict, as RFC 8259: UTF-8, escapes, surrogates in pairs, numbers, nothing behind the end. A name
 * twice in one map is found by whoever orders the map, for DynamoDB's values item_canonical() and
 * value_decode(). Members that are null count as not there.
 * Threads: one at a time. */
#pragma once

#include "protocol/encoding/msgpack.h"

struct json_reader {
    const uint8_t *start, *at, *end;
    uint8_t *out, *out_end; /* MessagePack; NULL: no memory taken yet */
    struct arena *arena;
    struct error *error;
    enum status status; /* STATUS_OK until something is wrong */
    bool is_inside;     /* a map or list: something of it has been read */
};

/* text   borrowed as long as anything that was read from it
 * error  filled with the first thing that is wrong */
void json_reader_init(struct json_reader *reader, struct bytes text, struct arena *arena,
                      struct error *error);

/* What it comes to: STATUS_OK if all went well and only blanks are left. A text that is not JSON is
 * told before anything else that is wrong with what it says.
 * Errors: STATUS_MALFORMED (not JSON, or another type than was wanted, with DynamoDB's texts),
 * STATUS_VALIDATION (attribute values), STATUS_NO_MEMORY, and what json_reader_refuse() was given.
 */
MUST_CHECK enum status json_reader_end(struct json_reader *reader);

/* Ends it with what the caller has found. Returns false. */
bool json_reader_refuse(struct json_reader *reader, enum status status, const char *format, ...)
    PRINTF_LIKE(3, 4);

/* ---- maps and lists: enter, then next until it is false ---- */

MUST_CHECK bool json_enter_map(struct json_reader *reader);
/* Goes to the next member that is not null; its value is to be read. False behind the last one.
 * name  a view, of the text or of the arena */
MUST_CHECK bool json_next_member(struct json_reader *reader, struct bytes *name);
MUST_CHECK bool json_enter_list(struct json_reader *reader);
MUST_CHECK bool json_next_element(struct json_reader *reader);

/* ---- values; all views are of the text or of the arena ---- */

MUST_CHECK bool json_read_text(struct json_reader *reader, struct bytes *out);
MUST_CHECK bool json_read_truth(struct json_reader *reader, bool *out);
/* A number without point and exponent. */
MUST_CHECK bool json_read_integer(struct json_reader *reader, int64_t *out);

/* A map of attribute values, {"name": {"S": ...}, ...}, as MessagePack in the order of the text.
 * Depth, numbers and empty names and sets are checked, duplicates are not. */
MUST_CHECK bool json_read_item(struct json_reader *reader, struct bytes *out);
/* One attribute value, {"S": ...}. */
MUST_CHECK bool json_read_value(struct json_reader *reader, struct bytes *out);
/* A map of texts. */
MUST_CHECK bool json_read_names(struct json_reader *reader, struct bytes *out);
/* Any ordinary JSON: objects become M, arrays L, strings S, numbers N, true and false BOOL, null
 * NULL; or an object only. */
MUST_CHECK bool json_read_plain(struct json_reader *reader, struct bytes *out);
MUST_CHECK bool json_read_object(struct json_reader *reader, struct bytes *out);

/* Passes over any value, up to JSON_DEPTH_MAX maps and lists in each other.
 * out  may be NULL; its text */
enum { JSON_DEPTH_MAX = 256 };
MUST_CHECK bool json_skip(struct json_reader *reader, struct bytes *out);
