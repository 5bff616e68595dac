/* arena.h - memory that lives exactly as long as one request.
 *
 * Pieces are never freed one by one. The first block is the caller's, so that a cache hit costs no
 * heap call; further blocks come from the heap and go with the arena.
 * Threads: one at a time. */
#pragma once

#include "protocol/attributes.h"
#include "protocol/bytes.h"

struct arena {
    uint8_t *at, *end; /* free part of the current block */
    uint8_t *first;    /* caller's first block */
    size_t first_size;
    struct arena_block *blocks; /* heap blocks, newest first */
    size_t heap_bytes, heap_bytes_max;
};

/* first           caller's, stays valid until arena_deinit; may be NULL with size 0
 * heap_bytes_max  limit of what is taken from the heap beyond `first` */
void arena_init(struct arena *arena, void *first, size_t first_size, size_t heap_bytes_max);
void arena_deinit(struct arena *arena);

/* Gives back all pieces at once; keeps the first block only. */
void arena_reset(struct arena *arena);

/* Uninitialised memory, aligned to 16 bytes. NULL when the limit or the heap is exhausted. */
MUST_CHECK void *arena_alloc(struct arena *arena, size_t size);

/* A copy of `bytes` in the arena; BYTES_NONE when there is no memory. An empty copy is still given.
 */
MUST_CHECK struct bytes arena_copy(struct arena *arena, struct bytes bytes);
