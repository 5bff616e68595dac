/* model.h - tables of NoSQL Workbench models.
 *
 * Source of the format: DynamoDB developer guide, "NoSQL Workbench data model format". */
#pragma once

#include "clients/cli/cli.h"

/* The definition that CreateTable wants, of one element of a model's DataModel, indexes and all.
 * NULL: the model does not say what is needed, or there is no memory. */
struct mudax_value *model_definition(const struct mudax_value *table);
