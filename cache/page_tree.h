/* page_tree.h - pages of one node, to be found by a sort key that their interval holds.
 *
 * A treap, ordered by where intervals begin, each place knowing which interval below it ends last
 * (Cormen et al., Introduction to Algorithms, "Interval trees"; Seidel and Aragon 1996): finding
 * one page that holds a key takes logarithmic time, whatever the pages are. Priorities are the
 * pages' hashes, which nobody outside can choose.
 * Threads: under the shard's lock. */
#pragma once

#include "cache/entry.h"

enum { PAGE_TREE_MAX = 65536 }; /* further pages of a partition are not cached */

struct page_place; /* page_tree.c */

struct page_tree {
    struct page_place *places; /* heap of the memory's */
    uint32_t room, count;
    uint32_t used; /* places that were ever taken */
    uint32_t root, first_free;
};

/* Bytes charged for it. */
size_t page_tree_bytes(const struct page_tree *tree);
void page_tree_init(struct page_tree *tree);
void page_tree_deinit(struct page_tree *tree, struct memory *memory);

/* Takes a page in; `slot` is where it is until it is removed. False without memory. */
MUST_CHECK bool page_tree_add(struct page_tree *tree, struct memory *memory,
                              const struct entry *page, uint32_t *slot);
/* page  in `slot` */
void page_tree_remove(struct page_tree *tree, struct memory *memory, const struct entry *page,
                      uint32_t slot);
/* `copy` takes the place of `page`. */
void page_tree_moved(struct page_tree *tree, struct memory *memory, const struct entry *page,
                     const struct entry *copy, uint32_t slot);
/* How many pages hold the key, and do not hold `except` if that is given. */
uint32_t page_tree_count(const struct page_tree *tree, struct memory *memory, struct bytes sort,
                         struct bytes except);
/* Any page whose interval holds the key, or NULL. sort  not given: any page */
struct entry *page_tree_find(const struct page_tree *tree, struct memory *memory,
                             struct bytes sort);
