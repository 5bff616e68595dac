/* queues.h - what the policies of FIFO queues share.
 *
 * For each kind and class of sizes a small queue of what is new and a main queue of what has proved
 * its use, and ghosts of what left them. The classes are held against each other by a greedy-dual
 * priority H = L + f / size, set when an entry is queued: f is 1 plus its hits, L the H of what
 * went out last. With L the priority of what is not used falls behind, so no class keeps its share
 * without use, and at the same use the larger goes first.
 * Source: S3-FIFO, SOSP'23, for the queues; greedy-dual-size, Cao and Irani, USITS'97, for H.
 * Threads: under the shard's lock. */
#pragma once

#include "cache/ghost.h"
#include "cache/policy.h"

enum { QUEUES_CLASSES = ENTRY_KINDS * POLICY_CLASSES };

struct queue {
    uint32_t head, tail; /* handles; entries enter at the head */
    size_t bytes;
};

struct size_class {
    struct queue small, main;
    uint32_t count;
    double small_share; /* 0..1, of the class's bytes; the small queue yields while it has more */
};

struct queues {
    struct policy policy;
    struct size_class classes[QUEUES_CLASSES]; /* by kind, then by size */
    uint64_t filled;                           /* bit set of classes that hold something */
    uint32_t floor;                            /* L */
    size_t share_bytes;
    unsigned promote_hits; /* in the small queue, to get into the main one */
    bool was_full;         /* something had to go */
    struct ghost ghost;
};

/* The whole of a policy with nothing of its own but functions. NULL without memory. */
struct queues *queues_open(const struct policy_ops *ops, struct memory *memory, size_t share_bytes,
                           double small_share, unsigned promote_hits);
void queues_close(struct policy **policy);

static inline struct queues *queues_of(struct policy *policy)
{
    return (struct queues *)policy;
}

/* What would be of this kind and size: an index of `classes`, and a class of the ghost. */
unsigned queues_class(enum entry_kind kind, size_t size);

/* For policy_ops.admits: what is larger than an eighth of its small queue's share needs a second
 * sight. */
bool queues_admits(struct policy *policy, enum entry_kind kind, uint32_t hash, size_t size);
/* Puts an entry at the head of a queue of its class. */
void queues_push(struct queues *queues, struct entry *entry, bool is_main);
/* The small queue's oldest entry goes to the main queue while there are more than its share. */
void queues_overflow(struct queues *queues, unsigned class);
/* Adds what was evicted to the ghosts. */
void queues_remember(struct queues *queues, unsigned class, const struct entry *entry);
/* For policy_ops.remove, .moved and .knows. */
void queues_remove(struct policy *policy, struct entry *entry, enum policy_reason reason);
void queues_moved(struct policy *policy, struct entry *entry, struct entry *copy);
bool queues_knows(const struct policy *policy, enum entry_kind kind, uint32_t hash);
/* What policy_ops.victim wants, taken out of its queue but not remembered. Used candidates are
 * promoted on the way, or go round once more with one hit less.
 * class  of the victim */
struct entry *queues_victim(struct queues *queues, unsigned kinds, unsigned size_class,
                            unsigned *class);
