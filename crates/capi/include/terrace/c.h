/* Terrace's additions to LevelDB's C interface: presets and options by name, durability, kinds of
 * errors, stores in memory, a logger, reads and writes with fewer copies, functions for bindings,
 * column families and transactions. */
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

/* Kinds of errors. The numbers never change. The texts of the three kinds of failed transactions
 * begin with "Resource busy: ", which LevelDB does not have. Later versions may add numbers. */
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
  terrace_kind_bug = 13,          /* a violated invariant of the library */
  terrace_kind_conflict = 14,     /* another write changed what a transaction depends on */
  terrace_kind_lock_timeout = 15, /* another transaction did not release a lock in time */
  terrace_kind_deadlock = 16,     /* transactions would wait for each other's locks forever */
  terrace_kind_missing_column_family = 17 /* the store has no column family of this name */
};

/* Returns 1 if a transaction that failed with an error of this kind may succeed when it runs again
 * from its begin: a conflict, a lock timeout or a deadlock. Otherwise returns 0. */
uint8_t terrace_kind_is_retryable(int kind);

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

/* Works like leveldb_get, but usually returns the value without a copy. A pinned value keeps a block or a
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
 * batch cannot name column families; terrace_write_bytes_cf accepts such a batch. */
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

/* Backs up the present state of the store into the backup directory `directory`, which need not
 * exist. Copies only files that no earlier backup in it has, and reads at most `bytes_per_second`
 * (0: no limit). `scratch` is NULL, or for a store on a device or in memory the path of a new
 * directory for its checkpoint, which is removed at the end. The backup survives a power cut when the call returns. After a failure, earlier
 * backups are complete. Returns the number of the backup, or 0 on failure. */
uint64_t terrace_backup_create(leveldb_t* db, const char* directory, const char* scratch, uint64_t bytes_per_second,
                               char** errptr);

/* Stores the numbers of the backups in `directory`, the oldest first, in the first `capacity`
 * elements of `ids`. Leaves out backups with a damaged record. Returns the number of backups. */
size_t terrace_backup_list(const char* directory, uint64_t* ids, size_t capacity, char** errptr);

/* Reads all files of backup `id` (0: of all backups) and compares them with their SHA-256. Damage is
 * an error (Corruption). */
void terrace_backup_verify(const char* directory, uint64_t id, char** errptr);

/* Restores backup `id` (0: the newest one) as a store in directory `name`, which must not exist or
 * be empty. Returns the sequence number of the last write that the store has, or 0 on failure. */
uint64_t terrace_backup_restore(const char* directory, uint64_t id, const char* name, char** errptr);

/* Removes backup `id`, also one with a damaged record, and the files that no remaining backup
 * needs. */
void terrace_backup_remove(const char* directory, uint64_t id, char** errptr);

/* Removes all backups except for the newest `keep`, and the files that no remaining backup needs.
 * Returns the number of removed backups. */
size_t terrace_backup_purge(const char* directory, size_t keep, char** errptr);

/* Resumes writes after a full disk (terrace_kind_no_space), once there is free space again. */
void terrace_resume(leveldb_t* db, char** errptr);

/* Column families: key spaces of one store, which share its write-ahead log. A batch over several
 * families is atomic, and a snapshot shows all of them at one moment. The functions that name no
 * family use the family "default", which every store has. A store with another family cannot be
 * opened by LevelDB.
 *
 * Several threads may use a handle at the same time. Destroy all handles before the store is closed:
 * they keep the directory locked. A write through a handle after the close fails with
 * terrace_kind_closed, and every call after the family was dropped with terrace_kind_invalid. */
typedef struct terrace_column_family_t terrace_column_family_t;

/* Works like terrace_open, and sets families[i] to a handle of the family names[i]. Families that
 * do not exist are created if the options have create_if_missing; otherwise the open fails with
 * terrace_kind_missing_column_family. On failure the array is unchanged. */
leveldb_t* terrace_open_column_families(const leveldb_options_t* options, const char* name, size_t num_families,
                                        const char* const* names, terrace_column_family_t** families, char** errptr);
/* Creates a family, which survives a power cut when the call returns. Fails with
 * terrace_kind_invalid if it exists. */
terrace_column_family_t* terrace_create_column_family(leveldb_t* db, const char* name, char** errptr);
/* Returns a handle of a family, or fails with terrace_kind_missing_column_family. */
terrace_column_family_t* terrace_get_column_family(leveldb_t* db, const char* name, char** errptr);
/* Deletes a family with all its pairs, durably. Its iterators stay readable. Handles of it remain to
 * be destroyed. */
void terrace_drop_column_family(leveldb_t* db, const char* name, char** errptr);
/* Releases a handle; the family stays. Does nothing if `family` is NULL. */
void terrace_column_family_destroy(terrace_column_family_t* family);
/* Returns the name, which is not zero-terminated, and is valid until the handle is destroyed. */
const char* terrace_column_family_name(const terrace_column_family_t* family, size_t* length);
/* Returns the names of all families in the order of their creation, zero-terminated, and sets
 * *count to their number. The caller releases them with terrace_list_column_families_destroy. */
char** terrace_list_column_families(leveldb_t* db, size_t* count);
void terrace_list_column_families_destroy(char** names, size_t count);

/* Each of these functions works like the function without _cf, in a column family. */
void terrace_put_cf(terrace_column_family_t* family, const leveldb_writeoptions_t* options, const char* key,
                    size_t keylen, const char* val, size_t vallen, char** errptr);
void terrace_delete_cf(terrace_column_family_t* family, const leveldb_writeoptions_t* options, const char* key,
                       size_t keylen, char** errptr);
void terrace_delete_range_cf(terrace_column_family_t* family, const leveldb_writeoptions_t* options,
                             const char* start_key, size_t start_key_len, const char* limit_key, size_t limit_key_len,
                             char** errptr);
char* terrace_get_cf(terrace_column_family_t* family, const leveldb_readoptions_t* options, const char* key,
                     size_t keylen, size_t* vallen, char** errptr);
terrace_pinned_t* terrace_get_pinned_cf(terrace_column_family_t* family, const leveldb_readoptions_t* options,
                                        const char* key, size_t keylen, char** errptr);
void terrace_multi_get_cf(terrace_column_family_t* family, const leveldb_readoptions_t* options, size_t num_keys,
                          const char* const* keys, const size_t* key_lengths, char** values, size_t* value_lengths,
                          char** errptr);
leveldb_iterator_t* terrace_create_iterator_cf(terrace_column_family_t* family, const leveldb_readoptions_t* options);
leveldb_iterator_t* terrace_create_range_iterator_cf(terrace_column_family_t* family,
                                                     const leveldb_readoptions_t* options, const char* start_key,
                                                     size_t start_key_len, const char* limit_key,
                                                     size_t limit_key_len);
void terrace_compact_range_cf(terrace_column_family_t* family, const char* start_key, size_t start_key_len,
                              const char* limit_key, size_t limit_key_len, char** errptr);
uint64_t terrace_approximate_size_cf(terrace_column_family_t* family, const char* start_key, size_t start_key_len,
                                     const char* limit_key, size_t limit_key_len, char** errptr);

/* Adds the entries of SSTables to a family, atomically and durably, as newer than all entries of
 * the family. The files stay. Returns the number of puts and deletes, or 0 on failure. */
uint64_t terrace_ingest_cf(terrace_column_family_t* family, const char* const* paths, size_t num_paths, char** errptr);
/* Writes the pairs from `start_key` (included) to `limit_key` (excluded) as SSTables 000001.ldb and so
 * on into an existing directory. A key that is NULL is no bound. No file is replaced. Returns the
 * number of files, or 0 on failure. */
size_t terrace_export_cf(terrace_column_family_t* family, const leveldb_readoptions_t* options, const char* directory,
                         const char* start_key, size_t start_key_len, const char* limit_key, size_t limit_key_len,
                         char** errptr);

/* Operations of a batch on a column family. The batch can be written only to the store of its
 * families. leveldb_writebatch_iterate leaves these operations out. A range delete needs a store that
 * was made with option range_tombstones=on: any other store refuses the batch. */
void terrace_writebatch_put_cf(leveldb_writebatch_t* batch, terrace_column_family_t* family, const char* key,
                               size_t klen, const char* val, size_t vlen);
void terrace_writebatch_delete_cf(leveldb_writebatch_t* batch, terrace_column_family_t* family, const char* key,
                                  size_t klen);
void terrace_writebatch_delete_range_cf(leveldb_writebatch_t* batch, terrace_column_family_t* family,
                                        const char* start_key, size_t start_key_len, const char* limit_key,
                                        size_t limit_key_len);

/* Works like terrace_write_bytes, for a batch that may name column families. The number of a family
 * in the encoding is its place in `families`: 1 for families[0], and so on. If `options` is NULL,
 * works like terrace_write_bytes_unlogged. */
uint64_t terrace_write_bytes_cf(leveldb_t* db, const leveldb_writeoptions_t* options,
                                terrace_column_family_t* const* families, size_t num_families, const char* batch,
                                size_t length, char** errptr);

/* Options of a transaction. */
typedef struct terrace_transaction_options_t terrace_transaction_options_t;

enum {
  terrace_isolation_serializable = 0, /* the commit also checks the keys and ranges that were read */
  terrace_isolation_snapshot = 1 /* the commit checks written keys and those of terrace_transaction_get_for_update */
};
enum {
  terrace_locking_optimistic = 0, /* nothing waits; conflicts are found at the commit */
  terrace_locking_pessimistic = 1 /* writes and terrace_transaction_get_for_update lock their keys */
};

terrace_transaction_options_t* terrace_transaction_options_create(void);
/* Does nothing if `options` is NULL. */
void terrace_transaction_options_destroy(terrace_transaction_options_t* options);
/* Sets the isolation; by default, and for any other number, serializable. */
void terrace_transaction_options_set_isolation(terrace_transaction_options_t* options, int isolation);
/* Sets the locking; by default, and for any other number, optimistic. */
void terrace_transaction_options_set_locking(terrace_transaction_options_t* options, int locking);
/* Sets the longest wait for a lock; by default 1000 milliseconds. */
void terrace_transaction_options_set_lock_timeout(terrace_transaction_options_t* options, uint64_t milliseconds);

/* A transaction: it reads one moment of the store, that of its first call, and its own writes, which
 * nobody else sees before the commit.
 *
 * Several threads may use a transaction at the same time, except for its destruction. After the
 * commit or the rollback every call fails with terrace_kind_invalid. Destroy all transactions and
 * their iterators before the store is closed: they keep the directory locked. A commit after the
 * close fails with terrace_kind_closed. */
typedef struct terrace_transaction_t terrace_transaction_t;

/* Begins a transaction. Options that are NULL are the default options. */
terrace_transaction_t* terrace_transaction_begin(leveldb_t* db, const terrace_transaction_options_t* options);
/* Makes the writes of the transaction visible together, with the durability of the options, and
 * releases its locks. Returns the sequence number of the last write. Returns 0 on failure, and
 * nothing was written then: see terrace_kind_is_retryable. The transaction ends in both cases. */
uint64_t terrace_transaction_commit(terrace_transaction_t* transaction, const leveldb_writeoptions_t* options,
                                    char** errptr);
/* Discards the writes of the transaction and releases its locks. */
void terrace_transaction_rollback(terrace_transaction_t* transaction, char** errptr);
/* Releases the transaction, and rolls it back if it has not ended. Does nothing if it is NULL. */
void terrace_transaction_destroy(terrace_transaction_t* transaction);

/* Remembers the present state of the writes. */
void terrace_transaction_set_savepoint(terrace_transaction_t* transaction, char** errptr);
/* Discards all writes since the newest savepoint, and the savepoint. Locks are kept. Fails with
 * terrace_kind_invalid if there is no savepoint. */
void terrace_transaction_rollback_to_savepoint(terrace_transaction_t* transaction, char** errptr);

/* Works like leveldb_get, in a transaction. */
char* terrace_transaction_get(terrace_transaction_t* transaction, const char* key, size_t keylen, size_t* vallen,
                              char** errptr);
/* Works like terrace_transaction_get. The commit fails if another write changes the key, with every
 * isolation. A pessimistic transaction locks the key until its end, and waits if another one has the
 * lock: see terrace_kind_lock_timeout and terrace_kind_deadlock. */
char* terrace_transaction_get_for_update(terrace_transaction_t* transaction, const char* key, size_t keylen,
                                         size_t* vallen, char** errptr);
/* Sets or deletes a key. A pessimistic transaction locks the key. */
void terrace_transaction_put(terrace_transaction_t* transaction, const char* key, size_t keylen, const char* val,
                             size_t vallen, char** errptr);
void terrace_transaction_delete(terrace_transaction_t* transaction, const char* key, size_t keylen, char** errptr);
/* Deletes all keys from `start_key` (included) to `limit_key` (excluded), and locks none of them. The
 * commit fails if another write changes a key of the range. */
void terrace_transaction_delete_range(terrace_transaction_t* transaction, const char* start_key, size_t start_key_len,
                                      const char* limit_key, size_t limit_key_len, char** errptr);
/* Returns an iterator over the pairs that the transaction sees, from `start_key` (included) to
 * `limit_key` (excluded). A key that is NULL is no bound. A snapshot in the options has no effect.
 * Each seek and each change of direction shows the writes of the transaction until then. After the
 * end of the transaction the moves fail with terrace_kind_invalid. */
leveldb_iterator_t* terrace_transaction_create_iterator(terrace_transaction_t* transaction,
                                                        const leveldb_readoptions_t* options, const char* start_key,
                                                        size_t start_key_len, const char* limit_key,
                                                        size_t limit_key_len);

/* Each of these functions works like the function without _cf, in a column family of the store. A
 * family of another store fails with terrace_kind_invalid. */
char* terrace_transaction_get_cf(terrace_transaction_t* transaction, terrace_column_family_t* family, const char* key,
                                 size_t keylen, size_t* vallen, char** errptr);
char* terrace_transaction_get_for_update_cf(terrace_transaction_t* transaction, terrace_column_family_t* family,
                                            const char* key, size_t keylen, size_t* vallen, char** errptr);
void terrace_transaction_put_cf(terrace_transaction_t* transaction, terrace_column_family_t* family, const char* key,
                                size_t keylen, const char* val, size_t vallen, char** errptr);
void terrace_transaction_delete_cf(terrace_transaction_t* transaction, terrace_column_family_t* family,
                                   const char* key, size_t keylen, char** errptr);
void terrace_transaction_delete_range_cf(terrace_transaction_t* transaction, terrace_column_family_t* family,
                                         const char* start_key, size_t start_key_len, const char* limit_key,
                                         size_t limit_key_len, char** errptr);
leveldb_iterator_t* terrace_transaction_create_iterator_cf(terrace_transaction_t* transaction,
                                                           terrace_column_family_t* family,
                                                           const leveldb_readoptions_t* options, const char* start_key,
                                                           size_t start_key_len, const char* limit_key,
                                                           size_t limit_key_len);

#ifdef __cplusplus
}
#endif

#endif
