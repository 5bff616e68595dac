/* DynamoDB's API: a stream of requests, whole and cut into pieces, is the same requests; what a
 * request holds can be told in a reply; no byte is read beyond the end. */
#include "protocol/encoding/json.h"
#include "protocol/hash.h"
#include "protocol/sigv4.h"
#include "protocol/wire.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { FRAME_MAX = 4096, HEAP_MAX = 1 << 20, NOW = 1704067200 /* 2024-01-01 */ };

static void need(bool is_right)
{
    if (!is_right)
        abort();
}

/* The item, made canonical as a store has it, comes back from the JSON of a reply. */
static void check_reply(const struct wire_session *session, const struct request *request,
                        struct arena *arena)
{
    struct buffer out = {0};
    struct reply reply;
    struct error refusal;
    struct bytes item;
    enum status made = item_canonical(request->item, arena, &item, NULL, &refusal);
    need(made == STATUS_OK || made == STATUS_VALIDATION || made == STATUS_NO_MEMORY);
    if (made != STATUS_OK)
        return;
    struct request get = {.operation = OPERATION_GET_ITEM, .id = request->id};
    reply_init(&reply);
    reply.body = item;
    need(wire_dynamodb.encode(session, &get, &reply, &out));
    const char *item_member = "\r\n\r\n{\"Item\":";
    const uint8_t *at = memmem(out.data, out.size, item_member, strlen(item_member));
    need(at != NULL);
    at += strlen(item_member);
    struct value value;
    struct error error;
    struct bytes text = bytes_of(at, (size_t)(out.data + out.size - at) - 1);
    enum status status = json_to_item(text, arena, &value, &error);
    if (status != STATUS_NO_MEMORY) {
        need(status == STATUS_OK);
        struct buffer again = {0};
        need(value_encode(&value, &again) && bytes_equal(buffer_bytes(&again), item));
        buffer_deinit(&again);
    }
    buffer_deinit(&out);
}

/* Expressions made of older parameters are always right: what is wrong with those is told before.
 */
static void check_legacy(const struct request *decoded, struct arena *arena)
{
    static const struct table table = {.id = 1,
                                       .key = {.partition = {BYTES_LITERAL("PK"), VALUE_S},
                                               .sort = {BYTES_LITERAL("SK"), VALUE_N}}};
    struct request request = *decoded;
    struct error error = {.text = ""};
    enum status status = request_bind(&request, &table, arena, &error);
    need(status == STATUS_OK || status == STATUS_VALIDATION || status == STATUS_NO_MEMORY ||
         status == STATUS_MALFORMED);
    bool is_mixed = decoded->operation == OPERATION_QUERY;
    need(status == STATUS_OK || is_mixed || strncmp(error.text, "Invalid ", 8) != 0);
    need(strncmp(error.text, "Invalid KeyC", 12) != 0 && strncmp(error.text, "Invalid U", 9) != 0);
}

static uint64_t hash_of(const struct request *request)
{
    const struct bytes parts[] = {
        request->table_name,
        request->key,
        request->item,
        request->key_condition.text,
        request->key_condition.names,
        request->key_condition.values,
        request->start_key,
        request->definition,
    };
    uint64_t hash = (uint64_t)request->operation;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        hash = hash * 31 + hash_partition(parts[i]) + parts[i].size;
    return hash;
}

/* Gives the stream `step` bytes more at a time. Returns a hash of all that was asked for. */
static uint64_t run(const uint8_t *data, size_t size, size_t step, const struct access_keys *keys,
                    size_t *left)
{
    struct wire_session session = {.frame_max = FRAME_MAX, .keys = keys, .unix_s = NOW};
    struct buffer out = {0};
    struct arena arena;
    uint64_t hash = 0;
    size_t from = 0, to = 0;
    bool is_broken = false, is_interim = false;
    arena_init(&arena, NULL, 0, HEAP_MAX);
    while (!is_broken && to < size) {
        to = size - to < step ? size : to + step;
        enum wire_result result = WIRE_REQUEST;
        while (result != WIRE_MORE && !is_broken) {
            struct request request = {0};
            size_t used = 0, needed = 0;
            result = wire_dynamodb.decode(&session, bytes_of(data + from, to - from), &arena,
                                          &request, &used, &needed, &out);
            is_broken = result == WIRE_BROKEN;
            need(result != WIRE_MORE || needed > to - from);
            if (result == WIRE_REQUEST || result == WIRE_ANSWERED) {
                need(used <= to - from && (used != 0 || !is_interim));
                is_interim = used == 0;
                from += used;
            }
            if (result == WIRE_REQUEST) {
                hash = hash * 31 + hash_of(&request);
                if (request.is_legacy)
                    check_legacy(&request, &arena);
                if (bytes_given(request.item))
                    check_reply(&session, &request, &arena);
            }
            arena_reset(&arena);
        }
    }
    need(out.size == 0 || memcmp(out.data, "HTTP/1.1 ", 9) == 0);
    buffer_deinit(&out);
    arena_deinit(&arena);
    *left = is_broken ? SIZE_MAX : size - from;
    return hash;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct access_key key = {
        BYTES_LITERAL("AKIDEXAMPLE"), BYTES_LITERAL("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")};
    static const struct access_keys all = {&key, 1};
    if (size < 1)
        return 0;
    size_t left_whole, left_cut;
    const struct access_keys *keys = data[0] < 128 ? NULL : &all;
    uint64_t whole = run(data + 1, size - 1, SIZE_MAX / 2, keys, &left_whole);
    uint64_t cut = run(data + 1, size - 1, 1 + data[0] % 64, keys, &left_cut);
    /* What is wrong with a head is mostly seen once it is whole. */
    need(whole == cut && (left_whole == left_cut || left_whole == SIZE_MAX));
    return 0;
}
