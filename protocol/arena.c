#include "protocol/arena.h"

#include <stdlib.h>

enum { ARENA_ALIGN = 16, ARENA_BLOCK = 16 * 1024 };

struct arena_block {
    struct arena_block *next;
    size_t size; /* with this header */
};

static size_t align_up(size_t size)
{
    return (size + ARENA_ALIGN - 1) & ~(size_t)(ARENA_ALIGN - 1);
}

static uint8_t *align_pointer(uint8_t *pointer)
{
    return pointer + (size_t)(-(uintptr_t)pointer & (ARENA_ALIGN - 1));
}

void arena_init(struct arena *arena, void *first, size_t first_size, size_t heap_bytes_max)
{
    *arena =
        (struct arena){.first = first, .first_size = first_size, .heap_bytes_max = heap_bytes_max};
    arena_reset(arena);
}

void arena_deinit(struct arena *arena)
{
    arena_reset(arena);
    *arena = (struct arena){0};
}

void arena_reset(struct arena *arena)
{
    while (arena->blocks != NULL) {
        struct arena_block *block = arena->blocks;
        arena->blocks = block->next;
        free(block);
    }
    arena->heap_bytes = 0;
    arena->end = arena->first == NULL ? NULL : arena->first + arena->first_size;
    arena->at = arena->first == NULL ? NULL : align_pointer(arena->first);
    if (arena->at > arena->end)
        arena->at = arena->end;
}

static void *alloc_block(struct arena *arena, size_t size)
{
    size_t header = align_up(sizeof(struct arena_block));
    size_t whole = header + (size > ARENA_BLOCK / 4 ? size : ARENA_BLOCK);
    if (size > arena->heap_bytes_max || whole > arena->heap_bytes_max - arena->heap_bytes)
        whole = header + size; /* close to the limit: just what is asked for */
    if (whole < size || whole > arena->heap_bytes_max - arena->heap_bytes)
        return NULL;
    struct arena_block *block = malloc(whole);
    if (block == NULL)
        return NULL;
    block->next = arena->blocks;
    block->size = whole;
    arena->blocks = block;
    arena->heap_bytes += whole;
    uint8_t *piece = (uint8_t *)block + header;
    size_t left_here = (size_t)(arena->end - arena->at);
    size_t left_there = whole - header - size;
    if (left_there > left_here) { /* go on where there is more room */
        arena->at = piece + size;
        arena->end = (uint8_t *)block + whole;
    }
    return piece;
}

void *arena_alloc(struct arena *arena, size_t size)
{
    if (size > SIZE_MAX / 2)
        return NULL;
    size = align_up(size == 0 ? 1 : size);
    if (LIKELY(size <= (size_t)(arena->end - arena->at))) {
        void *piece = arena->at;
        arena->at += size;
        return piece;
    }
    return alloc_block(arena, size);
}

struct bytes arena_copy(struct arena *arena, struct bytes bytes)
{
    uint8_t *copy = arena_alloc(arena, bytes.size);
    if (copy == NULL)
        return BYTES_NONE;
    if (bytes.size != 0)
        memcpy(copy, bytes.data, bytes.size);
    return bytes_of(copy, bytes.size);
}
