/* extra PATH: calls the functions of terrace/c.h for bindings, and checks kinds of errors. */
#include "check.h"

static void put(leveldb_t* db, const char* key, const char* value) {
  leveldb_put(db, wopt, key, strlen(key), value, strlen(value), &err);
  works();
}

static void opens(leveldb_options_t* options, const char* path) {
  CHECK(terrace_last_error_kind() == 0);
  CHECK(terrace_open_read_only(options, path, &err) == NULL);
  fails(terrace_kind_missing_store);
  leveldb_options_set_create_if_missing(options, 1);
  CHECK(leveldb_open(options, "/proc/not/a/place", &err) == NULL);
  fails(terrace_kind_io_error);
  CHECK(terrace_open_read_only(options, path, &err) == NULL);
  fails(terrace_kind_missing_store);
  leveldb_t* db = terrace_open(options, path, &err);
  works();
  put(db, "key", "value");
  CHECK(terrace_last_error_kind() == terrace_kind_missing_store); /* as before the successes */
  CHECK(terrace_open(options, path, &err) == NULL);
  fails(terrace_kind_in_use);
  terrace_close(db, &err);
  works();
  db = terrace_open_read_only(options, path, &err);
  works();
  leveldb_put(db, wopt, "key", 3, "value", 5, &err);
  fails(terrace_kind_read_only);
  CHECK(terrace_approximate_size(db, "", 0, "z", 1, &err) == 0); /* only a WAL so far */
  works();
  leveldb_close(db);
}

static void reads(leveldb_t* db) {
  put(db, "a", "1");
  put(db, "b", "");
  size_t length = 9;
  CHECK(terrace_get_pinned(db, ropt, "absent", 6, &err) == NULL);
  works();
  terrace_pinned_t* pinned = terrace_get_pinned(db, ropt, "a", 1, &err);
  works();
  put(db, "a", "2");
  CHECK(*terrace_pinned_value(pinned, &length) == '1' && length == 1); /* as it was */
  terrace_pinned_destroy(pinned);
  terrace_pinned_destroy(NULL);

  const char* keys[3] = {"a", "absent", "b"};
  size_t key_lengths[3] = {1, 6, 1}, lengths[3];
  char* values[3];
  terrace_multi_get(db, ropt, 3, keys, key_lengths, values, lengths, &err);
  works();
  CHECK(lengths[0] == 1 && *values[0] == '2' && values[1] == NULL && values[2] != NULL && lengths[2] == 0);
  leveldb_free(values[0]);
  leveldb_free(values[2]);
  terrace_multi_get(db, ropt, 0, NULL, NULL, NULL, NULL, &err);
  works();
}

/* The chunk has the keys k0 to k9 in order, with one more byte of value for each. */
static void check_chunk(const char* buffer, size_t length, size_t pairs, int first, int step) {
  const char* at = buffer;
  for (size_t pair = 0; pair < pairs; pair++, first += step) {
    uint32_t lengths[2];
    memcpy(lengths, at, sizeof lengths);
    CHECK(lengths[0] == 2 && at[8] == 'k' && at[9] == '0' + first);
    CHECK(lengths[1] == (uint32_t)first);
    at += 8 + lengths[0] + lengths[1];
  }
  CHECK((size_t)(at - buffer) == length);
}

static void chunks(leveldb_t* db) {
  char key[3] = "k0", buffer[64];
  for (int at = 0; at < 10; at++, key[1]++) {
    leveldb_put(db, wopt, key, 2, "123456789", (size_t)at, &err);
    works();
  }
  leveldb_iterator_t* it = terrace_create_range_iterator(db, ropt, "k2", 2, "k9", 2);
  size_t length;
  CHECK(terrace_iter_read(it, 0, buffer, sizeof buffer, &length) == 0 && length == 0 && !leveldb_iter_valid(it));
  leveldb_iter_seek_to_first(it);
  CHECK(terrace_iter_read(it, 0, buffer, 11, &length) == 0 && length == 12 && leveldb_iter_valid(it));
  CHECK(terrace_iter_read(it, 0, buffer, 12, &length) == 1);
  check_chunk(buffer, length, 1, 2, 1);
  CHECK(terrace_iter_read(it, 0, buffer, 13 + 14 + 14, &length) == 2 && leveldb_iter_valid(it)); /* 1 byte too few for k5 */
  check_chunk(buffer, length, 2, 3, 1);
  CHECK(terrace_iter_read(it, 1, buffer, sizeof buffer, &length) == 4 && !leveldb_iter_valid(it)); /* k5 to k2 */
  check_chunk(buffer, length, 4, 5, -1);
  leveldb_iter_seek_to_last(it);
  CHECK(terrace_iter_read(it, 1, buffer, 18, &length) == 1); /* k8, as the limit is excluded */
  check_chunk(buffer, length, 1, 8, -1);
  leveldb_iter_get_error(it, &err);
  works();
  leveldb_iter_destroy(it);
  it = terrace_create_range_iterator(db, ropt, NULL, 0, "", 0); /* an empty range */
  leveldb_iter_seek_to_first(it);
  CHECK(!leveldb_iter_valid(it));
  leveldb_iter_destroy(it);
}

static void writes(leveldb_t* db) {
  static const char batch[] = "\7\7\7\7\7\7\7\7\2\0\0\0\1\3new\5value\0\1a"; /* put and delete; any sequence number */
  uint64_t before = terrace_last_sequence(db);
  CHECK(terrace_write_bytes(db, wopt, batch, sizeof batch - 1, &err) == before + 2);
  works();
  CHECK(terrace_write_bytes_unlogged(db, batch, sizeof batch - 1, &err) == before + 4);
  works();
  CHECK(terrace_write_bytes(db, wopt, batch, sizeof batch - 2, &err) == 0);
  fails(terrace_kind_invalid);
  terrace_write(db, wopt, batch, sizeof batch - 2, &err);
  fails(terrace_kind_corruption);
  terrace_write(db, wopt, batch, sizeof batch - 1, &err);
  works();
  CHECK(terrace_last_sequence(db) == before + 6);
  CHECK(terrace_write_bytes(db, wopt, NULL, 0, &err) == 0);
  fails(terrace_kind_invalid);
  static const char range[] = "\0\0\0\0\0\0\0\0\1\0\0\0\17\1a\1z";
  terrace_write_bytes(db, wopt, range, sizeof range - 1, &err);
  fails(terrace_kind_not_supported);
  static const char family[] = "\0\0\0\0\0\0\0\0\1\0\0\0\4\1\1a"; /* a delete in column family 1 */
  terrace_write_bytes(db, wopt, family, sizeof family - 1, &err);
  fails(terrace_kind_invalid);
  terrace_delete_range(db, wopt, "n", 1, "o", 1, &err);
  works();
  size_t length;
  CHECK(leveldb_get(db, ropt, "new", 3, &length, &err) == NULL);
  works();
}

static void count(void* state, const char* key, size_t klen, const char* value, size_t vlen) {
  CHECK(klen == 3 && memcmp(key, "key", 3) == 0 && value[0] == 'v' && value[vlen - 1] == 'v');
  ++*(int*)state;
}

static void no_delete(void* state, const char* key, size_t klen) {
  (void)state, (void)key, (void)klen;
  CHECK(0);
}

/* A batch that is appended to itself is doubled. */
static void append_to_itself(void) {
  enum { length = 1 << 20 };
  int pairs = 0;
  char* value = malloc(length);
  memset(value, 'v', length);
  leveldb_writebatch_t* batch = leveldb_writebatch_create();
  leveldb_writebatch_put(batch, "key", 3, value, length);
  leveldb_writebatch_put(batch, "key", 3, "v", 1);
  leveldb_writebatch_append(batch, batch);
  leveldb_writebatch_append(batch, batch);
  leveldb_writebatch_iterate(batch, &pairs, count, no_delete);
  CHECK(pairs == 8);
  leveldb_writebatch_destroy(batch);
  free(value);
}

static void whole(leveldb_t* db, const leveldb_options_t* options, const char* path) {
  char copy[4096];
  snprintf(copy, sizeof copy, "%s-copy", path);
  terrace_flush(db, &err);
  works();
  terrace_compact_range(db, NULL, 0, NULL, 0, &err);
  works();
  CHECK(terrace_approximate_size(db, "", 0, "z", 1, &err) > 0);
  works();
  CHECK(terrace_checkpoint(db, copy, &err) == terrace_last_sequence(db));
  works();
  CHECK(terrace_checkpoint(db, copy, &err) == 0);
  fails(terrace_kind_invalid);
  char place[4096], restored[4096];
  snprintf(place, sizeof place, "%s-backups", path);
  snprintf(restored, sizeof restored, "%s-restored", path);
  for (uint64_t id = 1; id <= 3; id++) {
    CHECK(terrace_backup_create(db, place, NULL, 0, &err) == id);
    works();
  }
  CHECK(terrace_backup_purge(place, 2, &err) == 1);
  works();
  uint64_t ids[4] = {0, 0, 0, 0};
  CHECK(terrace_backup_list(place, ids, 4, &err) == 2 && ids[0] == 2 && ids[1] == 3 && ids[2] == 0);
  works();
  terrace_backup_verify(place, 0, &err);
  works();
  CHECK(terrace_backup_restore(place, 0, restored, &err) == terrace_last_sequence(db));
  works();
  CHECK(terrace_backup_create(db, place, path, 0, &err) == 0);
  fails(terrace_kind_invalid);
  terrace_backup_remove(place, 2, &err);
  works();
  CHECK(terrace_backup_restore(place, 0, restored, &err) == 0);
  fails(terrace_kind_invalid);
  snprintf(restored, sizeof restored, "%s-absent", path);
  CHECK(terrace_backup_restore(place, 1, restored, &err) == 0);
  CHECK(err != NULL && strstr(err, "has no backup 1") != NULL);
  leveldb_free(err);
  err = NULL;
  snprintf(restored, sizeof restored, "%s-restored", path);
  leveldb_t* again = terrace_open_read_only(options, restored, &err);
  works();
  leveldb_close(again);
  terrace_resume(db, &err);
  works();
  leveldb_t* copied = terrace_open_read_only(options, copy, &err);
  works();
  leveldb_close(copied);
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  leveldb_options_t* options = leveldb_options_create();
  ropt = leveldb_readoptions_create();
  wopt = leveldb_writeoptions_create();
  opens(options, argv[1]);
  leveldb_t* db = leveldb_open(options, argv[1], &err);
  works();
  reads(db);
  chunks(db);
  writes(db);
  append_to_itself();
  whole(db, options, argv[1]);
  terrace_close(db, &err);
  works();
  db = terrace_open_in_memory(options, &err);
  works();
  put(db, "key", "value");
  leveldb_close(db);
  leveldb_options_destroy(options);
  leveldb_readoptions_destroy(ropt);
  leveldb_writeoptions_destroy(wopt);
  puts("ended");
  return 0;
}
