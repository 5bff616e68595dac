#include "clients/cli/description.h"

#include <string.h>

static bool is_text(const struct mudax_value *value, const char *text)
{
    size_t size;
    const char *own = mudax_text(value, &size);
    return own != NULL && size == strlen(text) && memcmp(own, text, size) == 0;
}

/* Copies a member, if it is there. */
static bool copy_member(struct mudax_value *to, const char *name, const struct mudax_value *from)
{
    const struct mudax_value *value = mudax_get(from, name);
    return value == NULL || mudax_put(to, name, mudax_copy(value));
}

static bool copy_throughput(struct mudax_value *to, const struct mudax_value *from)
{
    const struct mudax_value *told = mudax_get(from, "ProvisionedThroughput");
    struct mudax_value *units = mudax_map();
    bool is_right = copy_member(units, "ReadCapacityUnits", told) &&
                    copy_member(units, "WriteCapacityUnits", told);
    return mudax_put(to, "ProvisionedThroughput", units) && is_right;
}

static bool copy_indexes(struct mudax_value *to, const char *kind, const struct mudax_value *table,
                         bool is_provisioned)
{
    const struct mudax_value *indexes = mudax_get(table, kind);
    if (mudax_count(indexes) == 0)
        return true;
    struct mudax_value *list = mudax_list();
    bool is_right = true;
    for (size_t i = 0; i < mudax_count(indexes) && is_right; i++) {
        const struct mudax_value *index = mudax_at(indexes, i);
        struct mudax_value *copy = mudax_map();
        is_right = copy_member(copy, "IndexName", index) && copy_member(copy, "KeySchema", index) &&
                   copy_member(copy, "Projection", index) &&
                   copy_member(copy, "OnDemandThroughput", index) &&
                   (!is_provisioned || copy_throughput(copy, index));
        is_right &= mudax_append(list, copy);
    }
    return mudax_put(to, kind, list) && is_right;
}

static bool copy_encryption(struct mudax_value *to, const struct mudax_value *told)
{
    const struct mudax_value *key = mudax_get(told, "KMSMasterKeyArn");
    if (key == NULL)
        return true;
    struct mudax_value *specification = mudax_map();
    bool is_right = mudax_put(specification, "Enabled", mudax_bool(true)) &&
                    mudax_put(specification, "KMSMasterKeyId", mudax_copy(key)) &&
                    copy_member(specification, "SSEType", told);
    return mudax_put(to, "SSESpecification", specification) && is_right;
}

static bool copy_table(struct mudax_value *to, const struct mudax_value *table)
{
    const struct mudax_value *mode =
        mudax_get(mudax_get(table, "BillingModeSummary"), "BillingMode");
    bool is_provisioned = !is_text(mode, "PAY_PER_REQUEST");
    bool is_right = copy_member(to, "TableName", table) && copy_member(to, "KeySchema", table) &&
                    copy_member(to, "AttributeDefinitions", table);
    is_right =
        is_right && mudax_put(to, "BillingMode",
                              mudax_string(is_provisioned ? "PROVISIONED" : "PAY_PER_REQUEST"));
    if (is_right && is_provisioned)
        is_right = copy_throughput(to, table);
    return is_right && copy_member(to, "DeletionProtectionEnabled", table) &&
           copy_member(to, "OnDemandThroughput", table) &&
           copy_encryption(to, mudax_get(table, "SSEDescription")) &&
           copy_member(to, "StreamSpecification", table) &&
           copy_member(to, "TableClass", mudax_get(table, "TableClassSummary")) &&
           copy_indexes(to, "GlobalSecondaryIndexes", table, is_provisioned) &&
           copy_indexes(to, "LocalSecondaryIndexes", table, false);
}

static bool add_time_to_live(struct mudax_value *to, const struct mudax_value *told)
{
    const struct mudax_value *status = mudax_get(told, "TimeToLiveStatus");
    if (!is_text(status, "ENABLED") && !is_text(status, "ENABLING"))
        return true;
    struct mudax_value *specification = mudax_map();
    bool is_right = mudax_put(specification, "Enabled", mudax_bool(true)) &&
                    copy_member(specification, "AttributeName", told);
    return mudax_put(to, "TimeToLiveSpecification", specification) && is_right;
}

struct mudax_value *description_to_definition(const struct mudax_value *table,
                                              const struct mudax_value *time_to_live,
                                              const struct mudax_value *tags)
{
    struct mudax_value *definition = mudax_map(), *copy = mudax_map();
    bool is_right = copy_table(copy, table);
    if (is_right && mudax_count(tags) != 0)
        is_right = mudax_put(copy, "Tags", mudax_copy(tags));
    is_right &= mudax_put(definition, "Table", copy);
    if (is_right && add_time_to_live(definition, time_to_live))
        return definition;
    mudax_free(definition);
    return NULL;
}
