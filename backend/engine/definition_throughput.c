#include "backend/engine/definition_throughput.h"

#include "protocol/schema.h"

#include <stdio.h>

#define INVALID "One or more parameter values were invalid: "

enum { READ, WRITE, SIDES };

/* An on-demand table takes this much from the beginning. Source: developer guide, "Warm
 * throughput". */
static const struct {
    const char *provisioned, *maximum, *warm;
    uint64_t on_demand;
} sides[SIDES] = {
    [READ] = {"ReadCapacityUnits", "MaxReadRequestUnits", "ReadUnitsPerSecond", 12000},
    [WRITE] = {"WriteCapacityUnits", "MaxWriteRequestUnits", "WriteUnitsPerSecond", 4000},
};

static uint64_t rate_of(const struct value *owner, int side)
{
    const struct value *provisioned = tree_member(owner, "ProvisionedThroughput");
    return provisioned != NULL
               ? tree_number(provisioned, sides[side].provisioned)
               : tree_number(tree_member(owner, "OnDemandThroughput"), sides[side].maximum);
}

struct heat_rates definition_rates(const struct value *owner)
{
    return (struct heat_rates){.read = rate_of(owner, READ), .write = rate_of(owner, WRITE)};
}

/* "table", or an index with `before` in front, as the texts have it. */
struct owner_name {
    char text[16 + KEY_NAME_MAX];
};

static struct owner_name name_of(struct bytes index, const char *before)
{
    struct owner_name name;
    if (bytes_given(index))
        snprintf(name.text, sizeof name.text, "%s%.*s", before, (int)index.size,
                 (const char *)index.data);
    else
        snprintf(name.text, sizeof name.text, "table");
    return name;
}

static enum status check_maximum(const struct value *owner, struct bytes index, int64_t none,
                                 struct error *error)
{
    const struct value *given = tree_member(owner, "OnDemandThroughput");
    struct owner_name name = name_of(index, "index : ");
    for (int side = 0; side < SIDES; side++) {
        const struct value *units = tree_member(given, sides[side].maximum);
        int64_t number;
        if (units == NULL)
            continue;
        if (tree_member(owner, "ProvisionedThroughput") != NULL)
            return error_set(error, STATUS_VALIDATION,
                             INVALID "%s for OnDemandThroughput%s%s cannot be specified when the "
                                     "table BillingMode is PROVISIONED",
                             sides[side].maximum, bytes_given(index) ? " for " : "",
                             bytes_given(index) ? name.text : "");
        if (units->type != VALUE_N || !number_to_int(&units->number, &number) ||
            (number < 1 && number != none))
            return error_set(error, STATUS_VALIDATION,
                             INVALID "Requested %s for OnDemandThroughput for %s is outside of "
                                     "valid range",
                             sides[side].maximum, name.text);
    }
    return STATUS_OK;
}

static uint64_t warm_units(const struct value *owner, int side)
{
    const struct value *provisioned = tree_member(owner, "ProvisionedThroughput");
    uint64_t given = tree_number(tree_member(owner, "WarmThroughput"), sides[side].warm);
    uint64_t least = provisioned == NULL ? sides[side].on_demand
                                         : tree_number(provisioned, sides[side].provisioned);
    return given > least ? given : least;
}

/* That nothing given is below what `owner` has. */
static enum status check_rise(const struct value *owner, const struct value *given,
                              struct bytes index, const char *below, struct error *error)
{
    struct owner_name name = name_of(index, "index ");
    bool is_any = false;
    for (int side = 0; side < SIDES; side++) {
        if (tree_member(given, sides[side].warm) == NULL)
            continue;
        is_any = true;
        if (tree_number(given, sides[side].warm) < warm_units(owner, side))
            return error_set(error, STATUS_VALIDATION,
                             INVALID "Requested %s for WarmThroughput for %s is lower than %s",
                             sides[side].warm, name.text, below);
    }
    return is_any ? STATUS_OK
                  : error_set(error, STATUS_VALIDATION,
                              INVALID "WarmThroughput must have at least one of ReadUnitsPerSecond "
                                      "or WriteUnitsPerSecond specified for %s%s",
                              bytes_given(index) ? "index: " : "table",
                              bytes_given(index) ? name.text + strlen("index ") : "");
}

static enum status check_warm(const struct value *owner, struct bytes index, struct error *error)
{
    const struct value *given = tree_member(owner, "WarmThroughput");
    bool is_provisioned = tree_member(owner, "ProvisionedThroughput") != NULL;
    return given == NULL ? STATUS_OK
                         : check_rise(owner, given, index,
                                      is_provisioned ? "the provisioned throughput"
                                                     : "initial throughput for OnDemand",
                                      error);
}

static enum status check_owner(const struct value *owner, struct bytes index, bool is_new,
                               struct error *error)
{
    /* -1 takes a maximum away, and there is none yet. */
    enum status status = check_maximum(owner, index, is_new ? 0 : -1, error);
    return status == STATUS_OK && is_new ? check_warm(owner, index, error) : status;
}

enum status definition_check_throughput(const struct value *description, bool is_new,
                                        struct error *error)
{
    const struct value *indexes = tree_member(description, "GlobalSecondaryIndexes");
    enum status status = check_owner(description, BYTES_NONE, is_new, error);
    for (size_t i = 0; i < tree_count(indexes) && status == STATUS_OK; i++) {
        const struct value *index = &indexes->values[i];
        status = check_owner(index, tree_text(index, "IndexName"), is_new, error);
    }
    return status;
}

enum status definition_check_new_index(const struct value *index, struct error *error)
{
    return check_owner(index, tree_text(index, "IndexName"), true, error);
}

/* DynamoDB goes on with the numbers of both. */
enum status definition_check_change(const struct value *owner, const struct value *given,
                                    struct bytes index, struct error *error)
{
    const struct value *before = tree_member(owner, "ProvisionedThroughput");
    const struct value *after = tree_member(given, "ProvisionedThroughput");
    struct owner_name name = name_of(index, "index ");
    if (before == NULL || after == NULL)
        return STATUS_OK;
    for (int side = 0; side < SIDES; side++)
        if (tree_number(before, sides[side].provisioned) !=
            tree_number(after, sides[side].provisioned))
            return STATUS_OK;
    return error_set(error, STATUS_VALIDATION,
                     "The provisioned throughput for the %s will not change. The requested value "
                     "equals the current value.",
                     name.text);
}

enum status definition_raise_warm(const struct value *owner, const struct value *given,
                                  struct bytes index, struct arena *arena, struct value *out,
                                  struct error *error)
{
    enum status status =
        check_rise(owner, given, index,
                   "current WarmThroughput, decreasing WarmThroughput is not supported", error);
    if (status != STATUS_OK)
        return status;
    struct tree_members members = {.count = 0};
    for (int side = 0; side < SIDES; side++)
        tree_add(&members, sides[side].warm,
                 tree_of_number(tree_member(given, sides[side].warm) == NULL
                                    ? warm_units(owner, side)
                                    : tree_number(given, sides[side].warm)));
    return tree_keep_members(&members, arena, out) ? STATUS_OK
                                                   : error_set(error, STATUS_NO_MEMORY, "%s", "");
}

static bool describe_provisioned(const struct value *owner, struct arena *arena, struct value *out)
{
    const struct value *given = tree_member(owner, "ProvisionedThroughput");
    struct tree_members members = {.count = 0};
    tree_add(&members, "NumberOfDecreasesToday", tree_of_number(0));
    for (int side = 0; side < SIDES; side++)
        tree_add(&members, sides[side].provisioned,
                 tree_of_number(tree_number(given, sides[side].provisioned)));
    return tree_keep_members(&members, arena, out);
}

static bool describe_warm(const struct value *owner, struct arena *arena, struct value *out)
{
    struct tree_members members = {.count = 0};
    for (int side = 0; side < SIDES; side++)
        tree_add(&members, sides[side].warm, tree_of_number(warm_units(owner, side)));
    tree_add(&members, "Status", tree_of_text(BYTES_LITERAL("ACTIVE")));
    return tree_keep_members(&members, arena, out);
}

bool definition_describe_throughput(const struct value *owner, struct arena *arena,
                                    struct tree_members *description)
{
    const struct value *maximum = tree_member(owner, "OnDemandThroughput");
    struct value provisioned, warm;
    if (!describe_provisioned(owner, arena, &provisioned) || !describe_warm(owner, arena, &warm))
        return false;
    tree_add(description, "ProvisionedThroughput", provisioned);
    tree_add(description, "WarmThroughput", warm);
    if (maximum != NULL)
        tree_add(description, "OnDemandThroughput", *maximum);
    return true;
}
