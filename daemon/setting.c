#include "daemon/setting.h"

#include "protocol/ensure.h"
#include "protocol/sigv4.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct choice_row {
    const char *name;
    const char *const *texts;
};
static const char *const sync_texts[] = {"always", "interval", "none", NULL};
static const char *const log_texts[] = {"error", "warn", "info", "debug", NULL};
static const char *const policy_texts[] = {"cas3", "s3fifo", NULL}; /* enum cache_eviction */
static const char *const cache_texts[] = {"all", "items", "queries", "off", NULL};
static const struct choice_row choices[] = {
    {"sync", sync_texts},
    {"log_level", log_texts},
    {"cache_policy", policy_texts},
    {"cache", cache_texts},
};

static void *field(void *base, const struct setting *row)
{
    return (char *)base + row->offset;
}

static const char *const *choice_texts(const struct setting *row)
{
    for (size_t i = 0; i < sizeof choices / sizeof choices[0]; i++)
        if (strcmp(choices[i].name, row->name) == 0)
            return choices[i].texts;
    ensure_failed("every CHOICE has its texts", __FILE__, __LINE__);
}

/* ---- texts to values ---- */

struct unit {
    const char *text;
    uint64_t factor;
};
static const struct unit size_units[] = {{"", 1},           {"B", 1},          {"K", 1ull << 10},
                                         {"KiB", 1 << 10},  {"M", 1ull << 20}, {"MiB", 1 << 20},
                                         {"G", 1ull << 30}, {"GiB", 1 << 30},  {NULL, 0}};
static const struct unit time_units[] = {{"ms", 1},      {"s", 1000},     {"m", 60000},
                                         {"h", 3600000}, {"d", 86400000}, {NULL, 0}};
static const struct unit count_units[] = {{"", 1}, {NULL, 0}};
static const struct unit percent_units[] = {{"%", 1}, {NULL, 0}};

static bool parse_number(const char *text, const struct unit *units, uint64_t *out)
{
    if (!isdigit((unsigned char)text[0]))
        return false;
    char *end;
    errno = 0;
    uint64_t number = strtoull(text, &end, 10);
    if (errno != 0)
        return false;
    if (number == 0 && *end == '\0') {
        *out = 0; /* needs no unit */
        return true;
    }
    for (; units->text != NULL; units++)
        if (strcmp(units->text, end) == 0)
            return !__builtin_mul_overflow(number, units->factor, out);
    return false;
}

/* "0.125" to millionths */
static bool parse_price(const char *text, uint64_t *out)
{
    size_t whole = strspn(text, "0123456789");
    size_t digits = text[whole] == '.' ? strspn(text + whole + 1, "0123456789") : 0;
    const char *end = text + whole + (text[whole] == '.') + digits;
    if (whole == 0 || whole > 9 || digits > 6 || *end != '\0' || end[-1] == '.')
        return false;
    *out = strtoull(text, NULL, 10);
    for (size_t i = 0; i < 6; i++)
        *out = *out * 10 + (i < digits ? (uint64_t)(text[whole + 1 + i] - '0') : 0);
    return true;
}

static bool parse_list(const char *text, struct setting_list *out)
{
    char *copy = strdup(text);
    ensure(copy != NULL);
    char *rest = copy;
    for (char *piece; (piece = strsep(&rest, ",")) != NULL;) {
        piece += strspn(piece, " \t");
        piece[strcspn(piece, " \t")] = '\0';
        if (piece[0] == '\0')
            continue;
        out->texts = realloc(out->texts, (out->count + 1) * sizeof *out->texts);
        ensure(out->texts != NULL);
        out->texts[out->count] = strdup(piece);
        ensure(out->texts[out->count] != NULL);
        out->count++;
    }
    free(copy);
    return out->count > 0;
}

/* None is a list, too. */
static bool parse_keys(const char *text, struct setting_list *out)
{
    if (text[0] != '\0' && !parse_list(text, out))
        return false;
    for (size_t i = 0; i < out->count; i++) {
        size_t id = strcspn(out->texts[i], ":/");
        size_t secret = out->texts[i][id] == ':' ? strlen(out->texts[i] + id + 1) : 0;
        if (id == 0 || id > SIGV4_PART_MAX || secret == 0 || secret > SIGV4_SECRET_MAX)
            return false;
    }
    return true;
}

static void free_list(struct setting_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->texts[i]);
    free(list->texts);
    *list = (struct setting_list){0};
}

bool setting_parse_switch(const char *text, bool *out)
{
    bool is_on = strcmp(text, "on") == 0 || strcmp(text, "true") == 0 || strcmp(text, "yes") == 0 ||
                 strcmp(text, "1") == 0;
    bool is_off = strcmp(text, "off") == 0 || strcmp(text, "false") == 0 ||
                  strcmp(text, "no") == 0 || strcmp(text, "0") == 0;
    *out = is_on;
    return is_on || is_off;
}

static bool parse_choice(const char *text, const char *const *texts, int *out)
{
    for (int i = 0; texts[i] != NULL; i++) {
        if (strcmp(texts[i], text) == 0) {
            *out = i;
            return true;
        }
    }
    return false;
}

static bool parse_units(void *base, const struct setting *row, const struct unit *units,
                        const char *text)
{
    uint64_t number;
    if (!parse_number(text, units, &number) || number < row->least || number > row->most)
        return false;
    *(uint64_t *)field(base, row) = number;
    return true;
}

static bool parse(void *base, const struct setting *row, const char *text)
{
    char **held;
    switch (row->type) {
    case SETTING_TEXT:
        held = field(base, row);
        free(*held);
        *held = strdup(text);
        ensure(*held != NULL);
        return strlen(text) >= row->least;
    case SETTING_LIST:
        return parse_list(text, field(base, row));
    case SETTING_KEYS:
        return parse_keys(text, field(base, row));
    case SETTING_COUNT:
        return parse_units(base, row, count_units, text);
    case SETTING_SIZE:
        return parse_units(base, row, size_units, text);
    case SETTING_TIME:
        return parse_units(base, row, time_units, text);
    case SETTING_PERCENT:
        return parse_units(base, row, percent_units, text);
    case SETTING_PRICE:
        return parse_price(text, field(base, row));
    case SETTING_SWITCH:
        return setting_parse_switch(text, field(base, row));
    case SETTING_CHOICE:
        return parse_choice(text, choice_texts(row), field(base, row));
    }
    return false;
}

/* Says in `out` what texts an option takes. */
static void describe(const struct setting *row, char *out, size_t size)
{
    static const char *const kinds[] = {
        [SETTING_TEXT] = "a text",
        [SETTING_LIST] = "URLs",
        [SETTING_KEYS] = "AKID:SECRET",
        [SETTING_COUNT] = "a number",
        [SETTING_SIZE] = "a size such as 64M",
        [SETTING_TIME] = "a time such as 500ms, 10s, 5m or 0",
        [SETTING_PERCENT] = "a share such as 25%",
        [SETTING_PRICE] = "a price such as 0.125",
        [SETTING_SWITCH] = "on or off",
    };
    if (row->type == SETTING_CHOICE) {
        size_t used = (size_t)snprintf(out, size, "one of");
        for (const char *const *text = choice_texts(row); *text != NULL && used < size; text++)
            used += (size_t)snprintf(out + used, size - used, " %s", *text);
    } else if (row->most != 0) {
        const char *unit = row->type == SETTING_TIME      ? " ms"
                           : row->type == SETTING_SIZE    ? " bytes"
                           : row->type == SETTING_PERCENT ? "%"
                                                          : "";
        (void)snprintf(out, size, "%s, from %llu to %llu%s", kinds[row->type],
                       (unsigned long long)row->least, (unsigned long long)row->most, unit);
    } else {
        (void)snprintf(out, size, "%s", kinds[row->type]);
    }
}

bool setting_read(void *base, const struct setting *row, const char *text, const char *where,
                  char *error, size_t error_size)
{
    if (parse(base, row, text))
        return true;
    char expected[160];
    describe(row, expected, sizeof expected);
    (void)snprintf(error, error_size, "%s: %s: got \"%s\", expected %s", where, row->name,
                   row->type == SETTING_KEYS ? "..." : text, expected); /* no secrets in logs */
    return false;
}

bool setting_is_named(const char *given, const char *name)
{
    for (; *given != '\0' && *name != '\0'; given++, name++)
        if (tolower((unsigned char)*given) != *name && !(*given == '-' && *name == '_'))
            return false;
    return *given == '\0' && *name == '\0';
}

/* ---- held values ---- */

static bool is_list(const struct setting *row)
{
    return row->type == SETTING_LIST || row->type == SETTING_KEYS;
}

void setting_free(void *base, const struct setting *row)
{
    if (row->type == SETTING_TEXT)
        free(*(char **)field(base, row));
    else if (is_list(row))
        free_list(field(base, row));
}

static size_t value_size(const struct setting *row)
{
    return row->type == SETTING_SWITCH   ? sizeof(bool)
           : row->type == SETTING_CHOICE ? sizeof(int)
           : row->type == SETTING_TEXT   ? sizeof(char *)
           : is_list(row)                ? sizeof(struct setting_list)
                                         : sizeof(uint64_t);
}

static bool lists_equal(const struct setting_list *a, const struct setting_list *b)
{
    bool is_equal = a->count == b->count;
    for (size_t i = 0; is_equal && i < a->count; i++)
        is_equal = strcmp(a->texts[i], b->texts[i]) == 0;
    return is_equal;
}

static bool texts_equal(const char *a, const char *b)
{
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

bool setting_equals(const void *a, const void *b, const struct setting *row)
{
    const void *left = (const char *)a + row->offset, *right = (const char *)b + row->offset;
    if (row->type == SETTING_TEXT)
        return texts_equal(*(char *const *)left, *(char *const *)right);
    return is_list(row) ? lists_equal(left, right) : memcmp(left, right, value_size(row)) == 0;
}

void setting_swap(void *a, void *b, const struct setting *row)
{
    uint8_t before[sizeof(struct setting_list)];
    memcpy(before, field(a, row), value_size(row));
    memcpy(field(a, row), field(b, row), value_size(row));
    memcpy(field(b, row), before, value_size(row));
}
