#include "backend/expression/evaluate.h"

#include "backend/expression/lookup.h"
#include "backend/expression/members.h"

enum { NUMBER_ROOM = 9 }; /* an unsigned integer as MessagePack */

/* What an operand stands for; size() makes a number that is nowhere in the item. */
struct operand {
    struct bytes bytes; /* not given: missing */
    uint8_t room[NUMBER_ROOM];
};

bool value_open(struct bytes value, struct msgpack_head *head, enum value_type *type)
{
    struct msgpack_cursor cursor = msgpack_cursor_of(value);
    return bytes_given(value) && msgpack_read(&cursor, head) && msgpack_head_type(head, type);
}

/* ---- operands ---- */

bool value_size(struct bytes value, uint64_t *out)
{
    struct msgpack_head head;
    enum value_type type = VALUE_NULL;
    if (!value_open(value, &head, &type))
        return false;
    switch (type) {
    case VALUE_S:
    case VALUE_B:
        *out = head.bytes.size;
        return true;
    case VALUE_L:
    case VALUE_M:
        *out = head.count;
        return true;
    case VALUE_SS:
    case VALUE_NS:
    case VALUE_BS:
        *out = members_count(head.bytes);
        return true;
    case VALUE_N:
    case VALUE_BOOL:
    case VALUE_NULL:
        break;
    }
    return false;
}

/* The canonical bytes of a number that is not negative. */
static struct bytes write_number(uint64_t number, uint8_t room[NUMBER_ROOM])
{
    if (number < 0x80) {
        room[0] = (uint8_t)number;
        return bytes_of(room, 1);
    }
    uint8_t power = number <= UINT8_MAX    ? 0
                    : number <= UINT16_MAX ? 1
                    : number <= UINT32_MAX ? 2
                                           : 3;
    size_t octets = (size_t)1 << power;
    room[0] = (uint8_t)(0xcc + power);
    for (size_t i = 0; i < octets; i++)
        room[1 + i] = (uint8_t)(number >> 8 * (octets - 1 - i));
    return bytes_of(room, 1 + octets);
}

/* The same of a value that may be asked for again. */
static bool size_in(const struct subject *subject, struct bytes value, uint64_t *out)
{
    struct msgpack_head head;
    enum value_type type = VALUE_NULL;
    bool is_set = value_open(value, &head, &type) &&
                  (type == VALUE_SS || type == VALUE_NS || type == VALUE_BS);
    if (!is_set)
        return value_size(value, out);
    *out = marks_count(subject->marks, head.bytes);
    return true;
}

static void read_operand(const struct expression *node, const struct subject *subject,
                         struct operand *out)
{
    uint64_t size = 0;
    out->bytes = BYTES_NONE;
    if (node->kind == EXPRESSION_VALUE) {
        out->bytes = node->value->canonical;
    } else if (node->kind == EXPRESSION_SIZE) {
        struct operand sized;
        read_operand(node->first, subject, &sized);
        if (size_in(subject, sized.bytes, &size))
            out->bytes = write_number(size, out->room);
    } else if (!subject_find(subject, node, &out->bytes)) {
        out->bytes = BYTES_NONE;
    }
}

/* ---- comparing ---- */

/* Equal values have equal canonical bytes. */
static bool is_equal(const struct operand *a, const struct operand *b)
{
    return bytes_given(a->bytes) && bytes_given(b->bytes) && bytes_equal(a->bytes, b->bytes);
}

bool value_compare(struct bytes a, struct bytes b, int *order)
{
    struct msgpack_head left, right;
    enum value_type type = VALUE_NULL, other = VALUE_NULL;
    if (!value_open(a, &left, &type) || !value_open(b, &right, &other) || type != other)
        return false;
    struct number left_number, right_number;
    switch (type) {
    case VALUE_S:
    case VALUE_B:
        *order = bytes_compare(left.bytes, right.bytes);
        return true;
    case VALUE_N:
        if (!msgpack_head_number(&left, &left_number) ||
            !msgpack_head_number(&right, &right_number))
            return false;
        *order = number_compare(&left_number, &right_number);
        return true;
    default:
        return false;
    }
}

static bool compares(const struct expression *node, const struct subject *subject)
{
    struct operand left, right;
    int order = 0;
    read_operand(node->first, subject, &left);
    read_operand(node->first->next, subject, &right);
    if (node->kind == EXPRESSION_EQUAL)
        return is_equal(&left, &right);
    if (node->kind == EXPRESSION_NOT_EQUAL)
        return !is_equal(&left, &right);
    if (!value_compare(left.bytes, right.bytes, &order))
        return false;
    switch (node->kind) {
    case EXPRESSION_LESS:
        return order < 0;
    case EXPRESSION_LESS_EQUAL:
        return order <= 0;
    case EXPRESSION_GREATER:
        return order > 0;
    default: /* >= */
        return order >= 0;
    }
}

static bool is_between(const struct expression *node, const struct subject *subject)
{
    struct operand middle, low, high;
    int from_low = 0, to_high = 0;
    read_operand(node->first, subject, &middle);
    read_operand(node->first->next, subject, &low);
    read_operand(node->first->next->next, subject, &high);
    return value_compare(middle.bytes, low.bytes, &from_low) &&
           value_compare(middle.bytes, high.bytes, &to_high) && from_low >= 0 && to_high <= 0;
}

static bool is_in(const struct expression *node, const struct subject *subject)
{
    struct operand wanted, one;
    read_operand(node->first, subject, &wanted);
    for (const struct expression *next = node->first->next; next != NULL; next = next->next) {
        read_operand(next, subject, &one);
        if (is_equal(&wanted, &one))
            return true;
    }
    return false;
}

/* ---- functions ---- */

static bool has_type(const struct expression *node, const struct subject *subject)
{
    struct operand value, name;
    struct msgpack_head head, name_head;
    enum value_type type = VALUE_NULL, name_type = VALUE_NULL;
    read_operand(node->first, subject, &value);
    read_operand(node->first->next, subject, &name);
    return value_open(value.bytes, &head, &type) &&
           value_open(name.bytes, &name_head, &name_type) && name_type == VALUE_S &&
           bytes_equal(name_head.bytes, bytes_text(value_type_name(type)));
}

static bool begins(const struct expression *node, const struct subject *subject)
{
    struct operand value, prefix;
    struct msgpack_head head, prefix_head;
    enum value_type type = VALUE_NULL, prefix_type = VALUE_NULL;
    read_operand(node->first, subject, &value);
    read_operand(node->first->next, subject, &prefix);
    return value_open(value.bytes, &head, &type) &&
           value_open(prefix.bytes, &prefix_head, &prefix_type) && type == prefix_type &&
           (type == VALUE_S || type == VALUE_B) && bytes_begin_with(head.bytes, prefix_head.bytes);
}

static bool contains(const struct expression *node, const struct subject *subject)
{
    struct operand value, wanted;
    struct msgpack_head head, wanted_head;
    enum value_type type = VALUE_NULL, wanted_type = VALUE_NULL;
    read_operand(node->first, subject, &value);
    read_operand(node->first->next, subject, &wanted);
    if (!value_open(value.bytes, &head, &type) ||
        !value_open(wanted.bytes, &wanted_head, &wanted_type))
        return false;
    struct msgpack_cursor list = msgpack_cursor_of(value.bytes);
    switch (type) {
    case VALUE_S:
    case VALUE_B:
        return type == wanted_type &&
               (wanted_head.bytes.size == 0 ||
                memmem(head.bytes.data, head.bytes.size, wanted_head.bytes.data,
                       wanted_head.bytes.size) != NULL);
    case VALUE_SS:
    case VALUE_NS:
    case VALUE_BS:
        return marks_have(subject->marks, head.bytes, wanted.bytes);
    case VALUE_L:
        return msgpack_read(&list, &head) &&
               members_have(bytes_of(list.at, (size_t)(list.end - list.at)), wanted.bytes);
    default:
        return false;
    }
}

static bool is_there(const struct expression *node, const struct subject *subject)
{
    struct operand operand;
    read_operand(node->first, subject, &operand);
    return bytes_given(operand.bytes);
}

/* ---- conditions ---- */

/* Nesting is bounded by the parser, a chain of ANDs or ORs by its text (EXPRESSION_SIZE_MAX). */
static bool holds(const struct expression *node, const struct subject *subject)
{
    switch (node->kind) {
    case EXPRESSION_AND:
        return holds(node->first, subject) && holds(node->first->next, subject);
    case EXPRESSION_OR:
        return holds(node->first, subject) || holds(node->first->next, subject);
    case EXPRESSION_NOT:
        return !holds(node->first, subject);
    case EXPRESSION_BETWEEN:
        return is_between(node, subject);
    case EXPRESSION_IN:
        return is_in(node, subject);
    case EXPRESSION_ATTRIBUTE_EXISTS:
        return is_there(node, subject);
    case EXPRESSION_ATTRIBUTE_NOT_EXISTS:
        return !is_there(node, subject);
    case EXPRESSION_ATTRIBUTE_TYPE:
        return has_type(node, subject);
    case EXPRESSION_BEGINS_WITH:
        return begins(node, subject);
    case EXPRESSION_CONTAINS:
        return contains(node, subject);
    default:
        return compares(node, subject);
    }
}

bool condition_holds(const struct expression *tree, struct bytes item)
{
    if (tree == NULL)
        return true;
    struct marks marks;
    struct subject subject = subject_of(item, tree->paths);
    marks_init(&marks);
    subject.marks = &marks;
    return holds(tree, &subject);
}
