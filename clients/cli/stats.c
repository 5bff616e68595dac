#include "clients/cli/stats.h"

#include <stdlib.h>
#include <string.h>

static bool is_wanted(const char *name, const char *prefix)
{
    if (prefix != NULL)
        return strncmp(name, prefix, strlen(prefix)) == 0;
    return strstr(name, "_bucket{") == NULL;
}

/* The figures that are wanted, in a map of their own. NULL without memory. */
static struct mudax_value *choose(const struct mudax_value *figures, const char *prefix)
{
    struct mudax_value *chosen = mudax_map();
    bool is_right = chosen != NULL;
    for (size_t i = 0; i < mudax_count(figures) && is_right; i++) {
        size_t size;
        const char *text = mudax_name_at(figures, i, &size);
        char *name = strndup(text, size);
        is_right = name != NULL;
        if (is_right && is_wanted(name, prefix))
            is_right = mudax_put(chosen, name, mudax_copy(mudax_at(figures, i)));
        free(name);
    }
    if (is_right)
        return chosen;
    mudax_free(chosen);
    return NULL;
}

int stats(struct mudax *db, const char *prefix)
{
    static const struct mudax_request request = {.operation = MUDAX_STATS};
    struct mudax_reply *reply;
    struct mudax_error error;
    if (mudax_call(db, &request, &reply, &error) != MUDAX_OK)
        return report_error(&error, "Stats");
    struct mudax_value *chosen = choose(mudax_reply_description(reply), prefix);
    char *text = chosen == NULL ? NULL : mudax_to_plain_json(chosen, 4);
    mudax_reply_free(reply);
    mudax_free(chosen);
    if (text == NULL)
        return report_no_memory();
    (void)puts(text);
    free(text);
    return 0;
}
