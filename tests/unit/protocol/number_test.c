#include "protocol/number.h"
#include "tests/unit/protocol/random_value.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { ROUNDS = 20000 };

static struct number parse(const char *text)
{
    struct number number;
    struct error error;
    if (number_parse(bytes_text(text), &number, &error) != STATUS_OK)
        fail_msg("%s: %s", text, error.text);
    return number;
}

/* The oracle: every digit at its place in a row from 10^399 down to 10^-400. */
enum { PLACES = 800, PLACE_OF_ONE = 399 };

struct slow_number {
    bool is_negative;
    char digits[PLACES];
};

static void slow_parse(const char *text, struct slow_number *out)
{
    memset(out, 0, sizeof *out);
    const char *mark = strpbrk(text, "eE");
    int exponent = mark == NULL ? 0 : atoi(mark + 1);
    size_t size = mark == NULL ? strlen(text) : (size_t)(mark - text);
    const char *point = memchr(text, '.', size);
    int whole = 0;
    for (size_t i = 0; i < size && text + i != point; i++)
        whole += text[i] >= '0' && text[i] <= '9';
    int place = PLACE_OF_ONE - (whole - 1) - exponent;
    bool is_zero = true;
    for (size_t i = 0; i < size; i++) {
        if (text[i] < '0' || text[i] > '9')
            continue;
        out->digits[place++] = (char)(text[i] - '0');
        is_zero = is_zero && text[i] == '0';
    }
    out->is_negative = text[0] == '-' && !is_zero;
}

static int slow_compare(const struct slow_number *a, const struct slow_number *b)
{
    if (a->is_negative != b->is_negative)
        return a->is_negative ? -1 : 1;
    int order = memcmp(a->digits, b->digits, PLACES);
    order = (order > 0) - (order < 0);
    return a->is_negative ? -order : order;
}

static int sign(int order)
{
    return (order > 0) - (order < 0);
}

static void number_limits_are_dynamodbs(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *printed; /* NULL: refused */
        const char *refusal;
    } cases[] = {
        {"12345678901234567890123456789012345678", "12345678901234567890123456789012345678", NULL},
        {"123456789012345678901234567890123456789", NULL,
         "Attempting to store more than 38 significant digits in a Number"},
        {"9.9999999999999999999999999999999999999E+125",
         "999999999999999999999999999999999999990000000000000000000000000000000000000000000000000"
         "000000000000000000000000000000000000000",
         NULL},
        {"1e126", NULL,
         "Number overflow. Attempting to store a number with magnitude larger than supported "
         "range"},
        {"1e-130",
         "0.00000000000000000000000000000000000000000000000000000000000000000000000000000000000000"
         "00000000000000000000000000000000000000000001",
         NULL},
        {"1e-131", NULL,
         "Number underflow. Attempting to store a number with magnitude smaller than supported "
         "range"},
        {"NaN", NULL, "The parameter cannot be converted to a numeric value: NaN"},
        {"", NULL, "The parameter cannot be converted to a numeric value"},
        {" 1", NULL, "The parameter cannot be converted to a numeric value:  1"},
        {"1 ", NULL, "The parameter cannot be converted to a numeric value: 1 "},
        {"+", NULL, "The parameter cannot be converted to a numeric value: +"},
        {".", NULL, "The parameter cannot be converted to a numeric value: ."},
        {"1e", NULL, "The parameter cannot be converted to a numeric value: 1e"},
        {"1e+", NULL, "The parameter cannot be converted to a numeric value: 1e+"},
        {"1.2.3", NULL, "The parameter cannot be converted to a numeric value: 1.2.3"},
        {"0x10", NULL, "The parameter cannot be converted to a numeric value: 0x10"},
        {"Infinity", NULL, "The parameter cannot be converted to a numeric value: Infinity"},
        {"00042", "42", NULL},
        {"-0", "0", NULL},
        {"0e999999999999", "0", NULL},
        {"1e999999999999999999999", NULL,
         "Number overflow. Attempting to store a number with magnitude larger than supported "
         "range"},
        {"1.5E2", "150", NULL},
        {"1.0", "1", NULL},
        {"+.5", "0.5", NULL},
        {"5.", "5", NULL},
        {"-0.0500", "-0.05", NULL},
        {"100000000000000000000000000000000000000000000", /* 45 digits, one significant */
         "100000000000000000000000000000000000000000000", NULL},
        {"0.00000000000000000000000000000000000000000000000001",
         "0.00000000000000000000000000000000000000000000000001", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct number number = {7, 7, true};
        struct error error;
        char text[NUMBER_TEXT_MAX + 1];
        enum status status = number_parse(bytes_text(cases[i].text), &number, &error);
        if (cases[i].printed == NULL) {
            assert_int_equal(status, STATUS_VALIDATION);
            assert_string_equal(error.text, cases[i].refusal);
            assert_int_equal(number.exponent, 7); /* untouched */
            continue;
        }
        if (status != STATUS_OK)
            fail_msg("%s: %s", cases[i].text, error.text);
        text[number_print(&number, text)] = '\0';
        assert_string_equal(text, cases[i].printed);
    }
}

static void numbers_compare_as_their_digits_do(void **state)
{
    (void)state;
    struct random random = {1};
    char text[2][RANDOM_NUMBER_TEXT_MAX];
    for (int round = 0; round < ROUNDS; round++) {
        struct number number[2];
        struct slow_number slow[2];
        for (int i = 0; i < 2; i++) {
            random_number_text(&random, text[i]);
            number[i] = parse(text[i]);
            slow_parse(text[i], &slow[i]);
        }
        if (sign(number_compare(&number[0], &number[1])) != slow_compare(&slow[0], &slow[1]))
            fail_msg("%s against %s", text[0], text[1]);
    }
}

static void ordered_bytes_sort_as_numbers_and_none_begins_another(void **state)
{
    (void)state;
    struct random random = {2};
    char text[RANDOM_NUMBER_TEXT_MAX];
    for (int round = 0; round < ROUNDS; round++) {
        struct number number[2];
        uint8_t buffer[2][NUMBER_ORDERED_MAX];
        struct bytes ordered[2];
        for (int i = 0; i < 2; i++) {
            random_number_text(&random, text);
            number[i] = parse(text);
            ordered[i] = bytes_of(buffer[i], number_to_ordered(&number[i], buffer[i]));
        }
        int order = number_compare(&number[0], &number[1]);
        assert_int_equal(sign(bytes_compare(ordered[0], ordered[1])), sign(order));
        if (order != 0) {
            assert_false(bytes_begin_with(ordered[0], ordered[1]));
            assert_false(bytes_begin_with(ordered[1], ordered[0]));
        }
    }
}

static void ordered_bytes_read_back_and_nothing_else_does(void **state)
{
    (void)state;
    struct random random = {3};
    char text[RANDOM_NUMBER_TEXT_MAX];
    for (int round = 0; round < ROUNDS; round++) {
        uint8_t ordered[NUMBER_ORDERED_MAX + 1];
        random_number_text(&random, text);
        struct number number = parse(text);
        size_t size = number_to_ordered(&number, ordered);
        ordered[size] = (uint8_t)random_next(&random); /* what follows is not looked at */
        struct number back;
        size_t used = 0;
        assert_true(number_from_ordered(bytes_of(ordered, size + 1), &back, &used));
        assert_int_equal(used, size);
        assert_int_equal(number_compare(&number, &back), 0);
        assert_memory_equal(&number.coefficient, &back.coefficient, sizeof back.coefficient);
        assert_int_equal(number.exponent, back.exponent);
        assert_false(number_from_ordered(bytes_of(ordered, size - 1), &back, &used));

        /* One byte changed: refused, or the form of some other number. */
        ordered[random_below(&random, size)] = (uint8_t)random_next(&random);
        if (number_from_ordered(bytes_of(ordered, size + 1), &back, &used)) {
            uint8_t again[NUMBER_ORDERED_MAX];
            assert_int_equal(number_to_ordered(&back, again), used);
            assert_memory_equal(again, ordered, used);
        }
    }
}

static void printed_numbers_read_back(void **state)
{
    (void)state;
    struct random random = {4};
    char text[RANDOM_NUMBER_TEXT_MAX];
    char printed[NUMBER_TEXT_MAX + 1];
    for (int round = 0; round < ROUNDS; round++) {
        random_number_text(&random, text);
        struct number number = parse(text);
        size_t size = number_print(&number, printed);
        assert_in_range(size, 1, NUMBER_TEXT_MAX);
        printed[size] = '\0';
        struct slow_number wanted;
        struct slow_number found;
        slow_parse(text, &wanted);
        slow_parse(printed, &found);
        assert_int_equal(slow_compare(&wanted, &found), 0);
        assert_null(strpbrk(printed, "eE+"));
    }
}

static void the_longest_text_fits(void **state)
{
    (void)state;
    char printed[NUMBER_TEXT_MAX];
    struct number number = parse("-1.2345678901234567890123456789012345678e-130");
    assert_int_equal(number_print(&number, printed), 170);
    uint8_t ordered[NUMBER_ORDERED_MAX];
    assert_int_equal(number_to_ordered(&number, ordered), NUMBER_ORDERED_MAX);
}

static void integers_are_known_up_to_64_bits(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool is_int, is_uint;
    } cases[] = {
        {"9223372036854775807", true, true},
        {"9223372036854775808", false, true},
        {"-9223372036854775808", true, false},
        {"-9223372036854775809", false, false},
        {"18446744073709551615", false, true},
        {"18446744073709551616", false, false},
        {"1e19", false, true},
        {"1e20", false, false},
        {"0.5", false, false},
        {"0", true, true},
        {"1230000000000000000e-3", true, true},
        {"1e125", false, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct number number = parse(cases[i].text);
        int64_t integer = 0;
        uint64_t natural = 0;
        assert_int_equal(number_to_int(&number, &integer), cases[i].is_int);
        assert_int_equal(number_to_uint(&number, &natural), cases[i].is_uint);
        struct number back;
        if (cases[i].is_int) {
            back = number_from_int(integer);
            assert_int_equal(number_compare(&number, &back), 0);
        }
        if (cases[i].is_uint) {
            back = number_from_uint(natural);
            assert_int_equal(number_compare(&number, &back), 0);
        }
    }
}

static void random_integers_survive(void **state)
{
    (void)state;
    struct random random = {5};
    for (int round = 0; round < ROUNDS; round++) {
        int64_t integer = (int64_t)random_next(&random) >> random_below(&random, 64);
        char text[32];
        (void)snprintf(text, sizeof text, "%lld", (long long)integer);
        struct number parsed = parse(text);
        struct number made = number_from_int(integer);
        assert_int_equal(number_compare(&parsed, &made), 0);
        int64_t back = 0;
        assert_true(number_to_int(&parsed, &back));
        assert_true(back == integer);
    }
}

static void item_sizes_follow_the_guide(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t size;
    } cases[] = {
        {"0", 1},
        {"1", 2},
        {"12", 2},
        {"123", 3},
        {"-123", 4},
        {"100000", 2},
        {"0.5", 2},
        {"-0", 1},
        {"12345678901234567890123456789012345678", 20},
        {"-12345678901234567890123456789012345678", 21},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct number number = parse(cases[i].text);
        assert_int_equal(number_item_size(&number), cases[i].size);
    }
}

/* ---- sums ---- */

/* Digits of a number from 10^DIGITS_TOP downwards, one a place. */
enum { DIGITS_TOP = 130, SUM_PLACES = DIGITS_TOP + 180 };

static void spread(const struct number *number, int sign_of, int places[SUM_PLACES])
{
    unsigned __int128 rest = number->coefficient;
    for (int exponent = number->exponent; rest != 0; exponent++, rest /= 10)
        places[DIGITS_TOP - exponent] +=
            sign_of * (number->is_negative ? -1 : 1) * (int)(rest % 10);
}

/* Makes every place 0 to 9 and returns the sign of the whole. */
static int settle(int places[SUM_PLACES])
{
    int first = 0;
    while (first < SUM_PLACES && places[first] == 0)
        first++;
    if (first == SUM_PLACES)
        return 0;
    int whole = places[first] < 0 ? -1 : 1;
    for (int i = 0; i < SUM_PLACES; i++)
        places[i] *= whole;
    for (int i = SUM_PLACES - 1; i > 0; i--)
        while (places[i] < 0 || places[i] > 9) {
            int borrow = places[i] < 0 ? 1 : -1;
            places[i] += 10 * borrow;
            places[i - 1] -= borrow;
        }
    return whole;
}

/* The sum by the digits, as text; false when it is none of DynamoDB's numbers. */
static bool slow_sum(const struct number *a, const struct number *b, int sign_of_b,
                     struct number *out)
{
    int places[SUM_PLACES] = {0};
    spread(a, 1, places);
    spread(b, sign_of_b, places);
    int whole = settle(places), first = 0, last = SUM_PLACES - 1;
    char text[SUM_PLACES + 16] = "0";
    while (first < SUM_PLACES && places[first] == 0)
        first++;
    while (last > first && places[last] == 0)
        last--;
    if (whole != 0) {
        size_t size = 0;
        if (whole < 0)
            text[size++] = '-';
        for (int i = first; i <= last; i++)
            text[size++] = (char)('0' + places[i]);
        (void)snprintf(text + size, sizeof text - size, "E%d", DIGITS_TOP - last);
    }
    struct error error;
    return number_parse(bytes_text(text), out, &error) == STATUS_OK;
}

static void sums_are_those_of_the_digits(void **state)
{
    (void)state;
    struct random random = {77};
    int fitting = 0, refused = 0;
    for (int i = 0; i < 40000; i++) {
        char text[RANDOM_NUMBER_TEXT_MAX];
        struct number numbers[2], sum, slow;
        struct error error;
        for (int k = 0; k < 2; k++) {
            random_number_text(&random, text);
            numbers[k] = parse(text);
        }
        if (random_below(&random, 2) == 0 && numbers[1].coefficient != 0) { /* often near */
            int exponent = numbers[0].exponent + (int)random_below(&random, 80) - 40;
            numbers[1].exponent = (int16_t)(exponent < -130 ? -130 : exponent > 87 ? 87 : exponent);
        }
        bool is_minus = random_below(&random, 2) == 0;
        enum status status = is_minus ? number_subtract(&numbers[0], &numbers[1], &sum, &error)
                                      : number_add(&numbers[0], &numbers[1], &sum, &error);
        bool is_number = slow_sum(&numbers[0], &numbers[1], is_minus ? -1 : 1, &slow);
        if (status != (is_number ? STATUS_OK : STATUS_VALIDATION)) {
            char texts[2][NUMBER_TEXT_MAX];
            for (int k = 0; k < 2; k++)
                texts[k][number_print(&numbers[k], texts[k])] = '\0';
            fail_msg("%s %s %s", texts[0], is_minus ? "-" : "+", texts[1]);
        }
        if (is_number) {
            assert_int_equal(number_compare(&sum, &slow), 0);
            assert_int_equal(sum.exponent, slow.exponent); /* in lowest form */
        }
        fitting += is_number;
        refused += !is_number;
    }
    assert_true(fitting > 1000 && refused > 1000);
}

static void sums_at_the_limits(void **state)
{
    (void)state;
    static const struct {
        const char *a, *b, *sum; /* NULL: refused */
    } cases[] = {
        {"0", "0", "0"},
        {"0", "-7.5", "-7.5"},
        {"1", "-1", "0"},
        {"0.1", "0.2", "0.3"},
        {"99999999999999999999999999999999999999", "1", "1e38"},
        {"99999999999999999999999999999999999999", "2", NULL},
        /* Behind 2^64 x 10^19, where the upper half of the coefficient has 65 bits. */
        {"92500000000000000000000000000000000001", "92500000000000000000000000000000000002", NULL},
        {"190000000000000000000000000000000000010", "-5", NULL},
        {"190000000000000000000000000000000000010", "-190000000000000000000000000000000000000",
         "10"},
        {"199999999999999999999999999999999999990", "99999999999999999999999999999999999999", NULL},
        {"1e38", "-1", "99999999999999999999999999999999999999"},
        {"1e38", "1", NULL},
        {"1e39", "-1", NULL},
        {"1e100", "1e-100", NULL},
        {"9e125", "1e125", NULL},
        {"9e125", "9e124", "9.9e125"},
        {"-9e125", "9e125", "0"},
        {"1.1e-129", "-1e-129", "1e-130"},
        {"1.01e-129", "-1e-129", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct number a = parse(cases[i].a), b = parse(cases[i].b), sum;
        struct error error;
        enum status status = number_add(&a, &b, &sum, &error);
        if (status != (cases[i].sum == NULL ? STATUS_VALIDATION : STATUS_OK))
            fail_msg("%s + %s", cases[i].a, cases[i].b);
        if (cases[i].sum == NULL)
            continue;
        struct number wanted = parse(cases[i].sum);
        assert_int_equal(number_compare(&sum, &wanted), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(number_limits_are_dynamodbs),
        cmocka_unit_test(numbers_compare_as_their_digits_do),
        cmocka_unit_test(ordered_bytes_sort_as_numbers_and_none_begins_another),
        cmocka_unit_test(ordered_bytes_read_back_and_nothing_else_does),
        cmocka_unit_test(printed_numbers_read_back),
        cmocka_unit_test(the_longest_text_fits),
        cmocka_unit_test(integers_are_known_up_to_64_bits),
        cmocka_unit_test(random_integers_survive),
        cmocka_unit_test(item_sizes_follow_the_guide),
        cmocka_unit_test(sums_are_those_of_the_digits),
        cmocka_unit_test(sums_at_the_limits),
    };
    return cmocka_run_group_tests_name("number", tests, NULL, NULL);
}
