#include "protocol/encoding/msgpack.h"

#include "protocol/ensure.h"

#include <msgpack/pack.h>

#include <endian.h>

#define INVALID "One or more parameter values were invalid: "

enum { LONG_ITEM = 4096 }; /* bytes; the tree of a shorter one may stay as long as its request */

/* ---- reading in place ---- */

/* size  0, 1, 2, 4 or 8 */
static uint64_t load_big_endian(const uint8_t *at, size_t size)
{
    uint16_t two;
    uint32_t four;
    uint64_t eight;
    switch (size) {
    case 0:
        return 0;
    case 1:
        return at[0];
    case 2:
        memcpy(&two, at, sizeof two);
        return be16toh(two);
    case 4:
        memcpy(&four, at, sizeof four);
        return be32toh(four);
    default:
        memcpy(&eight, at, sizeof eight);
        return be64toh(eight);
    }
}

/* Bytes, or their length, are next: takes `size` contents. */
static bool take_contents(struct msgpack_cursor *cursor, uint64_t size, enum msgpack_kind kind,
                          struct msgpack_head *out)
{
    if (size > (uint64_t)(cursor->end - cursor->at))
        return false;
    out->kind = kind;
    out->bytes = bytes_of(cursor->at, (size_t)size);
    cursor->at += size;
    return true;
}

static bool take_count(struct msgpack_cursor *cursor, uint64_t count, enum msgpack_kind kind,
                       struct msgpack_head *out)
{
    uint64_t elements = kind == MSGPACK_MAP ? 2 * count : count;
    if (elements > (uint64_t)(cursor->end - cursor->at))
        return false;
    out->kind = kind;
    out->count = (uint32_t)count;
    return true;
}

static bool take_extension(struct msgpack_cursor *cursor, uint64_t size, struct msgpack_head *out)
{
    if (cursor->at == cursor->end)
        return false;
    out->extension = *cursor->at++;
    return take_contents(cursor, size, MSGPACK_EXT, out);
}

static bool take_integer(uint64_t integer, bool is_signed, struct msgpack_head *out)
{
    out->kind = is_signed && (int64_t)integer < 0 ? MSGPACK_INT : MSGPACK_UINT;
    out->integer = integer;
    return true;
}

static bool take_bool(bool truth, struct msgpack_head *out)
{
    out->kind = MSGPACK_BOOL;
    out->truth = truth;
    return true;
}

/* Leads c4..df but for nil, bool and fixext: how many bytes of length or integer follow. */
static const uint8_t operand_sizes[] = {
    [0xc4 - 0xc0] = 1, [0xc5 - 0xc0] = 2, [0xc6 - 0xc0] = 4,                    /* bin */
    [0xc7 - 0xc0] = 1, [0xc8 - 0xc0] = 2, [0xc9 - 0xc0] = 4,                    /* ext */
    [0xcc - 0xc0] = 1, [0xcd - 0xc0] = 2, [0xce - 0xc0] = 4, [0xcf - 0xc0] = 8, /* uint */
    [0xd0 - 0xc0] = 1, [0xd1 - 0xc0] = 2, [0xd2 - 0xc0] = 4, [0xd3 - 0xc0] = 8, /* int */
    [0xd9 - 0xc0] = 1, [0xda - 0xc0] = 2, [0xdb - 0xc0] = 4,                    /* str */
    [0xdc - 0xc0] = 2, [0xdd - 0xc0] = 4,                                       /* array */
    [0xde - 0xc0] = 2, [0xdf - 0xc0] = 4,                                       /* map */
};

static bool read_long_form(struct msgpack_cursor *cursor, uint8_t lead, struct msgpack_head *out)
{
    size_t size = operand_sizes[lead - 0xc0];
    if (size > (size_t)(cursor->end - cursor->at))
        return false;
    uint64_t operand = load_big_endian(cursor->at, size);
    cursor->at += size;
    switch (lead) {
    case 0xc0:
        out->kind = MSGPACK_NIL;
        return true;
    case 0xc2:
    case 0xc3:
        return take_bool(lead == 0xc3, out);
    case 0xc4:
    case 0xc5:
    case 0xc6:
        return take_contents(cursor, operand, MSGPACK_BIN, out);
    case 0xc7:
    case 0xc8:
    case 0xc9:
        return take_extension(cursor, operand, out);
    case 0xcc:
    case 0xcd:
    case 0xce:
    case 0xcf:
        return take_integer(operand, false, out);
    case 0xd0:
        return take_integer((uint64_t)(int8_t)operand, true, out);
    case 0xd1:
        return take_integer((uint64_t)(int16_t)operand, true, out);
    case 0xd2:
        return take_integer((uint64_t)(int32_t)operand, true, out);
    case 0xd3:
        return take_integer(operand, true, out);
    case 0xd4:
    case 0xd5:
    case 0xd6:
    case 0xd7:
    case 0xd8:
        return take_extension(cursor, 1ULL << (lead - 0xd4), out);
    case 0xd9:
    case 0xda:
    case 0xdb:
        return take_contents(cursor, operand, MSGPACK_STR, out);
    case 0xdc:
    case 0xdd:
        return take_count(cursor, operand, MSGPACK_ARRAY, out);
    case 0xde:
    case 0xdf:
        return take_count(cursor, operand, MSGPACK_MAP, out);
    default: /* c1; ca and cb, the floats */
        return false;
    }
}

bool msgpack_read_any(struct msgpack_cursor *cursor, struct msgpack_head *out)
{
    if (cursor->at == cursor->end)
        return false;
    uint8_t lead = *cursor->at++;
    if (lead < 0x80)
        return take_integer(lead, false, out);
    if (lead < 0x90)
        return take_count(cursor, lead & 0x0f, MSGPACK_MAP, out);
    if (lead < 0xa0)
        return take_count(cursor, lead & 0x0f, MSGPACK_ARRAY, out);
    if (lead < 0xc0)
        return take_contents(cursor, lead & 0x1f, MSGPACK_STR, out);
    if (lead < 0xe0)
        return read_long_form(cursor, lead, out);
    return take_integer((uint64_t)(int8_t)lead, true, out);
}

bool msgpack_skip(struct msgpack_cursor *cursor, struct bytes *out)
{
    uint64_t left[ITEM_DEPTH_MAX + 4]; /* elements still to come, outermost first */
    size_t depth = 0;
    const uint8_t *start = cursor->at;
    for (;;) {
        struct msgpack_head head;
        if (!msgpack_read(cursor, &head))
            return false;
        if (head.kind == MSGPACK_ARRAY || head.kind == MSGPACK_MAP) {
            if (depth == sizeof left / sizeof left[0])
                return false;
            left[depth++] = head.kind == MSGPACK_MAP ? 2 * (uint64_t)head.count : head.count;
            left[depth - 1]++; /* itself */
        } else if (depth == 0) {
            break;
        }
        while (depth != 0 && --left[depth - 1] == 0)
            depth--;
        if (depth == 0)
            break;
    }
    if (out != NULL)
        *out = bytes_of(start, (size_t)(cursor->at - start));
    return true;
}

/* ---- what heads mean ---- */

static enum status refuse_bytes(struct error *error)
{
    (void)error_set(error, STATUS_MALFORMED, "Malformed value");
    return STATUS_MALFORMED;
}

bool msgpack_head_type(const struct msgpack_head *head, enum value_type *out)
{
    static const enum value_type types[] = {
        [MSGPACK_NIL] = VALUE_NULL, [MSGPACK_BOOL] = VALUE_BOOL, [MSGPACK_UINT] = VALUE_N,
        [MSGPACK_INT] = VALUE_N,    [MSGPACK_STR] = VALUE_S,     [MSGPACK_BIN] = VALUE_B,
        [MSGPACK_ARRAY] = VALUE_L,  [MSGPACK_MAP] = VALUE_M,
    };
    static const enum value_type extensions[] = {
        [MSGPACK_DECIMAL] = VALUE_N,
        [MSGPACK_STRING_SET] = VALUE_SS,
        [MSGPACK_NUMBER_SET] = VALUE_NS,
        [MSGPACK_BINARY_SET] = VALUE_BS,
    };
    if (head->kind != MSGPACK_EXT) {
        *out = types[head->kind];
        return true;
    }
    if (head->extension < MSGPACK_DECIMAL || head->extension > MSGPACK_BINARY_SET)
        return false;
    *out = extensions[head->extension];
    return true;
}

/* The type of a set's members. */
static enum value_type member_type(enum value_type set)
{
    return set == VALUE_SS ? VALUE_S : set == VALUE_NS ? VALUE_N : VALUE_B;
}

bool msgpack_head_number(const struct msgpack_head *head, struct number *out)
{
    if (head->kind == MSGPACK_UINT) {
        *out = number_from_uint(head->integer);
        return true;
    }
    if (head->kind == MSGPACK_INT) {
        *out = number_from_int((int64_t)head->integer);
        return true;
    }
    size_t used = 0;
    return number_from_ordered(head->bytes, out, &used) && used == head->bytes.size;
}

static bool number_fits_integer(const struct number *number)
{
    int64_t integer = 0;
    uint64_t natural = 0;
    return number_to_int(number, &integer) || number_to_uint(number, &natural);
}

/* ---- decoding into a tree ---- */

static enum status decode(struct msgpack_cursor *cursor, int depth, struct arena *arena,
                          struct value *out, struct error *error);

static void *alloc_array(struct arena *arena, size_t count, size_t size, struct error *error)
{
    void *array = count > SIZE_MAX / size ? NULL : arena_alloc(arena, count * size);
    if (array == NULL)
        (void)error_set(error, STATUS_NO_MEMORY, "%s", "");
    return array;
}

static enum status decode_list(struct msgpack_cursor *cursor, size_t count, int depth,
                               struct arena *arena, struct value *out, struct error *error)
{
    struct value *values = alloc_array(arena, count, sizeof values[0], error);
    if (values == NULL)
        return STATUS_NO_MEMORY;
    for (size_t i = 0; i < count; i++) {
        enum status status = decode(cursor, depth, arena, &values[i], error);
        if (status != STATUS_OK)
            return status;
    }
    out->values = values;
    out->count = count;
    return STATUS_OK;
}

static enum status decode_map(struct msgpack_cursor *cursor, size_t count, int depth,
                              struct arena *arena, struct value *out, struct error *error)
{
    struct attribute *attributes = alloc_array(arena, count, sizeof attributes[0], error);
    if (attributes == NULL)
        return STATUS_NO_MEMORY;
    for (size_t i = 0; i < count; i++) {
        if (!msgpack_read_str(cursor, &attributes[i].name))
            return refuse_bytes(error);
        enum status status = decode(cursor, depth, arena, &attributes[i].value, error);
        if (status != STATUS_OK)
            return status;
    }
    out->attributes = attributes;
    out->count = count;
    return STATUS_OK;
}

static enum status decode_set(struct bytes contents, struct arena *arena, struct value *out,
                              struct error *error)
{
    size_t count = 0;
    struct msgpack_cursor counting = msgpack_cursor_of(contents);
    for (; counting.at != counting.end; count++)
        if (!msgpack_skip(&counting, NULL))
            return refuse_bytes(error);
    struct msgpack_cursor cursor = msgpack_cursor_of(contents);
    /* Members are no lists or maps, so the depth is of no matter. */
    return decode_list(&cursor, count, ITEM_DEPTH_MAX, arena, out, error);
}

static enum status decode(struct msgpack_cursor *cursor, int depth, struct arena *arena,
                          struct value *out, struct error *error)
{
    struct msgpack_head head;
    *out = (struct value){0};
    if (!msgpack_read(cursor, &head) || !msgpack_head_type(&head, &out->type))
        return refuse_bytes(error);
    switch (out->type) {
    case VALUE_BOOL:
        out->truth = head.truth;
        return STATUS_OK;
    case VALUE_S:
    case VALUE_B:
        out->bytes = head.bytes;
        return STATUS_OK;
    case VALUE_N:
        return msgpack_head_number(&head, &out->number) ? STATUS_OK : refuse_bytes(error);
    case VALUE_L:
    case VALUE_M:
        if (depth == ITEM_DEPTH_MAX)
            return value_refuse_depth(error);
        return out->type == VALUE_L ? decode_list(cursor, head.count, depth + 1, arena, out, error)
                                    : decode_map(cursor, head.count, depth + 1, arena, out, error);
    case VALUE_SS:
    case VALUE_NS:
    case VALUE_BS:
        return decode_set(head.bytes, arena, out, error);
    case VALUE_NULL:
        return STATUS_OK;
    }
    return STATUS_OK;
}

enum status value_decode(struct msgpack_cursor *cursor, struct arena *arena, struct value *out,
                         struct error *error)
{
    struct value value;
    enum status status = decode(cursor, 0, arena, &value, error);
    if (status == STATUS_OK)
        status = value_normalize(&value, error);
    if (status == STATUS_OK)
        *out = value;
    return status;
}

enum status value_decode_plain(struct msgpack_cursor *cursor, struct arena *arena,
                               struct value *out, struct error *error)
{
    struct value value;
    enum status status = decode(cursor, ITEM_DEPTH_MAX - PLAIN_DEPTH_MAX, arena, &value, error);
    if (status == STATUS_OK)
        status = value_normalize_plain(&value, error);
    if (status == STATUS_OK)
        *out = value;
    return status;
}

/* ---- encoding ---- */

static int append_packed(void *buffer, const char *data, size_t size)
{
    return buffer_append(buffer, bytes_of(data, size)) ? 0 : -1;
}

static bool encode(msgpack_packer *packer, const struct value *value);

static bool encode_number(msgpack_packer *packer, const struct number *number)
{
    int64_t integer = 0;
    uint64_t natural = 0;
    if (number_to_uint(number, &natural))
        return msgpack_pack_uint64(packer, natural) == 0;
    if (number_to_int(number, &integer))
        return msgpack_pack_int64(packer, integer) == 0;
    uint8_t ordered[NUMBER_ORDERED_MAX];
    size_t size = number_to_ordered(number, ordered);
    return msgpack_pack_ext_with_body(packer, ordered, size, MSGPACK_DECIMAL) == 0;
}

/* Members first, then the head in front of them, for it holds their length. */
static bool encode_set(msgpack_packer *packer, const struct value *set, int8_t extension)
{
    struct buffer *out = packer->data;
    size_t start = out->size;
    for (size_t i = 0; i < set->count; i++)
        if (!encode(packer, &set->values[i]))
            return false;
    size_t contents = out->size - start;
    if (msgpack_pack_ext(packer, contents, extension) != 0)
        return false;
    uint8_t head[6];
    size_t head_size = out->size - start - contents;
    ensure(head_size <= sizeof head);
    memcpy(head, out->data + start + contents, head_size);
    memmove(out->data + start + head_size, out->data + start, contents);
    memcpy(out->data + start, head, head_size);
    return true;
}

static bool encode_map(msgpack_packer *packer, const struct value *map)
{
    if (msgpack_pack_map(packer, map->count) != 0)
        return false;
    for (size_t i = 0; i < map->count; i++) {
        const struct attribute *attribute = &map->attributes[i];
        if (msgpack_pack_str_with_body(packer, attribute->name.data, attribute->name.size) != 0 ||
            !encode(packer, &attribute->value))
            return false;
    }
    return true;
}

static bool encode(msgpack_packer *packer, const struct value *value)
{
    switch (value->type) {
    case VALUE_S:
        return msgpack_pack_str_with_body(packer, value->bytes.data, value->bytes.size) == 0;
    case VALUE_N:
        return encode_number(packer, &value->number);
    case VALUE_B:
        return msgpack_pack_bin_with_body(packer, value->bytes.data, value->bytes.size) == 0;
    case VALUE_BOOL:
        return (value->truth ? msgpack_pack_true(packer) : msgpack_pack_false(packer)) == 0;
    case VALUE_NULL:
        return msgpack_pack_nil(packer) == 0;
    case VALUE_L:
        if (msgpack_pack_array(packer, value->count) != 0)
            return false;
        for (size_t i = 0; i < value->count; i++)
            if (!encode(packer, &value->values[i]))
                return false;
        return true;
    case VALUE_M:
        return encode_map(packer, value);
    case VALUE_SS:
        return encode_set(packer, value, MSGPACK_STRING_SET);
    case VALUE_NS:
        return encode_set(packer, value, MSGPACK_NUMBER_SET);
    case VALUE_BS:
        return encode_set(packer, value, MSGPACK_BINARY_SET);
    }
    return false;
}

bool value_encode(const struct value *value, struct buffer *out)
{
    size_t start = out->size;
    msgpack_packer packer;
    msgpack_packer_init(&packer, out, append_packed);
    if (encode(&packer, value))
        return true;
    out->size = start;
    return false;
}

/* At least as many bytes as value_encode() needs on its way. */
static size_t encoded_max(const struct value *value)
{
    enum { HEAD_MAX = 6 };
    size_t size = 2 * HEAD_MAX; /* a set's head stands behind its members for a moment */
    switch (value->type) {
    case VALUE_S:
    case VALUE_B:
        return HEAD_MAX + value->bytes.size;
    case VALUE_N:
        return HEAD_MAX + NUMBER_ORDERED_MAX;
    case VALUE_BOOL:
    case VALUE_NULL:
        return 1;
    case VALUE_M:
        for (size_t i = 0; i < value->count; i++)
            size += HEAD_MAX + value->attributes[i].name.size +
                    encoded_max(&value->attributes[i].value);
        return size;
    case VALUE_L:
    case VALUE_SS:
    case VALUE_NS:
    case VALUE_BS:
        for (size_t i = 0; i < value->count; i++)
            size += encoded_max(&value->values[i]);
        return size;
    }
    return size;
}

struct bytes value_encode_arena(const struct value *value, struct arena *arena)
{
    size_t most = encoded_max(value);
    uint8_t *memory = arena_alloc(arena, most);
    if (memory == NULL)
        return BYTES_NONE;
    struct buffer buffer = {.data = memory, .capacity = most};
    ensure(value_encode(value, &buffer) && buffer.data == memory);
    return buffer_bytes(&buffer);
}

/* ---- items in place ---- */

/* DynamoDB's size of one head without what is inside a list or map; members of a set count as if
 * they stood alone. Source: developer guide, "DynamoDB item sizes and formats". */
static size_t head_item_size(const struct msgpack_head *head)
{
    struct number number = {0};
    switch (head->kind) {
    case MSGPACK_NIL:
    case MSGPACK_BOOL:
        return 1;
    case MSGPACK_UINT:
    case MSGPACK_INT:
        return msgpack_head_number(head, &number) ? number_item_size(&number) : 0;
    case MSGPACK_STR:
    case MSGPACK_BIN:
        return head->bytes.size;
    case MSGPACK_ARRAY:
    case MSGPACK_MAP:
        return 3 + (size_t)head->count;
    case MSGPACK_EXT:
        break;
    }
    if (head->extension == MSGPACK_DECIMAL)
        return msgpack_head_number(head, &number) ? number_item_size(&number) : 0;
    size_t size = 0;
    struct msgpack_head member;
    struct msgpack_cursor cursor = msgpack_cursor_of(head->bytes);
    while (cursor.at != cursor.end && msgpack_read(&cursor, &member) &&
           (member.kind != MSGPACK_EXT || member.extension == MSGPACK_DECIMAL))
        size += head_item_size(&member);
    return size;
}

size_t item_size(struct bytes item)
{
    struct msgpack_cursor cursor = msgpack_cursor_of(item);
    uint32_t pairs = 0;
    if (!msgpack_read_map(&cursor, &pairs))
        return 0;
    size_t size = 0;
    struct msgpack_head head;
    for (uint64_t left = 2 * (uint64_t)pairs; left != 0 && msgpack_read(&cursor, &head); left--) {
        size += head_item_size(&head); /* names too: they are strings */
        if (head.kind == MSGPACK_MAP)
            left += 2 * (uint64_t)head.count;
        else if (head.kind == MSGPACK_ARRAY)
            left += head.count;
    }
    return size;
}

/* Size of the shortest head that could stand before the same contents. */
static size_t shortest_head(const struct msgpack_head *head)
{
    size_t size = head->bytes.size;
    switch (head->kind) {
    case MSGPACK_NIL:
    case MSGPACK_BOOL:
        return 1;
    case MSGPACK_UINT:
        return head->integer < 0x80          ? 1
               : head->integer <= UINT8_MAX  ? 2
               : head->integer <= UINT16_MAX ? 3
               : head->integer <= UINT32_MAX ? 5
                                             : 9;
    case MSGPACK_INT: {
        int64_t integer = (int64_t)head->integer;
        return integer >= -32         ? 1
               : integer >= INT8_MIN  ? 2
               : integer >= INT16_MIN ? 3
               : integer >= INT32_MIN ? 5
                                      : 9;
    }
    case MSGPACK_STR:
        return size < 32 ? 1 : size <= UINT8_MAX ? 2 : size <= UINT16_MAX ? 3 : 5;
    case MSGPACK_BIN:
        return size <= UINT8_MAX ? 2 : size <= UINT16_MAX ? 3 : 5;
    case MSGPACK_ARRAY:
    case MSGPACK_MAP:
        return head->count < 16 ? 1 : head->count <= UINT16_MAX ? 3 : 5;
    case MSGPACK_EXT:
        if (size == 1 || size == 2 || size == 4 || size == 8 || size == 16)
            return 2;
        return size <= UINT8_MAX ? 3 : size <= UINT16_MAX ? 4 : 6;
    }
    return 0;
}

/* One pass over an item: where it is and what it has found. */
struct checker {
    struct msgpack_cursor cursor;
    struct item_facts facts;
    struct error *error;
};

/* Reads a head and looks at its form. */
static bool check_head(struct checker *checker, struct msgpack_head *out)
{
    const uint8_t *start = checker->cursor.at;
    if (!msgpack_read(&checker->cursor, out))
        return false;
    bool has_contents =
        out->kind == MSGPACK_STR || out->kind == MSGPACK_BIN || out->kind == MSGPACK_EXT;
    if (!has_contents)
        out->bytes = BYTES_NONE;
    size_t head_size = (size_t)(checker->cursor.at - start) - out->bytes.size;
    /* Unsigned numbers have signed forms of the same length: d0..d3. */
    bool is_signed_form = out->kind == MSGPACK_UINT && *start >= 0xd0;
    if (head_size != shortest_head(out) || is_signed_form)
        checker->facts.is_canonical = false;
    return true;
}

static enum status check_decimal(struct checker *checker, const struct msgpack_head *head,
                                 struct number *out)
{
    if (!msgpack_head_number(head, out))
        return refuse_bytes(checker->error);
    if (head->kind == MSGPACK_EXT && number_fits_integer(out))
        checker->facts.is_canonical = false;
    return STATUS_OK;
}

struct member {
    struct bytes bytes;
    struct number number;
};

static int compare_members(const struct member *a, const struct member *b, enum value_type type)
{
    return type == VALUE_N ? number_compare(&a->number, &b->number)
                           : bytes_compare(a->bytes, b->bytes);
}

static enum status check_member(struct checker *checker, enum value_type wanted, struct member *out)
{
    struct msgpack_head head;
    enum value_type type = VALUE_NULL;
    if (!check_head(checker, &head) || !msgpack_head_type(&head, &type))
        return refuse_bytes(checker->error);
    if (type != wanted)
        return error_set(checker->error, STATUS_VALIDATION,
                         INVALID "A member of type %s in a set of type %sS", value_type_name(type),
                         value_type_name(wanted));
    out->bytes = head.bytes;
    if (type == VALUE_S && !utf8_is_valid(head.bytes))
        return value_refuse_text(checker->error);
    return type == VALUE_N ? check_decimal(checker, &head, &out->number) : STATUS_OK;
}

static enum status check_set(struct checker *checker, struct bytes contents, enum value_type set)
{
    if (contents.size == 0)
        return value_refuse_empty_set(set, checker->error);
    struct checker inside = {msgpack_cursor_of(contents), checker->facts, checker->error};
    enum value_type type = member_type(set);
    struct member members[2]; /* this one and the one before */
    for (size_t i = 0; inside.cursor.at != inside.cursor.end; i++) {
        struct member *member = &members[i % 2];
        enum status status = check_member(&inside, type, member);
        if (status != STATUS_OK)
            return status;
        if (i != 0 && compare_members(&members[(i + 1) % 2], member, type) >= 0)
            inside.facts.is_canonical = false;
    }
    checker->facts = inside.facts;
    return STATUS_OK;
}

static enum status check_value(struct checker *checker, int depth);

static enum status check_map(struct checker *checker, size_t pairs, int depth)
{
    struct bytes before = BYTES_NONE;
    for (size_t i = 0; i < pairs; i++) {
        struct msgpack_head name;
        if (!check_head(checker, &name) || name.kind != MSGPACK_STR)
            return refuse_bytes(checker->error);
        enum status status = attribute_name_check(name.bytes, checker->error);
        if (status != STATUS_OK)
            return status;
        if (i != 0 && bytes_compare(before, name.bytes) >= 0)
            checker->facts.is_canonical = false;
        before = name.bytes;
        checker->facts.item_size += name.bytes.size;
        status = check_value(checker, depth);
        if (status != STATUS_OK)
            return status;
    }
    return STATUS_OK;
}

static enum status check_list(struct checker *checker, size_t count, int depth)
{
    for (size_t i = 0; i < count; i++) {
        enum status status = check_value(checker, depth);
        if (status != STATUS_OK)
            return status;
    }
    return STATUS_OK;
}

static enum status check_value(struct checker *checker, int depth)
{
    struct msgpack_head head;
    enum value_type type = VALUE_NULL;
    if (!check_head(checker, &head) || !msgpack_head_type(&head, &type))
        return refuse_bytes(checker->error);
    checker->facts.item_size += head_item_size(&head);
    struct number number;
    switch (type) {
    case VALUE_S:
        return utf8_is_valid(head.bytes) ? STATUS_OK : value_refuse_text(checker->error);
    case VALUE_N:
        return head.kind == MSGPACK_EXT ? check_decimal(checker, &head, &number) : STATUS_OK;
    case VALUE_L:
    case VALUE_M:
        if (depth == ITEM_DEPTH_MAX)
            return value_refuse_depth(checker->error);
        return type == VALUE_L ? check_list(checker, head.count, depth + 1)
                               : check_map(checker, head.count, depth + 1);
    case VALUE_SS:
    case VALUE_NS:
    case VALUE_BS:
        return check_set(checker, head.bytes, type);
    case VALUE_B:
    case VALUE_BOOL:
    case VALUE_NULL:
        return STATUS_OK;
    }
    return STATUS_OK;
}

enum status item_check(struct bytes item, struct item_facts *out, struct error *error)
{
    struct checker checker = {msgpack_cursor_of(item), {true, 0}, error};
    struct msgpack_head head;
    if (!check_head(&checker, &head) || head.kind != MSGPACK_MAP)
        return refuse_bytes(error);
    enum status status = check_map(&checker, head.count, 1);
    if (status != STATUS_OK)
        return status;
    if (checker.cursor.at != checker.cursor.end)
        return refuse_bytes(error);
    if (checker.facts.item_size > ITEM_SIZE_MAX)
        return error_set(error, STATUS_VALIDATION,
                         "Item size has exceeded the maximum allowed size");
    *out = checker.facts;
    return STATUS_OK;
}

static enum status encode_again(struct bytes item, struct arena *arena, struct bytes *out,
                                struct error *error)
{
    struct msgpack_cursor cursor = msgpack_cursor_of(item);
    struct value value;
    enum status status = value_decode(&cursor, arena, &value, error);
    if (status != STATUS_OK)
        return status;
    struct bytes copy = value_encode_arena(&value, arena);
    if (!bytes_given(copy))
        return error_set(error, STATUS_NO_MEMORY, "%s", "");
    *out = copy;
    return STATUS_OK;
}

/* The same for long items, of which a request may have many: a tree can take ten times the bytes of
 * its item, and goes at once. */
static enum status encode_long_again(struct bytes item, struct arena *arena, struct bytes *out,
                                     struct error *error)
{
    struct arena scratch;
    struct bytes copy = BYTES_NONE;
    arena_init(&scratch, NULL, 0, arena->heap_bytes_max);
    enum status status = encode_again(item, &scratch, &copy, error);
    if (status == STATUS_OK) {
        *out = arena_copy(arena, copy);
        if (!bytes_given(*out))
            status = error_set(error, STATUS_NO_MEMORY, "%s", "");
    }
    arena_deinit(&scratch);
    return status;
}

enum status item_canonical(struct bytes item, struct arena *arena, struct bytes *out,
                           size_t *item_size, struct error *error)
{
    struct item_facts facts = {0};
    enum status status = item_check(item, &facts, error);
    if (status != STATUS_OK)
        return status;
    struct bytes canonical = item;
    if (!facts.is_canonical)
        status = (item.size < LONG_ITEM ? encode_again : encode_long_again)(item, arena, &canonical,
                                                                            error);
    if (status != STATUS_OK)
        return status;
    *out = canonical;
    if (item_size != NULL)
        *item_size = facts.item_size;
    return STATUS_OK;
}

bool item_find(struct bytes item, struct bytes name, struct bytes *out)
{
    struct msgpack_cursor cursor = msgpack_cursor_of(item);
    uint32_t pairs = 0;
    if (!msgpack_read_map(&cursor, &pairs))
        return false;
    for (; pairs != 0; pairs--) {
        struct bytes found;
        if (!msgpack_read_str(&cursor, &found))
            return false;
        if (bytes_equal(found, name))
            return msgpack_skip(&cursor, out);
        if (!msgpack_skip(&cursor, NULL))
            return false;
    }
    return false;
}

/* ---- keys ---- */

static enum status refuse_key_names(struct error *error)
{
    (void)error_set(error, STATUS_VALIDATION, "The provided key element does not match the schema");
    return error_is_misfit(error);
}

static enum status refuse_key_type(const struct key_attribute *attribute, enum value_type actual,
                                   enum key_place place, struct error *error)
{
    switch (place) {
    case KEY_IN_ITEM:
        (void)error_set(error, STATUS_VALIDATION,
                        INVALID "Type mismatch for key %.*s expected: %s actual: %s",
                        (int)attribute->name.size, (const char *)attribute->name.data,
                        value_type_name(attribute->type), value_type_name(actual));
        return error_is_misfit(error);
    case KEY_IN_CONDITION:
        return error_set(error, STATUS_VALIDATION,
                         INVALID "Condition parameter type does not match schema type");
    case KEY_IN_KEY:
        break;
    }
    return refuse_key_names(error);
}

static enum status refuse_empty_key(const struct key_attribute *attribute, struct error *error)
{
    return error_set(error, STATUS_VALIDATION,
                     "One or more parameter values are not valid. The AttributeValue for a key "
                     "attribute cannot contain an empty %s value. Key: %.*s",
                     attribute->type == VALUE_S ? "string" : "binary", (int)attribute->name.size,
                     (const char *)attribute->name.data);
}

static enum status refuse_long_key(bool is_sort, struct error *error)
{
    if (is_sort)
        return error_set(error, STATUS_VALIDATION,
                         INVALID "Aggregated size of all range keys has exceeded the size limit "
                                 "of 1024 bytes");
    return error_set(error, STATUS_VALIDATION,
                     INVALID "Size of hashkey has exceeded the maximum size limit of2048 bytes");
}

enum status key_value_read(struct msgpack_cursor *cursor, const struct key_schema *schema,
                           bool is_sort, enum key_place place, uint8_t ordered[NUMBER_ORDERED_MAX],
                           struct bytes *out, struct error *error)
{
    const struct key_attribute *attribute = is_sort ? &schema->sort : &schema->partition;
    struct msgpack_head head;
    head.bytes = BYTES_NONE;
    enum value_type type = VALUE_NULL;
    if (UNLIKELY(!msgpack_read(cursor, &head) || !msgpack_head_type(&head, &type)))
        return refuse_bytes(error);
    if (UNLIKELY(type != attribute->type))
        return refuse_key_type(attribute, type, place, error);
    if (type == VALUE_N) {
        struct number number;
        if (!msgpack_head_number(&head, &number))
            return refuse_bytes(error);
        *out = bytes_of(ordered, number_to_ordered(&number, ordered));
        return STATUS_OK;
    }
    if (UNLIKELY(head.bytes.size == 0))
        return refuse_empty_key(attribute, error);
    if (UNLIKELY(head.bytes.size > (is_sort ? SORT_KEY_MAX : PARTITION_KEY_MAX)))
        return refuse_long_key(is_sort, error);
    if (type == VALUE_S && UNLIKELY(!utf8_is_valid(head.bytes)))
        return value_refuse_text(error);
    *out = head.bytes;
    return STATUS_OK;
}

/* The values of a key's parts before they are put together. */
struct key_parts {
    struct bytes partition, sort;
    uint8_t ordered_partition[NUMBER_ORDERED_MAX], ordered_sort[NUMBER_ORDERED_MAX];
};

static enum status refuse_missing_key(const struct key_schema *schema,
                                      const struct key_parts *parts, struct error *error)
{
    struct bytes name = bytes_given(parts->partition) ? schema->sort.name : schema->partition.name;
    (void)error_set(error, STATUS_VALIDATION, INVALID "Missing the key %.*s in the item",
                    (int)name.size, (const char *)name.data);
    return error_is_misfit(error);
}

/* Reads the value of `name` into its part; passes over what is no key attribute of the schema. */
static enum status read_part(struct msgpack_cursor *cursor, struct bytes name,
                             const struct key_schema *schema, bool is_exact,
                             struct key_parts *parts, struct error *error)
{
    enum key_place place = is_exact ? KEY_IN_KEY : KEY_IN_ITEM;
    if (bytes_equal(name, schema->partition.name) && !bytes_given(parts->partition))
        return key_value_read(cursor, schema, false, place, parts->ordered_partition,
                              &parts->partition, error);
    if (key_schema_has_sort(schema) && bytes_equal(name, schema->sort.name) &&
        !bytes_given(parts->sort))
        return key_value_read(cursor, schema, true, place, parts->ordered_sort, &parts->sort,
                              error);
    if (is_exact)
        return refuse_key_names(error);
    return msgpack_skip(cursor, NULL) ? STATUS_OK : refuse_bytes(error);
}

static enum status join_parts(const struct key_parts *parts, const struct key_schema *schema,
                              struct arena *arena, struct item_key *out, struct error *error)
{
    bool has_sort = key_schema_has_sort(schema);
    uint8_t *bytes = arena_alloc(arena, 2 * (parts->partition.size + parts->sort.size) + 4);
    if (bytes == NULL)
        return error_set(error, STATUS_NO_MEMORY, "%s", "");
    uint8_t *end = key_part_write(bytes, schema->partition.type, parts->partition,
                                  key_schema_is_last(schema, false));
    size_t partition_size = (size_t)(end - bytes);
    if (has_sort)
        end = key_part_write(end, schema->sort.type, parts->sort, key_schema_is_last(schema, true));
    *out = (struct item_key){bytes_of(bytes, (size_t)(end - bytes)), partition_size};
    return STATUS_OK;
}

enum status item_key_build(struct bytes map, const struct key_schema *schema, bool is_exact,
                           struct arena *arena, struct item_key *out, struct error *error)
{
    struct msgpack_cursor cursor = msgpack_cursor_of(map);
    uint32_t pairs = 0;
    if (!msgpack_read_map(&cursor, &pairs))
        return refuse_bytes(error);
    bool has_sort = key_schema_has_sort(schema);
    if (is_exact && pairs != (has_sort ? 2 : 1)) {
        (void)error_set(error, STATUS_VALIDATION,
                        "The number of conditions on the keys is invalid");
        return error_is_misfit(error);
    }
    struct key_parts parts;
    parts.partition = BYTES_NONE;
    parts.sort = BYTES_NONE;
    for (; pairs != 0; pairs--) {
        struct bytes name;
        if (!msgpack_read_str(&cursor, &name))
            return refuse_bytes(error);
        enum status status = read_part(&cursor, name, schema, is_exact, &parts, error);
        if (status != STATUS_OK)
            return status;
    }
    if (is_exact && cursor.at != cursor.end)
        return refuse_bytes(error);
    if (!bytes_given(parts.partition) || (has_sort && !bytes_given(parts.sort)))
        return refuse_missing_key(schema, &parts, error);
    return join_parts(&parts, schema, arena, out, error);
}

/* A key part back as a value. */
static bool part_value(struct bytes in, const struct key_attribute *attribute, bool is_last,
                       struct arena *arena, struct value *out)
{
    struct bytes contents;
    size_t used = 0;
    if (!key_part_read(in, attribute->type, is_last, arena, &contents, &used) || used != in.size)
        return false;
    *out = (struct value){.type = attribute->type, .bytes = contents};
    return attribute->type != VALUE_N || number_from_ordered(contents, &out->number, &used);
}

bool item_key_encode(struct item_key key, const struct key_schema *schema, struct arena *arena,
                     struct buffer *out)
{
    bool has_sort = key_schema_has_sort(schema);
    struct attribute parts[2] = {{.name = schema->partition.name}, {.name = schema->sort.name}};
    if (!part_value(item_key_partition(key), &schema->partition, !has_sort, arena, &parts[0].value))
        return false;
    if (has_sort && !part_value(item_key_sort(key), &schema->sort, true, arena, &parts[1].value))
        return false;
    if (has_sort && bytes_compare(parts[0].name, parts[1].name) > 0) {
        struct attribute first = parts[0];
        parts[0] = parts[1];
        parts[1] = first;
    }
    struct value map = {.type = VALUE_M, .attributes = parts, .count = has_sort ? 2 : 1};
    return value_encode(&map, out);
}
