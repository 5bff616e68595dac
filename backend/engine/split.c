/* split.c - partitions that are split, by their size or by how hard they are used, in use.
 *
 * A split is two changes of the definition, each a commit of its own. The first parts the range in
 * two: from then on writes count for the part that they lie in, so that the sum is right all the
 * time; but the older part still counts what was there before. How much that was is found by
 * reading the newer range and its counter at one instant, whichever: what lies there, less what the
 * newer counter says, was there before. The second change moves that much from one counter to the
 * other. A daemon that is killed between the two counts when it is started again. */
#include "backend/engine/action.h"
#include "backend/engine/record.h"

#include "protocol/ensure.h"

enum { KEY_ROOM = 16384 }; /* an index key and a table's key, each byte of them taking two */

/* One partition on its way. Arena memory. */
struct split {
    size_t place;
    uint32_t at;
    bool may_be_inside;  /* of what has one partition key */
    uint64_t half_units; /* written to the table when its sizes were read */
    /* While a range is read: what has been passed. */
    int64_t items, bytes;
    bool has_uncounted; /* that is what `at` is */
    /* Looking for the middle. */
    int64_t half;
    uint64_t hash; /* of the last item */
    uint8_t *key;  /* its key: KEY_ROOM bytes */
    size_t key_size;
    bool has_begin;       /* a partition key that is not the first has been met: */
    uint64_t begin_hash;  /* the last such */
    int64_t bytes_before; /* passed then */
    bool is_found;
    struct position found;
    /* Counting: the newer counter. */
    struct kv_record counter;
};

static const struct secondary_index *index_of(const struct definition *definition, size_t place)
{
    return place == 0 ? NULL : &definition->table.indexes[place - 1];
}

static uint32_t id_of(const struct definition *definition, size_t place)
{
    return place == 0 ? definition->table.id : definition->table.indexes[place - 1].id;
}

static bool has_local_index(const struct table *table)
{
    for (size_t i = 0; i < table->index_count; i++)
        if (table->indexes[i].is_local)
            return true;
    return false;
}

/* A local index lies with the items that it is of, whose partition key stays together. */
static bool may_be_inside(const struct definition *definition, size_t place)
{
    const struct secondary_index *index = index_of(definition, place);
    return index == NULL ? !has_local_index(&definition->table) : !index->is_local;
}

static enum submit finish(struct action *action, enum split_step step)
{
    action->call->reply.count = step;
    action->call->reply.body = body_nil;
    return SUBMIT_DONE;
}

/* ---- reading a partition ---- */

static bool place_range(struct action *action, uint32_t at)
{
    struct arena *arena = action->call->arena;
    const struct split *split = action->split;
    const struct partition_map *map = definition_map(action->definition, split->place);
    const struct partition *first = &map->partitions[at], *next = first + 1;
    uint32_t id = id_of(action->definition, split->place);
    struct bytes whole;
    memset(&action->read, 0, sizeof action->read);
    action->read.low = record_item_key(id, first->hash, first->key, arena);
    if (!record_items_range(id, arena, &whole, &action->read.high))
        return false;
    if (at + 1 < map->count)
        action->read.high = record_item_key(id, next->hash, next->key, arena);
    action->read.is_large = true;
    action->read.is_patient = true;
    action->call->request.table = &action->definition->table;
    action->call->request.index = index_of(action->definition, split->place);
    if (action->page.data == NULL) { /* examined_size() needs room */
        action->page = action->lane->page;
        action->lane->page = (struct buffer){0};
    }
    action->page.size = 0;
    action->has_no_memory = false;
    return bytes_given(action->read.low) && bytes_given(action->read.high);
}

static bool is_cancelled(const struct action *action)
{
    const atomic_bool *flag = action->call->is_cancelled;
    return flag != NULL && atomic_load_explicit(flag, memory_order_relaxed);
}

/* ---- the two changes ---- */

static enum submit commit_done(struct action *action)
{
    bool is_published = engine_publish(action->lane->engine, action->created, NULL);
    definition_unref(action->created);
    action->created = NULL;
    action->call->reply.commit = action->commit.number;
    return is_published
               ? finish(action, action->commit.counter_count != 0 ? SPLIT_COUNTED : SPLIT_PARTED)
               : action_fail(action, STATUS_OUTCOME_UNKNOWN);
}

static enum submit commit_map(struct action *action, const struct partition_map *map)
{
    const struct definition *definition = action->definition;
    const struct secondary_index *index = index_of(definition, action->split->place);
    struct definition_change change = {.kind = CHANGE_PARTITIONS,
                                       .request = BYTES_NONE,
                                       .index = index == NULL ? BYTES_NONE : index->name,
                                       .partitions = map};
    struct bytes record;
    uint32_t next_id = 0; /* none is taken */
    enum status status = definition_update(definition, &change, &next_id, action->call->arena,
                                           &record, &action->call->reply.error);
    if (status == STATUS_OK)
        status = definition_decode(record, &action->created);
    if (status != STATUS_OK)
        return action_fail(action, status);
    action->writes[0] = (struct kv_record){.key = definition->record_key, .value = record};
    action->commit.reads = action->reads;
    action->commit.read_count = 1;
    action->commit.writes = action->writes;
    action->commit.write_count = 1;
    return action_change(action, commit_done);
}

/* Too many positions, or too long ones: the partition stays as it is. */
static enum submit commit_split(struct action *action, const struct position *position)
{
    struct arena *arena = action->call->arena;
    const struct split *split = action->split;
    struct partition_map map;
    if (!partition_map_split(definition_map(action->definition, split->place), position, arena,
                             &map))
        return finish(action, SPLIT_NOTHING);
    struct bytes stored = partition_map_write(&map, arena);
    if (!bytes_given(stored))
        return action_fail(action, STATUS_NO_MEMORY);
    return stored.size > PARTITION_MAP_BYTES_MAX ? finish(action, SPLIT_NOTHING)
                                                 : commit_map(action, &map);
}

/* ---- counting what has been split off ---- */

static bool count_visit(struct kv_read *read, struct bytes key, struct bytes item)
{
    (void)key;
    struct action *action = read->owner;
    action->split->items++;
    action->split->bytes += (int64_t)examined_size(action, item);
    return !action->has_no_memory && !is_cancelled(action);
}

static bool fill_counter(const struct action *action, uint32_t at, int64_t sign,
                         const struct partition_totals *moved, struct kv_counter *counter)
{
    const struct split *split = action->split;
    const struct partition_map *map = definition_map(action->definition, split->place);
    *counter =
        (struct kv_counter){.key = record_counter_key(id_of(action->definition, split->place),
                                                      map->partitions[at].id, action->call->arena),
                            .add = {[PARTITION_ITEMS] = sign * moved->counts[PARTITION_ITEMS],
                                    [PARTITION_BYTES] = sign * moved->counts[PARTITION_BYTES]}};
    return bytes_given(counter->key);
}

static enum submit counted(struct action *action)
{
    struct split *split = action->split;
    struct arena *arena = action->call->arena;
    struct partition_totals since = {.counts = {0}}, moved = {.counts = {0}};
    struct kv_counter *counters = arena_alloc(arena, 2 * sizeof *counters);
    struct partition_map map;
    if (is_cancelled(action))
        return finish(action, SPLIT_NOTHING);
    if (action->has_no_memory || counters == NULL)
        return action_fail(action, STATUS_NO_MEMORY);
    partition_total(&since, split->counter.value);
    moved.counts[PARTITION_ITEMS] = split->items - since.counts[PARTITION_ITEMS];
    moved.counts[PARTITION_BYTES] = split->bytes - since.counts[PARTITION_BYTES];
    if (!fill_counter(action, split->at, 1, &moved, &counters[0]) ||
        !fill_counter(action, split->at - 1, -1, &moved, &counters[1]) ||
        !partition_map_counted(definition_map(action->definition, split->place), split->at, arena,
                               &map))
        return action_fail(action, STATUS_NO_MEMORY);
    action->commit.counters = counters;
    action->commit.counter_count = 2;
    return commit_map(action, &map);
}

static enum submit count(struct action *action)
{
    struct split *split = action->split;
    const struct partition_map *map = definition_map(action->definition, split->place);
    if (!place_range(action, split->at))
        return action_fail(action, STATUS_NO_MEMORY);
    split->counter = (struct kv_record){
        .key = record_counter_key(id_of(action->definition, split->place),
                                  map->partitions[split->at].id, action->call->arena)};
    if (!bytes_given(split->counter.key))
        return action_fail(action, STATUS_NO_MEMORY);
    split->items = split->bytes = 0;
    action->read.records = &split->counter;
    action->read.count = 1;
    action->read.visit = count_visit;
    action->read_done = counted;
    return action_read(action);
}

/* ---- the middle of what is too large ---- */

static void found(struct split *split, uint64_t hash, struct bytes key)
{
    split->is_found = true;
    split->found = (struct position){.hash = hash, .key = key};
}

/* Half of the bytes lie behind this item. Better between two partition keys, if that is not far
 * from the middle. */
static bool middle_is_at(struct action *action, uint64_t hash, struct bytes key, bool is_begin)
{
    struct split *split = action->split;
    if (is_begin) {
        found(split, hash, BYTES_LITERAL(""));
    } else if (split->has_begin && split->bytes_before >= split->half * 3 / 4) {
        found(split, split->begin_hash, BYTES_LITERAL(""));
    } else if (split->may_be_inside) {
        struct bytes last = bytes_of(split->key, split->key_size);
        found(split, hash, arena_copy(action->call->arena, partition_separator(last, key)));
        action->has_no_memory = !bytes_given(split->found.key);
    }
    return split->is_found;
}

static bool middle_visit(struct kv_read *read, struct bytes key, struct bytes item)
{
    struct action *action = read->owner;
    struct split *split = action->split;
    const uint8_t *at = key.data + RECORD_ID_BYTES;
    uint64_t hash = 0;
    for (int i = 0; i < RECORD_ITEM_PREFIX - RECORD_ID_BYTES; i++)
        hash = hash << 8 | *at++;
    struct bytes own = bytes_of(at, key.size - RECORD_ITEM_PREFIX);
    bool is_begin = split->items != 0 && hash != split->hash;
    if (is_begin) {
        split->has_begin = true;
        split->begin_hash = hash;
        split->bytes_before = split->bytes;
    }
    if (split->items != 0 && split->bytes >= split->half &&
        middle_is_at(action, hash, own, is_begin))
        return false;
    split->items++;
    split->bytes += (int64_t)examined_size(action, item);
    split->hash = hash;
    ensure(own.size <= KEY_ROOM);
    split->key_size = own.size;
    memcpy(split->key, own.data, own.size);
    return !action->has_no_memory && !is_cancelled(action);
}

static enum submit middle_known(struct action *action)
{
    struct split *split = action->split;
    if (is_cancelled(action))
        return finish(action, SPLIT_NOTHING);
    if (action->has_no_memory)
        return action_fail(action, STATUS_NO_MEMORY);
    if (!split->is_found && split->has_begin)
        found(split, split->begin_hash, BYTES_LITERAL(""));
    if (split->is_found)
        return commit_split(action, &split->found);
    struct heat *heat = action->definition->heats[split->place];
    atomic_store(&heat->partitions[split->at]->unsplit_bytes, (uint64_t)split->bytes);
    return finish(action, SPLIT_REFUSED);
}

static enum submit find_middle(struct action *action, int64_t bytes)
{
    struct split *split = action->split;
    split->half = bytes / 2;
    split->key = arena_alloc(action->call->arena, KEY_ROOM);
    if (split->key == NULL || !place_range(action, split->at))
        return action_fail(action, STATUS_NO_MEMORY);
    action->read.visit = middle_visit;
    action->read_done = middle_known;
    return action_read(action);
}

/* ---- which partition ---- */

static bool find_uncounted(struct action *action)
{
    struct split *split = action->split;
    for (split->place = 0; split->place <= action->definition->table.index_count; split->place++) {
        const struct partition_map *map = definition_map(action->definition, split->place);
        for (split->at = 1; split->at < map->count; split->at++)
            if (map->partitions[split->at].is_uncounted)
                return true;
    }
    return false;
}

/* What could not be split is tried again when it has grown by a quarter. */
static bool is_too_large(const struct action *action, int64_t bytes)
{
    const struct split *split = action->split;
    const struct heat *heat = action->definition->heats[split->place];
    uint64_t tried = atomic_load(&heat->partitions[split->at]->unsplit_bytes);
    return bytes > 0 && (uint64_t)bytes > action->lane->engine->partition_bytes_max &&
           (uint64_t)bytes > tried + tried / 4;
}

static uint64_t half_units_written(const struct definition *definition)
{
    uint64_t sum = 0;
    for (size_t i = 0; i <= definition->table.index_count; i++)
        for (uint32_t k = 0; k < definition->heats[i]->count; k++)
            sum += atomic_load_explicit(&definition->heats[i]->partitions[k]->half_units[1],
                                        memory_order_relaxed);
    return sum;
}

static enum submit sizes_known(struct action *action)
{
    struct split *split = action->split;
    struct definition *definition = action->definition;
    for (split->place = 0; split->place <= definition->table.index_count; split->place++) {
        const struct partition_map *map = definition_map(definition, split->place);
        split->may_be_inside = may_be_inside(definition, split->place);
        for (split->at = 0; split->at < map->count && map->count < PARTITIONS_MAX; split->at++) {
            int64_t bytes =
                partitions_totals(action, split->place, split->at)->counts[PARTITION_BYTES];
            if (is_too_large(action, bytes))
                return find_middle(action, bytes);
        }
    }
    atomic_store(&definition->looked_half_units, split->half_units);
    return finish(action, SPLIT_NOTHING);
}

/* The first that has been hot for long enough and has a middle: that is found, then. */
static void find_hot(struct action *action)
{
    const struct engine *engine = action->lane->engine;
    struct split *split = action->split;
    if (!engine->emulates_throughput || engine->partition_hot_us == 0)
        return;
    for (size_t place = 0; place <= action->definition->table.index_count; place++) {
        struct heat *heat = action->definition->heats[place];
        for (uint32_t at = 0; at < heat->count; at++) {
            if (!heat_is_hot(heat, at, action->call->now_us, engine->partition_hot_us,
                             &engine->partition_rates))
                continue;
            heat_cool(heat, at);
            if (split->is_found)
                continue;
            split->place = place;
            split->at = at;
            split->is_found = heat_middle(heat, at, may_be_inside(action->definition, place),
                                          action->call->arena, &split->found);
        }
    }
}

static enum submit definition_known(struct action *action)
{
    struct split *split = action->split;
    struct bytes record = action->reads[0].value;
    if (!definition_is_of(action->definition, record))
        return finish(action, SPLIT_NOTHING);
    if (!bytes_equal(record, action->definition->record))
        return action_outdated(action, record);
    if (split->is_found)
        return commit_split(action, &split->found);
    memset(&action->read, 0, sizeof action->read);
    if (split->has_uncounted)
        return count(action);
    return partitions_read(action, sizes_known);
}

/* Whether anything is to be done, without asking the store. */
static bool may_be_due(struct action *action)
{
    const struct engine *engine = action->lane->engine;
    struct split *split = action->split;
    split->has_uncounted = find_uncounted(action);
    if (!split->has_uncounted)
        find_hot(action);
    split->half_units = half_units_written(action->definition);
    return split->has_uncounted || split->is_found ||
           (engine->partition_bytes_max != 0 &&
            split->half_units != atomic_load(&action->definition->looked_half_units));
}

enum submit split_begin(struct action *action)
{
    const struct engine *engine = action->lane->engine;
    action->definition = catalog_find(action->lane->catalog, action->call->request.table_name);
    if (action->definition == NULL || !engine->kv->ops->has_instants ||
        atomic_load(&action->definition->state) != DEFINITION_ACTIVE)
        return finish(action, SPLIT_NOTHING);
    action->split = arena_alloc(action->call->arena, sizeof *action->split);
    if (action->split == NULL)
        return action_fail(action, STATUS_NO_MEMORY);
    memset(action->split, 0, sizeof *action->split);
    if (!may_be_due(action))
        return finish(action, SPLIT_NOTHING);
    action->reads[0] = (struct kv_record){.key = action->definition->record_key};
    action->read.records = action->reads;
    action->read.count = 1;
    action->read_done = definition_known;
    return action_read(action);
}
