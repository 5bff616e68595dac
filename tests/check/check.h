/* check.h - what the files of mudax-check share.
 *
 * Many clients write and read few hot items of one table and of a global index on it, over all
 * protocols; each writes down what it asked for, when, and what it was told. Afterwards judge.c
 * decides whether one order of all writes, that of their commit numbers, explains everything.
 * An item is a slot (where it lies) and a generation (part of its sort key): when the outcome of a
 * write is unknown, its slot goes on with another generation, and nothing is concluded from the old
 * one any more. */
#pragma once

#include "protocol/buffer.h"
#include "protocol/request.h"

#include <stdatomic.h>

enum {
    PARTITIONS = 4,
    SORTS = 8, /* slots of a partition */
    SLOTS = PARTITIONS * SORTS,
    GROUPS = 3,     /* partitions of the index; a group of GROUPS: in none */
    FILLERS = 4096, /* items that only take room in the cache */
};

#define TABLE_NAME "MudaxCheck"
#define INDEX_NAME "by-group"

/* One write, from its beginning to what was heard of its end. */
struct write {
    uint64_t begin, end; /* nanoseconds; end 0: nothing was heard, or that it is unknown */
    uint64_t commit;     /* 0: did not happen, or unknown */
    uint64_t id;         /* unique; what the item holds */
    uint32_t generation;
    uint16_t slot;
    uint8_t group;
    bool is_delete, is_unknown;
};

enum scope {
    SCOPE_ITEMS,     /* single items, each for itself */
    SCOPE_TOGETHER,  /* the same at one instant: TransactGetItems */
    SCOPE_PARTITION, /* Query: slots of a partition, from `first` on */
    SCOPE_GROUP,     /* Query of the index: items of a group */
    SCOPE_TABLE,     /* Scan */
};

struct seen {
    uint64_t id; /* 0: no item */
    uint32_t generation;
    uint16_t slot;
};

/* One read. */
struct read {
    uint64_t begin, end;
    uint32_t seen_at, seen_count; /* in the history's list */
    uint8_t scope, first, of;     /* partition or group, and its first sort */
    uint8_t verdict;
    uint8_t is_http;
};

/* What one client has written down. */
struct history {
    struct write *writes;
    struct read *reads;
    struct seen *seen;
    size_t write_count, write_room, read_count, read_room, seen_count, seen_room;
};

void *history_grow(void *list, size_t count, size_t *room, size_t size);

/* ---- client.c: one connection, of either protocol; blocking ---- */

struct client;

enum outcome { OUTCOME_DONE, OUTCOME_REFUSED, OUTCOME_UNKNOWN };

/* What came back. Views are valid until the next call. */
struct answer {
    enum outcome outcome;
    uint64_t commit;
    enum verdict_ { ANSWER_NONE, ANSWER_HIT, ANSWER_MISS, ANSWER_BYPASS, ANSWER_STALE } verdict;
    struct bytes body;    /* MessagePack, as the native protocol has it, whatever the protocol */
    struct bytes commits; /* BatchWriteItem, native only */
    char text[256];       /* of an error */
};

/* url  mudax://HOST:PORT, mudax+unix:PATH, http://HOST:PORT. NULL, and a line on stderr. */
struct client *client_open(const char *url);
bool client_is_http(const struct client *client);
/* False when the connection broke; it is made again at once, or else the process ends. */
void client_call(struct client *client, struct request *request, struct answer *answer);
void client_close(struct client **client);

/* ---- driver.c ---- */

struct plan {
    const char *const *urls; /* clients take them in turn */
    size_t url_count;
    unsigned clients;
    uint64_t operations; /* of all clients together */
    double seconds;      /* at most so long; 0: no matter */
    uint64_t seed;
    bool has_index; /* queries of the index */
    bool has_deletes;
    unsigned timeout_ms; /* of each request; 0: the daemon's */
};

/* Makes the table, empty. False, and a line on stderr. */
bool driver_prepare(const struct plan *plan);
/* Runs all clients; `histories` has room for each. */
void driver_run(const struct plan *plan, struct history *histories, bool shows_progress);
/* Generations of a slot: what has been given up. */
uint32_t driver_generation(unsigned slot);

/* ---- judge.c ---- */

struct verdicts {
    uint64_t reads, pages, writes, unknown, hits;
    uint64_t findings;
};

/* Judges everything; prints the first findings. */
void judge(const struct history *histories, unsigned count, struct verdicts *out);

uint64_t now_ns(void);
