// Output and expectations of the test programs. Each program prints what it sees; the outputs with
// LevelDB and with Terrace must be equal.
#ifndef TERRACE_CPP_TESTS_CHECK_H_
#define TERRACE_CPP_TESTS_CHECK_H_

#include <cstdio>
#include <cstdlib>
#include <string>

#include "leveldb/slice.h"
#include "leveldb/status.h"

// The directory of the test, which is printed as @.
inline std::string& Place() {
  static std::string place;
  return place;
}

inline std::string At(const char* name) { return Place() + "/" + name; }

// Returns `text` with @ in place of the directory.
inline std::string Shown(std::string text) {
  if (Place().empty()) return text;
  for (size_t at; (at = text.find(Place())) != std::string::npos;) text.replace(at, Place().size(), "@");
  return text;
}

inline void Print(const char* what, const std::string& text) {
  std::printf("%s: %s\n", what, Shown(text).c_str());
}

inline void Print(const char* what, const leveldb::Status& status) { Print(what, status.ToString()); }

inline void Print(const char* what, long long number) { std::printf("%s: %lld\n", what, number); }

// Returns bytes in a printable form.
inline std::string Hex(const leveldb::Slice& bytes) {
  std::string text;
  for (size_t at = 0; at < bytes.size(); at++) {
    char two[3];
    std::snprintf(two, sizeof two, "%02x", static_cast<unsigned char>(bytes[at]));
    text += two;
  }
  return text;
}

// Ends the program if `condition` is false.
#define CHECK(condition)                                                               \
  do {                                                                                 \
    if (!(condition)) {                                                                \
      std::fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition);   \
      std::exit(1);                                                                    \
    }                                                                                  \
  } while (false)

// Ends the program if `status` is an error.
#define CHECK_OK(expression)                                                                           \
  do {                                                                                                 \
    const leveldb::Status check_status = (expression);                                                 \
    if (!check_status.ok()) {                                                                          \
      std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, check_status.ToString().c_str());        \
      std::exit(1);                                                                                    \
    }                                                                                                  \
  } while (false)

#endif
