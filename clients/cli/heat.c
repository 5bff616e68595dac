#include "clients/cli/heat.h"

#include "clients/cli/figures.h"
#include "clients/cli/output.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { HOT_KEYS_SHOWN = 10 };

/* ---- calls ---- */

struct tables {
    char **names;                 /* owned */
    struct mudax_reply **replies; /* before, then after; owned */
    size_t count;
};

static void tables_free(struct tables *tables)
{
    for (size_t i = 0; i < tables->count; i++)
        free(tables->names[i]);
    for (size_t i = 0; tables->replies != NULL && i < 2 * tables->count; i++)
        mudax_reply_free(tables->replies[i]);
    free((void *)tables->names);
    free((void *)tables->replies);
}

static bool add_name(struct tables *tables, const char *name, size_t size)
{
    char **grown = realloc((void *)tables->names, (tables->count + 1) * sizeof tables->names[0]);
    char *copy = grown == NULL ? NULL : strndup(name, size);
    if (grown != NULL)
        tables->names = grown;
    if (copy != NULL)
        tables->names[tables->count++] = copy;
    return copy != NULL;
}

static int list_all(struct mudax *db, struct tables *out)
{
    bool is_more = true;
    while (is_more) {
        struct mudax_request list = {.operation = MUDAX_LIST_TABLES,
                                     .start_table =
                                         out->count == 0 ? NULL : out->names[out->count - 1]};
        struct mudax_reply *reply;
        struct mudax_error error;
        if (mudax_call(db, &list, &reply, &error) != MUDAX_OK)
            return report_error(&error, "ListTables");
        const struct mudax_value *names = mudax_get(mudax_reply_description(reply), "TableNames");
        is_more = mudax_get(mudax_reply_description(reply), "LastEvaluatedTableName") != NULL;
        bool is_added = true;
        for (size_t i = 0; i < mudax_count(names) && is_added; i++) {
            size_t size;
            const char *name = mudax_text(mudax_at(names, i), &size);
            is_added = add_name(out, name, size);
        }
        mudax_reply_free(reply);
        if (!is_added)
            return report_no_memory();
    }
    return 0;
}

static int describe_all(struct mudax *db, const struct tables *tables, struct mudax_reply **out)
{
    for (size_t i = 0; i < tables->count; i++) {
        struct mudax_request describe = {.operation = MUDAX_DESCRIBE_HEAT,
                                         .table = tables->names[i]};
        struct mudax_error error;
        if (mudax_call(db, &describe, &out[i], &error) != MUDAX_OK)
            return report_error(&error, "DescribeHeat");
    }
    return 0;
}

/* ---- one table, as a map ---- */

static double number_in(const struct mudax_value *map, const char *name)
{
    return figure_number(mudax_get(map, name));
}

static struct mudax_value *rate(double before, double after, double seconds)
{
    char text[64];
    double change = after > before ? after - before : 0; /* counted anew: a daemon that began */
    (void)snprintf(text, sizeof text, "%.1f", change / seconds);
    return mudax_number(text);
}

static bool is_same_text(const struct mudax_value *a, const struct mudax_value *b)
{
    size_t a_size, b_size;
    const char *a_text = mudax_text(a, &a_size), *b_text = mudax_text(b, &b_size);
    return a_text != NULL && b_text != NULL && a_size == b_size &&
           memcmp(a_text, b_text, a_size) == 0;
}

/* The element of a list with the same member; NULL: there is none, for partitions may be split. */
static const struct mudax_value *same_in(const struct mudax_value *list, const char *member,
                                         const struct mudax_value *wanted)
{
    for (size_t i = 0; i < mudax_count(list); i++)
        if (is_same_text(mudax_get(mudax_at(list, i), member), wanted))
            return mudax_at(list, i);
    return NULL;
}

static struct mudax_value *tell_partition(const struct mudax_value *before,
                                          const struct mudax_value *after, double seconds)
{
    static const struct {
        const char *total, *rate;
    } members[] = {{"ReadUnits", "ReadUnitsPerSecond"},
                   {"WriteUnits", "WriteUnitsPerSecond"},
                   {"Refused", "RefusedPerSecond"}};
    struct mudax_value *told = mudax_copy(after);
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++) {
        double now = number_in(after, members[i].total);
        double then = before == NULL ? now : number_in(before, members[i].total);
        (void)mudax_put(told, members[i].rate, rate(then, now, seconds));
    }
    return told;
}

static struct mudax_value *tell_place(const struct mudax_value *before,
                                      const struct mudax_value *after, double seconds)
{
    const struct mudax_value *list = mudax_get(after, "Partitions");
    struct mudax_value *partitions = mudax_list(), *told = mudax_map();
    for (size_t i = 0; i < mudax_count(list); i++) {
        const struct mudax_value *partition = mudax_at(list, i);
        const struct mudax_value *same =
            same_in(mudax_get(before, "Partitions"), "First", mudax_get(partition, "First"));
        (void)mudax_append(partitions, tell_partition(same, partition, seconds));
    }
    (void)mudax_put(told, "Name", mudax_copy(mudax_get(after, "Name")));
    (void)mudax_put(told, "Kind", mudax_copy(mudax_get(after, "Kind")));
    (void)mudax_put(told, "Partitions", partitions);
    (void)mudax_put(told, "HotKeys", mudax_copy(mudax_get(after, "HotKeys")));
    return told;
}

static struct mudax_value *tell_hot_keys(const struct hot_key *keys, size_t count,
                                         const char *table)
{
    struct mudax_value *list = mudax_list();
    for (size_t i = 0; i < count && mudax_count(list) < HOT_KEYS_SHOWN; i++) {
        if (strcmp(keys[i].table, table) != 0)
            continue;
        struct mudax_value *told = mudax_map();
        (void)mudax_put(told, "Kind", mudax_string(keys[i].kind));
        (void)mudax_put(told, "Key", mudax_string(keys[i].key));
        (void)mudax_put(told, "RequestsPerSecond", rate(0, keys[i].requests, 1));
        (void)mudax_put(told, "HitsPerSecond", rate(0, keys[i].hits, 1));
        (void)mudax_append(list, told);
    }
    return list;
}

static struct mudax_value *tell_table(const char *name, const struct mudax_value *before,
                                      const struct mudax_value *after, double seconds)
{
    const struct mudax_value *places = mudax_get(after, "Heat");
    struct mudax_value *told = mudax_map(), *list = mudax_list();
    for (size_t i = 0; i < mudax_count(places); i++) {
        const struct mudax_value *place = mudax_at(places, i);
        const struct mudax_value *same =
            i == 0 ? mudax_at(mudax_get(before, "Heat"), 0)
                   : same_in(mudax_get(before, "Heat"), "Name", mudax_get(place, "Name"));
        (void)mudax_append(list, tell_place(same, place, seconds));
    }
    (void)mudax_put(told, "TableName", mudax_string(name));
    (void)mudax_put(told, "Heat", list);
    return told;
}

/* ---- printing ---- */

const char *heat_size(double bytes, char out[24])
{
    static const char *const units[] = {"B", "KB", "MB", "GB", "TB"};
    size_t unit = 0;
    for (; bytes >= 1024 && unit + 1 < sizeof units / sizeof units[0]; unit++)
        bytes /= 1024;
    (void)snprintf(out, 24, unit == 0 ? "%.0f %s" : "%.1f %s", bytes, units[unit]);
    return out;
}

int heat_print_json(struct mudax_value *told)
{
    char *text = mudax_to_plain_json(told, 4);
    mudax_free(told);
    if (text == NULL)
        return report_no_memory();
    (void)puts(text);
    free(text);
    return 0;
}

static double sum_of(const struct mudax_value *list, const char *member)
{
    double sum = 0;
    for (size_t i = 0; i < mudax_count(list); i++)
        sum += number_in(mudax_at(list, i), member);
    return sum;
}

static void print_place(const char *table, const struct mudax_value *place)
{
    const struct mudax_value *list = mudax_get(place, "Partitions");
    double bytes = sum_of(list, "Bytes");
    char size[24];
    size_t name_size, kind_size;
    const char *name = mudax_text(mudax_get(place, "Name"), &name_size);
    const char *kind = mudax_text(mudax_get(place, "Kind"), &kind_size);
    bool is_table = kind_size == strlen("table");
    (void)printf("%s%s%.*s, %.*s: %zu partitions, %.0f items, %s\n", is_table ? "" : table,
                 is_table ? "" : " ", (int)name_size, name, (int)kind_size, kind, mudax_count(list),
                 sum_of(list, "Items"), heat_size(bytes, size));
    (void)printf("  %-16s %10s %10s %5s %9s %9s %9s %12s %12s\n", "PARTITION", "ITEMS", "BYTES",
                 "%", "READ/S", "WRITE/S", "REFUSED/S", "READ", "WRITTEN");
    for (size_t i = 0; i < mudax_count(list); i++) {
        const struct mudax_value *partition = mudax_at(list, i);
        double own = number_in(partition, "Bytes");
        const char *first = mudax_text(mudax_get(partition, "First"), &name_size);
        (void)printf("  %-16.*s %10.0f %10s %4.0f%% %9.1f %9.1f %9.1f %12.1f %12.1f\n",
                     (int)name_size, first, number_in(partition, "Items"), heat_size(own, size),
                     bytes > 0 ? 100 * own / bytes : 0, number_in(partition, "ReadUnitsPerSecond"),
                     number_in(partition, "WriteUnitsPerSecond"),
                     number_in(partition, "RefusedPerSecond"), number_in(partition, "ReadUnits"),
                     number_in(partition, "WriteUnits"));
    }
}

static void print_hot_keys(const char *table, const struct mudax_value *place)
{
    const struct mudax_value *list = mudax_get(place, "HotKeys");
    size_t size;
    const char *name = mudax_text(mudax_get(place, "Name"), &size);
    bool is_table = size == strlen(table) && memcmp(name, table, size) == 0;
    if (mudax_count(list) != 0)
        (void)printf("%s%s%.*s, partition keys that cost the store most:\n  %9s %9s  %s\n",
                     is_table ? "" : table, is_table ? "" : " ", (int)size, name, "READ/S",
                     "WRITE/S", "PARTITION KEY");
    for (size_t i = 0; i < mudax_count(list); i++) {
        const struct mudax_value *key = mudax_at(list, i);
        const struct mudax_value *value = mudax_get(key, "PartitionKey");
        const char *hash = mudax_text(mudax_get(key, "Hash"), &size);
        (void)printf("  %9.1f %9.1f  ", number_in(key, "ReadUnitsPerSecond"),
                     number_in(key, "WriteUnitsPerSecond"));
        if (value != NULL)
            print_partition_key(value);
        else
            (void)printf("(a long one, its hash is %.*s)", (int)size, hash);
        (void)putchar('\n');
    }
}

static void print_table(const struct mudax_value *told)
{
    char table[256];
    size_t size;
    const char *name = mudax_text(mudax_get(told, "TableName"), &size);
    const struct mudax_value *places = mudax_get(told, "Heat"), *keys = mudax_get(told, "HotKeys");
    (void)snprintf(table, sizeof table, "%.*s", (int)size, name);
    for (size_t i = 0; i < mudax_count(places); i++) {
        print_place(table, mudax_at(places, i));
        print_hot_keys(table, mudax_at(places, i));
    }
    if (mudax_count(keys) != 0)
        (void)printf("%s, items and queries that are asked for most:\n  %10s %9s  %-6s %s\n", table,
                     "REQUESTS/S", "HITS/S", "KIND", "KEY");
    for (size_t i = 0; i < mudax_count(keys); i++) {
        const struct mudax_value *key = mudax_at(keys, i);
        size_t kind_size;
        const char *kind = mudax_text(mudax_get(key, "Kind"), &kind_size);
        const char *text = mudax_text(mudax_get(key, "Key"), &size);
        (void)printf("  %10.1f %9.1f  %-6.*s %.*s\n", number_in(key, "RequestsPerSecond"),
                     number_in(key, "HitsPerSecond"), (int)kind_size, kind, (int)size, text);
    }
}

static int print(struct mudax_value *told, bool is_json)
{
    if (is_json)
        return heat_print_json(told);
    const struct mudax_value *tables = mudax_get(told, "Tables");
    for (size_t i = 0; i < mudax_count(tables); i++)
        print_table(mudax_at(tables, i));
    mudax_free(told);
    return 0;
}

/* ---- all of it ---- */

static struct mudax_value *tell(const struct tables *tables, const struct hot_key *keys,
                                size_t key_count, double seconds)
{
    struct mudax_value *list = mudax_list(), *told = mudax_map();
    for (size_t i = 0; i < tables->count; i++) {
        struct mudax_value *table =
            tell_table(tables->names[i], mudax_reply_description(tables->replies[i]),
                       mudax_reply_description(tables->replies[tables->count + i]), seconds);
        (void)mudax_put(table, "HotKeys", tell_hot_keys(keys, key_count, tables->names[i]));
        (void)mudax_append(list, table);
    }
    (void)mudax_put(told, "Tables", list);
    return told;
}

static int tell_and_print(struct mudax *db, const struct tables *tables, double seconds,
                          bool is_json)
{
    static const struct mudax_request stats = {.operation = MUDAX_STATS};
    struct mudax_reply *reply;
    struct mudax_error error;
    size_t count = 0;
    if (mudax_call(db, &stats, &reply, &error) != MUDAX_OK)
        return report_error(&error, "Stats");
    struct hot_key *keys = figures_hot_keys(mudax_reply_description(reply), &count);
    mudax_reply_free(reply);
    int exit_code =
        keys == NULL ? report_no_memory() : print(tell(tables, keys, count, seconds), is_json);
    free(keys);
    return exit_code;
}

int heat_partitions(struct mudax *db, const struct heat_options *options)
{
    struct tables tables = {.names = NULL};
    struct timespec pause = {.tv_sec = options->seconds != 0 ? options->seconds : HEAT_SECONDS};
    int exit_code = 0;
    if (options->table_name == NULL)
        exit_code = list_all(db, &tables);
    else if (!add_name(&tables, options->table_name, strlen(options->table_name)))
        exit_code = report_no_memory();
    tables.replies = calloc(2 * tables.count + 1, sizeof(struct mudax_reply *));
    if (exit_code == 0 && tables.replies == NULL)
        exit_code = report_no_memory();
    uint64_t begun_us = now_us();
    if (exit_code == 0)
        exit_code = describe_all(db, &tables, tables.replies);
    if (exit_code == 0) {
        (void)nanosleep(&pause, NULL);
        exit_code = describe_all(db, &tables, tables.replies + tables.count);
    }
    double seconds = (double)(now_us() - begun_us) / 1e6;
    if (exit_code == 0)
        exit_code = tell_and_print(db, &tables, seconds, options->is_json);
    tables_free(&tables);
    return exit_code;
}
