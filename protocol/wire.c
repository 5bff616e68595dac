#include "protocol/wire.h"

static const struct wire_ops *const wires[] = {&wire_native, &wire_dynamodb};

const struct wire_ops *wire_by_scheme(const char *scheme)
{
    for (size_t i = 0; i < sizeof wires / sizeof wires[0]; i++)
        if (strcmp(wires[i]->scheme, scheme) == 0)
            return wires[i];
    return NULL;
}
