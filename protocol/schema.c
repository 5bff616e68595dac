#include "protocol/schema.h"

static bool is_allowed(uint8_t byte)
{
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
           (byte >= '0' && byte <= '9') || byte == '_' || byte == '.' || byte == '-';
}

/* what, path  as DynamoDB's texts have it */
static enum status check_name(struct bytes name, const char *what, const char *path,
                              struct error *error)
{
    if (!bytes_given(name))
        return error_set(error, STATUS_VALIDATION,
                         "1 validation error detected: Value null at '%s' failed to satisfy "
                         "constraint: Member must not be null",
                         path);
    if (name.size < TABLE_NAME_MIN || name.size > TABLE_NAME_MAX)
        return error_set(error, STATUS_VALIDATION,
                         "%s must be at least %d characters long and at most %d characters long",
                         what, TABLE_NAME_MIN, TABLE_NAME_MAX);
    for (size_t i = 0; i < name.size; i++)
        if (!is_allowed(name.data[i]))
            return error_set(error, STATUS_VALIDATION,
                             "1 validation error detected: Value '%.*s' at '%s' failed to satisfy "
                             "constraint: Member must satisfy regular expression pattern: "
                             "[a-zA-Z0-9_.-]+",
                             (int)(name.size < 64 ? name.size : 64), (const char *)name.data, path);
    return STATUS_OK;
}

enum status table_name_check(struct bytes name, struct error *error)
{
    return check_name(name, "TableName", "tableName", error);
}

enum status index_name_check(struct bytes name, struct error *error)
{
    return check_name(name, "IndexName", "indexName", error);
}
