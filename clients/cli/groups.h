/* groups.h - the largest of many groups of items, in bounded memory.
 *
 * As long as there is room, each group is counted as it is. Beyond, a new group takes the place of
 * the smallest one and begins with its bytes: a group then has at least `bytes` - `too_many`, at
 * most `bytes`, and whatever is not there has fewer than the smallest that is. Source: A. Metwally,
 * D. Agrawal, A. El Abbadi, "Efficient Computation of Frequent and Top-k Elements in Data Streams",
 * 2005 (Space-Saving), with weights. One thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct group {
    char *name;     /* owned by the groups, NUL-terminated */
    uint64_t items; /* since it has its place */
    uint64_t bytes;
    uint64_t too_many; /* of the bytes, at most so many are of others */
    uint64_t hash;
    size_t heap_at;
};

struct groups;

/* room  how many are kept, 1 or more. NULL without memory. */
struct groups *groups_new(size_t room);
void groups_free(struct groups *groups); /* NULL is fine */

/* Adds to the group of a name. False without memory. */
bool groups_add(struct groups *groups, const char *name, uint64_t items, uint64_t bytes);
/* Adds a whole group, whose name is given once only: nothing of others is counted for it, and it is
 * left out if it is smaller than all that are kept. */
bool groups_add_whole(struct groups *groups, const char *name, uint64_t items, uint64_t bytes);

/* All that are kept, largest first. Nothing may be added any longer. `left_out`: there were more.
 */
const struct group *const *groups_sorted(struct groups *groups, size_t *count, bool *left_out);
