#include "cache/page_tree.h"

#include "protocol/ensure.h"

enum { ROOM_MIN = 2 };

#define NOWHERE UINT32_MAX

struct page_place {
    uint32_t page; /* handle */
    uint32_t priority;
    uint32_t left, right, parent; /* slots; the next free one is in `left` */
    uint32_t latest;              /* of it and what is below: the slot whose interval ends last */
};

size_t page_tree_bytes(const struct page_tree *tree)
{
    return tree->room * sizeof *tree->places;
}

void page_tree_init(struct page_tree *tree)
{
    *tree = (struct page_tree){.root = NOWHERE, .first_free = NOWHERE};
}

void page_tree_deinit(struct page_tree *tree, struct memory *memory)
{
    memory_heap_free(memory, tree->places, page_tree_bytes(tree));
    page_tree_init(tree);
}

/* ---- intervals ---- */

static struct key_interval interval_at(const struct page_tree *tree, struct memory *memory,
                                       uint32_t slot)
{
    return page_interval(memory_at(memory, tree->places[slot].page));
}

/* True if `a` ends after `b`; of those that end together the later slot does, so that the latest of
 * some is the same however they hang. */
static bool ends_later(const struct page_tree *tree, struct memory *memory, uint32_t a, uint32_t b)
{
    struct bytes end_a = interval_at(tree, memory, a).high;
    struct bytes end_b = interval_at(tree, memory, b).high;
    int order = bytes_given(end_b) - bytes_given(end_a);
    if (bytes_given(end_a) && bytes_given(end_b))
        order = bytes_compare(end_a, end_b);
    return order > 0 || (order == 0 && a > b);
}

/* False if it was known. */
static bool find_latest(struct page_tree *tree, struct memory *memory, uint32_t slot)
{
    struct page_place *place = &tree->places[slot];
    const uint32_t below[2] = {place->left, place->right};
    uint32_t latest = slot;
    for (int i = 0; i < 2; i++)
        if (below[i] != NOWHERE && ends_later(tree, memory, tree->places[below[i]].latest, latest))
            latest = tree->places[below[i]].latest;
    bool is_new = latest != place->latest;
    place->latest = latest;
    return is_new;
}

/* As far as it makes a difference. */
static void find_latest_upwards(struct page_tree *tree, struct memory *memory, uint32_t slot)
{
    while (slot != NOWHERE && find_latest(tree, memory, slot))
        slot = tree->places[slot].parent;
}

/* ---- turning ---- */

/* Where the tree holds `slot`: a place's link, or the root. */
static uint32_t *link_to(struct page_tree *tree, uint32_t slot)
{
    uint32_t parent = tree->places[slot].parent;
    if (parent == NOWHERE)
        return &tree->root;
    struct page_place *above = &tree->places[parent];
    return above->left == slot ? &above->left : &above->right;
}

/* Exchanges a place with its parent. */
static void turn_up(struct page_tree *tree, struct memory *memory, uint32_t slot)
{
    struct page_place *places = tree->places, *place = &places[slot];
    uint32_t parent = place->parent;
    struct page_place *above = &places[parent];
    *link_to(tree, parent) = slot;
    place->parent = above->parent;
    above->parent = slot;
    uint32_t *inner = above->left == slot ? &place->right : &place->left;
    uint32_t *gap = above->left == slot ? &above->left : &above->right;
    *gap = *inner;
    if (*inner != NOWHERE)
        places[*inner].parent = parent;
    *inner = parent;
    (void)find_latest(tree, memory, parent);
    (void)find_latest(tree, memory, slot);
}

/* ---- places ---- */

static bool grow(struct page_tree *tree, struct memory *memory)
{
    size_t room = tree->room == 0 ? ROOM_MIN : 2 * (size_t)tree->room;
    if (room > PAGE_TREE_MAX)
        return false;
    struct page_place *places = memory_heap_alloc(memory, room * sizeof *places);
    if (places == NULL)
        return false;
    if (tree->used != 0)
        memcpy(places, tree->places, tree->used * sizeof *places);
    memory_heap_free(memory, tree->places, page_tree_bytes(tree));
    tree->places = places;
    tree->room = (uint32_t)room;
    return true;
}

static bool take_place(struct page_tree *tree, struct memory *memory, uint32_t *slot)
{
    *slot = tree->first_free;
    if (*slot != NOWHERE) {
        tree->first_free = tree->places[*slot].left;
        return true;
    }
    if (tree->used == tree->room && !grow(tree, memory))
        return false;
    *slot = tree->used++;
    return true;
}

/* Hangs the place below whatever its interval's begin leads to. */
static void hang(struct page_tree *tree, struct memory *memory, uint32_t slot, struct bytes low)
{
    uint32_t *link = &tree->root, parent = NOWHERE;
    while (*link != NOWHERE) {
        parent = *link;
        bool is_before = bytes_compare(low, interval_at(tree, memory, parent).low) < 0;
        link = is_before ? &tree->places[parent].left : &tree->places[parent].right;
    }
    *link = slot;
    tree->places[slot].parent = parent;
}

bool page_tree_add(struct page_tree *tree, struct memory *memory, const struct entry *page,
                   uint32_t *slot)
{
    if (!take_place(tree, memory, slot))
        return false;
    struct page_place *place = &tree->places[*slot];
    *place = (struct page_place){.page = memory_handle(memory, page),
                                 .priority = page->hash * 2654435761u, /* its top bits are shared */
                                 .left = NOWHERE,
                                 .right = NOWHERE,
                                 .latest = *slot};
    hang(tree, memory, *slot, page_interval(page).low);
    while (place->parent != NOWHERE && tree->places[place->parent].priority < place->priority)
        turn_up(tree, memory, *slot);
    find_latest_upwards(tree, memory, place->parent);
    tree->count++;
    return true;
}

void page_tree_remove(struct page_tree *tree, struct memory *memory, const struct entry *page,
                      uint32_t slot)
{
    struct page_place *places = tree->places, *place = &places[slot];
    ensure(slot < tree->used && memory_at(memory, place->page) == page);
    /* Down, until there is one below at most. */
    while (place->left != NOWHERE && place->right != NOWHERE)
        turn_up(tree, memory,
                places[place->left].priority > places[place->right].priority ? place->left
                                                                             : place->right);
    uint32_t below = place->left != NOWHERE ? place->left : place->right;
    *link_to(tree, slot) = below;
    if (below != NOWHERE)
        places[below].parent = place->parent;
    find_latest_upwards(tree, memory, place->parent);
    place->left = tree->first_free;
    tree->first_free = slot;
    tree->count--;
}

void page_tree_moved(struct page_tree *tree, struct memory *memory, const struct entry *page,
                     const struct entry *copy, uint32_t slot)
{
    ensure(slot < tree->used && memory_at(memory, tree->places[slot].page) == page);
    tree->places[slot].page = memory_handle(memory, copy);
}

static bool ends_behind(const struct page_tree *tree, struct memory *memory, uint32_t slot,
                        struct bytes sort)
{
    struct bytes end = interval_at(tree, memory, tree->places[slot].latest).high;
    return !bytes_given(end) || bytes_compare(end, sort) > 0;
}

/* If an interval on the left ends after the key and none there holds it, none on the right does:
 * that one begins after the key, and so do all further ones. The last one on the way, for what is
 * taken out above others has to be turned down past them. */
struct entry *page_tree_find(const struct page_tree *tree, struct memory *memory, struct bytes sort)
{
    struct entry *found = NULL;
    uint32_t slot = tree->root;
    while (slot != NOWHERE) {
        const struct page_place *place = &tree->places[slot];
        struct key_interval interval = interval_at(tree, memory, slot);
        if (!bytes_given(sort) || key_interval_holds(&interval, sort))
            found = memory_at(memory, place->page);
        bool is_left = place->left != NOWHERE &&
                       (!bytes_given(sort) || ends_behind(tree, memory, place->left, sort));
        slot = is_left ? place->left : place->right;
    }
    return found;
}

/* In order of where intervals begin, up by the parents: no recursion, nothing to allocate. */
uint32_t page_tree_count(const struct page_tree *tree, struct memory *memory, struct bytes sort,
                         struct bytes except)
{
    uint32_t count = 0, slot = tree->root, from = NOWHERE;
    while (slot != NOWHERE) {
        const struct page_place *place = &tree->places[slot];
        struct key_interval interval = interval_at(tree, memory, slot);
        uint32_t next = place->parent;
        bool is_down = from == place->parent;
        bool is_left_done = from == place->left && from != NOWHERE;
        if (is_down && place->left != NOWHERE && ends_behind(tree, memory, place->left, sort)) {
            next = place->left;
        } else if (is_down || is_left_done) {
            bool is_left_out = bytes_given(except) && key_interval_holds(&interval, except);
            count += key_interval_holds(&interval, sort) && !is_left_out;
            if (place->right != NOWHERE && bytes_compare(interval.low, sort) <= 0)
                next = place->right;
        }
        from = slot;
        slot = next;
    }
    return count;
}
