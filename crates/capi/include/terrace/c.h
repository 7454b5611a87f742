/* Terrace's additions to LevelDB's C interface: presets, options by name, and durability. */
#ifndef TERRACE_C_H_
#define TERRACE_C_H_

#include <leveldb/c.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Sets every option to the value of a preset, such as "leveldb" or "bundled". A comparator, a
 * filter policy, create_if_missing, error_if_exists and paranoid_checks keep their values. Call
 * this function before the functions that set single options. */
void terrace_options_preset(leveldb_options_t* options, const char* name, char** errptr);

/* Sets an option by name, for example "write_buffer_size" to "64MiB". The name and the value have
 * the form of the flag `--option name=value` of the command `terrace`. docs/options.md lists the
 * names. */
void terrace_options_set(leveldb_options_t* options, const char* name, const char* value, char** errptr);

/* Returns the sequence number of the newest write that reads can see, or 0 before the first write.
 * Each put or delete has a sequence number, which is one more than the previous one. */
uint64_t terrace_last_sequence(leveldb_t* db);

/* Returns the durable watermark: every write up to this sequence number survives a power cut.
 * Syncs and batch syncs raise it. In durability mode "none" it is always 0, because that mode
 * makes no promise. */
uint64_t terrace_durable_sequence(leveldb_t* db);

/* Makes every write up to `sequence` survive a power cut, with a sync if necessary, and then
 * returns. To make several unsynced writes durable with one sync, call terrace_last_sequence after
 * the last of them and pass its result to this function. Fails for a sequence number that has not
 * been written, and if the store has failed. In durability mode "none" it returns immediately and
 * promises nothing. */
void terrace_wait_durable(leveldb_t* db, uint64_t sequence, char** errptr);

#ifdef __cplusplus
}
#endif

#endif
