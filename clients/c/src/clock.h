/* clock.h - the clock of deadlines. */
#pragma once

#include <stdint.h>
#include <time.h>

/* Monotonic time, microseconds. */
static inline uint64_t clock_us(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

/* What is left until `deadline_us` for poll(): milliseconds, rounded up; 0 when it has passed. */
static inline int clock_left_ms(uint64_t deadline_us, uint64_t now_us)
{
    if (deadline_us <= now_us)
        return 0;
    uint64_t left_ms = (deadline_us - now_us + 999) / 1000;
    return left_ms > INT32_MAX ? INT32_MAX : (int)left_ms;
}
