/* expression.h - expression syntax: text with placeholders, to bound trees.
 *
 * So far the KeyConditionExpression: `p = :v [AND s op ...]` with = < <= > >= BETWEEN begins_with,
 * in either order, redundant parentheses refused as DynamoDB refuses them. What trees do to items
 * is backend/expression's matter. Source: DynamoDB developer guide, "Key condition expressions for
 * the Query operation", "Expression attribute names", "Reserved words". */
#pragma once

#include "protocol/key_order.h"

struct expression;         /* expression_tree.h */
struct path_node;          /* expression_path.h */
struct expression_binding; /* expression_binding.h */

/* What comes with an expression: texts and MessagePack maps, as the request has them. */
struct expression_input {
    struct bytes text;
    struct bytes names;  /* map: "#n" -> name; not given: none */
    struct bytes values; /* map: ":v" -> value; not given: none */
};

/* A key condition, bound to a key schema: one partition and an interval of sort keys in it. */
struct key_condition {
    struct bytes partition; /* terminated if the schema has a sort key, as in struct item_key */
    struct key_interval interval;
};

/* Parses and binds. Unused names and values are errors too, as in DynamoDB.
 * out    arena memory
 * Errors: STATUS_VALIDATION with DynamoDB's texts, STATUS_NO_MEMORY. */
MUST_CHECK enum status key_condition_bind(const struct expression_input *input,
                                          const struct key_schema *schema, struct arena *arena,
                                          struct key_condition *out, struct error *error);

/* The same in two steps, for a request with other expressions too: all are parsed, what none uses
 * is refused, and then comes what its tree means. tree  of condition_parse() */
MUST_CHECK enum status key_condition_of_tree(const struct expression *tree,
                                             const struct key_schema *schema, struct arena *arena,
                                             struct key_condition *out, struct error *error);

/* True for DynamoDB's 573 reserved words, in any case of letters. */
bool expression_word_is_reserved(struct bytes word);
