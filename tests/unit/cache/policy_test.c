#include "cache/ghost.h"
#include "cache/policy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

enum { BUDGET = 8 << 20, KINDS_ALL = 3 };

struct rig {
    struct memory memory;
    struct policy *policy;
};

static void rig_open(struct rig *rig)
{
    assert_true(memory_open(&rig->memory, BUDGET, 0));
    rig->policy = policy_s3fifo.open(&rig->memory, BUDGET);
    assert_non_null(rig->policy);
}

static void rig_close(struct rig *rig)
{
    rig->policy->ops->close(&rig->policy);
    memory_close(&rig->memory);
}

static uint32_t hash_of(uint32_t id)
{
    uint64_t wide = (id + 1) * UINT64_C(0xD6E8FEB86659FD93);
    wide = (wide ^ wide >> 32) * UINT64_C(0xD6E8FEB86659FD93);
    return (uint32_t)(wide >> 32);
}

/* An entry of about `size` bytes, queued. */
static struct entry *add(struct rig *rig, enum entry_kind kind, uint32_t id, size_t size)
{
    static uint8_t body[20000];
    _Alignas(struct entry) uint8_t room[ENTRY_HEADER + 16];
    struct entry *probe = (struct entry *)room;
    probe->hash = hash_of(id);
    probe->key_size = 9;
    memcpy(entry_key_begin(probe->key, kind, 1), &id, sizeof id);
    size_t front = ENTRY_HEADER + 9 + (kind == ENTRY_PAGE ? sizeof(struct page_head) : 0);
    struct entry_source source = {.probe = probe, .body = bytes_of(body, size - front)};
    struct entry *entry = entry_make(&rig->memory, &source);
    assert_non_null(entry);
    entry_mark_published(&rig->memory, entry);
    rig->policy->ops->admit(rig->policy, entry);
    return entry;
}

static uint32_t id_of(const struct entry *entry)
{
    uint32_t id;
    memcpy(&id, entry->key + ENTRY_KEY_PREFIX, sizeof id);
    return id;
}

static struct entry *victim(struct rig *rig)
{
    return rig->policy->ops->victim(rig->policy, KINDS_ALL, POLICY_CLASS_ANY);
}

static void unused_entries_go_in_order_of_arrival(void **state)
{
    (void)state;
    struct rig rig;
    rig_open(&rig);
    for (uint32_t id = 0; id < 100; id++)
        add(&rig, ENTRY_ITEM, id, 200);
    for (uint32_t id = 0; id < 100; id++)
        assert_int_equal(id_of(victim(&rig)), id);
    assert_null(victim(&rig));
    rig_close(&rig);
}

static void counter_stops_at_three(void **state)
{
    (void)state;
    struct rig rig;
    rig_open(&rig);
    struct entry *entry = add(&rig, ENTRY_ITEM, 1, 200);
    for (unsigned hit = 1; hit <= 5; hit++) {
        policy_touch(entry);
        assert_int_equal(entry_counter(entry), hit < 3 ? hit : 3);
    }
    rig_close(&rig);
}

static void two_hits_lead_to_the_main_queue(void **state)
{
    (void)state;
    struct rig rig;
    rig_open(&rig);
    struct entry *hot = add(&rig, ENTRY_ITEM, 0, 200), *warm = add(&rig, ENTRY_ITEM, 1, 200);
    policy_touch(hot);
    policy_touch(hot);
    policy_touch(warm);
    for (uint32_t id = 2; id < 20; id++)
        add(&rig, ENTRY_ITEM, id, 200);
    assert_int_equal(id_of(victim(&rig)), 1); /* one hit is not enough */
    assert_true(entry_flags(hot) & SLOT_MAIN);
    for (uint32_t id = 2; id < 11; id++) /* while the small queue has more than its tenth */
        assert_int_equal(id_of(victim(&rig)), id);
    rig_close(&rig);
}

static void second_fill_of_an_evicted_id_goes_to_the_main_queue(void **state)
{
    (void)state;
    struct rig rig;
    rig_open(&rig);
    for (uint32_t id = 0; id < 50; id++)
        assert_false(entry_flags(add(&rig, ENTRY_ITEM, id, 200)) & SLOT_MAIN);
    for (uint32_t id = 0; id < 20; id++)
        assert_int_equal(id_of(victim(&rig)), id);
    for (uint32_t id = 0; id < 20; id++)
        assert_true(entry_flags(add(&rig, ENTRY_ITEM, id, 200)) & SLOT_MAIN);
    assert_false(entry_flags(add(&rig, ENTRY_ITEM, 0, 200)) & SLOT_MAIN); /* once only */
    rig_close(&rig);
}

static void an_overwritten_hot_entry_keeps_its_standing(void **state)
{
    (void)state;
    struct rig rig;
    rig_open(&rig);
    struct entry *hot = add(&rig, ENTRY_ITEM, 0, 200), *cold = add(&rig, ENTRY_ITEM, 1, 200);
    policy_touch(hot);
    policy_touch(hot);
    rig.policy->ops->remove(rig.policy, hot, true);
    rig.policy->ops->remove(rig.policy, cold, true);
    assert_true(entry_flags(add(&rig, ENTRY_ITEM, 0, 200)) & SLOT_MAIN);
    assert_false(entry_flags(add(&rig, ENTRY_ITEM, 1, 200)) & SLOT_MAIN);
    rig_close(&rig);
}

static void large_entries_go_before_small_ones_of_the_same_use(void **state)
{
    (void)state;
    struct rig rig;
    rig_open(&rig);
    for (uint32_t id = 0; id < 100; id++)
        add(&rig, ENTRY_ITEM, id, 200);
    for (uint32_t id = 100; id < 120; id++)
        add(&rig, ENTRY_ITEM, id, 8000);
    for (int i = 0; i < 20; i++)
        assert_true(id_of(victim(&rig)) >= 100);
    /* The floor has risen meanwhile, so that what comes now outlives the old small ones. */
    for (uint32_t id = 200; id < 260; id++)
        add(&rig, ENTRY_ITEM, id, 200);
    assert_true(id_of(victim(&rig)) < 100);
    rig_close(&rig);
}

static void victim_is_of_the_kind_and_class_asked_for(void **state)
{
    (void)state;
    struct rig rig;
    rig_open(&rig);
    add(&rig, ENTRY_ITEM, 1, 200);
    add(&rig, ENTRY_ITEM, 2, 1200);
    add(&rig, ENTRY_PAGE, 3, 300);
    const struct policy_ops *ops = rig.policy->ops;
    assert_int_equal(id_of(ops->victim(rig.policy, 1 << (ENTRY_PAGE - 1), POLICY_CLASS_ANY)), 3);
    assert_null(ops->victim(rig.policy, 1 << (ENTRY_PAGE - 1), POLICY_CLASS_ANY));
    assert_null(ops->victim(rig.policy, KINDS_ALL, policy_class(5000)));
    assert_int_equal(id_of(ops->victim(rig.policy, KINDS_ALL, policy_class(1200))), 2);
    assert_int_equal(id_of(ops->victim(rig.policy, KINDS_ALL, POLICY_CLASS_ANY)), 1);
    rig_close(&rig);
}

static void a_full_main_queue_of_hot_entries_still_yields_a_victim(void **state)
{
    (void)state;
    struct rig rig;
    rig_open(&rig);
    for (uint32_t id = 0; id < 5000; id++) {
        struct entry *entry = add(&rig, ENTRY_ITEM, id, 200);
        for (int hit = 0; hit < 3; hit++)
            policy_touch(entry);
    }
    for (int i = 0; i < 100; i++) {
        assert_non_null(victim(&rig));
        for (uint32_t more = 0; more < 2; more++)
            policy_touch(add(&rig, ENTRY_ITEM, 10000 + 2 * (uint32_t)i + more, 200));
    }
    rig_close(&rig);
}

static void ghosts_reach_back_as_far_as_is_wanted(void **state)
{
    (void)state;
    static const unsigned sizes[] = {30, 1000, 20000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct memory memory;
        struct ghost ghost;
        unsigned wanted = sizes[i], evicted = 10 * wanted, old = 0, recent = 0;
        assert_true(memory_open(&memory, 1 << 20, 0));
        assert_true(ghost_open(&ghost, &memory));
        ghost_resize(&ghost, wanted);
        for (uint32_t id = 0; id < evicted; id++)
            ghost_add(&ghost, hash_of(id));
        for (uint32_t id = 0; id < evicted - 2 * wanted; id++)
            old += ghost_take(&ghost, hash_of(id));
        for (uint32_t id = evicted - wanted; id < evicted; id++)
            recent += ghost_take(&ghost, hash_of(id));
        assert_true(old <= wanted / 1000);
        assert_true(recent > wanted * 9 / 10);
        assert_true((size_t)ghost.buckets * 8 * 4 <= 7u * wanted + 256);
        ghost_close(&ghost);
        memory_close(&memory);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unused_entries_go_in_order_of_arrival),
        cmocka_unit_test(counter_stops_at_three),
        cmocka_unit_test(two_hits_lead_to_the_main_queue),
        cmocka_unit_test(second_fill_of_an_evicted_id_goes_to_the_main_queue),
        cmocka_unit_test(an_overwritten_hot_entry_keeps_its_standing),
        cmocka_unit_test(large_entries_go_before_small_ones_of_the_same_use),
        cmocka_unit_test(victim_is_of_the_kind_and_class_asked_for),
        cmocka_unit_test(a_full_main_queue_of_hot_entries_still_yields_a_victim),
        cmocka_unit_test(ghosts_reach_back_as_far_as_is_wanted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
