#include "cache/entry.h"
#include "cache/expiry.h"
#include "cache/flight.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

enum { BODY_MAX = 410000 };

static uint8_t text[BODY_MAX];

static const struct entry *probe_of(enum entry_kind kind, uint32_t id)
{
    static _Alignas(struct entry) uint8_t room[ENTRY_HEADER + 16];
    struct entry *probe = (struct entry *)room;
    probe->hash = id * 77;
    probe->key_size = 9;
    memcpy(entry_key_begin(probe->key, kind, 3), &id, sizeof id);
    return probe;
}

static void entry_gives_back_what_it_was_made_from(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 500, 4051, 4096, 16339, 16340, 16384, 50000, BODY_MAX};
    static const size_t budgets[] = {1 << 20, 256 << 20};
    struct arena arena;
    arena_init(&arena, NULL, 0, 1 << 20);
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (uint8_t)(i ^ i >> 8);
    for (size_t b = 0; b < 2; b++) {
        struct memory memory;
        assert_true(memory_open(&memory, budgets[b], 0));
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            struct entry_source source = {.probe = probe_of(ENTRY_ITEM, (uint32_t)i),
                                          .body = bytes_of(text, sizes[i]),
                                          .stored_ms = 5};
            struct entry *entry = entry_make(&memory, &source);
            assert_non_null(entry);
            assert_int_equal(entry_table_id(entry), 3);
            assert_int_equal(entry_size(&memory, entry), entry_size_needed(&memory, &source));
            assert_int_equal(memory_figure(&memory.live), entry_size(&memory, entry));
            assert_true(bytes_equal(entry_body(&memory, entry, &arena), source.body));
            assert_true(entry_body_equals(&memory, entry, source.body));
            if (sizes[i] > 0) {
                text[sizes[i] - 1] ^= 1;
                assert_false(entry_body_equals(&memory, entry, source.body));
                text[sizes[i] - 1] ^= 1;
            }
            entry_drop(&memory, entry);
            assert_int_equal(memory_figure(&memory.live), 0);
            arena_reset(&arena);
        }
        memory_close(&memory);
    }
    arena_deinit(&arena);
}

static void large_entry_is_made_whole_or_not_at_all(void **state)
{
    (void)state;
    struct memory memory;
    struct entry *last = NULL, *entry;
    unsigned count = 0;
    assert_true(memory_open(&memory, 1 << 20, 0));
    struct entry_source source = {.probe = probe_of(ENTRY_ITEM, 1), .body = bytes_of(text, 100000)};
    while ((entry = entry_make(&memory, &source)) != NULL) {
        last = entry;
        count++;
    }
    assert_true(count >= 8);
    assert_int_equal(memory_figure(&memory.live), count * entry_size(&memory, last));
    memory_close(&memory);
}

static void page_keeps_its_interval_and_node(void **state)
{
    (void)state;
    struct memory memory;
    struct arena arena;
    assert_true(memory_open(&memory, 1 << 20, 0));
    arena_init(&arena, NULL, 0, 1 << 20);
    struct entry_source source = {
        .probe = probe_of(ENTRY_PAGE, 1),
        .body = BYTES_LITERAL("rows"),
        .count = 3,
        .read_bytes = 777,
        .interval = {BYTES_LITERAL("low"), BYTES_LITERAL("higher")},
    };
    for (int round = 0; round < 2; round++) {
        struct entry *page = entry_make(&memory, &source);
        page_head_set_node(page, (struct node *)(void *)text, 12);
        struct entry *copy = entry_move(&memory, page);
        uint32_t slot;
        assert_ptr_equal(page_node(copy, &slot), text);
        assert_int_equal(slot, 12);
        assert_int_equal(page_head_of(copy).count, 3);
        assert_int_equal(page_head_of(copy).read_bytes, 777);
        struct key_interval interval = page_interval(copy);
        assert_true(bytes_equal(interval.low, source.interval.low));
        assert_int_equal(bytes_given(interval.high), bytes_given(source.interval.high));
        assert_true(bytes_equal(interval.high, source.interval.high));
        assert_true(bytes_equal(entry_body(&memory, copy, &arena), source.body));
        source.interval = (struct key_interval){BYTES_NONE, BYTES_NONE};
    }
    arena_deinit(&arena);
    memory_close(&memory);
}

static void what_cannot_fit_is_refused(void **state)
{
    (void)state;
    struct memory memory;
    static uint8_t room[ENTRY_HEADER + 5000];
    struct entry *probe = (struct entry *)(void *)room;
    assert_true(memory_open(&memory, 1 << 20, 0));
    probe->key_size = 4090; /* with its header longer than a run */
    probe->key[0] = ENTRY_ITEM;
    struct entry_source source = {.probe = probe, .body = BYTES_LITERAL("x")};
    assert_int_equal(entry_size_needed(&memory, &source), 0);
    assert_null(entry_make(&memory, &source));
    source.probe = probe_of(ENTRY_ITEM, 1);
    source.body = bytes_of(text, (size_t)ENTRY_VALUE_MAX + 1);
    assert_null(entry_make(&memory, &source));
    memory_close(&memory);
}

static void expiry_list_keeps_the_order_of_arrival(void **state)
{
    (void)state;
    enum { ENTRIES = 6 };
    struct memory memory;
    struct expiry_list list = {0};
    struct entry *entries[ENTRIES];
    assert_true(memory_open(&memory, 1 << 20, 0));
    for (uint32_t i = 0; i < ENTRIES; i++) {
        struct entry_source source = {
            .probe = probe_of(ENTRY_ITEM, i), .body = BYTES_LITERAL("x"), .stored_ms = i};
        entries[i] = entry_make(&memory, &source);
        expiry_push(&list, &memory, entries[i]);
    }
    expiry_unlink(&list, &memory, entries[2]);
    expiry_unlink(&list, &memory, entries[5]);
    struct entry *copy = entry_move(&memory, entries[0]);
    expiry_moved(&list, &memory, entries[0], copy);
    static const uint32_t left[] = {0, 1, 3, 4};
    uint32_t handle = list.oldest;
    for (int i = 0; i < 4; i++) {
        struct entry *entry = memory_at(&memory, handle);
        assert_int_equal(entry->stored_ms, left[i]);
        handle = entry->expiry_next;
    }
    assert_int_equal(handle, 0);
    assert_ptr_equal(memory_at(&memory, list.newest), entries[4]);
    memory_close(&memory);
}

static void a_hand_goes_round_whatever_leaves_or_moves(void **state)
{
    (void)state;
    enum { ENTRIES = 4 };
    struct memory memory;
    struct expiry_list list = {0};
    struct entry *entries[ENTRIES];
    assert_true(memory_open(&memory, 1 << 20, 0));
    assert_null(expiry_at_hand(&list, &memory));
    for (uint32_t i = 0; i < ENTRIES; i++) {
        struct entry_source source = {.probe = probe_of(ENTRY_ITEM, i), .body = BYTES_LITERAL("x")};
        entries[i] = entry_make(&memory, &source);
        expiry_push(&list, &memory, entries[i]);
    }
    assert_ptr_equal(expiry_at_hand(&list, &memory), entries[0]);
    expiry_pass(&list, entries[0]);
    assert_ptr_equal(expiry_at_hand(&list, &memory), entries[1]);
    struct entry *copy = entry_move(&memory, entries[1]);
    expiry_moved(&list, &memory, entries[1], copy);
    assert_ptr_equal(expiry_at_hand(&list, &memory), copy);
    expiry_unlink(&list, &memory, copy);
    assert_ptr_equal(expiry_at_hand(&list, &memory), entries[2]);
    expiry_unlink(&list, &memory, entries[0]);
    expiry_pass(&list, entries[2]);
    expiry_unlink(&list, &memory, entries[3]);
    assert_ptr_equal(expiry_at_hand(&list, &memory), entries[2]); /* from the oldest again */
    expiry_unlink(&list, &memory, entries[2]);
    assert_null(expiry_at_hand(&list, &memory));
    memory_close(&memory);
}

static void ttl_is_judged_by_age(void **state)
{
    (void)state;
    struct entry entry = {.stored_ms = UINT32_MAX - 10};
    assert_false(expiry_is_due(&entry, 100, 88)); /* 99 ms later, over the wrap */
    assert_true(expiry_is_due(&entry, 100, 89));
    assert_true(expiry_is_due(&entry, 0, 89));
    assert_false(expiry_is_due(&entry, AGE_MAX_MS, UINT32_MAX - 12 + (uint32_t)AGE_MAX_MS));
    assert_true(expiry_is_due(&entry, AGE_MAX_MS, UINT32_MAX - 10 + (uint32_t)AGE_MAX_MS));
    assert_int_equal(entry_age_ms(&entry, UINT32_MAX - 20), 0);
}

static void flight_outlives_its_leader_until_the_last_waiter(void **state)
{
    (void)state;
    struct memory memory;
    struct flights flights;
    struct waiter waiters[3] = {{.owner = NULL}};
    struct reply reply = {.status = STATUS_OK, .body = BYTES_LITERAL("body"), .count = 1};
    assert_true(memory_open(&memory, 1 << 20, 0));
    size_t used = memory_figure(&memory.used);
    assert_true(flights_open(&flights, &memory));
    const struct entry *probe = probe_of(ENTRY_ITEM, 1);
    struct flight *flight = flight_start(&flights, &memory, probe);
    assert_ptr_equal(flight_find(&flights, probe), flight);
    assert_null(flight_find(&flights, probe_of(ENTRY_ITEM, 2)));
    for (int i = 0; i < 3; i++)
        flight_join(flight, &waiters[i]);
    assert_true(flight_leave(&waiters[1]));
    assert_false(flight_leave(&waiters[1]));
    flight_unref(flight);
    assert_int_equal(flight->waiter_count, 2);
    flight_detach(&flights, flight);
    flight_detach(&flights, flight);
    assert_null(flight_find(&flights, probe_of(ENTRY_ITEM, 1)));
    struct waiter *first = flight_take_waiters(flight);
    assert_ptr_equal(first, &waiters[2]);
    assert_ptr_equal(first->next, &waiters[0]);
    assert_null(first->next->next);
    assert_false(flight_leave(&waiters[0])); /* too late: it is being woken */
    assert_true(flight_reply_set(flight, &reply));
    flight_unref(flight);
    flight_unref(flight);
    assert_true(bytes_equal(flight->reply.body, reply.body));
    assert_ptr_not_equal(flight->reply.body.data, reply.body.data);
    flight_unref(flight);
    flights_close(&flights, &memory);
    assert_int_equal(memory_figure(&memory.used), used);
    memory_close(&memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entry_gives_back_what_it_was_made_from),
        cmocka_unit_test(large_entry_is_made_whole_or_not_at_all),
        cmocka_unit_test(page_keeps_its_interval_and_node),
        cmocka_unit_test(what_cannot_fit_is_refused),
        cmocka_unit_test(expiry_list_keeps_the_order_of_arrival),
        cmocka_unit_test(a_hand_goes_round_whatever_leaves_or_moves),
        cmocka_unit_test(ttl_is_judged_by_age),
        cmocka_unit_test(flight_outlives_its_leader_until_the_last_waiter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
