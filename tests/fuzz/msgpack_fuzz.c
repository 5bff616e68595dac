/* Items: item_check() and value_decode() agree, and canonical bytes stay as they are. */
#include "protocol/encoding/msgpack.h"
#include "protocol/ensure.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ARENA_MAX = 64 << 20 };

static void check_canonical(struct bytes item, const struct item_facts *facts, struct arena *arena)
{
    struct bytes canonical;
    struct bytes again;
    struct error error;
    struct item_facts canonical_facts;
    size_t size = 0;
    enum status status = item_canonical(item, arena, &canonical, &size, &error);
    if (status != STATUS_OK) { /* a duplicate that only the encoding finds */
        ensure(status == STATUS_VALIDATION && !facts->is_canonical);
        ensure(strcasestr(error.text, "duplicate") != NULL);
        return;
    }
    ensure(!facts->is_canonical || canonical.data == item.data);
    ensure(item_check(canonical, &canonical_facts, &error) == STATUS_OK);
    ensure(canonical_facts.is_canonical && canonical_facts.item_size == size);
    ensure(size == facts->item_size && item_size(canonical) == size && item_size(item) == size);
    ensure(item_canonical(canonical, arena, &again, NULL, &error) == STATUS_OK);
    ensure(again.data == canonical.data);
}

static void check_keys(struct bytes map, struct arena *arena)
{
    static const struct key_schema schemas[] = {
        {.partition = {BYTES_LITERAL("p"), VALUE_S}, .sort = {BYTES_LITERAL("s"), VALUE_N}},
        {.partition = {BYTES_LITERAL("p"), VALUE_B}, .sort = {BYTES_LITERAL("a"), VALUE_B}},
        {.partition = {BYTES_LITERAL("p"), VALUE_N}, .sort = {BYTES_NONE, VALUE_S}},
    };
    for (size_t i = 0; i < sizeof schemas / sizeof schemas[0]; i++) {
        struct item_key key;
        struct item_key again;
        struct error error;
        struct buffer buffer = {0};
        if (item_key_build(map, &schemas[i], false, arena, &key, &error) != STATUS_OK)
            continue;
        ensure(key.bytes.size <= KEY_BYTES_MAX);
        ensure(item_key_encode(key, &schemas[i], arena, &buffer));
        ensure(item_key_build(buffer_bytes(&buffer), &schemas[i], true, arena, &again, &error) ==
               STATUS_OK);
        ensure(bytes_equal(key.bytes, again.bytes) && key.partition_size == again.partition_size);
        buffer_deinit(&buffer);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes item = bytes_of(data, size);
    struct arena arena;
    struct item_facts facts;
    struct value value;
    struct error error;
    arena_init(&arena, NULL, 0, ARENA_MAX);
    struct msgpack_cursor cursor = msgpack_cursor_of(item);
    struct msgpack_cursor skipping = cursor;
    enum status decoded = value_decode(&cursor, &arena, &value, &error);
    bool is_skipped = msgpack_skip(&skipping, NULL);
    ensure(decoded != STATUS_OK || (is_skipped && skipping.at == cursor.at));
    bool is_whole = decoded == STATUS_OK && value.type == VALUE_M && cursor.at == cursor.end;
    enum status checked = item_check(item, &facts, &error);
    if (is_whole)
        ensure(checked == STATUS_OK);
    if (checked == STATUS_OK)
        check_canonical(item, &facts, &arena);
    check_keys(item, &arena);
    struct bytes found;
    (void)item_find(item, BYTES_LITERAL("p"), &found);
    arena_deinit(&arena);
    return 0;
}
