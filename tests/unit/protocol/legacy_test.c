/* Parameters older than expressions: the expressions that they become, and what is refused. */
#include "protocol/dynamodb/operations.h"
#include "protocol/encoding/json.h"
#include "protocol/expression_tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { ARENA_MAX = 64 << 20 };

static const struct table table = {
    .id = 1,
    .name = BYTES_LITERAL("T"),
    .key = {.partition = {BYTES_LITERAL("p"), VALUE_S}, .sort = {BYTES_LITERAL("s"), VALUE_N}}};

#define PUT_BODY    "{\"TableName\":\"T\",\"Item\":{\"p\":{\"S\":\"k\"},\"s\":{\"N\":\"1\"}},"
#define KEYED_BODY  "{\"TableName\":\"T\",\"Key\":{\"p\":{\"S\":\"k\"},\"s\":{\"N\":\"1\"}},"
#define QUERY_BODY  "{\"TableName\":\"T\","
#define P_IS_K      "\"p\":{\"AttributeValueList\":[{\"S\":\"k\"}],\"ComparisonOperator\":\"EQ\"}"
#define P_CONDITION "\"KeyConditions\":{" P_IS_K "}"

/* A request as its members say it, bound to the table if it is right. */
struct reading {
    struct arena arena;
    struct request request;
    struct error error;
    enum status status;
};

static void read_request(struct reading *reading, enum operation operation, const char *opening,
                         const char *members)
{
    char *body = NULL;
    assert_true(asprintf(&body, "%s%s}", opening, members) > 0);
    memset(reading, 0, sizeof *reading);
    arena_init(&reading->arena, NULL, 0, ARENA_MAX);
    struct bytes copy = arena_copy(&reading->arena, bytes_text(body));
    reading->request.operation = operation;
    reading->status = operations_read(copy, &reading->arena, &reading->request, &reading->error);
    if (reading->status == STATUS_OK)
        reading->status = request_bind(&reading->request, &table, &reading->arena, &reading->error);
    free(body);
}

/* Aliases of a MessagePack map become what they stand for: #L0 a name, :L0 JSON. */
static void put_meaning(struct bytes map, struct bytes alias, struct buffer *out)
{
    struct bytes found;
    struct msgpack_cursor cursor;
    assert_true(item_find(map, alias, &found));
    cursor = msgpack_cursor_of(found);
    if (alias.data[0] == '#')
        assert_true(msgpack_read_str(&cursor, &found) && buffer_append(out, found));
    else
        assert_true(json_from_plain_bytes(&cursor, out));
}

static void assert_meaning(const struct reading *reading, struct bytes text, const char *wanted)
{
    struct buffer out = {0};
    for (size_t at = 0; at < text.size;) {
        size_t end = at + 1;
        bool is_alias = text.data[at] == '#' || text.data[at] == ':';
        while (is_alias && end < text.size &&
               (text.data[end] == 'L' || (text.data[end] >= '0' && text.data[end] <= '9')))
            end++;
        struct bytes piece = bytes_of(text.data + at, end - at);
        if (is_alias)
            put_meaning(text.data[at] == '#' ? reading->request.key_condition.names
                                             : reading->request.key_condition.values,
                        piece, &out);
        else
            assert_true(buffer_append(&out, piece));
        at = end;
    }
    if (!bytes_equal(buffer_bytes(&out), bytes_text(wanted)))
        fail_msg("%.*s\nwanted:\n%s", (int)out.size, (const char *)out.data, wanted);
    buffer_deinit(&out);
}

/* ---- what they become ---- */

#define COMPARED(word, values)                                                                     \
    "\"ComparisonOperator\":\"" word "\",\"AttributeValueList\":[" values "]"

static void every_comparison_becomes_an_expression(void **state)
{
    (void)state;
    static const struct {
        const char *condition, *wanted;
    } cases[] = {
        {COMPARED("EQ", "{\"N\":\"1\"}"), "a = 1"},
        {COMPARED("EQ", "{\"M\":{\"x\":{\"L\":[]}}}"), "a = {\"x\":[]}"},
        {COMPARED("NE", "{\"SS\":[\"b\",\"a\"]}"), "a <> [\"b\",\"a\"]"},
        {COMPARED("LE", "{\"S\":\"x\"}"), "a <= \"x\""},
        {COMPARED("LT", "{\"B\":\"AA==\"}"), "a < \"AA==\""},
        {COMPARED("GE", "{\"N\":\"-1.5\"}"), "a >= -1.5"},
        {COMPARED("GT", "{\"N\":\"0\"}"), "a > 0"},
        {COMPARED("BETWEEN", "{\"N\":\"2\"},{\"N\":\"10\"}"), "a BETWEEN 2 AND 10"},
        {COMPARED("BETWEEN", "{\"S\":\"a\"},{\"S\":\"a\"}"), "a BETWEEN \"a\" AND \"a\""},
        {COMPARED("BEGINS_WITH", "{\"S\":\"x\"}"), "begins_with(a, \"x\")"},
        {COMPARED("IN", "{\"S\":\"x\"}"), "a IN (\"x\")"},
        {COMPARED("IN", "{\"S\":\"x\"},{\"S\":\"y\"},{\"S\":\"z\"}"), "a IN (\"x\", \"y\", \"z\")"},
        {COMPARED("CONTAINS", "{\"S\":\"x\"}"), "contains(a, \"x\")"},
        {COMPARED("NOT_CONTAINS", "{\"N\":\"1\"}"), "NOT contains(a, 1)"},
        {"\"ComparisonOperator\":\"NULL\"", "attribute_not_exists(a)"},
        {COMPARED("NOT_NULL", ""), "attribute_exists(a)"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct reading reading;
        char members[512];
        (void)snprintf(members, sizeof members, P_CONDITION ",\"QueryFilter\":{\"a\":{%s}}",
                       cases[i].condition);
        read_request(&reading, OPERATION_QUERY, QUERY_BODY, members);
        if (reading.status != STATUS_OK)
            fail_msg("%s: %s", cases[i].condition, reading.error.text);
        assert_meaning(&reading, reading.request.filter, cases[i].wanted);
        assert_meaning(&reading, reading.request.key_condition.text, "p = \"k\"");
        arena_deinit(&reading.arena);
        /* The same as a condition of a write. */
        (void)snprintf(members, sizeof members, "\"Expected\":{\"a\":{%s}}", cases[i].condition);
        read_request(&reading, OPERATION_PUT_ITEM, PUT_BODY, members);
        assert_int_equal(reading.status, STATUS_OK);
        assert_meaning(&reading, reading.request.condition, cases[i].wanted);
        arena_deinit(&reading.arena);
    }
}

static void conditions_updates_and_projections_become_expressions(void **state)
{
    (void)state;
    static const struct {
        enum operation operation;
        const char *opening, *members;
        size_t field;
        const char *wanted;
    } cases[] = {
#define FIELD(name) offsetof(struct request, name)
        {OPERATION_DELETE_ITEM, KEYED_BODY, "\"Expected\":{\"a\":{\"Exists\":false}}",
         FIELD(condition), "attribute_not_exists(a)"},
        {OPERATION_DELETE_ITEM, KEYED_BODY, "\"Expected\":{\"a\":{\"Value\":{\"N\":\"1\"}}}",
         FIELD(condition), "a = 1"},
        {OPERATION_DELETE_ITEM, KEYED_BODY,
         "\"Expected\":{\"a\":{\"Value\":{\"N\":\"1\"},\"Exists\":true}}", FIELD(condition),
         "a = 1"},
        {OPERATION_DELETE_ITEM, KEYED_BODY,
         "\"Expected\":{\"a\":{\"Value\":{\"N\":\"1\"},\"ComparisonOperator\":\"GE\"}}",
         FIELD(condition), "a >= 1"},
        {OPERATION_PUT_ITEM, PUT_BODY,
         "\"ConditionalOperator\":\"OR\",\"Expected\":{\"a\":{\"Exists\":false},\"b\":{\"Value\":"
         "{\"N\":\"1\"}}}",
         FIELD(condition), "attribute_not_exists(a) OR b = 1"},
        {OPERATION_PUT_ITEM, PUT_BODY,
         "\"Expected\":{\"b\":{\"Value\":{\"N\":\"1\"}},\"size\":{\"Exists\":false}},"
         "\"ConditionalOperator\":\"AND\"",
         FIELD(condition), "b = 1 AND attribute_not_exists(size)"},
        {OPERATION_PUT_ITEM, PUT_BODY, "\"Expected\":{}", FIELD(condition), ""},
        {OPERATION_PUT_ITEM, PUT_BODY, "\"Expected\":null", FIELD(condition), ""},
        {OPERATION_UPDATE_ITEM, KEYED_BODY,
         "\"AttributeUpdates\":{\"a\":{\"Value\":{\"N\":\"1\"}},\"b.c\":{\"Action\":\"PUT\","
         "\"Value\":{\"L\":[]}},\"d\":{\"Action\":\"DELETE\"},\"e\":{\"Action\":\"ADD\",\"Value\":"
         "{\"N\":\"-1\"}},\"f\":{\"Action\":\"ADD\",\"Value\":{\"SS\":[\"x\"]}},\"g\":{\"Value\":"
         "{\"NS\":[\"1\"]},\"Action\":\"DELETE\"},\"h\":{\"Action\":\"ADD\",\"Value\":{\"L\":"
         "[{\"S\":\"y\"}]}}}",
         FIELD(update),
         "SET a = 1, b.c = [], h = list_append(if_not_exists(h, []), [\"y\"]) REMOVE d ADD e -1, "
         "f [\"x\"] DELETE g [1] "},
        {OPERATION_UPDATE_ITEM, KEYED_BODY, "\"AttributeUpdates\":{}", FIELD(update), ""},
        {OPERATION_GET_ITEM, KEYED_BODY, "\"AttributesToGet\":[\"a.b\",\"name\",\"p\"]",
         FIELD(projection), "a.b, name, p"},
        {OPERATION_SCAN, QUERY_BODY,
         "\"ScanFilter\":{\"p\":{" COMPARED("GT", "{\"S\":\"k\"}") "},\"a\":{" COMPARED(
             "NE", "{\"N\":\"1\"}") "}},\"ConditionalOperator\":\"OR\"",
         FIELD(filter), "p > \"k\" OR a <> 1"},
        {OPERATION_QUERY, QUERY_BODY,
         "\"AttributesToGet\":[\"a\"],\"Select\":\"SPECIFIC_ATTRIBUTES\"," P_CONDITION,
         FIELD(projection), "a"},
        {OPERATION_QUERY, QUERY_BODY,
         "\"KeyConditions\":{\"s\":{" COMPARED("BETWEEN", "{\"N\":\"1\"},{\"N\":\"2\"}") "}," P_IS_K
                                                                                         "}",
         FIELD(key_condition.text), "s BETWEEN 1 AND 2 AND p = \"k\""},
        {OPERATION_QUERY, QUERY_BODY,
         "\"ConditionalOperator\":\"OR\",\"QueryFilter\":{\"a\":{\"ComparisonOperator\":\"NULL\"},"
         "\"b\":{\"ComparisonOperator\":\"NULL\"}},\"KeyConditions\":{" P_IS_K
         ",\"s\":{" COMPARED("LT", "{\"N\":\"1\"}") "}}",
         FIELD(key_condition.text), "p = \"k\" AND s < 1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct reading reading;
        read_request(&reading, cases[i].operation, cases[i].opening, cases[i].members);
        if (reading.status != STATUS_OK)
            fail_msg("%s: %s", cases[i].members, reading.error.text);
        struct bytes text =
            *(const struct bytes *)(const void *)((uint8_t *)&reading.request + cases[i].field);
        assert_meaning(&reading, text, cases[i].wanted);
        arena_deinit(&reading.arena);
    }
}

static void key_conditions_may_stand_beside_expressions(void **state)
{
    (void)state;
    struct reading reading;
    read_request(&reading, OPERATION_QUERY, QUERY_BODY,
                 P_CONDITION ",\"FilterExpression\":\"#a = :a\",\"ProjectionExpression\":\"#a\","
                             "\"ExpressionAttributeNames\":{\"#a\":\"name\"},"
                             "\"ExpressionAttributeValues\":{\":a\":{\"N\":\"1\"}}");
    assert_int_equal(reading.status, STATUS_OK);
    assert_true(reading.request.filter_tree != NULL && reading.request.projection_tree != NULL);
    assert_meaning(&reading, reading.request.key_condition.text, "p = \"k\"");
    arena_deinit(&reading.arena);
}

/* ---- what is refused ---- */

#define INVALID "One or more parameter values were invalid: "
#define BETTER_NOT                                                                                 \
    "Can not use both expression and non-expression parameters in the same request: "              \
    "Non-expression parameters: "

static void what_dynamodb_refuses_is_refused_with_its_texts(void **state)
{
    (void)state;
    static const struct {
        enum operation operation;
        const char *opening, *members, *text;
    } cases[] = {
#define FILTER(conditions)                                                                         \
    OPERATION_QUERY, QUERY_BODY, P_CONDITION ",\"QueryFilter\":{" conditions "}"
#define KEYS(conditions)  OPERATION_QUERY, QUERY_BODY, "\"KeyConditions\":{" conditions "}"
#define EXPECTED(members) OPERATION_PUT_ITEM, PUT_BODY, "\"Expected\":{\"a\":{" members "}}"
#define UPDATES(members)                                                                           \
    OPERATION_UPDATE_ITEM, KEYED_BODY, "\"AttributeUpdates\":{\"a\":{" members "}}"
#define N1 "{\"N\":\"1\"}"
        {FILTER("\"a\":{}"), "1 validation error detected: Value null at "
                             "'queryFilter.a.member.comparisonOperator' failed to satisfy "
                             "constraint: Member must not be null"},
        {FILTER("\"a\":{\"ComparisonOperator\":\"LIKE\"}"),
         "1 validation error detected: Value 'LIKE' at 'queryFilter.a.member.comparisonOperator' "
         "failed to satisfy constraint: Member must satisfy enum value set: [IN, NULL, BETWEEN, "
         "LT, "},
        {FILTER("\"a\":{" COMPARED("EQ", "") "}"),
         INVALID "Invalid number of argument(s) for the EQ ComparisonOperator"},
        {FILTER("\"a\":{" COMPARED("EQ", N1 "," N1) "}"),
         INVALID "Invalid number of argument(s) for the EQ ComparisonOperator"},
        {FILTER("\"a\":{" COMPARED("IN", "") "}"),
         INVALID "Invalid number of argument(s) for the IN"},
        {FILTER("\"a\":{" COMPARED("BETWEEN", N1) "}"),
         INVALID "Invalid number of argument(s) for the BETWEEN"},
        {FILTER("\"a\":{" COMPARED("NULL", N1) "}"),
         INVALID "Invalid number of argument(s) for the NULL"},
        {FILTER("\"a\":{" COMPARED("IN", N1 ",{\"S\":\"x\"}") "}"),
         INVALID "AttributeValues inside AttributeValueList must be of same type"},
        {FILTER("\"a\":{" COMPARED("LT", "{\"BOOL\":true}") "}"),
         INVALID "ComparisonOperator LT is not valid for BOOL AttributeValue type"},
        {FILTER("\"a\":{" COMPARED("CONTAINS", "{\"SS\":[\"x\"]}") "}"),
         INVALID "ComparisonOperator CONTAINS is not valid for SS AttributeValue type"},
        {FILTER("\"a\":{" COMPARED("BEGINS_WITH", N1) "}"),
         INVALID "ComparisonOperator BEGINS_WITH is not valid for N AttributeValue type"},
        {FILTER("\"a\":{" COMPARED("BETWEEN", "{\"N\":\"10\"},{\"N\":\"9\"}") "}"),
         "The BETWEEN condition was provided a range where the lower bound is greater than the "},
        {FILTER("\"a\":{" COMPARED("BETWEEN", "{\"S\":\"b\"},{\"S\":\"a\"}") "}"),
         "The BETWEEN condition was provided a range where the lower bound is greater than the "},
        {FILTER("\"a\":{" COMPARED("EQ", "{\"SS\":[\"x\",\"x\"]}") "}"),
         INVALID "Input collection [x, x] contains duplicates."},
        {FILTER("\"a\":{" COMPARED("EQ", "{\"N\":\"x\"}") "}"),
         "The parameter cannot be converted to a numeric value: x"},
        {FILTER("\"a\":{" COMPARED("EQ", "1") "}"), "Unexpected value type in payload"},
        {FILTER("\"a\":{" COMPARED("EQ", N1) ",\"Exists\":true}"),
         "QueryFilter: the member Exists is given twice or not supported"},
        {FILTER("\"a\":{" COMPARED("EQ", N1) ",\"AttributeValueList\":[]}"),
         "QueryFilter: the member AttributeValueList is given twice or not supported"},
        {FILTER("\"a\":{" COMPARED("EQ", N1) "},\"b\":{" COMPARED("EQ", N1) "},\"a\":{" COMPARED(
             "EQ", N1) "}"),
         INVALID "Duplicate attribute name: a"},
        {FILTER("\"p\":{" COMPARED("EQ", "{\"S\":\"k\"}") "}"),
         "QueryFilter can only contain non-primary key attributes: Primary key attribute: p"},
        {KEYS(""), "Conditions can be of length 1 or 2 only"},
        {KEYS(P_IS_K ",\"a\":{" COMPARED("EQ", N1) "},\"b\":{" COMPARED("EQ", N1) "}"),
         "Conditions can be of length 1 or 2 only"},
        {KEYS(P_IS_K ",\"s\":{" COMPARED("NE", N1) "}"),
         "Attempted conditional constraint is not an indexable operation"},
        {KEYS(P_IS_K ",\"s\":{" COMPARED("CONTAINS", N1) "}"),
         "Attempted conditional constraint is not an indexable operation"},
        {KEYS(P_IS_K ",\"a\":{" COMPARED("EQ", N1) "}"),
         "Query condition missed key schema element: s"},
        {KEYS("\"s\":{" COMPARED("EQ", N1) "}"), "Query condition missed key schema element: p"},
        {KEYS("\"p\":{" COMPARED("GT", "{\"S\":\"k\"}") "}"), "Query key condition not supported"},
        {KEYS("\"p\":{" COMPARED("EQ", N1) "}"),
         INVALID "Condition parameter type does not match schema type"},
        {EXPECTED("\"Value\":" N1 ",\"AttributeValueList\":[]"),
         INVALID "Value and AttributeValueList cannot be used together for Attribute: a"},
        {EXPECTED("\"Exists\":true,\"ComparisonOperator\":\"EQ\",\"Value\":" N1),
         INVALID "Exists and ComparisonOperator cannot be used together for Attribute: a"},
        {EXPECTED("\"ComparisonOperator\":\"EQ\""), INVALID
         "Value or AttributeValueList must be used with ComparisonOperator: EQ for Attribute: a"},
        {EXPECTED("\"AttributeValueList\":[" N1 "]"),
         INVALID "AttributeValueList can only be used with a ComparisonOperator for Attribute: a"},
        {EXPECTED("\"Exists\":true"),
         INVALID "Value must be provided when Exists is true for Attribute: a"},
        {EXPECTED(""), INVALID "Value must be provided when Exists is null for Attribute: a"},
        {EXPECTED("\"Exists\":false,\"Value\":" N1),
         INVALID "Value cannot be used when Exists is false for Attribute: a"},
        {EXPECTED("\"ComparisonOperator\":\"NOT_NULL\",\"Value\":" N1),
         INVALID "Invalid number of argument(s) for the NOT_NULL ComparisonOperator"},
        {EXPECTED("\"Exists\":\"x\""), "STRING_VALUE cannot be converted to Boolean"},
        {UPDATES(""), INVALID "Only DELETE action is allowed when no attribute value is specified"},
        {UPDATES("\"Action\":\"ADD\""),
         INVALID "Only DELETE action is allowed when no attribute value"},
        {UPDATES("\"Action\":\"ADD\",\"Value\":{\"S\":\"x\"}"),
         INVALID "ADD action is not supported for the type S"},
        {UPDATES("\"Action\":\"DELETE\",\"Value\":{\"L\":[]}"),
         INVALID "DELETE action with value is not supported for the type L"},
        {UPDATES("\"Action\":\"SET\",\"Value\":" N1),
         "1 validation error detected: Value 'SET' at 'attributeUpdates.a.member.action' failed to "
         "satisfy constraint: Member must satisfy enum value set: [ADD, DELETE, PUT]"},
        {OPERATION_UPDATE_ITEM, KEYED_BODY, "\"AttributeUpdates\":{\"s\":{\"Value\":" N1 "}}",
         INVALID "Cannot update attribute s. This attribute is part of the key"},
        {OPERATION_UPDATE_ITEM, KEYED_BODY,
         "\"AttributeUpdates\":{\"a\":{\"Value\":" N1 "},\"a\":{\"Value\":" N1 "}}",
         INVALID "Duplicate attribute name: a"},
        {OPERATION_GET_ITEM, KEYED_BODY, "\"AttributesToGet\":[]",
         "1 validation error detected: Value '[]' at 'attributesToGet' failed to satisfy "},
        {OPERATION_GET_ITEM, KEYED_BODY, "\"AttributesToGet\":[\"b\",\"a\",\"b\"]",
         INVALID "Duplicate value in attribute name: b"},
        {OPERATION_GET_ITEM, KEYED_BODY, "\"AttributesToGet\":[\"\"]",
         INVALID "Empty attribute name"},
        {OPERATION_GET_ITEM, KEYED_BODY, "\"AttributesToGet\":[1]",
         "NUMBER_VALUE cannot be converted to String"},
        {OPERATION_QUERY, QUERY_BODY,
         P_CONDITION ",\"AttributesToGet\":[\"a\"],\"Select\":\"COUNT\"",
         "Cannot specify the AttributesToGet when choosing to get only the Count"},
        {OPERATION_PUT_ITEM, PUT_BODY, "\"ConditionalOperator\":\"OR\"",
         INVALID "ConditionalOperator cannot be used without Filter or Expected"},
        {OPERATION_PUT_ITEM, PUT_BODY, "\"ConditionalOperator\":\"XOR\",\"Expected\":{}",
         "1 validation error detected: Value 'XOR' at 'conditionalOperator' failed to satisfy"},
        {OPERATION_GET_ITEM, KEYED_BODY,
         "\"AttributesToGet\":[\"a\"],\"ProjectionExpression\":\"a\"",
         BETTER_NOT "{AttributesToGet} Expression parameters: {ProjectionExpression}"},
        {OPERATION_UPDATE_ITEM, KEYED_BODY,
         "\"UpdateExpression\":\"SET a = b\",\"ConditionExpression\":\"a = b\",\"Expected\":{},"
         "\"AttributeUpdates\":{}",
         BETTER_NOT "{AttributeUpdates, Expected} Expression parameters: {UpdateExpression, "
                    "ConditionExpression}"},
        {OPERATION_QUERY, QUERY_BODY,
         "\"KeyConditionExpression\":\"p = :p\",\"FilterExpression\":\"a = b\"," P_CONDITION
         ",\"QueryFilter\":{},\"ConditionalOperator\":\"OR\"",
         BETTER_NOT "{QueryFilter, ConditionalOperator, KeyConditions} Expression parameters: "
                    "{FilterExpression, KeyConditionExpression}"},
        {OPERATION_QUERY, QUERY_BODY,
         P_CONDITION ",\"FilterExpression\":\"a = b\",\"QueryFilter\":{}",
         BETTER_NOT "{QueryFilter} Expression parameters: {FilterExpression}"},
        {OPERATION_QUERY, QUERY_BODY, P_CONDITION ",\"ExpressionAttributeNames\":{\"#a\":\"b\"}",
         "ExpressionAttributeNames can only be specified when using expressions"},
        {OPERATION_QUERY, QUERY_BODY, P_CONDITION ",\"ExpressionAttributeValues\":{\":a\":" N1 "}",
         "ExpressionAttributeValues can only be specified when using expressions: FilterExpression "
         "and KeyConditionExpression are null"},
        {OPERATION_PUT_ITEM, PUT_BODY,
         "\"Expected\":{},\"ExpressionAttributeValues\":{\":a\":" N1 "}",
         "ExpressionAttributeValues can only be specified when using expressions: "
         "ConditionExpression is null"},
        {OPERATION_PUT_ITEM, PUT_BODY, "\"AttributeUpdates\":{}",
         "PutItem: the member AttributeUpdates is not supported"},
        {OPERATION_SCAN, QUERY_BODY, "\"QueryFilter\":{}",
         "Scan: the member QueryFilter is not supported"},
        {OPERATION_SCAN, QUERY_BODY, "\"ScanFilter\":{},\"FilterExpression\":\"a = b\"",
         BETTER_NOT "{ScanFilter} Expression parameters: {FilterExpression}"},
        {OPERATION_PUT_ITEM, PUT_BODY, "\"Expected\":[]", "Start of list found where not expected"},
        {OPERATION_PUT_ITEM, PUT_BODY, "\"Expected\":{},\"Expected\":{}",
         "The member Expected is given twice"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct reading reading;
        read_request(&reading, cases[i].operation, cases[i].opening, cases[i].members);
        assert_int_not_equal(reading.status, STATUS_OK);
        if (strncmp(reading.error.text, cases[i].text, strlen(cases[i].text)) != 0)
            fail_msg("%s:\n%s\nwanted:\n%s", cases[i].members, reading.error.text, cases[i].text);
        arena_deinit(&reading.arena);
    }
}

/* ---- limits ---- */

static char *many_updates(int count)
{
    char *members = malloc(64 + 64 * (size_t)count);
    assert_non_null(members);
    size_t size = (size_t)sprintf(members, "\"AttributeUpdates\":{");
    for (int i = 0; i < count; i++)
        size += (size_t)sprintf(members + size, "%s\"a%d\":{\"Value\":{\"N\":\"%d\"}}",
                                i == 0 ? "" : ",", i, i);
    (void)sprintf(members + size, "}");
    return members;
}

static void more_than_an_expression_of_a_client_could_hold_is_taken_up_to_a_limit(void **state)
{
    (void)state;
    struct reading reading;
    char *members = many_updates(1000); /* 15 KB of expression */
    read_request(&reading, OPERATION_UPDATE_ITEM, KEYED_BODY, members);
    assert_int_equal(reading.status, STATUS_OK);
    assert_true(reading.request.update.size > EXPRESSION_SIZE_MAX);
    arena_deinit(&reading.arena);
    free(members);
    members = many_updates(10000);
    read_request(&reading, OPERATION_UPDATE_ITEM, KEYED_BODY, members);
    assert_int_equal(reading.status, STATUS_VALIDATION);
    assert_non_null(strstr(reading.error.text, "Too many conditions or updates"));
    arena_deinit(&reading.arena);
    free(members);
}

static void memory_that_runs_out_anywhere_is_told(void **state)
{
    (void)state;
    struct bytes body = BYTES_LITERAL(
        QUERY_BODY
        "\"AttributesToGet\":[\"a\",\"b\"],\"QueryFilter\":{\"a\":{\"ComparisonOperator\":\"IN\","
        "\"AttributeValueList\":[{\"S\":\"x\"},{\"S\":\"y\"}]}}," P_CONDITION "}");
    enum status status = STATUS_NO_MEMORY;
    int refused = 0;
    for (size_t heap = 0; status == STATUS_NO_MEMORY; heap += 64, refused++) {
        struct arena arena;
        struct request request = {.operation = OPERATION_QUERY};
        struct error error;
        arena_init(&arena, NULL, 0, heap);
        status = operations_read(body, &arena, &request, &error);
        arena_deinit(&arena);
    }
    assert_int_equal(status, STATUS_OK);
    assert_true(refused > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_comparison_becomes_an_expression),
        cmocka_unit_test(conditions_updates_and_projections_become_expressions),
        cmocka_unit_test(key_conditions_may_stand_beside_expressions),
        cmocka_unit_test(what_dynamodb_refuses_is_refused_with_its_texts),
        cmocka_unit_test(more_than_an_expression_of_a_client_could_hold_is_taken_up_to_a_limit),
        cmocka_unit_test(memory_that_runs_out_anywhere_is_told),
    };
    return cmocka_run_group_tests_name("legacy", tests, NULL, NULL);
}
