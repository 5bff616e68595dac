/* fake_backend.h - a backend that does what a test tells it, when it is told.
 *
 * Every call that arrives is held in a list, in order. The test finds it there, lets it announce
 * its intent, and answers it; nothing is stored. Calls that lie in passing memory are sent back
 * (SUBMIT_KEEP), unless `is_prompt`: then reads are answered at once with what `prompt` says.
 * Threads: one. */
#pragma once

#include "backend/backend.h"

enum { FAKE_TABLES_MAX = 4 };

struct fake_call {
    struct fake_call *next;
    struct call *call;
    struct fake_lane *lane;
    bool is_announced;
};

struct fake_backend {
    struct backend backend;
    struct table tables[FAKE_TABLES_MAX]; /* id 0: no table */
    struct fake_call *calls;              /* oldest first */
    size_t calls_seen, tables_asked;
    bool is_prompt;
    struct reply prompt;
};

/* Never NULL. The cache's close closes it. */
struct fake_backend *fake_backend_open(void);
/* sort  may be NULL; both are S keys */
void fake_backend_table(struct fake_backend *fake, uint32_t id, const char *name,
                        const char *partition, const char *sort);

/* The oldest held call of an operation on a table and key (bytes of item_key; of a Query its
 * partition), or NULL. A key that is not given matches any. */
struct fake_call *fake_backend_find(struct fake_backend *fake, enum operation operation,
                                    const char *table, struct bytes key);

/* Tells what the write touches, its key or the whole table, but announces nothing. */
void fake_call_touch(struct fake_call *held);
/* Announces what the write touches: its key, or the whole table. Can be called again. */
void fake_call_announce(struct fake_call *held);
/* The same for any key of its table, as a transaction would. */
void fake_call_announce_also(struct fake_call *held, struct item_key key);

/* Answers the call and forgets it. */
void fake_call_answer(struct fake_call **held, enum status status, struct bytes body,
                      bool is_image_known, uint64_t now_us);
/* A Query's page. */
void fake_call_answer_page(struct fake_call **held, struct bytes body, uint32_t count,
                           struct key_interval examined, uint64_t now_us);
