#include "protocol/dynamodb/legacy.h"

#include "protocol/encoding/msgpack_put.h"
#include "protocol/ensure.h"
#include "protocol/expression_tree.h"

#include <stdio.h>
#include <stdlib.h>

#define INVALID "One or more parameter values were invalid: "

enum { NAME_SHOWN_MAX = 64, ALIAS_MAX = 16, TEXT_MIN = 64 };

#define BIT(operation) (1u << (operation))

struct parameter {
    struct bytes name;
    const char *path; /* as DynamoDB's validation texts have it */
    uint32_t operations;
};

enum {
    PAGES = BIT(OPERATION_QUERY) | BIT(OPERATION_SCAN),
    WRITES = BIT(OPERATION_PUT_ITEM) | BIT(OPERATION_UPDATE_ITEM) | BIT(OPERATION_DELETE_ITEM),
};

static const struct parameter parameters[LEGACY_PARAMETERS] = {
    [LEGACY_ATTRIBUTES_TO_GET] = {BYTES_LITERAL("AttributesToGet"), "attributesToGet",
                                  BIT(OPERATION_GET_ITEM) | PAGES},
    [LEGACY_QUERY_FILTER] = {BYTES_LITERAL("QueryFilter"), "queryFilter", BIT(OPERATION_QUERY)},
    [LEGACY_SCAN_FILTER] = {BYTES_LITERAL("ScanFilter"), "scanFilter", BIT(OPERATION_SCAN)},
    [LEGACY_CONDITIONAL_OPERATOR] = {BYTES_LITERAL("ConditionalOperator"), "conditionalOperator",
                                     PAGES | WRITES},
    [LEGACY_KEY_CONDITIONS] = {BYTES_LITERAL("KeyConditions"), "keyConditions",
                               BIT(OPERATION_QUERY)},
    [LEGACY_ATTRIBUTE_UPDATES] = {BYTES_LITERAL("AttributeUpdates"), "attributeUpdates",
                                  BIT(OPERATION_UPDATE_ITEM)},
    [LEGACY_EXPECTED] = {BYTES_LITERAL("Expected"), "expected", WRITES},
};

bool legacy_find(struct bytes name, enum operation operation, enum legacy_parameter *out)
{
    for (int i = 0; i < LEGACY_PARAMETERS; i++) {
        if ((parameters[i].operations & BIT(operation)) != 0 &&
            bytes_equal(name, parameters[i].name)) {
            *out = (enum legacy_parameter)i;
            return true;
        }
    }
    return false;
}

static int shown(struct bytes text)
{
    return (int)(text.size < NAME_SHOWN_MAX ? text.size : NAME_SHOWN_MAX);
}

/* ---- texts that grow in an arena ---- */

struct text {
    uint8_t *data;
    size_t size, capacity;
};

/* What is made, and where. */
struct maker {
    struct json_reader *reader; /* of the body */
    struct text names, values;  /* pairs of MessagePack: alias, then name or value */
    uint32_t name_count, value_count;
    struct text seen; /* struct bytes: names in the parameter that is read */
};

static bool refuse_memory(struct maker *maker)
{
    return json_reader_refuse(maker->reader, STATUS_NO_MEMORY, "%s", "");
}

static bool put(struct maker *maker, struct text *text, struct bytes bytes)
{
    if (text->data == NULL || bytes.size > text->capacity - text->size) {
        size_t capacity = 2 * (text->size + bytes.size) + TEXT_MIN;
        uint8_t *data = arena_alloc(maker->reader->arena, capacity);
        if (data == NULL)
            return refuse_memory(maker);
        if (text->data != NULL)
            memcpy(data, text->data, text->size);
        text->data = data;
        text->capacity = capacity;
    }
    if (bytes.size != 0)
        memcpy(text->data + text->size, bytes.data, bytes.size);
    text->size += bytes.size;
    return true;
}

static bool put_literal(struct maker *maker, struct text *text, const char *literal)
{
    return put(maker, text, bytes_text(literal));
}

static bool put_packed_text(struct maker *maker, struct text *text, struct bytes bytes)
{
    uint8_t head[MSGPACK_HEAD_MAX];
    size_t size = (size_t)(msgpack_put_str_head(head, bytes.size) - head);
    return put(maker, text, bytes_of(head, size)) && put(maker, text, bytes);
}

/* ---- names and values of the expressions ---- */

static bool put_name(struct maker *maker, struct text *text, struct bytes name)
{
    char alias[ALIAS_MAX];
    int size = snprintf(alias, sizeof alias, "#L%u", maker->name_count++);
    struct bytes bytes = bytes_of(alias, (size_t)size);
    return put(maker, text, bytes) && put_packed_text(maker, &maker->names, bytes) &&
           put_packed_text(maker, &maker->names, name);
}

static bool put_value(struct maker *maker, struct text *text, struct bytes value)
{
    char alias[ALIAS_MAX];
    int size = snprintf(alias, sizeof alias, ":L%u", maker->value_count++);
    struct bytes bytes = bytes_of(alias, (size_t)size);
    return put(maker, text, bytes) && put_packed_text(maker, &maker->values, bytes) &&
           put(maker, &maker->values, value);
}

/* One map of the client's pairs, if it has given any, and ours. */
static bool join(struct maker *maker, struct bytes given, const struct text *made, uint32_t count,
                 struct bytes *out)
{
    if (count == 0)
        return true;
    struct msgpack_cursor cursor = msgpack_cursor_of(given);
    uint32_t before = 0;
    if (bytes_given(given))
        ensure(msgpack_read_map(&cursor, &before));
    uint8_t head[MSGPACK_HEAD_MAX];
    struct text all = {0};
    size_t head_size = (size_t)(msgpack_put_count(head, true, before + count) - head);
    if (!put(maker, &all, bytes_of(head, head_size)) ||
        (before != 0 && !put(maker, &all, bytes_of(cursor.at, (size_t)(cursor.end - cursor.at)))) ||
        !put(maker, &all, bytes_of(made->data, made->size)))
        return false;
    *out = bytes_of(all.data, all.size);
    return true;
}

static bool finish(struct maker *maker, const struct text *text, struct bytes *out)
{
    if (text->size > EXPRESSION_MADE_MAX)
        return json_reader_refuse(maker->reader, STATUS_VALIDATION,
                                  INVALID "Too many conditions or updates: as an expression they "
                                          "may have %d bytes",
                                  EXPRESSION_MADE_MAX);
    *out = text->size == 0 ? BYTES_NONE : bytes_of(text->data, text->size);
    return true;
}

/* ---- reading a parameter ---- */

/* The JSON of a parameter is read by a reader of its own, whose refusal is the body's. */
static bool end_part(struct maker *maker, struct json_reader *part)
{
    return json_reader_end(part) == STATUS_OK ||
           json_reader_refuse(maker->reader, part->status, "%s", part->error->text);
}

static int compare_names(const void *a, const void *b)
{
    return bytes_compare(*(const struct bytes *)a, *(const struct bytes *)b);
}

static bool check_names(struct json_reader *part, const struct text *seen, const char *complaint)
{
    struct bytes *names = (void *)seen->data;
    size_t count = seen->size / sizeof names[0];
    if (count > 1)
        qsort(names, count, sizeof names[0], compare_names);
    for (size_t i = 1; i < count; i++)
        if (bytes_equal(names[i - 1], names[i]))
            return json_reader_refuse(part, STATUS_VALIDATION, INVALID "%s: %.*s", complaint,
                                      shown(names[i]), (const char *)names[i].data);
    return true;
}

static bool note_name(struct maker *maker, struct bytes name)
{
    return put(maker, &maker->seen, bytes_of(&name, sizeof name));
}

static bool refuse_enum(struct json_reader *part, struct bytes word, const char *path,
                        const char *words)
{
    return json_reader_refuse(part, STATUS_VALIDATION,
                              "1 validation error detected: Value '%.*s' at '%s' failed to satisfy "
                              "constraint: Member must satisfy enum value set: [%s]",
                              shown(word), (const char *)word.data, path, words);
}

static bool refuse_member(struct json_reader *part, const struct parameter *parameter,
                          struct bytes member)
{
    return json_reader_refuse(part, STATUS_UNSUPPORTED,
                              "%.*s: the member %.*s is given twice or not supported",
                              (int)parameter->name.size, (const char *)parameter->name.data,
                              shown(member), (const char *)member.data);
}

/* An attribute value, checked by all that there is to check. */
static bool read_value(struct json_reader *part, struct bytes *out)
{
    struct bytes value;
    if (!json_read_value(part, &value))
        return false;
    struct value tree;
    struct error error;
    struct msgpack_cursor cursor = msgpack_cursor_of(value);
    if (value_decode(&cursor, part->arena, &tree, &error) != STATUS_OK)
        return json_reader_refuse(part, error.status, "%s", error.text);
    *out = value;
    return true;
}

static enum value_type type_of(struct bytes value)
{
    struct msgpack_cursor cursor = msgpack_cursor_of(value);
    struct msgpack_head head;
    enum value_type type = VALUE_NULL;
    ensure(msgpack_read(&cursor, &head) && msgpack_head_type(&head, &type));
    return type;
}

/* ---- comparison operators ---- */

enum {
    TYPES_ALL = (1 << (VALUE_BS + 1)) - 1,
    TYPES_SCALAR = 1 << VALUE_S | 1 << VALUE_N | 1 << VALUE_B,
    TYPES_BEGINNING = 1 << VALUE_S | 1 << VALUE_B,
    MANY = UINT16_MAX,
};

struct comparison {
    const char *name;
    const char *text; /* @ the attribute, $ a value, * all values */
    uint32_t least, most;
    uint32_t types; /* of values; bits of enum value_type */
    bool is_indexable;
};

static const struct comparison comparisons[] = {
    {"EQ", "@ = $", 1, 1, TYPES_ALL, true},
    {"NE", "@ <> $", 1, 1, TYPES_ALL, false},
    {"LE", "@ <= $", 1, 1, TYPES_SCALAR, true},
    {"LT", "@ < $", 1, 1, TYPES_SCALAR, true},
    {"GE", "@ >= $", 1, 1, TYPES_SCALAR, true},
    {"GT", "@ > $", 1, 1, TYPES_SCALAR, true},
    {"BETWEEN", "@ BETWEEN $ AND $", 2, 2, TYPES_SCALAR, true},
    {"BEGINS_WITH", "begins_with(@, $)", 1, 1, TYPES_BEGINNING, true},
    {"IN", "@ IN (*)", 1, MANY, TYPES_SCALAR, false},
    {"CONTAINS", "contains(@, $)", 1, 1, TYPES_SCALAR, false},
    {"NOT_CONTAINS", "NOT contains(@, $)", 1, 1, TYPES_SCALAR, false},
    {"NULL", "attribute_not_exists(@)", 0, 0, 0, false},
    {"NOT_NULL", "attribute_exists(@)", 0, 0, 0, false},
};
enum { COMPARISONS = sizeof comparisons / sizeof comparisons[0] };

static const char comparison_words[] =
    "IN, NULL, BETWEEN, LT, NOT_CONTAINS, EQ, GT, NOT_NULL, NE, LE, BEGINS_WITH, GE, CONTAINS";

static const struct comparison *find_comparison(struct bytes name)
{
    for (size_t i = 0; i < COMPARISONS; i++)
        if (bytes_equal(name, bytes_text(comparisons[i].name)))
            return &comparisons[i];
    return NULL;
}

/* ---- conditions ---- */

enum answer { UNSAID, NO, YES };

/* One of KeyConditions, QueryFilter or Expected. */
struct condition {
    struct bytes name;
    const struct comparison *comparison; /* NULL: none given */
    bool has_list;
    struct bytes values; /* MessagePack, one behind the other */
    uint32_t count;
    struct bytes value; /* Expected: not given: none */
    enum answer exists; /* Expected */
};

static bool read_comparison(struct json_reader *part, const struct parameter *parameter,
                            struct condition *condition)
{
    struct bytes word;
    char path[2 * NAME_SHOWN_MAX + 64];
    if (!json_read_text(part, &word))
        return false;
    condition->comparison = find_comparison(word);
    if (condition->comparison != NULL)
        return true;
    (void)snprintf(path, sizeof path, "%s.%.*s.member.comparisonOperator", parameter->path,
                   shown(condition->name), (const char *)condition->name.data);
    return refuse_enum(part, word, path, comparison_words);
}

/* The values stand in the reader's memory one behind the other. */
static bool read_list(struct json_reader *part, struct condition *condition)
{
    condition->has_list = true;
    if (!json_enter_list(part))
        return false;
    while (json_next_element(part)) {
        struct bytes value = BYTES_NONE;
        if (!read_value(part, &value))
            return false;
        if (condition->count++ == 0)
            condition->values = value;
        else
            condition->values.size += value.size;
    }
    return part->status == STATUS_OK;
}

static bool read_exists(struct json_reader *part, struct condition *condition)
{
    bool exists;
    if (!json_read_truth(part, &exists))
        return false;
    condition->exists = exists ? YES : NO;
    return true;
}

static bool is_text(struct bytes bytes, const char *text)
{
    return bytes_equal(bytes, bytes_text(text));
}

static bool read_condition(struct json_reader *part, const struct parameter *parameter,
                           struct condition *condition)
{
    bool is_expected = parameter == &parameters[LEGACY_EXPECTED];
    struct bytes member;
    if (!json_enter_map(part))
        return false;
    while (json_next_member(part, &member)) {
        bool is_read;
        if (is_text(member, "ComparisonOperator") && condition->comparison == NULL)
            is_read = read_comparison(part, parameter, condition);
        else if (is_text(member, "AttributeValueList") && !condition->has_list)
            is_read = read_list(part, condition);
        else if (is_expected && is_text(member, "Value") && !bytes_given(condition->value))
            is_read = read_value(part, &condition->value);
        else if (is_expected && is_text(member, "Exists") && condition->exists == UNSAID)
            is_read = read_exists(part, condition);
        else
            is_read = refuse_member(part, parameter, member);
        if (!is_read)
            return false;
    }
    return part->status == STATUS_OK;
}

/* Which of its forms a member of Expected has; all become a comparison. */
static bool settle_expected(struct json_reader *part, struct condition *condition)
{
    const char *complaint = NULL;
    bool has_value = bytes_given(condition->value);
    bool is_compared = condition->comparison != NULL;
    if (has_value && condition->has_list)
        complaint = "Value and AttributeValueList cannot be used together";
    else if (is_compared && condition->exists != UNSAID)
        complaint = "Exists and ComparisonOperator cannot be used together";
    else if (!is_compared && condition->has_list)
        complaint = "AttributeValueList can only be used with a ComparisonOperator";
    else if (!is_compared && condition->exists == NO && has_value)
        complaint = "Value cannot be used when Exists is false";
    else if (!is_compared && condition->exists != NO && !has_value)
        complaint = condition->exists == YES ? "Value must be provided when Exists is true"
                                             : "Value must be provided when Exists is null";
    if (complaint != NULL)
        return json_reader_refuse(part, STATUS_VALIDATION, INVALID "%s for Attribute: %.*s",
                                  complaint, shown(condition->name),
                                  (const char *)condition->name.data);
    if (is_compared && condition->comparison->most != 0 && !has_value && !condition->has_list)
        return json_reader_refuse(
            part, STATUS_VALIDATION,
            INVALID "Value or AttributeValueList must be used with ComparisonOperator: %s for "
                    "Attribute: %.*s",
            condition->comparison->name, shown(condition->name),
            (const char *)condition->name.data);
    if (!is_compared)
        condition->comparison =
            find_comparison(condition->exists == NO ? BYTES_LITERAL("NULL") : BYTES_LITERAL("EQ"));
    if (has_value) {
        condition->values = condition->value;
        condition->count = 1;
    }
    return true;
}

static bool settle_required(struct json_reader *part, const struct parameter *parameter,
                            const struct condition *condition)
{
    return condition->comparison != NULL ||
           json_reader_refuse(part, STATUS_VALIDATION,
                              "1 validation error detected: Value null at "
                              "'%s.%.*s.member.comparisonOperator' failed to satisfy constraint: "
                              "Member must not be null",
                              parameter->path, shown(condition->name),
                              (const char *)condition->name.data);
}

/* Of one type: S, N or B. */
static int compare_bounds(struct bytes low, struct bytes high)
{
    struct msgpack_cursor cursors[2] = {msgpack_cursor_of(low), msgpack_cursor_of(high)};
    struct msgpack_head heads[2];
    struct number numbers[2];
    ensure(msgpack_read(&cursors[0], &heads[0]) && msgpack_read(&cursors[1], &heads[1]));
    if (type_of(low) != VALUE_N)
        return bytes_compare(heads[0].bytes, heads[1].bytes);
    ensure(msgpack_head_number(&heads[0], &numbers[0]) &&
           msgpack_head_number(&heads[1], &numbers[1]));
    return number_compare(&numbers[0], &numbers[1]);
}

static bool check_values(struct json_reader *part, const struct condition *condition)
{
    const struct comparison *comparison = condition->comparison;
    if (condition->count < comparison->least || condition->count > comparison->most)
        return json_reader_refuse(part, STATUS_VALIDATION,
                                  INVALID
                                  "Invalid number of argument(s) for the %s ComparisonOperator",
                                  comparison->name);
    struct msgpack_cursor cursor = msgpack_cursor_of(condition->values);
    struct bytes first = BYTES_NONE, last = BYTES_NONE;
    while (cursor.at != cursor.end) {
        ensure(msgpack_skip(&cursor, &last));
        first = bytes_given(first) ? first : last;
        if (type_of(last) != type_of(first))
            return json_reader_refuse(part, STATUS_VALIDATION,
                                      INVALID "AttributeValues inside AttributeValueList must be "
                                              "of same type");
        if ((comparison->types >> type_of(last) & 1) == 0)
            return json_reader_refuse(
                part, STATUS_VALIDATION,
                INVALID "ComparisonOperator %s is not valid for %s AttributeValue type",
                comparison->name, value_type_name(type_of(last)));
    }
    if (comparison->least == 2 && compare_bounds(first, last) > 0)
        return json_reader_refuse(part, STATUS_VALIDATION,
                                  "The BETWEEN condition was provided a range where the lower "
                                  "bound is greater than the upper bound");
    return true;
}

/* One comparison as an expression, by its pattern. */
static bool put_condition(struct maker *maker, struct text *text, const struct condition *condition)
{
    struct msgpack_cursor cursor = msgpack_cursor_of(condition->values);
    struct bytes value = BYTES_NONE;
    bool is_put = true;
    for (const char *at = condition->comparison->text; is_put && *at != '\0'; at++) {
        if (*at == '@') {
            is_put = put_name(maker, text, condition->name);
        } else if (*at == '$') {
            ensure(msgpack_skip(&cursor, &value));
            is_put = put_value(maker, text, value);
        } else if (*at == '*') {
            for (bool is_first = true; is_put && cursor.at != cursor.end; is_first = false) {
                ensure(msgpack_skip(&cursor, &value));
                is_put =
                    (is_first || put_literal(maker, text, ", ")) && put_value(maker, text, value);
            }
        } else {
            is_put = put(maker, text, bytes_of(at, 1));
        }
    }
    return is_put;
}

static bool add_condition(struct maker *maker, struct json_reader *part,
                          const struct parameter *parameter, const char *joint, struct text *text,
                          struct bytes name)
{
    struct condition condition = {.name = name};
    bool is_expected = parameter == &parameters[LEGACY_EXPECTED];
    if (!read_condition(part, parameter, &condition) ||
        (is_expected ? !settle_expected(part, &condition)
                     : !settle_required(part, parameter, &condition)) ||
        !check_values(part, &condition))
        return false;
    if (parameter == &parameters[LEGACY_KEY_CONDITIONS] && !condition.comparison->is_indexable)
        return json_reader_refuse(part, STATUS_VALIDATION,
                                  "Attempted conditional constraint is not an indexable operation");
    return (text->size == 0 || put_literal(maker, text, joint)) &&
           put_condition(maker, text, &condition);
}

/* A map of conditions as one expression; not given, if it is empty. */
static bool make_conditions(struct maker *maker, struct bytes json, enum legacy_parameter which,
                            const char *joint, struct bytes *out)
{
    struct json_reader part;
    struct error error;
    struct bytes name;
    struct text text = {0};
    if (!bytes_given(json))
        return true;
    maker->seen.size = 0;
    json_reader_init(&part, json, maker->reader->arena, &error);
    bool is_read = json_enter_map(&part);
    while (is_read && json_next_member(&part, &name))
        is_read = note_name(maker, name) &&
                  add_condition(maker, &part, &parameters[which], joint, &text, name);
    size_t count = maker->seen.size / sizeof name;
    is_read = is_read && check_names(&part, &maker->seen, "Duplicate attribute name");
    if (is_read && which == LEGACY_KEY_CONDITIONS && count != 1 && count != 2)
        (void)json_reader_refuse(&part, STATUS_VALIDATION,
                                 "Conditions can be of length 1 or 2 only");
    return end_part(maker, &part) && maker->reader->status == STATUS_OK &&
           finish(maker, &text, out);
}

/* ---- updates ---- */

enum verb { SET, REMOVE, ADD, DELETE };
enum { VERBS = 4 };

struct update {
    struct bytes name, value;
    enum verb verb; /* what the action comes to */
    bool has_action;
};

static bool read_action(struct json_reader *part, struct update *update)
{
    static const char *const actions[] = {[SET] = "PUT", [ADD] = "ADD", [DELETE] = "DELETE"};
    struct bytes word;
    char path[NAME_SHOWN_MAX + 64];
    if (!json_read_text(part, &word))
        return false;
    update->has_action = true;
    for (int verb = SET; verb < VERBS; verb++) {
        if (actions[verb] != NULL && bytes_equal(word, bytes_text(actions[verb]))) {
            update->verb = (enum verb)verb;
            return true;
        }
    }
    (void)snprintf(path, sizeof path, "attributeUpdates.%.*s.member.action", shown(update->name),
                   (const char *)update->name.data);
    return refuse_enum(part, word, path, "ADD, DELETE, PUT");
}

static bool read_update(struct json_reader *part, struct update *update)
{
    struct bytes member;
    if (!json_enter_map(part))
        return false;
    while (json_next_member(part, &member)) {
        bool is_read;
        if (is_text(member, "Action") && !update->has_action)
            is_read = read_action(part, update);
        else if (is_text(member, "Value") && !bytes_given(update->value))
            is_read = read_value(part, &update->value);
        else
            is_read = refuse_member(part, &parameters[LEGACY_ATTRIBUTE_UPDATES], member);
        if (!is_read)
            return false;
    }
    return part->status == STATUS_OK;
}

static bool check_update(struct json_reader *part, struct update *update)
{
    if (!bytes_given(update->value)) {
        if (update->verb != DELETE)
            return json_reader_refuse(part, STATUS_VALIDATION,
                                      INVALID "Only DELETE action is allowed when no attribute "
                                              "value is specified");
        update->verb = REMOVE;
        return true;
    }
    enum value_type type = type_of(update->value);
    bool is_set = type == VALUE_SS || type == VALUE_NS || type == VALUE_BS;
    if (update->verb == DELETE && !is_set)
        return json_reader_refuse(part, STATUS_VALIDATION,
                                  INVALID "DELETE action with value is not supported for the type "
                                          "%s",
                                  value_type_name(type));
    if (update->verb == ADD && !is_set && type != VALUE_N && type != VALUE_L)
        return json_reader_refuse(part, STATUS_VALIDATION,
                                  INVALID "ADD action is not supported for the type %s",
                                  value_type_name(type));
    return true;
}

/* ADD of a list, which expressions do not have: it goes behind what is there. */
static bool put_append(struct maker *maker, struct text *text, const struct update *update)
{
    return put_name(maker, text, update->name) &&
           put_literal(maker, text, " = list_append(if_not_exists(") &&
           put_name(maker, text, update->name) && put_literal(maker, text, ", ") &&
           put_value(maker, text, BYTES_LITERAL("\x90")) && put_literal(maker, text, "), ") &&
           put_value(maker, text, update->value) && put_literal(maker, text, ")");
}

static bool add_update(struct maker *maker, struct json_reader *part, struct bytes name,
                       struct text sections[VERBS])
{
    static const char *const openings[VERBS] = {"SET ", "REMOVE ", "ADD ", "DELETE "};
    struct update update = {.name = name, .verb = SET};
    if (!read_update(part, &update) || !check_update(part, &update))
        return false;
    bool is_append = update.verb == ADD && type_of(update.value) == VALUE_L;
    struct text *section = &sections[is_append ? SET : update.verb];
    const char *opening = openings[is_append ? SET : update.verb];
    if (!put_literal(maker, section, section->size == 0 ? opening : ", "))
        return false;
    if (is_append)
        return put_append(maker, section, &update);
    if (!put_name(maker, section, name))
        return false;
    return update.verb == REMOVE ||
           (put_literal(maker, section, update.verb == SET ? " = " : " ") &&
            put_value(maker, section, update.value));
}

static bool make_update(struct maker *maker, struct bytes json, struct bytes *out)
{
    struct json_reader part;
    struct error error;
    struct bytes name;
    struct text sections[VERBS] = {{0}};
    struct text text = {0};
    if (!bytes_given(json))
        return true;
    maker->seen.size = 0;
    json_reader_init(&part, json, maker->reader->arena, &error);
    bool is_read = json_enter_map(&part);
    while (is_read && json_next_member(&part, &name))
        is_read = note_name(maker, name) && add_update(maker, &part, name, sections);
    is_read = is_read && check_names(&part, &maker->seen, "Duplicate attribute name");
    if (!end_part(maker, &part) || !is_read)
        return false;
    for (int verb = SET; verb < VERBS; verb++)
        if (sections[verb].size != 0 &&
            (!put(maker, &text, bytes_of(sections[verb].data, sections[verb].size)) ||
             !put_literal(maker, &text, " ")))
            return false;
    return finish(maker, &text, out);
}

/* ---- projections ---- */

static bool refuse_select(struct maker *maker, enum select select)
{
    static const char *const shown_parts[SELECTS] = {
        [SELECT_ALL_ATTRIBUTES] = "ALL_ATTRIBUTES",
        [SELECT_COUNT] = "only the Count",
    };
    return shown_parts[select] == NULL ||
           json_reader_refuse(maker->reader, STATUS_VALIDATION,
                              "Cannot specify the AttributesToGet when choosing to get %s",
                              shown_parts[select]);
}

static bool add_attribute(struct maker *maker, struct json_reader *part, struct text *text)
{
    struct bytes name;
    struct error error;
    if (!json_read_text(part, &name))
        return false;
    if (attribute_name_check(name, &error) != STATUS_OK)
        return json_reader_refuse(part, error.status, "%s", error.text);
    return note_name(maker, name) && (text->size == 0 || put_literal(maker, text, ", ")) &&
           put_name(maker, text, name);
}

static bool make_projection(struct maker *maker, struct bytes json, enum select select,
                            struct bytes *out)
{
    struct json_reader part;
    struct error error;
    struct text text = {0};
    if (!bytes_given(json))
        return true;
    maker->seen.size = 0;
    json_reader_init(&part, json, maker->reader->arena, &error);
    bool is_read = json_enter_list(&part);
    while (is_read && json_next_element(&part))
        is_read = add_attribute(maker, &part, &text);
    if (is_read && part.status == STATUS_OK && text.size == 0)
        is_read = json_reader_refuse(&part, STATUS_VALIDATION,
                                     "1 validation error detected: Value '[]' at 'attributesToGet' "
                                     "failed to satisfy constraint: Member must have length "
                                     "greater than or equal to 1");
    is_read = is_read && check_names(&part, &maker->seen, "Duplicate value in attribute name");
    return end_part(maker, &part) && is_read && refuse_select(maker, select) &&
           finish(maker, &text, out);
}

/* ---- what may stand together ---- */

static bool read_joint(struct maker *maker, const struct legacy *legacy, const char **out)
{
    struct json_reader part;
    struct error error;
    struct bytes word;
    struct bytes json = legacy->texts[LEGACY_CONDITIONAL_OPERATOR];
    *out = " AND ";
    if (!bytes_given(json))
        return true;
    json_reader_init(&part, json, maker->reader->arena, &error);
    if (json_read_text(&part, &word)) {
        if (bytes_equal(word, BYTES_LITERAL("OR")))
            *out = " OR ";
        else if (!bytes_equal(word, BYTES_LITERAL("AND")))
            (void)refuse_enum(&part, word, "conditionalOperator", "OR, AND");
    }
    if (!end_part(maker, &part))
        return false;
    return bytes_given(legacy->texts[LEGACY_QUERY_FILTER]) ||
           bytes_given(legacy->texts[LEGACY_SCAN_FILTER]) ||
           bytes_given(legacy->texts[LEGACY_EXPECTED]) ||
           json_reader_refuse(maker->reader, STATUS_VALIDATION,
                              INVALID "ConditionalOperator cannot be used without Filter or "
                                      "Expected");
}

/* Appends ", name" to a list of names. */
static void list_name(char *list, size_t size, struct bytes name)
{
    size_t used = strlen(list);
    (void)snprintf(list + used, size - used, "%s%.*s", used == 0 ? "" : ", ", (int)name.size,
                   (const char *)name.data);
}

static void list_expressions(const struct request *request, char *list, size_t size)
{
    const struct {
        struct bytes name, text;
    } expressions[] = {
        {BYTES_LITERAL("ProjectionExpression"), request->projection},
        {BYTES_LITERAL("FilterExpression"), request->filter},
        {BYTES_LITERAL("KeyConditionExpression"), request->key_condition.text},
        {BYTES_LITERAL("UpdateExpression"), request->update},
        {BYTES_LITERAL("ConditionExpression"), request->condition},
    };
    for (size_t i = 0; i < sizeof expressions / sizeof expressions[0]; i++)
        if (bytes_given(expressions[i].text))
            list_name(list, size, expressions[i].name);
}

/* KeyConditions may stand beside a FilterExpression and a ProjectionExpression; else it is either
 * the ones or the others. */
static bool check_mixture(const struct legacy *legacy, struct json_reader *reader,
                          const struct request *request)
{
    char expressions[128] = "";
    char others[128] = "";
    list_expressions(request, expressions, sizeof expressions);
    for (int i = 0; i < LEGACY_PARAMETERS; i++)
        if (bytes_given(legacy->texts[i]) &&
            (i != LEGACY_KEY_CONDITIONS || bytes_given(request->key_condition.text)))
            list_name(others, sizeof others, parameters[i].name);
    if (expressions[0] != '\0' && others[0] != '\0')
        return json_reader_refuse(reader, STATUS_VALIDATION,
                                  "Can not use both expression and non-expression parameters in "
                                  "the same request: Non-expression parameters: {%s} Expression "
                                  "parameters: {%s}",
                                  others, expressions);
    return true;
}

static bool check_aliases(struct json_reader *reader, const struct request *request)
{
    bool has_values_user = bytes_given(request->filter) || bytes_given(request->key_condition.text);
    if (bytes_given(request->key_condition.names) && !has_values_user &&
        !bytes_given(request->projection))
        return json_reader_refuse(
            reader, STATUS_VALIDATION,
            "ExpressionAttributeNames can only be specified when using expressions");
    if (bytes_given(request->key_condition.values) && !has_values_user)
        return json_reader_refuse(
            reader, STATUS_VALIDATION,
            "ExpressionAttributeValues can only be specified when using expressions: %s",
            request->operation == OPERATION_QUERY
                ? "FilterExpression and KeyConditionExpression are null"
            : request->operation == OPERATION_SCAN ? "FilterExpression is null"
            : request->operation == OPERATION_UPDATE_ITEM
                ? "UpdateExpression and ConditionExpression are null"
                : "ConditionExpression is null");
    return true;
}

bool legacy_apply(const struct legacy *legacy, struct json_reader *reader, struct request *request)
{
    const struct bytes *texts = legacy->texts;
    struct expression_input *input = &request->key_condition;
    struct maker maker = {.reader = reader};
    const char *joint;
    if (!check_mixture(legacy, reader, request) || !check_aliases(reader, request) ||
        !read_joint(&maker, legacy, &joint))
        return false;
    request->is_legacy = true;
    return make_conditions(&maker, texts[LEGACY_QUERY_FILTER], LEGACY_QUERY_FILTER, joint,
                           &request->filter) &&
           make_conditions(&maker, texts[LEGACY_SCAN_FILTER], LEGACY_SCAN_FILTER, joint,
                           &request->filter) &&
           make_projection(&maker, texts[LEGACY_ATTRIBUTES_TO_GET], request->select,
                           &request->projection) &&
           make_conditions(&maker, texts[LEGACY_KEY_CONDITIONS], LEGACY_KEY_CONDITIONS, " AND ",
                           &input->text) &&
           make_update(&maker, texts[LEGACY_ATTRIBUTE_UPDATES], &request->update) &&
           make_conditions(&maker, texts[LEGACY_EXPECTED], LEGACY_EXPECTED, joint,
                           &request->condition) &&
           join(&maker, input->names, &maker.names, maker.name_count, &input->names) &&
           join(&maker, input->values, &maker.values, maker.value_count, &input->values);
}
