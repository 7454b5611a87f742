// Options of the C++ interface as options of the C interface.
#ifndef TERRACE_CPP_OPTIONS_H_
#define TERRACE_CPP_OPTIONS_H_

#include "handles.h"
#include "leveldb/options.h"

namespace terrace_cpp {

// Options of the C interface, with handles for the comparator, the filter policy and the logger of
// the program. A store uses these handles until it is closed.
class OpenOptions {
 public:
  // Stores the options in `*result`. Returns an error for an environment, a cache, a comparator or
  // a compression that Terrace does not have.
  static leveldb::Status Make(const leveldb::Options& options, std::unique_ptr<OpenOptions>* result);

  const leveldb_options_t* get() const { return options_.get(); }

 private:
  explicit OpenOptions(const leveldb::Options& options);

  void SetNumbers(const leveldb::Options& options);
  leveldb::Status SetObjects(const leveldb::Options& options);

  const OptionsHandle options_;
  ComparatorHandle comparator_;
  FilterHandle filter_;
};

}  // namespace terrace_cpp

#endif
