/* flight.h - one fetch, many waiters.
 *
 * The first to ask for a missing key leads and fetches it; whoever asks meanwhile waits for the
 * same reply. A write to the key takes the flight out of the table: its waiters get the reply,
 * nobody joins any more, the cache does not keep it. A flight owns its copy of the reply until the
 * last waiter has had it.
 * Threads: any; guarded by the shard's lock, but for the reply once it has landed.
 * Not here: what is fetched and kept (fetch.c). */
#pragma once

#include "cache/entry.h"
#include "protocol/reply.h"

struct waiter {
    struct waiter *next, *prev; /* in the flight; then in the list of the landed (next) */
    struct flight *flight;      /* NULL once it left the flight's list */
    void *owner;
};

struct flight {
    struct flight *next; /* in its bucket */
    struct memory *memory;
    size_t bytes; /* of this block */
    bool is_listed;
    uint32_t waiter_count;
    struct waiter *waiters;
    atomic_uint refs; /* the leader's and one a waiter */
    /* Written by the leader when it lands, then constant. */
    bool is_shared; /* the reply is here; else each must ask for itself */
    uint64_t landed_us;
    unsigned policy;
    struct reply reply; /* body is the flight's */
    struct entry probe; /* key follows */
};

enum { FLIGHT_BUCKETS = 1024 }; /* tens of thousands of pages of one partition share a shard */

struct flights {
    struct flight **buckets;
};

MUST_CHECK bool flights_open(struct flights *flights, struct memory *memory);
void flights_close(struct flights *flights, struct memory *memory);

struct flight *flight_find(const struct flights *flights, const struct entry *probe);
/* Starts one, with one reference. NULL without memory. */
MUST_CHECK struct flight *flight_start(struct flights *flights, struct memory *memory,
                                       const struct entry *probe);
/* Out of the table; harmless if it is not in it. */
void flight_detach(struct flights *flights, struct flight *flight);
void flight_detach_all(struct flights *flights);

/* Takes a reference. */
void flight_join(struct flight *flight, struct waiter *waiter);
/* Before it landed; false if it did, and then the waiter is being woken. Leaves the reference. */
bool flight_leave(struct waiter *waiter);
/* Takes the whole list of waiters, each marked as out of it. */
struct waiter *flight_take_waiters(struct flight *flight);

/* Copies a reply for the waiters. False without memory. */
MUST_CHECK bool flight_reply_set(struct flight *flight, const struct reply *reply);
void flight_unref(struct flight *flight);
