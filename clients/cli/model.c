#include "clients/cli/model.h"

#include <stdlib.h>
#include <string.h>

/* Notes the type of a key's attribute, which several keys may share. */
static bool add_type(const struct mudax_value *attribute, struct mudax_value *types)
{
    size_t size;
    const char *text = mudax_text(mudax_get(attribute, "AttributeName"), &size);
    char *name = text == NULL ? NULL : strndup(text, size);
    bool is_put = mudax_put(types, name, mudax_copy(mudax_get(attribute, "AttributeType")));
    free(name);
    return is_put;
}

static bool add_key(const struct mudax_value *attribute, const char *key_type,
                    struct mudax_value *keys, struct mudax_value *types)
{
    struct mudax_value *key = mudax_map();
    bool is_right =
        mudax_put(key, "AttributeName", mudax_copy(mudax_get(attribute, "AttributeName")));
    is_right &= mudax_put(key, "KeyType", mudax_string(key_type));
    is_right &= mudax_append(keys, key);
    return is_right && add_type(attribute, types);
}

/* The KeySchema of a table or an index. NULL: it has none. */
static struct mudax_value *make_keys(const struct mudax_value *of, struct mudax_value *types)
{
    const struct mudax_value *attributes = mudax_get(of, "KeyAttributes");
    const struct mudax_value *sort = mudax_get(attributes, "SortKey");
    struct mudax_value *keys = mudax_list();
    bool is_right = add_key(mudax_get(attributes, "PartitionKey"), "HASH", keys, types);
    if (is_right && sort != NULL)
        is_right = add_key(sort, "RANGE", keys, types);
    if (is_right)
        return keys;
    mudax_free(keys);
    return NULL;
}

/* What a table or an index says of its own; NULL: nothing. */
static const struct mudax_value *find_throughput(const struct mudax_value *of)
{
    return mudax_get(mudax_get(of, "ProvisionedCapacitySettings"), "ProvisionedThroughput");
}

/* throughput  of the table, NULL: it is paid by the request */
static struct mudax_value *make_index(const struct mudax_value *index,
                                      const struct mudax_value *throughput,
                                      struct mudax_value *types)
{
    const struct mudax_value *own = find_throughput(index);
    struct mudax_value *made = mudax_map();
    bool is_right = mudax_put(made, "IndexName", mudax_copy(mudax_get(index, "IndexName")));
    is_right &= mudax_put(made, "KeySchema", make_keys(index, types));
    is_right &= mudax_put(made, "Projection", mudax_copy(mudax_get(index, "Projection")));
    if (throughput != NULL)
        is_right &=
            mudax_put(made, "ProvisionedThroughput", mudax_copy(own != NULL ? own : throughput));
    if (is_right)
        return made;
    mudax_free(made);
    return NULL;
}

/* kind  "GlobalSecondaryIndexes" or "LocalSecondaryIndexes" */
static bool add_indexes(struct mudax_value *definition, const char *kind,
                        const struct mudax_value *table, const struct mudax_value *throughput,
                        struct mudax_value *types)
{
    const struct mudax_value *indexes = mudax_get(table, kind);
    if (mudax_count(indexes) == 0)
        return true;
    struct mudax_value *list = mudax_list();
    for (size_t i = 0; i < mudax_count(indexes); i++)
        if (!mudax_append(list, make_index(mudax_at(indexes, i), throughput, types)))
            break; /* the list is spoilt */
    return mudax_put(definition, kind, list);
}

static bool add_billing(struct mudax_value *definition, const struct mudax_value *throughput)
{
    if (throughput == NULL)
        return mudax_put(definition, "BillingMode", mudax_string("PAY_PER_REQUEST"));
    return mudax_put(definition, "BillingMode", mudax_string("PROVISIONED")) &&
           mudax_put(definition, "ProvisionedThroughput", mudax_copy(throughput));
}

/* AttributeDefinitions of a map from names to types. */
static bool add_types(struct mudax_value *definition, const struct mudax_value *types)
{
    struct mudax_value *list = mudax_list();
    bool is_right = list != NULL;
    for (size_t i = 0; i < mudax_count(types) && is_right; i++) {
        size_t size;
        const char *name = mudax_name_at(types, i, &size);
        struct mudax_value *type = mudax_map();
        is_right = mudax_put(type, "AttributeName", mudax_string_of(name, size));
        is_right &= mudax_put(type, "AttributeType", mudax_copy(mudax_at(types, i)));
        is_right &= mudax_append(list, type);
    }
    return mudax_put(definition, "AttributeDefinitions", list) && is_right;
}

static bool is_provisioned(const struct mudax_value *table)
{
    size_t size;
    const char *mode = mudax_text(mudax_get(table, "BillingMode"), &size);
    return size == 11 && memcmp(mode, "PROVISIONED", 11) == 0;
}

struct mudax_value *model_definition(const struct mudax_value *table)
{
    const struct mudax_value *throughput = is_provisioned(table) ? find_throughput(table) : NULL;
    struct mudax_value *definition = mudax_map(), *types = mudax_map();
    bool is_right = mudax_put(definition, "TableName", mudax_copy(mudax_get(table, "TableName")));
    is_right = is_right && mudax_put(definition, "KeySchema", make_keys(table, types)) &&
               add_indexes(definition, "GlobalSecondaryIndexes", table, throughput, types) &&
               add_indexes(definition, "LocalSecondaryIndexes", table, NULL, types) &&
               add_billing(definition, throughput) && add_types(definition, types);
    mudax_free(types);
    if (is_right)
        return definition;
    mudax_free(definition);
    return NULL;
}
