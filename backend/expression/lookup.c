#include "backend/expression/lookup.h"

#include "backend/expression/evaluate.h"

enum { LONG_ITEM = 4096 }; /* bytes; a shorter one is walked over again and again faster */

/* ---- one by one ---- */

static bool list_find(struct bytes list, uint32_t index, struct bytes *out)
{
    struct msgpack_cursor cursor = msgpack_cursor_of(list);
    uint32_t count = 0;
    if (!msgpack_read_array(&cursor, &count) || index >= count)
        return false;
    for (uint32_t i = 0; i < index; i++)
        if (!msgpack_skip(&cursor, NULL))
            return false;
    return msgpack_skip(&cursor, out);
}

static bool is_map(struct bytes value)
{
    struct msgpack_head head;
    enum value_type type = VALUE_NULL;
    return value_open(value, &head, &type) && type == VALUE_M;
}

static bool path_find(const struct path_step *path, struct bytes item, struct bytes *out)
{
    struct bytes at = item;
    for (const struct path_step *step = path; step != NULL; step = step->next) {
        bool is_there = bytes_given(step->name)
                            ? is_map(at) && item_find(at, step->name, &at)
                            : bytes_given(at) && list_find(at, step->index, &at);
        if (!is_there)
            return false;
    }
    *out = at;
    return true;
}

/* ---- all in one walk ---- */

/* Those paths of a list, one behind the other, that have led to the same value so far. */
struct group {
    const struct path_list *list;
    size_t begin, end;
};

static void find_below(struct group group, struct bytes value);

/* The paths at the front whose next step is the same. They are taken out. */
static struct group take_group(struct group *from)
{
    const struct path_step **steps = from->list->steps;
    struct group taken = {from->list, from->begin, from->begin + 1};
    const struct path_step *first = steps[taken.begin];
    while (taken.end != from->end && first->index == steps[taken.end]->index &&
           bytes_equal(first->name, steps[taken.end]->name))
        taken.end++;
    from->begin = taken.end;
    return taken;
}

static void find_next(struct group group, struct bytes value)
{
    for (size_t i = group.begin; i != group.end; i++)
        group.list->steps[i] = group.list->steps[i]->next;
    find_below(group, value);
}

/* Pairs and paths are both sorted by name. */
static void find_names(struct group group, struct msgpack_cursor *cursor, uint32_t pairs)
{
    const struct path_step **steps = group.list->steps;
    struct bytes name, value;
    for (; pairs != 0 && group.begin != group.end; pairs--) {
        if (!msgpack_read_str(cursor, &name) || !msgpack_skip(cursor, &value))
            return;
        while (group.begin != group.end && bytes_compare(steps[group.begin]->name, name) < 0)
            group.begin++;
        if (group.begin != group.end && bytes_equal(steps[group.begin]->name, name))
            find_next(take_group(&group), value);
    }
}

static void find_elements(struct group group, struct msgpack_cursor *cursor, uint32_t elements)
{
    struct bytes value;
    for (uint32_t i = 0; i < elements && group.begin != group.end; i++) {
        if (!msgpack_skip(cursor, &value))
            return;
        if (group.list->steps[group.begin]->index == i)
            find_next(take_group(&group), value);
    }
}

/* In their order come paths that end here, then names, then indexes. As deep as paths are. */
static void find_below(struct group group, struct bytes value)
{
    const struct path_step **steps = group.list->steps;
    struct group names;
    for (; group.begin != group.end && steps[group.begin] == NULL; group.begin++)
        group.list->found[group.begin] = value;
    names = group;
    while (group.begin != group.end && bytes_given(steps[group.begin]->name))
        group.begin++;
    names.end = group.begin;
    struct msgpack_cursor cursor = msgpack_cursor_of(value);
    struct msgpack_head head;
    if (!msgpack_read(&cursor, &head))
        return;
    if (head.kind == MSGPACK_MAP)
        find_names(names, &cursor, head.count);
    else if (head.kind == MSGPACK_ARRAY)
        find_elements(group, &cursor, head.count);
}

/* ---- both ---- */

struct subject subject_of(struct bytes item, const struct path_list *paths)
{
    struct subject subject = {.item = item};
    if (LIKELY(paths == NULL || !bytes_given(item) || item.size < LONG_ITEM))
        return subject;
    for (size_t i = 0; i < paths->count; i++) {
        paths->steps[i] = paths->paths[i]->path;
        paths->found[i] = BYTES_NONE;
    }
    find_below((struct group){paths, 0, paths->count}, item);
    subject.found = paths->found;
    return subject;
}

bool subject_find(const struct subject *subject, const struct expression *path, struct bytes *out)
{
    if (LIKELY(subject->found == NULL))
        return path_find(path->path, subject->item, out);
    *out = subject->found[path->place];
    return bytes_given(*out);
}
