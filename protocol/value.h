/* value.h - attribute values and items, as a tree and by DynamoDB's rules.
 *
 * The tree is for making items and for taking them apart (JSON, expressions). What is stored,
 * cached and sent are the canonical bytes of encoding/msgpack.h, which most code reads in place.
 * Memory: everything a tree points to is borrowed, usually from an arena. */
#pragma once

#include "protocol/arena.h"
#include "protocol/number.h"

enum value_type {
    VALUE_S,
    VALUE_N,
    VALUE_B,
    VALUE_BOOL,
    VALUE_NULL,
    VALUE_L,
    VALUE_M,
    VALUE_SS,
    VALUE_NS,
    VALUE_BS,
};

struct value {
    enum value_type type;
    bool truth;           /* BOOL */
    struct bytes bytes;   /* S, B */
    struct number number; /* N */
    struct value
        *values; /* L, SS, NS, BS: `count` of them; members of a set are S, N or B values */
    struct attribute *attributes; /* M: `count` of them */
    size_t count;
};

struct attribute {
    struct bytes name; /* UTF-8 */
    struct value value;
};

enum {
    ITEM_SIZE_MAX = 409600, /* names and values; developer guide, quotas */
    ITEM_DEPTH_MAX = 32,    /* lists and maps in each other, the item itself included */
    /* Ordinary JSON may tell an item as DynamoDB JSON, two levels for one, with something around.
     */
    PLAIN_DEPTH_MAX = 2 * ITEM_DEPTH_MAX + 16,
    ATTRIBUTE_NAME_MAX = 65535,
    PARTITION_KEY_MAX = 2048,
    SORT_KEY_MAX = 1024,
};

/* "S", "N", ... as DynamoDB names the type. */
const char *value_type_name(enum value_type type);

/* Refusals with DynamoDB's texts, shared by all that read values. An attribute name has 1 to
 * ATTRIBUTE_NAME_MAX bytes of UTF-8. */
MUST_CHECK enum status attribute_name_check(struct bytes name, struct error *error);
enum status value_refuse_text(struct error *error);
enum status value_refuse_depth(struct error *error);
enum status value_refuse_empty_set(enum value_type type, struct error *error);

/* Strict UTF-8: no overlong forms, no surrogates, nothing above U+10FFFF. */
bool utf8_is_valid(struct bytes bytes);

/* Sorts map attributes by name and set members by value, everywhere in the tree.
 * Errors: STATUS_VALIDATION with DynamoDB's text: a repeated set member or attribute name, an empty
 * set, a member of another type, invalid UTF-8, more than ITEM_DEPTH_MAX lists and maps in each
 * other (the value itself counts). */
MUST_CHECK enum status value_normalize(struct value *value, struct error *error);
/* The same for what is no item: up to PLAIN_DEPTH_MAX. */
MUST_CHECK enum status value_normalize_plain(struct value *value, struct error *error);
