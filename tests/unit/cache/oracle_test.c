/* What writes drop, against a model: random tables, pages and writes, by a cache over the engine.
 *
 * The model knows keys by their places in lists that are in DynamoDB's order, and works out by
 * itself which keys each page examined (from its range's begin or behind its start key to the
 * range's end or its last evaluated key) and which keys of table and indexes each write touches.
 * Proven: a write drops exactly the pages that examined one of its keys; what stays cached is what
 * the store says. Where more is dropped than has changed, the reason has a name and is counted;
 * without a name it fails.
 *
 * oracle_test [FIRST LAST]: seeds, in place of those that are always run. */
#include "backend/engine/engine.h"
#include "cache/query_cache.h"
#include "protocol/encoding/msgpack.h"
#include "protocol/ensure.h"
#include "tests/support/session.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

/* ---- the data ---- */

enum { VALUES = 8, ABSENT = -1, KEPT = -2 }; /* KEPT: an update leaves it alone */

/* Of each type of key, in order; of those that can begin with something, raw too. */
struct literal {
    const char *text, *raw;
    size_t size;
};
static const struct literal strings[VALUES] = {{"A", "A", 1},   {"a", "a", 1},     {"a!", "a!", 2},
                                               {"ab", "ab", 2}, {"abc", "abc", 3}, {"b", "b", 1},
                                               {"é", "é", 2},   {"😀", "😀", 4}};
static const struct literal numbers[VALUES] = {{.text = "-1000"}, {.text = "-2.5"}, {.text = "-1"},
                                               {.text = "0"},     {.text = "0.5"},  {.text = "9"},
                                               {.text = "10"},    {.text = "1E+20"}};
static const struct literal binaries[VALUES] = {
    {"AA==", "\0", 1},     {"AAA=", "\0\0", 2}, {"AAE=", "\0\1", 2}, {"AQ==", "\1", 1},
    {"Af8=", "\1\xff", 2}, {"fw==", "\x7f", 1}, {"/w==", "\xff", 1}, {"//8=", "\xff\xff", 2}};

enum attribute_name { P, S, G, H, B, L, X, Y, ATTRIBUTES, NONE = -1 };
static const struct {
    const char *name, *type;
    const struct literal *values;
} attributes[ATTRIBUTES] = {
    [P] = {"p", "S", strings}, [S] = {"s", "N", numbers},  [G] = {"g", "S", strings},
    [H] = {"h", "N", numbers}, [B] = {"b", "B", binaries}, [L] = {"l", "S", strings},
    [X] = {"x", "N", numbers}, [Y] = {"y", "S", strings},
};

struct item {
    int at[ATTRIBUTES]; /* a value's place in its list */
};

/* What a Query or Scan goes over: a table (the first) or one of its indexes. */
struct range {
    const char *name; /* NULL: the table */
    int partition, sort;
    bool is_local;
    bool is_all;
    int included; /* besides keys, or NONE */
};

enum { TABLES = 3, RANGES_MAX = 8 };
static const struct table_model {
    const char *name;
    int range_count;
    struct range ranges[RANGES_MAX];
} tables[TABLES] = {
    {"Wide",
     7,
     {{NULL, P, S, .is_all = true, .included = NONE},
      {"local.p-l", P, L, .is_local = true, .included = X},
      {"local.p-b", P, B, .is_local = true, .included = NONE},
      {"by.g-h", G, H, .is_all = true, .included = NONE},
      {"by.g", G, NONE, .included = NONE},
      {"by.s-p", S, P, .included = X},
      {"by.b-l", B, L, .included = Y}}},
    {"Flat",
     4,
     {{NULL, B, NONE, .is_all = true, .included = NONE},
      {"by.h-s", H, S, .is_all = true, .included = NONE},
      {"by.p", P, NONE, .included = NONE},
      {"by.x-b", X, B, .included = Y}}},
    {"Third",
     4,
     {{NULL, H, L, .is_all = true, .included = NONE},
      {"local.h-p", H, P, .is_local = true, .is_all = true, .included = NONE},
      {"by.l-h", L, H, .included = NONE},
      {"by.b-g", B, G, .is_all = true, .included = NONE}}},
};

enum { SEGMENTS_MAX = 4 };

/* Where Scans come by a partition key's value: learnt from the store, as nothing is said of it. */
struct scan_order {
    int place[VALUES];
    int segment[SEGMENTS_MAX + 1][VALUES]; /* of so many */
};

/* In a range's order: partition, sort key, then the table's key. */
struct place {
    int at[4];
};

enum condition { ALWAYS, IF_EXISTS, IF_ABSENT, IF_X_IS, CONDITIONS };
struct change {
    enum operation operation;
    int table;
    struct item item;
    enum condition condition;
    int x;
    bool is_mistyped; /* an update that gives an index a key of another type */
};

/* A key that a write touches. */
struct touch {
    int table, range;
    struct place place;
    bool is_changed; /* the item is not what it was */
    bool is_shown;   /* nor what the range shows of it */
    bool is_written; /* not only announced */
};

enum order { ANY, EQUAL, LESS, LESS_EQUAL, GREATER, GREATER_EQUAL, BETWEEN, BEGINS, ORDERS };

struct page {
    int table, range;
    bool is_scan, is_backward, is_narrowed; /* narrowed: does not show all that it examined */
    int partition, from, to;                /* from, to: sort keys wanted, inclusive */
    enum order order;
    int segment, segments;
    uint32_t limit;
    bool has_start;
    struct place start;
    int filter, filter_value;
    struct request request;
    const struct entry *probe;
    uint32_t stripe; /* of its partition */
    /* Of what was shown last: */
    bool is_cached, is_cut;
    struct place last;
    struct bytes body;
    /* While a fetch is under way: */
    struct session_call call;
    bool is_under_way; /* since before the writes were announced */
    bool is_blind;
};

enum excess { AS_IT_WAS, NOT_SHOWN, NOT_PROJECTED, NOT_WRITTEN, WRITTEN_BACK, EXCESSES };
static const char *const excess_names[EXCESSES] = {
    [AS_IT_WAS] = "written as it was",
    [NOT_SHOWN] = "changed what a filter, a projection or COUNT leaves out",
    [NOT_PROJECTED] = "changed what a local index holds and does not project",
    [NOT_WRITTEN] = "announced and not written",
    [WRITTEN_BACK] = "written by one of two at once, and back by the other",
};

enum {
    PAGES = 90,
    STEPS = 220,
    TOUCHES_MAX = 200,
    CHANGES_MAX = 6,
    WRITES_MAX = 2,
    DELAY_US = 1000,
    NEVER_MS = 1000000000
};

static struct {
    struct backend *engine, *cache;
    struct session through, past; /* the cache, and past it */
    uint64_t random;
    uint64_t first_seed, last_seed;
    bool is_slow; /* the store takes DELAY_US, by a clock that stands still meanwhile */
    struct item items[TABLES][VALUES][VALUES];
    bool is_there[TABLES][VALUES][VALUES], is_item_cached[TABLES][VALUES][VALUES];
    struct scan_order orders[TABLES][RANGES_MAX];
    uint32_t stripes[TABLES][RANGES_MAX][VALUES + 1]; /* of partitions; the last: of the whole */
    struct page pages[PAGES];
    int page_count;
    struct touch touches[TOUCHES_MAX];
    int touch_count, happened; /* happened: writes of this step */
    /* What came of it. */
    size_t reads, writes, refused, dropped, changed, left, kept_beside, beyond_cut, blind,
        explained;
    size_t excesses[EXCESSES];
} stage;

static int roll(int sides)
{
    stage.random ^= stage.random << 13;
    stage.random ^= stage.random >> 7;
    stage.random ^= stage.random << 17;
    return (int)((stage.random >> 33) % (uint64_t)sides);
}

static const struct range *range_at(int table, int range)
{
    return &tables[table].ranges[range];
}

static int sort_value(const struct item *item, int attribute)
{
    return attribute == NONE ? 0 : item->at[attribute];
}

/* False: the item is not in it. */
static bool place_of(int table, int range, const struct item *item, struct place *out)
{
    const struct range *own = range_at(table, range), *primary = range_at(table, 0);
    *out = (struct place){{item->at[own->partition], sort_value(item, own->sort),
                           item->at[primary->partition], sort_value(item, primary->sort)}};
    return out->at[0] >= 0 && out->at[1] >= 0;
}

static bool is_shown(int table, const struct range *range, int attribute)
{
    const struct range *primary = range_at(table, 0);
    return range->is_all || attribute == range->included || attribute == range->partition ||
           attribute == range->sort || attribute == primary->partition ||
           attribute == primary->sort;
}

/* ---- as JSON ---- */

struct text {
    char chars[4096];
    size_t size;
};

static __attribute__((format(printf, 2, 3))) void add(struct text *text, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int size =
        vsnprintf(text->chars + text->size, sizeof text->chars - text->size, format, arguments);
    va_end(arguments);
    ensure(size >= 0 && text->size + (size_t)size < sizeof text->chars);
    text->size += (size_t)size;
}

/* name  NULL: the attribute's own */
static void add_value(struct text *text, const char *name, int attribute, int value)
{
    add(text, "%s'%s': {'%s': '%s'}", text->size == 0 ? "{" : ", ",
        name == NULL ? attributes[attribute].name : name, attributes[attribute].type,
        attributes[attribute].values[value].text);
}

static struct bytes text_item(struct text *text)
{
    if (text->size == 0)
        return BYTES_NONE;
    add(text, "}");
    return session_item(&stage.through, text->chars);
}

static struct bytes text_copy(const struct text *text)
{
    return text->size == 0 ? BYTES_NONE
                           : arena_copy(&stage.through.arena, bytes_of(text->chars, text->size));
}

static void add_key(struct text *text, const struct item *item, const struct range *range)
{
    const int names[2] = {range->partition, range->sort};
    for (int i = 0; i < 2; i++) {
        char member[12];
        if (names[i] == NONE)
            continue;
        snprintf(member, sizeof member, "'%s': {", attributes[names[i]].name);
        if (strstr(text->chars, member) == NULL)
            add_value(text, NULL, names[i], item->at[names[i]]);
    }
}

static struct bytes item_json(const struct item *item)
{
    struct text text = {.size = 0};
    for (int i = 0; i < ATTRIBUTES; i++)
        if (item->at[i] >= 0)
            add_value(&text, NULL, i, item->at[i]);
    return text_item(&text);
}

/* ---- pages ---- */

static int compare_places(const struct page *page, const struct place *a, const struct place *b)
{
    const struct scan_order *order = &stage.orders[page->table][page->range];
    if (page->is_scan && a->at[0] != b->at[0])
        return order->place[a->at[0]] - order->place[b->at[0]];
    for (int i = 0; i < 4; i++)
        if (a->at[i] != b->at[i])
            return a->at[i] - b->at[i];
    return 0;
}

/* In the direction of reading. */
static bool is_behind(const struct page *page, const struct place *a, const struct place *b)
{
    int order = compare_places(page, a, b);
    return page->is_backward ? order < 0 : order > 0;
}

/* What a page's request asks for, however far that is read. */
static bool is_wanted(const struct page *page, const struct place *place)
{
    if (page->is_scan
            ? page->segments > 1 &&
                  stage.orders[page->table][page->range].segment[page->segments][place->at[0]] !=
                      page->segment
            : place->at[0] != page->partition || place->at[1] < page->from ||
                  place->at[1] > page->to)
        return false;
    return !page->has_start || is_behind(page, place, &page->start);
}

static bool is_examined(const struct page *page, const struct place *place)
{
    return is_wanted(page, place) && !(page->is_cut && is_behind(page, place, &page->last));
}

/* Which values of the sort key an operator wants, by their places in the list. */
static void set_bounds(struct page *page, int sort, int a, int b)
{
    const struct literal *values = sort == NONE ? NULL : attributes[sort].values;
    page->from = page->order == EQUAL || page->order == BETWEEN || page->order == BEGINS ||
                         page->order == GREATER_EQUAL
                     ? a
                 : page->order == GREATER ? a + 1
                                          : 0;
    page->to = page->order == BETWEEN      ? b
               : page->order == EQUAL      ? a
               : page->order == LESS       ? a - 1
               : page->order == LESS_EQUAL ? a
                                           : VALUES - 1;
    if (page->order != BEGINS)
        return;
    ensure(values != NULL);
    page->to = a;
    while (page->to + 1 < VALUES && values[page->to + 1].size >= values[a].size &&
           memcmp(values[page->to + 1].raw, values[a].raw, values[a].size) == 0)
        page->to++;
}

static void ask_for_keys(struct page *page, struct text *values)
{
    static const struct {
        const char *before, *behind; /* the sort key's name */
    } operators[ORDERS] = {
        [ANY] = {"", ""},
        [EQUAL] = {"", " = :a"},
        [LESS] = {"", " < :a"},
        [LESS_EQUAL] = {"", " <= :a"},
        [GREATER] = {"", " > :a"},
        [GREATER_EQUAL] = {"", " >= :a"},
        [BETWEEN] = {"", " BETWEEN :a AND :b"},
        [BEGINS] = {"begins_with(", ", :a)"},
    };
    const struct range *range = range_at(page->table, page->range);
    struct text text = {.size = 0};
    int a = roll(VALUES), b = a + roll(VALUES - a);
    page->partition = roll(VALUES);
    page->order = range->sort == NONE ? ANY : (enum order)roll(ORDERS);
    if (page->order == BEGINS && attributes[range->sort].values == numbers)
        page->order = ANY;
    set_bounds(page, range->sort, a, b);
    add(&text, "%s = :p", attributes[range->partition].name);
    add_value(values, ":p", range->partition, page->partition);
    if (page->order != ANY) {
        add(&text, " AND %s%s%s", operators[page->order].before, attributes[range->sort].name,
            operators[page->order].behind);
        add_value(values, ":a", range->sort, a);
    }
    if (page->order == BETWEEN)
        add_value(values, ":b", range->sort, b);
    page->request.key_condition.text = text_copy(&text);
    page->is_backward = page->request.is_backward = roll(3) == 0;
}

static void ask_for_segment(struct page *page)
{
    if (roll(2) == 0)
        return;
    page->segments = 2 + roll(SEGMENTS_MAX - 1);
    page->segment = roll(page->segments);
    page->request.has_segment = true;
    page->request.segments = (uint32_t)page->segments;
    page->request.segment = (uint32_t)page->segment;
}

static void ask_for_start(struct page *page)
{
    for (int attempt = 0; attempt < 20; attempt++) {
        struct item item;
        struct text text = {.size = 0};
        for (int i = 0; i < ATTRIBUTES; i++)
            item.at[i] = roll(VALUES);
        (void)place_of(page->table, page->range, &item, &page->start);
        if (!is_wanted(page, &page->start))
            continue;
        page->has_start = true;
        add_key(&text, &item, range_at(page->table, 0));
        add_key(&text, &item, range_at(page->table, page->range));
        page->request.start_key = text_item(&text);
        return;
    }
}

/* A filter, and what is left out of the items. */
static void ask_for_parts(struct page *page, struct text *values)
{
    const struct range *range = range_at(page->table, page->range);
    bool sees_all = range->is_local || range->is_all;
    int filter = roll(2) == 0 ? X : Y, projected = roll(ATTRIBUTES);
    if (roll(5) == 0 && filter != range->partition &&
        (sees_all || is_shown(page->table, range, filter))) {
        struct text text = {.size = 0};
        add(&text, "%s = :f", attributes[filter].name);
        page->filter = filter;
        page->filter_value = roll(VALUES);
        add_value(values, ":f", filter, page->filter_value);
        page->request.filter = text_copy(&text);
    }
    int what = roll(8);
    if (what == 0)
        page->request.select = SELECT_COUNT;
    else if (what == 1 && (sees_all || is_shown(page->table, range, projected)))
        page->request.projection = bytes_text(attributes[projected].name);
    else if (what < 4 && range->is_local)
        page->request.select = SELECT_ALL_ATTRIBUTES;
    page->is_narrowed = page->filter != NONE || bytes_given(page->request.projection) ||
                        page->request.select == SELECT_COUNT;
}

static void page_begin(struct page *page, int table, int range, bool is_scan)
{
    *page = (struct page){.table = table, .range = range, .is_scan = is_scan, .filter = NONE};
    page->request.operation = is_scan ? OPERATION_SCAN : OPERATION_QUERY;
    page->request.table_name = bytes_text(tables[table].name);
    if (range != 0)
        page->request.index_name = bytes_text(range_at(table, range)->name);
}

static void page_make(struct page *page)
{
    struct text values = {.size = 0};
    int table = roll(TABLES);
    int range = roll(tables[table].range_count);
    page_begin(page, table, range, roll(4) == 0);
    if (page->is_scan)
        ask_for_segment(page);
    else
        ask_for_keys(page, &values);
    ask_for_parts(page, &values);
    if (roll(4) == 0)
        ask_for_start(page);
    if (roll(2) == 0)
        page->request.limit = page->limit = 1 + (uint32_t)roll(4);
    page->request.key_condition.values = text_item(&values);
}

/* What finds it in the cache, and which stripe its partition shares with others. */
static void page_bind(struct page *page)
{
    const struct cache *cache = (struct cache *)stage.cache;
    struct lane *lane = stage.through.lane;
    struct arena *arena = &stage.through.arena;
    struct request request = page->request;
    struct partition_ref partition;
    struct error error = {.text = ""};
    lane->ops->lane_begin(lane);
    const struct table *table = lane->ops->table(lane, request.table_name);
    ensure(table != NULL);
    if (request_bind(&request, table, arena, &error) != STATUS_OK)
        fail_msg("refused: %s", error.text);
    page->probe = page_probe_make(cache, arena, &request, &partition);
    ensure(page->probe != NULL);
    const struct shard *shard = cache_shard(cache, partition.hash);
    page->stripe = (uint32_t)(shard - cache->shards) * STRIPES_MAX +
                   (partition.hash & (shard->stripes.count - 1));
    lane->ops->lane_end(lane);
}

static bool is_in_cache(const struct page *page)
{
    return index_get(&((struct cache *)stage.cache)->index, page->probe) != NULL;
}

/* One that no other is the same as; NULL: there is no room, or this one is. */
static struct page *page_add(void)
{
    if (stage.page_count == PAGES)
        return NULL;
    struct page *page = &stage.pages[stage.page_count];
    page_make(page);
    page_bind(page);
    for (int i = 0; i < stage.page_count; i++) {
        const struct entry *other = stage.pages[i].probe;
        if (other->key_size == page->probe->key_size &&
            memcmp(other->key, page->probe->key, other->key_size) == 0)
            return NULL;
    }
    stage.page_count++;
    return page;
}

/* ---- what a page is by the model ---- */

struct shown {
    uint32_t count, examined;
    bool is_cut;
    struct place last;
};

static struct shown model_page(const struct page *page)
{
    struct shown shown = {.count = 0};
    for (;;) {
        const struct item *next = NULL;
        struct place first = {{0}}, place;
        for (int i = 0; i < VALUES * VALUES; i++) {
            const struct item *item = &stage.items[page->table][i / VALUES][i % VALUES];
            if (!stage.is_there[page->table][i / VALUES][i % VALUES] ||
                !place_of(page->table, page->range, item, &place) || !is_wanted(page, &place) ||
                (shown.examined != 0 && !is_behind(page, &place, &shown.last)))
                continue;
            if (next == NULL || is_behind(page, &first, &place)) {
                next = item;
                first = place;
            }
        }
        if (next == NULL)
            return shown;
        shown.last = first;
        shown.examined++;
        shown.count += page->filter == NONE || next->at[page->filter] == page->filter_value;
        if (shown.examined == page->limit) {
            shown.is_cut = true;
            return shown;
        }
    }
}

static void check_shown(const struct session_call *call, const struct shown *shown)
{
    struct msgpack_cursor cursor = msgpack_cursor_of(call->body);
    uint32_t three;
    uint64_t examined = 0;
    assert_int_equal(call->call.reply.status, STATUS_OK);
    assert_true(msgpack_read_array(&cursor, &three) && three == 3);
    assert_true(msgpack_skip(&cursor, NULL) && msgpack_read_uint(&cursor, &examined));
    assert_int_equal(call->call.reply.count, shown->count);
    assert_int_equal(examined, shown->examined);
    assert_int_equal(*cursor.at != 0xc0, shown->is_cut);
}

static void run_page(struct session *session, const struct page *page, struct session_call *call)
{
    session_call_init(call, page->request.operation, NULL);
    call->call.request = page->request;
    session_run(session, call);
}

/* What is cached is what the store says. */
static void check_fresh(const struct page *page)
{
    struct session_call cached, fresh;
    run_page(&stage.through, page, &cached);
    run_page(&stage.past, page, &fresh);
    assert_int_equal(cached.call.reply.verdict, VERDICT_HIT);
    assert_int_equal(cached.call.reply.count, fresh.call.reply.count);
    assert_true(bytes_equal(cached.body, fresh.body));
    session_call_deinit(&cached);
    session_call_deinit(&fresh);
}

/* ---- what a write does by the model ---- */

static bool *there(const struct change *change, struct item **item)
{
    const struct range *primary = range_at(change->table, 0);
    int p = change->item.at[primary->partition], s = sort_value(&change->item, primary->sort);
    *item = &stage.items[change->table][p][s];
    return &stage.is_there[change->table][p][s];
}

static bool is_allowed(const struct change *change)
{
    struct item *item;
    bool is_there = *there(change, &item);
    return !change->is_mistyped &&
           (change->condition == IF_EXISTS   ? is_there
            : change->condition == IF_ABSENT ? !is_there
            : change->condition == IF_X_IS   ? is_there && item->at[X] == change->x
                                             : true);
}

/* What the item will be. False: nothing. */
static bool image_of(const struct change *change, struct item *out)
{
    struct item *old;
    bool was_there = *there(change, &old);
    *out = change->item;
    for (int i = 0; change->operation == OPERATION_UPDATE_ITEM && i < ATTRIBUTES; i++)
        if (out->at[i] == KEPT)
            out->at[i] = was_there ? old->at[i] : ABSENT;
    return change->operation != OPERATION_DELETE_ITEM;
}

static void touch_add(const struct change *change, int range, const struct place *place,
                      bool is_changed, bool is_shown_changed)
{
    ensure(stage.touch_count < TOUCHES_MAX);
    stage.touches[stage.touch_count++] = (struct touch){.table = change->table,
                                                        .range = range,
                                                        .place = *place,
                                                        .is_changed = is_changed,
                                                        .is_shown = is_shown_changed};
}

/* The table's key always; an index's when what it holds of the item has changed: of a local one
 * the whole item, of a global one what it projects. */
static void touch_all(const struct change *change)
{
    struct item *old, new;
    bool was_there = *there(change, &old), is_there = image_of(change, &new);
    bool is_changed =
        was_there != is_there || (is_there && memcmp(old->at, new.at, sizeof new.at) != 0);
    struct place before, after;
    (void)place_of(change->table, 0, &change->item, &before);
    touch_add(change, 0, &before, is_changed, is_changed);
    for (int i = 1; i < tables[change->table].range_count; i++) {
        const struct range *range = range_at(change->table, i);
        bool was_in = was_there && place_of(change->table, i, old, &before);
        bool is_in = is_there && place_of(change->table, i, &new, &after);
        bool stays = was_in && is_in && memcmp(&before, &after, sizeof after) == 0;
        bool shows_other = !stays;
        for (int k = 0; stays && k < ATTRIBUTES; k++)
            shows_other =
                shows_other || (is_shown(change->table, range, k) && old->at[k] != new.at[k]);
        if (stays && !(range->is_local ? is_changed : shows_other))
            continue;
        if (was_in)
            touch_add(change, i, &before, is_changed, shows_other);
        if (is_in && !stays)
            touch_add(change, i, &after, is_changed, shows_other);
    }
}

static void apply(const struct change *change)
{
    struct item *item, new;
    bool *is_there = there(change, &item);
    bool will_be = image_of(change, &new);
    *is_there = will_be;
    *item = new;
}

/* ---- writes ---- */

struct write {
    enum operation operation; /* of one change, or a batch or transaction */
    struct change changes[CHANGES_MAX];
    int change_count;
    struct request parts[CHANGES_MAX];
    enum status expected;
    struct session_call call;
};

/* An item as a write gives it; of an update, what it sets, removes and leaves alone. */
static void change_fill(struct change *change, const struct range *primary)
{
    bool is_update = change->operation == OPERATION_UPDATE_ITEM;
    for (int i = 0; i < ATTRIBUTES; i++) {
        bool is_key = i == primary->partition || i == primary->sort;
        change->item.at[i] = is_key || roll(3) != 0 ? roll(VALUES) : ABSENT;
        if (is_update && !is_key && roll(3) != 0)
            change->item.at[i] = KEPT;
    }
}

static void change_make(struct change *change)
{
    static const enum operation operations[] = {OPERATION_PUT_ITEM, OPERATION_UPDATE_ITEM,
                                                OPERATION_DELETE_ITEM};
    *change = (struct change){.operation = operations[roll(3)]};
    change->table = roll(TABLES);
    if (roll(2) == 0)
        change->condition = (enum condition)roll(CONDITIONS);
    change->x = roll(VALUES);
    const struct range *primary = range_at(change->table, 0);
    change_fill(change, primary);
    /* Most are of items that are there, and some of these change nothing. */
    struct item *old;
    for (int attempt = 0; attempt < 4 && !*there(change, &old) && roll(3) != 0; attempt++)
        change->item.at[primary->partition] = roll(VALUES);
    bool is_there = *there(change, &old);
    if (change->operation == OPERATION_PUT_ITEM && is_there && roll(5) == 0)
        change->item = *old;
    if (change->operation == OPERATION_UPDATE_ITEM && change->item.at[X] == KEPT)
        change->item.at[X] =
            is_there && old->at[X] >= 0 && roll(2) == 0 ? old->at[X] : roll(VALUES);
}

/* "SET x = :x, ... REMOVE y, ..." */
static struct bytes update_text(const struct change *change, struct text *values)
{
    struct text set = {.size = 0}, removed = {.size = 0};
    const struct range *primary = range_at(change->table, 0);
    for (int i = 0; i < ATTRIBUTES; i++) {
        const char *name = attributes[i].name;
        char placeholder[8];
        snprintf(placeholder, sizeof placeholder, ":%s", name);
        if (i == primary->partition || i == primary->sort || change->item.at[i] == KEPT)
            continue;
        if (change->item.at[i] == ABSENT) {
            add(&removed, "%s%s", removed.size == 0 ? " REMOVE " : ", ", name);
            continue;
        }
        add(&set, "%s%s = :%s", set.size == 0 ? "SET " : ", ", name, name);
        add_value(values, placeholder, change->is_mistyped && i == P ? X : i, change->item.at[i]);
    }
    add(&set, "%s", removed.size == 0 ? "" : removed.chars);
    return text_copy(&set);
}

static void change_request(const struct change *change, struct request *out)
{
    const struct range *primary = range_at(change->table, 0);
    struct text values = {.size = 0}, key = {.size = 0}, condition = {.size = 0};
    *out = (struct request){.operation = change->operation,
                            .table_name = bytes_text(tables[change->table].name)};
    add_key(&key, &change->item, primary);
    if (change->operation == OPERATION_PUT_ITEM)
        out->item = item_json(&change->item);
    else
        out->key = text_item(&key);
    if (change->operation == OPERATION_UPDATE_ITEM)
        out->update = update_text(change, &values);
    if (change->condition == IF_X_IS) {
        add(&condition, "x = :c");
        add_value(&values, ":c", X, change->x);
    } else if (change->condition != ALWAYS) {
        add(&condition, "%s(%s)",
            change->condition == IF_EXISTS ? "attribute_exists" : "attribute_not_exists",
            attributes[primary->partition].name);
    }
    out->condition = text_copy(&condition);
    out->key_condition.values = text_item(&values);
}

static bool is_same_key(const struct change *a, const struct change *b)
{
    struct item *one, *other;
    return there(a, &one) == there(b, &other);
}

/* One of a batch or a transaction. */
static void part_make(struct write *write, int part)
{
    struct change *change = &write->changes[part];
    bool is_batch = write->operation == OPERATION_BATCH_WRITE_ITEM, is_new;
    do {
        change_make(change);
        is_new = !is_batch || change->operation != OPERATION_UPDATE_ITEM;
        for (int i = 0; i < part; i++)
            is_new = is_new && !is_same_key(change, &write->changes[i]);
    } while (!is_new);
    if (is_batch || roll(2) == 0)
        change->condition = ALWAYS;
    else if (change->condition != ALWAYS && roll(4) == 0)
        change->operation = OPERATION_CONDITION_CHECK;
}

static void write_make(struct write *write)
{
    int what = roll(10);
    *write = (struct write){.change_count = 1};
    if (what < 4) {
        write->operation = what < 2 ? OPERATION_BATCH_WRITE_ITEM : OPERATION_TRANSACT_WRITE_ITEMS;
        write->change_count = 1 + roll(CHANGES_MAX);
        for (int i = 0; i < write->change_count; i++)
            part_make(write, i);
        return;
    }
    struct change *only = &write->changes[0];
    change_make(only);
    write->operation = only->operation;
    only->is_mistyped = only->operation == OPERATION_UPDATE_ITEM &&
                        strcmp(tables[only->table].name, "Flat") == 0 && only->item.at[P] >= 0 &&
                        roll(3) == 0;
}

/* The same once more, of the same key: as two clients write it at once. */
static void write_make_rival(struct write *write, const struct write *rival)
{
    struct change *change = &write->changes[0];
    const struct change *other = &rival->changes[0];
    const struct range *primary = range_at(other->table, 0);
    do
        change_make(change);
    while (change->table != other->table);
    change->item.at[primary->partition] = other->item.at[primary->partition];
    if (primary->sort != NONE)
        change->item.at[primary->sort] = other->item.at[primary->sort];
    write->change_count = 1;
    write->operation = change->operation;
}

static void write_send(struct write *write)
{
    struct session_call *call = &write->call;
    session_call_init(call, write->operation, NULL);
    for (int i = 0; i < write->change_count; i++)
        change_request(&write->changes[i], &write->parts[i]);
    if (write->operation == write->changes[0].operation) {
        call->call.request = write->parts[0];
        if (write->operation == OPERATION_DELETE_ITEM && roll(4) == 0)
            call->call.origin = CALL_OF_TIME_TO_LIVE;
    } else {
        call->call.request.parts = write->parts;
        call->call.request.part_count = (size_t)write->change_count;
    }
    session_submit(&stage.through, call);
}

/* What the store makes of it as things are. */
static enum status judge(const struct write *write)
{
    for (int i = 0; i < write->change_count; i++) {
        if (is_allowed(&write->changes[i]))
            continue;
        return write->operation == OPERATION_TRANSACT_WRITE_ITEMS ? STATUS_TRANSACTION_CANCELED
               : write->changes[i].is_mistyped                    ? STATUS_VALIDATION
                                                                  : STATUS_CONDITIONAL_CHECK_FAILED;
    }
    return STATUS_OK;
}

static void touch_write(const struct write *write)
{
    for (int i = 0; i < write->change_count; i++)
        if (write->changes[i].operation != OPERATION_CONDITION_CHECK)
            touch_all(&write->changes[i]);
}

/* What is announced of each by what was there before all; then what is written, one by one. */
static void model_writes(struct write *writes, int count)
{
    stage.touch_count = stage.happened = 0;
    for (int i = 0; i < count; i++) {
        writes[i].expected = judge(&writes[i]);
        if (writes[i].expected == STATUS_OK)
            touch_write(&writes[i]);
    }
    if (count == 1)
        stage.touch_count = 0;
    for (int i = 0; i < count; i++) {
        if (writes[i].expected != STATUS_OK)
            continue;
        writes[i].expected = judge(&writes[i]);
        if (writes[i].expected != STATUS_OK)
            continue;
        int first = stage.touch_count;
        stage.happened++;
        touch_write(&writes[i]);
        for (int k = first; k < stage.touch_count; k++)
            stage.touches[k].is_written = true;
        for (int k = 0; k < writes[i].change_count; k++)
            if (writes[i].changes[k].operation != OPERATION_CONDITION_CHECK)
                apply(&writes[i].changes[k]);
    }
}

/* ---- steps ---- */

typedef bool (*holds_fn)(const struct page *page, const struct place *place);

static bool is_touched(const struct page *page, holds_fn holds)
{
    for (int i = 0; i < stage.touch_count; i++) {
        const struct touch *touch = &stage.touches[i];
        if (touch->table == page->table && touch->range == page->range &&
            holds(page, &touch->place))
            return true;
    }
    return false;
}

/* By what it would be shown as it was fetched: now, and before if nothing of it is touched. */
static void page_landed(struct page *page)
{
    struct shown shown = model_page(page);
    page->is_cut = shown.is_cut;
    page->last = shown.last;
    page->is_cached = true;
    page->body = arena_copy(&stage.through.arena, page->call.body);
    check_shown(&page->call, &shown);
    stage.reads++;
}

static void page_submit(struct page *page)
{
    session_call_init(&page->call, page->request.operation, NULL);
    page->call.call.request = page->request;
    session_submit(&stage.through, &page->call);
}

static void page_end(struct page *page)
{
    ensure(lane_loop_run_until(&stage.through.loop, &page->call.is_complete));
    assert_int_equal(page->call.call.reply.status, STATUS_OK);
}

static void read_page(struct page *page)
{
    page_submit(page);
    page_end(page);
    assert_int_equal(page->call.call.reply.verdict == VERDICT_HIT, page->is_cached);
    page_landed(page);
    assert_true(is_in_cache(page));
    session_call_deinit(&page->call);
}

static struct page *any_page(void)
{
    struct page *page = page_add();
    return page != NULL            ? page
           : stage.page_count == 0 ? any_page()
                                   : &stage.pages[roll(stage.page_count)];
}

static void read_item(int table)
{
    struct item item;
    struct text text = {.size = 0};
    struct session_call call, fresh;
    for (int i = 0; i < ATTRIBUTES; i++)
        item.at[i] = roll(VALUES);
    const struct range *primary = range_at(table, 0);
    bool *is_cached =
        &stage.is_item_cached[table][item.at[primary->partition]][sort_value(&item, primary->sort)];
    add_key(&text, &item, primary);
    session_call_init(&call, OPERATION_GET_ITEM, tables[table].name);
    session_call_init(&fresh, OPERATION_GET_ITEM, tables[table].name);
    call.call.request.key = fresh.call.request.key = text_item(&text);
    session_run(&stage.through, &call);
    session_run(&stage.past, &fresh);
    assert_true(bytes_equal(call.body, fresh.body));
    assert_true(!*is_cached || call.call.reply.verdict == VERDICT_HIT);
    *is_cached = true;
    session_call_deinit(&call);
    session_call_deinit(&fresh);
}

/* Why a page was dropped though it is what it was. */
static enum excess name_excess(const struct page *page)
{
    bool is_written = false, is_changed = false, is_shown_changed = false;
    for (int i = 0; i < stage.touch_count; i++) {
        const struct touch *touch = &stage.touches[i];
        if (touch->table != page->table || touch->range != page->range ||
            !is_examined(page, &touch->place))
            continue;
        is_written = is_written || touch->is_written;
        is_changed = is_changed || (touch->is_written && touch->is_changed);
        is_shown_changed = is_shown_changed || (touch->is_written && touch->is_shown);
    }
    return !is_written           ? NOT_WRITTEN
           : !is_changed         ? AS_IT_WAS
           : page->is_narrowed   ? NOT_SHOWN
           : !is_shown_changed   ? NOT_PROJECTED
           : stage.happened == 2 ? WRITTEN_BACK
                                 : EXCESSES;
}

static void count_drop(const struct page *page)
{
    struct session_call fresh;
    run_page(&stage.past, page, &fresh);
    stage.dropped++;
    if (!bytes_equal(page->body, fresh.body)) {
        stage.changed++;
    } else {
        enum excess excess = name_excess(page);
        if (excess == EXCESSES)
            fail_msg("a page of %s was dropped, and nobody knows why", tables[page->table].name);
        stage.excesses[excess]++;
    }
    session_call_deinit(&fresh);
}

static bool is_of_written_table(const struct page *page)
{
    for (int i = 0; i < stage.touch_count; i++)
        if (stage.touches[i].table == page->table)
            return true;
    return false;
}

static void check_page(struct page *page)
{
    bool is_due = page->is_cached && is_touched(page, is_examined), was_cached = page->is_cached;
    page->is_cached = was_cached && !is_due;
    if (is_in_cache(page) != page->is_cached)
        fail_msg("a %s of %s %s is %s", page->is_scan ? "Scan" : "Query", tables[page->table].name,
                 page->range == 0 ? "" : range_at(page->table, page->range)->name,
                 page->is_cached ? "dropped for nothing" : "left");
    if (is_due)
        count_drop(page);
    else if (was_cached && is_of_written_table(page)) {
        check_fresh(page);
        stage.left++;
    }
}

static void forget_items(void)
{
    for (int i = 0; i < stage.touch_count; i++) {
        const struct touch *touch = &stage.touches[i];
        if (touch->range == 0)
            stage.is_item_cached[touch->table][touch->place.at[2]][touch->place.at[3]] = false;
    }
}

/* Fetched while writes are pending, by a node that was made meanwhile: it knows of them only that
 * there are some in its stripe. A node is there for pages and for fetches. */
static bool is_blind(const struct page *page)
{
    for (int i = 0; i < stage.page_count; i++) {
        const struct page *other = &stage.pages[i];
        if (other->table == page->table && other->range == page->range &&
            other->is_scan == page->is_scan &&
            (page->is_scan || other->partition == page->partition) &&
            (other->is_under_way || (other->is_cached && !is_touched(other, is_examined))))
            return false;
    }
    for (int i = 0; i < stage.touch_count; i++) {
        const struct touch *touch = &stage.touches[i];
        const uint32_t *stripes = stage.stripes[touch->table][touch->range];
        if (stripes[touch->place.at[0]] == page->stripe || stripes[VALUES] == page->stripe)
            return true;
    }
    return false;
}

/* A page that came beside the writes: kept if none of their keys is in what was asked for, however
 * far that was read, and their keys were known. */
static void take_beside(struct page *page)
{
    page_end(page);
    page->is_under_way = false;
    bool is_dirty = is_touched(page, is_wanted);
    if (!is_dirty && !page->is_blind) {
        page_landed(page);
        stage.kept_beside++;
    } else if (is_dirty) {
        struct shown shown = model_page(page);
        page->is_cut = shown.is_cut;
        page->last = shown.last;
        stage.beyond_cut += !is_touched(page, is_examined);
    } else {
        stage.blind++;
    }
    assert_int_equal(is_in_cache(page), page->is_cached);
    session_call_deinit(&page->call);
}

enum { BESIDE_MAX = 4 };

/* One that is not there, and that nobody fetches yet; NULL: not found. */
static struct page *page_beside(struct page *const *others, int count)
{
    struct page *page = any_page();
    for (int i = 0; i < count; i++)
        if (others[i] == page)
            return NULL;
    return page->is_cached ? NULL : page;
}

/* The writes have read at one delay from now, announce then, and are committed at two: so the first
 * half of the pages is announced to, the other half finds the announcement. */
static void disturb(struct page **beside, int count)
{
    int early = count / 2;
    lane_loop_advance(&stage.through.loop, DELAY_US / 2);
    for (int i = 0; i < count; i++) {
        if (i == early)
            lane_loop_advance(&stage.through.loop, DELAY_US * 3 / 4);
        page_submit(beside[i]);
        beside[i]->is_under_way = i < early;
    }
}

static void see_blind(struct page **beside, int count)
{
    for (int i = 0; i < count; i++)
        beside[i]->is_blind = !beside[i]->is_under_way && is_blind(beside[i]);
}

static void end_writes(struct write *writes, int count)
{
    for (int i = 0; i < count; i++) {
        struct session_call *call = &writes[i].call;
        ensure(lane_loop_run_until(&stage.through.loop, &call->is_complete));
        assert_int_equal(call->call.reply.status, writes[i].expected);
        stage.writes += writes[i].expected == STATUS_OK;
        stage.refused += writes[i].expected != STATUS_OK;
        session_call_deinit(call);
    }
}

static uint64_t number_in(struct bytes map, const char *name)
{
    struct bytes found;
    uint64_t number = 0;
    assert_true(item_find(map, bytes_text(name), &found));
    struct msgpack_cursor cursor = msgpack_cursor_of(found);
    assert_true(msgpack_read_uint(&cursor, &number));
    return number;
}

/* How many pages of each range Explain says that a PutItem or DeleteItem would drop. */
static void explain(const struct change *change, uint64_t pages[RANGES_MAX])
{
    struct session_call call;
    struct request part;
    struct bytes indexes;
    change_request(change, &part);
    part.condition = part.key_condition.values = BYTES_NONE;
    session_call_init(&call, OPERATION_EXPLAIN, NULL);
    call.call.request.parts = &part;
    call.call.request.part_count = 1;
    session_run(&stage.through, &call);
    assert_int_equal(call.call.reply.status, STATUS_OK);
    pages[0] = number_in(call.body, "Pages");
    assert_true(item_find(call.body, BYTES_LITERAL("Indexes"), &indexes));
    for (int i = 1; i < tables[change->table].range_count; i++)
        pages[i] = number_in(indexes, range_at(change->table, i)->name);
    session_call_deinit(&call);
}

/* Of a write that happens. */
static void check_explained(int table, const uint64_t pages[RANGES_MAX])
{
    for (int range = 0; range < tables[table].range_count; range++) {
        uint64_t touched = 0;
        for (int i = 0; i < stage.page_count; i++) {
            const struct page *page = &stage.pages[i];
            touched += page->table == table && page->range == range && page->is_cached &&
                       is_touched(page, is_examined);
        }
        assert_int_equal(pages[range], touched);
    }
    stage.explained++;
}

static void write_step(void)
{
    struct write writes[WRITES_MAX];
    struct page *beside[BESIDE_MAX];
    uint64_t pages[RANGES_MAX];
    int count = 1, beside_count = 0;
    write_make(&writes[0]);
    if (stage.is_slow && writes[0].operation == writes[0].changes[0].operation && roll(2) == 0)
        write_make_rival(&writes[count++], &writes[0]);
    bool is_disturbed = stage.is_slow && count == 1 && roll(2) == 0;
    for (int i = 0; is_disturbed && i < BESIDE_MAX; i++) {
        struct page *page = page_beside(beside, beside_count);
        if (page != NULL)
            beside[beside_count++] = page;
    }
    bool is_explained = count == 1 && (writes[0].operation == OPERATION_PUT_ITEM ||
                                       writes[0].operation == OPERATION_DELETE_ITEM);
    if (is_explained)
        explain(&writes[0].changes[0], pages);
    for (int i = 0; i < count; i++)
        write_send(&writes[i]);
    disturb(beside, beside_count);
    model_writes(writes, count);
    see_blind(beside, beside_count);
    if (is_explained && writes[0].expected == STATUS_OK)
        check_explained(writes[0].changes[0].table, pages);
    end_writes(writes, count);
    forget_items();
    for (int i = 0; i < beside_count; i++)
        take_beside(beside[i]);
    for (int i = 0; i < stage.page_count; i++)
        check_page(&stage.pages[i]);
}

/* ---- the stage ---- */

static void add_schema(struct text *text, const struct range *range)
{
    add(text, "'KeySchema': [{'AttributeName': '%s', 'KeyType': 'HASH'}",
        attributes[range->partition].name);
    if (range->sort != NONE)
        add(text, ", {'AttributeName': '%s', 'KeyType': 'RANGE'}", attributes[range->sort].name);
    add(text, "]");
}

static void add_indexes(struct text *text, const struct table_model *table, bool is_local)
{
    const char *comma = "";
    for (const struct range *index = table->ranges + 1; index->name != NULL; index++) {
        if (index->is_local != is_local)
            continue;
        if (*comma == '\0')
            add(text, ", '%s': [", is_local ? "LocalSecondaryIndexes" : "GlobalSecondaryIndexes");
        add(text, "%s{'IndexName': '%s', ", comma, index->name);
        add_schema(text, index);
        comma = ", ";
        if (index->included == NONE)
            add(text, ", 'Projection': {'ProjectionType': '%s'}}",
                index->is_all ? "ALL" : "KEYS_ONLY");
        else
            add(text, ", 'Projection': {'ProjectionType': 'INCLUDE', 'NonKeyAttributes': ['%s']}}",
                attributes[index->included].name);
    }
    if (*comma != '\0')
        add(text, "]");
}

static bool is_key(const struct table_model *table, int attribute)
{
    for (int i = 0; i < table->range_count; i++)
        if (table->ranges[i].partition == attribute || table->ranges[i].sort == attribute)
            return true;
    return false;
}

static void create(const struct table_model *table)
{
    struct text text = {.size = 0};
    struct session_call call;
    const char *comma = "";
    add(&text, "{'TableName': '%s', 'BillingMode': 'PAY_PER_REQUEST', 'AttributeDefinitions': [",
        table->name);
    for (int i = 0; i < ATTRIBUTES; i++) {
        if (!is_key(table, i))
            continue;
        add(&text, "%s{'AttributeName': '%s', 'AttributeType': '%s'}", comma, attributes[i].name,
            attributes[i].type);
        comma = ", ";
    }
    add(&text, "], ");
    add_schema(&text, &table->ranges[0]);
    add_indexes(&text, table, true);
    add_indexes(&text, table, false);
    add(&text, "}");
    session_call_init(&call, OPERATION_CREATE_TABLE, NULL);
    call.call.request.definition = session_plain(&stage.through, text.chars);
    session_run(&stage.through, &call);
    assert_int_equal(call.call.reply.status, STATUS_OK);
    session_call_deinit(&call);
}

/* Items with each value once, whatever the attribute. */
static void learn_items(int table, enum operation operation)
{
    for (int value = 0; value < VALUES; value++) {
        struct change change = {.operation = operation, .table = table};
        struct session_call call;
        for (int i = 0; i < ATTRIBUTES; i++)
            change.item.at[i] = value;
        session_call_init(&call, operation, NULL);
        change_request(&change, &call.call.request);
        session_run(&stage.past, &call);
        assert_int_equal(call.call.reply.status, STATUS_OK);
        session_call_deinit(&call);
    }
}

static int value_in(struct bytes item, int attribute)
{
    struct bytes found, sought;
    assert_true(item_find(item, bytes_text(attributes[attribute].name), &found));
    for (int value = 0; value < VALUES; value++) {
        struct text text = {.size = 0};
        add_value(&text, NULL, attribute, value);
        struct bytes one = text_item(&text);
        assert_true(item_find(one, bytes_text(attributes[attribute].name), &sought));
        if (bytes_equal(found, sought))
            return value;
    }
    fail();
    return ABSENT;
}

static void learn_segment(int table, int range, uint32_t segment, uint32_t segments)
{
    struct scan_order *order = &stage.orders[table][range];
    struct session_call call;
    uint32_t three, count = 0;
    session_call_init(&call, OPERATION_SCAN, tables[table].name);
    struct request *request = &call.call.request;
    request->index_name = range == 0 ? BYTES_NONE : bytes_text(range_at(table, range)->name);
    request->has_segment = true;
    request->segment = segment;
    request->segments = segments;
    session_run(&stage.past, &call);
    struct msgpack_cursor cursor = msgpack_cursor_of(call.body);
    assert_true(msgpack_read_array(&cursor, &three) && msgpack_read_array(&cursor, &count));
    for (uint32_t i = 0; i < count; i++) {
        struct bytes item;
        assert_true(msgpack_skip(&cursor, &item));
        int value = value_in(item, range_at(table, range)->partition);
        order->segment[segments][value] = (int)segment;
        if (segments == 1)
            order->place[value] = (int)i;
    }
    session_call_deinit(&call);
}

static void learn_order(int table)
{
    learn_items(table, OPERATION_PUT_ITEM);
    for (int range = 0; range < tables[table].range_count; range++)
        for (uint32_t segments = 1; segments <= SEGMENTS_MAX; segments++)
            for (uint32_t segment = 0; segment < segments; segment++)
                learn_segment(table, range, segment, segments);
    learn_items(table, OPERATION_DELETE_ITEM);
}

static void learn_stripes(int table)
{
    for (int range = 0; range < tables[table].range_count; range++)
        for (int value = 0; value <= VALUES; value++) {
            struct page page;
            struct text condition = {.size = 0}, values = {.size = 0};
            page_begin(&page, table, range, value == VALUES);
            if (value != VALUES) {
                int partition = range_at(table, range)->partition;
                add(&condition, "%s = :p", attributes[partition].name);
                add_value(&values, ":p", partition, value);
                page.request.key_condition.text = text_copy(&condition);
                page.request.key_condition.values = text_item(&values);
            }
            page_bind(&page);
            stage.stripes[table][range][value] = page.stripe;
        }
}

static uint64_t wall_ms(void)
{
    return 1700000000123;
}

static void stage_open(uint64_t seed, bool is_slow)
{
    char url[64];
    snprintf(url, sizeof url, is_slow ? "memory:?delay=%dus" : "memory:", DELAY_US);
    struct engine_options engine = {
        .store = {.url = bytes_text(url), .memory_bytes = 16 << 20, .sync = SYNC_NONE},
        .partitions = 4,
        .collection_bytes_max = 10ull << 30,
        .tables_max = 10,
        .wall_ms = wall_ms};
    struct cache_options options = {.memory_bytes = 32 << 20,
                                    .threads = 1,
                                    .seed = seed,
                                    .waiters_max = 100,
                                    .policies.fallback = {.is_enabled = true,
                                                          .item_ttl_ms = NEVER_MS,
                                                          .query_ttl_ms = NEVER_MS,
                                                          .negative_ttl_max_ms = NEVER_MS}};
    struct error error;
    ensure(engine_open(&engine, &stage.engine, &error) == STATUS_OK);
    struct backend *below = stage.engine;
    ensure(cache_open(&options, &below, &stage.cache, &error) == STATUS_OK);
    session_open(&stage.through, stage.cache);
    session_open(&stage.past, stage.engine);
    stage.random = seed * 0x9E3779B97F4A7C15 | 1;
    stage.is_slow = is_slow;
    stage.page_count = 0;
    memset(stage.is_there, 0, sizeof stage.is_there);
    memset(stage.is_item_cached, 0, sizeof stage.is_item_cached);
    for (int table = 0; table < TABLES; table++) {
        create(&tables[table]);
        learn_order(table);
        learn_stripes(table);
    }
}

static void stage_close(void)
{
    session_close(&stage.past);
    session_close(&stage.through);
    stage.cache->ops->close(&stage.cache);
}

static void exactly_the_pages_that_examined_a_written_key_are_dropped(void **state)
{
    (void)state;
    for (uint64_t seed = stage.first_seed; seed <= stage.last_seed; seed++) {
        print_message("seed %llu\n", (unsigned long long)seed);
        stage_open(seed, seed % 2 == 0);
        for (int step = 0; step < STEPS; step++) {
            for (int i = 0; i < 6; i++)
                read_page(any_page());
            read_item(roll(TABLES));
            write_step();
        }
        stage_close();
    }
    print_message("%zu pages read, %zu writes, %zu refused; %zu pages dropped, %zu of them had "
                  "changed, %zu left; beside a write %zu kept, %zu not kept for a key beyond "
                  "their end, %zu for they were blind; %zu "
                  "writes explained before\n",
                  stage.reads, stage.writes, stage.refused, stage.dropped, stage.changed,
                  stage.left, stage.kept_beside, stage.beyond_cut, stage.blind, stage.explained);
    for (int i = 0; i < EXCESSES; i++) {
        print_message("dropped all the same, %s: %zu\n", excess_names[i], stage.excesses[i]);
        assert_true(stage.excesses[i] > 0);
    }
    assert_true(stage.changed > 0 && stage.left > 0 && stage.refused > 0);
    assert_true(stage.kept_beside > 0 && stage.beyond_cut > 0 && stage.blind > 0 &&
                stage.explained > 0);
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(exactly_the_pages_that_examined_a_written_key_are_dropped),
    };
    stage.first_seed = argc == 3 ? strtoull(argv[1], NULL, 10) : 1;
    stage.last_seed = argc == 3 ? strtoull(argv[2], NULL, 10) : 16;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
