/* C functions that do all the work of one Go call: a call from Go into C costs about as much as a
 * read of a cached pair, so each operation makes one call.
 *
 * Every function returns its error by value, because the kind of an error belongs to the thread of
 * the failed call, and Go may move a goroutine to another thread between two calls. */
#ifndef TERRACE_GO_SHIM_H_
#define TERRACE_GO_SHIM_H_

#include <stdlib.h>
#include <string.h>
#include <terrace/c.h>

/* An error: its kind, or 0, and its text, which Go releases with leveldb_free. */
typedef struct {
  char* text;
  int kind;
} go_error;

static inline go_error go_failure(char* text) {
  go_error error = {text, text == NULL ? 0 : terrace_last_error_kind()};
  return error;
}

/* Options. */

static inline go_error go_options_preset(leveldb_options_t* options, const char* name) {
  char* text = NULL;
  terrace_options_preset(options, name, &text);
  return go_failure(text);
}

static inline go_error go_options_set(leveldb_options_t* options, const char* name, const char* value) {
  char* text = NULL;
  terrace_options_set(options, name, value, &text);
  return go_failure(text);
}

/* Stores. */

typedef struct {
  leveldb_t* db;
  go_error error;
} go_opened;

enum { go_open_write, go_open_read, go_open_memory };

static inline go_opened go_open(const leveldb_options_t* options, const char* name, int how) {
  char* text = NULL;
  leveldb_t* db = how == go_open_memory ? terrace_open_in_memory(options, &text)
                  : how == go_open_read ? terrace_open_read_only(options, name, &text)
                                        : terrace_open(options, name, &text);
  go_opened opened = {db, go_failure(text)};
  return opened;
}

static inline go_error go_close(leveldb_t* db) {
  char* text = NULL;
  terrace_close(db, &text);
  return go_failure(text);
}

static inline go_error go_destroy(const leveldb_options_t* options, const char* name) {
  char* text = NULL;
  leveldb_destroy_db(options, name, &text);
  return go_failure(text);
}

static inline go_error go_repair(const leveldb_options_t* options, const char* name) {
  char* text = NULL;
  leveldb_repair_db(options, name, &text);
  return go_failure(text);
}

/* A number, such as a sequence number or a size, or an error. */
typedef struct {
  uint64_t number;
  go_error error;
} go_number;

static inline go_number go_checkpoint(leveldb_t* db, const char* name) {
  char* text = NULL;
  uint64_t sequence = terrace_checkpoint(db, name, &text);
  go_number number = {sequence, go_failure(text)};
  return number;
}

static inline go_number go_approximate_size(leveldb_t* db, terrace_column_family_t* family, const char* start,
                                            size_t start_length, const char* limit, size_t limit_length) {
  char* text = NULL;
  uint64_t size =
      family == NULL ? terrace_approximate_size(db, start, start_length, limit, limit_length, &text)
                     : terrace_approximate_size_cf(family, start, start_length, limit, limit_length, &text);
  go_number number = {size, go_failure(text)};
  return number;
}

static inline go_error go_compact_range(leveldb_t* db, terrace_column_family_t* family, const char* start,
                                        size_t start_length, const char* limit, size_t limit_length) {
  char* text = NULL;
  if (family == NULL) {
    terrace_compact_range(db, start, start_length, limit, limit_length, &text);
  } else {
    terrace_compact_range_cf(family, start, start_length, limit, limit_length, &text);
  }
  return go_failure(text);
}

static inline go_error go_flush(leveldb_t* db) {
  char* text = NULL;
  terrace_flush(db, &text);
  return go_failure(text);
}

static inline go_error go_resume(leveldb_t* db) {
  char* text = NULL;
  terrace_resume(db, &text);
  return go_failure(text);
}

static inline go_error go_wait_durable(leveldb_t* db, uint64_t sequence) {
  char* text = NULL;
  terrace_wait_durable(db, sequence, &text);
  return go_failure(text);
}

/* Writes. A family that is NULL is the default one. */

static inline go_error go_put(leveldb_t* db, terrace_column_family_t* family, const leveldb_writeoptions_t* options,
                              const char* key, size_t key_length, const char* value, size_t value_length) {
  char* text = NULL;
  if (family == NULL) {
    leveldb_put(db, options, key, key_length, value, value_length, &text);
  } else {
    terrace_put_cf(family, options, key, key_length, value, value_length, &text);
  }
  return go_failure(text);
}

static inline go_error go_delete(leveldb_t* db, terrace_column_family_t* family, const leveldb_writeoptions_t* options,
                                 const char* key, size_t key_length) {
  char* text = NULL;
  if (family == NULL) {
    leveldb_delete(db, options, key, key_length, &text);
  } else {
    terrace_delete_cf(family, options, key, key_length, &text);
  }
  return go_failure(text);
}

/* Writes an encoded batch, in which the number of a family is its place in `families`, from 1 on;
 * without a WAL entry if `options` is NULL. */
static inline go_error go_write(leveldb_t* db, const leveldb_writeoptions_t* options,
                                terrace_column_family_t* const* families, size_t count, const char* batch,
                                size_t length) {
  char* text = NULL;
  if (count > 0) {
    terrace_write_bytes_cf(db, options, families, count, batch, length, &text);
  } else if (options == NULL) {
    terrace_write_bytes_unlogged(db, batch, length, &text);
  } else {
    terrace_write_bytes(db, options, batch, length, &text);
  }
  return go_failure(text);
}

static inline go_error go_delete_range(leveldb_t* db, terrace_column_family_t* family,
                                       const leveldb_writeoptions_t* options, const char* start, size_t start_length,
                                       const char* limit, size_t limit_length) {
  char* text = NULL;
  if (family == NULL) {
    terrace_delete_range(db, options, start, start_length, limit, limit_length, &text);
  } else {
    terrace_delete_range_cf(family, options, start, start_length, limit, limit_length, &text);
  }
  return go_failure(text);
}

/* Lookups. */

/* A found value: `found` is 0 if the key does not exist. A value that did not fit into the buffer of
 * the caller has its bytes in `pinned`, which Go destroys. */
typedef struct {
  terrace_pinned_t* pinned;
  const char* bytes;
  size_t length;
  go_error error;
  int found;
} go_value;

static inline go_value go_get(leveldb_t* db, terrace_column_family_t* family, const leveldb_readoptions_t* options,
                              const char* key, size_t key_length, char* buffer, size_t capacity) {
  go_value value = {0};
  char* text = NULL;
  terrace_pinned_t* pinned = family == NULL ? terrace_get_pinned(db, options, key, key_length, &text)
                                            : terrace_get_pinned_cf(family, options, key, key_length, &text);
  value.error = go_failure(text);
  if (pinned == NULL) return value;
  value.found = 1;
  value.bytes = terrace_pinned_value(pinned, &value.length);
  if (value.length > capacity) {
    value.pinned = pinned;
    return value;
  }
  if (value.length > 0) memcpy(buffer, value.bytes, value.length);
  terrace_pinned_destroy(pinned);
  return value;
}

/* The values of several keys: arrays with one element for each key, in one block of memory that
 * starts at `values`. */
typedef struct {
  char** values;
  size_t* lengths;
  go_error error;
} go_values;

/* Looks up keys that stand one after the other at `keys`. Go must not pass an array of pointers to
 * its own memory. */
static inline go_values go_multi_get(leveldb_t* db, terrace_column_family_t* family,
                                     const leveldb_readoptions_t* options, size_t count, const char* keys,
                                     const size_t* key_lengths) {
  go_values found = {0};
  char* text = NULL;
  size_t element = sizeof(char*) + sizeof(size_t) + sizeof(const char*);
  char* block = (char*)malloc(count * element);
  if (block == NULL) abort(); /* as Go does when it has no memory */
  found.values = (char**)block;
  found.lengths = (size_t*)(found.values + count);
  const char** starts = (const char**)(found.lengths + count);
  for (size_t at = 0; at < count; at++) {
    starts[at] = keys;
    keys += key_lengths[at];
  }
  if (family == NULL) {
    terrace_multi_get(db, options, count, starts, key_lengths, found.values, found.lengths, &text);
  } else {
    terrace_multi_get_cf(family, options, count, starts, key_lengths, found.values, found.lengths, &text);
  }
  found.error = go_failure(text);
  return found;
}

static inline void go_values_free(go_values found, size_t count) {
  for (size_t at = 0; at < count; at++) leveldb_free(found.values[at]);
  free(found.values);
}

/* Iterators. */

static inline leveldb_iterator_t* go_iterator(leveldb_t* db, terrace_column_family_t* family,
                                              const leveldb_readoptions_t* options, const char* start,
                                              size_t start_length, const char* limit, size_t limit_length) {
  return family == NULL
             ? terrace_create_range_iterator(db, options, start, start_length, limit, limit_length)
             : terrace_create_range_iterator_cf(family, options, start, start_length, limit, limit_length);
}

/* A copied part of a scan: the number of pairs, and the bytes that they take in the buffer. `more`
 * says that the next read does not find the end. If there are no pairs but `more`, the bytes are
 * those that the next pair needs. */
typedef struct {
  size_t pairs;
  size_t bytes;
  go_error error;
  uint8_t more;
} go_chunk;

/* The move before a part is copied: go_leave moves away from `key`, at which a pair exists, and
 * go_advance from the pair at the iterator. */
enum { go_stay, go_first, go_last, go_seek, go_leave, go_advance };

static inline go_chunk go_iter_read(leveldb_iterator_t* iterator, int move, const char* key, size_t key_length,
                                    uint8_t backward, char* buffer, size_t capacity) {
  go_chunk chunk = {0};
  char* text = NULL;
  if (move == go_first) leveldb_iter_seek_to_first(iterator);
  if (move == go_last) leveldb_iter_seek_to_last(iterator);
  if (move == go_seek || move == go_leave) leveldb_iter_seek(iterator, key, key_length);
  if (move == go_leave && leveldb_iter_valid(iterator)) {
    if (backward) {
      leveldb_iter_prev(iterator);
    } else {
      leveldb_iter_next(iterator);
    }
  }
  chunk.pairs = terrace_iter_read(iterator, backward, buffer, capacity, &chunk.bytes);
  chunk.more = leveldb_iter_valid(iterator);
  leveldb_iter_get_error(iterator, &text);
  if (text != NULL && chunk.pairs > 0) {
    leveldb_free(text); /* the next read has no pairs and returns the error */
    chunk.more = 1;
  } else {
    chunk.error = go_failure(text);
  }
  return chunk;
}

/* Copies one pair, in the form of terrace_iter_read, and leaves the iterator there. A transaction
 * conflicts with writes to the pairs that its iterators have reached. */
static inline go_chunk go_iter_step(leveldb_iterator_t* iterator, int move, const char* key, size_t key_length,
                                    uint8_t backward, char* buffer, size_t capacity) {
  go_chunk chunk = {0};
  char* text = NULL;
  if (move == go_first) leveldb_iter_seek_to_first(iterator);
  if (move == go_last) leveldb_iter_seek_to_last(iterator);
  if (move == go_seek) leveldb_iter_seek(iterator, key, key_length);
  if (move == go_advance && backward) leveldb_iter_prev(iterator);
  if (move == go_advance && !backward) leveldb_iter_next(iterator);
  leveldb_iter_get_error(iterator, &text);
  chunk.error = go_failure(text);
  const char *at, *value;
  size_t length, value_length;
  if (!terrace_iter_entry(iterator, &at, &length, &value, &value_length)) return chunk;
  uint32_t lengths[2] = {(uint32_t)length, (uint32_t)value_length};
  chunk.bytes = sizeof lengths + length + value_length;
  chunk.more = 1;
  if (chunk.bytes > capacity) return chunk;
  memcpy(buffer, lengths, sizeof lengths);
  memcpy(buffer + sizeof lengths, at, length);
  memcpy(buffer + sizeof lengths + length, value, value_length);
  chunk.pairs = 1;
  return chunk;
}

/* Read options with a snapshot, or without one if it is NULL: all four combinations of the two
 * other options. Element 1 skips checksums, element 2 skips the cache, element 3 both. */
typedef struct {
  leveldb_readoptions_t* at[4];
} go_readoptions;

static inline go_readoptions go_readoptions_create(const leveldb_snapshot_t* snapshot) {
  go_readoptions options;
  for (int at = 0; at < 4; at++) {
    options.at[at] = leveldb_readoptions_create();
    leveldb_readoptions_set_verify_checksums(options.at[at], (at & 1) == 0);
    leveldb_readoptions_set_fill_cache(options.at[at], (at & 2) == 0);
    leveldb_readoptions_set_snapshot(options.at[at], snapshot);
  }
  return options;
}

static inline void go_readoptions_destroy(go_readoptions options) {
  for (int at = 0; at < 4; at++) leveldb_readoptions_destroy(options.at[at]);
}

/* A snapshot lives as long as the read options that have it. */
static inline go_readoptions go_snapshot_create(leveldb_t* db) {
  const leveldb_snapshot_t* snapshot = leveldb_create_snapshot(db);
  go_readoptions options = go_readoptions_create(snapshot);
  leveldb_release_snapshot(db, snapshot);
  return options;
}

#endif
