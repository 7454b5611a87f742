// Source of the interface: LevelDB 1.23, include/leveldb/filter_policy.h.
#ifndef TERRACE_LEVELDB_FILTER_POLICY_H_
#define TERRACE_LEVELDB_FILTER_POLICY_H_

#include <string>

#include "leveldb/export.h"

namespace leveldb {

class Slice;

// Builds a filter from the keys of an SSTable. With it, a point lookup avoids most reads of
// SSTables that do not have the key. Several threads call the methods at the same time. The policy must live
// until every store that uses it is closed.
class LEVELDB_EXPORT FilterPolicy {
 public:
  virtual ~FilterPolicy();

  // Returns the name that an SSTable records with its filter. A policy whose filters have another
  // form needs another name.
  virtual const char* Name() const = 0;

  // Appends a filter of `keys[0..n)` to `*dst`. The keys are sorted, and may repeat.
  virtual void CreateFilter(const Slice* keys, int n, std::string* dst) const = 0;

  // Returns false only if `key` was not among the keys of `filter`.
  virtual bool KeyMayMatch(const Slice& key, const Slice& filter) const = 0;
};

// Returns a Bloom filter; 10 bits per key give about 1 % false positives. The caller deletes it
// after the stores that use it are closed. Do not use it with a comparator for which keys of
// different bytes can be equal.
LEVELDB_EXPORT const FilterPolicy* NewBloomFilterPolicy(int bits_per_key);

}  // namespace leveldb

#endif
