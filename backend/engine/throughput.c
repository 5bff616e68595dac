/* throughput.c - what is consumed, by partition; and, where it is emulated, how much may be. */
#include "backend/engine/action.h"

static size_t place_of(const struct definition *definition, const struct secondary_index *index)
{
    return index == NULL ? 0 : 1 + (size_t)(index - definition->table.indexes);
}

/* Who pays: a local index takes what its table has, in whose partitions it lies. */
static size_t payer_of(const struct definition *definition, const struct secondary_index *index)
{
    return index == NULL || index->is_local ? 0 : place_of(definition, index);
}

bool throughput_admits(struct action *action, const struct definition *definition,
                       const struct secondary_index *index, const struct position *position,
                       bool is_write)
{
    const struct engine *engine = action->lane->engine;
    size_t payer = payer_of(definition, index);
    if (!engine->emulates_throughput)
        return true;
    return heat_admits(definition->heats[payer],
                       partition_find(definition_map(definition, payer), position), is_write,
                       action->call->now_us, &definition->rates[payer], &engine->partition_rates);
}

void throughput_consume(struct action *action, const struct definition *definition,
                        const struct secondary_index *index, const struct position *position,
                        bool is_write, uint64_t half_units)
{
    const struct engine *engine = action->lane->engine;
    uint64_t now_us = action->call->now_us;
    size_t place = place_of(definition, index), payer = payer_of(definition, index);
    struct heat *heat = definition->heats[place];
    uint32_t partition = partition_find(definition_map(definition, place), position);
    heat_count_key(heat, position, is_write, half_units, now_us);
    heat_count(heat, partition, is_write, half_units);
    if (!engine->emulates_throughput)
        return;
    heat_sample(heat, partition, position, half_units, lane_random(action->lane));
    heat_pay(definition->heats[payer], partition_find(definition_map(definition, payer), position),
             is_write, half_units, now_us, &definition->rates[payer], &engine->partition_rates);
}

/* DynamoDB's texts. An on-demand table has nothing provisioned that could be exceeded, but may have
 * a maximum. */
enum status throughput_error(const struct definition *definition,
                             const struct secondary_index *index, struct error *error)
{
    const struct heat_rates *rates = &definition->rates[payer_of(definition, index)];
    if (definition->is_provisioned && index != NULL && !index->is_local)
        return error_set(error, STATUS_PROVISIONED,
                         "The level of configured provisioned throughput for one or more global "
                         "secondary indexes of the table was exceeded. Consider increasing your "
                         "provisioning level for the under-provisioned global secondary indexes "
                         "with the UpdateTable API.");
    if (definition->is_provisioned)
        return error_set(error, STATUS_PROVISIONED, "%s", status_text(STATUS_PROVISIONED));
    if (rates->read != 0 || rates->write != 0)
        return error_set(error, STATUS_THROTTLED,
                         "Throughput exceeds the maximum OnDemandThroughput configured on table or "
                         "index");
    return error_set(error, STATUS_THROTTLED,
                     "Throughput exceeds the current capacity of your table or index. If "
                     "exceptions persist, check if you have a hot key");
}

enum submit throughput_refuse(struct action *action, const struct definition *definition,
                              const struct secondary_index *index)
{
    return action_fail(action, throughput_error(definition, index, &action->call->reply.error));
}
