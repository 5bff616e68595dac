/* expression_form.h - what an expression says, as bytes.
 *
 * Names and values stand in it for their aliases, so that two requests whose expressions mean the
 * same by the same tree have the same bytes, and others never. */
#pragma once

#include "protocol/expression_path.h"

/* The form of what decides which parts of which items a page shows.
 * filter      its values encoded (binding_encode); NULL: none
 * projection  NULL: none
 * is_count    only the number of items is shown
 * Arena memory; BYTES_NONE without. */
MUST_CHECK struct bytes expression_form(const struct expression *filter,
                                        const struct path_node *projection, bool is_count,
                                        struct arena *arena);
