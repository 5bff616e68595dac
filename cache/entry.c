#include "cache/entry.h"

#include "protocol/ensure.h"

_Static_assert(offsetof(struct chunk, flags) == SLOT_FLAGS_AT, "flags of every slot");

uint8_t *entry_key_begin(uint8_t *key, enum entry_kind kind, uint32_t table_id)
{
    key[0] = (uint8_t)kind;
    memcpy(key + 1, &table_id, sizeof table_id);
    return key + ENTRY_KEY_PREFIX;
}

static size_t chunk_room(const struct memory *memory)
{
    return memory_chunk_size(memory) - offsetof(struct chunk, data);
}

/* What stands between key and body. */
static size_t front_size(const struct entry *entry)
{
    if (entry_kind(entry) != ENTRY_PAGE)
        return 0;
    struct page_head head = page_head_of(entry);
    return sizeof head + head.low_size + (head.high_size == PAGE_HIGH_NONE ? 0u : head.high_size);
}

static size_t front_size_needed(const struct entry_source *source)
{
    if (entry_kind(source->probe) != ENTRY_PAGE)
        return 0;
    return sizeof(struct page_head) + source->interval.low.size + source->interval.high.size;
}

/* Where a body lies: all of it in the head, or the end of it in chunks, which are full but for the
 * last. So little more than the head's slot is rounded. */
struct split {
    size_t head_slot; /* bytes wanted */
    size_t in_head;   /* of the body */
    size_t chunks;
};

/* The handle of the first chunk follows key and front, at an address where it is read whole. */
static size_t aligned_for_handle(size_t size)
{
    return (size + sizeof(uint32_t) - 1) & ~(sizeof(uint32_t) - 1);
}

static struct split split_of(const struct memory *memory, size_t head_size, size_t body_size)
{
    size_t head_max = memory_chunk_size(memory), room = chunk_room(memory);
    if (head_size + body_size <= head_max)
        return (struct split){.head_slot = head_size + body_size, .in_head = body_size};
    if (body_size == 0) /* a long key */
        return (struct split){.head_slot = head_size};
    head_size = aligned_for_handle(head_size) + sizeof(uint32_t);
    size_t head_room = head_size < head_max ? head_max - head_size : 0;
    size_t chunks = body_size <= head_room ? 1 : (body_size - head_room + room - 1) / room;
    size_t in_head = body_size > chunks * room ? body_size - chunks * room : 0;
    return (struct split){.head_slot = head_size + in_head, .in_head = in_head, .chunks = chunks};
}

/* Bytes of slots. */
static size_t split_size(const struct memory *memory, struct split split)
{
    return memory_slot_size(memory, split.head_slot) + split.chunks * memory_chunk_size(memory);
}

size_t entry_size_needed(const struct memory *memory, const struct entry_source *source)
{
    size_t head_size = ENTRY_HEADER + (size_t)source->probe->key_size + front_size_needed(source);
    if (source->body.size > ENTRY_VALUE_MAX || source->interval.low.size >= PAGE_HIGH_NONE ||
        source->interval.high.size >= PAGE_HIGH_NONE ||
        aligned_for_handle(head_size) + sizeof(uint32_t) > memory_slot_max(memory))
        return 0;
    return split_size(memory, split_of(memory, head_size, source->body.size));
}

static struct split split_of_entry(const struct memory *memory, const struct entry *entry)
{
    size_t head_size = ENTRY_HEADER + (size_t)entry->key_size + front_size(entry);
    return split_of(memory, head_size, entry_value_size(entry));
}

size_t entry_size(const struct memory *memory, const struct entry *entry)
{
    return split_size(memory, split_of_entry(memory, entry));
}

static const uint8_t *front_of(const struct entry *entry)
{
    return entry->key + entry->key_size;
}

static uint8_t *front_write(uint8_t *at, const struct entry_source *source)
{
    const struct key_interval *interval = &source->interval;
    struct page_head head = {
        .count = source->count,
        .read_bytes = source->read_bytes,
        .low_size = (uint16_t)interval->low.size,
        .high_size =
            bytes_given(interval->high) ? (uint16_t)interval->high.size : (uint16_t)PAGE_HIGH_NONE,
    };
    memcpy(at, &head, sizeof head);
    at += sizeof head;
    if (interval->low.size != 0)
        memcpy(at, interval->low.data, interval->low.size);
    at += interval->low.size;
    if (interval->high.size != 0)
        memcpy(at, interval->high.data, interval->high.size);
    return at + interval->high.size;
}

static _Atomic(uint32_t) *chunks_of(const struct entry *entry)
{
    size_t head_size = ENTRY_HEADER + (size_t)entry->key_size + front_size(entry);
    return (_Atomic(uint32_t) *)(void *)((uint8_t *)entry + aligned_for_handle(head_size));
}

static uint32_t first_chunk(const struct entry *entry)
{
    return atomic_load_explicit(chunks_of(entry), memory_order_acquire);
}

static uint32_t next_chunk(const struct chunk *chunk)
{
    return atomic_load_explicit((_Atomic(uint32_t) *)&chunk->next, memory_order_acquire);
}

static void chunks_drop(struct memory *memory, uint32_t handle)
{
    while (handle != 0) {
        struct chunk *chunk = memory_at(memory, handle);
        handle = next_chunk(chunk);
        memory_sub(&memory->live, memory_free(memory, chunk));
    }
}

/* Builds the list of chunks of the body's end from its end, so that every chunk knows the next. */
static bool chunks_make(struct memory *memory, const struct entry *owner, struct bytes body,
                        const struct split *split, uint32_t *first)
{
    size_t room = chunk_room(memory), end = body.size;
    uint32_t next = 0;
    for (size_t left = split->chunks; left > 0; left--) {
        size_t begin = split->in_head + (left - 1) * room;
        struct chunk *chunk = memory_alloc(memory, memory_chunk_size(memory));
        if (chunk == NULL) {
            chunks_drop(memory, next);
            return false;
        }
        atomic_init(&chunk->next, next);
        atomic_init(&chunk->owner, memory_handle(memory, owner));
        memcpy(chunk->data, body.data + begin, end - begin);
        next = memory_handle(memory, chunk);
        end = begin;
    }
    *first = next;
    return true;
}

struct entry *entry_make(struct memory *memory, const struct entry_source *source)
{
    if (entry_size_needed(memory, source) == 0)
        return NULL;
    const struct entry *probe = source->probe;
    size_t head_size = ENTRY_HEADER + (size_t)probe->key_size + front_size_needed(source);
    struct split split = split_of(memory, head_size, source->body.size);
    bool large = split.chunks != 0;
    struct entry *entry = memory_alloc(memory, split.head_slot);
    if (entry == NULL)
        return NULL;
    uint32_t chunks = 0;
    if (large && !chunks_make(memory, entry, source->body, &split, &chunks)) {
        memory_sub(&memory->live, memory_free(memory, entry));
        return NULL;
    }
    entry->hash = probe->hash;
    entry->stored_ms = source->stored_ms;
    entry->queue_next = entry->queue_prev = entry->expiry_next = entry->expiry_prev = 0;
    atomic_store_explicit(&entry->size_and_tag,
                          (uint32_t)source->body.size | (uint32_t)source->tag << ENTRY_TAG_SHIFT,
                          memory_order_relaxed);
    entry->key_size = probe->key_size;
    entry->priority = 0;
    atomic_store_explicit(&entry->counter, 0, memory_order_relaxed);
    entry_flags_set(entry, (source->is_negative ? SLOT_NEGATIVE : 0u) | (large ? SLOT_LARGE : 0u),
                    0);
    memcpy(entry->key, probe->key, probe->key_size);
    uint8_t *at = entry->key + entry->key_size;
    if (entry_kind(entry) == ENTRY_PAGE)
        at = front_write(at, source);
    if (large) {
        atomic_init(chunks_of(entry), chunks);
        at = (uint8_t *)(chunks_of(entry) + 1);
    }
    if (split.in_head != 0)
        memcpy(at, source->body.data, split.in_head);
    return entry;
}

struct entry *entry_move(struct memory *memory, const struct entry *entry)
{
    unsigned flags = entry_flags(entry);
    size_t size = split_of_entry(memory, entry).head_slot;
    struct entry *copy = memory_alloc_kept(memory, size);
    if (copy == NULL)
        return NULL;
    /* Field by field where readers may write, so that nothing of it is torn. */
    copy->hash = entry->hash;
    copy->stored_ms = entry->stored_ms;
    copy->queue_next = entry->queue_next;
    copy->queue_prev = entry->queue_prev;
    copy->expiry_next = entry->expiry_next;
    copy->expiry_prev = entry->expiry_prev;
    atomic_store_explicit(&copy->size_and_tag,
                          atomic_load_explicit(&entry->size_and_tag, memory_order_relaxed),
                          memory_order_relaxed);
    copy->key_size = entry->key_size;
    copy->priority = entry->priority;
    atomic_store_explicit(&copy->counter, (unsigned char)entry_counter(entry),
                          memory_order_relaxed);
    entry_flags_set(copy, flags & ~(unsigned)SLOT_LIVE, 0);
    memcpy(copy->key, entry->key, size - ENTRY_HEADER);
    return copy;
}

void entry_chunks_pass(struct memory *memory, struct entry *entry, const struct entry *copy)
{
    if (!(entry_flags(entry) & SLOT_LARGE))
        return;
    for (uint32_t handle = first_chunk(entry); handle != 0;) {
        struct chunk *chunk = memory_at(memory, handle);
        atomic_store_explicit(&chunk->owner, memory_handle(memory, copy), memory_order_relaxed);
        handle = next_chunk(chunk);
    }
    entry_flags_set(entry, SLOT_MOVED, 0);
}

struct chunk *entry_chunk_move(struct memory *memory, struct entry *entry,
                               const struct chunk *chunk)
{
    ensure(chunk != NULL);
    struct chunk *copy = memory_alloc_kept(memory, memory_chunk_size(memory));
    if (copy == NULL)
        return NULL;
    _Atomic(uint32_t) *link = chunks_of(entry);
    for (struct chunk *at; (at = memory_at(memory, atomic_load(link))) != chunk;) {
        ensure(at != NULL);
        link = &at->next;
    }
    atomic_init(&copy->next, next_chunk(chunk));
    atomic_init(&copy->owner, memory_handle(memory, entry));
    memcpy(copy->data, chunk->data, chunk_room(memory));
    atomic_store_explicit(&copy->flags, SLOT_CHUNK, memory_order_release);
    atomic_store_explicit(link, memory_handle(memory, copy), memory_order_release);
    return copy;
}

/* The first chunk that goes with a retired entry. */
static uint32_t own_chunk(const struct entry *entry)
{
    unsigned flags = entry_flags(entry);
    return flags & SLOT_LARGE && !(flags & SLOT_MOVED) ? first_chunk(entry) : 0;
}

void entry_drop(struct memory *memory, struct entry *entry)
{
    if (entry_flags(entry) & SLOT_LARGE)
        chunks_drop(memory, first_chunk(entry));
    memory_sub(&memory->live, memory_free(memory, entry));
}

void entry_free_retired(struct memory *memory, struct entry *entry)
{
    ensure(entry_flags(entry) & SLOT_DEAD);
    uint32_t handle = own_chunk(entry);
    while (handle != 0) {
        struct chunk *chunk = memory_at(memory, handle);
        handle = next_chunk(chunk);
        memory_sub(&memory->deferred, memory_free(memory, chunk));
    }
    memory_sub(&memory->deferred, memory_free(memory, entry));
}

void entry_mark_published(struct memory *memory, struct entry *entry)
{
    uint32_t handle = entry_flags(entry) & SLOT_LARGE ? first_chunk(entry) : 0;
    while (handle != 0) {
        struct chunk *chunk = memory_at(memory, handle);
        handle = next_chunk(chunk);
        atomic_store_explicit(&chunk->flags, SLOT_CHUNK, memory_order_release);
    }
    entry_flags_set(entry, SLOT_LIVE, 0);
}

void entry_mark_retired(struct memory *memory, struct entry *entry)
{
    struct split split = split_of_entry(memory, entry);
    size_t size = memory_slot_size(memory, split.head_slot);
    uint32_t handle = own_chunk(entry);
    while (handle != 0) {
        size += memory_chunk_size(memory);
        struct chunk *chunk = memory_at(memory, handle);
        handle = next_chunk(chunk);
        atomic_store_explicit(&chunk->flags, SLOT_DEAD, memory_order_release);
    }
    entry_flags_set(entry, SLOT_DEAD, SLOT_LIVE);
    memory_add(&memory->deferred, size);
    memory_sub(&memory->live, size);
}

/* What the head has of the body. */
static struct bytes body_in_head(const struct memory *memory, const struct entry *entry)
{
    if (LIKELY(!(entry_flags(entry) & SLOT_LARGE)))
        return bytes_of(front_of(entry) + front_size(entry), entry_value_size(entry));
    return bytes_of((const uint8_t *)(chunks_of(entry) + 1), split_of_entry(memory, entry).in_head);
}

struct bytes entry_body(const struct memory *memory, const struct entry *entry, struct arena *arena)
{
    struct bytes head = body_in_head(memory, entry);
    size_t size = entry_value_size(entry);
    if (LIKELY(head.size == size))
        return head;
    uint8_t *copy = arena_alloc(arena, size);
    if (copy == NULL)
        return BYTES_NONE;
    size_t room = chunk_room(memory), done = head.size;
    if (done != 0)
        memcpy(copy, head.data, done);
    for (uint32_t handle = first_chunk(entry); handle != 0;) {
        const struct chunk *chunk = memory_at(memory, handle);
        size_t part = size - done < room ? size - done : room;
        memcpy(copy + done, chunk->data, part);
        done += part;
        handle = next_chunk(chunk);
    }
    return bytes_of(copy, size);
}

bool entry_body_equals(const struct memory *memory, const struct entry *entry, struct bytes body)
{
    if (entry_value_size(entry) != body.size)
        return false;
    struct bytes head = body_in_head(memory, entry);
    if (head.size != 0 && memcmp(head.data, body.data, head.size) != 0)
        return false;
    size_t room = chunk_room(memory), done = head.size;
    for (uint32_t handle = done < body.size ? first_chunk(entry) : 0; handle != 0;) {
        const struct chunk *chunk = memory_at(memory, handle);
        size_t part = body.size - done < room ? body.size - done : room;
        if (memcmp(chunk->data, body.data + done, part) != 0)
            return false;
        done += part;
        handle = next_chunk(chunk);
    }
    return true;
}

/* Field by field: the rest may be written while readers look. */
struct page_head page_head_of(const struct entry *page)
{
    struct page_head head = {0};
    memcpy(&head, front_of(page), offsetof(struct page_head, node_slot));
    return head;
}

void page_head_set_node(struct entry *page, struct node *node, uint32_t node_slot)
{
    uint8_t *front = page->key + page->key_size;
    // cppcheck-suppress pointerSize - it is the pointer that is kept
    memcpy(front + offsetof(struct page_head, node), &node, sizeof(struct node *));
    memcpy(front + offsetof(struct page_head, node_slot), &node_slot, sizeof node_slot);
}

struct node *page_node(const struct entry *page, uint32_t *node_slot)
{
    struct node *node;
    memcpy(&node, front_of(page) + offsetof(struct page_head, node), sizeof(struct node *));
    memcpy(node_slot, front_of(page) + offsetof(struct page_head, node_slot), sizeof *node_slot);
    return node;
}

struct key_interval page_interval(const struct entry *page)
{
    struct page_head head = page_head_of(page);
    const uint8_t *at = front_of(page) + sizeof head;
    return (struct key_interval){
        .low = bytes_of(at, head.low_size),
        .high = head.high_size == PAGE_HIGH_NONE ? BYTES_NONE
                                                 : bytes_of(at + head.low_size, head.high_size),
    };
}

struct entry *entry_of_chunk(const struct memory *memory, const struct chunk *chunk)
{
    return memory_at(
        memory, atomic_load_explicit((_Atomic(uint32_t) *)&chunk->owner, memory_order_relaxed));
}
