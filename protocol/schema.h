/* schema.h - what a table is, as every layer sees it. */
#pragma once

#include "protocol/value.h"

enum {
    TABLE_NAME_MIN = 3,
    TABLE_NAME_MAX = 255,
    KEY_NAME_MAX = 255,
    /* Developer guide, quotas. */
    LOCAL_INDEXES_MAX = 5,
    GLOBAL_INDEXES_MAX = 20,
    INDEXES_MAX = LOCAL_INDEXES_MAX + GLOBAL_INDEXES_MAX,
};

struct key_attribute {
    struct bytes name;    /* 1..KEY_NAME_MAX */
    enum value_type type; /* S, N or B */
};

struct key_schema {
    struct key_attribute partition;
    struct key_attribute sort; /* name.size 0: the table has none */
    bool is_followed; /* an index's: the table's key comes behind it, so that no part of it is the
                         last */
};

struct path_node; /* expression_path.h */

/* A secondary index: an ordered range of its own, kept in the same commits as the table. */
struct secondary_index {
    uint32_t id; /* as a table's */
    struct bytes name;
    struct key_schema key;
    bool is_local;
    bool is_ready;                 /* false: still being filled in; it cannot be read */
    const struct path_node *shown; /* the attributes projected into it; NULL: all */
    const struct path_node *keys;  /* the attributes of its key and of the table's */
    size_t key_count;              /* how many these are */
};

/* One definition. Immutable once published; whoever got it from a lane keeps it until lane_end, or,
 * for a parked call, until the call completes. */
struct table {
    uint32_t id; /* from a persisted counter, never used twice; 0 is no table */
    struct bytes name;
    struct key_schema key;
    uint64_t created_at_ms;    /* Unix time */
    uint64_t partitions;       /* ranges of the hash space */
    struct bytes description;  /* whatever else the client gave at CreateTable and gets back:
                                  MessagePack map with DynamoDB's member names */
    struct bytes time_to_live; /* name of the attribute, Unix seconds; not given: items stay */
    const struct secondary_index *indexes; /* `index_count` of them */
    size_t index_count;
};

static inline bool key_schema_has_sort(const struct key_schema *key)
{
    return key->sort.name.size != 0;
}

/* True if no other part of a key stands behind this one. */
static inline bool key_schema_is_last(const struct key_schema *key, bool is_sort)
{
    return !key->is_followed && (is_sort || !key_schema_has_sort(key));
}

/* Table names: TABLE_NAME_MIN..TABLE_NAME_MAX of [a-zA-Z0-9_.-].
 * Errors: STATUS_VALIDATION with DynamoDB's texts. */
MUST_CHECK enum status table_name_check(struct bytes name, struct error *error);
/* Of indexes: likewise. */
MUST_CHECK enum status index_name_check(struct bytes name, struct error *error);

/* NULL if there is none of the name. */
static inline const struct secondary_index *table_index(const struct table *table,
                                                        struct bytes name)
{
    for (size_t i = 0; i < table->index_count; i++)
        if (bytes_equal(table->indexes[i].name, name))
            return &table->indexes[i];
    return NULL;
}
