/* expression_token.h - the words of an expression.
 *
 * Shared by all expression kinds. Source: DynamoDB developer guide, "Expression attribute names
 * (aliases)", "Condition and filter expressions, operators, and functions". */
#pragma once

#include "protocol/bytes.h"

enum token_kind {
    TOKEN_END,
    TOKEN_NAME,        /* a bare word; keywords have kinds of their own */
    TOKEN_NAME_ALIAS,  /* #n */
    TOKEN_VALUE_ALIAS, /* :v */
    TOKEN_DIGITS,
    TOKEN_AND, /* keywords in any case of letters */
    TOKEN_OR,
    TOKEN_NOT,
    TOKEN_BETWEEN,
    TOKEN_IN,
    TOKEN_EQUAL,
    TOKEN_NOT_EQUAL,
    TOKEN_LESS,
    TOKEN_LESS_EQUAL,
    TOKEN_GREATER,
    TOKEN_GREATER_EQUAL,
    TOKEN_OPEN, /* ( */
    TOKEN_CLOSE,
    TOKEN_OPEN_INDEX, /* [ */
    TOKEN_CLOSE_INDEX,
    TOKEN_COMMA,
    TOKEN_DOT,
    TOKEN_PLUS,
    TOKEN_MINUS,
    TOKEN_WRONG, /* a character that no expression has */
};

struct token {
    enum token_kind kind;
    struct bytes text; /* as written, a view; empty, at the end, for TOKEN_END */
};

/* Reads the first token of `text` behind blanks. */
struct token token_read(struct bytes text);

/* True when the words are equal but for the case of ASCII letters. */
bool words_equal(struct bytes a, struct bytes b);

/* True for `prefix` (# or :) and one or more letters, digits and underscores. */
bool alias_is_valid(struct bytes alias, uint8_t prefix);
