/* items.h - what tests of expressions share: memory for one test, and items out of text. */
#pragma once

#include "protocol/value.h"

enum { ARENA_BYTES_MAX = 256 << 20 };

/* Empty at the start of each test that is set up and torn down by these. */
extern struct arena arena;
int set_up(void **state);
int tear_down(void **state);

/* The canonical bytes of an item in DynamoDB JSON with ' for "; arena memory. Fails the test if it
 * is none. */
struct bytes item_of(const char *json);
