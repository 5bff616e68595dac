/* record.h - where records lie in the store.
 *
 *   item      table id (4 bytes, big endian) | hash of the partition key (8, big endian) |
 *             primary key (partition part, sort part; see protocol/key_order.h)  ->  canonical item
 *   counter   of an item collection: as an item, with an id of its own (definition.h) and nothing
 *             behind the partition part  ->  its bytes in table and local indexes (kv.h)
 *   metadata  table id 0 | a letter | ...
 *     'f'                      format version of this layout, 8 bytes, little endian
 *     'i'                      next table id, 8 bytes, little endian
 *     'n' name                 table definition
 *     't' span, token          a ClientRequestToken of that span of ten minutes (8 bytes, big
 *                              endian): when, and a digest of what, 8 bytes each, little endian
 *     'c' table id, partition  counters of one partition, 8 bytes each, little endian (kv.h)
 * Threads: pure functions. */
#pragma once

#include "protocol/arena.h"
#include "protocol/key_order.h"

enum {
    RECORD_FORMAT = 1,
    RECORD_ID_BYTES = 4,
    RECORD_ITEM_PREFIX = RECORD_ID_BYTES + 8, /* before the primary key */
};

/* All results are arena memory; BYTES_NONE without memory. */
struct bytes record_item_key(uint32_t table_id, uint64_t hash, struct bytes primary,
                             struct arena *arena);
struct bytes record_format_key(struct arena *arena);
struct bytes record_next_id_key(struct arena *arena);
struct bytes record_definition_key(struct bytes name, struct arena *arena);
/* The name in such a key; a view of it. */
struct bytes record_definition_name(struct bytes key);
struct bytes record_counter_key(uint32_t table_id, uint32_t partition, struct arena *arena);

struct bytes record_token_key(uint64_t span, struct bytes token, struct arena *arena);

/* Bounds of all tokens of the spans before `span`. False without memory. */
MUST_CHECK bool record_tokens_range(uint64_t span, struct arena *arena, struct bytes *low,
                                    struct bytes *high);

/* Bounds of all items of a table, of all its counters, of all definitions. False without memory. */
MUST_CHECK bool record_items_range(uint32_t table_id, struct arena *arena, struct bytes *low,
                                   struct bytes *high);
MUST_CHECK bool record_counters_range(uint32_t table_id, struct arena *arena, struct bytes *low,
                                      struct bytes *high);
MUST_CHECK bool record_definitions_range(struct arena *arena, struct bytes *low,
                                         struct bytes *high);

/* Numbers as metadata and counters hold them. A shorter value reads as zero. */
uint64_t record_number_read(struct bytes value);
struct bytes record_number_write(uint64_t number, struct arena *arena);
