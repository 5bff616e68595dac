#include "protocol/encoding/msgpack.h"
#include "protocol/expression.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

enum { ARENA_MAX = 1 << 20 };

static const struct key_schema schema_ss = {
    {BYTES_LITERAL("p"), VALUE_S}, {BYTES_LITERAL("s"), VALUE_S}, false};
static const struct key_schema schema_sn = {
    {BYTES_LITERAL("p"), VALUE_S}, {BYTES_LITERAL("s"), VALUE_N}, false};
static const struct key_schema schema_sb = {
    {BYTES_LITERAL("p"), VALUE_S}, {BYTES_LITERAL("s"), VALUE_B}, false};
static const struct key_schema schema_s = {
    {BYTES_LITERAL("p"), VALUE_S}, {BYTES_NONE, VALUE_S}, false};
static const struct key_schema schema_name = {
    {BYTES_LITERAL("name"), VALUE_S}, {BYTES_LITERAL("s"), VALUE_S}, false};

/* Every value that the cases speak of; a case gets those whose alias its text contains. */
static const struct {
    const char *alias;
    struct value value;
} all_values[] = {
    {":a", {.type = VALUE_S, .bytes = {(const uint8_t *)"a", 1}}},
    {":b", {.type = VALUE_S, .bytes = {(const uint8_t *)"b", 1}}},
    {":bin", {.type = VALUE_B, .bytes = {(const uint8_t *)"\x00", 1}}},
    {":empty", {.type = VALUE_S, .bytes = {(const uint8_t *)"", 0}}},
    {":five", {.type = VALUE_N, .number = {5, 0, false}}},
    {":ff", {.type = VALUE_B, .bytes = {(const uint8_t *)"\xff\xff", 2}}},
    {":half", {.type = VALUE_N, .number = {5, -1, true}}},
    {":null", {.type = VALUE_NULL}},
    {":p", {.type = VALUE_S, .bytes = {(const uint8_t *)"k\0k", 3}}},
    {":true", {.type = VALUE_BOOL, .truth = true}},
};

static const struct {
    const char *alias, *name;
} all_names[] = {{"#n", "name"}, {"#p", "p"}, {"#s", "s"}};

static bool is_word_part(char letter)
{
    return (letter >= 'a' && letter <= 'z') || (letter >= '0' && letter <= '9') || letter == '_';
}

static bool text_uses(const char *text, const char *alias)
{
    size_t size = strlen(alias);
    for (const char *at = strstr(text, alias); at != NULL; at = strstr(at + 1, alias))
        if (!is_word_part(at[size]))
            return true;
    return false;
}

static struct bytes encode_map(struct attribute *attributes, size_t count, struct buffer *out)
{
    if (count == 0)
        return BYTES_NONE;
    struct value map = {.type = VALUE_M, .attributes = attributes, .count = count};
    assert_true(value_encode(&map, out));
    return buffer_bytes(out);
}

/* The names and values that an expression uses, and `extra` ones that it does not. */
struct input {
    struct expression_input input;
    struct buffer names, values;
};

static void make_input(const char *text, const char *extra, struct input *out)
{
    struct attribute attributes[16];
    size_t count = 0;
    *out = (struct input){.input = {.text = bytes_text(text)}};
    for (size_t i = 0; i < sizeof all_names / sizeof all_names[0]; i++)
        if (text_uses(text, all_names[i].alias) || text_uses(extra, all_names[i].alias))
            attributes[count++] =
                (struct attribute){bytes_text(all_names[i].alias),
                                   {.type = VALUE_S, .bytes = bytes_text(all_names[i].name)}};
    out->input.names = encode_map(attributes, count, &out->names);
    count = 0;
    for (size_t i = 0; i < sizeof all_values / sizeof all_values[0]; i++)
        if (text_uses(text, all_values[i].alias) || text_uses(extra, all_values[i].alias))
            attributes[count++] =
                (struct attribute){bytes_text(all_values[i].alias), all_values[i].value};
    out->input.values = encode_map(attributes, count, &out->values);
}

static void input_deinit(struct input *input)
{
    buffer_deinit(&input->names);
    buffer_deinit(&input->values);
}

/* "k\0k" as the first of two parts. */
#define PARTITION "6b00ff6b0001"

static void to_hex(struct bytes bytes, char *out)
{
    if (!bytes_given(bytes)) {
        memcpy(out, "end", 4);
        return;
    }
    out[0] = '\0';
    for (size_t i = 0; i < bytes.size; i++)
        (void)sprintf(out + 2 * i, "%02x", bytes.data[i]);
}

static void bind_to_interval(const struct key_schema *schema, const char *text,
                             const char *partition, const char *low, const char *high)
{
    struct arena arena;
    struct input input;
    struct key_condition condition;
    struct error error = {.text = ""};
    char hex[128];
    arena_init(&arena, NULL, 0, ARENA_MAX);
    make_input(text, "", &input);
    if (key_condition_bind(&input.input, schema, &arena, &condition, &error) != STATUS_OK)
        fail_msg("%s: %s", text, error.text);
    to_hex(condition.partition, hex);
    assert_string_equal(hex, partition);
    to_hex(condition.interval.low, hex);
    assert_string_equal(hex, low);
    to_hex(condition.interval.high, hex);
    assert_string_equal(hex, high);
    input_deinit(&input);
    arena_deinit(&arena);
}

static void conditions_become_intervals(void **state)
{
    (void)state;
    static const struct {
        const struct key_schema *schema;
        const char *text, *low, *high;
    } cases[] = {
        {&schema_ss, "p = :p", "", "end"},
        {&schema_ss, "p=:p", "", "end"},
        {&schema_ss, " \t\r\n p \n=\t:p ", "", "end"},
        {&schema_ss, ":p = p", "", "end"},
        {&schema_ss, "(p = :p)", "", "end"},
        {&schema_ss, "(p) = (:p)", "", "end"},
        {&schema_ss, "#p = :p", "", "end"},
        {&schema_ss, "p = :p AND s = :a", "61", "6100"},
        {&schema_ss, "p = :p and s = :a", "61", "6100"},
        {&schema_ss, "p = :p aNd s = :a", "61", "6100"},
        {&schema_ss, "s = :a AND p = :p", "61", "6100"},
        {&schema_ss, ":a = s AND :p = p", "61", "6100"},
        {&schema_ss, "(p = :p) AND (s = :a)", "61", "6100"},
        {&schema_ss, "(p = :p AND s = :a)", "61", "6100"},
        {&schema_ss, "#p = :p AND #s = :a", "61", "6100"},
        {&schema_ss, "p = :p AND s < :a", "", "61"},
        {&schema_ss, "p = :p AND s <= :a", "", "6100"},
        {&schema_ss, "p = :p AND s > :a", "6100", "end"},
        {&schema_ss, "p = :p AND s >= :a", "61", "end"},
        {&schema_ss, "p = :p AND :a < s", "6100", "end"},
        {&schema_ss, "p = :p AND :a <= s", "61", "end"},
        {&schema_ss, "p = :p AND :a > s", "", "61"},
        {&schema_ss, "p = :p AND :a >= s", "", "6100"},
        {&schema_ss, "p = :p AND s BETWEEN :a AND :b", "61", "6200"},
        {&schema_ss, "p = :p AND s between :a and :a", "61", "6100"},
        {&schema_ss, "s BETWEEN :a AND :b AND p = :p", "61", "6200"},
        {&schema_ss, "p = :p AND (s BETWEEN (:a) AND (:b))", "61", "6200"},
        {&schema_ss, "p = :p AND begins_with(s, :a)", "61", "62"},
        {&schema_ss, "p = :p AND begins_with ( s , :a )", "61", "62"},
        {&schema_ss, "begins_with(#s, :a) AND #p = :p", "61", "62"},
        {&schema_sb, "p = :p AND begins_with(s, :bin)", "00", "01"},
        {&schema_sb, "p = :p AND begins_with(s, :ff)", "ffff", "end"},
        {&schema_sb, "p = :p AND s > :bin", "0000", "end"},
        {&schema_sn, "p = :p AND s = :five", "038264", "03826400"},
        {&schema_sn, "p = :p AND s < :half", "", "017e9b"},
        {&schema_sn, "p = :p AND s BETWEEN :half AND :five", "017e9b", "03826400"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        bind_to_interval(cases[i].schema, cases[i].text, PARTITION, cases[i].low, cases[i].high);
    /* The only part is the last one, and raw. */
    bind_to_interval(&schema_s, "p = :p", "6b006b", "", "end");
    /* A reserved word by its alias. */
    bind_to_interval(&schema_name, "#n = :p", PARTITION, "", "end");
}

#define BAD     "Invalid KeyConditionExpression: "
#define OPERAND BAD "Incorrect operand type for operator or function; operator or function: "
#define SCHEMA                                                                                     \
    "One or more parameter values were invalid: Condition parameter type does not match schema "   \
    "type"

static const struct refusal {
    const struct key_schema *schema;
    const char *text, *refusal;
} refusals[] = {
    /* Syntax */
    {&schema_ss, "", BAD "The expression can not be empty;"},
    {&schema_ss, "  \n", BAD "The expression can not be empty;"},
    {&schema_ss, "p", BAD "Syntax error; token: \"<EOF>\", near: \"p\""},
    {&schema_ss, "p =", BAD "Syntax error; token: \"<EOF>\", near: \"=\""},
    {&schema_ss, "= :p", BAD "Syntax error; token: \"=\", near: \"= :p\""},
    {&schema_ss, "p = 4", BAD "Syntax error; token: \"4\", near: \"= 4\""},
    {&schema_ss, "p :p", BAD "Syntax error; token: \":p\", near: \"p :p\""},
    {&schema_ss, "p == :p", BAD "Syntax error; token: \"=\", near: \"== :p\""},
    {&schema_ss, "p = :p AND", BAD "Syntax error; token: \"<EOF>\", near: \"AND\""},
    {&schema_ss, "p = :p s = :a", BAD "Syntax error; token: \"s\", near: \":p s =\""},
    {&schema_ss, "(p = :p", BAD "Syntax error; token: \"<EOF>\", near: \":p\""},
    {&schema_ss, "p = :p)", BAD "Syntax error; token: \")\", near: \":p)\""},
    {&schema_ss, "p ! :p", BAD "Syntax error; token: \"!\", near: \"p ! :p\""},
    {&schema_ss, "p = 'k'", BAD "Syntax error; token: \"'\", near: \"= 'k\""},
    {&schema_ss, "p = :", BAD "Syntax error; token: \":\", near: \"= :\""},
    {&schema_ss, "# = :p", BAD "Syntax error; token: \"#\", near: \"# =\""},
    {&schema_ss, "p = :p AND s BETWEEN :a", BAD "Syntax error; token: \"<EOF>\", near: \":a\""},
    {&schema_ss, "p = :p AND s BETWEEN :a OR :b",
     BAD "Syntax error; token: \"OR\", near: \":a OR :b\""},
    {&schema_ss, "p = :p AND begins_with(s, :a",
     BAD "Syntax error; token: \"<EOF>\", near: \":a\""},
    {&schema_ss, "p = :p AND begins_with()", BAD "Syntax error; token: \")\", near: \"()\""},
    {&schema_ss, "p = :p AND (s)", BAD "Syntax error; token: \"<EOF>\", near: \")\""},
    {&schema_ss, "p = (s = :a)", BAD "Syntax error; token: \"<EOF>\", near: \")\""},
    {&schema_ss, "p = :p AND s[a] = :a", BAD "Syntax error; token: \"a\", near: \"[a]\""},
    {&schema_ss, "p = :p AND s[2147483648] = :a",
     BAD "List index is not within the allowable range; index: [2147483648]"},
    {&schema_ss, "p = :p AND s[99999999999999999999] = :a",
     BAD "List index is not within the allowable range; index: [99999999999999999999]"},
    {&schema_ss, "and = :p", BAD "Syntax error; token: \"and\", near: \"and =\""},
    /* Good syntax, wrong anyhow */
    {&schema_ss, "((p = :p))", BAD "The expression has redundant parentheses;"},
    {&schema_ss, "p = ((:p))", BAD "The expression has redundant parentheses;"},
    {&schema_ss, "p = :p AND ((s = :a))", BAD "The expression has redundant parentheses;"},
    {&schema_ss, "p = :p AND starts(s, :a)", BAD "Invalid function name; function: starts"},
    {&schema_ss, "p = :p AND BEGINS_WITH(s, :a)",
     BAD "Invalid function name; function: BEGINS_WITH"},
    {&schema_ss, "p = :p AND size(s)",
     BAD "The function is not allowed to be used this way in an expression; function: size"},
    {&schema_ss, "p = begins_with(s, :a)",
     BAD "The function is not allowed to be used this way in an expression; function: "
         "begins_with"},
    {&schema_name, "name = :p", BAD "Attribute name is a reserved keyword; reserved keyword: name"},
    {&schema_ss, "p = :p AND Status = :a",
     BAD "Attribute name is a reserved keyword; reserved keyword: Status"},
    {&schema_ss, "p = :nothing",
     BAD "An expression attribute value used in expression is not defined; attribute value: "
         ":nothing"},
    {&schema_ss, "#nothing = :p",
     BAD "An expression attribute name used in the document path is not defined; attribute name: "
         "#nothing"},
    {&schema_ss, "p = :p AND begins_with(s)",
     BAD "Incorrect number of operands for operator or function; operator or function: "
         "begins_with, number of operands: 1"},
    {&schema_ss, "p = p",
     BAD "The first operand must be distinct from the remaining operands for this operator or "
         "function; operator: =, first operand: [p]"},
    {&schema_ss, "p = :p AND s.a[3] < s.a[3]",
     BAD "The first operand must be distinct from the remaining operands for this operator or "
         "function; operator: <, first operand: [s, a, [3]]"},
    {&schema_ss, "p = :p AND begins_with(s, :five)", OPERAND "begins_with, operand type: N"},
    {&schema_sn, "p = :p AND begins_with(s, :five)", OPERAND "begins_with, operand type: N"},
    {&schema_ss, "p = :p AND begins_with(s, :true)", OPERAND "begins_with, operand type: BOOL"},
    {&schema_sn, "p = :p AND s < :true", OPERAND "<, operand type: BOOL"},
    {&schema_sn, "p = :p AND :true >= s", OPERAND ">=, operand type: BOOL"},
    {&schema_sn, "p = :p AND s BETWEEN :true AND :null", OPERAND "BETWEEN, operand type: BOOL"},
    {&schema_sn, "p = :p AND size(:five) > :five", OPERAND "size, operand type: N"},
    {&schema_ss, "attribute_exists(:p)",
     BAD "Operator or function requires a document path; operator or function: attribute_exists"},
    {&schema_ss, "attribute_type(p, s)",
     OPERAND "attribute_type, operand type: {NS,SS,L,BS,N,M,B,BOOL,NULL,S}"},
    {&schema_ss, "attribute_type(p, :five)", OPERAND "attribute_type, operand type: N"},
    {&schema_ss, "attribute_type(p, :a)",
     BAD "Invalid attribute type name found; type: a, valid types: "
         "{B,NULL,SS,BOOL,L,BS,N,NS,S,M}"},
    {&schema_ss, "p = :p AND s BETWEEN :b AND :a",
     BAD "The BETWEEN operator requires upper bound to be greater than or equal to lower bound; "
         "lower bound operand: AttributeValue: {S:b}, upper bound operand: AttributeValue: {S:a}"},
    {&schema_sn, "p = :p AND s BETWEEN :five AND :half",
     BAD "The BETWEEN operator requires upper bound to be greater than or equal to lower bound; "
         "lower bound operand: AttributeValue: {N:5}, upper bound operand: AttributeValue: "
         "{N:-0.5}"},
    {&schema_sn, "p = :p AND s BETWEEN :five AND :a",
     BAD "The BETWEEN operator requires same data type for lower and upper bounds; lower bound "
         "operand: AttributeValue: {N:5}, upper bound operand: AttributeValue: {S:a}"},
    /* No key condition */
    {&schema_ss, "p = :p OR s = :a", "Invalid operator used in KeyConditionExpression: OR"},
    {&schema_ss, "NOT p = :p", "Invalid operator used in KeyConditionExpression: NOT"},
    {&schema_ss, "p <> :p", "Invalid operator used in KeyConditionExpression: <>"},
    {&schema_ss, "p IN (:p, :a)", "Invalid operator used in KeyConditionExpression: IN"},
    {&schema_ss, "p = :p AND contains(s, :a)",
     "Invalid operator used in KeyConditionExpression: contains"},
    {&schema_ss, "attribute_exists(p)",
     "Invalid operator used in KeyConditionExpression: attribute_exists"},
    {&schema_ss, "p = :p AND :a BETWEEN s AND :b",
     "Invalid condition in KeyConditionExpression: BETWEEN operator must have the key attribute "
     "as its first operand"},
    {&schema_ss, "p = :p AND begins_with(:a, s)",
     "Invalid condition in KeyConditionExpression: begins_with operator must have the key "
     "attribute as its first operand"},
    {&schema_sn, "p = :p AND size(s) > :five",
     "KeyConditionExpressions cannot contain nested operations"},
    {&schema_ss, "p = s",
     "Invalid condition in KeyConditionExpression: Multiple attribute names used in one condition"},
    {&schema_ss, "p = :p AND s.a = :a",
     "KeyConditionExpressions cannot have conditions on nested attributes"},
    {&schema_ss, "p = :p AND s[0] = :a",
     "KeyConditionExpressions cannot have conditions on nested attributes"},
    {&schema_ss, ":p = :a",
     "Invalid condition in KeyConditionExpression: No key attribute specified"},
    {&schema_ss, "p = :p AND p = :p",
     BAD "KeyConditionExpressions must only contain one condition per key"},
    {&schema_ss, "p = :p AND s > :a AND s < :b",
     BAD "KeyConditionExpressions must only contain one condition per key"},
    {&schema_ss, "p = :p AND s > :a AND extra = :b",
     "The number of query conditions (3) exceeds the number of key attributes defined in the "
     "schema (2)"},
    {&schema_s, "p = :p AND s = :a",
     "The number of query conditions (2) exceeds the number of key attributes defined in the "
     "schema (1)"},
    /* Not of this schema */
    {&schema_ss, "s = :a", "Query condition missed key schema element: p"},
    {&schema_ss, "x = :p AND s = :a", "Query condition missed key schema element: p"},
    {&schema_ss, "p = :p AND x = :a", "Query condition missed key schema element: s"},
    {&schema_ss, "p > :p", "Query key condition not supported"},
    {&schema_ss, "p = :p AND s = :five", SCHEMA},
    {&schema_sn, "p = :p AND s = :true", SCHEMA},
    {&schema_sn, "p = :p AND begins_with(s, :a)", SCHEMA},
    {&schema_ss, "p = :five", SCHEMA},
    {&schema_ss, "p = :empty",
     "One or more parameter values are not valid. The AttributeValue for a key attribute cannot "
     "contain an empty string value. Key: p"},
    {&schema_ss, "p = :p AND s = :empty",
     "One or more parameter values are not valid. The AttributeValue for a key attribute cannot "
     "contain an empty string value. Key: s"},
};

static void refuse_input(const struct expression_input *input, const struct key_schema *schema,
                         const char *refusal)
{
    struct arena arena;
    struct key_condition condition;
    struct error error = {.text = ""};
    arena_init(&arena, NULL, 0, ARENA_MAX);
    enum status status = key_condition_bind(input, schema, &arena, &condition, &error);
    if (status != STATUS_VALIDATION || strcmp(error.text, refusal) != 0)
        fail_msg("%.*s\n    gave %d %s\n    not    %s", (int)input->text.size,
                 (const char *)input->text.data, status, error.text, refusal);
    arena_deinit(&arena);
}

static void what_is_wrong_is_told_in_dynamodbs_words(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        struct input input;
        make_input(refusals[i].text, "", &input);
        refuse_input(&input.input, refusals[i].schema, refusals[i].refusal);
        input_deinit(&input);
    }
}

static void unused_names_and_values_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *extra, *refusal;
    } cases[] = {
        {":a", "Value provided in ExpressionAttributeValues unused in expressions: keys: {:a}"},
        {":a :b", "Value provided in ExpressionAttributeValues unused in expressions: keys: {:a, "
                  ":b}"},
        {"#n", "Value provided in ExpressionAttributeNames unused in expressions: keys: {#n}"},
        {"#n #s :a",
         "Value provided in ExpressionAttributeNames unused in expressions: keys: {#n, #s}"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct input input;
        make_input("p = :p", cases[i].extra, &input);
        refuse_input(&input.input, &schema_ss, cases[i].refusal);
        input_deinit(&input);
    }
}

static void broken_maps_of_names_and_values_are_refused(void **state)
{
    (void)state;
    struct bytes text = BYTES_LITERAL("p = :p");
    struct bytes values = BYTES_LITERAL("\x81\xa2:p\xa1k");
    static const struct {
        struct bytes names, values;
        const char *refusal;
    } cases[] = {
        {BYTES_LITERAL("\x80"), BYTES_NONE, "ExpressionAttributeNames must not be empty"},
        {BYTES_NONE, BYTES_LITERAL("\x80"), "ExpressionAttributeValues must not be empty"},
        {BYTES_LITERAL("\x81\xa1n\xa1p"), BYTES_NONE,
         "ExpressionAttributeNames contains invalid key: Syntax error; key: \"n\""},
        {BYTES_LITERAL("\x81\xa1#\xa1p"), BYTES_NONE,
         "ExpressionAttributeNames contains invalid key: Syntax error; key: \"#\""},
        {BYTES_NONE, BYTES_LITERAL("\x81\xa2p:\xa1p"),
         "ExpressionAttributeValues contains invalid key: Syntax error; key: \"p:\""},
        {BYTES_NONE, BYTES_LITERAL("\x81\xa3:p-\xa1p"),
         "ExpressionAttributeValues contains invalid key: Syntax error; key: \":p-\""},
        {BYTES_NONE, BYTES_LITERAL("\x81\xa2:p\xc7\x00\x02"),
         "ExpressionAttributeValues contains invalid value: One or more parameter values were "
         "invalid: An string set  may not be empty for key :p"},
        {BYTES_LITERAL("\x81\xa2#n\xa0"), BYTES_NONE,
         "One or more parameter values were invalid: Empty attribute name"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct expression_input input = {text, cases[i].names,
                                         bytes_given(cases[i].values) ? cases[i].values : values};
        refuse_input(&input, &schema_ss, cases[i].refusal);
    }
    static const struct bytes malformed[] = {
        {(const uint8_t *)"\x90", 1},
        {(const uint8_t *)"\x81\x01\xa1p", 4},
        {(const uint8_t *)"\x81\xa2:p", 4},
        {(const uint8_t *)"\x81\xa2:p\xa1k\xc0", 7},
        {(const uint8_t *)"\x82\xa2:p\xa1k\xa2:p\xa1k", 11},
    };
    for (size_t i = 0; i < sizeof malformed / sizeof malformed[0]; i++) {
        struct expression_input input = {text, BYTES_NONE, malformed[i]};
        struct arena arena;
        struct key_condition condition;
        struct error error;
        arena_init(&arena, NULL, 0, ARENA_MAX);
        assert_int_equal(key_condition_bind(&input, &schema_ss, &arena, &condition, &error),
                         STATUS_MALFORMED);
        arena_deinit(&arena);
    }
}

static void an_expression_of_4_kb_is_the_longest(void **state)
{
    (void)state;
    char text[4098];
    memset(text, ' ', sizeof text);
    memcpy(text, "p = :p", 6);
    text[4096] = '\0';
    bind_to_interval(&schema_ss, text, PARTITION, "", "end");
    text[4096] = ' ';
    text[4097] = '\0';
    struct input input;
    make_input(text, "", &input);
    refuse_input(&input.input, &schema_ss,
                 BAD
                 "Expression size has exceeded the maximum allowed size; expression size: 4097");
    input_deinit(&input);
}

static void deep_nesting_is_refused_before_the_stack_ends(void **state)
{
    (void)state;
    char text[4097];
    struct input input;
    memset(text, '(', sizeof text);
    text[4096] = '\0';
    make_input(text, "", &input);
    refuse_input(&input.input, &schema_ss, BAD "The expression is nested too deeply");
    input_deinit(&input);
    for (size_t i = 0; i < 4096; i += 4)
        memcpy(text + i, "NOT ", 4);
    make_input(text, "", &input);
    refuse_input(&input.input, &schema_ss, BAD "The expression is nested too deeply");
    input_deinit(&input);
    /* Chains are no nesting: they meet the limit on operators. */
    size_t size = 0;
    while (size + 12 < 4096)
        size += (size_t)sprintf(text + size, "p%zu=:p AND ", size % 1000);
    memcpy(text + size, "p=:p", 5);
    make_input(text, "", &input);
    struct arena arena;
    struct key_condition condition;
    struct error error;
    arena_init(&arena, NULL, 0, ARENA_MAX);
    assert_int_equal(key_condition_bind(&input.input, &schema_ss, &arena, &condition, &error),
                     STATUS_VALIDATION);
    assert_non_null(strstr(error.text, "The expression contains too many operators"));
    arena_deinit(&arena);
    input_deinit(&input);
}

static void memory_that_runs_out_anywhere_is_told(void **state)
{
    (void)state;
    struct input input;
    struct key_condition condition;
    struct error error;
    make_input("#p = :p AND begins_with(#s, :a)", "", &input);
    enum status status = STATUS_NO_MEMORY;
    int refused = 0;
    for (size_t limit = 0; status == STATUS_NO_MEMORY; limit += 16) {
        struct arena arena;
        arena_init(&arena, NULL, 0, limit);
        status = key_condition_bind(&input.input, &schema_ss, &arena, &condition, &error);
        refused += status == STATUS_NO_MEMORY;
        arena_deinit(&arena);
    }
    assert_int_equal(status, STATUS_OK);
    assert_true(refused > 10);
    input_deinit(&input);
}

static void reserved_words_are_known_in_any_case(void **state)
{
    (void)state;
    static const char *const reserved[] = {"ABORT", "zone",  "Name", "status",         "SIZE",
                                           "ttl",   "yEaR",  "date", "localtimestamp", "TIMESTAMP",
                                           "of",    "LOGED", "uuid", "data",           "key"};
    static const char *const free_words[] = {"",    "p",   "pk",     "sk", "ABORTED",
                                             "ZON", "NAM", "NAMES2", "id", "localtimestamps"};
    for (size_t i = 0; i < sizeof reserved / sizeof reserved[0]; i++)
        assert_true(expression_word_is_reserved(bytes_text(reserved[i])));
    for (size_t i = 0; i < sizeof free_words / sizeof free_words[0]; i++)
        assert_false(expression_word_is_reserved(bytes_text(free_words[i])));
    assert_false(expression_word_is_reserved(BYTES_LITERAL("NAME\0")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(conditions_become_intervals),
        cmocka_unit_test(what_is_wrong_is_told_in_dynamodbs_words),
        cmocka_unit_test(unused_names_and_values_are_refused),
        cmocka_unit_test(broken_maps_of_names_and_values_are_refused),
        cmocka_unit_test(an_expression_of_4_kb_is_the_longest),
        cmocka_unit_test(deep_nesting_is_refused_before_the_stack_ends),
        cmocka_unit_test(memory_that_runs_out_anywhere_is_told),
        cmocka_unit_test(reserved_words_are_known_in_any_case),
    };
    return cmocka_run_group_tests_name("expression", tests, NULL, NULL);
}
