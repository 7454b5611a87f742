/* LevelDB's C interface on Terrace.
 *
 * The declarations are those of LevelDB 1.23, so that a program written for them compiles and
 * runs unchanged. Compile and link with the output of `pkg-config --cflags --libs terrace`.
 *
 * Rules
 * - Handles are opaque. The caller destroys each handle once, with the function of its kind.
 *   Several threads may use one leveldb_t at the same time. Any other handle may be used by only
 *   one thread at a time. Destroy iterators and snapshots before their store is closed.
 * - Keys and values are arbitrary bytes, passed as pointer and length. A function copies them
 *   before it returns. Names and paths are zero-terminated.
 * - `errptr` points to NULL or to an older message from malloc. A success leaves it unchanged. A
 *   failure frees the older message and stores its own, which the caller releases with
 *   leveldb_free. The first words of a message give the kind of error: "NotFound: ",
 *   "Corruption: ", "Not implemented: ", "Invalid argument: ", "IO error: ". For a store that is
 *   locked, missing or there already, and for another comparator, LevelDB's text follows. Any
 *   other text is for people and may change.
 * - Booleans are uint8_t, 0 for false.
 * - No pointer may be NULL unless its function allows it. Destroying NULL options, batches,
 *   comparators and filter policies does nothing, like free(NULL).
 *
 * Differences from LevelDB
 * - leveldb_close makes all writes durable before it returns.
 * - A leveldb_cache_t is only a size: each store that is opened with it has a separate cache of
 *   that size.
 * - Options start with the values of the preset "default", which suit larger machines than
 *   LevelDB's values do. terrace_options_preset(options, "leveldb", ...) sets LevelDB's values.
 *   The option "recovery" is "salvage" in both: as in LevelDB, an open skips damaged parts of a
 *   write-ahead log. terrace_options_set(options, "recovery", "refuse", ...) makes it fail.
 * - Numbers outside LevelDB's bounds are changed to the nearest bound. A block restart interval is
 *   at most 1024.
 * - The info log is the file LOG, with other lines, or the function of terrace_options_set_logger.
 * - There are the environments of leveldb_create_default_env and terrace_create_memory_env.
 */
#ifndef TERRACE_LEVELDB_C_H_
#define TERRACE_LEVELDB_C_H_

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct leveldb_t leveldb_t;
typedef struct leveldb_cache_t leveldb_cache_t;
typedef struct leveldb_comparator_t leveldb_comparator_t;
typedef struct leveldb_env_t leveldb_env_t;
typedef struct leveldb_filelock_t leveldb_filelock_t;
typedef struct leveldb_filterpolicy_t leveldb_filterpolicy_t;
typedef struct leveldb_iterator_t leveldb_iterator_t;
typedef struct leveldb_logger_t leveldb_logger_t;
typedef struct leveldb_options_t leveldb_options_t;
typedef struct leveldb_randomfile_t leveldb_randomfile_t;
typedef struct leveldb_readoptions_t leveldb_readoptions_t;
typedef struct leveldb_seqfile_t leveldb_seqfile_t;
typedef struct leveldb_snapshot_t leveldb_snapshot_t;
typedef struct leveldb_writablefile_t leveldb_writablefile_t;
typedef struct leveldb_writebatch_t leveldb_writebatch_t;
typedef struct leveldb_writeoptions_t leveldb_writeoptions_t;

/* A store. */

/* Opens the store in directory `name`, whose parent must exist. Returns NULL on failure. The options
 * may be destroyed afterwards, but the store uses their comparator and filter policy until it is
 * closed. */
leveldb_t* leveldb_open(const leveldb_options_t* options, const char* name, char** errptr);

void leveldb_close(leveldb_t* db);

/* Sets a key. The write survives the end of the process, and with a synced write option also a
 * power cut. */
void leveldb_put(leveldb_t* db, const leveldb_writeoptions_t* options, const char* key, size_t keylen, const char* val,
                 size_t vallen, char** errptr);

/* Deletes a key, which need not exist. */
void leveldb_delete(leveldb_t* db, const leveldb_writeoptions_t* options, const char* key, size_t keylen,
                    char** errptr);

/* Applies a batch atomically. The batch can be written again. */
void leveldb_write(leveldb_t* db, const leveldb_writeoptions_t* options, leveldb_writebatch_t* batch, char** errptr);

/* Returns the value, which the caller releases with leveldb_free, and sets *vallen to its
 * length. Returns NULL and 0 if the key does not exist, and on failure. */
char* leveldb_get(leveldb_t* db, const leveldb_readoptions_t* options, const char* key, size_t keylen, size_t* vallen,
                  char** errptr);

/* Returns an iterator over the present state of the store, or over the snapshot in `options`. The
 * iterator is not valid until the first seek. */
leveldb_iterator_t* leveldb_create_iterator(leveldb_t* db, const leveldb_readoptions_t* options);

/* Returns a snapshot of the present state of the store. The store keeps the snapshot's data until
 * the snapshot and all read options with it are destroyed. */
const leveldb_snapshot_t* leveldb_create_snapshot(leveldb_t* db);

void leveldb_release_snapshot(leveldb_t* db, const leveldb_snapshot_t* snapshot);

/* Returns a property as a string, which the caller releases with leveldb_free. Returns NULL if the
 * property does not exist. Properties: leveldb.stats, leveldb.sstables, leveldb.num-files-at-level0 to 6,
 * leveldb.approximate-memory-usage. */
char* leveldb_property_value(leveldb_t* db, const char* propname);

/* Estimates the bytes of SSTables that each key range uses, from its start (included) to its limit
 * (excluded). Sets all sizes to 0 on failure. */
void leveldb_approximate_sizes(leveldb_t* db, int num_ranges, const char* const* range_start_key,
                               const size_t* range_start_key_len, const char* const* range_limit_key,
                               const size_t* range_limit_key_len, uint64_t* sizes);

/* Compacts the key range, both ends included. This drops deleted and overwritten data. A NULL end
 * is unbounded. */
void leveldb_compact_range(leveldb_t* db, const char* start_key, size_t start_key_len, const char* limit_key,
                           size_t limit_key_len);

/* Deletes the files of a store, and no other files, and its directory if it is then empty. Also
 * deletes the damaged stores that leveldb_repair_db has kept. The store need not exist. Fails while
 * the store is open. */
void leveldb_destroy_db(const leveldb_options_t* options, const char* name, char** errptr);

/* Salvages the readable pairs of a store that cannot be opened, into a new store at `name`. The
 * damaged store is kept as `name`.damaged-1 (or -2 and so on) until the caller removes it. Fails
 * while the store is open. The command `terrace repair` also lists what was lost. */
void leveldb_repair_db(const leveldb_options_t* options, const char* name, char** errptr);

/* Iterators. Key, value, next and prev may be called only while the iterator is valid. The
 * returned bytes are valid until the next move. After a failure the iterator is not valid, and
 * leveldb_iter_get_error returns the error. */

void leveldb_iter_destroy(leveldb_iterator_t*);
uint8_t leveldb_iter_valid(const leveldb_iterator_t*);
void leveldb_iter_seek_to_first(leveldb_iterator_t*);
void leveldb_iter_seek_to_last(leveldb_iterator_t*);
/* Moves to the first pair at or after the key. */
void leveldb_iter_seek(leveldb_iterator_t*, const char* k, size_t klen);
void leveldb_iter_next(leveldb_iterator_t*);
void leveldb_iter_prev(leveldb_iterator_t*);
const char* leveldb_iter_key(const leveldb_iterator_t*, size_t* klen);
const char* leveldb_iter_value(const leveldb_iterator_t*, size_t* vlen);
void leveldb_iter_get_error(const leveldb_iterator_t*, char** errptr);

/* Batches: puts and deletes that are applied atomically, in order. */

leveldb_writebatch_t* leveldb_writebatch_create(void);
void leveldb_writebatch_destroy(leveldb_writebatch_t*);
void leveldb_writebatch_clear(leveldb_writebatch_t*);
void leveldb_writebatch_put(leveldb_writebatch_t*, const char* key, size_t klen, const char* val, size_t vlen);
void leveldb_writebatch_delete(leveldb_writebatch_t*, const char* key, size_t klen);
/* Calls one of the two functions, with `state`, for each operation. */
void leveldb_writebatch_iterate(const leveldb_writebatch_t*, void* state,
                                void (*put)(void*, const char* k, size_t klen, const char* v, size_t vlen),
                                void (*deleted)(void*, const char* k, size_t klen));
void leveldb_writebatch_append(leveldb_writebatch_t* destination, const leveldb_writebatch_t* source);

/* Options for leveldb_open. <terrace/c.h> sets all others by name. The defaults are those of the
 * preset "default". */

leveldb_options_t* leveldb_options_create(void);
void leveldb_options_destroy(leveldb_options_t*);
/* Sets the order of keys. NULL, the default, is bytewise order. The store records the comparator's
 * name. */
void leveldb_options_set_comparator(leveldb_options_t*, leveldb_comparator_t*);
/* Sets the filter policy. NULL, the default, is a Bloom filter with the bits per key of option
 * bloom_bits (10). */
void leveldb_options_set_filter_policy(leveldb_options_t*, leveldb_filterpolicy_t*);
/* Creates the store if it does not exist. Default 0. */
void leveldb_options_set_create_if_missing(leveldb_options_t*, uint8_t);
/* Fails if the store exists. Default 0. */
void leveldb_options_set_error_if_exists(leveldb_options_t*, uint8_t);
/* Reports any corruption at open as an error and verifies every read. Default 0. */
void leveldb_options_set_paranoid_checks(leveldb_options_t*, uint8_t);
/* Sets the environment. NULL, the default, is the operating system's. The handle may be destroyed
 * immediately after this call. */
void leveldb_options_set_env(leveldb_options_t*, leveldb_env_t*);
/* Has no effect. May be NULL. */
void leveldb_options_set_info_log(leveldb_options_t*, leveldb_logger_t*);
/* Size of a memtable in bytes. Default 32 MiB; from 64 KiB to 1 GiB. */
void leveldb_options_set_write_buffer_size(leveldb_options_t*, size_t);
/* Maximum number of open files. Default 1000; from 74 to 50,000. */
void leveldb_options_set_max_open_files(leveldb_options_t*, int);
/* Size of the block cache. NULL, the default, is 64 MiB. The cache handle may be destroyed
 * immediately after this call. */
void leveldb_options_set_cache(leveldb_options_t*, leveldb_cache_t*);
/* Uncompressed size of a block in bytes. Default 4 KiB; from 1 KiB to 4 MiB. */
void leveldb_options_set_block_size(leveldb_options_t*, size_t);
/* Number of keys between restart points (entries that store their whole key). Default 16; from 1 to
 * 1024. */
void leveldb_options_set_block_restart_interval(leveldb_options_t*, int);
/* Target size of an SSTable in bytes. Default 16 MiB; from 1 MiB to 1 GiB. */
void leveldb_options_set_max_file_size(leveldb_options_t*, size_t);

enum { leveldb_no_compression = 0, leveldb_snappy_compression = 1 };
/* Sets the compression. Default Snappy. 2 is Zstandard, as in later versions of LevelDB; LevelDB
 * 1.23 cannot read it. leveldb_open fails if the number is none of these. */
void leveldb_options_set_compression(leveldb_options_t*, int);

/* Comparators. `compare` returns a number less than, equal to or greater than 0. Several threads
 * may call it at the same time. The order must not change as long as a store with this
 * comparator's name exists. Destroy a comparator after the stores that use it are closed. */
leveldb_comparator_t* leveldb_comparator_create(void* state, void (*destructor)(void*),
                                                int (*compare)(void*, const char* a, size_t alen, const char* b,
                                                               size_t blen),
                                                const char* (*name)(void*));
void leveldb_comparator_destroy(leveldb_comparator_t*);

/* Filter policies. `create_filter` returns memory from malloc, which the library frees.
 * `key_may_match` may return true for an absent key, but never false for a present one. Several
 * threads may call both functions at the same time. */
leveldb_filterpolicy_t* leveldb_filterpolicy_create(
    void* state, void (*destructor)(void*),
    char* (*create_filter)(void*, const char* const* key_array, const size_t* key_length_array, int num_keys,
                           size_t* filter_length),
    uint8_t (*key_may_match)(void*, const char* key, size_t length, const char* filter, size_t filter_length),
    const char* (*name)(void*));
void leveldb_filterpolicy_destroy(leveldb_filterpolicy_t*);
/* Returns a Bloom filter. With 10 bits per key, about 1 % of absent keys match. */
leveldb_filterpolicy_t* leveldb_filterpolicy_create_bloom(int bits_per_key);

/* Read options. */

leveldb_readoptions_t* leveldb_readoptions_create(void);
void leveldb_readoptions_destroy(leveldb_readoptions_t*);
/* Verifies checksums. Default 0, as in LevelDB: corrupt bytes may then be returned as values. */
void leveldb_readoptions_set_verify_checksums(leveldb_readoptions_t*, uint8_t);
/* Caches the blocks that are read. Default 1. */
void leveldb_readoptions_set_fill_cache(leveldb_readoptions_t*, uint8_t);
/* Reads from a snapshot. NULL, the default, reads the present state. */
void leveldb_readoptions_set_snapshot(leveldb_readoptions_t*, const leveldb_snapshot_t*);

/* Write options. */

leveldb_writeoptions_t* leveldb_writeoptions_create(void);
void leveldb_writeoptions_destroy(leveldb_writeoptions_t*);
/* Syncs the write-ahead log, so that the write and all earlier writes survive a power cut. Default
 * 0. */
void leveldb_writeoptions_set_sync(leveldb_writeoptions_t*, uint8_t);

/* Cache, environment, version. */

leveldb_cache_t* leveldb_cache_create_lru(size_t capacity);
void leveldb_cache_destroy(leveldb_cache_t* cache);

leveldb_env_t* leveldb_create_default_env(void);
void leveldb_env_destroy(leveldb_env_t*);
/* Returns $TEST_TMPDIR or the path of a directory in /tmp, as a string that the caller releases
 * with leveldb_free. Returns NULL if the directory cannot be created. */
char* leveldb_env_get_test_directory(leveldb_env_t*);

/* Frees a string or a value that the functions above returned. NULL is allowed. */
void leveldb_free(void* ptr);

/* Return the version of LevelDB that the interface follows: 1 and 23. */
int leveldb_major_version(void);
int leveldb_minor_version(void);

#ifdef __cplusplus
}
#endif

#endif
