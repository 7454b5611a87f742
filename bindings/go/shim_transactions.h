/* C functions for the column families and the transactions of the Go package, as those of shim.h. */
#ifndef TERRACE_GO_SHIM_TRANSACTIONS_H_
#define TERRACE_GO_SHIM_TRANSACTIONS_H_

#include "shim.h"

typedef struct {
  terrace_column_family_t* family;
  go_error error;
} go_family;

static inline go_family go_family_open(leveldb_t* db, const char* name, int create) {
  char* text = NULL;
  terrace_column_family_t* family =
      create ? terrace_create_column_family(db, name, &text) : terrace_get_column_family(db, name, &text);
  go_family opened = {family, go_failure(text)};
  return opened;
}

static inline go_error go_family_drop(leveldb_t* db, const char* name) {
  char* text = NULL;
  terrace_drop_column_family(db, name, &text);
  return go_failure(text);
}

/* SSTables. The functions of the library name the default family, too. */

static inline go_number go_ingest(leveldb_t* db, terrace_column_family_t* family, char** paths, size_t count) {
  char* text = NULL;
  go_number number = {0};
  terrace_column_family_t* all = family == NULL ? terrace_get_column_family(db, "default", &text) : NULL;
  if (text == NULL) {
    number.number = terrace_ingest_cf(family == NULL ? all : family, (const char* const*)paths, count, &text);
  }
  number.error = go_failure(text);
  terrace_column_family_destroy(all);
  return number;
}

static inline go_number go_export(leveldb_t* db, terrace_column_family_t* family,
                                  const leveldb_readoptions_t* options, const char* directory, const char* start,
                                  size_t start_length, const char* limit, size_t limit_length) {
  char* text = NULL;
  go_number number = {0};
  terrace_column_family_t* all = family == NULL ? terrace_get_column_family(db, "default", &text) : NULL;
  if (text == NULL) {
    number.number = terrace_export_cf(family == NULL ? all : family, options, directory, start, start_length, limit,
                                      limit_length, &text);
  }
  number.error = go_failure(text);
  terrace_column_family_destroy(all);
  return number;
}

/* Transactions. */

static inline terrace_transaction_t* go_begin(leveldb_t* db, int isolation, int locking, uint64_t milliseconds) {
  terrace_transaction_options_t* options = terrace_transaction_options_create();
  terrace_transaction_options_set_isolation(options, isolation);
  terrace_transaction_options_set_locking(options, locking);
  terrace_transaction_options_set_lock_timeout(options, milliseconds);
  terrace_transaction_t* transaction = terrace_transaction_begin(db, options);
  terrace_transaction_options_destroy(options);
  return transaction;
}

/* Commits and releases a transaction. */
static inline go_error go_commit(terrace_transaction_t* transaction, const leveldb_writeoptions_t* options) {
  char* text = NULL;
  terrace_transaction_commit(transaction, options, &text);
  go_error error = go_failure(text);
  terrace_transaction_destroy(transaction);
  return error;
}

/* A value that Go releases with leveldb_free; NULL if the key does not exist. */
typedef struct {
  char* bytes;
  size_t length;
  go_error error;
} go_copy;

static inline go_copy go_transaction_get(terrace_transaction_t* transaction, terrace_column_family_t* family,
                                         int for_update, const char* key, size_t key_length) {
  go_copy copy = {0};
  char* text = NULL;
  if (family == NULL) {
    copy.bytes = for_update
                     ? terrace_transaction_get_for_update(transaction, key, key_length, &copy.length, &text)
                     : terrace_transaction_get(transaction, key, key_length, &copy.length, &text);
  } else {
    copy.bytes = for_update
                     ? terrace_transaction_get_for_update_cf(transaction, family, key, key_length, &copy.length, &text)
                     : terrace_transaction_get_cf(transaction, family, key, key_length, &copy.length, &text);
  }
  copy.error = go_failure(text);
  return copy;
}

static inline go_error go_transaction_put(terrace_transaction_t* transaction, terrace_column_family_t* family,
                                          const char* key, size_t key_length, const char* value,
                                          size_t value_length) {
  char* text = NULL;
  if (family == NULL) {
    terrace_transaction_put(transaction, key, key_length, value, value_length, &text);
  } else {
    terrace_transaction_put_cf(transaction, family, key, key_length, value, value_length, &text);
  }
  return go_failure(text);
}

static inline go_error go_transaction_delete(terrace_transaction_t* transaction, terrace_column_family_t* family,
                                             const char* key, size_t key_length) {
  char* text = NULL;
  if (family == NULL) {
    terrace_transaction_delete(transaction, key, key_length, &text);
  } else {
    terrace_transaction_delete_cf(transaction, family, key, key_length, &text);
  }
  return go_failure(text);
}

static inline go_error go_transaction_delete_range(terrace_transaction_t* transaction,
                                                   terrace_column_family_t* family, const char* start,
                                                   size_t start_length, const char* limit, size_t limit_length) {
  char* text = NULL;
  if (family == NULL) {
    terrace_transaction_delete_range(transaction, start, start_length, limit, limit_length, &text);
  } else {
    terrace_transaction_delete_range_cf(transaction, family, start, start_length, limit, limit_length, &text);
  }
  return go_failure(text);
}

static inline leveldb_iterator_t* go_transaction_iterator(terrace_transaction_t* transaction,
                                                          terrace_column_family_t* family,
                                                          const leveldb_readoptions_t* options, const char* start,
                                                          size_t start_length, const char* limit,
                                                          size_t limit_length) {
  return family == NULL ? terrace_transaction_create_iterator(transaction, options, start, start_length, limit,
                                                              limit_length)
                        : terrace_transaction_create_iterator_cf(transaction, family, options, start, start_length,
                                                                 limit, limit_length);
}

static inline go_error go_set_savepoint(terrace_transaction_t* transaction) {
  char* text = NULL;
  terrace_transaction_set_savepoint(transaction, &text);
  return go_failure(text);
}

static inline go_error go_rollback_to_savepoint(terrace_transaction_t* transaction) {
  char* text = NULL;
  terrace_transaction_rollback_to_savepoint(transaction, &text);
  return go_failure(text);
}

#endif
