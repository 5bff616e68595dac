#include "daemon/admin.h"

#include "protocol/buffer.h"
#include "protocol/encoding/json.h"
#include "protocol/encoding/msgpack.h"

#include <event2/buffer.h>
#include <event2/event.h>
#include <event2/http.h>
#include <event2/keyvalq_struct.h>

#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

enum { NAMES_MAX = 512, REQUEST_TIMEOUT_S = 10, BODY_MAX = 64 * 1024, PURGE_ARENA_MAX = 1 << 20 };

struct admin {
    struct evhttp *http;
    struct admin_source source;
};

/* A metric's lines, which Prometheus wants together, HELP and TYPE before them. */
struct family {
    const char *name;
    struct evbuffer *lines;
};

struct page {
    struct family families[NAMES_MAX];
    size_t family_count;
    struct evbuffer *lines; /* of the family reported last; NULL: not shown */
};

static void begin_family(struct evbuffer *lines, const struct metric *metric)
{
    size_t length = strlen(metric->name);
    if (strcmp(metric->type, "histogram") == 0)
        length -= strlen("_bucket");
    evbuffer_add_printf(lines, "# HELP mudax_%.*s %s\n# TYPE mudax_%.*s %s\n", (int)length,
                        metric->name, metric->help, (int)length, metric->name, metric->type);
}

/* NULL: too many, or no memory. */
static struct evbuffer *find_lines(struct page *page, const struct metric *metric)
{
    for (size_t i = 0; i < page->family_count; i++)
        if (strcmp(page->families[i].name, metric->name) == 0)
            return page->families[i].lines;
    struct evbuffer *lines = page->family_count < NAMES_MAX ? evbuffer_new() : NULL;
    if (lines == NULL)
        return NULL;
    page->families[page->family_count++] = (struct family){metric->name, lines};
    begin_family(lines, metric);
    return lines;
}

static void add_metric(void *arg, const struct metric *metric, const char *labels, double value)
{
    struct page *page = arg;
    if (metric->type[0] != '\0')
        page->lines = find_lines(page, metric);
    if (page->lines == NULL)
        return;
    const char *open = labels[0] == '\0' ? "" : "{", *close = labels[0] == '\0' ? "" : "}";
    evbuffer_add_printf(page->lines, "mudax_%s%s%s%s %.15g\n", metric->name, open, labels, close,
                        value);
}

static void join_families(struct page *page, struct evbuffer *text)
{
    for (size_t i = 0; i < page->family_count; i++) {
        (void)evbuffer_add_buffer(text, page->families[i].lines);
        evbuffer_free(page->families[i].lines);
    }
}

static void answer(struct evhttp_request *request, int code, const char *type, const char *text)
{
    struct evbuffer *body = evbuffer_new();
    if (body != NULL)
        evbuffer_add_printf(body, "%s\n", text);
    evhttp_add_header(evhttp_request_get_output_headers(request), "Content-Type", type);
    evhttp_send_reply(request, code, NULL, body);
    if (body != NULL)
        evbuffer_free(body);
}

static void on_metrics(struct evhttp_request *request, void *arg)
{
    struct admin *admin = arg;
    struct page page = {.family_count = 0};
    struct evbuffer *text = evbuffer_new();
    if (text == NULL) {
        answer(request, 500, "text/plain", "out of memory");
        return;
    }
    admin->source.report(admin->source.arg, add_metric, &page);
    join_families(&page, text);
    evhttp_add_header(evhttp_request_get_output_headers(request), "Content-Type",
                      "text/plain; version=0.0.4");
    evhttp_send_reply(request, 200, NULL, text);
    evbuffer_free(text);
}

static void on_health(struct evhttp_request *request, void *arg)
{
    (void)arg;
    answer(request, 200, "text/plain", "ok");
}

static void on_ready(struct evhttp_request *request, void *arg)
{
    struct admin *admin = arg;
    const char *why = "";
    bool is_ready = admin->source.is_ready(admin->source.arg, &why);
    answer(request, is_ready ? 200 : 503, "text/plain", is_ready ? "ready" : why);
}

static void on_other(struct evhttp_request *request, void *arg)
{
    (void)arg;
    answer(request, 404, "text/plain", "there are /metrics, /healthz, /readyz and POST /purge");
}

/* ---- purge ---- */

static struct bytes parameter(const struct evkeyvalq *query, const char *name)
{
    const char *text = evhttp_find_header(query, name);
    return text == NULL ? BYTES_NONE : bytes_text(text);
}

/* Refuses names that do not exist: a misspelled one must not purge more than was meant. */
static enum status check_names(const struct evkeyvalq *query, struct error *error)
{
    const struct evkeyval *pair;
    TAILQ_FOREACH(pair, query, next)
    if (strcmp(pair->key, "table") != 0 && strcmp(pair->key, "index") != 0 &&
        strcmp(pair->key, "key") != 0)
        return error_set(error, STATUS_VALIDATION,
                         "there is no parameter %s: table, index, key (DynamoDB JSON)", pair->key);
    return STATUS_OK;
}

static enum status read_purge(const struct evkeyvalq *query, struct arena *arena,
                              struct request *request, struct error *error)
{
    enum status status = check_names(query, error);
    if (status != STATUS_OK)
        return status;
    *request = (struct request){.operation = OPERATION_PURGE,
                                .table_name = parameter(query, "table"),
                                .index_name = parameter(query, "index")};
    struct bytes json = parameter(query, "key");
    if (!bytes_given(json))
        return STATUS_OK;
    struct value key;
    status = json_to_item(json, arena, &key, error);
    if (status != STATUS_OK)
        return status;
    request->key = value_encode_arena(&key, arena);
    return bytes_given(request->key) ? STATUS_OK : error_set(error, STATUS_NO_MEMORY, "%s", "");
}

static void answer_purge(struct admin *admin, struct evhttp_request *request,
                         const struct evkeyvalq *query)
{
    struct arena arena;
    struct request purge;
    struct reply reply;
    struct buffer text = {0};
    reply_init(&reply);
    arena_init(&arena, NULL, 0, PURGE_ARENA_MAX);
    reply.status = read_purge(query, &arena, &purge, &reply.error);
    if (reply.status == STATUS_OK)
        admin->source.ask(admin->source.arg, &purge, &arena, &reply);
    struct msgpack_cursor cursor = msgpack_cursor_of(reply.body);
    if (reply.status != STATUS_OK)
        answer(request, reply.status == STATUS_NO_MEMORY ? 500 : 400, "text/plain",
               error_text(&reply.error));
    else if (json_from_plain_bytes(&cursor, &text) && buffer_append(&text, bytes_of("", 1)))
        answer(request, 200, "application/json", (const char *)text.data);
    else
        answer(request, 500, "text/plain", "out of memory");
    buffer_deinit(&text);
    arena_deinit(&arena);
}

static void on_purge(struct evhttp_request *request, void *arg)
{
    struct evkeyvalq query;
    const char *text = evhttp_uri_get_query(evhttp_request_get_evhttp_uri(request));
    /* A page that somebody looks at on this machine can send a POST, too. */
    bool is_browser =
        evhttp_find_header(evhttp_request_get_input_headers(request), "Origin") != NULL;
    if (evhttp_request_get_command(request) != EVHTTP_REQ_POST) {
        answer(request, 405, "text/plain", "POST /purge");
    } else if (is_browser) {
        answer(request, 403, "text/plain", "not from a page of another origin");
    } else if (evbuffer_get_length(evhttp_request_get_input_buffer(request)) != 0) {
        /* Passed over it would be a purge of everything. */
        answer(request, 400, "text/plain",
               "no body, please: POST /purge?table=NAME&index=NAME&key=JSON");
    } else if (evhttp_parse_query_str(text == NULL ? "" : text, &query) != 0) {
        answer(request, 400, "text/plain", "that is no query string");
    } else {
        answer_purge(arg, request, &query);
        evhttp_clear_headers(&query);
    }
}

struct admin *admin_create(struct event_base *base, int fd, const struct admin_source *source)
{
    struct admin *admin = calloc(1, sizeof *admin);
    if (admin == NULL)
        return NULL;
    admin->source = *source;
    admin->http = evhttp_new(base);
    if (admin->http == NULL || evhttp_accept_socket(admin->http, fd) != 0) {
        admin_destroy(&admin);
        return NULL;
    }
    evhttp_set_timeout(admin->http, REQUEST_TIMEOUT_S);
    evhttp_set_max_body_size(admin->http, BODY_MAX);
    evhttp_set_max_headers_size(admin->http, BODY_MAX);
    evhttp_set_allowed_methods(admin->http, EVHTTP_REQ_GET | EVHTTP_REQ_HEAD | EVHTTP_REQ_POST);
    evhttp_set_cb(admin->http, "/metrics", on_metrics, admin);
    evhttp_set_cb(admin->http, "/healthz", on_health, admin);
    evhttp_set_cb(admin->http, "/readyz", on_ready, admin);
    evhttp_set_cb(admin->http, "/purge", on_purge, admin);
    evhttp_set_gencb(admin->http, on_other, admin);
    return admin;
}

void admin_destroy(struct admin **admin)
{
    if (*admin == NULL)
        return;
    if ((*admin)->http != NULL)
        evhttp_free((*admin)->http);
    free(*admin);
    *admin = NULL;
}
