/* items.c - the life of one item: table, put, get twice, delete. Argument: the URL. */
#include <mudax.h>

#include <stdio.h>
#include <stdlib.h>

static const char definition_json[] =
    "{\"TableName\": \"example_users\", \"BillingMode\": \"PAY_PER_REQUEST\","
    " \"KeySchema\": [{\"AttributeName\": \"id\", \"KeyType\": \"HASH\"}],"
    " \"AttributeDefinitions\": [{\"AttributeName\": \"id\", \"AttributeType\": \"N\"}]}";

static int fail(const struct mudax_error *error)
{
    fprintf(stderr, "%s: %s\n", error->name, error->text);
    return EXIT_FAILURE;
}

/* A table that is there already is fine. */
static int create_table(struct mudax *db, struct mudax_error *error)
{
    struct mudax_value *definition =
        mudax_from_plain_json(definition_json, sizeof definition_json - 1, error);
    struct mudax_request request = {.operation = MUDAX_CREATE_TABLE, .definition = definition};
    int code = definition == NULL ? error->code : mudax_call(db, &request, NULL, error);
    mudax_free(definition);
    return code == MUDAX_RESOURCE_IN_USE ? MUDAX_OK : code;
}

static int put_user(struct mudax *db, struct mudax_error *error)
{
    struct mudax_value *item = mudax_map();
    struct mudax_value *languages = mudax_string_set();
    mudax_append(languages, mudax_string("English"));
    mudax_append(languages, mudax_string("French"));
    mudax_put(item, "id", mudax_int(7));
    mudax_put(item, "name", mudax_string("Ada"));
    mudax_put(item, "height", mudax_number("1.65"));
    mudax_put(item, "languages", languages);
    int code = mudax_put_item(db, "example_users", item, error); /* tells if the above failed */
    mudax_free(item);
    return code;
}

static int show_user(struct mudax *db, const struct mudax_value *key, struct mudax_error *error)
{
    struct mudax_request request = {
        .operation = MUDAX_GET_ITEM, .table = "example_users", .key = key, .wants_verdict = true};
    struct mudax_reply *reply;
    int code = mudax_call(db, &request, &reply, error);
    if (code != MUDAX_OK)
        return code;
    size_t size;
    char height[MUDAX_NUMBER_TEXT];
    const struct mudax_value *item = mudax_reply_item(reply);
    const char *name = mudax_text(mudax_get(item, "name"), &size);
    if (item == NULL)
        printf("no such user\n");
    else
        printf("%.*s, %s m, %zu languages (%s)\n", (int)size, name,
               mudax_number_text(mudax_get(item, "height"), height),
               mudax_count(mudax_get(item, "languages")),
               mudax_reply_verdict(reply) == MUDAX_HIT ? "from the cache" : "from the store");
    mudax_reply_free(reply);
    return MUDAX_OK;
}

int main(int count, char **words)
{
    struct mudax_error error;
    struct mudax *db = mudax_open(count > 1 ? words[1] : "mudax://127.0.0.1:8110", NULL, &error);
    if (db == NULL)
        return fail(&error);
    struct mudax_value *key = mudax_map();
    mudax_put(key, "id", mudax_int(7));
    int code = create_table(db, &error);
    if (code == MUDAX_OK)
        code = put_user(db, &error);
    for (int i = 0; i < 2 && code == MUDAX_OK; i++)
        code = show_user(db, key, &error);
    if (code == MUDAX_OK)
        code = mudax_delete_item(db, "example_users", key, &error);
    if (code == MUDAX_OK)
        code = show_user(db, key, &error);
    mudax_free(key);
    mudax_close(&db);
    return code == MUDAX_OK ? EXIT_SUCCESS : fail(&error);
}
