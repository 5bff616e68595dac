#include "clients/cli/shorthand.h"

#include <stdlib.h>
#include <string.h>

enum { DEPTH_MAX = 16 };

struct reader {
    const char *at;
    int depth; /* of braces and brackets that are open */
};

static struct mudax_value *read_map(struct reader *reader);

/* A text of a member that has another type in DynamoDB's API. */
static struct mudax_value *make_scalar(const char *name, const char *text)
{
    static const char *const truths[] = {"Enabled", "StreamEnabled", "BOOL", "NULL",
                                         "ConsistentRead"};
    if (strstr(name, "Units") != NULL) /* ReadCapacityUnits, WriteUnitsPerSecond */
        return mudax_number(text);
    bool is_true = strcmp(text, "true") == 0;
    for (size_t i = 0; i < sizeof truths / sizeof truths[0]; i++)
        if (strcmp(name, truths[i]) == 0 && (is_true || strcmp(text, "false") == 0))
            return mudax_bool(is_true);
    return mudax_string(text);
}

/* Between quotes, where a backslash takes the next byte as it is. The text is the caller's. */
static char *read_quoted(struct reader *reader)
{
    char quote = *reader->at++;
    char *text = malloc(strlen(reader->at) + 1);
    size_t size = 0;
    while (text != NULL && *reader->at != quote) {
        if (*reader->at == '\\' && reader->at[1] != '\0')
            reader->at++;
        if (*reader->at == '\0') {
            free(text);
            return NULL;
        }
        text[size++] = *reader->at++;
    }
    if (text != NULL) {
        text[size] = '\0';
        reader->at++;
    }
    return text;
}

static char *read_text(struct reader *reader)
{
    if (*reader->at == '"' || *reader->at == '\'')
        return read_quoted(reader);
    const char *begin = reader->at;
    reader->at += strcspn(begin, reader->depth == 0 ? "," : ",]}");
    return strndup(begin, (size_t)(reader->at - begin));
}

static struct mudax_value *read_scalar(struct reader *reader, const char *name)
{
    char *text = read_text(reader);
    struct mudax_value *value = text == NULL ? NULL : make_scalar(name, text);
    free(text);
    return value;
}

static struct mudax_value *read_value(struct reader *reader, const char *name);

/* Behind the bracket. */
static struct mudax_value *read_list(struct reader *reader, const char *name)
{
    struct mudax_value *list = mudax_list();
    bool is_right = list != NULL;
    while (is_right && *reader->at != ']') {
        is_right = mudax_append(list, read_value(reader, name));
        if (is_right && *reader->at == ',')
            reader->at++;
        else if (*reader->at != ']')
            is_right = false;
    }
    if (is_right) {
        reader->at++;
        return list;
    }
    mudax_free(list);
    return NULL;
}

static struct mudax_value *read_value(struct reader *reader, const char *name)
{
    bool is_map = *reader->at == '{';
    if (!is_map && *reader->at != '[')
        return read_scalar(reader, name);
    if (reader->depth == DEPTH_MAX)
        return NULL;
    reader->depth++;
    reader->at++;
    struct mudax_value *value = is_map ? read_map(reader) : read_list(reader, name);
    if (is_map && value != NULL && *reader->at++ != '}') {
        mudax_free(value);
        value = NULL;
    }
    reader->depth--;
    return value;
}

/* True when what follows is no further pair, but one more text of the value before: a,b of
 * name=a,b */
static bool is_text_next(const struct reader *reader)
{
    size_t size = strcspn(reader->at, ",=[]{}");
    return size != 0 && reader->at[size] != '=';
}

/* One value; of several with commas between a list. */
static struct mudax_value *read_values(struct reader *reader, const char *name)
{
    struct mudax_value *first = read_value(reader, name);
    if (first == NULL || reader->at[0] != ',')
        return first;
    struct reader ahead = {reader->at + 1, reader->depth};
    if (!is_text_next(&ahead))
        return first;
    struct mudax_value *list = mudax_list();
    bool is_right = mudax_append(list, first);
    while (is_right && *reader->at == ',') {
        ahead.at = reader->at + 1;
        if (!is_text_next(&ahead))
            break;
        reader->at++;
        is_right = mudax_append(list, read_scalar(reader, name));
    }
    if (is_right)
        return list;
    mudax_free(list);
    return NULL;
}

static bool read_pair(struct reader *reader, struct mudax_value *map)
{
    size_t size = strcspn(reader->at, ",=[]{}\"'");
    if (size == 0 || reader->at[size] != '=')
        return false;
    char *name = strndup(reader->at, size);
    reader->at += size + 1;
    bool is_put = name != NULL && mudax_put(map, name, read_values(reader, name));
    free(name);
    return is_put;
}

/* Up to the end or the closing brace, which is left. */
static struct mudax_value *read_map(struct reader *reader)
{
    struct mudax_value *map = mudax_map();
    bool is_right = map != NULL && (*reader->at == '}' || read_pair(reader, map));
    while (is_right && *reader->at == ',') {
        reader->at++;
        is_right = read_pair(reader, map);
    }
    if (is_right)
        return map;
    mudax_free(map);
    return NULL;
}

struct mudax_value *shorthand_read(const char *text)
{
    struct reader reader = {.at = text};
    struct mudax_value *map = read_map(&reader);
    if (map != NULL && *reader.at == '\0')
        return map;
    mudax_free(map);
    return NULL;
}
