/* Calls every function of leveldb/c.h and prints the results. The output must be the same whether
 * this program is compiled against LevelDB or against Terrace. Stores are created in $TEST_TMPDIR.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "leveldb/c.h"

static char* err;
static leveldb_readoptions_t* ropt;
static leveldb_writeoptions_t* wopt;
static char path[4096];

/* Prints the kind of an error. Only this part of the text is the same in both libraries. */
static void show_error(const char* what) {
  if (err == NULL) {
    printf("%s: fine\n", what);
    return;
  }
  printf("%s: %.*s\n", what, (int)strcspn(err, ":"), err);
  leveldb_free(err);
  err = NULL;
}

static void show_get(leveldb_t* db, const char* key) {
  size_t length = 99;
  char* value = leveldb_get(db, ropt, key, strlen(key), &length, &err);
  if (value == NULL) printf("%s is absent (%zu)\n", key, length);
  else printf("%s = \"%.*s\" (%zu)\n", key, (int)length, value, length);
  leveldb_free(value);
  show_error("get");
}

static void put(leveldb_t* db, const char* key, const char* value) {
  leveldb_put(db, wopt, key, strlen(key), value, strlen(value), &err);
  if (err != NULL) show_error("put");
}

static void show_here(leveldb_iterator_t* it) {
  size_t klen, vlen;
  if (!leveldb_iter_valid(it)) {
    printf("  nowhere\n");
    return;
  }
  const char *k = leveldb_iter_key(it, &klen), *v = leveldb_iter_value(it, &vlen);
  printf("  %.*s = %.*s\n", (int)klen, k, (int)vlen, v);
}

static void show_all(leveldb_t* db) {
  leveldb_iterator_t* it = leveldb_create_iterator(db, ropt);
  printf("all:\n");
  show_here(it);
  for (leveldb_iter_seek_to_first(it); leveldb_iter_valid(it); leveldb_iter_next(it)) show_here(it);
  leveldb_iter_get_error(it, &err);
  show_error("walk");
  leveldb_iter_destroy(it);
}

static void on_put(void* state, const char* k, size_t klen, const char* v, size_t vlen) {
  printf("  %d: put %.*s %.*s\n", (*(int*)state)++, (int)klen, k, (int)vlen, v);
}

static void on_delete(void* state, const char* k, size_t klen) {
  printf("  %d: delete %.*s\n", (*(int*)state)++, (int)klen, k);
}

static void batches(leveldb_t* db) {
  int at = 0;
  leveldb_writebatch_t *one = leveldb_writebatch_create(), *two = leveldb_writebatch_create();
  leveldb_writebatch_put(one, "never", 5, "x", 1);
  leveldb_writebatch_clear(one);
  leveldb_writebatch_put(one, "bar", 3, "b", 1);
  leveldb_writebatch_put(one, "box", 3, "", 0);
  leveldb_writebatch_delete(two, "bar", 3);
  leveldb_writebatch_put(two, "", 0, "empty key", 9);
  leveldb_writebatch_append(one, two);
  leveldb_writebatch_iterate(one, &at, on_put, on_delete);
  leveldb_write(db, wopt, one, &err);
  show_error("write");
  put(db, "bar", "between");
  leveldb_write(db, wopt, one, &err);
  show_error("write again");
  show_get(db, "bar");
  show_get(db, "box");
  show_get(db, "never");
  leveldb_writebatch_destroy(one);
  leveldb_writebatch_destroy(two);
}

static void iterators(leveldb_t* db) {
  leveldb_iterator_t* it = leveldb_create_iterator(db, ropt);
  leveldb_iter_seek_to_last(it);
  show_here(it);
  leveldb_iter_prev(it);
  show_here(it);
  leveldb_iter_seek(it, "b", 1);
  show_here(it);
  leveldb_iter_next(it);
  show_here(it);
  put(db, "bz", "too new for it");
  leveldb_iter_prev(it);
  show_here(it);
  leveldb_iter_seek(it, "zz", 2);
  show_here(it);
  leveldb_iter_get_error(it, &err);
  show_error("iterator");
  leveldb_iter_destroy(it);
}

static void snapshots(leveldb_t* db) {
  put(db, "foo", "old");
  const leveldb_snapshot_t* snapshot = leveldb_create_snapshot(db);
  leveldb_delete(db, wopt, "foo", 3, &err);
  show_error("delete");
  leveldb_readoptions_set_snapshot(ropt, snapshot);
  show_get(db, "foo");
  leveldb_readoptions_set_snapshot(ropt, NULL);
  leveldb_release_snapshot(db, snapshot);
  show_get(db, "foo");
}

/* Writes enough incompressible values for several SSTables. */
static void fill(leveldb_t* db, int from, int to) {
  static unsigned random = 1;
  for (int i = from; i < to; i++) {
    char key[16], value[1000];
    for (size_t at = 0; at < sizeof value; at++) value[at] = (char)((random = random * 1103515245u + 12345u) >> 16);
    leveldb_put(db, wopt, key, (size_t)snprintf(key, sizeof key, "k%06d", i), value, sizeof value, &err);
    if (err != NULL) show_error("fill");
  }
}

static void sizes(leveldb_t* db) {
  const char *starts[] = {"k000000", "k001000", "x"}, *limits[] = {"k002000", "k001500", "z"};
  const size_t lengths[] = {7, 7, 1};
  uint64_t found[3] = {9, 9, 9};
  fill(db, 0, 2000);
  leveldb_compact_range(db, NULL, 0, NULL, 0);
  leveldb_compact_range(db, "k000100", 7, "k000200", 7);
  leveldb_approximate_sizes(db, 3, starts, lengths, limits, lengths, found);
  printf("sizes: %d %d %d\n", found[0] > 1900000 && found[0] < 2200000, found[1] > 450000 && found[1] < 550000,
         (int)found[2]);
  leveldb_approximate_sizes(db, 0, NULL, NULL, NULL, NULL, NULL);
}

static void properties(leveldb_t* db) {
  const char* names[] = {"leveldb.stats",       "leveldb.sstables", "leveldb.num-files-at-level0",
                         "leveldb.num-files-at-level6", "leveldb.approximate-memory-usage",
                         "leveldb.num-files-at-level7", "leveldb.nonsense", "stats", ""};
  for (size_t at = 0; at < sizeof names / sizeof *names; at++) {
    char* value = leveldb_property_value(db, names[at]);
    printf("property %s: %s\n", names[at], value == NULL ? "none" : *value == 0 ? "empty" : "some");
    leveldb_free(value);
  }
}

/* Inverts the byte in the middle of each SSTable. */
static void damage_tables(void) {
  DIR* directory = opendir(path);
  struct dirent* entry;
  while ((entry = readdir(directory)) != NULL) {
    char name[8192];
    size_t length = strlen(entry->d_name);
    if (length < 4 || strcmp(entry->d_name + length - 4, ".ldb") != 0) continue;
    snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
    FILE* file = fopen(name, "r+b");
    fseek(file, 0, SEEK_END);
    long middle = ftell(file) / 2;
    fseek(file, middle, SEEK_SET);
    int byte = fgetc(file);
    fseek(file, middle, SEEK_SET);
    fputc(byte ^ 0xff, file);
    fclose(file);
  }
  closedir(directory);
}

static void damaged(const leveldb_options_t* options) {
  leveldb_t* db = leveldb_open(options, path, &err);
  fill(db, 0, 100); /* one SSTable */
  leveldb_compact_range(db, NULL, 0, NULL, 0);
  leveldb_close(db);
  damage_tables();
  db = leveldb_open(options, path, &err);
  show_error("open damaged");
  leveldb_readoptions_set_verify_checksums(ropt, 1);
  leveldb_iterator_t* it = leveldb_create_iterator(db, ropt);
  for (leveldb_iter_seek_to_first(it); leveldb_iter_valid(it); leveldb_iter_next(it)) continue;
  leveldb_iter_get_error(it, &err);
  show_error("walk damaged");
  leveldb_iter_destroy(it);
  int failed = 0;
  for (int i = 0; i < 100; i++) {
    char key[16];
    size_t length;
    snprintf(key, sizeof key, "k%06d", i);
    leveldb_free(leveldb_get(db, ropt, key, 7, &length, &err));
    if (err != NULL && failed++ == 0) show_error("get damaged");
    leveldb_free(err);
    err = NULL;
  }
  printf("some, but not all, are damaged: %d\n", failed > 0 && failed < 10);
  leveldb_readoptions_set_verify_checksums(ropt, 0);
  leveldb_close(db);
}

static void repaired(const leveldb_options_t* options) {
  leveldb_t* db = leveldb_open(options, path, &err);
  put(db, "first", "1");
  leveldb_compact_range(db, NULL, 0, NULL, 0);
  put(db, "second", "2");
  leveldb_close(db);
  char current[8192];
  snprintf(current, sizeof current, "%s/CURRENT", path);
  printf("unlink: %d\n", unlink(current));
  leveldb_repair_db(options, path, &err);
  show_error("repair");
  db = leveldb_open(options, path, &err);
  show_error("open repaired");
  show_all(db);
  leveldb_close(db);
}

static int ended;

static void on_end(void* state) {
  ended += *(int*)state;
}

static int backwards(void* state, const char* a, size_t alen, const char* b, size_t blen) {
  size_t least = alen < blen ? alen : blen;
  int order = memcmp(b, a, least);
  (void)state;
  return order != 0 ? order : (alen < blen) - (alen > blen);
}

static const char* order_name(void* state) {
  (void)state;
  return "test.backwards";
}

static void orders(leveldb_options_t* options) {
  int one = 1;
  leveldb_comparator_t* comparator = leveldb_comparator_create(&one, on_end, backwards, order_name);
  leveldb_options_set_comparator(options, comparator);
  leveldb_t* db = leveldb_open(options, path, &err);
  put(db, "a", "1");
  put(db, "b", "2");
  put(db, "bb", "3");
  leveldb_compact_range(db, NULL, 0, NULL, 0);
  put(db, "c", "4");
  show_all(db);
  leveldb_iterator_t* it = leveldb_create_iterator(db, ropt);
  leveldb_iter_seek(it, "ba", 2);
  show_here(it);
  leveldb_iter_destroy(it);
  leveldb_close(db);
  db = leveldb_open(options, path, &err);
  show_error("open again");
  leveldb_close(db);

  leveldb_options_t* plain = leveldb_options_create();
  db = leveldb_open(plain, path, &err);
  printf("opened in another order: %d\n", db != NULL);
  show_error("open in another order");
  leveldb_options_destroy(plain);
  leveldb_destroy_db(options, path, &err);
  show_error("destroy");
  leveldb_options_destroy(options);
  printf("ended: %d\n", ended);
  leveldb_comparator_destroy(comparator);
  printf("ended: %d\n", ended);
}

/* A filter policy. Its filter is the list of the first letters of all keys. */
struct letters {
  int one, asked, made, deny;
};

static char* letters_create(void* state, const char* const* keys, const size_t* lengths, int count, size_t* length) {
  char* filter = malloc((size_t)count + 1);
  ((struct letters*)state)->made++;
  *length = 0;
  for (int i = 0; i < count; i++) {
    char letter = lengths[i] == 0 ? 0 : keys[i][0];
    if (memchr(filter, letter, *length) == NULL) filter[(*length)++] = letter;
  }
  return filter;
}

static uint8_t letters_match(void* state, const char* key, size_t klen, const char* filter, size_t flen) {
  struct letters* letters = state;
  letters->asked++;
  return !letters->deny && memchr(filter, klen == 0 ? 0 : key[0], flen) != NULL;
}

static const char* letters_name(void* state) {
  (void)state;
  return "test.letters";
}

static void filters(leveldb_options_t* options) {
  struct letters letters = {10, 0, 0, 0};
  leveldb_filterpolicy_t* policies[] = {
      leveldb_filterpolicy_create(&letters, on_end, letters_create, letters_match, letters_name),
      leveldb_filterpolicy_create_bloom(10)};
  for (int i = 0; i < 2; i++) {
    leveldb_options_set_filter_policy(options, policies[i]);
    leveldb_t* db = leveldb_open(options, path, &err);
    put(db, "apple", "1");
    put(db, "berry", "2");
    leveldb_compact_range(db, NULL, 0, NULL, 0);
    show_get(db, "apple");
    show_get(db, "cherry");
    letters.deny = 1;
    show_get(db, "berry");
    letters.deny = 0;
    leveldb_close(db);
    leveldb_destroy_db(options, path, &err);
    show_error("destroy");
  }
  printf("made: %d, asked: %d\n", letters.made > 0, letters.asked > 0);
  leveldb_options_set_filter_policy(options, NULL);
  leveldb_filterpolicy_destroy(policies[0]);
  leveldb_filterpolicy_destroy(policies[1]);
  printf("ended: %d\n", ended);
}

static leveldb_options_t* make_options(leveldb_env_t* env, leveldb_cache_t* cache) {
  leveldb_options_t* options = leveldb_options_create();
  leveldb_options_set_create_if_missing(options, 1);
  leveldb_options_set_paranoid_checks(options, 0);
  leveldb_options_set_env(options, env);
  leveldb_options_set_info_log(options, NULL);
  leveldb_options_set_write_buffer_size(options, 100000);
  leveldb_options_set_max_open_files(options, 10);
  leveldb_options_set_cache(options, cache);
  leveldb_options_set_block_size(options, 1024);
  leveldb_options_set_block_restart_interval(options, 8);
  leveldb_options_set_max_file_size(options, 3 << 20);
  leveldb_options_set_compression(options, leveldb_no_compression);
  return options;
}

int main(void) {
  printf("version %d.%d\n", leveldb_major_version(), leveldb_minor_version());
  leveldb_env_t* env = leveldb_create_default_env();
  leveldb_cache_t* cache = leveldb_cache_create_lru(100000);
  char* directory = leveldb_env_get_test_directory(env);
  snprintf(path, sizeof path, "%s/store", directory);
  leveldb_free(directory);
  ropt = leveldb_readoptions_create();
  leveldb_readoptions_set_verify_checksums(ropt, 0);
  leveldb_readoptions_set_fill_cache(ropt, 0);
  wopt = leveldb_writeoptions_create();

  leveldb_options_t* options = make_options(env, cache);
  leveldb_options_set_create_if_missing(options, 0);
  printf("opened: %d\n", leveldb_open(options, path, &err) != NULL);
  printf("opened: %d\n", leveldb_open(options, path, &err) != NULL); /* the older message is freed */
  show_error("open a missing store");
  leveldb_options_set_create_if_missing(options, 1);
  leveldb_t* db = leveldb_open(options, path, &err);
  show_error("make");
  printf("opened: %d\n", leveldb_open(options, path, &err) != NULL);
  show_error("open twice");
  leveldb_destroy_db(options, path, &err);
  show_error("destroy in use");
  show_get(db, "foo");
  put(db, "foo", "hello");
  show_get(db, "foo");
  leveldb_writeoptions_set_sync(wopt, 1);
  put(db, "synced", "yes");
  leveldb_writeoptions_set_sync(wopt, 0);
  batches(db);
  show_all(db);
  iterators(db);
  snapshots(db);
  show_all(db);
  sizes(db);
  properties(db);
  leveldb_close(db);

  leveldb_options_set_error_if_exists(options, 1);
  printf("opened: %d\n", leveldb_open(options, path, &err) != NULL);
  show_error("open an existing store");
  leveldb_options_set_error_if_exists(options, 0);
  leveldb_options_set_compression(options, leveldb_snappy_compression);
  db = leveldb_open(options, path, &err);
  show_error("open again");
  show_get(db, "bar");
  show_get(db, "synced");
  leveldb_close(db);
  for (int i = 0; i < 2; i++) {
    leveldb_destroy_db(options, path, &err);
    show_error("destroy");
  }
  leveldb_options_set_compression(options, leveldb_no_compression);
  damaged(options);
  leveldb_destroy_db(options, path, &err);
  repaired(options);
  leveldb_destroy_db(options, path, &err);
  filters(options);
  orders(options);

  leveldb_readoptions_destroy(ropt);
  leveldb_writeoptions_destroy(wopt);
  leveldb_cache_destroy(cache);
  leveldb_env_destroy(env);
  leveldb_free(NULL);
  leveldb_options_destroy(NULL);
  leveldb_readoptions_destroy(NULL);
  leveldb_writeoptions_destroy(NULL);
  leveldb_writebatch_destroy(NULL);
  leveldb_comparator_destroy(NULL);
  leveldb_filterpolicy_destroy(NULL);
  return 0;
}
