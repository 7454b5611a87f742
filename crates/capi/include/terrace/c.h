/* What Terrace adds to LevelDB's C interface: its presets, all of its options by name, and how far a store has become durable. */
#ifndef TERRACE_C_H_
#define TERRACE_C_H_

#include <leveldb/c.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Takes the numbers of a preset, such as "default", for every option but a comparator, a filter policy,
 * create_if_missing, error_if_exists and paranoid_checks. Call it before the functions that set single options. */
void terrace_options_preset(leveldb_options_t* options, const char* name, char** errptr);

/* Sets one option by its name and text, as `terrace --option name=value` does: ("write_buffer_size", "64MiB"). */
void terrace_options_set(leveldb_options_t* options, const char* name, const char* value, char** errptr);

/* Every change has a sequence, one more than the change before it. That of the newest one that reads see; 0 before the first. */
uint64_t terrace_last_sequence(leveldb_t* db);

/* Every change up to here survives a power cut. It rises as syncs and batches come, whoever waits for them; always 0 where nothing is
 * promised ("durability" is "none"). */
uint64_t terrace_durable_sequence(leveldb_t* db);

/* Returns once every change up to `sequence` survives a power cut, and sees to it. Of a write that is not synced: ask for
 * terrace_last_sequence behind it, and wait for that when it matters, for many writes at once. An error for a sequence that has not
 * been written, and if the store has failed. Where nothing is promised it returns at once, without that promise. */
void terrace_wait_durable(leveldb_t* db, uint64_t sequence, char** errptr);

#ifdef __cplusplus
}
#endif

#endif
