/* rig.h - a cache over a backend that answers every read at once with what the test says. */
#pragma once

#include "cache/core.h"
#include "tests/support/fake_backend.h"
#include "tests/support/lane_loop.h"

struct rig {
    struct fake_backend *fake;
    struct backend *backend;
    struct cache *cache; /* the same */
    struct lane_loop loop;
    struct lane *lane;
    struct arena arena;
    uint8_t key[64], values[96];
    struct call call;                /* the latest */
    struct bytes projection, filter; /* of the requests that follow */
    uint64_t now_us;
};

void rig_open(struct rig *rig, size_t memory_bytes);
void rig_close(struct rig *rig);

/* Asks for item `number` of "users", which the backend would answer with `body` (nil if not given).
 * The verdict; the reply is in rig->call until the next. */
enum verdict rig_get(struct rig *rig, uint64_t number, struct bytes body);
/* Asks for all of partition `number` of "events". */
enum verdict rig_query(struct rig *rig, uint64_t number, struct bytes body);
/* The same without beginning and ending a batch. */
enum verdict rig_get_in_batch(struct rig *rig, uint64_t number, struct bytes body);
/* Housekeeping until there is no more to do at once. */
void rig_keep_house(struct rig *rig);
/* The entry of an item, or NULL. */
struct entry *rig_entry(struct rig *rig, uint64_t number);
double rig_figure(struct rig *rig, const char *name, const char *labels);
