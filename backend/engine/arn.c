#include "backend/engine/arn.h"

#define INVALID "One or more parameter values were invalid: "

enum { PARTS = 6, SHOWN_MAX = 128 };

static enum status refuse(const char *what, struct bytes arn, struct error *error)
{
    return error_set(error, STATUS_VALIDATION, "%s%.*s", what,
                     (int)(arn.size < SHOWN_MAX ? arn.size : SHOWN_MAX), (const char *)arn.data);
}

static enum status check_length(struct bytes arn, struct error *error)
{
    if (!bytes_given(arn))
        return error_set(error, STATUS_VALIDATION,
                         "1 validation error detected: Value null at 'resourceArn' failed to "
                         "satisfy constraint: Member must not be null");
    if (arn.size == 0 || arn.size > ARN_MAX)
        return error_set(error, STATUS_VALIDATION,
                         "1 validation error detected: Value at 'resourceArn' failed to satisfy "
                         "constraint: Member must have length %s than or equal to %d",
                         arn.size == 0 ? "greater" : "less", arn.size == 0 ? 1 : ARN_MAX);
    return STATUS_OK;
}

/* What stands between colons; the last part holds the rest. False: there are fewer. */
static bool split(struct bytes arn, struct bytes parts[PARTS])
{
    for (size_t i = 0; i < PARTS - 1; i++) {
        const uint8_t *colon = memchr(arn.data, ':', arn.size);
        if (colon == NULL)
            return false;
        parts[i] = bytes_of(arn.data, (size_t)(colon - arn.data));
        arn = bytes_of(colon + 1, arn.size - parts[i].size - 1);
    }
    parts[PARTS - 1] = arn;
    return true;
}

static bool are_digits(struct bytes text)
{
    for (size_t i = 0; i < text.size; i++)
        if (text.data[i] < '0' || text.data[i] > '9')
            return false;
    return text.size != 0;
}

enum status arn_table(struct bytes arn, struct bytes *name, struct error *error)
{
    struct bytes parts[PARTS], prefix = BYTES_LITERAL("table/");
    struct error ignored;
    enum status status = check_length(arn, error);
    if (status != STATUS_OK)
        return status;
    if (!bytes_begin_with(arn, BYTES_LITERAL("arn:")))
        return refuse(INVALID "ARNs must start with 'arn:': ", arn, error);
    if (!split(arn, parts) || !bytes_equal(parts[2], BYTES_LITERAL("dynamodb")))
        return refuse(INVALID "Provided Arn is not a DynamoDB resource arn: ", arn, error);
    if (parts[1].size == 0 || parts[3].size == 0 || !are_digits(parts[4]) ||
        !bytes_begin_with(parts[5], prefix))
        return refuse("Invalid TableArn: Invalid ResourceArn provided as input ", arn, error);
    struct bytes rest = bytes_of(parts[5].data + prefix.size, parts[5].size - prefix.size);
    if (memchr(rest.data, '/', rest.size) != NULL)
        return refuse(INVALID "Invalid resource arn provided, only table or stream is accepted. "
                              "Provided resource arn: ",
                      arn, error);
    if (table_name_check(rest, &ignored) != STATUS_OK)
        return refuse("Invalid TableArn: Invalid ResourceArn provided as input ", arn, error);
    *name = rest;
    return STATUS_OK;
}
