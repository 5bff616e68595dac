/* table.h - the catalog: all tables there are, by name.
 *
 * A catalog is immutable; a change makes another one and publishes it. Lanes hold a reference to
 * the version that they work with and look for a newer one at the start of each batch. */
#pragma once

#include "backend/engine/definition.h"

struct catalog; /* table.c */

/* Empty; NULL without memory. Like all that follow, one reference goes to the caller. */
struct catalog *catalog_create(void);

/* Another version, with `added` (in place of one of the same name) and without `removed`; either
 * may be NULL. NULL without memory. */
struct catalog *catalog_change(const struct catalog *catalog, struct definition *added,
                               const struct definition *removed);
struct catalog *catalog_ref(struct catalog *catalog);
void catalog_unref(struct catalog *catalog);

/* Counts up with every change. */
uint64_t catalog_version(const struct catalog *catalog);

/* Borrowed from the catalog; NULL if there is none. Found in any state. */
struct definition *catalog_find(const struct catalog *catalog, struct bytes name);

size_t catalog_count(const struct catalog *catalog);
/* In the order of names, by bytes. */
struct definition *catalog_at(const struct catalog *catalog, size_t i);
/* Index of the first table whose name comes after `name`; 0 when that is not given. */
size_t catalog_after(const struct catalog *catalog, struct bytes name);
