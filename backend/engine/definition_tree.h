/* definition_tree.h - private to the definition files: members of maps, found and made. */
#pragma once

#include "protocol/value.h"

/* The member of a map, or NULL; `map` may be NULL. */
const struct value *tree_member(const struct value *map, const char *name);
/* Not given when it is missing or no string. */
struct bytes tree_text(const struct value *map, const char *name);
/* 0 when it is missing or no such number. */
uint64_t tree_number(const struct value *map, const char *name);
bool tree_truth(const struct value *map, const char *name);

/* A list's length, 0 when there is none. */
size_t tree_count(const struct value *list);

struct value tree_of_text(struct bytes text);
struct value tree_of_number(uint64_t number);

/* A map under construction. */
enum { TREE_MEMBERS_MAX = 20 };
struct tree_members {
    struct attribute attributes[TREE_MEMBERS_MAX];
    size_t count;
};
void tree_add(struct tree_members *members, const char *name, struct value value);
/* Borrows the members. */
struct value tree_of_members(struct tree_members *members);
/* The same with the members in arena memory; false without. */
MUST_CHECK bool tree_keep_members(const struct tree_members *members, struct arena *arena,
                                  struct value *out);

/* Canonical bytes in arena memory; BYTES_NONE without. */
struct bytes tree_encode(struct value *value, struct arena *arena);
