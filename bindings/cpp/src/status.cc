#include "leveldb/status.h"

#include <cstdint>

namespace leveldb {

// Length and code, which precede the message.
static const size_t kHeadBytes = 5;

const char* Status::CopyState(const char* state) {
  uint32_t length;
  std::memcpy(&length, state, sizeof length);
  char* copy = new char[kHeadBytes + length];
  std::memcpy(copy, state, kHeadBytes + length);
  return copy;
}

Status::Status(Code code, const Slice& message, const Slice& more) {
  std::string text = message.ToString();
  if (!more.empty()) text.append(": ").append(more.data(), more.size());
  const uint32_t length = static_cast<uint32_t>(text.size());
  char* state = new char[kHeadBytes + length];
  std::memcpy(state, &length, sizeof length);
  state[4] = static_cast<char>(code);
  std::memcpy(state + kHeadBytes, text.data(), length);
  state_ = state;
}

std::string Status::ToString() const {
  if (ok()) return "OK";
  // The words are LevelDB's, because programs search for them.
  static const char* const kWords[] = {"OK",
                                       "NotFound: ",
                                       "Corruption: ",
                                       "Not implemented: ",
                                       "Invalid argument: ",
                                       "IO error: "};
  uint32_t length;
  std::memcpy(&length, state_, sizeof length);
  return kWords[code()] + std::string(state_ + kHeadBytes, length);
}

}  // namespace leveldb
