#include "leveldb/comparator.h"

#include <algorithm>
#include <string>

#include "leveldb/slice.h"

namespace leveldb {

Comparator::~Comparator() = default;

namespace {

class Bytewise final : public Comparator {
 public:
  int Compare(const Slice& a, const Slice& b) const override { return a.compare(b); }

  const char* Name() const override { return "leveldb.BytewiseComparator"; }

  // Cuts `*start` after the first byte that differs from `limit`, and adds one to this byte, if the
  // result is before `limit`.
  void FindShortestSeparator(std::string* start, const Slice& limit) const override {
    const size_t common = std::min(start->size(), limit.size());
    size_t at = 0;
    while (at < common && (*start)[at] == limit[at]) at++;
    if (at == common) return;  // one key is a prefix of the other
    const unsigned char byte = (*start)[at];
    if (byte == 0xff || byte + 1 >= static_cast<unsigned char>(limit[at])) return;
    start->resize(at + 1);
    (*start)[at] = static_cast<char>(byte + 1);
  }

  // Cuts `*key` after the first byte that is not 0xff, and adds one to this byte.
  void FindShortSuccessor(std::string* key) const override {
    const size_t at = key->find_first_not_of('\xff');
    if (at == std::string::npos) return;
    key->resize(at + 1);
    (*key)[at]++;
  }
};

}  // namespace

const Comparator* BytewiseComparator() {
  static const auto* bytewise = new Bytewise;  // never destroyed: stores may outlive static objects
  return bytewise;
}

}  // namespace leveldb
