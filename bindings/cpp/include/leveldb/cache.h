// Source of the interface: LevelDB 1.23, include/leveldb/cache.h.
#ifndef TERRACE_LEVELDB_CACHE_H_
#define TERRACE_LEVELDB_CACHE_H_

#include <cstddef>
#include <cstdint>

#include "leveldb/export.h"
#include "leveldb/slice.h"

namespace leveldb {

class Cache;

// Returns a cache of `capacity` charges that evicts the least recently used entries.
//
// If it is passed to DB::Open, only its capacity has an effect: the store gets a block cache of so
// many bytes of its own, and puts no entries into this one.
LEVELDB_EXPORT Cache* NewLRUCache(size_t capacity);

// A map from keys to values with a bounded sum of charges. Several threads may use it at once.
class LEVELDB_EXPORT Cache {
 public:
  Cache() = default;

  Cache(const Cache&) = delete;
  Cache& operator=(const Cache&) = delete;

  // Removes all entries. The caller must have released all handles.
  virtual ~Cache();

  // An entry that is in use.
  struct Handle {};

  // Adds an entry, which replaces an entry of the same key. The caller must release the handle.
  // `deleter` receives key and value when the entry was removed and is no longer in use.
  virtual Handle* Insert(const Slice& key, void* value, size_t charge,
                         void (*deleter)(const Slice& key, void* value)) = 0;

  // Returns the entry of `key`, which the caller must release, or nullptr.
  virtual Handle* Lookup(const Slice& key) = 0;

  // Ends the use of an entry.
  virtual void Release(Handle* handle) = 0;

  // Returns the value of an entry in use.
  virtual void* Value(Handle* handle) = 0;

  // Removes the entry of `key`, if there is one.
  virtual void Erase(const Slice& key) = 0;

  // Returns a number that no earlier call returned.
  virtual uint64_t NewId() = 0;

  // Removes all entries that are not in use.
  virtual void Prune() {}

  // Returns the sum of the charges of all entries.
  virtual size_t TotalCharge() const = 0;

 private:
  void* reserved_;  // keeps LevelDB's layout for compiled subclasses
};

}  // namespace leveldb

#endif
