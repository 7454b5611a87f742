/* transactions: calls the functions of terrace/c.h for transactions, in a store in memory. */
#include <pthread.h>

#include "check.h"

static leveldb_t* db;
static terrace_column_family_t* users;

static void put(terrace_transaction_t* transaction, const char* key, const char* value) {
  terrace_transaction_put(transaction, key, strlen(key), value, strlen(value), &err);
  works();
}

static void sees(terrace_transaction_t* transaction, const char* key, const char* wanted) {
  size_t length;
  char* value = terrace_transaction_get(transaction, key, strlen(key), &length, &err);
  is(value, &length, wanted);
}

static void has(const char* key, const char* wanted) {
  size_t length;
  char* value = leveldb_get(db, ropt, key, strlen(key), &length, &err);
  is(value, &length, wanted);
}

static void commit(terrace_transaction_t* transaction) {
  terrace_transaction_commit(transaction, wopt, &err);
  works();
  terrace_transaction_destroy(transaction);
}

static terrace_transaction_t* begin(int isolation, int locking) {
  terrace_transaction_options_t* options = terrace_transaction_options_create();
  terrace_transaction_options_set_isolation(options, isolation);
  terrace_transaction_options_set_locking(options, locking);
  terrace_transaction_options_set_lock_timeout(options, 20);
  terrace_transaction_t* transaction = terrace_transaction_begin(db, options);
  terrace_transaction_options_destroy(options);
  return transaction;
}

static void reads_and_writes(void) {
  terrace_transaction_t* transaction = terrace_transaction_begin(db, NULL);
  put(transaction, "a", "1");
  terrace_transaction_put_cf(transaction, users, "a", 1, "ann", 3, &err);
  works();
  sees(transaction, "a", "1");
  has("a", NULL);
  size_t length;
  is(terrace_transaction_get_cf(transaction, users, "a", 1, &length, &err), &length, "ann");
  is(terrace_transaction_get_for_update_cf(transaction, users, "b", 1, &length, &err), &length, NULL);
  terrace_transaction_set_savepoint(transaction, &err);
  terrace_transaction_delete(transaction, "a", 1, &err);
  terrace_transaction_delete_cf(transaction, users, "a", 1, &err);
  works();
  sees(transaction, "a", NULL);
  terrace_transaction_rollback_to_savepoint(transaction, &err);
  works();
  sees(transaction, "a", "1");
  terrace_transaction_rollback_to_savepoint(transaction, &err);
  fails(terrace_kind_invalid);
  uint64_t last = terrace_last_sequence(db);
  CHECK(terrace_transaction_commit(transaction, wopt, &err) == last + 2);
  works();
  has("a", "1");
  CHECK(terrace_transaction_get(transaction, "a", 1, &length, &err) == NULL);
  fails(terrace_kind_invalid);
  terrace_transaction_rollback(transaction, &err);
  fails(terrace_kind_invalid);
  terrace_transaction_destroy(transaction);
  terrace_transaction_destroy(NULL);

  transaction = terrace_transaction_begin(db, NULL);
  terrace_transaction_delete_range(transaction, "a", 1, "b", 1, &err);
  terrace_transaction_delete_range_cf(transaction, users, "a", 1, "b", 1, &err);
  works();
  sees(transaction, "a", NULL);
  is(terrace_transaction_get_cf(transaction, users, "a", 1, &length, &err), &length, NULL);
  terrace_transaction_rollback(transaction, &err);
  works();
  terrace_transaction_destroy(transaction);
  has("a", "1");
}

/* Returns the text of the keys between b (included) and f (excluded). */
static const char* range(terrace_transaction_t* transaction, int backward) {
  return keys_of(terrace_transaction_create_iterator_cf(transaction, users, ropt, "b", 1, "f", 1), backward);
}

static void iterators(void) {
  terrace_transaction_t* transaction = terrace_transaction_begin(db, NULL);
  const char keys[] = "bdfh";
  for (int at = 0; at < 4; at++) {
    terrace_transaction_put_cf(transaction, users, keys + at, 1, "", 0, &err);
    works();
  }
  commit(transaction);
  transaction = terrace_transaction_begin(db, NULL);
  terrace_transaction_put_cf(transaction, users, "c", 1, "", 0, &err);
  terrace_transaction_delete_cf(transaction, users, "d", 1, &err);
  works();
  CHECK(strcmp(range(transaction, 0), "bc") == 0);
  CHECK(strcmp(range(transaction, 1), "cb") == 0);
  leveldb_iterator_t* it = terrace_transaction_create_iterator_cf(transaction, users, ropt, NULL, 0, NULL, 0);
  size_t length;
  leveldb_iter_seek(it, "c", 1);
  terrace_transaction_put_cf(transaction, users, "g", 1, "", 0, &err);
  leveldb_iter_next(it);
  CHECK(*leveldb_iter_key(it, &length) == 'f');
  leveldb_iter_next(it);
  CHECK(*leveldb_iter_key(it, &length) == 'h'); /* this scan began before g was written */
  leveldb_iter_prev(it);
  CHECK(*leveldb_iter_key(it, &length) == 'g');
  leveldb_iter_next(it);
  CHECK(*leveldb_iter_key(it, &length) == 'h');
  leveldb_iter_next(it);
  CHECK(!leveldb_iter_valid(it));
  char buffer[128];
  leveldb_iter_seek(it, "c", 1);
  CHECK(terrace_iter_read(it, 0, buffer, sizeof buffer, &length) == 4);
  leveldb_iter_seek_to_first(it);
  commit(transaction); /* ends the iterator */
  leveldb_iter_next(it);
  CHECK(!leveldb_iter_valid(it));
  leveldb_iter_get_error(it, &err);
  fails(terrace_kind_invalid);
  leveldb_iter_destroy(it);

  /* An open iterator has read the range that the other write changes. */
  transaction = begin(terrace_isolation_serializable, terrace_locking_optimistic);
  it = terrace_transaction_create_iterator(transaction, ropt, NULL, 0, NULL, 0);
  leveldb_iter_seek_to_last(it);
  put(transaction, "x", "");
  leveldb_put(db, wopt, "z", 1, "", 0, &err);
  works();
  CHECK(terrace_transaction_commit(transaction, wopt, &err) == 0);
  fails(terrace_kind_conflict);
  terrace_transaction_destroy(transaction);
  leveldb_iter_destroy(it);
}

static void conflicts(void) {
  for (int isolation = 0; isolation < 2; isolation++) {
    terrace_transaction_t* transaction = begin(isolation, terrace_locking_optimistic);
    size_t length;
    leveldb_free(terrace_transaction_get(transaction, "read", 4, &length, &err));
    put(transaction, "written", "");
    leveldb_put(db, wopt, "read", 4, "", 0, &err);
    works();
    terrace_transaction_commit(transaction, wopt, &err);
    if (isolation == terrace_isolation_snapshot) {
      works();
    } else {
      CHECK(strncmp(err, "Resource busy: ", 15) == 0);
      fails(terrace_kind_conflict);
    }
    terrace_transaction_destroy(transaction);
  }
  CHECK(terrace_kind_is_retryable(terrace_kind_conflict) && !terrace_kind_is_retryable(terrace_kind_closed));
}

static void* takes_first(void* second) {
  size_t length;
  char* own = NULL; /* the other thread uses `err` */
  leveldb_free(terrace_transaction_get_for_update(second, "first", 5, &length, &own));
  int* kind = malloc(sizeof *kind);
  *kind = own == NULL ? 0 : terrace_last_error_kind();
  leveldb_free(own);
  terrace_transaction_destroy(second);
  return kind;
}

static void locks(void) {
  terrace_transaction_t* first = begin(terrace_isolation_snapshot, terrace_locking_pessimistic);
  terrace_transaction_t* second = begin(terrace_isolation_snapshot, terrace_locking_pessimistic);
  put(first, "first", "");
  put(second, "second", "");
  terrace_transaction_put(second, "first", 5, "", 0, &err);
  fails(terrace_kind_lock_timeout);
  terrace_transaction_destroy(first);
  put(second, "first", "");
  terrace_transaction_destroy(second);

  /* One of the two gets the deadlock, and the other one its lock. */
  terrace_transaction_options_t* options = terrace_transaction_options_create();
  terrace_transaction_options_set_locking(options, terrace_locking_pessimistic);
  terrace_transaction_options_set_lock_timeout(options, 60000);
  first = terrace_transaction_begin(db, options);
  second = terrace_transaction_begin(db, options);
  put(first, "first", "");
  put(second, "second", "");
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, takes_first, second) == 0);
  terrace_transaction_put(first, "second", 6, "", 0, &err);
  int here = err == NULL ? 0 : terrace_kind_deadlock;
  if (err != NULL) fails(terrace_kind_deadlock);
  terrace_transaction_destroy(first);
  void* there;
  CHECK(pthread_join(thread, &there) == 0);
  CHECK(here + *(int*)there == terrace_kind_deadlock);
  free(there);
  terrace_transaction_options_destroy(options);
}

static void outlives(const leveldb_options_t* options) {
  terrace_transaction_t* transaction = terrace_transaction_begin(db, NULL);
  put(transaction, "late", "");
  leveldb_t* other = terrace_open_in_memory(options, &err);
  works();
  terrace_column_family_t* foreign = terrace_get_column_family(other, "default", &err);
  works();
  terrace_transaction_put_cf(transaction, foreign, "a", 1, "", 0, &err);
  fails(terrace_kind_invalid);
  terrace_column_family_destroy(foreign);
  leveldb_close(other);
  terrace_column_family_destroy(users);
  leveldb_close(db);
  CHECK(terrace_transaction_commit(transaction, wopt, &err) == 0);
  fails(terrace_kind_closed);
  terrace_transaction_destroy(transaction);
}

int main(void) {
  leveldb_options_t* options = leveldb_options_create();
  leveldb_options_set_create_if_missing(options, 1);
  ropt = leveldb_readoptions_create();
  wopt = leveldb_writeoptions_create();
  db = terrace_open_in_memory(options, &err);
  works();
  users = terrace_create_column_family(db, "users", &err);
  works();
  reads_and_writes();
  iterators();
  conflicts();
  locks();
  outlives(options);
  leveldb_options_destroy(options);
  leveldb_readoptions_destroy(ropt);
  leveldb_writeoptions_destroy(wopt);
  puts("ended");
  return 0;
}
