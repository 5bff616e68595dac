#include "cache/memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

enum { BUDGET = 4 << 20 };

static void slot_is_close_to_what_was_asked_for(void **state)
{
    (void)state;
    static const size_t budgets[] = {1 << 20, 64 << 20, (size_t)1 << 30};
    for (size_t b = 0; b < sizeof budgets / sizeof *budgets; b++) {
        struct memory memory;
        assert_true(memory_open(&memory, budgets[b], 0));
        for (size_t size = 1; size <= memory_slot_max(&memory); size++) {
            uint32_t slot = memory_slot_size(&memory, size);
            assert_true(slot >= size && slot % SLOT_UNIT == 0);
            /* Eight classes an octave, sixteen from 512 B: and never more than a run's leftovers,
             * which only count where few slots fill a run. */
            if (size >= 128 && size * 16 < memory.run_size)
                assert_true(slot - size <= size / 7 + SLOT_UNIT);
        }
        memory_close(&memory);
    }
}

/* The largest cache is mapped and addressed to its end, without the memory for it. */
static void handles_reach_to_the_end_of_the_largest_mapping(void **state)
{
    (void)state;
    struct memory memory;
    if (!memory_open(&memory, MEMORY_MAPPING_MAX, 0))
        skip(); /* a system that promises no more than it has */
    assert_int_equal(memory.mapping_size, MEMORY_MAPPING_MAX);
    size_t places[] = {0, memory.mapping_size / 2,
                       memory.mapping_size - memory_slot_size(&memory, 1)};
    uint32_t before = 0;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        uint8_t *slot = memory.base + places[i];
        uint32_t handle = memory_handle(&memory, slot);
        assert_true(handle > before);
        assert_ptr_equal(memory_at(&memory, handle), slot);
        *slot = (uint8_t)(i + 1);
        before = handle;
    }
    memory_close(&memory);
}

static void handles_lead_back_to_slots(void **state)
{
    (void)state;
    struct memory memory;
    assert_true(memory_open(&memory, BUDGET, 0));
    assert_null(memory_at(&memory, 0));
    for (int i = 0; i < 1000; i++) {
        void *slot = memory_alloc(&memory, 64 + (size_t)i);
        assert_non_null(slot);
        assert_int_not_equal(memory_handle(&memory, slot), 0);
        assert_ptr_equal(memory_at(&memory, memory_handle(&memory, slot)), slot);
    }
    memory_close(&memory);
}

static void slots_do_not_overlap_and_come_back(void **state)
{
    (void)state;
    enum { SLOTS = 2000 };
    struct memory memory;
    static void *slots[SLOTS];
    static size_t sizes[SLOTS];
    assert_true(memory_open(&memory, BUDGET, 0));
    size_t used = memory_figure(&memory.used);
    srand(1);
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < SLOTS; i++) {
            if (slots[i] != NULL) {
                for (size_t at = 0; at < sizes[i]; at++)
                    if (at != SLOT_FLAGS_AT)
                        assert_int_equal(((uint8_t *)slots[i])[at], (uint8_t)i);
                if (rand() % 2) {
                    memory_sub(&memory.live, memory_free(&memory, slots[i]));
                    slots[i] = NULL;
                }
            } else {
                sizes[i] = 64 + (size_t)(rand() % 1000);
                slots[i] = memory_alloc(&memory, sizes[i]);
                if (slots[i] != NULL)
                    memset(slots[i], i, sizes[i]);
            }
        }
        assert_true(memory_figure(&memory.used) <= BUDGET);
    }
    for (int i = 0; i < SLOTS; i++)
        if (slots[i] != NULL)
            memory_sub(&memory.live, memory_free(&memory, slots[i]));
    assert_int_equal(memory_figure(&memory.live), 0);
    assert_int_equal(memory_figure(&memory.used), used); /* every run was given back */
    memory_close(&memory);
}

static void budget_holds_for_slots_and_heap_together(void **state)
{
    (void)state;
    struct memory memory;
    assert_true(memory_open(&memory, 1 << 20, 4096));
    void *heap = memory_heap_alloc(&memory, 300 << 10);
    assert_non_null(heap);
    size_t slots = 0;
    while (memory_alloc(&memory, 1000) != NULL)
        slots++;
    assert_true(slots * 1000 < (1 << 20) - (300 << 10));
    assert_true(slots * 1000 > ((1 << 20) - (300 << 10)) * 9 / 10);
    assert_true(memory_figure(&memory.used) <= (1 << 20) - 4096);
    assert_null(memory_heap_alloc(&memory, 4096));
    void *kept = memory_heap_alloc_kept(&memory, 2048); /* which is there even so */
    assert_non_null(kept);
    assert_null(memory_heap_alloc_kept(&memory, 8192));
    memory_heap_free(&memory, kept, 2048);
    memory_heap_free(&memory, heap, 300 << 10);
    assert_non_null(memory_alloc(&memory, 1000));
    memory_close(&memory);
}

static void evacuated_run_serves_another_class(void **state)
{
    (void)state;
    enum { SLOTS = 20000 };
    struct memory memory;
    static void *slots[SLOTS];
    assert_true(memory_open(&memory, 1 << 20, 0));
    int count = 0;
    while ((slots[count] = memory_alloc(&memory, 64)) != NULL)
        count++;
    assert_null(memory_alloc(&memory, 1000));
    uint32_t slots_of_run = 0;
    assert_int_equal(memory_evacuation_begin(&memory, UINT32_MAX, &slots_of_run), RUN_NONE);
    /* What is in the emptiest run must fit elsewhere: no run can be given up before. */
    int run_slots = (int)memory.run_size / 64;
    for (int i = 0; i < run_slots - 1; i++)
        memory_sub(&memory.live, memory_free(&memory, slots[i * 3]));
    assert_int_equal(memory_evacuation_begin(&memory, UINT32_MAX, &slots_of_run), RUN_NONE);
    memory_sub(&memory.live, memory_free(&memory, slots[run_slots * 3]));
    assert_int_equal(memory_evacuation_begin(&memory, 2, &slots_of_run), RUN_NONE);
    uint32_t run = memory_evacuation_begin(&memory, UINT32_MAX, &slots_of_run);
    assert_int_not_equal(run, RUN_NONE);
    uint32_t other;
    assert_int_equal(memory_evacuation_begin(&memory, UINT32_MAX, &other), RUN_NONE);
    for (uint32_t i = 0; i < slots_of_run; i++) {
        void *slot = memory_run_slot(&memory, run, i);
        bool is_live = true;
        for (int j = 0; j <= run_slots && is_live; j++)
            is_live = j == run_slots - 1 || slots[j * 3] != slot;
        if (!is_live)
            continue;
        assert_non_null(memory_alloc(&memory, 64)); /* moves it, and not to where it was */
        memory_sub(&memory.live, memory_free(&memory, slot));
    }
    assert_null(memory_alloc(&memory, 1000));
    memory_evacuation_end(&memory, run);
    assert_non_null(memory_alloc(&memory, 1000));
    memory_close(&memory);
}

static void run_is_given_back_with_its_last_slot(void **state)
{
    (void)state;
    struct memory memory;
    static void *slots[64];
    assert_true(memory_open(&memory, 1 << 20, 0));
    int run_slots = (int)memory.run_size / 128;
    for (int i = 0; i < 2 * run_slots; i++)
        slots[i] = memory_alloc(&memory, 128);
    for (int i = 2; i < run_slots; i++) /* leaves two in the first run */
        (void)memory_free(&memory, slots[i]);
    (void)memory_free(&memory, slots[run_slots]);
    (void)memory_free(&memory, slots[run_slots + 1]);
    size_t used = memory_figure(&memory.used);
    uint32_t count;
    uint32_t run = memory_evacuation_begin(&memory, UINT32_MAX, &count);
    assert_ptr_equal(memory_run_slot(&memory, run, 0), slots[0]);
    memory_evacuation_end(&memory, run); /* nothing could be moved: they wait for readers */
    (void)memory_free(&memory, slots[0]);
    assert_int_equal(memory_figure(&memory.used), used);
    (void)memory_free(&memory, slots[1]);
    assert_int_equal(memory_figure(&memory.used), used - memory.run_size);
    run = memory_evacuation_begin(&memory, UINT32_MAX, &count);
    assert_int_equal(run, RUN_NONE);
    memory_close(&memory);
}

static void unused_pages_go_back_to_the_system(void **state)
{
    (void)state;
    struct memory memory;
    static void *slots[300];
    assert_true(memory_open(&memory, 1 << 20, 0));
    int count = 0;
    while (count < 300 && (slots[count] = memory_alloc(&memory, 4000)) != NULL)
        memset(slots[count++], 1, 4000);
    for (int i = 0; i < count; i++)
        (void)memory_free(&memory, slots[i]);
    while (memory_trim(&memory, 8 * memory.run_size))
        continue;
    assert_int_equal(memory.warm_count, 8);
    for (int i = 0; i < count; i++) /* and are there again when wanted */
        assert_non_null(memory_alloc(&memory, 4000));
    memory_close(&memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slot_is_close_to_what_was_asked_for),
        cmocka_unit_test(handles_reach_to_the_end_of_the_largest_mapping),
        cmocka_unit_test(handles_lead_back_to_slots),
        cmocka_unit_test(slots_do_not_overlap_and_come_back),
        cmocka_unit_test(budget_holds_for_slots_and_heap_together),
        cmocka_unit_test(evacuated_run_serves_another_class),
        cmocka_unit_test(run_is_given_back_with_its_last_slot),
        cmocka_unit_test(unused_pages_go_back_to_the_system),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
