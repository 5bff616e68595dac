/* pages.c - all items of a partition, page by page, newest first. Argument: the URL. */
#include <mudax.h>

#include <stdio.h>
#include <stdlib.h>

enum { ORDERS = 25, PAGE = 10 };

static const char definition_json[] =
    "{\"TableName\": \"example_orders\", \"BillingMode\": \"PAY_PER_REQUEST\","
    " \"KeySchema\": [{\"AttributeName\": \"customer\", \"KeyType\": \"HASH\"},"
    "                 {\"AttributeName\": \"number\", \"KeyType\": \"RANGE\"}],"
    " \"AttributeDefinitions\": [{\"AttributeName\": \"customer\", \"AttributeType\": \"S\"},"
    "                            {\"AttributeName\": \"number\", \"AttributeType\": \"N\"}]}";

static int fail(const struct mudax_error *error)
{
    fprintf(stderr, "%s: %s\n", error->name, error->text);
    return EXIT_FAILURE;
}

static int prepare(struct mudax *db, struct mudax_error *error)
{
    struct mudax_value *definition =
        mudax_from_plain_json(definition_json, sizeof definition_json - 1, error);
    struct mudax_request request = {.operation = MUDAX_CREATE_TABLE, .definition = definition};
    int code = definition == NULL ? error->code : mudax_call(db, &request, NULL, error);
    mudax_free(definition);
    if (code == MUDAX_RESOURCE_IN_USE)
        code = MUDAX_OK;
    for (int number = 1; number <= ORDERS && code == MUDAX_OK; number++) {
        struct mudax_value *order = mudax_map();
        mudax_put(order, "customer", mudax_string("c#1"));
        mudax_put(order, "number", mudax_int(number));
        code = mudax_put_item(db, "example_orders", order, error);
        mudax_free(order);
    }
    return code;
}

static int show_pages(struct mudax *db, const struct mudax_value *values, struct mudax_error *error)
{
    struct mudax_reply *page = NULL;
    do {
        struct mudax_request request = {.operation = MUDAX_QUERY,
                                        .table = "example_orders",
                                        .key_condition = "customer = :c",
                                        .values = values,
                                        .scan_backward = true,
                                        .limit = PAGE,
                                        .start_key = mudax_reply_last_key(page)};
        struct mudax_reply *next;
        int code = mudax_call(db, &request, &next, error);
        mudax_reply_free(page); /* its key is not needed any more */
        if (code != MUDAX_OK)
            return code;
        page = next;
        printf("page of %zu:", mudax_reply_count(page));
        for (size_t i = 0; i < mudax_reply_count(page); i++) {
            int64_t number = 0;
            mudax_as_int(mudax_get(mudax_reply_item_at(page, i), "number"), &number);
            printf(" %lld", (long long)number);
        }
        printf("\n");
    } while (mudax_reply_last_key(page) != NULL);
    mudax_reply_free(page);
    return MUDAX_OK;
}

int main(int count, char **words)
{
    struct mudax_error error;
    struct mudax *db = mudax_open(count > 1 ? words[1] : "mudax://127.0.0.1:8110", NULL, &error);
    if (db == NULL)
        return fail(&error);
    struct mudax_value *values = mudax_map();
    mudax_put(values, ":c", mudax_string("c#1"));
    int code = prepare(db, &error);
    if (code == MUDAX_OK)
        code = show_pages(db, values, &error);
    mudax_free(values);
    mudax_close(&db);
    return code == MUDAX_OK ? EXIT_SUCCESS : fail(&error);
}
