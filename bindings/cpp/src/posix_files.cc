#include "posix_files.h"

#include <fcntl.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <utility>

namespace terrace_cpp {

using leveldb::Slice;
using leveldb::Status;

namespace {

const size_t kBufferBytes = 64 << 10;

// Repeats a system call that a signal interrupted.
template <class Call>
auto Retry(Call call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

}  // namespace

Status PosixError(const std::string& what, int number) {
  if (number == ENOENT) return Status::NotFound(what, std::strerror(number));
  return Status::IOError(what, std::strerror(number));
}

int Descriptor::Close() {
  const int number = std::exchange(number_, -1);
  return number < 0 ? 0 : ::close(number);
}

Status PosixSequentialFile::Read(size_t n, Slice* result, char* scratch) {
  const ssize_t length = Retry([&] { return ::read(file_.get(), scratch, n); });
  *result = Slice(scratch, length < 0 ? 0 : static_cast<size_t>(length));
  return length < 0 ? PosixError(name_, errno) : Status::OK();
}

Status PosixSequentialFile::Skip(uint64_t n) {
  const off_t moved = ::lseek(file_.get(), static_cast<off_t>(n), SEEK_CUR);
  return moved < 0 ? PosixError(name_, errno) : Status::OK();
}

Status PosixRandomAccessFile::Read(uint64_t offset, size_t n, Slice* result, char* scratch) const {
  const ssize_t length = Retry([&] { return ::pread(file_.get(), scratch, n, static_cast<off_t>(offset)); });
  *result = Slice(scratch, length < 0 ? 0 : static_cast<size_t>(length));
  return length < 0 ? PosixError(name_, errno) : Status::OK();
}

Status PosixWritableFile::Append(const Slice& data) {
  buffer_.append(data.data(), data.size());
  return buffer_.size() < kBufferBytes ? Status::OK() : Flush();
}

Status PosixWritableFile::Flush() {
  for (size_t written = 0; written < buffer_.size();) {
    const char* rest = buffer_.data() + written;
    const ssize_t count = Retry([&] { return ::write(file_.get(), rest, buffer_.size() - written); });
    if (count < 0) {
      const Status error = PosixError(name_, errno);
      buffer_.erase(0, written);
      return error;
    }
    written += static_cast<size_t>(count);
  }
  buffer_.clear();
  return Status::OK();
}

Status PosixWritableFile::Close() {
  Status status = file_.get() < 0 ? Status::OK() : Flush();
  if (file_.Close() < 0 && status.ok()) status = PosixError(name_, errno);
  return status;
}

// Also syncs the directory, so that the name of a new file survives.
Status PosixWritableFile::Sync() {
  const Status flushed = Flush();
  if (!flushed.ok()) return flushed;
  if (Retry([&] { return ::fdatasync(file_.get()); }) < 0) return PosixError(name_, errno);
  const size_t slash = name_.rfind('/');
  const std::string parent = slash == std::string::npos ? "." : name_.substr(0, slash + 1);
  const Descriptor directory(::open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory.get() < 0 || Retry([&] { return ::fsync(directory.get()); }) < 0) return PosixError(parent, errno);
  return Status::OK();
}

void PosixLogger::Logv(const char* format, std::va_list arguments) {
  timeval now;
  std::tm parts;
  ::gettimeofday(&now, nullptr);
  ::localtime_r(&now.tv_sec, &parts);
  char time[32];
  std::strftime(time, sizeof time, "%Y/%m/%d-%H:%M:%S", &parts);
  std::va_list again;
  va_copy(again, arguments);
  const int length = std::vsnprintf(nullptr, 0, format, again);
  va_end(again);
  if (length < 0) return;  // the format is not one of printf
  std::string text(static_cast<size_t>(length) + 1, '\0');
  std::vsnprintf(&text[0], text.size(), format, arguments);
  text.pop_back();  // the zero byte
  if (!text.empty() && text.back() == '\n') text.pop_back();
  std::fprintf(file_, "%s.%06ld %s\n", time, static_cast<long>(now.tv_usec), text.c_str());
  std::fflush(file_);
}

}  // namespace terrace_cpp
