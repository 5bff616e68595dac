#include "clients/cli/parts.h"

#include "clients/cli/flags.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where something stands, for messages: "RequestItems.Shop.Keys". */
struct place {
    const char *outer, *inner;
};

static bool refuse(struct place place, const char *why)
{
    (void)report_usage("error parsing parameter %s%s%s: %s", place.outer,
                       place.inner[0] != '\0' ? "." : "", place.inner, why);
    return false;
}

/* ---- members of one part ---- */

enum field {
    FIELD_TABLE,
    FIELD_KEY,
    FIELD_ITEM,
    FIELD_NAMES,
    FIELD_VALUES,
    FIELD_CONDITION,
    FIELD_UPDATE,
    FIELD_PROJECTION,
    FIELD_FAILED,
    FIELD_CONSISTENT,
    FIELDS,
};
#define BIT(field) (1u << (field))

static const char *const field_names[FIELDS] = {
    [FIELD_TABLE] = "TableName",
    [FIELD_KEY] = "Key",
    [FIELD_ITEM] = "Item",
    [FIELD_NAMES] = "ExpressionAttributeNames",
    [FIELD_VALUES] = "ExpressionAttributeValues",
    [FIELD_CONDITION] = "ConditionExpression",
    [FIELD_UPDATE] = "UpdateExpression",
    [FIELD_PROJECTION] = "ProjectionExpression",
    [FIELD_FAILED] = "ReturnValuesOnConditionCheckFailure",
    [FIELD_CONSISTENT] = "ConsistentRead",
};

static bool is_name(const char *name, size_t size, const char *wanted)
{
    return strlen(wanted) == size && memcmp(name, wanted, size) == 0;
}

static bool take_text(const struct mudax_value *value, const char **out)
{
    size_t size;
    const char *text = mudax_text(value, &size);
    *out = mudax_type(value) == MUDAX_S ? strndup(text, size) : NULL;
    return *out != NULL;
}

static bool take_item(const struct mudax_value *value, const struct mudax_value **out,
                      struct mudax_error *error)
{
    *out = reread_item(value, error);
    return *out != NULL;
}

static bool take_failed(const struct mudax_value *value, bool *out)
{
    size_t size;
    const char *text = mudax_text(value, &size);
    *out = is_name(text, size, "ALL_OLD");
    return *out || is_name(text, size, "NONE");
}

static bool take_field(enum field field, const struct mudax_value *value,
                       struct mudax_request *part, struct mudax_error *error)
{
    switch (field) {
    case FIELD_TABLE:
        return take_text(value, &part->table);
    case FIELD_KEY:
        return take_item(value, &part->key, error);
    case FIELD_ITEM:
        return take_item(value, &part->item, error);
    case FIELD_NAMES:
        part->names = mudax_copy(value);
        return part->names != NULL && mudax_type(value) == MUDAX_M;
    case FIELD_VALUES:
        return take_item(value, &part->values, error);
    case FIELD_CONDITION:
        return take_text(value, &part->condition);
    case FIELD_UPDATE:
        return take_text(value, &part->update);
    case FIELD_PROJECTION:
        return take_text(value, &part->projection);
    case FIELD_FAILED:
        return take_failed(value, &part->wants_failed_item);
    case FIELD_CONSISTENT:
        part->consistent_read = mudax_truth(value);
        return mudax_type(value) == MUDAX_BOOL;
    case FIELDS:
        break;
    }
    return false;
}

/* Takes all members of an object but `but`, which may be NULL. */
static bool take_fields(const struct mudax_value *object, unsigned allowed, const char *but,
                        struct place place, struct mudax_request *part)
{
    if (mudax_type(object) != MUDAX_M)
        return refuse(place, "expected a JSON object");
    for (size_t i = 0; i < mudax_count(object); i++) {
        struct mudax_error error = {.text = "has another type or value"};
        size_t size;
        const char *name = mudax_name_at(object, i, &size);
        if (but != NULL && is_name(name, size, but))
            continue;
        unsigned field = 0;
        while (field < FIELDS &&
               ((allowed & BIT(field)) == 0 || !is_name(name, size, field_names[field])))
            field++;
        char why[320];
        if (field == FIELDS)
            (void)snprintf(why, sizeof why, "no member %.*s here", (int)(size < 64 ? size : 64),
                           name);
        else if (!take_field((enum field)field, mudax_at(object, i), part, &error))
            (void)snprintf(why, sizeof why, "%s: %s", field_names[field], error.text);
        else
            continue;
        return refuse(place, why);
    }
    return true;
}

/* ---- parts ---- */

static void free_text(const char *text)
{
    free((void *)(uintptr_t)text);
}

static void free_value(const struct mudax_value *value)
{
    mudax_free((struct mudax_value *)(uintptr_t)value);
}

void parts_free(struct parts *parts)
{
    for (size_t i = 0; i < parts->count; i++) {
        struct mudax_request *part = &parts->requests[i];
        free_text(part->table);
        free_text(part->condition);
        free_text(part->update);
        free_text(part->projection);
        free_value(part->key);
        free_value(part->item);
        free_value(part->names);
        free_value(part->values);
    }
    free(parts->requests);
    *parts = (struct parts){0};
}

/* One more part, of zeros but for its operation. NULL: a message is written. */
static struct mudax_request *add(struct parts *parts, enum mudax_operation operation)
{
    struct mudax_request *grown =
        realloc(parts->requests, (parts->count + 1) * sizeof parts->requests[0]);
    if (grown == NULL) {
        (void)report_no_memory();
        return NULL;
    }
    parts->requests = grown;
    struct mudax_request *part = &grown[parts->count++];
    *part = (struct mudax_request){.operation = operation};
    return part;
}

/* The table's name: passes to the part. */
static bool name_table(struct mudax_request *part, const char *table)
{
    part->table = strdup(table);
    if (part->table == NULL)
        (void)report_no_memory();
    return part->table != NULL;
}

/* {"Keys": [KEY, ..], what is said of all of them} */
static bool read_gets(const struct mudax_value *object, const char *table, struct parts *out)
{
    enum { ALLOWED = BIT(FIELD_NAMES) | BIT(FIELD_PROJECTION) | BIT(FIELD_CONSISTENT) };
    struct place place = {"RequestItems", table};
    const struct mudax_value *keys = mudax_get(object, "Keys");
    if (mudax_type(keys) != MUDAX_L)
        return refuse(place, "expected {\"Keys\": [KEY, ...]}");
    for (size_t i = 0; i < mudax_count(keys); i++) {
        struct mudax_error error;
        struct mudax_request *part = add(out, MUDAX_GET_ITEM);
        if (part == NULL || !name_table(part, table) ||
            !take_fields(object, ALLOWED, "Keys", place, part))
            return false;
        if (!take_item(mudax_at(keys, i), &part->key, &error))
            return refuse(place, error.text);
    }
    return true;
}

/* [{"PutRequest": {"Item": ITEM}} or {"DeleteRequest": {"Key": KEY}}, ..] */
static bool read_writes(const struct mudax_value *list, const char *table, struct parts *out)
{
    struct place place = {"RequestItems", table};
    if (mudax_type(list) != MUDAX_L)
        return refuse(place, "expected a list of PutRequest and DeleteRequest");
    for (size_t i = 0; i < mudax_count(list); i++) {
        const struct mudax_value *write = mudax_at(list, i);
        const struct mudax_value *put = mudax_get(write, "PutRequest");
        const struct mudax_value *delete = mudax_get(write, "DeleteRequest");
        if (mudax_count(write) != 1 || (put == NULL && delete == NULL))
            return refuse(place, "expected one PutRequest or DeleteRequest in each");
        struct mudax_request *part = add(out, put != NULL ? MUDAX_PUT_ITEM : MUDAX_DELETE_ITEM);
        if (part == NULL || !name_table(part, table) ||
            !take_fields(put != NULL ? put : delete, put != NULL ? BIT(FIELD_ITEM) : BIT(FIELD_KEY),
                         NULL, place, part))
            return false;
    }
    return true;
}

static bool read_by_table(enum mudax_operation operation, const struct mudax_value *members,
                          struct parts *out)
{
    bool is_read = true;
    for (size_t i = 0; i < mudax_count(members) && is_read; i++) {
        size_t size;
        const char *name = mudax_name_at(members, i, &size);
        char *table = strndup(name, size);
        if (table == NULL) {
            (void)report_no_memory();
            return false;
        }
        is_read = (operation == MUDAX_BATCH_GET_ITEM ? read_gets : read_writes)(
            mudax_at(members, i), table, out);
        free(table);
    }
    return is_read;
}

static const struct action {
    const char *name;
    enum mudax_operation whole, part;
    unsigned fields;
} actions[] = {
    {"Get", MUDAX_TRANSACT_GET_ITEMS, MUDAX_GET_ITEM,
     BIT(FIELD_TABLE) | BIT(FIELD_KEY) | BIT(FIELD_NAMES) | BIT(FIELD_PROJECTION)},
    {"Put", MUDAX_TRANSACT_WRITE_ITEMS, MUDAX_PUT_ITEM,
     BIT(FIELD_TABLE) | BIT(FIELD_ITEM) | BIT(FIELD_NAMES) | BIT(FIELD_VALUES) |
         BIT(FIELD_CONDITION) | BIT(FIELD_FAILED)},
    {"Delete", MUDAX_TRANSACT_WRITE_ITEMS, MUDAX_DELETE_ITEM,
     BIT(FIELD_TABLE) | BIT(FIELD_KEY) | BIT(FIELD_NAMES) | BIT(FIELD_VALUES) |
         BIT(FIELD_CONDITION) | BIT(FIELD_FAILED)},
    {"Update", MUDAX_TRANSACT_WRITE_ITEMS, MUDAX_UPDATE_ITEM,
     BIT(FIELD_TABLE) | BIT(FIELD_KEY) | BIT(FIELD_NAMES) | BIT(FIELD_VALUES) |
         BIT(FIELD_CONDITION) | BIT(FIELD_UPDATE) | BIT(FIELD_FAILED)},
    {"ConditionCheck", MUDAX_TRANSACT_WRITE_ITEMS, MUDAX_CONDITION_CHECK,
     BIT(FIELD_TABLE) | BIT(FIELD_KEY) | BIT(FIELD_NAMES) | BIT(FIELD_VALUES) |
         BIT(FIELD_CONDITION) | BIT(FIELD_FAILED)},
};

/* The one action of an element. NULL if there is none, or more. */
static const struct action *find_action(enum mudax_operation whole,
                                        const struct mudax_value *element)
{
    if (mudax_type(element) != MUDAX_M || mudax_count(element) != 1)
        return NULL;
    for (size_t i = 0; i < sizeof actions / sizeof actions[0]; i++)
        if (actions[i].whole == whole && mudax_get(element, actions[i].name) != NULL)
            return &actions[i];
    return NULL;
}

static bool read_actions(enum mudax_operation operation, const struct mudax_value *list,
                         struct parts *out)
{
    for (size_t i = 0; i < mudax_count(list); i++) {
        const struct action *action = find_action(operation, mudax_at(list, i));
        if (action == NULL)
            return refuse((struct place){"TransactItems", ""},
                          operation == MUDAX_TRANSACT_GET_ITEMS
                              ? "expected one Get in each"
                              : "expected one of Put, Update, Delete, ConditionCheck in each");
        struct mudax_request *part = add(out, action->part);
        if (part == NULL || !take_fields(mudax_at(mudax_at(list, i), 0), action->fields, NULL,
                                         (struct place){"TransactItems", action->name}, part))
            return false;
    }
    return true;
}

bool parts_read(enum mudax_operation operation, const struct mudax_value *members,
                struct parts *out)
{
    bool is_batch = operation == MUDAX_BATCH_GET_ITEM || operation == MUDAX_BATCH_WRITE_ITEM;
    *out = (struct parts){0};
    return (is_batch ? read_by_table : read_actions)(operation, members, out);
}

/* ---- what is left ---- */

static bool is_left(const struct mudax_reply *reply, size_t place)
{
    size_t i = 0;
    while (i < mudax_reply_unprocessed_count(reply) &&
           mudax_reply_unprocessed_at(reply, i) != place)
        i++;
    return i < mudax_reply_unprocessed_count(reply);
}

/* Those elements of a list that are left; *place moves behind them. NULL without memory. */
static struct mudax_value *elements_left(const struct mudax_value *list,
                                         const struct mudax_reply *reply, size_t *place)
{
    struct mudax_value *left = mudax_list();
    bool is_right = left != NULL;
    for (size_t i = 0; i < mudax_count(list) && is_right; i++)
        if (is_left(reply, (*place)++))
            is_right = mudax_append(left, mudax_copy(mudax_at(list, i)));
    if (is_right)
        return left;
    mudax_free(left);
    return NULL;
}

struct mudax_value *parts_left(const struct mudax_value *members, const struct mudax_reply *reply)
{
    struct mudax_value *all = mudax_map();
    size_t place = 0;
    bool is_right = all != NULL;
    for (size_t i = 0; i < mudax_count(members) && is_right; i++) {
        size_t size;
        const char *name = mudax_name_at(members, i, &size);
        const struct mudax_value *of_table = mudax_at(members, i);
        const struct mudax_value *keys = mudax_get(of_table, "Keys");
        struct mudax_value *left = elements_left(keys != NULL ? keys : of_table, reply, &place);
        if (mudax_count(left) == 0) {
            is_right = left != NULL;
            mudax_free(left);
            continue;
        }
        if (keys != NULL) {
            struct mudax_value *copy = mudax_copy(of_table);
            is_right = mudax_put(copy, "Keys", left);
            left = copy;
        }
        char *table = strndup(name, size);
        is_right = table != NULL && mudax_put(all, table, left) && is_right;
        free(table);
    }
    if (is_right)
        return all;
    mudax_free(all);
    return NULL;
}
