#include "protocol/encoding/json.h"

#include "protocol/encoding/json_reader.h"

/* ---- to trees ---- */

static enum status read_tree(struct bytes text, bool is_plain, struct arena *arena,
                             struct value *out, struct error *error)
{
    struct json_reader reader;
    struct bytes packed = BYTES_NONE;
    json_reader_init(&reader, text, arena, error);
    bool is_read = is_plain ? json_read_object(&reader, &packed) : json_read_item(&reader, &packed);
    enum status status = json_reader_end(&reader);
    if (!is_read || status != STATUS_OK)
        return status;
    struct msgpack_cursor cursor = msgpack_cursor_of(packed);
    return is_plain ? value_decode_plain(&cursor, arena, out, error)
                    : value_decode(&cursor, arena, out, error);
}

enum status json_to_item(struct bytes text, struct arena *arena, struct value *out,
                         struct error *error)
{
    return read_tree(text, false, arena, out, error);
}

enum status json_to_plain(struct bytes text, struct arena *arena, struct value *out,
                          struct error *error)
{
    return read_tree(text, true, arena, out, error);
}

/* ---- from trees ---- */

static bool put_line(struct buffer *out, size_t spaces)
{
    if (!buffer_reserve(out, 1 + spaces))
        return false;
    out->data[out->size++] = '\n';
    memset(out->data + out->size, ' ', spaces);
    out->size += spaces;
    return true;
}

/* Behind the string that begins at `at`. */
static const uint8_t *skip_string(const uint8_t *at)
{
    for (at++; *at != '"'; at++)
        at += *at == '\\';
    return at + 1;
}

/* Sets text of one line, which this file's like has written, on several. */
static bool lay_out(struct bytes text, size_t indent, struct buffer *out)
{
    const uint8_t *end = text.data + text.size;
    size_t depth = 0;
    bool is_put = true;
    for (const uint8_t *at = text.data; is_put && at != end;) {
        bool opens = *at == '{' || *at == '[';
        bool is_empty = opens && (at[1] == '}' || at[1] == ']');
        const uint8_t *next = *at == '"' ? skip_string(at) : at + 1 + is_empty;
        if (*at == '}' || *at == ']')
            is_put = put_line(out, --depth * indent);
        is_put = is_put && buffer_append(out, bytes_of(at, (size_t)(next - at)));
        if (*at == ':')
            is_put = is_put && buffer_append(out, BYTES_LITERAL(" "));
        if (opens && !is_empty)
            depth++;
        if ((opens && !is_empty) || *at == ',')
            is_put = is_put && put_line(out, depth * indent);
        at = next;
    }
    return is_put;
}

static bool write_text(const struct value *value, bool is_plain, struct buffer *out)
{
    struct buffer packed = {0};
    bool is_written = value_encode(value, &packed);
    struct msgpack_cursor cursor = msgpack_cursor_of(buffer_bytes(&packed));
    is_written = is_written && (is_plain ? json_from_plain_bytes(&cursor, out)
                                         : json_from_item_bytes(&cursor, out));
    buffer_deinit(&packed);
    return is_written;
}

static bool write(const struct value *value, bool is_plain, int indent, struct buffer *out)
{
    if (indent == 0)
        return write_text(value, is_plain, out);
    struct buffer line = {0};
    size_t start = out->size;
    bool is_written =
        write_text(value, is_plain, &line) && lay_out(buffer_bytes(&line), (size_t)indent, out);
    buffer_deinit(&line);
    if (!is_written)
        out->size = start;
    return is_written;
}

bool json_from_item(const struct value *item, int indent, struct buffer *out)
{
    return write(item, false, indent, out);
}

bool json_from_plain(const struct value *value, int indent, struct buffer *out)
{
    return write(value, true, indent, out);
}
