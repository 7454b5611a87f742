// Source of the interface: the patch of LevelDB 1.20 in the npm package classic-level,
// deps/leveldb/patches/001-value-sink.patch. LevelDB itself does not have it.
#ifndef TERRACE_LEVELDB_VALUE_SINK_H_
#define TERRACE_LEVELDB_VALUE_SINK_H_

#include <cstddef>
#include <string>

#include "leveldb/export.h"

namespace leveldb {

// Receives the value of DB::Get.
struct ValueSink {
  virtual ~ValueSink() = default;

  // Receives the value. The bytes are valid during the call.
  virtual void assign(const char* data, size_t size) = 0;
};

// Copies the value to a string.
struct StringValueSink : public ValueSink {
  explicit StringValueSink(std::string* target) : target_(target) {}
  void assign(const char* data, size_t size) override { target_->assign(data, size); }

 private:
  std::string* target_;
};

}  // namespace leveldb

#endif
