/* shorthand.h - name=value,name={name=value},name=[value,value]: the AWS CLI's short form of JSON.
 *
 * Source: AWS CLI user guide, "Shorthand syntax". */
#pragma once

#include "clients/cli/cli.h"

/* Reads one structure. It has no types: what ends in "Units" is a number, and of the few members
 * that are truths "true" and "false" are; all else is a text.
 * NULL: it is not shorthand, or there is no memory. */
struct mudax_value *shorthand_read(const char *text);
