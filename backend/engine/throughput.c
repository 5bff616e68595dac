/* throughput.c - what is consumed, by partition; and, where it is emulated, how much may be. */
#include "backend/engine/action.h"

static const struct heat_rates unlimited;

static size_t place_of(const struct definition *definition, const struct secondary_index *index)
{
    return index == NULL ? 0 : 1 + (size_t)(index - definition->table.indexes);
}

bool throughput_admits(struct action *action, const struct definition *definition,
                       const struct secondary_index *index, const struct position *position,
                       bool is_write)
{
    const struct engine *engine = action->lane->engine;
    size_t place = place_of(definition, index);
    if (!engine->emulates_throughput)
        return true;
    return heat_admits(definition->heats[place],
                       partition_find(definition_map(definition, place), position), is_write,
                       action->call->now_us, &definition->rates[place], &engine->partition_rates);
}

void throughput_consume(struct action *action, const struct definition *definition,
                        const struct secondary_index *index, const struct position *position,
                        bool is_write, uint64_t half_units)
{
    const struct engine *engine = action->lane->engine;
    size_t place = place_of(definition, index);
    bool is_limited = engine->emulates_throughput;
    struct heat *heat = definition->heats[place];
    uint32_t partition = partition_find(definition_map(definition, place), position);
    heat_count_key(heat, position, is_write, half_units, action->call->now_us);
    if (is_limited)
        heat_sample(heat, partition, position, half_units, lane_random(action->lane));
    heat_consume(heat, partition, is_write, half_units, action->call->now_us,
                 is_limited ? &definition->rates[place] : &unlimited,
                 is_limited ? &engine->partition_rates : &unlimited);
}

/* DynamoDB's texts. An on-demand table has nothing provisioned that could be exceeded, but may have
 * a maximum. */
enum submit throughput_refuse(struct action *action, const struct definition *definition)
{
    struct error *error = &action->call->reply.error;
    if (definition->is_provisioned)
        return action_fail(action, STATUS_PROVISIONED);
    if (definition->rates[0].read != 0 || definition->rates[0].write != 0)
        return action_fail(action,
                           error_set(error, STATUS_THROTTLED,
                                     "Throughput exceeds the maximum OnDemandThroughput configured "
                                     "on table or index"));
    return action_fail(
        action, error_set(error, STATUS_THROTTLED,
                          "Throughput exceeds the current capacity of your table or index. If "
                          "exceptions persist, check if you have a hot key"));
}
