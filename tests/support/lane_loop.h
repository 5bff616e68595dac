/* lane_loop.h - a tiny event loop for lanes in tests: what is posted, timers, a clock that only
 * moves when told to or when there is nothing else to do.
 *
 *     struct lane_loop loop;
 *     lane_loop_init(&loop);
 *     backend->ops->lane_open(backend, &loop.env, &lane);
 *     ... submit ...
 *     assert_true(lane_loop_run_until(&loop, &is_complete));
 *
 * env.event_base is a real one, for stores that own sockets: its events and timers run in real
 * time, whatever the fake clock says.
 * Threads: one owns the loop; `post` comes from any thread. */
#pragma once

#include "backend/lane.h"
#include "protocol/mutex.h"

#include <stdbool.h>
#include <stddef.h>

struct lane_loop {
    struct lane_env env;  /* lend this to lane_open; set env.intent beforehand if it is wanted */
    uint64_t now_us;      /* the fake clock */
    bool is_clock_manual; /* true: only lane_loop_advance() moves the clock */
    /* The owner's. */
    struct lane_timer *timers; /* unsorted, `timers_count` of them */
    size_t timers_count, timers_capacity;
    size_t held;    /* what lanes have under way of their own: env.hold */
    uint64_t order; /* of timers set, so that equal times keep it */
    /* Guarded by lock. */
    struct mutex lock;
    struct task *first, *last;
    /* Constant after init. */
    struct event *posted;
    int posted_fd; /* written to when the first task is posted */
};

void lane_loop_init(struct lane_loop *loop);
/* Nothing may be left to run. */
void lane_loop_deinit(struct lane_loop *loop);

/* Runs what sockets have brought, then what was posted before; what that posts waits for the next
 * turn. False: nothing was posted. */
bool lane_loop_turn(struct lane_loop *loop);

/* Turns until `flag` is true. With nothing posted the clock moves to the next timer; without timers
 * it waits for other threads and sockets, really, up to 30 s. False when that was not enough. */
bool lane_loop_run_until(struct lane_loop *loop, const bool *flag);

/* Turns until nothing is posted; waits for nobody, moves no clock. */
void lane_loop_settle(struct lane_loop *loop);

/* Moves the clock, running timers and turns on the way. */
void lane_loop_advance(struct lane_loop *loop, uint64_t us);

/* Turns, and moves the clock, until lanes have nothing under way, so that they can be closed; fails
 * the process when that takes 30 s. */
void lane_loop_release(struct lane_loop *loop);

size_t lane_loop_timers(const struct lane_loop *loop);
