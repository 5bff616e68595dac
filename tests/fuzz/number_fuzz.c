/* Texts of numbers: what is taken prints, orders and reads back as the same number. */
#include "protocol/ensure.h"
#include "protocol/number.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_ordered(const struct number *number)
{
    uint8_t ordered[NUMBER_ORDERED_MAX];
    struct number back;
    size_t used = 0;
    size_t size = number_to_ordered(number, ordered);
    ensure(number_from_ordered(bytes_of(ordered, size), &back, &used));
    ensure(used == size && number_compare(number, &back) == 0);
    ensure(number_item_size(number) <= 21);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct number number;
    struct number again;
    struct error error = {.text = ""};
    char text[NUMBER_TEXT_MAX];
    if (number_parse(bytes_of(data, size), &number, &error) != STATUS_OK) {
        ensure(error.status == STATUS_VALIDATION && error.text[0] != '\0');
    } else {
        size_t printed = number_print(&number, text);
        ensure(printed <= sizeof text);
        ensure(number_parse(bytes_of(text, printed), &again, &error) == STATUS_OK);
        ensure(number_compare(&number, &again) == 0);
        check_ordered(&number);
    }
    size_t used = 0;
    if (number_from_ordered(bytes_of(data, size), &number, &used)) {
        uint8_t ordered[NUMBER_ORDERED_MAX];
        ensure(number_to_ordered(&number, ordered) == used && memcmp(ordered, data, used) == 0);
    }
    return 0;
}
