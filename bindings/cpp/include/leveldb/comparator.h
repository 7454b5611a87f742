// Source of the interface: LevelDB 1.23, include/leveldb/comparator.h.
#ifndef TERRACE_LEVELDB_COMPARATOR_H_
#define TERRACE_LEVELDB_COMPARATOR_H_

#include <string>

#include "leveldb/export.h"

namespace leveldb {

class Slice;

// A total order of keys. Several threads call its methods at the same time. The comparator must
// live until every store that uses it is closed.
class LEVELDB_EXPORT Comparator {
 public:
  virtual ~Comparator();

  // Returns a negative number if `a` is before `b`, 0 if they are the same key, and a positive
  // number otherwise.
  virtual int Compare(const Slice& a, const Slice& b) const = 0;

  // Returns the name that a store records. An open with a comparator of another name fails.
  virtual const char* Name() const = 0;

  // May change `*start` to a shorter key that is at or after `*start` and before `limit`. Terrace
  // does not call it.
  virtual void FindShortestSeparator(std::string* start, const Slice& limit) const = 0;

  // May change `*key` to a shorter key that is at or after `*key`. Terrace does not call it.
  virtual void FindShortSuccessor(std::string* key) const = 0;
};

// Returns the default comparator, which compares bytes as unsigned numbers. It belongs to the
// library.
LEVELDB_EXPORT const Comparator* BytewiseComparator();

}  // namespace leveldb

#endif
