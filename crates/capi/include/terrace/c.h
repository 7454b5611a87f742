/* Terrace's additions to LevelDB's C interface: presets and options by name, durability, kinds of
 * errors, stores in memory, a logger, and reads and writes with fewer copies. */
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

/* Makes every write survive the end of the process without a replay of the write-ahead log: writes
 * the memtables to SSTables. */
void terrace_flush(leveldb_t* db, char** errptr);

/* The kinds of errors, with the numbers of LevelDB's Status. */
enum {
  terrace_not_found = 1,
  terrace_corruption = 2,
  terrace_not_supported = 3,
  terrace_invalid_argument = 4,
  terrace_io_error = 5
};

/* Returns the kind of an error that a function of this library stored in *errptr. If `message` is
 * not NULL, sets *message to the part of `error` after the words of its kind. */
int terrace_error_kind(const char* error, const char** message);

/* Returns an environment whose stores are in memory, for leveldb_options_set_env and
 * leveldb_env_destroy. A store keeps its contents from one open to the next, until the environment
 * and all options with it are destroyed. It is lost when the process ends. */
leveldb_env_t* terrace_create_memory_env(void);

/* Sends the lines of the info log to `log`, with `state`, instead of to the file LOG. Several
 * threads may call `log` at the same time, until the store is closed. It must return soon, and must
 * not call the store. A line has no line break at its end. NULL, the default, writes LOG. */
void terrace_options_set_logger(leveldb_options_t* options, void* state,
                                void (*log)(void* state, const char* line, size_t length));

/* Passes the value of a key to `receive`, with `state`, without a copy, and returns 1. The bytes are
 * valid during the call. Returns 0 if the key does not exist, and on failure. */
uint8_t terrace_get(leveldb_t* db, const leveldb_readoptions_t* options, const char* key, size_t keylen,
                    void (*receive)(void* state, const char* value, size_t length), void* state, char** errptr);

/* Sets key and value to the entry of a valid iterator, and returns 1. Returns 0 if the iterator is
 * not valid. The bytes are valid until the next move. */
uint8_t terrace_iter_entry(const leveldb_iterator_t* iterator, const char** key, size_t* klen, const char** value,
                           size_t* vlen);

/* Applies a batch of puts and deletes that is encoded as a record of the write-ahead log, atomically.
 * docs/format/batch.md has the encoding. The sequence number in it has no effect. Damaged bytes are
 * a Corruption; operations that LevelDB does not have are not implemented. */
void terrace_write(leveldb_t* db, const leveldb_writeoptions_t* options, const char* record, size_t length,
                   char** errptr);

/* Passes a filter of the keys to `receive`, with `state`. The bytes are valid during the call. */
void terrace_filterpolicy_create_filter(const leveldb_filterpolicy_t* policy, const char* const* key_array,
                                        const size_t* key_length_array, int num_keys,
                                        void (*receive)(void* state, const char* filter, size_t length), void* state);

/* Returns 0 if the key is certainly not among the keys of the filter. */
uint8_t terrace_filterpolicy_key_may_match(const leveldb_filterpolicy_t* policy, const char* key, size_t keylen,
                                           const char* filter, size_t length);

#ifdef __cplusplus
}
#endif

#endif
