/* transfer.c - accounts written as a batch; money moved between them, all or nothing; what is there
 * in the end. Argument: the URL. */
#define _POSIX_C_SOURCE 200809L /* nanosleep() */

#include <mudax.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { ACCOUNTS = 3, ROUNDS = 10 };

static const char definition_json[] =
    "{\"TableName\": \"example_accounts\", \"BillingMode\": \"PAY_PER_REQUEST\","
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

static struct mudax_value *make_key(int id)
{
    struct mudax_value *key = mudax_map();
    mudax_put(key, "id", mudax_int(id));
    return key;
}

/* Sends the parts of a batch, and again those that were not processed. */
static int write_all(struct mudax *db, struct mudax_request *parts, size_t count,
                     struct mudax_error *error)
{
    for (int round = 0; round < ROUNDS && count > 0; round++) {
        struct mudax_request request = {
            .operation = MUDAX_BATCH_WRITE_ITEM, .parts = parts, .part_count = count};
        struct timespec pause = {0, 10000000L << round / 2};
        struct mudax_reply *reply;
        int code = mudax_call(db, &request, &reply, error);
        if (code != MUDAX_OK)
            return code;
        count = mudax_reply_unprocessed_count(reply);
        for (size_t i = 0; i < count; i++)
            parts[i] = parts[mudax_reply_unprocessed_at(reply, i)]; /* ascending: none is lost */
        mudax_reply_free(reply);
        if (count > 0)
            nanosleep(&pause, NULL);
    }
    if (count > 0)
        fprintf(stderr, "%zu accounts were not written\n", count);
    return MUDAX_OK;
}

static int put_accounts(struct mudax *db, struct mudax_error *error)
{
    struct mudax_request parts[ACCOUNTS] = {{0}};
    struct mudax_value *items[ACCOUNTS];
    for (int id = 0; id < ACCOUNTS; id++) {
        items[id] = make_key(id);
        mudax_put(items[id], "balance", mudax_int(100));
        parts[id].operation = MUDAX_PUT_ITEM;
        parts[id].table = "example_accounts";
        parts[id].item = items[id];
    }
    int code = write_all(db, parts, ACCOUNTS, error);
    for (int id = 0; id < ACCOUNTS; id++)
        mudax_free(items[id]);
    return code;
}

/* Both accounts change or none does, also if the reply to the first attempt is lost. */
static int transfer(struct mudax *db, int from, int to, int amount, struct mudax_error *error)
{
    struct mudax_value *from_key = make_key(from), *to_key = make_key(to), *values = mudax_map();
    mudax_put(values, ":a", mudax_int(amount));
    struct mudax_request parts[] = {
        {.operation = MUDAX_UPDATE_ITEM,
         .table = "example_accounts",
         .key = from_key,
         .update = "SET balance = balance - :a",
         .condition = "balance >= :a",
         .values = values,
         .wants_failed_item = true},
        {.operation = MUDAX_UPDATE_ITEM,
         .table = "example_accounts",
         .key = to_key,
         .update = "SET balance = balance + :a",
         .condition = "attribute_exists(id)",
         .values = values},
    };
    struct mudax_request request = {
        .operation = MUDAX_TRANSACT_WRITE_ITEMS, .parts = parts, .part_count = 2};
    struct mudax_reply *reply;
    int code = mudax_call(db, &request, &reply, error);
    printf("%d from %d to %d: %s\n", amount, from, to, code == MUDAX_OK ? "done" : error->name);
    for (size_t i = 0; code == MUDAX_TRANSACTION_CANCELED && i < mudax_reply_count(reply); i++) {
        char balance[MUDAX_NUMBER_TEXT];
        mudax_number_text(mudax_get(mudax_reply_item_at(reply, i), "balance"), balance);
        printf("  part %zu: %s%s%s\n", i, mudax_reply_reason(reply, i, NULL),
               balance[0] != '\0' ? ", balance " : "", balance);
    }
    mudax_reply_free(reply);
    mudax_free(from_key);
    mudax_free(to_key);
    mudax_free(values);
    return code == MUDAX_TRANSACTION_CANCELED ? MUDAX_OK : code;
}

/* All of one moment. */
static int show_accounts(struct mudax *db, struct mudax_error *error)
{
    struct mudax_request parts[ACCOUNTS] = {{0}};
    struct mudax_value *keys[ACCOUNTS];
    for (int id = 0; id < ACCOUNTS; id++) {
        keys[id] = make_key(id);
        parts[id].operation = MUDAX_GET_ITEM;
        parts[id].table = "example_accounts";
        parts[id].key = keys[id];
    }
    struct mudax_request request = {
        .operation = MUDAX_TRANSACT_GET_ITEMS, .parts = parts, .part_count = ACCOUNTS};
    struct mudax_reply *reply;
    int code = mudax_call(db, &request, &reply, error);
    for (size_t i = 0; i < mudax_reply_count(reply); i++) {
        char balance[MUDAX_NUMBER_TEXT];
        mudax_number_text(mudax_get(mudax_reply_item_at(reply, i), "balance"), balance);
        printf("account %zu: %s\n", i, balance);
    }
    mudax_reply_free(reply);
    for (int id = 0; id < ACCOUNTS; id++)
        mudax_free(keys[id]);
    return code;
}

int main(int count, char **words)
{
    struct mudax_error error;
    struct mudax *db = mudax_open(count > 1 ? words[1] : "mudax://127.0.0.1:8110", NULL, &error);
    if (db == NULL)
        return fail(&error);
    int code = create_table(db, &error);
    if (code == MUDAX_OK)
        code = put_accounts(db, &error);
    if (code == MUDAX_OK)
        code = transfer(db, 0, 1, 70, &error);
    if (code == MUDAX_OK)
        code = transfer(db, 0, 2, 70, &error);
    if (code == MUDAX_OK)
        code = show_accounts(db, &error);
    mudax_close(&db);
    return code == MUDAX_OK ? EXIT_SUCCESS : fail(&error);
}
