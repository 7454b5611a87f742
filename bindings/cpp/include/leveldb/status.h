// Source of the interface: LevelDB 1.23, include/leveldb/status.h.
#ifndef TERRACE_LEVELDB_STATUS_H_
#define TERRACE_LEVELDB_STATUS_H_

#include <algorithm>
#include <string>
#include <utility>

#include "leveldb/export.h"
#include "leveldb/slice.h"

namespace leveldb {

// The result of an operation: success, or an error with a kind and a message. Programs distinguish
// errors by their kind.
class LEVELDB_EXPORT Status {
 public:
  // Makes a success.
  Status() noexcept : state_(nullptr) {}
  ~Status() { delete[] state_; }

  Status(const Status& other) : state_(other.state_ == nullptr ? nullptr : CopyState(other.state_)) {}
  Status(Status&& other) noexcept : state_(other.state_) { other.state_ = nullptr; }

  Status& operator=(const Status& other) {
    if (state_ != other.state_) *this = Status(other);
    return *this;
  }
  Status& operator=(Status&& other) noexcept {
    std::swap(state_, other.state_);
    return *this;
  }

  static Status OK() { return Status(); }

  // Each of these returns an error of the kind of its name. If `more` is not empty, the message is
  // `message`, a colon, a space, and `more`.
  static Status NotFound(const Slice& message, const Slice& more = Slice()) {
    return Status(kNotFound, message, more);
  }
  // Stored bytes are not the bytes that were written.
  static Status Corruption(const Slice& message, const Slice& more = Slice()) {
    return Status(kCorruption, message, more);
  }
  static Status NotSupported(const Slice& message, const Slice& more = Slice()) {
    return Status(kNotSupported, message, more);
  }
  static Status InvalidArgument(const Slice& message, const Slice& more = Slice()) {
    return Status(kInvalidArgument, message, more);
  }
  static Status IOError(const Slice& message, const Slice& more = Slice()) {
    return Status(kIOError, message, more);
  }

  bool ok() const { return state_ == nullptr; }
  bool IsNotFound() const { return code() == kNotFound; }
  bool IsCorruption() const { return code() == kCorruption; }
  bool IsIOError() const { return code() == kIOError; }
  bool IsNotSupportedError() const { return code() == kNotSupported; }
  bool IsInvalidArgument() const { return code() == kInvalidArgument; }

  // Returns the kind and the message as text, and "OK" for a success.
  std::string ToString() const;

 private:
  enum Code { kOk = 0, kNotFound = 1, kCorruption = 2, kNotSupported = 3, kInvalidArgument = 4, kIOError = 5 };

  Code code() const { return ok() ? kOk : static_cast<Code>(state_[4]); }

  Status(Code code, const Slice& message, const Slice& more);
  static const char* CopyState(const char* state);

  // nullptr for a success. Otherwise an array from new[]: the length of the message (4 bytes, the
  // machine's order), the code (1 byte), and the message. Compiled programs copy and delete it.
  const char* state_;
};

}  // namespace leveldb

#endif
