#include "cache/hot.h"

void hot_init(struct hot *hot)
{
    hot->left = hot->interval = HOT_INTERVAL;
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

static void fill(struct hot_sample *sample, const struct hot_request *request)
{
    const struct table *table = request->table;
    bool is_short = request->bytes.size <= HOT_KEY_BYTES;
    sample->table_id = table->id;
    sample->hash = request->hash;
    sample->kind = (uint8_t)request->kind;
    sample->is_hit = request->is_hit;
    sample->name_size = (uint8_t)table->name.size;
    sample->size = is_short ? (uint8_t)request->bytes.size : 0;
    memcpy(sample->name, table->name.data, table->name.size);
    if (sample->size != 0)
        memcpy(sample->bytes, request->bytes.data, request->bytes.size);
}

void hot_sample(struct hot *hot, const struct hot_request *request, uint64_t now_us)
{
    unsigned head = atomic_load_explicit(&hot->head, memory_order_relaxed);
    unsigned used = head - atomic_load_explicit(&hot->tail, memory_order_acquire);
    hot->carried += hot->interval / HOT_INTERVAL;
    if (used < HOT_RING) {
        struct hot_sample *sample = &hot->ring[head & (HOT_RING - 1)];
        fill(sample, request);
        sample->now_us = now_us;
        sample->weight = hot->carried;
        hot->carried = 0;
        atomic_store_explicit(&hot->head, head + 1, memory_order_release);
    }
    if (used == HOT_RING && hot->interval < HOT_INTERVAL_MAX)
        hot->interval *= 2;
    else if (used == 0 && hot->interval > HOT_INTERVAL)
        hot->interval /= 2;
    hot->left = 1 + roll(hot) % (2 * hot->interval - 1);
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

static void begin(struct hot_table *to, const struct hot_sample *sample)
{
    memset(to, 0, sizeof *to);
    to->table_id = sample->table_id;
    memcpy(to->name, sample->name, sample->name_size);
    to->window_us = sample->now_us;
}

/* NULL: none to be had. */
static struct hot_table *table_of(struct hot *hot, struct memory *memory,
                                  const struct hot_sample *sample)
{
    struct hot_table *idlest = NULL;
    for (int i = 0; i < HOT_TABLES; i++) {
        struct hot_table **at = &hot->tables[i];
        if (*at == NULL) {
            *at = memory_heap_alloc(memory, sizeof **at);
            if (*at != NULL)
                begin(*at, sample);
            return *at;
        }
        if ((*at)->table_id == sample->table_id)
            return *at;
        if (idlest == NULL || (*at)->sampled_us < idlest->sampled_us)
            idlest = *at;
    }
    if (sample->now_us < idlest->sampled_us + HOT_WINDOW_US)
        return NULL; /* else they would only push each other out */
    begin(idlest, sample);
    return idlest;
}

static uint32_t find(const struct hot_table *table, const struct hot_sample *sample)
{
    uint32_t i = 0;
    while (i < table->used &&
           (table->hashes[i] != sample->hash || table->keys[i].kind != sample->kind))
        i++;
    return i;
}

static struct hot_key *take_place(struct hot_table *table, const struct hot_sample *sample)
{
    uint32_t place = table->used;
    struct hot_key fresh = {.kind = sample->kind, .size = sample->size};
    if (place == HOT_KEYS) {
        place = 0;
        for (uint32_t i = 1; i < HOT_KEYS; i++)
            if (table->keys[i].count < table->keys[place].count)
                place = i;
        fresh.count = fresh.error = table->keys[place].count;
    } else {
        table->used++;
    }
    if (sample->size != 0)
        memcpy(fresh.bytes, sample->bytes, sample->size);
    table->hashes[place] = sample->hash;
    table->keys[place] = fresh;
    return &table->keys[place];
}

static void note(struct hot_table *table, const struct hot_sample *sample)
{
    age(table, sample->now_us);
    table->sampled_us = sample->now_us;
    uint32_t place = find(table, sample);
    struct hot_key *key = place < table->used ? &table->keys[place] : take_place(table, sample);
    key->count += sample->weight;
    key->hits += sample->is_hit ? sample->weight : 0;
}

void hot_count(struct hot *hot, struct memory *memory)
{
    mutex_lock(&hot->lock);
    unsigned head = atomic_load_explicit(&hot->head, memory_order_acquire);
    unsigned tail = atomic_load_explicit(&hot->tail, memory_order_relaxed);
    for (; tail != head; tail++) {
        const struct hot_sample *sample = &hot->ring[tail & (HOT_RING - 1)];
        struct hot_table *table = table_of(hot, memory, sample);
        if (table != NULL)
            note(table, sample);
    }
    atomic_store_explicit(&hot->tail, tail, memory_order_release);
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
