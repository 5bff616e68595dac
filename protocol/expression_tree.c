#include "protocol/expression_parser.h"

#include "protocol/ensure.h"

#include <stdio.h>

static bool paths_are_equal(const struct path_step *a, const struct path_step *b)
{
    for (; a != NULL && b != NULL; a = a->next, b = b->next)
        if (bytes_given(a->name) != bytes_given(b->name) || a->index != b->index ||
            !bytes_equal(a->name, b->name))
            return false;
    return a == NULL && b == NULL;
}

static void check_distinct(struct parser *parser, const struct expression *node)
{
    const struct expression *first = node->first;
    if (node->count != 2 || first->kind != EXPRESSION_PATH ||
        first->next->kind != EXPRESSION_PATH || !paths_are_equal(first->path, first->next->path))
        return;
    char list[61];
    path_print(first->path, list, sizeof list);
    parser_note_flaw(
        parser, FLAW_SAME_OPERANDS,
        "The first operand must be distinct from the remaining operands for this operator "
        "or function; operator: %s, first operand: [%s]",
        expression_kind_name(node->kind), list);
}

/* "{S:a}"; binaries are not shown. */
static void print_bound(const struct value *value, char *out, size_t size)
{
    char number[NUMBER_TEXT_MAX];
    struct bytes text = BYTES_LITERAL("...");
    if (value->type == VALUE_S)
        text = value->bytes;
    else if (value->type == VALUE_N)
        text = bytes_of(number, number_print(&value->number, number));
    (void)snprintf(out, size, "{%s:%.*s}", value_type_name(value->type), (int)text.size,
                   (const char *)text.data);
}

static void check_bounds(struct parser *parser, const struct expression *node)
{
    const struct expression *low = node->first->next;
    const struct expression *high = low->next;
    if (low->kind != EXPRESSION_VALUE || high->kind != EXPRESSION_VALUE || low->value == NULL ||
        high->value == NULL)
        return;
    const struct value *from = &low->value->value;
    const struct value *to = &high->value->value;
    int order = from->type == VALUE_N ? number_compare(&from->number, &to->number)
                                      : bytes_compare(from->bytes, to->bytes);
    if (from->type == to->type && order <= 0)
        return;
    char from_text[40];
    char to_text[40];
    print_bound(from, from_text, sizeof from_text);
    print_bound(to, to_text, sizeof to_text);
    parser_note_flaw(
        parser, FLAW_OPERAND_TYPE,
        "The BETWEEN operator requires %s; lower bound operand: AttributeValue: %s, upper "
        "bound operand: AttributeValue: %s",
        from->type != to->type ? "same data type for lower and upper bounds"
                               : "upper bound to be greater than or equal to lower bound",
        from_text, to_text);
}

static void check_attribute_type(struct parser *parser, const struct expression *node)
{
    static const char all[] = "{NS,SS,L,BS,N,M,B,BOOL,NULL,S}";
    const struct expression *wanted = node->first->next;
    enum value_type type = VALUE_NULL;
    if (wanted->kind == EXPRESSION_VALUE && wanted->value == NULL)
        return;
    if (!expression_operand_type(wanted, &type) || type != VALUE_S) {
        parser_note_wrong_type(parser, node->kind,
                               wanted->kind == EXPRESSION_PATH ? all : value_type_name(type));
        return;
    }
    struct bytes name = wanted->value->value.bytes;
    for (int known = VALUE_S; known <= VALUE_BS; known++)
        if (bytes_equal(name, bytes_text(value_type_name((enum value_type)known))))
            return;
    parser_note_flaw(parser, FLAW_OPERAND_TYPE,
                     "Invalid attribute type name found; type: %.*s, valid types: "
                     "{B,NULL,SS,BOOL,L,BS,N,NS,S,M}",
                     (int)name.size, (const char *)name.data);
}

enum {
    TYPES_ORDERED = 1 << VALUE_S | 1 << VALUE_N | 1 << VALUE_B,
    TYPES_BEGINNING = 1 << VALUE_S | 1 << VALUE_B,
    TYPES_SIZED = 1 << VALUE_S | 1 << VALUE_B | 1 << VALUE_L | 1 << VALUE_M | 1 << VALUE_SS |
                  1 << VALUE_NS | 1 << VALUE_BS,
};

/* Looks at a finished operator or function. */
static void check_node(struct parser *parser, const struct expression *node)
{
    check_distinct(parser, node);
    switch (node->kind) {
    case EXPRESSION_LESS:
    case EXPRESSION_LESS_EQUAL:
    case EXPRESSION_GREATER:
    case EXPRESSION_GREATER_EQUAL:
        parser_check_types(parser, node, TYPES_ORDERED);
        break;
    case EXPRESSION_BETWEEN:
        parser_check_types(parser, node, TYPES_ORDERED);
        check_bounds(parser, node);
        break;
    case EXPRESSION_IN:
        if (node->count - 1 > EXPRESSION_IN_MAX && !parser->binding->is_made)
            parser_note_flaw(parser, FLAW_OPERAND_COUNT,
                             "The IN operator is provided with too many operands; number of "
                             "operands: %u",
                             node->count - 1);
        break;
    case EXPRESSION_BEGINS_WITH:
        parser_check_types(parser, node, TYPES_BEGINNING);
        break;
    case EXPRESSION_SIZE:
        parser_check_types(parser, node, TYPES_SIZED);
        break;
    case EXPRESSION_ATTRIBUTE_TYPE:
        check_attribute_type(parser, node);
        break;
    case EXPRESSION_ATTRIBUTE_EXISTS:
    case EXPRESSION_ATTRIBUTE_NOT_EXISTS:
        if (node->first->kind != EXPRESSION_PATH)
            parser_note_flaw(
                parser, FLAW_OPERAND_TYPE,
                "Operator or function requires a document path; operator or function: %s",
                expression_kind_name(node->kind));
        break;
    default:
        break;
    }
}

/* A function as an operand of something else: only size() gives a value. */
static void check_as_operand(struct parser *parser, const struct expression *node)
{
    if (expression_is_function(node->kind) && node->kind != EXPRESSION_SIZE)
        parser_note_flaw(
            parser, FLAW_MISUSED_FUNCTION,
            "The function is not allowed to be used this way in an expression; function: %s",
            expression_kind_name(node->kind));
}

/* ---- operands ---- */

static struct expression *parse_primary(struct parser *parser);

static struct expression *parse_operand(struct parser *parser)
{
    struct token start = parser->now;
    struct expression *node = parse_primary(parser);
    if (node == NULL)
        return NULL;
    if (!expression_is_operand(node->kind) && !expression_is_function(node->kind)) {
        /* A condition in parentheses where a value must be: told where it ends. */
        ensure(start.kind == TOKEN_OPEN);
        return parser_refuse_syntax(parser);
    }
    check_as_operand(parser, node);
    return node;
}

/* operand, operand, ... ) */
static bool parse_operands(struct parser *parser, struct expression *node)
{
    struct expression **last = &node->first;
    while (*last != NULL)
        last = &(*last)->next;
    for (;;) {
        *last = parse_operand(parser);
        if (*last == NULL)
            return false;
        last = &(*last)->next;
        node->count++;
        if (parser->now.kind != TOKEN_COMMA)
            return parser_take(parser, TOKEN_CLOSE);
        parser_advance(parser);
    }
}

static enum expression_kind function_kind(struct parser *parser, struct bytes name)
{
    enum expression_kind kind;
    bool is_found = expression_function_find(name, &kind);
    if (is_found && kind < EXPRESSION_PLUS)
        return kind;
    if (is_found) {
        parser_note_flaw(parser, FLAW_MISUSED_FUNCTION,
                         "The function is not allowed in a condition expression; function: %s",
                         expression_kind_name(kind));
        return EXPRESSION_CONTAINS;
    }
    parser_note_flaw(parser, FLAW_UNKNOWN_FUNCTION, "Invalid function name; function: %.*s",
                     (int)name.size, (const char *)name.data);
    return EXPRESSION_CONTAINS; /* any: the flaw stops the expression */
}

static struct expression *parse_function(struct parser *parser)
{
    struct expression *node = parser_make_node(parser, function_kind(parser, parser->now.text));
    if (node == NULL)
        return NULL;
    parser_advance(parser);
    parser_advance(parser); /* the parenthesis */
    if (!parse_operands(parser, node))
        return NULL;
    if (node->count == expression_function_operands(node->kind))
        check_node(parser, node);
    else
        parser_note_flaw(
            parser, FLAW_OPERAND_COUNT,
            "Incorrect number of operands for operator or function; operator or function: "
            "%s, number of operands: %u",
            expression_kind_name(node->kind), node->count);
    return node;
}

/* ---- conditions ---- */

static struct expression *parse_or(struct parser *parser);

/* ( condition ) or ( operand ) */
static struct expression *parse_group(struct parser *parser)
{
    if (!parser_enter(parser))
        return NULL;
    parser_advance(parser);
    struct expression *node = parse_or(parser);
    if (node == NULL || !parser_take(parser, TOKEN_CLOSE))
        return NULL;
    parser->nesting--;
    if (node->is_parenthesized)
        parser_note_flaw(parser, FLAW_PARENTHESES, "The expression has redundant parentheses;");
    node->is_parenthesized = true;
    return node;
}

static struct expression *parse_primary(struct parser *parser)
{
    if (parser->now.kind == TOKEN_OPEN)
        return parse_group(parser);
    if (parser->now.kind == TOKEN_VALUE_ALIAS)
        return parser_read_value(parser);
    if (parser->now.kind == TOKEN_NAME && parser->after.kind == TOKEN_OPEN)
        return parse_function(parser);
    return parser_read_path(parser);
}

/* The kind of an operator that stands between operands. */
static bool infix_kind(enum token_kind token, enum expression_kind *out)
{
    static const enum expression_kind operators[] = {
        [TOKEN_EQUAL] = EXPRESSION_EQUAL,     [TOKEN_NOT_EQUAL] = EXPRESSION_NOT_EQUAL,
        [TOKEN_LESS] = EXPRESSION_LESS,       [TOKEN_LESS_EQUAL] = EXPRESSION_LESS_EQUAL,
        [TOKEN_GREATER] = EXPRESSION_GREATER, [TOKEN_GREATER_EQUAL] = EXPRESSION_GREATER_EQUAL,
        [TOKEN_BETWEEN] = EXPRESSION_BETWEEN, [TOKEN_IN] = EXPRESSION_IN,
    };
    if ((token < TOKEN_EQUAL || token > TOKEN_GREATER_EQUAL) && token != TOKEN_BETWEEN &&
        token != TOKEN_IN)
        return false;
    *out = operators[token];
    return true;
}

/* What follows the first operand and the operator. */
static bool parse_right_side(struct parser *parser, struct expression *node)
{
    if (node->kind == EXPRESSION_IN)
        return parser_take(parser, TOKEN_OPEN) && parse_operands(parser, node);
    struct expression *operand = parse_operand(parser);
    if (operand == NULL)
        return false;
    expression_add_operand(node, operand);
    if (node->kind != EXPRESSION_BETWEEN)
        return true;
    if (!parser_take(parser, TOKEN_AND) || (operand = parse_operand(parser)) == NULL)
        return false;
    expression_add_operand(node, operand);
    return true;
}

/* operand operator operand, function, or ( condition ); also, for the caller to refuse or to use,
 * an operand that is all there is in its parentheses. */
static struct expression *parse_comparison(struct parser *parser)
{
    struct expression *left = parse_primary(parser);
    enum expression_kind kind = EXPRESSION_EQUAL;
    if (left == NULL)
        return NULL;
    bool could_be_operand = expression_is_operand(left->kind) || expression_is_function(left->kind);
    if (could_be_operand && infix_kind(parser->now.kind, &kind)) {
        struct expression *node = parser_make_node(parser, kind);
        if (node == NULL)
            return NULL;
        check_as_operand(parser, left);
        expression_add_operand(node, left);
        parser_advance(parser);
        if (!parse_right_side(parser, node))
            return NULL;
        check_node(parser, node);
        return node;
    }
    bool is_bare = left->kind == EXPRESSION_PATH || left->kind == EXPRESSION_VALUE;
    if (is_bare && (parser->nesting == 0 || parser->now.kind != TOKEN_CLOSE))
        return parser_refuse_syntax(parser);
    return left;
}

/* False, with the error set, for what cannot be true or false. */
static bool check_as_condition(struct parser *parser, const struct expression *node)
{
    if (node->kind == EXPRESSION_PATH || node->kind == EXPRESSION_VALUE) {
        (void)parser_refuse_syntax(parser);
        return false;
    }
    if (node->kind == EXPRESSION_SIZE)
        parser_note_flaw(
            parser, FLAW_MISUSED_FUNCTION,
            "The function is not allowed to be used this way in an expression; function: %s",
            expression_kind_name(node->kind));
    return true;
}

static struct expression *parse_not(struct parser *parser)
{
    if (parser->now.kind != TOKEN_NOT)
        return parse_comparison(parser);
    if (!parser_enter(parser))
        return NULL;
    parser_advance(parser);
    struct expression *operand = parse_not(parser);
    if (operand == NULL || !check_as_condition(parser, operand))
        return NULL;
    parser->nesting--;
    struct expression *node = parser_make_node(parser, EXPRESSION_NOT);
    if (node != NULL)
        expression_add_operand(node, operand);
    return node;
}

static struct expression *parse_and(struct parser *parser)
{
    struct expression *left = parse_not(parser);
    while (left != NULL && parser->now.kind == TOKEN_AND) {
        parser_advance(parser);
        struct expression *right = parse_not(parser);
        if (right == NULL || !check_as_condition(parser, left) ||
            !check_as_condition(parser, right))
            return NULL;
        left = parser_make_binary(parser, EXPRESSION_AND, left, right);
    }
    return left;
}

static struct expression *parse_or(struct parser *parser)
{
    struct expression *left = parse_and(parser);
    while (left != NULL && parser->now.kind == TOKEN_OR) {
        parser_advance(parser);
        struct expression *right = parse_and(parser);
        if (right == NULL || !check_as_condition(parser, left) ||
            !check_as_condition(parser, right))
            return NULL;
        left = parser_make_binary(parser, EXPRESSION_OR, left, right);
    }
    return left;
}

size_t expression_nodes(const struct expression *expression)
{
    if (expression == NULL)
        return 0;
    size_t count = 1;
    for (const struct expression *at = expression->first; at != NULL; at = at->next)
        count += expression_nodes(at);
    return count;
}

enum status condition_parse(struct bytes text, const char *what, struct expression_binding *binding,
                            struct arena *arena, struct expression **out, struct error *error)
{
    struct parser parser;
    enum status status = parser_begin(&parser, text, what, binding, arena, error);
    if (status != STATUS_OK)
        return status;
    struct expression *root = parse_or(&parser);
    if (root != NULL && parser.now.kind != TOKEN_END)
        root = parser_refuse_syntax(&parser);
    if (root == NULL || !check_as_condition(&parser, root))
        return error->status;
    status = parser_end(&parser);
    if (status == STATUS_OK && !path_list_make(&parser, &root->paths))
        status = error->status;
    if (status == STATUS_OK)
        *out = root;
    return status;
}
