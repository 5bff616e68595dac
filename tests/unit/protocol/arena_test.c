#include "protocol/arena.h"
#include "protocol/buffer.h"
#include "tests/unit/protocol/random_value.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void small_requests_need_no_heap(void **state)
{
    (void)state;
    _Alignas(16) uint8_t first[256];
    struct arena arena;
    arena_init(&arena, first, sizeof first, 0);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 16; i++)
            assert_non_null(arena_alloc(&arena, 16));
        assert_null(arena_alloc(&arena, 1));
        arena_reset(&arena);
    }
    assert_int_equal(arena.heap_bytes, 0);
    arena_deinit(&arena);
}

static void pieces_are_aligned_and_apart(void **state)
{
    (void)state;
    uint8_t first[333];
    struct random random = {1};
    struct arena arena;
    struct bytes pieces[200];
    arena_init(&arena, first + 1, sizeof first - 1, 1 << 20);
    for (size_t i = 0; i < 200; i++) {
        size_t size = random_below(&random, i % 10 == 0 ? 20000 : 100);
        uint8_t *piece = arena_alloc(&arena, size);
        assert_non_null(piece);
        assert_int_equal((uintptr_t)piece % 16, 0);
        memset(piece, (int)i, size);
        pieces[i] = bytes_of(piece, size);
    }
    for (size_t i = 0; i < 200; i++)
        for (size_t k = 0; k < pieces[i].size; k++)
            assert_int_equal(pieces[i].data[k], i);
    arena_deinit(&arena);
}

static void the_heap_limit_holds(void **state)
{
    (void)state;
    struct arena arena;
    arena_init(&arena, NULL, 0, 100000);
    size_t taken = 0;
    while (arena_alloc(&arena, 1000) != NULL)
        taken += 1000;
    assert_in_range(taken, 80000, 100000);
    assert_true(arena.heap_bytes <= 100000);
    assert_null(arena_alloc(&arena, SIZE_MAX));
    assert_null(arena_alloc(&arena, SIZE_MAX / 2 - 8));
    arena_reset(&arena);
    assert_int_equal(arena.heap_bytes, 0);
    assert_non_null(arena_alloc(&arena, 1000));
    arena_deinit(&arena);
}

static void an_empty_copy_is_given(void **state)
{
    (void)state;
    struct arena arena;
    arena_init(&arena, NULL, 0, 1024);
    assert_true(bytes_given(arena_copy(&arena, BYTES_LITERAL(""))));
    assert_true(bytes_equal(arena_copy(&arena, BYTES_LITERAL("ab")), BYTES_LITERAL("ab")));
    arena_deinit(&arena);
    arena_init(&arena, NULL, 0, 0);
    assert_false(bytes_given(arena_copy(&arena, BYTES_LITERAL("ab"))));
    arena_deinit(&arena);
}

static void buffers_keep_what_was_appended(void **state)
{
    (void)state;
    struct buffer buffer = {0};
    for (uint32_t i = 0; i < 5000; i++)
        assert_true(buffer_append(&buffer, bytes_of(&i, sizeof i)));
    assert_int_equal(buffer.size, 5000 * sizeof(uint32_t));
    for (uint32_t i = 0; i < 5000; i++)
        assert_memory_equal(buffer.data + i * sizeof i, &i, sizeof i);
    assert_true(buffer_append(&buffer, BYTES_NONE));
    assert_false(buffer_reserve(&buffer, SIZE_MAX));
    assert_int_equal(buffer.size, 5000 * sizeof(uint32_t));
    buffer_deinit(&buffer);
    assert_null(buffer.data);
}

static void bytes_order_puts_a_prefix_first(void **state)
{
    (void)state;
    assert_true(bytes_compare(BYTES_LITERAL("a"), BYTES_LITERAL("ab")) < 0);
    assert_true(bytes_compare(BYTES_LITERAL("\xff"), BYTES_LITERAL("a")) > 0);
    assert_int_equal(bytes_compare(BYTES_NONE, BYTES_LITERAL("")), 0);
    assert_true(bytes_begin_with(BYTES_LITERAL("ab"), BYTES_NONE));
    assert_false(bytes_begin_with(BYTES_LITERAL("a"), BYTES_LITERAL("ab")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_requests_need_no_heap),
        cmocka_unit_test(pieces_are_aligned_and_apart),
        cmocka_unit_test(the_heap_limit_holds),
        cmocka_unit_test(an_empty_copy_is_given),
        cmocka_unit_test(buffers_keep_what_was_appended),
        cmocka_unit_test(bytes_order_puts_a_prefix_first),
    };
    return cmocka_run_group_tests_name("arena", tests, NULL, NULL);
}
