// A cache that evicts the least recently used entries.
#ifndef TERRACE_CPP_CACHE_H_
#define TERRACE_CPP_CACHE_H_

#include <list>
#include <mutex>
#include <string>
#include <unordered_map>

#include "leveldb/cache.h"
#include "registry.h"

namespace terrace_cpp {

class LruCache final : public leveldb::Cache {
 public:
  explicit LruCache(size_t capacity) : capacity_(capacity) {}
  ~LruCache() override;

  size_t capacity() const { return capacity_; }

  Handle* Insert(const leveldb::Slice& key, void* value, size_t charge,
                 void (*deleter)(const leveldb::Slice& key, void* value)) override;
  Handle* Lookup(const leveldb::Slice& key) override;
  void Release(Handle* handle) override;
  void* Value(Handle* handle) override;
  void Erase(const leveldb::Slice& key) override;
  uint64_t NewId() override;
  void Prune() override;
  size_t TotalCharge() const override;

 private:
  struct Entry;
  using Entries = std::list<Entry*>;

  void Remove(Entry* entry, Entries* unused);
  void RemoveUnused(size_t charge_max, Entries* unused);
  static void Delete(const Entries& entries);

  const size_t capacity_;
  mutable std::mutex mutex_;  // guards the rest and the entries; it is not held in a deleter
  std::unordered_map<std::string, Entry*> entries_;
  Entries idle_;  // the entries that are not in use, the least recently used one first
  size_t charge_ = 0;
  uint64_t last_id_ = 0;
  const Registry<LruCache, leveldb::Cache>::Entry entry_{this};
};

}  // namespace terrace_cpp

#endif
