#include "protocol/ensure.h"
#include "tests/unit/cache/rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <cmocka.h>

/* Linked with --wrap: what is called from mudax's code passes here. */
static unsigned long heap_calls, lock_calls, fail_at;

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
int __real_pthread_mutex_trylock(pthread_mutex_t *mutex);
int __real_pthread_mutex_lock(pthread_mutex_t *mutex);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
int __wrap_pthread_mutex_trylock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);

static bool is_failing(void)
{
    return ++heap_calls == fail_at;
}

void *__wrap_malloc(size_t size)
{
    return is_failing() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t calls, size_t size)
{
    return is_failing() ? NULL : __real_calloc(calls, size);
}

void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
    return is_failing() ? NULL : __real_aligned_alloc(alignment, size);
}

int __wrap_pthread_mutex_trylock(pthread_mutex_t *mutex)
{
    lock_calls++;
    return __real_pthread_mutex_trylock(mutex);
}

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
    lock_calls++;
    return __real_pthread_mutex_lock(mutex);
}

static uint8_t text[500000];

static struct bytes body_of(size_t size)
{
    ensure(size <= sizeof text);
    return bytes_of(text, size);
}

static void hit_takes_no_lock_and_calls_no_heap(void **state)
{
    (void)state;
    struct rig rig;
    _Alignas(16) static uint8_t first[4096];
    rig_open(&rig, 1 << 20);
    assert_int_equal(rig_get(&rig, 1, body_of(100)), VERDICT_MISS);
    assert_int_equal(rig_get(&rig, 2, BYTES_NONE), VERDICT_MISS);
    assert_int_equal(rig_query(&rig, 3, body_of(300)), VERDICT_MISS);
    assert_true(lock_calls > 0 && heap_calls > 0); /* the wrapping works */
    arena_deinit(&rig.arena);
    arena_init(&rig.arena, first, sizeof first, 0);
    heap_calls = lock_calls = 0;
    for (int i = 0; i < 1000; i++) { /* many are sampled */
        assert_int_equal(rig_get(&rig, 1, BYTES_NONE), VERDICT_HIT);
        assert_int_equal(rig_get(&rig, 2, BYTES_NONE), VERDICT_HIT);
        assert_int_equal(rig_query(&rig, 3, BYTES_NONE), VERDICT_HIT);
    }
    assert_int_equal(heap_calls, 0);
    assert_int_equal(lock_calls, 0);
    rig_close(&rig);
}

/* {"a": 1, "b": [1, 2], "id": "x"} */
#define WHOLE BYTES_LITERAL("\x83\xa1\x61\x01\xa1\x62\x92\x01\x02\xa2id\xa1x")

static void projected_and_filtered_hits_call_no_heap_either(void **state)
{
    (void)state;
    struct rig rig;
    _Alignas(16) static uint8_t first[4096];
    rig_open(&rig, 1 << 20);
    rig.projection = BYTES_LITERAL("a, b[1], c.d");
    assert_int_equal(rig_get(&rig, 1, WHOLE), VERDICT_MISS);
    assert_true(
        bytes_equal(rig.call.reply.body, BYTES_LITERAL("\x82\xa1\x61\x01\xa1\x62\x91\x02")));
    assert_int_equal(rig_get(&rig, 2, BYTES_NONE), VERDICT_MISS);
    rig.filter = BYTES_LITERAL("attribute_exists(a) AND NOT size(b) < size(c)");
    assert_int_equal(rig_query(&rig, 3, body_of(300)), VERDICT_MISS);
    arena_deinit(&rig.arena);
    arena_init(&rig.arena, first, sizeof first, 0);
    heap_calls = lock_calls = 0;
    for (int i = 0; i < 1000; i++) { /* many are sampled */
        rig.filter = BYTES_NONE;
        rig.projection = BYTES_LITERAL("b[1], c.d, a");
        assert_int_equal(rig_get(&rig, 1, BYTES_NONE), VERDICT_HIT);
        assert_true(
            bytes_equal(rig.call.reply.body, BYTES_LITERAL("\x82\xa1\x61\x01\xa1\x62\x91\x02")));
        assert_int_equal(rig_get(&rig, 2, BYTES_NONE), VERDICT_HIT);
        assert_true(bytes_equal(rig.call.reply.body, BODY_NO_ITEM));
        rig.filter = BYTES_LITERAL("attribute_exists(a) AND NOT size(b) < size(c)");
        assert_int_equal(rig_query(&rig, 3, BYTES_NONE), VERDICT_HIT);
        rig.projection = rig.filter = BYTES_NONE;
        assert_int_equal(rig_get(&rig, 1, BYTES_NONE), VERDICT_HIT);
        assert_true(bytes_equal(rig.call.reply.body, WHOLE));
    }
    assert_int_equal(heap_calls, 0);
    assert_int_equal(lock_calls, 0);
    rig_close(&rig);
}

struct asker {
    struct call call;
    struct arena arena;
    uint8_t answer[64];
    size_t answer_size;
};

static void answered(struct call *call)
{
    struct asker *asker = call->owner;
    ensure(call->reply.status == STATUS_OK && call->reply.body.size <= sizeof asker->answer);
    memcpy(asker->answer, call->reply.body.data, call->reply.body.size);
    asker->answer_size = call->reply.body.size;
}

static void who_waits_for_one_fetch_gets_the_parts_it_asked_for(void **state)
{
    (void)state;
    static const struct {
        struct bytes projection, answer;
    } cases[] = {
        {{(const uint8_t *)"a", 1}, {(const uint8_t *)"\x81\xa1\x61\x01", 4}},
        {{(const uint8_t *)"id", 2}, {(const uint8_t *)"\x81\xa2id\xa1x", 6}},
        {{NULL, 0}, {NULL, 0}}, /* whole */
        {{(const uint8_t *)"c", 1}, {(const uint8_t *)"\x80", 1}},
    };
    enum { CASES = sizeof cases / sizeof cases[0] };
    struct rig rig;
    struct asker askers[CASES];
    rig_open(&rig, 1 << 20);
    rig.fake->is_prompt = false;
    for (size_t i = 0; i < CASES; i++) {
        struct asker *asker = &askers[i];
        *asker = (struct asker){.call = {.request.operation = OPERATION_GET_ITEM,
                                         .request.table_name = BYTES_LITERAL("users"),
                                         .request.key = BYTES_LITERAL("\x81\xa2id\xa1x"),
                                         .request.projection = cases[i].projection,
                                         .now_us = rig.now_us,
                                         .complete = answered}};
        arena_init(&asker->arena, NULL, 0, 1 << 20);
        asker->call.arena = &asker->arena;
        asker->call.owner = asker;
        rig.lane->ops->lane_begin(rig.lane);
        assert_int_equal(rig.lane->ops->submit(rig.lane, &asker->call), SUBMIT_PENDING);
        rig.lane->ops->lane_end(rig.lane);
    }
    struct fake_call *held = fake_backend_find(rig.fake, OPERATION_GET_ITEM, "users", BYTES_NONE);
    assert_int_equal(rig.fake->calls_seen, 1);
    fake_call_answer(&held, STATUS_OK, WHOLE, false, rig.now_us);
    lane_loop_settle(&rig.loop);
    for (size_t i = 0; i < CASES; i++) {
        struct bytes wanted = bytes_given(cases[i].answer) ? cases[i].answer : WHOLE;
        assert_true(bytes_equal(bytes_of(askers[i].answer, askers[i].answer_size), wanted));
        arena_deinit(&askers[i].arena);
    }
    rig_close(&rig);
}

static void hot_entry_is_only_read(void **state)
{
    (void)state;
    struct rig rig;
    rig_open(&rig, 1 << 20);
    (void)rig_get(&rig, 1, body_of(100));
    for (int i = 0; i < 3; i++)
        assert_int_equal(rig_get(&rig, 1, BYTES_NONE), VERDICT_HIT);
    /* A write to the page of the entry would now be seen. */
    uint8_t *page = (uint8_t *)((uintptr_t)rig_entry(&rig, 1) & ~(uintptr_t)4095);
    assert_int_equal(mprotect(page, 4096, PROT_READ), 0);
    for (int i = 0; i < 10; i++)
        assert_int_equal(rig_get(&rig, 1, BYTES_NONE), VERDICT_HIT);
    assert_int_equal(mprotect(page, 4096, PROT_READ | PROT_WRITE), 0);
    rig_close(&rig);
}

static void hit_gives_what_was_fetched(void **state)
{
    (void)state;
    static const size_t sizes[] = {1, 100, 4000, 16000, 16384, 17000, 100000, 409600};
    struct rig rig;
    rig_open(&rig, 64 << 20);
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (uint8_t)(i * 31 + (i >> 8));
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        assert_int_equal(rig_get(&rig, i, body_of(sizes[i])), VERDICT_MISS);
        rig.now_us += 5000;
        assert_int_equal(rig_get(&rig, i, BYTES_NONE), VERDICT_HIT);
        assert_true(bytes_equal(rig.call.reply.body, body_of(sizes[i])));
        assert_int_equal(rig.call.reply.age_ms, 5);
        assert_int_equal(rig.call.reply.count, 1);
    }
    assert_int_equal(rig_get(&rig, 99, BYTES_NONE), VERDICT_MISS);
    assert_int_equal(rig_get(&rig, 99, BYTES_NONE), VERDICT_HIT);
    assert_true(bytes_equal(rig.call.reply.body, BODY_NO_ITEM));
    assert_int_equal(rig.call.reply.count, 0);
    rig_close(&rig);
}

static void budget_is_never_exceeded(void **state)
{
    (void)state;
    struct rig rig;
    rig_open(&rig, 2 << 20);
    const struct memory *memory = &rig.cache->memory;
    srand(3);
    for (int i = 0; i < 20000; i++) {
        size_t size = 1 + (size_t)rand() % (rand() % 100 == 0 ? 200000 : 2000);
        uint64_t number = (uint64_t)rand() % 5000;
        (void)(i % 3 == 0 ? rig_query(&rig, number, body_of(size))
                          : rig_get(&rig, number, body_of(size)));
        assert_true(memory_figure(&memory->used) <= memory->budget);
        if (i % 500 == 0)
            (void)cache_housekeep(rig.backend, rig.now_us);
    }
    assert_true(rig_figure(&rig, "cache_evictions_total", NULL) > 100);
    rig_keep_house(&rig);
    /* What the system gave for the mapping, too. */
    static unsigned char resident[(2 << 20) / 4096];
    assert_int_equal(mincore(memory->base, memory->mapping_size, resident), 0);
    size_t bytes = memory_figure(&memory->heap);
    for (size_t i = 0; i < memory->mapping_size / 4096; i++)
        bytes += (resident[i] & 1) * 4096u;
    assert_true(bytes <= memory->budget + memory->budget / 50);
    rig_close(&rig);
}

static void full_cache_takes_new_items(void **state)
{
    (void)state;
    struct rig rig;
    rig_open(&rig, 2 << 20);
    unsigned kept = 0;
    for (uint64_t i = 0; i < 20000; i++) {
        (void)rig_get(&rig, i, body_of(200));
        kept += rig_get(&rig, i, body_of(200)) == VERDICT_HIT;
    }
    assert_true(kept > 19900);
    assert_true(rig_figure(&rig, "cache_entries", NULL) > 4500);
    rig_close(&rig);
}

static void full_cache_knows_what_it_evicted_lately(void **state)
{
    (void)state;
    enum { ITEMS = 30000 };
    struct rig rig;
    rig_open(&rig, 2 << 20);
    for (uint64_t i = 0; i < ITEMS; i++)
        (void)rig_get(&rig, i, body_of(200));
    uint64_t entries = (uint64_t)rig_figure(&rig, "cache_entries", NULL);
    unsigned proven = 0;
    /* The small queue holds a tenth; what went out before is remembered for nine more. */
    uint64_t last = ITEMS - entries / 5;
    for (uint64_t i = last - 500; i < last; i++) {
        assert_int_equal(rig_get(&rig, i, body_of(200)), VERDICT_MISS);
        proven += (entry_flags(rig_entry(&rig, i)) & SLOT_MAIN) != 0;
    }
    assert_true(proven > 450);
    rig_close(&rig);
}

/* That keys do not exist is found out again and again, at nobody's cost but the guesser's. */
static void hot_items_survive_a_flood_of_guessed_keys(void **state)
{
    (void)state;
    enum { WARM = 5600, GUESSES = 200000, BETWEEN = 10 };
    struct rig rig;
    rig_open(&rig, 2 << 20);
    for (int round = 0; round < 3; round++)
        for (uint64_t i = 0; i < WARM; i++)
            (void)rig_get(&rig, i, body_of(200));
    unsigned hits = 0;
    for (uint64_t i = 0; i < GUESSES; i++) {
        assert_int_equal(rig_get(&rig, 1000000 + i, BYTES_NONE), VERDICT_MISS);
        if (i % BETWEEN == 0)
            hits += rig_get(&rig, i / BETWEEN % WARM, body_of(200)) == VERDICT_HIT;
        if (i % 1000 == 0)
            rig_keep_house(&rig);
    }
    assert_int_equal(hits, GUESSES / BETWEEN);
    assert_true(memory_figure(&rig.cache->totals.negative_bytes) <= (2 << 20) / 10);
    rig_close(&rig);
}

static void memory_follows_the_sizes_that_are_asked_for(void **state)
{
    (void)state;
    struct rig rig;
    rig_open(&rig, 2 << 20);
    for (uint64_t i = 0; i < 20000; i++)
        (void)rig_get(&rig, i, body_of(60));
    /* Now everything is full of small ones. */
    for (uint64_t i = 100000; i < 102000; i++) {
        (void)rig_get(&rig, i, body_of(1500));
        if (i % 16 == 0)
            rig_keep_house(&rig);
    }
    unsigned kept = 0;
    for (uint64_t i = 101700; i < 102000; i++)
        kept += rig_get(&rig, i, body_of(1500)) == VERDICT_HIT;
    assert_true(kept > 280);
    rig_close(&rig);
}

static void one_giant_after_many_small_ones_is_kept(void **state)
{
    (void)state;
    static uint8_t giant[300000];
    struct rig rig;
    rig_open(&rig, 2 << 20);
    for (uint64_t i = 0; i < 20000; i++)
        (void)rig_get(&rig, i, body_of(60));
    assert_int_equal(rig_get(&rig, 100000, bytes_of(giant, sizeof giant)), VERDICT_MISS);
    assert_int_equal(rig_get(&rig, 100000, BYTES_NONE), VERDICT_HIT);
    assert_int_equal(rig_figure(&rig, "cache_fills_dropped_total", NULL), 0);
    rig_close(&rig);
}

static void many_small_ones_after_giants_are_kept(void **state)
{
    (void)state;
    static uint8_t giant[300000];
    struct rig rig;
    rig_open(&rig, 2 << 20);
    for (uint64_t i = 0; i < 20; i++)
        (void)rig_get(&rig, i, bytes_of(giant, sizeof giant));
    for (uint64_t i = 100000; i < 106000; i++)
        (void)rig_get(&rig, i, body_of(60));
    unsigned kept = 0;
    for (uint64_t i = 100000; i < 106000; i++)
        kept += rig_get(&rig, i, body_of(60)) == VERDICT_HIT;
    assert_int_equal(kept, 6000);
    rig_close(&rig);
}

/* Bytes that tell whose they are and where they stand. */
static void write_body(uint8_t *body, size_t size, uint64_t number)
{
    for (size_t i = 0; i < size; i++)
        body[i] = (uint8_t)(number * 31 + i * 7 + i / 251);
}

static void large_values_stay_whole_while_their_parts_move(void **state)
{
    (void)state;
    enum { LARGE = 12, ROUNDS = 400, BODY_MAX = 50000 };
    static uint8_t body[BODY_MAX];
    struct rig rig;
    rig_open(&rig, 2 << 20);
    unsigned hits = 0;
    for (uint64_t round = 0; round < ROUNDS; round++) {
        for (uint64_t i = 0; i < LARGE; i++) { /* of all lengths round multiples of a chunk */
            size_t size = 1000 + i * 4000 + i * 13;
            write_body(body, size, i);
            hits += rig_get(&rig, i, bytes_of(body, size)) == VERDICT_HIT;
            assert_true(bytes_equal(rig.call.reply.body, bytes_of(body, size)));
        }
        for (uint64_t i = 0; i < 40; i++) {
            size_t size = 100 + (round * 40 + i) * 7919 % 7000;
            (void)rig_get(&rig, 1000 + round * 40 + i, bytes_of(body, size));
        }
        if (round % 8 == 0)
            rig_keep_house(&rig);
    }
    assert_true(hits > LARGE * ROUNDS / 2);
    assert_true(rig_figure(&rig, "cache_evacuations_total", NULL) > 1000);
    rig_close(&rig);
}

static void runs_that_are_given_up_keep_what_is_in_use(void **state)
{
    (void)state;
    enum { HOT = 600 };
    struct rig rig;
    rig_open(&rig, 2 << 20);
    for (uint64_t i = 0; i < 20000; i++) {
        (void)rig_get(&rig, i, body_of(60));
        if (i >= 14000 && i % 10 == 0) /* a few in every run, and pages among them */
            for (int hit = 0; hit < 3; hit++)
                assert_int_equal(rig_get(&rig, i, BYTES_NONE), VERDICT_HIT);
        if (i >= 14000 && i % 100 == 0)
            for (int hit = 0; hit < 4; hit++)
                (void)rig_query(&rig, i, body_of(20));
    }
    for (uint64_t i = 100000; i < 106000; i++) {
        (void)rig_get(&rig, i, body_of(1500));
        if (i % 16 == 0)
            rig_keep_house(&rig);
    }
    unsigned kept = 0, pages = 0;
    for (uint64_t i = 14000; i < 20000; i += 10)
        kept += rig_get(&rig, i, body_of(60)) == VERDICT_HIT;
    for (uint64_t i = 14000; i < 20000; i += 100)
        pages += rig_query(&rig, i, body_of(20)) == VERDICT_HIT;
    assert_true(rig_figure(&rig, "cache_evacuations_total", NULL) > 10);
    assert_true(kept > HOT * 9 / 10);
    assert_true(pages > HOT / 10 * 8 / 10); /* how many exactly hangs on sizes of structs */
    rig_close(&rig);
}

static void too_large_a_page_needs_a_second_sight(void **state)
{
    (void)state;
    struct rig rig;
    rig_open(&rig, 1 << 20);
    assert_int_equal(rig_query(&rig, 1, body_of(50000)), VERDICT_MISS);
    assert_int_equal(rig_query(&rig, 1, body_of(50000)), VERDICT_MISS);
    assert_int_equal(rig_query(&rig, 1, body_of(50000)), VERDICT_HIT);
    assert_int_equal(rig_figure(&rig, "cache_fills_dropped_total", "why=\"size\""), 1);
    rig_close(&rig);
}

static void items_do_not_push_pages_below_their_floor(void **state)
{
    (void)state;
    struct rig rig;
    rig_open(&rig, 2 << 20);
    for (uint64_t i = 0; i < 2000; i++)
        (void)rig_query(&rig, i, body_of(500));
    for (uint64_t i = 0; i < 30000; i++)
        (void)rig_get(&rig, i, body_of(100));
    double floor = (2 << 20) / 10.0;
    double pages = rig_figure(&rig, "cache_entry_bytes", "kind=\"query\"");
    assert_true(pages >= floor * 0.95 && pages < floor * 2);
    for (uint64_t i = 0; i < 10000; i++)
        (void)rig_query(&rig, 10000 + i, body_of(500));
    double items = rig_figure(&rig, "cache_entry_bytes", "kind=\"item\"");
    assert_true(items >= floor * 0.95);
    rig_close(&rig);
}

static void absent_items_take_a_tenth_at_most(void **state)
{
    (void)state;
    struct rig rig;
    rig_open(&rig, 1 << 20);
    for (uint64_t i = 0; i < 20000; i++)
        (void)rig_get(&rig, i, BYTES_NONE);
    assert_true(rig_figure(&rig, "cache_negative_bytes", NULL) <= (1 << 20) / 10.0);
    assert_true(rig_figure(&rig, "cache_negative_bytes", NULL) > (1 << 20) / 12.0);
    rig_close(&rig);
}

static void stuck_reader_costs_hits_and_never_memory(void **state)
{
    (void)state;
    struct rig rig;
    struct lane *stuck;
    rig_open(&rig, 2 << 20);
    const struct memory *memory = &rig.cache->memory;
    assert_int_equal(rig.backend->ops->lane_open(rig.backend, &rig.loop.env, &stuck), STATUS_OK);
    for (uint64_t i = 0; i < 6000; i++)
        (void)rig_get(&rig, i, body_of(200));
    stuck->ops->lane_begin(stuck);
    for (uint64_t i = 10000; i < 20000; i++) {
        (void)rig_get(&rig, i, body_of(200));
        assert_true(memory_figure(&memory->used) <= memory->budget);
        assert_true(memory_figure(&memory->deferred) <= memory->budget / 20);
    }
    assert_true(rig_figure(&rig, "cache_fills_dropped_total", "why=\"deferred\"") > 1000);
    rig.now_us += 3000000;
    (void)cache_housekeep(rig.backend, rig.now_us);
    rig.now_us += 3000000;
    (void)cache_housekeep(rig.backend, rig.now_us);
    assert_true(rig_figure(&rig, "cache_epoch_lag_seconds", NULL) >= 3);
    stuck->ops->lane_end(stuck);
    unsigned kept = 0;
    for (uint64_t i = 30000; i < 31000; i++) {
        (void)rig_get(&rig, i, body_of(200));
        kept += rig_get(&rig, i, body_of(200)) == VERDICT_HIT;
    }
    assert_true(kept > 900);
    (void)cache_housekeep(rig.backend, rig.now_us);
    assert_int_equal((int)rig_figure(&rig, "cache_epoch_lag_seconds", NULL), 0);
    stuck->ops->lane_close(&stuck);
    rig_close(&rig);
}

static void what_a_closed_lane_retired_is_freed_by_housekeeping(void **state)
{
    (void)state;
    struct rig rig;
    struct lane *reading;
    rig_open(&rig, 2 << 20);
    assert_int_equal(rig.backend->ops->lane_open(rig.backend, &rig.loop.env, &reading), STATUS_OK);
    reading->ops->lane_begin(reading);
    for (uint64_t i = 0; i < 9000; i++)
        (void)rig_get(&rig, i, body_of(200));
    assert_true(memory_figure(&rig.cache->memory.deferred) > 0);
    rig.lane->ops->lane_close(&rig.lane);
    (void)cache_housekeep(rig.backend, rig.now_us);
    assert_true(memory_figure(&rig.cache->memory.deferred) > 0);
    reading->ops->lane_end(reading);
    rig_keep_house(&rig);
    assert_int_equal(memory_figure(&rig.cache->memory.deferred), 0);
    reading->ops->lane_close(&reading);
    rig_close(&rig);
}

static void an_idle_lane_frees_what_it_retired(void **state)
{
    (void)state;
    struct rig rig;
    struct lane *reading;
    rig_open(&rig, 2 << 20);
    assert_int_equal(rig.backend->ops->lane_open(rig.backend, &rig.loop.env, &reading), STATUS_OK);
    reading->ops->lane_begin(reading);
    for (uint64_t i = 0; i < 9000; i++)
        (void)rig_get(&rig, i, body_of(200));
    reading->ops->lane_end(reading);
    assert_true(memory_figure(&rig.cache->memory.deferred) > 0);
    lane_loop_advance(&rig.loop, 100000);
    assert_int_equal(memory_figure(&rig.cache->memory.deferred), 0);
    assert_int_equal(lane_loop_timers(&rig.loop), 0);
    reading->ops->lane_close(&reading);
    rig_close(&rig);
}

static void half_of_all_may_expire_at_once(void **state)
{
    (void)state;
    struct rig rig;
    rig_open(&rig, 4 << 20);
    for (uint64_t i = 0; i < 5000; i++)
        (void)rig_get(&rig, i, body_of(100));
    rig.now_us += 200000000;
    for (uint64_t i = 5000; i < 10000; i++)
        (void)rig_get(&rig, i, body_of(100));
    rig.now_us += 100000000;
    int turns = 1;
    while (cache_housekeep(rig.backend, rig.now_us))
        turns++;
    assert_true(turns >= 5000 / 512 && turns < 40); /* each a bounded amount of work */
    assert_int_equal(rig_figure(&rig, "cache_entries", NULL), 5000);
    rig_close(&rig);
}

struct hot_keys {
    unsigned count, wanted;
    bool is_often[64];
};

static bool take_hot_key(void *arg, uint32_t table_id, struct bytes key)
{
    struct hot_keys *keys = arg;
    unsigned number = 0;
    (void)table_id;
    for (size_t i = 0; i < key.size; i++)
        if (key.data[i] >= '0' && key.data[i] <= '9')
            number = number * 10 + (unsigned)(key.data[i] - '0');
    keys->is_often[keys->count++] = number >= 1000;
    return keys->count < keys->wanted;
}

static void keys_of_items_come_by_use(void **state)
{
    (void)state;
    struct rig rig;
    struct hot_keys keys = {.wanted = 64};
    rig_open(&rig, 2 << 20);
    for (uint64_t i = 0; i < 10; i++)
        for (int time = 0; time < 2; time++)
            (void)rig_get(&rig, i, body_of(200));
    for (uint64_t i = 1000; i < 1010; i++)
        for (int time = 0; time < 4; time++)
            (void)rig_get(&rig, i, body_of(200));
    (void)rig_query(&rig, 1, body_of(200)); /* pages are not told of */
    cache_hot_keys(rig.backend, take_hot_key, &keys);
    assert_int_equal(keys.count, 20);
    for (unsigned i = 0; i < 20; i++)
        assert_int_equal(keys.is_often[i], i < 10);
    keys.count = 0;
    keys.wanted = 3;
    cache_hot_keys(rig.backend, take_hot_key, &keys);
    assert_int_equal(keys.count, 3);
    rig_close(&rig);
}

static void age_is_kept_over_the_wrap_of_the_clock(void **state)
{
    (void)state;
    struct rig rig;
    rig_open(&rig, 1 << 20);
    rig.now_us += ((uint64_t)UINT32_MAX - 1000) * 1000;
    (void)rig_get(&rig, 1, body_of(100));
    rig.now_us += 2000 * 1000;
    assert_int_equal(rig_get(&rig, 1, BYTES_NONE), VERDICT_HIT);
    assert_int_equal(rig.call.reply.age_ms, 2000);
    rig.now_us -= 5000 * 1000; /* another thread's clock, a little behind */
    assert_int_equal(rig_get(&rig, 1, BYTES_NONE), VERDICT_HIT);
    assert_int_equal(rig.call.reply.age_ms, 0);
    rig_close(&rig);
}

static void opening_fails_cleanly_without_memory(void **state)
{
    (void)state;
    struct cache_options options = {
        .memory_bytes = 1 << 20,
        .threads = 2,
        .policies.fallback = {
            .is_enabled = true, .item_ttl_ms = 1, .query_ttl_ms = 1, .negative_ttl_max_ms = 1}};
    struct error error;
    unsigned long n = 1;
    for (;; n++) {
        struct fake_backend *fake = fake_backend_open();
        struct backend *below = &fake->backend, *cache = NULL;
        heap_calls = 0;
        fail_at = n;
        enum status status = cache_open(&options, &below, &cache, &error);
        fail_at = 0;
        if (status == STATUS_OK) {
            cache->ops->close(&cache);
            break;
        }
        assert_int_equal(status, STATUS_NO_MEMORY);
        assert_non_null(below); /* still the caller's */
        below->ops->close(&below);
    }
    assert_true(n > 10);
    options.memory_bytes = CACHE_MEMORY_MIN - 1;
    struct backend *below = NULL, *cache = NULL;
    assert_int_equal(cache_open(&options, &below, &cache, &error), STATUS_VALIDATION);
}

static void reads_are_served_whatever_allocation_fails(void **state)
{
    (void)state;
    struct rig rig;
    rig_open(&rig, 1 << 20);
    for (unsigned long n = 1; n < 12; n++) {
        for (uint64_t i = 0; i < 3; i++) {
            rig.lane->ops->lane_begin(rig.lane);
            arena_reset(&rig.arena);
            heap_calls = 0;
            fail_at = 1 + n; /* the first is the arena's: the request's own error */
            (void)rig_get_in_batch(&rig, n * 100 + i, body_of(100));
            fail_at = 0;
            rig.lane->ops->lane_end(rig.lane);
        }
        heap_calls = 0;
        fail_at = 1 + n;
        (void)rig_query(&rig, n, body_of(100));
        fail_at = 0;
        assert_int_equal(rig.call.reply.body.size, 100);
    }
    rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hit_takes_no_lock_and_calls_no_heap),
        cmocka_unit_test(projected_and_filtered_hits_call_no_heap_either),
        cmocka_unit_test(who_waits_for_one_fetch_gets_the_parts_it_asked_for),
        cmocka_unit_test(hot_entry_is_only_read),
        cmocka_unit_test(hit_gives_what_was_fetched),
        cmocka_unit_test(budget_is_never_exceeded),
        cmocka_unit_test(full_cache_takes_new_items),
        cmocka_unit_test(full_cache_knows_what_it_evicted_lately),
        cmocka_unit_test(hot_items_survive_a_flood_of_guessed_keys),
        cmocka_unit_test(memory_follows_the_sizes_that_are_asked_for),
        cmocka_unit_test(one_giant_after_many_small_ones_is_kept),
        cmocka_unit_test(many_small_ones_after_giants_are_kept),
        cmocka_unit_test(large_values_stay_whole_while_their_parts_move),
        cmocka_unit_test(runs_that_are_given_up_keep_what_is_in_use),
        cmocka_unit_test(too_large_a_page_needs_a_second_sight),
        cmocka_unit_test(items_do_not_push_pages_below_their_floor),
        cmocka_unit_test(absent_items_take_a_tenth_at_most),
        cmocka_unit_test(stuck_reader_costs_hits_and_never_memory),
        cmocka_unit_test(what_a_closed_lane_retired_is_freed_by_housekeeping),
        cmocka_unit_test(an_idle_lane_frees_what_it_retired),
        cmocka_unit_test(half_of_all_may_expire_at_once),
        cmocka_unit_test(keys_of_items_come_by_use),
        cmocka_unit_test(age_is_kept_over_the_wrap_of_the_clock),
        cmocka_unit_test(opening_fails_cleanly_without_memory),
        cmocka_unit_test(reads_are_served_whatever_allocation_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
