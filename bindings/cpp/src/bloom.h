// The Bloom filter of the C interface as a FilterPolicy.
#ifndef TERRACE_CPP_BLOOM_H_
#define TERRACE_CPP_BLOOM_H_

#include "handles.h"
#include "leveldb/filter_policy.h"
#include "registry.h"

namespace terrace_cpp {

class BloomPolicy final : public leveldb::FilterPolicy {
 public:
  explicit BloomPolicy(int bits_per_key) : handle_(leveldb_filterpolicy_create_bloom(bits_per_key)) {}

  const char* Name() const override;
  void CreateFilter(const leveldb::Slice* keys, int n, std::string* dst) const override;
  bool KeyMayMatch(const leveldb::Slice& key, const leveldb::Slice& filter) const override;

  leveldb_filterpolicy_t* handle() const { return handle_.get(); }

 private:
  const FilterHandle handle_;
  const Registry<BloomPolicy, leveldb::FilterPolicy>::Entry entry_{this};
};

}  // namespace terrace_cpp

#endif
