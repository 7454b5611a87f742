// Env::Default(): files, threads and time of the operating system. Stores do not use its methods:
// they have the engine's own files and threads.
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <set>
#include <thread>

#include "handles.h"
#include "leveldb/env.h"
#include "posix_files.h"

namespace terrace_cpp {

using leveldb::FileLock;
using leveldb::Status;

namespace {

// Returns the success or failure of a system call on `name`.
Status Outcome(const std::string& name, int result) {
  return result < 0 ? PosixError(name, errno) : Status::OK();
}

// Opens `name` as a File, which is stored in `*result` as a pointer to its base class.
template <class File, class Base>
Status Open(const std::string& name, int flags, Base** result) {
  *result = nullptr;
  const int descriptor = ::open(name.c_str(), flags | O_CLOEXEC, 0644);
  if (descriptor >= 0) *result = new File(name, descriptor);
  return Outcome(name, descriptor);
}

// A lock of the operating system, which belongs to this process.
class PosixLock final : public FileLock {
 public:
  PosixLock(const std::string& name, int descriptor) : name_(name), file_(descriptor) {}

  const std::string& name() const { return name_; }
  // Locks or unlocks the file. Returns a negative number if an error occurs.
  int Set(short type) const {
    struct flock whole = {};
    whole.l_type = type;
    whole.l_whence = SEEK_SET;
    return ::fcntl(file_.get(), F_SETLK, &whole);
  }

 private:
  const std::string name_;
  const Descriptor file_;
};

class PosixEnv final : public leveldb::Env {
 public:
  Status NewSequentialFile(const std::string& name, leveldb::SequentialFile** result) override {
    return Open<PosixSequentialFile>(name, O_RDONLY, result);
  }
  Status NewRandomAccessFile(const std::string& name, leveldb::RandomAccessFile** result) override {
    return Open<PosixRandomAccessFile>(name, O_RDONLY, result);
  }
  Status NewWritableFile(const std::string& name, leveldb::WritableFile** result) override {
    return Open<PosixWritableFile>(name, O_WRONLY | O_CREAT | O_TRUNC, result);
  }
  Status NewAppendableFile(const std::string& name, leveldb::WritableFile** result) override {
    return Open<PosixWritableFile>(name, O_WRONLY | O_CREAT | O_APPEND, result);
  }

  bool FileExists(const std::string& name) override { return ::access(name.c_str(), F_OK) == 0; }

  Status GetChildren(const std::string& directory, std::vector<std::string>* result) override {
    result->clear();
    DIR* opened = ::opendir(directory.c_str());
    if (opened == nullptr) return PosixError(directory, errno);
    while (const dirent* entry = ::readdir(opened)) result->emplace_back(entry->d_name);
    ::closedir(opened);
    return Status::OK();
  }

  Status RemoveFile(const std::string& name) override { return Outcome(name, ::unlink(name.c_str())); }
  Status CreateDir(const std::string& name) override { return Outcome(name, ::mkdir(name.c_str(), 0755)); }
  Status RemoveDir(const std::string& name) override { return Outcome(name, ::rmdir(name.c_str())); }

  Status GetFileSize(const std::string& name, uint64_t* size) override {
    struct stat found = {};
    const Status status = Outcome(name, ::stat(name.c_str(), &found));
    *size = static_cast<uint64_t>(found.st_size);
    return status;
  }

  Status RenameFile(const std::string& from, const std::string& to) override {
    return Outcome(from, std::rename(from.c_str(), to.c_str()));
  }

  Status LockFile(const std::string& name, FileLock** lock) override;
  Status UnlockFile(FileLock* lock) override;
  void Schedule(void (*function)(void*), void* argument) override;

  void StartThread(void (*function)(void*), void* argument) override {
    std::thread(function, argument).detach();
  }

  Status GetTestDirectory(std::string* path) override {
    char* found = leveldb_env_get_test_directory(EnvHandle(leveldb_create_default_env()).get());
    if (found == nullptr) return PosixError("test directory", errno);
    path->assign(found);
    leveldb_free(found);
    return Status::OK();
  }

  Status NewLogger(const std::string& name, leveldb::Logger** result) override {
    std::FILE* file = std::fopen(name.c_str(), "ae");
    *result = file == nullptr ? nullptr : new PosixLogger(file);
    return file == nullptr ? PosixError(name, errno) : Status::OK();
  }

  uint64_t NowMicros() override {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(now).count());
  }

  void SleepForMicroseconds(int micros) override {
    std::this_thread::sleep_for(std::chrono::microseconds(micros));
  }

 private:
  [[noreturn]] void RunScheduled();

  std::mutex mutex_;  // guards the rest
  std::set<std::string> locked_;  // a lock of the operating system does not exclude its own process
  std::deque<std::pair<void (*)(void*), void*>> scheduled_;
  std::condition_variable changed_;
  bool has_thread_ = false;
};

// A name that this process has locked is refused before its file is opened: closing any descriptor
// of a file ends the process's lock on it.
Status PosixEnv::LockFile(const std::string& name, FileLock** lock) {
  *lock = nullptr;
  const std::string what = "lock " + name;
  std::lock_guard<std::mutex> guard(mutex_);
  if (!locked_.insert(name).second) return Status::IOError(what, "already held by process");
  const int descriptor = ::open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (descriptor < 0) {
    const Status error = PosixError(name, errno);
    locked_.erase(name);
    return error;
  }
  auto made = std::make_unique<PosixLock>(name, descriptor);
  if (made->Set(F_WRLCK) < 0) {
    const Status error = PosixError(what, errno);
    locked_.erase(name);
    return error;
  }
  *lock = made.release();
  return Status::OK();
}

Status PosixEnv::UnlockFile(FileLock* lock) {
  const std::unique_ptr<PosixLock> held(static_cast<PosixLock*>(lock));
  std::lock_guard<std::mutex> guard(mutex_);
  locked_.erase(held->name());
  return Outcome("unlock " + held->name(), held->Set(F_UNLCK));
}

void PosixEnv::Schedule(void (*function)(void*), void* argument) {
  std::lock_guard<std::mutex> guard(mutex_);
  scheduled_.emplace_back(function, argument);
  changed_.notify_one();
  if (has_thread_) return;
  has_thread_ = true;
  std::thread(&PosixEnv::RunScheduled, this).detach();
}

// Runs the scheduled functions, one after the other, until the process ends.
void PosixEnv::RunScheduled() {
  for (;;) {
    std::unique_lock<std::mutex> guard(mutex_);
    changed_.wait(guard, [&] { return !scheduled_.empty(); });
    const auto [function, argument] = scheduled_.front();
    scheduled_.pop_front();
    guard.unlock();
    function(argument);
  }
}

}  // namespace

}  // namespace terrace_cpp

namespace leveldb {

Env* Env::Default() {
  static auto* environment = new terrace_cpp::PosixEnv;  // never destroyed: its thread does not end
  return environment;
}

}  // namespace leveldb
