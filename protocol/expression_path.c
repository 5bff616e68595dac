#include "protocol/expression_path.h"

#include "protocol/expression_parser.h"

static int compare_step(const struct path_node *node, const struct path_step *step)
{
    if (bytes_given(step->name))
        return bytes_compare(node->name, step->name);
    return (node->index > step->index) - (node->index < step->index);
}

static void note_paths(struct parser *parser, const char *how, const struct path_step *one,
                       const struct path_step *two)
{
    char texts[2][48];
    path_print(one, texts[0], sizeof texts[0]);
    path_print(two, texts[1], sizeof texts[1]);
    parser_note_flaw(parser, FLAW_PATHS,
                     "Two document paths %s with each other; must remove or rewrite one of these "
                     "paths; path one: [%s], path two: [%s]",
                     how, texts[0], texts[1]);
}

/* The child of `parent` for a step, made if need be. NULL without memory, or with a flaw. */
static struct path_node *find_child(struct parser *parser, struct path_node *parent,
                                    const struct path_step *step, const struct path_step *path)
{
    const struct path_node *any = parent->first;
    if (any != NULL && bytes_given(any->name) != bytes_given(step->name)) {
        note_paths(parser, "conflict", any->path, path);
        return NULL;
    }
    struct path_node **at = &parent->first;
    while (*at != NULL && compare_step(*at, step) < 0)
        at = &(*at)->next;
    bool is_last = step->next == NULL;
    if (*at != NULL && compare_step(*at, step) == 0) {
        if (!is_last && (*at)->first != NULL)
            return *at;
        note_paths(parser, "overlap", (*at)->path, path);
        return NULL;
    }
    struct path_node *node = arena_alloc(parser->arena, sizeof *node);
    if (node == NULL)
        return parser_refuse_memory(parser);
    *node = (struct path_node){.next = *at, .name = step->name, .index = step->index, .path = path};
    *at = node;
    return node;
}

bool path_tree_add(struct parser *parser, struct path_node *root, const struct path_step *path,
                   struct path_node **leaf)
{
    struct path_node *node = root;
    *leaf = NULL;
    for (const struct path_step *step = path; step != NULL && node != NULL; step = step->next)
        node = find_child(parser, node, step, path);
    *leaf = node;
    return node != NULL || parser->has_flaw;
}

enum status projection_parse(struct bytes text, struct expression_binding *binding,
                             struct arena *arena, struct path_node **out, struct error *error)
{
    struct parser parser;
    struct path_node *root = arena_alloc(arena, sizeof *root);
    if (root == NULL)
        return error_set(error, STATUS_NO_MEMORY, "%s", "");
    *root = (struct path_node){.next = NULL};
    enum status status = parser_begin(&parser, text, "ProjectionExpression", binding, arena, error);
    if (status != STATUS_OK)
        return status;
    for (;;) {
        struct path_node *leaf;
        const struct expression *path = parser_read_path(&parser);
        if (path == NULL || !path_tree_add(&parser, root, path->path, &leaf))
            return error->status;
        if (parser.now.kind == TOKEN_END)
            break;
        if (!parser_take(&parser, TOKEN_COMMA))
            return error->status;
    }
    status = parser_end(&parser);
    if (status == STATUS_OK)
        *out = root;
    return status;
}
