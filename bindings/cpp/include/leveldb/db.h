// Source of the interface: LevelDB 1.23, include/leveldb/db.h.
#ifndef TERRACE_LEVELDB_DB_H_
#define TERRACE_LEVELDB_DB_H_

#include <cstdint>
#include <cstdio>
#include <string>

#include "leveldb/export.h"
#include "leveldb/iterator.h"
#include "leveldb/options.h"
#include "leveldb/value_sink.h"

namespace leveldb {

// The version of LevelDB whose interface this is.
static const int kMajorVersion = 1;
static const int kMinorVersion = 23;

class WriteBatch;

// The state of a store at one moment. Several threads may use it at once.
class LEVELDB_EXPORT Snapshot {
 protected:
  virtual ~Snapshot();
};

// The keys from `start` (included) to `limit` (excluded).
struct LEVELDB_EXPORT Range {
  Range() = default;
  Range(const Slice& s, const Slice& l) : start(s), limit(l) {}

  Slice start;
  Slice limit;
};

// An open store. Several threads may use it at once.
class LEVELDB_EXPORT DB {
 public:
  // Opens the store in the directory `name` and stores it in `*dbptr`, which the caller deletes. If
  // an error occurs, stores nullptr.
  //
  // Errors: InvalidArgument if there is no store, or one that `options` does not allow; IOError if
  // the store is open already, or the operating system refuses something; Corruption if stored
  // bytes are damaged; NotSupported for an environment or a cache of another library, and for a
  // store with features that this version does not have.
  static Status Open(const Options& options, const std::string& name, DB** dbptr);

  DB() = default;

  DB(const DB&) = delete;
  DB& operator=(const DB&) = delete;

  // Makes all writes durable and closes the store. The caller must have deleted the iterators.
  virtual ~DB();

  // Sets `key` to `value`. If an error occurs, the write has no effect, or becomes visible after
  // the next open.
  virtual Status Put(const WriteOptions& options, const Slice& key, const Slice& value) = 0;

  // Deletes `key`, which need not exist.
  virtual Status Delete(const WriteOptions& options, const Slice& key) = 0;

  // Applies `updates`, whole or not at all. With nullptr, flushes the memtables.
  virtual Status Write(const WriteOptions& options, WriteBatch* updates) = 0;

  // Copies the value of `key` to `*value`. Returns NotFound if the store does not have the key, and
  // then leaves `*value` unchanged.
  virtual Status Get(const ReadOptions& options, const Slice& key, std::string* value) = 0;

  // Passes the value of `key` to `sink`, which is not called if an error occurs. Not virtual, so
  // that the virtual table is LevelDB's.
  Status Get(const ReadOptions& options, const Slice& key, ValueSink* sink);

  // Returns an iterator, which the caller deletes before the store. It sees the state of
  // `options.snapshot`, or of this moment; later writes and the release of the snapshot have no
  // effect on it.
  virtual Iterator* NewIterator(const ReadOptions& options) = 0;

  // Returns the current state, which stays readable until it is released.
  virtual const Snapshot* GetSnapshot() = 0;

  virtual void ReleaseSnapshot(const Snapshot* snapshot) = 0;

  // Stores the value of a property in `*value`: leveldb.num-files-at-levelN, leveldb.stats,
  // leveldb.sstables or leveldb.approximate-memory-usage. Returns whether there is such a property.
  virtual bool GetProperty(const Slice& property, std::string* value) = 0;

  // Stores in `sizes[i]` about how many bytes the pairs in `range[i]` take in files, or 0 if an
  // error occurs. Memtables are not counted.
  virtual void GetApproximateSizes(const Range* range, int n, uint64_t* sizes) = 0;

  // Compacts the keys from `*begin` to `*end`, both included. nullptr means no bound.
  virtual void CompactRange(const Slice* begin, const Slice* end) = 0;
};

// Removes the store in the directory `name`: only its own files, and the directory if it is then
// empty. Also removes the damaged stores that RepairDB has kept. Succeeds if there is no store.
// Returns IOError while the store is open.
LEVELDB_EXPORT Status DestroyDB(const std::string& name, const Options& options);

// Salvages the readable pairs of the damaged store in the directory `dbname`, into a new store that
// takes its place. The damaged store is kept as `dbname`.damaged-N.
LEVELDB_EXPORT Status RepairDB(const std::string& dbname, const Options& options);

}  // namespace leveldb

#endif
