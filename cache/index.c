#include "cache/index.h"

#include "protocol/ensure.h"

enum {
    WAYS = 10,
    LANE_BITS = 16,
    LANES = 4, /* a word */
    WORDS = 3,
    PASSED_SHIFT = 2 * LANE_BITS, /* in the last word */
    LINE_BYTES = 64,
    LINES_AHEAD = 3,
    PROBES_MAX = 16,   /* buckets */
    FULL_PERCENT = 92, /* of the slots: then the table grows, by an eighth */
    IDLE_PERCENT = 60, /* below, it shrinks, until it is as full as this: */
    GOOD_PERCENT = 80,
    SHARE_SLOTS = 8,  /* greatest slots that a table's entries take: then it fits such a slot */
    COUNT_SHIFT = 32, /* in `tables` */
    TABLE_BITS_MAX = 20,
};

#define LANES_LOW  UINT64_C(0x0001000100010001)
#define LANES_HIGH UINT64_C(0x8000800080008000)

struct bucket {
    _Atomic uint64_t lanes[WORDS]; /* the tags, and how many entries went past this bucket */
    _Atomic uint32_t handles[WAYS];
};
_Static_assert(sizeof(struct bucket) == LINE_BYTES, "a line");

/* Front of a table's slot; the buckets begin at the next line. */
struct head {
    ck_epoch_entry_t retired;
    uint32_t hash; /* of some entry that belongs here */
    uint32_t size; /* of the slot */
    uint32_t count;
    uint8_t unused[2];
    atomic_uchar flags;
};
_Static_assert(offsetof(struct head, flags) == SLOT_FLAGS_AT, "flags of every slot");

/* A table as one load of its number found it. */
struct view {
    struct head *head; /* NULL: none yet */
    struct bucket *buckets;
    uint32_t count; /* of buckets */
};

struct place {
    struct bucket *bucket;
    unsigned way;
};

static inline uint32_t table_of(const struct index *index, uint32_t hash)
{
    return (uint32_t)((uint64_t)hash << index->table_bits >> 32);
}

/* In the largest of caches the hash has not bits enough, and the tag's last ones are 0. */
static inline uint32_t tag_of(const struct index *index, uint32_t hash)
{
    return hash << index->table_bits >> LANE_BITS;
}

static inline uint32_t home_of(uint32_t tag, uint32_t buckets)
{
    return tag * buckets >> LANE_BITS;
}

static struct bucket *buckets_of(const struct head *head)
{
    uintptr_t end = (uintptr_t)head + sizeof *head;
    return (struct bucket *)((uint8_t *)head + sizeof *head + (-end & (LINE_BYTES - 1)));
}

static inline struct view view_of(const struct index *index, uint32_t table)
{
    uint64_t packed = atomic_load_explicit(&index->tables[table], memory_order_acquire);
    struct head *head = memory_at(index->memory, (uint32_t)packed);
    return (struct view){
        .head = head,
        .buckets = head == NULL ? NULL : buckets_of(head),
        .count = (uint32_t)(packed >> COUNT_SHIFT),
    };
}

static inline uint64_t lanes(const struct bucket *bucket, unsigned word)
{
    return atomic_load_explicit((_Atomic uint64_t *)&bucket->lanes[word], memory_order_relaxed);
}

/* The top bit of each lane that holds what the same lane of `pattern` does; now and then also of
 * one above such a lane, which looking at the entry will tell. */
static inline uint64_t lanes_equal(uint64_t word, uint64_t pattern)
{
    uint64_t differs = word ^ pattern;
    return (differs - LANES_LOW) & ~differs & LANES_HIGH;
}

static inline uint32_t handle_at(const struct bucket *bucket, unsigned way)
{
    return atomic_load_explicit((_Atomic uint32_t *)&bucket->handles[way], memory_order_acquire);
}

static inline uint32_t passed(uint64_t last_word)
{
    return (uint32_t)(last_word >> PASSED_SHIFT) & UINT16_MAX;
}

static struct bucket *next_bucket(const struct view *view, struct bucket *bucket)
{
    return bucket + 1 < view->buckets + view->count ? bucket + 1 : view->buckets;
}

static inline bool is_same(const struct entry *entry, const struct entry *probe)
{
    return entry->hash == probe->hash && entry->key_size == probe->key_size &&
           memcmp(entry->key, probe->key, probe->key_size) == 0;
}

static inline struct entry *find_in(const struct index *index, struct bucket *bucket,
                                    uint64_t pattern, const struct entry *probe,
                                    struct place *place)
{
    for (unsigned word = 0; word < WORDS; word++) {
        uint64_t equal = lanes_equal(lanes(bucket, word), pattern);
        for (; equal != 0; equal &= equal - 1) {
            unsigned way = word * LANES + (unsigned)__builtin_ctzll(equal) / LANE_BITS;
            if (way >= WAYS)
                break;
            struct entry *entry = memory_at(index->memory, handle_at(bucket, way));
            if (entry == NULL)
                continue;
            /* It is nearly always the one: have its value's lines come with its key's. */
            for (size_t line = 1; line <= LINES_AHEAD; line++)
                __builtin_prefetch((const uint8_t *)entry + line * LINE_BYTES);
            if (!is_same(entry, probe))
                continue;
            *place = (struct place){bucket, way};
            return entry;
        }
    }
    return NULL;
}

static inline struct entry *find(const struct index *index, const struct view *view,
                                 const struct entry *probe, struct place *place)
{
    if (UNLIKELY(view->head == NULL))
        return NULL;
    uint32_t tag = tag_of(index, probe->hash);
    struct bucket *bucket = view->buckets + home_of(tag, view->count);
    for (uint32_t i = 0; i < PROBES_MAX && i < view->count; i++) {
        struct entry *entry = find_in(index, bucket, tag * LANES_LOW, probe, place);
        if (entry != NULL || passed(lanes(bucket, WORDS - 1)) == 0)
            return entry;
        bucket = next_bucket(view, bucket);
    }
    return NULL;
}

struct entry *index_get(const struct index *index, const struct entry *probe)
{
    struct view view = view_of(index, table_of(index, probe->hash));
    struct place place;
    return find(index, &view, probe, &place);
}

/* --- Writing --- */

static void lane_set(struct bucket *bucket, unsigned lane, uint32_t value)
{
    unsigned shift = lane % LANES * LANE_BITS;
    uint64_t word = lanes(bucket, lane / LANES);
    word = (word & ~((uint64_t)UINT16_MAX << shift)) | (uint64_t)value << shift;
    atomic_store_explicit(&bucket->lanes[lane / LANES], word, memory_order_relaxed);
}

static void pass(struct bucket *bucket, int more)
{
    uint32_t count = passed(lanes(bucket, WORDS - 1)) + (uint32_t)more;
    lane_set(bucket, WAYS, count);
}

static void handle_set(struct bucket *bucket, unsigned way, uint32_t handle)
{
    atomic_store_explicit(&bucket->handles[way], handle, memory_order_release);
}

/* From a tag's own bucket up to, but without, `end`. */
static void pass_all(const struct view *view, uint32_t tag, const struct bucket *end, int more)
{
    struct bucket *bucket = view->buckets + home_of(tag, view->count);
    for (; bucket != end; bucket = next_bucket(view, bucket))
        pass(bucket, more);
}

/* Where a bucket has the handle (0: a free slot), or WAYS. */
static unsigned way_of(const struct bucket *bucket, uint32_t handle)
{
    unsigned way = 0;
    while (way < WAYS && handle_at(bucket, way) != handle)
        way++;
    return way;
}

/* Puts a handle into the first free slot from its tag's bucket on. */
static bool place_handle(const struct view *view, uint32_t tag, uint32_t handle)
{
    struct bucket *bucket = view->buckets + home_of(tag, view->count);
    for (uint32_t i = 0; i < PROBES_MAX && i < view->count; i++) {
        unsigned way = way_of(bucket, 0);
        if (way < WAYS) {
            pass_all(view, tag, bucket, 1);
            lane_set(bucket, way, tag);
            handle_set(bucket, way, handle);
            view->head->count++;
            return true;
        }
        bucket = next_bucket(view, bucket);
    }
    return false;
}

static bool copy_all(const struct view *from, const struct view *to)
{
    for (uint32_t i = 0; i < from->count; i++) {
        const struct bucket *bucket = &from->buckets[i];
        for (unsigned way = 0; way < WAYS; way++) {
            uint32_t handle = handle_at(bucket, way);
            uint64_t word = lanes(bucket, way / LANES);
            uint32_t tag = (uint32_t)(word >> way % LANES * LANE_BITS) & UINT16_MAX;
            if (handle != 0 && !place_handle(to, tag, handle))
                return false;
        }
    }
    return true;
}

/* An empty table of `buckets` or a few more; head NULL if there is no memory. */
static struct view table_make(struct memory *memory, uint32_t buckets, uint32_t hash)
{
    struct view view = {0};
    size_t size = sizeof *view.head + LINE_BYTES - SLOT_UNIT + (size_t)buckets * LINE_BYTES;
    if (size > memory_slot_max(memory))
        return view;
    view.head = memory_alloc_kept(memory, size);
    if (view.head == NULL)
        return view;
    view.head->hash = hash;
    view.head->size = memory_slot_size(memory, size);
    view.head->count = 0;
    view.buckets = buckets_of(view.head);
    size_t front = (size_t)((uint8_t *)view.buckets - (uint8_t *)view.head);
    view.count = (uint32_t)((view.head->size - front) / LINE_BYTES);
    memset(view.buckets, 0, view.count * LINE_BYTES);
    return view;
}

static void table_drop(struct memory *memory, struct head *head)
{
    memory_sub(&memory->live, memory_free(memory, head));
}

/* Puts a table of about `buckets` in place of the one there is. */
static bool table_change(struct index *index, struct reclaimer *reclaimer, uint32_t hash,
                         uint32_t buckets)
{
    uint32_t table = table_of(index, hash);
    struct view old = view_of(index, table), new = table_make(index->memory, buckets, hash);
    if (new.head == NULL)
        return false;
    if (!copy_all(&old, &new)) { /* a crowd in a smaller table */
        table_drop(index->memory, new.head);
        return false;
    }
    atomic_store_explicit(&new.head->flags, SLOT_TABLE, memory_order_release);
    uint64_t packed = (uint64_t) new.count << COUNT_SHIFT | memory_handle(index->memory, new.head);
    atomic_store_explicit(&index->tables[table], packed, memory_order_release);
    if (old.head != NULL)
        reclaim_slot(reclaimer, old.head, old.head->size);
    return true;
}

static bool table_grow(struct index *index, struct reclaimer *reclaimer, uint32_t hash)
{
    uint32_t buckets = view_of(index, table_of(index, hash)).count;
    return table_change(index, reclaimer, hash, buckets + buckets / 8 + 1);
}

static bool is_fuller(const struct view *view, uint32_t percent)
{
    return view->head == NULL || view->head->count * 100 >= view->count * WAYS * percent;
}

bool index_set(struct index *index, struct reclaimer *reclaimer, struct entry *entry,
               struct entry **previous)
{
    struct place place;
    uint32_t table = table_of(index, entry->hash);
    uint32_t handle = memory_handle(index->memory, entry);
    struct view view = view_of(index, table);
    *previous = find(index, &view, entry, &place);
    if (*previous != NULL) {
        handle_set(place.bucket, place.way, handle);
        return true;
    }
    if (is_fuller(&view, FULL_PERCENT) && table_grow(index, reclaimer, entry->hash))
        view = view_of(index, table);
    uint32_t tag = tag_of(index, entry->hash);
    while (UNLIKELY(view.head == NULL || !place_handle(&view, tag, handle))) {
        /* Full, or a crowd of one hash, which a larger table would not spread. */
        if (!is_fuller(&view, IDLE_PERCENT) || !table_grow(index, reclaimer, entry->hash))
            return false;
        view = view_of(index, table);
    }
    return true;
}

struct entry *index_near(const struct index *index, const struct entry *entry)
{
    struct view view = view_of(index, table_of(index, entry->hash));
    if (view.head == NULL)
        return NULL;
    struct bucket *home = view.buckets + home_of(tag_of(index, entry->hash), view.count);
    struct entry *least = memory_at(index->memory, handle_at(home, 0));
    for (unsigned way = 1; way < WAYS; way++) {
        struct entry *other = memory_at(index->memory, handle_at(home, way));
        if (entry_counter(other) < entry_counter(least))
            least = other;
    }
    return least;
}

void index_remove(struct index *index, const struct entry *entry)
{
    uint32_t handle = memory_handle(index->memory, entry);
    uint32_t tag = tag_of(index, entry->hash);
    struct view view = view_of(index, table_of(index, entry->hash));
    ensure(view.head != NULL && view.head->count > 0);
    struct bucket *bucket = view.buckets + home_of(tag, view.count);
    unsigned way = way_of(bucket, handle);
    for (uint32_t i = 1; way == WAYS; i++) {
        ensure(i < PROBES_MAX);
        bucket = next_bucket(&view, bucket);
        way = way_of(bucket, handle);
    }
    handle_set(bucket, way, 0);
    pass_all(&view, tag, bucket, -1);
    view.head->count--;
}

/* --- All of it --- */

/* A shard's first table: its hashes' top bits say both. */
static uint32_t first_table(const struct index *index, uint32_t shard)
{
    return shard << (index->table_bits - index->shard_bits);
}

static uint32_t shard_tables(const struct index *index)
{
    return first_table(index, 1);
}

static uint32_t all_tables(const struct index *index)
{
    return UINT32_C(1) << index->table_bits;
}

bool index_open(struct index *index, struct memory *memory, unsigned shard_bits)
{
    size_t share = (size_t)SHARE_SLOTS * memory_slot_max(memory);
    index->shard_bits = shard_bits;
    index->table_bits = shard_bits;
    while (index->table_bits < TABLE_BITS_MAX && share << index->table_bits < memory->budget)
        index->table_bits++;
    size_t size = all_tables(index) * sizeof *index->tables;
    index->tables = memory_heap_alloc(memory, size);
    if (index->tables == NULL)
        return false;
    for (uint32_t i = 0; i < all_tables(index); i++)
        atomic_init(&index->tables[i], 0);
    index->memory = memory;
    return true;
}

void index_close(struct index *index)
{
    if (index->tables == NULL)
        return;
    for (uint32_t i = 0; i < all_tables(index); i++) {
        struct view view = view_of(index, i);
        if (view.head != NULL)
            table_drop(index->memory, view.head);
    }
    memory_heap_free(index->memory, index->tables, all_tables(index) * sizeof *index->tables);
    index->tables = NULL;
}

static void visit_all(const struct index *index, const struct view *view, index_visit_fn visit,
                      void *arg)
{
    for (uint32_t i = 0; i < view->count; i++)
        for (unsigned way = 0; way < WAYS; way++) {
            struct entry *entry = memory_at(index->memory, handle_at(&view->buckets[i], way));
            if (entry != NULL)
                visit(arg, entry);
        }
}

bool index_iterate(const struct index *index, uint32_t shard, uint32_t *walk, uint32_t entries,
                   index_visit_fn visit, void *arg)
{
    for (uint32_t met = 0; met < entries && *walk < shard_tables(index); ++*walk) {
        struct view view = view_of(index, first_table(index, shard) + *walk);
        met += 1 + (view.head == NULL ? 0 : view.head->count);
        visit_all(index, &view, visit, arg);
    }
    return *walk < shard_tables(index);
}

void index_tidy(struct index *index, struct reclaimer *reclaimer, uint32_t shard, uint32_t *walk)
{
    uint32_t table = first_table(index, shard) + (*walk)++ % shard_tables(index);
    struct view view = view_of(index, table);
    if (view.head == NULL)
        return;
    if (is_fuller(&view, FULL_PERCENT))
        (void)table_grow(index, reclaimer, view.head->hash);
    else if (!is_fuller(&view, IDLE_PERCENT) && view.count > 1)
        (void)table_change(index, reclaimer, view.head->hash,
                           view.head->count * 100 / (WAYS * GOOD_PERCENT) + 1);
}

uint32_t index_table_hash(const void *slot)
{
    return ((const struct head *)slot)->hash;
}

void index_move(struct index *index, struct reclaimer *reclaimer, const void *slot)
{
    uint32_t hash = index_table_hash(slot);
    struct view view = view_of(index, table_of(index, hash));
    ensure(view.head == slot);
    (void)table_change(index, reclaimer, hash, view.count);
}

size_t index_count(const struct index *index, uint32_t shard)
{
    size_t count = 0;
    for (uint32_t i = 0; i < shard_tables(index); i++) {
        struct view view = view_of(index, first_table(index, shard) + i);
        count += view.head == NULL ? 0 : view.head->count;
    }
    return count;
}

size_t index_bytes(const struct index *index, uint32_t shard)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < shard_tables(index); i++) {
        struct view view = view_of(index, first_table(index, shard) + i);
        bytes += view.head == NULL ? 0 : view.head->size;
    }
    return bytes;
}
