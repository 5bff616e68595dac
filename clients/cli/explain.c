#include "clients/cli/explain.h"

#include "clients/cli/output.h"

#include <stdlib.h>
#include <string.h>

/* ---- members ---- */

static bool is_text(const struct mudax_value *value, const char *wanted)
{
    size_t size;
    const char *text = mudax_text(value, &size);
    return text != NULL && strlen(wanted) == size && memcmp(text, wanted, size) == 0;
}

static void print_text(const struct mudax_value *value)
{
    size_t size;
    const char *text = mudax_text(value, &size);
    (void)printf("%.*s", (int)size, text == NULL ? "" : text);
}

static const char *time_text(const struct mudax_value *ms, char out[24])
{
    int64_t count = 0;
    (void)mudax_as_int(ms, &count);
    return format_time((uint64_t)count * 1000, out);
}

/* ---- lines ---- */

static void begin_line(const char *title)
{
    (void)printf("%-12s", title);
}

static void print_subject(const struct mudax_request *part, const struct mudax_value *told)
{
    static const char *const names[] = {[MUDAX_GET_ITEM] = "GetItem",
                                        [MUDAX_QUERY] = "Query",
                                        [MUDAX_SCAN] = "Scan",
                                        [MUDAX_PUT_ITEM] = "a PutItem",
                                        [MUDAX_DELETE_ITEM] = "a write"};
    begin_line("request");
    (void)printf("%s of ", names[part->operation]);
    print_text(mudax_get(told, "Table"));
    if (mudax_get(told, "Index") != NULL) {
        (void)fputs(", index ", stdout);
        print_text(mudax_get(told, "Index"));
    }
    (void)putchar('\n');
}

/* Why a read is no hit, in words. */
static const char *reason_text(const struct mudax_value *because)
{
    static const struct {
        const char *name, *text;
    } reasons[] = {
        {"put", "a PutItem dropped it"},
        {"update", "an UpdateItem dropped it"},
        {"delete", "a DeleteItem dropped it"},
        {"batch", "a BatchWriteItem dropped it"},
        {"transaction", "a transaction dropped it"},
        {"time_to_live", "the item was deleted by its own time to live"},
        {"consistent_read_differs", "a consistent read found another one in the store"},
        {"table_changed", "the table was changed or made again"},
        {"purge", "a purge dropped it"},
        {"expired", "its time in the cache is over"},
        {"evicted", "others took its place"},
        {"cold", "it was not asked for yet, or too long ago to be known"},
        {"consistent_read", "ConsistentRead goes to the store"},
        {"cache_off", "the cache, or that of queries, is off (cache, query_ttl = 0)"},
        {"not_cacheable", "filter and projection are too long for the cache (4 KB)"},
        {"not_kept", "fetched, but not kept: too large for a first time, or no room was found"},
    };
    for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++)
        if (is_text(because, reasons[i].name))
            return reasons[i].text;
    return NULL;
}

static void print_reason(const struct mudax_value *because)
{
    const char *text = reason_text(because);
    print_text(because);
    (void)printf("%s%s\n", text == NULL ? "" : ": ", text == NULL ? "" : text);
}

static bool is_everything(const struct mudax_value *told)
{
    size_t size;
    (void)mudax_text(mudax_get(told, "Low"), &size);
    return size == 0 && mudax_get(told, "High") == NULL;
}

static void print_interval(const struct mudax_value *told)
{
    const struct mudax_value *low = mudax_get(told, "Low"), *high = mudax_get(told, "High");
    if (mudax_get(told, "SortKeys") != NULL) {
        print_text(mudax_get(told, "SortKeys"));
        (void)putchar('\n');
        return;
    }
    if (is_everything(told)) {
        (void)puts("all");
        return;
    }
    (void)fputs("from ", stdout);
    print_key_bytes(low);
    if (high != NULL) {
        (void)fputs(" to below ", stdout);
        print_key_bytes(high);
    } else {
        (void)fputs(" on", stdout);
    }
    (void)putchar('\n');
}

static void print_key(const struct mudax_value *told)
{
    bool is_item = is_text(mudax_get(told, "Kind"), "item");
    begin_line("keyed by");
    (void)puts(is_item ? "the item's key; projections are made of the whole item"
                       : "partition and interval, direction, Limit, start key, and what filter, "
                         "projection and Select say");
    if (is_item)
        return;
    if (mudax_get(told, "Partition") != NULL) {
        begin_line("partition");
        print_partition_key(mudax_get(told, "PartitionKey"));
        (void)putchar('\n');
    }
    begin_line("interval");
    print_interval(told);
}

static void print_policy(const struct mudax_value *told)
{
    begin_line("policy");
    print_text(mudax_get(told, "Policy"));
    (void)puts(mudax_truth(mudax_get(told, "Shadow")) ? ", a shadow: the store answers" : "");
}

/* The daemon speaks of Low and High, which are the interval's line here. */
static void print_dropped_by(const struct mudax_value *told)
{
    bool is_all = is_everything(told);
    begin_line("dropped by");
    if (is_text(mudax_get(told, "Kind"), "item"))
        print_text(mudax_get(told, "DroppedBy"));
    else if (mudax_get(told, "Partition") == NULL)
        (void)fputs(is_all ? "any write of the table or index"
                           : "a write of any key whose position lies in the interval",
                    stdout);
    else
        (void)fputs(is_all ? "any write in this partition"
                           : "a write in this partition of a sort key in the interval",
                    stdout);
    (void)putchar('\n');
}

static void print_cached(const struct mudax_value *told)
{
    char age[24], left[24], number[MUDAX_NUMBER_TEXT];
    const struct mudax_value *expires = mudax_get(told, "ExpiresInMs");
    begin_line("cached");
    if (!mudax_truth(mudax_get(told, "Cached"))) {
        (void)fputs("no, ", stdout);
        print_reason(mudax_get(told, "Because"));
        return;
    }
    (void)printf("yes, for %s now, in %s bytes\n", time_text(mudax_get(told, "AgeMs"), age),
                 mudax_number_text(mudax_get(told, "Bytes"), number));
    begin_line("expires");
    if (expires != NULL)
        (void)printf("in %s\n", time_text(expires, left));
    else if (mudax_truth(mudax_get(told, "Stale")))
        (void)puts("past its TTL, kept for stale_while_refetch or stale_if_error");
    else
        (void)puts("never");
}

static void print_read(const struct mudax_value *told)
{
    print_policy(told);
    if (!mudax_truth(mudax_get(told, "Cacheable"))) {
        begin_line("cached");
        (void)fputs("never, ", stdout);
        print_reason(mudax_get(told, "Because"));
        return;
    }
    print_key(told);
    print_cached(told);
    print_dropped_by(told);
}

static void print_write(const struct mudax_value *told)
{
    char items[MUDAX_NUMBER_TEXT], pages[MUDAX_NUMBER_TEXT];
    const struct mudax_value *indexes = mudax_get(told, "Indexes");
    begin_line("would drop");
    (void)printf("%s items and %s pages of the table that are cached now\n",
                 mudax_number_text(mudax_get(told, "Items"), items),
                 mudax_number_text(mudax_get(told, "Pages"), pages));
    for (size_t i = 0; i < mudax_count(indexes); i++) {
        size_t size;
        const char *name = mudax_name_at(indexes, i, &size);
        begin_line("");
        (void)printf("%s pages of index %.*s\n", mudax_number_text(mudax_at(indexes, i), pages),
                     (int)size, name);
    }
}

/* Of a write by key alone only where the item lies now is known. */
static void print_write_of_key(const struct mudax_value *told)
{
    print_write(told);
    if (mudax_count(mudax_get(told, "Indexes")) == 0)
        return;
    begin_line("");
    (void)puts("if it changes what the index holds; where it puts the item tells --item");
}

static int print_plain(const struct mudax_value *told)
{
    char *text = mudax_to_plain_json(told, 4);
    if (text == NULL)
        return report_no_memory();
    (void)puts(text);
    free(text);
    return 0;
}

int explain(struct mudax *db, const struct mudax_request *part, bool is_json)
{
    struct mudax_request request = {.operation = MUDAX_EXPLAIN, .parts = part, .part_count = 1};
    struct mudax_reply *reply = NULL;
    struct mudax_error error;
    int exit_code = 0;
    if (mudax_call(db, &request, &reply, &error) != MUDAX_OK)
        return report_error(&error, "Explain");
    const struct mudax_value *told = mudax_reply_description(reply);
    if (is_json) {
        exit_code = print_plain(told);
    } else {
        print_subject(part, told);
        (part->operation == MUDAX_PUT_ITEM      ? print_write
         : part->operation == MUDAX_DELETE_ITEM ? print_write_of_key
                                                : print_read)(told);
    }
    mudax_reply_free(reply);
    return exit_code;
}
