/* heat_groups.c - the items of a table in groups: by partition key, by its prefix, or by an
 * attribute. */
#include "clients/cli/groups.h"
#include "clients/cli/heat.h"
#include "clients/cli/scan.h"

#include <stdlib.h>
#include <string.h>

enum {
    ROOM_MIN = 10000,
    VALUE_SHOWN_MAX = 2048,                  /* of a value: a partition key's limit */
    NAME_MAX_SIZE = 4 * VALUE_SHOWN_MAX + 1, /* escaped */
};

/* The partition key that a segment is at. Its items come one after the other. */
struct run {
    char *name; /* owned; NULL: none yet */
    uint64_t items, bytes;
};

struct grouping {
    const struct heat_options *options;
    const char *attribute; /* whose value names the group */
    struct groups *groups;
    struct run runs[SCAN_SEGMENTS_MAX];
    uint64_t items, bytes;
    bool has_no_memory;
};

/* ---- names of groups ---- */

static void escape(const char *text, size_t size, char out[NAME_MAX_SIZE])
{
    char *at = out;
    for (size_t i = 0; i < size && i < VALUE_SHOWN_MAX; i++) {
        unsigned char byte = (unsigned char)text[i];
        if (byte < ' ' || byte == 0x7f || byte == '\\')
            at += sprintf(at, "\\x%02x", byte);
        else
            *at++ = text[i];
    }
    *at = '\0';
}

static void name_binary(const char *bytes, size_t size, char out[NAME_MAX_SIZE])
{
    char *at = out + sprintf(out, "0x");
    for (size_t i = 0; i < size && i < VALUE_SHOWN_MAX - 1; i++)
        at += sprintf(at, "%02x", (unsigned char)bytes[i]);
}

/* What a value is called. In brackets: what has none of its own. */
static void name_value(const struct mudax_value *value, char out[NAME_MAX_SIZE])
{
    static const char *const others[] = {
        [MUDAX_NULL] = "(NULL)", [MUDAX_L] = "(a list)", [MUDAX_M] = "(a map)",
        [MUDAX_SS] = "(a set)",  [MUDAX_NS] = "(a set)", [MUDAX_BS] = "(a set)",
        [MUDAX_NONE] = "(none)"};
    size_t size;
    const char *text = mudax_text(value, &size);
    enum mudax_type type = mudax_type(value);
    switch (type) {
    case MUDAX_S:
        escape(text, size, out);
        return;
    case MUDAX_B:
        name_binary(text, size, out);
        return;
    case MUDAX_N: {
        char number[MUDAX_NUMBER_TEXT];
        (void)snprintf(out, NAME_MAX_SIZE, "%s", mudax_number_text(value, number));
        return;
    }
    case MUDAX_BOOL:
        (void)snprintf(out, NAME_MAX_SIZE, "%s", mudax_truth(value) ? "true" : "false");
        return;
    default:
        (void)snprintf(out, NAME_MAX_SIZE, "%s", others[type]);
    }
}

/* Up to the first #, with it. */
static void name_prefix(const struct mudax_value *key, char out[NAME_MAX_SIZE])
{
    size_t size;
    const char *text = mudax_text(key, &size);
    const char *end = mudax_type(key) == MUDAX_S ? memchr(text, '#', size) : NULL;
    if (end == NULL)
        (void)snprintf(out, NAME_MAX_SIZE, "(no #)");
    else
        escape(text, (size_t)(end - text) + 1, out);
}

/* ---- items ---- */

static bool end_run(struct grouping *grouping, struct run *run)
{
    bool is_added =
        run->name == NULL || groups_add_whole(grouping->groups, run->name, run->items, run->bytes);
    free(run->name);
    *run = (struct run){.name = NULL};
    return is_added;
}

static bool take_in_run(struct grouping *grouping, struct run *run, const char *name, uint64_t size)
{
    if (run->name == NULL || strcmp(run->name, name) != 0) {
        if (!end_run(grouping, run))
            return false;
        run->name = strdup(name);
    }
    run->items++;
    run->bytes += size;
    return run->name != NULL;
}

static bool take_item(void *arg, uint32_t segment, const struct mudax_value *item)
{
    struct grouping *grouping = arg;
    const struct mudax_value *value = mudax_get(item, grouping->attribute);
    static char name[NAME_MAX_SIZE];
    uint64_t size = mudax_item_size(item);
    bool is_prefix =
        !grouping->options->by_key && strcmp(grouping->options->by, HEAT_BY_PREFIX) == 0;
    (is_prefix ? name_prefix : name_value)(value, name);
    grouping->has_no_memory =
        size == 0 ||
        !(grouping->options->by_key ? take_in_run(grouping, &grouping->runs[segment], name, size)
                                    : groups_add(grouping->groups, name, 1, size));
    grouping->items++;
    grouping->bytes += size;
    return !grouping->has_no_memory;
}

/* ---- the table ---- */

/* The partition key's name, and about how many items there are. Passes to the caller; NULL: a
 * message is written, and `exit_code` says which. */
static char *describe(struct mudax *db, const char *table, size_t *count, int *exit_code)
{
    struct mudax_request request = {.operation = MUDAX_DESCRIBE_TABLE, .table = table};
    struct mudax_reply *reply;
    struct mudax_error error;
    int64_t items = 0;
    size_t size;
    if (mudax_call(db, &request, &reply, &error) != MUDAX_OK) {
        *exit_code = report_error(&error, "DescribeTable");
        return NULL;
    }
    const struct mudax_value *told = mudax_get(mudax_reply_description(reply), "Table");
    (void)mudax_as_int(mudax_get(told, "ItemCount"), &items);
    *count = (size_t)items;
    const char *name =
        mudax_text(mudax_get(mudax_at(mudax_get(told, "KeySchema"), 0), "AttributeName"), &size);
    char *copy = strndup(name, size);
    mudax_reply_free(reply);
    if (copy == NULL)
        *exit_code = report_no_memory();
    return copy;
}

/* ---- printing ---- */

static struct mudax_value *tell_group(const struct group *group)
{
    struct mudax_value *told = mudax_map();
    (void)mudax_put(told, "Group", mudax_string(group->name));
    (void)mudax_put(told, "Items", mudax_int((int64_t)group->items));
    (void)mudax_put(told, "Bytes", mudax_int((int64_t)group->bytes));
    if (group->too_many != 0)
        (void)mudax_put(told, "BytesTooMany", mudax_int((int64_t)group->too_many));
    return told;
}

static int print_json(const struct grouping *grouping, const struct group *const *groups,
                      size_t count, bool left_out)
{
    struct mudax_value *told = mudax_map(), *list = mudax_list();
    for (size_t i = 0; i < count; i++)
        (void)mudax_append(list, tell_group(groups[i]));
    (void)mudax_put(told, "TableName", mudax_string(grouping->options->table_name));
    (void)mudax_put(
        told, "By",
        mudax_string(grouping->options->by_key ? grouping->attribute : grouping->options->by));
    (void)mudax_put(told, "Items", mudax_int((int64_t)grouping->items));
    (void)mudax_put(told, "Bytes", mudax_int((int64_t)grouping->bytes));
    (void)mudax_put(told, "Groups", list);
    (void)mudax_put(told, "IsAllOfThem", mudax_bool(!left_out));
    return heat_print_json(told);
}

static void print_lines(const struct grouping *grouping, const struct group *const *groups,
                        size_t count, bool left_out)
{
    const struct heat_options *options = grouping->options;
    char size[24];
    bool is_prefix = !options->by_key && strcmp(options->by, HEAT_BY_PREFIX) == 0;
    (void)printf("%s by %s%s: %llu items, %s\n", options->table_name,
                 is_prefix ? "the prefix of " : "", grouping->attribute,
                 (unsigned long long)grouping->items, heat_size((double)grouping->bytes, size));
    (void)printf("%10s %6s %10s %6s  %s\n", "ITEMS", "%", "BYTES", "%", "GROUP");
    for (size_t i = 0; i < count; i++) {
        const struct group *group = groups[i];
        (void)printf("%10llu %5.1f%% %10s %5.1f%%  %s", (unsigned long long)group->items,
                     100 * (double)group->items / (double)grouping->items,
                     heat_size((double)group->bytes, size),
                     100 * (double)group->bytes / (double)grouping->bytes, group->name);
        if (group->too_many != 0)
            (void)printf("  (perhaps %s fewer)", heat_size((double)group->too_many, size));
        (void)putchar('\n');
    }
    if (left_out)
        (void)puts("and smaller ones");
}

static int print(struct grouping *grouping)
{
    size_t count, most = grouping->options->top != 0 ? grouping->options->top : HEAT_TOP;
    bool left_out;
    const struct group *const *groups = groups_sorted(grouping->groups, &count, &left_out);
    left_out |= count > most;
    if (count > most)
        count = most;
    if (grouping->options->is_json)
        return print_json(grouping, groups, count, left_out);
    print_lines(grouping, groups, count, left_out);
    return 0;
}

int heat_groups(struct mudax *db, const struct heat_options *options)
{
    size_t count = 0, done;
    int exit_code = 0;
    char *key = describe(db, options->table_name, &count, &exit_code);
    if (key == NULL)
        return exit_code;
    struct scan_options scan = {.url = options->url,
                                .table_name = options->table_name,
                                .timeout_ms = options->timeout_ms,
                                .segments = options->segments,
                                .count = count};
    bool by_attribute = !options->by_key && strcmp(options->by, HEAT_BY_PREFIX) != 0;
    struct grouping *grouping = calloc(1, sizeof *grouping);
    struct groups *groups = groups_new(options->top > ROOM_MIN ? options->top : ROOM_MIN);
    if (grouping != NULL && groups != NULL) {
        grouping->options = options;
        grouping->groups = groups;
        grouping->attribute = by_attribute ? options->by : key;
        exit_code = scan_table(&scan, take_item, grouping, &done);
        for (size_t i = 0; i < SCAN_SEGMENTS_MAX; i++)
            grouping->has_no_memory |= !end_run(grouping, &grouping->runs[i]);
    }
    if (exit_code == 0 && (grouping == NULL || groups == NULL || grouping->has_no_memory))
        exit_code = report_no_memory();
    if (exit_code == 0)
        exit_code = print(grouping);
    groups_free(groups);
    free(grouping);
    free(key);
    return exit_code;
}
