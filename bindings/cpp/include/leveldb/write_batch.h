// Source of the interface: LevelDB 1.23, include/leveldb/write_batch.h.
#ifndef TERRACE_LEVELDB_WRITE_BATCH_H_
#define TERRACE_LEVELDB_WRITE_BATCH_H_

#include <cstddef>
#include <string>

#include "leveldb/export.h"
#include "leveldb/status.h"

namespace leveldb {

class Slice;

// Puts and deletes that DB::Write applies whole or not at all, in order. One thread at a time may
// change a batch.
class LEVELDB_EXPORT WriteBatch {
 public:
  // Receives the operations of a batch.
  class LEVELDB_EXPORT Handler {
   public:
    virtual ~Handler();
    virtual void Put(const Slice& key, const Slice& value) = 0;
    virtual void Delete(const Slice& key) = 0;
  };

  WriteBatch();

  WriteBatch(const WriteBatch&) = default;
  WriteBatch& operator=(const WriteBatch&) = default;

  ~WriteBatch();

  // Appends a put of `value` under `key`.
  void Put(const Slice& key, const Slice& value);

  // Appends a delete of `key`, which need not exist.
  void Delete(const Slice& key);

  // Removes all operations.
  void Clear();

  // Returns the size of the batch as a WAL record, in bytes.
  size_t ApproximateSize() const;

  // Appends the operations of `source`.
  void Append(const WriteBatch& source);

  // Calls `handler` for each operation, in order. Returns Corruption if the bytes of the batch are
  // damaged.
  Status Iterate(Handler* handler) const;

 private:
  friend class WriteBatchInternal;

  // The batch as a WAL record: a sequence number (8 bytes), the number of operations (4 bytes), and
  // the operations; see docs/format/batch.md. Programs read and write it through a class
  // WriteBatchInternal of their own.
  std::string rep_;
};

}  // namespace leveldb

#endif
