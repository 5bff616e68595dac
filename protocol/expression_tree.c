#include "protocol/expression_tree.h"

#include "protocol/ensure.h"
#include "protocol/expression.h"
#include "protocol/expression_token.h"

#include <stdarg.h>
#include <stdio.h>

/* What is wrong with an expression of good syntax. It is told after the syntax, and the first class
 * goes before the others, wherever in the text it was found. */
enum flaw {
    FLAW_PARENTHESES,
    FLAW_UNKNOWN_FUNCTION,
    FLAW_MISUSED_FUNCTION,
    FLAW_RESERVED_WORD,
    FLAW_UNDEFINED_ALIAS,
    FLAW_OPERAND_COUNT,
    FLAW_SAME_OPERANDS,
    FLAW_OPERAND_TYPE,
};

struct parser {
    const char *what;
    struct bytes text;
    struct token before, now, after;
    int nesting;
    struct expression_binding *binding;
    struct arena *arena;
    struct error *error; /* set when a parse function returns NULL or false */
    bool has_flaw;       /* then the first of the gravest class is here: */
    enum flaw flaw;
    char flaw_text[sizeof(((struct error *)0)->text)];
};

/* ---- kinds ---- */

struct kind_row {
    const char *name;
    uint32_t operands; /* of a function */
    bool is_function;
};

static const struct kind_row kinds[] = {
    [EXPRESSION_PATH] = {"path", 0, false},
    [EXPRESSION_VALUE] = {"value", 0, false},
    [EXPRESSION_SIZE] = {"size", 1, true},
    [EXPRESSION_EQUAL] = {"=", 0, false},
    [EXPRESSION_NOT_EQUAL] = {"<>", 0, false},
    [EXPRESSION_LESS] = {"<", 0, false},
    [EXPRESSION_LESS_EQUAL] = {"<=", 0, false},
    [EXPRESSION_GREATER] = {">", 0, false},
    [EXPRESSION_GREATER_EQUAL] = {">=", 0, false},
    [EXPRESSION_BETWEEN] = {"BETWEEN", 0, false},
    [EXPRESSION_IN] = {"IN", 0, false},
    [EXPRESSION_ATTRIBUTE_EXISTS] = {"attribute_exists", 1, true},
    [EXPRESSION_ATTRIBUTE_NOT_EXISTS] = {"attribute_not_exists", 1, true},
    [EXPRESSION_ATTRIBUTE_TYPE] = {"attribute_type", 2, true},
    [EXPRESSION_BEGINS_WITH] = {"begins_with", 2, true},
    [EXPRESSION_CONTAINS] = {"contains", 2, true},
    [EXPRESSION_AND] = {"AND", 0, false},
    [EXPRESSION_OR] = {"OR", 0, false},
    [EXPRESSION_NOT] = {"NOT", 0, false},
};

const char *expression_kind_name(enum expression_kind kind)
{
    return kinds[kind].name;
}

bool expression_is_operand(enum expression_kind kind)
{
    return kind <= EXPRESSION_SIZE;
}

static bool is_function(enum expression_kind kind)
{
    return kinds[kind].is_function;
}

/* ---- flaws ---- */

static void note_flaw(struct parser *parser, enum flaw flaw, const char *format, ...)
    PRINTF_LIKE(3, 4);

static void note_flaw(struct parser *parser, enum flaw flaw, const char *format, ...)
{
    if (parser->has_flaw && parser->flaw <= flaw)
        return;
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(parser->flaw_text, sizeof parser->flaw_text, format, arguments);
    va_end(arguments);
    parser->has_flaw = true;
    parser->flaw = flaw;
}

/* The type of an operand where the expression alone tells it. */
static bool operand_type(const struct expression *operand, enum value_type *out)
{
    if (operand->kind == EXPRESSION_VALUE && operand->value != NULL)
        *out = operand->value->value.type;
    else if (operand->kind == EXPRESSION_SIZE)
        *out = VALUE_N;
    else
        return false;
    return true;
}

static void note_wrong_type(struct parser *parser, enum expression_kind kind, const char *type_name)
{
    note_flaw(parser, FLAW_OPERAND_TYPE,
              "Incorrect operand type for operator or function; operator or function: %s, "
              "operand type: %s",
              expression_kind_name(kind), type_name);
}

/* Every operand whose type is known must be of a type in `allowed`, a set of bits. */
static void check_types(struct parser *parser, const struct expression *node, unsigned allowed)
{
    for (const struct expression *operand = node->first; operand != NULL; operand = operand->next) {
        enum value_type type = VALUE_NULL;
        if (operand_type(operand, &type) && (allowed >> type & 1) == 0)
            note_wrong_type(parser, node->kind, value_type_name(type));
    }
}

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
    char list[sizeof parser->flaw_text] = "";
    size_t size = 0;
    for (const struct path_step *step = first->path; step != NULL && size < sizeof list;
         step = step->next) {
        const char *comma = step == first->path ? "" : ", ";
        int more = bytes_given(step->name)
                       ? snprintf(list + size, sizeof list - size, "%s%.*s", comma,
                                  (int)step->name.size, (const char *)step->name.data)
                       : snprintf(list + size, sizeof list - size, "%s[%u]", comma, step->index);
        size += more > 0 ? (size_t)more : 0;
    }
    note_flaw(parser, FLAW_SAME_OPERANDS,
              "The first operand must be distinct from the remaining operands for this operator "
              "or function; operator: %s, first operand: [%.60s]",
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
    note_flaw(parser, FLAW_OPERAND_TYPE,
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
    if (!operand_type(wanted, &type) || type != VALUE_S) {
        note_wrong_type(parser, node->kind,
                        wanted->kind == EXPRESSION_PATH ? all : value_type_name(type));
        return;
    }
    struct bytes name = wanted->value->value.bytes;
    for (int known = VALUE_S; known <= VALUE_BS; known++)
        if (bytes_equal(name, bytes_text(value_type_name((enum value_type)known))))
            return;
    note_flaw(parser, FLAW_OPERAND_TYPE,
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
        check_types(parser, node, TYPES_ORDERED);
        break;
    case EXPRESSION_BETWEEN:
        check_types(parser, node, TYPES_ORDERED);
        check_bounds(parser, node);
        break;
    case EXPRESSION_BEGINS_WITH:
        check_types(parser, node, TYPES_BEGINNING);
        break;
    case EXPRESSION_SIZE:
        check_types(parser, node, TYPES_SIZED);
        break;
    case EXPRESSION_ATTRIBUTE_TYPE:
        check_attribute_type(parser, node);
        break;
    case EXPRESSION_ATTRIBUTE_EXISTS:
    case EXPRESSION_ATTRIBUTE_NOT_EXISTS:
        if (node->first->kind != EXPRESSION_PATH)
            note_flaw(parser, FLAW_OPERAND_TYPE,
                      "Operator or function requires a document path; operator or function: %s",
                      expression_kind_name(node->kind));
        break;
    default:
        break;
    }
}

/* ---- tokens and nodes ---- */

static void advance(struct parser *parser)
{
    parser->before = parser->now;
    parser->now = parser->after;
    const uint8_t *behind = parser->now.text.data + parser->now.text.size;
    const uint8_t *end = parser->text.data + parser->text.size;
    parser->after = token_read(bytes_of(behind, (size_t)(end - behind)));
}

/* "near" is what stands from the token before to the token after. */
static void *refuse_syntax(struct parser *parser)
{
    struct bytes token = parser->now.text;
    const uint8_t *from = bytes_given(parser->before.text) ? parser->before.text.data : token.data;
    const uint8_t *to = parser->now.kind == TOKEN_END
                            ? parser->before.text.data + parser->before.text.size
                            : parser->after.text.data + parser->after.text.size;
    if (parser->now.kind != TOKEN_END && parser->after.kind == TOKEN_END)
        to = token.data + token.size;
    if (parser->now.kind == TOKEN_END)
        token = BYTES_LITERAL("<EOF>");
    (void)error_set(parser->error, STATUS_VALIDATION,
                    "Invalid %s: Syntax error; token: \"%.*s\", near: \"%.*s\"", parser->what,
                    (int)token.size, (const char *)token.data, (int)(to - from),
                    (const char *)from);
    return NULL;
}

static void *refuse_memory(struct parser *parser)
{
    (void)error_set(parser->error, STATUS_NO_MEMORY, "%s", "");
    return NULL;
}

static bool take(struct parser *parser, enum token_kind kind)
{
    if (parser->now.kind != kind) {
        (void)refuse_syntax(parser);
        return false;
    }
    advance(parser);
    return true;
}

static struct expression *make_node(struct parser *parser, enum expression_kind kind)
{
    struct expression *node = arena_alloc(parser->arena, sizeof *node);
    if (node == NULL)
        return refuse_memory(parser);
    *node = (struct expression){.kind = kind};
    return node;
}

static void add_operand(struct expression *node, struct expression *operand)
{
    struct expression **last = &node->first;
    while (*last != NULL)
        last = &(*last)->next;
    *last = operand;
    node->count++;
}

static struct expression *make_binary(struct parser *parser, enum expression_kind kind,
                                      struct expression *left, struct expression *right)
{
    struct expression *node = make_node(parser, kind);
    if (node == NULL)
        return NULL;
    add_operand(node, left);
    add_operand(node, right);
    return node;
}

/* A function as an operand of something else: only size() gives a value. */
static void check_as_operand(struct parser *parser, const struct expression *node)
{
    if (is_function(node->kind) && node->kind != EXPRESSION_SIZE)
        note_flaw(parser, FLAW_MISUSED_FUNCTION,
                  "The function is not allowed to be used this way in an expression; function: %s",
                  expression_kind_name(node->kind));
}

/* ---- operands ---- */

static struct path_step *make_step(struct parser *parser, struct bytes name, uint32_t index)
{
    struct path_step *step = arena_alloc(parser->arena, sizeof *step);
    if (step == NULL)
        return refuse_memory(parser);
    *step = (struct path_step){.name = name, .index = index};
    return step;
}

/* A name, bare or by its alias. */
static struct path_step *parse_name(struct parser *parser)
{
    struct bytes name = parser->now.text;
    if (parser->now.kind == TOKEN_NAME_ALIAS) {
        const struct alias *alias = aliases_use(&parser->binding->names, name);
        if (alias == NULL)
            note_flaw(parser, FLAW_UNDEFINED_ALIAS,
                      "An expression attribute name used in the document path is not defined; "
                      "attribute name: %.*s",
                      (int)name.size, (const char *)name.data);
        else
            name = alias->name;
    } else if (parser->now.kind != TOKEN_NAME) {
        return refuse_syntax(parser);
    } else if (expression_word_is_reserved(name)) {
        note_flaw(parser, FLAW_RESERVED_WORD,
                  "Attribute name is a reserved keyword; reserved keyword: %.*s", (int)name.size,
                  (const char *)name.data);
    }
    advance(parser);
    return make_step(parser, name, 0);
}

/* [digits] */
static struct path_step *parse_index(struct parser *parser)
{
    advance(parser);
    struct bytes digits = parser->now.text;
    if (parser->now.kind != TOKEN_DIGITS)
        return refuse_syntax(parser);
    uint64_t index = 0;
    for (size_t i = 0; i < digits.size && index <= UINT32_MAX; i++)
        index = index * 10 + (uint64_t)(digits.data[i] - '0');
    if (index > UINT32_MAX)
        return refuse_syntax(parser);
    advance(parser);
    if (!take(parser, TOKEN_CLOSE_INDEX))
        return NULL;
    return make_step(parser, BYTES_NONE, (uint32_t)index);
}

static struct expression *parse_path(struct parser *parser)
{
    struct expression *node = make_node(parser, EXPRESSION_PATH);
    if (node == NULL || (node->path = parse_name(parser)) == NULL)
        return NULL;
    struct path_step *last = node->path;
    for (;;) {
        if (parser->now.kind == TOKEN_DOT) {
            advance(parser);
            last->next = parse_name(parser);
        } else if (parser->now.kind == TOKEN_OPEN_INDEX) {
            last->next = parse_index(parser);
        } else {
            return node;
        }
        last = last->next;
        if (last == NULL)
            return NULL;
    }
}

static struct expression *parse_value(struct parser *parser)
{
    struct expression *node = make_node(parser, EXPRESSION_VALUE);
    if (node == NULL)
        return NULL;
    struct bytes name = parser->now.text;
    node->value = aliases_use(&parser->binding->values, name);
    if (node->value == NULL)
        note_flaw(parser, FLAW_UNDEFINED_ALIAS,
                  "An expression attribute value used in expression is not defined; attribute "
                  "value: %.*s",
                  (int)name.size, (const char *)name.data);
    advance(parser);
    return node;
}

static struct expression *parse_primary(struct parser *parser);

static struct expression *parse_operand(struct parser *parser)
{
    struct token start = parser->now;
    struct expression *node = parse_primary(parser);
    if (node == NULL)
        return NULL;
    if (!expression_is_operand(node->kind) && !is_function(node->kind)) {
        /* A condition in parentheses where a value must be: told where it ends. */
        ensure(start.kind == TOKEN_OPEN);
        return refuse_syntax(parser);
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
            return take(parser, TOKEN_CLOSE);
        advance(parser);
    }
}

static enum expression_kind function_kind(struct parser *parser, struct bytes name)
{
    for (size_t kind = 0; kind < sizeof kinds / sizeof kinds[0]; kind++)
        if (kinds[kind].is_function && bytes_equal(name, bytes_text(kinds[kind].name)))
            return (enum expression_kind)kind;
    note_flaw(parser, FLAW_UNKNOWN_FUNCTION, "Invalid function name; function: %.*s",
              (int)name.size, (const char *)name.data);
    return EXPRESSION_CONTAINS; /* any: the flaw stops the expression */
}

static struct expression *parse_function(struct parser *parser)
{
    struct expression *node = make_node(parser, function_kind(parser, parser->now.text));
    if (node == NULL)
        return NULL;
    advance(parser);
    advance(parser); /* the parenthesis */
    if (!parse_operands(parser, node))
        return NULL;
    if (node->count == kinds[node->kind].operands)
        check_node(parser, node);
    else
        note_flaw(parser, FLAW_OPERAND_COUNT,
                  "Incorrect number of operands for operator or function; operator or function: "
                  "%s, number of operands: %u",
                  expression_kind_name(node->kind), node->count);
    return node;
}

/* ---- conditions ---- */

static struct expression *parse_or(struct parser *parser);

static bool enter(struct parser *parser)
{
    if (parser->nesting == EXPRESSION_NESTING_MAX) {
        (void)error_set(parser->error, STATUS_VALIDATION,
                        "Invalid %s: The expression is nested too deeply", parser->what);
        return false;
    }
    parser->nesting++;
    return true;
}

/* ( condition ) or ( operand ) */
static struct expression *parse_group(struct parser *parser)
{
    if (!enter(parser))
        return NULL;
    advance(parser);
    struct expression *node = parse_or(parser);
    if (node == NULL || !take(parser, TOKEN_CLOSE))
        return NULL;
    parser->nesting--;
    if (node->is_parenthesized)
        note_flaw(parser, FLAW_PARENTHESES, "The expression has redundant parentheses;");
    node->is_parenthesized = true;
    return node;
}

static struct expression *parse_primary(struct parser *parser)
{
    if (parser->now.kind == TOKEN_OPEN)
        return parse_group(parser);
    if (parser->now.kind == TOKEN_VALUE_ALIAS)
        return parse_value(parser);
    if (parser->now.kind == TOKEN_NAME && parser->after.kind == TOKEN_OPEN)
        return parse_function(parser);
    return parse_path(parser);
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
        return take(parser, TOKEN_OPEN) && parse_operands(parser, node);
    struct expression *operand = parse_operand(parser);
    if (operand == NULL)
        return false;
    add_operand(node, operand);
    if (node->kind != EXPRESSION_BETWEEN)
        return true;
    if (!take(parser, TOKEN_AND) || (operand = parse_operand(parser)) == NULL)
        return false;
    add_operand(node, operand);
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
    bool could_be_operand = expression_is_operand(left->kind) || is_function(left->kind);
    if (could_be_operand && infix_kind(parser->now.kind, &kind)) {
        struct expression *node = make_node(parser, kind);
        if (node == NULL)
            return NULL;
        check_as_operand(parser, left);
        add_operand(node, left);
        advance(parser);
        if (!parse_right_side(parser, node))
            return NULL;
        check_node(parser, node);
        return node;
    }
    bool is_bare = left->kind == EXPRESSION_PATH || left->kind == EXPRESSION_VALUE;
    if (is_bare && (parser->nesting == 0 || parser->now.kind != TOKEN_CLOSE))
        return refuse_syntax(parser);
    return left;
}

/* False, with the error set, for what cannot be true or false. */
static bool check_as_condition(struct parser *parser, const struct expression *node)
{
    if (node->kind == EXPRESSION_PATH || node->kind == EXPRESSION_VALUE) {
        (void)refuse_syntax(parser);
        return false;
    }
    if (node->kind == EXPRESSION_SIZE)
        note_flaw(parser, FLAW_MISUSED_FUNCTION,
                  "The function is not allowed to be used this way in an expression; function: %s",
                  expression_kind_name(node->kind));
    return true;
}

static struct expression *parse_not(struct parser *parser)
{
    if (parser->now.kind != TOKEN_NOT)
        return parse_comparison(parser);
    if (!enter(parser))
        return NULL;
    advance(parser);
    struct expression *operand = parse_not(parser);
    if (operand == NULL || !check_as_condition(parser, operand))
        return NULL;
    parser->nesting--;
    struct expression *node = make_node(parser, EXPRESSION_NOT);
    if (node != NULL)
        add_operand(node, operand);
    return node;
}

static struct expression *parse_and(struct parser *parser)
{
    struct expression *left = parse_not(parser);
    while (left != NULL && parser->now.kind == TOKEN_AND) {
        advance(parser);
        struct expression *right = parse_not(parser);
        if (right == NULL || !check_as_condition(parser, left) ||
            !check_as_condition(parser, right))
            return NULL;
        left = make_binary(parser, EXPRESSION_AND, left, right);
    }
    return left;
}

static struct expression *parse_or(struct parser *parser)
{
    struct expression *left = parse_and(parser);
    while (left != NULL && parser->now.kind == TOKEN_OR) {
        advance(parser);
        struct expression *right = parse_and(parser);
        if (right == NULL || !check_as_condition(parser, left) ||
            !check_as_condition(parser, right))
            return NULL;
        left = make_binary(parser, EXPRESSION_OR, left, right);
    }
    return left;
}

enum status condition_parse(struct bytes text, const char *what, struct expression_binding *binding,
                            struct arena *arena, struct expression **out, struct error *error)
{
    struct parser parser = {
        .what = what, .text = text, .binding = binding, .arena = arena, .error = error};
    if (text.size > EXPRESSION_SIZE_MAX)
        return error_set(error, STATUS_VALIDATION,
                         "Invalid %s: Expression size has exceeded the maximum allowed size; "
                         "expression size: %zu",
                         what, text.size);
    parser.after = token_read(text);
    if (parser.after.kind == TOKEN_END)
        return error_set(error, STATUS_VALIDATION, "Invalid %s: The expression can not be empty;",
                         what);
    advance(&parser);
    struct expression *root = parse_or(&parser);
    if (root != NULL && parser.now.kind != TOKEN_END)
        root = refuse_syntax(&parser);
    if (root == NULL || !check_as_condition(&parser, root))
        return error->status;
    if (parser.has_flaw)
        return error_set(error, STATUS_VALIDATION, "Invalid %s: %s", what, parser.flaw_text);
    *out = root;
    return STATUS_OK;
}
