#include "backend/expression/members.h"

#include "backend/expression/evaluate.h"

enum {
    MARK_BYTES = 512,
    SHORT_SET = 2 * MARK_BYTES, /* is walked over as fast */
};

/* ---- one by one ---- */

bool members_have(struct bytes members, struct bytes wanted)
{
    struct msgpack_cursor cursor = msgpack_cursor_of(members);
    struct bytes member;
    while (cursor.at != cursor.end && msgpack_skip(&cursor, &member))
        if (bytes_equal(member, wanted))
            return true;
    return false;
}

size_t members_count(struct bytes members)
{
    struct msgpack_cursor cursor = msgpack_cursor_of(members);
    size_t count = 0;
    while (cursor.at != cursor.end && msgpack_skip(&cursor, NULL))
        count++;
    return count;
}

/* ---- by marks ---- */

static const struct marked_set *mark(struct marks *marks, struct bytes set)
{
    if (marks->set_count == MARKED_SETS_MAX ||
        marks->mark_count + set.size / MARK_BYTES + 1 > MARKS_MAX)
        return NULL;
    struct marked_set *marked = &marks->sets[marks->set_count++];
    *marked = (struct marked_set){.data = set.data, .first = marks->mark_count};
    struct msgpack_cursor cursor = msgpack_cursor_of(set);
    size_t next = 0;
    for (; cursor.at != cursor.end; marked->members++) {
        size_t at = (size_t)(cursor.at - set.data);
        if (at >= next) {
            marks->at[marked->first + marked->marks++] = (uint32_t)at;
            next = at + MARK_BYTES;
        }
        if (!msgpack_skip(&cursor, NULL))
            break;
    }
    marks->mark_count += marked->marks;
    return marked;
}

/* NULL: it is to be walked over. */
static const struct marked_set *find(struct marks *marks, struct bytes set)
{
    if (set.size <= SHORT_SET)
        return NULL;
    for (size_t i = 0; i < marks->set_count; i++)
        if (marks->sets[i].data == set.data)
            return &marks->sets[i];
    return mark(marks, set);
}

/* Whether the member at a mark comes behind `wanted`, or has another type than it. */
static bool is_behind(struct bytes set, uint32_t at, struct bytes wanted)
{
    struct msgpack_cursor cursor = msgpack_cursor_of(bytes_of(set.data + at, set.size - at));
    struct bytes member;
    int order = 0;
    return !msgpack_skip(&cursor, &member) || !value_compare(member, wanted, &order) || order > 0;
}

bool marks_have(struct marks *marks, struct bytes set, struct bytes wanted)
{
    const struct marked_set *marked = find(marks, set);
    if (marked == NULL)
        return members_have(set, wanted);
    const uint32_t *at = &marks->at[marked->first];
    size_t low = 0, high = marked->marks; /* the first mark behind it is in low..high */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (is_behind(set, at[middle], wanted))
            high = middle;
        else
            low = middle + 1;
    }
    if (low == 0)
        return false;
    size_t begin = at[low - 1], end = low == marked->marks ? set.size : at[low];
    return members_have(bytes_of(set.data + begin, end - begin), wanted);
}

size_t marks_count(struct marks *marks, struct bytes set)
{
    const struct marked_set *marked = find(marks, set);
    return marked == NULL ? members_count(set) : marked->members;
}
