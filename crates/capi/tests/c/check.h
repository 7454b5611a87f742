/* What the test programs of terrace/c.h have in common. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "terrace/c.h"

#define CHECK(condition)                                                \
  do {                                                                  \
    if (!(condition)) {                                                 \
      fprintf(stderr, "line %d: %s is false\n", __LINE__, #condition);  \
      exit(1);                                                          \
    }                                                                   \
  } while (0)

static char* err;
static leveldb_readoptions_t* ropt;
static leveldb_writeoptions_t* wopt;

static inline void works(void) {
  if (err == NULL) return;
  fprintf(stderr, "%s\n", err);
  exit(1);
}

static inline void fails(int kind) {
  CHECK(err != NULL);
  if (terrace_last_error_kind() != kind) fprintf(stderr, "kind %d: %s\n", terrace_last_error_kind(), err);
  CHECK(terrace_last_error_kind() == kind);
  leveldb_free(err);
  err = NULL;
}

/* Checks and frees a value that was looked up; `wanted` is NULL for an absent key. */
static inline void is(char* value, const size_t* length_after, const char* wanted) {
  size_t length = *length_after; /* a pointer, because C may evaluate it before the lookup */
  works();
  if (wanted == NULL) {
    CHECK(value == NULL && length == 0);
    return;
  }
  CHECK(value != NULL && length == strlen(wanted) && memcmp(value, wanted, length) == 0);
  leveldb_free(value);
}

/* The keys from the iterator on, as one text. Destroys the iterator. */
static inline const char* keys_of(leveldb_iterator_t* it, int backward) {
  static char text[256];
  size_t used = 0, length;
  for (backward ? leveldb_iter_seek_to_last(it) : leveldb_iter_seek_to_first(it); leveldb_iter_valid(it);
       backward ? leveldb_iter_prev(it) : leveldb_iter_next(it)) {
    const char* key = leveldb_iter_key(it, &length);
    CHECK(used + length < sizeof text);
    memcpy(text + used, key, length);
    used += length;
  }
  text[used] = 0;
  leveldb_iter_get_error(it, &err);
  works();
  leveldb_iter_destroy(it);
  return text;
}
