#include "protocol/schema.h"

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
