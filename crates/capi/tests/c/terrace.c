/* terrace PATH: calls the functions of terrace/c.h, and checks the errors after wrong calls. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "terrace/c.h"

static char* err;

static void fails(const char* words) {
  if (err == NULL || strstr(err, words) == NULL) {
    fprintf(stderr, "expected \"%s\" in: %s\n", words, err == NULL ? "no error" : err);
    exit(1);
  }
  leveldb_free(err);
  err = NULL;
}

static void works(const char* what) {
  if (err == NULL) return;
  fprintf(stderr, "%s: %s\n", what, err);
  exit(1);
}

static leveldb_t* opens(const leveldb_options_t* options, const char* path) {
  leveldb_t* db = leveldb_open(options, path, &err);
  works("open");
  return db;
}

/* After each of two repairs the store must open, and the damaged store must be kept. */
static void repair_twice(const leveldb_options_t* options, const char* path) {
  leveldb_readoptions_t* ropt = leveldb_readoptions_create();
  for (int round = 1; round <= 3; round += 2) {
    char name[4096];
    snprintf(name, sizeof name, "%s.repair", path); /* an interrupted repair: the second one becomes damaged-2 */
    if (round == 3 && mkdir(name, 0777) != 0) exit(9);
    size_t length = 0;
    snprintf(name, sizeof name, "%s/CURRENT", path);
    if (unlink(name) != 0) exit(6);
    leveldb_repair_db(options, path, &err);
    works("repair");
    snprintf(name, sizeof name, "%s.damaged-%d/LOCK", path, round);
    if (access(name, F_OK) != 0) exit(7);
    leveldb_t* db = opens(options, path);
    char* value = leveldb_get(db, ropt, "key", 3, &length, &err);
    if (value == NULL || length != 5) exit(8);
    leveldb_free(value);
    leveldb_close(db);
  }
  leveldb_readoptions_destroy(ropt);
}

/* A destroy also removes the damaged stores that repairs have kept, and nothing else. */
static void destroy(const leveldb_options_t* options, const char* path) {
  char name[4096];
  snprintf(name, sizeof name, "%s.damaged-mine", path);
  if (mkdir(name, 0777) != 0) exit(16);
  leveldb_destroy_db(options, path, &err);
  works("destroy");
  if (access(path, F_OK) == 0 || access(name, F_OK) != 0) exit(17);
  for (int number = 1; number <= 3; number++) {
    snprintf(name, sizeof name, "%s.damaged-%d", path, number);
    if (access(name, F_OK) == 0) exit(18);
  }
  /* Also of a store that is gone, by a name without a directory. */
  snprintf(name, sizeof name, "%s.damaged-1", path);
  char* slash = strrchr(name, '/');
  if (mkdir(name, 0777) != 0) exit(21);
  *slash = 0;
  if (chdir(name) != 0) exit(22);
  *slash = '/';
  leveldb_destroy_db(options, strrchr(path, '/') + 1, &err);
  works("destroy");
  if (access(name, F_OK) == 0) exit(23);
}

/* A preset keeps the recovery of LevelDB, which skips the damaged parts of a WAL. */
static void presets_salvage(leveldb_options_t* options, const char* path) {
  char name[4096];
  snprintf(name, sizeof name, "%s-salvaged", path);
  fflush(NULL);
  const pid_t child = fork();
  if (child == 0) { /* ends without a close, so that the WAL stays */
    leveldb_writeoptions_t* wopt = leveldb_writeoptions_create();
    leveldb_writeoptions_set_sync(wopt, 1);
    leveldb_t* db = opens(options, name);
    for (int at = 0; at < 3; at++) leveldb_put(db, wopt, "key", 3, "value", 5, &err);
    works("put");
    _exit(0);
  }
  int status;
  if (waitpid(child, &status, 0) != child || status != 0) exit(19);
  snprintf(name, sizeof name, "%s-salvaged/000002.log", path);
  FILE* log = fopen(name, "r+");
  if (log == NULL || fseek(log, 20, SEEK_SET) != 0 || fputc('?', log) == EOF || fclose(log) != 0) exit(20);
  snprintf(name, sizeof name, "%s-salvaged", path);
  leveldb_options_t* strict = leveldb_options_create();
  terrace_options_preset(strict, "leveldb", &err);
  terrace_options_set(strict, "recovery", "refuse", &err);
  works("set");
  leveldb_open(strict, name, &err);
  fails("Corruption: ");
  leveldb_options_destroy(strict);
  leveldb_options_t* preset = leveldb_options_create();
  terrace_options_preset(preset, "leveldb", &err);
  works("preset");
  leveldb_close(opens(preset, name));
  leveldb_destroy_db(preset, name, &err);
  works("destroy");
  leveldb_options_destroy(preset);
}

/* A repair that fails must leave no files, even if it is repeated. */
static void nothing_to_repair(const leveldb_options_t* options, const char* path) {
  char name[4096], inside[4200];
  snprintf(name, sizeof name, "%s-empty", path);
  if (mkdir(name, 0777) != 0) exit(13);
  for (int round = 0; round < 3; round++) {
    leveldb_repair_db(options, name, &err);
    fails("nothing to repair");
    const char* made[] = {".repair", ".damaged-1", "/CURRENT", "/LOCK"};
    for (int at = 0; at < 4; at++) {
      snprintf(inside, sizeof inside, "%s%s", name, made[at]);
      if (access(inside, F_OK) == 0) exit(14);
    }
  }
  if (rmdir(name) != 0) exit(15);
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const char* path = argv[1];
  leveldb_options_t* options = leveldb_options_create();
  terrace_options_preset(options, "nonsense", &err);
  fails("Invalid argument: ");
  terrace_options_set(options, "nonsense", "1", &err);
  fails("nonsense");
  terrace_options_set(options, "write_buffer_size", "much", &err);
  fails("write_buffer_size");
  leveldb_open(options, path, &err);
  fails(path); /* an unknown preset changes nothing: the store is still not created */
  terrace_options_preset(options, "default", &err);
  works("preset");
  leveldb_open(options, path, &err);
  fails(path);
  terrace_options_set(options, "write_buffer_size", "64KiB", &err);
  works("set");
  leveldb_options_set_create_if_missing(options, 1);
  leveldb_options_set_compression(options, 77);
  leveldb_open(options, path, &err);
  fails("compression 77");
  leveldb_options_set_compression(options, leveldb_snappy_compression);
  terrace_options_set(options, "bloom_bits", "1000", &err);
  works("bounds are checked at open");
  leveldb_open(options, path, &err);
  fails("bloom_bits");
  terrace_options_set(options, "bloom_bits", "10", &err);
  works("set");

  presets_salvage(options, path);
  leveldb_repair_db(options, path, &err);
  fails("Invalid argument: missing store");
  leveldb_t* db = opens(options, path);
  leveldb_repair_db(options, path, &err);
  fails("IO error: ");
  leveldb_writeoptions_t* wopt = leveldb_writeoptions_create();
  leveldb_readoptions_t* ropt = leveldb_readoptions_create();
  leveldb_put(db, wopt, "key", 3, "value", 5, &err);
  works("put");
  if (terrace_last_sequence(db) != 1 || terrace_durable_sequence(db) > 1) return 11;
  terrace_wait_durable(db, 2, &err);
  fails("sequence 2 has not been written");
  terrace_wait_durable(db, 1, &err);
  works("wait");
  if (terrace_durable_sequence(db) != 1) return 12;
  leveldb_iterator_t* it = leveldb_create_iterator(db, ropt);
  leveldb_iter_next(it); /* not valid, and stays so */
  leveldb_iter_prev(it);
  if (leveldb_iter_valid(it)) return 3;
  leveldb_iter_destroy(it);

  if (leveldb_property_value(db, "not \xff text") != NULL) return 10;

  /* A read with a snapshot from an earlier opening of the store must fail. */
  const leveldb_snapshot_t* snapshot = leveldb_create_snapshot(db);
  leveldb_close(db);
  db = opens(options, path);
  leveldb_readoptions_set_snapshot(ropt, snapshot);
  size_t length = 7;
  if (leveldb_get(db, ropt, "key", 3, &length, &err) != NULL || length != 0) return 4;
  fails("snapshot");
  it = leveldb_create_iterator(db, ropt);
  leveldb_iter_seek_to_first(it);
  if (leveldb_iter_valid(it)) return 5;
  leveldb_iter_get_error(it, &err);
  fails("snapshot");
  leveldb_iter_destroy(it);
  leveldb_release_snapshot(db, snapshot);
  leveldb_close(db);

  leveldb_open(options, "/proc/not/a/place", &err);
  fails("/proc/not/a/place");
  repair_twice(options, path);
  destroy(options, path);
  nothing_to_repair(options, path);
  leveldb_options_destroy(options);
  leveldb_writeoptions_destroy(wopt);
  leveldb_readoptions_destroy(ropt);
  return 0;
}
