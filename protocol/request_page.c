/* request_page.c - Query and Scan: which range is read, and what of it is shown. */
#include "protocol/request_bind.h"

#include "protocol/encoding/msgpack.h"
#include "protocol/expression_form.h"
#include "protocol/expression_path.h"
#include "protocol/hash.h"
#include "protocol/index_key.h"

/* ---- what a page shows ---- */

enum status request_bind_index(struct request *request, const struct table *table,
                               struct error *error)
{
    request->index = NULL;
    struct bytes name = request->index_name;
    if (LIKELY(!bytes_given(name)))
        return STATUS_OK;
    const struct secondary_index *index = table_index(table, name);
    if (index == NULL)
        return error_set(
            error, STATUS_VALIDATION, "The table does not have the specified index: %.*s",
            (int)(name.size < KEY_NAME_MAX ? name.size : KEY_NAME_MAX), (const char *)name.data);
    request->index = index;
    return STATUS_OK;
}

/* Finds the index, and that it can be read. */
static enum status bind_index(struct request *request, const struct table *table,
                              struct error *error)
{
    enum status status = request_bind_index(request, table, error);
    const struct secondary_index *index = request->index;
    if (LIKELY(index == NULL) || status != STATUS_OK)
        return status;
    if (!index->is_local && request->is_consistent)
        return error_set(error, STATUS_VALIDATION,
                         "Consistent reads are not supported on global secondary indexes");
    if (!index->is_ready)
        return error_set(error, STATUS_VALIDATION,
                         "Cannot read from backfilling global secondary index: %.*s",
                         (int)index->name.size, (const char *)index->name.data);
    return STATUS_OK;
}

static enum status check_select(const struct request *request, struct error *error)
{
    static const char *const shown[SELECTS] = {
        [SELECT_ALL_ATTRIBUTES] = "ALL_ATTRIBUTES",
        [SELECT_ALL_PROJECTED_ATTRIBUTES] = "ALL_PROJECTED_ATTRIBUTES",
        [SELECT_COUNT] = "only the Count",
    };
    const struct secondary_index *index = request->index;
    if (request->select == SELECT_ALL_PROJECTED_ATTRIBUTES && index == NULL)
        return error_set(error, STATUS_VALIDATION,
                         "One or more parameter values were invalid: Select type "
                         "ALL_PROJECTED_ATTRIBUTES is not supported for a query on a table");
    if (request->select == SELECT_SPECIFIC_ATTRIBUTES && !bytes_given(request->projection))
        return error_set(error, STATUS_VALIDATION,
                         "Must specify the AttributesToGet or ProjectionExpression when choosing "
                         "to get SPECIFIC_ATTRIBUTES");
    if (bytes_given(request->projection) && shown[request->select] != NULL)
        return error_set(error, STATUS_VALIDATION,
                         "Cannot specify the ProjectionExpression when choosing to get %s",
                         shown[request->select]);
    if (request->select == SELECT_ALL_ATTRIBUTES && index != NULL && !index->is_local &&
        index->shown != NULL)
        return error_set(error, STATUS_VALIDATION,
                         "One or more parameter values were invalid: Select type ALL_ATTRIBUTES is "
                         "not supported for global secondary index %.*s because its projection "
                         "type is not ALL",
                         (int)index->name.size, (const char *)index->name.data);
    return STATUS_OK;
}

static enum status refuse_hidden(const struct secondary_index *index, struct bytes name,
                                 struct error *error)
{
    return error_set(error, STATUS_VALIDATION,
                     "One or more parameter values were invalid: Global secondary index %.*s does "
                     "not project [%.*s]",
                     (int)index->name.size, (const char *)index->name.data,
                     (int)(name.size < KEY_NAME_MAX ? name.size : KEY_NAME_MAX),
                     (const char *)name.data);
}

/* What a global index does not hold, neither a projection nor a filter can see. */
static enum status check_shown(const struct secondary_index *index, const struct path_node *tree,
                               struct error *error)
{
    for (const struct path_node *node = tree->first; node != NULL; node = node->next)
        if (!index_shows(index, node->name))
            return refuse_hidden(index, node->name, error);
    return STATUS_OK;
}

static enum status refuse_filter(const struct request *request, struct bytes name,
                                 struct error *error)
{
    return error_set(error, STATUS_VALIDATION,
                     "%s can only contain non-primary key attributes: Primary key attribute: %.*s",
                     request->is_legacy ? "QueryFilter" : "Filter Expression", (int)name.size,
                     (const char *)name.data);
}

static enum status check_filter_name(const struct request *request, const struct key_schema *schema,
                                     struct bytes name, struct error *error)
{
    bool is_query = request->operation == OPERATION_QUERY;
    if (is_query && (bytes_equal(name, schema->partition.name) ||
                     (key_schema_has_sort(schema) && bytes_equal(name, schema->sort.name))))
        return refuse_filter(request, name, error);
    const struct secondary_index *index = request->index;
    if (index != NULL && !index->is_local && !index_shows(index, name))
        return refuse_hidden(index, name, error);
    return STATUS_OK;
}

/* A Query's filter must not look at the key: that is the key condition's matter. */
static enum status check_filter(const struct request *request, const struct key_schema *schema,
                                const struct expression *node, struct error *error)
{
    if (node->kind == EXPRESSION_PATH)
        return check_filter_name(request, schema, node->path->name, error);
    enum status status = STATUS_OK;
    for (const struct expression *operand = node->first; operand != NULL && status == STATUS_OK;
         operand = operand->next)
        status = check_filter(request, schema, operand, error);
    return status;
}

static enum status make_page_form(const struct request *request, struct arena *arena,
                                  struct bytes *out, struct error *error)
{
    bool is_count = request->select == SELECT_COUNT;
    *out = BYTES_LITERAL("");
    if (LIKELY(request->filter_tree == NULL && request->projection_tree == NULL && !is_count))
        return STATUS_OK;
    struct bytes form =
        expression_form(request->filter_tree, request->projection_tree, is_count, arena);
    if (!bytes_given(form))
        return error_set(error, STATUS_NO_MEMORY, "%s", "");
    *out = form;
    return STATUS_OK;
}

/* What a page shows, and what it leaves out. */
static enum status bind_page(struct request *request, const struct key_schema *schema,
                             struct arena *arena, struct error *error)
{
    const struct secondary_index *index = request->index;
    enum status status = STATUS_OK;
    if (request->filter_tree != NULL)
        status = check_filter(request, schema, request->filter_tree, error);
    if (status == STATUS_OK && index != NULL && index->shown != NULL) {
        /* A local index has whole items at hand, and shows what is not projected when asked. */
        if (!index->is_local && request->projection_tree != NULL)
            status = check_shown(index, request->projection_tree, error);
        else if (index->is_local && request->projection_tree == NULL &&
                 request->select != SELECT_ALL_ATTRIBUTES)
            request->projection_tree = index->shown;
    }
    return status == STATUS_OK ? make_page_form(request, arena, &request->page_form, error)
                               : status;
}

/* ---- where reading begins ---- */

/* Leaves of the interval what comes behind `start`, in the direction of reading. */
static enum status begin_behind(struct key_interval *interval, struct bytes start, bool is_backward,
                                struct arena *arena, struct error *error)
{
    if (!key_interval_holds(interval, start))
        return error_set(error, STATUS_VALIDATION,
                         "The provided starting key is outside query boundaries based on provided "
                         "conditions");
    if (is_backward)
        interval->high = start;
    else if (!bytes_next(start, arena, &interval->low))
        return error_set(error, STATUS_NO_MEMORY, "%s", "");
    return STATUS_OK;
}

static enum status build_start_key(const struct request *request, const struct table *table,
                                   struct arena *arena, struct item_key *out, struct error *error)
{
    if (request->index != NULL)
        return index_start_key_build(request->start_key, table, request->index, arena, out, error);
    enum status status = item_key_build(request->start_key, &table->key, true, arena, out, error);
    return status == STATUS_VALIDATION
               ? error_set(error, status, "The provided starting key is invalid")
               : status;
}

static enum status apply_start_key(const struct request *request, const struct table *table,
                                   struct arena *arena, struct key_condition *range,
                                   struct error *error)
{
    struct item_key start;
    enum status status = build_start_key(request, table, arena, &start, error);
    if (status != STATUS_OK)
        return status;
    if (!bytes_equal(item_key_partition(start), range->partition))
        return error_set(error, STATUS_VALIDATION,
                         "The provided starting key is outside query boundaries based on provided "
                         "conditions");
    return begin_behind(&range->interval, item_key_sort(start), request->is_backward, arena, error);
}

/* ---- Query ---- */

enum status request_bind_query(struct request *request, const struct table *table,
                               struct arena *arena, struct error *error)
{
    if (!bytes_given(request->key_condition.text))
        return error_set(error, STATUS_VALIDATION,
                         "Either the KeyConditions or KeyConditionExpression parameter must be "
                         "specified in the request.");
    struct key_condition range;
    struct trees trees = {.condition = NULL};
    enum status status = bind_index(request, table, error);
    request->projection_tree = NULL; /* an index's own, perhaps, of a former binding */
    const struct key_schema *schema = request->index != NULL ? &request->index->key : &table->key;
    if (status == STATUS_OK)
        status = check_select(request, error);
    if (status == STATUS_OK)
        status = request_bind_expressions(request, arena, &trees, error);
    if (status == STATUS_OK)
        status = key_condition_of_tree(trees.key_condition, schema, arena, &range, error);
    if (status == STATUS_OK)
        status = bind_page(request, schema, arena, error);
    if (status == STATUS_OK && bytes_given(request->start_key))
        status = apply_start_key(request, table, arena, &range, error);
    if (status == STATUS_OK)
        request->range = range;
    return status;
}

/* ---- Scan ---- */

enum { SEGMENTS_MAX = 1000000 };

/* DynamoDB's quotas: developer guide, "Parallel scan". */
static enum status check_segment(const struct request *request, struct error *error)
{
    if (request->has_segment && request->segments == 0)
        return error_set(error, STATUS_VALIDATION,
                         "The TotalSegments parameter is required but was not present in the "
                         "request when Segment parameter is present");
    if (request->segments != 0 && !request->has_segment)
        return error_set(error, STATUS_VALIDATION,
                         "The Segment parameter is required but was not present in the request "
                         "when parameter TotalSegments is present");
    if (request->segments > SEGMENTS_MAX)
        return error_set(error, STATUS_VALIDATION,
                         "1 validation error detected: Value '%u' at 'totalSegments' failed to "
                         "satisfy constraint: Member must have value less than or equal to %d",
                         request->segments, SEGMENTS_MAX);
    if (request->has_segment && request->segment >= request->segments)
        return error_set(error, STATUS_VALIDATION,
                         "The Segment parameter is zero-based and must be less than parameter "
                         "TotalSegments: Segment: %u is not less than TotalSegments: %u",
                         request->segment, request->segments);
    return STATUS_OK;
}

/* The first point of the hash space that belongs to a segment. */
static uint64_t segment_begin(uint32_t segment, uint32_t segments)
{
    return (uint64_t)(((unsigned __int128)segment << 64) / segments);
}

/* The whole, or what of it a segment is. */
static bool segment_interval(const struct request *request, struct arena *arena,
                             struct key_interval *out)
{
    *out = (struct key_interval){BYTES_LITERAL(""), BYTES_NONE};
    if (request->segments <= 1)
        return true;
    uint8_t *bounds = arena_alloc(arena, 2 * POSITION_HASH_BYTES);
    if (bounds == NULL)
        return false;
    if (request->segment != 0) {
        position_write_hash(bounds, segment_begin(request->segment, request->segments));
        out->low = bytes_of(bounds, POSITION_HASH_BYTES);
    }
    if (request->segment + 1 != request->segments) {
        position_write_hash(bounds + POSITION_HASH_BYTES,
                            segment_begin(request->segment + 1, request->segments));
        out->high = bytes_of(bounds + POSITION_HASH_BYTES, POSITION_HASH_BYTES);
    }
    return true;
}

static enum status scan_start(const struct request *request, const struct table *table,
                              struct arena *arena, struct key_interval *interval,
                              struct error *error)
{
    struct item_key start;
    enum status status = build_start_key(request, table, arena, &start, error);
    if (status != STATUS_OK)
        return status;
    uint8_t *position = arena_alloc(arena, POSITION_HASH_BYTES + start.bytes.size);
    if (position == NULL)
        return error_set(error, STATUS_NO_MEMORY, "%s", "");
    position_write_hash(position, hash_partition(item_key_partition(start)));
    memcpy(position + POSITION_HASH_BYTES, start.bytes.data, start.bytes.size);
    struct bytes at = bytes_of(position, POSITION_HASH_BYTES + start.bytes.size);
    if (!key_interval_holds(interval, at))
        return error_set(error, STATUS_VALIDATION,
                         "The provided starting key is invalid: Invalid ExclusiveStartKey. Please "
                         "use ExclusiveStartKey with correct Segment. TotalSegments: %u Segment: "
                         "%u",
                         request->segments, request->segment);
    return begin_behind(interval, at, false, arena, error);
}

enum status request_bind_scan(struct request *request, const struct table *table,
                              struct arena *arena, struct error *error)
{
    struct trees trees = {.condition = NULL};
    struct key_condition range = {.partition = BYTES_LITERAL("")};
    enum status status = bind_index(request, table, error);
    request->projection_tree = NULL; /* an index's own, perhaps, of a former binding */
    if (status == STATUS_OK)
        status = check_select(request, error);
    if (status == STATUS_OK)
        status = check_segment(request, error);
    if (status == STATUS_OK)
        status = request_bind_expressions(request, arena, &trees, error);
    if (status == STATUS_OK)
        status = bind_page(request, &table->key, arena, error);
    if (status == STATUS_OK && !segment_interval(request, arena, &range.interval))
        status = error_set(error, STATUS_NO_MEMORY, "%s", "");
    if (status == STATUS_OK && bytes_given(request->start_key))
        status = scan_start(request, table, arena, &range.interval, error);
    if (status == STATUS_OK)
        request->range = range;
    return status;
}
