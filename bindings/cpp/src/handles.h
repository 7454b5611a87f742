// Owners of the C interface's handles, and errors of the C interface as Status.
#ifndef TERRACE_CPP_HANDLES_H_
#define TERRACE_CPP_HANDLES_H_

#include <exception>
#include <memory>
#include <string>

#include "leveldb/status.h"
#include "terrace/c.h"

namespace terrace_cpp {

// Destroys a handle with the function of its kind.
template <auto destroy>
struct Destroy {
  template <class T>
  void operator()(T* handle) const {
    destroy(handle);
  }
};

template <class T, auto destroy>
using Handle = std::unique_ptr<T, Destroy<destroy>>;

using ComparatorHandle = Handle<leveldb_comparator_t, leveldb_comparator_destroy>;
using EnvHandle = Handle<leveldb_env_t, leveldb_env_destroy>;
using FilterHandle = Handle<leveldb_filterpolicy_t, leveldb_filterpolicy_destroy>;
using OptionsHandle = Handle<leveldb_options_t, leveldb_options_destroy>;
using ReadOptionsHandle = Handle<leveldb_readoptions_t, leveldb_readoptions_destroy>;
using WriteOptionsHandle = Handle<leveldb_writeoptions_t, leveldb_writeoptions_destroy>;

// Receives the error of one call of the C interface.
class Error {
 public:
  Error() = default;
  ~Error() { leveldb_free(text_); }

  Error(const Error&) = delete;
  Error& operator=(const Error&) = delete;

  char** out() { return &text_; }

  leveldb::Status status() const {
    if (text_ == nullptr) return leveldb::Status::OK();
    const char* message;
    switch (terrace_error_kind(text_, &message)) {
      case terrace_not_found: return leveldb::Status::NotFound(message);
      case terrace_corruption: return leveldb::Status::Corruption(message);
      case terrace_not_supported: return leveldb::Status::NotSupported(message);
      case terrace_invalid_argument: return leveldb::Status::InvalidArgument(message);
      default: return leveldb::Status::IOError(message);
    }
  }

 private:
  char* text_ = nullptr;
};

// Receives bytes of the C interface in a std::string. There may be no memory for them, and no
// exception may pass through the library, which is not C++. So the exception is kept.
class Receiver {
 public:
  explicit Receiver(std::string* target) : target_(target) {}

  // The function that the library calls, with a Receiver.
  static void Assign(void* receiver, const char* bytes, size_t length) noexcept {
    auto* self = static_cast<Receiver*>(receiver);
    try {
      self->target_->assign(bytes, length);
    } catch (...) {
      self->thrown_ = std::current_exception();
    }
  }

  // Throws the exception of Assign, if there was one.
  void Rethrow() const {
    if (thrown_ != nullptr) std::rethrow_exception(thrown_);
  }

 private:
  std::string* const target_;
  std::exception_ptr thrown_;
};

}  // namespace terrace_cpp

#endif
