#include "protocol/encoding/msgpack.h"
#include "tests/unit/protocol/random_value.h"

#include <msgpack.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

enum { ROUNDS = 3000, ARENA_MAX = 64 << 20 };

static struct bytes encode(const struct value *value, struct buffer *buffer)
{
    buffer->size = 0;
    assert_true(value_encode(value, buffer));
    return buffer_bytes(buffer);
}

/* ---- the cursor against msgpack-c ---- */

static void same_value(struct msgpack_cursor *cursor, const msgpack_object *wanted);

static void same_elements(struct msgpack_cursor *cursor, const msgpack_object *wanted)
{
    if (wanted->type == MSGPACK_OBJECT_ARRAY) {
        for (uint32_t i = 0; i < wanted->via.array.size; i++)
            same_value(cursor, &wanted->via.array.ptr[i]);
        return;
    }
    for (uint32_t i = 0; i < wanted->via.map.size; i++) {
        same_value(cursor, &wanted->via.map.ptr[i].key);
        same_value(cursor, &wanted->via.map.ptr[i].val);
    }
}

static void same_bytes(struct bytes found, const void *wanted, size_t size)
{
    assert_int_equal(found.size, size);
    if (size != 0)
        assert_memory_equal(found.data, wanted, size);
}

static void same_value(struct msgpack_cursor *cursor, const msgpack_object *wanted)
{
    struct msgpack_cursor skipping = *cursor;
    struct msgpack_head head;
    assert_true(msgpack_read(cursor, &head));
    assert_true(msgpack_skip(&skipping, NULL));
    switch (wanted->type) {
    case MSGPACK_OBJECT_NIL:
        assert_int_equal(head.kind, MSGPACK_NIL);
        break;
    case MSGPACK_OBJECT_BOOLEAN:
        assert_int_equal(head.kind, MSGPACK_BOOL);
        assert_int_equal(head.truth, wanted->via.boolean);
        break;
    case MSGPACK_OBJECT_POSITIVE_INTEGER:
        assert_int_equal(head.kind, MSGPACK_UINT);
        assert_true(head.integer == wanted->via.u64);
        break;
    case MSGPACK_OBJECT_NEGATIVE_INTEGER:
        assert_int_equal(head.kind, MSGPACK_INT);
        assert_true((int64_t)head.integer == wanted->via.i64);
        break;
    case MSGPACK_OBJECT_STR:
        assert_int_equal(head.kind, MSGPACK_STR);
        same_bytes(head.bytes, wanted->via.str.ptr, wanted->via.str.size);
        break;
    case MSGPACK_OBJECT_BIN:
        assert_int_equal(head.kind, MSGPACK_BIN);
        same_bytes(head.bytes, wanted->via.bin.ptr, wanted->via.bin.size);
        break;
    case MSGPACK_OBJECT_EXT:
        assert_int_equal(head.kind, MSGPACK_EXT);
        assert_int_equal(head.extension, (uint8_t)wanted->via.ext.type);
        same_bytes(head.bytes, wanted->via.ext.ptr, wanted->via.ext.size);
        break;
    case MSGPACK_OBJECT_ARRAY:
        assert_int_equal(head.kind, MSGPACK_ARRAY);
        assert_int_equal(head.count, wanted->via.array.size);
        same_elements(cursor, wanted);
        break;
    case MSGPACK_OBJECT_MAP:
        assert_int_equal(head.kind, MSGPACK_MAP);
        assert_int_equal(head.count, wanted->via.map.size);
        same_elements(cursor, wanted);
        break;
    default:
        fail();
    }
    assert_ptr_equal(cursor->at, skipping.at);
}

static void heads_read_as_msgpack_c_reads_them(void **state)
{
    (void)state;
    struct random random = {1};
    struct arena arena;
    struct buffer buffer = {0};
    msgpack_unpacked unpacked;
    msgpack_unpacked_init(&unpacked);
    arena_init(&arena, NULL, 0, ARENA_MAX);
    for (int round = 0; round < ROUNDS; round++) {
        struct value value = random_value(&random, &arena, 4);
        struct bytes bytes = encode(&value, &buffer);
        size_t used = 0;
        assert_int_equal(
            msgpack_unpack_next(&unpacked, (const char *)bytes.data, bytes.size, &used),
            MSGPACK_UNPACK_SUCCESS);
        assert_int_equal(used, bytes.size);
        struct msgpack_cursor cursor = msgpack_cursor_of(bytes);
        same_value(&cursor, &unpacked.data);
        assert_ptr_equal(cursor.at, cursor.end);
        arena_reset(&arena);
    }
    msgpack_unpacked_destroy(&unpacked);
    buffer_deinit(&buffer);
    arena_deinit(&arena);
}

/* Floats are the one thing that msgpack-c takes and we do not. */
static bool holds_float(const msgpack_object *object)
{
    if (object->type == MSGPACK_OBJECT_FLOAT32 || object->type == MSGPACK_OBJECT_FLOAT64)
        return true;
    if (object->type == MSGPACK_OBJECT_ARRAY)
        for (uint32_t i = 0; i < object->via.array.size; i++)
            if (holds_float(&object->via.array.ptr[i]))
                return true;
    if (object->type == MSGPACK_OBJECT_MAP)
        for (uint32_t i = 0; i < object->via.map.size; i++)
            if (holds_float(&object->via.map.ptr[i].key) ||
                holds_float(&object->via.map.ptr[i].val))
                return true;
    return false;
}

static void random_bytes_are_taken_or_refused_as_by_msgpack_c(void **state)
{
    (void)state;
    struct random random = {2};
    msgpack_unpacked unpacked;
    msgpack_unpacked_init(&unpacked);
    size_t taken = 0;
    for (int round = 0; round < 100 * ROUNDS; round++) {
        uint8_t data[24];
        size_t size = 1 + random_below(&random, sizeof data);
        for (size_t i = 0; i < size; i++) { /* more heads than chance gives, and small counts */
            data[i] = random_below(&random, 2) == 0 ? (uint8_t)(0x80 + random_below(&random, 0x80))
                                                    : (uint8_t)random_below(&random, 8);
            if (data[i] == 0xdd || data[i] == 0xdf) /* msgpack-c would allocate what they say */
                data[i]--;
        }
        size_t used = 0;
        msgpack_unpack_return wanted =
            msgpack_unpack_next(&unpacked, (const char *)data, size, &used);
        struct msgpack_cursor cursor = msgpack_cursor_of(bytes_of(data, size));
        struct bytes whole;
        bool is_taken = msgpack_skip(&cursor, &whole);
        if (wanted == MSGPACK_UNPACK_SUCCESS || wanted == MSGPACK_UNPACK_EXTRA_BYTES) {
            if (holds_float(&unpacked.data)) {
                assert_false(is_taken);
                continue;
            }
            assert_true(is_taken);
            assert_int_equal(whole.size, used);
            cursor = msgpack_cursor_of(bytes_of(data, size));
            same_value(&cursor, &unpacked.data);
            taken++;
        } else {
            assert_false(is_taken);
        }
    }
    assert_true(taken > 1000);
    msgpack_unpacked_destroy(&unpacked);
}

static void inline_and_full_reading_agree(void **state)
{
    (void)state;
    for (unsigned lead = 0; lead < 256; lead++) {
        for (size_t size = 1; size < 40; size++) {
            uint8_t data[40] = {(uint8_t)lead, 0, 3};
            struct msgpack_cursor fast = msgpack_cursor_of(bytes_of(data, size));
            struct msgpack_cursor full = fast;
            struct msgpack_head fast_head = {0};
            struct msgpack_head full_head = {0};
            bool is_read = msgpack_read(&fast, &fast_head);
            assert_int_equal(is_read, msgpack_read_any(&full, &full_head));
            if (!is_read)
                continue;
            assert_ptr_equal(fast.at, full.at);
            assert_int_equal(fast_head.kind, full_head.kind);
            assert_int_equal(fast_head.count, full_head.count);
            assert_true(fast_head.integer == full_head.integer);
            assert_int_equal(fast_head.bytes.size, full_head.bytes.size);
        }
    }
}

static void shorthands_take_one_kind_only(void **state)
{
    (void)state;
    struct msgpack_cursor cursor = msgpack_cursor_of(BYTES_LITERAL("\x07\xa1x\x92\x01\x02\x81"));
    uint64_t integer = 0;
    uint32_t count = 0;
    struct bytes text = BYTES_NONE;
    struct msgpack_cursor start = cursor;
    assert_false(msgpack_read_str(&start, &text));
    assert_true(msgpack_read_uint(&cursor, &integer));
    assert_int_equal(integer, 7);
    start = cursor;
    assert_false(msgpack_read_array(&start, &count));
    assert_true(msgpack_read_str(&cursor, &text));
    assert_true(bytes_equal(text, BYTES_LITERAL("x")));
    start = cursor;
    assert_false(msgpack_read_map(&start, &count));
    assert_true(msgpack_read_array(&cursor, &count));
    assert_int_equal(count, 2);
    assert_true(msgpack_skip(&cursor, NULL) && msgpack_skip(&cursor, NULL));
    assert_false(msgpack_read_map(&cursor, &count)); /* a pair in no bytes */
}

static void skip_goes_as_deep_as_a_reply_and_no_deeper(void **state)
{
    (void)state;
    uint8_t deep[ITEM_DEPTH_MAX + 6];
    memset(deep, 0x91, sizeof deep);
    for (size_t depth = ITEM_DEPTH_MAX; depth <= ITEM_DEPTH_MAX + 5; depth++) {
        deep[depth] = 0xc0;
        struct msgpack_cursor cursor = msgpack_cursor_of(bytes_of(deep, depth + 1));
        assert_int_equal(msgpack_skip(&cursor, NULL), depth <= ITEM_DEPTH_MAX + 4);
        deep[depth] = 0x91;
    }
}

/* ---- items ---- */

static enum status decode_whole(struct bytes bytes, struct arena *arena, struct value *out,
                                struct error *error)
{
    struct msgpack_cursor cursor = msgpack_cursor_of(bytes);
    enum status status = value_decode(&cursor, arena, out, error);
    if (status == STATUS_OK && (out->type != VALUE_M || cursor.at != cursor.end))
        return STATUS_MALFORMED;
    return status;
}

/* The slow twin of item_check(): by the tree. */
static size_t tree_size(const struct value *value)
{
    size_t size = value->type == VALUE_M || value->type == VALUE_L ? 3 + value->count : 0;
    if (value->type == VALUE_BOOL || value->type == VALUE_NULL)
        size = 1;
    if (value->type == VALUE_N)
        size = number_item_size(&value->number);
    size += value->bytes.size;
    for (size_t i = 0; i < value->count; i++)
        size += value->type == VALUE_M
                    ? value->attributes[i].name.size + tree_size(&value->attributes[i].value)
                    : tree_size(&value->values[i]);
    return size;
}

static void encoded_items_are_canonical_and_have_their_size(void **state)
{
    (void)state;
    struct random random = {3};
    struct arena arena;
    struct buffer buffer = {0};
    struct error error;
    arena_init(&arena, NULL, 0, ARENA_MAX);
    for (int round = 0; round < ROUNDS; round++) {
        struct value item = random_item(&random, &arena);
        struct bytes bytes = encode(&item, &buffer);
        struct item_facts facts;
        assert_int_equal(item_check(bytes, &facts, &error), STATUS_OK);
        assert_true(facts.is_canonical);
        size_t wanted = tree_size(&item) - 3 - item.count; /* the item itself is no map */
        assert_int_equal(facts.item_size, wanted);
        assert_int_equal(item_size(bytes), wanted);
        struct bytes canonical;
        assert_int_equal(item_canonical(bytes, &arena, &canonical, NULL, &error), STATUS_OK);
        assert_ptr_equal(canonical.data, bytes.data);
        arena_reset(&arena);
    }
    buffer_deinit(&buffer);
    arena_deinit(&arena);
}

static void shuffled_items_become_canonical_again(void **state)
{
    (void)state;
    struct random random = {4};
    struct arena arena;
    struct buffer buffer = {0};
    struct buffer shuffled = {0};
    struct error error;
    size_t changed = 0;
    arena_init(&arena, NULL, 0, ARENA_MAX);
    for (int round = 0; round < ROUNDS; round++) {
        struct value item = random_item(&random, &arena);
        struct bytes wanted = encode(&item, &buffer);
        shuffle_value(&random, &item);
        struct bytes bytes = encode(&item, &shuffled);
        struct item_facts facts;
        struct bytes canonical;
        size_t size = 0;
        assert_int_equal(item_check(bytes, &facts, &error), STATUS_OK);
        assert_int_equal(facts.is_canonical, bytes_equal(bytes, wanted));
        changed += !facts.is_canonical;
        assert_int_equal(item_canonical(bytes, &arena, &canonical, &size, &error), STATUS_OK);
        assert_true(bytes_equal(canonical, wanted));
        assert_int_equal(size, item_size(wanted));
        arena_reset(&arena);
    }
    assert_true(changed > ROUNDS / 4);
    buffer_deinit(&buffer);
    buffer_deinit(&shuffled);
    arena_deinit(&arena);
}

/* item_check() may leave a duplicate to the encoding; nothing else. */
static void check_agrees_with_decode(struct bytes bytes, struct arena *arena, size_t *taken)
{
    struct item_facts facts;
    struct value value;
    struct error check_error = {.text = ""};
    struct error decode_error = {.text = ""};
    enum status checked = item_check(bytes, &facts, &check_error);
    enum status decoded = decode_whole(bytes, arena, &value, &decode_error);
    if (decoded == STATUS_OK) {
        assert_int_equal(checked, STATUS_OK);
        struct buffer buffer = {0};
        assert_int_equal(facts.is_canonical, bytes_equal(encode(&value, &buffer), bytes));
        buffer_deinit(&buffer);
        (*taken)++;
    } else if (checked == STATUS_OK) {
        assert_int_equal(decoded, STATUS_VALIDATION);
        assert_non_null(strcasestr(decode_error.text, "duplicate"));
        assert_false(facts.is_canonical);
    }
}

static void damaged_items_are_judged_alike_by_check_and_decode(void **state)
{
    (void)state;
    struct random random = {5};
    struct arena arena;
    struct buffer buffer = {0};
    size_t taken = 0;
    arena_init(&arena, NULL, 0, ARENA_MAX);
    for (int round = 0; round < 3 * ROUNDS; round++) {
        struct value item = random_item(&random, &arena);
        struct bytes bytes = encode(&item, &buffer);
        for (size_t damage = 0; damage < 4; damage++) {
            size_t at = random_below(&random, bytes.size);
            uint8_t before = buffer.data[at];
            buffer.data[at] = random_below(&random, 3) == 0
                                  ? (uint8_t)random_next(&random)
                                  : buffer.data[random_below(&random, bytes.size)];
            check_agrees_with_decode(bytes, &arena, &taken);
            buffer.data[at] = before;
        }
        check_agrees_with_decode(bytes_of(bytes.data, random_below(&random, bytes.size)), &arena,
                                 &taken);
        arena_reset(&arena);
    }
    assert_true(taken > ROUNDS);
    buffer_deinit(&buffer);
    arena_deinit(&arena);
}

static const struct {
    struct bytes item, canonical;
} longer_forms[] = {
#define CASE(item, canonical)                                                                      \
    {                                                                                              \
        {(const uint8_t *)(item), sizeof(item) - 1},                                               \
        {                                                                                          \
            (const uint8_t *)(canonical), sizeof(canonical) - 1                                    \
        }                                                                                          \
    }
    CASE("\x81\xa1"
         "a\xcc\x05",
         "\x81\xa1"
         "a\x05"),
    CASE("\x81\xa1"
         "a\xd0\x05",
         "\x81\xa1"
         "a\x05"),
    CASE("\x81\xa1"
         "a\xd1\x01\x2c",
         "\x81\xa1"
         "a\xcd\x01\x2c"),
    CASE("\x81\xa1"
         "a\xd3\xff\xff\xff\xff\xff\xff\xff\xff",
         "\x81\xa1"
         "a\xff"),
    CASE("\x81\xd9\x01"
         "a\xc0",
         "\x81\xa1"
         "a\xc0"),
    CASE("\xde\x00\x01\xa1"
         "a\xc0",
         "\x81\xa1"
         "a\xc0"),
    CASE("\x81\xa1"
         "a\xc5\x00\x01x",
         "\x81\xa1"
         "a\xc4\x01x"),
    CASE("\x81\xa1"
         "a\xdc\x00\x01\xc0",
         "\x81\xa1"
         "a\x91\xc0"),
    /* a decimal that is an integer: 5; one that is not: 0.5 in ext 8 */
    CASE("\x81\xa1"
         "a\xc7\x03\x01\x03\x82\x64",
         "\x81\xa1"
         "a\x05"),
    CASE("\x81\xa1"
         "a\xc8\x00\x03\x01\x03\x81\x64",
         "\x81\xa1"
         "a\xc7\x03\x01\x03\x81\x64"),
    CASE("\x82\xa1"
         "b\x01\xa1"
         "a\x02",
         "\x82\xa1"
         "a\x02\xa1"
         "b\x01"),
    /* a set out of order */
    CASE("\x81\xa1"
         "s\xd6\x02\xa1"
         "b\xa1"
         "a",
         "\x81\xa1"
         "s\xd6\x02\xa1"
         "a\xa1"
         "b"),
#undef CASE
};

static void longer_forms_are_valid_but_not_canonical(void **state)
{
    (void)state;
    struct arena arena;
    struct error error;
    arena_init(&arena, NULL, 0, ARENA_MAX);
    for (size_t i = 0; i < sizeof longer_forms / sizeof longer_forms[0]; i++) {
        struct item_facts facts;
        struct bytes canonical;
        assert_int_equal(item_check(longer_forms[i].item, &facts, &error), STATUS_OK);
        assert_false(facts.is_canonical);
        assert_int_equal(item_canonical(longer_forms[i].item, &arena, &canonical, NULL, &error),
                         STATUS_OK);
        assert_true(bytes_equal(canonical, longer_forms[i].canonical));
    }
    arena_deinit(&arena);
}

static void what_no_item_can_be_is_refused(void **state)
{
    (void)state;
    static const struct {
        struct bytes item;
        enum status status;
    } cases[] = {
#define CASE(item, status) {{(const uint8_t *)(item), sizeof(item) - 1}, status}
        CASE("", STATUS_MALFORMED),
        CASE("\x90", STATUS_MALFORMED),                          /* no map */
        CASE("\x81\xa1x", STATUS_MALFORMED),                     /* cut */
        CASE("\x80\xc0", STATUS_MALFORMED),                      /* something behind */
        CASE("\x81\x01\x01", STATUS_MALFORMED),                  /* a name that is no text */
        CASE("\x81\xa1x\xca\x00\x00\x00\x00", STATUS_MALFORMED), /* float */
        CASE("\x81\xa1x\xcb\0\0\0\0\0\0\0\0", STATUS_MALFORMED), /* double */
        CASE("\x81\xa1x\xc1", STATUS_MALFORMED),                 /* never used */
        CASE("\x81\xa1x\xd4\x05\x00", STATUS_MALFORMED),         /* unknown extension */
        CASE("\x81\xa1x\xdd\xff\xff\xff\xff", STATUS_MALFORMED), /* 4 billion elements */
        CASE("\x81\xa1x\xdf\xff\xff\xff\xff", STATUS_MALFORMED),
        CASE("\x81\xa1x\xc6\xff\xff\xff\xff", STATUS_MALFORMED),
        CASE("\x81\xa1x\xd4\x01\x02", STATUS_OK),            /* a decimal 0: not canonical */
        CASE("\x81\xa1x\xd5\x01\x02\x02", STATUS_MALFORMED), /* bytes behind a decimal */
        CASE("\x81\xa1x\xd4\x01\x09", STATUS_MALFORMED),     /* no decimal */
        CASE("\x81\xa1x\xd6\x02\xa1"
             "a\x01\x01",
             STATUS_VALIDATION),                              /* a number in SS */
        CASE("\x81\xa1x\xd5\x03\x01\x01", STATUS_OK),         /* 1 twice: found when encoded */
        CASE("\x81\xa1x\xc7\x00\x02", STATUS_VALIDATION),     /* empty set */
        CASE("\x81\xa1x\xd5\x02\x91\x01", STATUS_VALIDATION), /* a list in a set */
        CASE("\x81\xa0\x01", STATUS_VALIDATION),              /* empty name */
        CASE("\x81\xa1\xff\x01", STATUS_VALIDATION),          /* a name that is no UTF-8 */
        CASE("\x81\xa1x\xa1\xff", STATUS_VALIDATION),         /* a text that is no UTF-8 */
#undef CASE
    };
    struct error error;
    struct item_facts facts;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (item_check(cases[i].item, &facts, &error) != cases[i].status)
            fail_msg("case %zu", i);
}

static void duplicates_are_refused_when_encoded_again(void **state)
{
    (void)state;
    static const struct bytes items[] = {
        {(const uint8_t *)"\x82\xa1x\x01\xa1x\x02", 7},
        {(const uint8_t *)"\x83\xa1x\x01\xa1y\x01\xa1x\x02", 10},
        {(const uint8_t *)"\x81\xa1x\xd5\x03\x01\x01", 7},
        {(const uint8_t *)"\x81\xa1x\xc7\x03\x03\x01\x02\x01", 9},
    };
    struct arena arena;
    struct error error;
    struct bytes out;
    arena_init(&arena, NULL, 0, ARENA_MAX);
    for (size_t i = 0; i < sizeof items / sizeof items[0]; i++)
        assert_int_equal(item_canonical(items[i], &arena, &out, NULL, &error), STATUS_VALIDATION);
    arena_deinit(&arena);
}

/* {p: "k", d: a text of `size` bytes} */
static enum status check_item_of(size_t size, bool is_two_byte_text, struct item_facts *facts,
                                 struct error *error)
{
    uint8_t *text = malloc(size);
    struct buffer buffer = {0};
    assert_non_null(text);
    for (size_t i = 0; i < size; i++)
        text[i] = !is_two_byte_text ? 'x' : i % 2 == 0 ? 0xc3 : 0xa9;
    struct attribute attributes[] = {
        {BYTES_LITERAL("d"), {.type = VALUE_S, .bytes = bytes_of(text, size)}},
        {BYTES_LITERAL("p"), {.type = VALUE_S, .bytes = BYTES_LITERAL("k")}},
    };
    struct value item = {.type = VALUE_M, .attributes = attributes, .count = 2};
    enum status status = item_check(encode(&item, &buffer), facts, error);
    buffer_deinit(&buffer);
    free(text);
    return status;
}

static void an_item_of_400_kb_is_the_largest(void **state)
{
    (void)state;
    struct item_facts facts;
    struct error error;
    assert_int_equal(check_item_of(409597, false, &facts, &error), STATUS_OK);
    assert_int_equal(facts.item_size, ITEM_SIZE_MAX);
    assert_int_equal(check_item_of(409598, false, &facts, &error), STATUS_VALIDATION);
    assert_string_equal(error.text, "Item size has exceeded the maximum allowed size");
    assert_int_equal(check_item_of(2 * 204798, true, &facts, &error), STATUS_OK);
    assert_int_equal(facts.item_size, ITEM_SIZE_MAX - 1);
    assert_int_equal(check_item_of(2 * 204799, true, &facts, &error), STATUS_VALIDATION);
}

static void items_nest_to_the_limit_and_no_deeper(void **state)
{
    (void)state;
    for (size_t lists = ITEM_DEPTH_MAX - 2; lists <= ITEM_DEPTH_MAX; lists++) {
        uint8_t bytes[ITEM_DEPTH_MAX + 8] = {0x81, 0xa1, 'd'};
        memset(bytes + 3, 0x91, lists);
        bytes[3 + lists] = 0xc0;
        struct item_facts facts;
        struct error error;
        enum status status = item_check(bytes_of(bytes, 4 + lists), &facts, &error);
        /* The item is one level itself, so an attribute may hold 31. */
        assert_int_equal(status, lists < ITEM_DEPTH_MAX ? STATUS_OK : STATUS_VALIDATION);
    }
}

static void attributes_are_found_by_name(void **state)
{
    (void)state;
    struct random random = {6};
    struct arena arena;
    struct buffer buffer = {0};
    struct buffer part = {0};
    arena_init(&arena, NULL, 0, ARENA_MAX);
    for (int round = 0; round < ROUNDS; round++) {
        struct value item = random_item(&random, &arena);
        struct bytes bytes = encode(&item, &buffer);
        struct bytes found;
        for (size_t i = 0; i < item.count; i++) {
            assert_true(item_find(bytes, item.attributes[i].name, &found));
            assert_true(bytes_equal(found, encode(&item.attributes[i].value, &part)));
        }
        assert_false(item_find(bytes, BYTES_LITERAL("no attribute has this name"), &found));
        arena_reset(&arena);
    }
    buffer_deinit(&buffer);
    buffer_deinit(&part);
    arena_deinit(&arena);
}

static void memory_that_runs_out_anywhere_is_told(void **state)
{
    (void)state;
    struct random random = {7};
    struct arena making;
    struct buffer buffer = {0};
    struct error error;
    arena_init(&making, NULL, 0, ARENA_MAX);
    struct value item = random_item(&random, &making);
    while (item.count < 4)
        item = random_item(&random, &making);
    do
        shuffle_value(&random, &item);
    while (bytes_compare(item.attributes[0].name, item.attributes[1].name) < 0);
    struct bytes bytes = encode(&item, &buffer);
    enum status status = STATUS_NO_MEMORY;
    size_t refused = 0;
    for (size_t limit = 0; status == STATUS_NO_MEMORY; limit += 16) {
        struct arena arena;
        struct bytes out;
        arena_init(&arena, NULL, 0, limit);
        status = item_canonical(bytes, &arena, &out, NULL, &error);
        refused += status == STATUS_NO_MEMORY;
        arena_deinit(&arena);
    }
    assert_int_equal(status, STATUS_OK);
    assert_true(refused > 10);
    buffer_deinit(&buffer);
    arena_deinit(&making);
}

static void many_long_items_take_the_memory_of_what_they_become(void **state)
{
    (void)state;
    enum { NAMES = 40000, NAME_SIZE = 5, ITEMS = 20, ROOM = 10 << 20 };
    struct arena making, arena;
    struct buffer buffer = {0};
    struct error error;
    arena_init(&making, NULL, 0, ARENA_MAX);
    arena_init(&arena, NULL, 0, ROOM);
    struct attribute *attributes = arena_alloc(&making, NAMES * sizeof *attributes);
    assert_non_null(attributes);
    for (int i = 0; i < NAMES; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "%0*d", NAME_SIZE, NAMES - i);
        attributes[i] = (struct attribute){arena_copy(&making, bytes_of(name, NAME_SIZE)),
                                           {.type = VALUE_NULL}};
    }
    struct value item = {.type = VALUE_M, .attributes = attributes, .count = NAMES};
    struct bytes bytes = encode(&item, &buffer);
    for (int i = 0; i < ITEMS; i++) {
        struct bytes out;
        struct item_facts facts;
        assert_int_equal(item_canonical(bytes, &arena, &out, NULL, &error), STATUS_OK);
        assert_int_equal(item_check(out, &facts, &error), STATUS_OK);
        assert_true(facts.is_canonical && out.size == bytes.size);
    }
    buffer_deinit(&buffer);
    arena_deinit(&arena);
    arena_deinit(&making);
}

/* ---- keys ---- */

static const struct key_schema schema_sn = {
    {BYTES_LITERAL("p"), VALUE_S}, {BYTES_LITERAL("s"), VALUE_N}, false};
static const struct key_schema schema_bs = {
    {BYTES_LITERAL("z"), VALUE_B}, {BYTES_LITERAL("a"), VALUE_S}, false};
static const struct key_schema schema_s = {
    {BYTES_LITERAL("p"), VALUE_S}, {BYTES_NONE, VALUE_S}, false};

static void keys_are_built_from_maps_in_any_order(void **state)
{
    (void)state;
    struct arena arena;
    struct error error;
    struct item_key key;
    arena_init(&arena, NULL, 0, ARENA_MAX);
    static const struct bytes maps[] = {
        {(const uint8_t *)"\x82\xa1p\xa1k\xa1s\x05", 8},
        {(const uint8_t *)"\x82\xa1s\x05\xa1p\xa1k", 8},
        {(const uint8_t *)"\x82\xa1p\xa1k\xa1s\xc7\x03\x01\x03\x82\x64", 13},
    };
    for (size_t i = 0; i < sizeof maps / sizeof maps[0]; i++) {
        assert_int_equal(item_key_build(maps[i], &schema_sn, true, &arena, &key, &error),
                         STATUS_OK);
        assert_true(bytes_equal(key.bytes, BYTES_LITERAL("k\x00\x01\x03\x82\x64")));
        assert_int_equal(key.partition_size, 3);
    }
    assert_int_equal(
        item_key_build(BYTES_LITERAL("\x81\xa1p\xa2k\x00"), &schema_s, true, &arena, &key, &error),
        STATUS_OK);
    assert_true(bytes_equal(key.bytes, BYTES_LITERAL("k\x00"))); /* the last part is raw */
    assert_int_equal(key.partition_size, 2);
    assert_int_equal(item_key_sort(key).size, 0);
    arena_deinit(&arena);
}

static void keys_that_do_not_fit_the_schema_are_refused(void **state)
{
    (void)state;
#define IN_KEY   true
#define IN_ITEM  false
#define MISMATCH "The provided key element does not match the schema"
#define COUNT    "The number of conditions on the keys is invalid"
#define INVALID  "One or more parameter values were invalid: "
    static const struct {
        struct bytes map;
        bool is_exact;
        const char *text;
    } cases[] = {
#define CASE(map, is_exact, text) {{(const uint8_t *)(map), sizeof(map) - 1}, is_exact, text}
        CASE("\x81\xa1p\xa1k", IN_KEY, COUNT),
        CASE("\x83\xa1p\xa1k\xa1s\x05\xa1x\x05", IN_KEY, COUNT),
        CASE("\x82\xa1p\xa1k\xa1x\x05", IN_KEY, MISMATCH),
        CASE("\x82\xa1p\xa1k\xa1p\xa1k", IN_KEY, MISMATCH),
        CASE("\x82\xa1p\x01\xa1s\x05", IN_KEY, MISMATCH),
        CASE("\x82\xa1p\xa1k\xa1s\xa1"
             "5",
             IN_KEY, MISMATCH),
        CASE("\x80", IN_ITEM, INVALID "Missing the key p in the item"),
        CASE("\x81\xa1p\xa1k", IN_ITEM, INVALID "Missing the key s in the item"),
        CASE("\x82\xa1p\x01\xa1s\x05", IN_ITEM,
             INVALID "Type mismatch for key p expected: S actual: N"),
        CASE("\x82\xa1p\xa1k\xa1s\xd6\x02\xa1"
             "a\xa1"
             "b",
             IN_ITEM, INVALID "Type mismatch for key s expected: N actual: SS"),
        CASE("\x82\xa1p\xa0\xa1s\x05", IN_KEY,
             "One or more parameter values are not valid. The AttributeValue for a key attribute "
             "cannot contain an empty string value. Key: p"),
        CASE("\x82\xa1p\xa1\xff\xa1s\x05", IN_KEY, INVALID "A string is not valid UTF-8"),
#undef CASE
    };
    struct arena arena;
    arena_init(&arena, NULL, 0, ARENA_MAX);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct error error = {.text = ""};
        struct item_key key;
        assert_int_equal(
            item_key_build(cases[i].map, &schema_sn, cases[i].is_exact, &arena, &key, &error),
            STATUS_VALIDATION);
        assert_string_equal(error.text, cases[i].text);
    }
    struct error error;
    struct item_key key;
    assert_int_equal(
        item_key_build(BYTES_LITERAL("\x82\xa1p"), &schema_sn, true, &arena, &key, &error),
        STATUS_MALFORMED);
    assert_int_equal(
        item_key_build(BYTES_LITERAL("\x81\xa1p\xa1k\xc0"), &schema_s, true, &arena, &key, &error),
        STATUS_MALFORMED);
    arena_deinit(&arena);
}

static enum status build_key_of(size_t partition_size, size_t sort_size, bool is_two_byte_text,
                                bool is_exact, struct error *error)
{
    static const struct key_schema schema = {
        {BYTES_LITERAL("p"), VALUE_S}, {BYTES_LITERAL("s"), VALUE_B}, false};
    uint8_t text[PARTITION_KEY_MAX + 1];
    struct buffer buffer = {0};
    struct arena arena;
    struct item_key key;
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = !is_two_byte_text || i == PARTITION_KEY_MAX ? 'a' : i % 2 == 0 ? 0xc3 : 0xa9;
    struct attribute attributes[] = {
        {BYTES_LITERAL("p"), {.type = VALUE_S, .bytes = bytes_of(text, partition_size)}},
        {BYTES_LITERAL("s"), {.type = VALUE_B, .bytes = bytes_of(text, sort_size)}},
    };
    struct value map = {.type = VALUE_M, .attributes = attributes, .count = 2};
    arena_init(&arena, NULL, 0, ARENA_MAX);
    enum status status =
        item_key_build(encode(&map, &buffer), &schema, is_exact, &arena, &key, error);
    arena_deinit(&arena);
    buffer_deinit(&buffer);
    return status;
}

static void keys_have_dynamodbs_limits(void **state)
{
    (void)state;
    struct error error;
    for (int is_exact = 0; is_exact < 2; is_exact++) {
        assert_int_equal(build_key_of(2048, 1, false, is_exact, &error), STATUS_OK);
        assert_int_equal(build_key_of(2049, 1, false, is_exact, &error), STATUS_VALIDATION);
        assert_string_equal(error.text, INVALID "Size of hashkey has exceeded the maximum size "
                                                "limit of2048 bytes");
        assert_int_equal(build_key_of(2048, 1, true, is_exact, &error), STATUS_OK);
        assert_int_equal(build_key_of(2049, 1, true, is_exact, &error), STATUS_VALIDATION);
        assert_int_equal(build_key_of(1, 1024, false, is_exact, &error), STATUS_OK);
        assert_int_equal(build_key_of(1, 1025, false, is_exact, &error), STATUS_VALIDATION);
        assert_string_equal(error.text, INVALID "Aggregated size of all range keys has exceeded "
                                                "the size limit of 1024 bytes");
        assert_int_equal(build_key_of(1, 0, false, is_exact, &error), STATUS_VALIDATION);
        assert_string_equal(error.text,
                            "One or more parameter values are not valid. The AttributeValue for a "
                            "key attribute cannot contain an empty binary value. Key: s");
    }
}

static void keys_become_maps_again(void **state)
{
    (void)state;
    static const struct key_schema *const schemas[] = {&schema_sn, &schema_bs, &schema_s};
    struct random random = {8};
    struct arena arena;
    struct buffer buffer = {0};
    struct buffer back = {0};
    struct error error;
    arena_init(&arena, NULL, 0, ARENA_MAX);
    for (int round = 0; round < 3 * ROUNDS; round++) {
        const struct key_schema *schema = schemas[round % 3];
        struct attribute parts[2] = {{.name = schema->partition.name}, {.name = schema->sort.name}};
        size_t count = key_schema_has_sort(schema) ? 2 : 1;
        for (size_t i = 0; i < count; i++) {
            enum value_type type = i == 0 ? schema->partition.type : schema->sort.type;
            do
                parts[i].value = random_value(&random, &arena, 0);
            while (parts[i].value.type != type ||
                   (type != VALUE_N && parts[i].value.bytes.size == 0));
        }
        struct value map = {.type = VALUE_M, .attributes = parts, .count = count};
        assert_int_equal(value_normalize(&map, &error), STATUS_OK);
        struct bytes bytes = encode(&map, &buffer);
        struct item_key key;
        assert_int_equal(item_key_build(bytes, schema, true, &arena, &key, &error), STATUS_OK);
        back.size = 0;
        assert_true(item_key_encode(key, schema, &arena, &back));
        assert_true(bytes_equal(buffer_bytes(&back), bytes));
        arena_reset(&arena);
    }
    buffer_deinit(&buffer);
    buffer_deinit(&back);
    arena_deinit(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heads_read_as_msgpack_c_reads_them),
        cmocka_unit_test(random_bytes_are_taken_or_refused_as_by_msgpack_c),
        cmocka_unit_test(inline_and_full_reading_agree),
        cmocka_unit_test(shorthands_take_one_kind_only),
        cmocka_unit_test(skip_goes_as_deep_as_a_reply_and_no_deeper),
        cmocka_unit_test(encoded_items_are_canonical_and_have_their_size),
        cmocka_unit_test(shuffled_items_become_canonical_again),
        cmocka_unit_test(damaged_items_are_judged_alike_by_check_and_decode),
        cmocka_unit_test(longer_forms_are_valid_but_not_canonical),
        cmocka_unit_test(what_no_item_can_be_is_refused),
        cmocka_unit_test(duplicates_are_refused_when_encoded_again),
        cmocka_unit_test(an_item_of_400_kb_is_the_largest),
        cmocka_unit_test(items_nest_to_the_limit_and_no_deeper),
        cmocka_unit_test(attributes_are_found_by_name),
        cmocka_unit_test(memory_that_runs_out_anywhere_is_told),
        cmocka_unit_test(many_long_items_take_the_memory_of_what_they_become),
        cmocka_unit_test(keys_are_built_from_maps_in_any_order),
        cmocka_unit_test(keys_that_do_not_fit_the_schema_are_refused),
        cmocka_unit_test(keys_have_dynamodbs_limits),
        cmocka_unit_test(keys_become_maps_again),
    };
    return cmocka_run_group_tests_name("msgpack", tests, NULL, NULL);
}
