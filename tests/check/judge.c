/* judge.c - is there one order of all writes, that of their commit numbers, by which every read was
 * right?
 *
 * Events are looked at in the order of time. Each item has a floor: the latest commit that an
 * acknowledged write of it had, or that a read of it has shown, so far. A read has an instant, the
 * number of a commit: not before the floors, as they were when it began, of all that it examined,
 * and not after the first commit of a write that began when the read had ended. It is right if
 * what it saw is what there was at one such instant. Linear in the history, but for sorting. */
#include "tests/check/check.h"

#include <stdio.h>
#include <stdlib.h>

enum { FINDINGS_SHOWN = 5, CANDIDATES_MAX = 65536 };

void *history_grow(void *list, size_t count, size_t *room, size_t size)
{
    if (count < *room)
        return list;
    *room = *room == 0 ? 1024 : 2 * *room;
    list = realloc(list, *room * size);
    if (list == NULL)
        abort();
    return list;
}

/* An item: one generation of a slot. */
struct item {
    struct write *writes; /* by commit */
    size_t count, room;
    uint64_t tainted_at; /* begin of the first write whose outcome is unknown; UINT64_MAX: none */
    uint64_t floor;
};

struct slot {
    struct item *items; /* by generation */
    uint32_t count;
};

enum kind { KIND_WRITE_END, KIND_READ_BEGIN, KIND_READ_END };
struct event {
    uint64_t at;
    enum kind kind;
    uint32_t client;
    size_t number;
};

struct court {
    const struct history *histories;
    struct slot slots[SLOTS];
    uint64_t *floors[256]; /* of each read, by client: when it began */
    struct verdicts *verdicts;
};

/* ---- putting in order ---- */

static int by_commit(const void *a, const void *b)
{
    const struct write *x = a, *y = b;
    return (x->commit > y->commit) - (x->commit < y->commit);
}

/* At one time, ends come before begins: then neither is before the other, and less is demanded if
 * the begin is looked at first. */
static int by_time(const void *a, const void *b)
{
    const struct event *x = a, *y = b;
    if (x->at != y->at)
        return x->at < y->at ? -1 : 1;
    return (y->kind == KIND_READ_BEGIN) - (x->kind == KIND_READ_BEGIN);
}

static struct item *item_of(struct court *court, unsigned slot, uint32_t generation)
{
    struct slot *at = &court->slots[slot];
    if (generation >= at->count) {
        at->items = realloc(at->items, (generation + 1) * sizeof *at->items);
        if (at->items == NULL)
            abort();
        for (; at->count <= generation; at->count++)
            at->items[at->count] = (struct item){.tainted_at = UINT64_MAX};
    }
    return &at->items[generation];
}

static void take_write(struct court *court, const struct write *write)
{
    struct item *item = item_of(court, write->slot, write->generation);
    court->verdicts->writes++;
    if (write->is_unknown) {
        court->verdicts->unknown++;
        if (write->begin < item->tainted_at)
            item->tainted_at = write->begin;
        return;
    }
    item->writes = history_grow(item->writes, item->count, &item->room, sizeof *item->writes);
    item->writes[item->count++] = *write;
}

/* The generation that a read which ended then can be judged by; NULL: none was written yet. */
static struct item *judged_item(struct court *court, unsigned slot, uint64_t end,
                                uint32_t *generation)
{
    struct slot *at = &court->slots[slot];
    for (*generation = 0; *generation < at->count; ++*generation)
        if (at->items[*generation].tainted_at > end)
            return &at->items[*generation];
    return NULL;
}

/* ---- what a read examined ---- */

static bool is_examined(const struct court *court, const struct read *read, uint32_t client,
                        unsigned slot)
{
    const struct seen *seen = court->histories[client].seen + read->seen_at;
    switch ((enum scope)read->scope) {
    case SCOPE_PARTITION:
        return slot / SORTS == read->of && slot % SORTS >= read->first;
    case SCOPE_GROUP:
    case SCOPE_TABLE:
        return true;
    default:
        for (uint32_t i = 0; i < read->seen_count; i++)
            if (seen[i].slot == slot)
                return true;
        return false;
    }
}

/* What a read that examines a write's item shows of it: its id, or 0. */
static uint64_t shown(const struct read *read, const struct write *write)
{
    if (write == NULL || write->is_delete)
        return 0;
    if (read->scope == SCOPE_GROUP && write->group != read->of)
        return 0;
    return write->id;
}

static uint64_t id_seen(const struct court *court, const struct read *read, uint32_t client,
                        unsigned slot, uint32_t generation)
{
    const struct seen *seen = court->histories[client].seen + read->seen_at;
    for (uint32_t i = 0; i < read->seen_count; i++)
        if (seen[i].slot == slot && seen[i].generation == generation)
            return seen[i].id;
    return 0;
}

/* ---- judging ---- */

/* An item while the instant moves on. */
struct track {
    struct item *item;
    unsigned slot;
    uint64_t seen;
    size_t next; /* the first write behind the instant */
    bool is_right;
};

static const struct write *track_write(const struct track *track)
{
    return track->next == 0 ? NULL : &track->item->writes[track->next - 1];
}

static size_t first_after(const struct item *item, uint64_t commit)
{
    size_t low = 0, high = item->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (item->writes[middle].commit <= commit)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static uint64_t raise_floor(struct court *court, const struct read *read, uint32_t client)
{
    uint64_t floor = 0;
    for (unsigned slot = 0; slot < SLOTS; slot++) {
        uint32_t generation;
        if (!is_examined(court, read, client, slot))
            continue;
        struct item *item = judged_item(court, slot, read->end, &generation);
        if (item != NULL && item->floor > floor)
            floor = item->floor;
    }
    return floor;
}

static size_t begin_tracks(struct court *court, const struct read *read, uint32_t client,
                           uint64_t floor, struct track tracks[SLOTS], size_t *wrong)
{
    size_t count = 0;
    *wrong = 0;
    for (unsigned slot = 0; slot < SLOTS; slot++) {
        uint32_t generation;
        struct track *track = &tracks[count];
        if (!is_examined(court, read, client, slot))
            continue;
        track->item = judged_item(court, slot, read->end, &generation);
        if (track->item == NULL)
            continue;
        /* A single item of a generation that has been given up meanwhile. */
        if (read->scope <= SCOPE_TOGETHER) {
            const struct seen *seen = court->histories[client].seen + read->seen_at;
            bool is_it = false;
            for (uint32_t i = 0; i < read->seen_count; i++)
                is_it |= seen[i].slot == slot && seen[i].generation == generation;
            if (!is_it)
                continue;
        }
        track->slot = slot;
        track->seen = id_seen(court, read, client, slot, generation);
        track->next = first_after(track->item, floor);
        track->is_right = shown(read, track_write(track)) == track->seen;
        *wrong += !track->is_right;
        count++;
    }
    return count;
}

/* Moves to the next commit of any item. False when there is none before the read's end. */
static bool move_on(const struct read *read, struct track *tracks, size_t count, size_t *wrong)
{
    struct track *next = NULL;
    for (size_t i = 0; i < count; i++)
        if (tracks[i].next < tracks[i].item->count &&
            (next == NULL ||
             tracks[i].item->writes[tracks[i].next].commit < next->item->writes[next->next].commit))
            next = &tracks[i];
    if (next == NULL || next->item->writes[next->next].begin > read->end)
        return false;
    uint64_t commit = next->item->writes[next->next].commit;
    for (size_t i = 0; i < count; i++) { /* those of a transaction together */
        struct track *track = &tracks[i];
        if (track->next >= track->item->count || track->item->writes[track->next].commit != commit)
            continue;
        *wrong -= !track->is_right;
        track->next++;
        track->is_right = shown(read, track_write(track)) == track->seen;
        *wrong += !track->is_right;
    }
    return true;
}

static void show_finding(const struct court *court, const struct read *read, uint32_t client,
                         uint64_t floor, const struct track *tracks, size_t count)
{
    static const char *const scopes[] = {"item", "items together", "partition", "group", "table"};
    static const char *const verdicts[] = {"none", "hit", "miss", "bypass", "stale"};
    if (court->verdicts->findings > FINDINGS_SHOWN)
        return;
    printf("FINDING: client %u%s read a %s (%u, from %u), a %s, from %llu to %llu ns: no instant "
           "from commit %llu on explains it\n",
           client, read->is_http ? " (HTTP)" : "", scopes[read->scope], read->of, read->first,
           verdicts[read->verdict % 5], (unsigned long long)read->begin,
           (unsigned long long)read->end, (unsigned long long)floor);
    for (size_t i = 0; i < count; i++) {
        size_t at = first_after(tracks[i].item, floor);
        printf("  slot %2u: saw %llu, floor %llu;", tracks[i].slot,
               (unsigned long long)tracks[i].seen, (unsigned long long)tracks[i].item->floor);
        for (size_t k = at > 2 ? at - 2 : 0; k < tracks[i].item->count && k < at + 3; k++) {
            const struct write *write = &tracks[i].item->writes[k];
            printf(" %s%llu@%llu[%llu..%llu]g%u", write->is_delete ? "-" : "",
                   (unsigned long long)write->id, (unsigned long long)write->commit,
                   (unsigned long long)write->begin, (unsigned long long)write->end, write->group);
        }
        printf("\n");
    }
}

static void judge_read(struct court *court, const struct read *read, uint32_t client,
                       uint64_t floor)
{
    struct track tracks[SLOTS];
    size_t wrong, count = begin_tracks(court, read, client, floor, tracks, &wrong);
    court->verdicts->reads++;
    court->verdicts->pages += read->scope >= SCOPE_TOGETHER;
    court->verdicts->hits += read->verdict == ANSWER_HIT;
    while (wrong != 0 && move_on(read, tracks, count, &wrong))
        continue;
    if (wrong != 0) {
        court->verdicts->findings++;
        (void)begin_tracks(court, read, client, floor, tracks, &wrong);
        show_finding(court, read, client, floor, tracks, count);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        const struct write *write = track_write(&tracks[i]);
        if (write != NULL && write->commit > tracks[i].item->floor)
            tracks[i].item->floor = write->commit;
    }
}

static void look_at(struct court *court, const struct event *event)
{
    const struct history *history = &court->histories[event->client];
    if (event->kind == KIND_WRITE_END) {
        const struct write *write = &history->writes[event->number];
        struct item *item = item_of(court, write->slot, write->generation);
        if (write->commit > item->floor)
            item->floor = write->commit;
    } else if (event->kind == KIND_READ_BEGIN) {
        court->floors[event->client][event->number] =
            raise_floor(court, &history->reads[event->number], event->client);
    } else {
        judge_read(court, &history->reads[event->number], event->client,
                   court->floors[event->client][event->number]);
    }
}

static struct event *collect_events(struct court *court, unsigned count, size_t *out)
{
    size_t total = 0, at = 0;
    for (unsigned c = 0; c < count; c++)
        total += court->histories[c].write_count + 2 * court->histories[c].read_count;
    struct event *events = malloc((total + 1) * sizeof *events);
    if (events == NULL)
        abort();
    for (unsigned c = 0; c < count; c++) {
        const struct history *history = &court->histories[c];
        court->floors[c] = calloc(history->read_count + 1, sizeof(uint64_t));
        for (size_t i = 0; i < history->write_count; i++) {
            take_write(court, &history->writes[i]);
            if (!history->writes[i].is_unknown)
                events[at++] = (struct event){history->writes[i].end, KIND_WRITE_END, c, i};
        }
        for (size_t i = 0; i < history->read_count; i++) {
            events[at++] = (struct event){history->reads[i].begin, KIND_READ_BEGIN, c, i};
            events[at++] = (struct event){history->reads[i].end, KIND_READ_END, c, i};
        }
    }
    qsort(events, at, sizeof *events, by_time);
    *out = at;
    return events;
}

void judge(const struct history *histories, unsigned count, struct verdicts *out)
{
    static struct court court;
    size_t event_count;
    *out = (struct verdicts){0};
    court = (struct court){.histories = histories, .verdicts = out};
    struct event *events = collect_events(&court, count, &event_count);
    for (unsigned slot = 0; slot < SLOTS; slot++)
        for (uint32_t i = 0; i < court.slots[slot].count; i++)
            if (court.slots[slot].items[i].count != 0)
                qsort(court.slots[slot].items[i].writes, court.slots[slot].items[i].count,
                      sizeof(struct write), by_commit);
    for (size_t i = 0; i < event_count; i++)
        look_at(&court, &events[i]);
    free(events);
    for (unsigned c = 0; c < count; c++)
        free(court.floors[c]);
    for (unsigned slot = 0; slot < SLOTS; slot++) {
        for (uint32_t i = 0; i < court.slots[slot].count; i++)
            free(court.slots[slot].items[i].writes);
        free(court.slots[slot].items);
    }
}
