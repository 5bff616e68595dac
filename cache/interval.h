/* interval.h - which cached pages a written key may touch.
 *
 * One node per partition (of a table) that was queried: the cached pages with their intervals, the
 * intervals being loaded, and the sort keys of pending writes. Rules: tests/proof/page_rules.py;
 * change both together. Pages are in a tree; of the others a node holds few, in lists.
 * Threads: under the shard's lock; readers never see a node. */
#pragma once

#include "cache/page_tree.h"

struct flight;

/* A page being fetched. Its owner's; in its node's list from begin to end. */
struct loading {
    struct loading *next, *prev;
    struct node *node;            /* NULL: in no list */
    struct key_interval interval; /* borrowed until the end */
    struct flight *flight;        /* joinable while not dirty, or NULL */
    bool is_dirty;                /* a key in it is or was being written: serve only */
};

/* A write between intent and done, as its partition's node knows it. Its owner's. */
struct pending_key {
    struct pending_key *next, *prev;
    struct node *node; /* NULL: in no list */
    struct bytes sort; /* borrowed while in the list */
};

struct node {
    struct node *next; /* in its bucket */
    uint32_t hash, table_id;
    bool is_blind; /* made while unknown writes were pending in its stripe, and always since */
    uint16_t holds;
    struct page_tree pages;
    struct loading *loadings;
    struct pending_key *pending;
    uint32_t partition_size;
    uint8_t partition[];
};

/* Grows one bucket at a time (linear hashing), so that no insertion waits for a whole table. */
struct nodes {
    struct memory *memory;
    struct node ***segments;
    uint32_t segment_room, bucket_count, round; /* round: buckets when the present doubling began */
    size_t count, bytes;
};

struct partition_ref {
    uint32_t hash, table_id;
    struct bytes bytes;
};

MUST_CHECK bool nodes_open(struct nodes *nodes, struct memory *memory);
/* Every node must be gone, or hold nothing but pages. */
void nodes_close(struct nodes *nodes);

/* First of a bucket, for walking all of them: 0..bucket_count - 1. */
struct node *nodes_bucket(const struct nodes *nodes, uint32_t bucket);

struct node *node_find(const struct nodes *nodes, const struct partition_ref *partition);
/* NULL without memory. */
MUST_CHECK struct node *node_make(struct nodes *nodes, const struct partition_ref *partition,
                                  bool is_blind);
/* Frees the node if it holds neither pages nor loadings; pending keys are let go. */
void node_drop_if_idle(struct nodes *nodes, struct node *node);

/* Registers a page being fetched, and says in is_dirty whether a pending write forbids keeping it.
 */
void node_load_begin(struct node *node, struct loading *loading, bool has_pending_stripe);
void node_load_end(struct nodes *nodes, struct loading *loading);

MUST_CHECK bool node_page_add(struct nodes *nodes, struct node *node, struct entry *page);
void node_page_remove(struct nodes *nodes, struct entry *page);
void node_page_moved(struct nodes *nodes, struct entry *page, struct entry *copy);

void node_pending_add(struct node *node, struct pending_key *key);
void node_pending_remove(struct pending_key *key);
