#include "backend/expression/update.h"

#include "backend/expression/evaluate.h"
#include "backend/expression/lookup.h"
#include "protocol/ensure.h"

enum {
    BYTES_MAX = 4 * ITEM_SIZE_MAX, /* no item of legal size needs as many; stops what grows */
    HEAD_MAX = 6,
    HEAD_GAP = 5, /* in front of pairs and elements, until their number is known */
};

/* One update under way. */
struct build {
    struct subject old; /* what the right sides see */
    struct arena *arena;
    struct error *error;
    struct buffer out;
    bool is_legacy;
};

static enum status refuse(struct build *build, const char *text)
{
    return error_set(build->error, STATUS_VALIDATION, "%s", text);
}

static enum status refuse_type(struct build *build)
{
    return refuse(build, build->is_legacy
                             ? "Type mismatch for attribute to update"
                             : "An operand in the update expression has an incorrect data type");
}

static enum status refuse_path(struct build *build)
{
    return refuse(build,
                  "The document path provided in the update expression is invalid for update");
}

static enum status refuse_size(struct build *build)
{
    return refuse(build, "Item size to update has exceeded the maximum allowed size");
}

static enum status refuse_item(struct build *build)
{
    return error_set(build->error, STATUS_INTERNAL, "The item in the store cannot be read");
}

static enum status refuse_memory(struct build *build)
{
    return error_set(build->error, STATUS_NO_MEMORY, "%s", "");
}

/* ---- heads ---- */

static size_t put_length(uint8_t *at, uint8_t lead, size_t octets, size_t number)
{
    at[0] = lead;
    for (size_t i = 0; i < octets; i++)
        at[1 + i] = (uint8_t)(number >> 8 * (octets - 1 - i));
    return 1 + octets;
}

static size_t put_count(uint8_t *at, bool is_map, uint32_t count)
{
    if (count < 16)
        return put_length(at, (uint8_t)((is_map ? 0x80 : 0x90) | count), 0, 0);
    bool is_short = count <= UINT16_MAX;
    return put_length(at, (uint8_t)((is_map ? 0xde : 0xdc) + !is_short), is_short ? 2 : 4, count);
}

static size_t put_name_head(uint8_t *at, size_t size)
{
    if (size < 32)
        return put_length(at, (uint8_t)(0xa0 | size), 0, 0);
    if (size <= UINT8_MAX)
        return put_length(at, 0xd9, 1, size);
    return put_length(at, 0xda, 2, size); /* ATTRIBUTE_NAME_MAX */
}

static size_t put_set_head(uint8_t *at, size_t size, uint8_t extension)
{
    static const uint8_t fixed[] = {[1] = 0xd4, [2] = 0xd5, [4] = 0xd6, [8] = 0xd7, [16] = 0xd8};
    size_t used = 0;
    if (size < sizeof fixed && fixed[size] != 0)
        used = put_length(at, fixed[size], 0, 0);
    else if (size <= UINT8_MAX)
        used = put_length(at, 0xc7, 1, size);
    else if (size <= UINT16_MAX)
        used = put_length(at, 0xc8, 2, size);
    else
        used = put_length(at, 0xc9, 4, size);
    at[used] = extension;
    return used + 1;
}

/* ---- values ---- */

static enum status add_numbers(struct build *build, struct bytes left, struct bytes right,
                               bool is_minus, struct bytes *out)
{
    struct msgpack_head heads[2];
    enum value_type types[2] = {VALUE_NULL, VALUE_NULL};
    struct number a, b;
    if (!value_open(left, &heads[0], &types[0]) || !value_open(right, &heads[1], &types[1]) ||
        types[0] != VALUE_N || types[1] != VALUE_N || !msgpack_head_number(&heads[0], &a) ||
        !msgpack_head_number(&heads[1], &b))
        return refuse_type(build);
    struct value sum = {.type = VALUE_N};
    enum status status = is_minus ? number_subtract(&a, &b, &sum.number, build->error)
                                  : number_add(&a, &b, &sum.number, build->error);
    if (status != STATUS_OK)
        return status;
    *out = value_encode_arena(&sum, build->arena);
    return bytes_given(*out) ? STATUS_OK : refuse_memory(build);
}

/* The elements of a list, one behind the other. */
static bool open_list(struct bytes list, uint32_t *count, struct bytes *elements)
{
    struct msgpack_cursor cursor = msgpack_cursor_of(list);
    if (!bytes_given(list) || !msgpack_read_array(&cursor, count))
        return false;
    *elements = bytes_of(cursor.at, (size_t)(cursor.end - cursor.at));
    return true;
}

static enum status append_lists(struct build *build, struct bytes left, struct bytes right,
                                struct bytes *out)
{
    uint32_t counts[2];
    struct bytes elements[2];
    if (!open_list(left, &counts[0], &elements[0]) || !open_list(right, &counts[1], &elements[1]))
        return refuse_type(build);
    if (left.size + right.size > BYTES_MAX)
        return refuse_size(build);
    uint8_t *list = arena_alloc(build->arena, HEAD_MAX + left.size + right.size);
    if (list == NULL)
        return refuse_memory(build);
    size_t size = put_count(list, false, counts[0] + counts[1]);
    for (int i = 0; i < 2; i++) {
        memcpy(list + size, elements[i].data, elements[i].size);
        size += elements[i].size;
    }
    *out = bytes_of(list, size);
    return STATUS_OK;
}

static enum status compute(struct build *build, const struct expression *node, struct bytes *out);

/* Both operands of a function or sign. Nesting is bounded by the parser. */
static enum status compute_both(struct build *build, const struct expression *node,
                                struct bytes operands[2])
{
    enum status status = compute(build, node->first, &operands[0]);
    return status == STATUS_OK ? compute(build, node->first->next, &operands[1]) : status;
}

static enum status compute(struct build *build, const struct expression *node, struct bytes *out)
{
    struct bytes operands[2];
    enum status status = STATUS_OK;
    switch (node->kind) {
    case EXPRESSION_VALUE:
        *out = node->value->canonical;
        return STATUS_OK;
    case EXPRESSION_IF_NOT_EXISTS:
        return subject_find(&build->old, node->first, out) ? STATUS_OK
                                                           : compute(build, node->first->next, out);
    case EXPRESSION_LIST_APPEND:
        status = compute_both(build, node, operands);
        return status == STATUS_OK ? append_lists(build, operands[0], operands[1], out) : status;
    case EXPRESSION_PLUS:
    case EXPRESSION_MINUS:
        status = compute_both(build, node, operands);
        return status == STATUS_OK ? add_numbers(build, operands[0], operands[1],
                                                 node->kind == EXPRESSION_MINUS, out)
                                   : status;
    default: /* a path */
        ensure(node->kind == EXPRESSION_PATH);
        return subject_find(&build->old, node, out)
                   ? STATUS_OK
                   : refuse(build, "The provided expression refers to an attribute that does not "
                                   "exist in the item");
    }
}

/* ---- sets ---- */

static int compare_members(struct bytes a, struct bytes b)
{
    struct msgpack_head left, right;
    enum value_type type = VALUE_NULL, other = VALUE_NULL;
    struct number left_number, right_number;
    if (!value_open(a, &left, &type) || !value_open(b, &right, &other) || type != other)
        return bytes_compare(a, b);
    if (type != VALUE_N)
        return bytes_compare(left.bytes, right.bytes);
    if (!msgpack_head_number(&left, &left_number) || !msgpack_head_number(&right, &right_number))
        return bytes_compare(a, b);
    return number_compare(&left_number, &right_number);
}

/* Goes through two sorted sets as one: all members of both, or those of the first that are not in
 * the second. Returns the end of what it wrote to `at`. */
static uint8_t *merge(struct bytes first, struct bytes second, bool is_union, uint8_t *at)
{
    struct msgpack_cursor cursors[2] = {msgpack_cursor_of(first), msgpack_cursor_of(second)};
    struct bytes members[2] = {BYTES_NONE, BYTES_NONE};
    for (;;) {
        for (int i = 0; i < 2; i++)
            if (!bytes_given(members[i]) && cursors[i].at != cursors[i].end &&
                !msgpack_skip(&cursors[i], &members[i]))
                return at;
        if (!bytes_given(members[0]) && (!is_union || !bytes_given(members[1])))
            return at;
        int order = !bytes_given(members[1])   ? -1
                    : !bytes_given(members[0]) ? 1
                                               : compare_members(members[0], members[1]);
        struct bytes next = members[order > 0];
        if (is_union || order < 0) {
            memcpy(at, next.data, next.size);
            at += next.size;
        }
        if (order <= 0)
            members[0] = BYTES_NONE;
        if (order >= 0)
            members[1] = BYTES_NONE;
    }
}

/* `out` is not given when no member is left. */
static enum status change_set(struct build *build, struct bytes set, struct bytes operand,
                              bool is_union, struct bytes *out)
{
    struct msgpack_head heads[2];
    enum value_type types[2] = {VALUE_NULL, VALUE_NULL};
    if (!value_open(set, &heads[0], &types[0]) || !value_open(operand, &heads[1], &types[1]) ||
        types[0] != types[1] || types[0] < VALUE_SS)
        return refuse_type(build);
    size_t most = heads[0].bytes.size + heads[1].bytes.size;
    uint8_t *memory = arena_alloc(build->arena, HEAD_MAX + most);
    if (memory == NULL)
        return refuse_memory(build);
    uint8_t *end = merge(heads[0].bytes, heads[1].bytes, is_union, memory + HEAD_MAX);
    size_t size = (size_t)(end - memory) - HEAD_MAX;
    uint8_t head[HEAD_MAX];
    size_t head_size = put_set_head(head, size, heads[0].extension);
    uint8_t *begin = memory + HEAD_MAX - head_size;
    memcpy(begin, head, head_size);
    *out = size == 0 ? BYTES_NONE : bytes_of(begin, head_size + size);
    return STATUS_OK;
}

/* ---- actions ---- */

/* What stands at the end of a path afterwards; not given: nothing. */
static enum status act(struct build *build, const struct update_action *action,
                       struct bytes existing, struct bytes *out)
{
    struct bytes operand = BYTES_NONE;
    struct msgpack_head head;
    enum value_type type = VALUE_NULL;
    *out = BYTES_NONE;
    if (action->verb == UPDATE_REMOVE)
        return STATUS_OK;
    enum status status = compute(build, action->value, &operand);
    if (status != STATUS_OK)
        return status;
    if (action->verb == UPDATE_SET || (action->verb == UPDATE_ADD && !bytes_given(existing))) {
        *out = operand;
        return STATUS_OK;
    }
    if (!bytes_given(existing))
        return STATUS_OK;
    if (action->verb == UPDATE_DELETE)
        return change_set(build, existing, operand, false, out);
    if (value_open(operand, &head, &type) && type == VALUE_N)
        return add_numbers(build, existing, operand, false, out);
    return change_set(build, existing, operand, true, out);
}

/* ---- the walk ---- */

static enum status append(struct build *build, struct bytes bytes)
{
    if (build->out.size + bytes.size > BYTES_MAX)
        return refuse_size(build);
    return buffer_append(&build->out, bytes) ? STATUS_OK : refuse_memory(build);
}

static enum status write_children(struct build *build, const struct path_node *parent,
                                  struct bytes value);

/* Appends what becomes of the value at a node; nothing when it goes. */
static enum status write_node(struct build *build, const struct path_node *node,
                              struct bytes existing)
{
    struct bytes value;
    if (node->first != NULL)
        return write_children(build, node, existing);
    enum status status = act(build, node->action, existing, &value);
    return status == STATUS_OK && bytes_given(value) ? append(build, value) : status;
}

/* A pair of a map. `raw` is its name with its head, as it was; not given: a new name. */
static enum status write_pair(struct build *build, const struct path_node *node, struct bytes raw,
                              struct bytes existing, uint32_t *count)
{
    size_t start = build->out.size;
    uint8_t head[HEAD_MAX];
    enum status status = STATUS_OK;
    if (bytes_given(raw)) {
        status = append(build, raw);
    } else {
        status = append(build, bytes_of(head, put_name_head(head, node->name.size)));
        if (status == STATUS_OK)
            status = append(build, node->name);
    }
    size_t value_at = build->out.size;
    if (status == STATUS_OK)
        status = write_node(build, node, existing);
    if (status == STATUS_OK && build->out.size == value_at)
        build->out.size = start;
    else
        ++*count;
    return status;
}

/* Old pairs and nodes, both sorted by name, as one sequence. */
static enum status write_pairs(struct build *build, const struct path_node *node,
                               struct msgpack_cursor *cursor, uint32_t pairs, uint32_t *count)
{
    enum status status = STATUS_OK;
    for (; pairs != 0 && status == STATUS_OK; pairs--) {
        struct bytes name, value;
        const uint8_t *begin = cursor->at;
        if (!msgpack_read_str(cursor, &name))
            return refuse_item(build);
        struct bytes raw = bytes_of(begin, (size_t)(cursor->at - begin));
        if (!msgpack_skip(cursor, &value))
            return refuse_item(build);
        for (; node != NULL && bytes_compare(node->name, name) < 0 && status == STATUS_OK;
             node = node->next)
            status = write_pair(build, node, BYTES_NONE, BYTES_NONE, count);
        if (status != STATUS_OK)
            return status;
        if (node != NULL && bytes_equal(node->name, name)) {
            status = write_pair(build, node, raw, value, count);
            node = node->next;
        } else {
            status = append(build, bytes_of(begin, (size_t)(cursor->at - begin)));
            ++*count;
        }
    }
    for (; node != NULL && status == STATUS_OK; node = node->next)
        status = write_pair(build, node, BYTES_NONE, BYTES_NONE, count);
    return status;
}

/* Indexes beyond the end append, in their order. */
static enum status write_elements(struct build *build, const struct path_node *node,
                                  struct msgpack_cursor *cursor, uint32_t elements, uint32_t *count)
{
    enum status status = STATUS_OK;
    for (uint32_t i = 0; (i < elements || node != NULL) && status == STATUS_OK; i++) {
        struct bytes value = BYTES_NONE;
        size_t start = build->out.size;
        if (i < elements && !msgpack_skip(cursor, &value))
            return refuse_item(build);
        if (node != NULL && (i >= elements || node->index == i)) {
            status = write_node(build, node, value);
            node = node->next;
        } else {
            status = append(build, value);
        }
        *count += build->out.size != start;
    }
    return status;
}

/* Writes a map or list again with what its nodes make of it. */
static enum status write_children(struct build *build, const struct path_node *parent,
                                  struct bytes value)
{
    struct msgpack_cursor cursor = msgpack_cursor_of(value);
    struct msgpack_head head;
    bool is_map = bytes_given(parent->first->name);
    if (!bytes_given(value) || !msgpack_read(&cursor, &head) ||
        head.kind != (is_map ? MSGPACK_MAP : MSGPACK_ARRAY))
        return refuse_path(build);
    size_t start = build->out.size;
    static const uint8_t gap[HEAD_GAP];
    enum status status = append(build, bytes_of(gap, HEAD_GAP));
    uint32_t count = 0;
    if (status == STATUS_OK)
        status = is_map ? write_pairs(build, parent->first, &cursor, head.count, &count)
                        : write_elements(build, parent->first, &cursor, head.count, &count);
    if (status != STATUS_OK)
        return status;
    uint8_t *at = build->out.data + start;
    size_t contents = build->out.size - start - HEAD_GAP;
    size_t head_size = put_count(at, is_map, count);
    memmove(at + head_size, at + HEAD_GAP, contents);
    build->out.size = start + head_size + contents;
    return STATUS_OK;
}

/* ---- the whole ---- */

static enum status check(struct build *build, struct bytes item, size_t *size)
{
    struct item_facts facts;
    *size = item_size(item);
    if (*size > ITEM_SIZE_MAX)
        return refuse_size(build);
    enum status status = item_check(item, &facts, build->error); /* nests too deep, perhaps */
    return status == STATUS_OK && !facts.is_canonical ? refuse_item(build) : status;
}

enum status update_apply(const struct path_node *update, bool is_legacy, struct bytes old,
                         struct bytes fresh, struct arena *arena, struct bytes *out, size_t *size,
                         struct error *error)
{
    struct bytes before = bytes_given(old) ? old : fresh;
    if (update == NULL || update->first == NULL) {
        struct bytes same = arena_copy(arena, before);
        if (!bytes_given(same))
            return error_set(error, STATUS_NO_MEMORY, "%s", "");
        *out = same;
        *size = item_size(same);
        return STATUS_OK;
    }
    struct build build = {.old = subject_of(old, update->paths),
                          .arena = arena,
                          .error = error,
                          .is_legacy = is_legacy};
    struct bytes item = BYTES_NONE;
    size_t item_bytes = 0;
    enum status status = write_children(&build, update, before);
    if (status == STATUS_OK)
        status = check(&build, buffer_bytes(&build.out), &item_bytes);
    if (status == STATUS_OK) {
        item = arena_copy(arena, buffer_bytes(&build.out));
        if (!bytes_given(item))
            status = refuse_memory(&build);
    }
    buffer_deinit(&build.out);
    if (status != STATUS_OK)
        return status;
    *out = item;
    *size = item_bytes;
    return STATUS_OK;
}
