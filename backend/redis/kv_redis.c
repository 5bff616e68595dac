/* One Redis or Valkey server behind kv.h: a connection a lane on the lane's own event loop, one
 * command a read, one script a commit. A commit whose reads have changed is a conflict; the engine
 * repeats it. */
#include "backend/redis/redis.h"

#include "protocol/ensure.h"

#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

enum { PORT_DEFAULT = 6379, OPEN_TIMEOUT_S = 5, PLACE_MAX = 256 };

/* ---- the address ---- */

static enum status not_understood(struct bytes url, struct error *error)
{
    return error_set(error, STATUS_VALIDATION,
                     "%.*s is not understood; write redis://HOST:PORT or redis+unix:PATH",
                     (int)url.size, (const char *)url.data);
}

/* Takes HOST:PORT, HOST or either with a slash behind it. */
static bool parse_place(char *text, const char **host, int *port)
{
    size_t size = strlen(text);
    if (size != 0 && text[size - 1] == '/')
        text[size - 1] = '\0';
    char *colon = strrchr(text, ':'), *end = "";
    long number = PORT_DEFAULT;
    if (colon != NULL) {
        number = strtol(colon + 1, &end, 10);
        if (end == colon + 1)
            return false;
        *colon = '\0';
    }
    *host = text;
    *port = (int)number;
    return text[0] != '\0' && strpbrk(text, "/@ ") == NULL && *end == '\0' && number >= 1 &&
           number <= UINT16_MAX;
}

static enum status parse_url(struct redis_store *store, struct bytes url, struct error *error)
{
    const struct bytes tcp = BYTES_LITERAL("redis://"), local = BYTES_LITERAL("redis+unix:");
    struct bytes prefix = bytes_begin_with(url, local) ? local : tcp;
    char text[PLACE_MAX];
    const char *host = text;
    if (!bytes_begin_with(url, prefix) || url.size - prefix.size >= sizeof text)
        return not_understood(url, error);
    (void)snprintf(text, sizeof text, "%.*s", (int)(url.size - prefix.size),
                   (const char *)url.data + prefix.size);
    if (text[0] == '\0' || (prefix.data == tcp.data && !parse_place(text, &host, &store->port)))
        return not_understood(url, error);
    store->host = strdup(host);
    return store->host == NULL ? STATUS_NO_MEMORY : STATUS_OK;
}

/* ---- opening ---- */

/* What a name stood for: connecting again must not wait for the resolver. */
static enum status keep_address(struct redis_store *store)
{
    struct sockaddr_storage address;
    socklen_t size = sizeof address;
    char numbers[NI_MAXHOST];
    if (store->port == 0 ||
        getpeername(store->loader->fd, (struct sockaddr *)&address, &size) != 0 ||
        getnameinfo((struct sockaddr *)&address, size, numbers, sizeof numbers, NULL, 0,
                    NI_NUMERICHOST) != 0)
        return STATUS_OK;
    free(store->host);
    store->host = strdup(numbers);
    return store->host == NULL ? STATUS_NO_MEMORY : STATUS_OK;
}

static enum status connect_loader(struct redis_store *store, struct bytes url, struct error *error)
{
    struct timeval timeout = {.tv_sec = OPEN_TIMEOUT_S};
    store->loader = store->port == 0 ? redisConnectUnixWithTimeout(store->host, timeout)
                                     : redisConnectWithTimeout(store->host, store->port, timeout);
    if (store->loader == NULL)
        return STATUS_NO_MEMORY;
    if (store->loader->err == 0 && redisSetTimeout(store->loader, timeout) == REDIS_OK)
        return keep_address(store);
    return error_set(error, STATUS_UNAVAILABLE, "%.*s: cannot connect to Redis: %s; is it running?",
                     (int)url.size, (const char *)url.data, store->loader->errstr);
}

static enum status refused(const struct redis_store *store, const redisReply *reply,
                           struct bytes url, struct error *error)
{
    const char *why = "it said something else than Redis does";
    if (reply == NULL)
        why = store->loader->errstr;
    else if (reply->type == REDIS_REPLY_ERROR)
        why = reply->str;
    return error_set(error, STATUS_UNAVAILABLE, "%.*s: Redis does not do what mudax needs: %s",
                     (int)url.size, (const char *)url.data, why);
}

static enum status load_script(struct redis_store *store, enum script script, struct bytes url,
                               struct error *error)
{
    redisReply *reply = redisCommand(store->loader, "SCRIPT LOAD %s", script_texts[script]);
    enum status status = STATUS_OK;
    if (reply != NULL && reply->type == REDIS_REPLY_STRING && reply->len == SHA_SIZE)
        memcpy(store->sha[script], reply->str, SHA_SIZE);
    else
        status = refused(store, reply, url, error);
    if (reply != NULL)
        freeReplyObject(reply);
    return status;
}

static enum status load_run_id(struct redis_store *store, struct bytes url, struct error *error)
{
    redisReply *reply = redisCommand(store->loader, "INFO server");
    struct bytes run_id = answer_run_id(reply);
    enum status status = STATUS_OK;
    if (bytes_given(run_id))
        memcpy(store->run_id, run_id.data, RUN_ID_SIZE);
    else
        status = refused(store, reply, url, error);
    if (reply != NULL)
        freeReplyObject(reply);
    return status;
}

static void redis_close(struct kv **kv)
{
    struct redis_store *store = (struct redis_store *)*kv;
    *kv = NULL;
    if (store->loader != NULL)
        redisFree(store->loader);
    mutex_deinit(&store->lock);
    free(store->host);
    free(store);
}

static enum status redis_open(const struct store_options *options, struct kv **out,
                              struct error *error)
{
    struct redis_store *store = calloc(1, sizeof *store);
    if (store == NULL)
        return STATUS_NO_MEMORY;
    store->kv.ops = &kv_redis;
    store->on_event = options->on_event;
    store->on_event_arg = options->on_event_arg;
    mutex_init(&store->lock);
    enum status status = parse_url(store, options->url, error);
    if (status == STATUS_OK)
        status = connect_loader(store, options->url, error);
    if (status == STATUS_OK)
        status = load_run_id(store, options->url, error);
    for (int script = 0; status == STATUS_OK && script < SCRIPTS; script++)
        status = load_script(store, (enum script)script, options->url, error);
    *out = &store->kv;
    if (status != STATUS_OK)
        redis_close(out);
    return status;
}

/* ---- before there are lanes ---- */

static void redis_load(struct kv *kv, struct kv_read *read)
{
    struct redis_store *store = (struct redis_store *)kv;
    /* Everything: is there anything of ours? No, for then the caller would have found its format;
     * what others keep here has other names. */
    if (read->visit != NULL && read->low.size == 0) {
        read->status = STATUS_OK;
        return;
    }
    bool goes_on = true;
    while (goes_on) {
        struct words words = command_read(store, read, true);
        if (words.has_failed) {
            read->status = STATUS_NO_MEMORY;
            return;
        }
        redisReply *reply =
            redisCommandArgv(store->loader, (int)words.count, words.texts, words.sizes);
        goes_on = answer_read(reply, read);
        if (reply != NULL)
            freeReplyObject(reply);
    }
}

/* Versions are Redis's; what is known otherwise is held against its value. */
static uint64_t redis_token(struct kv *kv)
{
    (void)kv;
    return TOKEN_BY_VALUE;
}

/* ---- for the operator ---- */

static bool redis_is_ready(struct kv *kv, const char **why)
{
    struct redis_store *store = (struct redis_store *)kv;
    const char *trouble = atomic_load(&store->trouble);
    if (atomic_load(&store->is_down))
        trouble = "Redis does not answer; it is asked again every second";
    if (trouble != NULL)
        *why = trouble;
    return trouble == NULL;
}

static void redis_report(struct kv *kv, report_fn report, void *arg)
{
    struct redis_store *store = (struct redis_store *)kv;
    const struct {
        struct metric metric;
        const atomic_uint_fast64_t *value;
    } metrics[] = {
        {{"store_reads_total", "counter", "Reads sent to Redis"}, &store->reads},
        {{"store_commits_total", "counter", "Commits sent to Redis"}, &store->commits},
        {{"store_commit_conflicts_total", "counter", "Commits that found something changed"},
         &store->conflicts},
        {{"store_commit_refusals_total", "counter", "Commits that Redis answered with an error"},
         &store->refusals},
        {{"store_losses_total", "counter", "Times that Redis did not answer any longer"},
         &store->losses},
        {{"store_reconnects_total", "counter", "Times that Redis answered again"},
         &store->reconnects},
        {{"store_drops_left_total", "counter", "Deleted tables whose records may be left in Redis"},
         &store->drops_left},
    };
    for (size_t i = 0; i < sizeof metrics / sizeof metrics[0]; i++)
        report(arg, &metrics[i].metric, "",
               (double)atomic_load_explicit(metrics[i].value, memory_order_relaxed));
    static const struct metric ready = {"store_ready", "gauge", "1 while writes are taken"};
    const char *why;
    report(arg, &ready, "", redis_is_ready(kv, &why) ? 1 : 0);
}

static const char *const schemes[] = {"redis", "redis+unix", NULL};

const struct kv_ops kv_redis = {
    .schemes = schemes,
    .is_shared = true,
    .open = redis_open,
    .lane_open = connection_lane_open,
    .lane_close = connection_lane_close,
    .load = redis_load,
    .token = redis_token,
    .read = connection_read,
    .commit = connection_commit,
    .report = redis_report,
    .is_ready = redis_is_ready,
    .close = redis_close,
};
