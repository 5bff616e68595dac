/* expression_parser.h - private to protocol/expression*: what all readers of expressions share.
 *
 * A parser goes over the text once, two tokens in view. Wrong syntax ends it at once; what is wrong
 * with an expression of good syntax is noted, and told when all has been read. */
#pragma once

#include "protocol/expression_path.h"
#include "protocol/expression_token.h"

/* What is wrong with an expression of good syntax. It is told after the syntax, and the first class
 * goes before the others, wherever in the text it was found. */
enum flaw {
    FLAW_PARENTHESES,
    FLAW_UNKNOWN_FUNCTION,
    FLAW_MISUSED_FUNCTION,
    FLAW_RESERVED_WORD,
    FLAW_SECTION,
    FLAW_UNDEFINED_ALIAS,
    FLAW_OPERAND_COUNT,
    FLAW_OPERATOR_COUNT,
    FLAW_SAME_OPERANDS,
    FLAW_PATHS,
    FLAW_OPERAND_TYPE,
};

struct parser {
    const char *what;
    struct bytes text;
    struct token before, now, after;
    int nesting;
    unsigned operators; /* and functions, so far */
    struct expression *last_path;
    size_t path_count;
    struct expression_binding *binding;
    struct arena *arena;
    struct error *error; /* set when a parse function returns NULL or false */
    bool has_flaw;       /* then the first of the gravest class is here: */
    enum flaw flaw;
    char flaw_text[sizeof(((struct error *)0)->text)];
};

/* Sets the parser on the first token.
 * Errors: STATUS_VALIDATION: an empty text, or one that is too long. */
MUST_CHECK enum status parser_begin(struct parser *parser, struct bytes text, const char *what,
                                    struct expression_binding *binding, struct arena *arena,
                                    struct error *error);
/* STATUS_OK, or the gravest flaw. */
MUST_CHECK enum status parser_end(struct parser *parser);

/* Remembers the flaw unless a graver one, or an earlier one of its class, is known. */
void parser_note_flaw(struct parser *parser, enum flaw flaw, const char *format, ...)
    PRINTF_LIKE(3, 4);
void parser_note_wrong_type(struct parser *parser, enum expression_kind kind,
                            const char *type_name);
/* Every operand whose type is known must be of a type in `allowed`, a set of bits. */
void parser_check_types(struct parser *parser, const struct expression *node, unsigned allowed);

void parser_advance(struct parser *parser);
/* Set the error and return NULL. */
void *parser_refuse_syntax(struct parser *parser);
void *parser_refuse_memory(struct parser *parser);
/* Goes past a token of that kind; false, with the error set, when another one is next. */
MUST_CHECK bool parser_take(struct parser *parser, enum token_kind kind);

/* One level deeper; `nesting` is counted down by the caller. False, with the error set, when that
 * is too deep. */
MUST_CHECK bool parser_enter(struct parser *parser);

/* NULL with the error set; so are those that follow. */
struct expression *parser_make_node(struct parser *parser, enum expression_kind kind);
struct expression *parser_make_binary(struct parser *parser, enum expression_kind kind,
                                      struct expression *left, struct expression *right);
/* A document path, names bare or by alias. */
struct expression *parser_read_path(struct parser *parser);
/* A value's alias, which is the token now. */
struct expression *parser_read_value(struct parser *parser);

void expression_add_operand(struct expression *node, struct expression *operand);
/* The type of an operand where the expression alone tells it. */
bool expression_operand_type(const struct expression *operand, enum value_type *out);
bool expression_is_function(enum expression_kind kind);
/* How many operands a function has. */
uint32_t expression_function_operands(enum expression_kind kind);
/* Finds the function of that name, DynamoDB's spelling. */
bool expression_function_find(struct bytes name, enum expression_kind *out);

/* Adds a path to a tree. One that does not fit to the others is a flaw, and `leaf` is then NULL.
 * False, with the error set, without memory. */
MUST_CHECK bool path_tree_add(struct parser *parser, struct path_node *root,
                              const struct path_step *path, struct path_node **leaf);

/* All paths that were read, if they are many, else NULL. False, with the error set, without memory.
 */
MUST_CHECK bool path_list_make(struct parser *parser, const struct path_list **out);

/* "a, b, [1]", cut at `size`. */
void path_print(const struct path_step *path, char *out, size_t size);
