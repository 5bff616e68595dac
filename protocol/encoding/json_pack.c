/* json_pack.c - from JSON to MessagePack: what json_reader.h reads values into. */
#include "protocol/encoding/base64.h"
#include "protocol/encoding/json_token.h"
#include "protocol/encoding/msgpack_put.h"
#include "protocol/ensure.h"

#define INVALID "One or more parameter values were invalid: "

enum {
    FAST_DIGITS = 18, /* a number of so many digits fits 63 bits */
    HEAD_GUESS = 1,   /* what is left free for the head of a list or map: most have few members */
};

/* A number or a head, before contents that are no longer than their text. The text that is behind
 * has 9/4 of its size left: see json_reader.h. */
static void check_room(const struct json_reader *reader, size_t contents)
{
    ensure(contents + MSGPACK_NUMBER_MAX <= (size_t)(reader->out_end - reader->out));
}

/* Ends it with what a shared check has said. */
static bool refuse_as(struct json_reader *reader, const struct error *error)
{
    return json_reader_refuse(reader, error->status, "%s", error->text);
}

/* ---- scalars ---- */

static void put_text(struct json_reader *reader, struct bytes text)
{
    check_room(reader, text.size);
    uint8_t head[MSGPACK_HEAD_MAX];
    size_t head_size = (size_t)(msgpack_put_str_head(head, text.size) - head);
    memmove(reader->out + head_size, text.data, text.size); /* it may be the scratch */
    memcpy(reader->out, head, head_size);
    reader->out += head_size + text.size;
}

static bool pack_text(struct json_reader *reader)
{
    struct bytes text;
    if (!json_take_text(reader, JSON_STRING, &text))
        return false;
    put_text(reader, text);
    return true;
}

static void put_number(struct json_reader *reader, const struct number *number)
{
    check_room(reader, 0);
    reader->out = msgpack_put_number(reader->out, number);
}

static bool pack_decimal(struct json_reader *reader, struct bytes text)
{
    struct number number;
    struct error error;
    if (number_parse(text, &number, &error) != STATUS_OK)
        return refuse_as(reader, &error);
    put_number(reader, &number);
    return true;
}

/* Most numbers are short integers. */
static bool pack_digits(struct json_reader *reader, struct bytes text)
{
    uint64_t natural = 0;
    if (text.size == 0 || text.size > FAST_DIGITS)
        return pack_decimal(reader, text);
    for (size_t i = 0; i < text.size; i++) {
        if (text.data[i] < '0' || text.data[i] > '9')
            return pack_decimal(reader, text);
        natural = natural * 10 + (uint64_t)(text.data[i] - '0');
    }
    check_room(reader, 0);
    reader->out = msgpack_put_uint(reader->out, natural);
    return true;
}

static bool pack_quoted_number(struct json_reader *reader)
{
    struct bytes text;
    return json_take_text(reader, JSON_STRING, &text) && pack_digits(reader, text);
}

static bool pack_plain_number(struct json_reader *reader)
{
    struct bytes text;
    bool is_integer;
    return json_take_number(reader, &text, &is_integer) && pack_digits(reader, text);
}

static size_t decoded_size(struct bytes text)
{
    size_t size = text.size / 4 * 3;
    if (size != 0 && text.data[text.size - 1] == '=')
        size -= text.data[text.size - 2] == '=' ? 2 : 1;
    return size;
}

static bool pack_binary(struct json_reader *reader)
{
    struct bytes text;
    size_t size = 0;
    if (!json_take_text(reader, JSON_BLOB, &text))
        return false;
    if (text.size % 4 != 0)
        return json_reader_refuse(
            reader, STATUS_MALFORMED,
            "Base64 encoded length is expected a multiple of 4 bytes but found: %zu", text.size);
    check_room(reader, text.size);
    /* Decoding goes from front to back, three bytes for four letters: it may go on over the
     * scratch, which begins behind the head. */
    uint8_t *contents = msgpack_put_bin_head(reader->out, decoded_size(text));
    if (!base64_decode(text, contents, &size))
        return json_reader_refuse(reader, STATUS_MALFORMED, "Invalid Base64 in a binary value");
    reader->out = contents + size;
    return true;
}

static bool pack_truth(struct json_reader *reader)
{
    bool truth;
    if (!json_read_truth(reader, &truth))
        return false;
    check_room(reader, 0);
    reader->out = msgpack_put_bool(reader->out, truth);
    return true;
}

static bool pack_null(struct json_reader *reader)
{
    bool truth;
    if (!json_read_truth(reader, &truth))
        return false;
    if (!truth)
        return json_reader_refuse(reader, STATUS_VALIDATION,
                                  INVALID "Null attribute value types must have the value of true");
    check_room(reader, 0);
    reader->out = msgpack_put_nil(reader->out);
    return true;
}

/* ---- lists, maps and sets ---- */

/* Puts a head before `contents`, which end at `out`; `free` bytes before them are its already. */
static void put_head_before(struct json_reader *reader, const uint8_t *head, size_t head_size,
                            uint8_t *contents, size_t free)
{
    size_t size = (size_t)(reader->out - contents);
    check_room(reader, 0);
    if (head_size != free)
        memmove(contents - free + head_size, contents, size);
    memcpy(contents - free, head, head_size);
    reader->out = contents - free + head_size + size;
}

static void put_count_before(struct json_reader *reader, bool is_map, size_t count,
                             uint8_t *contents)
{
    uint8_t head[MSGPACK_HEAD_MAX];
    size_t head_size = (size_t)(msgpack_put_count(head, is_map, count) - head);
    put_head_before(reader, head, head_size, contents, HEAD_GUESS);
}

static uint8_t *begin_contents(struct json_reader *reader)
{
    check_room(reader, HEAD_GUESS);
    reader->out += HEAD_GUESS;
    return reader->out;
}

static bool check_depth(struct json_reader *reader, int depth)
{
    struct error error;
    if (depth < ITEM_DEPTH_MAX)
        return true;
    (void)value_refuse_depth(&error);
    return refuse_as(reader, &error);
}

typedef bool (*pack_fn)(struct json_reader *reader, int depth);

static bool pack_list(struct json_reader *reader, pack_fn pack, int depth)
{
    size_t count = 0;
    if (!check_depth(reader, depth) || !json_enter_list(reader))
        return false;
    uint8_t *contents = begin_contents(reader);
    for (; json_next_element(reader); count++)
        if (!pack(reader, depth + 1))
            return false;
    if (reader->status != STATUS_OK)
        return false;
    put_count_before(reader, false, count, contents);
    return true;
}

/* A member's name and the colon behind it. */
static bool pack_name(struct json_reader *reader)
{
    struct bytes name;
    struct error error;
    if (!json_sees(reader, '"'))
        return json_refuse_syntax(reader, "a name is missing");
    if (!json_take_text(reader, JSON_STRING, &name))
        return false;
    bool is_wrong = name.size == 0 || name.size > ATTRIBUTE_NAME_MAX; /* UTF-8 it is */
    if (UNLIKELY(is_wrong) && attribute_name_check(name, &error) != STATUS_OK)
        return refuse_as(reader, &error);
    put_text(reader, name);
    return json_takes(reader, ':') || json_refuse_syntax(reader, "a colon is missing");
}

/* wanted  what is told if it is no map */
static bool pack_map(struct json_reader *reader, enum json_wanted wanted, pack_fn pack, int depth)
{
    size_t count = 0;
    if (!check_depth(reader, depth))
        return false;
    if (!json_sees(reader, '{'))
        return json_refuse_type(reader, wanted);
    if (!json_enter_map(reader))
        return false;
    uint8_t *contents = begin_contents(reader);
    for (; json_next_pair(reader); count++)
        if (!pack_name(reader) || !pack(reader, depth + 1))
            return false;
    if (reader->status != STATUS_OK)
        return false;
    put_count_before(reader, true, count, contents);
    return true;
}

static bool pack_set(struct json_reader *reader, enum value_type type)
{
    size_t count = 0;
    struct error error;
    if (!json_enter_list(reader))
        return false;
    uint8_t *contents = reader->out;
    for (; json_next_element(reader); count++) {
        bool is_packed = type == VALUE_SS   ? pack_text(reader)
                         : type == VALUE_NS ? pack_quoted_number(reader)
                                            : pack_binary(reader);
        if (!is_packed)
            return false;
    }
    if (reader->status != STATUS_OK)
        return false;
    if (count == 0) {
        (void)value_refuse_empty_set(type, &error);
        return refuse_as(reader, &error);
    }
    static const uint8_t extensions[] = {[VALUE_SS] = MSGPACK_STRING_SET,
                                         [VALUE_NS] = MSGPACK_NUMBER_SET,
                                         [VALUE_BS] = MSGPACK_BINARY_SET};
    uint8_t head[MSGPACK_HEAD_MAX];
    size_t size = (size_t)(reader->out - contents);
    size_t head_size = (size_t)(msgpack_put_ext_head(head, extensions[type], size) - head);
    put_head_before(reader, head, head_size, contents, 0);
    return true;
}

/* ---- attribute values ---- */

static bool type_of_name(struct bytes name, enum value_type *out)
{
    for (int type = VALUE_S; type <= VALUE_BS; type++) {
        const char *text = value_type_name((enum value_type)type);
        if (name.data[0] == (uint8_t)text[0] && bytes_equal(name, bytes_text(text))) {
            *out = (enum value_type)type;
            return true;
        }
    }
    return false;
}

static bool pack_value(struct json_reader *reader, int depth);

static bool pack_typed(struct json_reader *reader, enum value_type type, int depth)
{
    switch (type) {
    case VALUE_S:
        return pack_text(reader);
    case VALUE_N:
        return pack_quoted_number(reader);
    case VALUE_B:
        return pack_binary(reader);
    case VALUE_BOOL:
        return pack_truth(reader);
    case VALUE_NULL:
        return pack_null(reader);
    case VALUE_L:
        return pack_list(reader, pack_value, depth);
    case VALUE_M:
        return pack_map(reader, JSON_ITEM, pack_value, depth);
    case VALUE_SS:
    case VALUE_NS:
    case VALUE_BS:
        return pack_set(reader, type);
    }
    return false;
}

static bool pack_value(struct json_reader *reader, int depth)
{
    struct bytes name = BYTES_NONE;
    enum value_type type = VALUE_NULL;
    if (!json_takes(reader, '{'))
        return json_refuse_type(reader, JSON_VALUE);
    bool has_member = json_sees(reader, '"');
    if (has_member && !json_take_text(reader, JSON_STRING, &name))
        return false;
    if (!has_member || name.size == 0 || !type_of_name(name, &type))
        return json_reader_refuse(reader, STATUS_VALIDATION,
                                  "Supplied AttributeValue is empty, must contain exactly one of "
                                  "the supported datatypes");
    if (!json_takes(reader, ':'))
        return json_refuse_syntax(reader, "a colon is missing");
    if (!pack_typed(reader, type, depth))
        return false;
    if (LIKELY(json_takes(reader, '}')))
        return true;
    if (json_sees(reader, ','))
        return json_reader_refuse(reader, STATUS_VALIDATION,
                                  "Supplied AttributeValue has more than one datatypes set, must "
                                  "contain exactly one of the supported datatypes");
    return json_refuse_syntax(reader, "a comma or an end is missing");
}

/* ---- ordinary JSON ---- */

static bool pack_plain(struct json_reader *reader, int depth)
{
    json_skip_blanks(reader);
    check_room(reader, 0);
    switch (reader->at == reader->end ? '\0' : (char)*reader->at) {
    case '{':
        return pack_map(reader, JSON_MAP, pack_plain, depth);
    case '[':
        return pack_list(reader, pack_plain, depth);
    case '"':
        return pack_text(reader);
    case 't':
    case 'f':
        return pack_truth(reader);
    case 'n':
        reader->out = msgpack_put_nil(reader->out);
        return json_take_word(reader, "null");
    default:
        return pack_plain_number(reader);
    }
}

static bool pack_member_text(struct json_reader *reader, int depth)
{
    (void)depth;
    return pack_text(reader);
}

/* ---- what the header offers ---- */

/* What has been packed since `start`, if it is right. */
static bool end_packed(const struct json_reader *reader, const uint8_t *start, bool is_packed,
                       struct bytes *out)
{
    if (is_packed)
        *out = bytes_of(start, (size_t)(reader->out - start));
    return is_packed;
}

static bool read_map(struct json_reader *reader, enum json_wanted wanted, pack_fn pack, int depth,
                     struct bytes *out)
{
    if (!json_need_room(reader))
        return false;
    const uint8_t *start = reader->out;
    return end_packed(reader, start, pack_map(reader, wanted, pack, depth), out);
}

static bool read_one(struct json_reader *reader, pack_fn pack, struct bytes *out)
{
    if (!json_need_room(reader))
        return false;
    const uint8_t *start = reader->out;
    return end_packed(reader, start, pack(reader, 0), out);
}

bool json_read_item(struct json_reader *reader, struct bytes *out)
{
    return read_map(reader, JSON_ITEM, pack_value, 0, out);
}

bool json_read_value(struct json_reader *reader, struct bytes *out)
{
    return read_one(reader, pack_value, out);
}

bool json_read_names(struct json_reader *reader, struct bytes *out)
{
    return read_map(reader, JSON_NAMES, pack_member_text, 0, out);
}

bool json_read_plain(struct json_reader *reader, struct bytes *out)
{
    return read_one(reader, pack_plain, out);
}

bool json_read_object(struct json_reader *reader, struct bytes *out)
{
    return read_map(reader, JSON_MAP, pack_plain, ITEM_DEPTH_MAX - PLAIN_DEPTH_MAX, out);
}
