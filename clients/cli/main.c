/* main.c - verbs: one table, and what each of them does. */
#include "clients/cli/explain.h"
#include "clients/cli/export.h"
#include "clients/cli/flags.h"
#include "clients/cli/heat.h"
#include "clients/cli/import.h"
#include "clients/cli/output.h"
#include "clients/cli/parts.h"
#include "clients/cli/pay.h"
#include "clients/cli/scan.h"
#include "clients/cli/stats.h"
#include "clients/cli/top.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TIMEOUT_MS = 5000 };

struct verb {
    const char *name, *operation_name, *help;
    enum mudax_operation operation; /* 0: no operation, but `run` */
    uint64_t required, allowed;     /* bits of enum flag */
    int (*print)(const struct result *result);
    int (*run)(struct mudax *db, const struct arguments *arguments);
};

#define ALWAYS   (FLAG_BIT(FLAG_URL) | FLAG_BIT(FLAG_TIMEOUT))
#define TABLE    FLAG_BIT(FLAG_TABLE_NAME)
#define INPUT    FLAG_BIT(FLAG_CLI_INPUT_JSON)
#define CAPACITY FLAG_BIT(FLAG_RETURN_CONSUMED_CAPACITY)
#define METRICS  FLAG_BIT(FLAG_RETURN_ITEM_COLLECTION_METRICS)
#define READ                                                                                       \
    (FLAG_BIT(FLAG_CONSISTENT_READ) | FLAG_BIT(FLAG_VERDICT) |                                     \
     FLAG_BIT(FLAG_PROJECTION_EXPRESSION) | FLAG_BIT(FLAG_EXPRESSION_ATTRIBUTE_NAMES) | CAPACITY | \
     INPUT)
#define ALIASES                                                                                    \
    (FLAG_BIT(FLAG_EXPRESSION_ATTRIBUTE_NAMES) | FLAG_BIT(FLAG_EXPRESSION_ATTRIBUTE_VALUES))
#define PAGE                                                                                       \
    (READ | FLAG_BIT(FLAG_EXPRESSION_ATTRIBUTE_VALUES) | FLAG_BIT(FLAG_INDEX_NAME) |               \
     FLAG_BIT(FLAG_FILTER_EXPRESSION) | FLAG_BIT(FLAG_SELECT) | FLAG_BIT(FLAG_LIMIT) |             \
     FLAG_BIT(FLAG_EXCLUSIVE_START_KEY))
#define WRITE                                                                                      \
    (FLAG_BIT(FLAG_CONDITION_EXPRESSION) | FLAG_BIT(FLAG_RETURN_VALUES) |                          \
     FLAG_BIT(FLAG_RETURN_VALUES_ON_CONDITION_CHECK_FAILURE) | ALIASES | CAPACITY | METRICS |      \
     INPUT)
#define SETTINGS                                                                                   \
    (FLAG_BIT(FLAG_ATTRIBUTE_DEFINITIONS) | FLAG_BIT(FLAG_BILLING_MODE) |                          \
     FLAG_BIT(FLAG_PROVISIONED_THROUGHPUT) | FLAG_BIT(FLAG_STREAM_SPECIFICATION) |                 \
     FLAG_BIT(FLAG_SSE_SPECIFICATION) | FLAG_BIT(FLAG_ON_DEMAND_THROUGHPUT) |                      \
     FLAG_BIT(FLAG_WARM_THROUGHPUT) | FLAG_BIT(FLAG_TABLE_CLASS) |                                 \
     FLAG_BIT(FLAG_DELETION_PROTECTION_ENABLED))
#define CREATION                                                                                   \
    (SETTINGS | FLAG_BIT(FLAG_KEY_SCHEMA) | FLAG_BIT(FLAG_TAGS) |                                  \
     FLAG_BIT(FLAG_GLOBAL_SECONDARY_INDEXES) | FLAG_BIT(FLAG_LOCAL_SECONDARY_INDEXES))
#define CHANGE (SETTINGS | FLAG_BIT(FLAG_GLOBAL_SECONDARY_INDEX_UPDATES))
/* What goes into a definition, by DynamoDB's names. */
#define DEFINITION                                                                                 \
    (TABLE | CREATION | CHANGE | FLAG_BIT(FLAG_TIME_TO_LIVE_SPECIFICATION) |                       \
     FLAG_BIT(FLAG_RESOURCE_ARN) | FLAG_BIT(FLAG_TAG_KEYS) | FLAG_BIT(FLAG_NEXT_TOKEN))

static int run_import(struct mudax *db, const struct arguments *arguments);
static int run_export(struct mudax *db, const struct arguments *arguments);
static int run_top(struct mudax *db, const struct arguments *arguments);
static int run_pay(struct mudax *db, const struct arguments *arguments);
static int run_stats(struct mudax *db, const struct arguments *arguments);
static int run_explain(struct mudax *db, const struct arguments *arguments);
static int run_heat(struct mudax *db, const struct arguments *arguments);

static const struct verb verbs[] = {
    {"ping", "Ping", "see whether the daemon answers", MUDAX_PING, .print = print_pong},
    {"get-item", "GetItem", "one item by its key", MUDAX_GET_ITEM, TABLE | FLAG_BIT(FLAG_KEY), READ,
     .print = print_item},
    {"put-item", "PutItem", "write an item, whatever was there", MUDAX_PUT_ITEM,
     TABLE | FLAG_BIT(FLAG_ITEM), WRITE, .print = print_attributes},
    {"delete-item", "DeleteItem", "delete an item by its key", MUDAX_DELETE_ITEM,
     TABLE | FLAG_BIT(FLAG_KEY), WRITE, .print = print_attributes},
    {"update-item", "UpdateItem", "change attributes of an item, which is made if need be",
     MUDAX_UPDATE_ITEM, TABLE | FLAG_BIT(FLAG_KEY), WRITE | FLAG_BIT(FLAG_UPDATE_EXPRESSION),
     .print = print_attributes},
    {"query", "Query", "one page of the items of a partition, in the order of their sort keys",
     MUDAX_QUERY, TABLE | FLAG_BIT(FLAG_KEY_CONDITION_EXPRESSION),
     PAGE | FLAG_BIT(FLAG_SCAN_INDEX_FORWARD), .print = print_page},
    {"scan", "Scan", "one page of the items of a table, or of an index", MUDAX_SCAN, TABLE,
     PAGE | FLAG_BIT(FLAG_SEGMENT) | FLAG_BIT(FLAG_TOTAL_SEGMENTS), .print = print_page},
    {"batch-get-item", "BatchGetItem", "up to 100 items by their keys", MUDAX_BATCH_GET_ITEM,
     FLAG_BIT(FLAG_REQUEST_ITEMS), FLAG_BIT(FLAG_VERDICT) | CAPACITY | INPUT,
     .print = print_batch_get},
    {"batch-write-item", "BatchWriteItem", "put and delete up to 25 items", MUDAX_BATCH_WRITE_ITEM,
     FLAG_BIT(FLAG_REQUEST_ITEMS), CAPACITY | METRICS | INPUT, .print = print_batch_write},
    {"transact-get-items", "TransactGetItems", "up to 100 items, all of one moment",
     MUDAX_TRANSACT_GET_ITEMS, FLAG_BIT(FLAG_TRANSACT_ITEMS), CAPACITY | INPUT,
     .print = print_transact_get},
    {"transact-write-items", "TransactWriteItems", "up to 100 writes and checks, all or nothing",
     MUDAX_TRANSACT_WRITE_ITEMS, FLAG_BIT(FLAG_TRANSACT_ITEMS),
     FLAG_BIT(FLAG_CLIENT_REQUEST_TOKEN) | CAPACITY | METRICS | INPUT,
     .print = print_transact_write},
    {"create-table", "CreateTable", "make a table", MUDAX_CREATE_TABLE, TABLE, CREATION | INPUT,
     .print = print_description},
    {"describe-table", "DescribeTable", "what a table is", MUDAX_DESCRIBE_TABLE, TABLE, INPUT,
     .print = print_description},
    {"update-table", "UpdateTable", "add and remove global indexes; billing, protection",
     MUDAX_UPDATE_TABLE, TABLE, CHANGE | INPUT, .print = print_description},
    {"list-tables", "ListTables", "names of the tables", MUDAX_LIST_TABLES, 0,
     INPUT | FLAG_BIT(FLAG_LIMIT) | FLAG_BIT(FLAG_EXCLUSIVE_START_TABLE_NAME),
     .print = print_description},
    {"delete-table", "DeleteTable", "delete a table with its items", MUDAX_DELETE_TABLE, TABLE,
     INPUT, .print = print_description},
    {"update-time-to-live", "UpdateTimeToLive", "let items expire, or no more",
     MUDAX_UPDATE_TIME_TO_LIVE, TABLE | FLAG_BIT(FLAG_TIME_TO_LIVE_SPECIFICATION), INPUT,
     .print = print_description},
    {"describe-time-to-live", "DescribeTimeToLive", "whether items expire, and by what",
     MUDAX_DESCRIBE_TIME_TO_LIVE, TABLE, INPUT, .print = print_description},
    {"tag-resource", "TagResource", "add tags to a table, or change them", MUDAX_TAG_RESOURCE,
     FLAG_BIT(FLAG_RESOURCE_ARN) | FLAG_BIT(FLAG_TAGS), INPUT, .print = print_description},
    {"untag-resource", "UntagResource", "remove tags from a table", MUDAX_UNTAG_RESOURCE,
     FLAG_BIT(FLAG_RESOURCE_ARN) | FLAG_BIT(FLAG_TAG_KEYS), INPUT, .print = print_description},
    {"list-tags-of-resource", "ListTagsOfResource", "tags of a table", MUDAX_LIST_TAGS_OF_RESOURCE,
     FLAG_BIT(FLAG_RESOURCE_ARN), INPUT | FLAG_BIT(FLAG_NEXT_TOKEN), .print = print_description},
    {"describe-heat", "DescribeHeat",
     "partitions of a table and of its indexes, and what they bear", MUDAX_DESCRIBE_HEAT, TABLE,
     INPUT, .print = print_description},
    {"stats", "Stats", "figures of the daemon", 0, 0, FLAG_BIT(FLAG_ONLY), .run = run_stats},
    {"purge", "Purge",
     "forget what is cached: of a key, a partition (--partition-key), an index, a table; all of it",
     MUDAX_PURGE, 0,
     TABLE | FLAG_BIT(FLAG_KEY) | FLAG_BIT(FLAG_PARTITION_KEY) | FLAG_BIT(FLAG_INDEX_NAME) | INPUT,
     .print = print_description},
    {"explain", "Explain",
     "what the cache makes of a GetItem (--key), Query, Scan; of a write (--key --write, or "
     "--item)",
     0, TABLE,
     FLAG_BIT(FLAG_KEY) | FLAG_BIT(FLAG_ITEM) | FLAG_BIT(FLAG_WRITE) | FLAG_BIT(FLAG_JSON) | PAGE |
         FLAG_BIT(FLAG_KEY_CONDITION_EXPRESSION) | FLAG_BIT(FLAG_SCAN_INDEX_FORWARD) |
         FLAG_BIT(FLAG_SEGMENT) | FLAG_BIT(FLAG_TOTAL_SEGMENTS),
     .run = run_explain},
    {"heat", "DescribeHeat",
     "how items and requests are spread over partitions; over groups of items (--by, --items)", 0,
     0,
     TABLE | FLAG_BIT(FLAG_BY) | FLAG_BIT(FLAG_ITEMS) | FLAG_BIT(FLAG_TOP) |
         FLAG_BIT(FLAG_SECONDS) | FLAG_BIT(FLAG_TOTAL_SEGMENTS) | FLAG_BIT(FLAG_JSON),
     .run = run_heat},
    {"top", "Stats", "the keys that are asked for most, and why reads are no hits", 0, 0,
     FLAG_BIT(FLAG_ONCE), .run = run_top},
    {"pay", "Stats", "what the cache saves, by policy, and from what rate on it pays", 0, 0,
     FLAG_BIT(FLAG_SECONDS) | FLAG_BIT(FLAG_JSON), .run = run_pay},
    {"import", "BatchWriteItem", "tables of a NoSQL Workbench model, or items, one a line", 0, 0,
     TABLE | FLAG_BIT(FLAG_WITHOUT_INDEXES), .run = run_import},
    {"export", "Scan", "all items of a table, one a line", 0, TABLE,
     FLAG_BIT(FLAG_OUTPUT) | FLAG_BIT(FLAG_DEFINITION) | FLAG_BIT(FLAG_TOTAL_SEGMENTS),
     .run = run_export},
};
static bool takes_file(const struct verb *verb)
{
    return verb->run == run_import;
}

enum { VERBS = sizeof verbs / sizeof verbs[0] };

/* ---- help ---- */

static int print_help(void)
{
    (void)puts(
        "usage: mudax VERB [options]\n\nVerbs, spelled as in the AWS CLI where it has them:");
    for (size_t i = 0; i < VERBS; i++)
        (void)printf("  %-22s%s\n", verbs[i].name, verbs[i].help);
    (void)puts(
        "\n\"mudax VERB help\" lists the options of a verb. Where JSON or a text is expected,\n"
        "file://PATH reads it from a file.\n\nExit codes: 0; 252 usage; 254 the daemon answered "
        "with an error; 255 no answer.");
    return 0;
}

static int print_verb_help(const struct verb *verb)
{
    uint64_t flags = verb->required | verb->allowed | ALWAYS;
    (void)printf("usage: mudax %s%s [options]\n%s\n\n", verb->name, takes_file(verb) ? " FILE" : "",
                 verb->help);
    for (int flag = 0; flag < FLAGS; flag++) {
        if ((flags & FLAG_BIT(flag)) == 0)
            continue;
        char title[64];
        (void)snprintf(title, sizeof title, "%s %s", flag_name((enum flag)flag),
                       flag_placeholder((enum flag)flag));
        (void)printf("  %-48s%s%s\n", title, flag_help((enum flag)flag),
                     (verb->required & FLAG_BIT(flag)) != 0 ? " (required)" : "");
    }
    return 0;
}

/* ---- calls ---- */

static const char *url_of(const struct arguments *arguments)
{
    const char *url = getenv("MUDAX_URL");
    if (arguments->of[FLAG_URL].is_given)
        return arguments->of[FLAG_URL].text;
    return url != NULL && url[0] != '\0' ? url : "mudax://127.0.0.1:8110";
}

static uint32_t timeout_of(const struct arguments *arguments)
{
    return arguments->of[FLAG_TIMEOUT].is_given ? arguments->of[FLAG_TIMEOUT].count : TIMEOUT_MS;
}

/* All given parts of a table's definition, by DynamoDB's names. NULL without memory. */
static struct mudax_value *make_definition(const struct arguments *arguments)
{
    struct mudax_value *definition = mudax_map();
    bool is_right = definition != NULL;
    for (int flag = 0; flag < FLAGS && is_right; flag++) {
        const struct argument *argument = &arguments->of[flag];
        if (!argument->is_given || (DEFINITION & FLAG_BIT(flag)) == 0)
            continue;
        struct mudax_value *value = argument->value != NULL  ? mudax_copy(argument->value)
                                    : argument->text != NULL ? mudax_string(argument->text)
                                                             : mudax_bool(argument->truth);
        is_right = mudax_put(definition, flag_member((enum flag)flag), value);
    }
    if (is_right)
        return definition;
    mudax_free(definition);
    return NULL;
}

static struct mudax_request make_request(const struct verb *verb, const struct arguments *arguments)
{
    const struct argument *of = arguments->of;
    return (struct mudax_request){
        .operation = verb->operation,
        .table = of[FLAG_TABLE_NAME].text,
        .index = of[FLAG_INDEX_NAME].text,
        .key = of[of[FLAG_PARTITION_KEY].is_given ? FLAG_PARTITION_KEY : FLAG_KEY].value,
        .item = of[FLAG_ITEM].value,
        .key_condition = of[FLAG_KEY_CONDITION_EXPRESSION].text,
        .condition = of[FLAG_CONDITION_EXPRESSION].text,
        .update = of[FLAG_UPDATE_EXPRESSION].text,
        .filter = of[FLAG_FILTER_EXPRESSION].text,
        .projection = of[FLAG_PROJECTION_EXPRESSION].text,
        .names = of[FLAG_EXPRESSION_ATTRIBUTE_NAMES].value,
        .values = of[FLAG_EXPRESSION_ATTRIBUTE_VALUES].value,
        .scan_backward = of[FLAG_SCAN_INDEX_FORWARD].is_given && !of[FLAG_SCAN_INDEX_FORWARD].truth,
        .limit = of[FLAG_LIMIT].count,
        .start_key = of[FLAG_EXCLUSIVE_START_KEY].value,
        .segment = of[FLAG_SEGMENT].count,
        .segments = of[FLAG_TOTAL_SEGMENTS].count,
        .consistent_read = of[FLAG_CONSISTENT_READ].truth,
        .token = of[FLAG_CLIENT_REQUEST_TOKEN].text,
        .start_table = of[FLAG_EXCLUSIVE_START_TABLE_NAME].text,
        .wants_verdict = of[FLAG_VERDICT].truth,
    };
}

/* The place of a flag's word among `words`, 0 if it is not given; -1: a message is written. */
static int find_word(enum flag flag, const struct arguments *arguments, const char *const *words,
                     int count)
{
    const struct argument *argument = &arguments->of[flag];
    if (!argument->is_given)
        return 0;
    for (int i = 0; i < count; i++)
        if (words[i] != NULL && strcmp(words[i], argument->text) == 0)
            return i;
    (void)report_usage("error parsing parameter '%s': there is no %s", flag_name(flag),
                       argument->text);
    return -1;
}

#define COUNT(array) ((int)(sizeof(array) / sizeof(array)[0]))

static bool read_words(const struct arguments *arguments, struct mudax_request *request)
{
    static const char *const returns[] = {
        [MUDAX_RETURN_NONE] = "NONE",
        [MUDAX_RETURN_ALL_OLD] = "ALL_OLD",
        [MUDAX_RETURN_UPDATED_OLD] = "UPDATED_OLD",
        [MUDAX_RETURN_ALL_NEW] = "ALL_NEW",
        [MUDAX_RETURN_UPDATED_NEW] = "UPDATED_NEW",
    };
    static const char *const selects[] = {
        [MUDAX_SELECT_ALL_ATTRIBUTES] = "ALL_ATTRIBUTES",
        [MUDAX_SELECT_ALL_PROJECTED_ATTRIBUTES] = "ALL_PROJECTED_ATTRIBUTES",
        [MUDAX_SELECT_SPECIFIC_ATTRIBUTES] = "SPECIFIC_ATTRIBUTES",
        [MUDAX_SELECT_COUNT] = "COUNT",
    };
    static const char *const failures[] = {"NONE", "ALL_OLD"};
    static const char *const capacities[] = {
        [MUDAX_CAPACITY_NONE] = "NONE",
        [MUDAX_CAPACITY_TOTAL] = "TOTAL",
        [MUDAX_CAPACITY_INDEXES] = "INDEXES",
    };
    static const char *const metrics[] = {"NONE", "SIZE"};
    int returned = find_word(FLAG_RETURN_VALUES, arguments, returns, COUNT(returns));
    int selected = find_word(FLAG_SELECT, arguments, selects, COUNT(selects));
    int failed = find_word(FLAG_RETURN_VALUES_ON_CONDITION_CHECK_FAILURE, arguments, failures,
                           COUNT(failures));
    int capacity =
        find_word(FLAG_RETURN_CONSUMED_CAPACITY, arguments, capacities, COUNT(capacities));
    int measured =
        find_word(FLAG_RETURN_ITEM_COLLECTION_METRICS, arguments, metrics, COUNT(metrics));
    if (returned < 0 || selected < 0 || failed < 0 || capacity < 0 || measured < 0)
        return false;
    request->return_values = (enum mudax_return_values)returned;
    request->select = (enum mudax_select)selected;
    request->wants_failed_item = failed == 1;
    request->wants_capacity = (enum mudax_capacity)capacity;
    request->wants_metrics = measured == 1;
    return true;
}

static int call(struct mudax *db, const struct verb *verb, const struct mudax_request *request,
                const struct mudax_value *members)
{
    struct mudax_reply *reply = NULL;
    struct mudax_error error;
    if (request->wants_verdict) { /* connects, so that the time shown is the request's own */
        struct mudax_request ping = {.operation = MUDAX_PING};
        if (mudax_call(db, &ping, NULL, &error) != MUDAX_OK)
            return report_error(&error, verb->operation_name);
    }
    uint64_t begun_us = now_us();
    int code = mudax_call(db, request, &reply, &error);
    uint64_t took_us = now_us() - begun_us;
    struct result result = {request, reply, members};
    int exit_code =
        code == MUDAX_OK ? verb->print(&result) : report_error(&error, verb->operation_name);
    if (code != MUDAX_OK)
        print_details(&result);
    else if (request->wants_verdict)
        print_verdict(reply, took_us);
    mudax_reply_free(reply);
    return exit_code;
}

static int run_import(struct mudax *db, const struct arguments *arguments)
{
    struct import_options options = {
        .url = url_of(arguments),
        .timeout_ms = timeout_of(arguments),
        .without_indexes = arguments->of[FLAG_WITHOUT_INDEXES].truth,
        .table_name = arguments->of[FLAG_TABLE_NAME].text,
    };
    if (arguments->file == NULL)
        return report_usage("the following arguments are required: FILE");
    return import_file(db, arguments->file, &options);
}

static int run_export(struct mudax *db, const struct arguments *arguments)
{
    struct export_options options = {
        .url = url_of(arguments),
        .timeout_ms = timeout_of(arguments),
        .table_name = arguments->of[FLAG_TABLE_NAME].text,
        .output = arguments->of[FLAG_OUTPUT].text,
        .with_definition = arguments->of[FLAG_DEFINITION].truth,
        .segments = arguments->of[FLAG_TOTAL_SEGMENTS].count,
    };
    return export_table(db, &options);
}

/* Batches and transactions. */
static int call_parts(struct mudax *db, const struct verb *verb, struct mudax_request *request,
                      const struct mudax_value *members)
{
    struct parts parts;
    int exit_code = EXIT_USAGE;
    if (parts_read(verb->operation, members, &parts)) {
        request->parts = parts.requests;
        request->part_count = parts.count;
        exit_code = call(db, verb, request, members);
    }
    parts_free(&parts);
    return exit_code;
}

static int call_definition(struct mudax *db, const struct verb *verb, struct mudax_request *request,
                           const struct arguments *arguments)
{
    struct mudax_value *definition = make_definition(arguments);
    if (definition == NULL)
        return report_no_memory();
    request->definition = definition;
    request->table = NULL; /* its name is in the definition */
    int exit_code = call(db, verb, request, NULL);
    mudax_free(definition);
    return exit_code;
}

static int run_call(struct mudax *db, const struct verb *verb, const struct arguments *arguments)
{
    struct mudax_request request = make_request(verb, arguments);
    if (!read_words(arguments, &request))
        return EXIT_USAGE;
    if (arguments->of[FLAG_SEGMENT].is_given != arguments->of[FLAG_TOTAL_SEGMENTS].is_given)
        return report_usage("--segment and --total-segments go together");
    if (arguments->of[FLAG_KEY].is_given && arguments->of[FLAG_PARTITION_KEY].is_given)
        return report_usage("--key names an item, --partition-key a partition; give one of them");
    switch (verb->operation) {
    case MUDAX_CREATE_TABLE:
    case MUDAX_UPDATE_TABLE:
    case MUDAX_UPDATE_TIME_TO_LIVE:
    case MUDAX_TAG_RESOURCE:
    case MUDAX_UNTAG_RESOURCE:
    case MUDAX_LIST_TAGS_OF_RESOURCE:
        return call_definition(db, verb, &request, arguments);
    case MUDAX_BATCH_GET_ITEM:
    case MUDAX_BATCH_WRITE_ITEM:
        return call_parts(db, verb, &request, arguments->of[FLAG_REQUEST_ITEMS].value);
    case MUDAX_TRANSACT_GET_ITEMS:
    case MUDAX_TRANSACT_WRITE_ITEMS:
        return call_parts(db, verb, &request, arguments->of[FLAG_TRANSACT_ITEMS].value);
    default:
        return call(db, verb, &request, NULL);
    }
}

static int check_required(const struct verb *verb, const struct arguments *arguments)
{
    char missing[256] = "";
    for (int flag = 0; flag < FLAGS; flag++) {
        if ((verb->required & FLAG_BIT(flag)) == 0 || arguments->of[flag].is_given)
            continue;
        size_t size = strlen(missing);
        (void)snprintf(missing + size, sizeof missing - size, "%s%s", size == 0 ? "" : ", ",
                       flag_name((enum flag)flag));
    }
    if (missing[0] == '\0')
        return 0;
    return report_usage("the following arguments are required: %s", missing);
}

static int run_explain(struct mudax *db, const struct arguments *arguments)
{
    const struct argument *of = arguments->of;
    bool has_key = of[FLAG_KEY].is_given, is_query = of[FLAG_KEY_CONDITION_EXPRESSION].is_given;
    bool has_item = of[FLAG_ITEM].is_given;
    struct verb as = {.operation = has_item               ? MUDAX_PUT_ITEM
                                   : of[FLAG_WRITE].truth ? MUDAX_DELETE_ITEM
                                   : has_key              ? MUDAX_GET_ITEM
                                   : is_query             ? MUDAX_QUERY
                                                          : MUDAX_SCAN};
    struct mudax_request part = make_request(&as, arguments);
    if (!read_words(arguments, &part))
        return EXIT_USAGE;
    if (of[FLAG_WRITE].truth && !has_key && !has_item)
        return report_usage("--write needs a --key or an --item");
    if (has_key + is_query + has_item > 1)
        return report_usage("--key, --item and --key-condition-expression: give one of them");
    if (of[FLAG_INDEX_NAME].is_given && (has_key || has_item))
        return report_usage("--index-name is of queries and scans; a write is told of all indexes");
    return explain(db, &part, of[FLAG_JSON].truth);
}

static int run_heat(struct mudax *db, const struct arguments *arguments)
{
    const struct argument *of = arguments->of;
    struct heat_options options = {
        .url = url_of(arguments),
        .table_name = of[FLAG_TABLE_NAME].text,
        .timeout_ms = timeout_of(arguments),
        .seconds = of[FLAG_SECONDS].count,
        .top = of[FLAG_TOP].count,
        .segments = of[FLAG_TOTAL_SEGMENTS].count,
        .by = of[FLAG_BY].text,
        .by_key = of[FLAG_ITEMS].truth,
        .is_json = of[FLAG_JSON].truth,
    };
    if (options.by != NULL && options.by_key)
        return report_usage("--by and --items: give one of them");
    if (options.top > HEAT_TOP_MAX || options.segments > SCAN_SEGMENTS_MAX)
        return report_usage("--top is at most %d, --total-segments %d here", HEAT_TOP_MAX,
                            SCAN_SEGMENTS_MAX);
    if (options.by == NULL && !options.by_key)
        return heat_partitions(db, &options);
    if (options.table_name == NULL)
        return report_usage("items are grouped of one table: --table-name");
    return heat_groups(db, &options);
}

static int run_top(struct mudax *db, const struct arguments *arguments)
{
    return top(db, arguments->of[FLAG_ONCE].truth);
}

static int run_stats(struct mudax *db, const struct arguments *arguments)
{
    return stats(db, arguments->of[FLAG_ONLY].text);
}

static int run_pay(struct mudax *db, const struct arguments *arguments)
{
    return pay(db, arguments->of[FLAG_SECONDS].count, arguments->of[FLAG_JSON].truth);
}

static int run(const struct verb *verb, const struct arguments *arguments)
{
    struct mudax_error error;
    struct mudax_options options = {.connections_max = 1, .timeout_ms = timeout_of(arguments)};
    int exit_code = check_required(verb, arguments);
    if (exit_code != 0)
        return exit_code;
    struct mudax *db = mudax_open(url_of(arguments), &options, &error);
    if (db == NULL)
        return report_error(&error, verb->operation_name);
    exit_code = verb->run != NULL ? verb->run(db, arguments) : run_call(db, verb, arguments);
    mudax_close(&db);
    if (fflush(stdout) != 0 && exit_code == 0) {
        (void)fputs("\nmudax: standard output takes nothing more\n", stderr);
        exit_code = EXIT_CONNECTION;
    }
    return exit_code;
}

static const struct verb *find_verb(const char *name)
{
    for (size_t i = 0; i < VERBS; i++)
        if (strcmp(name, verbs[i].name) == 0)
            return &verbs[i];
    return NULL;
}

/* Flags that all verbs have may stand before the verb: moves it to the front, words[1]. */
static void move_verb(int count, char **words)
{
    int at = 1;
    while (at < count) {
        int used = flag_words(words[at], ALWAYS);
        if (used == 0)
            break;
        at += used;
    }
    if (at >= count)
        return;
    char *verb = words[at];
    memmove(&words[2], &words[1], (size_t)(at - 1) * sizeof words[0]);
    words[1] = verb;
}

int main(int count, char **words)
{
    move_verb(count, words);
    if (count < 2)
        return report_usage("the verb is missing");
    if (strcmp(words[1], "help") == 0 || strcmp(words[1], "--help") == 0)
        return print_help();
    if (strcmp(words[1], "--version") == 0)
        return printf("mudax %s\n", mudax_version()) < 0;
    if (strncmp(words[1], "--", 2) == 0)
        return report_usage("the verb is missing: %s is no flag of all verbs, or has no value",
                            words[1]);
    const struct verb *verb = find_verb(words[1]);
    if (verb == NULL)
        return report_usage("there is no verb %s", words[1]);
    if (count == 3 && (strcmp(words[2], "help") == 0 || strcmp(words[2], "--help") == 0))
        return print_verb_help(verb);
    struct arguments arguments;
    uint64_t allowed = verb->required | verb->allowed | ALWAYS;
    int exit_code = EXIT_USAGE;
    if (arguments_read(count - 2, words + 2, allowed, takes_file(verb), &arguments))
        exit_code = run(verb, &arguments);
    arguments_free(&arguments);
    return exit_code;
}
