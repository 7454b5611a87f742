/* Terrace's additions to LevelDB's C interface: presets and options by name, durability, kinds of
 * errors, stores in memory, a logger, reads and writes with fewer copies, and functions for bindings. */
#ifndef TERRACE_C_H_
#define TERRACE_C_H_

#include <leveldb/c.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Sets every option to the value of a preset, such as "leveldb" or "bundled". A comparator, a
 * filter policy, create_if_missing, error_if_exists, paranoid_checks and the option "recovery" keep
 * their values. Call this function before the functions that set single options. */
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

/* Kinds of errors. The numbers never change. Later versions may add numbers. */
enum {
  terrace_kind_corruption = 1,    /* bytes or a file of the store are wrong or missing; see leveldb_repair_db */
  terrace_kind_io_error = 2,      /* the operating system reported an error */
  terrace_kind_no_space = 3,      /* the disk is full; see terrace_resume */
  terrace_kind_in_use = 4,        /* the store is open, in this process or in another one */
  terrace_kind_missing_store = 5, /* there is no store at this path */
  terrace_kind_invalid = 6,       /* an argument or an option is not valid */
  terrace_kind_not_supported = 7, /* the store has no such feature, or needs one that this version lacks */
  terrace_kind_read_only = 8,     /* a write to a store that was opened for reading only */
  terrace_kind_closed = 9,        /* the store was closed during the call */
  terrace_kind_stopped = 10,      /* an earlier write failed; reopen the store to write again */
  terrace_kind_sequence_gone = 11,/* the requested part of the history no longer exists */
  terrace_kind_forked = 12,       /* the process was forked from the one that opened the store */
  terrace_kind_bug = 13           /* a violated invariant of the library */
};

/* Returns the kind of the last error that a function of this library has stored through an errptr
 * in the calling thread, or 0 if there was none. A call that succeeds leaves the kind unchanged, so
 * call this function only after a failure. */
int terrace_last_error_kind(void);

/* Opens the store in directory `name`, and creates it if the options say so. An error has the text
 * of Terrace. */
leveldb_t* terrace_open(const leveldb_options_t* options, const char* name, char** errptr);

/* Works like terrace_open, but changes no file of the store and does not lock it against other
 * readers. Every write fails. */
leveldb_t* terrace_open_read_only(const leveldb_options_t* options, const char* name, char** errptr);

/* Opens a new, empty store in memory. leveldb_close discards it. */
leveldb_t* terrace_open_in_memory(const leveldb_options_t* options, char** errptr);

/* Works like leveldb_close, but stores the error that prevented the last writes from becoming
 * durable. The store is closed and `db` is destroyed even then. */
void terrace_close(leveldb_t* db, char** errptr);

/* In the functions below, several threads may use the same read options or write options at the
 * same time, as long as no thread changes or destroys them. */

/* A value in the memory of the store. */
typedef struct terrace_pinned_t terrace_pinned_t;

/* Works like leveldb_get, but returns the value without a copy. A pinned value keeps a block or a
 * memtable in memory, so destroy it soon. It stays valid when the store is closed. */
terrace_pinned_t* terrace_get_pinned(leveldb_t* db, const leveldb_readoptions_t* options, const char* key,
                                     size_t keylen, char** errptr);
/* Returns the bytes, which are valid until the pinned value is destroyed. */
const char* terrace_pinned_value(const terrace_pinned_t* pinned, size_t* vallen);
/* Does nothing if `pinned` is NULL. */
void terrace_pinned_destroy(terrace_pinned_t* pinned);

/* Looks up many keys at one moment, and overlaps the reads from storage. Sets values[i] to the
 * value of keys[i], which the caller releases with leveldb_free, and value_lengths[i] to its length;
 * or to NULL and 0 if the key does not exist. If a lookup fails, all values are NULL and `errptr`
 * receives the first error. */
void terrace_multi_get(leveldb_t* db, const leveldb_readoptions_t* options, size_t num_keys, const char* const* keys,
                       const size_t* key_lengths, char** values, size_t* value_lengths, char** errptr);

/* Works like leveldb_approximate_sizes for one range, but reports an error. */
uint64_t terrace_approximate_size(leveldb_t* db, const char* start_key, size_t start_key_len, const char* limit_key,
                                  size_t limit_key_len, char** errptr);

/* Works like leveldb_create_iterator. The iterator has only keys from `start_key` (included) to
 * `limit_key` (excluded). A key that is NULL is no bound. */
leveldb_iterator_t* terrace_create_range_iterator(leveldb_t* db, const leveldb_readoptions_t* options,
                                                  const char* start_key, size_t start_key_len, const char* limit_key,
                                                  size_t limit_key_len);

/* Copies the pair at the iterator, and those that follow it in the direction, as far as whole pairs
 * fit into `capacity` bytes at `buffer`. The iterator is then at the first pair that was not
 * copied, or is not valid at the end and after an error (leveldb_iter_get_error). Returns the
 * number of pairs and sets *length to their bytes. If it returns 0 and the iterator is valid,
 * *length is the capacity that the pair at the iterator needs. The form of a pair, without padding:
 *   uint32_t key length, uint32_t value length (both in the byte order of the machine), key, value */
size_t terrace_iter_read(leveldb_iterator_t* iterator, uint8_t backward, char* buffer, size_t capacity,
                         size_t* length);

/* Writes the batch whose encoding, that of LevelDB's WriteBatch, has `length` bytes at `batch`
 * (docs/format/batch.md). Its sequence number is ignored. Returns the sequence number of the last
 * operation, or 0 on failure. Operation 0x0f deletes the keys from a first key (included) to a
 * second one (excluded); this needs a store that was made with option range_tombstones=on. The
 * batch cannot name column families. */
uint64_t terrace_write_bytes(leveldb_t* db, const leveldb_writeoptions_t* options, const char* batch, size_t length,
                             char** errptr);

/* Works like terrace_write_bytes without an entry in the write-ahead log. The end of the process
 * loses such a write and every later write without sync, until a synced write,
 * terrace_wait_durable or leveldb_close. */
uint64_t terrace_write_bytes_unlogged(leveldb_t* db, const char* batch, size_t length, char** errptr);

/* Deletes all keys from `start_key` (included) to `limit_key` (excluded). In a store that was made
 * with option range_tombstones=on this is one small write. In any other store it deletes key by
 * key, and is then not atomic. */
void terrace_delete_range(leveldb_t* db, const leveldb_writeoptions_t* options, const char* start_key,
                          size_t start_key_len, const char* limit_key, size_t limit_key_len, char** errptr);

/* Works like leveldb_compact_range, but reports an error. */
void terrace_compact_range(leveldb_t* db, const char* start_key, size_t start_key_len, const char* limit_key,
                           size_t limit_key_len, char** errptr);

/* Makes a copy of the store in directory `name`, which must not exist or be empty. Uses hard links
 * on the same file system. The copy is an independent store, and survives a power cut when the call
 * returns. Returns the sequence number of the last write that the copy has, or 0 on failure. */
uint64_t terrace_checkpoint(leveldb_t* db, const char* name, char** errptr);

/* Resumes writes after a full disk (terrace_kind_no_space), once there is free space again. */
void terrace_resume(leveldb_t* db, char** errptr);

#ifdef __cplusplus
}
#endif

#endif
