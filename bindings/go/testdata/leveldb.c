/* leveldb PATH: prints the pairs of a store with the real LevelDB, and puts one pair more. */
#include <leveldb/c.h>
#include <stdio.h>
#include <stdlib.h>

static char* err;

static void works(void) {
  if (err == NULL) return;
  fprintf(stderr, "%s\n", err);
  exit(1);
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  leveldb_options_t* options = leveldb_options_create();
  leveldb_options_set_paranoid_checks(options, 1);
  leveldb_t* db = leveldb_open(options, argv[1], &err);
  works();
  leveldb_iterator_t* it = leveldb_create_iterator(db, leveldb_readoptions_create());
  for (leveldb_iter_seek_to_first(it); leveldb_iter_valid(it); leveldb_iter_next(it)) {
    size_t key_length, value_length;
    const char* key = leveldb_iter_key(it, &key_length);
    const char* value = leveldb_iter_value(it, &value_length);
    printf("%.*s=%.*s\n", (int)key_length, key, (int)value_length, value);
  }
  leveldb_iter_get_error(it, &err);
  works();
  leveldb_iter_destroy(it);
  leveldb_put(db, leveldb_writeoptions_create(), "from", 4, "leveldb", 7, &err);
  works();
  leveldb_close(db);
  return 0;
}
