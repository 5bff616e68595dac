#include "backend/engine/definition_encryption.h"

#include <string.h>

#define INVALID "One or more parameter values were invalid: "

/* A specification that says how, but not whether, means yes. */
static bool is_enabled(const struct value *given)
{
    return tree_member(given, "Enabled") != NULL ? tree_truth(given, "Enabled")
                                                 : tree_member(given, "SSEType") != NULL ||
                                                       tree_member(given, "KMSMasterKeyId") != NULL;
}

static enum status check_type(const struct value *given, struct error *error)
{
    struct bytes type = tree_text(given, "SSEType");
    if (tree_member(given, "SSEType") == NULL || bytes_equal(type, BYTES_LITERAL("KMS")))
        return STATUS_OK;
    if (bytes_equal(type, BYTES_LITERAL("AES256")))
        return error_set(error, STATUS_VALIDATION, INVALID "SSEType AES256 is not supported");
    return error_set(error, STATUS_VALIDATION,
                     "1 validation error detected: Value '%.*s' at 'sSESpecification.sSEType' "
                     "failed to satisfy constraint: Member must satisfy enum value set: [AES256, "
                     "KMS]",
                     (int)(type.size < 32 ? type.size : 32),
                     bytes_given(type) ? (const char *)type.data : "");
}

enum status encryption_check(const struct value *given, struct error *error)
{
    bool has_type = tree_member(given, "SSEType") != NULL;
    bool has_key = tree_member(given, "KMSMasterKeyId") != NULL;
    struct bytes key = tree_text(given, "KMSMasterKeyId");
    enum status status = check_type(given, error);
    if (status != STATUS_OK)
        return status;
    if (has_key && (!bytes_given(key) || key.size == 0))
        return error_set(error, STATUS_VALIDATION,
                         "1 validation error detected: Value '' at "
                         "'sSESpecification.kMSMasterKeyId' failed to satisfy constraint: Member "
                         "must have length greater than or equal to 1");
    if ((has_type || has_key) && !is_enabled(given))
        return error_set(error, STATUS_VALIDATION,
                         INVALID "%s can not be specified if Enabled is false",
                         has_type ? "SSEType" : "KMSMasterKeyId");
    return has_key && !has_type
               ? error_set(error, STATUS_VALIDATION,
                           INVALID "SSEType KMS is required if KMSMasterKeyId is specified")
               : STATUS_OK;
}

/* The key's ARN: keys and aliases may be named without. There is no KMS to be asked which key an
 * alias stands for. BYTES_NONE without memory. */
static struct bytes key_arn(const struct value *given, struct arena *arena)
{
    static const struct bytes prefix = BYTES_LITERAL("arn:aws:kms:local:000000000000:");
    struct bytes key = tree_text(given, "KMSMasterKeyId");
    if (!bytes_given(key))
        key = BYTES_LITERAL("alias/aws/dynamodb");
    if (bytes_begin_with(key, BYTES_LITERAL("arn:")))
        return key;
    struct bytes kind =
        bytes_begin_with(key, BYTES_LITERAL("alias/")) ? BYTES_LITERAL("") : BYTES_LITERAL("key/");
    uint8_t *arn = arena_alloc(arena, prefix.size + kind.size + key.size);
    if (arn == NULL)
        return BYTES_NONE;
    memcpy(arn, prefix.data, prefix.size);
    memcpy(arn + prefix.size, kind.data, kind.size);
    memcpy(arn + prefix.size + kind.size, key.data, key.size);
    return bytes_of(arn, prefix.size + kind.size + key.size);
}

enum status encryption_check_change(const struct value *there, const struct value *given,
                                    struct arena *arena, struct error *error)
{
    bool was_enabled = is_enabled(there), is_now = is_enabled(given);
    if (!was_enabled && !is_now)
        return error_set(error, STATUS_VALIDATION, INVALID "Table is already encrypted by default");
    struct bytes before = key_arn(there, arena);
    if (!bytes_given(before))
        return error_set(error, STATUS_NO_MEMORY, "%s", "");
    if (was_enabled && is_now && bytes_equal(tree_text(given, "KMSMasterKeyId"), before))
        return error_set(error, STATUS_VALIDATION,
                         INVALID "Table is already encrypted with given KMSMasterKeyId. Use "
                                 "KMSMasterKeyId parameter if you want to change Master Key");
    return STATUS_OK;
}

bool encryption_describe(const struct value *given, struct arena *arena,
                         struct tree_members *description)
{
    if (!is_enabled(given))
        return true;
    struct bytes arn = key_arn(given, arena);
    struct tree_members members = {.count = 0};
    struct value told;
    tree_add(&members, "KMSMasterKeyArn", tree_of_text(arn));
    tree_add(&members, "SSEType", tree_of_text(BYTES_LITERAL("KMS")));
    tree_add(&members, "Status", tree_of_text(BYTES_LITERAL("ENABLED")));
    if (!bytes_given(arn) || !tree_keep_members(&members, arena, &told))
        return false;
    tree_add(description, "SSEDescription", told);
    return true;
}
