// Files of the operating system.
#ifndef TERRACE_CPP_POSIX_FILES_H_
#define TERRACE_CPP_POSIX_FILES_H_

#include <cstdio>
#include <string>

#include "leveldb/env.h"

namespace terrace_cpp {

// Returns the error `number` (of errno) of an operation on `what`, with LevelDB's text.
leveldb::Status PosixError(const std::string& what, int number);

// A file descriptor, which is closed at the end.
class Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(number) {}
  ~Descriptor() { Close(); }

  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int get() const { return number_; }
  // Closes it. Returns -1 if an error occurs, as close does, and 0 if it is closed already.
  int Close();

 private:
  int number_;
};

class PosixSequentialFile final : public leveldb::SequentialFile {
 public:
  PosixSequentialFile(std::string name, int descriptor) : name_(std::move(name)), file_(descriptor) {}
  leveldb::Status Read(size_t n, leveldb::Slice* result, char* scratch) override;
  leveldb::Status Skip(uint64_t n) override;

 private:
  const std::string name_;
  const Descriptor file_;
};

class PosixRandomAccessFile final : public leveldb::RandomAccessFile {
 public:
  PosixRandomAccessFile(std::string name, int descriptor) : name_(std::move(name)), file_(descriptor) {}
  leveldb::Status Read(uint64_t offset, size_t n, leveldb::Slice* result, char* scratch) const override;

 private:
  const std::string name_;
  const Descriptor file_;
};

// Has a buffer of 64 KiB.
class PosixWritableFile final : public leveldb::WritableFile {
 public:
  PosixWritableFile(std::string name, int descriptor) : name_(std::move(name)), file_(descriptor) {}
  ~PosixWritableFile() override { Close(); }
  leveldb::Status Append(const leveldb::Slice& data) override;
  leveldb::Status Close() override;
  leveldb::Status Flush() override;
  leveldb::Status Sync() override;

 private:
  const std::string name_;
  Descriptor file_;
  std::string buffer_;
};

// Writes each message as a line with the local time.
class PosixLogger final : public leveldb::Logger {
 public:
  explicit PosixLogger(std::FILE* file) : file_(file) {}
  ~PosixLogger() override { std::fclose(file_); }
  void Logv(const char* format, std::va_list arguments) override;

 private:
  std::FILE* const file_;
};

}  // namespace terrace_cpp

#endif
