/* keys.h - which key comes next: uniform or Zipf over a range.
 *
 * Zipf by rejection-free inversion (Gray et al., "Quickly generating billion-record synthetic
 * databases", SIGMOD 1994), the ranks scattered over the range, as YCSB does. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct keys {
    uint64_t count, state;
    bool is_zipf;
    double theta, alpha, zeta, eta;
};

/* theta  skew, 0 < theta < 1; 0 means uniform */
void keys_init(struct keys *keys, uint64_t count, double theta, uint64_t seed);
uint64_t keys_next(struct keys *keys); /* 0..count-1 */
