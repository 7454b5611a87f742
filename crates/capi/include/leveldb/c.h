/* Terrace behind LevelDB's C interface.
 *
 * The declarations are those of LevelDB 1.23, so that a program written for them compiles and runs unchanged; the comments
 * are ours. Compile and link with what `pkg-config --cflags --libs terrace` says.
 *
 * Rules
 * - Handles are opaque. Each is destroyed by the function of its kind, once, by who made it. A leveldb_t may be used by
 *   many threads at once, any other handle by one at a time. Iterators and snapshots go before their store is closed.
 * - Keys and values are any bytes, passed as pointer and length; they are copied before a function returns. Names and
 *   paths end in a zero byte.
 * - `errptr` leads to NULL, or to an older message from malloc. Success leaves it alone; a failure frees the older message
 *   and puts its own there, for you to release by leveldb_free. Its first words tell the kind: "Corruption: ",
 *   "Invalid argument: ", "IO error: ", "Not implemented: ". The rest is for people and may change.
 * - Truth values are uint8_t, 0 for no.
 * - No pointer may be NULL unless its function says so. Options, batches, comparators and filters are destroyed as by
 *   free: NULL is nothing.
 *
 * What differs from LevelDB
 * - leveldb_close makes everything written durable before it returns.
 * - A cache is a size: each store opened with it has one of that size to itself.
 * - Numbers that LevelDB bounds are bounded alike; a block restart interval is at most 1024.
 * - There is no info log, and one environment.
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

/* Opens the store in directory `name`; NULL on failure. Options may go as soon as it has returned, but not a comparator or
 * a filter policy that they name: these are in use until the store is closed. */
leveldb_t* leveldb_open(const leveldb_options_t* options, const char* name, char** errptr);

void leveldb_close(leveldb_t* db);

/* Survives the end of the process; a power cut only if `options` ask for sync. */
void leveldb_put(leveldb_t* db, const leveldb_writeoptions_t* options, const char* key, size_t keylen, const char* val,
                 size_t vallen, char** errptr);

/* Fine if the key is not there. */
void leveldb_delete(leveldb_t* db, const leveldb_writeoptions_t* options, const char* key, size_t keylen,
                    char** errptr);

/* All of the batch or nothing. It can be written again. */
void leveldb_write(leveldb_t* db, const leveldb_writeoptions_t* options, leveldb_writebatch_t* batch, char** errptr);

/* The value, for you to release by leveldb_free, and its length in *vallen; NULL and 0 if there is none or on failure. */
char* leveldb_get(leveldb_t* db, const leveldb_readoptions_t* options, const char* key, size_t keylen, size_t* vallen,
                  char** errptr);

/* Sees the store as it is now, or as of the snapshot of `options`. Stands nowhere at first. */
leveldb_iterator_t* leveldb_create_iterator(leveldb_t* db, const leveldb_readoptions_t* options);

/* Reads through it see the store as it is now. What it sees is kept for as long as it, or read options that name it, live. */
const leveldb_snapshot_t* leveldb_create_snapshot(leveldb_t* db);

void leveldb_release_snapshot(leveldb_t* db, const leveldb_snapshot_t* snapshot);

/* A text, for you to release by leveldb_free; NULL if there is no property of this name. Names: leveldb.stats,
 * leveldb.sstables, leveldb.num-files-at-level0 to 6, leveldb.approximate-memory-usage. */
char* leveldb_property_value(leveldb_t* db, const char* propname);

/* About how many bytes of tables the keys of each range take, its start included, its limit not. All 0 on failure. */
void leveldb_approximate_sizes(leveldb_t* db, int num_ranges, const char* const* range_start_key,
                               const size_t* range_start_key_len, const char* const* range_limit_key,
                               const size_t* range_limit_key_len, uint64_t* sizes);

/* Merges what the range holds, both ends included, so that deleted and overwritten data goes. NULL is unbounded. */
void leveldb_compact_range(leveldb_t* db, const char* start_key, size_t start_key_len, const char* limit_key,
                           size_t limit_key_len);

/* Removes the store, its own files and nothing else. Fine if there is none; refused while it is open. */
void leveldb_destroy_db(const leveldb_options_t* options, const char* name, char** errptr);

/* Salvages what can be read of a store that does not open any more. The store at `name` is then a new one; the damaged one
 * is kept beside it as `name`.damaged-1, or -2 and so on, for you to remove. Refused while it is open. `terrace repair` lists
 * what was lost, too. */
void leveldb_repair_db(const leveldb_options_t* options, const char* name, char** errptr);

/* An iterator. Key and value may be asked for, and the iterator moved on, only while it is valid; what they return lasts
 * until the next move. After a failure it is not valid, and leveldb_iter_get_error tells why. */

void leveldb_iter_destroy(leveldb_iterator_t*);
uint8_t leveldb_iter_valid(const leveldb_iterator_t*);
void leveldb_iter_seek_to_first(leveldb_iterator_t*);
void leveldb_iter_seek_to_last(leveldb_iterator_t*);
/* To the first pair at or after the key. */
void leveldb_iter_seek(leveldb_iterator_t*, const char* k, size_t klen);
void leveldb_iter_next(leveldb_iterator_t*);
void leveldb_iter_prev(leveldb_iterator_t*);
const char* leveldb_iter_key(const leveldb_iterator_t*, size_t* klen);
const char* leveldb_iter_value(const leveldb_iterator_t*, size_t* vlen);
void leveldb_iter_get_error(const leveldb_iterator_t*, char** errptr);

/* A batch: puts and deletes that happen together, in order. */

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

/* Options to open with. <terrace/c.h> has more of them. */

leveldb_options_t* leveldb_options_create(void);
void leveldb_options_destroy(leveldb_options_t*);
/* NULL: bytewise, the default. The store remembers the name. */
void leveldb_options_set_comparator(leveldb_options_t*, leveldb_comparator_t*);
/* NULL: no filters, the default. */
void leveldb_options_set_filter_policy(leveldb_options_t*, leveldb_filterpolicy_t*);
/* Default no. */
void leveldb_options_set_create_if_missing(leveldb_options_t*, uint8_t);
/* Default no. */
void leveldb_options_set_error_if_exists(leveldb_options_t*, uint8_t);
/* Any sign of damage is an error, every read is verified. Default no. */
void leveldb_options_set_paranoid_checks(leveldb_options_t*, uint8_t);
/* Has no effect. May be NULL. */
void leveldb_options_set_env(leveldb_options_t*, leveldb_env_t*);
/* Has no effect. May be NULL. */
void leveldb_options_set_info_log(leveldb_options_t*, leveldb_logger_t*);
/* Bytes of a memtable. Default 4 MiB; 64 KiB to 1 GiB. */
void leveldb_options_set_write_buffer_size(leveldb_options_t*, size_t);
/* Default 1000; 74 to 50,000. */
void leveldb_options_set_max_open_files(leveldb_options_t*, int);
/* NULL: 8 MiB, the default. The handle may go at once. */
void leveldb_options_set_cache(leveldb_options_t*, leveldb_cache_t*);
/* Uncompressed bytes of a block. Default 4 KiB; 1 KiB to 4 MiB. */
void leveldb_options_set_block_size(leveldb_options_t*, size_t);
/* Keys between two that are stored whole. Default 16; 1 to 1024. */
void leveldb_options_set_block_restart_interval(leveldb_options_t*, int);
/* Bytes of a table. Default 2 MiB; 1 MiB to 1 GiB. */
void leveldb_options_set_max_file_size(leveldb_options_t*, size_t);

enum { leveldb_no_compression = 0, leveldb_snappy_compression = 1 };
/* Default Snappy. Another number makes leveldb_open fail. */
void leveldb_options_set_compression(leveldb_options_t*, int);

/* An order of keys. `compare` returns a number below, at or above 0, is called from several threads at once, and must
 * never change its mind while a store uses the name. Destroy it after the stores that use it are closed. */
leveldb_comparator_t* leveldb_comparator_create(void* state, void (*destructor)(void*),
                                                int (*compare)(void*, const char* a, size_t alen, const char* b,
                                                               size_t blen),
                                                const char* (*name)(void*));
void leveldb_comparator_destroy(leveldb_comparator_t*);

/* A kind of filter. `create_filter` returns memory from malloc, which is freed here; `key_may_match` may say yes of a key
 * that is absent, never no of one that is present. Both are called from several threads at once. */
leveldb_filterpolicy_t* leveldb_filterpolicy_create(
    void* state, void (*destructor)(void*),
    char* (*create_filter)(void*, const char* const* key_array, const size_t* key_length_array, int num_keys,
                           size_t* filter_length),
    uint8_t (*key_may_match)(void*, const char* key, size_t length, const char* filter, size_t filter_length),
    const char* (*name)(void*));
void leveldb_filterpolicy_destroy(leveldb_filterpolicy_t*);
/* With 10 bits a key, about 1 % of absent keys pass. */
leveldb_filterpolicy_t* leveldb_filterpolicy_create_bloom(int bits_per_key);

/* How to read. */

leveldb_readoptions_t* leveldb_readoptions_create(void);
void leveldb_readoptions_destroy(leveldb_readoptions_t*);
/* Default no, as in LevelDB: damaged bytes may then be returned as values. */
void leveldb_readoptions_set_verify_checksums(leveldb_readoptions_t*, uint8_t);
/* Default yes. */
void leveldb_readoptions_set_fill_cache(leveldb_readoptions_t*, uint8_t);
/* NULL: as of now, the default. */
void leveldb_readoptions_set_snapshot(leveldb_readoptions_t*, const leveldb_snapshot_t*);

/* How to write. */

leveldb_writeoptions_t* leveldb_writeoptions_create(void);
void leveldb_writeoptions_destroy(leveldb_writeoptions_t*);
/* Survive a power cut once written, with everything written before. Default no. */
void leveldb_writeoptions_set_sync(leveldb_writeoptions_t*, uint8_t);

/* Cache, environment, versions. */

leveldb_cache_t* leveldb_cache_create_lru(size_t capacity);
void leveldb_cache_destroy(leveldb_cache_t* cache);

leveldb_env_t* leveldb_create_default_env(void);
void leveldb_env_destroy(leveldb_env_t*);
/* $TEST_TMPDIR or a directory below /tmp, for you to release by leveldb_free; NULL if it cannot be made. */
char* leveldb_env_get_test_directory(leveldb_env_t*);

/* Releases what the functions above return as text or value. NULL is fine. */
void leveldb_free(void* ptr);

/* The version of LevelDB whose interface this is: 1 and 23. */
int leveldb_major_version(void);
int leveldb_minor_version(void);

#ifdef __cplusplus
}
#endif

#endif
