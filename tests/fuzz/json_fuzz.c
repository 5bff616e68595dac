/* JSON: what is taken is written as JSON that gives the same bytes again. */
#include "protocol/encoding/json.h"
#include "protocol/encoding/msgpack.h"
#include "protocol/ensure.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ARENA_MAX = 64 << 20 };

static void check_item(struct bytes text, struct arena *arena)
{
    struct value item;
    struct value back;
    struct error error = {.text = ""};
    struct buffer written = {0};
    struct buffer first = {0};
    struct buffer second = {0};
    enum status status = json_to_item(text, arena, &item, &error);
    if (status != STATUS_OK) {
        ensure(error.status == status && status != STATUS_NO_MEMORY);
        return;
    }
    ensure(json_from_item(&item, 2, &written));
    ensure(json_to_item(buffer_bytes(&written), arena, &back, &error) == STATUS_OK);
    ensure(value_encode(&item, &first) && value_encode(&back, &second));
    ensure(bytes_equal(buffer_bytes(&first), buffer_bytes(&second)));
    buffer_deinit(&written);
    buffer_deinit(&first);
    buffer_deinit(&second);
}

static void check_plain(struct bytes text, struct arena *arena)
{
    struct value value;
    struct value back;
    struct error error = {.text = ""};
    struct buffer written = {0};
    if (json_to_plain(text, arena, &value, &error) != STATUS_OK)
        return;
    ensure(json_from_plain(&value, 0, &written));
    ensure(json_to_plain(buffer_bytes(&written), arena, &back, &error) == STATUS_OK);
    ensure(back.count == value.count);
    buffer_deinit(&written);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena arena;
    arena_init(&arena, NULL, 0, ARENA_MAX);
    check_item(bytes_of(data, size), &arena);
    check_plain(bytes_of(data, size), &arena);
    arena_deinit(&arena);
    return 0;
}
