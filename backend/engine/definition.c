#include "backend/engine/definition.h"

#include "backend/engine/record.h"
#include "protocol/encoding/msgpack.h"
#include "protocol/ensure.h"

#include <stdio.h>
#include <stdlib.h>

enum { DEFINITION_BYTES_MAX = 1 << 20, MEMBERS_MAX = 16 };

/* ---- trees ---- */

static const struct value *member_of(const struct value *map, const char *name)
{
    if (map == NULL || map->type != VALUE_M)
        return NULL;
    for (size_t i = 0; i < map->count; i++)
        if (bytes_equal(map->attributes[i].name, bytes_text(name)))
            return &map->attributes[i].value;
    return NULL;
}

/* Not given when it is missing or no string. */
static struct bytes text_member(const struct value *map, const char *name)
{
    const struct value *value = member_of(map, name);
    return value == NULL || value->type != VALUE_S ? BYTES_NONE : value->bytes;
}

static uint64_t number_member(const struct value *map, const char *name)
{
    const struct value *value = member_of(map, name);
    uint64_t number = 0;
    if (value != NULL && value->type == VALUE_N && !number_to_uint(&value->number, &number))
        number = 0;
    return number;
}

static bool truth_member(const struct value *map, const char *name)
{
    const struct value *value = member_of(map, name);
    return value != NULL && value->type == VALUE_BOOL && value->truth;
}

static struct value text_value(struct bytes text)
{
    return (struct value){.type = VALUE_S, .bytes = text};
}

static struct value number_value(uint64_t number)
{
    return (struct value){.type = VALUE_N, .number = number_from_uint(number)};
}

/* A map under construction. */
struct members {
    struct attribute attributes[MEMBERS_MAX];
    size_t count;
};

static void add(struct members *members, const char *name, struct value value)
{
    ensure(members->count < MEMBERS_MAX);
    members->attributes[members->count++] = (struct attribute){bytes_text(name), value};
}

static struct value map_value(struct members *members)
{
    return (struct value){
        .type = VALUE_M, .attributes = members->attributes, .count = members->count};
}

static struct bytes encode(struct value *value, struct arena *arena)
{
    struct error error;
    struct buffer buffer = {0};
    struct bytes copy = BYTES_NONE;
    if (value_normalize(value, &error) == STATUS_OK && value_encode(value, &buffer))
        copy = arena_copy(arena, buffer_bytes(&buffer));
    buffer_deinit(&buffer);
    return copy;
}

/* ---- checking what CreateTable gives ---- */

enum status table_name_check(struct bytes name, struct error *error)
{
    if (!bytes_given(name))
        return error_set(error, STATUS_VALIDATION,
                         "1 validation error detected: Value null at 'tableName' failed to satisfy "
                         "constraint: Member must not be null");
    if (name.size < TABLE_NAME_MIN || name.size > TABLE_NAME_MAX)
        return error_set(error, STATUS_VALIDATION,
                         "TableName must be at least %d characters long and at most %d characters "
                         "long",
                         TABLE_NAME_MIN, TABLE_NAME_MAX);
    for (size_t i = 0; i < name.size; i++) {
        uint8_t c = name.data[i];
        bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (!is_letter && !(c >= '0' && c <= '9') && c != '_' && c != '.' && c != '-')
            return error_set(error, STATUS_VALIDATION,
                             "1 validation error detected: Value '%.*s' at 'tableName' failed to "
                             "satisfy constraint: Member must satisfy regular expression pattern: "
                             "[a-zA-Z0-9_.-]+",
                             (int)(name.size < 64 ? name.size : 64), (const char *)name.data);
    }
    return STATUS_OK;
}

static enum status check_length(const struct value *list, const char *what, size_t most,
                                struct error *error)
{
    if (list == NULL)
        return error_set(error, STATUS_VALIDATION,
                         "1 validation error detected: Value null at '%s' failed to satisfy "
                         "constraint: Member must not be null",
                         what);
    if (list->type != VALUE_L)
        return error_set(error, STATUS_MALFORMED, "%s must be a list", what);
    if (list->count == 0 || list->count > most)
        return error_set(error, STATUS_VALIDATION,
                         "1 validation error detected: Value of length %zu at '%s' failed to "
                         "satisfy constraint: Member must have length %s than or equal to %zu",
                         list->count, what, list->count == 0 ? "greater" : "less",
                         list->count == 0 ? (size_t)1 : most);
    return STATUS_OK;
}

static enum status check_attribute_name(const struct value *element, const char *list, size_t i,
                                        struct error *error)
{
    struct bytes name = text_member(element, "AttributeName");
    if (!bytes_given(name))
        return error_set(error, STATUS_VALIDATION,
                         "1 validation error detected: Value null at '%s.%zu.member.attributeName' "
                         "failed to satisfy constraint: Member must not be null",
                         list, i + 1);
    if (name.size == 0 || name.size > KEY_NAME_MAX)
        return error_set(error, STATUS_VALIDATION,
                         "1 validation error detected: Value at '%s.%zu.member.attributeName' "
                         "failed to satisfy constraint: Member must have length between 1 and %d",
                         list, i + 1, KEY_NAME_MAX);
    return STATUS_OK;
}

static enum status check_one_of(const struct value *element, const char *member, const char *path,
                                size_t i, const char *const *allowed, const char *set,
                                struct error *error)
{
    struct bytes text = text_member(element, member);
    for (; bytes_given(text) && *allowed != NULL; allowed++)
        if (bytes_equal(text, bytes_text(*allowed)))
            return STATUS_OK;
    return error_set(error, STATUS_VALIDATION,
                     "1 validation error detected: Value '%.*s' at '%s' (member %zu) failed to "
                     "satisfy constraint: Member must satisfy enum value set: [%s]",
                     (int)(text.size < 32 ? text.size : 32),
                     bytes_given(text) ? (const char *)text.data : "", path, i + 1, set);
}

static const char *const attribute_types[] = {"S", "N", "B", NULL};
static const char *const key_types[] = {"HASH", "RANGE", NULL};

static const struct value *find_definition(const struct value *definitions, struct bytes name)
{
    for (size_t i = 0; i < definitions->count; i++)
        if (bytes_equal(text_member(&definitions->values[i], "AttributeName"), name))
            return &definitions->values[i];
    return NULL;
}

static enum status check_elements(const struct value *definitions, const struct value *keys,
                                  struct error *error)
{
    enum status status = STATUS_OK;
    for (size_t i = 0; i < definitions->count && status == STATUS_OK; i++) {
        const struct value *element = &definitions->values[i];
        status = check_attribute_name(element, "attributeDefinitions", i, error);
        if (status == STATUS_OK)
            status = check_one_of(element, "AttributeType", "attributeDefinitions.attributeType", i,
                                  attribute_types, "B, N, S", error);
        if (status == STATUS_OK &&
            find_definition(definitions, text_member(element, "AttributeName")) != element)
            status = error_set(error, STATUS_VALIDATION,
                               "Cannot have two attributes with the same name");
    }
    for (size_t i = 0; i < keys->count && status == STATUS_OK; i++) {
        status = check_attribute_name(&keys->values[i], "keySchema", i, error);
        if (status == STATUS_OK)
            status = check_one_of(&keys->values[i], "KeyType", "keySchema.keyType", i, key_types,
                                  "HASH, RANGE", error);
    }
    return status;
}

static enum status check_keys(const struct value *definitions, const struct value *keys,
                              struct error *error)
{
    const struct value *hash = &keys->values[0];
    const struct value *range = keys->count == 2 ? &keys->values[1] : NULL;
    if (!bytes_equal(text_member(hash, "KeyType"), BYTES_LITERAL("HASH")))
        return error_set(error, STATUS_VALIDATION,
                         "Invalid KeySchema: The first KeySchemaElement is not a HASH key type");
    if (range != NULL && !bytes_equal(text_member(range, "KeyType"), BYTES_LITERAL("RANGE")))
        return error_set(error, STATUS_VALIDATION,
                         "Invalid KeySchema: The second KeySchemaElement is not a RANGE key type");
    if (range != NULL &&
        bytes_equal(text_member(hash, "AttributeName"), text_member(range, "AttributeName")))
        return error_set(error, STATUS_VALIDATION,
                         "Both the Hash Key and the Range Key element in the KeySchema have the "
                         "same name");
    for (size_t i = 0; i < keys->count; i++)
        if (find_definition(definitions, text_member(&keys->values[i], "AttributeName")) == NULL)
            return error_set(error, STATUS_VALIDATION,
                             "Invalid KeySchema: Some index key attribute have no definition");
    if (definitions->count != keys->count)
        return error_set(error, STATUS_VALIDATION,
                         "One or more parameter values were invalid: Number of attributes in "
                         "KeySchema does not exactly match number of attributes defined in "
                         "AttributeDefinitions");
    return STATUS_OK;
}

static enum status check_billing(const struct value *request, struct error *error)
{
    struct bytes mode = text_member(request, "BillingMode");
    const struct value *throughput = member_of(request, "ProvisionedThroughput");
    bool is_on_demand = bytes_equal(mode, BYTES_LITERAL("PAY_PER_REQUEST"));
    bool is_provisioned = bytes_equal(mode, BYTES_LITERAL("PROVISIONED"));
    if (member_of(request, "BillingMode") != NULL && !is_on_demand && !is_provisioned)
        return error_set(error, STATUS_VALIDATION,
                         "1 validation error detected: Value '%.*s' at 'billingMode' failed to "
                         "satisfy constraint: Member must satisfy enum value set: [PROVISIONED, "
                         "PAY_PER_REQUEST]",
                         (int)(mode.size < 32 ? mode.size : 32),
                         bytes_given(mode) ? (const char *)mode.data : "");
    if (is_on_demand && throughput != NULL)
        return error_set(error, STATUS_VALIDATION,
                         "One or more parameter values were invalid: Neither ReadCapacityUnits nor "
                         "WriteCapacityUnits can be specified when BillingMode is PAY_PER_REQUEST");
    if (is_provisioned && throughput == NULL)
        return error_set(error, STATUS_VALIDATION,
                         "One or more parameter values were invalid: ReadCapacityUnits and "
                         "WriteCapacityUnits must both be specified when BillingMode is "
                         "PROVISIONED");
    if (throughput != NULL && (number_member(throughput, "ReadCapacityUnits") == 0 ||
                               number_member(throughput, "WriteCapacityUnits") == 0))
        return error_set(error, STATUS_VALIDATION,
                         "ProvisionedThroughput needs ReadCapacityUnits and WriteCapacityUnits of "
                         "at least 1");
    return STATUS_OK;
}

/* Better a refusal than a table that silently lacks what was asked for. */
static enum status check_supported(const struct value *request, struct error *error)
{
    static const char *const indexes[] = {"GlobalSecondaryIndexes", "LocalSecondaryIndexes"};
    for (size_t i = 0; i < 2; i++)
        if (member_of(request, indexes[i]) != NULL)
            return error_set(error, STATUS_UNSUPPORTED,
                             "%s are not supported yet; create the table without them", indexes[i]);
    if (truth_member(member_of(request, "StreamSpecification"), "StreamEnabled"))
        return error_set(error, STATUS_UNSUPPORTED,
                         "StreamSpecification: streams are not supported yet; create the table "
                         "without them");
    return STATUS_OK;
}

static enum status check_request(const struct value *request, struct error *error)
{
    const struct value *definitions = member_of(request, "AttributeDefinitions");
    const struct value *keys = member_of(request, "KeySchema");
    enum status status = table_name_check(text_member(request, "TableName"), error);
    if (status == STATUS_OK)
        status = check_supported(request, error);
    if (status == STATUS_OK)
        status = check_length(definitions, "attributeDefinitions", MEMBERS_MAX, error);
    if (status == STATUS_OK)
        status = check_length(keys, "keySchema", 2, error);
    if (status == STATUS_OK)
        status = check_elements(definitions, keys, error);
    if (status == STATUS_OK)
        status = check_keys(definitions, keys, error);
    return status == STATUS_OK ? check_billing(request, error) : status;
}

static const char *const kept[] = {"AttributeDefinitions",
                                   "BillingMode",
                                   "DeletionProtectionEnabled",
                                   "KeySchema",
                                   "ProvisionedThroughput",
                                   "SSESpecification",
                                   "TableClass",
                                   "Tags"};

enum status definition_check(struct bytes bytes, struct arena *arena, struct definition_input *out,
                             struct error *error)
{
    struct value request;
    struct msgpack_cursor cursor = msgpack_cursor_of(bytes);
    enum status status = value_decode(&cursor, arena, &request, error);
    if (status == STATUS_OK && (request.type != VALUE_M || cursor.at != cursor.end))
        status = error_set(error, STATUS_MALFORMED, "CreateTable needs one map of parameters");
    if (status == STATUS_OK)
        status = check_request(&request, error);
    if (status != STATUS_OK)
        return status;

    size_t kept_count = sizeof kept / sizeof kept[0];
    struct attribute *attributes = arena_alloc(arena, kept_count * sizeof *attributes);
    if (attributes == NULL)
        return STATUS_NO_MEMORY;
    struct value description = {.type = VALUE_M, .attributes = attributes};
    for (size_t i = 0; i < kept_count; i++) {
        const struct value *value = member_of(&request, kept[i]);
        if (value != NULL)
            attributes[description.count++] = (struct attribute){bytes_text(kept[i]), *value};
    }
    *out = (struct definition_input){text_member(&request, "TableName"), description};
    return STATUS_OK;
}

/* ---- the record ---- */

struct bytes definition_encode(const struct definition_input *input, uint32_t id,
                               uint64_t created_at_ms, uint32_t partitions, struct arena *arena)
{
    struct partition_map map;
    if (!partition_map_even(partitions, arena, &map))
        return BYTES_NONE;
    struct bytes points = partition_map_write(&map, arena);
    if (!bytes_given(points))
        return BYTES_NONE;
    struct members members = {.count = 0};
    add(&members, "Created", number_value(created_at_ms));
    add(&members, "Description", input->description);
    add(&members, "Id", number_value(id));
    add(&members, "Name", text_value(input->name));
    add(&members, "Partitions", (struct value){.type = VALUE_B, .bytes = points});
    struct value record = map_value(&members);
    return encode(&record, arena);
}

static bool read_key_attribute(const struct value *description, const struct value *key,
                               struct key_attribute *out)
{
    const struct value *definitions = member_of(description, "AttributeDefinitions");
    out->name = text_member(key, "AttributeName");
    if (definitions == NULL || definitions->type != VALUE_L || !bytes_given(out->name))
        return false;
    const struct value *definition = find_definition(definitions, out->name);
    struct bytes type = text_member(definition, "AttributeType");
    for (enum value_type t = VALUE_S; t <= VALUE_B; t++)
        if (bytes_equal(type, bytes_text(value_type_name(t)))) {
            out->type = t;
            return true;
        }
    return false;
}

static bool read_key_schema(const struct value *description, struct key_schema *out)
{
    const struct value *keys = member_of(description, "KeySchema");
    if (keys == NULL || keys->type != VALUE_L || keys->count == 0 || keys->count > 2)
        return false;
    return read_key_attribute(description, &keys->values[0], &out->partition) &&
           (keys->count == 1 || read_key_attribute(description, &keys->values[1], &out->sort));
}

static enum status fill(struct definition *definition, struct bytes record)
{
    struct arena *arena = &definition->arena;
    definition->record = arena_copy(arena, record);
    if (!bytes_given(definition->record))
        return STATUS_NO_MEMORY;
    struct value tree;
    struct error error;
    struct msgpack_cursor cursor = msgpack_cursor_of(definition->record);
    if (value_decode(&cursor, arena, &tree, &error) != STATUS_OK)
        return STATUS_INTERNAL;
    const struct value *description = member_of(&tree, "Description");
    const struct value *points = member_of(&tree, "Partitions");
    struct table *table = &definition->table;
    table->id = (uint32_t)number_member(&tree, "Id");
    table->name = text_member(&tree, "Name");
    table->created_at_ms = number_member(&tree, "Created");
    if (table->id == 0 || !bytes_given(table->name) || description == NULL || points == NULL ||
        !read_key_schema(description, &table->key) ||
        !partition_map_read(points->bytes, arena, &definition->partitions) ||
        !item_find(definition->record, BYTES_LITERAL("Description"), &table->description))
        return STATUS_INTERNAL;
    table->partitions = definition->partitions.count;
    definition->is_protected = truth_member(description, "DeletionProtectionEnabled");
    definition->record_key = record_definition_key(table->name, arena);
    return bytes_given(definition->record_key) ? STATUS_OK : STATUS_NO_MEMORY;
}

enum status definition_decode(struct bytes record, struct definition **out)
{
    struct definition *definition = calloc(1, sizeof *definition);
    if (definition == NULL)
        return STATUS_NO_MEMORY;
    arena_init(&definition->arena, NULL, 0, DEFINITION_BYTES_MAX);
    atomic_init(&definition->references, 1);
    atomic_init(&definition->state, DEFINITION_ACTIVE);
    enum status status = fill(definition, record);
    if (status != STATUS_OK) {
        definition_unref(definition);
        return status;
    }
    *out = definition;
    return STATUS_OK;
}

struct definition *definition_ref(struct definition *definition)
{
    atomic_fetch_add_explicit(&definition->references, 1, memory_order_relaxed);
    return definition;
}

/* Release and acquire: whoever frees has seen everybody else's last use. */
void definition_unref(struct definition *definition)
{
    if (definition == NULL ||
        atomic_fetch_sub_explicit(&definition->references, 1, memory_order_acq_rel) != 1)
        return;
    arena_deinit(&definition->arena);
    free(definition);
}

/* ---- describing ---- */

/* Seconds with milliseconds. */
static struct value time_value(uint64_t ms)
{
    struct value value = number_value(ms);
    if (ms != 0)
        value.number.exponent = (int16_t)(value.number.exponent - 3);
    return value;
}

static uint64_t at_least_zero(int64_t number)
{
    return number < 0 ? 0 : (uint64_t)number;
}

static void add_billing(struct members *description, const struct value *given,
                        struct members *throughput, struct members *billing)
{
    const struct value *provisioned = member_of(given, "ProvisionedThroughput");
    add(throughput, "NumberOfDecreasesToday", number_value(0));
    add(throughput, "ReadCapacityUnits",
        number_value(number_member(provisioned, "ReadCapacityUnits")));
    add(throughput, "WriteCapacityUnits",
        number_value(number_member(provisioned, "WriteCapacityUnits")));
    add(description, "ProvisionedThroughput", map_value(throughput));
    if (provisioned != NULL)
        return;
    add(billing, "BillingMode", text_value(BYTES_LITERAL("PAY_PER_REQUEST")));
    add(description, "BillingModeSummary", map_value(billing));
}

struct bytes definition_describe(const struct definition *definition, const char *member,
                                 const char *table_status, const struct partition_totals *totals,
                                 struct arena *arena)
{
    const struct table *table = &definition->table;
    struct value given;
    struct error error;
    struct msgpack_cursor cursor = msgpack_cursor_of(table->description);
    if (value_decode(&cursor, arena, &given, &error) != STATUS_OK)
        return BYTES_NONE;
    char arn[64 + TABLE_NAME_MAX], id[40];
    int arn_size = snprintf(arn, sizeof arn, "arn:aws:dynamodb:local:000000000000:table/%.*s",
                            (int)table->name.size, (const char *)table->name.data);
    int id_size = snprintf(id, sizeof id, "00000000-0000-0000-0000-%012x", table->id);
    struct members description = {.count = 0}, throughput = {.count = 0}, billing = {.count = 0};
    add(&description, "TableName", text_value(table->name));
    add(&description, "TableId", text_value(bytes_of(id, (size_t)id_size)));
    add(&description, "TableArn", text_value(bytes_of(arn, (size_t)arn_size)));
    add(&description, "TableStatus", text_value(bytes_text(table_status)));
    add(&description, "CreationDateTime", time_value(table->created_at_ms));
    add(&description, "ItemCount", number_value(at_least_zero(totals->counts[PARTITION_ITEMS])));
    add(&description, "TableSizeBytes",
        number_value(at_least_zero(totals->counts[PARTITION_BYTES])));
    add(&description, "KeySchema", *member_of(&given, "KeySchema"));
    add(&description, "AttributeDefinitions", *member_of(&given, "AttributeDefinitions"));
    add_billing(&description, &given, &throughput, &billing);
    if (definition->is_protected)
        add(&description, "DeletionProtectionEnabled",
            (struct value){.type = VALUE_BOOL, .truth = true});
    struct members body = {.count = 0};
    add(&body, member, map_value(&description));
    struct value tree = map_value(&body);
    return encode(&tree, arena);
}
