// Source of the interface: LevelDB 1.23, include/leveldb/slice.h; begin and end are from later
// versions.
#ifndef TERRACE_LEVELDB_SLICE_H_
#define TERRACE_LEVELDB_SLICE_H_

#include <cassert>
#include <cstddef>
#include <cstring>
#include <string>

#include "leveldb/export.h"

namespace leveldb {

// Refers to bytes that another object owns. A slice must not be used after that object has freed or
// changed the bytes. The bytes need not end in a zero byte.
class LEVELDB_EXPORT Slice {
 public:
  Slice() : data_(""), size_(0) {}
  Slice(const char* data, size_t size) : data_(data), size_(size) {}
  Slice(const std::string& bytes) : data_(bytes.data()), size_(bytes.size()) {}
  // Refers to the characters before the zero byte.
  Slice(const char* text) : data_(text), size_(std::strlen(text)) {}

  Slice(const Slice&) = default;
  Slice& operator=(const Slice&) = default;

  const char* data() const { return data_; }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  const char* begin() const { return data_; }
  const char* end() const { return data_ + size_; }

  // Returns the byte at `at`, which must be below size().
  char operator[](size_t at) const {
    assert(at < size_);
    return data_[at];
  }

  // Makes the slice empty. The bytes do not change.
  void clear() { *this = Slice(); }

  // Skips the first `count` bytes. `count` must be at most size().
  void remove_prefix(size_t count) {
    assert(count <= size_);
    data_ += count;
    size_ -= count;
  }

  // Returns a copy of the bytes.
  std::string ToString() const { return std::string(data_, size_); }

  // Compares bytes as unsigned numbers. Returns a negative number if this slice is before `other`,
  // 0 if both are equal, and a positive number otherwise.
  int compare(const Slice& other) const {
    const size_t common = size_ < other.size_ ? size_ : other.size_;
    const int order = common == 0 ? 0 : std::memcmp(data_, other.data_, common);
    if (order != 0 || size_ == other.size_) return order;
    return size_ < other.size_ ? -1 : 1;
  }

  bool starts_with(const Slice& prefix) const {
    return size_ >= prefix.size_ && Slice(data_, prefix.size_).compare(prefix) == 0;
  }

 private:
  const char* data_;
  size_t size_;
};

inline bool operator==(const Slice& a, const Slice& b) {
  return a.size() == b.size() && a.compare(b) == 0;
}

inline bool operator!=(const Slice& a, const Slice& b) { return !(a == b); }

}  // namespace leveldb

#endif
