/* expression_tree.h - a condition, from text to a tree whose names and values are bound.
 *
 * The grammar is that of condition, filter and key condition expressions; what each of them allows
 * of it is checked by its own reader. Texts of errors are DynamoDB's. */
#pragma once

#include "protocol/expression_binding.h"

enum {
    EXPRESSION_SIZE_MAX = 4096,     /* bytes; developer guide, quotas */
    EXPRESSION_MADE_MAX = 32768,    /* of one made of legacy parameters, which have no such quota; a
                                       chain of conditions is as deep as it is long */
    EXPRESSION_OPERATORS_MAX = 300, /* and functions, of one that is not made */
    EXPRESSION_IN_MAX = 100,      /* operands to choose among; neither counts in one that is made */
    EXPRESSION_NESTING_MAX = 300, /* parentheses and NOTs in each other; as many operators are
                                     DynamoDB's limit for a whole expression */
    PATH_STEPS_MAX = 32,          /* of a document path */
};

enum expression_kind {
    /* Operands */
    EXPRESSION_PATH,
    EXPRESSION_VALUE,
    EXPRESSION_SIZE, /* size(path) */
    /* Conditions */
    EXPRESSION_EQUAL,
    EXPRESSION_NOT_EQUAL,
    EXPRESSION_LESS,
    EXPRESSION_LESS_EQUAL,
    EXPRESSION_GREATER,
    EXPRESSION_GREATER_EQUAL,
    EXPRESSION_BETWEEN,
    EXPRESSION_IN,
    EXPRESSION_ATTRIBUTE_EXISTS,
    EXPRESSION_ATTRIBUTE_NOT_EXISTS,
    EXPRESSION_ATTRIBUTE_TYPE,
    EXPRESSION_BEGINS_WITH,
    EXPRESSION_CONTAINS,
    EXPRESSION_AND,
    EXPRESSION_OR,
    EXPRESSION_NOT,
    /* Values in updates only */
    EXPRESSION_PLUS,
    EXPRESSION_MINUS,
    EXPRESSION_IF_NOT_EXISTS, /* also a function, as the next */
    EXPRESSION_LIST_APPEND,
};

/* A step of a document path: .name or [index]. */
struct path_step {
    struct path_step *next;
    struct bytes name; /* not given: an index */
    uint32_t index;
};

struct expression {
    enum expression_kind kind;
    bool is_parenthesized;
    uint32_t count;                /* operands */
    struct expression *first;      /* operand; the others by `next` */
    struct expression *next;       /* operand of the one that this belongs to */
    struct path_step *path;        /* PATH */
    struct expression *earlier;    /* PATH: the one that was read before it */
    size_t place;                  /* PATH: in the list */
    const struct alias *value;     /* VALUE */
    const struct path_list *paths; /* at the root: all in it, if they are many */
};

/* Many paths in an order in which one walk over an item meets them: a path before those that go on
 * behind it, names by their bytes, indexes by number. */
struct path_list {
    size_t count;
    struct expression **paths;
    const struct path_step **steps; /* room of who walks, as are the next: one of each path */
    struct bytes *found;
};

/* "=", "BETWEEN", "begins_with", ... */
const char *expression_kind_name(enum expression_kind kind);

/* True for paths, values and size(). */
bool expression_is_operand(enum expression_kind kind);

/* How many nodes it has, operands and all; 0 of NULL. */
size_t expression_nodes(const struct expression *expression);

/* Parses a condition.
 * what   "KeyConditionExpression", "FilterExpression", ...; begins the texts of errors
 * out    arena memory; views of `text` and of the binding
 * Errors: STATUS_VALIDATION, STATUS_NO_MEMORY. */
MUST_CHECK enum status condition_parse(struct bytes text, const char *what,
                                       struct expression_binding *binding, struct arena *arena,
                                       struct expression **out, struct error *error);
