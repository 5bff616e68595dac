#include "protocol/expression.h"

#include "protocol/encoding/msgpack.h"
#include "protocol/expression_tree.h"

/* One condition on one attribute; the attribute stands on the left. */
struct key_test {
    enum expression_kind kind;
    struct bytes name;
    const struct alias *values[2]; /* the second for BETWEEN */
};

enum { KEY_TESTS_MAX = 2 };

/* What a key condition tests, in the order of its text. */
struct key_tests {
    struct key_test tests[KEY_TESTS_MAX];
    size_t count; /* may be more than KEY_TESTS_MAX; those are not kept */
};

static enum status refuse(struct error *error, const char *what, const char *name)
{
    return error_set(error, STATUS_VALIDATION, "%s%s", what, name);
}

static enum expression_kind turned_round(enum expression_kind kind)
{
    switch (kind) {
    case EXPRESSION_LESS:
        return EXPRESSION_GREATER;
    case EXPRESSION_LESS_EQUAL:
        return EXPRESSION_GREATER_EQUAL;
    case EXPRESSION_GREATER:
        return EXPRESSION_LESS;
    case EXPRESSION_GREATER_EQUAL:
        return EXPRESSION_LESS_EQUAL;
    default:
        return kind;
    }
}

static bool kind_is_allowed(enum expression_kind kind)
{
    return kind == EXPRESSION_EQUAL || (kind >= EXPRESSION_LESS && kind <= EXPRESSION_BETWEEN) ||
           kind == EXPRESSION_BEGINS_WITH;
}

/* Finds the one attribute among the operands. `at` is its place. */
static enum status find_attribute(const struct expression *node, struct bytes *name, uint32_t *at,
                                  struct error *error)
{
    *name = BYTES_NONE;
    uint32_t place = 0;
    for (const struct expression *operand = node->first; operand != NULL;
         operand = operand->next, place++) {
        if (operand->kind == EXPRESSION_SIZE)
            return refuse(error, "KeyConditionExpressions cannot contain nested operations", "");
        if (operand->kind != EXPRESSION_PATH)
            continue;
        if (bytes_given(*name))
            return refuse(error,
                          "Invalid condition in KeyConditionExpression: Multiple attribute names "
                          "used in one condition",
                          "");
        if (operand->path->next != NULL)
            return refuse(
                error, "KeyConditionExpressions cannot have conditions on nested attributes", "");
        *name = operand->path->name;
        *at = place;
    }
    if (!bytes_given(*name))
        return refuse(
            error, "Invalid condition in KeyConditionExpression: No key attribute specified", "");
    return STATUS_OK;
}

static enum status add_test(struct key_tests *tests, const struct expression *node,
                            struct error *error)
{
    if (!kind_is_allowed(node->kind))
        return refuse(error, "Invalid operator used in KeyConditionExpression: ",
                      expression_kind_name(node->kind));
    bool is_fixed = node->kind == EXPRESSION_BETWEEN || node->kind == EXPRESSION_BEGINS_WITH;
    if (is_fixed && node->first->kind != EXPRESSION_PATH)
        return error_set(error, STATUS_VALIDATION,
                         "Invalid condition in KeyConditionExpression: %s operator must have the "
                         "key attribute as its first operand",
                         expression_kind_name(node->kind));
    struct key_test test = {.kind = node->kind};
    uint32_t at = 0;
    enum status status = find_attribute(node, &test.name, &at, error);
    if (status != STATUS_OK)
        return status;
    for (size_t i = 0; i < tests->count && i < KEY_TESTS_MAX; i++)
        if (bytes_equal(tests->tests[i].name, test.name))
            return refuse(error,
                          "Invalid KeyConditionExpression: KeyConditionExpressions must only "
                          "contain one condition per key",
                          "");
    if (at == 0) {
        test.values[0] = node->first->next->value;
        if (node->kind == EXPRESSION_BETWEEN)
            test.values[1] = node->first->next->next->value;
    } else {
        test.values[0] = node->first->value;
        test.kind = turned_round(node->kind);
    }
    if (tests->count < KEY_TESTS_MAX)
        tests->tests[tests->count] = test;
    tests->count++;
    return STATUS_OK;
}

/* Nesting is bounded by the parser, but a chain of ANDs leans to the left as long as its text. */
static enum status collect_tests(struct key_tests *tests, const struct expression *node,
                                 struct error *error)
{
    if (node->kind != EXPRESSION_AND)
        return add_test(tests, node, error);
    enum status status = collect_tests(tests, node->first, error);
    if (status == STATUS_OK)
        status = collect_tests(tests, node->first->next, error);
    return status;
}

static const struct key_test *find_test(const struct key_tests *tests, struct bytes name)
{
    for (size_t i = 0; i < tests->count; i++)
        if (bytes_equal(tests->tests[i].name, name))
            return &tests->tests[i];
    return NULL;
}

static enum status refuse_missed(struct bytes name, struct error *error)
{
    return error_set(error, STATUS_VALIDATION, "Query condition missed key schema element: %.*s",
                     (int)name.size, (const char *)name.data);
}

/* Matches tests with key attributes. `sort` is NULL when there is no test of it. */
static enum status match_tests(const struct key_tests *tests, const struct key_schema *schema,
                               const struct key_test **partition, const struct key_test **sort,
                               struct error *error)
{
    size_t keys = key_schema_has_sort(schema) ? 2 : 1;
    if (tests->count > keys)
        return error_set(error, STATUS_VALIDATION,
                         "The number of query conditions (%zu) exceeds the number of key "
                         "attributes defined in the schema (%zu)",
                         tests->count, keys);
    *partition = find_test(tests, schema->partition.name);
    if (*partition == NULL)
        return refuse_missed(schema->partition.name, error);
    *sort = keys == 2 ? find_test(tests, schema->sort.name) : NULL;
    if (*sort == NULL && tests->count == 2)
        return refuse_missed(schema->sort.name, error);
    if ((*partition)->kind != EXPRESSION_EQUAL)
        return refuse(error, "Query key condition not supported", "");
    return STATUS_OK;
}

/* ---- binding to the schema ---- */

static enum status refuse_memory(struct error *error)
{
    return error_set(error, STATUS_NO_MEMORY, "%s", "");
}

/* A key value as a part of key bytes, in the arena. */
static enum status value_part(const struct alias *value, const struct key_schema *schema,
                              bool is_sort, struct arena *arena, struct bytes *out,
                              struct error *error)
{
    uint8_t ordered[NUMBER_ORDERED_MAX];
    struct bytes contents;
    struct msgpack_cursor cursor = msgpack_cursor_of(value->bytes);
    enum status status =
        key_value_read(&cursor, schema, is_sort, KEY_IN_CONDITION, ordered, &contents, error);
    if (status != STATUS_OK)
        return status;
    enum value_type type = is_sort ? schema->sort.type : schema->partition.type;
    uint8_t *part = arena_alloc(arena, 2 * contents.size + 2);
    if (part == NULL)
        return refuse_memory(error);
    const uint8_t *end = key_part_write(part, type, contents, key_schema_is_last(schema, is_sort));
    *out = bytes_of(part, (size_t)(end - part));
    return STATUS_OK;
}

/* The smallest key above all whose sort key is this one. */
static bool key_after(struct bytes value, bool is_followed, struct arena *arena, struct bytes *out)
{
    bool is_unbounded = false; /* never: terminators and numbers do not end in FF */
    return is_followed ? bytes_prefix_end(value, arena, out, &is_unbounded)
                       : bytes_next(value, arena, out);
}

/* What begins with a value begins with its part, but for the terminator. */
static struct bytes part_prefix(struct bytes value, bool is_followed)
{
    return is_followed ? bytes_of(value.data, value.size - KEY_TERMINATOR) : value;
}

/* The interval of one test; `second` is the upper bound of BETWEEN. */
static bool test_interval(enum expression_kind kind, bool is_followed, struct bytes value,
                          struct bytes second, struct arena *arena, struct key_interval *out)
{
    bool is_unbounded = false;
    *out = (struct key_interval){BYTES_LITERAL(""), BYTES_NONE};
    switch (kind) {
    case EXPRESSION_LESS:
        out->high = value;
        return true;
    case EXPRESSION_LESS_EQUAL:
        return key_after(value, is_followed, arena, &out->high);
    case EXPRESSION_GREATER:
        return key_after(value, is_followed, arena, &out->low);
    case EXPRESSION_GREATER_EQUAL:
        out->low = value;
        return true;
    case EXPRESSION_BETWEEN:
        out->low = value;
        return key_after(second, is_followed, arena, &out->high);
    case EXPRESSION_BEGINS_WITH:
        out->low = part_prefix(value, is_followed);
        return bytes_prefix_end(out->low, arena, &out->high, &is_unbounded);
    default: /* = */
        out->low = value;
        return key_after(value, is_followed, arena, &out->high);
    }
}

static enum status bind_sort(const struct key_test *test, const struct key_schema *schema,
                             struct arena *arena, struct key_interval *out, struct error *error)
{
    struct bytes parts[2] = {BYTES_NONE, BYTES_NONE};
    for (size_t i = 0; i < 2 && test->values[i] != NULL; i++) {
        enum status status = value_part(test->values[i], schema, true, arena, &parts[i], error);
        if (status != STATUS_OK)
            return status;
    }
    if (!test_interval(test->kind, schema->is_followed, parts[0], parts[1], arena, out))
        return refuse_memory(error);
    return STATUS_OK;
}

static enum status bind_tests(const struct key_tests *tests, const struct key_schema *schema,
                              struct arena *arena, struct key_condition *out, struct error *error)
{
    const struct key_test *partition = NULL;
    const struct key_test *sort = NULL;
    enum status status = match_tests(tests, schema, &partition, &sort, error);
    if (status != STATUS_OK)
        return status;
    struct key_condition condition = {.interval = {BYTES_LITERAL(""), BYTES_NONE}};
    status = value_part(partition->values[0], schema, false, arena, &condition.partition, error);
    if (status == STATUS_OK && sort != NULL)
        status = bind_sort(sort, schema, arena, &condition.interval, error);
    if (status == STATUS_OK)
        *out = condition;
    return status;
}

enum status key_condition_of_tree(const struct expression *tree, const struct key_schema *schema,
                                  struct arena *arena, struct key_condition *out,
                                  struct error *error)
{
    struct key_tests tests = {.count = 0};
    enum status status = collect_tests(&tests, tree, error);
    if (status == STATUS_OK)
        status = bind_tests(&tests, schema, arena, out, error);
    return status;
}

enum status key_condition_bind(const struct expression_input *input,
                               const struct key_schema *schema, struct arena *arena,
                               struct key_condition *out, struct error *error)
{
    struct expression_binding binding;
    struct expression *root = NULL;
    enum status status = binding_init(input->names, input->values, arena, &binding, error);
    if (status == STATUS_OK)
        status =
            condition_parse(input->text, "KeyConditionExpression", &binding, arena, &root, error);
    if (status == STATUS_OK)
        status = binding_check_all_used(&binding, error);
    if (status == STATUS_OK)
        status = key_condition_of_tree(root, schema, arena, out, error);
    return status;
}
