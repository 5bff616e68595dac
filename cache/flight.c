#include "cache/flight.h"

#include "protocol/ensure.h"

static const size_t table_bytes = FLIGHT_BUCKETS * sizeof(struct flight *);

bool flights_open(struct flights *flights, struct memory *memory)
{
    flights->buckets = memory_heap_alloc(memory, table_bytes);
    if (flights->buckets == NULL)
        return false;
    memset(flights->buckets, 0, table_bytes);
    return true;
}

void flights_close(struct flights *flights, struct memory *memory)
{
    memory_heap_free(memory, flights->buckets, table_bytes);
    flights->buckets = NULL;
}

static struct flight **bucket_of(const struct flights *flights, uint32_t hash)
{
    return &flights->buckets[hash % FLIGHT_BUCKETS];
}

struct flight *flight_find(const struct flights *flights, const struct entry *probe)
{
    for (struct flight *flight = *bucket_of(flights, probe->hash); flight != NULL;
         flight = flight->next)
        if (flight->probe.hash == probe->hash && flight->probe.key_size == probe->key_size &&
            memcmp(flight->probe.key, probe->key, probe->key_size) == 0)
            return flight;
    return NULL;
}

struct flight *flight_start(struct flights *flights, struct memory *memory,
                            const struct entry *probe)
{
    size_t bytes = sizeof(struct flight) + probe->key_size;
    struct flight *flight = memory_heap_alloc(memory, bytes);
    if (flight == NULL)
        return NULL;
    memset(flight, 0, sizeof *flight);
    flight->memory = memory;
    flight->bytes = bytes;
    flight->is_listed = true;
    atomic_init(&flight->refs, 1);
    flight->probe.hash = probe->hash;
    flight->probe.key_size = probe->key_size;
    memcpy((uint8_t *)&flight->probe + ENTRY_HEADER, probe->key, probe->key_size);
    struct flight **bucket = bucket_of(flights, probe->hash);
    flight->next = *bucket;
    *bucket = flight;
    return flight;
}

void flight_detach(struct flights *flights, struct flight *flight)
{
    if (!flight->is_listed)
        return;
    struct flight **at = bucket_of(flights, flight->probe.hash);
    while (*at != flight)
        at = &(*at)->next;
    *at = flight->next;
    flight->is_listed = false;
}

void flight_detach_all(struct flights *flights)
{
    for (int i = 0; i < FLIGHT_BUCKETS; i++)
        while (flights->buckets[i] != NULL)
            flight_detach(flights, flights->buckets[i]);
}

void flight_join(struct flight *flight, struct waiter *waiter)
{
    atomic_fetch_add_explicit(&flight->refs, 1, memory_order_relaxed);
    waiter->flight = flight;
    waiter->prev = NULL;
    waiter->next = flight->waiters;
    if (waiter->next != NULL)
        waiter->next->prev = waiter;
    flight->waiters = waiter;
    flight->waiter_count++;
}

bool flight_leave(struct waiter *waiter)
{
    struct flight *flight = waiter->flight;
    if (flight == NULL)
        return false;
    if (waiter->prev != NULL)
        waiter->prev->next = waiter->next;
    else
        flight->waiters = waiter->next;
    if (waiter->next != NULL)
        waiter->next->prev = waiter->prev;
    waiter->flight = NULL;
    flight->waiter_count--;
    return true;
}

struct waiter *flight_take_waiters(struct flight *flight)
{
    struct waiter *first = flight->waiters;
    for (struct waiter *waiter = first; waiter != NULL; waiter = waiter->next)
        waiter->flight = NULL;
    flight->waiters = NULL;
    flight->waiter_count = 0;
    return first;
}

bool flight_reply_set(struct flight *flight, const struct reply *reply)
{
    uint8_t *body = NULL;
    if (reply->status == STATUS_OK && reply->body.size != 0) {
        body = memory_heap_alloc(flight->memory, reply->body.size);
        if (body == NULL)
            return false;
        memcpy(body, reply->body.data, reply->body.size);
    }
    flight->reply = *reply;
    flight->reply.body = bytes_of(body, body == NULL ? 0 : reply->body.size);
    flight->reply.touched = NULL;
    flight->reply.touched_count = 0;
    flight->reply.examined = (struct key_interval){0};
    return true;
}

void flight_unref(struct flight *flight)
{
    if (atomic_fetch_sub_explicit(&flight->refs, 1, memory_order_acq_rel) != 1)
        return;
    ensure(!flight->is_listed && flight->waiters == NULL);
    if (flight->reply.body.data != NULL)
        memory_heap_free(flight->memory, (void *)(uintptr_t)flight->reply.body.data,
                         flight->reply.body.size);
    memory_heap_free(flight->memory, flight, flight->bytes);
}
