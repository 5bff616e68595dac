#include "tests/conformance/script.h"

#include "cache/cache.h"
#include "protocol/encoding/msgpack.h"
#include "protocol/ensure.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    CASES_MAX = 256,
    LINES_MAX = 4096,
    TABLES_MAX = 8,
    EXPECTED_MAX = 64,
    LARGE_BYTES = 200000, /* a cache may want to see these twice before it keeps them */
};

struct script {
    char *text;
    char *lines[LINES_MAX];
    size_t line_count;
    size_t cases[CASES_MAX]; /* index of the line that begins it */
    size_t case_count;
};

/* ---- reading ---- */

static char *read_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    ensure(file != NULL);
    ensure(fseek(file, 0, SEEK_END) == 0);
    long size = ftell(file);
    rewind(file);
    char *text = calloc(1, (size_t)size + 1);
    ensure(text != NULL && fread(text, 1, (size_t)size, file) == (size_t)size);
    fclose(file);
    return text;
}

struct script *script_read(const char *path)
{
    struct script *script = calloc(1, sizeof *script);
    ensure(script != NULL);
    script->text = read_file(path);
    char *rest = script->text;
    for (char *line; (line = strsep(&rest, "\n")) != NULL;) {
        if (line[0] == '\0' || line[0] == '#')
            continue;
        ensure(script->line_count < LINES_MAX);
        if (strncmp(line, "case ", 5) == 0) {
            ensure(script->case_count < CASES_MAX);
            script->cases[script->case_count++] = script->line_count;
        }
        ensure(script->case_count != 0);
        script->lines[script->line_count++] = line;
    }
    return script;
}

void script_free(struct script *script)
{
    free(script->text);
    free(script);
}

size_t script_cases(const struct script *script)
{
    return script->case_count;
}

const char *script_case_name(const struct script *script, size_t i)
{
    return script->lines[script->cases[i]] + 5;
}

/* ---- one case under way ---- */

struct run {
    const struct script_stage *stage;
    struct session *session; /* of this line */
    const char *line;        /* being run, for the text */
    char *why;
    size_t why_size;
    bool has_failed;
    char tables[TABLES_MAX][300];
    size_t table_count;
    /* the last reply */
    struct reply reply;
    enum operation operation;
    const char *table; /* of a data operation */
    struct bytes key;  /* of a GetItem */
    /* of this line */
    bool is_consistent;
    bool is_count;    /* a page shows only how many items there are */
    bool shows_parts; /* what was read cannot be written as it was shown */
    /* what it must be */
    const char *expected[EXPECTED_MAX];
    size_t expected_count;
};

static void fail_run(struct run *run, const char *format, ...) PRINTF_LIKE(2, 3);
static void fail_run(struct run *run, const char *format, ...)
{
    if (run->has_failed)
        return;
    run->has_failed = true;
    int size = snprintf(run->why, run->why_size, "%.200s\n    ", run->line);
    va_list args;
    va_start(args, format);
    vsnprintf(run->why + size, run->why_size - (size_t)size, format, args);
    va_end(args);
}

static void append_text(struct buffer *buffer, const char *text, size_t size)
{
    ensure(buffer_append(buffer, bytes_of(text, size)));
}

static void append_number(struct buffer *out, int number)
{
    char text[16];
    append_text(out, text, (size_t)snprintf(text, sizeof text, "%d", number));
}

/* The parenthesis that ends what `line` begins with. */
static const char *matching(const char *line)
{
    int depth = 0;
    for (;; line++) {
        ensure(*line != '\0');
        depth += (*line == '(') - (*line == ')');
        if (*line == ')' && depth == 0)
            return line;
    }
}

/* Replaces $i, $n and $(TEXT*N) up to `end`. */
static void expand_into(struct buffer *out, const char *line, const char *end, int i, int n)
{
    while (line < end) {
        if (line[0] == '$' && line[1] == '(') {
            const char *close = matching(line + 1), *star = close;
            while (*star != '*')
                star--;
            unsigned long times = strtoul(star + 1, NULL, 10);
            for (unsigned long k = 0; k < times; k++)
                expand_into(out, line + 2, star, i, (int)k + 1);
            line = close + 1;
        } else if (line[0] == '$' && (line[1] == 'i' || line[1] == 'n')) {
            append_number(out, line[1] == 'i' ? i : n);
            line += 2;
        } else {
            append_text(out, line++, 1);
        }
    }
}

/* The result is the session's. */
static char *expand(struct run *run, const char *line, int i)
{
    struct buffer out = {0};
    expand_into(&out, line, line + strlen(line), i, 0);
    append_text(&out, "", 1);
    struct bytes copy = arena_copy(&run->session->arena, buffer_bytes(&out));
    ensure(bytes_given(copy));
    buffer_deinit(&out);
    return (char *)(uintptr_t)copy.data;
}

/* ---- words of a line ---- */

static char *skip_blanks(char *at)
{
    while (*at == ' ')
        at++;
    return at;
}

static char *take_word(char **at)
{
    char *word = skip_blanks(*at);
    char *end = word + strcspn(word, " ");
    *at = *end == '\0' ? end : end + 1;
    *end = '\0';
    return word;
}

/* {..} with its matching brace, or ".." */
static char *take_enclosed(char **at)
{
    char *begin = skip_blanks(*at), *end = begin;
    if (*begin == '"') {
        end = strchr(begin + 1, '"');
        ensure(end != NULL);
        *end = '\0';
        *at = end + 1;
        return begin + 1;
    }
    int depth = 0;
    bool is_quoted = false;
    do {
        if (*end == '\\')
            end++;
        else if (*end == '"')
            is_quoted = !is_quoted;
        else if (!is_quoted && (*end == '{' || *end == '}'))
            depth += *end == '{' ? 1 : -1;
        ensure(*end != '\0');
        end++;
    } while (depth != 0);
    *at = *end == '\0' ? end : end + 1;
    *end = '\0';
    return begin;
}

/* ---- requests ---- */

/* Text that is no item is refused before it reaches a backend, with the same errors. */
static bool parse_item(struct run *run, const char *json, struct bytes *out)
{
    run->reply.status = session_try_item(run->session, json, out, &run->reply.error);
    run->reply.error.status = run->reply.status;
    return run->reply.status == STATUS_OK;
}

/* What a protocol does not speak goes past it. */
static enum over over_of(const struct run *run, enum operation operation)
{
    bool is_http = run->stage->over == OVER_HTTP;
    bool is_our_own = operation >= OPERATION_PURGE;
    bool is_spoken = operation_is_spoken(operation) && !(is_http && is_our_own);
    return run->session == run->stage->session && is_spoken ? run->stage->over : OVER_NOTHING;
}

static void run_call(struct run *run, struct session_call *call)
{
    struct arena *arena = &run->session->arena;
    enum over over = over_of(run, call->call.request.operation);
    run->operation = call->call.request.operation;
    if (over != OVER_NOTHING && !over_request(over, &call->call.request, arena, &run->reply))
        return;
    session_run(run->session, call);
    run->reply = call->call.reply;
    if (bytes_given(call->body))
        run->reply.body = arena_copy(&run->session->arena, call->body);
    if (bytes_given(call->call.reply.capacity))
        run->reply.capacity = arena_copy(&run->session->arena, call->call.reply.capacity);
    if (bytes_given(call->call.reply.metrics))
        run->reply.metrics = arena_copy(&run->session->arena, call->call.reply.metrics);
    if (bytes_given(call->call.reply.details))
        run->reply.details = arena_copy(&run->session->arena, call->call.reply.details);
    if (over != OVER_NOTHING)
        over_reply(over, &call->call.request, &run->reply, arena);
}

static enum return_values return_values_of(const char *word)
{
    static const char *const words[RETURN_VALUES] = {
        [RETURN_NONE] = "NONE",
        [RETURN_ALL_OLD] = "ALL_OLD",
        [RETURN_UPDATED_OLD] = "UPDATED_OLD",
        [RETURN_ALL_NEW] = "ALL_NEW",
        [RETURN_UPDATED_NEW] = "UPDATED_NEW",
    };
    size_t i = 0;
    while (i + 1 < RETURN_VALUES && strcmp(word, words[i]) != 0)
        i++;
    return (enum return_values)i;
}

static enum select select_of(const char *word)
{
    static const char *const words[SELECTS] = {
        [SELECT_NOT_GIVEN] = "",
        [SELECT_ALL_ATTRIBUTES] = "ALL_ATTRIBUTES",
        [SELECT_ALL_PROJECTED_ATTRIBUTES] = "ALL_PROJECTED_ATTRIBUTES",
        [SELECT_SPECIFIC_ATTRIBUTES] = "SPECIFIC_ATTRIBUTES",
        [SELECT_COUNT] = "COUNT",
    };
    size_t i = 0;
    while (i + 1 < SELECTS && strcmp(word, words[i]) != 0)
        i++;
    return (enum select)i;
}

/* What may stand behind an item, a key or a key condition. False when it is not understood, or is
 * refused before it reaches a backend. */
static bool run_option(struct run *run, struct request *request, const char *word, char **rest)
{
    if (strcmp(word, "names") == 0)
        request->key_condition.names = session_plain(run->session, take_enclosed(rest));
    else if (strcmp(word, "values") == 0)
        return parse_item(run, take_enclosed(rest), &request->key_condition.values);
    else if (strcmp(word, "if") == 0)
        request->condition = bytes_text(take_enclosed(rest));
    else if (strcmp(word, "filter") == 0)
        request->filter = bytes_text(take_enclosed(rest));
    else if (strcmp(word, "do") == 0)
        request->update = bytes_text(take_enclosed(rest));
    else if (strcmp(word, "show") == 0)
        request->projection = bytes_text(take_enclosed(rest));
    else if (strcmp(word, "capacity") == 0)
        request->capacity =
            strcmp(take_word(rest), "INDEXES") == 0 ? CAPACITY_INDEXES : CAPACITY_TOTAL;
    else if (strcmp(word, "metrics") == 0)
        request->wants_metrics = true;
    else if (strcmp(word, "failed") == 0)
        request->wants_failed = true;
    else if (strcmp(word, "consistent") == 0)
        request->is_consistent = true;
    else if (strcmp(word, "select") == 0)
        request->select = select_of(take_word(rest));
    else if (strcmp(word, "returns") == 0)
        request->return_values = return_values_of(take_word(rest));
    else
        fail_run(run, "the script says \"%s\", which the request does not take", word);
    return !run->has_failed;
}

static bool run_options(struct run *run, struct request *request, char *rest)
{
    bool is_understood = true;
    while (*skip_blanks(rest) != '\0' && is_understood) {
        const char *word = take_word(&rest);
        if (request->operation == OPERATION_QUERY && strcmp(word, "index") == 0)
            request->index_name = bytes_text(take_word(&rest));
        else
            is_understood = run_option(run, request, word, &rest);
    }
    return is_understood;
}

static void run_key(struct run *run, enum operation operation, char *rest)
{
    struct session_call call;
    run->table = take_word(&rest);
    session_call_init(&call, operation, run->table);
    struct bytes item;
    if (parse_item(run, take_enclosed(&rest), &item) &&
        run_options(run, &call.call.request, rest)) {
        if (operation == OPERATION_PUT_ITEM)
            call.call.request.item = item;
        else
            call.call.request.key = item;
        call.call.request.is_consistent = run->is_consistent;
        run->shows_parts = bytes_given(call.call.request.projection);
        run->key = item;
        run_call(run, &call);
    }
    session_call_deinit(&call);
}

static void run_page(struct run *run, enum operation operation, char *rest)
{
    struct session_call call;
    run->table = take_word(&rest);
    session_call_init(&call, operation, run->table);
    struct request *request = &call.call.request;
    if (operation == OPERATION_QUERY)
        request->key_condition.text = bytes_text(take_enclosed(&rest));
    request->is_consistent = run->is_consistent;
    bool is_understood = true;
    while (*skip_blanks(rest) != '\0' && is_understood) {
        const char *word = take_word(&rest);
        if (strcmp(word, "backward") == 0)
            request->is_backward = true;
        else if (strcmp(word, "limit") == 0)
            request->limit = (uint32_t)strtoul(take_word(&rest), NULL, 10);
        else if (strcmp(word, "index") == 0)
            request->index_name = bytes_text(take_word(&rest));
        else if (strcmp(word, "segment") == 0) {
            request->has_segment = true;
            request->segment = (uint32_t)strtoul(take_word(&rest), NULL, 10);
        } else if (strcmp(word, "segments") == 0)
            request->segments = (uint32_t)strtoul(take_word(&rest), NULL, 10);
        else if (strcmp(word, "start") == 0)
            is_understood = parse_item(run, take_enclosed(&rest), &request->start_key);
        else
            is_understood = run_option(run, request, word, &rest);
    }
    run->is_count = request->select == SELECT_COUNT;
    run->shows_parts =
        run->is_count || bytes_given(request->projection) || bytes_given(request->index_name);
    if (is_understood)
        run_call(run, &call);
    session_call_deinit(&call);
}

enum { PARTS_MAX = 128 };

static enum operation part_of(const char *verb)
{
    if (strcmp(verb, "put") == 0)
        return OPERATION_PUT_ITEM;
    if (strcmp(verb, "delete") == 0)
        return OPERATION_DELETE_ITEM;
    if (strcmp(verb, "update") == 0)
        return OPERATION_UPDATE_ITEM;
    return strcmp(verb, "check") == 0 ? OPERATION_CONDITION_CHECK : OPERATION_GET_ITEM;
}

/* VERB T {..} options, up to a semicolon or the end. */
static bool run_part(struct run *run, const char *verb, struct request *part, char **rest)
{
    struct bytes item;
    *part = (struct request){.operation = part_of(verb)};
    part->table_name = bytes_text(take_word(rest));
    if (!parse_item(run, take_enclosed(rest), &item))
        return false;
    *(part->operation == OPERATION_PUT_ITEM ? &part->item : &part->key) = item;
    bool is_understood = true;
    while (*skip_blanks(*rest) != '\0' && is_understood) {
        const char *word = take_word(rest);
        if (strcmp(word, ";") == 0)
            break;
        is_understood = run_option(run, part, word, rest);
    }
    return is_understood;
}

static void run_parts(struct run *run, enum operation operation, char *rest)
{
    static struct request parts[PARTS_MAX];
    struct session_call call;
    session_call_init(&call, operation, NULL);
    struct request *request = &call.call.request;
    request->parts = parts;
    bool is_understood = true;
    while (*skip_blanks(rest) != '\0' && is_understood) {
        const char *verb = take_word(&rest);
        if (strcmp(verb, "capacity") == 0 || strcmp(verb, "metrics") == 0) {
            is_understood = run_option(run, request, verb, &rest);
            continue;
        }
        if (strcmp(verb, "token") == 0) {
            request->token = bytes_text(take_word(&rest));
            continue;
        }
        ensure(request->part_count < PARTS_MAX);
        is_understood = run_part(run, verb, &parts[request->part_count++], &rest);
    }
    if (is_understood)
        run_call(run, &call);
    session_call_deinit(&call);
}

static void remember_table(struct run *run, const char *name)
{
    ensure(run->table_count < TABLES_MAX);
    snprintf(run->tables[run->table_count++], sizeof run->tables[0], "%s", name);
}

static void run_table(struct run *run, enum operation operation, char *rest)
{
    struct session_call call;
    const char *name = take_word(&rest);
    session_call_init(&call, operation, *name == '\0' ? NULL : name);
    if (operation == OPERATION_LIST_TABLES) {
        call.call.request.limit = (uint32_t)strtoul(name, NULL, 10);
        char *start = take_word(&rest);
        call.call.request.table_name = *start == '\0' ? BYTES_NONE : bytes_text(start);
    }
    run_call(run, &call);
    session_call_deinit(&call);
}

static void run_define(struct run *run, char *rest)
{
    struct session_call call;
    session_call_init(&call, OPERATION_CREATE_TABLE, NULL);
    call.call.request.definition = session_plain(run->session, rest);
    run_call(run, &call);
    struct bytes name;
    if (run->reply.status == STATUS_OK &&
        item_find(call.call.request.definition, BYTES_LITERAL("TableName"), &name)) {
        struct msgpack_cursor cursor = msgpack_cursor_of(name);
        char text[300];
        ensure(msgpack_read_str(&cursor, &name));
        snprintf(text, sizeof text, "%.*s", (int)name.size, (const char *)name.data);
        remember_table(run, text);
    }
    session_call_deinit(&call);
}

/* What is told by a map: UpdateTable, UpdateTimeToLive, tags. */
static void run_alter(struct run *run, enum operation operation, char *rest)
{
    struct session_call call;
    session_call_init(&call, operation, NULL);
    call.call.request.definition = session_plain(run->session, rest);
    run_call(run, &call);
    session_call_deinit(&call);
}

/* As the daemon does it: slice after slice, until the index is ready. */
static void run_fill(struct run *run, char *rest)
{
    const char *table = take_word(&rest), *index = take_word(&rest);
    struct bytes next = BYTES_NONE;
    do {
        struct session_call call;
        session_call_init(&call, OPERATION_FILL_INDEX, table);
        call.call.request.index_name = bytes_text(index);
        call.call.request.start_key = next;
        run_call(run, &call);
        session_call_deinit(&call);
        next = run->reply.body;
    } while (run->reply.status == STATUS_OK && run->reply.count != 0);
}

/* A get, query, scan, put or delete; of a query its condition, its values and an index. */
static void run_explain(struct run *run, char *rest)
{
    struct session_call call;
    const char *verb = take_word(&rest);
    struct request part = {.operation = strcmp(verb, "query") == 0  ? OPERATION_QUERY
                                        : strcmp(verb, "scan") == 0 ? OPERATION_SCAN
                                                                    : part_of(verb)};
    bool is_understood = true;
    session_call_init(&call, OPERATION_EXPLAIN, NULL);
    part.table_name = bytes_text(take_word(&rest));
    if (part.operation == OPERATION_QUERY)
        part.key_condition.text = bytes_text(take_enclosed(&rest));
    else if (part.operation != OPERATION_SCAN)
        is_understood = parse_item(run, take_enclosed(&rest),
                                   part.operation == OPERATION_PUT_ITEM ? &part.item : &part.key);
    if (is_understood && run_options(run, &part, rest)) {
        call.call.request.parts = &part;
        call.call.request.part_count = 1;
        run_call(run, &call);
    }
    session_call_deinit(&call);
}

/* [T [{KEY}] [index NAME]] */
static void run_purge(struct run *run, char *rest)
{
    struct session_call call;
    const char *table = take_word(&rest);
    session_call_init(&call, OPERATION_PURGE, *table == '\0' ? NULL : table);
    struct request *request = &call.call.request;
    bool is_understood = true;
    if (*skip_blanks(rest) == '{')
        is_understood = parse_item(run, take_enclosed(&rest), &request->key);
    if (strcmp(take_word(&rest), "index") == 0)
        request->index_name = bytes_text(take_word(&rest));
    if (is_understood)
        run_call(run, &call);
    session_call_deinit(&call);
}

static void run_create(struct run *run, char *rest)
{
    const char *table = take_word(&rest), *partition = take_word(&rest), *sort = take_word(&rest);
    run->reply = session_create(run->session, table, partition, *sort == '\0' ? NULL : sort);
    run->operation = OPERATION_CREATE_TABLE;
    if (run->reply.status == STATUS_OK)
        remember_table(run, table);
}

static void run_policy(struct run *run, char *rest)
{
    struct cache_policies policies = {
        .fallback = {.is_enabled = true, .negative_ttl_max_ms = 60000}};
    struct cache_policy *policy = &policies.fallback;
    struct error error;
    while (*skip_blanks(rest) != '\0') {
        bool is_item = strcmp(take_word(&rest), "item") == 0;
        *(is_item ? &policy->item_ttl_ms : &policy->query_ttl_ms) =
            (uint32_t)strtoul(take_word(&rest), NULL, 10);
    }
    ensure(run->stage->cache != NULL);
    ensure(cache_policies_set(run->stage->cache, &policies, &error) == STATUS_OK);
}

static void run_request(struct run *run, const char *line, int i)
{
    char *rest = expand(run, line, i);
    const char *verb = take_word(&rest);
    run->is_consistent = strcmp(verb, "consistent") == 0;
    run->session = strcmp(verb, "behind") == 0 ? run->stage->behind : run->stage->session;
    if (run->is_consistent || run->session == run->stage->behind)
        verb = take_word(&rest);
    reply_init(&run->reply);
    run->operation = OPERATION_PING;
    if (strcmp(verb, "create") == 0)
        run_create(run, rest);
    else if (strcmp(verb, "define") == 0)
        run_define(run, rest);
    else if (strcmp(verb, "put") == 0)
        run_key(run, OPERATION_PUT_ITEM, rest);
    else if (strcmp(verb, "get") == 0)
        run_key(run, OPERATION_GET_ITEM, rest);
    else if (strcmp(verb, "delete") == 0)
        run_key(run, OPERATION_DELETE_ITEM, rest);
    else if (strcmp(verb, "update") == 0)
        run_key(run, OPERATION_UPDATE_ITEM, rest);
    else if (strcmp(verb, "query") == 0)
        run_page(run, OPERATION_QUERY, rest);
    else if (strcmp(verb, "scan") == 0)
        run_page(run, OPERATION_SCAN, rest);
    else if (strcmp(verb, "batch-get") == 0)
        run_parts(run, OPERATION_BATCH_GET_ITEM, rest);
    else if (strcmp(verb, "batch-write") == 0)
        run_parts(run, OPERATION_BATCH_WRITE_ITEM, rest);
    else if (strcmp(verb, "transact-get") == 0)
        run_parts(run, OPERATION_TRANSACT_GET_ITEMS, rest);
    else if (strcmp(verb, "transact-write") == 0)
        run_parts(run, OPERATION_TRANSACT_WRITE_ITEMS, rest);
    else if (strcmp(verb, "describe") == 0)
        run_table(run, OPERATION_DESCRIBE_TABLE, rest);
    else if (strcmp(verb, "alter") == 0)
        run_alter(run, OPERATION_UPDATE_TABLE, rest);
    else if (strcmp(verb, "live") == 0)
        run_alter(run, OPERATION_UPDATE_TIME_TO_LIVE, rest);
    else if (strcmp(verb, "tag") == 0)
        run_alter(run, OPERATION_TAG_RESOURCE, rest);
    else if (strcmp(verb, "untag") == 0)
        run_alter(run, OPERATION_UNTAG_RESOURCE, rest);
    else if (strcmp(verb, "tags") == 0)
        run_alter(run, OPERATION_LIST_TAGS_OF_RESOURCE, rest);
    else if (strcmp(verb, "describe-live") == 0)
        run_table(run, OPERATION_DESCRIBE_TIME_TO_LIVE, rest);
    else if (strcmp(verb, "explain") == 0)
        run_explain(run, rest);
    else if (strcmp(verb, "purge") == 0)
        run_purge(run, rest);
    else if (strcmp(verb, "heat") == 0)
        run_table(run, OPERATION_DESCRIBE_HEAT, rest);
    else if (strcmp(verb, "fill") == 0)
        run_fill(run, rest);
    else if (strcmp(verb, "drop") == 0)
        run_table(run, OPERATION_DELETE_TABLE, rest);
    else if (strcmp(verb, "list") == 0)
        run_table(run, OPERATION_LIST_TABLES, rest);
    else if (strcmp(verb, "time") == 0)
        lane_loop_advance(&run->session->loop, strtoull(rest, NULL, 10) * 1000);
    else if (strcmp(verb, "policy") == 0)
        run_policy(run, rest);
    else
        fail_run(run, "the script says \"%s\", which is no request", verb);
}

/* ---- replies ---- */

static void check_error(struct run *run, const char *expected)
{
    const char *colon = strchr(expected, ':');
    size_t name_size = colon == NULL ? strlen(expected) : (size_t)(colon - expected);
    const char *name = status_name(run->reply.status), *text = error_text(&run->reply.error);
    if (run->reply.status == STATUS_OK)
        fail_run(run, "succeeded, must fail with %s", expected);
    else if (strlen(name) != name_size || strncmp(name, expected, name_size) != 0 ||
             (colon != NULL && strstr(text, colon + 2) == NULL))
        fail_run(run, "failed with %s: %s\n    must fail with %s", name, text, expected);
}

static bool is_nil(struct bytes bytes)
{
    return bytes.size == 1 && bytes.data[0] == 0xc0;
}

static void check_item(struct run *run, struct bytes found, const char *json)
{
    struct bytes wanted = session_item(run->session, json);
    if (!bytes_equal(found, wanted))
        fail_run(run, "answered %.600s\n    must answer %.600s",
                 is_nil(found) ? "nothing" : session_json(run->session, found), json);
}

/* Whether a text holds another. */
static bool says(struct bytes text, const char *words)
{
    return memmem(text.data, text.size, words, strlen(words)) != NULL;
}

/* reason CODE {ITEM}, reason CODE: PART OF ITS TEXT, reason CODE, or reason None */
static void check_reason(struct run *run, struct msgpack_cursor *cursor, const char *expected)
{
    struct msgpack_head head;
    struct bytes code = BYTES_LITERAL("None"), text = BYTES_LITERAL("");
    struct bytes item = BYTES_LITERAL("\xc0");
    ensure(msgpack_read(cursor, &head));
    if (head.kind == MSGPACK_ARRAY)
        ensure(head.count == 3 && msgpack_read_str(cursor, &code) &&
               msgpack_read_str(cursor, &text) && msgpack_skip(cursor, &item));
    size_t size = strcspn(expected, ": ");
    if (!bytes_equal(code, bytes_of(expected, size)))
        fail_run(run, "a reason is %.*s, must be %s", (int)code.size, (const char *)code.data,
                 expected);
    if (expected[size] == ':' && !says(text, expected + size + 2))
        fail_run(run, "a reason says %.*s, must say %s", (int)text.size, (const char *)text.data,
                 expected + size + 2);
    if (expected[size] == ' ')
        check_item(run, item, expected + size + 1);
    else if (!is_nil(item))
        fail_run(run, "a reason shows %.300s", session_json(run->session, item));
}

/* What stands behind an error: "failed {ITEM}", or the reasons of a transaction, all of them. */
static void check_details(struct run *run)
{
    struct bytes details = run->reply.details;
    if (run->expected_count == 1 || run->has_failed)
        return;
    if (strncmp(run->expected[1], "failed ", 7) == 0) {
        check_item(run, bytes_given(details) ? details : BYTES_LITERAL("\xc0"),
                   run->expected[1] + 7);
        return;
    }
    struct msgpack_cursor cursor = msgpack_cursor_of(details);
    uint32_t count = 0;
    if (!bytes_given(details) || !msgpack_read_array(&cursor, &count) ||
        count != run->expected_count - 1)
        fail_run(run, "has %u reasons, must have %zu", count, run->expected_count - 1);
    for (uint32_t i = 0; i < count && !run->has_failed; i++) {
        ensure(strncmp(run->expected[1 + i], "reason ", 7) == 0);
        check_reason(run, &cursor, run->expected[1 + i] + 7);
    }
}

static uint64_t take_place(struct msgpack_cursor *cursor)
{
    uint64_t place = 0;
    ensure(msgpack_read_uint(cursor, &place));
    return place;
}

/* {ITEM} or absent for each request of a get; then "unprocessed PLACE" for each that is left. */
static void check_parts(struct run *run)
{
    struct msgpack_cursor cursor = msgpack_cursor_of(run->reply.body);
    bool is_get = run->operation == OPERATION_BATCH_GET_ITEM;
    uint32_t count = 0, left = 0;
    size_t at = 0;
    struct bytes item;
    if (is_get)
        ensure(msgpack_read_array(&cursor, &count) && count == 2);
    if (run->operation != OPERATION_BATCH_WRITE_ITEM)
        ensure(msgpack_read_array(&cursor, &count));
    for (uint32_t i = 0; run->operation != OPERATION_BATCH_WRITE_ITEM && i < count; i++) {
        ensure(msgpack_skip(&cursor, &item));
        if (at == run->expected_count)
            continue;
        const char *expected = run->expected[at++];
        if (strcmp(expected, "absent") != 0)
            check_item(run, item, expected);
        else if (!is_nil(item))
            fail_run(run, "answered %.600s\n    must answer nothing",
                     session_json(run->session, item));
    }
    if (run->operation != OPERATION_TRANSACT_GET_ITEMS)
        ensure(msgpack_read_array(&cursor, &left));
    for (uint32_t i = 0; i < left; i++) {
        uint64_t place = take_place(&cursor);
        if (at == run->expected_count || strncmp(run->expected[at], "unprocessed ", 12) != 0 ||
            strtoull(run->expected[at++] + 12, NULL, 10) != place)
            fail_run(run, "left request %llu", (unsigned long long)place);
    }
    if (at != run->expected_count)
        fail_run(run, "did not answer %s", run->expected[at]);
    ensure(cursor.at == cursor.end);
}

static bool has_parts(enum operation operation)
{
    return operation == OPERATION_BATCH_GET_ITEM || operation == OPERATION_BATCH_WRITE_ITEM ||
           operation == OPERATION_TRANSACT_GET_ITEMS;
}

static void check_page(struct run *run)
{
    struct msgpack_cursor cursor = msgpack_cursor_of(run->reply.body);
    uint32_t three = 0, count = 0;
    uint64_t scanned = 0, number = 0;
    struct bytes item = BYTES_NONE, last = BYTES_NONE;
    ensure(msgpack_read_array(&cursor, &three) && three == 3);
    char *of = NULL; /* "page COUNT [of SCANNED]" */
    uint32_t wanted = (uint32_t)strtoul(run->expected[0] + 5, &of, 10);
    uint64_t wanted_scanned = strncmp(of, " of ", 4) == 0 ? strtoull(of + 4, NULL, 10) : wanted;
    if (run->is_count)
        ensure(msgpack_read_uint(&cursor, &number));
    else
        ensure(msgpack_read_array(&cursor, &count));
    if (run->reply.count != wanted || (run->is_count ? number : count) != wanted)
        fail_run(run, "the page has %u items, must have %u", run->reply.count, wanted);
    size_t at = 1;
    for (uint32_t i = 0; i < count; i++) {
        ensure(msgpack_skip(&cursor, &item));
        if (at < run->expected_count && run->expected[at][0] == '{')
            check_item(run, item, run->expected[at++]);
    }
    ensure(msgpack_read_uint(&cursor, &scanned) && msgpack_skip(&cursor, &last));
    ensure(cursor.at == cursor.end);
    if (scanned != wanted_scanned)
        fail_run(run, "ScannedCount is %llu, must be %llu", (unsigned long long)scanned,
                 (unsigned long long)wanted_scanned);
    if (at < run->expected_count)
        check_item(run, last, run->expected[at] + 5);
    else if (!is_nil(last))
        fail_run(run, "LastEvaluatedKey is %s, must not be there",
                 session_json(run->session, last));
}

static void check_contains(struct run *run)
{
    const char *body = session_plain_json(run->session, run->reply.body);
    for (size_t i = 0; i < run->expected_count; i++) {
        const char *wanted = run->expected[i];
        bool is_negative = strncmp(wanted, "lacks ", 6) == 0;
        wanted += is_negative ? 6 : 9;
        if ((strstr(body, wanted) == NULL) != is_negative)
            fail_run(run, "answered %.900s\n    which must %s %s", body,
                     is_negative ? "lack" : "contain", wanted);
    }
}

static bool is_cached(const struct run *run)
{
    return run->stage->is_cache_on && run->session == run->stage->session;
}

static void check_verdict(struct run *run, const char *wanted)
{
    static const char *const names[] = {"none", "hit", "miss", "bypass", "stale"};
    const char *found = names[run->reply.verdict];
    if (is_cached(run) && strcmp(found, wanted) != 0)
        fail_run(run, "was a %s, must be a %s", found, wanted);
}

/* Takes a verdict away from what is expected; NULL: none is. */
static const char *take_verdict(struct run *run)
{
    if (run->expected_count == 0)
        return NULL;
    const char *last = run->expected[run->expected_count - 1];
    if (strncmp(last, "verdict ", 8) != 0)
        return NULL;
    run->expected_count--;
    return last + 8;
}

/* The last line that is expected may be `word` and JSON or "nothing": of what stands beside the
 * reply's body. */
static void check_beside(struct run *run, const char *word, struct bytes beside)
{
    const char *last = run->expected_count == 0 ? "" : run->expected[run->expected_count - 1];
    size_t size = strlen(word);
    if (strncmp(last, word, size) != 0)
        return;
    run->expected_count--;
    const char *found = bytes_given(beside) ? session_plain_json(run->session, beside) : "nothing";
    if (strcmp(found, last + size) != 0)
        fail_run(run, "%s%s\n    must have %s%s", word, found, word, last + size);
}

static void check_reply(struct run *run)
{
    check_beside(run, "consumed ", run->reply.capacity);
    check_beside(run, "measured ", run->reply.metrics);
    const char *first = run->expected_count == 0 ? "" : run->expected[0];
    if (strncmp(first, "error ", 6) == 0) {
        check_error(run, first + 6);
        check_details(run);
        return;
    }
    if (run->reply.status != STATUS_OK) {
        fail_run(run, "failed with %s: %s", status_name(run->reply.status),
                 error_text(&run->reply.error));
        return;
    }
    if (has_parts(run->operation))
        check_parts(run);
    else if (first[0] == '{')
        check_item(run, run->reply.body, first);
    else if (strcmp(first, "absent") == 0 && !is_nil(run->reply.body))
        fail_run(run, "answered %.600s\n    must answer nothing",
                 session_json(run->session, run->reply.body));
    else if (strncmp(first, "page ", 5) == 0)
        check_page(run);
    else if (strncmp(first, "contains ", 9) == 0 || strncmp(first, "lacks ", 6) == 0)
        check_contains(run);
    else
        ensure(first[0] == '\0' || strcmp(first, "absent") == 0);
}

static size_t collect_expected(struct run *run, const struct script *script, size_t line)
{
    run->expected_count = 0;
    while (line < script->line_count) {
        const char *text = script->lines[line];
        text += strspn(text, " ");
        if (strncmp(text, "-> ", 3) != 0)
            break;
        ensure(run->expected_count < EXPECTED_MAX);
        run->expected[run->expected_count++] = expand(run, text + 3, 0);
        line++;
    }
    return line;
}

/* Writes once more what the last read showed: its item, or the first of its page. */
static bool write_again(struct run *run)
{
    bool is_get = run->operation == OPERATION_GET_ITEM, is_absent = is_get && !run->reply.count;
    struct bytes item = run->reply.body;
    if (run->shows_parts && !is_absent)
        return false;
    if (!is_get && run->reply.count == 0)
        return false;
    if (!is_get) {
        struct msgpack_cursor cursor = msgpack_cursor_of(run->reply.body);
        uint32_t count;
        ensure(msgpack_read_array(&cursor, &count) && msgpack_read_array(&cursor, &count));
        ensure(msgpack_skip(&cursor, &item));
    }
    struct session_call call;
    session_call_init(&call, is_absent ? OPERATION_DELETE_ITEM : OPERATION_PUT_ITEM, run->table);
    *(is_absent ? &call.call.request.key : &call.call.request.item) = is_absent ? run->key : item;
    session_run(run->session, &call);
    ensure(call.call.reply.status == STATUS_OK);
    session_call_deinit(&call);
    return true;
}

/* The same answer from the cache, and after a write. */
static void read_again(struct run *run, const char *line, int i)
{
    bool is_read = run->operation == OPERATION_GET_ITEM || run->operation == OPERATION_QUERY ||
                   run->operation == OPERATION_SCAN;
    if (!is_cached(run) || !is_read || run->reply.status != STATUS_OK || run->has_failed)
        return;
    if (run->reply.body.size > LARGE_BYTES)
        run_request(run, line, i);
    run_request(run, line, i);
    check_reply(run);
    check_verdict(run, "hit");
    if (!write_again(run))
        return;
    run_request(run, line, i);
    check_reply(run);
    check_verdict(run, run->operation == OPERATION_GET_ITEM ? "hit" : "miss");
}

static void run_line(struct run *run, const char *line)
{
    long times = 1;
    run->line = line;
    if (strncmp(line, "repeat ", 7) == 0) {
        char *rest;
        times = strtol(line + 7, &rest, 10);
        line = skip_blanks(rest);
    }
    const char *verdict = take_verdict(run);
    for (int i = 1; i <= times; i++) {
        run_request(run, line, i);
        check_reply(run);
        if (verdict != NULL)
            check_verdict(run, verdict);
        else
            read_again(run, line, i);
    }
}

static void drop_tables(struct run *run)
{
    for (size_t i = 0; i < run->table_count; i++)
        (void)session_table(run->stage->session, OPERATION_DELETE_TABLE, run->tables[i]);
}

bool script_run(const struct script *script, size_t i, const struct script_stage *stage, char *why,
                size_t why_size)
{
    struct run run = {.stage = stage, .session = stage->session, .why = why, .why_size = why_size};
    size_t end = i + 1 < script->case_count ? script->cases[i + 1] : script->line_count;
    for (size_t line = script->cases[i] + 1; line < end && !run.has_failed;) {
        const char *text = script->lines[line];
        line = collect_expected(&run, script, line + 1);
        run_line(&run, text);
        run.session = stage->session; /* whose memory holds what is expected next */
    }
    drop_tables(&run);
    session_forget(stage->session);
    session_forget(stage->behind);
    return !run.has_failed;
}
