#include "clients/cli/output.h"

#include "clients/cli/parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INDENT = 4, TABLE_NAME_MAX = 255 };

/* JSON that is printed member by member. */
struct outline {
    FILE *file;
    int level;      /* of braces and brackets that are open */
    bool has_begun; /* the innermost has a member */
    bool has_failed;
};

static struct outline outline_of(FILE *file)
{
    return (struct outline){.file = file};
}

/* Begins a member of what is open; the outermost brace opens with the first.
 * name  NULL: an element of a list */
static void begin_member(struct outline *outline, const char *name)
{
    if (outline->level == 0) {
        (void)fputs("{", outline->file);
        outline->level = 1;
    }
    (void)fprintf(outline->file, "%s\n%*s", outline->has_begun ? "," : "", outline->level * INDENT,
                  "");
    if (name != NULL)
        (void)fprintf(outline->file, "\"%s\": ", name);
    outline->has_begun = true;
}

static void open_member(struct outline *outline, const char *name, char bracket)
{
    begin_member(outline, name);
    (void)fputc(bracket, outline->file);
    outline->level++;
    outline->has_begun = false;
}

static void close_member(struct outline *outline, char bracket)
{
    outline->level--;
    if (outline->has_begun)
        (void)fprintf(outline->file, "\n%*s", outline->level * INDENT, "");
    (void)fputc(bracket, outline->file);
    outline->has_begun = true;
}

/* is_plain  ordinary JSON, else DynamoDB JSON; value: a map */
static void put_map(struct outline *outline, const char *name, const struct mudax_value *value,
                    bool is_plain)
{
    char *text = (is_plain ? mudax_to_plain_json : mudax_to_json)(value, INDENT);
    if (text == NULL) {
        outline->has_failed = true;
        return;
    }
    begin_member(outline, name);
    for (const char *at = text; *at != '\0'; at++) { /* no string of JSON holds a line end */
        (void)fputc(*at, outline->file);
        if (*at == '\n')
            (void)fprintf(outline->file, "%*s", outline->level * INDENT, "");
    }
    free(text);
}

static void put_item(struct outline *outline, const char *name, const struct mudax_value *item)
{
    if (item != NULL)
        put_map(outline, name, item, false);
}

static void put_natural(struct outline *outline, const char *name, uint64_t natural)
{
    begin_member(outline, name);
    (void)fprintf(outline->file, "%" PRIu64, natural);
}

/* value  NULL: without memory */
static void put_own(struct outline *outline, const char *name, struct mudax_value *value)
{
    if (value == NULL)
        outline->has_failed = true;
    else
        put_map(outline, name, value, true);
    mudax_free(value);
}

static void put_text(struct outline *outline, const char *name, const char *text)
{
    /* How a text is spelled, libmudax knows: as the one member of an object on one line. */
    struct mudax_value *map = mudax_map();
    (void)mudax_put(map, name, mudax_string(text));
    char *json = mudax_to_plain_json(map, 0);
    const char *colon = json == NULL ? NULL : strchr(json, ':');
    if (colon == NULL) {
        outline->has_failed = true;
    } else {
        begin_member(outline, name);
        (void)fprintf(outline->file, "%.*s", (int)strlen(colon + 1) - 1, colon + 1);
    }
    free(json);
    mudax_free(map);
}

static int end(struct outline *outline)
{
    if (outline->level > 0)
        (void)fputs("\n}\n", outline->file);
    return outline->has_failed ? report_no_memory() : 0;
}

/* What was consumed, if that was asked for; a hit consumes nothing. */
static void put_capacity(struct outline *outline, const struct result *result)
{
    const struct mudax_value *capacity = mudax_reply_capacity(result->reply);
    if (result->request->wants_capacity == MUDAX_CAPACITY_NONE)
        return;
    if (result->request->part_count != 0) {
        open_member(outline, "ConsumedCapacity", '[');
        for (size_t i = 0; i < mudax_count(capacity); i++)
            put_map(outline, NULL, mudax_at(capacity, i), true);
        close_member(outline, ']');
    } else if (capacity != NULL) {
        put_map(outline, "ConsumedCapacity", capacity, true);
    } else {
        struct mudax_value *nothing = mudax_map();
        (void)mudax_put(nothing, "TableName", mudax_string(result->request->table));
        (void)mudax_put(nothing, "CapacityUnits", mudax_int(0));
        put_own(outline, "ConsumedCapacity", nothing);
    }
}

static void put_collection(struct outline *outline, const char *name,
                           const struct mudax_value *collection)
{
    const struct mudax_value *range = mudax_get(collection, "SizeEstimateRangeGB");
    int64_t gigabytes;
    open_member(outline, name, '{');
    put_item(outline, "ItemCollectionKey", mudax_get(collection, "ItemCollectionKey"));
    open_member(outline, "SizeEstimateRangeGB", '[');
    for (size_t i = 0; i < mudax_count(range); i++)
        if (mudax_as_int(mudax_at(range, i), &gigabytes) && gigabytes >= 0)
            put_natural(outline, NULL, (uint64_t)gigabytes);
    close_member(outline, ']');
    close_member(outline, '}');
}

/* How large the item collections are, if that was asked for and there are any. */
static void put_metrics(struct outline *outline, const struct result *result)
{
    static const char name[] = "ItemCollectionMetrics";
    const struct mudax_value *metrics = mudax_reply_metrics(result->reply);
    if (metrics == NULL)
        return;
    if (result->request->part_count == 0) {
        put_collection(outline, name, metrics);
        return;
    }
    open_member(outline, name, '{');
    for (size_t i = 0; i < mudax_count(metrics); i++) {
        const struct mudax_value *collections = mudax_at(metrics, i);
        size_t size;
        const char *name_at = mudax_name_at(metrics, i, &size);
        char table[TABLE_NAME_MAX + 1];
        (void)snprintf(table, sizeof table, "%.*s", (int)size, name_at);
        open_member(outline, table, '[');
        for (size_t k = 0; k < mudax_count(collections); k++)
            put_collection(outline, NULL, mudax_at(collections, k));
        close_member(outline, ']');
    }
    close_member(outline, '}');
}

/* ---- results ---- */

int print_pong(const struct result *result)
{
    (void)result;
    (void)puts("PONG");
    return 0;
}

static int print_member(const char *name, const struct result *result)
{
    struct outline outline = outline_of(stdout);
    put_item(&outline, name, mudax_reply_item(result->reply));
    put_capacity(&outline, result);
    put_metrics(&outline, result);
    return end(&outline);
}

int print_item(const struct result *result)
{
    return print_member("Item", result);
}

int print_attributes(const struct result *result)
{
    return print_member("Attributes", result);
}

int print_page(const struct result *result)
{
    const struct mudax_reply *reply = result->reply;
    struct outline outline = outline_of(stdout);
    size_t count = mudax_reply_count(reply);
    if (result->request->select != MUDAX_SELECT_COUNT) {
        open_member(&outline, "Items", '[');
        for (size_t i = 0; i < count; i++)
            put_item(&outline, NULL, mudax_reply_item_at(reply, i));
        close_member(&outline, ']');
    }
    put_natural(&outline, "Count", count);
    put_natural(&outline, "ScannedCount", mudax_reply_scanned_count(reply));
    put_item(&outline, "LastEvaluatedKey", mudax_reply_last_key(reply));
    put_capacity(&outline, result);
    return end(&outline);
}

/* Parts of one table stand side by side. */
int print_batch_get(const struct result *result)
{
    const struct mudax_request *request = result->request;
    struct outline outline = outline_of(stdout);
    open_member(&outline, "Responses", '{');
    for (size_t i = 0; i < request->part_count; i++) {
        bool is_first = i == 0 || strcmp(request->parts[i].table, request->parts[i - 1].table) != 0;
        if (is_first && i != 0)
            close_member(&outline, ']');
        if (is_first)
            open_member(&outline, request->parts[i].table, '[');
        put_item(&outline, NULL, mudax_reply_item_at(result->reply, i));
    }
    if (request->part_count != 0)
        close_member(&outline, ']');
    close_member(&outline, '}');
    put_own(&outline, "UnprocessedKeys", parts_left(result->members, result->reply));
    put_capacity(&outline, result);
    return end(&outline);
}

int print_batch_write(const struct result *result)
{
    struct outline outline = outline_of(stdout);
    put_own(&outline, "UnprocessedItems", parts_left(result->members, result->reply));
    put_capacity(&outline, result);
    put_metrics(&outline, result);
    return end(&outline);
}

int print_transact_get(const struct result *result)
{
    struct outline outline = outline_of(stdout);
    open_member(&outline, "Responses", '[');
    for (size_t i = 0; i < mudax_reply_count(result->reply); i++) {
        open_member(&outline, NULL, '{');
        put_item(&outline, "Item", mudax_reply_item_at(result->reply, i));
        close_member(&outline, '}');
    }
    close_member(&outline, ']');
    put_capacity(&outline, result);
    return end(&outline);
}

int print_transact_write(const struct result *result)
{
    struct outline outline = outline_of(stdout);
    put_capacity(&outline, result);
    put_metrics(&outline, result);
    return end(&outline);
}

int print_description(const struct result *result)
{
    const struct mudax_value *description = mudax_reply_description(result->reply);
    if (description == NULL)
        return 0;
    char *text = mudax_to_plain_json(description, INDENT);
    if (text == NULL)
        return report_no_memory();
    (void)puts(text);
    free(text);
    return 0;
}

void print_details(const struct result *result)
{
    struct outline outline = outline_of(stderr);
    const char *text;
    put_item(&outline, "Item", mudax_reply_item(result->reply));
    if (mudax_reply_reason(result->reply, 0, NULL) != NULL) {
        open_member(&outline, "CancellationReasons", '[');
        for (size_t i = 0; i < mudax_reply_count(result->reply); i++) {
            open_member(&outline, NULL, '{');
            put_text(&outline, "Code", mudax_reply_reason(result->reply, i, &text));
            if (text[0] != '\0')
                put_text(&outline, "Message", text);
            put_item(&outline, "Item", mudax_reply_item_at(result->reply, i));
            close_member(&outline, '}');
        }
        close_member(&outline, ']');
    }
    (void)end(&outline);
}

/* ---- figures ---- */

const char *format_time(uint64_t us, char out[24])
{
    if (us < 1000)
        (void)snprintf(out, 24, "%" PRIu64 "us", us);
    else if (us < 1000000)
        (void)snprintf(out, 24, "%.1fms", (double)us / 1000);
    else
        (void)snprintf(out, 24, "%.1fs", (double)us / 1000000);
    return out;
}

void print_verdict(const struct mudax_reply *reply, uint64_t took_us)
{
    static const char *const names[] = {
        [MUDAX_VERDICT_NONE] = "not used", [MUDAX_HIT] = "hit",     [MUDAX_MISS] = "miss",
        [MUDAX_BYPASS] = "bypass",         [MUDAX_STALE] = "stale",
    };
    enum mudax_verdict verdict = mudax_reply_verdict(reply);
    char took[24], age[32] = "";
    if (verdict == MUDAX_HIT || verdict == MUDAX_STALE)
        (void)snprintf(age, sizeof age, " age=%" PRIu32 "ms", mudax_reply_age_ms(reply));
    (void)fprintf(stderr, "cache: %s%s time=%s\n",
                  (size_t)verdict < sizeof names / sizeof names[0] ? names[verdict] : "?", age,
                  format_time(took_us, took));
}

void print_key_bytes(const struct mudax_value *value)
{
    size_t size;
    const char *bytes = mudax_text(value, &size);
    (void)putchar('"');
    for (size_t i = 0; i < size; i++) {
        bool is_shown = bytes[i] >= ' ' && bytes[i] <= '~' && bytes[i] != '"' && bytes[i] != '\\';
        (void)printf(is_shown ? "%c" : "\\x%02x", (unsigned char)bytes[i]);
    }
    (void)putchar('"');
}

void print_partition_key(const struct mudax_value *value)
{
    char number[MUDAX_NUMBER_TEXT];
    if (mudax_type(value) == MUDAX_N)
        (void)fputs(mudax_number_text(value, number), stdout);
    else
        print_key_bytes(value);
}
