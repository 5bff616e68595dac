/* config.h - the settings: command line over environment over one INI file over defaults.
 *
 * options.def is the one table behind all of it, --help included.
 * Threads: a config is built by one thread and constant afterwards. */
#pragma once

#include "daemon/policies.h"
#include "daemon/setting.h"

struct config {
#define OPTION(name, type, fallback, least, most, reload, help) SETTING_FIELD_##type name;
#include "daemon/options.def"
#undef OPTION
    struct policy_list policies; /* of the INI file only */
};

/* Values of `sync` and `log_level`; those of `cache_policy` are enum cache_eviction. */
enum { CONFIG_SYNC_ALWAYS, CONFIG_SYNC_INTERVAL, CONFIG_SYNC_NONE };
enum { CONFIG_LOG_ERROR, CONFIG_LOG_WARN, CONFIG_LOG_INFO, CONFIG_LOG_DEBUG };

enum config_result {
    CONFIG_OK,
    CONFIG_HELP,  /* --help or --version was asked for and printed */
    CONFIG_WRONG, /* error text says where and what was expected */
};

/* Reads the settings.
 * arguments    main's; [0] is skipped
 * environment  NULL-terminated "NAME=value"
 * out          owned by the caller on CONFIG_OK only: config_destroy()
 * error        one line, NUL-terminated */
MUST_CHECK enum config_result config_read(int argument_count, char **arguments,
                                          char *const *environment, struct config **out,
                                          char *error, size_t error_size);
void config_destroy(struct config **config);

/* Takes over what SIGHUP may change, the policies included, from `from` into `into`, which gives
 * its own for it, and calls `tell` for each setting that differs: reloaded or needing a restart. */
void config_reload(struct config *into, struct config *from,
                   void (*tell)(const char *name, bool is_reloaded));

void config_help(FILE *out);
