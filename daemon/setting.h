/* setting.h - one named value of a struct: text to value and back to freedom.
 *
 * options.def and policies.def are tables of them.
 * Threads: none of its own. */
#pragma once

#include "protocol/attributes.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct setting_list {
    char **texts; /* owned */
    size_t count;
};

/* TEXT (of `least` characters or more), LIST and KEYS (repeatable; commas in one text), COUNT, SIZE
 * (bytes), TIME (milliseconds), PERCENT, PRICE (millionths), SWITCH (on, off), CHOICE (one of a few
 * words, a number from 0). */
enum setting_type {
    SETTING_TEXT,
    SETTING_LIST,
    SETTING_KEYS,
    SETTING_COUNT,
    SETTING_SIZE,
    SETTING_TIME,
    SETTING_PERCENT,
    SETTING_PRICE,
    SETTING_SWITCH,
    SETTING_CHOICE,
};
#define SETTING_FIELD_TEXT    char *
#define SETTING_FIELD_LIST    struct setting_list
#define SETTING_FIELD_KEYS    struct setting_list
#define SETTING_FIELD_COUNT   uint64_t
#define SETTING_FIELD_SIZE    uint64_t
#define SETTING_FIELD_TIME    uint64_t
#define SETTING_FIELD_PERCENT uint64_t
#define SETTING_FIELD_PRICE   uint64_t
#define SETTING_FIELD_SWITCH  bool
#define SETTING_FIELD_CHOICE  int

struct setting {
    const char *name; /* with underscores */
    const char *fallback, *help;
    uint64_t least, most;
    size_t offset; /* of the value in its struct, which is zeroed at first */
    enum setting_type type;
    bool can_reload;
};

/* Reads a text into its value in the struct at `base`.
 * where  stands in front of the error's text, which says what was expected */
MUST_CHECK bool setting_read(void *base, const struct setting *row, const char *text,
                             const char *where, char *error, size_t error_size);
/* True whatever the case, and with dashes for underscores. */
bool setting_is_named(const char *given, const char *name);
MUST_CHECK bool setting_parse_switch(const char *text, bool *out);

void setting_free(void *base, const struct setting *row);
bool setting_equals(const void *a, const void *b, const struct setting *row);
void setting_swap(void *a, void *b, const struct setting *row);
