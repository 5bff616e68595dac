/* Runs a script of clients before a cache and a backend behind it: see README.md. */
#include "cache/cache.h"
#include "protocol/encoding/msgpack.h"
#include "protocol/ensure.h"
#include "tests/support/fake_backend.h"
#include "tests/support/session.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { CLIENTS_MAX = 8, WORDS_MAX = 32, PAGE_MAX = 1024, FETCHES_MAX = 64, RULES_MAX = 8 };

struct client {
    char name[16];
    struct session session;
    struct session_call call;
    bool is_asking;
};

struct scenario {
    const char *path;
    int line;
    struct cache_options options;
    struct cache_rule rules[RULES_MAX];
    struct fake_backend *fake;
    struct backend *cache;
    struct client clients[CLIENTS_MAX];
    size_t client_count;
    uint64_t now_us;
    struct session helper; /* encodes */
    const struct call *expected[FETCHES_MAX];
    size_t expected_count;
    char *words[WORDS_MAX + 1];
    size_t word_count;
};

static struct scenario scenario;

__attribute__((format(printf, 1, 2))) static _Noreturn void fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "%s:%d: ", scenario.path, scenario.line);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(1);
}

/* --- Words --- */

static const char *word(size_t i)
{
    return i < scenario.word_count ? scenario.words[i] : "";
}

static bool is_word(size_t i, const char *text)
{
    return strcmp(word(i), text) == 0;
}

static uint64_t number_at(size_t i)
{
    char *end;
    unsigned long long number = strtoull(word(i), &end, 10);
    if (end == word(i))
        fail("a number, not '%s'", word(i));
    return number;
}

/* "300 s", "10 ms" */
static uint64_t duration_us_at(size_t i)
{
    return number_at(i) * (is_word(i + 1, "ms") ? 1000 : 1000000);
}

static bool is_sorted(const char *table)
{
    return strcmp(table, "events") == 0;
}

/* "7" and "7=Ada" of users; "x/3" and "x/3=Ada" of events, as canonical bytes. */
static struct bytes item_of(const char *table, const char *text)
{
    char json[512], key[64];
    const char *value = strchr(text, '=');
    snprintf(key, sizeof key, "%.*s", value == NULL ? 63 : (int)(value - text), text);
    char *sort = strchr(key, '/');
    if (sort != NULL)
        *sort++ = '\0';
    if ((sort != NULL) != is_sorted(table))
        fail("'%s' is no key of %s", text, table);
    int size = sort == NULL
                   ? snprintf(json, sizeof json, "{'id': {'S': '%s'}", key)
                   : snprintf(json, sizeof json, "{'p': {'S': '%s'}, 's': {'S': '%s'}", key, sort);
    if (value != NULL)
        size += snprintf(json + size, sizeof json - (size_t)size, ", 'v': {'S': '%s'}", value + 1);
    snprintf(json + size, sizeof json - (size_t)size, "}");
    return session_item(&scenario.helper, json);
}

static const struct table *table_of(const char *name)
{
    for (int i = 0; i < FAKE_TABLES_MAX; i++)
        if (scenario.fake->tables[i].id != 0 &&
            bytes_equal(scenario.fake->tables[i].name, bytes_text(name)))
            return &scenario.fake->tables[i];
    fail("no table '%s'", name);
}

static struct item_key key_of(const char *table, const char *text)
{
    struct item_key key;
    struct error error;
    if (item_key_build(item_of(table, text), &table_of(table)->key, false, &scenario.helper.arena,
                       &key, &error) != STATUS_OK)
        fail("%s", error.text);
    return key;
}

/* A page of at most 15 items, from the words on. */
static struct bytes page_of(const char *table, size_t from, uint32_t *count)
{
    struct buffer body = {0};
    size_t first = from;
    while (from < scenario.word_count && strchr(word(from), '=') != NULL)
        from++;
    *count = (uint32_t)(from - first);
    uint8_t head[] = {0x93, (uint8_t)(0x90 | *count)};
    ensure(buffer_append(&body, bytes_of(head, sizeof head)));
    for (size_t i = first; i < from; i++)
        ensure(buffer_append(&body, item_of(table, word(i))));
    uint8_t tail[] = {(uint8_t)*count, 0xc0};
    ensure(buffer_append(&body, bytes_of(tail, sizeof tail)));
    struct bytes copy = arena_copy(&scenario.helper.arena, buffer_bytes(&body));
    buffer_deinit(&body);
    return copy;
}

static enum status status_of(const char *name)
{
    static const char *const names[] = {
#define STATUS(name, number, client_name, http, retryable, text) [number] = #name,
#include "protocol/status.def"
#undef STATUS
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i] != NULL && strcmp(names[i], name) == 0)
            return (enum status)i;
    fail("no status '%s'", name);
}

/* --- Clients --- */

static void settle(void)
{
    for (int round = 0; round < 4; round++)
        for (size_t i = 0; i < scenario.client_count; i++)
            lane_loop_settle(&scenario.clients[i].session.loop);
}

static void open_cache(void)
{
    struct error error;
    struct backend *below = &scenario.fake->backend;
    if (scenario.cache != NULL)
        return;
    scenario.options.now_us = scenario.now_us;
    if (cache_open(&scenario.options, &below, &scenario.cache, &error) != STATUS_OK)
        fail("%s", error.text);
}

static struct client *client_named(const char *name)
{
    for (size_t i = 0; i < scenario.client_count; i++)
        if (strcmp(scenario.clients[i].name, name) == 0)
            return &scenario.clients[i];
    if (scenario.client_count == CLIENTS_MAX)
        fail("too many clients");
    open_cache();
    struct client *client = &scenario.clients[scenario.client_count++];
    snprintf(client->name, sizeof client->name, "%s", name);
    session_open(&client->session, scenario.cache);
    client->session.loop.now_us = scenario.now_us;
    return client;
}

static enum operation operation_at(size_t i)
{
    static const struct {
        const char *word;
        enum operation operation;
    } words[] = {
        {"get", OPERATION_GET_ITEM}, {"reads", OPERATION_GET_ITEM},
        {"put", OPERATION_PUT_ITEM}, {"delete", OPERATION_DELETE_ITEM},
        {"query", OPERATION_QUERY},  {"drop", OPERATION_DELETE_TABLE},
        {"purge", OPERATION_PURGE},  {"queries", OPERATION_QUERY},
        {"scan", OPERATION_SCAN},    {"scans", OPERATION_SCAN},
    };
    for (size_t w = 0; w < sizeof words / sizeof *words; w++)
        if (is_word(i, words[w].word))
            return words[w].operation;
    fail("no operation '%s'", word(i));
}

/* "x", "x 3..5", then "limit 2", "backward", "showing v" */
static void fill_query(struct client *client, size_t at)
{
    struct request *request = &client->call.call.request;
    struct session *session = &client->session;
    char json[256], low[32], high[32];
    const char *partition = word(at++);
    char *dots = strstr(word(at), "..");
    request->key_condition.text = bytes_text("p = :p");
    snprintf(json, sizeof json, "{':p': {'S': '%s'}}", partition);
    if (dots != NULL) {
        snprintf(low, sizeof low, "%.*s", (int)(dots - word(at)), word(at));
        snprintf(high, sizeof high, "%s", dots + 2);
        snprintf(json, sizeof json, "{':p': {'S': '%s'}, ':l': {'S': '%s'}, ':h': {'S': '%s'}}",
                 partition, low, high);
        request->key_condition.text = bytes_text("p = :p AND s BETWEEN :l AND :h");
        at++;
    }
    request->key_condition.values = session_item(session, json);
    if (is_word(at, "limit")) {
        request->limit = (uint32_t)number_at(at + 1);
        at += 2;
    }
    request->is_backward = is_word(at, "backward");
    at += request->is_backward;
    if (is_word(at, "showing"))
        request->projection =
            arena_copy(&scenario.helper.arena, bytes_text(word(at + 1))); /* outlives the line */
}

/* Nothing: the table; "7" or "x/3": an item; "x/" and a star: a partition */
static void fill_purge(struct client *client, const char *table, size_t at)
{
    struct request *request = &client->call.call.request;
    char text[64];
    if (at >= scenario.word_count)
        return;
    snprintf(text, sizeof text, "%s", word(at));
    char *star = strstr(text, "/*");
    if (star == NULL) {
        request->key = item_of(table, text);
        return;
    }
    *star = '\0';
    char json[128];
    snprintf(json, sizeof json, "{'p': {'S': '%s'}}", text);
    request->key = session_item(&client->session, json);
}

static void client_asks(struct client *client, size_t at)
{
    if (client->is_asking)
        fail("client %s is still waiting", client->name);
    enum operation operation = operation_at(at);
    const char *table = (const char *)table_of(word(at + 1))->name.data; /* outlives the line */
    session_call_init(&client->call, operation, table);
    struct request *request = &client->call.call.request;
    request->is_consistent = is_word(at, "reads") || is_word(at, "queries") || is_word(at, "scans");
    if (operation == OPERATION_QUERY)
        fill_query(client, at + 2);
    else if (operation == OPERATION_PURGE)
        fill_purge(client, table, at + 2);
    else if (operation == OPERATION_PUT_ITEM)
        request->item = item_of(table, word(at + 2));
    else if (operation != OPERATION_DELETE_TABLE && operation != OPERATION_SCAN)
        request->key = item_of(table, word(at + 2));
    for (size_t i = at; i + 1 < scenario.word_count; i++)
        if (is_word(i, "within"))
            client->call.call.deadline_us = scenario.now_us + duration_us_at(i + 1);
    client->is_asking = true;
    session_submit(&client->session, &client->call);
    settle();
}

static bool is_expected(const struct call *call)
{
    for (size_t i = 0; i < scenario.expected_count; i++)
        if (scenario.expected[i] == call)
            return true;
    return false;
}

static void check_fetches(void)
{
    for (const struct fake_call *held = scenario.fake->calls; held != NULL; held = held->next)
        if (!is_expected(held->call))
            fail("the backend was asked: %s %.*s", operation_name(held->call->request.operation),
                 (int)held->call->request.table_name.size, held->call->request.table_name.data);
}

static const char *verdict_name(enum verdict verdict)
{
    static const char *const names[] = {"none", "hit", "miss", "bypass", "stale"};
    return names[verdict];
}

static struct bytes dropped_of(uint64_t items, uint64_t pages)
{
    char json[64];
    snprintf(json, sizeof json, "{'Items': {'N': '%llu'}, 'Pages': {'N': '%llu'}}",
             (unsigned long long)items, (unsigned long long)pages);
    return session_item(&scenario.helper, json);
}

/* "dropped ITEMS PAGES", "nothing", "ok", "error NAME", "7=Ada", "page ..."; the last word may be a
 * verdict */
static void client_receives(struct client *client, size_t at)
{
    static const char *const verdicts[] = {"hit", "miss", "bypass", "stale"};
    const struct reply *reply = &client->call.call.reply;
    if (!client->is_asking || !client->call.is_complete)
        fail("client %s has no answer", client->name);
    for (size_t i = 0; i < sizeof verdicts / sizeof *verdicts; i++)
        if (is_word(scenario.word_count - 1, verdicts[i])) {
            scenario.word_count--;
            if (strcmp(verdict_name(reply->verdict), verdicts[i]) != 0)
                fail("a %s, not a %s", verdict_name(reply->verdict), verdicts[i]);
        }
    enum status expected = is_word(at, "error") ? status_of(word(at + 1)) : STATUS_OK;
    if (reply->status != expected)
        fail("status %s", status_name(reply->status));
    char table[64];
    snprintf(table, sizeof table, "%.*s", (int)client->call.call.request.table_name.size,
             client->call.call.request.table_name.data);
    struct bytes body = client->call.body;
    uint32_t count = reply->count;
    if (is_word(at, "dropped"))
        body = dropped_of(number_at(at + 1), number_at(at + 2));
    else if (is_word(at, "page"))
        body = page_of(table, at + 1, &count);
    else if (is_word(at, "nothing"))
        body = BYTES_LITERAL("\xc0");
    else if (!is_word(at, "ok") && !is_word(at, "error"))
        body = item_of(table, word(at));
    if (!bytes_equal(body, client->call.body))
        fail("another body");
    if (count != reply->count)
        fail("%u items", reply->count);
    session_call_deinit(&client->call);
    client->is_asking = false;
    check_fetches();
}

static void run_client(void)
{
    struct client *client = client_named(word(1));
    if (is_word(2, "receives"))
        client_receives(client, 3);
    else if (!is_word(2, "waits"))
        client_asks(client, 2);
    else if (!client->is_asking || client->call.is_complete)
        fail("client %s does not wait", client->name);
}

/* --- The backend --- */

static struct fake_call *held_at(size_t at)
{
    enum operation operation = operation_at(at);
    char table[64], name[64];
    struct bytes key = BYTES_NONE;
    snprintf(table, sizeof table, "%s", word(at + 1));
    table[strcspn(table, ":")] = '\0';
    snprintf(name, sizeof name, "%s", word(at + 2));
    name[strcspn(name, ":")] = '\0';
    if (operation == OPERATION_QUERY) {
        strcat(name, "/-");
        key = item_key_partition(key_of(table, name));
    } else if (operation != OPERATION_DELETE_TABLE && operation != OPERATION_SCAN) {
        key = key_of(table, name).bytes;
    }
    /* The latest of several is named so, else the oldest is meant. */
    struct fake_call *found = fake_backend_find(scenario.fake, operation, table, key);
    if (is_word(scenario.word_count - 1, "(newest)")) {
        scenario.word_count--;
        for (struct fake_call *next = found; next != NULL; next = next->next)
            if (next->call->request.operation == operation)
                found = next;
    }
    if (found == NULL)
        fail("the backend was not asked");
    return found;
}

static void backend_expects(void)
{
    enum operation operation = operation_at(2);
    for (struct fake_call *held = held_at(2); held != NULL; held = held->next) {
        if (held->call->request.operation != operation || is_expected(held->call))
            continue;
        if (scenario.expected_count == FETCHES_MAX)
            fail("too many fetches");
        scenario.expected[scenario.expected_count++] = held->call;
        return;
    }
    fail("the backend was not asked again");
}

static void forget_expected(const struct call *call)
{
    for (size_t i = 0; i < scenario.expected_count; i++)
        if (scenario.expected[i] == call)
            scenario.expected[i] = scenario.expected[--scenario.expected_count];
}

/* "page ... [up to SORT]" */
static void answer_page(struct fake_call *held, const char *table, size_t at)
{
    uint32_t count;
    struct bytes body = page_of(table, at + 1, &count);
    struct key_interval examined = held->call->request.range.interval;
    for (size_t i = at; i + 2 < scenario.word_count; i++)
        if (is_word(i, "up") && is_word(i + 1, "to")) {
            size_t size = strlen(word(i + 2));
            /* Just behind it: the terminator is the smallest byte. */
            examined.high = arena_copy(held->call->arena, bytes_of(word(i + 2), size + 1));
        }
    fake_call_answer_page(&held, body, count, examined, scenario.now_us);
}

static void backend_answers(void)
{
    struct fake_call *held = held_at(2);
    const char *table = word(3);
    size_t at = 2;
    while (at < scenario.word_count && word(at)[strlen(word(at)) - 1] != ':')
        at++;
    at++;
    scenario.words[3][strcspn(table, ":")] = '\0';
    forget_expected(held->call);
    if (is_word(scenario.word_count - 1, "late"))
        fake_call_touch(held);
    if (is_word(at, "page"))
        answer_page(held, table, at);
    else if (is_word(at, "error"))
        fake_call_answer(&held, status_of(word(at + 1)), BYTES_NONE, true, scenario.now_us);
    else if (is_word(at, "ok"))
        fake_call_answer(&held, STATUS_OK, BYTES_LITERAL("\xc0"), !is_word(at + 1, "blindly"),
                         scenario.now_us);
    else if (is_word(at, "nothing"))
        fake_call_answer(&held, STATUS_OK, BYTES_LITERAL("\xc0"), false, scenario.now_us);
    else
        fake_call_answer(&held, STATUS_OK, item_of(table, word(at)), false, scenario.now_us);
    settle();
}

static void backend_announces(void)
{
    struct fake_call *held = held_at(2);
    forget_expected(held->call);
    scenario.expected[scenario.expected_count++] = held->call;
    if (is_word(5, "also"))
        fake_call_announce_also(held, key_of(word(3), word(6)));
    else
        fake_call_announce(held);
}

static void run_backend(void)
{
    if (is_word(1, "expects") && is_word(2, "nothing"))
        check_fetches();
    else if (is_word(1, "expects"))
        backend_expects();
    else if (is_word(1, "answers"))
        backend_answers();
    else if (is_word(1, "announces"))
        backend_announces();
    else
        fail("the backend does not '%s'", word(1));
}

/* --- The rest --- */

static void keep_house(void)
{
    for (int i = 0; i < 1000 && cache_housekeep(scenario.cache, scenario.now_us); i++)
        continue;
}

static void run_time(void)
{
    uint64_t step_us = duration_us_at(1);
    scenario.now_us += step_us;
    for (size_t i = 0; i < scenario.client_count; i++)
        lane_loop_advance(&scenario.clients[i].session.loop, step_us);
    settle();
}

/* "1024 users 7": so many puts of it, of which nobody learns what became. */
static void run_unknown(void)
{
    struct client *client = client_named("unknown");
    const struct table *table = table_of(word(2));
    struct bytes item = item_of(word(2), word(3));
    for (uint64_t left = number_at(1); left > 0; left--) {
        session_call_init(&client->call, OPERATION_PUT_ITEM, (const char *)table->name.data);
        client->call.call.request.item = item;
        session_submit(&client->session, &client->call);
        struct fake_call *held = fake_backend_find(scenario.fake, OPERATION_PUT_ITEM, word(2),
                                                   key_of(word(2), word(3)).bytes);
        fake_call_announce(held);
        fake_call_answer(&held, STATUS_OUTCOME_UNKNOWN, BYTES_NONE, false, scenario.now_us);
        session_call_deinit(&client->call);
    }
}

static bool set_time(size_t at, const char *name, uint32_t *ms)
{
    bool is_meant = is_word(at, name);
    if (is_meant)
        *ms = (uint32_t)(duration_us_at(at + 1) / 1000);
    return is_meant;
}

/* The setting at `at`; returns how many words it took, 0: it is none of a policy's. */
static size_t set_policy(struct cache_policy *policy, size_t at)
{
    if (is_word(at, "off"))
        policy->is_enabled = false;
    else if (is_word(at, "refresh_ahead")) {
        policy->refresh_percent = (uint32_t)number_at(at + 1);
        return 2;
    } else if (is_word(at, "on"))
        policy->is_enabled = true;
    else if (is_word(at, "shadow"))
        policy->is_shadow = true;
    else if (is_word(at, "without_items"))
        policy->is_without_items = true;
    else if (set_time(at, "item_ttl", &policy->item_ttl_ms) ||
             set_time(at, "query_ttl", &policy->query_ttl_ms) ||
             set_time(at, "negative_ttl", &policy->negative_ttl_max_ms) ||
             set_time(at, "stale_while_refetch", &policy->stale_while_refetch_ms) ||
             set_time(at, "stale_if_error", &policy->stale_if_error_ms))
        return 3;
    else
        return 0;
    return 1;
}

static void publish_policies(void)
{
    struct error error;
    if (scenario.cache != NULL &&
        cache_policies_set(scenario.cache, &scenario.options.policies, &error) != STATUS_OK)
        fail("%s", error.text);
}

static void run_cache(void)
{
    for (size_t at = 1, used; at < scenario.word_count; at += used) {
        used = set_policy(&scenario.options.policies.fallback, at);
        if (used == 0 && is_word(at, "waiters"))
            scenario.options.waiters_max = (uint32_t)number_at(at + 1), used = 2;
        if (used == 0)
            fail("no setting '%s'", word(at));
    }
    publish_policies();
}

/* "table=users", and the like. */
static bool set_text(size_t at, const char *name, struct bytes *text)
{
    size_t size = strlen(name);
    bool is_meant = strncmp(word(at), name, size) == 0 && word(at)[size] == '=';
    if (is_meant)
        *text = arena_copy(&scenario.helper.arena, bytes_text(word(at) + size + 1));
    return is_meant;
}

static struct cache_rule *rule_named(const char *name)
{
    struct cache_policies *policies = &scenario.options.policies;
    for (size_t i = 0; i < policies->rule_count; i++)
        if (bytes_equal(scenario.rules[i].name, bytes_text(name)))
            return &scenario.rules[i];
    if (policies->rule_count == RULES_MAX)
        fail("too many policies");
    struct cache_rule *rule = &scenario.rules[policies->rule_count++];
    *rule = (struct cache_rule){.policy = policies->fallback};
    rule->name = arena_copy(&scenario.helper.arena, bytes_text(name));
    policies->rules = scenario.rules;
    return rule;
}

/* "policy orders table=events sort_key=ORDER* item_ttl 5 s", "policy none" */
static void run_policy(void)
{
    if (is_word(1, "none")) {
        scenario.options.policies.rule_count = 0;
        publish_policies();
        return;
    }
    struct cache_rule *rule = rule_named(word(1));
    for (size_t at = 2, used; at < scenario.word_count; at += used) {
        used = set_policy(&rule->policy, at);
        if (set_text(at, "table", &rule->table) || set_text(at, "index", &rule->index) ||
            set_text(at, "partition_key", &rule->partition_key) ||
            set_text(at, "sort_key", &rule->sort_key) ||
            set_text(at, "attribute", &rule->attribute) || set_text(at, "value", &rule->value))
            used = 1;
        if (used == 0)
            fail("no setting '%s'", word(at));
    }
    publish_policies();
}

struct sought {
    const char *name;
    double value;
    bool is_found;
};

static void seek(void *arg, const struct metric *metric, const char *labels, double value)
{
    struct sought *sought = arg;
    char name[256];
    snprintf(name, sizeof name, labels[0] == '\0' ? "%s" : "%s{%s}", metric->name, labels);
    if (strcmp(name, sought->name) == 0) {
        sought->is_found = true;
        sought->value += value;
    }
}

/* Commas part words, so that labels are parted by semicolons. */
static void run_figure(void)
{
    for (char *at = scenario.words[1]; *at != '\0'; at++)
        *at = *at == ';' ? ',' : *at;
    struct sought sought = {.name = word(1)};
    scenario.cache->ops->report(scenario.cache, seek, &sought);
    if (!sought.is_found)
        fail("no figure '%s'", word(1));
    if ((uint64_t)sought.value != number_at(2))
        fail("%s is %.0f", word(1), sought.value);
}

/* "users item cold 2": so many misses for that reason */
static void run_misses(void)
{
    char name[200];
    snprintf(name, sizeof name, "cache_miss_reasons_total{table=\"%s\",kind=\"%s\",reason=\"%s\"}",
             word(1), word(2), word(3));
    struct sought sought = {.name = name};
    scenario.cache->ops->report(scenario.cache, seek, &sought);
    if ((uint64_t)sought.value != number_at(4))
        fail("%s %s %s: %.0f", word(1), word(2), word(3), sought.value);
}

static void run_line(void)
{
    if (is_word(0, "client"))
        run_client();
    else if (is_word(0, "backend"))
        run_backend();
    else if (is_word(0, "time"))
        run_time();
    else if (is_word(0, "unknown"))
        run_unknown();
    else if (is_word(0, "housekeeping"))
        keep_house();
    else if (is_word(0, "cache"))
        run_cache();
    else if (is_word(0, "policy"))
        run_policy();
    else if (is_word(0, "purge"))
        cache_purge(scenario.cache);
    else if (is_word(0, "figure"))
        run_figure();
    else if (is_word(0, "misses"))
        run_misses();
    else
        fail("no '%s'", word(0));
}

static void split(char *line)
{
    line[strcspn(line, "#\n")] = '\0';
    scenario.word_count = 0;
    for (char *at = strtok(line, " ,\t"); at != NULL; at = strtok(NULL, " ,\t")) {
        if (scenario.word_count == WORDS_MAX)
            fail("too many words");
        scenario.words[scenario.word_count++] = at;
    }
}

static void finish(void)
{
    check_fetches();
    for (size_t i = 0; i < scenario.client_count; i++) {
        struct client *client = &scenario.clients[i];
        lane_loop_advance(&client->session.loop, 1000000); /* timers that are of no use any more */
        if (client->is_asking)
            fail("client %s never looked at its answer", client->name);
        session_close(&client->session);
    }
    session_close(&scenario.helper);
    scenario.cache->ops->close(&scenario.cache);
}

int main(int argc, char **argv)
{
    ensure(argc == 2);
    scenario.path = argv[1];
    FILE *file = fopen(argv[1], "r");
    if (file == NULL)
        fail("cannot be read");
    scenario.now_us = 1000000;
    scenario.options = (struct cache_options){
        .memory_bytes = CACHE_MEMORY_MIN,
        .threads = 1,
        .seed = 7,
        .waiters_max = 100,
        .policies.fallback = {.is_enabled = true,
                              .item_ttl_ms = 300000,
                              .query_ttl_ms = 300000,
                              .negative_ttl_max_ms = 60000},
    };
    scenario.fake = fake_backend_open();
    fake_backend_table(scenario.fake, 1, "users", "id", NULL);
    fake_backend_table(scenario.fake, 2, "events", "p", "s");
    fake_backend_table(scenario.fake, 3, "others", "id", NULL);
    session_open(&scenario.helper, &scenario.fake->backend);
    char line[1024];
    while (fgets(line, sizeof line, file) != NULL) {
        scenario.line++;
        split(line);
        if (scenario.word_count != 0)
            run_line();
    }
    fclose(file);
    finish();
    return 0;
}
