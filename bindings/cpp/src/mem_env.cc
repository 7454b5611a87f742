#include "mem_env.h"

#include <algorithm>

#include "leveldb/helpers/memenv.h"

namespace terrace_cpp {

using leveldb::Slice;
using leveldb::Status;
using Guard = std::lock_guard<std::mutex>;

namespace {

// Copies up to `n` bytes of the file from `offset` to `scratch`. Returns the copy.
Slice Copy(MemFile& file, uint64_t offset, size_t n, char* scratch) {
  Guard guard(file.mutex);
  const size_t start = std::min<uint64_t>(offset, file.bytes.size());
  return Slice(scratch, file.bytes.copy(scratch, n, start));
}

class SequentialFile final : public leveldb::SequentialFile {
 public:
  explicit SequentialFile(std::shared_ptr<MemFile> file) : file_(std::move(file)) {}

  Status Read(size_t n, Slice* result, char* scratch) override {
    *result = Copy(*file_, at_, n, scratch);
    at_ += result->size();
    return Status::OK();
  }

  Status Skip(uint64_t n) override {
    Guard guard(file_->mutex);
    at_ += std::min<uint64_t>(n, file_->bytes.size() - at_);
    return Status::OK();
  }

 private:
  const std::shared_ptr<MemFile> file_;
  uint64_t at_ = 0;
};

class RandomAccessFile final : public leveldb::RandomAccessFile {
 public:
  explicit RandomAccessFile(std::shared_ptr<MemFile> file) : file_(std::move(file)) {}

  Status Read(uint64_t offset, size_t n, Slice* result, char* scratch) const override {
    *result = Copy(*file_, offset, n, scratch);
    return Status::OK();
  }

 private:
  const std::shared_ptr<MemFile> file_;
};

class WritableFile final : public leveldb::WritableFile {
 public:
  explicit WritableFile(std::shared_ptr<MemFile> file) : file_(std::move(file)) {}

  Status Append(const Slice& data) override {
    Guard guard(file_->mutex);
    file_->bytes.append(data.data(), data.size());
    return Status::OK();
  }
  Status Close() override { return Status::OK(); }
  Status Flush() override { return Status::OK(); }
  Status Sync() override { return Status::OK(); }

 private:
  const std::shared_ptr<MemFile> file_;
};

struct Lock final : leveldb::FileLock {
  explicit Lock(std::string locked) : name(std::move(locked)) {}
  const std::string name;
};

struct SilentLogger final : leveldb::Logger {
  void Logv(const char*, std::va_list) override {}
};

Status Missing(const std::string& name) { return Status::NotFound(name, "File not found"); }

// Opens `file` as a File, which is stored in `*result` as a pointer to its base class.
template <class File, class Base>
Status Open(const std::string& name, std::shared_ptr<MemFile> file, Base** result) {
  *result = file == nullptr ? nullptr : new File(std::move(file));
  return *result == nullptr ? Missing(name) : Status::OK();
}

}  // namespace

MemEnv::FilePointer MemEnv::Find(const std::string& name) {
  Guard guard(mutex_);
  const auto found = files_.find(name);
  return found == files_.end() ? nullptr : found->second;
}

Status MemEnv::NewSequentialFile(const std::string& name, leveldb::SequentialFile** result) {
  return Open<SequentialFile>(name, Find(name), result);
}

Status MemEnv::NewRandomAccessFile(const std::string& name, leveldb::RandomAccessFile** result) {
  return Open<RandomAccessFile>(name, Find(name), result);
}

Status MemEnv::NewWritableFile(const std::string& name, leveldb::WritableFile** result) {
  auto made = std::make_shared<MemFile>();
  Guard guard(mutex_);
  files_[name] = made;
  return Open<WritableFile>(name, made, result);
}

Status MemEnv::NewAppendableFile(const std::string& name, leveldb::WritableFile** result) {
  Guard guard(mutex_);
  auto& file = files_[name];
  if (file == nullptr) file = std::make_shared<MemFile>();
  return Open<WritableFile>(name, file, result);
}

bool MemEnv::FileExists(const std::string& name) { return Find(name) != nullptr; }

Status MemEnv::GetChildren(const std::string& directory, std::vector<std::string>* result) {
  result->clear();
  const std::string start = directory + "/";
  Guard guard(mutex_);
  for (auto at = files_.lower_bound(start); at != files_.end() && Slice(at->first).starts_with(start); ++at) {
    result->push_back(at->first.substr(start.size()));
  }
  return Status::OK();
}

Status MemEnv::RemoveFile(const std::string& name) {
  Guard guard(mutex_);
  return files_.erase(name) == 0 ? Missing(name) : Status::OK();
}

Status MemEnv::CreateDir(const std::string&) { return Status::OK(); }

Status MemEnv::RemoveDir(const std::string&) { return Status::OK(); }

Status MemEnv::GetFileSize(const std::string& name, uint64_t* size) {
  *size = 0;
  const FilePointer file = Find(name);
  if (file == nullptr) return Missing(name);
  Guard guard(file->mutex);
  *size = file->bytes.size();
  return Status::OK();
}

Status MemEnv::RenameFile(const std::string& from, const std::string& to) {
  Guard guard(mutex_);
  const auto found = files_.find(from);
  if (found == files_.end()) return Missing(from);
  const FilePointer file = found->second;
  files_.erase(found);
  files_[to] = file;
  return Status::OK();
}

Status MemEnv::LockFile(const std::string& name, leveldb::FileLock** lock) {
  Guard guard(mutex_);
  const bool is_new = locked_.insert(name).second;
  *lock = is_new ? new Lock(name) : nullptr;
  return is_new ? Status::OK() : Status::IOError("lock " + name, "already held by process");
}

Status MemEnv::UnlockFile(leveldb::FileLock* lock) {
  const std::unique_ptr<Lock> held(static_cast<Lock*>(lock));
  Guard guard(mutex_);
  locked_.erase(held->name);
  return Status::OK();
}

Status MemEnv::GetTestDirectory(std::string* path) {
  *path = "/test";
  return Status::OK();
}

Status MemEnv::NewLogger(const std::string&, leveldb::Logger** result) {
  *result = new SilentLogger;
  return Status::OK();
}

}  // namespace terrace_cpp

namespace leveldb {

Env* NewMemEnv(Env* base_env) { return new terrace_cpp::MemEnv(base_env); }

}  // namespace leveldb
