/* extensions PATH: kinds and texts of errors, stores in memory, a logger, raw batches and reads without a copy. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "terrace/c.h"

static char* err;
static leveldb_readoptions_t* ropt;
static leveldb_writeoptions_t* wopt;

#define CHECK(condition)                                                                    \
  do {                                                                                      \
    if (!(condition)) {                                                                     \
      fprintf(stderr, "%d: not true: %s (%s)\n", __LINE__, #condition, err ? err : "no error"); \
      exit(1);                                                                              \
    }                                                                                       \
  } while (0)

/* The last call failed with this kind and with a text that begins like this. */
static void fails(int kind, const char* format, const char* path) {
  char expected[4096];
  const char* message = NULL;
  snprintf(expected, sizeof expected, format, path);
  CHECK(err != NULL);
  CHECK(terrace_error_kind(err, &message) == kind && terrace_error_kind(err, NULL) == kind);
  if (strncmp(message, expected, strlen(expected)) != 0) {
    fprintf(stderr, "expected \"%s\" in: %s\n", expected, err);
    exit(1);
  }
  leveldb_free(err);
  err = NULL;
}

static leveldb_t* opens(const leveldb_options_t* options, const char* path) {
  leveldb_t* db = leveldb_open(options, path, &err);
  CHECK(db != NULL && err == NULL);
  return db;
}

static int backward(void* state, const char* a, size_t alen, const char* b, size_t blen) {
  (void)state;
  const int order = memcmp(a, b, alen < blen ? alen : blen);
  return order != 0 ? -order : (alen < blen) - (alen > blen);
}

static const char* name_of(void* state) {
  (void)state;
  return "test.backward";
}

static void nothing(void* state) { (void)state; }

/* The texts that programs search for are LevelDB's. */
static void refusals(leveldb_options_t* options, const char* path) {
  char missing[4096];
  snprintf(missing, sizeof missing, "%s-missing/store", path);
  leveldb_open(options, missing, &err);
  fails(terrace_not_found, "%s/LOCK: No such file or directory", missing);
  leveldb_options_set_create_if_missing(options, 0);
  leveldb_open(options, path, &err);
  fails(terrace_invalid_argument, "%s: does not exist (create_if_missing is false)", path);
  leveldb_options_set_create_if_missing(options, 1);

  leveldb_t* db = opens(options, path);
  leveldb_open(options, path, &err);
  fails(terrace_io_error, "lock %s/LOCK: already held by process", path);
  leveldb_destroy_db(options, path, &err);
  fails(terrace_io_error, "lock %s/LOCK: already held by process", path);
  leveldb_close(db);
  leveldb_options_set_error_if_exists(options, 1);
  leveldb_open(options, path, &err);
  fails(terrace_invalid_argument, "%s: exists (error_if_exists is true)", path);
  leveldb_options_set_error_if_exists(options, 0);
  leveldb_comparator_t* comparator = leveldb_comparator_create(NULL, nothing, backward, name_of);
  leveldb_options_set_comparator(options, comparator);
  leveldb_open(options, path, &err);
  fails(terrace_invalid_argument, "leveldb.BytewiseComparator does not match existing comparator : %s", "test.backward");
  leveldb_options_set_comparator(options, NULL);
  leveldb_comparator_destroy(comparator);
  CHECK(terrace_error_kind("another text", NULL) == terrace_io_error);

  char file[4096];
  snprintf(file, sizeof file, "%s-file", path);
  fclose(fopen(file, "w"));
  leveldb_open(options, file, &err);
  fails(terrace_io_error, "%s/LOCK: Not a directory", file);
  leveldb_destroy_db(options, file, &err);
  CHECK(err == NULL && access(file, F_OK) == 0);
  CHECK(unlink(file) == 0 && mkdir(file, 0755) == 0);
  leveldb_destroy_db(options, file, &err);
  CHECK(err == NULL && access(file, F_OK) != 0);
}

static void is_value(void* state, const char* value, size_t length) {
  CHECK(length == 5 && memcmp(value, "value", 5) == 0);
  ++*(int*)state;
}

static void count_lines(void* state, const char* line, size_t length) {
  CHECK(length > 0 && line[length - 1] != '\n');
  __atomic_fetch_add((int*)state, 1, __ATOMIC_SEQ_CST);
}

/* A put of "key" and "value", and a delete of "k". */
static const char record[] = "\0\0\0\0\0\0\0\0\2\0\0\0\1\3key\5value\0\1k";

static void reads_and_writes(leveldb_t* db) {
  int found = 0;
  CHECK(terrace_get(db, ropt, "key", 3, is_value, &found, &err) == 0 && err == NULL && found == 0);
  for (size_t length = 0; length < sizeof record - 1; length++) {
    terrace_write(db, wopt, record, length, &err);
    fails(terrace_corruption, "bad WriteBatch: %s", "");
  }
  terrace_write(db, wopt, "\0\0\0\0\0\0\0\0\1\0\0\0\17\1a\1b", 17, &err); /* deletes a range */
  fails(terrace_not_supported, "the batch has operations that LevelDB does not have%s", "");
  terrace_write(db, wopt, record, sizeof record - 1, &err);
  CHECK(err == NULL && terrace_last_sequence(db) == 2);
  CHECK(terrace_get(db, ropt, "key", 3, is_value, &found, &err) == 1 && err == NULL && found == 1);

  const char *key, *value;
  size_t klen, vlen;
  leveldb_iterator_t* it = leveldb_create_iterator(db, ropt);
  CHECK(!terrace_iter_entry(it, &key, &klen, &value, &vlen));
  leveldb_iter_seek_to_first(it);
  CHECK(terrace_iter_entry(it, &key, &klen, &value, &vlen) && klen == 3 && memcmp(key, "key", 3) == 0);
  is_value(&found, value, vlen);
  leveldb_iter_next(it);
  CHECK(!terrace_iter_entry(it, &key, &klen, &value, &vlen));
  leveldb_iter_destroy(it);

  char* tables = leveldb_property_value(db, "leveldb.sstables");
  CHECK(strchr(tables, ':') == NULL);
  leveldb_free(tables);
  terrace_flush(db, &err);
  tables = leveldb_property_value(db, "leveldb.sstables");
  CHECK(err == NULL && strchr(tables, ':') != NULL);
  leveldb_free(tables);
}

static void memory(leveldb_options_t* options, const char* path) {
  leveldb_env_t* env = terrace_create_memory_env();
  leveldb_options_set_env(options, env);
  leveldb_env_destroy(env);
  leveldb_t* db = opens(options, path);
  terrace_write(db, wopt, record, sizeof record - 1, &err);
  leveldb_open(options, path, &err);
  fails(terrace_io_error, "lock %s/LOCK: already held by process", path);
  leveldb_close(db);
  CHECK(access(path, F_OK) != 0);
  leveldb_repair_db(options, path, &err);
  CHECK(err == NULL);
  leveldb_options_set_create_if_missing(options, 0);
  int found = 0;
  db = opens(options, path);
  CHECK(terrace_get(db, ropt, "key", 3, is_value, &found, &err) == 1);
  leveldb_close(db);
  leveldb_destroy_db(options, path, &err);
  CHECK(err == NULL);
  leveldb_open(options, path, &err);
  fails(terrace_invalid_argument, "%s: does not exist", path);
  leveldb_repair_db(options, path, &err);
  fails(terrace_invalid_argument, "missing store: %s", path);
  leveldb_options_set_env(options, NULL);
  leveldb_options_set_create_if_missing(options, 1);
}

struct filter {
  size_t length;
  char bytes[100];
};

static void receive_filter(void* state, const char* bytes, size_t length) {
  struct filter* made = state;
  CHECK(length < sizeof made->bytes);
  memcpy(made->bytes, bytes, length);
  made->length = length;
}

static void filters(void) {
  struct filter made;
  const char* keys[] = {"a", "b"};
  const size_t lengths[] = {1, 1};
  leveldb_filterpolicy_t* bloom = leveldb_filterpolicy_create_bloom(10);
  terrace_filterpolicy_create_filter(bloom, keys, lengths, 2, receive_filter, &made);
  CHECK(terrace_filterpolicy_key_may_match(bloom, "a", 1, made.bytes, made.length));
  CHECK(terrace_filterpolicy_key_may_match(bloom, "b", 1, made.bytes, made.length));
  CHECK(!terrace_filterpolicy_key_may_match(bloom, "absent", 6, made.bytes, made.length));
  leveldb_filterpolicy_destroy(bloom);
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  char log[4096];
  int lines = 0;
  leveldb_options_t* options = leveldb_options_create();
  leveldb_options_set_create_if_missing(options, 1);
  ropt = leveldb_readoptions_create();
  wopt = leveldb_writeoptions_create();
  memory(options, argv[1]);
  refusals(options, argv[1]);
  leveldb_destroy_db(options, argv[1], &err);
  terrace_options_set_logger(options, &lines, count_lines);
  leveldb_t* db = opens(options, argv[1]);
  reads_and_writes(db);
  leveldb_close(db);
  snprintf(log, sizeof log, "%s/LOG", argv[1]);
  CHECK(__atomic_load_n(&lines, __ATOMIC_SEQ_CST) >= 2 && access(log, F_OK) != 0); /* opened, flushed */
  filters();
  leveldb_options_destroy(options);
  leveldb_readoptions_destroy(ropt);
  leveldb_writeoptions_destroy(wopt);
  return 0;
}
