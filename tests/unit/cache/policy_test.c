#include "cache/queues.h"

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

/* state  the policy */
static void rig_open(struct rig *rig, void **state)
{
    const struct policy_ops *ops = *state;
    assert_true(memory_open(&rig->memory, BUDGET, 0));
    rig->policy = ops->open(&rig->memory, BUDGET);
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
    static uint8_t body[BUDGET / 10];
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

static void evicted_free(struct rig *rig, struct entry *entry)
{
    entry_mark_retired(&rig->memory, entry);
    entry_free_retired(&rig->memory, entry);
}

static void unused_entries_go_in_order_of_arrival(void **state)
{
    struct rig rig;
    rig_open(&rig, state);
    for (uint32_t id = 0; id < 100; id++)
        add(&rig, ENTRY_ITEM, id, 200);
    for (uint32_t id = 0; id < 100; id++)
        assert_int_equal(id_of(victim(&rig)), id);
    assert_null(victim(&rig));
    rig_close(&rig);
}

static void counter_stops_at_three(void **state)
{
    struct rig rig;
    rig_open(&rig, state);
    struct entry *entry = add(&rig, ENTRY_ITEM, 1, 200);
    for (unsigned hit = 1; hit <= 5; hit++) {
        policy_touch(entry);
        assert_int_equal(entry_counter(entry), hit < 3 ? hit : 3);
    }
    rig_close(&rig);
}

static void two_hits_lead_to_the_main_queue(void **state)
{
    struct rig rig;
    rig_open(&rig, state);
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
    struct rig rig;
    rig_open(&rig, state);
    for (uint32_t id = 0; id < 50; id++)
        assert_false(entry_flags(add(&rig, ENTRY_ITEM, id, 200)) & SLOT_MAIN);
    for (uint32_t id = 0; id < 20; id++)
        assert_int_equal(id_of(victim(&rig)), id);
    for (uint32_t id = 0; id < 20; id++)
        assert_true(entry_flags(add(&rig, ENTRY_ITEM, id, 200)) & SLOT_MAIN);
    assert_false(entry_flags(add(&rig, ENTRY_ITEM, 0, 200)) & SLOT_MAIN); /* once only */
    rig_close(&rig);
}

static void what_is_too_large_for_a_first_time_goes_to_the_main_queue_later(void **state)
{
    enum { LARGE = BUDGET / 10 };
    struct rig rig;
    rig_open(&rig, state);
    const struct policy_ops *ops = rig.policy->ops;
    assert_false(ops->admits(rig.policy, ENTRY_PAGE, hash_of(1), LARGE));
    assert_false(ops->knows(rig.policy, ENTRY_PAGE, hash_of(1))); /* as evicted: it never came in */
    assert_true(ops->admits(rig.policy, ENTRY_PAGE, hash_of(1), LARGE));
    assert_true(ops->admits(rig.policy, ENTRY_PAGE, hash_of(1), LARGE)); /* if it found no room */
    assert_true(entry_flags(add(&rig, ENTRY_PAGE, 1, LARGE)) & SLOT_MAIN);
    assert_false(ops->admits(rig.policy, ENTRY_PAGE, hash_of(1), LARGE));
    rig_close(&rig);
}

static void an_overwritten_hot_entry_keeps_its_standing(void **state)
{
    struct rig rig;
    rig_open(&rig, state);
    struct entry *hot = add(&rig, ENTRY_ITEM, 0, 200), *cold = add(&rig, ENTRY_ITEM, 1, 200);
    policy_touch(hot);
    policy_touch(hot);
    rig.policy->ops->remove(rig.policy, hot, POLICY_WRITTEN);
    rig.policy->ops->remove(rig.policy, cold, POLICY_WRITTEN);
    assert_true(entry_flags(add(&rig, ENTRY_ITEM, 0, 200)) & SLOT_MAIN);
    assert_false(entry_flags(add(&rig, ENTRY_ITEM, 1, 200)) & SLOT_MAIN);
    rig_close(&rig);
}

static void large_entries_go_before_small_ones_of_the_same_use(void **state)
{
    struct rig rig;
    rig_open(&rig, state);
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
    struct rig rig;
    rig_open(&rig, state);
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
    struct rig rig;
    rig_open(&rig, state);
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

static struct size_class *class_of(struct rig *rig, size_t size)
{
    return &queues_of(rig->policy)->classes[queues_class(ENTRY_ITEM, size)];
}

/* --- CAS3 alone --- */

static void use_is_spent_round_by_round(void **state)
{
    enum { ENTRIES = 40 };
    struct rig rig;
    rig_open(&rig, state);
    struct entry *hot = add(&rig, ENTRY_ITEM, 0, 200);
    for (int hit = 0; hit < 3; hit++)
        policy_touch(hot);
    for (uint32_t id = 1; id < ENTRIES; id++)
        add(&rig, ENTRY_ITEM, id, 200);
    assert_true(entry_flags(hot) & SLOT_MAIN); /* the oldest there */
    assert_int_equal(id_of(victim(&rig)), 1);
    assert_int_equal(entry_counter(hot), 2);
    for (int i = 2; i < ENTRIES; i++)
        assert_ptr_not_equal(victim(&rig), hot);
    assert_ptr_equal(victim(&rig), hot);
    assert_int_equal(entry_counter(hot), 0);
    rig_close(&rig);
}

static void small_queue_overflows_into_the_main_one_until_something_has_to_go(void **state)
{
    struct rig rig;
    rig_open(&rig, state);
    for (uint32_t id = 0; id < 1000; id++)
        add(&rig, ENTRY_ITEM, id, 200);
    const struct size_class *class = class_of(&rig, 200);
    size_t both = class->small.bytes + class->main.bytes;
    assert_true(class->small.bytes <= both * 8 / 100);
    assert_true(class->small.bytes >= both * 8 / 100 - 512);
    assert_non_null(victim(&rig));
    size_t main = class->main.bytes;
    for (uint32_t id = 1000; id < 1100; id++)
        add(&rig, ENTRY_ITEM, id, 200);
    assert_true(class->main.bytes <= main);
    rig_close(&rig);
}

/* Evicts until something of the queue goes, and fills up with what was never seen; its id. */
static uint32_t evict_from(struct rig *rig, bool is_main, uint32_t *next_id)
{
    for (unsigned evicted = 1; evicted < 500; evicted++) {
        struct entry *entry = victim(rig);
        uint32_t id = id_of(entry);
        bool is_it = ((entry_flags(entry) & SLOT_MAIN) != 0) == is_main;
        evicted_free(rig, entry);
        if (!is_it)
            continue;
        while (evicted-- > 0)
            add(rig, ENTRY_ITEM, (*next_id)++, 200);
        return id;
    }
    fail_msg("nothing goes from that queue");
    return 0;
}

static void share_of_the_small_queue_follows_what_is_asked_for_again(void **state)
{
    struct rig rig;
    rig_open(&rig, state);
    uint32_t next_id = 0;
    while (next_id < 500)
        add(&rig, ENTRY_ITEM, next_id++, 200);
    const struct size_class *class = class_of(&rig, 200);
    assert_true(class->small_share == 0.08);
    for (int i = 0; i < 2000; i++) {
        uint32_t id = evict_from(&rig, false, &next_id);
        add(&rig, ENTRY_ITEM, id, 200);
        evicted_free(&rig, victim(&rig));
    }
    assert_true(class->small_share == 0.90); /* and no more */
    for (int i = 0; i < 2000; i++) {
        uint32_t id = evict_from(&rig, true, &next_id);
        add(&rig, ENTRY_ITEM, id, 200);
        evicted_free(&rig, victim(&rig));
    }
    assert_true(class->small_share == 0.02);
    rig_close(&rig);
}

static void what_left_the_main_queue_comes_back_to_it(void **state)
{
    struct rig rig;
    rig_open(&rig, state);
    uint32_t next_id = 0;
    while (next_id < 500)
        add(&rig, ENTRY_ITEM, next_id++, 200);
    uint32_t id = evict_from(&rig, true, &next_id);
    assert_true(entry_flags(add(&rig, ENTRY_ITEM, id, 200)) & SLOT_MAIN);
    rig_close(&rig);
}

static void a_write_says_nothing_about_the_share(void **state)
{
    struct rig rig;
    rig_open(&rig, state);
    for (uint32_t id = 0; id < 500; id++)
        add(&rig, ENTRY_ITEM, id, 200);
    for (uint32_t id = 0; id < 400; id++) {
        struct entry *entry = add(&rig, ENTRY_ITEM, 1000, 200);
        policy_touch(entry);
        policy_touch(entry);
        rig.policy->ops->remove(rig.policy, entry, POLICY_WRITTEN);
    }
    assert_true(class_of(&rig, 200)->small_share == 0.08);
    rig_close(&rig);
}

/* --- Request by request --- */

enum { REPLAY_IDS = 1 << 16 };

struct replay {
    struct rig rig;
    struct entry *entries[REPLAY_IDS];
    size_t capacity, count;
};

/* True if it was a hit. */
static bool ask(struct replay *replay, uint32_t id)
{
    struct rig *rig = &replay->rig;
    if (replay->entries[id] != NULL) {
        policy_touch(replay->entries[id]);
        return true;
    }
    if (replay->count == replay->capacity) {
        struct entry *out = victim(rig);
        assert_non_null(out);
        replay->entries[id_of(out)] = NULL;
        evicted_free(rig, out);
        replay->count--;
    }
    replay->entries[id] = add(rig, ENTRY_ITEM, id, 200);
    replay->count++;
    return false;
}

static struct replay *replay_open(void **state, size_t capacity)
{
    struct replay *replay = calloc(1, sizeof *replay);
    assert_non_null(replay);
    rig_open(&replay->rig, state);
    replay->capacity = capacity;
    return replay;
}

static void replay_close(struct replay *replay)
{
    rig_close(&replay->rig);
    free(replay);
}

static void a_part_of_a_loop_larger_than_the_cache_stays(void **state)
{
    static const unsigned lengths[] = {2000, 5000, 20000};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        enum { CAPACITY = 1000, ROUNDS = 20 };
        struct replay *replay = replay_open(state, CAPACITY);
        unsigned hits = 0, length = lengths[i];
        for (unsigned round = 0; round < ROUNDS; round++)
            for (uint32_t id = 0; id < length; id++)
                hits += ask(replay, id);
        /* Of a cache that keeps what it has: CAPACITY hits a round but the first. */
        assert_true(hits > (ROUNDS - 1) * CAPACITY * 8 / 10);
        replay_close(replay);
    }
}

/* Harmonic: rank r as often as 1 / r. */
static uint32_t draw(uint64_t *random, const double *sums, uint32_t count)
{
    *random = *random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    double at = (double)(*random >> 11) * 0x1p-53 * sums[count - 1];
    uint32_t low = 0, high = count - 1;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (sums[middle] < at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

enum { HOT = 20000, HOT_REQUESTS = 10 * HOT };

/* Misses of hot requests, with a scan in their midst or without: at once (1), or a cold request
 * after each hot one (2). */
static unsigned hot_misses(void **state, int scan)
{
    static double sums[HOT];
    for (uint32_t rank = 0; rank < HOT; rank++)
        sums[rank] = (rank == 0 ? 0 : sums[rank - 1]) + 1.0 / (rank + 1);
    struct replay *replay = replay_open(state, HOT / 10);
    uint64_t random = 1;
    unsigned misses = 0, scanned = 0;
    for (unsigned i = 0; i < HOT_REQUESTS; i++) {
        if (scan != 0 && i >= HOT_REQUESTS / 2)
            for (unsigned cold = scan == 1 ? HOT : 1; cold > 0 && scanned < HOT; cold--)
                assert_false(ask(replay, HOT + scanned++));
        misses += !ask(replay, draw(&random, sums, HOT));
    }
    replay_close(replay);
    return misses;
}

static void a_scan_costs_few_hot_requests(void **state)
{
    unsigned without = hot_misses(state, 0);
    for (int scan = 1; scan <= 2; scan++) {
        unsigned with = hot_misses(state, scan);
        assert_true(with <= without + HOT * 3 / 1000); /* an LRU cache: 2.4 %, 13 % */
    }
}

/* --- Ghosts --- */

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
        ghost_resize(&ghost, 3, GHOST_SMALL, wanted);
        for (uint32_t id = 0; id < evicted; id++)
            ghost_add(&ghost, 3, GHOST_SMALL, hash_of(id));
        for (uint32_t id = 0; id < evicted - 2 * wanted; id++)
            old += ghost_take(&ghost, 3, hash_of(id)) != GHOST_NONE;
        for (uint32_t id = evicted - wanted; id < evicted; id++)
            recent += ghost_take(&ghost, 3, hash_of(id)) == GHOST_SMALL;
        assert_true(old <= wanted / 500);
        assert_true(recent > wanted * 9 / 10);
        assert_true((size_t)ghost.buckets * 8 * 4 <= 7u * wanted + 256);
        ghost_close(&ghost);
        memory_close(&memory);
    }
}

static void ghosts_of_one_class_do_not_push_out_those_of_another(void **state)
{
    (void)state;
    enum { SLOW = 500, FAST = 2000 };
    struct memory memory;
    struct ghost ghost;
    assert_true(memory_open(&memory, 1 << 20, 0));
    assert_true(ghost_open(&ghost, &memory));
    ghost_resize(&ghost, 1, GHOST_SMALL, SLOW);
    ghost_resize(&ghost, 1, GHOST_MAIN, SLOW);
    ghost_resize(&ghost, 2, GHOST_SMALL, FAST);
    for (uint32_t id = 0; id < SLOW; id++) {
        ghost_add(&ghost, 1, GHOST_SMALL, hash_of(id));
        ghost_add(&ghost, 1, GHOST_MAIN, hash_of(10000 + id));
    }
    assert_int_equal(ghost_held(&ghost, 1, GHOST_SMALL), SLOW);
    for (uint32_t id = 0; id < 20 * FAST; id++)
        ghost_add(&ghost, 2, GHOST_SMALL, hash_of(100000 + id));
    unsigned small = 0, main = 0;
    for (uint32_t id = 0; id < SLOW; id++) {
        assert_int_equal(ghost_take(&ghost, 2, hash_of(id)), GHOST_NONE);
        small += ghost_take(&ghost, 1, hash_of(id)) == GHOST_SMALL;
        main += ghost_take(&ghost, 1, hash_of(10000 + id)) == GHOST_MAIN;
    }
    assert_true(small > SLOW * 9 / 10 && main > SLOW * 9 / 10);
    assert_int_equal(ghost_take(&ghost, 1, hash_of(SLOW / 2)), GHOST_NONE); /* once only */
    ghost_close(&ghost);
    memory_close(&memory);
}

#define OF(policy, test)                                                                           \
    {                                                                                              \
#test " (" #policy ")", test, NULL, NULL, (void *)(uintptr_t)&policy_##policy              \
    }
#define OF_BOTH(test) OF(cas3, test), OF(s3fifo, test)

int main(void)
{
    const struct CMUnitTest tests[] = {
        OF(s3fifo, unused_entries_go_in_order_of_arrival),
        OF_BOTH(counter_stops_at_three),
        OF(s3fifo, two_hits_lead_to_the_main_queue),
        OF(s3fifo, second_fill_of_an_evicted_id_goes_to_the_main_queue),
        OF(s3fifo, an_overwritten_hot_entry_keeps_its_standing),
        OF_BOTH(what_is_too_large_for_a_first_time_goes_to_the_main_queue_later),
        OF_BOTH(large_entries_go_before_small_ones_of_the_same_use),
        OF_BOTH(victim_is_of_the_kind_and_class_asked_for),
        OF_BOTH(a_full_main_queue_of_hot_entries_still_yields_a_victim),
        OF(cas3, use_is_spent_round_by_round),
        OF(cas3, small_queue_overflows_into_the_main_one_until_something_has_to_go),
        OF(cas3, share_of_the_small_queue_follows_what_is_asked_for_again),
        OF(cas3, what_left_the_main_queue_comes_back_to_it),
        OF(cas3, a_write_says_nothing_about_the_share),
        OF(cas3, a_part_of_a_loop_larger_than_the_cache_stays),
        OF_BOTH(a_scan_costs_few_hot_requests),
        cmocka_unit_test(ghosts_reach_back_as_far_as_is_wanted),
        cmocka_unit_test(ghosts_of_one_class_do_not_push_out_those_of_another),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
