/* pipeline.c - a thousand writes in flight together, driven by an event loop (poll) of the
 * program's own. Argument: the URL. */
#include <mudax.h>

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

enum { ITEMS = 1000, IN_FLIGHT = 100 };

struct progress {
    int submitted, done, failed;
};

static const char definition_json[] =
    "{\"TableName\": \"example_events\", \"BillingMode\": \"PAY_PER_REQUEST\","
    " \"KeySchema\": [{\"AttributeName\": \"id\", \"KeyType\": \"HASH\"}],"
    " \"AttributeDefinitions\": [{\"AttributeName\": \"id\", \"AttributeType\": \"N\"}]}";

static void on_put(void *arg, const struct mudax_reply *reply, const struct mudax_error *error)
{
    struct progress *progress = arg;
    (void)reply;
    progress->done++;
    if (error != NULL) {
        progress->failed++;
        fprintf(stderr, "%s: %s\n", error->name, error->text);
    }
}

static int submit(struct mudax_pipe *pipe, struct progress *progress, struct mudax_error *error)
{
    struct mudax_value *item = mudax_map();
    mudax_put(item, "id", mudax_int(progress->submitted));
    mudax_put(item, "kind", mudax_string("example"));
    struct mudax_request request = {
        .operation = MUDAX_PUT_ITEM, .table = "example_events", .item = item};
    int code = mudax_pipe_submit(pipe, &request, on_put, progress, error);
    mudax_free(item);
    if (code == MUDAX_OK)
        progress->submitted++;
    return code;
}

/* A turn of the loop: keep the pipe full, then wait for the descriptor. */
static int turn(struct mudax_pipe *pipe, struct progress *progress, struct mudax_error *error)
{
    while (progress->submitted < ITEMS && mudax_pipe_pending(pipe) < IN_FLIGHT)
        if (submit(pipe, progress, error) != MUDAX_OK)
            return error->code;
    struct pollfd poll_fd = {.fd = mudax_pipe_fd(pipe), .events = POLLIN};
    if (mudax_pipe_wants_write(pipe))
        poll_fd.events |= POLLOUT;
    poll(&poll_fd, 1, mudax_pipe_timeout_ms(pipe));
    mudax_pipe_process(pipe);
    return MUDAX_OK;
}

static int create_table(const char *url, struct mudax_error *error)
{
    struct mudax *db = mudax_open(url, NULL, error);
    if (db == NULL)
        return error->code;
    struct mudax_value *definition =
        mudax_from_plain_json(definition_json, sizeof definition_json - 1, error);
    struct mudax_request request = {.operation = MUDAX_CREATE_TABLE, .definition = definition};
    int code = definition == NULL ? error->code : mudax_call(db, &request, NULL, error);
    mudax_free(definition);
    mudax_close(&db);
    return code == MUDAX_RESOURCE_IN_USE ? MUDAX_OK : code;
}

int main(int count, char **words)
{
    const char *url = count > 1 ? words[1] : "mudax://127.0.0.1:8110";
    struct mudax_error error;
    struct progress progress = {0};
    struct mudax_pipe *pipe = NULL;
    struct mudax_pipe_options options = {.in_flight_max = IN_FLIGHT, .timeout_ms = 5000};
    int code = create_table(url, &error);
    if (code == MUDAX_OK) {
        pipe = mudax_pipe_open(url, &options, &error);
        code = pipe == NULL ? error.code : MUDAX_OK;
    }
    while (code == MUDAX_OK && progress.done < ITEMS)
        code = turn(pipe, &progress, &error);
    mudax_pipe_close(&pipe);
    if (code != MUDAX_OK) {
        fprintf(stderr, "%s: %s\n", error.name, error.text);
        return EXIT_FAILURE;
    }
    printf("%d items written, %d failed\n", progress.done, progress.failed);
    return progress.failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
