/* handover DIRECTORY COUNT: checks and extends a store with a comparator of this program. The
 * store must hold the keys 0 to COUNT - 1, ordered as numbers. The program then writes COUNT
 * more keys (1000 if COUNT is 0) for the next run, which may use the other library. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "leveldb/c.h"

static char* err;

static void check(int holds, const char* what) {
  if (holds && err == NULL) return;
  fprintf(stderr, "failed: %s: %s\n", what, err == NULL ? "" : err);
  exit(1);
}

static long number(const char* key, size_t length) {
  char text[32] = {0};
  memcpy(text, key, length < sizeof text ? length : sizeof text - 1);
  return strtol(text, NULL, 10);
}

/* Orders keys as numbers: "9" is before "10", and "010" equals "10". */
static int compare(void* state, const char* a, size_t alen, const char* b, size_t blen) {
  long x = number(a, alen), y = number(b, blen);
  (void)state;
  return (x > y) - (x < y);
}

static const char* name(void* state) {
  (void)state;
  return "test.numbers";
}

static void nothing(void* state) { (void)state; }

static void check_walk(leveldb_t* db, leveldb_readoptions_t* ropt, int count) {
  leveldb_iterator_t* it = leveldb_create_iterator(db, ropt);
  int next = 0;
  for (leveldb_iter_seek_to_first(it); leveldb_iter_valid(it); leveldb_iter_next(it), next++) {
    size_t length;
    const char* key = leveldb_iter_key(it, &length);
    check(number(key, length) == next, "keys come by number");
  }
  leveldb_iter_get_error(it, &err);
  check(next == count, "every key is there");
  leveldb_iter_destroy(it);
}

static void check_gets(leveldb_t* db, leveldb_readoptions_t* ropt, int count) {
  for (int i = 0; i < count; i++) {
    char key[32];
    size_t length;
    int klen = snprintf(key, sizeof key, "%08d", i); /* another spelling of the same number */
    char* value = leveldb_get(db, ropt, key, (size_t)klen, &length, &err);
    check(value != NULL && length == 100, "a key by its other text");
    leveldb_free(value);
  }
}

int main(int argc, char** argv) {
  check(argc == 3, "usage: handover DIRECTORY FIRST");
  int first = atoi(argv[2]);
  leveldb_comparator_t* comparator = leveldb_comparator_create(NULL, nothing, compare, name);
  leveldb_options_t* options = leveldb_options_create();
  leveldb_readoptions_t* ropt = leveldb_readoptions_create();
  leveldb_writeoptions_t* wopt = leveldb_writeoptions_create();
  leveldb_options_set_comparator(options, comparator);
  leveldb_options_set_create_if_missing(options, first == 0);
  leveldb_options_set_write_buffer_size(options, 65536);
  leveldb_options_set_block_size(options, 1024);
  leveldb_readoptions_set_verify_checksums(ropt, 1);
  leveldb_t* db = leveldb_open(options, argv[1], &err);
  check(db != NULL, "open");
  check_walk(db, ropt, first);
  check_gets(db, ropt, first);
  int count = first == 0 ? 1000 : first;
  for (int i = first + count - 1; i >= first; i--) {
    char key[32], value[100];
    int klen = snprintf(key, sizeof key, "%d", i);
    memset(value, 'a' + i % 26, sizeof value);
    leveldb_put(db, wopt, key, (size_t)klen, value, sizeof value, &err);
    check(1, "put");
  }
  if (first % 4000 == 0) leveldb_compact_range(db, "10", 2, "900", 3);
  check_walk(db, ropt, first + count);
  leveldb_close(db);
  leveldb_options_destroy(options);
  leveldb_readoptions_destroy(ropt);
  leveldb_writeoptions_destroy(wopt);
  leveldb_comparator_destroy(comparator);
  return 0;
}
