/* request_purge.c - Purge: what is to be forgotten. */
#include "protocol/request_bind.h"

#include "protocol/encoding/msgpack.h"

/* A partition, by its key alone; the part is the same as in front of a whole key. */
static enum status bind_partition(struct request *request, const struct key_schema *schema,
                                  struct arena *arena, struct error *error)
{
    struct key_schema partition = {
        .partition = schema->partition,
        .is_followed = schema->is_followed || key_schema_has_sort(schema),
    };
    struct item_key key;
    enum status status = item_key_build(request->key, &partition, true, arena, &key, error);
    if (status == STATUS_OK)
        request->range.partition = key.bytes;
    return status;
}

enum status request_bind_purge(struct request *request, const struct table *table,
                               struct arena *arena, struct error *error)
{
    enum status status = request_bind_index(request, table, error);
    if (status != STATUS_OK || !bytes_given(request->key))
        return status;
    struct msgpack_cursor cursor = msgpack_cursor_of(request->key);
    uint32_t pairs = 0;
    if (!msgpack_read_map(&cursor, &pairs))
        return error_set(error, STATUS_MALFORMED, "A key is a map");
    if (request->index != NULL)
        return bind_partition(request, &request->index->key, arena, error);
    if (pairs == 1 && key_schema_has_sort(&table->key))
        return bind_partition(request, &table->key, arena, error);
    return item_key_build(request->key, &table->key, true, arena, &request->item_key, error);
}
