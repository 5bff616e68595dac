/* main.c - verbs: one table, and what each of them does. */
#include "clients/cli/flags.h"
#include "clients/cli/import.h"
#include "clients/cli/output.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TIMEOUT_MS = 5000 };

struct verb {
    const char *name, *operation_name, *help;
    enum mudax_operation operation;                /* 0: import, which is no operation */
    uint32_t required, allowed;                    /* bits of enum flag */
    int (*print)(const struct mudax_reply *reply); /* NULL: nothing to print */
};

enum {
    ALWAYS = FLAG_BIT(FLAG_URL) | FLAG_BIT(FLAG_TIMEOUT),
    TABLE = FLAG_BIT(FLAG_TABLE_NAME),
    INPUT = FLAG_BIT(FLAG_CLI_INPUT_JSON),
    READ = FLAG_BIT(FLAG_CONSISTENT_READ) | FLAG_BIT(FLAG_VERDICT) | INPUT,
    DEFINITION = TABLE | FLAG_BIT(FLAG_ATTRIBUTE_DEFINITIONS) | FLAG_BIT(FLAG_KEY_SCHEMA) |
                 FLAG_BIT(FLAG_BILLING_MODE) | FLAG_BIT(FLAG_PROVISIONED_THROUGHPUT) |
                 FLAG_BIT(FLAG_TAGS) | FLAG_BIT(FLAG_TABLE_CLASS) |
                 FLAG_BIT(FLAG_DELETION_PROTECTION_ENABLED) |
                 FLAG_BIT(FLAG_GLOBAL_SECONDARY_INDEXES) | FLAG_BIT(FLAG_LOCAL_SECONDARY_INDEXES),
};

enum {
    ALIASES =
        FLAG_BIT(FLAG_EXPRESSION_ATTRIBUTE_NAMES) | FLAG_BIT(FLAG_EXPRESSION_ATTRIBUTE_VALUES),
    WRITE = FLAG_BIT(FLAG_CONDITION_EXPRESSION) | FLAG_BIT(FLAG_RETURN_VALUES) | ALIASES | INPUT,
};

static int print_pong(const struct mudax_reply *reply)
{
    (void)reply;
    (void)puts("PONG");
    return 0;
}

static const struct verb verbs[] = {
    {"ping", "Ping", "see whether the daemon answers", MUDAX_PING, 0, 0, print_pong},
    {"get-item", "GetItem", "one item by its key", MUDAX_GET_ITEM, TABLE | FLAG_BIT(FLAG_KEY),
     READ | FLAG_BIT(FLAG_PROJECTION_EXPRESSION) | FLAG_BIT(FLAG_EXPRESSION_ATTRIBUTE_NAMES),
     print_item},
    {"put-item", "PutItem", "write an item, whatever was there", MUDAX_PUT_ITEM,
     TABLE | FLAG_BIT(FLAG_ITEM), WRITE, print_attributes},
    {"delete-item", "DeleteItem", "delete an item by its key", MUDAX_DELETE_ITEM,
     TABLE | FLAG_BIT(FLAG_KEY), WRITE, print_attributes},
    {"update-item", "UpdateItem", "change attributes of an item, which is made if need be",
     MUDAX_UPDATE_ITEM, TABLE | FLAG_BIT(FLAG_KEY), WRITE | FLAG_BIT(FLAG_UPDATE_EXPRESSION),
     print_attributes},
    {"query", "Query", "one page of the items of a partition, in the order of their sort keys",
     MUDAX_QUERY, TABLE | FLAG_BIT(FLAG_KEY_CONDITION_EXPRESSION),
     READ | ALIASES | FLAG_BIT(FLAG_FILTER_EXPRESSION) | FLAG_BIT(FLAG_PROJECTION_EXPRESSION) |
         FLAG_BIT(FLAG_SELECT) | FLAG_BIT(FLAG_SCAN_INDEX_FORWARD) | FLAG_BIT(FLAG_LIMIT) |
         FLAG_BIT(FLAG_EXCLUSIVE_START_KEY),
     print_page},
    {"create-table", "CreateTable", "make a table", MUDAX_CREATE_TABLE, TABLE, DEFINITION | INPUT,
     print_description},
    {"describe-table", "DescribeTable", "what a table is", MUDAX_DESCRIBE_TABLE, TABLE, INPUT,
     print_description},
    {"list-tables", "ListTables", "names of the tables", MUDAX_LIST_TABLES, 0,
     INPUT | FLAG_BIT(FLAG_LIMIT) | FLAG_BIT(FLAG_EXCLUSIVE_START_TABLE_NAME), print_description},
    {"delete-table", "DeleteTable", "delete a table with its items", MUDAX_DELETE_TABLE, TABLE,
     INPUT, print_description},
    {"stats", "Stats", "figures of the daemon", MUDAX_STATS, 0, 0, print_description},
    {"import", "PutItem", "FILE: tables and items of a NoSQL Workbench model", 0, 0,
     TABLE | FLAG_BIT(FLAG_WITHOUT_INDEXES), NULL},
};
enum { VERBS = sizeof verbs / sizeof verbs[0] };

/* ---- messages ---- */

int report_error(const struct mudax_error *error, const char *operation)
{
    if (error->code < MUDAX_CONNECT_ERROR) {
        (void)fprintf(stderr, "\nAn error occurred (%s) when calling the %s operation: %s\n",
                      error->name, operation, error->text);
        return EXIT_SERVICE;
    }
    (void)fprintf(stderr, "\nmudax: %s: %s (%s)\n", operation, error->text, error->name);
    return error->code == MUDAX_INVALID_REQUEST ? EXIT_USAGE : EXIT_CONNECTION;
}

int report_no_memory(void)
{
    (void)fputs("\nmudax: this process has no memory left\n", stderr);
    return EXIT_CONNECTION;
}

int report_usage(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)fputs("\nmudax: ", stderr);
    (void)vfprintf(stderr, format, arguments); // NOLINT(clang-analyzer-valist.Uninitialized)
    (void)fputs(
        "\nusage: mudax VERB [options]; \"mudax help\" lists the verbs, \"mudax VERB help\" "
        "the options\n",
        stderr);
    va_end(arguments);
    return EXIT_USAGE;
}

static int print_help(void)
{
    (void)puts(
        "usage: mudax VERB [options]\n\nVerbs, spelled as in the AWS CLI where it has them:");
    for (size_t i = 0; i < VERBS; i++)
        (void)printf("  %-16s%s\n", verbs[i].name, verbs[i].help);
    (void)puts(
        "\n\"mudax VERB help\" lists the options of a verb. Where JSON or a text is expected,\n"
        "file://PATH reads it from a file.\n\nExit codes: 0; 252 usage; 254 the daemon answered "
        "with an error; 255 no answer.");
    return 0;
}

static int print_verb_help(const struct verb *verb)
{
    uint32_t flags = verb->required | verb->allowed | ALWAYS;
    (void)printf("usage: mudax %s [options]\n%s\n\n", verb->name, verb->help);
    for (int flag = 0; flag < FLAGS; flag++) {
        if ((flags & FLAG_BIT(flag)) == 0)
            continue;
        char title[64];
        (void)snprintf(title, sizeof title, "%s %s", flag_name((enum flag)flag),
                       flag_placeholder((enum flag)flag));
        (void)printf("  %-38s%s%s\n", title, flag_help((enum flag)flag),
                     (verb->required & FLAG_BIT(flag)) != 0 ? " (required)" : "");
    }
    return 0;
}

/* ---- files ---- */

/* Reads to the end of the file. NULL on failure. */
static char *read_to_end(FILE *file, size_t *size)
{
    enum { FILE_MAX = 1 << 30, FIRST = 65536 };
    size_t capacity = FIRST;
    char *text = malloc(capacity);
    *size = 0;
    while (text != NULL) {
        *size += fread(text + *size, 1, capacity - *size - 1, file);
        if (*size < capacity - 1)
            break; /* the end, or an error */
        capacity *= 2;
        char *grown = capacity > FILE_MAX ? NULL : realloc(text, capacity);
        if (grown == NULL)
            free(text);
        text = grown;
    }
    if (text != NULL && ferror(file) != 0) {
        free(text);
        text = NULL;
    }
    if (text != NULL)
        text[*size] = '\0';
    return text;
}

char *read_file(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    char *text = file == NULL ? NULL : read_to_end(file, size);
    if (file != NULL)
        (void)fclose(file);
    if (text == NULL)
        (void)report_usage("the file %s cannot be read, or is too large", path);
    return text;
}

/* ---- calls ---- */

static uint64_t now_us(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

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
        .key = of[FLAG_KEY].value,
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
        .consistent_read = of[FLAG_CONSISTENT_READ].truth,
        .start_table = of[FLAG_EXCLUSIVE_START_TABLE_NAME].text,
        .wants_verdict = of[FLAG_VERDICT].truth,
    };
}

/* The place of a flag's word among `words`, 0 if it is not given; -1: a message is written. */
static int find_word(enum flag flag, const struct argument *argument, const char *const *words,
                     int count)
{
    if (!argument->is_given)
        return 0;
    for (int i = 0; i < count; i++)
        if (words[i] != NULL && strcmp(words[i], argument->text) == 0)
            return i;
    (void)report_usage("error parsing parameter '%s': there is no %s", flag_name(flag),
                       argument->text);
    return -1;
}

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
    int returned = find_word(FLAG_RETURN_VALUES, &arguments->of[FLAG_RETURN_VALUES], returns,
                             sizeof returns / sizeof returns[0]);
    int selected = find_word(FLAG_SELECT, &arguments->of[FLAG_SELECT], selects,
                             sizeof selects / sizeof selects[0]);
    if (returned < 0 || selected < 0)
        return false;
    request->return_values = (enum mudax_return_values)returned;
    request->select = (enum mudax_select)selected;
    return true;
}

static int call(struct mudax *db, const struct verb *verb, const struct mudax_request *request)
{
    struct mudax_reply *reply = NULL;
    struct mudax_error error;
    if (request->wants_verdict) { /* connects, so that the time shown is the request's own */
        struct mudax_request ping = {.operation = MUDAX_PING};
        if (mudax_call(db, &ping, NULL, &error) != MUDAX_OK)
            return report_error(&error, verb->operation_name);
    }
    uint64_t begun_us = now_us();
    if (mudax_call(db, request, &reply, &error) != MUDAX_OK)
        return report_error(&error, verb->operation_name);
    uint64_t took_us = now_us() - begun_us;
    int exit_code = verb->print == NULL ? 0 : verb->print(reply);
    if (request->wants_verdict)
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
    return import_model(db, arguments->file, &options);
}

static int run_call(struct mudax *db, const struct verb *verb, const struct arguments *arguments)
{
    struct mudax_request request = make_request(verb, arguments);
    struct mudax_value *definition = NULL;
    if (!read_words(arguments, &request))
        return EXIT_USAGE;
    if (verb->operation == MUDAX_CREATE_TABLE) {
        definition = make_definition(arguments);
        if (definition == NULL)
            return report_no_memory();
        request.definition = definition;
        request.table = NULL; /* its name is in the definition */
    }
    int exit_code = call(db, verb, &request);
    mudax_free(definition);
    return exit_code;
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
    exit_code = verb->operation == 0 ? run_import(db, arguments) : run_call(db, verb, arguments);
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

int main(int count, char **words)
{
    if (count < 2)
        return report_usage("the verb is missing");
    if (strcmp(words[1], "help") == 0 || strcmp(words[1], "--help") == 0)
        return print_help();
    if (strcmp(words[1], "--version") == 0)
        return printf("mudax %s\n", mudax_version()) < 0;
    const struct verb *verb = find_verb(words[1]);
    if (verb == NULL)
        return report_usage("there is no verb %s", words[1]);
    if (count == 3 && (strcmp(words[2], "help") == 0 || strcmp(words[2], "--help") == 0))
        return print_verb_help(verb);
    struct arguments arguments;
    uint32_t allowed = verb->required | verb->allowed | ALWAYS;
    int exit_code = EXIT_USAGE;
    if (arguments_read(count - 2, words + 2, allowed, verb->operation == 0, &arguments))
        exit_code = run(verb, &arguments);
    arguments_free(&arguments);
    return exit_code;
}
