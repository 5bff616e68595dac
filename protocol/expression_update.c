#include "protocol/expression_update.h"

#include "protocol/expression_parser.h"

enum {
    TYPES_COUNTED = 1 << VALUE_N,
    TYPES_LISTED = 1 << VALUE_L,
    TYPES_DELETED = 1 << VALUE_SS | 1 << VALUE_NS | 1 << VALUE_BS,
    TYPES_ADDED = TYPES_COUNTED | TYPES_DELETED,
};

static const char *const verb_names[UPDATE_VERBS] = {
    [UPDATE_SET] = "SET",
    [UPDATE_REMOVE] = "REMOVE",
    [UPDATE_ADD] = "ADD",
    [UPDATE_DELETE] = "DELETE",
};

/* ---- what SET sets ---- */

static struct expression *read_sum(struct parser *parser);

static void check_function(struct parser *parser, const struct expression *node)
{
    if (node->count != expression_function_operands(node->kind)) {
        parser_note_flaw(parser, FLAW_OPERAND_COUNT,
                         "Incorrect number of operands for operator or function; operator or "
                         "function: %s, number of operands: %u",
                         expression_kind_name(node->kind), node->count);
        return;
    }
    if (node->kind == EXPRESSION_LIST_APPEND)
        parser_check_types(parser, node, TYPES_LISTED);
    else if (node->first->kind != EXPRESSION_PATH)
        parser_note_flaw(parser, FLAW_OPERAND_TYPE,
                         "Operator or function requires a document path; operator or function: %s",
                         expression_kind_name(node->kind));
}

static enum expression_kind function_kind(struct parser *parser, struct bytes name)
{
    enum expression_kind kind = EXPRESSION_LIST_APPEND; /* any: a flaw stops the expression */
    if (!expression_function_find(name, &kind))
        parser_note_flaw(parser, FLAW_UNKNOWN_FUNCTION, "Invalid function name; function: %.*s",
                         (int)name.size, (const char *)name.data);
    else if (kind < EXPRESSION_PLUS)
        parser_note_flaw(parser, FLAW_MISUSED_FUNCTION,
                         "The function is not allowed in an update expression; function: %s",
                         expression_kind_name(kind));
    return kind;
}

static struct expression *read_operand(struct parser *parser);

static struct expression *read_function(struct parser *parser)
{
    struct expression *node = parser_make_node(parser, function_kind(parser, parser->now.text));
    if (node == NULL)
        return NULL;
    parser_advance(parser);
    do {
        parser_advance(parser); /* the parenthesis, or a comma */
        struct expression *operand = read_operand(parser);
        if (operand == NULL)
            return NULL;
        expression_add_operand(node, operand);
    } while (parser->now.kind == TOKEN_COMMA);
    if (!parser_take(parser, TOKEN_CLOSE))
        return NULL;
    if (node->kind >= EXPRESSION_PLUS)
        check_function(parser, node);
    return node;
}

static struct expression *read_group(struct parser *parser)
{
    parser_advance(parser);
    struct expression *node = read_sum(parser);
    if (node == NULL || !parser_take(parser, TOKEN_CLOSE))
        return NULL;
    if (node->is_parenthesized)
        parser_note_flaw(parser, FLAW_PARENTHESES, "The expression has redundant parentheses;");
    node->is_parenthesized = true;
    return node;
}

static struct expression *read_operand(struct parser *parser)
{
    bool is_function = parser->now.kind == TOKEN_NAME && parser->after.kind == TOKEN_OPEN;
    if (parser->now.kind == TOKEN_VALUE_ALIAS)
        return parser_read_value(parser);
    if (parser->now.kind != TOKEN_OPEN && !is_function)
        return parser_read_path(parser);
    if (!parser_enter(parser))
        return NULL;
    struct expression *node = is_function ? read_function(parser) : read_group(parser);
    parser->nesting--;
    return node;
}

/* operand, operand + operand, or operand - operand */
static struct expression *read_sum(struct parser *parser)
{
    struct expression *left = read_operand(parser);
    enum token_kind sign = parser->now.kind;
    if (left == NULL || (sign != TOKEN_PLUS && sign != TOKEN_MINUS))
        return left;
    parser_advance(parser);
    struct expression *right = read_operand(parser);
    if (right == NULL)
        return NULL;
    struct expression *node = parser_make_binary(
        parser, sign == TOKEN_PLUS ? EXPRESSION_PLUS : EXPRESSION_MINUS, left, right);
    if (node != NULL)
        parser_check_types(parser, node, TYPES_COUNTED);
    return node;
}

/* ---- sections ---- */

/* ADD and DELETE name types in another way than all others. */
static void check_added(struct parser *parser, enum update_verb verb,
                        const struct expression *value)
{
    static const char *const types[] = {
        [VALUE_S] = "STRING",      [VALUE_N] = "NUMBER",      [VALUE_B] = "BINARY",
        [VALUE_BOOL] = "BOOLEAN",  [VALUE_NULL] = "NULL",     [VALUE_L] = "LIST",
        [VALUE_M] = "MAP",         [VALUE_SS] = "STRING_SET", [VALUE_NS] = "NUMBER_SET",
        [VALUE_BS] = "BINARY_SET",
    };
    enum value_type type = VALUE_NULL;
    unsigned allowed = verb == UPDATE_ADD ? TYPES_ADDED : TYPES_DELETED;
    if (expression_operand_type(value, &type) && (allowed >> type & 1) == 0)
        parser_note_flaw(parser, FLAW_OPERAND_TYPE,
                         "Incorrect operand type for operator or function; operator: %s, operand "
                         "type: %s, typeSet: ALLOWED_FOR_%s_OPERAND",
                         verb_names[verb], types[type], verb_names[verb]);
}

/* What stands behind the path. False with the error set. */
static bool read_right_side(struct parser *parser, struct update_action *action)
{
    if (action->verb == UPDATE_REMOVE)
        return true;
    if (action->verb == UPDATE_SET)
        return parser_take(parser, TOKEN_EQUAL) && (action->value = read_sum(parser)) != NULL;
    if (parser->now.kind != TOKEN_VALUE_ALIAS) {
        (void)parser_refuse_syntax(parser);
        return false;
    }
    action->value = parser_read_value(parser);
    if (action->value != NULL)
        check_added(parser, action->verb, action->value);
    return action->value != NULL;
}

static bool read_action(struct parser *parser, enum update_verb verb, struct path_node *root)
{
    struct path_node *leaf = NULL;
    struct update_action *action = arena_alloc(parser->arena, sizeof *action);
    if (action == NULL) {
        (void)parser_refuse_memory(parser);
        return false;
    }
    *action = (struct update_action){.verb = verb};
    const struct expression *path = parser_read_path(parser);
    if (path == NULL || !read_right_side(parser, action) ||
        !path_tree_add(parser, root, path->path, &leaf))
        return false;
    if (leaf != NULL)
        leaf->action = action;
    return true;
}

static bool find_verb(struct bytes word, enum update_verb *out)
{
    for (int verb = 0; verb < UPDATE_VERBS; verb++)
        if (words_equal(word, bytes_text(verb_names[verb]))) {
            *out = (enum update_verb)verb;
            return true;
        }
    return false;
}

static bool read_section(struct parser *parser, bool seen[UPDATE_VERBS], struct path_node *root)
{
    enum update_verb verb;
    if (parser->now.kind != TOKEN_NAME || !find_verb(parser->now.text, &verb)) {
        (void)parser_refuse_syntax(parser);
        return false;
    }
    if (seen[verb])
        parser_note_flaw(parser, FLAW_SECTION,
                         "The \"%s\" section can only be used once in an update expression;",
                         verb_names[verb]);
    seen[verb] = true;
    do {
        parser_advance(parser); /* the verb, or a comma */
        if (!read_action(parser, verb, root))
            return false;
    } while (parser->now.kind == TOKEN_COMMA);
    return true;
}

enum status update_parse(struct bytes text, struct expression_binding *binding, struct arena *arena,
                         struct path_node **out, struct error *error)
{
    struct parser parser;
    bool seen[UPDATE_VERBS] = {false};
    struct path_node *root = arena_alloc(arena, sizeof *root);
    if (root == NULL)
        return error_set(error, STATUS_NO_MEMORY, "%s", "");
    *root = (struct path_node){.next = NULL};
    enum status status = parser_begin(&parser, text, "UpdateExpression", binding, arena, error);
    if (status != STATUS_OK)
        return status;
    while (parser.now.kind != TOKEN_END)
        if (!read_section(&parser, seen, root))
            return error->status;
    status = parser_end(&parser);
    if (status == STATUS_OK && !path_list_make(&parser, &root->paths))
        status = error->status;
    if (status == STATUS_OK)
        *out = root;
    return status;
}
