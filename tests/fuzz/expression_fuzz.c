/* Key conditions: a line of text, then MessagePack: the map of values, then that of names. */
#include "protocol/encoding/msgpack.h"
#include "protocol/ensure.h"
#include "protocol/expression.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ARENA_MAX = 64 << 20 };

static void bind(const struct expression_input *input, const struct key_schema *schema)
{
    struct arena arena;
    struct key_condition condition;
    struct error error = {.text = ""};
    arena_init(&arena, NULL, 0, ARENA_MAX);
    enum status status = key_condition_bind(input, schema, &arena, &condition, &error);
    if (status == STATUS_OK) {
        ensure(condition.partition.size != 0 && bytes_given(condition.interval.low));
        struct bytes contents;
        size_t used = 0;
        ensure(key_part_read(condition.partition, schema->partition.type,
                             !key_schema_has_sort(schema), &arena, &contents, &used));
        ensure(used == condition.partition.size);
    } else {
        ensure(status == STATUS_VALIDATION || status == STATUS_MALFORMED);
        ensure(error.status == status && error.text[0] != '\0');
    }
    arena_deinit(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct key_schema schemas[] = {
        {.partition = {BYTES_LITERAL("p"), VALUE_S}, .sort = {BYTES_LITERAL("s"), VALUE_S}},
        {.partition = {BYTES_LITERAL("p"), VALUE_S}, .sort = {BYTES_LITERAL("s"), VALUE_N}},
        {.partition = {BYTES_LITERAL("p"), VALUE_B}, .sort = {BYTES_NONE, VALUE_S}},
    };
    struct expression_input input = {.text = bytes_of(data, size)};
    const uint8_t *line_end = size == 0 ? NULL : memchr(data, '\n', size);
    if (line_end != NULL) {
        input.text.size = (size_t)(line_end - data);
        size_t left = size - input.text.size - 1;
        struct msgpack_cursor cursor = msgpack_cursor_of(bytes_of(line_end + 1, left));
        if (left != 0 && msgpack_skip(&cursor, &input.values) && cursor.at != cursor.end)
            input.names = bytes_of(cursor.at, (size_t)(cursor.end - cursor.at));
    }
    for (size_t i = 0; i < sizeof schemas / sizeof schemas[0]; i++)
        bind(&input, &schemas[i]);
    return 0;
}
