/* definition.h - one table's definition: checked, stored, described.
 *
 * A definition is made from the bytes of its record, whoever wrote them, so what is published is
 * always what is stored. Immutable but for its state; counted references, because catalogs share it
 * and pending calls keep it. */
#pragma once

#include "backend/engine/heat.h"
#include "protocol/schema.h"

#include <stdatomic.h>

enum definition_state {
    DEFINITION_ACTIVE,
    DEFINITION_DELETING, /* a deletion is on its way; data operations find no table */
    DEFINITION_DOUBTFUL, /* the deletion's outcome is unknown: it has to be repeated */
};

struct definition {
    /* Constant after decoding. */
    struct table table;
    struct partition_map partitions;
    struct partition_map *index_partitions; /* of each of table.indexes */
    uint32_t collections_id;  /* of the counters of item collections, which only tables with local
                                 indexes have (and not those made before there were any); 0: none */
    struct heat_rates *rates; /* of the table, then of each index: provisioned, or at most */
    struct bytes record_key, record; /* as stored */
    uint64_t version;                /* counts up with every change */
    bool is_provisioned;             /* not on demand */
    bool is_protected;               /* DeletionProtectionEnabled */
    struct arena arena;              /* holds the above */
    /* Of the table, then of each index; shared with the definition that this one replaces. */
    struct heat *heats[1 + INDEXES_MAX];
    /* Atomic. `state` is set before the deletion is handed to the store, and a token is loaded
     * before `state` is looked at; so a write that missed the change is caught by its token. */
    atomic_int state;
    /* Atomic: changes of the record that may be on their way, each counted before its commit is
     * handed to the store. While there are any, who relies on the record reads it: a token that is
     * loaded after a change, but before that is published, would catch nothing. */
    atomic_uint changes;
    /* Atomic, relaxed: half units written when its partitions were last found small enough. */
    atomic_uint_fast64_t looked_half_units;
    atomic_uint references;
};

/* What CreateTable gave, checked. Arena memory. */
struct definition_input {
    struct bytes name;
    struct value description; /* map of what is kept */
};

/* Checks as DynamoDB does. BillingMode may be left out together with ProvisionedThroughput and is
 * then PAY_PER_REQUEST.
 * Errors: STATUS_VALIDATION with DynamoDB's texts, STATUS_UNSUPPORTED for what is refused so far
 * (streams), STATUS_MALFORMED, STATUS_NO_MEMORY.
 * Source: API reference, CreateTable. */
MUST_CHECK enum status definition_check(struct bytes request, struct arena *arena,
                                        struct definition_input *out, struct error *error);

/* The record; arena memory, BYTES_NONE without. */
struct bytes definition_encode(const struct definition_input *input, uint32_t id,
                               uint64_t created_at_ms, uint32_t partitions, struct arena *arena);

/* What changes a definition. */
struct definition_change {
    enum {
        CHANGE_TABLE,
        CHANGE_TIME_TO_LIVE,
        CHANGE_TAG,
        CHANGE_UNTAG,
        CHANGE_FILLED,
        CHANGE_PARTITIONS,
    } kind;
    struct bytes request; /* UpdateTable's, UpdateTimeToLive's, TagResource's, ... map */
    struct bytes index;   /* that is filled now; whose partitions change, not given: the table's */
    const struct partition_map *partitions; /* as they will be */
};

/* The record after a change.
 * next_id  for a new index; counted up if it is used
 * record   arena memory
 * Errors: STATUS_VALIDATION, STATUS_RESOURCE_NOT_FOUND, STATUS_LIMIT_EXCEEDED with DynamoDB's
 * texts, STATUS_NO_MEMORY. Source: API reference, UpdateTable, UpdateTimeToLive,
 * TagResource, UntagResource. */
MUST_CHECK enum status definition_update(const struct definition *definition,
                                         const struct definition_change *change, uint32_t *next_id,
                                         struct arena *arena, struct bytes *record,
                                         struct error *error);

/* True if a record (may be not given) is of the same table, changed or not. */
bool definition_is_of(const struct definition *definition, struct bytes record);

/* DescribeTimeToLive's reply body. BYTES_NONE without memory. */
struct bytes definition_describe_time_to_live(const struct definition *definition,
                                              struct arena *arena);

/* ListTagsOfResource's reply body. BYTES_NONE without memory. */
struct bytes definition_describe_tags(const struct definition *definition, struct arena *arena);

/* A map of one member, whose value is encoded. BYTES_NONE without memory. */
struct bytes definition_wrap(const char *member, struct bytes value, struct arena *arena);

/* One reference goes to the caller. Errors: STATUS_INTERNAL (not a definition), STATUS_NO_MEMORY.
 */
MUST_CHECK enum status definition_decode(struct bytes record, struct definition **out);
/* The partitions of a place: of the table (0), or of one of its indexes (from 1). */
const struct partition_map *definition_map(const struct definition *definition, size_t place);
/* Whether the record may be another by now; asked after the token has been loaded. */
bool definition_may_change(const struct definition *definition);
/* Goes on with the heat of the definition that it replaces. Before it is published. */
void definition_take_heat(struct definition *definition, const struct definition *before);
struct definition *definition_ref(struct definition *definition);
void definition_unref(struct definition *definition);

/* A reply body: { `member`: TableDescription }. BYTES_NONE without memory.
 * totals  of the table, then of each of its indexes */
struct bytes definition_describe(const struct definition *definition, const char *member,
                                 const char *table_status, const struct partition_totals *totals,
                                 struct arena *arena);

/* How many ids a table of this input takes, from its own on. */
uint32_t definition_ids(const struct definition_input *input);
