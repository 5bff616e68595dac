#include "cache/interval.h"

#include "protocol/ensure.h"

#include <stdlib.h>

enum { SEGMENT = 64, SEGMENT_ROOM_MIN = 4 };

static const size_t segment_bytes = SEGMENT * sizeof(struct node *);

static struct node **bucket_at(const struct nodes *nodes, uint32_t bucket)
{
    return &nodes->segments[bucket / SEGMENT][bucket % SEGMENT];
}

static struct node **bucket_of(const struct nodes *nodes, uint32_t hash)
{
    uint32_t bucket = hash & (2 * nodes->round - 1);
    if (bucket >= nodes->bucket_count)
        bucket -= nodes->round;
    return bucket_at(nodes, bucket);
}

struct node *nodes_bucket(const struct nodes *nodes, uint32_t bucket)
{
    return *bucket_at(nodes, bucket);
}

static bool segment_add(struct nodes *nodes)
{
    uint32_t index = nodes->bucket_count / SEGMENT;
    if (index == nodes->segment_room) {
        uint32_t room = nodes->segment_room == 0 ? SEGMENT_ROOM_MIN : 2 * nodes->segment_room;
        struct node ***segments = memory_heap_alloc(nodes->memory, room * sizeof(struct node **));
        if (segments == NULL)
            return false;
        if (index != 0)
            memcpy(segments, nodes->segments, index * sizeof(struct node **));
        memory_heap_free(nodes->memory, nodes->segments,
                         nodes->segment_room * sizeof(struct node **));
        nodes->segments = segments;
        nodes->segment_room = room;
    }
    nodes->segments[index] = memory_heap_alloc(nodes->memory, segment_bytes);
    if (nodes->segments[index] == NULL)
        return false;
    memset(nodes->segments[index], 0, segment_bytes);
    return true;
}

bool nodes_open(struct nodes *nodes, struct memory *memory)
{
    *nodes = (struct nodes){.memory = memory, .round = SEGMENT};
    if (!segment_add(nodes))
        return false;
    nodes->bucket_count = SEGMENT;
    return true;
}

static size_t node_bytes(const struct node *node)
{
    return sizeof *node + node->partition_size;
}

static void node_free(struct nodes *nodes, struct node *node)
{
    nodes->bytes -= node_bytes(node) + page_tree_bytes(&node->pages);
    page_tree_deinit(&node->pages, nodes->memory);
    memory_heap_free(nodes->memory, node, node_bytes(node));
    nodes->count--;
}

void nodes_close(struct nodes *nodes)
{
    if (nodes->memory == NULL)
        return;
    for (uint32_t i = 0; i < nodes->bucket_count; i++) {
        while (*bucket_at(nodes, i) != NULL) {
            struct node *node = *bucket_at(nodes, i);
            *bucket_at(nodes, i) = node->next;
            ensure(node->loadings == NULL);
            node_free(nodes, node);
        }
    }
    for (uint32_t i = 0; i * SEGMENT < nodes->bucket_count; i++)
        memory_heap_free(nodes->memory, nodes->segments[i], segment_bytes);
    memory_heap_free(nodes->memory, nodes->segments, nodes->segment_room * sizeof(struct node **));
    nodes->memory = NULL;
}

struct node *node_find(const struct nodes *nodes, const struct partition_ref *partition)
{
    for (struct node *node = *bucket_of(nodes, partition->hash); node != NULL; node = node->next)
        if (node->hash == partition->hash && node->table_id == partition->table_id &&
            bytes_equal(bytes_of(node->partition, node->partition_size), partition->bytes))
            return node;
    return NULL;
}

/* Splits the next bucket in turn. Without memory the buckets just get longer. */
static void bucket_add(struct nodes *nodes)
{
    if (nodes->bucket_count % SEGMENT == 0 && !segment_add(nodes))
        return;
    uint32_t added = nodes->bucket_count++;
    struct node **from = bucket_at(nodes, added - nodes->round);
    while (*from != NULL) {
        struct node *node = *from;
        if ((node->hash & (2 * nodes->round - 1)) != added) {
            from = &node->next;
            continue;
        }
        *from = node->next;
        node->next = *bucket_at(nodes, added);
        *bucket_at(nodes, added) = node;
    }
    if (nodes->bucket_count == 2 * nodes->round)
        nodes->round *= 2;
}

struct node *node_make(struct nodes *nodes, const struct partition_ref *partition, bool is_blind)
{
    struct node *node = memory_heap_alloc(nodes->memory, sizeof *node + partition->bytes.size);
    if (node == NULL)
        return NULL;
    *node = (struct node){.hash = partition->hash,
                          .table_id = partition->table_id,
                          .is_blind = is_blind,
                          .partition_size = (uint32_t)partition->bytes.size};
    page_tree_init(&node->pages);
    if (partition->bytes.size != 0)
        memcpy(node->partition, partition->bytes.data, partition->bytes.size);
    struct node **bucket = bucket_of(nodes, partition->hash);
    node->next = *bucket;
    *bucket = node;
    nodes->bytes += node_bytes(node);
    if (++nodes->count > nodes->bucket_count)
        bucket_add(nodes);
    return node;
}

void node_drop_if_idle(struct nodes *nodes, struct node *node)
{
    if (node->pages.count != 0 || node->loadings != NULL || node->holds != 0)
        return;
    while (node->pending != NULL)
        node_pending_remove(node->pending);
    struct node **at = bucket_of(nodes, node->hash);
    while (*at != node)
        at = &(*at)->next;
    *at = node->next;
    node_free(nodes, node);
}

void node_load_begin(struct node *node, struct loading *loading, bool has_pending_stripe)
{
    node->is_blind = node->is_blind && has_pending_stripe;
    loading->is_dirty = node->is_blind;
    for (const struct pending_key *key = node->pending; key != NULL; key = key->next)
        if (key_interval_holds(&loading->interval, key->sort))
            loading->is_dirty = true;
    loading->node = node;
    loading->prev = NULL;
    loading->next = node->loadings;
    if (loading->next != NULL)
        loading->next->prev = loading;
    node->loadings = loading;
}

void node_load_end(struct nodes *nodes, struct loading *loading)
{
    struct node *node = loading->node;
    if (node == NULL)
        return;
    if (loading->prev != NULL)
        loading->prev->next = loading->next;
    else
        node->loadings = loading->next;
    if (loading->next != NULL)
        loading->next->prev = loading->prev;
    loading->node = NULL;
    node_drop_if_idle(nodes, node);
}

bool node_page_add(struct nodes *nodes, struct node *node, struct entry *page)
{
    uint32_t slot;
    size_t before = page_tree_bytes(&node->pages);
    bool is_added = page_tree_add(&node->pages, nodes->memory, page, &slot);
    nodes->bytes += page_tree_bytes(&node->pages) - before;
    if (is_added)
        page_head_set_node(page, node, slot);
    return is_added;
}

void node_page_remove(struct nodes *nodes, struct entry *page)
{
    uint32_t slot;
    struct node *node = page_node(page, &slot);
    page_tree_remove(&node->pages, nodes->memory, page, slot);
    node_drop_if_idle(nodes, node);
}

void node_page_moved(struct nodes *nodes, struct entry *page, struct entry *copy)
{
    uint32_t slot;
    struct node *node = page_node(page, &slot);
    page_tree_moved(&node->pages, nodes->memory, page, copy, slot);
}

void node_pending_add(struct node *node, struct pending_key *key)
{
    key->node = node;
    key->prev = NULL;
    key->next = node->pending;
    if (key->next != NULL)
        key->next->prev = key;
    node->pending = key;
}

void node_pending_remove(struct pending_key *key)
{
    if (key->node == NULL)
        return;
    if (key->prev != NULL)
        key->prev->next = key->next;
    else
        key->node->pending = key->next;
    if (key->next != NULL)
        key->next->prev = key->prev;
    key->node = NULL;
}
