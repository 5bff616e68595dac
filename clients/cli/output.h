/* output.h - results on standard output, as the AWS CLI prints them. */
#pragma once

#include "clients/cli/cli.h"

/* All return an exit code: 0, or that of report_no_memory(). */
int print_item(const struct mudax_reply *reply); /* nothing if there is none */
int print_attributes(const struct mudax_reply *reply);
int print_page(const struct mudax_reply *reply);
int print_description(const struct mudax_reply *reply);

/* "cache: hit age=12ms time=85us" on standard error. */
void print_verdict(const struct mudax_reply *reply, uint64_t took_us);

/* "85us", "1.2ms", "3.4s" */
const char *format_time(uint64_t us, char out[24]);
