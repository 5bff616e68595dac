#include "cache/hot.h"

void hot_init(struct hot *hot)
{
    hot->left = HOT_INTERVAL;
    hot->random = 2463534242u;
    mutex_init(&hot->lock);
}

void hot_deinit(struct hot *hot, struct memory *memory)
{
    for (int i = 0; i < HOT_TABLES; i++)
        if (hot->tables[i] != NULL)
            memory_heap_free(memory, hot->tables[i], sizeof *hot->tables[i]);
    mutex_deinit(&hot->lock);
}

/* Marsaglia, "Xorshift RNGs". */
static uint32_t roll(struct hot *hot)
{
    hot->random ^= hot->random << 13;
    hot->random ^= hot->random >> 17;
    hot->random ^= hot->random << 5;
    return hot->random;
}

/* ---- time ---- */

static void halve(struct hot_table *table)
{
    for (uint32_t i = 0; i < table->used; i++) {
        table->keys[i].count /= 2;
        table->keys[i].error /= 2;
        table->keys[i].hits /= 2;
    }
    table->weight_us = (table->weight_us + HOT_WINDOW_US) / 2;
    table->window_us += HOT_WINDOW_US;
}

static void age(struct hot_table *table, uint64_t now_us)
{
    for (int i = 0; i < 32 && now_us >= table->window_us + HOT_WINDOW_US; i++)
        halve(table);
    if (now_us >= table->window_us + HOT_WINDOW_US)
        table->window_us = now_us; /* nothing is left of the counts */
}

/* ---- counting ---- */

static void begin(struct hot_table *to, const struct table *table, uint64_t now_us)
{
    memset(to, 0, sizeof *to);
    to->table_id = table->id;
    memcpy(to->name, table->name.data, table->name.size);
    to->window_us = now_us;
}

/* NULL: none to be had. */
static struct hot_table *table_of(struct hot *hot, struct memory *memory, const struct table *table,
                                  uint64_t now_us)
{
    struct hot_table *idlest = NULL;
    for (int i = 0; i < HOT_TABLES; i++) {
        struct hot_table **at = &hot->tables[i];
        if (*at == NULL) {
            *at = memory_heap_alloc(memory, sizeof **at);
            if (*at != NULL)
                begin(*at, table, now_us);
            return *at;
        }
        if ((*at)->table_id == table->id)
            return *at;
        if (idlest == NULL || (*at)->sampled_us < idlest->sampled_us)
            idlest = *at;
    }
    if (now_us < idlest->sampled_us + HOT_WINDOW_US)
        return NULL; /* else they would only push each other out */
    begin(idlest, table, now_us);
    return idlest;
}

static uint32_t find(const struct hot_table *table, const struct hot_request *request)
{
    uint32_t i = 0;
    while (i < table->used &&
           (table->hashes[i] != request->hash || table->keys[i].kind != request->kind))
        i++;
    return i;
}

static struct hot_key *take_place(struct hot_table *table, const struct hot_request *request)
{
    uint32_t place = table->used;
    struct hot_key fresh = {.kind = (uint8_t)request->kind};
    if (place == HOT_KEYS) {
        place = 0;
        for (uint32_t i = 1; i < HOT_KEYS; i++)
            if (table->keys[i].count < table->keys[place].count)
                place = i;
        fresh.count = fresh.error = table->keys[place].count;
    } else {
        table->used++;
    }
    if (request->bytes.size <= HOT_KEY_BYTES && request->bytes.size != 0) {
        fresh.size = (uint8_t)request->bytes.size;
        memcpy(fresh.bytes, request->bytes.data, request->bytes.size);
    }
    table->hashes[place] = request->hash;
    table->keys[place] = fresh;
    return &table->keys[place];
}

static void note(struct hot_table *table, const struct hot_request *request, uint64_t now_us)
{
    age(table, now_us);
    table->sampled_us = now_us;
    uint32_t place = find(table, request);
    struct hot_key *key = place < table->used ? &table->keys[place] : take_place(table, request);
    key->count++;
    key->hits += request->is_hit;
}

void hot_sample(struct hot *hot, struct memory *memory, const struct hot_request *request,
                uint64_t now_us)
{
    hot->left = 1 + roll(hot) % (2 * HOT_INTERVAL - 1);
    if (!mutex_try(&hot->lock))
        return;
    struct hot_table *table = table_of(hot, memory, request->table, now_us);
    if (table != NULL)
        note(table, request, now_us);
    mutex_unlock(&hot->lock);
}

/* ---- showing ---- */

static struct hot_line *line_of(const struct hot_table *table, uint32_t i, struct hot_line *lines,
                                size_t *count, size_t room)
{
    const struct hot_key *key = &table->keys[i];
    for (size_t at = 0; at < *count; at++)
        if (lines[at].hash == table->hashes[i] && lines[at].key.kind == key->kind &&
            strcmp(lines[at].name, table->name) == 0)
            return &lines[at];
    if (*count == room)
        return NULL;
    struct hot_line *line = &lines[(*count)++];
    *line = (struct hot_line){.hash = table->hashes[i], .key = *key};
    memcpy(line->name, table->name, sizeof table->name);
    return line;
}

static void merge_table(struct hot_table *table, uint64_t now_us, struct hot_line *lines,
                        size_t *count, size_t room)
{
    age(table, now_us);
    uint64_t begun_us = now_us > table->window_us ? now_us - table->window_us : 0;
    double seconds = (double)(table->weight_us + begun_us) / 1e6;
    for (uint32_t i = 0; i < table->used; i++) {
        const struct hot_key *key = &table->keys[i];
        uint32_t sure = key->count - key->error;
        if (sure == 0 || seconds < 1)
            continue;
        struct hot_line *line = line_of(table, i, lines, count, room);
        if (line == NULL)
            return;
        line->requests += (double)sure * HOT_INTERVAL / seconds;
        line->hits += (double)(key->hits < sure ? key->hits : sure) * HOT_INTERVAL / seconds;
    }
}

size_t hot_merge(struct hot *hot, uint64_t now_us, struct hot_line *lines, size_t count,
                 size_t room)
{
    mutex_lock(&hot->lock);
    for (int i = 0; i < HOT_TABLES && hot->tables[i] != NULL; i++)
        merge_table(hot->tables[i], now_us, lines, &count, room);
    mutex_unlock(&hot->lock);
    return count;
}
