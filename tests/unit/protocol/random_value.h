/* random_value.h - the same random numbers, texts and value trees in every run. */
#pragma once

#include "protocol/arena.h"
#include "protocol/value.h"

struct random {
    uint64_t state;
};

/* splitmix64. Source: Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators. */
uint64_t random_next(struct random *random);

/* 0 to `limit` - 1. */
size_t random_below(struct random *random, size_t limit);

/* A decimal text that number_parse() takes; NUL-terminated. */
enum { RANDOM_NUMBER_TEXT_MAX = 400 };
void random_number_text(struct random *random, char out[RANDOM_NUMBER_TEXT_MAX]);

/* Up to `size_max` bytes, often 00, 01, FE and FF. */
struct bytes random_bytes(struct random *random, struct arena *arena, size_t size_max);

/* Up to `characters_max` characters of 1 to 4 bytes of UTF-8. */
struct bytes random_text(struct random *random, struct arena *arena, size_t characters_max);

/* A value tree, normalized, with up to `depth_max` lists and maps in each other. */
struct value random_value(struct random *random, struct arena *arena, int depth_max);

/* A map as an item has it. */
struct value random_item(struct random *random, struct arena *arena);

/* Puts attributes and set members in another order, everywhere in the tree. */
void shuffle_value(struct random *random, struct value *value);

bool values_are_equal(const struct value *a, const struct value *b);
