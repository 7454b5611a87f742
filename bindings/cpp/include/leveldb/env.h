// Source of the interface: LevelDB 1.23, include/leveldb/env.h.
#ifndef TERRACE_LEVELDB_ENV_H_
#define TERRACE_LEVELDB_ENV_H_

#include <cstdarg>
#include <cstdint>
#include <string>
#include <vector>

#include "leveldb/export.h"
#include "leveldb/slice.h"
#include "leveldb/status.h"

namespace leveldb {

class FileLock;
class Logger;
class RandomAccessFile;
class SequentialFile;
class WritableFile;

// Files, threads and time. Several threads may use an environment at once.
//
// Programs may use and subclass environments. A store uses only Env::Default() and the environments
// of NewMemEnv; an open with another one fails as not supported.
class LEVELDB_EXPORT Env {
 public:
  Env();

  Env(const Env&) = delete;
  Env& operator=(const Env&) = delete;

  virtual ~Env();

  // Returns the environment of the operating system. It belongs to the library.
  static Env* Default();

  // Each of these opens a file and stores it in `*result`, which the caller deletes. If an error
  // occurs, stores nullptr; the error for a missing file is NotFound. A writable file is emptied,
  // an appendable file keeps its bytes. Both are created if they do not exist.
  virtual Status NewSequentialFile(const std::string& fname, SequentialFile** result) = 0;
  virtual Status NewRandomAccessFile(const std::string& fname, RandomAccessFile** result) = 0;
  virtual Status NewWritableFile(const std::string& fname, WritableFile** result) = 0;
  virtual Status NewAppendableFile(const std::string& fname, WritableFile** result);

  virtual bool FileExists(const std::string& fname) = 0;

  // Replaces `*result` by the names in directory `dir`.
  virtual Status GetChildren(const std::string& dir, std::vector<std::string>* result) = 0;

  // Removes a file. Both names have the same meaning, and each calls the other by default: an
  // environment overrides one of them.
  virtual Status RemoveFile(const std::string& fname);
  virtual Status DeleteFile(const std::string& fname);

  virtual Status CreateDir(const std::string& dirname) = 0;

  // Removes an empty directory; see RemoveFile.
  virtual Status RemoveDir(const std::string& dirname);
  virtual Status DeleteDir(const std::string& dirname);

  // Stores the size of the file in `*file_size`, in bytes.
  virtual Status GetFileSize(const std::string& fname, uint64_t* file_size) = 0;

  // Renames a file. An existing file `target` is replaced.
  virtual Status RenameFile(const std::string& src, const std::string& target) = 0;

  // Locks a file, which is created if it does not exist, and stores the lock in `*lock`. Fails at
  // once if the file is locked, in this process or in another one.
  virtual Status LockFile(const std::string& fname, FileLock** lock) = 0;

  // Ends a lock and deletes it.
  virtual Status UnlockFile(FileLock* lock) = 0;

  // Calls `function(arg)` in a background thread of the environment.
  virtual void Schedule(void (*function)(void* arg), void* arg) = 0;

  // Calls `function(arg)` in a new thread.
  virtual void StartThread(void (*function)(void* arg), void* arg) = 0;

  // Stores the path of an existing directory for tests in `*path`.
  virtual Status GetTestDirectory(std::string* path) = 0;

  // Opens a text file for messages, which are appended, and stores it in `*result`. The file is
  // created if it does not exist.
  virtual Status NewLogger(const std::string& fname, Logger** result) = 0;

  // Returns a time in microseconds, of which only differences have a meaning.
  virtual uint64_t NowMicros() = 0;

  virtual void SleepForMicroseconds(int micros) = 0;
};

// A file that is read from its start to its end, by one thread at a time.
class LEVELDB_EXPORT SequentialFile {
 public:
  SequentialFile() = default;

  SequentialFile(const SequentialFile&) = delete;
  SequentialFile& operator=(const SequentialFile&) = delete;

  virtual ~SequentialFile();

  // Reads up to `n` bytes. `*result` refers to them; they may be in `scratch`, which has `n` bytes.
  // At the end of the file the result is empty.
  virtual Status Read(size_t n, Slice* result, char* scratch) = 0;

  // Skips `n` bytes, or the rest of the file if it is shorter.
  virtual Status Skip(uint64_t n) = 0;
};

// A file that is read at any offset, by several threads at once.
class LEVELDB_EXPORT RandomAccessFile {
 public:
  RandomAccessFile() = default;

  RandomAccessFile(const RandomAccessFile&) = delete;
  RandomAccessFile& operator=(const RandomAccessFile&) = delete;

  virtual ~RandomAccessFile();

  // Reads up to `n` bytes from byte `offset`; see SequentialFile::Read.
  virtual Status Read(uint64_t offset, size_t n, Slice* result, char* scratch) const = 0;
};

// A file to which one thread at a time appends.
class LEVELDB_EXPORT WritableFile {
 public:
  WritableFile() = default;

  WritableFile(const WritableFile&) = delete;
  WritableFile& operator=(const WritableFile&) = delete;

  // Closes the file. Errors are lost.
  virtual ~WritableFile();

  virtual Status Append(const Slice& data) = 0;
  virtual Status Close() = 0;

  // Hands buffered bytes to the operating system.
  virtual Status Flush() = 0;

  // Makes all bytes survive a power cut.
  virtual Status Sync() = 0;
};

// Receives messages. Several threads may use it at once.
class LEVELDB_EXPORT Logger {
 public:
  Logger() = default;

  Logger(const Logger&) = delete;
  Logger& operator=(const Logger&) = delete;

  virtual ~Logger();

  // Receives a message in the form of vprintf. The store's own messages have no line break at the
  // end.
  virtual void Logv(const char* format, std::va_list ap) = 0;
};

// A locked file.
class LEVELDB_EXPORT FileLock {
 public:
  FileLock() = default;

  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

  virtual ~FileLock();
};

// Sends a message in the form of printf to `info_log`, unless that is nullptr.
LEVELDB_EXPORT void Log(Logger* info_log, const char* format, ...)
    __attribute__((__format__(__printf__, 2, 3)));

// Replaces the contents of file `fname` by `data`. If an error occurs, removes the file.
LEVELDB_EXPORT Status WriteStringToFile(Env* env, const Slice& data, const std::string& fname);

// Replaces `*data` by the contents of file `fname`.
LEVELDB_EXPORT Status ReadFileToString(Env* env, const std::string& fname, std::string* data);

// An environment that calls another one. Subclasses override a part of it.
class LEVELDB_EXPORT EnvWrapper : public Env {
 public:
  explicit EnvWrapper(Env* target) : target_(target) {}
  ~EnvWrapper() override;

  Env* target() const { return target_; }

  Status NewSequentialFile(const std::string& f, SequentialFile** r) override {
    return target_->NewSequentialFile(f, r);
  }
  Status NewRandomAccessFile(const std::string& f, RandomAccessFile** r) override {
    return target_->NewRandomAccessFile(f, r);
  }
  Status NewWritableFile(const std::string& f, WritableFile** r) override {
    return target_->NewWritableFile(f, r);
  }
  Status NewAppendableFile(const std::string& f, WritableFile** r) override {
    return target_->NewAppendableFile(f, r);
  }
  bool FileExists(const std::string& f) override { return target_->FileExists(f); }
  Status GetChildren(const std::string& d, std::vector<std::string>* r) override {
    return target_->GetChildren(d, r);
  }
  Status RemoveFile(const std::string& f) override { return target_->RemoveFile(f); }
  Status CreateDir(const std::string& d) override { return target_->CreateDir(d); }
  Status RemoveDir(const std::string& d) override { return target_->RemoveDir(d); }
  Status GetFileSize(const std::string& f, uint64_t* s) override { return target_->GetFileSize(f, s); }
  Status RenameFile(const std::string& f, const std::string& t) override {
    return target_->RenameFile(f, t);
  }
  Status LockFile(const std::string& f, FileLock** l) override { return target_->LockFile(f, l); }
  Status UnlockFile(FileLock* l) override { return target_->UnlockFile(l); }
  void Schedule(void (*f)(void*), void* a) override { target_->Schedule(f, a); }
  void StartThread(void (*f)(void*), void* a) override { target_->StartThread(f, a); }
  Status GetTestDirectory(std::string* p) override { return target_->GetTestDirectory(p); }
  Status NewLogger(const std::string& f, Logger** r) override { return target_->NewLogger(f, r); }
  uint64_t NowMicros() override { return target_->NowMicros(); }
  void SleepForMicroseconds(int m) override { target_->SleepForMicroseconds(m); }

 private:
  Env* target_;
};

}  // namespace leveldb

#endif
