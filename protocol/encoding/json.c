#include "protocol/encoding/json.h"

#include "protocol/encoding/base64.h"

#include <jansson.h>

#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#define INVALID "One or more parameter values were invalid: "

enum { REAL_DIGITS = 15 }; /* of a double in ordinary JSON: 0.1 stays 0.1 */

/* ---- reading ---- */

/* Where converted values go, and whose rules apply. */
struct reader {
    struct arena *arena;
    struct error *error;
    bool is_plain; /* no type members */
    bool is_kept;  /* jansson's own memory is the arena's too: nothing needs to be copied */
};

static enum status refuse_memory(struct error *error)
{
    (void)error_set(error, STATUS_NO_MEMORY, "%s", "");
    return STATUS_NO_MEMORY;
}

/* DynamoDB names what it found by its own parser's token. */
static enum status refuse_kind(const struct reader *reader, const json_t *json, const char *wanted)
{
    static const char *const found[] = {
        [JSON_OBJECT] = "Start of structure or map found where not expected",
        [JSON_ARRAY] = "Start of list found where not expected",
        [JSON_STRING] = "STRING_VALUE",
        [JSON_INTEGER] = "NUMBER_VALUE",
        [JSON_REAL] = "NUMBER_VALUE",
        [JSON_TRUE] = "TRUE_VALUE",
        [JSON_FALSE] = "FALSE_VALUE",
        [JSON_NULL] = "NULL_VALUE",
    };
    if (json_is_object(json) || json_is_array(json))
        return error_set(reader->error, STATUS_MALFORMED, "%s", found[json_typeof(json)]);
    return error_set(reader->error, STATUS_MALFORMED, "%s cannot be converted to %s",
                     found[json_typeof(json)], wanted);
}

static enum status keep(const struct reader *reader, struct bytes bytes, struct bytes *out)
{
    struct bytes kept = reader->is_kept ? bytes : arena_copy(reader->arena, bytes);
    if (!bytes_given(kept))
        return refuse_memory(reader->error);
    *out = kept;
    return STATUS_OK;
}

static enum status read_string(const struct reader *reader, const json_t *json, struct bytes *out)
{
    if (!json_is_string(json))
        return refuse_kind(reader, json, "String");
    return keep(reader, bytes_of(json_string_value(json), json_string_length(json)), out);
}

static enum status read_number(const struct reader *reader, const json_t *json, struct value *out)
{
    if (!json_is_string(json))
        return refuse_kind(reader, json, "String");
    out->type = VALUE_N;
    return number_parse(bytes_of(json_string_value(json), json_string_length(json)), &out->number,
                        reader->error);
}

static enum status read_binary(const struct reader *reader, const json_t *json, struct value *out)
{
    if (!json_is_string(json))
        return refuse_kind(reader, json, "a Blob");
    struct bytes text = bytes_of(json_string_value(json), json_string_length(json));
    uint8_t *bytes = arena_alloc(reader->arena, text.size / 4 * 3);
    size_t size = 0;
    if (bytes == NULL)
        return refuse_memory(reader->error);
    if (!base64_decode(text, bytes, &size))
        return error_set(reader->error, STATUS_MALFORMED, "Invalid Base64 in a binary value");
    out->type = VALUE_B;
    out->bytes = bytes_of(bytes, size);
    return STATUS_OK;
}

static enum status read_scalar(const struct reader *reader, const json_t *json,
                               enum value_type type, struct value *out)
{
    if (type == VALUE_N)
        return read_number(reader, json, out);
    if (type == VALUE_B)
        return read_binary(reader, json, out);
    out->type = VALUE_S;
    return read_string(reader, json, &out->bytes);
}

static enum status read_value(const struct reader *reader, json_t *json, int depth,
                              struct value *out);

/* member  the type of a set's members; VALUE_NULL for a list, whose members tell their own */
static enum status read_members(const struct reader *reader, const json_t *json, int depth,
                                enum value_type member, struct value *out)
{
    if (!json_is_array(json))
        return refuse_kind(reader, json, "a list");
    size_t count = json_array_size(json);
    struct value *values = arena_alloc(reader->arena, count * sizeof values[0]);
    if (values == NULL)
        return refuse_memory(reader->error);
    for (size_t i = 0; i < count; i++) {
        json_t *element = json_array_get(json, i);
        values[i] = (struct value){0};
        enum status status = member == VALUE_NULL
                                 ? read_value(reader, element, depth + 1, &values[i])
                                 : read_scalar(reader, element, member, &values[i]);
        if (status != STATUS_OK)
            return status;
    }
    out->values = values;
    out->count = count;
    return STATUS_OK;
}

static enum status read_map(const struct reader *reader, json_t *json, int depth, struct value *out)
{
    if (!json_is_object(json))
        return refuse_kind(reader, json, "a map");
    size_t count = json_object_size(json);
    struct attribute *attributes = arena_alloc(reader->arena, count * sizeof attributes[0]);
    if (attributes == NULL)
        return refuse_memory(reader->error);
    size_t i = 0;
    for (void *at = json_object_iter(json); at != NULL; at = json_object_iter_next(json, at)) {
        struct attribute *attribute = &attributes[i++];
        *attribute = (struct attribute){0};
        enum status status = keep(reader, bytes_text(json_object_iter_key(at)), &attribute->name);
        if (status == STATUS_OK)
            status = read_value(reader, json_object_iter_value(at), depth + 1, &attribute->value);
        if (status != STATUS_OK)
            return status;
    }
    out->type = VALUE_M;
    out->attributes = attributes;
    out->count = count;
    return STATUS_OK;
}

static bool type_by_name(const char *name, enum value_type *out)
{
    for (int type = VALUE_S; type <= VALUE_BS; type++) {
        if (strcmp(name, value_type_name((enum value_type)type)) == 0) {
            *out = (enum value_type)type;
            return true;
        }
    }
    return false;
}

/* The contents of a value whose type member said `type`. */
static enum status read_typed(const struct reader *reader, json_t *json, enum value_type type,
                              int depth, struct value *out)
{
    out->type = type;
    switch (type) {
    case VALUE_S:
    case VALUE_N:
    case VALUE_B:
        return read_scalar(reader, json, type, out);
    case VALUE_BOOL:
        out->truth = json_is_true(json);
        return json_is_boolean(json) ? STATUS_OK : refuse_kind(reader, json, "Boolean");
    case VALUE_NULL:
        if (json_is_false(json))
            return error_set(reader->error, STATUS_VALIDATION,
                             INVALID "Null attribute value types must have the value of true");
        return json_is_true(json) ? STATUS_OK : refuse_kind(reader, json, "Boolean");
    case VALUE_L:
        return read_members(reader, json, depth, VALUE_NULL, out);
    case VALUE_M:
        return read_map(reader, json, depth, out);
    case VALUE_SS:
        return read_members(reader, json, depth, VALUE_S, out);
    case VALUE_NS:
        return read_members(reader, json, depth, VALUE_N, out);
    case VALUE_BS:
        return read_members(reader, json, depth, VALUE_B, out);
    }
    return STATUS_OK;
}

/* Shortest text that reads as the same double. */
static size_t print_real(double real, char *out, size_t size)
{
    for (int digits = 15; digits < 17; digits++) {
        int length = snprintf(out, size, "%.*g", digits, real);
        if (length > 0 && strtod(out, NULL) == real)
            return (size_t)length;
    }
    int length = snprintf(out, size, "%.17g", real);
    return length > 0 ? (size_t)length : 0;
}

static enum status read_plain(const struct reader *reader, json_t *json, int depth,
                              struct value *out)
{
    char text[32];
    switch (json_typeof(json)) {
    case JSON_OBJECT:
        return read_map(reader, json, depth, out);
    case JSON_ARRAY:
        out->type = VALUE_L;
        return read_members(reader, json, depth, VALUE_NULL, out);
    case JSON_STRING:
        out->type = VALUE_S;
        return read_string(reader, json, &out->bytes);
    case JSON_INTEGER:
        out->type = VALUE_N;
        out->number = number_from_int(json_integer_value(json));
        return STATUS_OK;
    case JSON_REAL:
        out->type = VALUE_N;
        return number_parse(bytes_of(text, print_real(json_real_value(json), text, sizeof text)),
                            &out->number, reader->error);
    case JSON_TRUE:
    case JSON_FALSE:
        out->type = VALUE_BOOL;
        out->truth = json_is_true(json);
        return STATUS_OK;
    case JSON_NULL:
        out->type = VALUE_NULL;
        return STATUS_OK;
    }
    return STATUS_OK;
}

static enum status read_value(const struct reader *reader, json_t *json, int depth,
                              struct value *out)
{
    if (depth > ITEM_DEPTH_MAX)
        return value_refuse_depth(reader->error);
    if (reader->is_plain)
        return read_plain(reader, json, depth, out);
    if (!json_is_object(json))
        return refuse_kind(reader, json, "an attribute value");
    void *member = json_object_iter(json);
    enum value_type type = VALUE_NULL;
    if (member == NULL || !type_by_name(json_object_iter_key(member), &type))
        return error_set(reader->error, STATUS_VALIDATION,
                         "Supplied AttributeValue is empty, must contain exactly one of the "
                         "supported datatypes");
    if (json_object_size(json) != 1)
        return error_set(reader->error, STATUS_VALIDATION,
                         "Supplied AttributeValue has more than one datatypes set, must contain "
                         "exactly one of the supported datatypes");
    return read_typed(reader, json_object_iter_value(member), type, depth, out);
}

static enum status load(struct bytes text, json_t **out, struct error *error)
{
    json_error_t where;
    const char *data = bytes_given(text) ? (const char *)text.data : "";
    *out = json_loadb(data, text.size, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &where);
    if (*out != NULL)
        return STATUS_OK;
    if (json_error_code(&where) == json_error_out_of_memory)
        return refuse_memory(error);
    return error_set(error, STATUS_MALFORMED, "Not JSON at line %d, column %d: %s", where.line,
                     where.column, where.text);
}

static enum status read_whole(const struct reader *reader, json_t *json, struct value *out)
{
    struct value value = {0};
    enum status status = read_map(reader, json, 0, &value);
    if (status == STATUS_OK)
        status = value_normalize(&value, reader->error);
    if (status == STATUS_OK)
        *out = value;
    return status;
}

static enum status read_text(struct bytes text, bool is_plain, struct arena *arena,
                             struct value *out, struct error *error)
{
    struct reader reader = {arena, error, is_plain, false};
    json_t *json = NULL;
    enum status status = load(text, &json, error);
    if (json == NULL)
        return status;
    status = read_whole(&reader, json, out);
    json_decref(json);
    return status;
}

enum status json_to_item(struct bytes text, struct arena *arena, struct value *out,
                         struct error *error)
{
    return read_text(text, false, arena, out, error);
}

enum status json_to_plain(struct bytes text, struct arena *arena, struct value *out,
                          struct error *error)
{
    return read_text(text, true, arena, out, error);
}

/* ---- requests: jansson's memory is the arena's ---- */

/* What jansson uses on this thread while a document is read. */
struct document_memory {
    struct arena *arena;
    jmp_buf is_short;
};

/* NULL: jansson allocates from the heap. What one of the two gave never reaches the other, for
 * documents in an arena are never freed. */
static _Thread_local struct document_memory *document_memory;

/* Does not return without memory: jansson 2.14 does not look whether the text of a token could
 * grow, and reads on behind its end. All that it holds is the arena's, so that it can be left. */
static void *document_alloc(size_t size)
{
    struct document_memory *memory = document_memory;
    if (memory == NULL)
        return malloc(size);
    void *piece = arena_alloc(memory->arena, size);
    if (piece == NULL)
        longjmp(memory->is_short, 1);
    return piece;
}

static void document_free(void *piece)
{
    if (document_memory == NULL)
        free(piece);
}

static void use_document_memory(void)
{
    json_set_alloc_funcs(document_alloc, document_free);
}

/* Apart, so that nothing of the caller's is between setjmp and longjmp. */
static enum status load_document(struct bytes text, struct arena *arena, json_t **out,
                                 struct error *error)
{
    struct document_memory memory = {.arena = arena};
    if (setjmp(memory.is_short) != 0) {
        document_memory = NULL;
        return refuse_memory(error);
    }
    document_memory = &memory;
    enum status status = load(text, out, error);
    document_memory = NULL;
    return status;
}

enum status json_document_read(struct bytes text, struct arena *arena, struct json_document *out,
                               struct error *error)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, use_document_memory);
    json_t *json = NULL;
    enum status status = load_document(text, arena, &json, error);
    if (status != STATUS_OK)
        return status;
    if (!json_is_object(json))
        return error_set(error, STATUS_MALFORMED, "The body must be a JSON object");
    *out = (struct json_document){.root = json, .at = json_object_iter(json), .arena = arena};
    return STATUS_OK;
}

bool json_document_next(struct json_document *document, struct json_member *out)
{
    while (document->at != NULL) {
        void *at = document->at;
        document->at = json_object_iter_next(document->root, at);
        json_t *value = json_object_iter_value(at);
        if (json_is_null(value))
            continue;
        *out = (struct json_member){
            .name = bytes_text(json_object_iter_key(at)), .value = value, .arena = document->arena};
        return true;
    }
    return false;
}

static struct reader member_reader(const struct json_member *member, bool is_plain,
                                   struct error *error)
{
    return (struct reader){member->arena, error, is_plain, true};
}

enum status json_member_text(const struct json_member *member, struct bytes *out,
                             struct error *error)
{
    struct reader reader = member_reader(member, true, error);
    return read_string(&reader, member->value, out);
}

enum status json_member_truth(const struct json_member *member, bool *out, struct error *error)
{
    struct reader reader = member_reader(member, true, error);
    if (!json_is_boolean((const json_t *)member->value))
        return refuse_kind(&reader, member->value, "Boolean");
    *out = json_is_true((const json_t *)member->value);
    return STATUS_OK;
}

enum status json_member_integer(const struct json_member *member, int64_t *out, struct error *error)
{
    struct reader reader = member_reader(member, true, error);
    if (!json_is_integer((const json_t *)member->value))
        return refuse_kind(&reader, member->value, "Integer");
    *out = json_integer_value(member->value);
    return STATUS_OK;
}

enum status json_member_item(const struct json_member *member, struct value *out,
                             struct error *error)
{
    struct reader reader = member_reader(member, false, error);
    return read_whole(&reader, member->value, out);
}

enum status json_member_plain(const struct json_member *member, struct value *out,
                              struct error *error)
{
    struct reader reader = member_reader(member, true, error);
    *out = (struct value){0};
    return read_value(&reader, member->value, 1, out);
}

/* ---- writing ---- */

/* All of these give a new reference, or NULL without memory. */
static json_t *make_value(const struct value *value, bool is_plain);

static json_t *make_string(struct bytes bytes)
{
    return json_stringn_nocheck(bytes_given(bytes) ? (const char *)bytes.data : "", bytes.size);
}

static json_t *make_number(const struct number *number, bool is_plain)
{
    char text[NUMBER_TEXT_MAX + 1];
    size_t size = number_print(number, text);
    int64_t integer = 0;
    text[size] = '\0';
    if (!is_plain)
        return json_stringn_nocheck(text, size);
    return number_to_int(number, &integer) ? json_integer(integer) : json_real(strtod(text, NULL));
}

static json_t *make_binary(struct bytes bytes)
{
    size_t size = base64_size(bytes.size);
    char *text = malloc(size + 1);
    if (text == NULL)
        return NULL;
    base64_encode(bytes, text);
    json_t *json = json_stringn_nocheck(text, size);
    free(text);
    return json;
}

static json_t *make_scalar(const struct value *value, bool is_plain)
{
    if (value->type == VALUE_N)
        return make_number(&value->number, is_plain);
    return value->type == VALUE_B ? make_binary(value->bytes) : make_string(value->bytes);
}

static json_t *make_array(const struct value *value, bool is_plain)
{
    json_t *array = json_array();
    for (size_t i = 0; array != NULL && i < value->count; i++) {
        const struct value *member = &value->values[i];
        json_t *json =
            value->type == VALUE_L ? make_value(member, is_plain) : make_scalar(member, is_plain);
        if (json_array_append_new(array, json) != 0) {
            json_decref(array);
            return NULL;
        }
    }
    return array;
}

static json_t *make_object(const struct value *value, bool is_plain)
{
    json_t *object = json_object();
    for (size_t i = 0; object != NULL && i < value->count; i++) {
        const struct attribute *attribute = &value->attributes[i];
        json_t *json = make_value(&attribute->value, is_plain);
        if (json_object_setn_new_nocheck(object, (const char *)attribute->name.data,
                                         attribute->name.size, json) != 0) {
            json_decref(object);
            return NULL;
        }
    }
    return object;
}

static json_t *make_contents(const struct value *value, bool is_plain)
{
    switch (value->type) {
    case VALUE_S:
    case VALUE_N:
    case VALUE_B:
        return make_scalar(value, is_plain);
    case VALUE_BOOL:
        return json_boolean(value->truth);
    case VALUE_NULL:
        return is_plain ? json_null() : json_true();
    case VALUE_M:
        return make_object(value, is_plain);
    case VALUE_L:
    case VALUE_SS:
    case VALUE_NS:
    case VALUE_BS:
        return make_array(value, is_plain);
    }
    return NULL;
}

static json_t *make_value(const struct value *value, bool is_plain)
{
    json_t *contents = make_contents(value, is_plain);
    if (is_plain || contents == NULL)
        return contents;
    json_t *typed = json_object();
    if (typed == NULL) {
        json_decref(contents);
        return NULL;
    }
    if (json_object_set_new_nocheck(typed, value_type_name(value->type), contents) != 0) {
        json_decref(typed);
        return NULL;
    }
    return typed;
}

static int append_text(const char *text, size_t size, void *buffer)
{
    return buffer_append(buffer, bytes_of(text, size)) ? 0 : -1;
}

/* Takes over `json`, which may be NULL. */
static bool write_json(json_t *json, int indent, struct buffer *out)
{
    size_t start = out->size;
    size_t layout = indent == 0 ? JSON_COMPACT : JSON_INDENT((size_t)indent);
    bool is_written =
        json != NULL &&
        json_dump_callback(json, append_text, out,
                           JSON_ENCODE_ANY | JSON_REAL_PRECISION(REAL_DIGITS) | layout) == 0;
    json_decref(json);
    if (!is_written)
        out->size = start;
    return is_written;
}

bool json_from_item(const struct value *item, int indent, struct buffer *out)
{
    return write_json(make_object(item, false), indent, out);
}

bool json_from_plain(const struct value *value, int indent, struct buffer *out)
{
    return write_json(make_value(value, true), indent, out);
}
