/* number.h - DynamoDB's decimal numbers.
 *
 * 38 significant digits; zero, or magnitude 1e-130 to 9.9999999999999999999999999999999999999E+125.
 * Source: DynamoDB developer guide, "Supported data types and naming rules", Number. */
#pragma once

#include "protocol/status.h"

/* coefficient x 10^exponent, in lowest form: no trailing decimal zero; zero is {0, 0, false}. */
struct number {
    unsigned __int128 coefficient; /* below 10^38 */
    int16_t exponent;
    bool is_negative;
};

enum {
    NUMBER_TEXT_MAX = 176,   /* longest number_print(), without NUL: -0. and 167 digits */
    NUMBER_ORDERED_MAX = 21, /* longest number_to_ordered() */
};

/* Text as DynamoDB takes it: sign, digits, point, exponent; no blanks.
 * Errors: STATUS_VALIDATION with DynamoDB's text (not a number, too many significant digits, too
 * large or too small a magnitude); `out` is then untouched. */
MUST_CHECK enum status number_parse(struct bytes text, struct number *out, struct error *error);

/* Decimal text as DynamoDB gives numbers back: every digit written out, never an exponent, no
 * needless zero. Returns the length; no NUL. */
size_t number_print(const struct number *number, char out[NUMBER_TEXT_MAX]);

/* By value: negative, 0 or positive. */
int number_compare(const struct number *a, const struct number *b);

/* Exactly, within the limits of a number.
 * Errors: STATUS_VALIDATION with DynamoDB's text: more than 38 significant digits, too large or too
 * small a magnitude; `out` is then untouched. */
MUST_CHECK enum status number_add(const struct number *a, const struct number *b,
                                  struct number *out, struct error *error);
MUST_CHECK enum status number_subtract(const struct number *a, const struct number *b,
                                       struct number *out, struct error *error);

struct number number_from_int(int64_t integer);
struct number number_from_uint(uint64_t integer);

/* True when the number is an integer that fits; then `out` is set. */
bool number_to_int(const struct number *number, int64_t *out);
bool number_to_uint(const struct number *number, uint64_t *out);

/* Bytes whose unsigned order is the numbers' order, one form a value, self-delimiting (no encoding
 * is a prefix of another). Returns the length.
 * Layout: sign and zero byte (01 negative, 02 zero, 03 positive); decimal exponent of the leading
 * digit, biased by 130; then pairs of digits from the leading one, each 2 x pair + 1, the last one
 * 2 x pair. All bytes after the first are complemented for negative numbers. */
size_t number_to_ordered(const struct number *number, uint8_t out[NUMBER_ORDERED_MAX]);

/* Reads one number from the front of `bytes`; `used` is its length. False when the bytes are not
 * what number_to_ordered() writes. */
MUST_CHECK bool number_from_ordered(struct bytes bytes, struct number *out, size_t *used);

/* DynamoDB's size of a number in an item: about one byte for two significant digits, plus one, plus
 * one more if negative; at most 21. Source: developer guide, "DynamoDB item sizes and formats". */
size_t number_item_size(const struct number *number);
