/* JSON: what is taken is written as JSON that gives the same bytes again. */
#include "protocol/encoding/json.h"
#include "protocol/encoding/json_reader.h"
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

/* What is passed over as JSON is read as JSON, and the other way round. */
static void check_reader(struct bytes text, struct arena *arena)
{
    struct json_reader skipping, reading;
    struct bytes all, packed = BYTES_NONE;
    struct error error;
    json_reader_init(&skipping, text, arena, &error);
    bool is_skipped = json_skip(&skipping, &all);
    enum status skipped = json_reader_end(&skipping);
    ensure(is_skipped || skipped != STATUS_OK);
    json_reader_init(&reading, text, arena, &error);
    bool is_read = json_read_plain(&reading, &packed);
    enum status read = json_reader_end(&reading);
    ensure(is_read || read != STATUS_OK);
    ensure((skipped == STATUS_MALFORMED) == (read == STATUS_MALFORMED));
    struct msgpack_cursor cursor = msgpack_cursor_of(packed);
    ensure(read != STATUS_OK || (msgpack_skip(&cursor, NULL) && cursor.at == cursor.end));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena arena;
    arena_init(&arena, NULL, 0, ARENA_MAX);
    check_item(bytes_of(data, size), &arena);
    check_plain(bytes_of(data, size), &arena);
    check_reader(bytes_of(data, size), &arena);
    arena_deinit(&arena);
    return 0;
}
