/* A program written for LevelDB. Nothing in it refers to Terrace. */
#include <leveldb/c.h>
#include <stdio.h>

int main(int argc, char** argv) {
  char* err = NULL;
  leveldb_options_t* options = leveldb_options_create();
  leveldb_options_set_create_if_missing(options, 1);
  leveldb_t* db = leveldb_open(options, argc > 1 ? argv[1] : "/tmp/hello", &err);
  leveldb_options_destroy(options);
  if (err != NULL) {
    fprintf(stderr, "%s\n", err);
    leveldb_free(err);
    return 1;
  }

  leveldb_writeoptions_t* synced = leveldb_writeoptions_create();
  leveldb_writeoptions_set_sync(synced, 1);
  leveldb_put(db, synced, "city/oslo", 9, "709 000", 7, &err);
  leveldb_writeoptions_destroy(synced);

  leveldb_readoptions_t* now = leveldb_readoptions_create();
  size_t length = 0;
  char* value = err == NULL ? leveldb_get(db, now, "city/oslo", 9, &length, &err) : NULL;
  leveldb_readoptions_destroy(now);
  leveldb_close(db);
  if (value != NULL) printf("city/oslo: %.*s\n", (int)length, value);
  if (err != NULL) fprintf(stderr, "%s\n", err);
  leveldb_free(value);
  leveldb_free(err);
  return value == NULL;
}
