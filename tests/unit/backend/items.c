#include "tests/unit/backend/items.h"

#include "protocol/encoding/json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

struct arena arena;

int set_up(void **state)
{
    (void)state;
    arena_init(&arena, NULL, 0, ARENA_BYTES_MAX);
    return 0;
}

int tear_down(void **state)
{
    (void)state;
    arena_deinit(&arena);
    return 0;
}

struct bytes item_of(const char *json)
{
    struct value value;
    struct error error = {.text = ""};
    struct bytes text = arena_copy(&arena, bytes_text(json));
    for (size_t i = 0; i < text.size; i++)
        if (text.data[i] == '\'')
            ((uint8_t *)(uintptr_t)text.data)[i] = '"';
    if (json_to_item(text, &arena, &value, &error) != STATUS_OK ||
        value_normalize(&value, &error) != STATUS_OK)
        fail_msg("%s: %s", json, error.text);
    struct bytes bytes = value_encode_arena(&value, &arena);
    assert_true(bytes_given(bytes));
    return bytes;
}
