#include "backend/redis/redis.h"

#include "protocol/ensure.h"

#include <stdlib.h>

enum { VERSION_BYTES = 8 };

/* Errors that Redis gives before anything has happened. */
static const struct refusal {
    const char *begins;
    enum status status;
    const char *why;
} refusals[] = {
    {"OOM ", STATUS_INTERNAL, "Redis is out of memory: raise its maxmemory or make room in it"},
    {"MISCONF ", STATUS_INTERNAL, "Redis cannot save to its disk and refuses writes: see its log"},
    {"READONLY ", STATUS_INTERNAL, "this Redis is a replica: give the address of its primary"},
    {"NOREPLICAS ", STATUS_UNAVAILABLE,
     "Redis refuses writes: it has fewer replicas than it wants"},
    {"NOAUTH ", STATUS_INTERNAL, "Redis asks for a password, which mudax does not give"},
    {"NOPERM ", STATUS_INTERNAL, "Redis does not let this user do what mudax needs"},
    {"LOADING ", STATUS_UNAVAILABLE, "Redis is still loading its data"},
    {"BUSY ", STATUS_UNAVAILABLE, "Redis is busy with somebody's script"},
    {"MASTERDOWN ", STATUS_UNAVAILABLE, "this Redis is a replica, and its primary is down"},
    {"NOSCRIPT ", STATUS_UNAVAILABLE, "Redis has forgotten mudax's scripts"},
    {"ERR max number of clients", STATUS_UNAVAILABLE,
     "Redis takes no more clients: raise its maxclients"},
};

static const struct refusal *find_refusal(const redisReply *reply)
{
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++)
        if (strncmp(reply->str, refusals[i].begins, strlen(refusals[i].begins)) == 0)
            return &refusals[i];
    return NULL;
}

bool answer_is_unknown_script(const redisReply *reply)
{
    return reply != NULL && reply->type == REDIS_REPLY_ERROR &&
           strncmp(reply->str, "NOSCRIPT ", 9) == 0;
}

/* ---- records ---- */

static enum status take_value(const redisReply *reply, struct kv_record *record,
                              struct arena *arena)
{
    record->value = BYTES_NONE;
    record->token = 0;
    if (reply->type == REDIS_REPLY_NIL)
        return STATUS_OK;
    if (reply->type != REDIS_REPLY_STRING || reply->len < VERSION_BYTES)
        return STATUS_INTERNAL;
    memcpy(&record->token, reply->str, VERSION_BYTES);
    record->value =
        arena_copy(arena, bytes_of(reply->str + VERSION_BYTES, reply->len - VERSION_BYTES));
    return bytes_given(record->value) ? STATUS_OK : STATUS_NO_MEMORY;
}

static enum status take_records(const redisReply *reply, struct kv_read *read)
{
    if (read->count == 1)
        return take_value(reply, &read->records[0], read->arena);
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != read->count)
        return STATUS_INTERNAL;
    enum status status = STATUS_OK;
    for (size_t i = 0; status == STATUS_OK && i < read->count; i++)
        status = take_value(reply->element[i], &read->records[i], read->arena);
    return status;
}

/* ---- ranges ---- */

static bool is_range(const redisReply *reply)
{
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements % 2 != 1 ||
        reply->element[0]->type != REDIS_REPLY_INTEGER)
        return false;
    for (size_t i = 1; i < reply->elements; i++)
        if (reply->element[i]->type != REDIS_REPLY_STRING ||
            (i % 2 == 0 && reply->element[i]->len < VERSION_BYTES))
            return false;
    return true;
}

static size_t longest_field(const redisReply *reply)
{
    size_t longest = 0;
    for (size_t i = 1; i < reply->elements; i += 2)
        longest = reply->element[i]->len > longest ? reply->element[i]->len : longest;
    return longest;
}

/* What is left of the range behind `last`, arena memory. */
static bool move_bound(struct kv_read *read, struct bytes last)
{
    struct bytes moved = arena_copy(read->arena, bytes_of(last.data, last.size + 1));
    if (!bytes_given(moved))
        return false;
    if (read->is_backward)
        read->high = bytes_of(moved.data, last.size);
    else
        read->low = moved;
    return true;
}

static enum status take_range(const redisReply *reply, struct kv_read *read, bool *goes_on)
{
    if (!is_range(reply))
        return STATUS_INTERNAL;
    size_t prefix = read_prefix(read);
    uint8_t *key = arena_alloc(read->arena, prefix + longest_field(reply) + 1);
    if (key == NULL)
        return STATUS_NO_MEMORY;
    memcpy(key, read->low.data, prefix);
    struct bytes last = bytes_of(key, 0);
    for (size_t i = 1; i < reply->elements; i += 2) {
        const redisReply *field = reply->element[i], *value = reply->element[i + 1];
        memcpy(key + prefix, field->str, field->len);
        last.size = prefix + field->len;
        if (!read->visit(read, last,
                         bytes_of(value->str + VERSION_BYTES, value->len - VERSION_BYTES)))
            return STATUS_OK;
    }
    key[last.size] = 0; /* the least key behind it */
    *goes_on = reply->element[0]->integer != 0 && last.size != 0;
    return *goes_on && !move_bound(read, last) ? STATUS_NO_MEMORY : STATUS_OK;
}

bool answer_read(const redisReply *reply, struct kv_read *read)
{
    bool goes_on = false;
    read->commit = 0;
    if (reply == NULL) {
        read->status = STATUS_UNAVAILABLE;
    } else if (reply->type == REDIS_REPLY_ERROR) {
        const struct refusal *refusal = find_refusal(reply);
        read->status = refusal == NULL ? STATUS_INTERNAL : refusal->status;
    } else {
        read->status =
            read->visit != NULL ? take_range(reply, read, &goes_on) : take_records(reply, read);
    }
    return goes_on && read->status == STATUS_OK;
}

/* ---- commits ---- */

static void take_commit_error(struct redis_store *store, const redisReply *reply,
                              struct kv_commit *commit)
{
    const struct refusal *refusal = find_refusal(reply);
    commit->outcome = refusal == NULL ? KV_UNKNOWN : KV_REFUSED;
    commit->status = refusal == NULL ? STATUS_INTERNAL : refusal->status;
    atomic_fetch_add_explicit(&store->refusals, 1, memory_order_relaxed);
    if (refusal == NULL)
        return;
    commit->why = refusal->why;
    atomic_store(&store->trouble, refusal->why);
}

/* The commit's number, then a number of each counter with a limit. */
static bool take_numbers(const redisReply *reply, struct kv_commit *commit)
{
    size_t at = 1;
    if (reply->elements == 0)
        return false;
    for (size_t i = 0; i < commit->counter_count; i++) {
        if (commit->counters[i].limit == 0)
            continue;
        if (at == reply->elements || reply->element[at]->type != REDIS_REPLY_INTEGER)
            return false;
        commit->counters[i].after = reply->element[at++]->integer;
    }
    const redisReply *number = reply->element[0];
    if (at != reply->elements || number->type != REDIS_REPLY_INTEGER || number->integer <= 0)
        return false;
    commit->outcome = KV_DONE;
    commit->number = (uint64_t)number->integer;
    return true;
}

static void take_refused_counter(int64_t place, struct kv_commit *commit)
{
    commit->outcome = KV_REFUSED;
    commit->status = STATUS_LIMIT_EXCEEDED;
    commit->exceeded = &commit->counters[place];
}

void answer_commit(struct redis_store *store, const redisReply *reply, bool is_sent,
                   struct kv_commit *commit)
{
    commit->status = STATUS_OK;
    if (reply == NULL) {
        commit->outcome = is_sent ? KV_UNKNOWN : KV_REFUSED;
        commit->status = STATUS_UNAVAILABLE;
    } else if (reply->type == REDIS_REPLY_ERROR) {
        take_commit_error(store, reply, commit);
    } else if (reply->type == REDIS_REPLY_INTEGER && reply->integer > 0) {
        commit->outcome = KV_DONE;
        commit->number = (uint64_t)reply->integer;
    } else if (reply->type == REDIS_REPLY_INTEGER && reply->integer == 0) {
        commit->outcome = KV_CONFLICT;
        atomic_fetch_add_explicit(&store->conflicts, 1, memory_order_relaxed);
    } else if (reply->type == REDIS_REPLY_INTEGER &&
               -reply->integer <= (int64_t)commit->counter_count) {
        take_refused_counter(-reply->integer - 1, commit);
    } else if (reply->type != REDIS_REPLY_ARRAY ||
               !take_numbers(reply, commit)) { /* not what the script returns */
        commit->outcome = KV_UNKNOWN;
        commit->status = STATUS_INTERNAL;
    }
}

/* ---- INFO ---- */

struct bytes answer_run_id(const redisReply *reply)
{
    static const char name[] = "run_id:";
    if (reply == NULL || reply->type != REDIS_REPLY_STRING)
        return BYTES_NONE;
    const char *at = strstr(reply->str, name);
    if (at == NULL)
        return BYTES_NONE;
    at += sizeof name - 1;
    return strspn(at, "0123456789abcdef") == RUN_ID_SIZE ? bytes_of(at, RUN_ID_SIZE) : BYTES_NONE;
}
