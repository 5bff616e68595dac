/* output.h - results on standard output, as the AWS CLI prints them. */
#pragma once

#include "clients/cli/cli.h"

/* What a call was and what came of it. */
struct result {
    const struct mudax_request *request;
    const struct mudax_reply *reply;   /* NULL: an error that says no more */
    const struct mudax_value *members; /* batches: RequestItems, as it was given */
};

/* All return an exit code: 0, or that of report_no_memory(). What has no member prints nothing. */
int print_pong(const struct result *result);
int print_item(const struct result *result);
int print_attributes(const struct result *result);
int print_page(const struct result *result);
int print_batch_get(const struct result *result);
int print_batch_write(const struct result *result);
int print_transact_get(const struct result *result);
int print_transact_write(const struct result *result);
int print_description(const struct result *result);

/* On standard error, what an error comes with: the item that failed a condition, the reasons of a
 * cancelled transaction. Nothing if there is no more to say. */
void print_details(const struct result *result);

/* "cache: hit age=12ms time=85us" on standard error. */
void print_verdict(const struct mudax_reply *reply, uint64_t took_us);

/* "85us", "1.2ms", "3.4s" */
const char *format_time(uint64_t us, char out[24]);

/* Bytes of a key as they are ordered: as a text as far as they are one. */
void print_key_bytes(const struct mudax_value *value);
/* A partition key as it was written: a number plain, the others between quotes. */
void print_partition_key(const struct mudax_value *value);
