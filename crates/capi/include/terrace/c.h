/* What Terrace adds to LevelDB's C interface: its presets, and all of its options by name. */
#ifndef TERRACE_C_H_
#define TERRACE_C_H_

#include <leveldb/c.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Takes the numbers of a preset, such as "terrace-block", for every option but a comparator, a filter policy,
 * create_if_missing, error_if_exists and paranoid_checks. Call it before the functions that set single options. */
void terrace_options_preset(leveldb_options_t* options, const char* name, char** errptr);

/* Sets one option by its name and text, as `terrace --option name=value` does: ("memtable_bytes", "64MiB"). */
void terrace_options_set(leveldb_options_t* options, const char* name, const char* value, char** errptr);

#ifdef __cplusplus
}
#endif

#endif
