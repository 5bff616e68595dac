#include "protocol/expression_parser.h"

#include "protocol/expression.h"

#include <stdarg.h>
#include <stdio.h>

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
    [EXPRESSION_PLUS] = {"+", 0, false},
    [EXPRESSION_MINUS] = {"-", 0, false},
    [EXPRESSION_IF_NOT_EXISTS] = {"if_not_exists", 2, true},
    [EXPRESSION_LIST_APPEND] = {"list_append", 2, true},
};

const char *expression_kind_name(enum expression_kind kind)
{
    return kinds[kind].name;
}

bool expression_is_operand(enum expression_kind kind)
{
    return kind <= EXPRESSION_SIZE;
}

bool expression_is_function(enum expression_kind kind)
{
    return kinds[kind].is_function;
}

uint32_t expression_function_operands(enum expression_kind kind)
{
    return kinds[kind].operands;
}

bool expression_function_find(struct bytes name, enum expression_kind *out)
{
    for (size_t kind = 0; kind < sizeof kinds / sizeof kinds[0]; kind++)
        if (kinds[kind].is_function && bytes_equal(name, bytes_text(kinds[kind].name))) {
            *out = (enum expression_kind)kind;
            return true;
        }
    return false;
}

/* ---- flaws ---- */

void parser_note_flaw(struct parser *parser, enum flaw flaw, const char *format, ...)
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

bool expression_operand_type(const struct expression *operand, enum value_type *out)
{
    if (operand->kind == EXPRESSION_VALUE && operand->value != NULL)
        *out = operand->value->value.type;
    else if (operand->kind == EXPRESSION_SIZE)
        *out = VALUE_N;
    else
        return false;
    return true;
}

void parser_note_wrong_type(struct parser *parser, enum expression_kind kind, const char *type_name)
{
    parser_note_flaw(parser, FLAW_OPERAND_TYPE,
                     "Incorrect operand type for operator or function; operator or function: %s, "
                     "operand type: %s",
                     expression_kind_name(kind), type_name);
}

void parser_check_types(struct parser *parser, const struct expression *node, unsigned allowed)
{
    for (const struct expression *operand = node->first; operand != NULL; operand = operand->next) {
        enum value_type type = VALUE_NULL;
        if (expression_operand_type(operand, &type) && (allowed >> type & 1) == 0)
            parser_note_wrong_type(parser, node->kind, value_type_name(type));
    }
}

/* ---- tokens and nodes ---- */

void parser_advance(struct parser *parser)
{
    parser->before = parser->now;
    parser->now = parser->after;
    const uint8_t *behind = parser->now.text.data + parser->now.text.size;
    const uint8_t *end = parser->text.data + parser->text.size;
    parser->after = token_read(bytes_of(behind, (size_t)(end - behind)));
}

/* "near" is what stands from the token before to the token after. */
void *parser_refuse_syntax(struct parser *parser)
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

void *parser_refuse_memory(struct parser *parser)
{
    (void)error_set(parser->error, STATUS_NO_MEMORY, "%s", "");
    return NULL;
}

bool parser_take(struct parser *parser, enum token_kind kind)
{
    if (parser->now.kind != kind) {
        (void)parser_refuse_syntax(parser);
        return false;
    }
    parser_advance(parser);
    return true;
}

bool parser_enter(struct parser *parser)
{
    if (parser->nesting == EXPRESSION_NESTING_MAX) {
        (void)error_set(parser->error, STATUS_VALIDATION,
                        "Invalid %s: The expression is nested too deeply", parser->what);
        return false;
    }
    parser->nesting++;
    return true;
}

struct expression *parser_make_node(struct parser *parser, enum expression_kind kind)
{
    struct expression *node = arena_alloc(parser->arena, sizeof *node);
    if (node == NULL)
        return parser_refuse_memory(parser);
    *node = (struct expression){.kind = kind};
    parser->operators += kind != EXPRESSION_PATH && kind != EXPRESSION_VALUE;
    return node;
}

void expression_add_operand(struct expression *node, struct expression *operand)
{
    struct expression **last = &node->first;
    while (*last != NULL)
        last = &(*last)->next;
    *last = operand;
    node->count++;
}

struct expression *parser_make_binary(struct parser *parser, enum expression_kind kind,
                                      struct expression *left, struct expression *right)
{
    struct expression *node = parser_make_node(parser, kind);
    if (node == NULL)
        return NULL;
    expression_add_operand(node, left);
    expression_add_operand(node, right);
    return node;
}

static struct path_step *make_step(struct parser *parser, struct bytes name, uint32_t index)
{
    struct path_step *step = arena_alloc(parser->arena, sizeof *step);
    if (step == NULL)
        return parser_refuse_memory(parser);
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
            parser_note_flaw(
                parser, FLAW_UNDEFINED_ALIAS,
                "An expression attribute name used in the document path is not defined; "
                "attribute name: %.*s",
                (int)name.size, (const char *)name.data);
        else
            name = alias->name;
    } else if (parser->now.kind != TOKEN_NAME) {
        return parser_refuse_syntax(parser);
    } else if (expression_word_is_reserved(name)) {
        parser_note_flaw(parser, FLAW_RESERVED_WORD,
                         "Attribute name is a reserved keyword; reserved keyword: %.*s",
                         (int)name.size, (const char *)name.data);
    }
    parser_advance(parser);
    return make_step(parser, name, 0);
}

/* [digits] */
static struct path_step *parse_index(struct parser *parser)
{
    parser_advance(parser);
    struct bytes digits = parser->now.text;
    if (parser->now.kind != TOKEN_DIGITS)
        return parser_refuse_syntax(parser);
    uint64_t index = 0;
    for (size_t i = 0; i < digits.size && index <= UINT32_MAX; i++)
        index = index * 10 + (uint64_t)(digits.data[i] - '0');
    if (index > INT32_MAX) {
        parser_note_flaw(parser, FLAW_PATHS,
                         "List index is not within the allowable range; index: [%.*s]",
                         (int)(digits.size < 40 ? digits.size : 40), (const char *)digits.data);
        index = 0;
    }
    parser_advance(parser);
    if (!parser_take(parser, TOKEN_CLOSE_INDEX))
        return NULL;
    return make_step(parser, BYTES_NONE, (uint32_t)index);
}

void path_print(const struct path_step *path, char *out, size_t size)
{
    size_t used = 0;
    out[0] = '\0';
    for (const struct path_step *step = path; step != NULL && used < size; step = step->next) {
        const char *comma = step == path ? "" : ", ";
        int echo = step->name.size < size ? (int)step->name.size : (int)size;
        int more = bytes_given(step->name)
                       ? snprintf(out + used, size - used, "%s%.*s", comma, echo,
                                  (const char *)step->name.data)
                       : snprintf(out + used, size - used, "%s[%u]", comma, step->index);
        used += more > 0 ? (size_t)more : 0;
    }
}

struct expression *parser_read_path(struct parser *parser)
{
    struct expression *node = parser_make_node(parser, EXPRESSION_PATH);
    if (node == NULL || (node->path = parse_name(parser)) == NULL)
        return NULL;
    node->earlier = parser->last_path;
    parser->last_path = node;
    parser->path_count++;
    struct path_step *last = node->path;
    for (unsigned levels = 1;; levels++) {
        if (levels == PATH_STEPS_MAX + 1)
            parser_note_flaw(parser, FLAW_PATHS, "The document path has too many nesting levels");
        if (parser->now.kind == TOKEN_DOT) {
            parser_advance(parser);
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

struct expression *parser_read_value(struct parser *parser)
{
    struct expression *node = parser_make_node(parser, EXPRESSION_VALUE);
    if (node == NULL)
        return NULL;
    struct bytes name = parser->now.text;
    node->value = aliases_use(&parser->binding->values, name);
    if (node->value == NULL)
        parser_note_flaw(
            parser, FLAW_UNDEFINED_ALIAS,
            "An expression attribute value used in expression is not defined; attribute "
            "value: %.*s",
            (int)name.size, (const char *)name.data);
    parser_advance(parser);
    return node;
}

/* ---- the whole ---- */

enum status parser_begin(struct parser *parser, struct bytes text, const char *what,
                         struct expression_binding *binding, struct arena *arena,
                         struct error *error)
{
    *parser = (struct parser){
        .what = what, .text = text, .binding = binding, .arena = arena, .error = error};
    if (text.size > (binding->is_made ? EXPRESSION_MADE_MAX : EXPRESSION_SIZE_MAX))
        return error_set(error, STATUS_VALIDATION,
                         "Invalid %s: Expression size has exceeded the maximum allowed size; "
                         "expression size: %zu",
                         what, text.size);
    parser->after = token_read(text);
    if (parser->after.kind == TOKEN_END)
        return error_set(error, STATUS_VALIDATION, "Invalid %s: The expression can not be empty;",
                         what);
    parser_advance(parser);
    return STATUS_OK;
}

enum status parser_end(struct parser *parser)
{
    if (parser->operators > EXPRESSION_OPERATORS_MAX && !parser->binding->is_made)
        parser_note_flaw(parser, FLAW_OPERATOR_COUNT,
                         "The expression contains too many operators; operator count: %u",
                         parser->operators);
    if (!parser->has_flaw)
        return STATUS_OK;
    return error_set(parser->error, STATUS_VALIDATION, "Invalid %s: %s", parser->what,
                     parser->flaw_text);
}
