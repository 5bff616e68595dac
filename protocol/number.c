#include "protocol/number.h"

#include "protocol/ensure.h"

enum {
    DIGITS_MAX = 38,
    LEADING_EXPONENT_MAX = 125, /* of the leading digit */
    LEADING_EXPONENT_MIN = -130,
    ORDERED_BIAS = -LEADING_EXPONENT_MIN,
    ORDERED_NEGATIVE = 1,
    ORDERED_ZERO = 2,
    ORDERED_POSITIVE = 3,
    ORDERED_HEAD = 2, /* sign byte and exponent byte */
    PAIRS_MAX = DIGITS_MAX / 2,
    DIGITS_U64 = 19, /* 10^19 is the largest power of ten in 64 bits */
    ITEM_SIZE_OF_NUMBER_MAX = 21,
    /* Exponents stop counting here; longer texts than this never reach the daemon. */
    EXPONENT_SATURATED = 1000000000,
    ERROR_ECHO_MAX = 100, /* bytes of the client's text that an error repeats */
};

typedef unsigned __int128 wide;

static const uint64_t powers_u64[] = {
    1ULL,
    10ULL,
    100ULL,
    1000ULL,
    10000ULL,
    100000ULL,
    1000000ULL,
    10000000ULL,
    100000000ULL,
    1000000000ULL,
    10000000000ULL,
    100000000000ULL,
    1000000000000ULL,
    10000000000000ULL,
    100000000000000ULL,
    1000000000000000ULL,
    10000000000000000ULL,
    100000000000000000ULL,
    1000000000000000000ULL,
    10000000000000000000ULL,
};

/* 10^n, n at most 38. */
static wide power_of_ten(int n)
{
    return n <= DIGITS_U64 ? (wide)powers_u64[n]
                           : (wide)powers_u64[DIGITS_U64] * powers_u64[n - DIGITS_U64];
}

/* 0 for 0. */
static int count_digits_u64(uint64_t integer)
{
    if (integer == 0)
        return 0;
    int bits = 64 - __builtin_clzll(integer);
    int digits = (bits * 1233) >> 12; /* log10(2) is about 1233 / 4096: right or one too few */
    return digits + (integer >= powers_u64[digits]);
}

static int count_digits(wide coefficient)
{
    if ((uint64_t)(coefficient >> 64) == 0)
        return count_digits_u64((uint64_t)coefficient);
    /* 2^64 and above: at least 20 digits, so the quotient is not zero. Of 2^128 it may have 20. */
    wide high = coefficient / powers_u64[DIGITS_U64];
    return (uint64_t)(high >> 64) != 0 ? 2 * DIGITS_U64 + 1
                                       : DIGITS_U64 + count_digits_u64((uint64_t)high);
}

static void strip_zeros(struct number *number)
{
    if (number->coefficient == 0) {
        *number = (struct number){0};
        return;
    }
    while ((uint64_t)(number->coefficient >> 64) != 0 && number->coefficient % 10 == 0) {
        number->coefficient /= 10;
        number->exponent++;
    }
    if ((uint64_t)(number->coefficient >> 64) != 0)
        return;
    uint64_t low = (uint64_t)number->coefficient;
    while (low % 10 == 0) {
        low /= 10;
        number->exponent++;
    }
    number->coefficient = low;
}

/* ---- text ---- */

static enum status refuse_text(struct bytes text, struct error *error)
{
    if (text.size == 0)
        return error_set(error, STATUS_VALIDATION,
                         "The parameter cannot be converted to a numeric value");
    int echo = text.size < ERROR_ECHO_MAX ? (int)text.size : ERROR_ECHO_MAX;
    return error_set(error, STATUS_VALIDATION,
                     "The parameter cannot be converted to a numeric value: %.*s", echo,
                     (const char *)text.data);
}

/* `leading`: exponent of the leading digit. */
static enum status check_magnitude(int64_t leading, struct error *error)
{
    if (leading > LEADING_EXPONENT_MAX)
        return error_set(error, STATUS_VALIDATION,
                         "Number overflow. Attempting to store a number with magnitude larger "
                         "than supported range");
    if (leading < LEADING_EXPONENT_MIN)
        return error_set(error, STATUS_VALIDATION,
                         "Number underflow. Attempting to store a number with magnitude smaller "
                         "than supported range");
    return STATUS_OK;
}

static enum status refuse_digits(struct error *error)
{
    return error_set(error, STATUS_VALIDATION,
                     "Attempting to store more than 38 significant digits in a Number");
}

/* What a text says before limits are applied: coefficient x 10^exponent. */
struct scan {
    wide coefficient;
    int digits;       /* of the coefficient; leading zeros do not count */
    int64_t exponent; /* of the coefficient's last digit */
    bool is_negative;
    bool is_too_long; /* a digit other than 0 behind the 38th */
};

static void scan_digit(struct scan *scan, unsigned digit, bool is_fraction)
{
    if (scan->digits == 0 && digit == 0) {
        scan->exponent -= is_fraction;
        return;
    }
    if (scan->digits == DIGITS_MAX) {
        scan->is_too_long |= digit != 0;
        scan->exponent += !is_fraction;
        return;
    }
    scan->coefficient = scan->coefficient * 10 + digit;
    scan->digits++;
    scan->exponent -= is_fraction;
}

/* Reads [+-]digits at `at` up to `end`; NULL when there is something else. */
static const uint8_t *scan_exponent(const uint8_t *at, const uint8_t *end, int64_t *out)
{
    bool is_negative = at < end && *at == '-';
    if (at < end && (*at == '+' || *at == '-'))
        at++;
    if (at == end)
        return NULL;
    int64_t exponent = 0;
    for (; at < end && *at >= '0' && *at <= '9'; at++)
        if (exponent < EXPONENT_SATURATED)
            exponent = exponent * 10 + (*at - '0');
    if (at != end)
        return NULL;
    *out = is_negative ? -exponent : exponent;
    return at;
}

static bool scan_text(struct bytes text, struct scan *scan)
{
    if (text.size == 0)
        return false;
    const uint8_t *at = text.data;
    const uint8_t *end = at + text.size;
    if (at < end && (*at == '+' || *at == '-'))
        scan->is_negative = *at++ == '-';
    bool has_digits = false;
    bool is_fraction = false;
    for (; at < end; at++) {
        unsigned digit = (unsigned)*at - '0';
        if (digit <= 9) {
            has_digits = true;
            scan_digit(scan, digit, is_fraction);
        } else if (*at == '.' && !is_fraction) {
            is_fraction = true;
        } else {
            break;
        }
    }
    if (!has_digits)
        return false;
    if (at == end)
        return true;
    int64_t exponent = 0;
    if ((*at != 'e' && *at != 'E') || scan_exponent(at + 1, end, &exponent) == NULL)
        return false;
    scan->exponent += exponent;
    return true;
}

enum status number_parse(struct bytes text, struct number *out, struct error *error)
{
    struct scan scan = {0};
    if (!scan_text(text, &scan))
        return refuse_text(text, error);
    if (scan.digits == 0) {
        *out = (struct number){0};
        return STATUS_OK;
    }
    int64_t leading = scan.exponent + scan.digits - 1;
    enum status status = check_magnitude(leading, error);
    if (status != STATUS_OK)
        return status;
    if (scan.is_too_long)
        return refuse_digits(error);
    struct number number = {scan.coefficient, (int16_t)scan.exponent, scan.is_negative};
    strip_zeros(&number);
    *out = number;
    return STATUS_OK;
}

/* Writes exactly `count` decimal digits of `coefficient`. */
static void write_digits(wide coefficient, int count, char *out)
{
    for (int at = count - 1; at >= 0;) {
        /* 18 digits at a time in 64-bit arithmetic. */
        uint64_t part = (uint64_t)(coefficient % powers_u64[18]);
        coefficient /= powers_u64[18];
        for (int i = 0; i < 18 && at >= 0; i++, at--) {
            out[at] = (char)('0' + part % 10);
            part /= 10;
        }
    }
}

size_t number_print(const struct number *number, char out[NUMBER_TEXT_MAX])
{
    if (number->coefficient == 0) {
        out[0] = '0';
        return 1;
    }
    char *at = out;
    if (number->is_negative)
        *at++ = '-';
    char digits[DIGITS_MAX];
    int count = count_digits(number->coefficient);
    write_digits(number->coefficient, count, digits);
    int whole = count + number->exponent; /* digits before the point */
    if (whole <= 0) {
        *at++ = '0';
        *at++ = '.';
        memset(at, '0', (size_t)-whole);
        at += -whole;
        memcpy(at, digits, (size_t)count);
        return (size_t)(at + count - out);
    }
    int before = whole < count ? whole : count;
    memcpy(at, digits, (size_t)before);
    at += before;
    memset(at, '0', (size_t)(whole - before));
    at += whole - before;
    if (before < count) {
        *at++ = '.';
        memcpy(at, digits + before, (size_t)(count - before));
        at += count - before;
    }
    return (size_t)(at - out);
}

/* ---- order ---- */

static int compare_magnitude(const struct number *a, const struct number *b)
{
    int digits_a = count_digits(a->coefficient);
    int digits_b = count_digits(b->coefficient);
    int leading_a = a->exponent + digits_a;
    int leading_b = b->exponent + digits_b;
    if (leading_a != leading_b)
        return leading_a < leading_b ? -1 : 1;
    wide left = a->coefficient, right = b->coefficient;
    if (digits_a < digits_b)
        left *= power_of_ten(digits_b - digits_a);
    else if (digits_b < digits_a)
        right *= power_of_ten(digits_a - digits_b);
    return (left > right) - (left < right);
}

static int sign_of(const struct number *number)
{
    return number->coefficient == 0 ? 0 : number->is_negative ? -1 : 1;
}

int number_compare(const struct number *a, const struct number *b)
{
    int sign_a = sign_of(a);
    int sign_b = sign_of(b);
    if (sign_a != sign_b)
        return sign_a < sign_b ? -1 : 1;
    return sign_a == 0 ? 0 : sign_a * compare_magnitude(a, b);
}

/* ---- integers ---- */

struct number number_from_uint(uint64_t integer)
{
    struct number number = {integer, 0, false};
    if (integer % 10 == 0)
        strip_zeros(&number);
    return number;
}

struct number number_from_int(int64_t integer)
{
    uint64_t magnitude = integer < 0 ? -(uint64_t)integer : (uint64_t)integer;
    struct number number = number_from_uint(magnitude);
    number.is_negative = integer < 0;
    return number;
}

/* The magnitude, if it is a whole number below 2^64. */
static bool whole_magnitude(const struct number *number, uint64_t *out)
{
    if (number->exponent < 0 || number->exponent > DIGITS_U64 ||
        (uint64_t)(number->coefficient >> 64) != 0)
        return false;
    wide magnitude = number->coefficient * powers_u64[number->exponent];
    if ((uint64_t)(magnitude >> 64) != 0)
        return false;
    *out = (uint64_t)magnitude;
    return true;
}

bool number_to_int(const struct number *number, int64_t *out)
{
    uint64_t magnitude = 0;
    if (!whole_magnitude(number, &magnitude) ||
        magnitude > (uint64_t)INT64_MAX + number->is_negative)
        return false;
    *out = (int64_t)(number->is_negative ? -magnitude : magnitude);
    return true;
}

bool number_to_uint(const struct number *number, uint64_t *out)
{
    return !number->is_negative && whole_magnitude(number, out);
}

/* ---- sums ---- */

/* Neither is zero; `high` has the larger exponent, or the same. Scaled to the exponent of `low`,
 * the coefficient of `high` may get so large that no sum of 38 digits is possible: if it exceeds 2
 * x 10^38, the other cannot bring it below 10^38, and if the exponents differ, the last digit of
 * the sum is that of `low`, which is not zero. */
static bool sum_up(const struct number *high, const struct number *low, struct number *out)
{
    int shift = high->exponent - low->exponent;
    wide most = 2 * power_of_ten(DIGITS_MAX);
    if (shift > DIGITS_MAX || high->coefficient > most / power_of_ten(shift))
        return false;
    wide scaled = high->coefficient * power_of_ten(shift);
    struct number sum = {.exponent = low->exponent, .is_negative = high->is_negative};
    if (high->is_negative == low->is_negative) {
        sum.coefficient = scaled + low->coefficient;
    } else if (scaled >= low->coefficient) {
        sum.coefficient = scaled - low->coefficient;
    } else {
        sum.coefficient = low->coefficient - scaled;
        sum.is_negative = low->is_negative;
    }
    strip_zeros(&sum);
    *out = sum;
    return count_digits(sum.coefficient) <= DIGITS_MAX;
}

enum status number_add(const struct number *a, const struct number *b, struct number *out,
                       struct error *error)
{
    struct number sum;
    if (a->coefficient == 0 || b->coefficient == 0) {
        *out = a->coefficient == 0 ? *b : *a;
        return STATUS_OK;
    }
    bool is_ordered = a->exponent >= b->exponent;
    if (!sum_up(is_ordered ? a : b, is_ordered ? b : a, &sum))
        return refuse_digits(error);
    if (sum.coefficient != 0) {
        int leading = sum.exponent + count_digits(sum.coefficient) - 1;
        enum status status = check_magnitude(leading, error);
        if (status != STATUS_OK)
            return status;
    }
    *out = sum;
    return STATUS_OK;
}

enum status number_subtract(const struct number *a, const struct number *b, struct number *out,
                            struct error *error)
{
    struct number negative = *b;
    negative.is_negative = !b->is_negative && b->coefficient != 0;
    return number_add(a, &negative, out, error);
}

/* ---- ordered bytes ---- */

/* Writes `pairs` bytes, two decimal digits each, the last digits in the last byte. */
static void write_pairs(wide coefficient, int pairs, uint8_t *out)
{
    int at = pairs - 1;
    while ((uint64_t)(coefficient >> 64) != 0) {
        out[at--] = (uint8_t)(coefficient % 100);
        coefficient /= 100;
    }
    for (uint64_t low = (uint64_t)coefficient; at >= 0; at--) {
        out[at] = (uint8_t)(low % 100);
        low /= 100;
    }
}

size_t number_to_ordered(const struct number *number, uint8_t out[NUMBER_ORDERED_MAX])
{
    if (number->coefficient == 0) {
        out[0] = ORDERED_ZERO;
        return 1;
    }
    int digits = count_digits(number->coefficient);
    int leading = number->exponent + digits - 1;
    ensure(digits <= DIGITS_MAX && leading >= LEADING_EXPONENT_MIN &&
           leading <= LEADING_EXPONENT_MAX);
    /* An odd last digit is padded to a pair; then there are 37 digits at most, so it fits. */
    wide coefficient = digits % 2 != 0 ? number->coefficient * 10 : number->coefficient;
    int pairs = (digits + 1) / 2;
    out[0] = number->is_negative ? ORDERED_NEGATIVE : ORDERED_POSITIVE;
    out[1] = (uint8_t)(leading + ORDERED_BIAS);
    uint8_t *pair = out + ORDERED_HEAD;
    write_pairs(coefficient, pairs, pair);
    for (int i = 0; i < pairs; i++)
        pair[i] = (uint8_t)(2 * pair[i] + (i + 1 < pairs));
    size_t size = ORDERED_HEAD + (size_t)pairs;
    if (number->is_negative)
        for (size_t i = 1; i < size; i++)
            out[i] = (uint8_t)~out[i];
    return size;
}

bool number_from_ordered(struct bytes bytes, struct number *out, size_t *used)
{
    if (bytes.size == 0)
        return false;
    if (bytes.data[0] == ORDERED_ZERO) {
        *out = (struct number){0};
        *used = 1;
        return true;
    }
    bool is_negative = bytes.data[0] == ORDERED_NEGATIVE;
    if ((!is_negative && bytes.data[0] != ORDERED_POSITIVE) || bytes.size <= ORDERED_HEAD)
        return false;
    uint8_t flip = is_negative ? 0xff : 0;
    int leading = (bytes.data[1] ^ flip) - ORDERED_BIAS;
    wide coefficient = 0;
    int pairs = 0;
    unsigned byte = 1;
    while (byte % 2 != 0) {
        size_t at = ORDERED_HEAD + (size_t)pairs;
        if (pairs == PAIRS_MAX || at >= bytes.size)
            return false;
        byte = bytes.data[at] ^ flip;
        if (byte / 2 > 99 || (pairs == 0 && byte / 2 < 10))
            return false;
        coefficient = coefficient * 100 + byte / 2;
        pairs++;
    }
    if (byte == 0) /* a last pair of zeros: not the lowest form */
        return false;
    struct number number = {coefficient, (int16_t)(leading + 1 - 2 * pairs), is_negative};
    if (byte / 2 % 10 == 0) { /* the padding of an odd number of digits */
        number.coefficient /= 10;
        number.exponent++;
    }
    *out = number;
    *used = ORDERED_HEAD + (size_t)pairs;
    return true;
}

size_t number_item_size(const struct number *number)
{
    size_t digits = (size_t)count_digits(number->coefficient);
    size_t size = (digits + 1) / 2 + 1 + (number->is_negative && digits != 0);
    return size < ITEM_SIZE_OF_NUMBER_MAX ? size : ITEM_SIZE_OF_NUMBER_MAX;
}
