/* clock.h - the only place where the time comes from. */
#pragma once

#include <stdint.h>
#include <time.h>

static inline uint64_t clock_read_us(clockid_t clock)
{
    struct timespec now;
    (void)clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

/* Monotonic microseconds. */
static inline uint64_t clock_now_us(void)
{
    return clock_read_us(CLOCK_MONOTONIC);
}

/* Unix time in milliseconds. */
static inline uint64_t clock_wall_ms(void)
{
    return clock_read_us(CLOCK_REALTIME) / 1000;
}
