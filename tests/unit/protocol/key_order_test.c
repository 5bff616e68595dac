#include "protocol/key_order.h"
#include "tests/unit/protocol/random_value.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { ROUNDS = 20000, KEY_SIZE_MAX = 6 };

struct fixture {
    struct random random;
    struct arena arena;
};

static void start(struct fixture *fixture, uint64_t seed)
{
    fixture->random = (struct random){seed};
    arena_init(&fixture->arena, NULL, 0, 1 << 20);
}

/* A part of a key: as it is, and as key_part_write() takes it. */
struct part {
    enum value_type type;
    struct bytes contents;
    struct number number;
    uint8_t ordered[NUMBER_ORDERED_MAX];
};

static void make_part(struct fixture *fixture, enum value_type type, struct part *out)
{
    char text[RANDOM_NUMBER_TEXT_MAX];
    struct error error;
    out->type = type;
    if (type != VALUE_N) {
        out->contents = random_bytes(&fixture->random, &fixture->arena, KEY_SIZE_MAX);
        return;
    }
    random_number_text(&fixture->random, text);
    assert_int_equal(number_parse(bytes_text(text), &out->number, &error), STATUS_OK);
    out->contents = bytes_of(out->ordered, number_to_ordered(&out->number, out->ordered));
}

static int compare_parts(const struct part *a, const struct part *b)
{
    return a->type == VALUE_N ? number_compare(&a->number, &b->number)
                              : bytes_compare(a->contents, b->contents);
}

enum { PARTS = 3, WRITTEN_MAX = PARTS * (NUMBER_ORDERED_MAX + 2 * KEY_SIZE_MAX + 2) };

struct key {
    struct part parts[PARTS];
    uint8_t buffer[WRITTEN_MAX];
    struct bytes written;
};

static void make_key(struct fixture *fixture, const enum value_type types[PARTS],
                     const struct key *like, struct key *out)
{
    uint8_t *end = out->buffer;
    for (int i = 0; i < PARTS; i++) {
        /* Often the same part as in the other key, so that later parts decide. */
        if (like != NULL && random_below(&fixture->random, 2) == 0) {
            out->parts[i] = like->parts[i];
            if (types[i] == VALUE_N)
                out->parts[i].contents.data = out->parts[i].ordered;
        } else {
            make_part(fixture, types[i], &out->parts[i]);
        }
        end = key_part_write(end, types[i], out->parts[i].contents, i == PARTS - 1);
    }
    out->written = bytes_of(out->buffer, (size_t)(end - out->buffer));
}

static int sign(int order)
{
    return (order > 0) - (order < 0);
}

static void random_types(struct random *random, enum value_type types[PARTS])
{
    static const enum value_type all[] = {VALUE_S, VALUE_N, VALUE_B};
    for (int i = 0; i < PARTS; i++)
        types[i] = all[random_below(random, 3)];
}

static void keys_of_three_parts_sort_part_by_part(void **state)
{
    (void)state;
    struct fixture fixture;
    start(&fixture, 1);
    for (int round = 0; round < ROUNDS; round++) {
        enum value_type types[PARTS];
        struct key a;
        struct key b;
        random_types(&fixture.random, types);
        make_key(&fixture, types, NULL, &a);
        make_key(&fixture, types, &a, &b);
        int wanted = 0;
        for (int i = 0; i < PARTS && wanted == 0; i++)
            wanted = sign(compare_parts(&a.parts[i], &b.parts[i]));
        assert_int_equal(sign(bytes_compare(a.written, b.written)), wanted);
        arena_reset(&fixture.arena);
    }
    arena_deinit(&fixture.arena);
}

static void parts_read_back(void **state)
{
    (void)state;
    struct fixture fixture;
    start(&fixture, 2);
    for (int round = 0; round < ROUNDS; round++) {
        enum value_type types[PARTS];
        struct key key;
        random_types(&fixture.random, types);
        make_key(&fixture, types, NULL, &key);
        struct bytes left = key.written;
        for (int i = 0; i < PARTS; i++) {
            struct bytes contents;
            size_t used = 0;
            assert_true(
                key_part_read(left, types[i], i == PARTS - 1, &fixture.arena, &contents, &used));
            assert_true(bytes_equal(contents, key.parts[i].contents));
            left = bytes_of(left.data + used, left.size - used);
        }
        assert_int_equal(left.size, 0);
        arena_reset(&fixture.arena);
    }
    arena_deinit(&fixture.arena);
}

static void no_terminated_part_begins_another(void **state)
{
    (void)state;
    struct fixture fixture;
    start(&fixture, 3);
    for (int round = 0; round < ROUNDS; round++) {
        uint8_t buffer[2][2 * KEY_SIZE_MAX + 2];
        struct bytes raw[2];
        struct bytes written[2];
        for (int i = 0; i < 2; i++) {
            raw[i] = random_bytes(&fixture.random, &fixture.arena, KEY_SIZE_MAX);
            const uint8_t *end = key_part_write(buffer[i], VALUE_B, raw[i], false);
            written[i] = bytes_of(buffer[i], (size_t)(end - buffer[i]));
        }
        if (!bytes_equal(raw[0], raw[1]))
            assert_false(bytes_begin_with(written[0], written[1]));
        arena_reset(&fixture.arena);
    }
    arena_deinit(&fixture.arena);
}

static void part_bytes_are_what_the_format_says(void **state)
{
    (void)state;
    uint8_t out[16];
    const uint8_t *end = key_part_write(out, VALUE_S, BYTES_LITERAL("a\0b"), false);
    assert_int_equal(end - out, 6);
    assert_memory_equal(out, "a\x00\xff\x62\x00\x01", 6);
    end = key_part_write(out, VALUE_S, BYTES_LITERAL("a\0b"), true);
    assert_int_equal(end - out, 3);
    assert_memory_equal(out, "a\0b", 3);
    end = key_part_write(out, VALUE_B, BYTES_LITERAL(""), false);
    assert_int_equal(end - out, 2);
    assert_memory_equal(out, "\0\x01", 2);
}

static void broken_parts_are_refused(void **state)
{
    (void)state;
    static const struct bytes broken[] = {
        {(const uint8_t *)"", 0},        {(const uint8_t *)"a", 1},
        {(const uint8_t *)"a\0", 2},     {(const uint8_t *)"a\0\x02", 3},
        {(const uint8_t *)"a\0\xff", 3}, {(const uint8_t *)"a\0\0\x01", 4},
    };
    struct arena arena;
    arena_init(&arena, NULL, 0, 1024);
    struct bytes out;
    size_t used = 0;
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++)
        assert_false(key_part_read(broken[i], VALUE_S, false, &arena, &out, &used));
    assert_false(key_part_read(BYTES_LITERAL("\x03"), VALUE_N, true, &arena, &out, &used));
    arena_deinit(&arena);
}

static void a_prefix_ends_below_everything_else(void **state)
{
    (void)state;
    struct fixture fixture;
    start(&fixture, 4);
    for (int round = 0; round < ROUNDS; round++) {
        struct bytes prefix = random_bytes(&fixture.random, &fixture.arena, 4);
        struct bytes other = random_bytes(&fixture.random, &fixture.arena, 6);
        struct bytes end;
        bool is_unbounded = false;
        assert_true(bytes_prefix_end(prefix, &fixture.arena, &end, &is_unbounded));
        assert_int_equal(is_unbounded, !bytes_given(end));
        bool is_inside =
            bytes_compare(other, prefix) >= 0 && (is_unbounded || bytes_compare(other, end) < 0);
        assert_int_equal(is_inside, bytes_begin_with(other, prefix));
        arena_reset(&fixture.arena);
    }
    arena_deinit(&fixture.arena);
}

static void nothing_lies_between_bytes_and_the_next(void **state)
{
    (void)state;
    struct fixture fixture;
    start(&fixture, 5);
    for (int round = 0; round < ROUNDS; round++) {
        struct bytes bytes = random_bytes(&fixture.random, &fixture.arena, 4);
        struct bytes other = random_bytes(&fixture.random, &fixture.arena, 6);
        struct bytes next;
        assert_true(bytes_next(bytes, &fixture.arena, &next));
        assert_true(bytes_compare(bytes, next) < 0);
        assert_false(bytes_compare(other, bytes) > 0 && bytes_compare(other, next) < 0);
        arena_reset(&fixture.arena);
    }
    arena_deinit(&fixture.arena);
}

static void an_exhausted_arena_is_told(void **state)
{
    (void)state;
    struct arena arena;
    struct bytes out;
    size_t used = 0;
    bool is_unbounded = false;
    arena_init(&arena, NULL, 0, 0);
    assert_false(key_part_read(BYTES_LITERAL("\0\xff\0\x01"), VALUE_B, false, &arena, &out, &used));
    assert_true(key_part_read(BYTES_LITERAL("a\0\x01"), VALUE_B, false, &arena, &out, &used));
    assert_false(bytes_prefix_end(BYTES_LITERAL("a"), &arena, &out, &is_unbounded));
    assert_false(bytes_next(BYTES_LITERAL("a"), &arena, &out));
    arena_deinit(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_of_three_parts_sort_part_by_part),
        cmocka_unit_test(parts_read_back),
        cmocka_unit_test(no_terminated_part_begins_another),
        cmocka_unit_test(part_bytes_are_what_the_format_says),
        cmocka_unit_test(broken_parts_are_refused),
        cmocka_unit_test(a_prefix_ends_below_everything_else),
        cmocka_unit_test(nothing_lies_between_bytes_and_the_next),
        cmocka_unit_test(an_exhausted_arena_is_told),
    };
    return cmocka_run_group_tests_name("key_order", tests, NULL, NULL);
}
