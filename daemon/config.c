#include "daemon/config.h"

#include "protocol/ensure.h"
#include "protocol/sigv4.h"

#include <ini.h>

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum type { TEXT, LIST, KEYS, COUNT, SIZE, TIME, SWITCH, CHOICE };

struct option_row {
    const char *name; /* with underscores */
    const char *fallback, *help;
    uint64_t least, most;
    size_t offset;
    enum type type;
    bool can_reload;
};

static bool is_list(enum type type)
{
    return type == LIST || type == KEYS;
}

static const struct option_row options[] = {
#define OPTION(name, type, fallback, least, most, reload, help)                                    \
    {#name, fallback, help, least, most, offsetof(struct config, name), type, reload},
#include "daemon/options.def"
#undef OPTION
};
enum { OPTIONS = sizeof options / sizeof options[0] };

struct choice_row {
    const char *name;
    const char *const *texts;
};
static const char *const sync_texts[] = {"always", "interval", "none", NULL};
static const char *const log_texts[] = {"error", "warn", "info", "debug", NULL};
static const char *const policy_texts[] = {"cas3", "s3fifo", NULL}; /* enum cache_eviction */
static const struct choice_row choices[] = {
    {"sync", sync_texts}, {"log_level", log_texts}, {"cache_policy", policy_texts}};

/* Where settings come from, for the text of an error. */
struct source {
    struct config *config;
    bool *is_set; /* by option: already set from a source that goes before this one */
    char *error;
    size_t error_size;
};

static void *field(struct config *config, const struct option_row *row)
{
    return (char *)config + row->offset;
}

static const char *const *choice_texts(const struct option_row *row)
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

static bool parse_list(const char *text, struct config_list *out)
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
static bool parse_keys(const char *text, struct config_list *out)
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

static void free_list(struct config_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->texts[i]);
    free(list->texts);
    *list = (struct config_list){0};
}

static bool parse_switch(const char *text, bool *out)
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

static bool parse_units(struct config *config, const struct option_row *row,
                        const struct unit *units, const char *text)
{
    uint64_t number;
    if (!parse_number(text, units, &number) || number < row->least || number > row->most)
        return false;
    *(uint64_t *)field(config, row) = number;
    return true;
}

static bool parse(struct config *config, const struct option_row *row, const char *text)
{
    char **held;
    switch (row->type) {
    case TEXT:
        held = field(config, row);
        free(*held);
        *held = strdup(text);
        ensure(*held != NULL);
        return strlen(text) >= row->least;
    case LIST:
        return parse_list(text, field(config, row));
    case KEYS:
        return parse_keys(text, field(config, row));
    case COUNT:
        return parse_units(config, row, count_units, text);
    case SIZE:
        return parse_units(config, row, size_units, text);
    case TIME:
        return parse_units(config, row, time_units, text);
    case SWITCH:
        return parse_switch(text, field(config, row));
    case CHOICE:
        return parse_choice(text, choice_texts(row), field(config, row));
    }
    return false;
}

/* Says in `out` what texts an option takes. */
static void describe(const struct option_row *row, char *out, size_t size)
{
    static const char *const kinds[] = {
        [TEXT] = "a text",
        [LIST] = "URLs",
        [KEYS] = "AKID:SECRET",
        [COUNT] = "a number",
        [SIZE] = "a size such as 64M",
        [TIME] = "a time such as 500ms, 10s, 5m or 0",
        [SWITCH] = "on or off",
    };
    if (row->type == CHOICE) {
        size_t used = (size_t)snprintf(out, size, "one of");
        for (const char *const *text = choice_texts(row); *text != NULL && used < size; text++)
            used += (size_t)snprintf(out + used, size - used, " %s", *text);
    } else if (row->type == COUNT || row->type == SIZE || row->type == TIME) {
        const char *unit = row->type == TIME ? " ms" : row->type == SIZE ? " bytes" : "";
        (void)snprintf(out, size, "%s, from %llu to %llu%s", kinds[row->type],
                       (unsigned long long)row->least, (unsigned long long)row->most, unit);
    } else {
        (void)snprintf(out, size, "%s", kinds[row->type]);
    }
}

/* ---- the three sources ---- */

static bool name_matches(const char *given, const char *name)
{
    for (; *given != '\0' && *name != '\0'; given++, name++)
        if (tolower((unsigned char)*given) != *name && !(*given == '-' && *name == '_'))
            return false;
    return *given == '\0' && *name == '\0';
}

static const struct option_row *find(const char *name)
{
    for (size_t i = 0; i < OPTIONS; i++)
        if (name_matches(name, options[i].name))
            return &options[i];
    return NULL;
}

/* Sets one option unless a higher source has; `where` goes in front of the error's text. */
static bool set(struct source *source, const struct option_row *row, const char *text,
                const char *where)
{
    if (source->is_set[row - options])
        return true;
    if (parse(source->config, row, text))
        return true;
    char expected[160];
    describe(row, expected, sizeof expected);
    (void)snprintf(source->error, source->error_size, "%s: %s: got \"%s\", expected %s", where,
                   row->name, row->type == KEYS ? "..." : text, expected); /* no secrets in logs */
    return false;
}

static bool read_defaults(struct source *source)
{
    for (size_t i = 0; i < OPTIONS; i++)
        if (!set(source, &options[i], options[i].fallback, "default"))
            return false;
    return true;
}

static bool read_environment(struct source *source, char *const *environment, bool *newly_set)
{
    static const char prefix[] = "MUDAX_";
    for (; *environment != NULL; environment++) {
        const char *equals = strchr(*environment, '=');
        if (strncmp(*environment, prefix, sizeof prefix - 1) != 0 || equals == NULL)
            continue;
        char name[64];
        size_t length = (size_t)(equals - *environment) - (sizeof prefix - 1);
        (void)snprintf(name, sizeof name, "%.*s", (int)length, *environment + sizeof prefix - 1);
        const struct option_row *row = find(name);
        if (row == NULL)
            continue; /* MUDAX_URL and the like belong to other programs */
        char where[96];
        (void)snprintf(where, sizeof where, "environment MUDAX_%s", name);
        if (!set(source, row, equals + 1, where))
            return false;
        newly_set[row - options] = true;
    }
    return true;
}

struct file_source {
    struct source *source;
    const char *path;
    FILE *stream;
    int line; /* counted here: Debian builds inih without line numbers for the handler */
    bool newly_set[OPTIONS];
    bool is_wrong;
};

static char *read_line(char *text, int size, void *stream)
{
    struct file_source *file = stream;
    file->line++;
    return fgets(text, size, file->stream);
}

static int read_pair(void *user, const char *section, const char *name, const char *value)
{
    struct file_source *file = user;
    char where[512];
    (void)snprintf(where, sizeof where, "%s:%d", file->path, file->line);
    const struct option_row *row =
        section[0] == '\0' || strcmp(section, "mudaxd") == 0 ? find(name) : NULL;
    if (row == NULL) {
        (void)snprintf(file->source->error, file->source->error_size,
                       "%s: there is no setting \"%s%s%s\"; see mudaxd --help", where, section,
                       section[0] == '\0' ? "" : ".", name);
        file->is_wrong = true;
        return 0;
    }
    if (!set(file->source, row, value, where)) {
        file->is_wrong = true;
        return 0;
    }
    file->newly_set[row - options] = true;
    return 1;
}

static bool read_file(struct source *source, const char *path, bool *newly_set)
{
    struct file_source file = {.source = source, .path = path, .stream = fopen(path, "re")};
    if (file.stream == NULL) {
        (void)snprintf(source->error, source->error_size, "%s: cannot be read: %s", path,
                       strerror(errno));
        return false;
    }
    int line = ini_parse_stream(read_line, &file, read_pair, &file);
    (void)fclose(file.stream);
    if (line != 0 && !file.is_wrong)
        (void)snprintf(source->error, source->error_size, "%s:%d: expected name = value", path,
                       line);
    memcpy(newly_set, file.newly_set, sizeof file.newly_set);
    return line == 0;
}

struct arguments {
    int count;
    char **texts;
    const char *config_path; /* out */
};

static enum config_result read_argument(struct source *source, struct arguments *arguments, int *at,
                                        bool *newly_set)
{
    char *text = arguments->texts[*at];
    if (strcmp(text, "--help") == 0 || strcmp(text, "-h") == 0) {
        config_help(stdout);
        return CONFIG_HELP;
    }
    if (strcmp(text, "--version") == 0) {
        (void)printf("mudaxd %s\n", MUDAX_VERSION);
        return CONFIG_HELP;
    }
    char name[64];
    (void)snprintf(name, sizeof name, "%.*s", (int)strcspn(text, "="), text);
    bool is_config = strcmp(name, "--config") == 0;
    const struct option_row *row = strncmp(name, "--", 2) == 0 ? find(name + 2) : NULL;
    if (row == NULL && !is_config) {
        (void)snprintf(source->error, source->error_size,
                       "command line: there is no option %s; see mudaxd --help", name);
        return CONFIG_WRONG;
    }
    const char *value = strchr(text, '=') != NULL ? strchr(text, '=') + 1 : NULL;
    bool is_on; /* --insecure alone means on */
    if (value == NULL && row != NULL && row->type == SWITCH &&
        (*at + 1 >= arguments->count || !parse_switch(arguments->texts[*at + 1], &is_on)))
        value = "on";
    if (value == NULL) {
        if (*at + 1 >= arguments->count) {
            (void)snprintf(source->error, source->error_size, "command line: %s needs a value",
                           name);
            return CONFIG_WRONG;
        }
        value = arguments->texts[++*at];
    }
    if (is_config) {
        arguments->config_path = value;
        return CONFIG_OK;
    }
    if (!set(source, row, value, "command line"))
        return CONFIG_WRONG;
    newly_set[row - options] = true;
    return CONFIG_OK;
}

static void merge(bool *is_set, const bool *newly_set)
{
    for (size_t i = 0; i < OPTIONS; i++)
        is_set[i] = is_set[i] || newly_set[i];
}

static enum config_result read_all(struct source *source, struct arguments *arguments,
                                   char *const *environment)
{
    bool newly_set[OPTIONS] = {0};
    for (int at = 1; at < arguments->count; at++) {
        enum config_result result = read_argument(source, arguments, &at, newly_set);
        if (result != CONFIG_OK)
            return result;
    }
    merge(source->is_set, newly_set);
    if (!read_environment(source, environment, newly_set))
        return CONFIG_WRONG;
    merge(source->is_set, newly_set);
    for (char *const *pair = environment; arguments->config_path == NULL && *pair != NULL; pair++)
        if (strncmp(*pair, "MUDAX_CONFIG=", 13) == 0)
            arguments->config_path = *pair + 13;
    if (arguments->config_path != NULL && !read_file(source, arguments->config_path, newly_set))
        return CONFIG_WRONG;
    merge(source->is_set, newly_set);
    return read_defaults(source) ? CONFIG_OK : CONFIG_WRONG;
}

enum config_result config_read(int argument_count, char **arguments, char *const *environment,
                               struct config **out, char *error, size_t error_size)
{
    struct config *config = calloc(1, sizeof *config);
    ensure(config != NULL);
    bool is_set[OPTIONS] = {0};
    struct source source = {config, is_set, error, error_size};
    struct arguments given = {argument_count, arguments, NULL};
    enum config_result result = read_all(&source, &given, environment);
    if (result == CONFIG_OK)
        *out = config;
    else
        config_destroy(&config);
    return result;
}

void config_destroy(struct config **config)
{
    if (*config == NULL)
        return;
    for (size_t i = 0; i < OPTIONS; i++) {
        if (options[i].type == TEXT)
            free(*(char **)field(*config, &options[i]));
        else if (is_list(options[i].type))
            free_list(field(*config, &options[i]));
    }
    free(*config);
    *config = NULL;
}

static size_t scalar_size(enum type type)
{
    return type == SWITCH ? sizeof(bool) : type == CHOICE ? sizeof(int) : sizeof(uint64_t);
}

static bool lists_equal(const struct config_list *a, const struct config_list *b)
{
    bool is_equal = a->count == b->count;
    for (size_t i = 0; is_equal && i < a->count; i++)
        is_equal = strcmp(a->texts[i], b->texts[i]) == 0;
    return is_equal;
}

/* What is not taken goes with `from`. */
static void take_over(const struct option_row *row, void *held, void *wanted)
{
    if (is_list(row->type)) {
        struct config_list before = *(struct config_list *)held;
        *(struct config_list *)held = *(struct config_list *)wanted;
        *(struct config_list *)wanted = before;
    } else {
        memcpy(held, wanted, scalar_size(row->type));
    }
}

void config_reload(struct config *into, struct config *from,
                   void (*tell)(const char *name, bool is_reloaded))
{
    for (size_t i = 0; i < OPTIONS; i++) {
        const struct option_row *row = &options[i];
        void *held = field(into, row);
        void *wanted = field(from, row);
        bool is_equal = row->type == TEXT    ? strcmp(*(char **)held, *(char *const *)wanted) == 0
                        : is_list(row->type) ? lists_equal(held, wanted)
                                             : memcmp(held, wanted, scalar_size(row->type)) == 0;
        if (is_equal)
            continue;
        ensure(!row->can_reload || row->type != TEXT);
        if (row->can_reload)
            take_over(row, held, wanted);
        tell(row->name, row->can_reload);
    }
}

void config_help(FILE *out)
{
    (void)fprintf(out,
                  "mudaxd %s: a cache of items and query results in front of a store\n\n"
                  "usage: mudaxd [--config FILE] [--OPTION VALUE]...\n\n"
                  "Command line over environment (MUDAX_OPTION) over INI file over default.\n"
                  "SIGHUP reads them again; * marks what that can change. SIGTERM stops.\n\n",
                  MUDAX_VERSION);
    for (size_t i = 0; i < OPTIONS; i++) {
        const struct option_row *row = &options[i];
        char flag[64];
        (void)snprintf(flag, sizeof flag, "--%s", row->name);
        for (char *at = flag; *at != '\0'; at++)
            *at = *at == '_' ? '-' : *at;
        (void)fprintf(out, "  %-26s%s %s\n  %26s  default: %s\n", flag, row->can_reload ? "*" : " ",
                      row->help, "", row->fallback);
    }
}
