/* msgpack_put.h - MessagePack into memory that is known to be large enough.
 *
 * Each function writes the shortest form at `at` and returns what is behind it. For readers of
 * other encodings, which know their room beforehand and write millions of heads; trees are written
 * by value_encode(). Source: github.com/msgpack/msgpack/blob/master/spec.md. Threads: pure
 * functions.
 */
#pragma once

#include "protocol/encoding/msgpack.h"

enum {
    MSGPACK_HEAD_MAX = 6,                        /* of strings, binaries, lists, maps and sets */
    MSGPACK_NUMBER_MAX = 3 + NUMBER_ORDERED_MAX, /* of a number, whole */
};

/* The low `size` bytes, most significant first. */
static inline uint8_t *msgpack_put_bytes_of(uint8_t *at, uint64_t integer, size_t size)
{
    for (size_t left = size; left != 0; left--)
        *at++ = (uint8_t)(integer >> (8 * (left - 1)));
    return at;
}

/* A lead byte and the operand behind it. */
static inline uint8_t *msgpack_put_operand(uint8_t *at, uint8_t lead, uint64_t operand, size_t size)
{
    *at = lead;
    return msgpack_put_bytes_of(at + 1, operand, size);
}

static inline uint8_t *msgpack_put_uint(uint8_t *at, uint64_t natural)
{
    if (natural < 0x80)
        return msgpack_put_bytes_of(at, natural, 1);
    return natural <= UINT8_MAX    ? msgpack_put_operand(at, 0xcc, natural, 1)
           : natural <= UINT16_MAX ? msgpack_put_operand(at, 0xcd, natural, 2)
           : natural <= UINT32_MAX ? msgpack_put_operand(at, 0xce, natural, 4)
                                   : msgpack_put_operand(at, 0xcf, natural, 8);
}

/* integer  below 0 */
static inline uint8_t *msgpack_put_negative(uint8_t *at, int64_t integer)
{
    uint64_t bits = (uint64_t)integer;
    if (integer >= -32)
        return msgpack_put_bytes_of(at, bits, 1);
    return integer >= INT8_MIN    ? msgpack_put_operand(at, 0xd0, bits, 1)
           : integer >= INT16_MIN ? msgpack_put_operand(at, 0xd1, bits, 2)
           : integer >= INT32_MIN ? msgpack_put_operand(at, 0xd2, bits, 4)
                                  : msgpack_put_operand(at, 0xd3, bits, 8);
}

static inline uint8_t *msgpack_put_nil(uint8_t *at)
{
    return msgpack_put_bytes_of(at, 0xc0, 1);
}

static inline uint8_t *msgpack_put_bool(uint8_t *at, bool truth)
{
    return msgpack_put_bytes_of(at, truth ? 0xc3 : 0xc2, 1);
}

/* The head of a string of `size` bytes. */
static inline uint8_t *msgpack_put_str_head(uint8_t *at, size_t size)
{
    if (size < 32)
        return msgpack_put_bytes_of(at, 0xa0 | size, 1);
    return size <= UINT8_MAX    ? msgpack_put_operand(at, 0xd9, size, 1)
           : size <= UINT16_MAX ? msgpack_put_operand(at, 0xda, size, 2)
                                : msgpack_put_operand(at, 0xdb, size, 4);
}

static inline uint8_t *msgpack_put_bin_head(uint8_t *at, size_t size)
{
    return size <= UINT8_MAX    ? msgpack_put_operand(at, 0xc4, size, 1)
           : size <= UINT16_MAX ? msgpack_put_operand(at, 0xc5, size, 2)
                                : msgpack_put_operand(at, 0xc6, size, 4);
}

/* count  elements, or pairs of a map */
static inline uint8_t *msgpack_put_count(uint8_t *at, bool is_map, size_t count)
{
    if (count < 16)
        return msgpack_put_bytes_of(at, (is_map ? 0x80 : 0x90) | count, 1);
    return count <= UINT16_MAX ? msgpack_put_operand(at, is_map ? 0xde : 0xdc, count, 2)
                               : msgpack_put_operand(at, is_map ? 0xdf : 0xdd, count, 4);
}

static inline uint8_t *msgpack_put_ext_head(uint8_t *at, uint8_t extension, size_t size)
{
    bool is_fixed = size != 0 && size <= 16 && (size & (size - 1)) == 0;
    if (is_fixed)
        *at++ = (uint8_t)(0xd4 + __builtin_ctzll(size));
    else
        at = size <= UINT8_MAX    ? msgpack_put_operand(at, 0xc7, size, 1)
             : size <= UINT16_MAX ? msgpack_put_operand(at, 0xc8, size, 2)
                                  : msgpack_put_operand(at, 0xc9, size, 4);
    *at++ = extension;
    return at;
}

/* An integer if it is one and fits 64 bits, else a decimal. */
static inline uint8_t *msgpack_put_number(uint8_t *at, const struct number *number)
{
    int64_t integer = 0;
    uint64_t natural = 0;
    if (number_to_uint(number, &natural))
        return msgpack_put_uint(at, natural);
    if (number_to_int(number, &integer))
        return msgpack_put_negative(at, integer);
    uint8_t ordered[NUMBER_ORDERED_MAX];
    size_t size = number_to_ordered(number, ordered);
    at = msgpack_put_ext_head(at, MSGPACK_DECIMAL, size);
    memcpy(at, ordered, size);
    return at + size;
}
