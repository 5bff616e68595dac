/* json_text.c - MessagePack to JSON text in one pass: what a hit over HTTP is made of. */
#include "protocol/encoding/base64.h"
#include "protocol/encoding/json.h"
#include "protocol/encoding/json_token.h"

enum { DEPTH_MAX = PLAIN_DEPTH_MAX, NATURAL_DIGITS_MAX = 20 };

/* Inline: most pieces are a few bytes whose number the compiler knows. */
static inline bool put(struct buffer *out, struct bytes bytes)
{
    if (UNLIKELY(bytes.size == 0 || bytes.size > out->capacity - out->size))
        return buffer_append(out, bytes);
    memcpy(out->data + out->size, bytes.data, bytes.size);
    out->size += bytes.size;
    return true;
}

#define PUT(out, text) put(out, BYTES_LITERAL(text))

/* ---- strings ---- */

static bool is_escaped(uint8_t byte)
{
    return byte < 0x20 || byte == '"' || byte == '\\';
}

static bool put_escape(struct buffer *out, uint8_t byte)
{
    static const char digits[] = "0123456789ABCDEF";
    static const char letters[0x20] = {
        ['\b'] = 'b', ['\f'] = 'f', ['\n'] = 'n', ['\r'] = 'r', ['\t'] = 't'};
    uint8_t letter = byte < 0x20 ? (uint8_t)letters[byte] : byte;
    uint8_t text[6] = {
        '\\', letter, '0', '0', (uint8_t)digits[byte >> 4 & 15], (uint8_t)digits[byte & 15]};
    if (letter != 0)
        return put(out, bytes_of(text, 2));
    text[1] = 'u';
    return put(out, bytes_of(text, sizeof text));
}

bool json_from_text(struct bytes text, struct buffer *out)
{
    size_t start = out->size;
    /* Room for a text without escapes at once; quotes are then free. */
    bool is_put = buffer_reserve(out, text.size + 2) && PUT(out, "\"");
    for (size_t at = 0; is_put && at < text.size;) {
        size_t end = at;
        while (text.size - end >= 8 && !json_has_special(text.data + end))
            end += 8;
        while (end < text.size && !is_escaped(text.data[end]))
            end++;
        is_put = put(out, bytes_of(text.data + at, end - at));
        if (is_put && end < text.size)
            is_put = put_escape(out, text.data[end++]);
        at = end;
    }
    if (is_put && PUT(out, "\""))
        return true;
    out->size = start;
    return false;
}

static bool put_binary(struct buffer *out, struct bytes bytes)
{
    size_t size = base64_size(bytes.size);
    if (!buffer_reserve(out, size + 2))
        return false;
    uint8_t *at = out->data + out->size;
    *at = '"';
    base64_encode(bytes, (char *)at + 1);
    at[size + 1] = '"';
    out->size += size + 2;
    return true;
}

/* ---- numbers ---- */

static bool put_natural(struct buffer *out, uint64_t natural, bool is_negative)
{
    uint8_t text[NATURAL_DIGITS_MAX + 1];
    uint8_t *at = text + sizeof text;
    do {
        *--at = (uint8_t)('0' + natural % 10);
        natural /= 10;
    } while (natural != 0);
    if (is_negative)
        *--at = '-';
    return put(out, bytes_of(at, (size_t)(text + sizeof text - at)));
}

/* One number, of whatever form, without quotes. */
static bool put_number(struct buffer *out, const struct msgpack_head *head)
{
    if (head->kind == MSGPACK_UINT)
        return put_natural(out, head->integer, false);
    if (head->kind == MSGPACK_INT)
        return put_natural(out, 0 - head->integer, true);
    struct number number;
    size_t used = 0;
    if (head->kind != MSGPACK_EXT || head->extension != MSGPACK_DECIMAL ||
        !number_from_ordered(head->bytes, &number, &used) || used != head->bytes.size)
        return false;
    char text[NUMBER_TEXT_MAX];
    return put(out, bytes_of(text, number_print(&number, text)));
}

static bool put_quoted_number(struct buffer *out, const struct msgpack_head *head)
{
    return PUT(out, "\"") && put_number(out, head) && PUT(out, "\"");
}

/* ---- values ---- */

static bool put_value(struct buffer *out, struct msgpack_cursor *cursor, bool is_plain, int depth);

static bool put_map(struct buffer *out, struct msgpack_cursor *cursor, uint32_t pairs,
                    bool is_plain, int depth)
{
    if (!PUT(out, "{"))
        return false;
    for (uint32_t pair = 0; pair < pairs; pair++) {
        struct bytes name;
        if (!msgpack_read_str(cursor, &name) || (pair != 0 && !PUT(out, ",")) ||
            !json_from_text(name, out) || !PUT(out, ":") ||
            !put_value(out, cursor, is_plain, depth + 1))
            return false;
    }
    return PUT(out, "}");
}

static bool put_list(struct buffer *out, struct msgpack_cursor *cursor, uint32_t elements,
                     bool is_plain, int depth)
{
    if (!PUT(out, "["))
        return false;
    for (uint32_t element = 0; element < elements; element++)
        if ((element != 0 && !PUT(out, ",")) || !put_value(out, cursor, is_plain, depth + 1))
            return false;
    return PUT(out, "]");
}

static bool put_member(struct buffer *out, uint8_t set, const struct msgpack_head *member,
                       bool is_plain)
{
    if (set == MSGPACK_STRING_SET)
        return member->kind == MSGPACK_STR && json_from_text(member->bytes, out);
    if (set == MSGPACK_BINARY_SET)
        return member->kind == MSGPACK_BIN && put_binary(out, member->bytes);
    return is_plain ? put_number(out, member) : put_quoted_number(out, member);
}

static bool put_set(struct buffer *out, const struct msgpack_head *set, bool is_plain)
{
    struct msgpack_cursor cursor = msgpack_cursor_of(set->bytes);
    if (!PUT(out, "["))
        return false;
    for (bool is_first = true; cursor.at != cursor.end; is_first = false) {
        struct msgpack_head member;
        if (!msgpack_read(&cursor, &member) || (!is_first && !PUT(out, ",")) ||
            !put_member(out, set->extension, &member, is_plain))
            return false;
    }
    return PUT(out, "]");
}

static bool is_set(const struct msgpack_head *head)
{
    return head->kind == MSGPACK_EXT && head->extension >= MSGPACK_STRING_SET &&
           head->extension <= MSGPACK_BINARY_SET;
}

/* The type member's name and colon: {"S": */
static struct bytes type_text(const struct msgpack_head *head)
{
    static const struct {
        const char *text;
        uint8_t size;
    } of_kinds[] = {
        [MSGPACK_NIL] = {"{\"NULL\":", 8}, [MSGPACK_BOOL] = {"{\"BOOL\":", 8},
        [MSGPACK_UINT] = {"{\"N\":", 5},   [MSGPACK_INT] = {"{\"N\":", 5},
        [MSGPACK_STR] = {"{\"S\":", 5},    [MSGPACK_BIN] = {"{\"B\":", 5},
        [MSGPACK_ARRAY] = {"{\"L\":", 5},  [MSGPACK_MAP] = {"{\"M\":", 5},
        [MSGPACK_EXT] = {"{\"N\":", 5},
    };
    static const char *const of_sets[] = {"{\"SS\":", "{\"NS\":", "{\"BS\":"};
    if (is_set(head))
        return bytes_text(of_sets[head->extension - MSGPACK_STRING_SET]);
    return bytes_of(of_kinds[head->kind].text, of_kinds[head->kind].size);
}

static bool put_contents(struct buffer *out, struct msgpack_cursor *cursor,
                         const struct msgpack_head *head, bool is_plain, int depth)
{
    switch (head->kind) {
    case MSGPACK_NIL:
        return is_plain ? PUT(out, "null") : PUT(out, "true");
    case MSGPACK_BOOL:
        return head->truth ? PUT(out, "true") : PUT(out, "false");
    case MSGPACK_STR:
        return json_from_text(head->bytes, out);
    case MSGPACK_BIN:
        return put_binary(out, head->bytes);
    case MSGPACK_ARRAY:
        return put_list(out, cursor, head->count, is_plain, depth);
    case MSGPACK_MAP:
        return put_map(out, cursor, head->count, is_plain, depth);
    case MSGPACK_UINT:
    case MSGPACK_INT:
    case MSGPACK_EXT:
        break;
    }
    if (is_set(head))
        return put_set(out, head, is_plain);
    return is_plain ? put_number(out, head) : put_quoted_number(out, head);
}

static bool put_value(struct buffer *out, struct msgpack_cursor *cursor, bool is_plain, int depth)
{
    struct msgpack_head head;
    if (depth > DEPTH_MAX || !msgpack_read(cursor, &head))
        return false;
    if (is_plain)
        return put_contents(out, cursor, &head, true, depth);
    return put(out, type_text(&head)) && put_contents(out, cursor, &head, false, depth) &&
           PUT(out, "}");
}

/* ---- what the header offers ---- */

static bool or_back(struct buffer *out, size_t start, bool is_put)
{
    if (!is_put)
        out->size = start;
    return is_put;
}

bool json_from_plain_bytes(struct msgpack_cursor *cursor, struct buffer *out)
{
    size_t start = out->size;
    return or_back(out, start, put_value(out, cursor, true, 0));
}

bool json_from_item_bytes(struct msgpack_cursor *cursor, struct buffer *out)
{
    uint32_t pairs;
    size_t start = out->size;
    return or_back(out, start,
                   msgpack_read_map(cursor, &pairs) && put_map(out, cursor, pairs, false, 0));
}
