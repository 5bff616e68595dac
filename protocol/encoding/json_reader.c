#include "protocol/encoding/json_token.h"
#include "protocol/encoding/msgpack_put.h"
#include "protocol/ensure.h"

#include <stdarg.h>
#include <stdio.h>

void json_reader_init(struct json_reader *reader, struct bytes text, struct arena *arena,
                      struct error *error)
{
    const uint8_t *start = bytes_given(text) ? text.data : (const uint8_t *)"";
    *reader = (struct json_reader){.start = start,
                                   .at = start,
                                   .end = start + text.size,
                                   .arena = arena,
                                   .error = error,
                                   .status = STATUS_OK};
}

/* ---- refusals ---- */

bool json_reader_refuse(struct json_reader *reader, enum status status, const char *format, ...)
{
    if (reader->status != STATUS_OK)
        return false;
    char text[sizeof reader->error->text];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    reader->status = error_set(reader->error, status, "%s", text);
    reader->at = reader->end;
    return false;
}

bool json_refuse_memory(struct json_reader *reader)
{
    return json_reader_refuse(reader, STATUS_NO_MEMORY, "%s", "");
}

bool json_refuse_syntax(struct json_reader *reader, const char *what)
{
    size_t line = 1;
    const uint8_t *line_start = reader->start;
    for (const uint8_t *at = reader->start; at != reader->at; at++) {
        if (*at == '\n') {
            line++;
            line_start = at + 1;
        }
    }
    return json_reader_refuse(reader, STATUS_MALFORMED, "Not JSON at line %zu, column %zu: %s",
                              line, (size_t)(reader->at - line_start) + 1, what);
}

/* The token that DynamoDB's own parser finds. A number is the last guess: what is no JSON at all is
 * told in the end. */
static const char *token_name(const struct json_reader *reader, uint8_t first)
{
    const uint8_t *at = reader->at;
    if (first == '"')
        return "STRING_VALUE";
    if (first == 't' || first == 'f' || first == 'n')
        return first == 't' ? "TRUE_VALUE" : first == 'f' ? "FALSE_VALUE" : "NULL_VALUE";
    while (at != reader->end && strchr("+-0123456789eE", *at) != NULL && *at != '\0')
        at++;
    return at != reader->end && *at == '.' ? "DECIMAL_VALUE" : "NUMBER_VALUE";
}

bool json_refuse_type(struct json_reader *reader, enum json_wanted wanted)
{
#define AWS "com.amazonaws.dynamodb.v20120810."
    static const struct {
        const char *name;  /* of a type that other scalars could be converted to */
        const char *other; /* text for other scalars, if there is no such type */
        const char *list;  /* text for a list */
    } texts[] = {
        [JSON_STRING] = {"String", NULL, "Unrecognized collection type class java.lang.String"},
        [JSON_BOOLEAN] = {"Boolean", NULL, "Unrecognized collection type class java.lang.Boolean"},
        [JSON_INTEGER] = {"Integer", NULL, "Unrecognized collection type class java.lang.Integer"},
        [JSON_BLOB] = {NULL, "only base-64-encoded strings are convertible to bytes",
                       "Unrecognized collection type class java.nio.ByteBuffer"},
        [JSON_LIST] = {NULL, "Unexpected field type", ""},
        [JSON_MAP] = {NULL, "Unexpected field type", "Start of list found where not expected"},
        [JSON_ITEM] = {NULL, "Unexpected field type",
                       "Unrecognized collection type java.util.Map<java.lang.String, " AWS
                       "AttributeValue>"},
        [JSON_NAMES] = {NULL, "Unexpected field type",
                        "Unrecognized collection type java.util.Map<java.lang.String, "
                        "java.lang.String>"},
        [JSON_VALUE] = {NULL, "Unexpected value type in payload",
                        "Unrecognized collection type class " AWS "AttributeValue"},
    };
    json_skip_blanks(reader);
    uint8_t first = reader->at == reader->end ? '\0' : *reader->at;
    if (first == '{')
        return json_reader_refuse(reader, STATUS_MALFORMED,
                                  "Start of structure or map found where not expected");
    if (first == '[')
        return json_reader_refuse(reader, STATUS_MALFORMED, "%s", texts[wanted].list);
    if (texts[wanted].name == NULL)
        return json_reader_refuse(reader, STATUS_MALFORMED, "%s", texts[wanted].other);
    return json_reader_refuse(reader, STATUS_MALFORMED, "%s cannot be converted to %s",
                              token_name(reader, first), texts[wanted].name);
}

bool json_need_room(struct json_reader *reader)
{
    if (LIKELY(reader->out != NULL))
        return true;
    size_t quarter = (size_t)(reader->end - reader->start) / 4 + 1;
    size_t size = 9 * quarter + JSON_SCRATCH + MSGPACK_NUMBER_MAX;
    reader->out = arena_alloc(reader->arena, size);
    if (reader->out == NULL)
        return json_refuse_memory(reader);
    reader->out_end = reader->out + size;
    return true;
}

/* ---- strings ---- */

static bool is_special(uint8_t byte)
{
    return byte < 0x20 || byte == '"' || byte == '\\' || byte >= 0x80;
}

static int hex_digit(uint8_t letter)
{
    if (letter >= '0' && letter <= '9')
        return letter - '0';
    letter |= 0x20;
    return letter >= 'a' && letter <= 'f' ? letter - 'a' + 10 : -1;
}

/* Four hexadecimal digits; negative when there are none. */
static int32_t hex_unit(const uint8_t *at, const uint8_t *end)
{
    int32_t unit = 0;
    if (end - at < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        int digit = hex_digit(at[i]);
        if (digit < 0)
            return -1;
        unit = unit << 4 | digit;
    }
    return unit;
}

/* The character that an escape stands for; `at` is behind the backslash and goes behind the escape.
 * Negative: there is no such escape, or half a surrogate pair. */
static int32_t read_escape(const uint8_t **at, const uint8_t *end)
{
    static const char letters[] = "\"\\/bfnrt";
    static const char meanings[] = "\"\\/\b\f\n\r\t";
    if (*at == end)
        return -1;
    uint8_t letter = *(*at)++;
    if (letter != 'u') {
        const char *found = letter == '\0' ? NULL : strchr(letters, letter);
        return found == NULL ? -1 : meanings[found - letters];
    }
    int32_t unit = hex_unit(*at, end);
    if (unit < 0 || (unit & 0xf800) != 0xd800) {
        *at += unit < 0 ? 0 : 4;
        return unit;
    }
    *at += 4;
    bool is_high = unit < 0xdc00;
    if (!is_high || end - *at < 6 || (*at)[0] != '\\' || (*at)[1] != 'u')
        return -1;
    int32_t low = hex_unit(*at + 2, end);
    if ((low & ~0x3ff) != 0xdc00)
        return -1;
    *at += 6;
    return 0x10000 + ((unit & 0x3ff) << 10) + (low & 0x3ff);
}

static uint8_t *put_utf8(uint8_t *at, int32_t character)
{
    static const uint8_t leads[] = {0, 0, 0xc0, 0xe0, 0xf0};
    int size = character < 0x80 ? 1 : character < 0x800 ? 2 : character < 0x10000 ? 3 : 4;
    for (int i = size - 1; i > 0; i--) {
        at[i] = (uint8_t)(0x80 | (character & 0x3f));
        character >>= 6;
    }
    at[0] = (uint8_t)(leads[size] | character);
    return at + size;
}

/* What goes by while the end of a string is looked for. */
struct string {
    struct bytes text; /* between the quotes */
    bool has_escape, has_high;
};

/* Passes over a string, the opening quote of which is next. */
static bool scan_string(struct json_reader *reader, struct string *out)
{
    const uint8_t *at = reader->at + 1;
    const uint8_t *end = reader->end;
    *out = (struct string){.has_escape = false};
    for (;;) {
        while (end - at >= 8 && !json_has_special(at))
            at += 8;
        while (at != end && !is_special(*at))
            at++;
        reader->at = at;
        if (at == end)
            return json_refuse_syntax(reader, "a string has no end");
        if (*at == '"')
            break;
        if (*at < 0x20)
            return json_refuse_syntax(reader, "a control character in a string");
        at++;
        if (at[-1] >= 0x80) {
            out->has_high = true;
            while (at != end && *at >= 0x80)
                at++;
        } else {
            out->has_escape = true;
            if (read_escape(&at, end) < 0)
                return json_refuse_syntax(reader, "no such escape");
        }
    }
    return true;
}

static bool take_string(struct json_reader *reader, struct string *out)
{
    const uint8_t *start = reader->at + 1;
    if (!scan_string(reader, out))
        return false;
    out->text = bytes_of(start, (size_t)(reader->at - start));
    if (out->has_high && !utf8_is_valid(out->text)) {
        reader->at = start;
        return json_refuse_syntax(reader, "a string is not UTF-8");
    }
    reader->at++;
    return true;
}

/* in  scanned: its escapes are right */
static struct bytes unescape(struct bytes in, uint8_t *out)
{
    const uint8_t *at = in.data;
    const uint8_t *end = in.data + in.size;
    uint8_t *to = out;
    while (at != end) {
        const uint8_t *slash = memchr(at, '\\', (size_t)(end - at));
        size_t plain = (size_t)((slash == NULL ? end : slash) - at);
        memcpy(to, at, plain);
        to += plain;
        at += plain;
        if (slash == NULL)
            break;
        at++;
        to = put_utf8(to, read_escape(&at, end));
    }
    return bytes_of(out, (size_t)(to - out));
}

bool json_take_text(struct json_reader *reader, enum json_wanted wanted, struct bytes *out)
{
    struct string string;
    if (!json_sees(reader, '"'))
        return json_refuse_type(reader, wanted);
    if (!take_string(reader, &string))
        return false;
    *out = string.text;
    if (LIKELY(!string.has_escape))
        return true;
    if (!json_need_room(reader))
        return false;
    /* An escape is longer than its character. */
    ensure(string.text.size + JSON_SCRATCH <= (size_t)(reader->out_end - reader->out));
    *out = unescape(string.text, reader->out + JSON_SCRATCH);
    return true;
}

/* The same, a view that stays. */
static bool take_kept_text(struct json_reader *reader, struct bytes *out)
{
    struct bytes text;
    if (!json_take_text(reader, JSON_STRING, &text))
        return false;
    if (UNLIKELY(reader->out != NULL && text.data == reader->out + JSON_SCRATCH)) {
        memmove(reader->out, text.data, text.size);
        text.data = reader->out;
        reader->out += text.size;
    }
    *out = text;
    return true;
}

/* ---- numbers and words ---- */

static size_t skip_digits(struct json_reader *reader)
{
    const uint8_t *start = reader->at;
    while (reader->at != reader->end && *reader->at >= '0' && *reader->at <= '9')
        reader->at++;
    return (size_t)(reader->at - start);
}

static bool skips(struct json_reader *reader, char byte)
{
    if (reader->at == reader->end || *reader->at != (uint8_t)byte)
        return false;
    reader->at++;
    return true;
}

bool json_take_number(struct json_reader *reader, struct bytes *out, bool *is_integer)
{
    const uint8_t *start = reader->at;
    *is_integer = true;
    (void)skips(reader, '-');
    bool has_digits = skips(reader, '0') || skip_digits(reader) != 0;
    if (has_digits && skips(reader, '.')) {
        *is_integer = false;
        has_digits = skip_digits(reader) != 0;
    }
    if (has_digits && (skips(reader, 'e') || skips(reader, 'E'))) {
        *is_integer = false;
        if (!skips(reader, '+'))
            (void)skips(reader, '-');
        has_digits = skip_digits(reader) != 0;
    }
    if (!has_digits)
        return json_refuse_syntax(reader, "no value");
    *out = bytes_of(start, (size_t)(reader->at - start));
    return true;
}

bool json_take_word(struct json_reader *reader, const char *word)
{
    struct bytes left = bytes_of(reader->at, (size_t)(reader->end - reader->at));
    if (!bytes_begin_with(left, bytes_text(word)))
        return json_refuse_syntax(reader, "no value");
    reader->at += strlen(word);
    return true;
}

/* ---- maps and lists ---- */

bool json_enter_map(struct json_reader *reader)
{
    if (!json_takes(reader, '{'))
        return json_refuse_type(reader, JSON_MAP);
    reader->is_inside = false;
    return true;
}

bool json_enter_list(struct json_reader *reader)
{
    if (!json_takes(reader, '['))
        return json_refuse_type(reader, JSON_LIST);
    reader->is_inside = false;
    return true;
}

/* To what comes next in a map or list; false behind `close`. */
static bool go_on(struct json_reader *reader, char close)
{
    bool was_inside = reader->is_inside;
    reader->is_inside = true;
    if (reader->status != STATUS_OK || json_takes(reader, close))
        return false;
    if (was_inside && !json_takes(reader, ','))
        return json_refuse_syntax(reader, "a comma or an end is missing");
    return true;
}

/* A null that is the whole value. */
static bool skip_null(struct json_reader *reader)
{
    return json_sees(reader, 'n') && json_take_word(reader, "null");
}

bool json_next_member(struct json_reader *reader, struct bytes *name)
{
    while (go_on(reader, '}')) {
        if (!json_sees(reader, '"'))
            return json_refuse_syntax(reader, "a name is missing");
        if (!take_kept_text(reader, name))
            return false;
        if (!json_takes(reader, ':'))
            return json_refuse_syntax(reader, "a colon is missing");
        if (!skip_null(reader))
            return reader->status == STATUS_OK;
    }
    return false;
}

bool json_next_pair(struct json_reader *reader)
{
    return go_on(reader, '}');
}

bool json_next_element(struct json_reader *reader)
{
    return go_on(reader, ']');
}

/* ---- values ---- */

bool json_read_text(struct json_reader *reader, struct bytes *out)
{
    return take_kept_text(reader, out);
}

bool json_read_truth(struct json_reader *reader, bool *out)
{
    bool is_true = json_sees(reader, 't');
    if (!is_true && !json_sees(reader, 'f'))
        return json_refuse_type(reader, JSON_BOOLEAN);
    if (!json_take_word(reader, is_true ? "true" : "false"))
        return false;
    *out = is_true;
    return true;
}

bool json_read_integer(struct json_reader *reader, int64_t *out)
{
    struct bytes text;
    bool is_integer = false;
    json_skip_blanks(reader);
    const uint8_t *start = reader->at;
    bool is_number = reader->at != reader->end &&
                     (*reader->at == '-' || (*reader->at >= '0' && *reader->at <= '9'));
    if (!is_number)
        return json_refuse_type(reader, JSON_INTEGER);
    if (!json_take_number(reader, &text, &is_integer))
        return false;
    struct number number;
    struct error error;
    if (is_integer && number_parse(text, &number, &error) == STATUS_OK &&
        number_to_int(&number, out))
        return true;
    reader->at = start;
    return json_refuse_type(reader, JSON_INTEGER);
}

/* ---- passing over ---- */

/* Which of the maps and lists that are open, outermost first, are maps. */
struct nesting {
    uint64_t maps[JSON_DEPTH_MAX / 64];
    size_t depth;
};

static bool is_in_map(const struct nesting *nesting)
{
    size_t last = nesting->depth - 1;
    return (nesting->maps[last / 64] >> (last % 64) & 1) != 0;
}

static bool open_nested(struct json_reader *reader, struct nesting *nesting, bool is_map)
{
    if (nesting->depth == JSON_DEPTH_MAX) {
        struct error error;
        return json_reader_refuse(reader, value_refuse_depth(&error), "%s", error.text);
    }
    uint64_t bit = 1ULL << (nesting->depth % 64);
    uint64_t *word = &nesting->maps[nesting->depth++ / 64];
    *word = is_map ? *word | bit : *word & ~bit;
    reader->at++;
    reader->is_inside = false;
    return true;
}

static bool skip_scalar(struct json_reader *reader, char first)
{
    struct string string;
    struct bytes text;
    bool is_integer;
    switch (first) {
    case '"':
        return take_string(reader, &string);
    case 't':
        return json_take_word(reader, "true");
    case 'f':
        return json_take_word(reader, "false");
    case 'n':
        return json_take_word(reader, "null");
    default:
        return json_take_number(reader, &text, &is_integer);
    }
}

/* The name and colon of a member. */
static bool skip_name(struct json_reader *reader)
{
    struct string name;
    if (!json_sees(reader, '"'))
        return json_refuse_syntax(reader, "a name is missing");
    return take_string(reader, &name) &&
           (json_takes(reader, ':') || json_refuse_syntax(reader, "a colon is missing"));
}

/* Closes what ends here, and goes to the next value. False at the end of the outermost. */
static bool skip_to_value(struct json_reader *reader, struct nesting *nesting)
{
    while (nesting->depth != 0) {
        bool is_map = is_in_map(nesting);
        if (go_on(reader, is_map ? '}' : ']'))
            return !is_map || skip_name(reader);
        nesting->depth--;
    }
    return false;
}

bool json_skip(struct json_reader *reader, struct bytes *out)
{
    struct nesting nesting = {.depth = 0};
    json_skip_blanks(reader);
    const uint8_t *start = reader->at;
    do {
        json_skip_blanks(reader);
        char first = reader->at == reader->end ? '\0' : (char)*reader->at;
        bool is_nested = first == '{' || first == '[';
        if (is_nested ? !open_nested(reader, &nesting, first == '{') : !skip_scalar(reader, first))
            return false;
    } while (skip_to_value(reader, &nesting));
    reader->is_inside = true;
    if (reader->status == STATUS_OK && out != NULL)
        *out = bytes_of(start, (size_t)(reader->at - start));
    return reader->status == STATUS_OK;
}

/* ---- the end ---- */

static bool has_only_blanks(struct json_reader *reader)
{
    json_skip_blanks(reader);
    return reader->at == reader->end || json_refuse_syntax(reader, "something is behind the end");
}

enum status json_reader_end(struct json_reader *reader)
{
    if (reader->status == STATUS_OK) {
        (void)has_only_blanks(reader);
        return reader->status;
    }
    struct json_reader all;
    struct error error;
    struct bytes text = bytes_of(reader->start, (size_t)(reader->end - reader->start));
    json_reader_init(&all, text, reader->arena, &error);
    (void)(json_skip(&all, NULL) && has_only_blanks(&all));
    if (all.status == STATUS_MALFORMED) {
        *reader->error = error;
        reader->status = all.status;
    }
    return reader->status;
}
