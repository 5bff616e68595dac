/* Conditions, projections and updates over an item: a line of text, which is taken for each of
 * them, then MessagePack: the map of values, then the item. */
#include "backend/expression/evaluate.h"
#include "backend/expression/projection.h"
#include "backend/expression/update.h"
#include "protocol/ensure.h"
#include "protocol/expression_form.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ARENA_MAX = 64 << 20 };

struct input {
    struct bytes text, values, item;
    bool is_canonical;
};

static void check_refusal(enum status status, const struct error *error)
{
    ensure(status == STATUS_VALIDATION || status == STATUS_MALFORMED ||
           status == STATUS_NO_MEMORY || status == STATUS_INTERNAL);
    ensure(error->status == status);
}

static void check_item(const struct input *input, struct bytes item)
{
    struct item_facts facts;
    struct error error;
    if (!input->is_canonical)
        return;
    ensure(item_check(item, &facts, &error) == STATUS_OK && facts.is_canonical);
}

static void condition(const struct input *input, struct expression_binding *binding,
                      struct arena *arena)
{
    struct expression *tree;
    struct error error;
    enum status status =
        condition_parse(input->text, "FilterExpression", binding, arena, &tree, &error);
    if (status != STATUS_OK) {
        check_refusal(status, &error);
        return;
    }
    (void)condition_holds(tree, input->item);
    (void)condition_holds(tree, BYTES_NONE);
    ensure(expression_form(tree, NULL, false, arena).size != 1);
}

static void projection(const struct input *input, struct expression_binding *binding,
                       struct arena *arena)
{
    struct path_node *tree;
    struct error error;
    enum status status = projection_parse(input->text, binding, arena, &tree, &error);
    if (status != STATUS_OK) {
        check_refusal(status, &error);
        return;
    }
    struct bytes parts = projection_apply(tree, input->item, arena);
    ensure(parts.size <= input->item.size);
    if (bytes_given(parts))
        check_item(input, parts);
}

static void update(const struct input *input, struct expression_binding *binding,
                   struct arena *arena)
{
    struct path_node *tree;
    struct bytes new;
    size_t size = 0;
    struct error error;
    enum status status = update_parse(input->text, binding, arena, &tree, &error);
    if (status == STATUS_OK)
        status = update_apply(tree, false, input->item, input->item, arena, &new, &size, &error);
    if (status != STATUS_OK) {
        check_refusal(status, &error);
        return;
    }
    check_item(input, new);
    ensure(!input->is_canonical || size == item_size(new));
}

static void try_all(const struct input *input)
{
    struct arena arena;
    struct expression_binding binding;
    struct error error;
    arena_init(&arena, NULL, 0, ARENA_MAX);
    if (binding_init(BYTES_NONE, input->values, &arena, &binding, &error) == STATUS_OK &&
        binding_encode(&binding, &arena, &error) == STATUS_OK) {
        condition(input, &binding, &arena);
        projection(input, &binding, &arena);
        update(input, &binding, &arena);
    }
    arena_deinit(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = {.text = bytes_of(data, size)};
    const uint8_t *line_end = size == 0 ? NULL : memchr(data, '\n', size);
    if (line_end == NULL)
        return 0;
    input.text.size = (size_t)(line_end - data);
    size_t left = size - input.text.size - 1;
    struct msgpack_cursor cursor = msgpack_cursor_of(bytes_of(line_end + 1, left));
    if (left == 0 || !msgpack_skip(&cursor, &input.values) || cursor.at == cursor.end)
        return 0;
    input.item = bytes_of(cursor.at, (size_t)(cursor.end - cursor.at));
    struct item_facts facts;
    struct error error;
    input.is_canonical = item_check(input.item, &facts, &error) == STATUS_OK && facts.is_canonical;
    try_all(&input);
    return 0;
}
