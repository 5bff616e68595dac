/* json_token.h - private to protocol/encoding/json_*: what all readers of JSON text are made of. */
#pragma once

#include "protocol/encoding/json_reader.h"

/* Whether one of eight bytes ends a run of ordinary ASCII: a control character, a quote, a
 * backslash, or one above 7f. Source: "Bit twiddling hacks", "Determine if a word has a zero byte"
 * and "... a byte less than n". */
static inline bool json_has_special(const uint8_t *at)
{
    const uint64_t ones = 0x0101010101010101ULL;
    const uint64_t highs = 0x8080808080808080ULL;
    uint64_t eight;
    memcpy(&eight, at, sizeof eight);
    uint64_t quotes = eight ^ (ones * '"');
    uint64_t slashes = eight ^ (ones * '\\');
    return (((eight - ones * 0x20) | (quotes - ones) | (slashes - ones) | eight) & highs) != 0;
}

static inline void json_skip_blanks(struct json_reader *reader)
{
    while (reader->at != reader->end && (*reader->at == ' ' || *reader->at == '\n' ||
                                         *reader->at == '\r' || *reader->at == '\t'))
        reader->at++;
}

/* True if that byte is next behind blanks. */
static inline bool json_sees(struct json_reader *reader, char byte)
{
    json_skip_blanks(reader);
    return reader->at != reader->end && *reader->at == (uint8_t)byte;
}

/* Goes past that byte if it is next behind blanks. */
static inline bool json_takes(struct json_reader *reader, char byte)
{
    if (!json_sees(reader, byte))
        return false;
    reader->at++;
    return true;
}

/* What a value should be: decides how DynamoDB says that it is something else. */
enum json_wanted {
    JSON_STRING,
    JSON_BOOLEAN,
    JSON_INTEGER,
    JSON_BLOB,
    JSON_LIST,
    JSON_MAP,
    JSON_ITEM,  /* a map of attribute values */
    JSON_NAMES, /* a map of strings */
    JSON_VALUE, /* an attribute value */
};

/* End the reading; all return false.
 * _syntax  what is next is not JSON
 * _type    it is JSON, but not what is wanted */
bool json_refuse_syntax(struct json_reader *reader, const char *what);
bool json_refuse_type(struct json_reader *reader, enum json_wanted wanted);
bool json_refuse_memory(struct json_reader *reader);

/* Makes sure that there is room for MessagePack. */
MUST_CHECK bool json_need_room(struct json_reader *reader);

/* Room that a text with escapes needs before its MessagePack is written over it. */
enum { JSON_SCRATCH = 8 };

/* Reads a string.
 * wanted  what is told if it is something else
 * out     a view of the text; with escapes it is behind reader->out + JSON_SCRATCH, until something
 *         is written there */
MUST_CHECK bool json_take_text(struct json_reader *reader, enum json_wanted wanted,
                               struct bytes *out);

/* As json_next_element(), in a map: its name is next. */
MUST_CHECK bool json_next_pair(struct json_reader *reader);

/* Goes past a number.
 * out         its text
 * is_integer  has neither point nor exponent */
MUST_CHECK bool json_take_number(struct json_reader *reader, struct bytes *out, bool *is_integer);

/* Goes past "true", "false" or "null". */
MUST_CHECK bool json_take_word(struct json_reader *reader, const char *word);
