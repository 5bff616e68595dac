/* schema.h - what a table is, as every layer sees it. */
#pragma once

#include "protocol/value.h"

enum {
    TABLE_NAME_MIN = 3,
    TABLE_NAME_MAX = 255,
    KEY_NAME_MAX = 255,
};

struct key_attribute {
    struct bytes name;    /* 1..KEY_NAME_MAX */
    enum value_type type; /* S, N or B */
};

struct key_schema {
    struct key_attribute partition;
    struct key_attribute sort; /* name.size 0: the table has none */
};

/* One definition. Immutable once published; whoever got it from a lane keeps it until lane_end, or,
 * for a parked call, until the call completes. */
struct table {
    uint32_t id; /* from a persisted counter, never used twice; 0 is no table */
    struct bytes name;
    struct key_schema key;
    uint64_t created_at_ms;   /* Unix time */
    uint64_t partitions;      /* ranges of the hash space */
    struct bytes description; /* whatever else the client gave at CreateTable and gets back:
                                 MessagePack map with DynamoDB's member names */
};

static inline bool key_schema_has_sort(const struct key_schema *key)
{
    return key->sort.name.size != 0;
}
