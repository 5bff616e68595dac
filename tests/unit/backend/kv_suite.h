/* kv_suite.h - one store, opened and used from a test's thread. */
#pragma once

#include "backend/engine/kv.h"
#include "protocol/buffer.h"
#include "tests/support/lane_loop.h"

/* Begins keys that may be read as a range: see struct kv_read. */
#define KV_BUCKET "test:bucket/"

struct store_under_test {
    const struct kv_ops *ops;
    struct kv *kv;
    struct kv_lane *lane;
    struct lane_loop loop;
    struct arena arena;
};

/* Fails the test when the store cannot be opened. `on_event` may be NULL. */
void store_set_up(struct store_under_test *store, const char *url, enum sync_mode sync,
                  event_fn on_event, void *on_event_arg);
void store_tear_down(struct store_under_test *store);

/* A lane of its own for another thread. */
void store_lane_set_up(struct store_under_test *store, const struct store_under_test *opened);
void store_lane_tear_down(struct store_under_test *store);

/* Reads `count` records and waits. */
enum status store_get(struct store_under_test *store, struct kv_record *records, size_t count);
struct kv_record store_get_one(struct store_under_test *store, const char *key);

/* Commits and waits; the outcome. */
enum kv_outcome store_commit_all(struct store_under_test *store, struct kv_commit *commit);
enum kv_outcome store_put(struct store_under_test *store, const char *key, const char *value);

/* Keys of a range without KV_BUCKET, joined by blanks, in arena memory; `most` 0: all. */
const char *store_list(struct store_under_test *store, const char *low, const char *high,
                       bool is_backward, size_t most);
/* The same of a whole range, straight from a reader thread. */
const char *store_list_large(struct store_under_test *store, const char *low, const char *high);

static inline struct bytes text(const char *words)
{
    return words == NULL ? BYTES_NONE : bytes_text(words);
}
