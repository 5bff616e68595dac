#include "clients/cli/flags.h"

#include "clients/cli/shorthand.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum kind {
    KIND_TEXT,
    KIND_COUNT,   /* from 1 */
    KIND_NATURAL, /* from 0 */
    KIND_SWITCH,  /* also --no-... */
    KIND_ITEM,    /* DynamoDB JSON, or shorthand */
    KIND_PLAIN,   /* JSON object, or shorthand */
    KIND_LIST,    /* JSON array, or shorthand, several of them */
    KIND_WORDS,   /* JSON array, or words */
};

struct flag_row {
    const char *name, *member, *placeholder, *help;
    enum kind kind;
};

static const struct flag_row rows[FLAGS] = {
    [FLAG_TABLE_NAME] = {"--table-name", "TableName", "TEXT", "name of the table", KIND_TEXT},
    [FLAG_INDEX_NAME] = {"--index-name", "IndexName", "TEXT", "an index of the table", KIND_TEXT},
    [FLAG_KEY] = {"--key", "Key", "JSON", "the key attributes: {\"id\": {\"S\": \"7\"}}",
                  KIND_ITEM},
    [FLAG_PARTITION_KEY] = {"--partition-key", NULL, "JSON",
                            "the partition key alone, of table or index: {\"id\": {\"S\": \"7\"}}",
                            KIND_ITEM},
    [FLAG_ITEM] = {"--item", "Item", "JSON", "the whole item", KIND_ITEM},
    [FLAG_CONSISTENT_READ] = {"--consistent-read", "ConsistentRead", "",
                              "ask the store, not the cache", KIND_SWITCH},
    [FLAG_KEY_CONDITION_EXPRESSION] = {"--key-condition-expression", "KeyConditionExpression",
                                       "TEXT", "\"pk = :p AND begins_with(sk, :s)\"", KIND_TEXT},
    [FLAG_EXPRESSION_ATTRIBUTE_NAMES] = {"--expression-attribute-names", "ExpressionAttributeNames",
                                         "JSON", "{\"#n\": \"name\"}", KIND_PLAIN},
    [FLAG_EXPRESSION_ATTRIBUTE_VALUES] = {"--expression-attribute-values",
                                          "ExpressionAttributeValues", "JSON",
                                          "{\":p\": {\"S\": \"7\"}}", KIND_ITEM},
    [FLAG_CONDITION_EXPRESSION] = {"--condition-expression", "ConditionExpression", "TEXT",
                                   "write only if this holds: \"attribute_not_exists(pk)\"",
                                   KIND_TEXT},
    [FLAG_UPDATE_EXPRESSION] = {"--update-expression", "UpdateExpression", "TEXT",
                                "\"SET a = :v REMOVE b ADD n :one\"", KIND_TEXT},
    [FLAG_FILTER_EXPRESSION] = {"--filter-expression", "FilterExpression", "TEXT",
                                "show only items for which this holds", KIND_TEXT},
    [FLAG_PROJECTION_EXPRESSION] = {"--projection-expression", "ProjectionExpression", "TEXT",
                                    "show only these attributes: \"a, b.c, d[0]\"", KIND_TEXT},
    [FLAG_RETURN_VALUES] = {"--return-values", "ReturnValues", "TEXT",
                            "NONE, ALL_OLD, UPDATED_OLD, ALL_NEW or UPDATED_NEW", KIND_TEXT},
    [FLAG_RETURN_VALUES_ON_CONDITION_CHECK_FAILURE] =
        {"--return-values-on-condition-check-failure", "ReturnValuesOnConditionCheckFailure",
         "TEXT", "NONE or ALL_OLD: the item that fails the condition", KIND_TEXT},
    [FLAG_RETURN_CONSUMED_CAPACITY] = {"--return-consumed-capacity", "ReturnConsumedCapacity",
                                       "TEXT", "NONE, TOTAL or INDEXES", KIND_TEXT},
    [FLAG_RETURN_ITEM_COLLECTION_METRICS] = {"--return-item-collection-metrics",
                                             "ReturnItemCollectionMetrics", "TEXT",
                                             "NONE or SIZE: of tables with local indexes",
                                             KIND_TEXT},
    [FLAG_REQUEST_ITEMS] = {"--request-items", "RequestItems", "JSON",
                            "{\"TABLE\": {\"Keys\": [KEY, ...]}} or "
                            "{\"TABLE\": [{\"PutRequest\": {\"Item\": ITEM}}, ...]}",
                            KIND_PLAIN},
    [FLAG_TRANSACT_ITEMS] = {"--transact-items", "TransactItems", "JSON",
                             "[{\"Put\": {\"TableName\": ..., \"Item\": ITEM}}, ...]", KIND_LIST},
    [FLAG_CLIENT_REQUEST_TOKEN] = {"--client-request-token", "ClientRequestToken", "TEXT",
                                   "the same for ten minutes is done once; else a random one",
                                   KIND_TEXT},
    [FLAG_SELECT] = {"--select", "Select", "TEXT",
                     "ALL_ATTRIBUTES, ALL_PROJECTED_ATTRIBUTES, SPECIFIC_ATTRIBUTES or COUNT",
                     KIND_TEXT},
    [FLAG_SEGMENT] = {"--segment", "Segment", "NUMBER", "from 0: this part of --total-segments",
                      KIND_NATURAL},
    [FLAG_TOTAL_SEGMENTS] = {"--total-segments", "TotalSegments", "NUMBER",
                             "parts of the table that are read side by side", KIND_COUNT},
    [FLAG_SCAN_INDEX_FORWARD] = {"--scan-index-forward", "ScanIndexForward", "",
                                 "ascending (the default); --no-scan-index-forward: descending",
                                 KIND_SWITCH},
    [FLAG_LIMIT] = {"--limit", "Limit", "NUMBER", "most items of the page; also --max-items",
                    KIND_COUNT},
    [FLAG_EXCLUSIVE_START_KEY] = {"--exclusive-start-key", "ExclusiveStartKey", "JSON",
                                  "LastEvaluatedKey of the page before", KIND_ITEM},
    [FLAG_EXCLUSIVE_START_TABLE_NAME] = {"--exclusive-start-table-name", "ExclusiveStartTableName",
                                         "TEXT", "LastEvaluatedTableName of the page before",
                                         KIND_TEXT},
    [FLAG_ATTRIBUTE_DEFINITIONS] = {"--attribute-definitions", "AttributeDefinitions", "LIST",
                                    "AttributeName=id,AttributeType=S ...", KIND_LIST},
    [FLAG_KEY_SCHEMA] = {"--key-schema", "KeySchema", "LIST", "AttributeName=id,KeyType=HASH ...",
                         KIND_LIST},
    [FLAG_BILLING_MODE] = {"--billing-mode", "BillingMode", "TEXT",
                           "PAY_PER_REQUEST or PROVISIONED", KIND_TEXT},
    [FLAG_PROVISIONED_THROUGHPUT] = {"--provisioned-throughput", "ProvisionedThroughput", "MAP",
                                     "ReadCapacityUnits=5,WriteCapacityUnits=5", KIND_PLAIN},
    [FLAG_TAGS] = {"--tags", "Tags", "LIST", "Key=team,Value=shop ...", KIND_LIST},
    [FLAG_TAG_KEYS] = {"--tag-keys", "TagKeys", "LIST", "team cost ...", KIND_WORDS},
    [FLAG_RESOURCE_ARN] = {"--resource-arn", "ResourceArn", "TEXT", "TableArn of describe-table",
                           KIND_TEXT},
    [FLAG_NEXT_TOKEN] = {"--next-token", "NextToken", "TEXT", "NextToken of the page before",
                         KIND_TEXT},
    [FLAG_STREAM_SPECIFICATION] = {"--stream-specification", "StreamSpecification", "MAP",
                                   "StreamEnabled=true,StreamViewType=NEW_IMAGE; kept, and given "
                                   "back",
                                   KIND_PLAIN},
    [FLAG_SSE_SPECIFICATION] = {"--sse-specification", "SSESpecification", "MAP",
                                "Enabled=true,SSEType=KMS,KMSMasterKeyId=K; kept, and told",
                                KIND_PLAIN},
    [FLAG_ON_DEMAND_THROUGHPUT] = {"--on-demand-throughput", "OnDemandThroughput", "MAP",
                                   "MaxReadRequestUnits=N,MaxWriteRequestUnits=N", KIND_PLAIN},
    [FLAG_WARM_THROUGHPUT] = {"--warm-throughput", "WarmThroughput", "MAP",
                              "ReadUnitsPerSecond=N,WriteUnitsPerSecond=N; kept, and told",
                              KIND_PLAIN},
    [FLAG_TABLE_CLASS] = {"--table-class", "TableClass", "TEXT",
                          "STANDARD or STANDARD_INFREQUENT_ACCESS", KIND_TEXT},
    [FLAG_DELETION_PROTECTION_ENABLED] = {"--deletion-protection-enabled",
                                          "DeletionProtectionEnabled", "",
                                          "refuse delete-table; also --no-...", KIND_SWITCH},
    [FLAG_GLOBAL_SECONDARY_INDEXES] = {"--global-secondary-indexes", "GlobalSecondaryIndexes",
                                       "LIST",
                                       "IndexName=I,KeySchema=[{AttributeName=a,KeyType=HASH}],"
                                       "Projection={ProjectionType=ALL} ...",
                                       KIND_LIST},
    [FLAG_LOCAL_SECONDARY_INDEXES] = {"--local-secondary-indexes", "LocalSecondaryIndexes", "LIST",
                                      "likewise", KIND_LIST},
    [FLAG_GLOBAL_SECONDARY_INDEX_UPDATES] =
        {"--global-secondary-index-updates", "GlobalSecondaryIndexUpdates", "LIST",
         "Create={IndexName=I,...}, Update={...} or Delete={IndexName=I}", KIND_LIST},
    [FLAG_TIME_TO_LIVE_SPECIFICATION] = {"--time-to-live-specification", "TimeToLiveSpecification",
                                         "MAP", "Enabled=true,AttributeName=until", KIND_PLAIN},
    [FLAG_WITHOUT_INDEXES] = {"--without-indexes", NULL, "", "leave the secondary indexes out",
                              KIND_SWITCH},
    [FLAG_DEFINITION] = {"--definition", NULL, "",
                         "begin with what the table is, so that an import can make it",
                         KIND_SWITCH},
    [FLAG_OUTPUT] = {"--output", NULL, "FILE", "write there instead of standard output", KIND_TEXT},
    [FLAG_ONCE] = {"--once", NULL, "", "draw it once and end", KIND_SWITCH},
    [FLAG_ONLY] = {"--only", NULL, "TEXT",
                   "figures whose names begin so; else all but the buckets of histograms",
                   KIND_TEXT},
    [FLAG_WRITE] = {"--write", NULL, "",
                    "of a write of --key: what it would drop; --item is a write as it is",
                    KIND_SWITCH},
    [FLAG_BY] = {"--by", NULL, "TEXT",
                 "group all items by this attribute; key-prefix: by partition keys up to their #",
                 KIND_TEXT},
    [FLAG_ITEMS] = {"--items", NULL, "", "group all items by their partition key", KIND_SWITCH},
    [FLAG_TOP] = {"--top", NULL, "NUMBER", "so many groups, those with the most bytes; 20",
                  KIND_COUNT},
    [FLAG_SECONDS] = {"--seconds", NULL, "NUMBER", "rates over so many seconds; 1, of pay 5",
                      KIND_COUNT},
    [FLAG_JSON] = {"--json", NULL, "", "tell it as JSON", KIND_SWITCH},
    [FLAG_CLI_INPUT_JSON] = {"--cli-input-json", NULL, "JSON",
                             "all of these as one object: {\"TableName\": ...}", KIND_PLAIN},
    [FLAG_URL] = {"--url", NULL, "URL",
                  "mudax://HOST:PORT or mudax+unix:PATH (else MUDAX_URL, else port 8110 here)",
                  KIND_TEXT},
    [FLAG_TIMEOUT] = {"--timeout", NULL, "MS", "give up after so many milliseconds; 5000",
                      KIND_COUNT},
    [FLAG_VERDICT] = {"--verdict", NULL, "", "say on standard error how the cache answered",
                      KIND_SWITCH},
};

const char *flag_name(enum flag flag)
{
    return rows[flag].name;
}

const char *flag_help(enum flag flag)
{
    return rows[flag].help;
}

const char *flag_placeholder(enum flag flag)
{
    return rows[flag].placeholder;
}

const char *flag_member(enum flag flag)
{
    return rows[flag].member;
}

void arguments_free(struct arguments *arguments)
{
    for (int flag = 0; flag < FLAGS; flag++) {
        free(arguments->of[flag].text);
        mudax_free(arguments->of[flag].value);
    }
    *arguments = (struct arguments){0};
}

/* ---- one value ---- */

/* The text itself, or that of the file which file://PATH names. NULL: a message is written. */
static char *load_text(const char *word)
{
    size_t size;
    if (strncmp(word, "file://", 7) == 0)
        return read_file(word + 7, &size);
    char *copy = strdup(word);
    if (copy == NULL)
        (void)report_no_memory();
    return copy;
}

static bool refuse(enum flag flag, const char *why)
{
    (void)report_usage("error parsing parameter '%s': %s", rows[flag].name, why);
    return false;
}

/* JSON of any kind: the reader takes objects only, so it gets one. */
static struct mudax_value *read_array(const char *text, struct mudax_error *error)
{
    size_t size = strlen(text) + sizeof "{\"list\":}";
    char *wrapped = malloc(size);
    if (wrapped == NULL)
        return NULL;
    (void)snprintf(wrapped, size, "{\"list\":%s}", text);
    struct mudax_value *object = mudax_from_plain_json(wrapped, strlen(wrapped), error);
    free(wrapped);
    struct mudax_value *list = mudax_copy(mudax_get(object, "list"));
    mudax_free(object);
    return list;
}

static char first_letter(const char *text)
{
    return text[strspn(text, " \t\r\n")];
}

struct mudax_value *reread_item(const struct mudax_value *plain, struct mudax_error *error)
{
    char *text = mudax_to_plain_json(plain, 0);
    struct mudax_value *item = NULL;
    if (text == NULL)
        (void)snprintf(error->text, sizeof error->text, "expected a JSON object");
    else
        item = mudax_from_json(text, strlen(text), error);
    free(text);
    return item;
}

static struct mudax_value *read_short_map(bool is_item, const char *text, struct mudax_error *error)
{
    struct mudax_value *plain = shorthand_read(text);
    (void)snprintf(error->text, sizeof error->text, "expected a JSON object or NAME=VALUE,...");
    if (!is_item || plain == NULL)
        return plain;
    struct mudax_value *item = reread_item(plain, error);
    mudax_free(plain);
    return item;
}

static bool read_map(enum flag flag, const char *word, struct argument *out)
{
    struct mudax_error error = {.text = "no memory"};
    char *text = load_text(word);
    if (text == NULL)
        return false;
    bool is_item = rows[flag].kind == KIND_ITEM;
    if (first_letter(text) != '{')
        out->value = read_short_map(is_item, text, &error);
    else
        out->value =
            (is_item ? mudax_from_json : mudax_from_plain_json)(text, strlen(text), &error);
    free(text);
    return out->value != NULL || refuse(flag, error.text);
}

/* Takes words until the next flag; returns how many, 0: a message is written. */
static int read_list(enum flag flag, int count, char **words, struct argument *out)
{
    struct mudax_error error = {.text = "expected a JSON array or NAME=VALUE,..."};
    char *text = load_text(words[0]);
    if (text == NULL)
        return 0;
    bool is_json = first_letter(text) == '[';
    if (is_json)
        out->value = read_array(text, &error);
    free(text);
    if (is_json)
        return out->value != NULL || refuse(flag, error.text) ? 1 : 0;
    out->value = mudax_list();
    int used = 0;
    while (used < count && strncmp(words[used], "--", 2) != 0) {
        const char *word = words[used++];
        if (!mudax_append(out->value, rows[flag].kind == KIND_WORDS ? mudax_string(word)
                                                                    : shorthand_read(word)))
            return refuse(flag, error.text);
    }
    return used;
}

static bool read_count(enum flag flag, const char *word, struct argument *out)
{
    char *end;
    unsigned long count = strtoul(word, &end, 10);
    bool is_natural = rows[flag].kind == KIND_NATURAL;
    if (word[0] < '0' || word[0] > '9' || *end != '\0' || (count == 0 && !is_natural) ||
        count > INT32_MAX)
        return refuse(flag, is_natural ? "expected a number from 0 to 2147483647"
                                       : "expected a number from 1 to 2147483647");
    out->count = (uint32_t)count;
    return true;
}

/* The words of a flag's value; returns how many were used, 0: a message is written. */
static int read_value(enum flag flag, int count, char **words, struct argument *out)
{
    switch (rows[flag].kind) {
    case KIND_TEXT:
        out->text = load_text(words[0]);
        return out->text != NULL;
    case KIND_COUNT:
    case KIND_NATURAL:
        return read_count(flag, words[0], out);
    case KIND_ITEM:
    case KIND_PLAIN:
        return read_map(flag, words[0], out);
    case KIND_LIST:
    case KIND_WORDS:
        return read_list(flag, count, words, out);
    case KIND_SWITCH:
        break;
    }
    return 0;
}

/* ---- --cli-input-json ---- */

static char *copy_text(const struct mudax_value *value)
{
    size_t size;
    const char *text = mudax_text(value, &size);
    return mudax_type(value) == MUDAX_S ? strndup(text, size) : NULL;
}

static bool take_member(enum flag flag, const struct mudax_value *value, struct argument *out)
{
    struct mudax_error error = {.text = "has another type in --cli-input-json"};
    int64_t count = 0;
    out->is_given = true;
    switch (rows[flag].kind) {
    case KIND_TEXT:
        out->text = copy_text(value);
        return out->text != NULL || refuse(flag, error.text);
    case KIND_COUNT:
    case KIND_NATURAL:
        if (!mudax_as_int(value, &count) || count < (rows[flag].kind == KIND_COUNT) ||
            count > INT32_MAX)
            return refuse(flag, error.text);
        out->count = (uint32_t)count;
        return true;
    case KIND_SWITCH:
        out->truth = mudax_truth(value);
        return mudax_type(value) == MUDAX_BOOL || refuse(flag, error.text);
    case KIND_ITEM:
        out->value = reread_item(value, &error);
        return out->value != NULL || refuse(flag, error.text);
    case KIND_PLAIN:
    case KIND_LIST:
    case KIND_WORDS:
        out->value = mudax_copy(value);
        return out->value != NULL || refuse(flag, error.text);
    }
    return false;
}

/* Flags go before the members of the object. */
static bool take_members(uint64_t allowed, struct arguments *out)
{
    const struct mudax_value *input = out->of[FLAG_CLI_INPUT_JSON].value;
    for (size_t i = 0; i < mudax_count(input); i++) {
        size_t size;
        const char *name = mudax_name_at(input, i, &size);
        int flag = 0;
        while (flag < FLAGS &&
               ((allowed & FLAG_BIT(flag)) == 0 || rows[flag].member == NULL ||
                strlen(rows[flag].member) != size || memcmp(rows[flag].member, name, size) != 0))
            flag++;
        if (flag == FLAGS) {
            (void)report_usage("--cli-input-json: no parameter %.*s here", (int)size, name);
            return false;
        }
        if (!out->of[flag].is_given &&
            !take_member((enum flag)flag, mudax_at(input, i), &out->of[flag]))
            return false;
    }
    return true;
}

/* ---- all words ---- */

/* FLAGS if there is none of that name. `truth` is false for --no-... */
static int find_flag(const char *word, uint64_t allowed, bool *truth)
{
    *truth = true;
    if (strcmp(word, "--max-items") == 0)
        word = rows[FLAG_LIMIT].name;
    for (int flag = 0; flag < FLAGS; flag++) {
        if ((allowed & FLAG_BIT(flag)) == 0)
            continue;
        if (strcmp(word, rows[flag].name) == 0)
            return flag;
        if (rows[flag].kind == KIND_SWITCH && strncmp(word, "--no-", 5) == 0 &&
            strcmp(word + 5, rows[flag].name + 2) == 0) {
            *truth = false;
            return flag;
        }
    }
    return FLAGS;
}

/* One flag with its value at words[0]; returns how many words, 0: a message is written. */
static int read_flag(int count, char **words, uint64_t allowed, struct arguments *out)
{
    bool truth;
    int flag = find_flag(words[0], allowed, &truth);
    if (flag == FLAGS) {
        (void)report_usage("unknown option: %s", words[0]);
        return 0;
    }
    struct argument *argument = &out->of[flag];
    if (argument->is_given) {
        (void)report_usage("%s is given twice", rows[flag].name);
        return 0;
    }
    argument->is_given = true;
    argument->truth = truth;
    if (rows[flag].kind == KIND_SWITCH)
        return 1;
    if (count < 2) {
        (void)report_usage("%s: expected one argument", rows[flag].name);
        return 0;
    }
    int used = read_value((enum flag)flag, count - 1, words + 1, argument);
    return used == 0 ? 0 : used + 1;
}

int flag_words(const char *word, uint64_t allowed)
{
    bool truth;
    int flag = find_flag(word, allowed, &truth);
    return flag == FLAGS ? 0 : rows[flag].kind == KIND_SWITCH ? 1 : 2;
}

bool arguments_read(int count, char **words, uint64_t allowed, bool takes_file,
                    struct arguments *out)
{
    *out = (struct arguments){0};
    for (int at = 0; at < count;) {
        if (strncmp(words[at], "--", 2) != 0) {
            if (!takes_file || out->file != NULL) {
                (void)report_usage("unexpected word: %s", words[at]);
                return false;
            }
            out->file = words[at++];
            continue;
        }
        int used = read_flag(count - at, words + at, allowed, out);
        if (used == 0)
            return false;
        at += used;
    }
    return take_members(allowed, out);
}
