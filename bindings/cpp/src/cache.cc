#include "cache.h"

namespace leveldb {

Cache::~Cache() = default;

Cache* NewLRUCache(size_t capacity) { return new terrace_cpp::LruCache(capacity); }

}  // namespace leveldb

namespace terrace_cpp {

using leveldb::Slice;
using Guard = std::lock_guard<std::mutex>;

struct LruCache::Entry : Handle {
  std::string key;
  void* value;
  size_t charge;
  void (*deleter)(const Slice& key, void* value);
  size_t handles = 1;
  bool is_listed = false;  // whether entries_ has it
  Entries::iterator idle_at;  // valid while it is listed and has no handles
};

LruCache::~LruCache() {
  Entries all;
  for (const auto& listed : entries_) all.push_back(listed.second);
  Delete(all);
}

leveldb::Cache::Handle* LruCache::Insert(const Slice& key, void* value, size_t charge,
                                         void (*deleter)(const Slice& key, void* value)) {
  auto* entry = new Entry;
  entry->key = key.ToString();
  entry->value = value;
  entry->charge = charge;
  entry->deleter = deleter;
  Entries unused;
  if (capacity_ > 0) {  // a cache of size 0 keeps only entries in use, as in LevelDB
    Guard guard(mutex_);
    const auto older = entries_.find(entry->key);
    if (older != entries_.end()) Remove(older->second, &unused);
    entries_[entry->key] = entry;
    entry->is_listed = true;
    charge_ += charge;
    RemoveUnused(capacity_, &unused);
  }
  Delete(unused);
  return entry;
}

leveldb::Cache::Handle* LruCache::Lookup(const Slice& key) {
  Guard guard(mutex_);
  const auto found = entries_.find(key.ToString());
  if (found == entries_.end()) return nullptr;
  Entry* entry = found->second;
  if (entry->handles++ == 0) idle_.erase(entry->idle_at);
  return entry;
}

void LruCache::Release(Handle* handle) {
  auto* entry = static_cast<Entry*>(handle);
  Entries unused;
  {
    Guard guard(mutex_);
    if (--entry->handles > 0) return;
    if (entry->is_listed) {
      entry->idle_at = idle_.insert(idle_.end(), entry);
      RemoveUnused(capacity_, &unused);
    } else {
      unused.push_back(entry);
    }
  }
  Delete(unused);
}

void* LruCache::Value(Handle* handle) { return static_cast<Entry*>(handle)->value; }

void LruCache::Erase(const Slice& key) {
  Entries unused;
  {
    Guard guard(mutex_);
    const auto found = entries_.find(key.ToString());
    if (found != entries_.end()) Remove(found->second, &unused);
  }
  Delete(unused);
}

uint64_t LruCache::NewId() {
  Guard guard(mutex_);
  return ++last_id_;
}

void LruCache::Prune() {
  Entries unused;
  {
    Guard guard(mutex_);
    while (!idle_.empty()) Remove(idle_.front(), &unused);
  }
  Delete(unused);
}

size_t LruCache::TotalCharge() const {
  Guard guard(mutex_);
  return charge_;
}

// Removes a listed entry. If it is not in use, appends it to `unused`, which the caller deletes
// without the lock.
void LruCache::Remove(Entry* entry, Entries* unused) {
  entries_.erase(entry->key);
  entry->is_listed = false;
  charge_ -= entry->charge;
  if (entry->handles > 0) return;
  idle_.erase(entry->idle_at);
  unused->push_back(entry);
}

// Removes entries that are not in use until the charge is at most `charge_max`.
void LruCache::RemoveUnused(size_t charge_max, Entries* unused) {
  while (charge_ > charge_max && !idle_.empty()) Remove(idle_.front(), unused);
}

void LruCache::Delete(const Entries& entries) {
  for (Entry* entry : entries) {
    entry->deleter(entry->key, entry->value);
    delete entry;
  }
}

}  // namespace terrace_cpp
