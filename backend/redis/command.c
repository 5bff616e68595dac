#include "backend/redis/redis.h"
#include "backend/redis/scripts.h"

#include "protocol/ensure.h"

#include <inttypes.h>
#include <stdio.h>

enum {
    ID_BYTES = 4,
    BUCKET_BYTES = 12,
    BUCKET_NAME_MAX = 64,
    VERSION_BYTES = 8,
    RANGE_BYTES_MAX = 1536 * 1024, /* of one command; most pages of 1 MB, encoded */
    RANGE_RECORDS_MAX = 1 << 30,
};

const char *const script_texts[SCRIPTS] = {script_read, script_range, script_scan, script_commit};

/* ---- words ---- */

static void words_init(struct words *words, struct arena *arena, size_t capacity)
{
    *words = (struct words){.capacity = capacity};
    words->texts = arena_alloc(arena, capacity * sizeof *words->texts);
    words->sizes = arena_alloc(arena, capacity * sizeof *words->sizes);
    words->has_failed = words->texts == NULL || words->sizes == NULL;
}

static void word(struct words *words, struct bytes bytes)
{
    words->has_failed |= !bytes_given(bytes);
    if (words->has_failed)
        return;
    ensure(words->count < words->capacity);
    words->texts[words->count] = (const char *)bytes.data;
    words->sizes[words->count++] = bytes.size;
}

static void number_word(struct words *words, struct arena *arena, int64_t number)
{
    char text[24];
    int size = snprintf(text, sizeof text, "%" PRId64, number);
    word(words, arena_copy(arena, bytes_of(text, (size_t)size)));
}

/* `head`, then `tail`, as one word. */
static void joined_word(struct words *words, struct arena *arena, struct bytes head,
                        struct bytes tail)
{
    char *both = arena_alloc(arena, head.size + tail.size);
    if (both != NULL) {
        memcpy(both, head.data, head.size);
        if (tail.size != 0)
            memcpy(both + head.size, tail.data, tail.size);
    }
    word(words, bytes_of(both, head.size + tail.size));
}

static void script_words(struct words *words, const struct redis_store *store, enum script script,
                         bool by_text)
{
    word(words, by_text ? BYTES_LITERAL("EVAL") : BYTES_LITERAL("EVALSHA"));
    word(words, by_text ? bytes_text(script_texts[script]) : bytes_text(store->sha[script]));
}

/* ---- buckets ---- */

static bool is_metadata(struct bytes key)
{
    static const uint8_t zero[ID_BYTES] = {0};
    ensure(key.size >= ID_BYTES);
    return memcmp(key.data, zero, ID_BYTES) == 0;
}

/* How much of a record key names its bucket. */
static size_t bucket_size(struct bytes key)
{
    if (is_metadata(key))
        return ID_BYTES;
    ensure(key.size >= BUCKET_BYTES);
    return BUCKET_BYTES;
}

/* True if a range may be one of several buckets; these are read forward only. */
static bool is_scan(const struct kv_read *read)
{
    return !read->is_backward && !is_metadata(read->low) &&
           (read->low.size < BUCKET_BYTES || read->high.size < BUCKET_BYTES ||
            memcmp(read->low.data, read->high.data, BUCKET_BYTES) != 0);
}

size_t read_prefix(const struct kv_read *read)
{
    return is_scan(read) ? ID_BYTES : bucket_size(read->low);
}

static struct bytes field_of(struct bytes key)
{
    size_t skipped = bucket_size(key);
    return bytes_of(key.data + skipped, key.size - skipped);
}

static size_t append(char *out, size_t at, const char *text)
{
    size_t size = strlen(text);
    memcpy(out + at, text, size);
    return at + size;
}

/* "mudax:{00000007:0123456789abcdef"; in braces, so that a bucket has one hash slot. */
static size_t write_bucket(char out[BUCKET_NAME_MAX], struct bytes key, size_t size)
{
    static const char digits[] = "0123456789abcdef";
    size_t at = append(out, 0, "mudax:{");
    for (size_t i = 0; i < size; i++) {
        if (i == ID_BYTES)
            out[at++] = ':';
        out[at++] = digits[key.data[i] >> 4];
        out[at++] = digits[key.data[i] & 15];
    }
    return at;
}

/* kind  "}:h" or "}:z" */
static void bucket_word(struct words *words, struct bytes key, const char *kind,
                        struct arena *arena)
{
    char name[BUCKET_NAME_MAX];
    size_t size = append(name, write_bucket(name, key, bucket_size(key)), kind);
    word(words, arena_copy(arena, bytes_of(name, size)));
}

static void bucket_words(struct words *words, struct bytes key, struct arena *arena)
{
    bucket_word(words, key, "}:h", arena);
    bucket_word(words, key, "}:z", arena);
}

const char *table_buckets(struct bytes key, struct arena *arena)
{
    char name[BUCKET_NAME_MAX];
    size_t size = append(name, write_bucket(name, key, ID_BYTES), "}:b");
    name[size++] = '\0';
    return (const char *)arena_copy(arena, bytes_of(name, size)).data;
}

bool bucket_pattern(struct bytes low, char out[BUCKET_PATTERN_SIZE])
{
    if (low.size != ID_BYTES)
        return false;
    char name[BUCKET_NAME_MAX];
    size_t size = append(name, write_bucket(name, low, ID_BYTES), ":*");
    ensure(size < BUCKET_PATTERN_SIZE);
    memcpy(out, name, size);
    out[size] = '\0';
    return true;
}

/* ---- ranges ---- */

/* ZRANGEBYLEX's form of the bounds; `high` may lie behind the bucket. */
static void bound_words(struct words *words, struct bytes low, struct bytes high,
                        struct arena *arena)
{
    size_t prefix = bucket_size(low);
    struct bytes field = field_of(low);
    if (field.size == 0)
        word(words, BYTES_LITERAL("-"));
    else
        joined_word(words, arena, BYTES_LITERAL("["), field);
    if (high.size >= prefix && memcmp(high.data, low.data, prefix) == 0)
        joined_word(words, arena, BYTES_LITERAL("("),
                    bytes_of(high.data + prefix, high.size - prefix));
    else
        word(words, BYTES_LITERAL("+"));
}

static void range_words(struct words *words, const struct kv_read *read)
{
    struct arena *arena = read->arena;
    word(words, BYTES_LITERAL("2"));
    bucket_words(words, read->low, arena);
    bound_words(words, read->low, read->high, arena);
    word(words, read->is_backward ? BYTES_LITERAL("backward") : BYTES_LITERAL("forward"));
    number_word(words, arena, read->records_max != 0 ? read->records_max : RANGE_RECORDS_MAX);
    number_word(words, arena, RANGE_BYTES_MAX);
}

/* A bound among a table's buckets, of a range's bound; `field` gets what is behind the hash. */
static struct bytes hash_of(struct bytes key, struct bytes *field)
{
    size_t end = key.size < BUCKET_BYTES ? key.size : BUCKET_BYTES;
    *field = bytes_of(key.data + end, key.size - end);
    return bytes_of(key.data + ID_BYTES, end - ID_BYTES);
}

static void scan_words(struct words *words, const struct kv_read *read)
{
    struct arena *arena = read->arena;
    struct bytes low_field, high_field, low = hash_of(read->low, &low_field),
                                        high = hash_of(read->high, &high_field);
    char prefix[BUCKET_NAME_MAX];
    const char *buckets = table_buckets(read->low, arena);
    bool is_inside = memcmp(read->low.data, read->high.data, ID_BYTES) == 0;
    word(words, BYTES_LITERAL("1"));
    word(words, buckets == NULL ? BYTES_NONE : bytes_text(buckets));
    if (low.size == 0)
        word(words, BYTES_LITERAL("-"));
    else
        joined_word(words, arena, BYTES_LITERAL("["), low);
    if (is_inside && high.size != 0)
        joined_word(words, arena, BYTES_LITERAL("("), high);
    else
        word(words, BYTES_LITERAL("+"));
    word(words, low_field.size == 0 ? BYTES_LITERAL("") : low);
    joined_word(words, arena, BYTES_LITERAL("["), low_field);
    number_word(words, arena, read->records_max != 0 ? read->records_max : RANGE_RECORDS_MAX);
    number_word(words, arena, RANGE_BYTES_MAX);
    size_t size = append(prefix, write_bucket(prefix, read->low, ID_BYTES), ":");
    word(words, arena_copy(arena, bytes_of(prefix, size)));
}

/* ---- reads ---- */

static void record_words(struct words *words, const struct kv_read *read)
{
    number_word(words, read->arena, (int64_t)read->count);
    for (size_t i = 0; i < read->count; i++)
        bucket_word(words, read->records[i].key, "}:h", read->arena);
    for (size_t i = 0; i < read->count; i++)
        word(words, field_of(read->records[i].key));
}

struct words command_read(const struct redis_store *store, const struct kv_read *read, bool by_text)
{
    struct words words;
    words_init(&words, read->arena, 16 + 2 * read->count);
    if (read->visit != NULL && is_scan(read)) {
        script_words(&words, store, SCRIPT_SCAN, by_text);
        scan_words(&words, read);
    } else if (read->visit != NULL) {
        script_words(&words, store, SCRIPT_RANGE, by_text);
        range_words(&words, read);
    } else if (read->count == 1) {
        word(&words, BYTES_LITERAL("HGET"));
        bucket_word(&words, read->records[0].key, "}:h", read->arena);
        word(&words, field_of(read->records[0].key));
    } else {
        script_words(&words, store, SCRIPT_READ, by_text);
        record_words(&words, read);
    }
    return words;
}

/* ---- commits ---- */

static size_t drops_inside(const struct kv_commit *commit)
{
    char pattern[BUCKET_PATTERN_SIZE];
    size_t count = 0;
    for (size_t i = 0; i < commit->drop_count; i++)
        count += !bucket_pattern(commit->drops[i].low, pattern);
    return count;
}

static void write_key_words(struct words *words, struct bytes key, struct arena *arena)
{
    const char *buckets = table_buckets(key, arena);
    bucket_words(words, key, arena);
    word(words, buckets == NULL ? BYTES_NONE : bytes_text(buckets));
}

static void key_words(struct words *words, const struct kv_commit *commit)
{
    struct arena *arena = commit->arena;
    char pattern[BUCKET_PATTERN_SIZE];
    for (size_t i = 0; i < commit->read_count; i++)
        bucket_word(words, commit->reads[i].key, "}:h", arena);
    for (size_t i = 0; i < commit->write_count; i++)
        write_key_words(words, commit->writes[i].key, arena);
    for (size_t i = 0; i < commit->counter_count; i++)
        bucket_words(words, commit->counters[i].key, arena);
    for (size_t i = 0; i < commit->drop_count; i++)
        if (!bucket_pattern(commit->drops[i].low, pattern))
            bucket_words(words, commit->drops[i].low, arena);
}

static void expected_words(struct words *words, const struct kv_record *read)
{
    bool is_there = bytes_given(read->value), is_by_value = read->token == TOKEN_BY_VALUE;
    word(words, field_of(read->key));
    word(words, !is_there     ? BYTES_LITERAL("0")
                : is_by_value ? BYTES_LITERAL("=")
                              : BYTES_LITERAL("v"));
    word(words, !is_there     ? BYTES_LITERAL("")
                : is_by_value ? read->value
                              : bytes_of(&read->token, VERSION_BYTES));
}

static void argument_words(struct words *words, const struct kv_commit *commit)
{
    char pattern[BUCKET_PATTERN_SIZE];
    for (size_t i = 0; i < commit->read_count; i++)
        expected_words(words, &commit->reads[i]);
    for (size_t i = 0; i < commit->write_count; i++) {
        struct bytes value = commit->writes[i].value, key = commit->writes[i].key;
        word(words, is_metadata(key) ? BYTES_LITERAL("")
                                     : bytes_of(key.data + ID_BYTES, BUCKET_BYTES - ID_BYTES));
        word(words, field_of(key));
        word(words, bytes_given(value) ? BYTES_LITERAL("+") : BYTES_LITERAL("-"));
        word(words, bytes_given(value) ? value : BYTES_LITERAL(""));
    }
    for (size_t i = 0; i < commit->counter_count; i++) {
        word(words, field_of(commit->counters[i].key));
        for (int k = 0; k < KV_COUNTERS; k++)
            number_word(words, commit->arena, commit->counters[i].add[k]);
        number_word(words, commit->arena, commit->counters[i].limit);
    }
    for (size_t i = 0; i < commit->drop_count; i++)
        if (!bucket_pattern(commit->drops[i].low, pattern))
            bound_words(words, commit->drops[i].low, commit->drops[i].high, commit->arena);
}

struct words command_commit(const struct redis_store *store, const struct kv_commit *commit,
                            bool by_text)
{
    struct words words;
    struct arena *arena = commit->arena;
    size_t drops = drops_inside(commit);
    size_t pairs = commit->write_count + commit->counter_count + drops;
    words_init(&words, arena, 8 + 4 * commit->read_count + 2 * commit->write_count + 8 * pairs);
    script_words(&words, store, SCRIPT_COMMIT, by_text);
    number_word(&words, arena, (int64_t)(1 + commit->read_count + 2 * pairs + commit->write_count));
    word(&words, BYTES_LITERAL("mudax:commits"));
    key_words(&words, commit);
    number_word(&words, arena, (int64_t)commit->read_count);
    number_word(&words, arena, (int64_t)commit->write_count);
    number_word(&words, arena, (int64_t)commit->counter_count);
    number_word(&words, arena, (int64_t)drops);
    argument_words(&words, commit);
    return words;
}
