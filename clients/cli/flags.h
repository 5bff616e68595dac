/* flags.h - every flag of the command line, in one table (flags.c).
 *
 * A flag is spelled as in the AWS CLI and stands for one member of DynamoDB's API, so that
 * --cli-input-json can be read by the same table. */
#pragma once

#include "clients/cli/cli.h"

enum flag {
    FLAG_TABLE_NAME,
    FLAG_INDEX_NAME,
    FLAG_KEY,
    FLAG_PARTITION_KEY,
    FLAG_ITEM,
    FLAG_CONSISTENT_READ,
    FLAG_KEY_CONDITION_EXPRESSION,
    FLAG_EXPRESSION_ATTRIBUTE_NAMES,
    FLAG_EXPRESSION_ATTRIBUTE_VALUES,
    FLAG_CONDITION_EXPRESSION,
    FLAG_UPDATE_EXPRESSION,
    FLAG_FILTER_EXPRESSION,
    FLAG_PROJECTION_EXPRESSION,
    FLAG_RETURN_VALUES,
    FLAG_RETURN_VALUES_ON_CONDITION_CHECK_FAILURE,
    FLAG_RETURN_CONSUMED_CAPACITY,
    FLAG_RETURN_ITEM_COLLECTION_METRICS,
    FLAG_REQUEST_ITEMS,
    FLAG_TRANSACT_ITEMS,
    FLAG_CLIENT_REQUEST_TOKEN,
    FLAG_SELECT,
    FLAG_SEGMENT,
    FLAG_TOTAL_SEGMENTS,
    FLAG_SCAN_INDEX_FORWARD,
    FLAG_LIMIT,
    FLAG_EXCLUSIVE_START_KEY,
    FLAG_EXCLUSIVE_START_TABLE_NAME,
    FLAG_ATTRIBUTE_DEFINITIONS,
    FLAG_KEY_SCHEMA,
    FLAG_BILLING_MODE,
    FLAG_PROVISIONED_THROUGHPUT,
    FLAG_TAGS,
    FLAG_TAG_KEYS,
    FLAG_RESOURCE_ARN,
    FLAG_NEXT_TOKEN,
    FLAG_STREAM_SPECIFICATION,
    FLAG_SSE_SPECIFICATION,
    FLAG_ON_DEMAND_THROUGHPUT,
    FLAG_WARM_THROUGHPUT,
    FLAG_TABLE_CLASS,
    FLAG_DELETION_PROTECTION_ENABLED,
    FLAG_GLOBAL_SECONDARY_INDEXES,
    FLAG_LOCAL_SECONDARY_INDEXES,
    FLAG_GLOBAL_SECONDARY_INDEX_UPDATES,
    FLAG_TIME_TO_LIVE_SPECIFICATION,
    FLAG_WITHOUT_INDEXES,
    FLAG_DEFINITION,
    FLAG_OUTPUT,
    FLAG_ONCE,
    FLAG_ONLY,
    FLAG_WRITE,
    FLAG_BY,
    FLAG_ITEMS,
    FLAG_TOP,
    FLAG_SECONDS,
    FLAG_JSON,
    FLAG_CLI_INPUT_JSON,
    FLAG_URL,
    FLAG_TIMEOUT,
    FLAG_VERDICT,
    FLAGS,
};
#define FLAG_BIT(flag) (UINT64_C(1) << (flag))

struct argument {
    bool is_given;
    bool truth;
    uint32_t count;
    char *text;                /* owned */
    struct mudax_value *value; /* owned */
};

struct arguments {
    struct argument of[FLAGS];
    const char *file; /* the one word without a flag; NULL: none */
};

/* "--table-name" */
const char *flag_name(enum flag flag);
const char *flag_help(enum flag flag);
const char *flag_placeholder(enum flag flag); /* "TEXT"; "" for switches */
const char *flag_member(enum flag flag);      /* "TableName"; NULL: not of DynamoDB's API */

/* Reads the words behind a verb.
 * allowed  bits of the flags that the verb has
 * takes_file  the verb has one word without a flag
 * False: a message is written. The arguments are to be freed either way. */
bool arguments_read(int count, char **words, uint64_t allowed, bool takes_file,
                    struct arguments *out);
void arguments_free(struct arguments *arguments);

/* How many words the flag at words[0] is made of, with its value; 0: it is none of `allowed`. */
int flag_words(const char *word, uint64_t allowed);

/* Attribute values that were read as ordinary JSON, read again as DynamoDB JSON. NULL: `error` says
 * why. */
struct mudax_value *reread_item(const struct mudax_value *plain, struct mudax_error *error);
