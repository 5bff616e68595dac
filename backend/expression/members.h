/* members.h - what is in the long sets of an item that is asked about them many times.
 *
 * Members stand one behind the other, in order, each as long as it likes: a set of 400 KB takes
 * half a millisecond to walk over, and an expression may ask 200 times. The first question marks
 * places of the set, by which the others find theirs. Threads: pure functions. */
#pragma once

#include "protocol/bytes.h"

#include <stddef.h>

enum {
    MARKS_MAX = 1280, /* one every 512 bytes of the longest item */
    MARKED_SETS_MAX = 128,
};

/* Of one item under one expression; what does not fit is walked over. */
struct marks {
    size_t set_count, mark_count;
    struct marked_set {
        const uint8_t *data;
        size_t first, marks, members;
    } sets[MARKED_SETS_MAX];
    uint32_t at[MARKS_MAX]; /* of a member, from the set's first */
};

static inline void marks_init(struct marks *marks)
{
    marks->set_count = marks->mark_count = 0;
}

/* Whether a set has a member.
 * set     its canonical members, without the head
 * wanted  canonical */
bool marks_have(struct marks *marks, struct bytes set, struct bytes wanted);

/* How many members it has. */
size_t marks_count(struct marks *marks, struct bytes set);

/* Members of sets and elements of lists, one by one; any order. */
bool members_have(struct bytes members, struct bytes wanted);
size_t members_count(struct bytes members);
