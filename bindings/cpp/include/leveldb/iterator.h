// Source of the interface: LevelDB 1.23, include/leveldb/iterator.h.
#ifndef TERRACE_LEVELDB_ITERATOR_H_
#define TERRACE_LEVELDB_ITERATOR_H_

#include "leveldb/export.h"
#include "leveldb/slice.h"
#include "leveldb/status.h"

namespace leveldb {

// Walks over pairs of keys and values in key order. One thread at a time may use an iterator.
class LEVELDB_EXPORT Iterator {
 public:
  Iterator();

  Iterator(const Iterator&) = delete;
  Iterator& operator=(const Iterator&) = delete;

  // Calls the registered cleanup functions.
  virtual ~Iterator();

  // Returns whether the iterator is at a pair. A new iterator is at none.
  virtual bool Valid() const = 0;

  virtual void SeekToFirst() = 0;
  virtual void SeekToLast() = 0;

  // Moves to the first pair whose key is `target` or after it.
  virtual void Seek(const Slice& target) = 0;

  // Moves to the next pair. Requires Valid().
  virtual void Next() = 0;

  // Moves to the previous pair. Requires Valid().
  virtual void Prev() = 0;

  // Returns the key. It is valid until the iterator moves. Requires Valid().
  virtual Slice key() const = 0;

  // Returns the value. It is valid until the iterator moves. Requires Valid().
  virtual Slice value() const = 0;

  // Returns the error of the last move. After an error the iterator is not valid; a seek may
  // succeed again.
  virtual Status status() const = 0;

  // Registers `function(arg1, arg2)` for the end of the iterator. Subclasses must not override it.
  using CleanupFunction = void (*)(void* arg1, void* arg2);
  void RegisterCleanup(CleanupFunction function, void* arg1, void* arg2);

 private:
  // An element of the list of cleanup functions. The first element is a part of the iterator, and
  // is unused while its function is nullptr.
  struct CleanupNode {
    CleanupFunction function;
    void* arg1;
    void* arg2;
    CleanupNode* next;
  };
  CleanupNode cleanup_head_;
};

// Returns an iterator without pairs. The caller deletes it.
LEVELDB_EXPORT Iterator* NewEmptyIterator();

// Returns an iterator without pairs whose status is `status`. The caller deletes it.
LEVELDB_EXPORT Iterator* NewErrorIterator(const Status& status);

}  // namespace leveldb

#endif
