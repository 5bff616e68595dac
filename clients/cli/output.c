#include "clients/cli/output.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { INDENT = 4 };

/* Prints JSON that begins further right than it was written. No string of JSON holds a line end. */
static bool print_shifted(const struct mudax_value *map, int shift)
{
    char *text = mudax_to_json(map, INDENT);
    if (text == NULL)
        return false;
    for (const char *at = text; *at != '\0'; at++) {
        (void)putchar(*at);
        if (*at == '\n')
            (void)printf("%*s", shift, "");
    }
    free(text);
    return true;
}

static int print_member(const char *name, const struct mudax_value *value)
{
    if (value == NULL)
        return 0;
    (void)printf("{\n%*s\"%s\": ", INDENT, "", name);
    if (!print_shifted(value, INDENT))
        return report_no_memory();
    (void)puts("\n}");
    return 0;
}

int print_item(const struct mudax_reply *reply)
{
    return print_member("Item", mudax_reply_item(reply));
}

int print_attributes(const struct mudax_reply *reply)
{
    return print_member("Attributes", mudax_reply_item(reply));
}

static bool print_items(const struct mudax_reply *reply, size_t count)
{
    (void)printf("%*s\"Items\": [", INDENT, "");
    for (size_t i = 0; i < count; i++) {
        (void)printf("%s\n%*s", i == 0 ? "" : ",", 2 * INDENT, "");
        if (!print_shifted(mudax_reply_item_at(reply, i), 2 * INDENT))
            return false;
    }
    if (count > 0)
        (void)printf("\n%*s", INDENT, "");
    (void)puts("],");
    return true;
}

int print_page(const struct mudax_reply *reply)
{
    size_t count = mudax_reply_count(reply);
    bool is_counted = count > 0 && mudax_reply_item_at(reply, 0) == NULL;
    (void)puts("{");
    if (!is_counted && !print_items(reply, count))
        return report_no_memory();
    (void)printf("%*s\"Count\": %zu,\n%*s\"ScannedCount\": %" PRIu64, INDENT, "", count, INDENT, "",
                 mudax_reply_scanned_count(reply));
    const struct mudax_value *last_key = mudax_reply_last_key(reply);
    if (last_key != NULL) {
        (void)printf(",\n%*s\"LastEvaluatedKey\": ", INDENT, "");
        if (!print_shifted(last_key, INDENT))
            return report_no_memory();
    }
    (void)puts("\n}");
    return 0;
}

int print_description(const struct mudax_reply *reply)
{
    const struct mudax_value *description = mudax_reply_description(reply);
    if (description == NULL)
        return 0;
    char *text = mudax_to_plain_json(description, INDENT);
    if (text == NULL)
        return report_no_memory();
    (void)puts(text);
    free(text);
    return 0;
}

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
