/* msgpack.h - values as MessagePack: a cursor that reads in place, and the canonical writer.
 *
 * An attribute value is MessagePack's own type where there is one: S str, B bin, BOOL, NULL nil,
 * L array, M map with str keys, N an integer when it is one and fits 64 bits. Else an extension
 * type: 1 a decimal (number_to_ordered bytes), 2 SS, 3 NS, 4 BS, whose contents are the members,
 * one encoded value after the other. Canonical: shortest form of every head, map keys ascending by
 * bytes and unique, set members ascending by value and unique. The same value always gives the same
 * bytes. Source: github.com/msgpack/msgpack/blob/master/spec.md; ours: protocol/native/SPEC.md.
 * Threads: pure functions. */
#pragma once

#include "protocol/buffer.h"
#include "protocol/key_order.h"
#include "protocol/value.h"

enum msgpack_extension {
    MSGPACK_DECIMAL = 1,
    MSGPACK_STRING_SET = 2,
    MSGPACK_NUMBER_SET = 3,
    MSGPACK_BINARY_SET = 4,
};

/* ---- reading in place ---- */

enum msgpack_kind {
    MSGPACK_NIL,
    MSGPACK_BOOL,
    MSGPACK_UINT, /* 0 or more, whatever its wire form */
    MSGPACK_INT,  /* below 0 */
    MSGPACK_STR,
    MSGPACK_BIN,
    MSGPACK_ARRAY,
    MSGPACK_MAP,
    MSGPACK_EXT,
};

struct msgpack_head {
    enum msgpack_kind kind;
    bool truth;
    uint8_t extension;
    uint64_t integer;   /* UINT: the value; INT: its two's complement */
    uint32_t count;     /* ARRAY: elements; MAP: pairs */
    struct bytes bytes; /* STR, BIN, EXT contents, a view */
};

struct msgpack_cursor {
    const uint8_t *at, *end;
};

static inline struct msgpack_cursor msgpack_cursor_of(struct bytes bytes)
{
    return (struct msgpack_cursor){bytes.data,
                                   bytes.size == 0 ? bytes.data : bytes.data + bytes.size};
}

/* Reads one head (for STR, BIN and EXT the contents too); only the fields of its kind are set. A
 * count is checked against what is left: an element takes at least one byte. False on truncated
 * bytes, floats (DynamoDB has none), c1, or a hostile length; the cursor is then unspecified. */
MUST_CHECK bool msgpack_read_any(struct msgpack_cursor *cursor, struct msgpack_head *out);

/* The same; short strings, small maps, small integers and truths, most of what a request is made
 * of, are read inline. */
MUST_CHECK static inline bool msgpack_read(struct msgpack_cursor *cursor, struct msgpack_head *out)
{
    if (UNLIKELY(cursor->at == cursor->end))
        return false;
    uint8_t lead = *cursor->at;
    size_t left = (size_t)(cursor->end - cursor->at) - 1;
    if ((lead & 0xe0) == 0xa0) {
        size_t size = lead & 0x1f;
        if (UNLIKELY(size > left))
            return false;
        out->kind = MSGPACK_STR;
        out->bytes = bytes_of(cursor->at + 1, size);
        cursor->at += 1 + size;
        return true;
    }
    if (lead < 0x80) {
        out->kind = MSGPACK_UINT;
        out->integer = lead;
        cursor->at++;
        return true;
    }
    if ((lead & 0xf0) == 0x80) {
        uint32_t count = lead & 0x0f;
        if (UNLIKELY(2 * (size_t)count > left))
            return false;
        out->kind = MSGPACK_MAP;
        out->count = count;
        cursor->at++;
        return true;
    }
    if ((lead & 0xf0) == 0x90) {
        uint32_t count = lead & 0x0f;
        if (UNLIKELY(count > left))
            return false;
        out->kind = MSGPACK_ARRAY;
        out->count = count;
        cursor->at++;
        return true;
    }
    if ((lead & 0xfe) == 0xc2) {
        out->kind = MSGPACK_BOOL;
        out->truth = lead == 0xc3;
        cursor->at++;
        return true;
    }
    return msgpack_read_any(cursor, out);
}

/* Passes over one whole value of any depth up to ITEM_DEPTH_MAX + 4; `out` (may be NULL) is its
 * bytes. */
MUST_CHECK bool msgpack_skip(struct msgpack_cursor *cursor, struct bytes *out);

/* Shorthands: one head of the wanted kind, or false. Inline: a request is mostly these. */
MUST_CHECK static inline bool msgpack_read_uint(struct msgpack_cursor *cursor, uint64_t *out)
{
    struct msgpack_head head;
    if (!msgpack_read(cursor, &head) || head.kind != MSGPACK_UINT)
        return false;
    *out = head.integer;
    return true;
}

MUST_CHECK static inline bool msgpack_read_str(struct msgpack_cursor *cursor, struct bytes *out)
{
    struct msgpack_head head;
    if (!msgpack_read(cursor, &head) || head.kind != MSGPACK_STR)
        return false;
    *out = head.bytes;
    return true;
}

MUST_CHECK static inline bool msgpack_read_map(struct msgpack_cursor *cursor, uint32_t *pairs)
{
    struct msgpack_head head;
    if (!msgpack_read(cursor, &head) || head.kind != MSGPACK_MAP)
        return false;
    *pairs = head.count;
    return true;
}

MUST_CHECK static inline bool msgpack_read_array(struct msgpack_cursor *cursor, uint32_t *elements)
{
    struct msgpack_head head;
    if (!msgpack_read(cursor, &head) || head.kind != MSGPACK_ARRAY)
        return false;
    *elements = head.count;
    return true;
}

/* What a head means: its DynamoDB type, false for an extension that is none of ours; the number of
 * one of type N, false when a decimal's bytes are not what they must be. */
MUST_CHECK bool msgpack_head_type(const struct msgpack_head *head, enum value_type *out);
MUST_CHECK bool msgpack_head_number(const struct msgpack_head *head, struct number *out);

/* ---- values and items ---- */

/* Decodes one value at the cursor into a normalized tree in the arena (strings and binaries stay
 * views). Depth, UTF-8, set rules and duplicate names are checked. Errors: STATUS_VALIDATION
 * (DynamoDB's texts) or STATUS_MALFORMED, STATUS_NO_MEMORY. */
MUST_CHECK enum status value_decode(struct msgpack_cursor *cursor, struct arena *arena,
                                    struct value *out, struct error *error);
/* The same for what is no item: up to PLAIN_DEPTH_MAX. */
MUST_CHECK enum status value_decode_plain(struct msgpack_cursor *cursor, struct arena *arena,
                                          struct value *out, struct error *error);

/* Appends the canonical bytes of a normalized tree. False without memory; `out` then ends where it
 * did. */
MUST_CHECK bool value_encode(const struct value *value, struct buffer *out);

/* The same in arena memory; BYTES_NONE without. */
MUST_CHECK struct bytes value_encode_arena(const struct value *value, struct arena *arena);

/* What item_check() finds out in one pass without allocating. */
struct item_facts {
    bool is_canonical;
    size_t item_size; /* DynamoDB's size: names and values */
};

/* Validates an item (a map) by every rule of value_decode() plus ITEM_SIZE_MAX, in place.
 * Out of order map keys and set members, and longer forms than needed, only clear `is_canonical`;
 * a duplicate may then be found by the re-encoding only. */
MUST_CHECK enum status item_check(struct bytes item, struct item_facts *out, struct error *error);

/* The canonical bytes of an item: itself when it is canonical already, else encoded again into the
 * arena. Errors as value_decode() and item_check(). `item_size` may be NULL. */
MUST_CHECK enum status item_canonical(struct bytes item, struct arena *arena, struct bytes *out,
                                      size_t *item_size, struct error *error);

/* DynamoDB's size of a checked item (names and values). One flat pass, nothing is validated. */
size_t item_size(struct bytes item);

/* Finds an attribute of a map by name and gives the bytes of its value. False if it is not there or
 * the map is malformed. */
MUST_CHECK bool item_find(struct bytes item, struct bytes name, struct bytes *out);

/* ---- keys ---- */

/* Builds the primary key from a map that holds the key attributes.
 * is_exact  the map must hold nothing else (Key parameters); false for whole items
 * out       arena memory
 * Errors: STATUS_VALIDATION with DynamoDB's texts (missing key, wrong type, empty or too long,
 * number of conditions on the keys is invalid), STATUS_NO_MEMORY. */
MUST_CHECK enum status item_key_build(struct bytes map, const struct key_schema *schema,
                                      bool is_exact, struct arena *arena, struct item_key *out,
                                      struct error *error);

/* Where a key value stands decides how DynamoDB says that its type is wrong. */
enum key_place {
    KEY_IN_ITEM,      /* "Type mismatch for key p expected: S actual: N" */
    KEY_IN_KEY,       /* "The provided key element does not match the schema" */
    KEY_IN_CONDITION, /* "Condition parameter type does not match schema type" */
};

/* Reads one key value at the cursor: S or B contents, or the ordered form of N written to
 * `ordered`. Type, emptiness, length and UTF-8 are checked.
 * is_sort  which of the schema's attributes it is
 * out      a view into the bytes read, or of `ordered`
 * Errors: STATUS_VALIDATION with DynamoDB's texts, STATUS_MALFORMED. */
MUST_CHECK enum status key_value_read(struct msgpack_cursor *cursor,
                                      const struct key_schema *schema, bool is_sort,
                                      enum key_place place, uint8_t ordered[NUMBER_ORDERED_MAX],
                                      struct bytes *out, struct error *error);

/* Appends the canonical map of key attributes for `key`, the way back from item_key_build(). False
 * without memory (then `out` ends where it did). */
MUST_CHECK bool item_key_encode(struct item_key key, const struct key_schema *schema,
                                struct arena *arena, struct buffer *out);
