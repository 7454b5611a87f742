// An environment in memory.
#ifndef TERRACE_CPP_MEM_ENV_H_
#define TERRACE_CPP_MEM_ENV_H_

#include <map>
#include <memory>
#include <mutex>
#include <set>

#include "handles.h"
#include "leveldb/env.h"
#include "registry.h"

namespace terrace_cpp {

// The bytes of a file. An open file keeps them after its name was removed.
struct MemFile {
  std::mutex mutex;  // guards the bytes
  std::string bytes;
};

// Threads and time are those of the base environment. Directories need not be created: a path is
// only a name. The engine has the stores; they are no files of this environment.
class MemEnv final : public leveldb::EnvWrapper {
 public:
  explicit MemEnv(leveldb::Env* base) : EnvWrapper(base), stores_(terrace_create_memory_env()) {}

  // Returns the environment of the C interface that has the stores.
  leveldb_env_t* stores() const { return stores_.get(); }

  leveldb::Status NewSequentialFile(const std::string& name, leveldb::SequentialFile** result) override;
  leveldb::Status NewRandomAccessFile(const std::string& name, leveldb::RandomAccessFile** result) override;
  leveldb::Status NewWritableFile(const std::string& name, leveldb::WritableFile** result) override;
  leveldb::Status NewAppendableFile(const std::string& name, leveldb::WritableFile** result) override;
  bool FileExists(const std::string& name) override;
  leveldb::Status GetChildren(const std::string& directory, std::vector<std::string>* result) override;
  leveldb::Status RemoveFile(const std::string& name) override;
  leveldb::Status CreateDir(const std::string& name) override;
  leveldb::Status RemoveDir(const std::string& name) override;
  leveldb::Status GetFileSize(const std::string& name, uint64_t* size) override;
  leveldb::Status RenameFile(const std::string& from, const std::string& to) override;
  leveldb::Status LockFile(const std::string& name, leveldb::FileLock** lock) override;
  leveldb::Status UnlockFile(leveldb::FileLock* lock) override;
  leveldb::Status GetTestDirectory(std::string* path) override;
  leveldb::Status NewLogger(const std::string& name, leveldb::Logger** result) override;

 private:
  using FilePointer = std::shared_ptr<MemFile>;

  FilePointer Find(const std::string& name);

  std::mutex mutex_;  // guards files_ and locked_
  std::map<std::string, FilePointer> files_;
  std::set<std::string> locked_;
  const EnvHandle stores_;
  const Registry<MemEnv, leveldb::Env>::Entry entry_{this};
};

}  // namespace terrace_cpp

#endif
