#include "bloom.h"

#include <string>
#include <vector>

#include "leveldb/slice.h"

namespace terrace_cpp {

const char* BloomPolicy::Name() const { return "leveldb.BuiltinBloomFilter2"; }

void BloomPolicy::CreateFilter(const leveldb::Slice* keys, int n, std::string* dst) const {
  std::vector<const char*> starts;
  std::vector<size_t> lengths;
  for (const leveldb::Slice* key = keys; key != keys + n; key++) {
    starts.push_back(key->data());
    lengths.push_back(key->size());
  }
  std::string filter;
  Receiver receiver(&filter);
  terrace_filterpolicy_create_filter(handle(), starts.data(), lengths.data(), n, Receiver::Assign, &receiver);
  receiver.Rethrow();
  dst->append(filter);
}

bool BloomPolicy::KeyMayMatch(const leveldb::Slice& key, const leveldb::Slice& filter) const {
  return terrace_filterpolicy_key_may_match(handle(), key.data(), key.size(), filter.data(), filter.size());
}

}  // namespace terrace_cpp

namespace leveldb {

FilterPolicy::~FilterPolicy() = default;

const FilterPolicy* NewBloomFilterPolicy(int bits_per_key) {
  return new terrace_cpp::BloomPolicy(bits_per_key);
}

}  // namespace leveldb
