/* definition_check.c - what CreateTable gives, by DynamoDB's rules. */
#include "backend/engine/definition_index.h"

#include "backend/engine/definition_encryption.h"
#include "backend/engine/definition_tags.h"
#include "backend/engine/definition_throughput.h"
#include "protocol/encoding/msgpack.h"

enum { DEFINITIONS_MAX = 2 + 2 * INDEXES_MAX };

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
    struct bytes name = tree_text(element, "AttributeName");
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
    struct bytes text = tree_text(element, member);
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

const struct value *definition_find(const struct value *definitions, struct bytes name)
{
    for (size_t i = 0; i < definitions->count; i++)
        if (bytes_equal(tree_text(&definitions->values[i], "AttributeName"), name))
            return &definitions->values[i];
    return NULL;
}

static enum status check_definitions(const struct value *definitions, struct error *error)
{
    enum status status = check_length(definitions, "attributeDefinitions", DEFINITIONS_MAX, error);
    for (size_t i = 0; status == STATUS_OK && i < definitions->count; i++) {
        const struct value *element = &definitions->values[i];
        status = check_attribute_name(element, "attributeDefinitions", i, error);
        if (status == STATUS_OK)
            status = check_one_of(element, "AttributeType", "attributeDefinitions.attributeType", i,
                                  attribute_types, "B, N, S", error);
        if (status == STATUS_OK &&
            definition_find(definitions, tree_text(element, "AttributeName")) != element)
            status = error_set(error, STATUS_VALIDATION,
                               "Cannot have two attributes with the same name");
    }
    return status;
}

static enum status check_elements(const struct value *keys, struct error *error)
{
    enum status status = check_length(keys, "keySchema", 2, error);
    for (size_t i = 0; status == STATUS_OK && i < keys->count; i++) {
        status = check_attribute_name(&keys->values[i], "keySchema", i, error);
        if (status == STATUS_OK)
            status = check_one_of(&keys->values[i], "KeyType", "keySchema.keyType", i, key_types,
                                  "HASH, RANGE", error);
    }
    return status;
}

enum status definition_check_keys(const struct value *definitions, const struct value *keys,
                                  struct error *error)
{
    enum status status = check_elements(keys, error);
    if (status != STATUS_OK)
        return status;
    const struct value *hash = &keys->values[0];
    const struct value *range = keys->count == 2 ? &keys->values[1] : NULL;
    if (!bytes_equal(tree_text(hash, "KeyType"), BYTES_LITERAL("HASH")))
        return error_set(error, STATUS_VALIDATION,
                         "Invalid KeySchema: The first KeySchemaElement is not a HASH key type");
    if (range != NULL && !bytes_equal(tree_text(range, "KeyType"), BYTES_LITERAL("RANGE")))
        return error_set(error, STATUS_VALIDATION,
                         "Invalid KeySchema: The second KeySchemaElement is not a RANGE key type");
    if (range != NULL &&
        bytes_equal(tree_text(hash, "AttributeName"), tree_text(range, "AttributeName")))
        return error_set(error, STATUS_VALIDATION,
                         "Both the Hash Key and the Range Key element in the KeySchema have the "
                         "same name");
    for (size_t i = 0; i < keys->count; i++)
        if (definition_find(definitions, tree_text(&keys->values[i], "AttributeName")) == NULL)
            return error_set(error, STATUS_VALIDATION,
                             "Invalid KeySchema: Some index key attribute have no definition");
    return STATUS_OK;
}

enum status definition_check_class(const struct value *request, struct error *error)
{
    struct bytes class = tree_text(request, "TableClass");
    if (tree_member(request, "TableClass") == NULL ||
        bytes_equal(class, BYTES_LITERAL("STANDARD")) ||
        bytes_equal(class, BYTES_LITERAL("STANDARD_INFREQUENT_ACCESS")))
        return STATUS_OK;
    return error_set(error, STATUS_VALIDATION,
                     "1 validation error detected: Value '%.*s' at 'tableClass' failed to satisfy "
                     "constraint: Member must satisfy enum value set: [STANDARD, "
                     "STANDARD_INFREQUENT_ACCESS]",
                     (int)(class.size < 32 ? class.size : 32),
                     bytes_given(class) ? (const char *)class.data : "");
}

enum status definition_check_stream(const struct value *request, struct error *error)
{
    static const char *const views[] = {"KEYS_ONLY", "NEW_IMAGE", "OLD_IMAGE",
                                        "NEW_AND_OLD_IMAGES"};
    const struct value *stream = tree_member(request, "StreamSpecification");
    const struct value *enabled = tree_member(stream, "StreamEnabled");
    struct bytes view = tree_text(stream, "StreamViewType");
    if (stream == NULL)
        return STATUS_OK;
    if (enabled == NULL || enabled->type != VALUE_BOOL)
        return error_set(error, STATUS_VALIDATION,
                         "1 validation error detected: Value null at "
                         "'streamSpecification.streamEnabled' failed to satisfy constraint: Member "
                         "must not be null");
    bool is_known = !bytes_given(view);
    for (size_t i = 0; i < sizeof views / sizeof views[0]; i++)
        is_known = is_known || bytes_equal(view, bytes_text(views[i]));
    if (!is_known)
        return error_set(
            error, STATUS_VALIDATION,
            "1 validation error detected: Value '%.*s' at "
            "'streamSpecification.streamViewType' failed to satisfy constraint: Member "
            "must satisfy enum value set: [NEW_IMAGE, OLD_IMAGE, NEW_AND_OLD_IMAGES, "
            "KEYS_ONLY]",
            (int)(view.size < 32 ? view.size : 32), (const char *)view.data);
    if (enabled->truth == bytes_given(view))
        return STATUS_OK;
    return error_set(error, STATUS_VALIDATION,
                     enabled->truth
                         ? "One or more parameter values were invalid: StreamViewType must be "
                           "specified when StreamEnabled is true"
                         : "One or more parameter values were invalid: StreamViewType must not be "
                           "specified when StreamEnabled is false");
}

enum status definition_check_billing(const struct value *request, struct error *error)
{
    struct bytes mode = tree_text(request, "BillingMode");
    const struct value *throughput = tree_member(request, "ProvisionedThroughput");
    bool is_on_demand = bytes_equal(mode, BYTES_LITERAL("PAY_PER_REQUEST"));
    bool is_provisioned = bytes_equal(mode, BYTES_LITERAL("PROVISIONED"));
    if (tree_member(request, "BillingMode") != NULL && !is_on_demand && !is_provisioned)
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
    if (throughput != NULL && (tree_number(throughput, "ReadCapacityUnits") == 0 ||
                               tree_number(throughput, "WriteCapacityUnits") == 0))
        return error_set(error, STATUS_VALIDATION,
                         "ProvisionedThroughput needs ReadCapacityUnits and WriteCapacityUnits of "
                         "at least 1");
    return STATUS_OK;
}

static enum status check_request(const struct value *request, struct error *error)
{
    const struct value *definitions = tree_member(request, "AttributeDefinitions");
    const struct value *keys = tree_member(request, "KeySchema");
    enum status status = table_name_check(tree_text(request, "TableName"), error);
    if (status == STATUS_OK)
        status = check_definitions(definitions, error);
    if (status == STATUS_OK)
        status = definition_check_keys(definitions, keys, error);
    if (status == STATUS_OK)
        status = definition_check_billing(request, error);
    if (status == STATUS_OK)
        status = definition_check_class(request, error);
    if (status == STATUS_OK)
        status = encryption_check(tree_member(request, "SSESpecification"), error);
    if (status == STATUS_OK)
        status = definition_check_stream(request, error);
    if (status == STATUS_OK)
        status = tags_check(tree_member(request, "Tags"), error);
    if (status == STATUS_OK)
        status = definition_indexes_check(request, error);
    return status == STATUS_OK ? definition_check_throughput(request, true, error) : status;
}

static const char *const kept[] = {"AttributeDefinitions",
                                   "BillingMode",
                                   "DeletionProtectionEnabled",
                                   "GlobalSecondaryIndexes",
                                   "KeySchema",
                                   "LocalSecondaryIndexes",
                                   "OnDemandThroughput",
                                   "ProvisionedThroughput",
                                   "SSESpecification",
                                   "StreamSpecification",
                                   "TableClass",
                                   "Tags",
                                   "WarmThroughput"};

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
        const struct value *value = tree_member(&request, kept[i]);
        if (value != NULL)
            attributes[description.count++] = (struct attribute){bytes_text(kept[i]), *value};
    }
    *out = (struct definition_input){tree_text(&request, "TableName"), description};
    return STATUS_OK;
}
