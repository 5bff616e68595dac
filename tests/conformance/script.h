/* script.h - conformance cases as text: requests, and what they must be answered.
 *
 *     case numbers sort by value                a name that is a sentence
 *     create T p:S s:N                          tables of a case are deleted after it
 *     put T {"p":{"S":"k"},"s":{"N":"10"}}
 *     delete T {KEY}     get T {KEY}
 *       -> {"p":{"S":"k"},"s":{"N":"10"}}       get: the item, exactly
 *       -> absent                               get: no item
 *     put T {ITEM} if "a = :v" values {..} names {..} returns ALL_OLD     also delete
 *     update T {KEY} do "SET a = :v" if ".." values {..} returns ALL_NEW
 *       -> {..}                                 put, delete, update: what ReturnValues asks for
 *     query T "p = :p AND s > :s" values {..} names {..} start {..} limit 2 backward
 *       -> page 2                               items in the page; their order and bytes follow
 *       -> page 2 of 5                          likewise, and ScannedCount
 *       -> {..}                                 (none listed: only the number counts)
 *       -> last {..}                            LastEvaluatedKey; not listed: there is none
 *     get T {KEY} show "a, b[0]"                ProjectionExpression; also query
 *     query T ".." filter ".." select COUNT     FilterExpression, Select
 *     query T ".." index NAME                   of a secondary index; also scan
 *     scan T segment 0 segments 4 filter ".." limit 3
 *     put T {..} if ".." failed                 ReturnValuesOnConditionCheckFailure
 *       -> error ConditionalCheckFailedException
 *       -> failed {..}                          the item that failed it
 *     get T {KEY} capacity TOTAL                ReturnConsumedCapacity: or INDEXES; any request
 *       -> consumed {..}                        ConsumedCapacity, or nothing; the last line
 *     put T {..} metrics                        ReturnItemCollectionMetrics; any request that
 * writes
 *       -> measured {..}                        ItemCollectionMetrics, or nothing; the last line
 *     batch-get get T {KEY} show ".." ; get T {KEY} consistent
 *       -> {..}                                 for each key in their order, or absent
 *     batch-write put T {ITEM} ; delete T {KEY}
 *       -> unprocessed 1                        the second was not done
 *     transact-get get T {KEY} ; get T {KEY}    as batch-get
 *     transact-write put T {ITEM} if ".." failed ; check T {KEY} if ".." ; token NAME
 *       -> error TransactionCanceledException
 *       -> reason ConditionalCheckFailed {..}   of each action in their order
 *       -> reason ValidationError: part of its text
 *       -> reason None
 *     define {..}                               CreateTable with plain JSON
 *     alter {..}    live {..}                   UpdateTable, UpdateTimeToLive, likewise
 *     tag {..}    untag {..}    tags {..}       TagResource, UntagResource, ListTagsOfResource
 *     fill T INDEX                              what the daemon does of itself: a new index's items
 *     heat T                                    DescribeHeat: of the body, as describe
 *     describe T    describe-live T    drop T    list [LIMIT [START]]
 *       -> contains "ItemCount":2               of the body as plain JSON
 *     any request
 *       -> error ValidationException: part of the text
 *     repeat 3 put T {"p":{"S":"$i"}}           $i is 1, 2, 3
 *
 *     consistent get T {KEY}                    with ConsistentRead; also query
 *       -> verdict hit                          how the cache answered: hit, miss or bypass; looked
 * at only where a cache is in front and on behind put T {ITEM}                       past the
 * cache; any request time 1500                                 the clock goes on, milliseconds
 *     explain get T {KEY} | query T ".." | scan T | delete T {KEY}   what the cache makes of it
 *     purge [T [{KEY}] [index NAME]]            KEY: an item's, or a partition key alone
 *       -> contains "Items":1                   of the body as plain JSON
 *     policy item 1000 query 0                  the cache's TTLs from now on, milliseconds
 *
 * $(TEXT*N) anywhere stands for N times TEXT, in which $n is 1, 2, 3. Without "->" a request must
 * succeed. # begins a comment line. Where a cache is in front, a read that says nothing of its
 * verdict is done three times and must give the same answer each time: cold; again, a hit; and
 * after what it showed has been written again, as it was. */
#pragma once

#include "tests/conformance/over.h"
#include "tests/support/session.h"

struct script;

/* What a case runs on. All borrowed. */
struct script_stage {
    struct session *session, *behind; /* of the backend, and of what is behind its cache */
    struct backend *cache;            /* NULL: there is none */
    enum over over;                   /* how requests and replies travel */
    bool is_cache_on;
};

/* Fails the process when the file cannot be read or understood. */
struct script *script_read(const char *path);
void script_free(struct script *script);
size_t script_cases(const struct script *script);
const char *script_case_name(const struct script *script, size_t i);

/* Runs a case; false and a text in `why` when a reply was another. */
bool script_run(const struct script *script, size_t i, const struct script_stage *stage, char *why,
                size_t why_size);
