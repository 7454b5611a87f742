/* families PATH: calls the functions of terrace/c.h for column families. */
#include <sys/stat.h>

#include "check.h"

static leveldb_options_t* options;
static const char* path;

static void put(terrace_column_family_t* family, const char* key, const char* value) {
  terrace_put_cf(family, wopt, key, strlen(key), value, strlen(value), &err);
  works();
}

static void has(terrace_column_family_t* family, const char* key, const char* wanted) {
  size_t length;
  char* value = terrace_get_cf(family, ropt, key, strlen(key), &length, &err);
  is(value, &length, wanted);
}

static leveldb_t* opens(terrace_column_family_t** families) {
  const char* names[2] = {"users", "by mail"};
  leveldb_options_set_create_if_missing(options, 1);
  leveldb_t* db = terrace_open_column_families(options, path, 0, NULL, NULL, &err);
  works();
  CHECK(terrace_get_column_family(db, "users", &err) == NULL);
  fails(terrace_kind_missing_column_family);
  leveldb_close(db);
  leveldb_options_set_create_if_missing(options, 0);
  CHECK(terrace_open_column_families(options, path, 2, names, families, &err) == NULL);
  fails(terrace_kind_missing_column_family);
  leveldb_options_set_create_if_missing(options, 1);
  db = terrace_open_column_families(options, path, 2, names, families, &err);
  works();
  size_t length, count;
  const char* name = terrace_column_family_name(families[1], &length);
  CHECK(length == 7 && memcmp(name, "by mail", 7) == 0);
  CHECK(terrace_create_column_family(db, "users", &err) == NULL);
  fails(terrace_kind_invalid);
  CHECK(terrace_create_column_family(db, "\xff", &err) == NULL);
  fails(terrace_kind_invalid);
  char** listed = terrace_list_column_families(db, &count);
  CHECK(count == 3 && strcmp(listed[0], "default") == 0 && strcmp(listed[1], "users") == 0 &&
        strcmp(listed[2], "by mail") == 0);
  terrace_list_column_families_destroy(listed, count);
  return db;
}

static void reads(leveldb_t* db, terrace_column_family_t* users) {
  size_t length;
  put(users, "a", "1");
  put(users, "b", "2");
  put(users, "c", "3");
  has(users, "b", "2");
  is(leveldb_get(db, ropt, "b", 1, &length, &err), &length, NULL); /* another key space */
  terrace_pinned_t* pinned = terrace_get_pinned_cf(users, ropt, "a", 1, &err);
  works();
  CHECK(*terrace_pinned_value(pinned, &length) == '1' && length == 1);
  terrace_pinned_destroy(pinned);
  const char* keys[2] = {"c", "absent"};
  size_t key_lengths[2] = {1, 6}, lengths[2];
  char* values[2];
  terrace_multi_get_cf(users, ropt, 2, keys, key_lengths, values, lengths, &err);
  CHECK(values[1] == NULL);
  is(values[0], &lengths[0], "3");
  CHECK(strcmp(keys_of(terrace_create_iterator_cf(users, ropt), 0), "abc") == 0);
  CHECK(strcmp(keys_of(terrace_create_range_iterator_cf(users, ropt, "b", 1, NULL, 0), 1), "cb") == 0);
  char buffer[64];
  leveldb_iterator_t* it = terrace_create_range_iterator_cf(users, ropt, "a", 1, "c", 1);
  leveldb_iter_seek_to_first(it);
  CHECK(terrace_iter_read(it, 0, buffer, sizeof buffer, &length) == 2 && length == 20);
  leveldb_iter_destroy(it);
  const leveldb_snapshot_t* snapshot = leveldb_create_snapshot(db);
  terrace_delete_cf(users, wopt, "a", 1, &err);
  works();
  leveldb_readoptions_set_snapshot(ropt, snapshot);
  has(users, "a", "1");
  leveldb_readoptions_set_snapshot(ropt, NULL);
  leveldb_release_snapshot(db, snapshot);
  has(users, "a", NULL);
  terrace_delete_range_cf(users, wopt, "b", 1, "c", 1, &err);
  works();
  CHECK(strcmp(keys_of(terrace_create_iterator_cf(users, ropt), 0), "c") == 0);
}

static void batches(leveldb_t* db, terrace_column_family_t** families) {
  leveldb_writebatch_t* batch = leveldb_writebatch_create();
  leveldb_writebatch_put(batch, "d", 1, "default", 7);
  terrace_writebatch_put_cf(batch, families[0], "u", 1, "user", 4);
  terrace_writebatch_put_cf(batch, families[1], "m", 1, "mail", 4);
  terrace_writebatch_delete_cf(batch, families[0], "c", 1);
  leveldb_write(db, wopt, batch, &err);
  works();
  has(families[0], "u", "user");
  has(families[1], "m", "mail");
  has(families[0], "c", NULL);
  terrace_writebatch_delete_range_cf(batch, families[0], "a", 1, "z", 1);
  leveldb_write(db, wopt, batch, &err);
  fails(terrace_kind_not_supported);
  leveldb_writebatch_destroy(batch);

  /* Puts a in default, families[0] and families[1]; deletes u in families[0]. */
  static const char bytes[] = "\0\0\0\0\0\0\0\0\4\0\0\0\1\1a\1x\5\1\1a\1y\5\2\1a\1z\4\1\1u";
  uint64_t last = terrace_last_sequence(db);
  CHECK(terrace_write_bytes_cf(db, wopt, families, 2, bytes, sizeof bytes - 1, &err) == last + 4);
  works();
  has(families[0], "a", "y");
  has(families[1], "a", "z");
  has(families[0], "u", NULL);
  CHECK(terrace_write_bytes_cf(db, NULL, families, 2, bytes, sizeof bytes - 1, &err) == last + 8);
  works();
  CHECK(terrace_write_bytes_cf(db, wopt, families, 1, bytes, sizeof bytes - 1, &err) == 0);
  fails(terrace_kind_invalid);
  CHECK(terrace_write_bytes_cf(db, wopt, NULL, 0, bytes, sizeof bytes - 2, &err) == 0);
  fails(terrace_kind_invalid);
}

static void moves(terrace_column_family_t** families) {
  char directory[4096], file[4200];
  snprintf(directory, sizeof directory, "%s/tables", path);
  CHECK(mkdir(directory, 0777) == 0);
  CHECK(terrace_export_cf(families[0], ropt, directory, NULL, 0, NULL, 0, &err) == 1);
  works();
  CHECK(terrace_export_cf(families[0], ropt, directory, NULL, 0, NULL, 0, &err) == 0); /* the file exists */
  fails(terrace_kind_io_error);
  snprintf(file, sizeof file, "%s/000001.ldb", directory);
  const char* paths[1] = {file};
  CHECK(terrace_ingest_cf(families[1], paths, 1, &err) == 1);
  works();
  has(families[1], "a", "y");
  terrace_compact_range_cf(families[1], NULL, 0, NULL, 0, &err);
  works();
  CHECK(terrace_approximate_size_cf(families[1], "", 0, "z", 1, &err) > 0);
  works();
}

/* Handles of a dropped family, and of a closed store, fail and do not crash. */
static void outlives(leveldb_t* db, terrace_column_family_t** families) {
  leveldb_iterator_t* it = terrace_create_iterator_cf(families[0], ropt);
  terrace_drop_column_family(db, "users", &err);
  works();
  CHECK(strcmp(keys_of(it, 0), "a") == 0);
  size_t length;
  CHECK(terrace_get_cf(families[0], ropt, "a", 1, &length, &err) == NULL);
  fails(terrace_kind_invalid);
  terrace_put_cf(families[0], wopt, "a", 1, "", 0, &err);
  fails(terrace_kind_invalid);
  it = terrace_create_iterator_cf(families[0], ropt);
  leveldb_iter_seek_to_first(it);
  CHECK(!leveldb_iter_valid(it));
  leveldb_iter_get_error(it, &err);
  fails(terrace_kind_invalid);
  leveldb_iter_destroy(it);
  terrace_drop_column_family(db, "users", &err);
  fails(terrace_kind_missing_column_family);
  terrace_drop_column_family(db, "default", &err);
  fails(terrace_kind_invalid);
  terrace_column_family_destroy(families[0]);
  terrace_column_family_destroy(NULL);

  terrace_close(db, &err);
  works();
  terrace_put_cf(families[1], wopt, "a", 1, "", 0, &err);
  fails(terrace_kind_closed);
  terrace_compact_range_cf(families[1], NULL, 0, NULL, 0, &err);
  fails(terrace_kind_closed);
  CHECK(terrace_open(options, path, &err) == NULL);
  fails(terrace_kind_in_use);
  terrace_column_family_destroy(families[1]);
  db = terrace_open(options, path, &err);
  works();
  families[1] = terrace_get_column_family(db, "by mail", &err);
  works();
  has(families[1], "a", "y");
  terrace_column_family_destroy(families[1]);
  leveldb_close(db);
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  path = argv[1];
  options = leveldb_options_create();
  ropt = leveldb_readoptions_create();
  wopt = leveldb_writeoptions_create();
  terrace_column_family_t* families[2];
  leveldb_t* db = opens(families);
  reads(db, families[0]);
  batches(db, families);
  moves(families);
  outlives(db, families);
  leveldb_options_destroy(options);
  leveldb_readoptions_destroy(ropt);
  leveldb_writeoptions_destroy(wopt);
  puts("ended");
  return 0;
}
