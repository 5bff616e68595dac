#include "daemon/config.h"

#include "protocol/ensure.h"

#include <ini.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const struct setting options[] = {
#define OPTION(name, type, fallback, least, most, reload, help)                                    \
    {#name, fallback, help, least, most, offsetof(struct config, name), SETTING_##type, reload},
#include "daemon/options.def"
#undef OPTION
};
enum { FILE_BYTES_MAX = 1 << 20 };
enum { OPTIONS = sizeof options / sizeof options[0] };

/* Where settings come from, for the text of an error. */
struct source {
    struct config *config;
    bool *is_set; /* by option: already set from a source that goes before this one */
    char *error;
    size_t error_size;
};

/* ---- the three sources ---- */

static const struct setting *find(const char *name)
{
    for (size_t i = 0; i < OPTIONS; i++)
        if (setting_is_named(name, options[i].name))
            return &options[i];
    return NULL;
}

/* Sets one option unless a higher source has; `where` goes in front of the error's text. */
static bool set(struct source *source, const struct setting *row, const char *text,
                const char *where)
{
    if (source->is_set[row - options])
        return true;
    return setting_read(source->config, row, text, where, source->error, source->error_size);
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
        const struct setting *row = find(name);
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

/* Passes over what is left of a line. */
static void skip_line(FILE *stream)
{
    int byte;
    do
        byte = getc(stream);
    while (byte != EOF && byte != '\n');
}

/* To the parser an indented line goes on with the value before. Here it is a line like any other,
 * as it comes from a document or under its section. */
static void unindent(char *text)
{
    size_t blanks = strspn(text, " \t");
    memmove(text, text + blanks, strlen(text + blanks) + 1);
}

/* A line that does not fit would be the parser's two: only of a comment the rest may go. */
static char *read_line(char *text, int size, void *stream)
{
    struct file_source *file = stream;
    struct source *source = file->source;
    file->line++;
    if (fgets(text, size, file->stream) == NULL)
        return NULL;
    size_t length = strlen(text);
    bool is_cut = length == (size_t)size - 1 && text[length - 1] != '\n';
    unindent(text);
    if (!is_cut)
        return text;
    skip_line(file->stream);
    if (*text == '#' || *text == ';')
        return text;
    (void)snprintf(source->error, source->error_size, "%s:%d: a line may have %d letters",
                   file->path, file->line, size - 1);
    file->is_wrong = true;
    return NULL;
}

static int read_pair(void *user, const char *section, const char *name, const char *value)
{
    struct file_source *file = user;
    struct source *source = file->source;
    char where[512];
    if (file->is_wrong)
        return 0; /* inih goes on; the first mistake is told */
    (void)snprintf(where, sizeof where, "%s:%d", file->path, file->line);
    if (policy_section_is(section)) {
        file->is_wrong = !policy_section_read(&source->config->policies, section, name, value,
                                              where, source->error, source->error_size);
        return !file->is_wrong;
    }
    const struct setting *row =
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

static bool refuse_file(struct source *source, const char *path, int reason)
{
    (void)snprintf(source->error, source->error_size, "%s: cannot be read: %s", path,
                   strerror(reason));
    return false;
}

/* All of a file, which may be a pipe; its size, or -1. */
static long read_whole(struct source *source, const char *path, char text[FILE_BYTES_MAX + 1])
{
    FILE *stream = fopen(path, "re");
    if (stream == NULL) {
        (void)refuse_file(source, path, errno);
        return -1;
    }
    size_t size = fread(text, 1, FILE_BYTES_MAX + 1, stream);
    int reason = ferror(stream) ? errno : 0; /* of a directory, too */
    (void)fclose(stream);
    if (reason != 0) {
        (void)refuse_file(source, path, reason);
        return -1;
    }
    bool is_text = memchr(text, '\0', size) == NULL;
    if (is_text && size <= FILE_BYTES_MAX)
        return (long)size;
    (void)snprintf(source->error, source->error_size,
                   is_text ? "%s: a file of settings may have %d bytes"
                           : "%s: is no file of settings: it has bytes that are zero",
                   path, FILE_BYTES_MAX);
    return -1;
}

static bool parse_file(struct source *source, const char *path, char *text, size_t size,
                       bool *newly_set)
{
    struct file_source file = {.source = source, .path = path};
    file.stream = fmemopen(text, size, "r");
    if (file.stream == NULL)
        return refuse_file(source, path, errno);
    int line = ini_parse_stream(read_line, &file, read_pair, &file);
    (void)fclose(file.stream);
    if (file.is_wrong)
        line = file.line;
    else if (line != 0)
        (void)snprintf(source->error, source->error_size, "%s:%d: expected name = value", path,
                       line);
    memcpy(newly_set, file.newly_set, sizeof file.newly_set);
    return line == 0 &&
           policy_list_check(&source->config->policies, path, source->error, source->error_size);
}

static bool read_file(struct source *source, const char *path, bool *newly_set)
{
    char *text = malloc(FILE_BYTES_MAX + 1);
    if (text == NULL)
        return refuse_file(source, path, ENOMEM);
    long size = read_whole(source, path, text);
    bool is_right = size >= 0 && parse_file(source, path, text, (size_t)size, newly_set);
    free(text);
    return is_right;
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
    const struct setting *row = strncmp(name, "--", 2) == 0 ? find(name + 2) : NULL;
    if (row == NULL && !is_config) {
        (void)snprintf(source->error, source->error_size,
                       "command line: there is no option %s; see mudaxd --help", name);
        return CONFIG_WRONG;
    }
    const char *value = strchr(text, '=') != NULL ? strchr(text, '=') + 1 : NULL;
    bool is_on; /* --insecure alone means on */
    if (value == NULL && row != NULL && row->type == SETTING_SWITCH &&
        (*at + 1 >= arguments->count || !setting_parse_switch(arguments->texts[*at + 1], &is_on)))
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
    for (size_t i = 0; i < OPTIONS; i++)
        setting_free(*config, &options[i]);
    policy_list_free(&(*config)->policies);
    free(*config);
    *config = NULL;
}

void config_reload(struct config *into, struct config *from,
                   void (*tell)(const char *name, bool is_reloaded))
{
    for (size_t i = 0; i < OPTIONS; i++) {
        const struct setting *row = &options[i];
        if (setting_equals(into, from, row))
            continue;
        if (row->can_reload)
            setting_swap(into, from, row);
        tell(row->name, row->can_reload);
    }
    if (!policy_lists_equal(&into->policies, &from->policies)) {
        struct policy_list before = into->policies;
        into->policies = from->policies;
        from->policies = before;
        tell("policies", true);
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
        const struct setting *row = &options[i];
        char flag[64];
        (void)snprintf(flag, sizeof flag, "--%s", row->name);
        for (char *at = flag; *at != '\0'; at++)
            *at = *at == '_' ? '-' : *at;
        (void)fprintf(out, "  %-26s%s %s\n  %26s  default: %s\n", flag, row->can_reload ? "*" : " ",
                      row->help, "", row->fallback[0] == '\0' ? "none" : row->fallback);
    }
    policy_help(out);
}
